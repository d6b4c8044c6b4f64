//! From a patch to a plan: every operation verified against the files, nothing written.
//!
//! Operations run in order against a picture of the files that starts with what is on disk, so a
//! patch may touch one path several times. What comes out is the net change of each path, in an
//! order in which it is safe to commit. A plan either exists as a whole or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{PatchError, PatchErrorKind, counted, shorten, visible};
use super::paths::normalise;
use super::rewrite::rewrite;
use super::{Chunk, MAX_FILE_BYTES, Operation, Patch};

/// The mode of a file that did not exist; the door lessens it by the umask.
pub const NEW_FILE_MODE: u32 = 0o644;

/// What stands at a path. Links are never followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    Regular {
        bytes: Arc<[u8]>,
        mode: u32,
    },
    Symlink {
        target: Vec<u8>,
    },
    Directory,
    /// A device, a socket, a pipe.
    Other,
}

/// The files as the door sees them.
pub trait Files {
    /// What stands at `path`, which is normalised; `None` if nothing does. It is asked for the
    /// files a patch names and for the folders above them.
    fn read(&self, path: &str) -> Result<Option<FileState>, String>;

    /// The one name of the file that the normalised `path` means: two paths that lead to one file
    /// (an absolute and a relative one, a folder reached by a link, a file system that ignores
    /// case) must give the same name here, for this name is what the plan's changes carry.
    fn canonical(&self, path: &str) -> Result<String, String> {
        Ok(path.to_owned())
    }

    /// Names that exist and may have been meant by the missing `path`; only for messages.
    fn alike(&self, path: &str) -> Vec<String> {
        let _ = path;
        Vec::new()
    }
}

/// The content a path gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    pub bytes: Arc<[u8]>,
    pub mode: u32,
    /// A symbolic link, with its target as `bytes`; patches make none, diffs do.
    pub symlink: bool,
}

impl NewFile {
    pub fn regular(bytes: Arc<[u8]>, mode: u32) -> Self {
        Self { bytes, mode, symlink: false }
    }
}

/// What happens to one path. `before` is what was verified: the door must refuse if it has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: String,
    /// The old name, if the file comes from a move; that path has a change of its own.
    pub moved_from: Option<String>,
    pub before: Option<FileState>,
    /// What the path holds afterwards; `None` deletes it.
    pub after: Option<NewFile>,
    /// Lines that the patch adds and removes here.
    pub added: usize,
    pub removed: usize,
    /// What is worth telling, such as white space that was overlooked. Empty if nothing is.
    pub note: String,
}

impl Change {
    /// Whether the file comes into being without a past: its mode is then subject to the umask.
    pub fn is_new(&self) -> bool {
        self.before.is_none() && self.moved_from.is_none()
    }
}

/// Verified changes, each path once, in an order that is safe to commit: what must make way for a
/// folder goes first, then everything that is written, then the other deletions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub changes: Vec<Change>,
    /// What is worth telling but changes nothing.
    pub notes: Vec<String>,
}

impl Plan {
    /// What the model is told: one line a file.
    pub fn summary(&self) -> String {
        let moved: Vec<&str> =
            self.changes.iter().filter_map(|change| change.moved_from.as_deref()).collect();
        let mut lines: Vec<String> = Vec::new();
        let mut changes: Vec<&Change> = self.changes.iter().collect();
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        for change in changes {
            if change.after.is_none() && moved.contains(&change.path.as_str()) {
                continue;
            }
            lines.push(summary_line(change));
        }
        lines.extend(self.notes.iter().cloned());
        if lines.is_empty() { "nothing changed".to_owned() } else { lines.join("\n") }
    }
}

fn summary_line(change: &Change) -> String {
    let path = visible(&change.path);
    let counts = match (change.added, change.removed) {
        (0, 0) => String::new(),
        (added, 0) => format!(" (+{added})"),
        (0, removed) => format!(" (-{removed})"),
        (added, removed) => format!(" (+{added} -{removed})"),
    };
    let note = if change.note.is_empty() { String::new() } else { format!("; {}", change.note) };
    match (&change.before, &change.after, &change.moved_from) {
        (_, None, _) => format!("D {path}{note}"),
        (_, Some(_), Some(old)) => format!("R {} -> {path}{counts}{note}", visible(old)),
        (None, Some(_), None) => format!("A {path}{counts}{note}"),
        (Some(_), Some(_), None) => format!("M {path}{counts}{note}"),
    }
}

/// Verifies the whole patch against `files`.
pub fn plan(patch: &Patch, files: &dyn Files) -> Result<Plan, PatchError> {
    let mut planner = Planner { files, seen: BTreeMap::new(), notes: Vec::new() };
    for operation in &patch.operations {
        match operation {
            Operation::Add { line, path, content } => planner.add(*line, path, content)?,
            Operation::Delete { line, path } => planner.delete(*line, path)?,
            Operation::Update { line, path, move_to: None, chunks } => {
                planner.update(*line, path, chunks)?;
            }
            Operation::Update { line, path, move_to: Some(target), chunks } => {
                planner.move_file(*line, path, target, chunks)?;
            }
        }
    }
    Ok(planner.finish())
}

/// A path as the patch has left it so far.
struct Tracked {
    before: Option<FileState>,
    now: Option<FileState>,
    /// The line of the last operation on it; 0 if it was only looked at.
    line: usize,
    moved_from: Option<String>,
    added: usize,
    removed: usize,
    notes: Vec<String>,
}

pub(super) struct Planner<'f> {
    files: &'f dyn Files,
    seen: BTreeMap<String, Tracked>,
    notes: Vec<String>,
}

impl<'f> Planner<'f> {
    pub(super) fn new(files: &'f dyn Files) -> Self {
        Self { files, seen: BTreeMap::new(), notes: Vec::new() }
    }

    /// The name under which the plan knows `path`.
    pub(super) fn name(&self, line: usize, path: &str) -> Result<String, PatchError> {
        let refuse = |message: String| {
            PatchError::new(PatchErrorKind::Path, line, format!("{message}.")).at(path)
        };
        let normal = normalise(path).map_err(&refuse)?;
        self.files.canonical(&normal).map_err(&refuse)
    }

    fn tracked(&mut self, line: usize, name: &str) -> Result<&mut Tracked, PatchError> {
        if !self.seen.contains_key(name) {
            let state = self.files.read(name).map_err(|cause| {
                PatchError::new(
                    PatchErrorKind::Unreadable,
                    line,
                    format!("can't be read: {cause}."),
                )
                .at(name)
            })?;
            check_size(line, name, state.as_ref())?;
            let tracked = Tracked {
                before: state.clone(),
                now: state,
                line: 0,
                moved_from: None,
                added: 0,
                removed: 0,
                notes: Vec::new(),
            };
            self.seen.insert(name.to_owned(), tracked);
        }
        self.seen.get_mut(name).ok_or_else(|| {
            PatchError::new(PatchErrorKind::Unreadable, line, "can't be read.").at(name)
        })
    }

    fn add(&mut self, line: usize, path: &str, content: &[u8]) -> Result<(), PatchError> {
        let name = self.name(line, path)?;
        self.create(line, &name, content.to_vec())?;
        Ok(())
    }

    /// Puts a new file where nothing is.
    pub(super) fn create(
        &mut self,
        line: usize,
        name: &str,
        content: Vec<u8>,
    ) -> Result<(), PatchError> {
        self.must_be_free(line, name, "add")?;
        let added = content.split_inclusive(|byte| *byte == b'\n').count();
        let tracked = self.tracked(line, name)?;
        // A file that is deleted and added again by one patch is rewritten, and keeps its mode.
        let mode = match &tracked.before {
            Some(FileState::Regular { mode, .. }) => *mode,
            _ => NEW_FILE_MODE,
        };
        tracked.now = Some(FileState::Regular { bytes: content.into(), mode });
        tracked.line = line;
        tracked.moved_from = None;
        tracked.added = added;
        Ok(())
    }

    fn delete(&mut self, line: usize, path: &str) -> Result<(), PatchError> {
        let name = self.name(line, path)?;
        self.no_link_above(line, &name)?;
        let files = self.files;
        let tracked = self.tracked(line, &name)?;
        let removed = match &tracked.now {
            Some(FileState::Regular { bytes, .. }) => {
                bytes.split_inclusive(|byte| *byte == b'\n').count()
            }
            Some(FileState::Symlink { .. }) => 1,
            other => {
                return Err(no_file(line, &name, other.as_ref(), tracked.line, files, "delete"));
            }
        };
        tracked.now = None;
        tracked.moved_from = None;
        tracked.line = line;
        tracked.removed = removed;
        tracked.added = 0;
        tracked.notes.clear();
        Ok(())
    }

    fn update(&mut self, line: usize, path: &str, chunks: &[Chunk]) -> Result<(), PatchError> {
        let name = self.name(line, path)?;
        self.rewrite_file(line, &name, chunks)
    }

    fn rewrite_file(
        &mut self,
        line: usize,
        name: &str,
        chunks: &[Chunk],
    ) -> Result<(), PatchError> {
        let (bytes, mode) = self.regular(line, name)?;
        if chunks.is_empty() {
            return Ok(());
        }
        let rewritten = rewrite(&bytes, chunks).map_err(|error| error.at(name))?;
        let tracked = self.tracked(line, name)?;
        tracked.now = Some(FileState::Regular { bytes: rewritten.bytes.into(), mode });
        tracked.line = line;
        tracked.added += rewritten.added;
        tracked.removed += rewritten.removed;
        tracked.notes.extend(rewritten.notes);
        Ok(())
    }

    /// The content and mode of a regular file that an operation changes.
    pub(super) fn regular(
        &mut self,
        line: usize,
        name: &str,
    ) -> Result<(Arc<[u8]>, u32), PatchError> {
        self.no_link_above(line, name)?;
        let files = self.files;
        let tracked = self.tracked(line, name)?;
        match &tracked.now {
            Some(FileState::Regular { bytes, mode }) => Ok((Arc::clone(bytes), *mode)),
            other => Err(no_file(line, name, other.as_ref(), tracked.line, files, "update")),
        }
    }

    /// Replaces the content of a regular file, counting lines by the caller's word.
    pub(super) fn put(
        &mut self,
        name: &str,
        content: Vec<u8>,
        mode: u32,
        counts: (usize, usize),
        note: Option<String>,
    ) -> Result<(), PatchError> {
        let tracked = self.tracked(0, name)?;
        tracked.now = Some(FileState::Regular { bytes: content.into(), mode });
        (tracked.added, tracked.removed) = counts;
        tracked.notes.extend(note);
        Ok(())
    }

    fn move_file(
        &mut self,
        line: usize,
        path: &str,
        target: &str,
        chunks: &[Chunk],
    ) -> Result<(), PatchError> {
        let old = self.name(line, path)?;
        let new = self.name(line, target)?;
        self.rewrite_file(line, &old, chunks)?;
        if old == new {
            return Ok(());
        }
        self.must_be_free(line, &new, "move")?;
        let source = self.tracked(line, &old)?;
        let moved = source.now.take();
        let origin = source.moved_from.take().unwrap_or_else(|| old.clone());
        let counts = (std::mem::take(&mut source.added), std::mem::take(&mut source.removed));
        let notes = std::mem::take(&mut source.notes);
        source.line = line;
        // A file that this very patch made has no past under its old name.
        let has_past = self.seen.get(&origin).is_some_and(|tracked| tracked.before.is_some());
        let tracked = self.tracked(line, &new)?;
        tracked.now = moved;
        tracked.line = line;
        tracked.moved_from = Some(origin).filter(|origin| has_past && *origin != new);
        (tracked.added, tracked.removed) = counts;
        tracked.notes = notes;
        Ok(())
    }

    /// Nothing may stand at `name`, no file above it, and nothing below it.
    fn must_be_free(&mut self, line: usize, name: &str, verb: &str) -> Result<(), PatchError> {
        self.no_link_above(line, name)?;
        let standing = self.tracked(line, name)?.now.clone();
        if let Some(state) = standing {
            return Err(occupied(line, name, &state, verb));
        }
        let inside = format!("{name}/");
        let below =
            self.seen.range(inside.clone()..).take_while(|(path, _)| path.starts_with(&inside));
        if let Some((path, _)) = below.into_iter().find(|(_, tracked)| tracked.now.is_some()) {
            let message = format!("{name} must be a folder, because {} is in it.", visible(path));
            return Err(PatchError::new(PatchErrorKind::NotAFile, line, message).at(name));
        }
        Ok(())
    }

    /// The folders above a path must be folders. An absolute path that the door did not make
    /// relative lies outside its roots; what stands above it is the door's to judge.
    fn no_link_above(&mut self, line: usize, name: &str) -> Result<(), PatchError> {
        if name.starts_with('/') {
            return Ok(());
        }
        for (end, _) in name.match_indices('/') {
            let above = name.get(..end).unwrap_or("");
            if above.is_empty() || above == ".." || above.ends_with("/..") {
                continue;
            }
            let (kind, what, hint) = match &self.tracked(line, above)?.now {
                None => return Ok(()),
                Some(FileState::Directory) => continue,
                Some(FileState::Symlink { target }) => (
                    PatchErrorKind::Symlink,
                    "a symbolic link",
                    format!("name the real folder; it points to {}", shown_target(target)),
                ),
                Some(_) => (
                    PatchErrorKind::NotAFile,
                    "no folder",
                    "choose another path, or delete or move that file first".to_owned(),
                ),
            };
            let message =
                format!("{} is {what}, so nothing under it can be changed.", visible(above));
            return Err(PatchError::new(kind, line, message).at(name).hint(hint));
        }
        Ok(())
    }

    /// The net changes in an order that is safe to commit.
    pub(super) fn finish(mut self) -> Plan {
        let mut changes = Vec::new();
        for (path, tracked) in std::mem::take(&mut self.seen) {
            if tracked.before == tracked.now {
                if tracked.line > 0 && tracked.now.is_some() {
                    self.notes
                        .push(format!("= {} is as the patch wants it already", visible(&path)));
                }
                continue;
            }
            let after = match tracked.now {
                Some(FileState::Regular { bytes, mode }) => Some(NewFile::regular(bytes, mode)),
                _ => None,
            };
            changes.push(Change {
                path,
                moved_from: tracked.moved_from,
                before: tracked.before,
                after,
                added: tracked.added,
                removed: tracked.removed,
                note: tracked.notes.join("; "),
            });
        }
        let written: Vec<String> =
            changes.iter().filter(|c| c.after.is_some()).map(|c| c.path.clone()).collect();
        // `written` is sorted, so the paths below a folder are neighbours.
        let makes_way = |path: &str| {
            let inside = format!("{path}/");
            let next = written.partition_point(|other| other.as_str() < inside.as_str());
            written.get(next).is_some_and(|other| other.starts_with(&inside))
        };
        changes.sort_by_key(|change| match &change.after {
            None if makes_way(&change.path) => 0,
            Some(_) => 1,
            None => 2,
        });
        Plan { changes, notes: self.notes }
    }
}

fn check_size(line: usize, name: &str, state: Option<&FileState>) -> Result<(), PatchError> {
    match state {
        Some(FileState::Regular { bytes, .. }) if bytes.len() > MAX_FILE_BYTES => {
            let message =
                format!("the file has {} bytes; the limit is {MAX_FILE_BYTES}.", bytes.len());
            Err(PatchError::new(PatchErrorKind::TooLarge, line, message)
                .at(name)
                .hint("change it with a command"))
        }
        _ => Ok(()),
    }
}

fn shown_target(target: &[u8]) -> String {
    format!("`{}`", shorten(&String::from_utf8_lossy(target), 80))
}

/// Add and Move never replace.
fn occupied(line: usize, name: &str, state: &FileState, verb: &str) -> PatchError {
    let (kind, what) = match state {
        FileState::Regular { bytes, .. } => (
            PatchErrorKind::Exists,
            format!("a file of {} is there already", counted(bytes.len(), "byte")),
        ),
        FileState::Symlink { target } => (
            PatchErrorKind::Exists,
            format!("a symbolic link to {} is there already", shown_target(target)),
        ),
        FileState::Directory => (PatchErrorKind::NotAFile, "a folder is there".to_owned()),
        FileState::Other => (PatchErrorKind::NotAFile, "a special file is there".to_owned()),
    };
    let hint = match (state, verb) {
        (FileState::Regular { .. }, "add") => {
            "use `*** Update File:` to change it, or delete it first to write it anew"
        }
        (FileState::Regular { .. } | FileState::Symlink { .. }, _) => {
            "choose another name, or delete what is there first"
        }
        _ => "choose another name",
    };
    let message = format!("can't {verb} a file here: {what}.");
    PatchError::new(kind, line, message).at(name).hint(format!("{hint}; nothing was changed"))
}

/// The error for an update or a deletion of something that is no file.
fn no_file(
    line: usize,
    name: &str,
    state: Option<&FileState>,
    touched: usize,
    files: &dyn Files,
    verb: &str,
) -> PatchError {
    let error = |kind, message: String| PatchError::new(kind, line, message).at(name);
    match state {
        None if touched > 0 => error(
            PatchErrorKind::Missing,
            format!("can't {verb} it: this patch deleted or moved it in line {touched}."),
        ),
        None => {
            let alike = files.alike(name);
            let hint = match alike.as_slice() {
                [] => {
                    "check the path with list_files; paths are relative to the workspace".to_owned()
                }
                names => format!("did you mean {}?", names.join(" or ")),
            };
            error(PatchErrorKind::Missing, format!("can't {verb} it: there is no such file."))
                .hint(hint)
        }
        Some(FileState::Symlink { target }) => error(
            PatchErrorKind::Symlink,
            format!("can't {verb} it: it is a symbolic link to {}.", shown_target(target)),
        )
        .hint("name the file it points to; links are never followed"),
        Some(FileState::Directory) => {
            error(PatchErrorKind::NotAFile, format!("can't {verb} it: it is a folder."))
                .hint("name the files in it, one operation each")
        }
        Some(_) => {
            error(PatchErrorKind::NotAFile, format!("can't {verb} it: it is no regular file."))
        }
    }
}
