//! The heart of the writer, without threads: lines on their way to the disk.
//!
//! Everything written since the last successful sync is kept in memory, because only a sync confirms
//! it: after a failed one the kernel may have dropped the pages and will call the next sync a success.
//! So a failed sync cuts the file back to what is confirmed and writes the rest once more; a failed
//! write goes on where it stopped. Both are bounded, and then the error stays.

use super::error::RolloutError;
use super::file::Sink;
use super::line;
use super::mask::Masker;
use super::record::Record;
use super::writer::Confirmed;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Waits between attempts; their number bounds the attempts.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(5),
    Duration::from_millis(25),
    Duration::from_millis(125),
    Duration::from_millis(500),
];

/// Interrupted calls in a row that are taken up again at once; more count as a failed attempt.
const MAX_INTERRUPTS: u32 = 64;

/// Unconfirmed bytes kept in memory at most; beyond it a sync happens without being asked for.
const MAX_UNCONFIRMED: usize = 1 << 20;

/// Where the next line goes.
#[derive(Debug, Clone)]
pub(super) struct Position {
    /// Length of the file.
    pub length: u64,
    pub next_seq: u64,
    /// Hash of the last line.
    pub prev: String,
    /// The last line has no newline yet: it is closed off together with the next record.
    pub unterminated: bool,
}

impl Position {
    /// The start of a new file.
    pub(super) fn start() -> Self {
        Self { length: 0, next_seq: 0, prev: line::ZERO_HASH.to_owned(), unterminated: false }
    }
}

pub(super) struct Journal<S> {
    sink: S,
    path: PathBuf,
    masker: Arc<Masker>,
    next_seq: u64,
    prev: String,
    unterminated: bool,
    /// The bytes of all lines that no sync has confirmed yet.
    unconfirmed: Vec<u8>,
    /// Where each of those lines ends.
    line_ends: Vec<usize>,
    /// How many of those bytes the kernel has taken.
    written: usize,
    confirmed_length: u64,
    confirmed_records: u64,
    failed: Option<RolloutError>,
}

impl<S: Sink> Journal<S> {
    pub(super) fn new(sink: S, path: PathBuf, masker: Arc<Masker>, position: Position) -> Self {
        Self {
            sink,
            path,
            masker,
            next_seq: position.next_seq,
            prev: position.prev,
            unterminated: position.unterminated,
            unconfirmed: Vec::new(),
            line_ends: Vec::new(),
            written: 0,
            confirmed_length: position.length,
            confirmed_records: 0,
            failed: None,
        }
    }

    /// Takes a record and hands its line to the kernel. What was taken before an error and could not
    /// be confirmed is lost with it; the error stays.
    pub(super) fn append(&mut self, ts: &str, record: &Record) -> Result<(), RolloutError> {
        self.check()?;
        let encoded = line::encode(record, self.next_seq, ts, &self.prev, &self.masker);
        let line = encoded.map_err(|error| self.fail(error))?;
        if self.unterminated {
            self.unconfirmed.push(b'\n');
            self.unterminated = false;
        }
        self.prev = line::hash(line.strip_suffix(b"\n").unwrap_or(&line));
        self.next_seq += 1;
        self.unconfirmed.extend_from_slice(&line);
        self.line_ends.push(self.unconfirmed.len());
        self.write_out()?;
        if self.unconfirmed.len() > MAX_UNCONFIRMED {
            self.sync()?;
        }
        Ok(())
    }

    /// Everything taken so far is on disk when this returns.
    pub(super) fn sync(&mut self) -> Result<Confirmed, RolloutError> {
        self.check()?;
        if self.unconfirmed.is_empty() {
            return Ok(self.confirmed());
        }
        let mut attempt = 0;
        loop {
            self.write_out()?;
            let error = match uninterrupted(|| self.sink.sync()) {
                Ok(()) => break,
                Err(error) => error,
            };
            self.wait(&mut attempt, "sync", &error)?;
            // Whether a cut that fails matters shows at the next sync: the lines stand twice then,
            // so it counts as a failed attempt of its own.
            while let Err(error) = uninterrupted(|| self.sink.truncate(self.confirmed_length)) {
                self.wait(&mut attempt, "cut back", &error)?;
            }
            self.written = 0;
        }
        self.confirmed_length += self.unconfirmed.len() as u64;
        self.confirmed_records += self.line_ends.len() as u64;
        self.unconfirmed.clear();
        self.unconfirmed.shrink_to(64 << 10);
        self.line_ends.clear();
        self.written = 0;
        Ok(self.confirmed())
    }

    pub(super) fn confirmed(&self) -> Confirmed {
        Confirmed { records: self.confirmed_records, bytes: self.confirmed_length }
    }

    pub(super) fn failure(&self) -> Option<&RolloutError> {
        self.failed.as_ref()
    }

    /// One line, one write; what a short write left is written next.
    fn write_out(&mut self) -> Result<(), RolloutError> {
        let mut attempt = 0;
        while self.written < self.unconfirmed.len() {
            let next = self.line_ends.partition_point(|end| *end <= self.written);
            let end = self.line_ends.get(next).copied().unwrap_or(self.unconfirmed.len());
            let rest = &self.unconfirmed[self.written..end];
            match uninterrupted(|| self.sink.write(rest)) {
                Ok(taken) if taken > 0 => {
                    self.written += taken.min(rest.len());
                    attempt = 0;
                }
                Ok(_) => {
                    let error = io::Error::from(io::ErrorKind::WriteZero);
                    self.wait(&mut attempt, "write", &error)?;
                }
                Err(error) => self.wait(&mut attempt, "write", &error)?,
            }
        }
        Ok(())
    }

    /// Waits for the next attempt, or gives up.
    fn wait(
        &mut self,
        attempt: &mut usize,
        what: &'static str,
        error: &io::Error,
    ) -> Result<(), RolloutError> {
        let Some(pause) = PAUSES.get(*attempt) else {
            return Err(self.fail(RolloutError::io(&self.path, what, error)));
        };
        *attempt += 1;
        self.sink.pause(*pause);
        Ok(())
    }

    fn check(&self) -> Result<(), RolloutError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: RolloutError) -> RolloutError {
        self.failed = Some(error.clone());
        // A torn line at the end is harmless, but without it the file reads cleanly.
        let whole = self.line_ends.iter().rfind(|end| **end <= self.written).copied().unwrap_or(0);
        if whole < self.written {
            let _ = self.sink.truncate(self.confirmed_length + whole as u64);
        }
        self.unconfirmed = Vec::new();
        self.line_ends = Vec::new();
        self.written = 0;
        error
    }
}

/// A call that a signal interrupted is simply made again.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut interrupts = 0;
    loop {
        match call() {
            Err(error)
                if error.kind() == io::ErrorKind::Interrupted && interrupts < MAX_INTERRUPTS =>
            {
                interrupts += 1;
            }
            result => return result,
        }
    }
}
