//! A copy of the tree as it lies, for a Turn that must not touch the tree itself.
//!
//! It holds what a Turn diff can speak of: tracked files, also ignored ones, and untracked files
//! that are not ignored, with modes, times and links, dirty or not. Bytes are copied, nothing is
//! checked out, so no hook and no filter runs. What git ignores stays behind, and so do pipes,
//! sockets and devices. Each repository in it gets a `.git` of its own (see `git::copy`).

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::FileType;

use super::Workspace;
use super::beneath::split;
use super::error::{WorkspaceError, go_on, shown};
use super::git::{GitPlace, copy_repository};
use super::manifest::{Entry, Manifest, Stamp};
use super::parallel::Crew;
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
            protected: None,
            max_entries: self.limits.entries,
            threads: self.limits.threads,
            closed_before: None,
            stopped,
        })?;
        let unseen = walked.unseen.iter();
        notes.extend(unseen.map(|place| format!("{}: {}", shown(&place.path), place.why)));
        let crew = Crew { threads: self.limits.threads, stopped };
        let copier = Copier { workspace: self, to, manifest: &walked.manifest, crew };
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
                    .and_then(|()| copy_repository(&place, &target, &copier.crew))
                    .map_err(|cause| WorkspaceError::io("copy the repository", path, cause))?;
            }
        }
        copier.go_on()?;
        if let Some(place) = git {
            copy_repository(place, to, &copier.crew)
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
    crew: Crew<'a>,
}

impl Copier<'_> {
    fn go_on(&self) -> Result<(), WorkspaceError> {
        go_on(self.crew.stopped)
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
        let fault = |cause| WorkspaceError::io("copy", b".", cause);
        let entries = self.manifest.entries();
        self.crew.each(entries, Vec::new, |buffer, entry| self.file(entry, buffer), fault)
    }

    fn file(&self, entry: &Entry, buffer: &mut Vec<u8>) -> Result<(), WorkspaceError> {
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
                self.put(path, |to| copy_file(&mut from, &stamp, to, buffer)).map_err(failed)
            }
            _ => Ok(()),
        }
    }
}

fn copy_file(from: &mut File, stamp: &Stamp, to: &Path, buffer: &mut Vec<u8>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    copy_bytes(from, stamp.size, &mut file, buffer)?;
    file.set_permissions(Permissions::from_mode(stamp.permissions()))?;
    if let Ok(nanos) = u64::try_from(stamp.mtime) {
        let time = UNIX_EPOCH + Duration::from_nanos(nanos);
        file.set_times(FileTimes::new().set_modified(time))?;
    }
    Ok(())
}

/// A small file goes through the buffer, which takes the fewest system calls. A large one the system
/// copies, sharing blocks where the file system can.
pub(crate) fn copy_bytes(
    from: &mut File,
    size: u64,
    to: &mut File,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    const SMALL: usize = 128 << 10;
    if size < SMALL as u64 {
        buffer.resize(SMALL, 0);
        let mut filled = 0;
        loop {
            match from.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        to.write_all(&buffer[..filled])?;
        if filled < SMALL {
            return Ok(());
        }
        // It grew meanwhile.
    }
    io::copy(from, to).map(drop)
}
