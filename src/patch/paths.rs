//! The paths a patch names: how they are read, and the list of them that the policy judges.
//!
//! Paths are normalised by their text alone, before anyone sees them: what is judged is then, to
//! the letter, what the plan asks for and what the door writes.

use super::error::{PatchError, PatchErrorKind, shorten};
use super::{Operation, Patch};

/// What a patch does to one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathAction {
    Add,
    Update,
    Delete,
    /// The old name of a move: it goes away.
    MoveFrom,
    /// The new name of a move: it comes into being.
    MoveTo,
}

impl PathAction {
    /// The word for messages.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::MoveFrom => "move from",
            Self::MoveTo => "move to",
        }
    }
}

/// One path of a patch, normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRef {
    pub path: String,
    pub action: PathAction,
    /// The line of the patch that names it.
    pub line: usize,
}

/// Every path the patch touches, in its order, with what is done to it. A path that can't be
/// normalised is given as written: the plan will refuse it.
pub fn paths(patch: &Patch) -> Vec<PathRef> {
    let mut list = Vec::new();
    let mut push = |path: &str, action, line| {
        let path = normalise(path).unwrap_or_else(|_| path.to_owned());
        list.push(PathRef { path, action, line });
    };
    for operation in &patch.operations {
        match operation {
            Operation::Add { line, path, .. } => push(path, PathAction::Add, *line),
            Operation::Delete { line, path } => push(path, PathAction::Delete, *line),
            Operation::Update { line, path, move_to: None, .. } => {
                push(path, PathAction::Update, *line);
            }
            Operation::Update { line, path, move_to: Some(target), .. } => {
                if normalise(path).is_ok_and(|path| Ok(path) == normalise(target)) {
                    push(path, PathAction::Update, *line);
                } else {
                    push(path, PathAction::MoveFrom, *line);
                    push(target, PathAction::MoveTo, *line);
                }
            }
        }
    }
    list
}

/// The path without `.`, `..`, doubled and trailing slashes, as far as the text alone allows.
/// Leading `..` of a relative path stay, so that the policy sees where they lead.
pub fn normalise(path: &str) -> Result<String, String> {
    if path.is_empty() {
        return Err("the path is empty".to_owned());
    }
    if path.contains('\0') {
        return Err("the path holds a NUL byte".to_owned());
    }
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                _ if absolute => {}
                _ => parts.push(".."),
            },
            name => parts.push(name),
        }
    }
    let names_a_folder = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    if parts.last().is_none_or(|last| *last == "..") || names_a_folder {
        return Err(format!("\"{}\" names a folder, not a file", shorten(path, 80)));
    }
    Ok(format!("{}{}", if absolute { "/" } else { "" }, parts.join("/")))
}

/// The path that stands behind a header. A name in double quotes is read the way git writes names
/// with odd characters; every other name is taken as it is.
pub(super) fn read(text: &str, line: usize) -> Result<String, PatchError> {
    let text = text.trim();
    let error = |message: String| PatchError::new(PatchErrorKind::Path, line, message);
    if text.is_empty() {
        return Err(error("the header names no file.".to_owned())
            .hint("write the path on the same line, for example `*** Update File: src/main.rs`"));
    }
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let Some(inner) = quoted else { return Ok(text.to_owned()) };
    unquote(inner).ok_or_else(|| {
        error(format!("the quoted name {} can't be read.", shorten(text, 80)))
            .hint("inside quotes write names as git does: \\\" \\\\ \\n \\t or \\ooo per byte")
    })
}

/// Undoes git's quoting of names.
fn unquote(inner: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return None,
            b'\\' => bytes.push(unescape(rest.next()?, &mut rest)?),
            plain => bytes.push(plain),
        }
    }
    String::from_utf8(bytes).ok()
}

fn unescape(letter: u8, rest: &mut std::str::Bytes<'_>) -> Option<u8> {
    Some(match letter {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'"' | b'\\' => letter,
        b'0'..=b'3' => {
            let mut digit = || rest.next().filter(|d| (b'0'..=b'7').contains(d)).map(|d| d - b'0');
            (letter - b'0') * 64 + digit()? * 8 + digit()?
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalising_is_by_text_alone() {
        for (path, expected) in [
            ("a", "a"),
            ("./a", "a"),
            ("x/../a", "a"),
            ("x//y/./z", "x/y/z"),
            ("../a", "../a"),
            ("a/../../b", "../b"),
            ("/a/../../b", "/b"),
            (" spaced name ", " spaced name "),
        ] {
            assert_eq!(normalise(path).as_deref(), Ok(expected), "{path}");
        }
        for path in ["", ".", "a/", "a/..", "..", "/", "a\0b", "a/."] {
            assert!(normalise(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn quoted_names_are_read_as_git_writes_them() {
        assert_eq!(read(" src/a b.rs ", 1).unwrap(), "src/a b.rs");
        assert_eq!(read("\"tab\\there\"", 1).unwrap(), "tab\there");
        assert_eq!(read("\"caf\\303\\251\"", 1).unwrap(), "café");
        assert_eq!(read("\" lead\"", 1).unwrap(), " lead");
        assert_eq!(read("say \"x\"", 1).unwrap(), "say \"x\"");
        for bad in ["", "  ", "\"a\\q\"", "\"a\\30\"", "\"a\"b\"", "\"\\377\""] {
            assert!(read(bad, 1).is_err(), "{bad:?}");
        }
        // A lone quote is a name, not an unfinished quotation.
        assert_eq!(read("\"", 1).unwrap(), "\"");
    }
}
