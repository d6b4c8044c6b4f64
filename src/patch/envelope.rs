//! The wrappings in which a patch arrives, taken off one by one.
//!
//! Models send the same patch plain, in a here-document, in a code fence, or as JSON text, and
//! cling to the form that an answer seemed to accept. So every unmistakable form is taken, in any
//! nesting up to four deep. Everything else is refused by saying what was received.

use std::borrow::Cow;

use serde_json::Value;

use super::MAX_PATCH_BYTES;
use super::error::{PatchError, PatchErrorKind, shorten};
use super::paths;
use super::shell;

pub(super) const BEGIN: &str = "*** Begin Patch";
pub(super) const END: &str = "*** End Patch";

/// How many wrappings may stand around one patch.
const MAX_DEPTH: usize = 4;
/// The JSON keys under which a patch is looked for, the likeliest first.
const KEYS: [&str; 8] = ["input", "patch", "command", "cmd", "argv", "arguments", "text", "diff"];

const HINT: &str = "send the patch alone, beginning with the line `*** Begin Patch` and ending \
                    with the line `*** End Patch`";

/// A patch without its wrappings.
pub(super) struct Body<'a> {
    pub(super) text: Cow<'a, str>,
    /// How many lines of the received text stand before `text`.
    pub(super) lines_before: usize,
    /// From `cd DIR &&` in front of a shell form.
    pub(super) directory: Option<String>,
}

impl Body<'_> {
    /// Puts the whole patch into the folder `outer`.
    pub(super) fn enter(&mut self, outer: &str) {
        self.directory = Some(match self.directory.take() {
            Some(inner) => join(outer, &inner),
            None => outer.to_owned(),
        });
    }
}

enum Layer {
    Bare,
    Wrapped { text: String, lines_before: usize, directory: Option<String> },
}

/// Takes off the wrappings of `text`.
pub(super) fn open(text: &str) -> Result<Body<'_>, PatchError> {
    if text.len() > MAX_PATCH_BYTES {
        let message =
            format!("the patch has {} bytes; the limit is {MAX_PATCH_BYTES}.", text.len());
        return Err(PatchError::new(PatchErrorKind::TooLarge, 0, message)
            .hint("split it into several patches"));
    }
    let mut body = Body { text: Cow::Borrowed(text), lines_before: 0, directory: None };
    for _ in 0..=MAX_DEPTH {
        match peel(&body.text)? {
            Layer::Bare => return Ok(body),
            Layer::Wrapped { text, lines_before, directory } => {
                body.text = Cow::Owned(text);
                body.lines_before += lines_before;
                let outer = body.directory.take();
                body.directory = directory;
                if let Some(outer) = outer {
                    body.enter(&outer);
                }
            }
        }
    }
    let message = format!("the patch is wrapped more than {MAX_DEPTH} times.");
    Err(PatchError::new(PatchErrorKind::Envelope, 1, message).hint(HINT))
}

/// `path` seen from `directory`.
fn join(directory: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{directory}/{path}") }
}

fn peel(text: &str) -> Result<Layer, PatchError> {
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let first = start.lines().next().unwrap_or("").trim_end();
    if first == BEGIN {
        return Ok(Layer::Bare);
    }
    let before = newlines(text) - newlines(start);
    if start.starts_with(['{', '[', '"'])
        && let Some(layer) = from_json(start.trim_end())?
    {
        return Ok(layer);
    }
    if let Some(layer) = from_fence(start, first, before) {
        return Ok(layer);
    }
    match shell::recognise(start, shell::Strictness::Tool) {
        Some(Ok(form)) => Ok(Layer::Wrapped {
            text: form.text,
            lines_before: before + form.lines_before,
            directory: form.directory,
        }),
        Some(Err(error)) => Err(error),
        None => Err(refuse(start, first)),
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// The text inside a code fence. The fence must be the first thing; its end may be missing, since
/// the patch has an end marker of its own.
fn from_fence(start: &str, first: &str, before: usize) -> Option<Layer> {
    let mark = first.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let width = first.chars().take_while(|c| *c == mark).count();
    if width < 3 {
        return None;
    }
    let (_, inside) = start.split_once('\n')?;
    let trimmed = inside.trim_end();
    let (body, last) = trimmed.rsplit_once('\n').unwrap_or(("", trimmed));
    let last = last.trim();
    let closed = last.len() >= width && last.chars().all(|c| c == mark);
    let text = if closed { body } else { inside };
    Some(Layer::Wrapped { text: text.to_owned(), lines_before: before + 1, directory: None })
}

/// The patch inside JSON; `None` if the text only looks like JSON at its first character and is
/// shell or fence after all.
fn from_json(text: &str) -> Result<Option<Layer>, PatchError> {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) if text.starts_with('{') => {
            let message = format!(
                "received JSON text that can't be read (line {}, column {}): {}.",
                error.line(),
                error.column(),
                shorten(text, 40)
            );
            return Err(PatchError::new(PatchErrorKind::Envelope, error.line(), message)
                .hint(format!("inside JSON escape newlines as \\n; or {HINT}")));
        }
        Err(_) => return Ok(None),
    };
    let wrapped = |text| Layer::Wrapped { text, lines_before: 0, directory: None };
    Ok(patch_in(value).map(wrapped))
}

/// The string in which the patch must be.
fn patch_in(mut value: Value) -> Option<String> {
    for _ in 0..MAX_DEPTH {
        value = match value {
            Value::String(text) => return Some(text),
            Value::Object(mut map) => KEYS.iter().find_map(|key| map.remove(*key))?,
            Value::Array(list) => {
                let words: Option<Vec<String>> =
                    list.into_iter().map(|word| word.as_str().map(str::to_owned)).collect();
                return shell::patch_word(&words?);
            }
            _ => return None,
        };
    }
    None
}

/// Says what was received instead of a patch.
fn refuse(start: &str, first: &str) -> PatchError {
    let shown = shorten(start, 40);
    let error = |message: String| PatchError::new(PatchErrorKind::Envelope, 1, message);
    if start.is_empty() {
        return error("received nothing but white space.".to_owned()).hint(HINT);
    }
    if let Some(line) = start.lines().position(|line| line.trim() == BEGIN) {
        let message = format!(
            "received other text before the patch: it begins with \"{shown}\", and \
             `{BEGIN}` comes {line} lines later."
        );
        return error(message).hint(HINT);
    }
    if first.starts_with("*** ") {
        let message =
            format!("received a patch without its first line: it begins with \"{shown}\".");
        return error(message).hint(HINT);
    }
    let unified = ["diff --git ", "--- ", "Index: ", "@@ "];
    let what = if unified.iter().any(|mark| start.starts_with(mark)) {
        "a unified diff"
    } else if start.starts_with(['{', '[', '"']) {
        "JSON without a patch in it"
    } else {
        "text"
    };
    error(format!("received {what} where a patch is due: \"{shown}\".")).hint(HINT)
}

/// Applies the folder of `cd DIR &&` to a path.
pub(super) fn locate(
    directory: Option<&str>,
    text: &str,
    line: usize,
) -> Result<String, PatchError> {
    let path = paths::read(text, line)?;
    Ok(match directory {
        Some(directory) => join(directory, &path),
        None => path,
    })
}
