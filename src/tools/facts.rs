//! The look-ups that the policy asks for, over the real file system.

use super::{Reach, ToolWorld};
use crate::exec::CleanPath;
use crate::policy::Facts;
use crate::protocol::{Decision, RuleRef, Verdict};
use crate::workspace::git::GitPlace;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What is the same for a whole run.
pub struct WorldFacts {
    pub path: CleanPath,
    /// Folders and files that the Turn may write.
    pub writable: Vec<PathBuf>,
    /// What commands can reach, where the sandbox holds it.
    pub reach: Option<Reach>,
}

impl Facts for WorldFacts {
    fn resolve(&self, cwd: &Path, text: &str) -> Result<PathBuf, String> {
        crate::workspace::resolve(cwd, text)
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        self.path.find(name)
    }

    fn is_writable_place(&self, path: &Path) -> bool {
        self.writable.iter().any(|place| path.starts_with(place))
    }

    fn git_config(&self, cwd: &Path) -> Option<String> {
        git_config(cwd)
    }
}

/// The configuration that a repository brings. Without a repository there is none; one that cannot be
/// read is not known, and then the policy takes the worst of it.
fn git_config(cwd: &Path) -> Option<String> {
    /// Far more than any sound file has.
    const MAX_BYTES: u64 = 1024 * 1024;
    let Some(place) = GitPlace::discover(cwd) else { return Some(String::new()) };
    let mut text = String::new();
    for file in [place.common_dir.join("config"), place.git_dir.join("config.worktree")] {
        match std::fs::metadata(&file) {
            Ok(meta) if meta.is_file() && meta.len() <= MAX_BYTES => {
                text.push_str(&std::fs::read_to_string(&file).ok()?);
                text.push('\n');
            }
            Ok(_) => return None,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => return None,
        }
    }
    Some(text)
}

/// What has happened in a run, as far as rules ask for it.
#[derive(Debug, Default)]
pub struct RuleCounts {
    granted: Mutex<HashMap<String, u64>>,
}

impl RuleCounts {
    /// Books the rules that allowed a command.
    pub fn book(&self, verdict: &Verdict) {
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        for part in verdict.parts.iter().filter(|part| part.decision == Decision::Allow) {
            *granted.entry(part.rule.to_string()).or_default() += 1;
        }
    }

    fn of(&self, rule: &RuleRef) -> u64 {
        let granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        granted.get(&rule.to_string()).copied().unwrap_or(0)
    }
}

/// The look-ups of one call: those of the run, and what the Turn did so far.
pub struct CallFacts<'a> {
    pub world: &'a ToolWorld,
}

impl Facts for CallFacts<'_> {
    fn resolve(&self, cwd: &Path, text: &str) -> Result<PathBuf, String> {
        self.world.facts.resolve(cwd, text)
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        self.world.facts.program(name)
    }

    fn is_writable_place(&self, path: &Path) -> bool {
        self.world.facts.is_writable_place(path)
    }

    fn is_unchanged(&self, path: &Path) -> bool {
        // A session that runs could change it at any moment.
        self.world.processes.running().is_empty() && self.world.workspace().is_as_at_start(path)
    }

    fn git_config(&self, cwd: &Path) -> Option<String> {
        self.world.facts.git_config(cwd)
    }

    fn calls_so_far(&self, rule: &RuleRef) -> u64 {
        self.world.rule_counts.of(rule)
    }
}
