//! Masking: the values of all secrets the run knows, in every form they are likely to be printed in,
//! and the user part of URLs. It stands where text leaves the process: rollout, events, reports.
//!
//! Masking is a net under the other measures, not a wall: who can run code can always transform a
//! secret in a way that no list of forms foresees. The wall is that children never get the secret.
//!
//! **What is masked.** A value of at least [`MIN_SECRET`] characters that is no common word (see
//! `words.rs`): as it stands, line by line, trimmed, as a JSON text (once and twice escaped), in
//! base64 (both alphabets, at all three alignments, wrapped at 64 and 76 columns), in hexadecimal,
//! and URL-encoded. The texts inside a secret that is itself JSON count as secrets too. What is too
//! short or too common to be masked is told by [`Masker::skipped`], so that a person can be warned.

mod forms;
mod stream;
mod userinfo;
mod words;

#[cfg(test)]
mod tests;

pub use stream::StreamMasker;

use super::cut::{char_ceil, char_floor};
use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;

/// What stands in place of a secret.
pub const REPLACEMENT: &str = "[masked]";

/// Shorter values are not masked: they would tear ordinary text apart and hide nothing.
pub const MIN_SECRET: usize = 5;

/// At a cut, a piece of a secret at least this long is masked as well.
const MIN_PIECE: usize = 4;

/// A JSON number that is a secret has at least so many digits.
const MIN_NUMBER: usize = 8;

/// A secret that is not masked, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedSecret {
    pub name: String,
    /// Why, as the end of a sentence: `is shorter than 5 characters`.
    pub why: &'static str,
}

/// Finds and replaces secrets. Built once, shared by all who write.
#[derive(Debug, Default)]
pub struct Masker {
    finder: Option<AhoCorasick>,
    /// Length of the longest form.
    longest: usize,
    /// The forms themselves, for the pieces at a cut.
    forms: Vec<Vec<u8>>,
    skipped: Vec<SkippedSecret>,
}

impl Masker {
    /// Takes the secrets as names and values.
    pub fn new<I, N, V>(secrets: I) -> Self
    where
        I: IntoIterator<Item = (N, V)>,
        N: Into<String>,
        V: AsRef<[u8]>,
    {
        let mut all = std::collections::BTreeSet::new();
        let mut skipped = Vec::new();
        for (name, value) in secrets {
            match words::not_maskable(value.as_ref()) {
                Some(why) => skipped.push(SkippedSecret { name: name.into(), why }),
                None => forms::collect(value.as_ref(), &mut all),
            }
        }
        let forms: Vec<Vec<u8>> = all.into_iter().collect();
        let longest = forms.iter().map(Vec::len).max().unwrap_or(0);
        // Building fails only beyond limits that no set of secrets reaches; without a finder
        // everything is masked.
        let finder = if forms.is_empty() {
            None
        } else {
            AhoCorasick::builder().match_kind(MatchKind::Standard).build(&forms).ok()
        };
        Self { finder, longest, forms, skipped }
    }

    /// Knows no secrets; the user part of URLs is masked all the same.
    pub fn none() -> Self {
        Self::default()
    }

    /// The secrets that are too short or too common.
    pub fn skipped(&self) -> &[SkippedSecret] {
        &self.skipped
    }

    /// Masks a text. Borrowed where there is nothing to mask, which is nearly always.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let spans = self.spans(text.as_bytes());
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut at = 0;
        for span in spans {
            // A form that is no UTF-8 could match inside a character: the whole character goes.
            let start = char_floor(text, span.start).max(at);
            masked.push_str(text.get(at..start).unwrap_or_default());
            masked.push_str(REPLACEMENT);
            at = char_ceil(text, span.end);
        }
        masked.push_str(text.get(at..).unwrap_or_default());
        Cow::Owned(masked)
    }

    /// Masks bytes of any kind.
    pub fn mask_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let spans = self.spans(bytes);
        if spans.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut masked = Vec::with_capacity(bytes.len());
        let mut at = 0;
        for span in spans {
            masked.extend_from_slice(&bytes[at..span.start]);
            masked.extend_from_slice(REPLACEMENT.as_bytes());
            at = span.end;
        }
        masked.extend_from_slice(&bytes[at..]);
        Cow::Owned(masked)
    }

    /// Masks every text inside a JSON value, keys included, on the decoded strings.
    pub fn mask_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = self.mask(text) {
                    *text = masked;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|inner| self.mask_value(inner)),
            Value::Object(map) => {
                map.values_mut().for_each(|inner| self.mask_value(inner));
                if map.keys().any(|key| matches!(self.mask(key), Cow::Owned(_))) {
                    let entries = std::mem::take(map);
                    *map = entries
                        .into_iter()
                        .map(|(key, inner)| (self.mask(&key).into_owned(), inner))
                        .collect();
                }
            }
            Value::Number(number) => {
                // A secret of digits that some tool printed as a JSON number. Only a whole long
                // number, because a count or a duration must stay a number.
                let text = number.to_string();
                if text.len() >= MIN_NUMBER && self.mask(&text) == REPLACEMENT {
                    *value = Value::String(REPLACEMENT.to_owned());
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Whether a known secret stands in these bytes, in any form.
    pub fn finds_secret(&self, bytes: &[u8]) -> bool {
        match &self.finder {
            Some(finder) => finder.is_match(bytes),
            None => !self.forms.is_empty(),
        }
    }

    /// Masks what an earlier cut left of a secret at its edges: the end of `head` and the start of
    /// `tail`, between which something was left out before masking.
    pub fn mask_cut(&self, head: &str, tail: &str) -> (String, String) {
        let head_piece = self.longest_piece(|form, length| {
            head.as_bytes().ends_with(form.get(..length).unwrap_or_default())
        });
        let tail_piece = self.longest_piece(|form, length| {
            let start = form.len() - length;
            tail.as_bytes().starts_with(form.get(start..).unwrap_or_default())
        });
        let mut head_kept = head.to_owned();
        if let Some(length) = head_piece {
            head_kept.truncate(char_floor(head, head.len() - length));
        }
        let tail_kept = &tail[char_ceil(tail, tail_piece.unwrap_or(0))..];
        let mut masked_head = self.mask(&head_kept).into_owned();
        let mut masked_tail = self.mask(tail_kept).into_owned();
        if head_piece.is_some() {
            masked_head.push_str(REPLACEMENT);
        }
        if tail_piece.is_some() {
            masked_tail.insert_str(0, REPLACEMENT);
        }
        (masked_head, masked_tail)
    }

    /// The longest proper piece of any form for which `fits` holds.
    fn longest_piece(&self, fits: impl Fn(&[u8], usize) -> bool) -> Option<usize> {
        let longest_of = |form: &Vec<u8>| (MIN_PIECE..form.len()).rev().find(|n| fits(form, *n));
        self.forms.iter().filter_map(longest_of).max()
    }

    /// What must go, in order, not overlapping.
    fn spans(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        if self.finder.is_none() && !self.forms.is_empty() && !bytes.is_empty() {
            spans.push(0..bytes.len());
        }
        if let Some(finder) = &self.finder
            && let Some(first) = finder.find(bytes)
        {
            // Overlapping, because the rest of a secret that another one overlaps must go too. The
            // first hit is looked for alone: it is fast, and mostly there is none. A longer form may
            // begin before the one that ends first, but not more than its own length before.
            let from = first.start().saturating_sub(self.longest);
            let rest = bytes.get(from..).unwrap_or_default();
            spans.extend(
                finder.find_overlapping_iter(rest).map(|hit| from + hit.start()..from + hit.end()),
            );
        }
        userinfo::collect(bytes, &mut spans);
        merge(spans)
    }
}

/// Joins spans that overlap; spans that only touch stay two.
fn merge(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    if spans.len() > 1 {
        spans.sort_by_key(|span| (span.start, span.end));
    }
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}
