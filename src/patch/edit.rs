//! `edit_file`: one exact piece of text replaced by another.
//!
//! Some models do better with "this text becomes that text" than with a patch. It is the same
//! engine: the result is a [`Plan`], with the same guarantees.

use super::error::{PatchError, PatchErrorKind, counted, shorten, show_line};
use super::lines::{Text, wide_encoding};
use super::matching::{Haystack, occurrences};
use super::nearest::similar_lines;
use super::plan::{Files, Plan, Planner};

/// So many places are counted before it is enough to say that there are too many.
const MAX_PLACES: usize = 1000;

/// Plans the replacement of `old_text`, which must occur exactly once in the file, by `new_text`.
/// An empty `old_text` makes a new file. If the file's lines end in CRLF and the text's in LF, the
/// text is read with the file's line endings; nothing else is overlooked.
pub fn edit(
    path: &str,
    old_text: &str,
    new_text: &str,
    files: &dyn Files,
) -> Result<Plan, PatchError> {
    let mut planner = Planner::new(files);
    let name = planner.name(0, path)?;
    let error = |kind, message: String| PatchError::new(kind, 0, message).at(&name);
    if old_text.is_empty() {
        planner.create(0, &name, new_text.as_bytes().to_vec()).map_err(|error| {
            if error.kind == PatchErrorKind::Exists {
                error.hint("an empty old text only makes new files: give the text to replace")
            } else {
                error
            }
        })?;
        return Ok(planner.finish());
    }
    if old_text == new_text {
        return Err(error(PatchErrorKind::NoChange, "old and new text are the same.".to_owned()));
    }
    let (bytes, mode) = planner.regular(0, &name)?;
    if let Some(encoding) = wide_encoding(&bytes) {
        let message =
            format!("the file is {encoding}; only text that keeps ASCII as it is can be edited.");
        return Err(error(PatchErrorKind::Encoding, message).hint("convert it with a command"));
    }
    let mut old = old_text.to_owned();
    let mut new = new_text.to_owned();
    let mut places = find(&bytes, &old);
    let mut note = None;
    if places.is_empty() && old.contains('\n') && !old.contains('\r') {
        old = old.replace('\n', "\r\n");
        new = new.replace("\r\n", "\n").replace('\n', "\r\n");
        places = find(&bytes, &old);
        note = Some("with the file's CRLF line endings".to_owned());
    } else if new.contains('\n') && !new.contains('\r') && crlf_around(&bytes, &places) {
        new = new.replace('\n', "\r\n");
    }
    match places.as_slice() {
        [] => Err(missing(&name, old_text, &bytes)),
        [at] => {
            let end = at + old.len();
            let mut content = Vec::with_capacity(bytes.len() - old.len() + new.len());
            content.extend_from_slice(bytes.get(..*at).unwrap_or(b""));
            content.extend_from_slice(new.as_bytes());
            content.extend_from_slice(bytes.get(end..).unwrap_or(b""));
            planner.put(&name, content, mode, line_counts(&old, &new), note)?;
            Ok(planner.finish())
        }
        several => {
            let lines: Vec<String> =
                several.iter().take(6).map(|at| line_of(&bytes, *at).to_string()).collect();
            let more = if several.len() > lines.len() { ", …" } else { "" };
            let message = format!(
                "the old text occurs {}: in lines {}{more}.",
                counted(several.len(), "time"),
                lines.join(", ")
            );
            Err(error(PatchErrorKind::Ambiguous, message).hint(
                "give more of the text around it, so that it occurs once; nothing was changed",
            ))
        }
    }
}

/// The places of `text`, counted up to a bound beyond which more are of no interest.
fn find(bytes: &[u8], text: &str) -> Vec<usize> {
    occurrences(text.as_bytes(), bytes, |a, b| a == b).take(MAX_PLACES).collect()
}

/// Whether the one place found lies in a line that ends in CRLF.
fn crlf_around(bytes: &[u8], places: &[usize]) -> bool {
    let [at] = places else { return false };
    let rest = bytes.get(*at..).unwrap_or(b"");
    let before = bytes.get(..*at).unwrap_or(b"");
    match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) => rest.get(..end).is_some_and(|line| line.ends_with(b"\r")),
        None => before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .is_some_and(|end| before.get(..end).is_some_and(|line| line.ends_with(b"\r"))),
    }
}

fn line_of(bytes: &[u8], at: usize) -> usize {
    bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// Lines added and removed, without the lines that both texts begin or end with.
fn line_counts(old: &str, new: &str) -> (usize, usize) {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let shorter = old.len().min(new.len());
    let front = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let back = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let same = (front + back).min(shorter);
    (new.len() - same, old.len() - same)
}

/// The old text is nowhere: show where its lines are, or what is like them.
fn missing(name: &str, old_text: &str, bytes: &[u8]) -> PatchError {
    let text = Text::new(bytes);
    let hay = Haystack::new(&text);
    let telling = old_text.lines().find(|line| line.trim().len() > 2).unwrap_or(old_text);
    let near = match similar_lines(telling.as_bytes(), &hay).as_slice() {
        [] => String::new(),
        lines => {
            format!(" The lines most like {}: {}.", show_line(telling.as_bytes()), lines.join("; "))
        }
    };
    let message = format!(
        "the old text ({}, beginning with \"{}\") is not in the file.{near}",
        counted(old_text.lines().count(), "line"),
        shorten(old_text, 40)
    );
    PatchError::new(PatchErrorKind::Context, 0, message).at(name).hint(
        "the text must be in the file exactly, white space and line breaks included; read it again \
         and copy it; nothing was changed",
    )
}
