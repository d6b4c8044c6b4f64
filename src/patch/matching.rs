//! Where a run of lines stands in a file: the matching ladder.
//!
//! The rungs, each tried only if the one before found nothing at all: the bytes as they are; then
//! without trailing white space; then without white space at both ends; then with look-alike
//! characters taken as one (models write `-` and `"` where a file has `–` and `“`). All places of
//! the winning rung come back, because more than one is a question that somebody must answer.
//!
//! The search is linear (Knuth, Morris and Pratt) whatever the lines are: a file of a million equal
//! lines costs no more than any other. For patches with many chunks an index leads straight to the
//! places where a chunk's rarest line stands.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::HashMap;

/// How closely a place fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rung {
    Exact,
    TrailingSpace,
    BothEnds,
    LookAlike,
}

impl Rung {
    pub(super) const ALL: [Self; 4] =
        [Self::Exact, Self::TrailingSpace, Self::BothEnds, Self::LookAlike];

    /// What was overlooked, for notes; `None` for an exact fit.
    pub(super) fn overlooked(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::TrailingSpace => Some("trailing white space"),
            Self::BothEnds => Some("indentation and trailing white space"),
            Self::LookAlike => Some("look-alike characters (dashes, quotes, spaces)"),
        }
    }

    /// The line as this rung sees it.
    fn view(self, line: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Exact => Cow::Borrowed(line),
            Self::TrailingSpace => Cow::Borrowed(line.trim_ascii_end()),
            Self::BothEnds => Cow::Borrowed(line.trim_ascii()),
            Self::LookAlike => fold(line),
        }
    }
}

/// The lines of one file, with the view of each rung made once and only when it is needed.
pub(super) struct Haystack<'a> {
    lines: Vec<&'a [u8]>,
    views: [OnceCell<Vec<Cow<'a, [u8]>>>; 4],
    /// Where lines with a given hash stand, per rung.
    indices: [OnceCell<HashMap<u64, Vec<usize>>>; 4],
    searches: Cell<usize>,
    work: Cell<u64>,
}

/// After so many searches in one file an index pays.
const SEARCHES_BEFORE_INDEX: usize = 3;

impl<'a> Haystack<'a> {
    pub(super) fn new(lines: Vec<&'a [u8]>) -> Self {
        Self {
            lines,
            views: Default::default(),
            indices: Default::default(),
            searches: Cell::new(0),
            work: Cell::new(0),
        }
    }

    pub(super) fn lines(&self) -> &[&'a [u8]] {
        &self.lines
    }

    /// How many lines have been compared so far.
    pub(super) fn work(&self) -> u64 {
        self.work.get()
    }

    fn worked(&self, lines: usize) {
        self.work.set(self.work.get().saturating_add(lines as u64));
    }

    fn view(&self, rung: Rung) -> &[Cow<'a, [u8]>] {
        let build = || self.lines.iter().map(|line| rung.view(line)).collect();
        match self.views.get(rung as usize) {
            Some(cell) => cell.get_or_init(build),
            None => &[],
        }
    }

    /// Every line at which `pattern` begins, as `rung` sees both.
    pub(super) fn find(&self, pattern: &[&[u8]], rung: Rung) -> Vec<usize> {
        if pattern.is_empty() || pattern.len() > self.lines.len() {
            return Vec::new();
        }
        let pattern: Vec<Cow<'_, [u8]>> = pattern.iter().map(|line| rung.view(line)).collect();
        let text = self.view(rung);
        self.searches.set(self.searches.get() + 1);
        if self.searches.get() > SEARCHES_BEFORE_INDEX
            && let Some(found) = self.find_by_index(&pattern, text, rung)
        {
            return found;
        }
        self.worked(text.len() + pattern.len());
        occurrences(&pattern, text, |a, b| a == b)
    }

    /// The same by way of the pattern's rarest line; `None` if no line is rare enough.
    fn find_by_index(
        &self,
        pattern: &[Cow<'_, [u8]>],
        text: &[Cow<'_, [u8]>],
        rung: Rung,
    ) -> Option<Vec<usize>> {
        let index = self.indices.get(rung as usize)?.get_or_init(|| {
            let mut index: HashMap<u64, Vec<usize>> = HashMap::new();
            for (at, line) in text.iter().enumerate() {
                index.entry(hash(line)).or_default().push(at);
            }
            index
        });
        let places = pattern
            .iter()
            .enumerate()
            .map(|(offset, line)| (offset, index.get(&hash(line)).map_or(&[][..], Vec::as_slice)));
        let (offset, places) = places.min_by_key(|(_, places)| places.len())?;
        if places.len().saturating_mul(pattern.len()) > text.len() + pattern.len() {
            return None;
        }
        self.worked(places.len() * pattern.len() + pattern.len());
        let fits = |start: &usize| text.get(*start..start + pattern.len()) == Some(pattern);
        Some(places.iter().filter_map(|at| at.checked_sub(offset)).filter(fits).collect())
    }

    /// The lines that `anchor` names: the rungs for whole lines, then lines that begin with it,
    /// then lines that hold it. Only anchors may match a part of a line, for they replace nothing.
    pub(super) fn find_anchor(&self, anchor: &str, keep: impl Fn(usize) -> bool) -> Vec<usize> {
        for rung in Rung::ALL {
            let mut found = self.find(&[anchor.as_bytes()], rung);
            found.retain(|line| keep(*line));
            if !found.is_empty() {
                return found;
            }
        }
        let wanted = fold(anchor.as_bytes());
        self.worked(self.lines.len() * 4);
        let folded = self.view(Rung::LookAlike);
        let part = |fits: &dyn Fn(&[u8]) -> bool| -> Vec<usize> {
            let lines = folded.iter().enumerate();
            lines.filter(|(line, text)| keep(*line) && fits(text)).map(|(line, _)| line).collect()
        };
        let begins = part(&|text| text.starts_with(&wanted));
        if begins.is_empty() { part(&|text| contains(text, &wanted)) } else { begins }
    }
}

/// Whether `needle` stands anywhere in `text`.
pub(super) fn contains(text: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && !occurrences(needle, text, |a, b| a == b).is_empty()
}

/// Every place at which `pattern` stands in `text`, overlapping ones included.
pub(super) fn occurrences<P: PartialEq, T>(
    pattern: &[P],
    text: &[T],
    equal: impl Fn(&P, &T) -> bool,
) -> Vec<usize> {
    let borders = borders(pattern);
    let border = |length: usize| borders.get(length.wrapping_sub(1)).copied().unwrap_or(0);
    let mut found = Vec::new();
    let mut matched = 0;
    for (index, item) in text.iter().enumerate() {
        loop {
            if pattern.get(matched).is_some_and(|wanted| equal(wanted, item)) {
                matched += 1;
                break;
            }
            if matched == 0 {
                break;
            }
            matched = border(matched);
        }
        if matched == pattern.len() && matched > 0 {
            found.push(index + 1 - matched);
            matched = border(matched);
        }
    }
    found
}

/// FNV-1a. Equal hashes only propose a place; the lines themselves are compared.
fn hash(line: &[u8]) -> u64 {
    line.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// For each prefix of the pattern, the length of its longest border.
fn borders<P: PartialEq>(pattern: &[P]) -> Vec<usize> {
    let mut borders = vec![0; pattern.len()];
    let mut length = 0;
    for (index, item) in pattern.iter().enumerate().skip(1) {
        while length > 0 && pattern.get(length) != Some(item) {
            length = borders.get(length - 1).copied().unwrap_or(0);
        }
        if pattern.get(length) == Some(item) {
            length += 1;
        }
        if let Some(slot) = borders.get_mut(index) {
            *slot = length;
        }
    }
    borders
}

/// The line with look-alikes replaced by the character a keyboard has, white space trimmed. Bytes
/// that are not UTF-8 stay as they are and so match nothing a patch can say.
pub(super) fn fold(line: &[u8]) -> Cow<'_, [u8]> {
    if line.is_ascii() {
        return Cow::Borrowed(line.trim_ascii());
    }
    let Ok(text) = std::str::from_utf8(line) else { return Cow::Borrowed(line.trim_ascii()) };
    let mut folded = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' => folded.push('-'),
            '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{2bc}' | '\u{b4}' => folded.push('\''),
            '\u{201c}'..='\u{201f}' | '\u{2033}' => folded.push('"'),
            '\u{a0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200a}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{3000}' => folded.push(' '),
            '\u{2026}' => folded.push_str("..."),
            // Invisible characters that a model doesn't repeat.
            '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}' => {}
            // Full-width forms of ASCII.
            '\u{ff01}'..='\u{ff5e}' => {
                folded.push(char::from_u32(character as u32 - 0xfee0).unwrap_or(character));
            }
            other => folded.push(other),
        }
    }
    Cow::Owned(folded.as_bytes().trim_ascii().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn occurrences_agree_with_looking_everywhere(
            text in proptest::collection::vec(0u8..3, 0..40),
            pattern in proptest::collection::vec(0u8..3, 1..5),
        ) {
            let slow: Vec<usize> = text
                .windows(pattern.len())
                .enumerate()
                .filter(|(_, window)| *window == pattern)
                .map(|(index, _)| index)
                .collect();
            prop_assert_eq!(occurrences(&pattern, &text, |a, b| a == b), slow);
        }
    }

    proptest! {
        #[test]
        fn the_index_finds_what_the_search_finds(
            text in proptest::collection::vec("[ab]{0,1} ?", 0..40),
            pattern in proptest::collection::vec("[ab]{0,1} ?", 1..4),
        ) {
            let bytes = |lines: &'_ [String]| -> Vec<Vec<u8>> {
                lines.iter().map(|line| line.as_bytes().to_vec()).collect()
            };
            let (text, pattern) = (bytes(&text), bytes(&pattern));
            let hay = Haystack::new(text.iter().map(Vec::as_slice).collect());
            let pattern: Vec<&[u8]> = pattern.iter().map(Vec::as_slice).collect();
            for rung in Rung::ALL {
                let views: Vec<_> = pattern.iter().map(|line| rung.view(line)).collect();
                if let Some(found) = hay.find_by_index(&views, hay.view(rung), rung) {
                    prop_assert_eq!(found, occurrences(&views, hay.view(rung), |a, b| a == b));
                }
            }
        }
    }

    #[test]
    fn look_alikes_fold() {
        let folded = |text: &str| String::from_utf8(fold(text.as_bytes()).into_owned()).unwrap();
        assert_eq!(folded(" top–level “x”\u{a0}y… "), "top-level \"x\" y...");
        assert_eq!(folded("ｆｏｏ（１）"), "foo(1)");
        assert_eq!(fold(b" \xD6\xD0 ").as_ref(), b"\xD6\xD0");
    }

    #[test]
    fn a_lower_rung_is_left_alone_when_a_higher_one_finds() {
        let hay = Haystack::new(vec![b"  x", b"x", b"x "]);
        assert_eq!(hay.find(&[b"x"], Rung::Exact), [1]);
        assert_eq!(hay.find(&[b"x"], Rung::TrailingSpace), [1, 2]);
        assert_eq!(hay.find(&[b"x"], Rung::BothEnds), [0, 1, 2]);
        assert_eq!(hay.find_anchor("x", |line| line != 1), [2]);
    }
}
