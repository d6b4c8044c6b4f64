//! Files that are replaced as a whole: a reader sees the old one or the new one, never half of one.

use super::result::ResultRecord;
use crate::rollout::Masker;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// What could not be written, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {name}: {cause}")]
pub struct WriteError {
    pub name: String,
    #[source]
    pub cause: io::Error,
}

impl WriteError {
    /// What to do now.
    pub fn hint(&self) -> &'static str {
        match self.cause.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => {
                "Free space where the artifacts lie, or name another folder with --artifacts."
            }
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
                "Name a folder this user may write with --artifacts."
            }
            _ => "Check that the artifacts folder still exists and its disk is sound.",
        }
    }
}

/// Writes `result.json` into an open folder. The result of a run that has ended is written last: with
/// it the folder itself is synced, and so the names of everything written before. The mark of a run
/// that works is not worth a sync: it is for readers after a kill, not after a power cut.
pub fn write_result(
    directory: impl AsFd,
    record: &ResultRecord,
    masker: &Masker,
) -> Result<(), WriteError> {
    let failed =
        |error| WriteError { name: "result.json".to_owned(), cause: io::Error::other(error) };
    let mut value = serde_json::to_value(record).map_err(failed)?;
    masker.mask_value(&mut value);
    let mut text = serde_json::to_string_pretty(&value).map_err(failed)?;
    text.push('\n');
    let directory = directory.as_fd();
    let ended = record.ending.exit_status().is_some();
    write(directory, "result.json", text.as_bytes(), ended)?;
    if ended {
        let failed = |errno: Errno| WriteError { name: "result.json".into(), cause: errno.into() };
        rustix::fs::fsync(directory).map_err(failed)?;
    }
    Ok(())
}

/// Writes a file of this name (mode 0600) into an open folder: a new file beside it, synced, then
/// renamed over it. Follows no link.
pub fn write_atomic(directory: impl AsFd, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
    write(directory.as_fd(), name, bytes, true)
}

fn write(
    directory: BorrowedFd<'_>,
    name: &str,
    bytes: &[u8],
    sync: bool,
) -> Result<(), WriteError> {
    let beside = format!(".{name}.new");
    let failed = |cause: io::Error| WriteError { name: name.to_owned(), cause };
    if name.contains('/') || name.contains('\0') || name.is_empty() {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    }
    let written = (|| {
        let mut file = open_new(directory, &beside)?;
        file.write_all(bytes)?;
        if sync {
            file.sync_data()?;
        }
        rustix::fs::renameat(directory, &beside, directory, name)?;
        Ok(())
    })();
    if let Err(cause) = written {
        // What was written so far must not stay; that it cannot be removed changes nothing.
        let _ = rustix::fs::unlinkat(directory, &beside, AtFlags::empty());
        return Err(failed(cause));
    }
    Ok(())
}

fn open_new(directory: impl AsFd, name: &str) -> io::Result<File> {
    let directory = directory.as_fd();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::openat(directory, name, flags, mode) {
        // Left behind by a run that was killed.
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            Ok(File::from(rustix::fs::openat(directory, name, flags, mode)?))
        }
        other => Ok(File::from(other?)),
    }
}
