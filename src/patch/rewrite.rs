//! From placed chunks to the new bytes of a file.
//!
//! Lines that the patch doesn't change are copied byte for byte, context lines included: where the
//! patch wrote a hyphen and the file has a dash, the dash stays. New lines take the line ending of
//! what they replace or of their neighbour, so that a CRLF file stays a CRLF file.

use super::error::{PatchError, PatchErrorKind};
use super::lines::{Ending, Text, wide_encoding};
use super::matching::Haystack;
use super::place::{Spot, kept, place};
use super::{Chunk, ChunkLine, LineKind};

/// An updated file, and what is worth saying about how it came to be.
pub(super) struct Rewritten {
    pub(super) bytes: Vec<u8>,
    pub(super) added: usize,
    pub(super) removed: usize,
    pub(super) notes: Vec<String>,
}

/// How many notes one file gets: the first ones tell what there is to tell.
const MAX_NOTES: usize = 4;

/// Applies all chunks to `bytes`. Fails as a whole if one of them has no certain place.
pub(super) fn rewrite(bytes: &[u8], chunks: &[Chunk]) -> Result<Rewritten, PatchError> {
    if let Some(encoding) = wide_encoding(bytes) {
        let line = chunks.first().map_or(0, |chunk| chunk.line);
        let message = format!(
            "the file is {encoding}; a patch can only name lines of text that \
                               keeps ASCII as it is, such as UTF-8."
        );
        return Err(PatchError::new(PatchErrorKind::Encoding, line, message)
            .hint("convert it with a command, or write the file anew with Delete and Add"));
    }
    let text = Text::new(bytes);
    let chunks = without_marks(chunks, !text.bom.is_empty());
    let hay = Haystack::new(&text);
    let spots = place(&chunks, &hay)?;
    let mut edits = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for (chunk, spot) in chunks.iter().zip(&spots) {
        if let Some(overlooked) = spot.rung.overlooked().filter(|_| notes.len() < MAX_NOTES) {
            notes.push(format!("line {}: {overlooked} overlooked", spot.start + 1));
        }
        collect_edits(chunk, *spot, &mut edits);
    }
    // Stable: insertions at one place keep the order in which the patch wrote them.
    edits.sort_by_key(|edit| (edit.at, edit.at + edit.removed.len()));
    let added = edits.iter().map(|edit| edit.added.len()).sum();
    let removed = edits.iter().map(|edit| edit.removed.len()).sum();
    let bytes = Writer::new(&text, bytes.len()).write(&edits);
    Ok(Rewritten { bytes, added, removed, notes })
}

/// A file's byte order mark is not part of its first line; a patch that repeats it means the same.
fn without_marks(chunks: &[Chunk], marked: bool) -> std::borrow::Cow<'_, [Chunk]> {
    let has_mark = |chunk: &Chunk| chunk.lines.iter().any(|line| line.text.starts_with('\u{feff}'));
    if !marked || !chunks.iter().any(has_mark) {
        return std::borrow::Cow::Borrowed(chunks);
    }
    let mut chunks = chunks.to_vec();
    for line in chunks.iter_mut().flat_map(|chunk| &mut chunk.lines) {
        if let Some(rest) = line.text.strip_prefix('\u{feff}') {
            line.text = rest.to_owned();
        }
    }
    std::borrow::Cow::Owned(chunks)
}

/// Lines replaced at one place: a run of `-` and `+` without context between them.
struct Edit<'c> {
    at: usize,
    removed: Vec<&'c ChunkLine>,
    added: Vec<&'c ChunkLine>,
    /// The old lines of this chunk that are said to have no newline at the end of the file.
    speaks_of_end: bool,
}

fn collect_edits<'c>(chunk: &'c Chunk, spot: Spot, edits: &mut Vec<Edit<'c>>) {
    let lines = kept(&chunk.lines, spot.skip);
    let pure = lines.iter().all(|line| line.kind == LineKind::Add || line.unprefixed);
    let speaks_of_end = lines.iter().any(|line| line.no_newline);
    let mut at = spot.start;
    let mut open: Option<Edit<'c>> = None;
    for line in lines {
        // Among lines that are all new, an empty one without prefix is a new empty line.
        let kind = if pure { LineKind::Add } else { line.kind };
        if kind == LineKind::Context {
            edits.extend(open.take());
            at += 1;
            continue;
        }
        let edit = open.get_or_insert_with(|| Edit {
            at,
            removed: Vec::new(),
            added: Vec::new(),
            speaks_of_end,
        });
        if kind == LineKind::Remove {
            edit.removed.push(line);
            at += 1;
        } else {
            edit.added.push(line);
        }
    }
    edits.extend(open);
}

struct Writer<'t, 'a> {
    text: &'t Text<'a>,
    out: Vec<u8>,
    /// The last line written has no ending yet; one is due before the next line.
    ending_due: Option<Ending>,
}

impl<'t, 'a> Writer<'t, 'a> {
    fn new(text: &'t Text<'a>, size: usize) -> Self {
        let mut out = Vec::with_capacity(size + 256);
        out.extend_from_slice(text.bom);
        Self { text, out, ending_due: None }
    }

    fn write(mut self, edits: &[Edit<'_>]) -> Vec<u8> {
        let mut next = 0;
        let mut last_added: Option<(&Edit<'_>, &ChunkLine)> = None;
        for edit in edits {
            last_added = last_added.filter(|_| next == edit.at);
            self.copy(next, edit.at);
            self.replace(edit);
            next = edit.at + edit.removed.len();
            last_added = edit.added.last().map(|line| (edit, *line)).or(last_added);
        }
        let ends_new = next >= self.text.len();
        self.copy(next, self.text.len());
        if let Some((edit, line)) = last_added.filter(|_| ends_new) {
            self.finish(edit, line);
        }
        self.out
    }

    /// Copies the file's lines from `from` to before `to`.
    fn copy(&mut self, from: usize, to: usize) {
        for index in from..to {
            self.pay_ending();
            self.out.extend_from_slice(self.text.raw(index));
            if self.text.ending(index) == Ending::None {
                self.ending_due = Some(self.text.neighbour_ending(index).unwrap_or(Ending::Lf));
            }
        }
    }

    fn pay_ending(&mut self) {
        if let Some(ending) = self.ending_due.take() {
            self.out.extend_from_slice(ending.bytes());
        }
    }

    fn replace(&mut self, edit: &Edit<'_>) {
        let literal = changes_only_endings(edit);
        for (index, line) in edit.added.iter().enumerate() {
            self.pay_ending();
            self.out.extend_from_slice(line.text.as_bytes());
            let ending = if literal {
                if line.carriage { Ending::CrLf } else { Ending::Lf }
            } else {
                self.ending_for(edit, index, line)
            };
            self.ending_due = Some(ending);
        }
        // Between added lines each ending is paid by the next one; the last is owed for good.
        self.pay_ending();
    }

    /// The ending of the line replaced, else of the neighbour, else what the patch itself has.
    fn ending_for(&self, edit: &Edit<'_>, index: usize, line: &ChunkLine) -> Ending {
        let replaced = edit.removed.len().checked_sub(1).map(|last| edit.at + index.min(last));
        let own = replaced.map(|at| self.text.ending(at)).filter(|ending| *ending != Ending::None);
        own.or_else(|| self.text.neighbour_ending(edit.at)).unwrap_or(if line.carriage {
            Ending::CrLf
        } else {
            Ending::Lf
        })
    }

    /// Decides the end of a file whose last line is new: as the patch says, else as it was.
    fn finish(&mut self, edit: &Edit<'_>, line: &ChunkLine) {
        let bare =
            if edit.speaks_of_end { line.no_newline } else { self.text.lacks_final_newline() };
        if bare {
            let ending = if self.out.ends_with(b"\r\n") { 2 } else { 1 };
            self.out.truncate(self.out.len().saturating_sub(ending));
        }
    }
}

/// Whether an edit replaces lines by themselves with other endings, which then is its purpose.
fn changes_only_endings(edit: &Edit<'_>) -> bool {
    let pairs = || edit.removed.iter().zip(&edit.added);
    edit.removed.len() == edit.added.len()
        && pairs().all(|(old, new)| old.text == new.text)
        && pairs().any(|(old, new)| old.carriage != new.carriage)
}
