//! Patch text: read, read in pieces, planned against a few files, and edited with.

use std::collections::{BTreeMap, BTreeSet};
use turnkey::patch::{self, FileState, Files, Parser, Plan};

struct Memory(BTreeMap<&'static str, &'static [u8]>);

impl Files for Memory {
    fn read(&self, path: &str) -> Result<Option<FileState>, String> {
        if let Some(bytes) = self.0.get(path) {
            let mode = if path == "b" { 0o755 } else { 0o644 };
            return Ok(Some(FileState::Regular { bytes: (*bytes).into(), mode }));
        }
        let inside = format!("{path}/");
        let folder = self.0.keys().any(|known| known.starts_with(&inside));
        Ok(folder.then_some(FileState::Directory))
    }
}

fn files() -> Memory {
    Memory(BTreeMap::from([
        ("a", b"one\ntwo\nthree\n".as_slice()),
        ("b", b"\xef\xbb\xbfone\r\ntwo\r\n\r\nend".as_slice()),
        ("d/c", b"x\n\xff\xfe\nx\n\n\n".as_slice()),
        ("empty", b"".as_slice()),
    ]))
}

pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let whole = patch::parse(&text);
    // However the text arrives, it is the same patch.
    let mut parser = Parser::new();
    let step = 1 + usize::from(data.first().copied().unwrap_or(0)) % 7;
    let letters: Vec<char> = text.chars().collect();
    for piece in letters.chunks(step) {
        parser.feed(&piece.iter().collect::<String>());
    }
    assert_eq!(parser.finish(), whole, "another patch when it comes in pieces");
    let files = files();
    if let Ok(parsed) = &whole {
        check(patch::plan(parsed, &files).ok());
    }
    let (old, new) = text.split_at(text.char_indices().nth(letters.len() / 2).map_or(0, |at| at.0));
    check(patch::edit("a", old, new, &files).ok());
}

/// A plan changes each path once, and only from what is there.
fn check(plan: Option<Plan>) {
    let Some(plan) = plan else { return };
    let mut seen = BTreeSet::new();
    for change in &plan.changes {
        assert!(seen.insert(change.path.clone()), "{} twice", change.path);
        assert_eq!(change.before, files().read(&change.path).unwrap_or(None), "{}", change.path);
        assert!(change.before.is_some() || change.after.is_some());
    }
}
