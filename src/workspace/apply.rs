//! Changes that the operator makes himself: a patch text, or the diff of a run, put into a tree.
//! The same engine and guarantees as for the model's patches; only the permit is the operator's.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::AtFlags;
use thiserror::Error;

use super::Workspace;
use super::beneath::split;
use super::commit::{Committed, Wanted};
use super::compare::entry_of_state;
use super::error::{CommitError, WorkspaceError, shown};
use super::read::state_of;
use crate::diff::{self, ApplyError, FileChange, Mode, TreeEntry};
use crate::patch::{self, FileState, NewFile, PatchError};
use crate::policy::WritePermit;

/// Larger files are in no diff.
const FILE_LIMIT: u64 = 64 << 20;

/// Why nothing was applied (but see [`CommitError::nothing_changed`]).
#[derive(Debug, Error)]
pub enum ApplyFailure {
    /// The patch text is no patch.
    #[error("{0}")]
    Unreadable(PatchError),
    /// The patch does not fit the files.
    #[error("{0}")]
    Patch(PatchError),
    #[error("{0}")]
    Diff(ApplyError),
    #[error("{0}")]
    Files(#[from] WorkspaceError),
    #[error("{0}")]
    Commit(#[from] CommitError),
}

impl ApplyFailure {
    pub fn hint(&self) -> &str {
        match self {
            // A patch error shows its own.
            Self::Unreadable(_) | Self::Patch(_) => "",
            Self::Diff(error) => error.hint(),
            Self::Files(error) => error.hint().unwrap_or_default(),
            Self::Commit(CommitError::Torn { .. }) => {
                "give the same command again: the journal undoes what is left, then it starts anew"
            }
            Self::Commit(error) => error.hint().unwrap_or_default(),
        }
    }
}

impl Workspace {
    /// Applies a patch text; what it did, one line a file. With `dry_run` what it would do.
    pub fn apply_patch(&self, text: &str, dry_run: bool) -> Result<Vec<String>, ApplyFailure> {
        let parsed = patch::parse(text).map_err(ApplyFailure::Unreadable)?;
        let plan = patch::plan(&parsed, &self.files()).map_err(ApplyFailure::Patch)?;
        let mut lines: Vec<String> = plan.summary().lines().map(str::to_owned).collect();
        if dry_run {
            return Ok(lines);
        }
        let paths = plan.changes.iter().map(|change| self.root().join(&change.path));
        let permit = WritePermit::operator(paths.collect());
        lines.extend(notes(&self.commit(&permit, &plan)?));
        Ok(lines)
    }

    /// Applies a diff that a run wrote, exactly or not at all; what it did, one line a file. Nobody's
    /// settings for white space or line endings have a say in it. With `dry_run` only the check.
    pub fn apply_diff(&self, text: &[u8], dry_run: bool) -> Result<Vec<String>, ApplyFailure> {
        let unread: RefCell<Option<WorkspaceError>> = RefCell::new(None);
        let start = |path: &[u8]| match state_of(&self.root, path, FILE_LIMIT) {
            Ok(state) => state.as_ref().and_then(entry_of_state),
            Err(error) => {
                unread.borrow_mut().get_or_insert(error);
                None
            }
        };
        let applied = diff::apply(text, &start);
        if let Some(error) = unread.into_inner() {
            return Err(error.into());
        }
        let changes = applied.map_err(ApplyFailure::Diff)?;
        let mut writes = Vec::with_capacity(changes.len());
        for change in &changes {
            writes.extend(self.write_of(change)?);
        }
        let mut lines: Vec<String> = changes.iter().map(line).collect();
        if dry_run {
            return Ok(lines);
        }
        let paths = changes.iter().map(|change| self.path_of(&change.path));
        let permit = WritePermit::operator(paths.collect());
        lines.extend(notes(&self.commit_writes(&permit, &writes)?));
        for change in changes.iter().filter(|change| change.after.is_none()) {
            self.remove_emptied(&change.path);
        }
        Ok(lines)
    }

    fn path_of(&self, inside: &[u8]) -> PathBuf {
        self.root().join(OsStr::from_bytes(inside))
    }

    fn write_of(&self, change: &FileChange) -> Result<Option<Wanted>, ApplyFailure> {
        if change.before == change.after {
            return Ok(None);
        }
        let standing = state_of(&self.root, &change.path, FILE_LIMIT)?;
        let before = if change.before.is_some() { standing } else { None };
        let old_mode = match &before {
            Some(FileState::Regular { mode, .. }) => Some(*mode),
            _ => None,
        };
        let after = change.after.as_ref().map(|entry| new_file(entry, old_mode));
        let by_umask = old_mode.is_none();
        Ok(Some(Wanted { path: change.path.clone(), before, after, by_umask }))
    }

    /// Git knows no empty folders: one that a deletion empties goes with it.
    fn remove_emptied(&self, path: &[u8]) {
        let mut folder = split(path).0;
        while !folder.is_empty() {
            let Ok((above, name)) = self.root.open_parent(folder) else { return };
            if rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
            folder = split(folder).0;
        }
    }
}

/// The new file; of the mode only git's one bit changes.
fn new_file(entry: &TreeEntry, old_mode: Option<u32>) -> NewFile {
    let bits = match (entry.mode, old_mode) {
        (Mode::Executable, Some(mode)) => mode | (mode & 0o444) >> 2,
        (Mode::Executable, None) => 0o755,
        (_, Some(mode)) => mode & !0o111,
        (_, None) => patch::NEW_FILE_MODE,
    };
    NewFile { bytes: entry.content.clone(), mode: bits, symlink: entry.mode == Mode::Symlink }
}

fn line(change: &FileChange) -> String {
    let letter = match (&change.before, &change.after) {
        (None, _) => 'A',
        (_, None) => 'D',
        _ => 'M',
    };
    format!("{letter} {}", shown(&change.path))
}

fn notes(committed: &Committed) -> Vec<String> {
    committed.notes.iter().map(|note| format!("note: {note}")).collect()
}
