//! Permits: the only keys to the doors `exec` and `workspace`.
//!
//! A Permit is made by a verdict of allow, or for a command that the operator himself named. It
//! carries what was judged, so that what is judged is what acts: a door takes its orders from the
//! Permit, never from the model's words.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Who named a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The model, through a tool call that the policy allowed.
    Model,
    /// The operator: a check, a hook, a set-up step; the text names which.
    Operator(String),
}

/// The command in the form it runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// One program with its words, executed directly. `program` is the resolved absolute file,
    /// `argv` the words as judged (the first one is what the program sees as its name).
    Argv { program: PathBuf, argv: Vec<String> },
    /// A script for bash, started without profile, rc file or exported functions.
    Script(String),
}

impl Command {
    /// The command in one line for people, not shortened.
    pub fn display(&self) -> String {
        match self {
            Self::Argv { argv, .. } => argv.join(" "),
            Self::Script(text) => text.clone(),
        }
    }
}

/// The network a command gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Network {
    #[default]
    None,
    Loopback,
    /// Named hosts only, through the runner's proxy.
    Hosts(Vec<String>),
    Open,
}

/// What the winning rule grants a command besides running.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    pub timeout: Option<Duration>,
    pub network: Network,
    /// Set for this command on top of the policy's environment.
    pub env: Vec<(String, String)>,
}

/// One command that may run, once.
#[derive(Debug)]
pub struct ExecPermit {
    command: Command,
    cwd: PathBuf,
    attributes: Attributes,
    origin: Origin,
}

impl ExecPermit {
    /// Only the verdict of allow calls this.
    pub(super) fn granted(command: Command, cwd: PathBuf, attributes: Attributes) -> Self {
        Self { command, cwd, attributes, origin: Origin::Model }
    }

    /// For a command that the operator's own spec or flags name: it is not judged by the allowlist,
    /// but it runs in the same sandbox.
    pub fn operator(
        name: impl Into<String>,
        script: impl Into<String>,
        cwd: impl Into<PathBuf>,
        attributes: Attributes,
    ) -> Self {
        Self {
            command: Command::Script(script.into()),
            cwd: cwd.into(),
            attributes,
            origin: Origin::Operator(name.into()),
        }
    }

    pub fn command(&self) -> &Command {
        &self.command
    }

    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

/// One file or folder that may be read. The path is resolved: absolute, links followed.
#[derive(Debug)]
pub struct ReadPermit {
    path: PathBuf,
}

impl ReadPermit {
    /// Only the verdict of allow calls this.
    pub(super) fn granted(path: PathBuf) -> Self {
        Self { path }
    }

    /// For tests of the doors, which must not need a whole policy.
    #[cfg(test)]
    pub fn for_test(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The files that one patch may write, all of them judged. Paths are resolved.
#[derive(Debug)]
pub struct WritePermit {
    paths: Vec<PathBuf>,
}

impl WritePermit {
    /// Only the verdict of allow calls this.
    pub(super) fn granted(paths: Vec<PathBuf>) -> Self {
        Self { paths }
    }

    /// For `turnkey patch` and `turnkey apply`: the operator himself named the change.
    pub fn operator(paths: Vec<PathBuf>) -> Self {
        Self { paths }
    }

    pub fn covers(&self, path: &Path) -> bool {
        self.paths.iter().any(|permitted| permitted == path)
    }

    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}
