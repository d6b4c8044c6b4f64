//! Where a run of lines stands in a file: the matching ladder.
//!
//! The rungs, each tried only if the one before found nothing at all: the bytes as they are; then
//! without trailing white space; then without white space at both ends; then with look-alike
//! characters taken as one (models write `-` and `"` where a file has `–` and `“`). All places of
//! the winning rung come back, because more than one is a question that somebody must answer.
//!
//! The search is linear (Knuth, Morris and Pratt) whatever the lines are: a file of a million equal
//! lines costs no more than any other.

use std::borrow::Cow;
use std::cell::OnceCell;

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
}

impl<'a> Haystack<'a> {
    pub(super) fn new(lines: Vec<&'a [u8]>) -> Self {
        Self { lines, views: Default::default() }
    }

    pub(super) fn lines(&self) -> &[&'a [u8]] {
        &self.lines
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
        if rung == Rung::Exact {
            return occurrences(pattern, &self.lines, |a, b| a == b);
        }
        let pattern: Vec<Cow<'_, [u8]>> = pattern.iter().map(|line| rung.view(line)).collect();
        occurrences(&pattern, self.view(rung), |a, b| a == b)
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
