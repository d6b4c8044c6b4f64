//! What went wrong with a patch, worded for the model that wrote it.
//!
//! A model that reads "invalid patch" sends the same patch again. So each error says which line,
//! what was received there, what the file has instead, and what to write now.

use std::fmt;

/// The closed list of ways in which a patch can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PatchErrorKind {
    /// The text is no patch in any of the known wrappings.
    Envelope,
    /// The patch breaks off before its end marker.
    Incomplete,
    /// Something follows the end marker.
    TrailingText,
    /// The patch, or one of its parts, does nothing.
    Empty,
    /// A line stands where a file header is due.
    Header,
    /// A line inside a file's part has no valid prefix.
    Line,
    /// A path that names nothing or can't be used.
    Path,
    /// Beyond a stated limit.
    TooLarge,
    /// The file isn't there.
    Missing,
    /// Add or Move would replace something.
    Exists,
    /// A folder, a device, or a file where a folder is needed.
    NotAFile,
    /// A symbolic link stands where a regular file is needed.
    Symlink,
    /// The file's encoding keeps text from being matched.
    Encoding,
    /// An `@@` line is not in the file.
    Anchor,
    /// Context or removed lines are not in the file.
    Context,
    /// The lines fit in several places and nothing decides.
    Ambiguous,
    /// Two chunks change the same lines.
    Overlap,
    /// Old and new text are the same.
    NoChange,
    /// The file could not be read.
    Unreadable,
}

impl PatchErrorKind {
    /// A stable name for records and tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Envelope => "envelope",
            Self::Incomplete => "incomplete",
            Self::TrailingText => "trailing_text",
            Self::Empty => "empty",
            Self::Header => "header",
            Self::Line => "line",
            Self::Path => "path",
            Self::TooLarge => "too_large",
            Self::Missing => "missing",
            Self::Exists => "exists",
            Self::NotAFile => "not_a_file",
            Self::Symlink => "symlink",
            Self::Encoding => "encoding",
            Self::Anchor => "anchor",
            Self::Context => "context",
            Self::Ambiguous => "ambiguous",
            Self::Overlap => "overlap",
            Self::NoChange => "no_change",
            Self::Unreadable => "unreadable",
        }
    }
}

/// One failure. Nothing was changed: errors come before anything is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PatchError {
    pub kind: PatchErrorKind,
    /// The 1-based line of the patch text; 0 where no line is to blame.
    pub line: usize,
    /// The file it is about, where there is one.
    pub path: Option<String>,
    /// What is wrong, in full sentences.
    pub message: String,
    /// What to do about it; empty where the message says it all.
    pub hint: String,
}

impl PatchError {
    pub(super) fn new(kind: PatchErrorKind, line: usize, message: impl Into<String>) -> Self {
        Self { kind, line, path: None, message: message.into(), hint: String::new() }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(super) fn at(mut self, path: &str) -> Self {
        self.path = Some(path.to_owned());
        self
    }
}

impl fmt::Display for PatchError {
    /// `patch line 7, src/a.rs: message` and, on a second line, the hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, &self.path) {
            (0, None) => write!(f, "{}", self.message)?,
            (0, Some(path)) => write!(f, "{}: {}", visible(path), self.message)?,
            (line, None) => write!(f, "patch line {line}: {}", self.message)?,
            (line, Some(path)) => {
                write!(f, "patch line {line}, {}: {}", visible(path), self.message)?;
            }
        }
        if self.hint.is_empty() {
            return Ok(());
        }
        write!(f, "\nhint: {}", self.hint)
    }
}

/// The first `limit` characters of `text` on one line, control characters made visible, and an
/// ellipsis if something was left off. Counts characters, so that no cut falls inside one.
pub fn shorten(text: &str, limit: usize) -> String {
    let mut short = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == limit {
            short.push('…');
            break;
        }
        push_visible(&mut short, character);
    }
    short
}

/// The whole text on one line.
pub(super) fn visible(text: &str) -> String {
    shorten(text, usize::MAX)
}

/// A line of a file for a message: bytes that are not UTF-8 shown as such.
pub(super) fn show_line(line: &[u8]) -> String {
    // The cut comes first, so that a line of many megabytes costs nothing.
    let cut = line.get(..line.len().min(400)).unwrap_or(line);
    format!("`{}`", shorten(&String::from_utf8_lossy(cut), 80))
}

fn push_visible(out: &mut String, character: char) {
    match character {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        other if other.is_control() => {
            out.extend(other.escape_unicode());
        }
        other => out.push(other),
    }
}

/// "1 line", "3 lines".
pub(super) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d36_shortening_never_cuts_a_character() {
        let text = "阴影".repeat(70);
        for limit in 0..=text.chars().count() + 1 {
            let short = shorten(&text, limit);
            assert_eq!(short.trim_end_matches('…').chars().count(), limit.min(140));
        }
        for cut in 0..text.len() {
            // A line of a file may be cut anywhere; the message about it may not panic.
            show_line(&text.as_bytes()[..cut]);
        }
    }

    #[test]
    fn control_characters_stay_on_one_line() {
        assert_eq!(shorten("a\nb\tc\u{1b}", 10), "a\\nb\\tc\\u{1b}");
    }
}
