//! Protected names that a command makes anywhere in the tree: agent configuration below a folder, a
//! `.git` of its own for one.
//!
//! The guard looks at places that are known before a command. What is new is seen by the walk after it,
//! which goes there anyway; a name that was not there when the Turn started is taken away again. In
//! folders that the repository ignores no walk goes, and nothing is taken away: build folders hold
//! whatever tools and tests put there, and nobody's agent looks for its rules in them.

use super::Workspace;
use super::error::{WorkspaceError, named};
use super::guard::remove;
use super::manifest::is_below;
use super::walk::{Unseen, Walked};
use crate::policy::FileRules;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// What is protected by name, and what the last walk found of it that is new.
#[derive(Debug, Default)]
pub(super) struct Intruders {
    rules: Option<FileRules>,
    found: Vec<Vec<u8>>,
    /// Folders that a command had closed to their owner, and the walk opened.
    opened: BTreeSet<Vec<u8>>,
    /// A place that a command left and that could not be looked at.
    blind: Option<Unseen>,
}

impl Workspace {
    pub(super) fn watch_names(&mut self, rules: FileRules) {
        self.intruders.rules = Some(rules);
    }

    /// The rules by whose names walks look for protected places.
    pub(super) fn protection(&self) -> Option<&FileRules> {
        self.intruders.rules.as_ref()
    }

    /// Keeps what is new of the names that a walk saw. One inside another goes with it. Where the walk was
    /// to see everything, a place that it could not look at is kept as well, unless that was so at the
    /// start: such a folder is somebody else's, or the walk would have opened it, and commands have no more
    /// rights to it than the runner.
    pub(super) fn note_intruders(&mut self, walked: &Walked, everything: bool) {
        let Some(captured) = &self.captured else { return };
        let start = &captured.start;
        let new = walked.protected.difference(&start.protected).cloned().collect();
        let closed = start.closed();
        let mut hidden = walked.unseen.iter().filter(|place| !closed.contains_key(&place.path));
        let blind = hidden.next().filter(|_| everything).cloned();
        let found = self.new_names(&new);
        self.intruders.found = found;
        self.intruders.blind = blind;
        self.intruders.opened.extend(walked.opened.iter().cloned());
    }

    /// Of names that are new, the outermost, or what is in them that the policy does protect.
    pub(super) fn new_names(&self, new: &BTreeSet<Vec<u8>>) -> Vec<Vec<u8>> {
        let Some(rules) = &self.intruders.rules else { return Vec::new() };
        let mut tops: Vec<&Vec<u8>> = Vec::new();
        for path in new {
            if !tops.last().is_some_and(|outer| is_below(path, outer)) {
                tops.push(path);
            }
        }
        tops.into_iter().flat_map(|path| self.protected_in(rules, path.clone())).collect()
    }

    /// A place as a whole, or what is in it but the files that the policy names letter by letter.
    fn protected_in(&self, rules: &FileRules, inside: Vec<u8>) -> Vec<Vec<u8>> {
        let path = self.root().join(OsStr::from_bytes(&inside));
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
        if !is_folder || !rules.named_below(&path) {
            return if is_protected(rules, &path) { vec![inside] } else { Vec::new() };
        }
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        let below = entries.map(|entry| [&inside[..], b"/", entry.file_name().as_bytes()].concat());
        below.flat_map(|inside| self.protected_in(rules, inside)).collect()
    }

    /// The same after commands that have no say in the work, whose changes are no one's: with a walk of
    /// its own.
    pub fn take_new_intruders_away(&mut self) -> Result<Vec<String>, WorkspaceError> {
        let walked = self.walk_again(true)?;
        self.note_intruders(&walked, true);
        self.take_intruders_away()
    }

    /// Whether the last look found protected names that are new, or had to look where a command did not
    /// want it to.
    pub fn has_intruders(&self) -> bool {
        let Intruders { found, opened, blind, .. } = &self.intruders;
        !found.is_empty() || !opened.is_empty() || blind.is_some()
    }

    /// Takes away what the last look found, and names it. No process of a command may run.
    pub fn take_intruders_away(&mut self) -> Result<Vec<String>, WorkspaceError> {
        let found = std::mem::take(&mut self.intruders.found);
        let opened = std::mem::take(&mut self.intruders.opened);
        let blind = self.intruders.blind.take();
        let mut told: Vec<String> = Vec::new();
        for inside in opened {
            let path = self.root().join(OsStr::from_bytes(&inside));
            told.push(format!("{} was closed to its owner and is open again", named(&path)));
        }
        for inside in &found {
            let path = self.root().join(OsStr::from_bytes(inside));
            let taken = self.real_parents(&path).and_then(|()| remove(&path));
            taken.map_err(|cause| WorkspaceError::io("take away", inside, cause))?;
            told.push(format!("{} was made and is gone again", named(&path)));
        }
        if let Some(captured) = self.captured.as_mut().filter(|_| !found.is_empty()) {
            let track = &mut captured.track;
            let stays = |path: &Vec<u8>| !found.iter().any(|top| is_below(path, top));
            track.changed.retain(|path, _| stays(path));
            track.touched.retain(|path, _| stays(path));
            track.last = Arc::new(track.last.without(&found));
        }
        match blind {
            None => Ok(told),
            Some(Unseen { path, why }) => {
                let cause = std::io::Error::other(why);
                Err(WorkspaceError::io("look, for protected names, into", &path, cause))
            }
        }
    }
}

/// A pattern for all that is in a folder does not speak of the folder itself, or of a link in its place.
fn is_protected(rules: &FileRules, path: &Path) -> bool {
    let is_file = || fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    rules.is_protected(path).is_some()
        || (!is_file() && rules.is_protected(&path.join("any")).is_some())
}
