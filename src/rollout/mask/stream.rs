//! Masking of a stream that comes in chunks: a secret cut anywhere, down to one byte per chunk, is
//! masked as if the text had come whole.

use super::userinfo::{self, MAX_SCHEME};
use super::{Masker, REPLACEMENT, merge};
use std::sync::Arc;

/// Always held back: room for a scheme and its `://`.
const MIN_HELD: usize = 32;

/// Holds back the end of what came, as long as a secret could still begin in it.
pub struct StreamMasker {
    masker: Arc<Masker>,
    held: Vec<u8>,
    /// So many bytes at the start of `held` belong to a secret that is already replaced.
    hidden: usize,
}

impl StreamMasker {
    pub fn new(masker: Arc<Masker>) -> Self {
        Self { masker, held: Vec::new(), hidden: 0 }
    }

    /// Takes a chunk and gives what is safe to show.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(chunk);
        let window = self.masker.longest.saturating_sub(1).max(MIN_HELD);
        let cut = self.held.len().saturating_sub(window);
        self.give(self.before_urls(cut))
    }

    /// Gives the rest.
    pub fn finish(&mut self) -> Vec<u8> {
        self.give(self.held.len())
    }

    /// Moves a cut in front of any URL whose authority it would split or whose end is not yet seen.
    fn before_urls(&self, mut cut: usize) -> usize {
        let places: Vec<_> = userinfo::places(&self.held).collect();
        for place in places.iter().rev() {
            let start = place.colon.saturating_sub(MAX_SCHEME + 1);
            if start < cut && (place.open || place.authority.end > cut) {
                cut = start;
            }
        }
        cut
    }

    /// Shows everything before `cut`, masked, and keeps the rest.
    fn give(&mut self, cut: usize) -> Vec<u8> {
        let mut shown = Vec::with_capacity(cut);
        let mut spans = self.masker.spans(&self.held);
        if self.hidden > 0 {
            spans.push(0..self.hidden);
            spans = merge(spans);
        }
        let mut at = self.hidden;
        for span in spans.iter().take_while(|span| span.start < cut) {
            shown.extend_from_slice(self.held.get(at..span.start).unwrap_or_default());
            if span.start > 0 || self.hidden == 0 {
                shown.extend_from_slice(REPLACEMENT.as_bytes());
            }
            at = span.end;
        }
        if at < cut {
            shown.extend_from_slice(&self.held[at..cut]);
        }
        self.held.drain(..cut);
        self.hidden = at.saturating_sub(cut);
        shown
    }
}
