//! The way back: a diff applied to the tree it starts from.
//!
//! Exact or not at all. Every side of the diff names its content by id, so nothing is searched for
//! and nothing is fuzzy: the start must be that start, and the result is checked to be that result.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{ApplyError, ApplyErrorKind};
use super::ids::{NO_BLOB, blob_id};
use super::read::{Body, Hunk, Section, sections};
use super::{FileChange, Mode, TreeEntry};

/// Applies `diff` to the tree that `start` gives, path by path. What comes back are the changes,
/// ordered by path; nothing is written anywhere.
pub fn apply(
    diff: &[u8],
    start: &dyn Fn(&[u8]) -> Option<TreeEntry>,
) -> Result<Vec<FileChange>, ApplyError> {
    let sections = sections(diff)?;
    let mut changes: BTreeMap<Vec<u8>, FileChange> = BTreeMap::new();
    for section in &sections {
        check_path(section, &section.old_path)?;
        check_path(section, &section.new_path)?;
        // All sections speak of the tree at the start, so what goes is noted first.
        if section.deleted || section.renamed {
            remove(section, start, &mut changes)?;
        }
    }
    for section in &sections {
        if !section.deleted {
            put(section, start, &mut changes)?;
        }
    }
    check_folders(&sections, start, &changes)?;
    Ok(changes.into_values().collect())
}

fn fail(kind: ApplyErrorKind, section: &Section, path: &[u8], message: &str) -> ApplyError {
    ApplyError::new(kind, section.line, message).at(path)
}

/// Longer than any path a system takes.
const MAX_PATH: usize = 4096;

/// A diff comes from a file, and a file can be forged: no path may leave the root or enter `.git`.
fn check_path(section: &Section, path: &[u8]) -> Result<(), ApplyError> {
    let bad = |part: &[u8]| {
        part.is_empty() || part == b"." || part == b".." || part.eq_ignore_ascii_case(b".git")
    };
    if path.len() > MAX_PATH || path.contains(&0) || path.split(|byte| *byte == b'/').any(bad) {
        let message = "the path is not allowed: absolute, climbing, inside .git, or too long.";
        return Err(fail(ApplyErrorKind::Path, section, path, message));
    }
    Ok(())
}

/// The file a section starts from, checked against what the section says of it.
fn source(
    section: &Section,
    start: &dyn Fn(&[u8]) -> Option<TreeEntry>,
) -> Result<TreeEntry, ApplyError> {
    let path = &section.old_path;
    let Some(entry) = start(path) else {
        return Err(fail(
            ApplyErrorKind::Missing,
            section,
            path,
            "there is no such file to change.",
        ));
    };
    if section.old_mode.is_some_and(|mode| mode != entry.mode) {
        let message = "the file has another mode than the diff starts from.";
        return Err(fail(ApplyErrorKind::Mismatch, section, path, message));
    }
    if let Some((old, _)) = &section.index
        && *old != blob_id(&entry.content)
    {
        let message = "the file has other content than the diff starts from.";
        return Err(fail(ApplyErrorKind::Mismatch, section, path, message));
    }
    Ok(entry)
}

fn remove(
    section: &Section,
    start: &dyn Fn(&[u8]) -> Option<TreeEntry>,
    changes: &mut BTreeMap<Vec<u8>, FileChange>,
) -> Result<(), ApplyError> {
    let before = source(section, start)?;
    let path = section.old_path.clone();
    let change = FileChange { path: path.clone(), before: Some(before), after: None };
    if changes.insert(path.clone(), change).is_some() {
        let message = "the diff takes this file away twice.";
        return Err(fail(ApplyErrorKind::Malformed, section, &path, message));
    }
    Ok(())
}

fn put(
    section: &Section,
    start: &dyn Fn(&[u8]) -> Option<TreeEntry>,
    changes: &mut BTreeMap<Vec<u8>, FileChange>,
) -> Result<(), ApplyError> {
    let path = &section.new_path;
    let fresh = section.created || section.renamed;
    let before = if section.created { None } else { Some(source(section, start)?) };
    let after = result(section, before.as_ref())?;
    match changes.get_mut(path) {
        Some(change) if fresh && change.after.is_none() => change.after = Some(after),
        Some(_) => {
            let message = "the diff writes this file twice.";
            return Err(fail(ApplyErrorKind::Malformed, section, path, message));
        }
        None => {
            let standing = if fresh { start(path) } else { None };
            if standing.is_some() {
                let message = "the diff creates this file, but it is there already.";
                return Err(fail(ApplyErrorKind::Exists, section, path, message));
            }
            let before = if fresh { None } else { before };
            let change = FileChange { path: path.clone(), before, after: Some(after) };
            changes.insert(path.clone(), change);
        }
    }
    Ok(())
}

/// What the section makes of `before`, checked against the id it states.
fn result(section: &Section, before: Option<&TreeEntry>) -> Result<TreeEntry, ApplyError> {
    let path = &section.new_path;
    let mode = section
        .new_mode
        .or(before.map(|entry| entry.mode))
        .ok_or_else(|| fail(ApplyErrorKind::Malformed, section, path, "no mode is stated."))?;
    if let Some(before) = before
        && before.mode.is_symlink() != (mode == Mode::Symlink)
    {
        let message = "a change of type is written as a deletion and a creation.";
        return Err(fail(ApplyErrorKind::Malformed, section, path, message));
    }
    let old: &[u8] = before.map_or(b"", |entry| &entry.content);
    let content: Arc<[u8]> = match &section.body {
        Body::Nothing => match before {
            Some(entry) => Arc::clone(&entry.content),
            None => Arc::from(&b""[..]),
        },
        Body::Binary(content) => content.as_slice().into(),
        Body::Hunks(hunks) => patched(section, old, hunks)?.into(),
    };
    let stated = section.index.as_ref().map(|(_, new)| new.as_str());
    let id_fits = match stated {
        Some(stated) => stated != NO_BLOB && stated == blob_id(&content),
        // Without an index line the content can't change, and a new file has one.
        None => before.is_some() && matches!(section.body, Body::Nothing),
    };
    if !id_fits {
        let message = "the result is not the content whose id the diff states.";
        return Err(fail(ApplyErrorKind::Result, section, path, message));
    }
    Ok(TreeEntry { mode, content })
}

/// Applies hunks exactly where they say.
fn patched(section: &Section, old: &[u8], hunks: &[Hunk]) -> Result<Vec<u8>, ApplyError> {
    let lines: Vec<&[u8]> = old.split_inclusive(|byte| *byte == b'\n').collect();
    let mut out = Vec::with_capacity(old.len() + 256);
    let mut at = 0;
    for hunk in hunks {
        let misfit = || {
            let message = "the hunk doesn't fit the file at its place.";
            ApplyError::new(ApplyErrorKind::Mismatch, hunk.line, message).at(&section.new_path)
        };
        for line in lines.get(at..hunk.start).ok_or_else(misfit)? {
            out.extend_from_slice(line);
        }
        at = hunk.start;
        for (prefix, text) in &hunk.lines {
            if *prefix != b'+' {
                if lines.get(at).is_none_or(|line| line != text) {
                    return Err(misfit());
                }
                at += 1;
            }
            if *prefix != b'-' {
                out.extend_from_slice(text);
            }
        }
    }
    for line in lines.get(at..).unwrap_or(&[]) {
        out.extend_from_slice(line);
    }
    Ok(out)
}

/// A new file may not lie under a path that stays a file.
fn check_folders(
    sections: &[Section],
    start: &dyn Fn(&[u8]) -> Option<TreeEntry>,
    changes: &BTreeMap<Vec<u8>, FileChange>,
) -> Result<(), ApplyError> {
    for section in sections.iter().filter(|section| section.created || section.renamed) {
        let path = &section.new_path;
        for (end, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let above = path.get(..end).unwrap_or(b"");
            let stays = match changes.get(above) {
                Some(change) => change.after.is_some(),
                None => start(above).is_some(),
            };
            if stays {
                let message = "a file stands where the path needs a folder.";
                return Err(fail(ApplyErrorKind::Exists, section, path, message));
            }
        }
    }
    Ok(())
}
