//! What a Turn changed that a git diff has no words for.
//!
//! Other mode bits, empty folders, pipes and sockets, and whatever happened inside nested
//! repositories: none of it can be in the diff, so it is listed beside it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::FileType;

use super::beneath::kind_of;
use super::changes::NotExpressible;
use super::compare::Builder;
use super::git::{Oid, head_of_nested};
use super::manifest::{Entry, Flags, Stamp};

impl Builder<'_> {
    pub(super) fn say(&mut self, path: &[u8], what: impl Into<String>) {
        let path = self.workspace.diff_path(path);
        self.not_expressible.push(NotExpressible { path, what: what.into() });
    }

    pub(super) fn note_what_git_cannot_say(
        &mut self,
        path: &[u8],
        old: Option<&Entry>,
        new: Option<&Entry>,
    ) {
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

    pub(super) fn nested_top(&self, path: &[u8]) -> Vec<u8> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let top = ends.map(|end| path.get(..end).unwrap_or_default());
        let nested = &self.start.known.nested;
        top.into_iter().find(|top| nested.contains(*top)).unwrap_or(path).to_vec()
    }

    /// A repository that the Turn made: its files are in the diff, its `.git` is not.
    pub(super) fn say_new_repositories(&mut self, with_git: &BTreeSet<Vec<u8>>) {
        for path in with_git.difference(&self.start.with_git) {
            self.say(path, "a repository was made here; its .git is not in the diff");
        }
    }

    pub(super) fn compare_nested_heads(&mut self) {
        for (path, before) in &self.start.nested_heads {
            let now = head_of_nested(&self.workspace.root().join(OsStr::from_bytes(path)));
            if *before != now {
                let show = |head: &Option<Oid>| head.map_or("none".to_owned(), |oid| oid.hex());
                let what = format!("nested repository: commit {} → {}", show(before), show(&now));
                self.say(path, what);
            }
        }
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
