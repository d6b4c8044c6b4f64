//! Reading a diff that this room wrote, section by section.
//!
//! It reads the form the writer makes and refuses every other: `turnkey apply` applies what a run
//! recorded, it is no general tool for patches.

use super::Mode;
use super::base85;
use super::binary;
use super::error::{ApplyError, ApplyErrorKind};
use super::quote::unquoted;

/// One `diff --git` section.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// Where it begins.
    pub(super) line: usize,
    pub(super) old_path: Vec<u8>,
    pub(super) new_path: Vec<u8>,
    pub(super) old_mode: Option<Mode>,
    pub(super) new_mode: Option<Mode>,
    pub(super) created: bool,
    pub(super) deleted: bool,
    pub(super) renamed: bool,
    /// The ids of both sides.
    pub(super) index: Option<(String, String)>,
    pub(super) body: Body,
}

#[derive(Debug, Default)]
pub(super) enum Body {
    #[default]
    Nothing,
    Hunks(Vec<Hunk>),
    /// The new content.
    Binary(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Hunk {
    pub(super) line: usize,
    /// The lines before the hunk, on the old side.
    pub(super) start: usize,
    /// Prefix and line, the line with its newline unless it has none.
    pub(super) lines: Vec<(u8, Vec<u8>)>,
}

/// All sections of a diff.
pub(super) fn sections(diff: &[u8]) -> Result<Vec<Section>, ApplyError> {
    let lines: Vec<&[u8]> = diff.split_inclusive(|byte| *byte == b'\n').collect();
    if let Some(last) = lines.last()
        && !last.ends_with(b"\n")
    {
        return Err(malformed(lines.len(), "the diff breaks off in the middle of a line."));
    }
    let mut reader = Reader { lines, at: 0 };
    let mut sections = Vec::new();
    while reader.at < reader.lines.len() {
        sections.push(reader.section()?);
    }
    Ok(sections)
}

fn malformed(line: usize, message: &str) -> ApplyError {
    ApplyError::new(ApplyErrorKind::Malformed, line, message)
}

struct Reader<'a> {
    lines: Vec<&'a [u8]>,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The line to be read next, without its newline.
    fn peek(&self) -> Option<&'a [u8]> {
        self.lines.get(self.at).map(|line| line.strip_suffix(b"\n").unwrap_or(line))
    }

    fn number(&self) -> usize {
        self.at + 1
    }

    fn bad<T>(&self, message: &str) -> Result<T, ApplyError> {
        Err(malformed(self.number(), message))
    }

    fn section(&mut self) -> Result<Section, ApplyError> {
        let mut section = Section { line: self.number(), ..Section::default() };
        let Some(names) = self.peek().and_then(|line| line.strip_prefix(b"diff --git ")) else {
            return self.bad("a line `diff --git` is due here.");
        };
        let names = both_names(names);
        self.at += 1;
        let mut renamed_from = None;
        let mut renamed_to = None;
        while let Some(line) = self.peek() {
            if line.starts_with(b"diff --git ") {
                break;
            } else if let Some(mode) = line.strip_prefix(b"old mode ") {
                section.old_mode = Some(self.mode(mode)?);
            } else if let Some(mode) = line.strip_prefix(b"new mode ") {
                section.new_mode = Some(self.mode(mode)?);
            } else if let Some(mode) = line.strip_prefix(b"new file mode ") {
                section.created = true;
                section.new_mode = Some(self.mode(mode)?);
            } else if let Some(mode) = line.strip_prefix(b"deleted file mode ") {
                section.deleted = true;
                section.old_mode = Some(self.mode(mode)?);
            } else if line.starts_with(b"similarity index ") {
            } else if let Some(name) = line.strip_prefix(b"rename from ") {
                renamed_from = Some(self.name(name)?);
            } else if let Some(name) = line.strip_prefix(b"rename to ") {
                renamed_to = Some(self.name(name)?);
            } else if let Some(index) = line.strip_prefix(b"index ") {
                self.index(index, &mut section)?;
            } else if line == b"GIT binary patch" {
                section.body = Body::Binary(self.binary_patch()?);
                continue;
            } else if line.starts_with(b"--- ") {
                section.body = Body::Hunks(self.hunks()?);
                continue;
            } else {
                return self.bad("this line belongs to no part of a diff.");
            }
            self.at += 1;
        }
        match (renamed_from, renamed_to, names) {
            (Some(from), Some(to), _) => {
                section.renamed = true;
                (section.old_path, section.new_path) = (from, to);
            }
            (None, None, Some(name)) => {
                (section.old_path, section.new_path) = (name.clone(), name);
            }
            _ => return Err(malformed(section.line, "the names of this section can't be read.")),
        }
        Ok(section)
    }

    fn mode(&self, text: &[u8]) -> Result<Mode, ApplyError> {
        Mode::from_octal(text)
            .ok_or_else(|| malformed(self.number(), "the mode is none of 100644, 100755, 120000."))
    }

    fn name(&self, text: &[u8]) -> Result<Vec<u8>, ApplyError> {
        match unquoted(text) {
            Some((name, b"")) => Ok(name),
            _ => self.bad("the name can't be read."),
        }
    }

    fn index(&self, text: &[u8], section: &mut Section) -> Result<(), ApplyError> {
        let text = String::from_utf8_lossy(text);
        let (ids, mode) = match text.split_once(' ') {
            Some((ids, mode)) => (ids, Some(mode)),
            None => (&*text, None),
        };
        let is_id = |id: &str| id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let Some((old, new)) = ids.split_once("..").filter(|(old, new)| is_id(old) && is_id(new))
        else {
            return self.bad("the index line has no two full ids.");
        };
        section.index = Some((old.to_owned(), new.to_owned()));
        if let Some(mode) = mode {
            let mode = self.mode(mode.as_bytes())?;
            (section.old_mode, section.new_mode) = (Some(mode), Some(mode));
        }
        Ok(())
    }

    /// Two literals, the new content and the old; the second is for going back.
    fn binary_patch(&mut self) -> Result<Vec<u8>, ApplyError> {
        self.at += 1;
        let new = self.literal()?;
        self.literal()?;
        Ok(new)
    }

    fn literal(&mut self) -> Result<Vec<u8>, ApplyError> {
        let header = self.number();
        let length = self
            .peek()
            .and_then(|line| line.strip_prefix(b"literal "))
            .and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<usize>().ok());
        let Some(length) = length else { return self.bad("a line `literal LENGTH` is due here.") };
        self.at += 1;
        let mut data = Vec::new();
        loop {
            match self.peek() {
                None => return self.bad("the binary patch breaks off."),
                Some(b"") => break,
                Some(line) => {
                    if base85::decode_line(line, &mut data).is_none() {
                        return self.bad("this line of a binary patch can't be read.");
                    }
                }
            }
            self.at += 1;
        }
        self.at += 1;
        binary::inflate(&data, length)
            .ok_or_else(|| malformed(header, "the binary content doesn't have the stated length."))
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, ApplyError> {
        self.at += 1;
        if !self.peek().is_some_and(|line| line.starts_with(b"+++ ")) {
            return self.bad("a line `+++` is due here.");
        }
        self.at += 1;
        let mut hunks = Vec::new();
        while let Some(line) = self.peek() {
            if !line.starts_with(b"@@ ") {
                break;
            }
            hunks.push(self.hunk(line)?);
        }
        if hunks.is_empty() {
            return self.bad("a hunk is due here.");
        }
        Ok(hunks)
    }

    fn hunk(&mut self, header: &[u8]) -> Result<Hunk, ApplyError> {
        let line = self.number();
        let Some(((start, mut old), (_, mut new))) = ranges(header) else {
            return self.bad("the hunk header can't be read.");
        };
        // An empty range names the line before it.
        let start = if old == 0 { start } else { start.saturating_sub(1) };
        let mut hunk = Hunk { line, start, lines: Vec::new() };
        self.at += 1;
        while old > 0 || new > 0 {
            let Some((&prefix, text)) = self.lines.get(self.at).and_then(|line| line.split_first())
            else {
                return self.bad("the hunk breaks off.");
            };
            let counts = match prefix {
                b' ' => (1, 1),
                b'-' => (1, 0),
                b'+' => (0, 1),
                _ => return self.bad("a line of a hunk begins with a space, `-` or `+`."),
            };
            if counts.0 > old || counts.1 > new {
                return self.bad("the hunk has more lines than its header says.");
            }
            (old, new) = (old - counts.0, new - counts.1);
            self.at += 1;
            let mut text = text;
            if self.peek() == Some(b"\\ No newline at end of file") {
                text = text.strip_suffix(b"\n").unwrap_or(text);
                self.at += 1;
            }
            hunk.lines.push((prefix, text.to_vec()));
        }
        Ok(hunk)
    }
}

/// The one name of `a/NAME b/NAME`; `None` if the two differ, as in a rename.
fn both_names(text: &[u8]) -> Option<Vec<u8>> {
    if text.starts_with(b"\"") {
        let (old, rest) = unquoted(text)?;
        let (new, rest) = unquoted(rest.strip_prefix(b" ")?)?;
        let (old, new) = (old.strip_prefix(b"a/")?, new.strip_prefix(b"b/")?);
        return (rest.is_empty() && old == new).then(|| old.to_vec());
    }
    // Names may hold spaces, but both halves have the same length.
    let (old, rest) = text.split_at_checked(text.len() / 2)?;
    let (old, new) = (old.strip_prefix(b"a/")?, rest.strip_prefix(b" b/")?);
    (old == new).then(|| old.to_vec())
}

type Range = (usize, usize);

/// `@@ -1,2 +3 @@`.
fn ranges(header: &[u8]) -> Option<(Range, Range)> {
    let text = std::str::from_utf8(header).ok()?;
    let inside = text.strip_prefix("@@ -")?.strip_suffix(" @@")?;
    let (old, new) = inside.split_once(" +")?;
    let range = |text: &str| -> Option<Range> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    Some((range(old)?, range(new)?))
}
