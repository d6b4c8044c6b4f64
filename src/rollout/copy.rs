//! A copy of a record, whole or not there: it is written and synced under a name that no reader takes
//! for a record, and gets its own name then. Whatever fails, the original was only read.

use super::error::RolloutError;
use super::file::{self, FileSink};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// What copying asks of the system; the place where faults can be put in.
pub(super) trait Steps {
    fn create(&mut self, folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?))
    }

    fn read(&mut self, mut from: &File, buffer: &mut [u8]) -> io::Result<usize> {
        from.read(buffer)
    }

    fn write(&mut self, mut to: &File, bytes: &[u8]) -> io::Result<usize> {
        to.write(bytes)
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        Ok(rustix::fs::fsync(file)?)
    }

    /// Gives a file its own name; one that is taken is left as it is.
    fn rename(&mut self, folder: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
            // Not every file system knows it. A second name is never given to what is there already.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                rustix::fs::linkat(folder, from, folder, to, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(folder, from, AtFlags::empty())?)
            }
            renamed => Ok(renamed?),
        }
    }

    fn sync_folder(&mut self, folder: BorrowedFd<'_>) -> io::Result<()> {
        Ok(rustix::fs::fsync(folder)?)
    }

    fn remove(&mut self, folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
    }
}

/// The system itself.
pub(super) struct System;

impl Steps for System {}

/// Copies an open record to a path where there is none.
pub(super) fn copy(
    from: &File,
    from_path: &Path,
    to: &Path,
    steps: &mut dyn Steps,
) -> Result<FileSink, RolloutError> {
    let folder = file::open_directory(to)?;
    let name = file::file_name(to)?;
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(".copy");
    let folder = std::os::fd::AsFd::as_fd(&folder);
    let target = |what| move |error| RolloutError::io(to, what, &error);
    let copy = again(|| steps.create(folder, &unfinished)).map_err(target("make a copy of"))?;
    let mut name_now = unfinished.as_os_str();
    let mut fill = || {
        file::lock(&copy, to)?;
        content(from, from_path, &copy, to, steps)?;
        again(|| steps.sync(&copy)).map_err(target("sync the copy of"))?;
        again(|| steps.rename(folder, &unfinished, name)).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EEXIST) => RolloutError::Exists { path: to.to_owned() },
                _ => RolloutError::io(to, "put in place the copy of", &error),
            }
        })?;
        name_now = name;
        again(|| steps.sync_folder(folder)).map_err(target("sync the folder of the copy of"))
    };
    if let Err(error) = fill() {
        // Best effort: under its first name nobody takes it for a record, under its own it is whole.
        let _ = again(|| steps.remove(folder, name_now));
        return Err(error);
    }
    Ok(FileSink::new(copy))
}

fn content(
    mut from: &File,
    from_path: &Path,
    to: &File,
    to_path: &Path,
    steps: &mut dyn Steps,
) -> Result<(), RolloutError> {
    let read = |error| RolloutError::io(from_path, "read", &error);
    from.seek(SeekFrom::Start(0)).map_err(read)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let taken = again(|| steps.read(from, &mut buffer)).map_err(read)?;
        let mut rest = &buffer[..taken];
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let written = match again(|| steps.write(to, rest)) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                written => written,
            };
            let written =
                written.map_err(|error| RolloutError::io(to_path, "write the copy of", &error))?;
            rest = rest.get(written..).unwrap_or_default();
        }
    }
}

/// An interruption is no failure.
fn again<T>(mut step: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match step() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
