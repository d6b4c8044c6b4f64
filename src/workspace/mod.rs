//! The door to the files of the workspace: no other room reads or writes them.
//!
//! It reads and lists files, commits planned patches all or nothing, and knows what the Turn
//! changed: a manifest of the tree is taken before the first effect, and the tree is compared with
//! it at the end, whoever made the changes. No git program runs for any of this, and nothing that
//! the repository configures is run or obeyed: its files are read as bytes.
//!
//! Reading starts at [`Workspace`]. `beneath` is how files are reached, `walk` and `manifest` how
//! the tree is seen, `start` what is kept of it, `track` who changed it, `guard` and `intruders` what
//! of it must stay as it is, `witness` what of that a killed run found, `changes` what became of it, `commit` how patches are written, `apply` what the operator changes himself, `copy` how a Turn gets a
//! tree of its own, `git` how a
//! repository is read.

mod apply;
mod beneath;
mod changes;
mod commit;
mod compare;
mod copy;
mod error;
mod gather;
pub mod git;
mod guard;
mod inexpressible;
mod intruders;
mod kept;
mod list;
pub(crate) mod manifest;
mod parallel;
mod queue;
mod read;
mod resolve;
mod rules;
mod start;
mod support;
#[cfg(test)]
mod tests;
mod track;
mod trees;
mod walk;
mod witness;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use apply::ApplyFailure;
use beneath::Root;
pub use changes::{Attribution, Change, ChangeKind, NotExpressible, StartChanges, TurnChanges};
pub use commit::{Committed, CommittedFile, Recovered};
pub use error::{CommitError, WorkspaceError, shown};
use git::GitPlace;
pub use git::watch::GitWarning;
pub use list::{Listed, ListedKind, Listing, Outline};
pub use read::{FileContent, WorkspaceFiles};
use rules::Rules;
use start::Start;
pub use support::{Observed, resolve, resolve_entry};
use track::Track;
pub use track::{By, CallRef, ChangedPath};
pub use walk::Unseen;

/// How a workspace is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folders and files that are no part of the work, like an artifacts folder: never in the
    /// diff, a listing or the prompt, and never written by a patch.
    pub exclude: Vec<PathBuf>,
    /// An existing folder of the run outside the workspace, for contents of the start and for the
    /// journal of a patch.
    pub store: PathBuf,
    pub limits: Limits,
}

/// Bounds of what is held and looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of start contents that are copied, in all and of one file. A file beyond is watched
    /// but not kept; if the Turn changes it, the diff says that it is not exact.
    pub start_total: u64,
    pub start_file: u64,
    /// Bytes of changed contents that a diff holds in memory, in all and of one side of one file.
    pub diff_total: u64,
    pub diff_file: u64,
    /// Files and folders of a workspace.
    pub entries: usize,
    /// Threads of a walk.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start_total: 2 << 30,
            start_file: 256 << 20,
            diff_total: 256 << 20,
            diff_file: 64 << 20,
            entries: 1_000_000,
            threads: 2,
        }
    }
}

/// The folder that the Turn works in.
#[derive(Debug)]
pub struct Workspace {
    root: Root,
    git: Option<GitPlace>,
    store: PathBuf,
    limits: Limits,
    excluded: HashSet<Vec<u8>>,
    /// Ignore rules from around the workspace.
    outer_rules: Option<Arc<Rules>>,
    captured: Option<Captured>,
    /// Protected places that the sandbox cannot carve out.
    guard: guard::Guard,
    intruders: intruders::Intruders,
    /// Once it is set, long looks give up.
    stopped: Arc<AtomicBool>,
    /// The tree as it was first shown to the model.
    outline_text: Option<String>,
}

/// The repository that a folder is part of. A folder that the repository around it ignores is none
/// of its parts.
pub fn repository_of(folder: &Path) -> Option<GitPlace> {
    surroundings(folder).0
}

/// The same, with the ignore rules from around the folder.
fn surroundings(folder: &Path) -> (Option<GitPlace>, Option<Arc<Rules>>) {
    let Some(place) = GitPlace::discover(folder) else { return (None, None) };
    let (rules, ignored) = rules::around(&place, folder);
    ((!ignored).then_some(place), rules)
}

/// The start, and what became of it so far.
#[derive(Debug)]
struct Captured {
    start: Start,
    track: Track,
}

impl Workspace {
    /// Open the folder. Nothing is walked: that waits for [`Workspace::capture_start`].
    pub fn open(root: &Path, options: Options) -> Result<Self, WorkspaceError> {
        let failed = |cause| WorkspaceError::Open { path: root.to_owned(), cause };
        let resolved = std::fs::canonicalize(root).map_err(failed)?;
        let folder = Root::open(&resolved).map_err(failed)?;
        let store = std::fs::canonicalize(&options.store)
            .map_err(|cause| WorkspaceError::Open { path: options.store.clone(), cause })?;
        if store.starts_with(&resolved) {
            return Err(WorkspaceError::StoreInside { path: store });
        }
        let (git, outer_rules) = surroundings(&resolved);
        let excluded = start::relative_excludes(&resolved, &options.exclude);
        Ok(Self {
            root: folder,
            git,
            store,
            limits: options.limits,
            excluded,
            outer_rules,
            captured: None,
            guard: guard::Guard::default(),
            intruders: intruders::Intruders::default(),
            stopped: Arc::default(),
            outline_text: None,
        })
    }

    /// From now on long looks give up, with an error, once this is set.
    pub fn give_up_when(&mut self, stopped: Arc<AtomicBool>) {
        self.stopped = stopped;
    }

    /// An error where it is time to give up.
    fn go_on(&self) -> Result<(), WorkspaceError> {
        error::go_on(&self.stopped)
    }

    /// The workspace as a resolved path.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The repository around the workspace, if any, as it was when the workspace was opened.
    pub fn git(&self) -> Option<&GitPlace> {
        self.git.as_ref()
    }

    /// Whether [`Workspace::capture_start`] has been done.
    pub fn is_captured(&self) -> bool {
        self.captured.is_some()
    }

    /// Take the start state. To be called before the first effect; later calls do nothing.
    pub fn capture_start(&mut self) -> Result<(), WorkspaceError> {
        if self.captured.is_none() {
            let start = Start::capture(self)?;
            let track = Track::new(start.manifest.clone());
            self.captured = Some(Captured { start, track });
        }
        Ok(())
    }

    /// Files of the start whose content could not be kept, with the reason. Should the Turn change
    /// one of them, the diff says that it is not exact.
    pub fn not_kept(&self) -> Vec<Unseen> {
        let lost = self.captured.iter().flat_map(|captured| captured.start.lost());
        lost.map(|(path, why)| Unseen { path: path.to_vec(), why: why.to_owned() }).collect()
    }

    /// Bytes of start contents that had to be copied.
    pub fn copied(&self) -> u64 {
        self.captured.as_ref().map_or(0, |captured| captured.start.copied())
    }

    fn captured(&self) -> Result<&Captured, WorkspaceError> {
        self.captured.as_ref().ok_or(WorkspaceError::NotCaptured)
    }

    /// Whether a path relative to the workspace is, or lies in, something left out.
    fn is_excluded(&self, inside: &[u8]) -> bool {
        let ends = inside.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.chain([inside.len()])
            .any(|end| self.excluded.contains(inside.get(..end).unwrap_or_default()))
    }

    /// A path relative to the workspace as one relative to the repository's root, which is what a
    /// diff names.
    fn diff_path(&self, inside: &[u8]) -> Vec<u8> {
        let mut path = self.prefix();
        path.extend_from_slice(inside);
        path
    }

    /// The way from the repository's root to the workspace, empty or ending in `/`.
    fn prefix(&self) -> Vec<u8> {
        let inside =
            self.git.as_ref().and_then(|git| self.root().strip_prefix(&git.work_root).ok());
        rules::prefix_of(inside.unwrap_or(Path::new("")))
    }
}
