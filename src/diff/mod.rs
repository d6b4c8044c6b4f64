//! Stand-in until the room `diff` is merged: only the words that the door `workspace` speaks.

use std::sync::Arc;

/// The three kinds of file that a git tree can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Regular,
    Executable,
    Symlink,
}

/// One side of a file: its kind and its bytes (a link's bytes are its target).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    pub mode: Mode,
    pub content: Arc<[u8]>,
}

/// One path that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: Vec<u8>,
    pub before: Option<TreeEntry>,
    pub after: Option<TreeEntry>,
}
