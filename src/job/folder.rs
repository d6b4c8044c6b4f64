//! The run's own folders: the record, and the scratch of its commands. Never inside a place that a
//! command may write, never reached through a link.

use super::logs::RunLogs;
use crate::protocol::RunId;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Folders of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    pub id: RunId,
    /// Rollout, result, diff: outside every root a command may write.
    pub dir: PathBuf,
    /// HOME, TMPDIR and caches of commands; removed at the end.
    pub scratch: PathBuf,
    /// The same for hooks, which share nothing with the commands of the model; made where there are any.
    pub hooks: PathBuf,
    /// The same for checks.
    pub checks: PathBuf,
    /// Start contents of files, kept for the Turn diff; removed at the end.
    pub store: PathBuf,
    /// The copy that the Turn works on with `isolate: copy`; removed at the end.
    pub copy: PathBuf,
    /// Somebody who could not be stopped still writes to `copy`.
    pub is_copied_to: Arc<AtomicBool>,
    /// Whole outputs of commands in `dir`, where the policy asks for them.
    pub logs: Option<RunLogs>,
}

impl RunFolder {
    /// Makes the folders below the first base that can be had and that no command may write.
    pub fn create(bases: &[PathBuf], writable: &dyn Fn(&Path) -> bool) -> Result<Self, String> {
        let mut refused = Vec::new();
        for base in bases {
            match Self::below(base, writable) {
                Ok(folder) => return Ok(folder),
                Err(why) => refused.push(format!("{}: {why}", base.display())),
            }
        }
        Err(refused.join("; "))
    }

    fn below(base: &Path, writable: &dyn Fn(&Path) -> bool) -> Result<Self, String> {
        // Looked at before anything is made: a workspace must not find our folders in it.
        let base = crate::workspace::resolve_entry(Path::new("/"), &base.display().to_string())?;
        if writable(&base) {
            return Err("commands of this run may write there".into());
        }
        private_folder(&base).map_err(|error| error.to_string())?;
        let base = base.canonicalize().map_err(|error| error.to_string())?;
        if writable(&base) {
            return Err("commands of this run may write there".into());
        }
        let id = RunId::new();
        let make = |kind: &str| -> io::Result<PathBuf> {
            let parent = base.join(kind);
            private_folder(&parent)?;
            let path = parent.join(id.as_str());
            DirBuilder::new().mode(0o700).create(&path)?;
            Ok(path)
        };
        let made = || -> io::Result<Self> {
            let folder = Self {
                dir: make("runs")?,
                scratch: make("scratch")?,
                store: make("store")?,
                copy: make("copy")?,
                is_copied_to: Arc::default(),
                hooks: base.join("hooks").join(id.as_str()),
                checks: base.join("checks").join(id.as_str()),
                logs: None,
                id: id.clone(),
            };
            for name in ["home", "tmp"] {
                DirBuilder::new().mode(0o700).create(folder.scratch.join(name))?;
            }
            Ok(folder)
        };
        made().map_err(|error| error.to_string())
    }

    /// Points `latest` at this run. Best effort: a run is no worse without it.
    pub fn point_latest(&self) {
        let Some(parent) = self.dir.parent() else { return };
        let fresh = parent.join(format!(".latest-{}", self.id));
        if symlink(self.id.as_str(), &fresh).is_ok()
            && fs::rename(&fresh, parent.join("latest")).is_err()
        {
            let _ = fs::remove_file(&fresh);
        }
    }

    /// Removes everything of a run that does not take place. The copy of an earlier run, which this
    /// one was to go on in, is not its own: it stays for the next one that goes on. A copy that is still
    /// written to would come again in part: it stays, and is given.
    pub fn discard(&self) -> Option<&Path> {
        let own_copy = self.copy.file_name().is_some_and(|name| name == self.id.as_str());
        for path in [&self.scratch, &self.hooks, &self.checks, &self.store, &self.dir] {
            remove_tree(path);
        }
        if self.is_copied_to.load(Ordering::Relaxed) {
            return Some(&self.copy);
        }
        if own_copy {
            remove_tree(&self.copy);
        }
        None
    }

    /// Removes what only this run's processes needed.
    pub fn remove_working_folders(&self) {
        for path in [&self.scratch, &self.hooks, &self.checks, &self.store, &self.copy] {
            remove_tree(path);
        }
    }
}

/// Makes a scratch for commands of the operator's.
pub(super) fn make_scratch(path: &Path) -> Result<(), String> {
    let make = || -> io::Result<()> {
        if let Some(parent) = path.parent() {
            private_folder(parent)?;
        }
        for path in [path.to_owned(), path.join("home"), path.join("tmp")] {
            DirBuilder::new().mode(0o700).create(path)?;
        }
        Ok(())
    };
    make().map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes a folder of ours with all that commands left in it.
pub(super) fn remove_tree(path: &Path) {
    // Commands may leave folders that not even their owner can enter.
    let _ = fs::remove_dir_all(path).or_else(|_| {
        open_up(path);
        fs::remove_dir_all(path)
    });
}

/// A folder that only we can enter: made, or found to be just that.
pub(super) fn private_folder(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    ours_alone(path)
}

/// Whether this is a folder, no link to one, that belongs to us and that nobody else can write.
pub(super) fn ours_alone(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    // SAFETY: geteuid cannot fail and touches nothing.
    let own = unsafe { libc::geteuid() };
    if !meta.is_dir() || meta.uid() != own || meta.mode() & 0o022 != 0 {
        return Err(io::Error::other("it exists and is not a folder of ours alone"));
    }
    Ok(())
}

fn open_up(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    if !meta.is_dir() {
        return;
    }
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        open_up(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_that_commands_may_write_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let (bad, good) = (dir.path().join("work/state"), dir.path().join("state"));
        let work = dir.path().canonicalize().unwrap().join("work");
        let folder =
            RunFolder::create(&[bad, good.clone()], &|path| path.starts_with(&work)).unwrap();
        assert!(!work.exists(), "nothing was made there");
        assert!(folder.dir.starts_with(good.canonicalize().unwrap()));
        folder.point_latest();
        assert!(good.join("runs/latest").join("x").parent().unwrap().is_dir());
        folder.remove_working_folders();
        assert!(folder.dir.is_dir() && !folder.scratch.exists());
    }

    #[test]
    fn a_copy_that_is_still_written_to_stays_and_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = || RunFolder::create(&[dir.path().join("state")], &|_| false).unwrap();
        let (quiet, busy) = (folder(), folder());
        busy.is_copied_to.store(true, Ordering::Relaxed);
        assert_eq!((quiet.discard(), busy.discard()), (None, Some(busy.copy.as_path())));
        assert!(!quiet.copy.exists() && busy.copy.exists() && !busy.scratch.exists());
    }

    #[test]
    fn a_base_behind_a_link_or_open_to_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let link = dir.path().join("link");
        symlink(dir.path(), &link).unwrap();
        let error = RunFolder::create(&[open, link], &|_| false).unwrap_err();
        assert!(error.contains("not a folder of ours alone"), "{error}");
    }
}
