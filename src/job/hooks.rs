//! The hooks of a run: from the settings to a door, with the files that their commands name.

use super::folder::{RunFolder, make_scratch};
use super::prepare::Refusal;
use crate::exec::{Beside, Environment, Executor};
use crate::hooks::{Hook, Hooks, Runner, matches};
use crate::policy::Policy;
use crate::protocol::{Outcome, State};
use crate::rollout::Masker;
use crate::spec::{Fault, Faults, Settings, Spec};
use crate::tools::{Registry, tool_names};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The hooks that the settings name, numbered by point.
pub(super) fn list(settings: &Settings) -> Vec<Hook> {
    let mut list: Vec<Hook> = Vec::new();
    for hook in &settings.hooks.value {
        let index = list.iter().filter(|other| other.point == hook.point).count();
        list.push(Hook {
            point: hook.point,
            index,
            run: hook.run.clone(),
            timeout: hook.timeout,
            required: hook.required,
            tools: hook.tools.clone(),
        });
    }
    list
}

/// What hooks run with, besides what the model's commands have.
pub(super) struct Surroundings<'a> {
    pub executor: &'a Executor,
    pub environment: Environment,
    pub policy: &'a Policy,
    pub folder: &'a RunFolder,
    pub masker: Arc<Masker>,
    pub began_by: &'static str,
}

/// Hooks that can run. Without any, nothing is made for them.
pub(super) fn open(settings: &Settings, with: Surroundings<'_>) -> Result<Hooks, Refusal> {
    let list = list(settings);
    if list.is_empty() {
        return Ok(Hooks::default());
    }
    let root = with.policy.workspace();
    make_scratch(&with.folder.hooks).map_err(|why| {
        let text = format!("no scratch for hooks: {why}");
        Box::new(Outcome::new(State::Unavailable, "folder.hooks", text).retryable(true))
    })?;
    let own = Beside {
        environment: with.environment,
        scratch: with.folder.hooks.clone(),
        instead_of: with.folder.scratch.clone(),
        read: files(settings, root),
    };
    let runner = Runner {
        executor: with.executor.beside(own),
        network: with.policy.default_network().clone(),
        root: root.to_owned(),
        masker: with.masker,
    };
    Ok(Hooks::live(list, runner, with.began_by))
}

/// What is wrong with the hooks of a spec that only those who know the tools can tell: a guard that fits
/// none would never be asked, and nobody would notice.
pub fn hook_faults(spec: &Spec) -> Vec<Fault> {
    let names = tool_names();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let mut faults = Faults::new(spec.file.clone());
    let hooks = spec.hooks.as_ref().map(|hooks| hooks.value.as_slice()).unwrap_or_default();
    for (at, hook) in hooks.iter().enumerate() {
        let index = hooks[..at].iter().filter(|other| other.point == hook.point).count();
        for glob in hook.tools.iter().filter(|glob| !fits(glob, &names)) {
            let text =
                format!("hooks.{}[{index}].tools: {glob:?} fits no tool", hook.point.as_str());
            faults.add(hook.at, text, format!("the tools are: {}", names.join(", ")));
        }
    }
    faults.list
}

fn fits(glob: &str, names: &[&str]) -> bool {
    names.iter().any(|name| matches(glob, name))
}

/// The same for hooks that a record names, against the tools that this run has.
pub(super) fn check_tools(settings: &Settings, registry: &Registry) -> Result<(), Refusal> {
    let (plan, names) = (registry.plan(), tool_names());
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let known: Vec<&str> = plan.names().into_iter().chain(names.iter().copied()).collect();
    for hook in list(settings) {
        let lost = hook.tools.iter().find(|glob| !fits(glob, &known));
        if let Some(glob) = lost {
            let text = format!("hooks.{}.tools: {glob:?} fits no tool", hook.label());
            let hint = format!("the tools are: {}", names.join(", "));
            return Err(Box::new(Outcome::new(State::Invalid, "spec.hooks", text).hint(hint)));
        }
    }
    Ok(())
}

/// Programs that run what their first word names.
const INTERPRETERS: &[&str] =
    &["sh", "bash", "dash", "zsh", "python", "node", "ruby", "perl", "php", "deno", "bun"];
/// Words that stand in front of a command.
const IN_FRONT: &[&str] = &["env", "exec", "command", "nice", "nohup", "time", "!", "{", "if"];

/// The existing files that the commands of hooks run: programs named by a path, and scripts of
/// interpreters. They stay as they are, and hooks may read them wherever they lie.
pub(super) fn files(settings: &Settings, root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for hook in &settings.hooks.value {
        for word in programs(&hook.run) {
            let named = root.join(word);
            if !named.is_file() {
                continue;
            }
            // A link could be pointed elsewhere as well as the file be changed.
            let real = named.canonicalize().unwrap_or_else(|_| named.clone());
            for path in [named, real] {
                if !files.contains(&path) {
                    files.push(path);
                }
            }
        }
    }
    files
}

/// The words of a script that name what runs, as far as they stand there letter by letter.
fn programs(script: &str) -> Vec<String> {
    let mut found = Vec::new();
    for command in commands(script) {
        let mut words = command.into_iter().skip_while(|word| {
            let assigns = word.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
            assigns || IN_FRONT.contains(&word.as_str())
        });
        let Some(program) = words.next() else { continue };
        let name = program.rsplit('/').next().unwrap_or(&program);
        let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        if INTERPRETERS.contains(&base) {
            found.extend(words.find(|word| !word.starts_with('-')));
        }
        if program.contains('/') {
            found.push(program);
        }
    }
    found
}

/// A script as lists of words, cut at whatever ends a command. Quotes are taken off.
fn commands(script: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in script.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() || ";|&()<>".contains(c) => {
                if let (Some(word), Some(command)) = (word.take(), commands.last_mut()) {
                    command.push(word);
                }
                if c == '\n' || ";|&()".contains(c) {
                    commands.push(Vec::new());
                }
            }
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    if let (Some(word), Some(command)) = (word, commands.last_mut()) {
        command.push(word);
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_runs_is_found_and_what_it_reads_is_not() {
        for (script, wanted) in [
            ("./guard.py", &["./guard.py"][..]),
            ("sh guard.sh", &["guard.sh"]),
            ("python3.12 -u \"my guard.py\" src/a.rs", &["my guard.py"]),
            ("/usr/bin/python3 -I /opt/ci/guard.py", &["/opt/ci/guard.py", "/usr/bin/python3"]),
            ("MODE=x env ./a && ./b | ./c; (./d)", &["./a", "./b", "./c", "./d"]),
            ("grep -qx right answer.txt", &[]),
            ("exec ./guard < in.txt", &["./guard"]),
            ("jq .tool", &[]),
            ("", &[]),
        ] {
            assert_eq!(programs(script), wanted, "{script}");
        }
    }
}
