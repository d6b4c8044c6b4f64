//! The comparison behind the changes: which sides a path has, and whether they differ.
//!
//! Stat data and the clock only say what is in doubt; every doubt is settled by content.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustix::fs::FileType;

use super::changes::{Attribution, NotExpressible, StartChanges, TurnChanges};
use super::error::{WorkspaceError, shown};
use super::git::Oid;
use super::git::index::{GITLINK, LINK};
use super::git::tree::{self, TreeFile};
use super::git::watch::Watched;
use super::kept::hash_file;
use super::manifest::{Entry, Flags, Manifest, Stamp, differences};
use super::read::{is_gone, link_target, open_regular, read_whole};
use super::start::Start;
use super::track::Touched;
use super::walk::Unseen;
use super::{Captured, Workspace};
use crate::diff::{FileChange, Mode, TreeEntry};
use crate::patch::FileState;

/// Gathers the differences of one comparison.
pub(super) struct Builder<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) start: &'a Start,
    pub(super) captured: &'a Captured,
    pub(super) files: BTreeMap<Vec<u8>, FileChange>,
    pub(super) not_expressible: Vec<NotExpressible>,
    pub(super) reasons: Vec<String>,
    held: u64,
}

/// One side of a file, or that it cannot be had.
type Side = Result<Option<TreeEntry>, String>;

impl<'a> Builder<'a> {
    pub(super) fn new(workspace: &'a Workspace, captured: &'a Captured) -> Self {
        Self {
            workspace,
            start: &captured.start,
            captured,
            files: BTreeMap::new(),
            not_expressible: Vec::new(),
            reasons: Vec::new(),
            held: 0,
        }
    }

    /// Everything that stat data or the clock leaves in doubt is compared by content.
    pub(super) fn compare(&mut self) {
        let (start, end) = (self.start.manifest.clone(), self.captured.track.last.clone());
        let mut nested: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let mut doubtful: BTreeSet<&[u8]> = BTreeSet::new();
        for found in differences(&start, &end) {
            let flags = found.after.or(found.before).map(|entry| entry.flags).unwrap_or_default();
            if flags.has(Flags::NESTED) {
                *nested.entry(self.nested_top(found.path)).or_default() += 1;
            } else {
                doubtful.insert(found.path);
            }
        }
        for (position, entry) in start.entries().iter().enumerate() {
            if self.workspace.go_on().is_err() {
                return;
            }
            let racy = entry.flags.has(Flags::RACY) && !entry.flags.has(Flags::NESTED);
            if racy && !self.has_same_hash(position, entry) {
                doubtful.insert(start.name(entry));
            }
        }
        for path in doubtful {
            if self.workspace.go_on().is_err() {
                return;
            }
            self.compare_path(path, &start, &end);
        }
        for (path, count) in nested {
            self.say(&path, format!("{count} files changed inside this nested repository"));
        }
        self.compare_nested_heads();
    }

    /// Whether a file holds what it held at the start, told by its hash.
    fn has_same_hash(&self, position: usize, entry: &Entry) -> bool {
        let path = self.start.manifest.name(entry);
        let Some(oid) = self.start.oid(position) else { return false };
        let Ok((file, now)) = open_regular(&self.workspace.root, path) else { return false };
        let alike = now.mode == entry.stamp.mode && now.size == entry.stamp.size;
        alike && hash_file(&file, now.size, oid.format()).is_ok_and(|hash| hash == Some(oid))
    }

    fn compare_path(&mut self, path: &[u8], start: &Manifest, end: &Manifest) {
        let (before, after) = (start.position(path), end.find(path));
        let old = before.and_then(|at| start.entries().get(at));
        self.note_what_git_cannot_say(path, old, after);
        let before = match old.filter(|entry| entry.stamp.has_content()).and(before) {
            Some(position) => self.before_of(position),
            None => self.absent_by_choice(path),
        };
        let after = match after.filter(|entry| entry.stamp.has_content()) {
            Some(entry) => self.now(path, &entry.stamp),
            // A file that a sparse checkout leaves out is not deleted by being absent.
            None if old.is_none_or(|entry| !entry.stamp.has_content()) => return,
            None => Ok(None),
        };
        self.add(path, before, after);
    }

    fn add(&mut self, path: &[u8], before: Side, after: Side) {
        let (before, after) = match (before, after) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(why), _) | (_, Err(why)) => {
                return self.reasons.push(format!("{}: {why}", shown(path)));
            }
        };
        if before == after {
            return;
        }
        let size =
            |side: &Option<TreeEntry>| side.as_ref().map_or(0, |entry| entry.content.len() as u64);
        self.held += size(&before) + size(&after);
        if self.held > self.workspace.limits.diff_total {
            let limit = self.workspace.limits.diff_total;
            let why = format!("the changed files hold more than {limit} bytes in all");
            return self.reasons.push(format!("{}: {why}", shown(path)));
        }
        let path = self.workspace.diff_path(path);
        self.files.insert(path.clone(), FileChange { path, before, after });
    }

    /// The file as it was at the start.
    fn before_of(&self, position: usize) -> Side {
        let entry = self.start.manifest.entries().get(position).ok_or("not captured")?;
        let limit = self.workspace.limits.diff_file;
        let content = self.start.content(position, limit).map_err(|lost| lost.0)?;
        Ok(Some(TreeEntry { mode: mode_of(&entry.stamp), content: Arc::from(content) }))
    }

    /// The file as it is now. One that vanishes while being read is not there.
    fn now(&self, path: &[u8], stamp: &Stamp) -> Side {
        let root = &self.workspace.root;
        let read = || -> Result<(Vec<u8>, Stamp), WorkspaceError> {
            match stamp.kind() {
                FileType::Symlink => Ok((link_target(root, path)?, *stamp)),
                _ => read_whole(root, path, self.workspace.limits.diff_file),
            }
        };
        match read() {
            Ok((content, stamp)) => {
                Ok(Some(TreeEntry { mode: mode_of(&stamp), content: Arc::from(content) }))
            }
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A tracked file that a sparse checkout left out: its blob is what the start had.
    fn absent_by_choice(&self, path: &[u8]) -> Side {
        let Some(index) = &self.start.index else { return Ok(None) };
        let file = match index.find(path) {
            Some(entry) if entry.skip_worktree => {
                Some(TreeFile { mode: entry.mode, oid: entry.oid })
            }
            Some(_) => None,
            None => self.in_sparse_folder(path)?,
        };
        file.map_or(Ok(None), |file| self.blob(&file))
    }

    fn in_sparse_folder(&self, path: &[u8]) -> Result<Option<TreeFile>, String> {
        let index = self.start.index.as_ref();
        let Some((folder, cut)) = index.and_then(|index| index.sparse_folder_of(path)) else {
            return Ok(None);
        };
        let objects = self.start.objects.as_ref().ok_or("no objects")?;
        let mut files = BTreeMap::new();
        let prefix = path.get(..cut).unwrap_or_default();
        tree::flatten(objects, &folder.oid, prefix, &mut files)
            .map_err(|error| error.to_string())?;
        Ok(files.get(path).copied())
    }

    fn blob(&self, file: &TreeFile) -> Side {
        let limit = self.workspace.limits.diff_file;
        let content = self.start.blob(&file.oid, limit).map_err(|error| error.to_string())?;
        let mode = match file.mode {
            LINK => Mode::Symlink,
            mode if mode & 0o100 != 0 => Mode::Executable,
            _ => Mode::Regular,
        };
        Ok(Some(TreeEntry { mode, content: Arc::from(content) }))
    }

    /// Ignored files are left out, except those that the patch tool wrote.
    pub(super) fn add_patched_left_out(&mut self) {
        for (path, left_out) in &self.captured.track.patched_left_out {
            let now = match self.workspace.root.stat(path) {
                Ok(Some(stat)) if Stamp::of(&stat).has_content() => {
                    self.now(path, &Stamp::of(&stat))
                }
                Ok(_) => Ok(None),
                Err(error) => Err(error.to_string()),
            };
            self.add(path, Ok(left_out.before.as_ref().and_then(entry_of_state)), now);
        }
    }

    pub(super) fn finish(mut self, unseen: Vec<Unseen>) -> TurnChanges {
        let git = self.workspace.git.as_ref();
        self.reasons.extend(self.start.faults.iter().cloned());
        let new = unseen.iter().filter(|place| !self.was_unseen(place));
        let why = new
            .map(|Unseen { path, why }| format!("{} could not be looked at: {why}", shown(path)));
        let why: Vec<String> = why.collect();
        self.reasons.extend(why);
        let (start_tree, end_tree) = self.trees();
        let attribution = self.files.keys().map(|path| self.attribution(path)).collect();
        let watched = Watched::look(git, self.workspace.root(), &self.start.known.nested);
        TurnChanges {
            attribution,
            not_expressible: self.not_expressible,
            unseen,
            git_warnings: watched.since(&self.start.watched),
            head_at_start: self.start.head.clone(),
            head_at_end: git.map(|place| place.read_head()).unwrap_or_default(),
            start_tree,
            end_tree,
            exact: self.reasons.is_empty(),
            reasons: self.reasons,
            files: self.files.into_values().collect(),
        }
    }

    /// A place that could not be looked at before either, and that shows no sign of a change.
    fn was_unseen(&self, place: &Unseen) -> bool {
        let stamp = |manifest: &Manifest| manifest.find(&place.path).map(|entry| entry.stamp);
        self.start.unseen.contains(place)
            && stamp(&self.start.manifest) == stamp(&self.captured.track.last)
    }

    fn attribution(&self, path: &[u8]) -> Attribution {
        let inside = path.strip_prefix(self.workspace.prefix().as_slice()).unwrap_or(path);
        let Touched { calls, outside } =
            self.captured.track.touched.get(inside).cloned().unwrap_or_default();
        // A change that no look ever caught between calls came from outside, too.
        let outside = outside || calls.is_empty();
        Attribution { path: path.to_vec(), calls: calls.into_iter().collect(), outside }
    }

    pub(super) fn compare_with_base(&mut self, base: &BTreeMap<Vec<u8>, TreeFile>) {
        let manifest = self.start.manifest.clone();
        for (position, entry) in manifest.entries().iter().enumerate() {
            if !entry.stamp.has_content() || entry.flags.has(Flags::NESTED) {
                continue;
            }
            let path = manifest.name(entry);
            let Some(file) = base.get(path) else {
                self.add(path, Ok(None), self.before_of(position));
                continue;
            };
            let same_mode = git_mode(&entry.stamp) == file.mode;
            if !same_mode || self.start.oid(position) != Some(file.oid) {
                self.add(path, self.blob(file), self.before_of(position));
            }
        }
        for (path, file) in base {
            let there = manifest.find(path).is_some_and(|entry| entry.stamp.has_content());
            if !there && file.mode != GITLINK && !self.is_absent_by_choice(path) {
                self.add(path, self.blob(file), Ok(None));
            }
        }
    }

    fn is_absent_by_choice(&self, path: &[u8]) -> bool {
        self.start.index.as_ref().is_some_and(|index| {
            index.find(path).is_some_and(|entry| entry.skip_worktree)
                || index.sparse_folder_of(path).is_some()
        })
    }

    pub(super) fn finish_start(mut self, commit: Option<Oid>) -> StartChanges {
        self.reasons.extend(self.start.faults.iter().cloned());
        let exact = self.reasons.is_empty();
        let files = self.files.into_values().collect();
        StartChanges { commit, files, exact, reasons: self.reasons }
    }
}

pub(super) fn mode_of(stamp: &Stamp) -> Mode {
    match stamp.kind() {
        FileType::Symlink => Mode::Symlink,
        _ if stamp.mode & 0o100 != 0 => Mode::Executable,
        _ => Mode::Regular,
    }
}

pub(super) fn git_mode(stamp: &Stamp) -> u32 {
    match mode_of(stamp) {
        Mode::Symlink => LINK,
        Mode::Executable => 0o100_755,
        Mode::Regular => 0o100_644,
    }
}

pub(super) fn entry_of_state(state: &FileState) -> Option<TreeEntry> {
    match state {
        FileState::Regular { bytes, mode } => {
            let mode = if mode & 0o100 != 0 { Mode::Executable } else { Mode::Regular };
            Some(TreeEntry { mode, content: bytes.clone() })
        }
        FileState::Symlink { target } => {
            Some(TreeEntry { mode: Mode::Symlink, content: Arc::from(target.as_slice()) })
        }
        FileState::Directory | FileState::Other => None,
    }
}
