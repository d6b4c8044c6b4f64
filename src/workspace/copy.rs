//! A copy of the tree as it lies, for a Turn that must not touch the tree itself.
//!
//! It holds what a Turn diff can speak of: tracked files, also ignored ones, and untracked files
//! that are not ignored, with modes, times and links, dirty or not. Bytes are copied, nothing is
//! checked out, so no hook and no filter runs. What git ignores stays behind, and so do pipes,
//! sockets and devices. Each repository in it gets a `.git` of its own (see `git::copy`).

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::FileType;

use super::Workspace;
use super::beneath::split;
use super::error::{WorkspaceError, go_on, shown};
use super::git::{GitPlace, copy_repository};
use super::manifest::{Entry, Manifest, Stamp};
use super::read::{is_gone, link_target, open_regular};
use super::start::{converted_around, read_index};
use super::walk::{WalkInput, walk};

impl Workspace {
    /// Makes the copy in `to`, an empty folder. What could not be copied is said; an error where the
    /// copy would not be one. Once `stopped` is set it ends, and makes nothing any more.
    pub fn copy_to(&self, to: &Path, stopped: &AtomicBool) -> Result<Vec<String>, WorkspaceError> {
        let mut notes = Vec::new();
        let git = self.git.as_ref();
        let index = git.and_then(|place| read_index(place, self.root(), &mut notes));
        let walked = walk(&WalkInput {
            root: &self.root,
            exclude: &self.excluded,
            outer: self.outer_rules.clone(),
            converted: git.and_then(|place| converted_around(place, self.root())),
            tracked: index.as_ref(),
            known: None,
            max_entries: self.limits.entries,
            threads: self.limits.threads,
            stopped,
        })?;
        let unseen = walked.unseen.iter();
        notes.extend(unseen.map(|place| format!("{}: {}", shown(&place.path), place.why)));
        let copier = Copier { workspace: self, to, manifest: &walked.manifest, stopped };
        copier.folders()?;
        copier.files()?;
        let mut nested: Vec<&Vec<u8>> = walked.known.nested.iter().collect();
        nested.sort();
        for path in nested {
            copier.go_on()?;
            let (from, target) = (self.root().join(byte_path(path)), copier.target(path));
            // A submodule that was never fetched is an empty folder, not a repository.
            let place = GitPlace::discover(&from).filter(|place| place.work_root == from);
            if let Some(place) = place {
                copier
                    .make_folders(path)
                    .and_then(|()| copy_repository(&place, &target))
                    .map_err(|cause| WorkspaceError::io("copy the repository", path, cause))?;
            }
        }
        copier.go_on()?;
        if let Some(place) = git {
            copy_repository(place, to)
                .map_err(|cause| WorkspaceError::io("copy the repository", b".", cause))?;
        }
        copier.folder_modes()?;
        Ok(notes)
    }
}

fn byte_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

struct Copier<'a> {
    workspace: &'a Workspace,
    to: &'a Path,
    manifest: &'a Manifest,
    stopped: &'a AtomicBool,
}

impl Copier<'_> {
    fn go_on(&self) -> Result<(), WorkspaceError> {
        go_on(self.stopped)
    }

    fn target(&self, path: &[u8]) -> PathBuf {
        self.to.join(byte_path(path))
    }

    fn every_folder(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        let entries = self.manifest.entries().iter();
        entries.filter(|entry| entry.stamp.kind() == FileType::Directory)
    }

    fn folders(&self) -> Result<(), WorkspaceError> {
        for entry in self.every_folder() {
            let path = self.manifest.name(entry);
            self.go_on()?;
            self.make_folders(path)
                .map_err(|cause| WorkspaceError::io("make the folder", path, cause))?;
        }
        Ok(())
    }

    /// A folder of the copy with those above it, but never the copy itself: one that is gone
    /// meanwhile is not made again.
    fn make_folders(&self, path: &[u8]) -> io::Result<()> {
        let mut folder = self.to.to_owned();
        for part in byte_path(path) {
            folder.push(part);
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        Ok(())
    }

    /// Act on the place of a file; make the folders above it where they turn out not to be there
    /// (those of tracked files inside ignored folders are no entries of their own).
    fn put(&self, path: &[u8], mut act: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
        let target = self.target(path);
        match act(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_folders(split(path).0)?;
                act(&target)
            }
            done => done,
        }
    }

    /// Last, and inner ones first: a folder that cannot be written must still be filled.
    fn folder_modes(&self) -> Result<(), WorkspaceError> {
        for entry in self.every_folder().rev() {
            let path = self.manifest.name(entry);
            let mode = Permissions::from_mode(entry.stamp.permissions());
            fs::set_permissions(self.target(path), mode)
                .map_err(|cause| WorkspaceError::io("set the mode of", path, cause))?;
        }
        Ok(())
    }

    fn files(&self) -> Result<(), WorkspaceError> {
        const CHUNK: usize = 64;
        let entries = self.manifest.entries();
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), WorkspaceError> {
            loop {
                let at = next.fetch_add(CHUNK, Ordering::Relaxed);
                let Some(rest) = entries.get(at..).filter(|rest| !rest.is_empty()) else {
                    return Ok(());
                };
                self.go_on()?;
                for entry in rest.iter().take(CHUNK) {
                    self.file(entry)?;
                }
            }
        };
        std::thread::scope(|scope| {
            let threads = self.workspace.limits.threads.max(1);
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let lost = || {
                let cause = io::Error::other("a thread broke off");
                Err(WorkspaceError::io("copy", b".", cause))
            };
            others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(|_| lost()))
                .fold(own, Result::and)
        })
    }

    fn file(&self, entry: &Entry) -> Result<(), WorkspaceError> {
        let path = self.manifest.name(entry);
        let root = &self.workspace.root;
        let failed = |cause| WorkspaceError::io("copy", path, cause);
        match entry.stamp.kind() {
            FileType::Symlink => {
                let target = match link_target(root, path) {
                    Err(error) if is_gone(&error) => return Ok(()),
                    target => target?,
                };
                self.put(path, |to| symlink(OsStr::from_bytes(&target), to)).map_err(failed)
            }
            FileType::RegularFile => {
                let (mut from, stamp) = match open_regular(root, path) {
                    Err(error) if is_gone(&error) => return Ok(()),
                    opened => opened?,
                };
                self.put(path, |to| copy_bytes(&mut from, &stamp, to)).map_err(failed)
            }
            _ => Ok(()),
        }
    }
}

/// On file systems that can share blocks the system does; elsewhere bytes are copied.
fn copy_bytes(from: &mut File, stamp: &Stamp, to: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(from, &mut file)?;
    file.set_permissions(Permissions::from_mode(stamp.permissions()))?;
    if let Ok(nanos) = u64::try_from(stamp.mtime) {
        let time = UNIX_EPOCH + Duration::from_nanos(nanos);
        file.set_times(FileTimes::new().set_modified(time))?;
    }
    Ok(())
}
