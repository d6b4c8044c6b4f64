//! Who changed what during the Turn.
//!
//! A patch says what it wrote. A command is found out by one walk after it: what differs from the
//! walk before is its doing, except what had changed before it began. What differs without any
//! command is from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustix::fs::FileType;

use super::changes::ChangeKind;
use super::commit::Committed;
use super::error::WorkspaceError;
use super::kept::hash_file;
use super::manifest::{Difference, Entry, Manifest, Stamp, differences};
use super::read::open_regular;
use super::start::{Start, wall_nanos};
use super::walk::{WalkInput, Walked, walk};
use super::{Captured, Workspace};
use crate::patch::FileState;

/// How a call changed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    Patch,
    Command,
    /// The operator's own command; the id names it.
    Hook,
}

/// A call that changed a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallRef {
    pub id: String,
    pub by: By,
}

/// A path that changed since the look before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    pub kind: ChangeKind,
    /// It had changed before the command began, so something else did it.
    pub outside: bool,
}

/// All that is known of who touched one path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Touched {
    pub(crate) calls: BTreeSet<CallRef>,
    pub(crate) outside: bool,
}

#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) last: Arc<Manifest>,
    /// What patches made of paths since `last` was taken.
    patched: BTreeMap<Vec<u8>, Option<Stamp>>,
    pub(crate) touched: BTreeMap<Vec<u8>, Touched>,
    /// Paths that differ from the start, as far as is known without reading much.
    pub(crate) changed: BTreeMap<Vec<u8>, ChangeKind>,
    /// Commands that run, with the time they began.
    running: BTreeMap<CallRef, i64>,
    /// Files that the rules leave out but a patch wrote.
    pub(crate) patched_left_out: BTreeMap<Vec<u8>, LeftOut>,
}

/// A file that no walk sees, watched because a patch wrote it.
#[derive(Debug)]
pub(crate) struct LeftOut {
    /// What it was before the first patch.
    pub(crate) before: Option<FileState>,
    last: Option<Stamp>,
}

impl Track {
    pub(crate) fn new(start: Arc<Manifest>) -> Self {
        Self {
            last: start,
            patched: BTreeMap::new(),
            touched: BTreeMap::new(),
            changed: BTreeMap::new(),
            running: BTreeMap::new(),
            patched_left_out: BTreeMap::new(),
        }
    }

    fn touch(&mut self, path: &[u8], calls: &[CallRef], outside: bool) {
        let touched = self.touched.entry(path.to_vec()).or_default();
        touched.calls.extend(calls.iter().cloned());
        touched.outside |= outside;
    }

    fn set_changed(&mut self, path: &[u8], kind: Option<ChangeKind>) {
        match kind {
            Some(kind) => self.changed.insert(path.to_vec(), kind),
            None => self.changed.remove(path),
        };
    }

    /// The paths that differ between the last look and `now`, patches taken into account.
    fn found(&self, now: &Manifest) -> Vec<Found> {
        let mut found = Vec::new();
        for Difference { path, before, after } in differences(&self.last, now) {
            if !self.patched.contains_key(path) {
                let stamps = (before.map(|entry| entry.stamp), after.map(|entry| entry.stamp));
                found.extend(Found::new(path, stamps));
            }
        }
        for (path, before) in &self.patched {
            let after = now.find(path).map(|entry| entry.stamp);
            if *before != after {
                found.extend(Found::new(path, (*before, after)));
            }
        }
        found
    }
}

/// One path that changed between two looks.
struct Found {
    path: Vec<u8>,
    kind: ChangeKind,
    after: Option<Stamp>,
}

impl Found {
    /// `None` for folders, which come and go with their files.
    fn new(path: &[u8], (before, after): (Option<Stamp>, Option<Stamp>)) -> Option<Self> {
        let file = |stamp: &Stamp| stamp.kind() != FileType::Directory;
        let kind = match (before.filter(file), after.filter(file)) {
            (None, None) => return None,
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Deleted,
            (Some(_), Some(_)) => ChangeKind::Modified,
        };
        Some(Self { path: path.to_vec(), kind, after: after.filter(file) })
    }
}

impl CallRef {
    pub fn command(id: &str) -> Self {
        Self { id: id.to_owned(), by: By::Command }
    }

    pub fn hook(id: &str) -> Self {
        Self { id: id.to_owned(), by: By::Hook }
    }
}

impl Workspace {
    /// A command is about to begin. What changed before now is not its doing.
    pub fn command_started(&mut self, call: CallRef) {
        if let Some(captured) = &mut self.captured {
            captured.track.running.insert(call, wall_nanos());
        }
    }

    /// One walk after a command ended: what it changed. While other commands run, they are named
    /// as well, since nobody can tell them apart.
    pub fn after_command(&mut self, call: &CallRef) -> Result<Vec<ChangedPath>, WorkspaceError> {
        let changed = self.look_at_command(call, true)?;
        if let Some(captured) = &mut self.captured {
            captured.track.running.remove(call);
        }
        Ok(changed)
    }

    /// Like [`Workspace::after_command`], for a command that has only yielded and still runs.
    pub fn while_command_runs(
        &mut self,
        call: &CallRef,
    ) -> Result<Vec<ChangedPath>, WorkspaceError> {
        self.look_at_command(call, false)
    }

    fn look_at_command(
        &mut self,
        call: &CallRef,
        ended: bool,
    ) -> Result<Vec<ChangedPath>, WorkspaceError> {
        let running = &self.captured()?.track.running;
        let began = running.values().min().copied();
        let mut calls: BTreeSet<CallRef> = running.keys().cloned().collect();
        calls.insert(call.clone());
        let calls: Vec<CallRef> = calls.into_iter().collect();
        let walked = self.walk_again(ended)?;
        self.note_intruders(&walked, ended);
        self.take_look(walked.manifest, &calls, began)
    }

    /// Walk the tree by the rules of the start. With `opens`, folders that a command closed are opened.
    pub(super) fn walk_again(&self, opens: bool) -> Result<Walked, WorkspaceError> {
        let start = &self.captured()?.start;
        let closed = opens.then(|| start.closed());
        walk(&WalkInput {
            root: &self.root,
            exclude: &self.excluded,
            outer: start.outer.clone(),
            converted: None,
            tracked: start.index.as_ref(),
            known: Some(&start.known),
            protected: self.protection(),
            closed_before: closed.as_ref(),
            max_entries: self.limits.entries,
            threads: self.limits.threads,
            stopped: &self.stopped,
        })
    }

    /// Take in a new look at the tree. Without calls all that changed is from outside.
    pub(super) fn take_look(
        &mut self,
        now: Manifest,
        calls: &[CallRef],
        began: Option<i64>,
    ) -> Result<Vec<ChangedPath>, WorkspaceError> {
        // File systems stamp by a clock that lags by up to a tick.
        const TICK: i64 = 20_000_000;
        let found = self.captured()?.track.found(&now);
        let mut budget = HASH_BUDGET;
        self.look_at_left_out(calls);
        let mut changed = Vec::with_capacity(found.len());
        for one in found {
            let kind = self.against_start(&one.path, one.after.as_ref(), &mut budget);
            let earlier = |stamp: &Stamp| began.is_some_and(|began| stamp.ctime + TICK < began);
            let outside = calls.is_empty() || one.after.as_ref().is_some_and(earlier);
            let calls = if outside { &[] } else { calls };
            if let Some(Captured { track, .. }) = &mut self.captured {
                track.touch(&one.path, calls, outside);
                track.set_changed(&one.path, kind);
            }
            changed.push(ChangedPath { path: one.path, kind: one.kind, outside });
        }
        if let Some(Captured { track, .. }) = &mut self.captured {
            track.last = Arc::new(now);
            track.patched.clear();
        }
        Ok(changed)
    }

    /// No walk sees the ignored files that a patch wrote, so they are looked at one by one.
    fn look_at_left_out(&mut self, calls: &[CallRef]) {
        let Some(Captured { track, .. }) = &mut self.captured else { return };
        let mut moved = Vec::new();
        for (path, known) in &mut track.patched_left_out {
            let now = self.root.stat(path).ok().flatten().map(|stat| Stamp::of(&stat));
            if now != known.last {
                known.last = now;
                moved.push(path.clone());
            }
        }
        for path in moved {
            track.touch(&path, calls, calls.is_empty());
        }
    }

    /// How a path differs from the start. A file of the same size is hashed while the budget
    /// lasts, so that a file that was only touched does not count as changed.
    fn against_start(
        &self,
        path: &[u8],
        now: Option<&Stamp>,
        budget: &mut u64,
    ) -> Option<ChangeKind> {
        let start = &self.captured.as_ref()?.start;
        let position = start.manifest.position(path);
        let before = position.and_then(|at| start.manifest.entries().get(at));
        let file = |entry: &&Entry| entry.stamp.kind() != FileType::Directory;
        match (before.filter(file), now) {
            (None, None) => None,
            (None, Some(_)) => Some(ChangeKind::Added),
            (Some(_), None) => Some(ChangeKind::Deleted),
            (Some(before), Some(now)) => {
                let same = before.stamp.same(now)
                    || self.same_content(start, position?, &before.stamp, now, path, budget);
                (!same).then_some(ChangeKind::Modified)
            }
        }
    }

    fn same_content(
        &self,
        start: &Start,
        position: usize,
        before: &Stamp,
        now: &Stamp,
        path: &[u8],
        budget: &mut u64,
    ) -> bool {
        let comparable = before.mode == now.mode
            && before.size == now.size
            && now.kind() == FileType::RegularFile
            && now.size <= *budget;
        let Some(oid) = start.oid(position).filter(|_| comparable) else { return false };
        *budget -= now.size;
        open_regular(&self.root, path)
            .ok()
            .and_then(|(file, _)| hash_file(&file, now.size, oid.format()).ok())
            .is_some_and(|found| found == Some(oid))
    }

    /// A patch was committed: these files are its doing.
    pub fn note_patch(
        &mut self,
        call_id: &str,
        committed: &Committed,
    ) -> Result<(), WorkspaceError> {
        let calls = [CallRef { id: call_id.to_owned(), by: By::Patch }];
        let mut budget = HASH_BUDGET;
        for file in &committed.files {
            let path = file.path.as_slice();
            let left_out = self.captured()?.start.left_out(path);
            let kind = self.against_start(path, file.stamp.as_ref(), &mut budget);
            let Some(Captured { track, .. }) = &mut self.captured else { continue };
            track.touch(path, &calls, false);
            if left_out {
                let before = file.before.clone();
                let known = track.patched_left_out.entry(path.to_vec());
                known.or_insert(LeftOut { before, last: None }).last = file.stamp;
            } else {
                track.patched.insert(path.to_vec(), file.stamp);
            }
            track.set_changed(path, kind);
        }
        Ok(())
    }

    /// Whether commands still run, as far as this room was told.
    pub(super) fn running_calls(&self) -> Vec<CallRef> {
        let running = self.captured.iter().flat_map(|captured| captured.track.running.keys());
        running.cloned().collect()
    }
}

/// Bytes that are hashed after one command to tell touched from changed.
const HASH_BUDGET: u64 = 64 << 20;
