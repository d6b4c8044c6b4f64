//! Settling commits that a kill cut: undone when not all files had changed place, else finished.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::journal::{Reached, Story, journals_in, read};
use super::swap::{self, Folders};
use super::twice;
use crate::workspace::Workspace;
use crate::workspace::error::{WorkspaceError, shown};

/// What became of an interrupted patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The files that it was to change, relative to the workspace.
    pub paths: Vec<Vec<u8>>,
    /// Whether the patch is in place now; otherwise nothing of it is.
    pub finished: bool,
}

impl Workspace {
    /// Finish or undo every patch whose journal lies in `store`, the folder of the run that was
    /// cut. To be called before anything else touches the workspace.
    pub fn recover(&self, store: &Path) -> Result<Vec<Recovered>, WorkspaceError> {
        let shown_store = store.as_os_str().as_bytes();
        let journals = journals_in(store)
            .map_err(|cause| WorkspaceError::io("look into", shown_store, cause))?;
        journals.iter().filter_map(|path| self.recover_one(path).transpose()).collect()
    }

    fn recover_one(&self, path: &Path) -> Result<Option<Recovered>, WorkspaceError> {
        let shown_path = shown(path.as_os_str().as_bytes());
        let unusable = |why: String| WorkspaceError::Journal { path: shown_path.clone(), why };
        let recovered = match read(path).map_err(unusable)? {
            None => None,
            Some(story) if story.workspace != self.root().as_os_str().as_bytes() => {
                return Err(unusable(format!("it is of {}", shown(&story.workspace))));
            }
            Some(story) => Some(self.settle(&story).map_err(|error| unusable(error.to_string()))?),
        };
        std::fs::remove_file(path).map_err(|error| unusable(error.to_string()))?;
        Ok(recovered)
    }

    fn settle(&self, story: &Story) -> io::Result<Recovered> {
        let open = Folders::new(&self.root);
        let finished = story.reached == Reached::Committed;
        let plain = |temp: &str| temp.starts_with(".turnkey-") && !temp.contains('/');
        if !story.files.iter().all(|record| plain(&record.temp)) {
            return Err(io::Error::other("it names files that no patch makes"));
        }
        if finished {
            for record in &story.files {
                twice(|| swap::drop_old(&open, record))?;
            }
        } else {
            let failed = swap::undo_all(&open, &story.files, &story.gone, &story.folders);
            if !failed.is_empty() {
                return Err(io::Error::other(failed.join("; ")));
            }
        }
        let paths = story.files.iter().map(|record| record.path.bytes().to_vec()).collect();
        Ok(Recovered { paths, finished })
    }
}
