//! The Turn diff: what the Turn changed, whoever made the change, with the proof that it applies.

use crate::clock;
use crate::diff::{self, Diff, DiffOptions, FileChange, TreeEntry};
use crate::rollout::{DiffRecord, FileChangeRecord, FileStatus};
use crate::workspace::{By, Workspace, WorkspaceError};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long the search for a small diff may take before a coarse one is written.
const DIFF_PATIENCE: Duration = Duration::from_secs(5);

/// What a Turn changed.
#[derive(Debug, Default)]
pub struct Evidence {
    pub diff: Diff,
    pub record: DiffRecord,
    /// What git's format has no words for, and where the truth is not known to the last byte.
    pub not_in_diff: Vec<String>,
    pub inexact: Vec<String>,
    /// Files of git's own that the Turn changed and that later git commands run or obey.
    pub git_changes: Vec<String>,
    /// Why the diff, applied to the start, does not give the end. Set only by a bug of ours.
    pub disproved: Option<String>,
    after: BTreeMap<Vec<u8>, Option<TreeEntry>>,
    before: BTreeMap<Vec<u8>, Option<TreeEntry>>,
}

/// Compares the tree as it is with the start. Without an effect nothing was captured, and nothing
/// changed.
pub fn take(workspace: &mut Workspace) -> Result<Evidence, WorkspaceError> {
    if !workspace.is_captured() {
        let diff = Diff::default();
        let record =
            DiffRecord { proven: true, digest: digest(&diff.bytes), ..DiffRecord::default() };
        return Ok(Evidence { diff, record, ..Evidence::default() });
    }
    let changes = workspace.turn_changes()?;
    let files = changes.files;
    let mut by: BTreeMap<Vec<u8>, Vec<String>> = BTreeMap::new();
    for attribution in &changes.attribution {
        let calls = by.entry(attribution.path.clone()).or_default();
        calls.extend(attribution.calls.iter().map(|call| match call.by {
            By::Patch => format!("patch:{}", call.id),
            By::Command => format!("command:{}", call.id),
            By::Hook => format!("hook:{}", call.id),
        }));
        if attribution.outside {
            calls.push("outside".into());
        }
    }
    let before = files.iter().map(|file| (file.path.clone(), file.before.clone())).collect();
    let after = files.iter().map(|file| (file.path.clone(), file.after.clone())).collect();
    let options =
        DiffOptions { deadline: Some(clock::now() + DIFF_PATIENCE), ..DiffOptions::default() };
    let diff = diff::write_diff(files, &options);
    let disproved = prove(&diff, &before, &after).err();
    let record = DiffRecord {
        turn: None,
        start_tree: changes.start_tree.map(|oid| oid.hex()).unwrap_or_default(),
        end_tree: changes.end_tree.map(|oid| oid.hex()).unwrap_or_default(),
        proven: disproved.is_none() && changes.exact,
        digest: digest(&diff.bytes),
        added: diff.added as u64,
        removed: diff.removed as u64,
        files: file_records(&diff, &by),
    };
    Ok(Evidence {
        record,
        not_in_diff: changes
            .not_expressible
            .iter()
            .map(|entry| format!("{}: {}", String::from_utf8_lossy(&entry.path), entry.what))
            .collect(),
        inexact: changes.reasons,
        git_changes: changes
            .git_warnings
            .iter()
            .map(|warning| format!("{} {}", warning.what, warning.path.display()))
            .collect(),
        disproved,
        after,
        before,
        diff,
    })
}

impl Evidence {
    /// Whether what the Turn added holds something that `found` knows: added lines, whole new and
    /// binary files, and names. What it took away or left alone does not count.
    pub fn adds(&self, found: &dyn Fn(&[u8]) -> bool) -> bool {
        self.diff.files.iter().any(|file| {
            let old = file.old_path.as_ref().unwrap_or(&file.path);
            let change = FileChange {
                path: file.path.clone(),
                before: self.before.get(old).cloned().flatten(),
                after: self.after.get(&file.path).cloned().flatten(),
            };
            let new_name = change.after.is_some() && (change.before.is_none() || *old != file.path);
            (new_name && found(&file.path))
                || found(&diff::added_text(&change, &DiffOptions::default()))
        })
    }

    /// Of these paths, those that this Turn changed, with their end.
    pub fn ends_of(&self, paths: &BTreeSet<String>) -> BTreeMap<String, Option<TreeEntry>> {
        let ends = paths.iter().filter_map(|path| {
            let end = self.after.get(path.as_bytes())?;
            Some((path.clone(), end.clone()))
        });
        ends.collect()
    }

    /// Puts back whatever differs from this by now, and names it: changes of commands that have no say
    /// in the work.
    pub fn put_back(&self, workspace: &mut Workspace) -> Result<Vec<String>, WorkspaceError> {
        let now = take(workspace)?;
        let mut undone = Vec::new();
        for (path, entry) in self.what_changed_since(&now) {
            workspace.put_back(&path, entry.as_ref())?;
            undone.push(String::from_utf8_lossy(&path).into_owned());
        }
        Ok(undone)
    }

    /// Paths whose end differs between this and a later evidence, with their state here.
    fn what_changed_since(&self, later: &Self) -> Vec<(Vec<u8>, Option<TreeEntry>)> {
        let mut changed = Vec::new();
        for (path, after) in &later.after {
            // A path that is not in the earlier diff was as at the start.
            let here = self.after.get(path).or_else(|| later.before.get(path)).cloned().flatten();
            if here != *after {
                changed.push((path.clone(), here));
            }
        }
        for (path, after) in &self.after {
            if !later.after.contains_key(path) {
                changed.push((path.clone(), after.clone()));
            }
        }
        changed
    }
}

/// Applies the diff to the start and compares with the end.
fn prove(
    diff: &Diff,
    before: &BTreeMap<Vec<u8>, Option<TreeEntry>>,
    after: &BTreeMap<Vec<u8>, Option<TreeEntry>>,
) -> Result<(), String> {
    let start = |path: &[u8]| before.get(path).cloned().flatten();
    let applied = diff::apply(&diff.bytes, &start)
        .map_err(|error| format!("the turn diff does not apply to the start: {error}"))?;
    let got: BTreeMap<Vec<u8>, Option<TreeEntry>> =
        applied.into_iter().map(|change| (change.path, change.after)).collect();
    if got == *after {
        return Ok(());
    }
    let odd = after
        .iter()
        .find(|(path, entry)| got.get(*path) != Some(entry))
        .map(|(path, _)| path)
        .or_else(|| got.keys().find(|path| !after.contains_key(*path)));
    let odd = odd.map(|path| String::from_utf8_lossy(path).into_owned()).unwrap_or_default();
    Err(format!("the turn diff, applied to the start, does not give the end: {odd}"))
}

fn file_records(diff: &Diff, by: &BTreeMap<Vec<u8>, Vec<String>>) -> Vec<FileChangeRecord> {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    diff.files
        .iter()
        .map(|file| {
            let mut calls = by.get(&file.path).cloned().unwrap_or_default();
            if let Some(old) = file.old_path.as_ref().and_then(|old| by.get(old)) {
                calls.extend(old.iter().cloned());
            }
            calls.sort();
            calls.dedup();
            FileChangeRecord {
                path: text(&file.path),
                renamed_from: file.old_path.as_deref().map(text),
                status: status(file.status),
                added: file.added as u64,
                removed: file.removed as u64,
                binary: file.binary,
                by: calls,
            }
        })
        .collect()
}

fn status(status: diff::FileStatus) -> FileStatus {
    match status {
        diff::FileStatus::Added => FileStatus::Added,
        diff::FileStatus::Modified => FileStatus::Modified,
        diff::FileStatus::Deleted => FileStatus::Deleted,
        diff::FileStatus::Renamed => FileStatus::Renamed,
        diff::FileStatus::TypeChanged => FileStatus::TypeChanged,
        diff::FileStatus::ModeChanged => FileStatus::ModeChanged,
    }
}

/// SHA-256 in hex.
fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
