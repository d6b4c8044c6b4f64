//! What patches do to files: one table per promise, all in memory.

mod field_cases;
mod grammar;
mod operations;
mod random;

use std::collections::BTreeMap;

use super::*;

/// Files in memory; folders exist through what is in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Memory(pub BTreeMap<String, FileState>);

impl Memory {
    fn new<const N: usize>(files: [(&str, &[u8]); N]) -> Self {
        let mut memory = Self::default();
        for (path, bytes) in files {
            memory.file(path, bytes, 0o644);
        }
        memory
    }

    fn file(&mut self, path: &str, bytes: &[u8], mode: u32) {
        self.0.insert(path.to_owned(), FileState::Regular { bytes: bytes.into(), mode });
    }

    fn link(&mut self, path: &str, target: &str) {
        self.0.insert(path.to_owned(), FileState::Symlink { target: target.into() });
    }

    fn bytes(&self, path: &str) -> Option<&[u8]> {
        match self.0.get(path) {
            Some(FileState::Regular { bytes, .. }) => Some(bytes),
            _ => None,
        }
    }

    /// Commits a plan the way the door does, checking what each change says was there.
    fn commit(&mut self, plan: &Plan) {
        for change in &plan.changes {
            assert_eq!(self.0.get(&change.path), change.before.as_ref(), "{}", change.path);
            match &change.after {
                Some(NewFile { bytes, mode, .. }) => {
                    // Folders that a write needs are free by now.
                    for (end, _) in change.path.match_indices('/') {
                        assert!(!self.0.contains_key(&change.path[..end]), "{}", change.path);
                    }
                    let state = FileState::Regular { bytes: bytes.clone(), mode: *mode };
                    self.0.insert(change.path.clone(), state);
                }
                None => drop(self.0.remove(&change.path)),
            }
        }
    }
}

impl Files for Memory {
    fn read(&self, path: &str) -> Result<Option<FileState>, String> {
        if let Some(state) = self.0.get(path) {
            return Ok(Some(state.clone()));
        }
        let inside = format!("{path}/");
        Ok(self.0.keys().any(|known| known.starts_with(&inside)).then_some(FileState::Directory))
    }
}

/// The text between the markers as a whole patch.
fn wrap(body: &str) -> String {
    format!("*** Begin Patch\n{}\n*** End Patch\n", body.trim_end_matches('\n'))
}

fn plan_text(text: &str, files: &Memory) -> Result<Plan, PatchError> {
    plan(&parse(text)?, files)
}

/// Updates the only file `f` and gives its new bytes.
fn update(before: &[u8], chunks: &str) -> Result<Vec<u8>, PatchError> {
    let mut files = Memory::new([("f", before)]);
    let plan = plan_text(&wrap(&format!("*** Update File: f\n{chunks}")), &files)?;
    files.commit(&plan);
    Ok(files.bytes("f").unwrap_or(b"").to_vec())
}

#[track_caller]
fn updates(before: &[u8], chunks: &str, after: &[u8]) {
    match update(before, chunks) {
        Ok(got) => assert_eq!(
            String::from_utf8_lossy(&got).escape_debug().to_string(),
            String::from_utf8_lossy(after).escape_debug().to_string(),
            "{chunks}"
        ),
        Err(error) => panic!("{error}\n{chunks}"),
    }
}

#[track_caller]
fn refuses(before: &[u8], chunks: &str, kind: PatchErrorKind) -> PatchError {
    let error = update(before, chunks).expect_err(chunks);
    assert_eq!(error.kind, kind, "{error}\n{chunks}");
    error
}
