//! What the runner tells the launcher, and what the launcher answers.
//!
//! Two frames in, length-prefixed JSON over the launcher's control socket: a Setting, with which
//! it gets everything ready, and an Order, which says what to run there. After them single control bytes.
//! Reports come back as JSON lines over the same socket. The socket closing means that the runner is
//! gone: the launcher then kills everything and goes too.

use super::sandbox::Confinement;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Ask the tree to end: SIGTERM.
pub const CONTROL_TERM: u8 = b'T';
/// What Ctrl-C does: SIGINT to the command's process group, and nothing more.
pub const CONTROL_INT: u8 = b'I';
/// Make it end: SIGKILL to everything, then report.
pub const CONTROL_KILL: u8 = b'K';
/// A frame larger than this is refused; scripts have their own, smaller bound.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;

/// What a command runs under. All of it can be put in force before the command is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    pub confinement: Confinement,
    pub input: Input,
    /// For the container engine's own client, which is the operator's program and reaches a socket
    /// that no command may reach: no layer of the sandbox is put on it.
    pub unconfined: bool,
    /// Instead of running anything: confine a child, try what must fail, and report.
    pub probe: Option<ProbeOrder>,
}

/// One command, ready to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub program: PathBuf,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// Runs once the tree has ended: takes away a container whose client was killed.
    pub afterwards: Option<Afterwards>,
    /// The setting was given ahead of the order: whether it still is what a new one would be has to be
    /// looked at first.
    pub looks_again: bool,
}

/// What the command's standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// `/dev/null`.
    #[default]
    Nothing,
    /// A pipe that the launcher was given.
    Pipe,
    /// The launcher's standard output is a terminal; it becomes the command's controlling one.
    Terminal,
}

/// A program of the operator's own that the launcher runs when everything else has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Afterwards {
    pub program: PathBuf,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Also where the command ended by itself.
    pub always: bool,
}

/// What a probe tries once it is confined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeOrder {
    /// Writing here must fail.
    pub forbidden_file: PathBuf,
    /// Writing here must work.
    pub allowed_file: PathBuf,
    /// A file that exists where nothing may be written: changing its mode must fail.
    pub foreign_file: PathBuf,
    /// A Unix socket that somebody outside listens on: connecting must fail.
    pub foreign_socket: PathBuf,
    /// A path for a Unix socket of its own: connecting must work.
    pub own_socket: PathBuf,
    /// A place that the confinement hides: reading it must fail. `None` where mounts are not asked for.
    pub hidden: Option<PathBuf>,
    /// A process outside: signalling it must fail.
    pub foreign_process: u32,
}

/// The launcher's answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// The command is running.
    Started { pid: i32 },
    /// A layer of the sandbox could not be put in force; nothing ran.
    Refused { layer: String, errno: i32, cause: String },
    /// What was made ready is not what would be made now; nothing ran.
    Stale,
    /// The program could not be executed; nothing ran.
    ExecFailed { errno: i32, cause: String },
    /// It ended, and everything it left behind has been ended too.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        stragglers: u32,
        left: u32,
        /// The limit that it was ended for, in words.
        #[serde(default)]
        exceeded: Option<String>,
    },
    /// What a probe found: one entry per layer that was asked for.
    Probed { findings: Vec<Finding> },
}

#[cfg(target_os = "linux")]
impl From<super::sandbox::LayerError> for Report {
    fn from(error: super::sandbox::LayerError) -> Self {
        Self::Refused { layer: error.layer.into(), errno: error.errno, cause: error.cause }
    }
}

/// One thing a probe tried.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Finding {
    /// What it speaks of: `files`, `metadata`, `network.none`, `sockets`, `signals`, `privileges`.
    pub clause: String,
    /// What is to hold it.
    pub layer: String,
    pub holds: bool,
    pub detail: String,
}

impl Finding {
    pub fn new(clause: &str, layer: &str, holds: bool, detail: impl Into<String>) -> Self {
        Self { clause: clause.into(), layer: layer.into(), holds, detail: detail.into() }
    }

    /// Layer and detail in one line.
    pub fn text(&self) -> String {
        format!("{}: {}", self.layer, self.detail)
    }
}
