//! Listings for tools and for the world state: bounded, sorted, without what is ignored.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::FileType;

use super::Workspace;
use super::beneath::{Root, kind_of, stat_in};
use super::changes::Change;
use super::error::{WorkspaceError, shown};
use super::manifest::Stamp;
use super::read::{read_small, read_small_in};
use super::rules::{RULE_FILE_LIMIT, Rules};
use super::walk::{Unseen, read_names};
use crate::policy::ReadPermit;

/// What a listed path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedKind {
    File,
    Executable,
    Folder,
    Link,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Relative to the listed folder.
    pub path: Vec<u8>,
    pub kind: ListedKind,
    pub size: u64,
}

/// A folder's tree, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<Listed>,
    /// How many paths were left out because they are ignored.
    pub ignored: usize,
    /// Whether there is more than the limit let in.
    pub cut: bool,
    pub unseen: Vec<Unseen>,
}

/// The world state's view of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    pub tree: Listing,
    /// Files changed so far in this Turn, as far as looks after commands and patches know, by path;
    /// not more than a world state can show.
    pub changed: Vec<Change>,
    /// How many there are in all.
    pub changed_in_all: usize,
}

/// How much of the tree the world state shows.
const OUTLINE_DEPTH: usize = 2;
const OUTLINE_ENTRIES: usize = 200;
const OUTLINE_CHANGES: usize = 500;

struct Open {
    path: Vec<u8>,
    rules: Option<Arc<Rules>>,
    depth: usize,
}

impl Workspace {
    /// List the permitted folder down to `depth` levels, at most `limit` paths. The upper levels
    /// come before the lower ones when the limit cuts.
    pub fn list(
        &self,
        permit: &ReadPermit,
        depth: usize,
        limit: usize,
    ) -> Result<Listing, WorkspaceError> {
        self.reach(permit.path(), |root, relative| self.list_in(root, relative, depth, limit))
    }

    /// The top of the tree and what changed so far. It reads a few folders and walks nothing.
    pub fn outline(&self) -> Result<Outline, WorkspaceError> {
        let tree = self.list_in(&self.root, b"", OUTLINE_DEPTH, OUTLINE_ENTRIES)?;
        let changed = self.captured.iter().flat_map(|captured| &captured.track.changed);
        let changed = changed.map(|(path, kind)| Change { path: path.clone(), kind: *kind });
        let in_all = self.captured.as_ref().map_or(0, |captured| captured.track.changed.len());
        let changed = changed.take(OUTLINE_CHANGES).collect();
        Ok(Outline { tree, changed, changed_in_all: in_all })
    }

    fn list_in(
        &self,
        root: &Root,
        top: &[u8],
        depth: usize,
        limit: usize,
    ) -> Result<Listing, WorkspaceError> {
        let inside = root.path() == self.root();
        let rules = if inside { self.rules_down_to(top) } else { None };
        let mut listing = Listing::default();
        let mut open = VecDeque::from([Open { path: Vec::new(), rules, depth: 0 }]);
        while let Some(folder) = open.pop_front() {
            if folder.depth >= depth {
                continue;
            }
            let full = join(top, &folder.path);
            let is_top = folder.path.is_empty();
            match self.list_folder(root, &full, folder, limit, &mut listing) {
                Ok(inner) => open.extend(inner),
                Err(error) if is_top => return Err(error),
                Err(error) => {
                    listing.unseen.push(Unseen { path: full, why: error.to_string() });
                }
            }
        }
        listing.entries.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(listing)
    }

    /// The entries of one folder; gives the folders in it.
    fn list_folder(
        &self,
        root: &Root,
        full: &[u8],
        mut folder: Open,
        limit: usize,
        listing: &mut Listing,
    ) -> Result<Vec<Open>, WorkspaceError> {
        let fd = root.open_folder(full).map_err(|cause| not_a_folder(root, full, cause))?;
        let mut names: Vec<OsString> = Vec::new();
        read_names(fd.as_fd(), &mut Vec::new(), &mut names)
            .map_err(|cause| WorkspaceError::io("list", full, cause.into()))?;
        names.sort();
        let inside = root.path() == self.root();
        if inside && let Some(text) = read_small_in(fd.as_fd(), ".gitignore", RULE_FILE_LIMIT) {
            folder.rules = Some(Rules::of_folder(folder.rules.take(), full, &text));
        }
        let mut inner = Vec::new();
        for name in names {
            let path = join(full, name.as_bytes());
            if name == ".git" || (inside && self.is_excluded(&path)) {
                continue;
            }
            let Ok(stat) = stat_in(fd.as_fd(), &name) else { continue };
            let stamp = Stamp::of(&stat);
            let kind = listed_kind(&stamp);
            let is_folder = kind == ListedKind::Folder;
            let matched = folder.rules.as_ref().and_then(|rules| rules.matched(&path, is_folder));
            if matched == Some(true) {
                listing.ignored += 1;
                continue;
            }
            if listing.entries.len() >= limit {
                listing.cut = true;
                break;
            }
            let path = join(&folder.path, name.as_bytes());
            if is_folder {
                let rules = folder.rules.clone();
                inner.push(Open { path: path.clone(), rules, depth: folder.depth + 1 });
            }
            listing.entries.push(Listed { path, kind, size: stamp.size });
        }
        Ok(inner)
    }

    /// The ignore rules, as they are now, of the folders above `top` in the workspace.
    fn rules_down_to(&self, top: &[u8]) -> Option<Arc<Rules>> {
        let mut rules = self.outer_rules.clone();
        let ends = top.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let above = (!top.is_empty()).then_some(0).into_iter().chain(ends);
        for end in above {
            let folder = top.get(..end).unwrap_or_default();
            let file = join(folder, b".gitignore");
            if let Some(text) = read_small(&self.root, &file, RULE_FILE_LIMIT) {
                rules = Some(Rules::of_folder(rules, folder, &text));
            }
        }
        rules
    }
}

fn listed_kind(stamp: &Stamp) -> ListedKind {
    match stamp.kind() {
        FileType::Directory => ListedKind::Folder,
        FileType::Symlink => ListedKind::Link,
        FileType::RegularFile if stamp.mode & 0o100 != 0 => ListedKind::Executable,
        FileType::RegularFile => ListedKind::File,
        _ => ListedKind::Other,
    }
}

fn not_a_folder(root: &Root, path: &[u8], cause: std::io::Error) -> WorkspaceError {
    match root.stat(path) {
        Ok(Some(stat)) if Stamp::of(&stat).kind() != FileType::Directory => {
            let kind = kind_of(Stamp::of(&stat).mode);
            WorkspaceError::WrongKind { path: shown(path), kind, wanted: "a folder" }
        }
        _ => WorkspaceError::io("list", path, cause),
    }
}

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() {
        return name.to_vec();
    }
    if name.is_empty() {
        return folder.to_vec();
    }
    [folder, b"/", name].concat()
}

impl Listing {
    /// The paths as text, odd names escaped, folders with a slash.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.entries.iter().map(|entry| {
            let mut line = shown(&entry.path);
            match entry.kind {
                ListedKind::Folder => line.push('/'),
                ListedKind::Executable => line.push('*'),
                ListedKind::Link => line.push('@'),
                ListedKind::File | ListedKind::Other => {}
            }
            line
        })
    }
}

impl Workspace {
    /// Files that may have been meant by a path that does not exist: the same name in other case
    /// or with another ending beside it, or elsewhere in the captured tree.
    pub(super) fn alike(&self, path: &str) -> Vec<String> {
        const MOST: usize = 8;
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = |name: &str| name.split('.').next().unwrap_or_default().to_lowercase();
        let mut found = Vec::new();
        let mut names: Vec<OsString> = Vec::new();
        if let Ok(inside) = self.entry_inside(path)
            && let Ok(fd) = self.root.open_folder(super::beneath::split(&inside).0)
        {
            let _ = read_names(fd.as_fd(), &mut Vec::new(), &mut names);
        }
        let beside = names.iter().filter_map(|other| other.to_str()).filter(|other| {
            other.eq_ignore_ascii_case(name) || (stem(other) == stem(name) && *other != name)
        });
        let join = |other: &str| {
            if folder.is_empty() { other.to_owned() } else { format!("{folder}/{other}") }
        };
        found.extend(beside.map(join).take(MOST));
        if let Some(captured) = &self.captured {
            let manifest = &captured.track.last;
            let same = manifest.entries().iter().map(|entry| manifest.name(entry));
            let same = same.filter(|other| super::beneath::split(other).1 == name.as_bytes());
            let room = MOST.saturating_sub(found.len());
            found.extend(
                same.filter_map(|other| Some(str::from_utf8(other).ok()?.to_owned())).take(room),
            );
        }
        found.sort();
        found.dedup();
        found
    }
}
