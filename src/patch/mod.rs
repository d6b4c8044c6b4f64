//! Stand-in until the room `patch` is merged: only the words that the door `workspace` speaks.

use std::sync::Arc;

/// What stands at a path. Links are never followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    Regular { bytes: Arc<[u8]>, mode: u32 },
    Symlink { target: Vec<u8> },
    Directory,
    Other,
}

/// The content a path gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    pub bytes: Arc<[u8]>,
    pub mode: u32,
}

/// What happens to one path; `after: None` deletes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: String,
    pub moved_from: Option<String>,
    pub before: Option<FileState>,
    pub after: Option<NewFile>,
    pub added: usize,
    pub removed: usize,
    pub note: String,
}

impl Change {
    /// Whether the file comes into being without a past.
    pub fn is_new(&self) -> bool {
        self.before.is_none() && self.moved_from.is_none()
    }
}

/// A whole patch, planned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub changes: Vec<Change>,
    pub notes: Vec<String>,
}

/// The reading side of a patch.
pub trait Files {
    fn read(&self, path: &str) -> Result<Option<FileState>, String>;

    fn canonical(&self, path: &str) -> Result<String, String> {
        Ok(path.to_owned())
    }

    fn alike(&self, path: &str) -> Vec<String> {
        let _ = path;
        Vec::new()
    }
}
