//! `isolate: copy`: the Turn works on a copy, the operator's tree stays as it is.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Copies what is in `from`, except what git ignores, `.git` itself and `exclude`: regular files with
/// their modes and links as links. Anything else (sockets, devices) is not part of a project. Whoever
/// stops waiting stops the copying.
pub async fn copy_tree(from: PathBuf, to: PathBuf, exclude: Vec<PathBuf>) -> io::Result<()> {
    let stop = StopOnDrop(Arc::default());
    let stopped = stop.0.clone();
    let copying = tokio::task::spawn_blocking(move || copy(&from, &to, exclude, &stopped));
    copying.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn copy(from: &Path, to: &Path, exclude: Vec<PathBuf>, stopped: &AtomicBool) -> io::Result<()> {
    let walk = ignore::WalkBuilder::new(from)
        .hidden(false)
        .follow_links(false)
        .require_git(false)
        .filter_entry(move |entry| {
            entry.file_name() != ".git" && !exclude.iter().any(|path| path == entry.path())
        })
        .build();
    for entry in walk {
        if stopped.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let entry = entry.map_err(io::Error::other)?;
        let Ok(relative) = entry.path().strip_prefix(from) else { continue };
        if relative.as_os_str().is_empty() {
            continue;
        }
        let target = to.join(relative);
        let Some(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            // A folder that is gone meanwhile is not made again.
            fs::create_dir(&target)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// The way from the repository's root to the workspace, empty or ending in `/`.
pub fn prefix_in_repository(workspace: &Path) -> Vec<u8> {
    crate::workspace::git::GitPlace::discover(workspace)
        .and_then(|git| {
            let inside = workspace.strip_prefix(&git.work_root).ok()?;
            let text = inside.to_str()?;
            (!text.is_empty()).then(|| format!("{text}/").into_bytes())
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn modes_and_links_are_kept_and_ignored_files_stay_behind() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("d")).unwrap();
        fs::create_dir_all(from.join(".git")).unwrap();
        fs::create_dir_all(&to).unwrap();
        fs::write(from.join("d/run.sh"), "x").unwrap();
        fs::set_permissions(from.join("d/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("d/run.sh", from.join("link")).unwrap();
        fs::write(from.join(".gitignore"), "*.log\n").unwrap();
        fs::write(from.join("a.log"), "x").unwrap();
        copy_tree(from, to.clone(), Vec::new()).await.unwrap();
        assert_eq!(fs::metadata(to.join("d/run.sh")).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("d/run.sh"));
        assert!(to.join(".gitignore").exists());
        assert!(!to.join("a.log").exists() && !to.join(".git").exists());
    }
}
