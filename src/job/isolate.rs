//! `isolate: copy`: the Turn works on a copy, the operator's tree stays as it is.

use crate::workspace::git::GitPlace;
use crate::workspace::{Limits, Options, Workspace, WorkspaceError, repository_of};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Copies the repository that the workspace lies in, or the workspace where there is none, into
/// `to`, an empty folder. What the copy lacks is said. Whoever stops waiting stops the copying, and waits for
/// its end; where that does not come, `goes_on` is set and the folder must be left alone.
pub async fn copy(
    workspace: PathBuf,
    to: PathBuf,
    store: PathBuf,
    exclude: Vec<PathBuf>,
    goes_on: Arc<AtomicBool>,
) -> Result<Vec<String>, WorkspaceError> {
    let stopped = Arc::new(AtomicBool::new(false));
    let (ended, end) = mpsc::channel();
    let _stop = StopOnDrop { stopped: stopped.clone(), end, goes_on };
    let options = Options { exclude, store, limits: Limits::default() };
    let copying = tokio::task::spawn_blocking(move || {
        // The first that is declared is the last that is dropped.
        let _ended: mpsc::Sender<()> = ended;
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

/// How long a file that is being copied may hold up a run that is interrupted.
const PATIENCE: Duration = Duration::from_secs(2);

struct StopOnDrop {
    stopped: Arc<AtomicBool>,
    /// Closed when the copying is over.
    end: mpsc::Receiver<()>,
    goes_on: Arc<AtomicBool>,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // The copy is taken away next: nothing may come into it any more.
        if self.end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            self.goes_on.store(true, Ordering::Relaxed);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copying_that_does_not_end_is_told_of() {
        let goes_on_after = |copier: Option<mpsc::Sender<()>>, end| {
            let (stopped, goes_on) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
            drop(StopOnDrop { stopped: stopped.clone(), end, goes_on: goes_on.clone() });
            drop(copier);
            assert!(stopped.load(Ordering::Relaxed));
            goes_on.load(Ordering::Relaxed)
        };
        let (ended, end) = mpsc::channel();
        drop(ended);
        assert!(!goes_on_after(None, end));
        let (stuck, end) = mpsc::channel();
        assert!(goes_on_after(Some(stuck), end));
    }
}
