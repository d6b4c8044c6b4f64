//! Writing a planned patch: all of it or nothing.
//!
//! Checked first (`prepare`): every path permitted, inside the workspace, still as the plan saw
//! it. Then the new files are written beside their places under names of their own and flushed to
//! disk. Then the files change places, each in one atomic step that keeps the old file under the
//! temporary name: an exchange for a replaced file, a rename that replaces nothing for a new or a
//! deleted one. What came out under the temporary name is compared with what was checked, so that
//! a change in the last instant is noticed, and undone like every other failure. Only when all are
//! in place are the old files removed. The `journal` holds what is needed to do the same after a
//! kill. All of this is synchronous: no cancellation can cut into it.

pub(super) mod gate;
mod journal;
mod prepare;
mod recover;
mod swap;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Gid, Mode, OFlags, Uid, XattrFlags};

use super::Workspace;
use super::beneath::{split, stat_in};
use super::changes::ChangeKind;
use super::error::{CommitError, shown};
use super::manifest::Stamp;
use crate::patch::{Change, FileState, NewFile, Plan};
use crate::policy::WritePermit;
use journal::{Act, Gone, Journal, PathText, Record};
use prepare::{Old, Prepared, Step, prepare};
pub use recover::Recovered;
use swap::Folders;

/// Set-user-id and set-group-id.
const PRIVILEGE: u32 = 0o6000;
/// With more files than this one flush of the file system is cheaper than one for each.
const FLUSH_EACH: usize = 64;

/// A patch that is in place.
#[derive(Debug, Clone, Default)]
pub struct Committed {
    pub files: Vec<CommittedFile>,
    /// Folders that were made, relative to the workspace.
    pub folders: Vec<Vec<u8>>,
    /// What a person should know: a hard link that no longer shares its content, and the like.
    pub notes: Vec<String>,
}

/// One file of a committed patch.
#[derive(Debug, Clone)]
pub struct CommittedFile {
    /// Relative to the workspace, through no link.
    pub path: Vec<u8>,
    pub kind: ChangeKind,
    pub before: Option<FileState>,
    pub(super) stamp: Option<Stamp>,
}

/// One path of a commit: what must stand there, and what is to.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Absolute, or relative to the workspace.
    pub(super) path: Vec<u8>,
    pub(super) before: Option<FileState>,
    pub(super) after: Option<NewFile>,
    /// The mode of the new file is lessened by the umask.
    pub(super) by_umask: bool,
}

impl Wanted {
    fn of(change: &Change) -> Self {
        Self {
            path: change.path.as_bytes().to_vec(),
            before: change.before.clone(),
            after: change.after.clone(),
            by_umask: change.is_new(),
        }
    }
}

impl Workspace {
    /// Commit a plan. On every error but [`CommitError::Torn`] the tree is as it was before.
    pub fn commit(&self, permit: &WritePermit, plan: &Plan) -> Result<Committed, CommitError> {
        let writes: Vec<Wanted> = plan.changes.iter().map(Wanted::of).collect();
        self.commit_writes(permit, &writes)
    }

    pub(super) fn commit_writes(
        &self,
        permit: &WritePermit,
        writes: &[Wanted],
    ) -> Result<Committed, CommitError> {
        let id = uuid::Uuid::now_v7().simple().to_string();
        let Prepared { steps, gone, folders } = prepare(self, permit, writes, &id)?;
        if steps.is_empty() {
            return Ok(Committed::default());
        }
        let records = steps.iter().map(record).collect::<Vec<_>>();
        let workspace = self.root().as_os_str().as_bytes();
        let journal = Journal::begin(&self.store, &id, workspace, &gone, &folders, &records)
            .map_err(|cause| failure("write the journal for", &steps[0].path, cause))?;
        let folders_open = Folders::new(&self.root);
        let mut commit =
            Commit { workspace: self, steps, records, gone, folders, journal, open: folders_open };
        match commit.run() {
            Ok(()) => Ok(commit.finish()),
            Err(error) => Err(commit.roll_back(error)),
        }
    }
}

fn record(step: &Step) -> Record {
    Record {
        path: PathText::new(&step.path),
        folder: PathText::new(&step.folder),
        temp: step.temp.clone(),
        makes_way: step.makes_way,
        act: step.act,
        old_inode: step.old.map(|old| old.stamp.ino),
        new_inode: None,
    }
}

fn failure(doing: &'static str, path: &[u8], cause: io::Error) -> CommitError {
    CommitError::Failed { doing, path: shown(path), cause }
}

struct Commit<'a> {
    workspace: &'a Workspace,
    steps: Vec<Step>,
    records: Vec<Record>,
    gone: Vec<Gone>,
    folders: Vec<Vec<u8>>,
    journal: Journal,
    open: Folders<'a>,
}

impl Commit<'_> {
    fn run(&mut self) -> Result<(), CommitError> {
        self.stage_all()?;
        let inodes = self.records.iter().map(|record| record.new_inode).collect();
        let first = self.steps.first().map(|step| step.path.clone()).unwrap_or_default();
        self.journal
            .committing(inodes, !self.is_one_step())
            .map_err(|cause| failure("write the journal for", &first, cause))?;
        let (first_ones, rest): (Vec<_>, Vec<_>) =
            self.steps.iter().zip(&self.records).partition(|(step, _)| step.makes_way);
        for (step, record) in first_ones {
            self.put_in_place(step, record)?;
        }
        for folder in &self.gone {
            swap::take_folder_away(&self.open, folder)
                .map_err(|cause| failure("remove the folder", folder.path.bytes(), cause))?;
        }
        for folder in &self.folders {
            swap::make_folder(&self.open, folder)
                .map_err(|cause| failure("make the folder", folder, cause))?;
        }
        for (step, record) in rest {
            self.put_in_place(step, record)?;
        }
        if !self.is_one_step() {
            self.flush_folders()?;
        }
        self.journal.committed().map_err(|cause| failure("write the journal for", &first, cause))
    }

    /// One file in a folder that is there changes place in one atomic step: whatever is lost with
    /// the power, it is wholly the old one or wholly the new one. Several must not be torn apart.
    fn is_one_step(&self) -> bool {
        self.steps.len() == 1 && self.folders.is_empty() && self.gone.is_empty()
    }

    fn stage_all(&mut self) -> Result<(), CommitError> {
        let each = self.steps.len() <= FLUSH_EACH;
        for (step, record) in self.steps.iter().zip(&mut self.records) {
            if let Some(after) = &step.after {
                let inode = stage(&self.open, step, after, each)
                    .map_err(|cause| failure("write", &step.path, cause))?;
                record.new_inode = Some(inode);
            }
        }
        if !each {
            flush_all(self.workspace).map_err(|cause| failure("flush", b".", cause))?;
        }
        Ok(())
    }

    fn put_in_place(&self, step: &Step, record: &Record) -> Result<(), CommitError> {
        swap::put_in_place(&self.open, record).map_err(|cause| match cause.raw_os_error() {
            Some(libc::EEXIST) => CommitError::Stale {
                path: shown(&step.path),
                why: "something else was made there meanwhile".to_owned(),
            },
            _ => failure("put in place", &step.path, cause),
        })?;
        let Some(old) = &step.old else { return Ok(()) };
        let check = || -> io::Result<bool> {
            let folder = self.open.get(&step.folder)?;
            let stat = stat_in(folder.as_fd(), step.temp.as_ref())?;
            Ok(same_file(old, &Stamp::of(&stat)))
        };
        match check() {
            Ok(true) => Ok(()),
            Ok(false) => Err(CommitError::Stale {
                path: shown(&step.path),
                why: "it was changed in the last instant".to_owned(),
            }),
            Err(cause) => Err(failure("look at", &step.path, cause)),
        }
    }

    fn flush_folders(&self) -> Result<(), CommitError> {
        let above = self.folders.iter().map(|folder| split(folder).0);
        let gone: BTreeSet<&[u8]> = self.gone.iter().map(|gone| gone.path.bytes()).collect();
        let folder_of = |step: &'_ Step| -> Vec<u8> {
            let own = split(&step.path).0;
            if gone.contains(own) { step.folder.clone() } else { own.to_vec() }
        };
        let above = above.map(<[u8]>::to_vec);
        let folders: BTreeSet<Vec<u8>> = self.steps.iter().map(folder_of).chain(above).collect();
        if folders.len() > FLUSH_EACH {
            return flush_all(self.workspace).map_err(|cause| failure("flush", b".", cause));
        }
        for folder in folders {
            let flush = || -> io::Result<()> {
                let fd = self.open.get(&folder)?;
                gate::pass("fsync folder")?;
                Ok(rustix::fs::fsync(fd.as_fd())?)
            };
            flush().map_err(|cause| failure("flush", &folder, cause))?;
        }
        Ok(())
    }

    /// All files are in place: remove the old ones. A failure here leaves only a temporary file,
    /// which the journal, kept in that case, lets the next run remove.
    fn finish(mut self) -> Committed {
        let mut notes = Vec::new();
        let mut clean = true;
        for record in &self.records {
            if let Err(error) = twice(|| swap::drop_old(&self.open, record)) {
                clean = false;
                notes.push(format!("{} could not be removed: {error}", record.temp));
            }
        }
        if clean && let Err(error) = twice(|| self.journal.remove()) {
            notes.push(format!("the journal of this patch could not be removed: {error}"));
        }
        let files = self.steps.iter().map(|step| self.committed(step, &mut notes)).collect();
        Committed { files, folders: self.folders, notes }
    }

    fn committed(&self, step: &Step, notes: &mut Vec<String>) -> CommittedFile {
        if let Some(old) = step.old.filter(|old| old.links > 1) {
            let others = old.links - 1;
            let path = shown(&step.path);
            notes.push(format!(
                "{path} had {others} other hard link(s), which keep the old content"
            ));
        }
        if step.after.as_ref().is_some_and(|after| !after.symlink && after.mode & PRIVILEGE != 0) {
            notes.push(format!("{} lost its set-id bits: its content is new", shown(&step.path)));
        }
        let stat = self.workspace.root.stat(&step.path).ok().flatten();
        CommittedFile {
            path: step.path.clone(),
            kind: match step.act {
                Act::Create => ChangeKind::Added,
                Act::Replace => ChangeKind::Modified,
                Act::Delete => ChangeKind::Deleted,
            },
            before: step.before.clone(),
            stamp: stat.map(|stat| Stamp::of(&stat)),
        }
    }

    /// Put everything back, the last step first.
    fn roll_back(mut self, error: CommitError) -> CommitError {
        let failed = swap::undo_all(&self.open, &self.records, &self.gone, &self.folders);
        if failed.is_empty() {
            // A journal that stays tells of a commit that is undone already: harmless.
            let _ = twice(|| self.journal.remove());
            return error;
        }
        let rollback = failed.join("; ");
        match error {
            CommitError::Failed { doing, path, cause } => {
                CommitError::Torn { doing, path, cause, rollback }
            }
            CommitError::Stale { path, why } => {
                CommitError::Torn { doing: "replace", path, cause: io::Error::other(why), rollback }
            }
            other => other,
        }
    }
}

/// A failed call is tried once more: an interrupted or busy disk must not leave half a patch.
fn twice<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    act().or_else(|_| act())
}

/// Whether the file that came out is the one that was checked. A rename moves the time of change of
/// the inode, so that one is not compared.
fn same_file(old: &Old, now: &Stamp) -> bool {
    let old = &old.stamp;
    (old.ino, old.size, old.mtime, old.mode) == (now.ino, now.size, now.mtime, now.mode)
}

/// Write the new file beside its place; its inode.
fn stage(open: &Folders<'_>, step: &Step, after: &NewFile, flush: bool) -> io::Result<u64> {
    let folder = open.get(&step.folder)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    // Like the kernel, which takes these bits from a file that somebody writes to: new content does
    // not inherit the right to run as another user.
    let mode = after.mode & !PRIVILEGE & 0o7777;
    if after.symlink {
        gate::pass("symlink")?;
        let target = OsStr::from_bytes(&after.bytes);
        rustix::fs::symlinkat(target, &*folder, step.temp.as_str())?;
        return Ok(Stamp::of(&stat_in(folder.as_fd(), step.temp.as_ref())?).ino);
    }
    // The kernel takes the umask from the mode of a file that is made.
    let by_umask = step.by_umask;
    let first = if by_umask { mode & 0o777 } else { 0o600 };
    gate::pass("create")?;
    let fd = rustix::fs::openat(&*folder, step.temp.as_str(), flags, Mode::from_raw_mode(first))?;
    let mut file = File::from(fd);
    gate::pass("write")?;
    file.write_all(&after.bytes)?;
    if !by_umask {
        if let Some(old) = &step.old {
            keep_owner(&file, old);
            keep_attributes(open, step, &file);
        }
        gate::pass("chmod")?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    }
    if flush {
        gate::pass("fsync")?;
        file.sync_data()?;
    }
    Ok(Stamp::of(&rustix::fs::fstat(&file)?).ino)
}

/// A runner that is root must not take a user's file away from him. Others cannot give files away;
/// for them it stays as it is.
fn keep_owner(file: &File, old: &Old) {
    let Ok(now) = rustix::fs::fstat(file) else { return };
    if (now.st_uid, now.st_gid) != old.owner {
        let (uid, gid) = (Uid::from_raw(old.owner.0), Gid::from_raw(old.owner.1));
        let _ = rustix::fs::fchown(file, Some(uid), Some(gid));
    }
}

/// A user's own attributes and the access list go over to the new file as far as the system lets
/// them. What gives a file rights (capabilities, labels) stays behind, as with every write.
fn keep_attributes(open: &Folders<'_>, step: &Step, new: &File) {
    let copy = || -> io::Result<()> {
        let (folder, name) = split(&step.path);
        let folder = open.get(folder)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let old = rustix::fs::openat(&*folder, OsStr::from_bytes(name), flags, Mode::empty())?;
        let mut names = vec![0; rustix::fs::flistxattr_query(&old)?];
        let len = rustix::fs::flistxattr(&old, &mut names)?;
        let names = names.get(..len).unwrap_or_default();
        let kept = |name: &&[u8]| {
            name.starts_with(b"user.") || *name == b"system.posix_acl_access".as_slice()
        };
        for name in names.split(|byte| *byte == 0).filter(kept) {
            let name = OsStr::from_bytes(name);
            let mut value = vec![0; rustix::fs::fgetxattr_query(&old, name)?];
            let len = rustix::fs::fgetxattr(&old, name, &mut value)?;
            let value = value.get(..len).unwrap_or_default();
            let _ = rustix::fs::fsetxattr(new, name, value, XattrFlags::empty());
        }
        Ok(())
    };
    let _ = copy();
}

#[cfg(target_os = "linux")]
fn flush_all(workspace: &Workspace) -> io::Result<()> {
    gate::pass("syncfs")?;
    Ok(rustix::fs::syncfs(workspace.root.fd())?)
}

#[cfg(not(target_os = "linux"))]
fn flush_all(_workspace: &Workspace) -> io::Result<()> {
    gate::pass("sync")?;
    rustix::fs::sync();
    Ok(())
}
