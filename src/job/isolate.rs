//! `isolate: copy`: the Turn works on a copy, the operator's tree stays as it is.

use crate::workspace::git::GitPlace;
use crate::workspace::{Limits, Options, Workspace, WorkspaceError, repository_of};
use std::path::{Path, PathBuf};

/// Copies the repository that the workspace lies in, or the workspace where there is none, into
/// `to`, an empty folder. What the copy lacks is said.
pub fn copy(
    workspace: &Path,
    to: &Path,
    store: &Path,
    exclude: &[PathBuf],
) -> Result<Vec<String>, WorkspaceError> {
    let options =
        Options { exclude: exclude.to_vec(), store: store.to_owned(), limits: Limits::default() };
    let tree = Workspace::open(&tree_of(workspace), options)?;
    let notes = tree.copy_to(to)?;
    let inside = to.join(inside(workspace));
    std::fs::create_dir_all(&inside)
        .map_err(|cause| WorkspaceError::Open { path: inside, cause })?;
    Ok(notes)
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
