//! A rollout that is held against other writers: read once under its lock, and then gone on with.
//!
//! Resume reads the history and finds the place for the next line in one pass, and nobody can add a
//! line between the two. The file of a run is gone on with under a second name in the folder of the
//! new run, so that the Session keeps one record; a file from elsewhere (a published copy, another
//! disk) stays as it is, and its bytes are copied.

use super::copy::{Steps, System, copy};
use super::error::RolloutError;
use super::file::{self, FileSink};
use super::journal::{Journal, Position};
use super::mask::Masker;
use super::read::{self, Entry, ReadReport, Reader};
use super::writer::RolloutWriter;
use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the module. Dropping it gives the file back.
pub struct HeldRollout {
    sink: FileSink,
    position: Position,
    path: PathBuf,
    writable: bool,
}

/// How a rollout was gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continued {
    /// The same file, under another name as well.
    Same,
    /// A copy; the file that was read is no longer part of the Session.
    Copy,
}

impl HeldRollout {
    /// Takes the lock and hands every record to `each`. [`RolloutError::Locked`] where a runner
    /// writes it, or another resume holds it.
    pub fn open(
        path: &Path,
        each: &mut dyn FnMut(Entry),
    ) -> Result<(Self, ReadReport), RolloutError> {
        let (sink, writable) = FileSink::open_or_read(path)?;
        let (position, report) = read_all(sink.file(), path, each)?;
        Ok((Self { sink, position, path: path.to_owned(), writable }, report))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Goes on in place: for a record that is only added to (rolled back, compacted).
    pub fn writer(self, masker: Arc<Masker>) -> Result<RolloutWriter, RolloutError> {
        if !self.writable {
            let error = io::Error::from_raw_os_error(libc::EACCES);
            return Err(RolloutError::io(&self.path, "write to", &error));
        }
        RolloutWriter::start(
            Journal::new(self.sink, self.path.clone(), masker, self.position),
            &self.path,
        )
    }

    /// Goes on in `folder` under `name`. `same` asks for the same file; where the file system cannot
    /// give it a second name, it becomes a copy.
    pub fn continue_in(
        self,
        folder: &Path,
        name: &str,
        same: bool,
        masker: Arc<Masker>,
    ) -> Result<(RolloutWriter, Continued), RolloutError> {
        self.continue_by(&mut System, folder, name, same, masker)
    }

    pub(super) fn continue_by(
        self,
        steps: &mut dyn Steps,
        folder: &Path,
        name: &str,
        same: bool,
        masker: Arc<Masker>,
    ) -> Result<(RolloutWriter, Continued), RolloutError> {
        let target = folder.join(name);
        if same && self.writable && std::fs::hard_link(&self.path, &target).is_ok() {
            if file::is_the_same(self.sink.file(), &target) {
                file::sync_folder_of(&target)?;
                let writer = RolloutWriter::start(
                    Journal::new(self.sink, target.clone(), masker, self.position),
                    &target,
                )?;
                return Ok((writer, Continued::Same));
            }
            // The name was given to another file meanwhile.
            let _ = std::fs::remove_file(&target);
        }
        let copy = copy(self.sink.file(), &self.path, &target, steps)?.and_hold(self.sink);
        let writer = RolloutWriter::start(
            Journal::new(copy, target.clone(), masker, self.position),
            &target,
        )?;
        Ok((writer, Continued::Copy))
    }
}

/// Starts a rollout in `folder` that begins with the whole lines of another one, for a fork: that one
/// may be written meanwhile and is only read.
pub fn branch_off(
    from: &Path,
    folder: &Path,
    name: &str,
    masker: Arc<Masker>,
    each: &mut dyn FnMut(Entry),
) -> Result<(RolloutWriter, ReadReport), RolloutError> {
    branch_by(&mut System, from, folder, name, masker, each)
}

pub(super) fn branch_by(
    steps: &mut dyn Steps,
    from: &Path,
    folder: &Path,
    name: &str,
    masker: Arc<Masker>,
    each: &mut dyn FnMut(Entry),
) -> Result<(RolloutWriter, ReadReport), RolloutError> {
    let target = folder.join(name);
    let source = read::open_to_read(from)?;
    let sink = copy(&source, from, &target, steps)?;
    let (position, report) = read_all(sink.file(), &target, each)?;
    let journal = Journal::new(sink, target.clone(), masker, position);
    Ok((RolloutWriter::start(journal, &target)?, report))
}

/// Whether a runner writes this rollout now.
pub fn is_held(path: &Path) -> bool {
    FileSink::is_held(path)
}

fn read_all(
    file: &File,
    path: &Path,
    each: &mut dyn FnMut(Entry),
) -> Result<(Position, ReadReport), RolloutError> {
    let mut start = file;
    start.seek(SeekFrom::Start(0)).map_err(|error| RolloutError::io(path, "read", &error))?;
    let mut reader = Reader::new(BufReader::with_capacity(256 << 10, file), path);
    for entry in &mut reader {
        each(entry?);
    }
    let report = reader.into_report();
    if report.lines == 0 {
        return Err(RolloutError::Empty { path: path.to_owned() });
    }
    Ok((read::position_after(&report, path)?, report))
}
