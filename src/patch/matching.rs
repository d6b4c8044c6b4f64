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

use super::lines::Text;

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

/// The lines of one file, to be searched.
pub(super) struct Haystack<'t, 'a> {
    text: &'t Text<'a>,
    /// The folded form of each line that has one of its own, made when it is first needed.
    folded: OnceCell<HashMap<usize, Vec<u8>>>,
    /// Hash and position of every line, sorted, per rung.
    indices: [OnceCell<Vec<(u64, u32)>>; 4],
    searches: Cell<usize>,
    work: Cell<u64>,
}

/// After so many searches in one file an index pays.
const SEARCHES_BEFORE_INDEX: usize = 3;

impl<'t, 'a> Haystack<'t, 'a> {
    pub(super) fn new(text: &'t Text<'a>) -> Self {
        Self {
            text,
            folded: OnceCell::new(),
            indices: Default::default(),
            searches: Cell::new(0),
            work: Cell::new(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The line without its ending; `None` beyond the end.
    pub(super) fn line(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.text.body(index))
    }

    pub(super) fn lines(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator {
        self.text.bodies()
    }

    /// How many lines have been compared so far.
    pub(super) fn work(&self) -> u64 {
        self.work.get()
    }

    fn worked(&self, lines: usize) {
        self.work.set(self.work.get().saturating_add(lines as u64));
    }

    /// The line as `rung` sees it.
    fn view(&self, rung: Rung, index: usize) -> &[u8] {
        let line = self.text.body(index);
        match rung {
            Rung::Exact => line,
            Rung::TrailingSpace => line.trim_ascii_end(),
            Rung::BothEnds => line.trim_ascii(),
            Rung::LookAlike if line.is_ascii() => line.trim_ascii(),
            Rung::LookAlike => {
                let folded = self.folded.get_or_init(|| self.fold_all());
                folded.get(&index).map_or(line.trim_ascii(), Vec::as_slice)
            }
        }
    }

    fn fold_all(&self) -> HashMap<usize, Vec<u8>> {
        let lines = self.lines().enumerate().filter(|(_, line)| !line.is_ascii());
        lines.map(|(index, line)| (index, fold(line).into_owned())).collect()
    }

    /// Every line at which `pattern` begins, as `rung` sees both.
    pub(super) fn find(&self, pattern: &[&[u8]], rung: Rung) -> Vec<usize> {
        if pattern.is_empty() || pattern.len() > self.len() {
            return Vec::new();
        }
        let pattern: Vec<Cow<'_, [u8]>> = pattern.iter().map(|line| rung.view(line)).collect();
        self.searches.set(self.searches.get() + 1);
        if self.searches.get() > SEARCHES_BEFORE_INDEX
            && let Some(found) = self.find_by_index(&pattern, rung)
        {
            return found;
        }
        self.find_by_search(&pattern, rung)
    }

    fn find_by_search(&self, pattern: &[Cow<'_, [u8]>], rung: Rung) -> Vec<usize> {
        self.worked(self.len() + pattern.len());
        occurrences(pattern, 0..self.len(), |wanted, at| **wanted == *self.view(rung, at)).collect()
    }

    /// The same by way of the pattern's rarest line; `None` if no line is rare enough.
    fn find_by_index(&self, pattern: &[Cow<'_, [u8]>], rung: Rung) -> Option<Vec<usize>> {
        let index = self.indices.get(rung as usize)?.get_or_init(|| {
            let hash_of = |at: usize| (hash(self.view(rung, at)), at as u32);
            let mut index: Vec<(u64, u32)> = (0..self.len()).map(hash_of).collect();
            index.sort_unstable();
            index
        });
        let places = |line: &[u8]| {
            let hash = hash(line);
            let from = index.partition_point(|(other, _)| *other < hash);
            let to = index.partition_point(|(other, _)| *other <= hash);
            index.get(from..to).unwrap_or(&[])
        };
        let rarest = pattern.iter().enumerate().map(|(offset, line)| (offset, places(line)));
        let (offset, places) = rarest.min_by_key(|(_, places)| places.len())?;
        if places.len().saturating_mul(pattern.len()) > self.len() + pattern.len() {
            return None;
        }
        self.worked(places.len() * pattern.len() + pattern.len());
        let fits = |start: &usize| {
            let wanted = pattern.iter().enumerate();
            start + pattern.len() <= self.len()
                && wanted.into_iter().all(|(at, line)| **line == *self.view(rung, start + at))
        };
        let starts = places.iter().filter_map(|(_, at)| (*at as usize).checked_sub(offset));
        Some(starts.filter(fits).collect())
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
        self.worked(self.len() * 4);
        let part = |fits: &dyn Fn(&[u8]) -> bool| -> Vec<usize> {
            let fits = |line: &usize| keep(*line) && fits(self.view(Rung::LookAlike, *line));
            (0..self.len()).filter(fits).collect()
        };
        let begins = part(&|text| text.starts_with(&wanted));
        if begins.is_empty() { part(&|text| contains(text, &wanted)) } else { begins }
    }
}

/// Whether `needle` stands anywhere in `text`.
pub(super) fn contains(text: &[u8], needle: &[u8]) -> bool {
    let Some((first, rest)) = needle.split_first() else { return false };
    let starts = text.iter().enumerate().filter(|(_, byte)| *byte == first);
    // Anchors are short; looking at each place costs no more than a table would.
    starts.into_iter().any(|(at, _)| text.get(at + 1..).is_some_and(|tail| tail.starts_with(rest)))
}

/// Every place at which `pattern` stands in `text`, overlapping ones included, one by one.
pub(super) fn occurrences<P: PartialEq, T: Copy>(
    pattern: &[P],
    text: impl IntoIterator<Item = T>,
    equal: impl Fn(&P, T) -> bool,
) -> impl Iterator<Item = usize> {
    let borders = borders(pattern);
    let mut text = text.into_iter().enumerate();
    let mut matched = 0;
    std::iter::from_fn(move || {
        let border = |length: usize| borders.get(length.wrapping_sub(1)).copied().unwrap_or(0);
        for (index, item) in text.by_ref() {
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
                let found = index + 1 - matched;
                matched = border(matched);
                return Some(found);
            }
        }
        None
    })
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
            let found: Vec<usize> = occurrences(&pattern, &text, |a, b| a == b).collect();
            prop_assert_eq!(found, slow);
        }
    }

    proptest! {
        #[test]
        fn the_index_finds_what_the_search_finds(
            text in proptest::collection::vec("[ab]{0,1} ?", 0..40),
            pattern in proptest::collection::vec("[ab]{0,1} ?", 1..4),
        ) {
            let joined = text.join("\n");
            let text = Text::new(joined.as_bytes());
            let hay = Haystack::new(&text);
            for rung in Rung::ALL {
                let views: Vec<_> = pattern.iter().map(|line| rung.view(line.as_bytes())).collect();
                if pattern.len() <= hay.len()
                    && let Some(found) = hay.find_by_index(&views, rung)
                {
                    prop_assert_eq!(found, hay.find_by_search(&views, rung));
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
        let text = Text::new(b"  x\nx\nx \n");
        let hay = Haystack::new(&text);
        assert_eq!(hay.find(&[b"x"], Rung::Exact), [1]);
        assert_eq!(hay.find(&[b"x"], Rung::TrailingSpace), [1, 2]);
        assert_eq!(hay.find(&[b"x"], Rung::BothEnds), [0, 1, 2]);
        assert_eq!(hay.find_anchor("x", |line| line != 1), [2]);
    }
}
