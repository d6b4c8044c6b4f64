//! What the file has where a patch expected something else.
//!
//! When lines are not found, the useful answer shows the place that was most likely meant and the
//! first line that differs there.

use std::collections::{HashMap, HashSet};

use super::error::{PatchError, PatchErrorKind, shorten, show_line};
use super::matching::{Haystack, fold};
use super::{Chunk, ChunkLine};

/// How many pattern lines and how many equal file lines are looked at; errors may not be slow.
const MAX_PATTERN: usize = 400;
const MAX_EQUALS: usize = 64;
/// How many lines are compared letter by letter when no line is equal.
const MAX_LETTERED: usize = 20_000;

/// The error for lines that stand nowhere in the file.
pub(super) fn not_found(
    chunk: &Chunk,
    wanted: &[&ChunkLine],
    hay: &Haystack<'_, '_>,
) -> PatchError {
    let line = wanted.first().map_or(chunk.line, |first| first.line);
    let error = |line, message: String| PatchError::new(PatchErrorKind::Context, line, message);
    if hay.len() == 0 {
        return error(line, "the file is empty, so no line of this chunk is in it.".to_owned())
            .hint("write only `+` lines");
    }
    if let Some(error) = undecodable(wanted, hay) {
        return error;
    }
    // Lines such as `}` are everywhere and show the way only where nothing else does.
    let mut candidates = candidates_by(wanted, hay, 2);
    if candidates.is_empty() {
        candidates = candidates_by(wanted, hay, 1);
    }
    let Some(&(offset, equal)) = candidates.first() else { return resembling(wanted, hay, line) };
    let places: Vec<String> = candidates.iter().map(|(at, _)| (at + 1).to_string()).collect();
    let difference = wanted.iter().enumerate().find_map(|(index, wanted)| {
        let has = usize::try_from(offset + index as i64).ok().and_then(|at| hay.line(at));
        match has {
            Some(has) if fold(has) == fold(wanted.text.as_bytes()) => None,
            other => Some((wanted, offset + index as i64 + 1, other)),
        }
    });
    let Some((wanted_line, number, has)) = difference else {
        return error(
            line,
            "the lines of this chunk are in the file, but not where its `@@` lines \
                            and its place in the patch put them."
                .to_owned(),
        )
        .hint(format!("they begin at line {}", places.join(", ")));
    };
    let has = match has {
        Some(has) => format!("line {number} is {}", show_line(has)),
        None if number < 1 => "the file begins later".to_owned(),
        None => format!("the file ends after line {}", hay.len()),
    };
    let message = format!(
        "this line is not there: the patch has {}, {has}. The nearest place, with {equal} of {} \
         lines equal, begins at line {}.",
        show_line(wanted_line.text.as_bytes()),
        wanted.len(),
        places.join(", or ")
    );
    error(wanted_line.line, message)
        .hint("read the file again around there and copy its lines exactly; nothing was changed")
}

/// The offsets at which most of the wanted lines are equal, best first, at most three. Only lines
/// of `least` bytes or more count.
fn candidates_by(wanted: &[&ChunkLine], hay: &Haystack<'_, '_>, least: usize) -> Vec<(i64, usize)> {
    let mut by_text: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    let wanted = wanted.iter().take(MAX_PATTERN).enumerate();
    for (index, line) in wanted.clone() {
        let key = fold(line.text.as_bytes()).into_owned();
        if key.len() >= least {
            by_text.entry(key).or_default().push(index);
        }
    }
    let mut votes: HashMap<i64, usize> = HashMap::new();
    let mut seen: HashMap<&[u8], usize> = HashMap::new();
    for (at, line) in hay.lines().enumerate() {
        let Some(indices) = by_text.get(fold(line).as_ref()) else { continue };
        let count = seen.entry(line).or_insert(0);
        *count += 1;
        if *count > MAX_EQUALS {
            continue;
        }
        for index in indices.iter().take(MAX_EQUALS) {
            *votes.entry(at as i64 - *index as i64).or_insert(0) += 1;
        }
    }
    let mut ranked: Vec<(i64, usize)> = votes.into_iter().collect();
    ranked.sort_by_key(|(offset, count)| (std::cmp::Reverse(*count), *offset));
    let best = ranked.first().map_or(0, |(_, count)| *count);
    ranked.retain(|(_, count)| *count == best);
    ranked.truncate(3);
    ranked
}

/// No line is equal: name the lines most like the first telling one.
fn resembling(wanted: &[&ChunkLine], hay: &Haystack<'_, '_>, line: usize) -> PatchError {
    let telling = wanted.iter().find(|line| line.text.trim().len() > 2).or(wanted.first());
    let (number, text) = telling.map_or((line, ""), |line| (line.line, line.text.as_str()));
    let names = similar_lines(text.as_bytes(), hay);
    let near = match names.as_slice() {
        [] => String::new(),
        lines => format!(" The lines most like it: {}.", lines.join("; ")),
    };
    let message = format!("no line of the file is {}.{near}", show_line(text.as_bytes()));
    PatchError::new(PatchErrorKind::Context, number, message).hint(
        "read the file again and copy the lines around the change exactly; nothing was changed",
    )
}

/// Up to three lines that share most letter pairs with `text`, as "line 7 `…`".
pub(super) fn similar_lines(text: &[u8], hay: &Haystack<'_, '_>) -> Vec<String> {
    let wanted = pairs(text);
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut scored: Vec<(usize, usize)> = Vec::new();
    for (at, line) in hay.lines().take(MAX_LETTERED).enumerate() {
        let has = pairs(line);
        let common = wanted.iter().filter(|pair| has.binary_search(pair).is_ok()).count();
        // Dice's measure in per cent.
        let score = 200 * common / (wanted.len() + has.len()).max(1);
        if score >= 50 {
            scored.push((score, at));
        }
    }
    scored.sort_by_key(|(score, at)| (std::cmp::Reverse(*score), *at));
    let name = |(_, at): &(usize, usize)| {
        format!("line {} {}", at + 1, show_line(hay.line(*at).unwrap_or(b"")))
    };
    scored.iter().take(3).map(name).collect()
}

fn pairs(line: &[u8]) -> Vec<[u8; 2]> {
    let line = line.trim_ascii();
    let head = line.get(..line.len().min(120)).unwrap_or(line);
    let mut pairs: Vec<[u8; 2]> =
        head.windows(2).filter_map(|pair| <[u8; 2]>::try_from(pair).ok()).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// A wanted line that is in the file, but in bytes that are no UTF-8: a patch is text and can't
/// name them.
fn undecodable(wanted: &[&ChunkLine], hay: &Haystack<'_, '_>) -> Option<PatchError> {
    let texts: HashSet<&str> = wanted.iter().map(|line| line.text.as_str()).collect();
    let at = hay.lines().position(|line| {
        std::str::from_utf8(line).is_err()
            && (texts.contains(&*String::from_utf8_lossy(line)) || texts.contains(&*latin1(line)))
    })?;
    let line = hay.line(at)?;
    let broken = wanted
        .iter()
        .find(|wanted| wanted.text == String::from_utf8_lossy(line) || wanted.text == latin1(line));
    let number = broken.or(wanted.first()).map_or(0, |line| line.line);
    let message = format!(
        "line {} of the file is not UTF-8 text, so a patch can't name it: {}.",
        at + 1,
        shorten(&String::from_utf8_lossy(hay.line(at)?), 40)
    );
    Some(
        PatchError::new(PatchErrorKind::Encoding, number, message).hint(
            "leave that line out of the chunk; lines around it can be changed, its bytes stay",
        ),
    )
}

fn latin1(line: &[u8]) -> String {
    line.iter().map(|byte| char::from(*byte)).collect()
}
