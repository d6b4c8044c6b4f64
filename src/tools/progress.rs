//! The files that patches name while their text still streams in: shown to people, never acted on.

use crate::patch::Watcher;
use std::collections::BTreeMap;

/// Calls of one response that are watched; a response has a few.
const MAX_CALLS: usize = 64;

/// A file that an arriving patch names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// `add`, `update`, `delete`, `move to`.
    pub action: &'static str,
    pub path: String,
}

/// Watches the arguments of the calls of one response, whatever tool they are for: only a patch
/// has the lines that name files.
#[derive(Debug, Default)]
pub struct PatchWatch {
    calls: BTreeMap<u32, Watcher>,
}

impl PatchWatch {
    /// Takes the next piece of the arguments of the call at this place of the response.
    pub fn feed(&mut self, output_index: u32, piece: &str) -> Vec<NamedFile> {
        if !self.calls.contains_key(&output_index) && self.calls.len() >= MAX_CALLS {
            return Vec::new();
        }
        let watcher = self.calls.entry(output_index).or_default();
        let named = watcher.feed(piece).into_iter();
        named.map(|found| NamedFile { action: found.action.verb(), path: found.path }).collect()
    }

    /// The response failed and comes again from its beginning.
    pub fn reset(&mut self) {
        self.calls.clear();
    }
}
