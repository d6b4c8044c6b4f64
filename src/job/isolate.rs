//! `isolate: copy`: the Turn works on a copy, the operator's tree stays as it is.

use crate::workspace::git::GitPlace;
use crate::workspace::{Limits, Options, Workspace, WorkspaceError, repository_of};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Copies the repository that the workspace lies in, or the workspace where there is none, into
/// `to`, an empty folder. What the copy lacks is said. Whoever stops waiting stops the copying.
pub async fn copy(
    workspace: PathBuf,
    to: PathBuf,
    store: PathBuf,
    exclude: Vec<PathBuf>,
) -> Result<Vec<String>, WorkspaceError> {
    let stop = StopOnDrop(Arc::default());
    let stopped = stop.0.clone();
    let options = Options { exclude, store, limits: Limits::default() };
    let copying = tokio::task::spawn_blocking(move || {
        let tree = Workspace::open(&tree_of(&workspace), options)?;
        let notes = tree.copy_to(&to, &stopped)?;
        let inside = to.join(inside(&workspace));
        std::fs::create_dir_all(&inside)
            .map_err(|cause| WorkspaceError::Open { path: inside, cause })?;
        Ok(notes)
    });
    copying.await.unwrap_or_else(|error| {
        let cause = io::Error::other(error);
        Err(WorkspaceError::Io { doing: "copy", path: ".".into(), cause })
    })
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The tree that is copied: a Turn may need all of a repository, and its commands git.
pub fn tree_of(workspace: &Path) -> PathBuf {
    repository_of(workspace)
        .map_or_else(|| workspace.to_owned(), |GitPlace { work_root, .. }| work_root)
}

/// The way from the tree to the workspace, which is the same in the copy.
pub fn inside(workspace: &Path) -> PathBuf {
    let tree = tree_of(workspace);
    workspace.strip_prefix(&tree).map(Path::to_owned).unwrap_or_default()
}
