//! File access that cannot be led out of a folder.
//!
//! A path that was judged a moment ago may mean something else now: a command may have put a link in
//! its place. So the folder is opened once, and everything is reached from that descriptor without
//! following any link: by `openat2` with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`, and where the
//! kernel or a filter refuses that call, step by step with `O_NOFOLLOW`.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Flags for opening a folder to work in it.
const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Flags for reading a file: never a terminal, never a wait for a writer of a pipe.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// A folder held open. Paths given to it are relative, made of plain names only.
#[derive(Debug)]
pub(crate) struct Root {
    fd: OwnedFd,
    path: PathBuf,
    openat2: bool,
}

impl Root {
    /// Open a folder by its resolved path.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let openat2 = openat2_works(fd.as_fd());
        Ok(Self { fd, path: path.to_owned(), openat2 })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The same folder without `openat2`, to test the other way in.
    #[cfg(test)]
    pub(crate) fn step_by_step(mut self) -> Self {
        self.openat2 = false;
        self
    }

    /// Open the folder `relative` (empty: this folder itself).
    pub(crate) fn open_folder(&self, relative: &[u8]) -> io::Result<OwnedFd> {
        if relative.is_empty() {
            return Ok(rustix::fs::openat(&self.fd, ".", FOLDER, Mode::empty())?);
        }
        self.open_with(relative, FOLDER)
    }

    /// Open the folder that holds `relative`, and give the last name.
    pub(crate) fn open_parent<'a>(&self, relative: &'a [u8]) -> io::Result<(OwnedFd, &'a OsStr)> {
        let (parent, name) = split(relative);
        Ok((self.open_folder(parent)?, OsStr::from_bytes(name)))
    }

    /// Open a file for reading. Nothing is said yet of its kind: look with `fstat`.
    pub(crate) fn open_file(&self, relative: &[u8]) -> io::Result<OwnedFd> {
        self.open_with(relative, FILE)
    }

    /// What stands at `relative`, the last name not followed; `None` where nothing does.
    pub(crate) fn stat(&self, relative: &[u8]) -> io::Result<Option<Stat>> {
        let found = self
            .open_parent(relative)
            .and_then(|(folder, name)| Ok(stat_in(folder.as_fd(), name)?));
        match found {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open_with(&self, relative: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        plain_names(relative)?;
        #[cfg(target_os = "linux")]
        if self.openat2 {
            return open_beneath(self.fd.as_fd(), relative, flags);
        }
        self.open_stepwise(relative, flags)
    }

    fn open_stepwise(&self, relative: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let mut names = relative.split(|byte| *byte == b'/').peekable();
        let mut folder: Option<OwnedFd> = None;
        while let Some(name) = names.next() {
            let here = folder.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            let wanted = if names.peek().is_some() { FOLDER } else { flags };
            let next = rustix::fs::openat(here, OsStr::from_bytes(name), wanted, Mode::empty())?;
            folder = Some(next);
        }
        folder.ok_or_else(|| Errno::NOENT.into())
    }
}

#[cfg(target_os = "linux")]
fn open_beneath(root: BorrowedFd<'_>, relative: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // The kernel answers EAGAIN when a rename raced with it; that is not an answer about the path.
    for _ in 0..64 {
        let path = OsStr::from_bytes(relative);
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
    Err(Errno::AGAIN.into())
}

#[cfg(target_os = "linux")]
fn openat2_works(root: BorrowedFd<'_>) -> bool {
    open_beneath(root, b".", FOLDER).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn openat2_works(_root: BorrowedFd<'_>) -> bool {
    false
}

/// `lstat` of one name in an open folder.
pub(crate) fn stat_in(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Stat, Errno> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Whether an error means that nothing stands at the path.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR))
}

/// The kind of file in a word for people.
pub(crate) fn kind_of(mode: u32) -> &'static str {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    }
}

/// Split `a/b/c` into `a/b` and `c`.
pub(crate) fn split(relative: &[u8]) -> (&[u8], &[u8]) {
    match relative.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&relative[..at], &relative[at + 1..]),
        None => (b"", relative),
    }
}

/// Refuse everything that is not a chain of plain names: the caller has resolved the path, so a
/// `..` here is a mistake or an attack.
fn plain_names(relative: &[u8]) -> io::Result<()> {
    let plain = relative
        .split(|byte| *byte == b'/')
        .all(|name| !name.is_empty() && name != b"." && name != b".." && !name.contains(&0));
    if plain { Ok(()) } else { Err(Errno::INVAL.into()) }
}
