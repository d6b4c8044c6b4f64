//! What can go wrong at the door to the files, as values that say what, where, why and what now.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

/// A failure of reading, listing or capturing the workspace.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    #[error("cannot open the workspace {}: {cause}", .path.display())]
    Open { path: PathBuf, cause: io::Error },
    #[error("the run's store {} lies inside the workspace, where a command could change it", .path.display())]
    StoreInside { path: PathBuf },
    #[error("{path}: no such file")]
    NotFound { path: String },
    #[error("{path}: is {kind}, not {wanted}")]
    WrongKind { path: String, kind: &'static str, wanted: &'static str },
    #[error("{path}: the path leads through a symbolic link that was not there when it was judged")]
    Relinked { path: String },
    #[error("cannot {doing} {path}: {cause}")]
    Io { doing: &'static str, path: String, cause: io::Error },
    #[error("the workspace holds more than {limit} files and folders")]
    TooManyFiles { limit: usize },
    #[error("no start state was captured before the first effect")]
    NotCaptured,
    #[error("the journal {path} of an interrupted patch is not usable: {why}")]
    Journal { path: String, why: String },
}

impl WorkspaceError {
    /// What a person can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Open { .. } => Some("name an existing folder with --workspace"),
            Self::StoreInside { .. } => Some("let the run folder lie outside the workspace"),
            Self::WrongKind { .. } => Some("list the folder to see what is there"),
            Self::TooManyFiles { .. } => {
                Some("ignore generated folders in .gitignore, or work in a smaller folder")
            }
            Self::Journal { .. } => {
                Some("look at the files it names, then remove the journal by hand")
            }
            _ => None,
        }
    }

    /// An I/O failure with what was being done, where "not found" and "a link is in the way" become
    /// their own kinds.
    pub(crate) fn io(doing: &'static str, path: &[u8], cause: io::Error) -> Self {
        let path = shown(path);
        match cause.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::NOENT) => Self::NotFound { path },
            Some(rustix::io::Errno::LOOP | rustix::io::Errno::XDEV) => Self::Relinked { path },
            _ => Self::Io { doing, path, cause },
        }
    }
}

/// An error once long work is to give up.
pub(crate) fn go_on(stopped: &AtomicBool) -> Result<(), WorkspaceError> {
    if stopped.load(Ordering::Relaxed) {
        let cause = io::ErrorKind::Interrupted.into();
        return Err(WorkspaceError::io("finish the look at", b".", cause));
    }
    Ok(())
}

/// [`shown`] of a path.
pub(crate) fn named(path: &Path) -> String {
    shown(path.as_os_str().as_bytes())
}

/// Why a planned patch was not committed.
#[derive(Debug, Error)]
pub enum CommitError {
    /// Refused before anything was touched.
    #[error("{path}: {why}")]
    Refused { path: String, why: String },
    /// The file is no longer what the plan was made from; nothing was changed.
    #[error("{path}: changed since the patch was planned ({why})")]
    Stale { path: String, why: String },
    /// A system call failed; everything was put back.
    #[error("cannot {doing} {path}: {cause}; nothing was changed")]
    Failed { doing: &'static str, path: String, cause: io::Error },
    /// A system call failed, and so did putting things back. The journal stays for `recover`.
    #[error("cannot {doing} {path}: {cause}; putting back failed as well: {rollback}")]
    Torn { doing: &'static str, path: String, cause: io::Error, rollback: String },
}

impl CommitError {
    /// Whether the tree is certainly as it was before.
    pub fn nothing_changed(&self) -> bool {
        !matches!(self, Self::Torn { .. })
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Refused { .. } => None,
            Self::Stale { .. } => Some("read the file again and make the patch from what it holds"),
            Self::Failed { .. } => Some("check free space and permissions of the folder"),
            Self::Torn { .. } => Some("resume the run: its journal undoes what is left"),
        }
    }
}

/// A path for people: as it is where that is plain text, else with its odd bytes escaped, so that
/// a newline or an escape sequence in a name cannot pass for something else.
pub fn shown(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => path.escape_ascii().to_string(),
    }
}
