//! The repository's configuration decides nothing in a call that a rule allowed: what it could make
//! git run is overridden in the call's environment, which outranks every configuration file.
//!
//! Programs are named under keys that anyone can choose (`filter.NAME.clean`), so the names are read
//! from the configuration itself. One thing can't be overridden: a program that shows differences.
//! Where one is configured, or the configuration is not known, `git diff` must say `--no-ext-diff`.

use std::collections::BTreeSet;

/// Overridden in every call.
const ALWAYS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("sequence.editor", "false"),
    ("core.askPass", ""),
    ("core.sshCommand", "ssh -oBatchMode=yes"),
    ("core.gitProxy", ""),
    ("core.alternateRefsCommand", ""),
    ("credential.helper", ""),
    ("interactive.diffFilter", ""),
    ("log.showSignature", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", ""),
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("diff.ignoreSubmodules", "all"),
    ("diff.submodule", "short"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.ext.allow", "never"),
    ("protocol.file.allow", "user"),
    ("help.autoCorrect", "never"),
    ("uploadpack.packObjectsHook", ""),
];

/// Set beside the configuration.
const VARIABLES: &[(&str, &str)] = &[
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS", ""),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
    ("GIT_PROTOCOL_FROM_USER", "0"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
];

/// With attributes from here, no file chooses a filter or a driver: the empty tree.
const NO_ATTRIBUTES: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// What the configuration of a repository could make git run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tamed {
    /// Keys to override, with their values.
    overrides: BTreeSet<(String, String)>,
    /// The configuration is not known, or has parts that are not.
    pub unknown: bool,
    /// A program shows differences.
    pub external_diff: bool,
}

impl Tamed {
    /// Reads the text of every configuration file that applies; nothing when it is not known.
    pub fn read(text: Option<&str>) -> Self {
        let mut tamed = Self::default();
        let Some(text) = text else {
            tamed.unknown = true;
            tamed.external_diff = true;
            return tamed;
        };
        for (section, name, key) in entries(text, &mut tamed.unknown) {
            tamed.entry(&section, &name, &key);
        }
        tamed.external_diff |= tamed.unknown;
        tamed
    }

    fn entry(&mut self, section: &str, name: &str, key: &str) {
        let mut set = |key: &str, value: &str| {
            self.overrides.insert((format!("{section}.{name}.{key}"), value.to_owned()));
        };
        match (section, key) {
            ("include" | "includeif", _) => self.unknown = true,
            ("diff", "external") if name.is_empty() => self.external_diff = true,
            ("filter", "clean" | "smudge" | "process" | "required") => {
                set("clean", "");
                set("smudge", "");
                set("process", "");
                set("required", "false");
            }
            ("diff", "textconv" | "cachetextconv") => {
                set("textconv", "cat");
                set("cachetextconv", "false");
            }
            ("diff", "command") => self.external_diff = true,
            ("merge", "driver") => set("driver", "false"),
            ("credential", "helper") if !name.is_empty() => set("helper", ""),
            ("hook", "command") => set("command", "true"),
            ("pager", _) => {}
            ("trailer", "command" | "cmd") => set(key, ""),
            ("remote", "uploadpack" | "receivepack" | "vcs" | "proxy") => set(key, "false"),
            ("submodule", "update") => set("update", "none"),
            _ => {}
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.overrides.extend(other.overrides.iter().cloned());
        self.unknown |= other.unknown;
        self.external_diff |= other.external_diff;
    }

    /// The environment of a call in this repository.
    pub fn environment(&self, workspace: &str) -> Vec<(String, String)> {
        let mut pairs: Vec<(&str, &str)> = ALWAYS.to_vec();
        // Owned by somebody else it is still the workspace; its configuration decides nothing.
        pairs.push(("safe.directory", workspace));
        pairs.extend(self.overrides.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let mut environment: Vec<(String, String)> = VARIABLES
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        environment.push(("GIT_CONFIG_COUNT".into(), pairs.len().to_string()));
        for (index, (key, value)) in pairs.iter().enumerate() {
            environment.push((format!("GIT_CONFIG_KEY_{index}"), (*key).to_owned()));
            environment.push((format!("GIT_CONFIG_VALUE_{index}"), (*value).to_owned()));
        }
        if self.unknown {
            environment.push(("GIT_ATTR_SOURCE".into(), NO_ATTRIBUTES.into()));
        }
        environment
    }
}

/// `(section, name, key)` of each entry; section and key in lower case. Whatever is not read for
/// certain makes the whole unknown.
fn entries(text: &str, unknown: &mut bool) -> Vec<(String, String, String)> {
    let mut list = Vec::new();
    let (mut section, mut name) = (String::new(), String::new());
    let mut continued = false;
    for line in text.trim_start_matches('\u{feff}').lines() {
        let was_continued = std::mem::replace(&mut continued, ends_open(line));
        if was_continued {
            continue;
        }
        let mut line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(head) = line.strip_prefix('[') {
            match header(head) {
                Some((new_section, new_name, rest)) => {
                    (section, name) = (new_section, new_name);
                    // An entry may follow on the same line.
                    line = rest.trim();
                    if line.is_empty() || line.starts_with(['#', ';']) {
                        continue;
                    }
                }
                None => {
                    *unknown = true;
                    continue;
                }
            }
        }
        let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        let key = line.get(..end.unwrap_or(line.len())).unwrap_or_default();
        if key.is_empty() {
            *unknown = true;
        } else {
            list.push((section.clone(), name.clone(), key.to_ascii_lowercase()));
        }
    }
    list
}

/// Whether the value goes on in the next line.
fn ends_open(line: &str) -> bool {
    let slashes = line.chars().rev().take_while(|c| *c == '\\').count();
    slashes % 2 == 1
}

/// `section "name"]` or the old `section.name]`, and what follows.
fn header(text: &str) -> Option<(String, String, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.'))?;
    let section = text.get(..end)?.to_ascii_lowercase();
    let rest = text.get(end..)?.trim_start();
    if let Some(rest) = rest.strip_prefix(']') {
        return Some(match section.split_once('.') {
            Some((section, name)) => (section.to_owned(), name.to_owned(), rest),
            None => (section, String::new(), rest),
        });
    }
    let mut name = String::new();
    let mut chars = rest.strip_prefix('"')?.char_indices();
    let inner = rest.strip_prefix('"')?;
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let tail = inner.get(at + 1..)?.trim_start();
                return Some((section, name, tail.strip_prefix(']')?));
            }
            '\\' => name.push(chars.next()?.1),
            '\n' => return None,
            _ => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d62_programs_that_the_configuration_names_are_found() {
        let tamed = Tamed::read(Some(
            "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = evil\n[filter \"a b\"] clean = x\n\
             [Diff \"dv\"]\n\tTextConv = x\n[credential \"https://x\"]\n helper = !x\n# [include]\n",
        ));
        assert!(!tamed.unknown && !tamed.external_diff);
        let keys: Vec<&str> = tamed.overrides.iter().map(|(key, _)| key.as_str()).collect();
        for key in [
            "filter.a b.clean",
            "filter.a b.process",
            "diff.dv.textconv",
            "credential.https://x.helper",
        ] {
            assert!(keys.contains(&key), "{keys:?}");
        }
    }

    #[test]
    fn what_cannot_be_overridden_or_read_is_told() {
        for text in [
            "[diff]\n external = x\n",
            "[diff \"a\"]\n command = x\n",
            "[include]\n path = x\n",
            "[includeIf \"gitdir:/\"]\n path = x\n",
            "[diff.a]\ncommand=x\n",
            "[core\n",
            "[diff \"x\n",
            "=x\n",
            "[a]\nb = c \\\n d\n[diff] external = x\n",
        ] {
            assert!(Tamed::read(Some(text)).external_diff, "{text}");
        }
        assert!(Tamed::read(None).unknown);
        assert!(!Tamed::read(Some("[a]\nb = c \\\n[diff] external = x\n")).external_diff);
    }
}
