//! The diff room: what changed between two states of a tree, in the format of git.
//!
//! [`write_diff`] makes the Turn diff from contents that are handed in: nothing here walks a folder,
//! runs git, or obeys anything a repository configures. [`apply`] is the way back, exact and without
//! any searching: a run uses it to prove that its diff, applied to the start, gives the end.
//!
//! The output is what `git diff --binary --full-index -M` would write, with the prefixes `a/` and
//! `b/` whatever the user's settings are: text hunks, binary literals, renames, modes, symbolic
//! links, type changes (a deletion and a creation), quoted names, markers for a missing newline.

mod apply;
mod base85;
mod binary;
mod error;
mod hunks;
mod ids;
mod quote;
mod read;
mod rename;
mod write;

pub use apply::apply;
pub use error::{ApplyError, ApplyErrorKind};
pub use ids::{blob_id, tree_id};
pub use write::{added_text, write_diff};

use std::sync::Arc;
use std::time::Instant;

/// What git can say about a file's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    Regular,
    Executable,
    Symlink,
}

impl Mode {
    /// Git's octal form.
    pub fn octal(self) -> &'static str {
        match self {
            Self::Regular => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
        }
    }

    pub(crate) fn from_octal(text: &[u8]) -> Option<Self> {
        [Self::Regular, Self::Executable, Self::Symlink]
            .into_iter()
            .find(|mode| mode.octal().as_bytes() == text)
    }

    /// The mode of a regular file with these permission bits: git looks at the owner's right to
    /// execute and at nothing else.
    pub fn from_permissions(bits: u32) -> Self {
        if bits & 0o100 == 0 { Self::Regular } else { Self::Executable }
    }

    pub fn is_symlink(self) -> bool {
        self == Self::Symlink
    }
}

/// One file of a tree. The content of a symbolic link is its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    pub mode: Mode,
    pub content: Arc<[u8]>,
}

/// One path before and after. `path` is relative to the root, its parts separated by `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: Vec<u8>,
    pub before: Option<TreeEntry>,
    pub after: Option<TreeEntry>,
}

/// What kind of change a file had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileStatus {
    Added,
    Modified,
    Deleted,
    /// Renamed, perhaps edited and with another mode.
    Renamed,
    /// A file became a symbolic link, or the other way round.
    TypeChanged,
    /// The mode and nothing else.
    ModeChanged,
}

/// One file of a diff, for reports and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    pub path: Vec<u8>,
    /// The name before, for a renamed file.
    pub old_path: Option<Vec<u8>>,
    pub status: FileStatus,
    /// Lines; zero for a binary file.
    pub added: usize,
    pub removed: usize,
    pub binary: bool,
}

/// A finished diff.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    /// What is written to disk, byte for byte: a trimmed diff is a broken one.
    pub bytes: Vec<u8>,
    pub files: Vec<FileStat>,
    pub added: usize,
    pub removed: usize,
}

/// Bounds on the work a diff may cost. Beyond them it becomes coarse, never wrong.
#[derive(Debug, Clone)]
pub struct DiffOptions {
    /// After this moment the search for small differences stops.
    pub deadline: Option<Instant>,
    /// Unchanged lines around each change.
    pub context: usize,
    /// Files longer than this, both sides together, get one hunk from the first to the last changed
    /// line, without a search.
    pub max_searched_bytes: usize,
    /// Whether a deleted and an added file that are alike become a rename.
    pub renames: bool,
    /// How much work the search for edited renames may do, in compared pieces of files.
    pub rename_budget: usize,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            deadline: None,
            context: 3,
            max_searched_bytes: 64 * 1024 * 1024,
            renames: true,
            rename_budget: 20_000_000,
        }
    }
}
