//! The reader: takes what is whole, passes over what is not, and says exactly what it passed over.

use super::cut::char_floor;
use super::error::RolloutError;
use super::file::require_regular;
use super::journal::Position;
use super::line::{self, Head, MAX_LINE, VERSION};
use super::record::Record;
use crate::protocol::TurnId;
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Faults are listed up to here and counted beyond it, so that a file of rubbish costs no memory.
const MAX_LISTED: usize = 100;

/// Nesting of JSON and everything else that makes a line unreadable is told in this many bytes.
const MAX_CAUSE: usize = 200;

/// One record with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// 1-based.
    pub line: u64,
    pub seq: u64,
    pub ts: String,
    pub record: Record,
}

/// A line that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadLine {
    pub line: u64,
    pub cause: String,
}

/// A line whose `prev` is not the hash of the line before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainBreak {
    pub line: u64,
    pub expected: String,
    pub found: String,
}

/// What a reading came upon besides records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReadReport {
    pub bytes: u64,
    /// Lines that are not blank.
    pub lines: u64,
    pub records: u64,
    /// Records of a type this version does not know.
    pub unknown: u64,
    pub bom: bool,
    /// Unreadable lines: damage.
    pub bad_count: u64,
    pub bad: Vec<BadLine>,
    /// Unreadable lines that a later writer found torn and closed off; the chain vouches for them.
    pub closed_off: Vec<BadLine>,
    /// The last line, if it was cut in the middle.
    pub torn: Option<BadLine>,
    /// The last line lacks its newline, torn or not.
    pub unterminated: bool,
    pub break_count: u64,
    pub breaks: Vec<ChainBreak>,
    /// Lines whose number does not follow the one before.
    pub seq_faults: u64,
    pub runs: u64,
    /// The last run has its last record.
    pub finished: bool,
    /// Turns that began and have no end.
    pub incomplete_turns: Vec<TurnId>,
    pub last_seq: Option<u64>,
    /// Hash of the last line.
    pub last_hash: String,
}

/// A whole rollout in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    pub entries: Vec<Entry>,
    pub report: ReadReport,
}

/// Reads a rollout. Unreadable lines are skipped and counted; only a file that is no rollout at all
/// is an error.
pub fn read(path: &Path) -> Result<Rollout, RolloutError> {
    let mut reader = Reader::open(path)?;
    let mut entries = Vec::new();
    for entry in &mut reader {
        entries.push(entry?);
    }
    let report = reader.into_report();
    if report.lines == 0 {
        return Err(RolloutError::Empty { path: path.to_owned() });
    }
    Ok(Rollout { entries, report })
}

/// Reads record by record; memory is bounded by the longest line, and that by [`MAX_LINE`].
pub struct Reader<R> {
    input: R,
    path: PathBuf,
    buffer: Vec<u8>,
    line: u64,
    /// The bad line just before this one, kept until the chain tells torn from damaged.
    suspect: Option<BadLine>,
    open_turn: Option<TurnId>,
    report: ReadReport,
    done: bool,
}

impl Reader<BufReader<File>> {
    pub fn open(path: &Path) -> Result<Self, RolloutError> {
        Ok(Self::new(BufReader::with_capacity(64 << 10, open_to_read(path)?), path))
    }
}

/// Opens a rollout that is only looked at.
pub(super) fn open_to_read(path: &Path) -> Result<File, RolloutError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| RolloutError::io(path, "open", &errno.into()))?;
    let file = File::from(fd);
    require_regular(&file, path)?;
    Ok(file)
}

/// What one attempt at a line gave.
enum Raw {
    End,
    Blank { terminated: bool },
    Line { terminated: bool },
    TooLong { terminated: bool },
}

impl<R: BufRead> Reader<R> {
    /// Reads from anything; `path` is for messages.
    pub fn new(input: R, path: &Path) -> Self {
        let report = ReadReport { last_hash: line::ZERO_HASH.to_owned(), ..Default::default() };
        Self {
            input,
            path: path.to_owned(),
            buffer: Vec::new(),
            line: 0,
            suspect: None,
            open_turn: None,
            report,
            done: false,
        }
    }

    /// What was found so far; complete after the last record.
    pub fn report(&self) -> &ReadReport {
        &self.report
    }

    pub fn into_report(self) -> ReadReport {
        self.report
    }

    /// Reads up to the next newline into the buffer; of a line that is too long only the count.
    fn next_raw(&mut self) -> Result<Raw, RolloutError> {
        self.buffer.clear();
        let cap = MAX_LINE as u64 + 1;
        let failed = |path: &Path, error| RolloutError::io(path, "read", &error);
        let taken = (&mut self.input)
            .take(cap)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| failed(&self.path, error))?;
        if taken == 0 {
            return Ok(Raw::End);
        }
        self.line += 1;
        self.report.bytes += taken as u64;
        let terminated = self.buffer.ends_with(b"\n");
        if !terminated && taken as u64 == cap {
            if self.report.records == 0 {
                // A disk image, a sparse file: no need to read all of it to know.
                return Err(RolloutError::NotARollout {
                    path: self.path.clone(),
                    line: self.line,
                    cause: format!("a line of more than {MAX_LINE} bytes"),
                });
            }
            return self.skip_rest_of_line();
        }
        while matches!(self.buffer.last(), Some(b'\n' | b'\r')) {
            self.buffer.pop();
        }
        if self.line == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
            self.report.bom = true;
            self.buffer.drain(..3);
        }
        if self.buffer.iter().all(u8::is_ascii_whitespace) {
            return Ok(Raw::Blank { terminated });
        }
        Ok(Raw::Line { terminated })
    }

    fn skip_rest_of_line(&mut self) -> Result<Raw, RolloutError> {
        loop {
            let chunk = self
                .input
                .fill_buf()
                .map_err(|error| RolloutError::io(&self.path, "read", &error))?;
            if chunk.is_empty() {
                return Ok(Raw::TooLong { terminated: false });
            }
            let (used, terminated) = match chunk.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (chunk.len(), false),
            };
            self.input.consume(used);
            self.report.bytes += used as u64;
            if terminated {
                return Ok(Raw::TooLong { terminated });
            }
        }
    }

    fn next_entry(&mut self) -> Result<Option<Entry>, RolloutError> {
        loop {
            match self.next_raw()? {
                Raw::End => {
                    self.finish();
                    return Ok(None);
                }
                Raw::Blank { terminated } => self.report.unterminated = !terminated,
                Raw::TooLong { terminated } => {
                    self.report.lines += 1;
                    // Its hash is not known, so what comes next cannot vouch for it.
                    self.report.last_hash = String::new();
                    let cause = format!("longer than {MAX_LINE} bytes");
                    self.bad_line(Unreadable { cause, whole: false }, terminated);
                }
                Raw::Line { terminated } => {
                    self.report.lines += 1;
                    self.report.unterminated = !terminated;
                    match parse(&self.buffer) {
                        Ok((head, record)) => {
                            if head.v > VERSION {
                                return Err(RolloutError::Newer {
                                    path: self.path.clone(),
                                    line: self.line,
                                    version: head.v,
                                });
                            }
                            return Ok(Some(self.good_line(head, record)));
                        }
                        Err(unreadable) => {
                            self.bad_line(unreadable, terminated);
                            self.report.last_hash = line::hash(&self.buffer);
                        }
                    }
                }
            }
        }
    }

    fn good_line(&mut self, head: Head, record: Record) -> Entry {
        let chained = head.prev == self.report.last_hash;
        match self.suspect.take() {
            Some(torn) if chained => push_listed(&mut self.report.closed_off, torn),
            Some(bad) => self.count_bad(bad),
            None => {}
        }
        if !chained {
            self.report.break_count += 1;
            let expected = std::mem::take(&mut self.report.last_hash);
            let found = ChainBreak { line: self.line, expected, found: shortened(head.prev) };
            push_listed(&mut self.report.breaks, found);
        }
        if head.seq != self.report.last_seq.map_or(0, |seq| seq.wrapping_add(1)) {
            self.report.seq_faults += 1;
        }
        self.report.last_seq = Some(head.seq);
        self.report.last_hash = line::hash(&self.buffer);
        self.report.records += 1;
        self.follow(&record);
        Entry { line: self.line, seq: head.seq, ts: head.ts, record }
    }

    /// Keeps account of what is open.
    fn follow(&mut self, record: &Record) {
        match record {
            Record::RunStarted(_) => {
                self.report.runs += 1;
                self.report.finished = false;
                self.abandon_turn();
            }
            Record::TurnStarted { turn, .. } => {
                self.abandon_turn();
                self.open_turn = Some(turn.clone());
            }
            Record::RunFinished(_) => self.report.finished = true,
            Record::Unknown => self.report.unknown += 1,
            _ => {
                if record.ends_turn().is_some() && record.ends_turn() == self.open_turn.as_ref() {
                    self.open_turn = None;
                }
            }
        }
    }

    fn abandon_turn(&mut self) {
        if let Some(turn) = self.open_turn.take() {
            push_listed(&mut self.report.incomplete_turns, turn);
        }
    }

    fn bad_line(&mut self, unreadable: Unreadable, terminated: bool) {
        let bad = BadLine { line: self.line, cause: shortened(unreadable.cause) };
        if let Some(before) = self.suspect.take() {
            self.count_bad(before);
        }
        self.report.unterminated = !terminated;
        match (unreadable.whole, terminated) {
            (true, _) => self.count_bad(bad),
            (false, true) => self.suspect = Some(bad),
            (false, false) => self.report.torn = Some(bad),
        }
    }

    fn count_bad(&mut self, bad: BadLine) {
        self.report.bad_count += 1;
        push_listed(&mut self.report.bad, bad);
    }

    fn finish(&mut self) {
        self.done = true;
        if let Some(bad) = self.suspect.take() {
            self.count_bad(bad);
        }
        self.abandon_turn();
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Entry, RolloutError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.next_entry().transpose();
        if matches!(next, Some(Err(_))) {
            self.done = true;
        }
        next
    }
}

/// Why a line gave no record. A line that is whole JSON was never torn, whatever else it is.
struct Unreadable {
    cause: String,
    whole: bool,
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self { cause: error.to_string(), whole: error.is_data() }
    }
}

fn parse(bytes: &[u8]) -> Result<(Head, Record), Unreadable> {
    let head: Head = serde_json::from_slice(bytes)?;
    if head.v == 0 {
        return Err(Unreadable { cause: "format 0 does not exist".to_owned(), whole: true });
    }
    if head.v > VERSION {
        // Its fields may mean something else; the caller refuses it.
        return Ok((head, Record::Unknown));
    }
    Ok((head, serde_json::from_slice(bytes)?))
}

fn push_listed<T>(list: &mut Vec<T>, entry: T) {
    if list.len() < MAX_LISTED {
        list.push(entry);
    }
}

fn shortened(mut text: String) -> String {
    text.truncate(char_floor(&text, MAX_CAUSE));
    text
}

/// Where a writer goes on in this file.
pub(super) fn position(file: &File, path: &Path) -> Result<Position, RolloutError> {
    let mut reader = Reader::new(BufReader::with_capacity(64 << 10, file), path);
    for entry in &mut reader {
        entry?;
    }
    position_after(&reader.into_report(), path)
}

/// Where a writer goes on after all that a reading found.
pub(super) fn position_after(report: &ReadReport, path: &Path) -> Result<Position, RolloutError> {
    if report.records == 0 && report.lines > 0 {
        return Err(RolloutError::NotARollout {
            path: path.to_owned(),
            line: 1,
            cause: "no line of it is a record".to_owned(),
        });
    }
    Ok(Position {
        length: report.bytes,
        next_seq: report.last_seq.map_or(0, |seq| seq.wrapping_add(1)),
        prev: report.last_hash.clone(),
        unterminated: report.unterminated,
    })
}
