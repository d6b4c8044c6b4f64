//! Files that are replaced as a whole: a reader sees the old one or the new one, never half of one.

use super::result::ResultRecord;
use crate::rollout::Masker;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

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

/// Writes `result.json` into an open folder.
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
    write_atomic(directory, "result.json", text.as_bytes())
}

/// Writes a file of this name (mode 0600) into an open folder: a new file beside it, synced, then
/// renamed over it, then the folder synced. Follows no link.
pub fn write_atomic(directory: impl AsFd, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
    let directory = directory.as_fd();
    let beside = format!(".{name}.new");
    let failed = |cause: io::Error| WriteError { name: name.to_owned(), cause };
    if name.contains('/') || name.contains('\0') || name.is_empty() {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    }
    let written = (|| {
        let mut file = open_new(directory, &beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        rustix::fs::renameat(directory, &beside, directory, name)?;
        Ok(())
    })();
    if let Err(cause) = written {
        // What was written so far must not stay; that it cannot be removed changes nothing.
        let _ = rustix::fs::unlinkat(directory, &beside, AtFlags::empty());
        return Err(failed(cause));
    }
    rustix::fs::fsync(directory).map_err(|errno| failed(errno.into()))
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
