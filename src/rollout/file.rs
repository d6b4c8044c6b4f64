//! The file behind the writer: how it is opened, locked and closed off, and the small trait through
//! which faults can be put in its place.

use super::error::RolloutError;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

const LOCK_ATTEMPTS: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(25);

/// The four things the writer does to the world.
pub(super) trait Sink: Send {
    /// Appends; may take less than it was given.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Returns once everything written so far is on disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to this length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Waits before another attempt.
    fn pause(&mut self, wait: Duration);
}

/// The real file. Holding it open holds its lock; and that of the file it was copied from.
pub(super) struct FileSink {
    file: File,
    _source: Option<Box<FileSink>>,
}

impl FileSink {
    pub(super) fn new(file: File) -> Self {
        Self { file, _source: None }
    }

    /// Keeps the lock of another file as long as this one.
    pub(super) fn and_hold(self, source: Self) -> Self {
        let mut held = self;
        held._source = Some(Box::new(source));
        held
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        // Closing would do, but for a child of this process that is just between fork and exec: it
        // has the same open file, and with it the lock.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl Sink for FileSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn pause(&mut self, wait: Duration) {
        std::thread::sleep(wait);
    }
}

impl FileSink {
    /// Makes the file; one that is already there, a link included, is refused.
    pub(super) fn create(path: &Path) -> Result<Self, RolloutError> {
        Self::create_in(open_directory(path)?, file_name(path)?, path)
    }

    /// The same in a folder that is already open; `path` is for messages.
    pub(super) fn create_in(
        directory: impl AsFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<Self, RolloutError> {
        let flags = OFlags::RDWR
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&directory, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => File::from(fd),
            Err(Errno::EXIST) => return Err(RolloutError::Exists { path: path.to_owned() }),
            Err(errno) => return Err(RolloutError::io(path, "create", &errno.into())),
        };
        lock(&file, path)?;
        // Without this the name itself may be gone after a power cut, and with it the record.
        rustix::fs::fsync(&directory)
            .map_err(|errno| RolloutError::io(path, "sync the folder of", &errno.into()))?;
        Ok(Self::new(file))
    }

    /// Opens the rollout of an earlier run for more records.
    pub(super) fn open(path: &Path) -> Result<Self, RolloutError> {
        Self::open_as(path, OFlags::RDWR | OFlags::APPEND)
    }

    /// The same, or for reading alone where nothing more is allowed; true where it can be written.
    pub(super) fn open_or_read(path: &Path) -> Result<(Self, bool), RolloutError> {
        match Self::open(path) {
            Err(RolloutError::Io {
                errno: Some(libc::EACCES | libc::EPERM | libc::EROFS), ..
            }) => Ok((Self::open_as(path, OFlags::RDONLY)?, false)),
            opened => Ok((opened?, true)),
        }
    }

    /// Whether somebody holds a file for writing. Others may ask at the same time, and a writer that comes
    /// meanwhile waits for the moment that this takes.
    pub(super) fn is_held(path: &Path) -> bool {
        let Ok(file) = open_file(path, OFlags::RDONLY) else { return false };
        // Goes with its lock.
        let asking = Self::new(file);
        let locked = rustix::fs::flock(&asking.file, FlockOperation::NonBlockingLockShared);
        locked == Err(Errno::WOULDBLOCK)
    }

    fn open_as(path: &Path, how: OFlags) -> Result<Self, RolloutError> {
        let file = open_file(path, how)?;
        lock(&file, path)?;
        Ok(Self::new(file))
    }

    /// The open file, for reading what is already there.
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

fn open_file(path: &Path, how: OFlags) -> Result<File, RolloutError> {
    let directory = open_directory(path)?;
    let name = file_name(path)?;
    // NONBLOCK so that a pipe of that name cannot hold us; a regular file ignores it.
    let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::LOOP) => {
            return Err(RolloutError::NotAFile { path: path.to_owned(), found: "a link" });
        }
        Err(Errno::ISDIR) => {
            return Err(RolloutError::NotAFile { path: path.to_owned(), found: "a directory" });
        }
        Err(errno) => return Err(RolloutError::io(path, "open", &errno.into())),
    };
    require_regular(&file, path)?;
    Ok(file)
}

/// Whether a path names this very file.
pub(super) fn is_the_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Without this a name itself may be gone after a power cut.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), RolloutError> {
    rustix::fs::fsync(open_directory(path)?)
        .map_err(|errno| RolloutError::io(path, "sync the folder of", &errno.into()))
}

pub(super) fn open_directory(path: &Path) -> Result<OwnedFd, RolloutError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(parent, flags, Mode::empty())
        .map_err(|errno| RolloutError::io(path, "open the folder of", &errno.into()))
}

pub(super) fn file_name(path: &Path) -> Result<&OsStr, RolloutError> {
    path.file_name()
        .ok_or_else(|| RolloutError::NotAFile { path: path.to_owned(), found: "a directory" })
}

/// A lock that is held for a moment only (see [`FileSink::drop`]) is waited for, a runner is not.
pub(super) fn lock(file: &File, path: &Path) -> Result<(), RolloutError> {
    let mut attempts = LOCK_ATTEMPTS;
    loop {
        match rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if attempts > 0 => {
                attempts -= 1;
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(Errno::WOULDBLOCK) => return Err(RolloutError::Locked { path: path.to_owned() }),
            Err(errno) => return Err(RolloutError::io(path, "lock", &errno.into())),
        }
    }
}

/// Refuses directories, pipes, sockets and devices under the name of a rollout.
pub(super) fn require_regular(file: &File, path: &Path) -> Result<(), RolloutError> {
    let stat = rustix::fs::fstat(file)
        .map_err(|errno| RolloutError::io(path, "look at", &errno.into()))?;
    let found = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a directory",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    };
    Err(RolloutError::NotAFile { path: path.to_owned(), found })
}
