//! What the Turn changed: the end compared with the start, file by file, by content.
//!
//! Stat data only tells which files to look at; whether one changed is decided by its bytes and
//! mode. What git cannot express is listed beside the diff, and where the truth is not known to
//! the last byte, that is said with the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::Workspace;
use super::compare::Builder;
use super::error::WorkspaceError;
use super::git::index::TREE;
use super::git::tree::{self, TreeFile};
use super::git::watch::GitWarning;
use super::git::{Head, Oid};
use super::start::Start;
use super::track::CallRef;
use super::walk::Unseen;
use crate::diff::{FileChange, TreeEntry};

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
        let mut walked = self.walk_again(false)?;
        let manifest = std::mem::take(&mut walked.manifest);
        // What no command or patch accounts for is from outside, unless a command still runs.
        let calls = self.running_calls();
        self.take_look(manifest, &calls, None)?;
        let captured = self.captured()?;
        let mut builder = Builder::new(self, captured);
        builder.compare();
        builder.workspace.go_on()?;
        builder.add_patched_left_out();
        builder.say_new_repositories(&walked.with_git);
        Ok(builder.finish(walked.unseen))
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

    /// Of these paths of the diff with their state now, those that are as `commit` has them; none
    /// where the Turn did not start from that commit.
    pub fn as_committed(
        &mut self,
        commit: &str,
        ends: &BTreeMap<String, Option<TreeEntry>>,
    ) -> Result<BTreeSet<String>, WorkspaceError> {
        let at_start = self.captured.as_ref().and_then(|captured| captured.start.head.commit);
        if ends.is_empty() || at_start.is_none_or(|start| start.hex() != commit) {
            return Ok(BTreeSet::new());
        }
        let dirty = self.start_changes()?.files;
        let back = ends.iter().filter(|(path, end)| {
            let file = dirty.iter().find(|file| file.path == path.as_bytes());
            file.is_some_and(|file| file.before == **end)
        });
        Ok(back.map(|(path, _)| path.clone()).collect())
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
