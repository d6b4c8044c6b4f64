//! The start of a Turn: the manifest, and for every file a way to get its content back.
//!
//! Git already holds the content of a file that is as it was checked out, so only the id is noted.
//! Everything else is copied: changed and untracked files, files whose bytes git may have changed
//! on checkout, and all files of a folder without git. Where the index is not certain of a file (a
//! fresh clone, a restored cache), the file is hashed: a hash is cheaper than a copy.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::Workspace;
use super::error::WorkspaceError;
use super::gather::{sort_out, take_in};
use super::git::index::Index;
use super::git::objects::{ObjectError, Objects};
use super::git::watch::Watched;
use super::git::{GitPlace, Head, ObjectFormat, Oid, head_of_nested, read_bounded};
use super::kept::{Fate, KeptRef, read_kept};
use super::manifest::{Flags, Manifest, Stamp};
use super::rules::{self, RULE_FILE_LIMIT, Rules};
use super::walk::{Closed, Known, Unseen, WalkInput, walk};

/// Times this close to a look may stay the same through one more change.
const RACY_SLACK: i64 = 20_000_000;
const RACY_SLACK_COARSE: i64 = 2_000_000_000;

/// Where the content of one entry of the start is to be had.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// It has no content: a folder, a pipe, something inside a nested repository.
    None,
    /// The blob of this entry of the index.
    Tracked(u32),
    /// A copy in the run's store.
    Kept(u32),
    /// Nowhere, for this reason.
    NotKept(u32),
}

/// The captured start.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) manifest: Arc<Manifest>,
    origins: Vec<Origin>,
    kept: Vec<KeptRef>,
    /// Ids of contents that were not kept, by position.
    hashed: BTreeMap<u32, Oid>,
    parts: Vec<File>,
    reasons: Vec<String>,
    pub(crate) known: Known,
    /// The commit that each nested repository had checked out.
    pub(crate) nested_heads: BTreeMap<Vec<u8>, Option<Oid>>,
    pub(crate) outer: Option<Arc<Rules>>,
    pub(crate) index: Option<Index>,
    pub(crate) objects: Option<Objects>,
    pub(crate) head: Head,
    pub(crate) watched: Watched,
    pub(crate) unseen: Vec<Unseen>,
    pub(crate) with_git: BTreeSet<Vec<u8>>,
    pub(crate) protected: BTreeSet<Vec<u8>>,
    /// Why the start is not known to the last byte, whatever the Turn does.
    pub(crate) faults: Vec<String>,
    pub(crate) format: ObjectFormat,
}

/// A content of the start that cannot be had, and why.
#[derive(Debug)]
pub(crate) struct Lost(pub(crate) String);

impl Start {
    /// What could not be looked at, as far as it was known.
    pub(crate) fn closed(&self) -> Closed {
        let stamp = |path: &[u8]| self.manifest.find(path).map(|entry| entry.stamp);
        let unseen = self.unseen.iter().map(|place| &place.path);
        unseen.map(|path| (path.clone(), stamp(path))).collect()
    }

    pub(crate) fn capture(workspace: &Workspace) -> Result<Self, WorkspaceError> {
        let git = workspace.git.as_ref();
        let mut faults = Vec::new();
        let index = git.and_then(|place| read_index(place, workspace.root(), &mut faults));
        let began = wall_nanos();
        let walked = walk(&WalkInput {
            root: &workspace.root,
            exclude: &workspace.excluded,
            outer: workspace.outer_rules.clone(),
            converted: git.and_then(|place| converted_around(place, workspace.root())),
            tracked: index.as_ref(),
            known: None,
            protected: workspace.protection(),
            closed_before: None,
            max_entries: workspace.limits.entries,
            threads: workspace.limits.threads,
            stopped: &workspace.stopped,
        })?;
        let mut manifest = walked.manifest;
        mark_racy(&mut manifest, began);
        let format = git.map(GitPlace::format).unwrap_or_default();
        let (mut origins, open) = sort_out(&manifest, index.as_ref());
        let taken = take_in(workspace, &manifest, index.as_ref(), &open, format)?;
        workspace.go_on()?;
        let mut start = Self {
            manifest: Arc::default(),
            origins: Vec::new(),
            kept: Vec::new(),
            hashed: BTreeMap::new(),
            parts: taken.parts,
            reasons: Vec::new(),
            nested_heads: nested_heads(workspace.root(), &walked.known),
            watched: Watched::look(git, workspace.root(), &walked.known.nested),
            known: walked.known,
            outer: workspace.outer_rules.clone(),
            index,
            objects: git.map(Objects::open),
            head: git.map(GitPlace::read_head).unwrap_or_default(),
            unseen: walked.unseen,
            with_git: walked.with_git,
            protected: walked.protected,
            faults,
            format,
        };
        for one in taken.results {
            let position = one.position as usize;
            if let (Some(stamp), Some(entry)) =
                (one.stamp, manifest.entries_mut().get_mut(position))
            {
                entry.stamp = stamp;
            }
            let origin = match one.fate {
                Ok(Fate::SameAs) => origins.get(position).copied().unwrap_or(Origin::None),
                Ok(Fate::Kept(kept)) => {
                    start.kept.push(kept);
                    Origin::Kept(start.kept.len() as u32 - 1)
                }
                Ok(Fate::TooLarge(oid)) => {
                    start.hashed.extend(oid.map(|oid| (one.position, oid)));
                    start.not_kept("it was larger than the limit for copies")
                }
                Err(why) => start.not_kept(&why),
            };
            if let Some(slot) = origins.get_mut(position) {
                *slot = origin;
            }
        }
        start.origins = origins;
        start.manifest = Arc::new(manifest);
        Ok(start)
    }

    fn not_kept(&mut self, why: &str) -> Origin {
        let known = self.reasons.iter().position(|reason| reason == why);
        let at = known.unwrap_or_else(|| {
            self.reasons.push(why.to_owned());
            self.reasons.len() - 1
        });
        Origin::NotKept(at as u32)
    }

    pub(crate) fn origin(&self, position: usize) -> Origin {
        self.origins.get(position).copied().unwrap_or(Origin::None)
    }

    /// The blob id of an entry's content, where it is known without reading.
    pub(crate) fn oid(&self, position: usize) -> Option<Oid> {
        match self.origin(position) {
            Origin::Tracked(at) => Some(self.index.as_ref()?.entries().get(at as usize)?.oid),
            Origin::Kept(at) => Some(self.kept.get(at as usize)?.oid),
            Origin::NotKept(_) => self.hashed.get(&u32::try_from(position).ok()?).copied(),
            Origin::None => None,
        }
    }

    /// The content of an entry as it was at the start.
    pub(crate) fn content(&self, position: usize, limit: u64) -> Result<Vec<u8>, Lost> {
        let entry = self.manifest.entries().get(position);
        let size = entry.map_or(0, |entry| entry.stamp.size);
        if size > limit {
            return Err(Lost(format!("its start content is larger than {limit} bytes")));
        }
        match self.origin(position) {
            Origin::Kept(at) => {
                let kept = self.kept.get(at as usize).ok_or(Lost("not kept".to_owned()))?;
                read_kept(&self.parts, kept).map_err(|error| Lost(error.to_string()))
            }
            Origin::Tracked(_) => {
                let oid = self.oid(position).ok_or(Lost("not kept".to_owned()))?;
                let bytes = self.blob(&oid, limit).map_err(|error| Lost(error.to_string()))?;
                if bytes.len() as u64 != size {
                    // A setting outside the repository made git change bytes on checkout.
                    return Err(Lost("the file differed from its blob at the start".to_owned()));
                }
                Ok(bytes)
            }
            Origin::NotKept(at) => {
                let why = self.reasons.get(at as usize).map_or("not kept", String::as_str);
                Err(Lost(why.to_owned()))
            }
            Origin::None => Err(Lost("it has no content".to_owned())),
        }
    }

    pub(crate) fn blob(&self, oid: &Oid, limit: u64) -> Result<Vec<u8>, ObjectError> {
        let objects = self.objects.as_ref().ok_or(ObjectError::Missing(*oid))?;
        Ok(objects.read(oid, limit)?.bytes)
    }

    /// Bytes that were copied.
    pub(crate) fn copied(&self) -> u64 {
        self.kept.iter().map(|kept| kept.len).sum()
    }

    /// Every file whose content could not be kept, with the reason.
    pub(crate) fn lost(&self) -> impl Iterator<Item = (&[u8], &str)> {
        self.manifest.entries().iter().zip(&self.origins).filter_map(|(entry, origin)| {
            let Origin::NotKept(at) = origin else { return None };
            Some((self.manifest.name(entry), self.reasons.get(*at as usize)?.as_str()))
        })
    }

    pub(crate) fn left_out(&self, path: &[u8]) -> bool {
        let tracked = self.index.as_ref().is_some_and(|index| index.find(path).is_some());
        !tracked && rules::left_out(&self.known.rules, self.outer.as_ref(), path)
    }
}

/// The index, cut to the workspace. One that cannot be read is a fault, not an empty one.
pub(super) fn read_index(
    place: &GitPlace,
    workspace: &Path,
    faults: &mut Vec<String>,
) -> Option<Index> {
    let inside = workspace.strip_prefix(&place.work_root).unwrap_or(Path::new(""));
    let prefix = rules::prefix_of(inside);
    match Index::read(&place.git_dir.join("index"), place.format(), &prefix) {
        Ok(index) => Some(index),
        Err(error) => {
            faults.push(format!("tracked files that are ignored may be missing: {error}"));
            None
        }
    }
}

/// Patterns of converted files from outside the workspace's own folders: `info/attributes`, the
/// settings, and the attributes of the folders above.
pub(super) fn converted_around(place: &GitPlace, workspace: &Path) -> Option<Arc<Rules>> {
    let everything = || Some(Rules::of_folder(None, b"", b"*\n"));
    if place.settings.converts {
        return everything();
    }
    let own = read_bounded(&place.common_dir.join("info/attributes"), RULE_FILE_LIMIT);
    let inside = workspace.strip_prefix(&place.work_root).unwrap_or(Path::new(""));
    let above = inside.ancestors().skip(1).filter_map(|folder| {
        let path = place.work_root.join(folder).join(".gitattributes");
        read_bounded(&path, RULE_FILE_LIMIT).ok()
    });
    // From above the workspace a pattern means other paths; taking every file is safe.
    let mut texts = own.into_iter().chain(above);
    if texts.any(|text| rules::converting(&text).is_some()) { everything() } else { None }
}

fn nested_heads(root: &Path, known: &Known) -> BTreeMap<Vec<u8>, Option<Oid>> {
    let head = |path: &Vec<u8>| head_of_nested(&root.join(OsStr::from_bytes(path)));
    known.nested.iter().map(|path| (path.clone(), head(path))).collect()
}

/// The wall clock in the unit of the stamps.
pub(crate) fn wall_nanos() -> i64 {
    let since = crate::clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Mark what was changed so late before `began` that one more change could go unseen.
pub(crate) fn mark_racy(manifest: &mut Manifest, began: i64) {
    for entry in manifest.entries_mut() {
        if entry.stamp.has_content() && is_racy(&entry.stamp, began) {
            entry.flags = entry.flags.with(Flags::RACY);
        }
    }
}

fn is_racy(stamp: &Stamp, began: i64) -> bool {
    let coarse = stamp.ctime % 1_000_000_000 == 0;
    let slack = if coarse { RACY_SLACK_COARSE } else { RACY_SLACK };
    stamp.ctime.saturating_add(slack) >= began
}

/// Paths that are left out, as bytes relative to the workspace.
pub(super) fn relative_excludes(root: &Path, exclude: &[std::path::PathBuf]) -> HashSet<Vec<u8>> {
    let inside = exclude.iter().filter_map(|path| {
        let resolved = super::resolve::resolve(root, path, true).ok()?;
        let inside = resolved.strip_prefix(root).ok()?;
        let bytes = OsStr::as_bytes(inside.as_os_str()).to_vec();
        (!bytes.is_empty()).then_some(bytes)
    });
    inside.collect()
}
