//! What the Turn changed: the end compared with the start, file by file, by content.
//!
//! Stat data only tells which files to look at; whether one changed is decided by its bytes and
//! mode. What git cannot express is listed beside the diff, and where the truth is not known to
//! the last byte, that is said with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustix::fs::FileType;

use super::beneath::kind_of;
use super::error::{WorkspaceError, shown};
use super::git::index::{GITLINK, LINK, TREE};
use super::git::tree::{self, TreeBuilder, TreeFile};
use super::git::watch::{GitWarning, Watched};
use super::git::{Head, Oid, head_of_nested};
use super::kept::hash_file;
use super::manifest::{Entry, Flags, Manifest, Stamp, differences};
use super::read::{is_gone, link_target, open_regular, read_whole};
use super::start::Start;
use super::track::{CallRef, Touched};
use super::walk::Unseen;
use super::{Captured, Workspace};
use crate::diff::{FileChange, Mode, TreeEntry};
use crate::patch::FileState;

/// How a path changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// Who changed a file of the diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribution {
    /// As the diff names it.
    pub path: Vec<u8>,
    pub calls: Vec<CallRef>,
    /// Something that was no call of the Turn had a hand in it.
    pub outside: bool,
}

/// A change that a git diff has no words for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotExpressible {
    /// As the diff names paths.
    pub path: Vec<u8>,
    pub what: String,
}

/// A changed file so far, for the world state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    pub kind: ChangeKind,
}

/// The whole of what a Turn changed.
#[derive(Debug, Default)]
pub struct TurnChanges {
    /// By path; paths are relative to the repository's root, or the workspace without git.
    pub files: Vec<FileChange>,
    pub attribution: Vec<Attribution>,
    pub not_expressible: Vec<NotExpressible>,
    /// Places that could not be looked at, paths relative to the workspace.
    pub unseen: Vec<Unseen>,
    pub git_warnings: Vec<GitWarning>,
    pub head_at_start: Head,
    pub head_at_end: Head,
    /// Ids of the workspace's tree at both ends, as git would name it; `None` when some content
    /// of it is not known.
    pub start_tree: Option<Oid>,
    pub end_tree: Option<Oid>,
    /// Whether `files` is all that changed, to the last byte; if not, `reasons` say why.
    pub exact: bool,
    pub reasons: Vec<String>,
}

/// What the start had on top of its commit.
#[derive(Debug, Default)]
pub struct StartChanges {
    pub commit: Option<Oid>,
    pub files: Vec<FileChange>,
    pub exact: bool,
    pub reasons: Vec<String>,
}

impl Workspace {
    /// Compare the tree as it is now with the start.
    pub fn turn_changes(&mut self) -> Result<TurnChanges, WorkspaceError> {
        let walked = self.walk_again()?;
        // What no command or patch accounts for is from outside, unless a command still runs.
        let calls = self.running_calls();
        self.take_look(walked.manifest, &calls, None)?;
        let captured = self.captured()?;
        let mut builder = Builder::new(self, captured);
        builder.compare();
        builder.add_patched_left_out();
        builder.finish(walked.unseen)
    }

    /// Compare the start with its commit. Without git there is nothing to compare with.
    pub fn start_changes(&mut self) -> Result<StartChanges, WorkspaceError> {
        let captured = self.captured()?;
        let mut builder = Builder::new(self, captured);
        let Some(commit) = captured.start.head.commit.filter(|_| self.git.is_some()) else {
            // A branch that is not born yet has the empty tree as its base.
            if self.git.is_some() {
                builder.compare_with_base(&BTreeMap::new());
            }
            return Ok(builder.finish_start(None));
        };
        match self.base_files(&captured.start, &commit) {
            Ok(base) => builder.compare_with_base(&base),
            Err(why) => builder.reasons.push(format!("commit {commit} cannot be read: {why}")),
        }
        Ok(builder.finish_start(Some(commit)))
    }

    /// The files of a commit below the workspace, by path relative to it.
    fn base_files(
        &self,
        start: &Start,
        commit: &Oid,
    ) -> Result<BTreeMap<Vec<u8>, TreeFile>, String> {
        let text = |error: super::git::objects::ObjectError| error.to_string();
        let objects = start.objects.as_ref().ok_or("no objects")?;
        let root = tree::tree_of_commit(objects, commit).map_err(text)?;
        let mut files = BTreeMap::new();
        if let Some(index) = start.index.as_ref().filter(|index| index.root_tree == Some(root)) {
            // The index stands for this very tree: no tree needs to be read.
            for entry in index.entries().iter().filter(|entry| entry.mode != TREE) {
                let file = TreeFile { mode: entry.mode, oid: entry.oid };
                files.insert(index.name(entry).to_vec(), file);
            }
            return Ok(files);
        }
        if let Some(folder) = tree::subtree(objects, root, &self.prefix()).map_err(text)? {
            tree::flatten(objects, &folder, b"", &mut files).map_err(text)?;
        }
        Ok(files)
    }
}

/// Gathers the differences of one comparison.
struct Builder<'a> {
    workspace: &'a Workspace,
    start: &'a Start,
    captured: &'a Captured,
    files: BTreeMap<Vec<u8>, FileChange>,
    not_expressible: Vec<NotExpressible>,
    reasons: Vec<String>,
    held: u64,
}

/// One side of a file, or that it cannot be had.
type Side = Result<Option<TreeEntry>, String>;

impl<'a> Builder<'a> {
    fn new(workspace: &'a Workspace, captured: &'a Captured) -> Self {
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
    fn compare(&mut self) {
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
            let racy = entry.flags.has(Flags::RACY) && !entry.flags.has(Flags::NESTED);
            if racy && !self.has_same_hash(position, entry) {
                doubtful.insert(start.name(entry));
            }
        }
        for path in doubtful {
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
        let hash = hash_file(&file, now.size, oid.format());
        now.mode == entry.stamp.mode && hash.is_ok_and(|hash| hash == Some(oid))
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
    fn add_patched_left_out(&mut self) {
        for (path, before) in &self.captured.track.patched_left_out {
            let now = match self.workspace.root.stat(path) {
                Ok(Some(stat)) if Stamp::of(&stat).has_content() => {
                    self.now(path, &Stamp::of(&stat))
                }
                Ok(_) => Ok(None),
                Err(error) => Err(error.to_string()),
            };
            self.add(path, Ok(before.as_ref().and_then(entry_of_state)), now);
        }
    }

    fn say(&mut self, path: &[u8], what: impl Into<String>) {
        let path = self.workspace.diff_path(path);
        self.not_expressible.push(NotExpressible { path, what: what.into() });
    }

    fn note_what_git_cannot_say(&mut self, path: &[u8], old: Option<&Entry>, new: Option<&Entry>) {
        let special = |entry: &&Entry| {
            !entry.stamp.has_content() && entry.stamp.kind() != FileType::Directory
        };
        let empty = |entry: Option<&Entry>| entry.is_some_and(|e| e.flags.has(Flags::EMPTY));
        if let Some(entry) = new.filter(special)
            && old.is_none_or(|old| old.stamp.kind() != entry.stamp.kind())
        {
            self.say(path, format!("it is {} now", kind_of(entry.stamp.mode)));
        }
        if let Some(entry) = old.filter(special)
            && new.is_none_or(|new| new.stamp.kind() != entry.stamp.kind())
        {
            self.say(path, format!("it was {}", kind_of(entry.stamp.mode)));
        }
        match (empty(old), empty(new)) {
            (false, true) => self.say(path, "an empty folder now"),
            (true, false) if new.is_none() => self.say(path, "an empty folder was removed"),
            _ => {}
        }
        if let Some(what) = other_mode_bits(old.map(|e| e.stamp), new.map(|e| e.stamp)) {
            self.say(path, what);
        }
    }

    fn nested_top(&self, path: &[u8]) -> Vec<u8> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let top = ends.map(|end| path.get(..end).unwrap_or_default());
        let nested = &self.start.known.nested;
        top.into_iter().find(|top| nested.contains(*top)).unwrap_or(path).to_vec()
    }

    fn compare_nested_heads(&mut self) {
        for (path, before) in &self.start.nested_heads {
            let now = head_of_nested(&self.workspace.root().join(path_of(path)));
            if *before != now {
                let show = |head: &Option<Oid>| head.map_or("none".to_owned(), |oid| oid.hex());
                let what = format!("nested repository: commit {} → {}", show(before), show(&now));
                self.say(path, what);
            }
        }
    }

    fn finish(mut self, unseen: Vec<Unseen>) -> Result<TurnChanges, WorkspaceError> {
        let git = self.workspace.git.as_ref();
        self.reasons.extend(self.start.faults.iter().cloned());
        let new = unseen.iter().filter(|place| !self.was_unseen(place));
        let why = new
            .map(|Unseen { path, why }| format!("{} could not be looked at: {why}", shown(path)));
        let why: Vec<String> = why.collect();
        self.reasons.extend(why);
        let (start_tree, end_tree) = self.trees();
        let attribution = self.files.keys().map(|path| self.attribution(path)).collect();
        let watched = git.map(Watched::look).unwrap_or_default();
        Ok(TurnChanges {
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
        })
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

    fn compare_with_base(&mut self, base: &BTreeMap<Vec<u8>, TreeFile>) {
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

    fn finish_start(mut self, commit: Option<Oid>) -> StartChanges {
        self.reasons.extend(self.start.faults.iter().cloned());
        let exact = self.reasons.is_empty();
        let files = self.files.into_values().collect();
        StartChanges { commit, files, exact, reasons: self.reasons }
    }

    /// The ids of both trees. Unchanged files have their id already; changed ones are hashed.
    fn trees(&self) -> (Option<Oid>, Option<Oid>) {
        let mut start: Vec<(&[u8], u32, Oid)> = Vec::with_capacity(self.start.manifest.len());
        let manifest = &self.start.manifest;
        for (position, entry) in manifest.entries().iter().enumerate() {
            let path = manifest.name(entry);
            if entry.flags.has(Flags::NESTED_TOP) {
                let commit = self.start.nested_heads.get(path).copied().flatten();
                start.extend(commit.map(|commit| (path, GITLINK, commit)));
            } else if entry.stamp.has_content() && !entry.flags.has(Flags::NESTED) {
                let Some(oid) = self.start.oid(position) else { return (None, None) };
                start.push((path, git_mode(&entry.stamp), oid));
            }
        }
        if let Some(index) = &self.start.index {
            let left_out = index.entries().iter().filter(|entry| entry.skip_worktree);
            let absent = left_out.filter(|entry| manifest.find(index.name(entry)).is_none());
            start.extend(absent.map(|entry| {
                let name = index.name(entry);
                (name.strip_suffix(b"/").unwrap_or(name), entry.mode, entry.oid)
            }));
            start.sort_by(|left, right| left.0.cmp(right.0));
        }
        let start_tree = self.build(start.iter().copied());
        if !self.reasons.is_empty() {
            return (Some(start_tree), None);
        }
        (Some(start_tree), self.end_tree(&start))
    }

    fn end_tree(&self, start: &[(&[u8], u32, Oid)]) -> Option<Oid> {
        let prefix = self.workspace.prefix();
        let mut changed: BTreeMap<&[u8], Option<(u32, Oid)>> = BTreeMap::new();
        for (path, change) in &self.files {
            let inside = path.strip_prefix(prefix.as_slice())?;
            let after = change.after.as_ref().map(|entry| {
                let mode = match entry.mode {
                    Mode::Regular => 0o100_644,
                    Mode::Executable => 0o100_755,
                    Mode::Symlink => LINK,
                };
                (mode, self.start.format.id_of("blob", &entry.content))
            });
            changed.insert(inside, after);
        }
        let kept = start.iter().copied().filter(|(path, _, _)| !changed.contains_key(path));
        let mut end: Vec<(&[u8], u32, Oid)> = kept.collect();
        let new = changed.iter().filter_map(|(path, after)| {
            let (mode, oid) = (*after)?;
            Some((*path, mode, oid))
        });
        end.extend(new);
        end.sort_by(|left, right| left.0.cmp(right.0));
        Some(self.build(end.into_iter()))
    }

    fn build<'b>(&self, files: impl Iterator<Item = (&'b [u8], u32, Oid)>) -> Oid {
        let mut builder = TreeBuilder::new(self.start.format);
        for (path, mode, oid) in files {
            builder.add(path, mode, oid);
        }
        builder.finish()
    }
}

fn path_of(bytes: &[u8]) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt;
    std::path::Path::new(std::ffi::OsStr::from_bytes(bytes))
}

fn mode_of(stamp: &Stamp) -> Mode {
    match stamp.kind() {
        FileType::Symlink => Mode::Symlink,
        _ if stamp.mode & 0o100 != 0 => Mode::Executable,
        _ => Mode::Regular,
    }
}

fn git_mode(stamp: &Stamp) -> u32 {
    match mode_of(stamp) {
        Mode::Symlink => LINK,
        Mode::Executable => 0o100_755,
        Mode::Regular => 0o100_644,
    }
}

fn entry_of_state(state: &FileState) -> Option<TreeEntry> {
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

/// Permission bits that changed beyond the one that git keeps.
fn other_mode_bits(old: Option<Stamp>, new: Option<Stamp>) -> Option<String> {
    let new = new.filter(|stamp| stamp.kind() != FileType::Symlink)?;
    let now = new.permissions();
    match old.filter(|old| old.kind() == new.kind()) {
        Some(old) => {
            let was = old.permissions();
            let differs = was ^ now;
            // When git's own bit changes, the other two follow it by the umask.
            let told = new.kind() == FileType::RegularFile && differs & 0o100 != 0;
            let untold = if told { differs & !0o111 } else { differs };
            (untold != 0).then(|| format!("mode {was:04o} → {now:04o}"))
        }
        None => {
            let odd = now & 0o7000 != 0 || now & 0o600 != 0o600;
            (odd && new.kind() == FileType::RegularFile).then(|| format!("new with mode {now:04o}"))
        }
    }
}
