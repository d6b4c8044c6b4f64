//! The environment of a command: an allowlist, never what the runner itself inherited.

use super::programs::CleanPath;
use std::path::{Path, PathBuf};

/// Set for every command so that nothing waits for a person: D04 tells of a `git push` that asked
/// for a user name and sat for half an hour.
const NO_PROMPTS: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "/bin/false"),
    ("SSH_ASKPASS", "/bin/false"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
    ("GCM_INTERACTIVE", "never"),
    ("GIT_EDITOR", "false"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PIP_NO_INPUT", "1"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("CI", "true"),
];

/// Tools whose installation lies in the operator's home and that find it by a variable. Commands get
/// a home of their own, so these point back, readable and not writable.
const TOOL_HOMES: &[(&str, &str)] = &[("RUSTUP_HOME", ".rustup")];

/// What the environment is made from; the values come from the one place that reads variables.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentInput {
    /// The run's scratch folder for commands; `home` and `tmp` are made in it.
    pub scratch: PathBuf,
    /// The operator's home.
    pub home: Option<PathBuf>,
    /// Variables that the policy passes, with their values.
    pub passed: Vec<(String, String)>,
    /// Variables that the policy sets.
    pub set: Vec<(String, String)>,
    /// Trees that git must accept although another user owns them.
    pub safe_directories: Vec<PathBuf>,
}

/// The environment shared by a run's commands.
#[derive(Debug, Clone)]
pub struct Environment {
    pairs: Vec<(String, String)>,
    safe_directories: Vec<PathBuf>,
    tool_homes: Vec<PathBuf>,
}

impl Environment {
    pub fn new(input: EnvironmentInput, path: &CleanPath) -> Self {
        let mut pairs = Vec::new();
        let text = |path: &Path| path.to_string_lossy().into_owned();
        // Empty inside a container, which knows its own.
        if !path.value().is_empty() {
            put(&mut pairs, "PATH", &path.value());
        }
        put(&mut pairs, "HOME", &text(&input.scratch.join("home")));
        put(&mut pairs, "TMPDIR", &text(&input.scratch.join("tmp")));
        put(&mut pairs, "XDG_CACHE_HOME", &text(&input.scratch.join("home/.cache")));
        // Without it bash asks for the user's own at every start, over sockets that are refused.
        if let Some(bash) = path.find("bash") {
            put(&mut pairs, "SHELL", &text(&bash));
        }
        put(&mut pairs, "LANG", "C.UTF-8");
        put(&mut pairs, "LC_CTYPE", "C.UTF-8");
        for (name, value) in NO_PROMPTS {
            put(&mut pairs, name, value);
        }
        let mut tool_homes = Vec::new();
        for (name, folder) in TOOL_HOMES {
            if let Some(path) = input.home.as_ref().map(|home| home.join(folder))
                && path.is_dir()
            {
                put(&mut pairs, name, &text(&path));
                tool_homes.push(path);
            }
        }
        for (name, value) in input.passed.iter().chain(&input.set) {
            put(&mut pairs, name, value);
        }
        Self { pairs, safe_directories: input.safe_directories, tool_homes }
    }

    /// Folders that the variables point to and that commands must be able to read.
    pub fn tool_homes(&self) -> &[PathBuf] {
        &self.tool_homes
    }

    /// The pairs for one command: these, with what its rule sets on top.
    pub fn for_command(&self, extra: &[(String, String)]) -> Vec<(String, String)> {
        let mut pairs = self.pairs.clone();
        for (name, value) in extra {
            put(&mut pairs, name, value);
        }
        for folder in &self.safe_directories {
            add_git_config(&mut pairs, "safe.directory", &folder.to_string_lossy());
        }
        pairs
    }
}

/// Sets a variable, replacing an earlier value.
fn put(pairs: &mut Vec<(String, String)>, name: &str, value: &str) {
    match pairs.iter_mut().find(|(known, _)| known == name) {
        Some(pair) => pair.1 = value.to_owned(),
        None => pairs.push((name.to_owned(), value.to_owned())),
    }
}

/// Appends one setting to git's configuration by environment (`GIT_CONFIG_COUNT` and its pairs).
fn add_git_config(pairs: &mut Vec<(String, String)>, key: &str, value: &str) {
    let count = pairs
        .iter()
        .find(|(name, _)| name == "GIT_CONFIG_COUNT")
        .and_then(|(_, value)| value.parse::<u32>().ok())
        .unwrap_or(0);
    put(pairs, &format!("GIT_CONFIG_KEY_{count}"), key);
    put(pairs, &format!("GIT_CONFIG_VALUE_{count}"), value);
    put(pairs, "GIT_CONFIG_COUNT", &(count + 1).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
        pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn only_what_is_named_is_there_and_git_settings_add_up() {
        let path = CleanPath::new(Some("/usr/bin"), &|_| false);
        let input = EnvironmentInput {
            scratch: "/s".into(),
            set: vec![("CI".into(), "false".into())],
            safe_directories: vec!["/w".into()],
            ..EnvironmentInput::default()
        };
        let environment = Environment::new(input, &path);
        let extra = [
            ("GIT_CONFIG_COUNT".to_owned(), "1".to_owned()),
            ("GIT_CONFIG_KEY_0".to_owned(), "core.fsmonitor".to_owned()),
            ("GIT_CONFIG_VALUE_0".to_owned(), "false".to_owned()),
        ];
        let pairs = environment.for_command(&extra);
        assert_eq!(get(&pairs, "CI"), Some("false"));
        assert_eq!(get(&pairs, "HOME"), Some("/s/home"));
        assert_eq!(get(&pairs, "GIT_CONFIG_COUNT"), Some("2"));
        assert_eq!(get(&pairs, "GIT_CONFIG_KEY_0"), Some("core.fsmonitor"));
        assert_eq!(get(&pairs, "GIT_CONFIG_VALUE_1"), Some("/w"));
        assert_eq!(get(&pairs, "USER"), None);
    }
}
