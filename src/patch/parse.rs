//! From patch text to operations.
//!
//! The reader goes line by line and knows at most one open operation and one open chunk. It is
//! lenient where only one reading is possible (padded markers, a missing first `@@`, an empty
//! context line without its space) and stops where a guess would be needed.

use super::envelope::{self, BEGIN, END};
use super::error::{PatchError, PatchErrorKind, shorten};
use super::{Chunk, ChunkLine, LineKind, MAX_OPERATIONS, Operation, Patch};

const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

const HEADERS_HINT: &str = "each part of a patch begins with `*** Add File: PATH`, \
                            `*** Delete File: PATH` or `*** Update File: PATH`";

/// Reads a patch in any of its wrappings. Line numbers count from the first line received, inside
/// JSON from the first line of the string.
pub fn parse(text: &str) -> Result<Patch, PatchError> {
    parse_within(text, 0, None)
}

/// The same for a text that stands inside a command: after so many lines, and with its paths seen
/// from `directory`.
pub(super) fn parse_within(
    text: &str,
    lines_before: usize,
    directory: Option<&str>,
) -> Result<Patch, PatchError> {
    let mut body = envelope::open(text)?;
    body.lines_before += lines_before;
    if let Some(outer) = directory {
        body.enter(outer);
    }
    let lines = Lines::new(&body.text, body.lines_before);
    let (begin, end) = lines.frame()?;
    let mut reader = Reader {
        operations: Vec::new(),
        open: None,
        directory: body.directory.as_deref(),
        keep_carriage: !lines.carriage(begin),
    };
    for index in begin + 1..end {
        let (line, carriage) = lines.get(index);
        reader.line(lines.number(index), line, carriage)?;
    }
    reader.close()?;
    if reader.operations.is_empty() {
        let message = "the patch has no operation.";
        return Err(
            PatchError::new(PatchErrorKind::Empty, lines.number(end), message).hint(HEADERS_HINT)
        );
    }
    Ok(Patch { operations: reader.operations })
}

/// What a line at the left edge announces.
pub(super) enum Header<'a> {
    Add(&'a str),
    Delete(&'a str),
    Update(&'a str),
    Move(&'a str),
    EndOfFile,
    End,
}

pub(super) fn header(line: &str) -> Option<Header<'_>> {
    let line = line.trim_end();
    // A glance at the first byte keeps the usual line cheap.
    if !line.starts_with('*') {
        return None;
    }
    if line == END {
        return Some(Header::End);
    }
    if line == END_OF_FILE {
        return Some(Header::EndOfFile);
    }
    let rest = |mark| line.strip_prefix(mark);
    rest(ADD)
        .map(Header::Add)
        .or_else(|| rest(DELETE).map(Header::Delete))
        .or_else(|| rest(UPDATE).map(Header::Update))
        .or_else(|| rest(MOVE).map(Header::Move))
}

/// The received lines, without their endings.
struct Lines<'a> {
    list: Vec<&'a str>,
    before: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str, before: usize) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let list = text.split('\n').collect();
        Self { list, before }
    }

    /// The number people count: 1 for the first line received.
    fn number(&self, index: usize) -> usize {
        self.before + index + 1
    }

    fn carriage(&self, index: usize) -> bool {
        self.list.get(index).is_some_and(|line| line.ends_with('\r'))
    }

    fn get(&self, index: usize) -> (&'a str, bool) {
        let raw = self.list.get(index).copied().unwrap_or("");
        match raw.strip_suffix('\r') {
            Some(line) => (line, true),
            None => (raw, false),
        }
    }

    /// The positions of the first and the last line of the patch.
    fn frame(&self) -> Result<(usize, usize), PatchError> {
        let begin = self.list.iter().position(|line| !line.trim().is_empty()).unwrap_or(0);
        let end = match self.list.iter().position(|line| line.trim_end() == END) {
            Some(end) => end,
            None => self.padded_end(begin)?,
        };
        self.nothing_after(end)?;
        Ok((begin, end))
    }

    /// An end marker with white space before it could be a context line, so it counts only as the
    /// very last line.
    fn padded_end(&self, begin: usize) -> Result<usize, PatchError> {
        let last = self.list.iter().rposition(|line| !line.trim().is_empty()).unwrap_or(0);
        let (line, _) = self.get(last);
        if last > begin && line.trim() == END {
            return Ok(last);
        }
        let message = format!(
            "the patch has no line `{END}`; its last line is `{}`. It was probably cut off.",
            shorten(line, 40)
        );
        Err(PatchError::new(PatchErrorKind::Incomplete, self.number(last), message)
            .hint("send the whole patch again, shorter if it is very long"))
    }

    /// After the end only white space may follow, or the rest of a wrapping: a closing fence, or
    /// one word that closes a here-document.
    fn nothing_after(&self, end: usize) -> Result<(), PatchError> {
        let mut rest =
            (end + 1..self.list.len()).filter(|index| !self.get(*index).0.trim().is_empty());
        let Some(first) = rest.next() else { return Ok(()) };
        let line = self.get(first).0.trim();
        let is_word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let closes = line.chars().all(is_word) || matches!(line, "```" | "~~~");
        if closes && rest.next().is_none() {
            return Ok(());
        }
        let message = format!("text follows `{END}`: `{}`.", shorten(line, 40));
        let hint = if line == BEGIN {
            "put all operations into one patch between one `*** Begin Patch` and one `*** End Patch`"
        } else {
            "end the patch with `*** End Patch` and write nothing after it"
        };
        Err(PatchError::new(PatchErrorKind::TrailingText, self.number(first), message).hint(hint))
    }
}

/// The operation being read.
enum Open {
    Add { line: usize, path: String, content: Vec<u8>, blanks: usize },
    Update { line: usize, path: String, move_to: Option<String>, chunks: Vec<Chunk>, open: bool },
}

struct Reader<'a> {
    operations: Vec<Operation>,
    open: Option<Open>,
    directory: Option<&'a str>,
    /// False if the whole patch came with CR LF line endings, which then say nothing about files.
    keep_carriage: bool,
}

impl Reader<'_> {
    fn line(&mut self, number: usize, line: &str, carriage: bool) -> Result<(), PatchError> {
        let carriage = carriage && self.keep_carriage;
        match &mut self.open {
            None => self.expect_header(number, line),
            Some(Open::Add { content, blanks, .. }) => {
                if let Some(text) = line.strip_prefix('+') {
                    // Blank lines between `+` lines are lines whose prefix was forgotten.
                    content.resize(content.len() + std::mem::take(blanks), b'\n');
                    content.extend_from_slice(text.as_bytes());
                    content.extend_from_slice(if carriage { b"\r\n" } else { b"\n" });
                    return Ok(());
                }
                if line.trim().is_empty() {
                    *blanks += 1;
                    return Ok(());
                }
                self.leave_add(number, line)
            }
            Some(Open::Update { chunks, open, .. }) => {
                if let Some(Header::EndOfFile) = header(line) {
                    return end_of_file(number, chunks, open);
                }
                if let Some(anchor) = line.strip_prefix("@@") {
                    start_chunk(number, anchor, chunks, *open);
                    *open = true;
                    return Ok(());
                }
                self.update_line(number, line, carriage)
            }
        }
    }

    fn expect_header(&mut self, number: usize, line: &str) -> Result<(), PatchError> {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return Ok(());
        }
        let found = header(trimmed);
        let Some(header) = found else {
            let message = format!(
                "a file header is due here; received `{}`{}.",
                shorten(line, 40),
                if trimmed.starts_with("*** ") { ", which is no known header" } else { "" }
            );
            return Err(PatchError::new(PatchErrorKind::Header, number, message).hint(HEADERS_HINT));
        };
        self.start(number, header)
    }

    fn start(&mut self, number: usize, header: Header<'_>) -> Result<(), PatchError> {
        self.close()?;
        if self.operations.len() >= MAX_OPERATIONS {
            let message = format!("the patch has more than {MAX_OPERATIONS} operations.");
            return Err(PatchError::new(PatchErrorKind::TooLarge, number, message)
                .hint("split it into several patches"));
        }
        let directory = self.directory;
        let locate = |path| envelope::locate(directory, path, number);
        match header {
            Header::Add(path) => {
                let path = locate(path)?;
                self.open = Some(Open::Add { line: number, path, content: Vec::new(), blanks: 0 });
            }
            Header::Delete(path) => {
                self.operations.push(Operation::Delete { line: number, path: locate(path)? });
            }
            Header::Update(path) => {
                self.open = Some(Open::Update {
                    line: number,
                    path: locate(path)?,
                    move_to: None,
                    chunks: Vec::new(),
                    open: false,
                });
            }
            Header::Move(_) => {
                let message = "`*** Move to:` stands only right after `*** Update File:`.";
                return Err(PatchError::new(PatchErrorKind::Header, number, message).hint(
                    "write `*** Update File: OLD`, then `*** Move to: NEW`, then the chunks",
                ));
            }
            Header::EndOfFile => {
                let message = "`*** End of File` stands only at the end of a chunk.";
                return Err(PatchError::new(PatchErrorKind::Header, number, message)
                    .hint("leave it out; `*** End Patch` ends the patch"));
            }
            // The frame has cut this line off; reaching it would be the end all the same.
            Header::End => {}
        }
        Ok(())
    }

    /// A line inside Add that has no `+`.
    fn leave_add(&mut self, number: usize, line: &str) -> Result<(), PatchError> {
        match header(line.trim()) {
            Some(Header::EndOfFile) => Ok(()),
            Some(next) => self.start(number, next),
            None if is_no_newline(line) => {
                if let Some(Open::Add { content, .. }) = &mut self.open {
                    let keep = content.len() - usize::from(content.ends_with(b"\n"));
                    content.truncate(keep);
                }
                Ok(())
            }
            None => {
                let message = format!(
                    "in `*** Add File:` every line of the new file begins with `+`; received `{}`.",
                    shorten(line, 40)
                );
                Err(PatchError::new(PatchErrorKind::Line, number, message)
                    .hint("put `+` in front of every line of the new file, blank ones too"))
            }
        }
    }

    /// A line inside Update that is no `@@` and no end of file.
    fn update_line(&mut self, number: usize, line: &str, carriage: bool) -> Result<(), PatchError> {
        let Some(Open::Update { move_to, chunks, open, .. }) = &mut self.open else {
            return self.expect_header(number, line);
        };
        if is_no_newline(line)
            && let Some(last) = chunks.last_mut().and_then(|chunk| chunk.lines.last_mut())
        {
            last.no_newline = true;
            return Ok(());
        }
        if let Some(found) = header(if *open { line } else { line.trim() }) {
            let Header::Move(target) = found else { return self.start(number, found) };
            if move_to.is_some() || !chunks.is_empty() {
                return self.start(number, found);
            }
            *move_to = Some(envelope::locate(self.directory, target, number)?);
            return Ok(());
        }
        if line.is_empty() && !*open {
            return Ok(());
        }
        let Some((kind, text)) = prefixed(line) else {
            let message = format!(
                "in `*** Update File:` every line begins with a space (context), `-` (removed), `+` \
                 (added) or `@@`; received `{}`.",
                shorten(line, 40)
            );
            return Err(PatchError::new(PatchErrorKind::Line, number, message)
                .hint("put one space in front of unchanged lines"));
        };
        if !*open {
            chunks.push(Chunk { line: number, ..Chunk::default() });
            *open = true;
        }
        if let Some(chunk) = chunks.last_mut() {
            let unprefixed = line.is_empty();
            let text = text.to_owned();
            let no_newline = false;
            chunk.lines.push(ChunkLine {
                line: number,
                kind,
                text,
                carriage,
                unprefixed,
                no_newline,
            });
        }
        Ok(())
    }

    /// Ends the operation being read.
    fn close(&mut self) -> Result<(), PatchError> {
        match self.open.take() {
            None => {}
            Some(Open::Add { line, path, content, .. }) => {
                self.operations.push(Operation::Add { line, path, content });
            }
            Some(Open::Update { line, path, move_to, mut chunks, .. }) => {
                check_update(line, &path, move_to.is_some(), &chunks)?;
                chunks.iter_mut().for_each(settle_end);
                self.operations.push(Operation::Update { line, path, move_to, chunks });
            }
        }
        Ok(())
    }
}

fn check_update(line: usize, path: &str, moves: bool, chunks: &[Chunk]) -> Result<(), PatchError> {
    let empty = |line, message: String| {
        PatchError::new(PatchErrorKind::Empty, line, message)
            .at(path)
            .hint("write the lines to change: ` ` context, `-` removed, `+` added")
    };
    if chunks.is_empty() && !moves {
        return Err(empty(line, "the update changes nothing: no chunk and no move.".to_owned()));
    }
    match chunks.iter().find(|chunk| chunk.lines.iter().all(|line| line.unprefixed)) {
        Some(chunk) => Err(empty(chunk.line, "the chunk has no lines.".to_owned())),
        None => Ok(()),
    }
}

/// "No newline" can only be said of a file's last line, so it ties the chunk to the end.
fn settle_end(chunk: &mut Chunk) {
    let last_old = chunk.lines.iter().rev().find(|line| line.kind != LineKind::Add);
    let said = |line: Option<&ChunkLine>| line.is_some_and(|line| line.no_newline);
    if said(last_old) || said(chunk.lines.last()) {
        chunk.end_of_file = true;
    }
}

fn is_no_newline(line: &str) -> bool {
    line.starts_with("\\ No newline at end of file")
}

fn prefixed(line: &str) -> Option<(LineKind, &str)> {
    if line.is_empty() {
        return Some((LineKind::Context, ""));
    }
    line.strip_prefix(' ')
        .map(|text| (LineKind::Context, text))
        .or_else(|| line.strip_prefix('-').map(|text| (LineKind::Remove, text)))
        .or_else(|| line.strip_prefix('+').map(|text| (LineKind::Add, text)))
}

/// An `@@` line: a further anchor for a chunk that has no lines yet, else a new chunk.
fn start_chunk(number: usize, rest: &str, chunks: &mut Vec<Chunk>, open: bool) {
    let stacked = open && chunks.last().is_some_and(|chunk| chunk.lines.is_empty());
    if !stacked {
        chunks.push(Chunk { line: number, ..Chunk::default() });
    }
    let anchor = anchor_text(rest);
    if let Some(chunk) = chunks.last_mut()
        && !anchor.trim().is_empty()
    {
        chunk.anchors.push(anchor.to_owned());
    }
}

/// The text of an anchor. The line numbers of a unified diff's header are dropped: models invent
/// them, and the place is found by text.
fn anchor_text(rest: &str) -> &str {
    let text = rest.strip_prefix(' ').unwrap_or(rest);
    let Some((ranges, after)) = text.split_once("@@") else { return text };
    let is_range = |part: &str| {
        part.strip_prefix(['-', '+']).is_some_and(|digits| {
            digits.starts_with(|c: char| c.is_ascii_digit())
                && digits.chars().all(|c| c.is_ascii_digit() || c == ',')
        })
    };
    let mut parts = ranges.split_whitespace();
    if parts.by_ref().take(2).all(is_range) && parts.next().is_none() {
        after.strip_prefix(' ').unwrap_or(after)
    } else {
        text
    }
}

fn end_of_file(number: usize, chunks: &mut [Chunk], open: &mut bool) -> Result<(), PatchError> {
    match chunks.last_mut().filter(|_| *open) {
        Some(chunk) if !chunk.lines.is_empty() => {
            chunk.end_of_file = true;
            *open = false;
            Ok(())
        }
        _ => {
            let message = "`*** End of File` stands here without a chunk before it.";
            Err(PatchError::new(PatchErrorKind::Header, number, message)
                .hint("it ends a chunk whose last line is the last line of the file"))
        }
    }
}
