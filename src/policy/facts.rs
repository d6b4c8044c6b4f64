//! What the judge is asked, what it may look up, and what it answers.
//!
//! The policy is pure: it never looks at the file system, the environment or the clock. Whatever it
//! must know of the world comes through [`Facts`], so that the same judgement can be made in a test,
//! by `policy explain`, and in a Turn.

use crate::protocol::{RuleRef, Verdict};
use std::path::{Path, PathBuf};

/// The place a policy is bound to. Everything here comes from the operator, nothing from the model.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    /// Absolute, links followed.
    pub workspace: PathBuf,
    /// What `~` means in the policy file.
    pub home: Option<PathBuf>,
    /// Absolute paths that may never be written: spec, policy, artifacts, CI command files.
    pub protected: Vec<PathBuf>,
    /// Untrusted input is present: every `ask` is deny, networks and passed secrets are gone.
    pub untrusted: bool,
    /// Where git keeps its own data; never written by hand, wherever it lies.
    pub git_dirs: Vec<PathBuf>,
}

/// The command in the form the model gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandForm {
    /// A script for bash.
    Script(String),
    /// A program with its words; no shell.
    Argv(Vec<String>),
}

/// One command that asks to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRequest {
    pub form: CommandForm,
    /// Absolute, links followed.
    pub cwd: PathBuf,
}

impl CommandRequest {
    pub fn script(text: impl Into<String>, cwd: impl Into<PathBuf>) -> Self {
        Self { form: CommandForm::Script(text.into()), cwd: cwd.into() }
    }

    pub fn argv(words: Vec<String>, cwd: impl Into<PathBuf>) -> Self {
        Self { form: CommandForm::Argv(words), cwd: cwd.into() }
    }
}

/// Look-ups handed in. Every default fails closed.
pub trait Facts {
    /// `text` seen from `cwd`: absolute, links followed as far as they exist, `..` removed.
    fn resolve(&self, cwd: &Path, text: &str) -> Result<PathBuf, String>;
    /// The file that a bare word names: the first match on the clean PATH, which holds no folder
    /// that the Turn may write. Nothing for a word with `/`.
    fn program(&self, name: &str) -> Option<PathBuf>;
    /// Whether the Turn could write there.
    fn is_writable_place(&self, path: &Path) -> bool;
    /// Whether a file is byte for byte what it was when the Turn started (`when_unchanged`).
    fn is_unchanged(&self, _path: &Path) -> bool {
        false
    }
    /// The text of every git configuration file that applies in this folder, but the system's and
    /// the user's: `.git/config` and `config.worktree`. Nothing when that can't be known.
    fn git_config(&self, _cwd: &Path) -> Option<String> {
        None
    }
    /// How often this rule has granted a command in this Run (`max_calls`).
    fn calls_so_far(&self, _rule: &RuleRef) -> u64 {
        u64::MAX
    }
}

/// The answer: the verdict, and the Permit exactly when it is allow.
#[derive(Debug)]
pub struct Judged<P> {
    pub verdict: Verdict,
    pub permit: Option<P>,
}
