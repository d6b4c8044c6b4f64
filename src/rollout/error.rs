//! What can go wrong with a rollout. Cloneable, because an error of the writer stays: every later
//! append and flush gives the same answer.

use std::io;
use std::path::{Path, PathBuf};

/// Kind, cause and hint of a failure of the record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RolloutError {
    #[error("{}: cannot {what} the rollout: {cause}", path.display())]
    Io { path: PathBuf, what: &'static str, cause: String, errno: Option<i32> },
    #[error("{}: a rollout is already there", path.display())]
    Exists { path: PathBuf },
    #[error("{}: another runner is writing this rollout", path.display())]
    Locked { path: PathBuf },
    #[error("{}: not a regular file but {found}", path.display())]
    NotAFile { path: PathBuf, found: &'static str },
    #[error("{}: the rollout is empty", path.display())]
    Empty { path: PathBuf },
    #[error("{}:{line}: not a rollout: {cause}", path.display())]
    NotARollout { path: PathBuf, line: u64, cause: String },
    #[error(
        "{}:{line}: written in format {version}, this version reads up to {}",
        path.display(),
        super::VERSION
    )]
    Newer { path: PathBuf, line: u64, version: u64 },
    #[error("a record of {bytes} bytes is over the limit of {cap} for one line")]
    TooLarge { bytes: usize, cap: usize },
    #[error("a record could not be written as JSON: {cause}")]
    Encode { cause: String },
    #[error("the rollout is closed")]
    Closed,
}

impl RolloutError {
    pub(super) fn io(path: &Path, what: &'static str, error: &io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            what,
            cause: error.to_string(),
            errno: error.raw_os_error(),
        }
    }

    /// The dotted reason for `result.json`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Io { .. } => "rollout.io",
            Self::Exists { .. } => "rollout.exists",
            Self::Locked { .. } => "rollout.locked",
            Self::NotAFile { .. } => "rollout.not_a_file",
            Self::Empty { .. } => "rollout.empty",
            Self::NotARollout { .. } => "rollout.not_a_rollout",
            Self::Newer { .. } => "rollout.newer",
            Self::TooLarge { .. } => "rollout.too_large",
            Self::Encode { .. } => "rollout.encode",
            Self::Closed => "rollout.closed",
        }
    }

    /// What to do now; empty where nothing helps.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io { errno: Some(libc::ENOSPC | libc::EDQUOT), .. } => {
                "Free space where the run folder lies, or name another place for it."
            }
            Self::Io { errno: Some(libc::EACCES | libc::EPERM | libc::EROFS), .. } => {
                "Give the user of this process access to the file and its folder."
            }
            Self::Io { .. } => "Check the disk and the file system that hold the run folder.",
            Self::Exists { .. } => "Continue it with `turnkey resume`, or start in another folder.",
            Self::Locked { .. } => {
                "Wait for the other run to end, or use `turnkey fork` for a second one."
            }
            Self::NotAFile { .. } | Self::Empty { .. } | Self::NotARollout { .. } => {
                "Name the rollout.jsonl of a run, its folder, or its run id."
            }
            Self::Newer { .. } => {
                "Read it with the version of turnkey that wrote it, or a newer one."
            }
            Self::TooLarge { .. } | Self::Encode { .. } => "This is a bug; please report it.",
            Self::Closed => "",
        }
    }
}
