//! The walk behind the manifest: every path of the workspace, on a few threads.
//!
//! Each folder is opened by its one name from the folder around it, without following a link, so
//! a folder that a command swaps for a link during the walk leads nowhere. (The walker of the
//! `ignore` crate goes by whole paths; its matcher is used here, its walker is not.) A file that
//! vanishes in between is not there; what cannot be looked at is told, never passed over.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, accessat, chmod, openat};
use rustix::io::Errno;

use super::beneath::{Root, stat_in};
use super::error::{WorkspaceError, go_on};
use super::git::index::{GITLINK, Index};
use super::manifest::{Flags, Manifest, Stamp};
use super::queue::Queue;
use super::read::read_small_in;
use super::rules::{RULE_FILE_LIMIT, RuleMap, Rules, converting};
use crate::policy::FileRules;

/// What the owner of a folder needs to look into it; to take something away he needs all.
const OWNER: u32 = 0o500;

/// Folders nested deeper than this are told as not looked at.
const MAX_DEPTH: usize = 512;

/// A place that could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// Relative to the workspace.
    pub path: Vec<u8>,
    pub why: String,
}

/// Places that could not be looked at, with what was known of them.
pub(crate) type Closed = HashMap<Vec<u8>, Option<Stamp>>;

/// What the first walk learns and all later ones keep to.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) rules: RuleMap,
    /// Folders that are repositories of their own: submodules and clones inside.
    pub(crate) nested: HashSet<Vec<u8>>,
}

pub(crate) struct WalkInput<'a> {
    pub(crate) root: &'a Root,
    /// Paths relative to the workspace that are never part of it.
    pub(crate) exclude: &'a HashSet<Vec<u8>>,
    /// Rules from around the workspace.
    pub(crate) outer: Option<Arc<Rules>>,
    /// Attributes from around the workspace, as patterns of files whose bytes git may change.
    pub(crate) converted: Option<Arc<Rules>>,
    pub(crate) tracked: Option<&'a Index>,
    /// `None` in the first walk.
    pub(crate) known: Option<&'a Known>,
    /// By whose names protected places are known.
    pub(crate) protected: Option<&'a FileRules>,
    pub(crate) max_entries: usize,
    pub(crate) threads: usize,
    /// Folders that their owner may not look into are opened to him, but for these as they were: in looks
    /// for what must not stay, which could hide there.
    pub(crate) closed_before: Option<&'a Closed>,
    /// Once it is set, the walk gives up.
    pub(crate) stopped: &'a AtomicBool,
}

#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) manifest: Manifest,
    /// Filled by the first walk only.
    pub(crate) known: Known,
    pub(crate) unseen: Vec<Unseen>,
    /// Folders below the workspace that hold a `.git` and are walked like any other.
    pub(crate) with_git: BTreeSet<Vec<u8>>,
    /// What has a protected name, ignored or not, in the folders that were walked.
    pub(crate) protected: BTreeSet<Vec<u8>>,
    /// Folders that had to be opened to be looked into.
    pub(crate) opened: BTreeSet<Vec<u8>>,
}

/// How a folder is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Regard {
    Normal,
    /// Ignored, but something below is tracked: only that counts.
    TrackedOnly,
    /// The top of a nested repository, and what lies below one.
    NestedTop,
    Nested,
}

struct Job {
    parent: Arc<OwnedFd>,
    name: OsString,
    path: Vec<u8>,
    stamp: Option<Stamp>,
    rules: Option<Arc<Rules>>,
    converted: Option<Arc<Rules>>,
    regard: Regard,
    depth: usize,
}

/// Walk the whole workspace.
pub(crate) fn walk(input: &WalkInput<'_>) -> Result<Walked, WorkspaceError> {
    let failed = |cause: std::io::Error| WorkspaceError::io("look into", b".", cause);
    let root = input.root.fd().try_clone_to_owned().map_err(failed)?;
    let first = Job {
        parent: Arc::new(root),
        name: OsString::from("."),
        path: Vec::new(),
        stamp: None,
        rules: input.outer.clone(),
        converted: input.converted.clone(),
        regard: Regard::Normal,
        depth: 0,
    };
    let queue = Queue::new(first);
    let count = AtomicUsize::new(0);
    let parts: Vec<Walked> = std::thread::scope(|scope| {
        let work = || {
            let mut worker =
                Worker { input, count: &count, out: Walked::default(), buffer: Vec::new() };
            queue.run(|job, more| worker.visit(job, more));
            worker.out.manifest.sort();
            worker.out
        };
        let others: Vec<_> = (1..input.threads.max(1)).map(|_| scope.spawn(work)).collect();
        let own = work();
        others.into_iter().filter_map(|other| other.join().ok()).chain([own]).collect()
    });
    if queue.panicked() || parts.len() != input.threads.max(1) {
        return Err(failed(std::io::Error::other("the walk broke off")));
    }
    go_on(input.stopped)?;
    if count.load(Ordering::Relaxed) > input.max_entries {
        return Err(WorkspaceError::TooManyFiles { limit: input.max_entries });
    }
    merge(parts).ok_or(WorkspaceError::TooManyFiles { limit: input.max_entries })
}

fn merge(parts: Vec<Walked>) -> Option<Walked> {
    let mut whole = Walked::default();
    for part in parts {
        if !whole.manifest.absorb(part.manifest) {
            return None;
        }
        whole.known.rules.extend(part.known.rules);
        whole.known.nested.extend(part.known.nested);
        whole.unseen.extend(part.unseen);
        whole.with_git.extend(part.with_git);
        whole.protected.extend(part.protected);
        whole.opened.extend(part.opened);
    }
    whole.manifest.sort();
    whole.unseen.sort_by(|left, right| left.path.cmp(&right.path));
    Some(whole)
}

struct Worker<'a> {
    input: &'a WalkInput<'a>,
    count: &'a AtomicUsize,
    out: Walked,
    buffer: Vec<u8>,
}

impl Worker<'_> {
    fn visit(&mut self, mut job: Job, more: &mut Vec<Job>) {
        let full = self.count.load(Ordering::Relaxed) > self.input.max_entries;
        if full || self.input.stopped.load(Ordering::Relaxed) {
            return;
        }
        self.open_to_owner(&mut job);
        let folder = match open_folder(job.parent.as_fd(), &job.name) {
            Ok(folder) => Arc::new(folder),
            Err(Errno::NOENT) => return,
            Err(error) => {
                self.own_entry(&job, false);
                return self.unseen(&job.path, error.to_string());
            }
        };
        let mut names = Vec::new();
        if let Err(error) = read_names(folder.as_fd(), &mut self.buffer, &mut names) {
            self.unseen(&job.path, error.to_string());
        }
        self.own_entry(&job, names.is_empty());
        if job.depth >= MAX_DEPTH {
            return self.unseen(&job.path, format!("nested deeper than {MAX_DEPTH} folders"));
        }
        self.enter(&mut job, folder.as_fd(), &names);
        for name in names {
            self.note_protected(&job.path, &name);
            if name.as_bytes() != b".git" {
                self.look_at(&job, &folder, name, more);
            } else if job.regard == Regard::Normal && !job.path.is_empty() {
                self.out.with_git.insert(job.path.clone());
            }
        }
    }

    /// A command that takes the right to look into a folder from its owner takes it from the runner, too.
    fn open_to_owner(&mut self, job: &mut Job) {
        let (Some(closed), Some(stamp)) = (self.input.closed_before, &mut job.stamp) else {
            return;
        };
        let as_before = |then: &Option<Stamp>| then.is_none_or(|then| then == *stamp);
        if stamp.mode & OWNER == OWNER || closed.get(&job.path).is_some_and(as_before) {
            return;
        }
        let looks = Access::READ_OK | Access::EXEC_OK;
        if accessat(&job.parent, &job.name, looks, AtFlags::EACCESS).is_ok() {
            // The superuser may.
            return;
        }
        let open = || {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = openat(&job.parent, &job.name, flags, Mode::empty())?;
            // A descriptor that only names the folder takes no mode; its name in /proc does.
            chmod(
                format!("/proc/self/fd/{}", folder.as_raw_fd()),
                Mode::from(stamp.mode) | Mode::RWXU,
            )?;
            rustix::fs::fstat(&folder)
        };
        // Where it cannot be opened, it is told as not looked at.
        if let Ok(stat) = open() {
            *stamp = Stamp::of(&stat);
            self.out.opened.insert(job.path.clone());
        }
    }

    fn note_protected(&mut self, folder: &[u8], name: &OsStr) {
        let is_one = |rules: &FileRules| name.to_str().is_some_and(|n| rules.is_protected_name(n));
        if self.input.protected.is_some_and(is_one) {
            let path = join(folder, name.as_bytes());
            if !self.input.exclude.contains(&path) {
                self.out.protected.insert(path);
            }
        }
    }

    /// The entry of the folder itself. The workspace's own has none.
    fn own_entry(&mut self, job: &Job, empty: bool) {
        let Some(stamp) = job.stamp else { return };
        let flags = match job.regard {
            Regard::Normal if empty => Flags::EMPTY,
            Regard::Normal => Flags::NONE,
            Regard::NestedTop => Flags::NESTED_TOP,
            Regard::TrackedOnly | Regard::Nested => return,
        };
        self.push(&job.path, stamp, flags);
    }

    /// Take in what the folder says of what lies in it. Later walks keep to what the first found.
    fn enter(&mut self, job: &mut Job, folder: BorrowedFd<'_>, names: &[OsString]) {
        if let Some(known) = self.input.known {
            if let Some(rules) = known.rules.get(&job.path) {
                job.rules = Some(rules.clone());
            }
        } else {
            let has = |wanted: &str| names.iter().any(|name| name == wanted);
            if has(".gitignore")
                && let Some(text) = read_small_in(folder, ".gitignore", RULE_FILE_LIMIT)
            {
                let rules = Rules::of_folder(job.rules.take(), &job.path, &text);
                self.out.known.rules.insert(job.path.clone(), rules.clone());
                job.rules = Some(rules);
            }
            if self.input.tracked.is_some()
                && has(".gitattributes")
                && let Some(text) = read_small_in(folder, ".gitattributes", RULE_FILE_LIMIT)
                && let Some(patterns) = converting(&text)
            {
                job.converted = Some(Rules::of_folder(job.converted.take(), &job.path, &patterns));
            }
        }
        if job.regard == Regard::NestedTop {
            job.regard = Regard::Nested;
        }
    }

    fn look_at(&mut self, job: &Job, folder: &Arc<OwnedFd>, name: OsString, more: &mut Vec<Job>) {
        let path = join(&job.path, name.as_bytes());
        if self.input.exclude.contains(&path) {
            return;
        }
        let stamp = match stat_in(folder.as_fd(), &name) {
            Ok(stat) => Stamp::of(&stat),
            Err(Errno::NOENT) => return,
            Err(error) => return self.unseen(&path, error.to_string()),
        };
        let is_folder = stamp.kind() == FileType::Directory;
        let ignored = job.regard == Regard::TrackedOnly
            || job.rules.as_ref().and_then(|rules| rules.matched(&path, is_folder)) == Some(true);
        if is_folder {
            let Some(regard) = self.regard(job, folder, &name, &path, ignored) else { return };
            let parent = folder.clone();
            let (rules, converted) = (job.rules.clone(), job.converted.clone());
            let depth = job.depth + 1;
            let stamp = Some(stamp);
            more.push(Job { parent, name, path, stamp, rules, converted, regard, depth });
        } else if !ignored || self.is_tracked(&path) {
            let converted = job.converted.as_ref().and_then(|rules| rules.matched(&path, false));
            let flags = match job.regard {
                Regard::NestedTop | Regard::Nested => Flags::NESTED,
                _ if converted == Some(true) => Flags::CONVERTED,
                _ => Flags::NONE,
            };
            self.push(&path, stamp, flags);
        }
    }

    /// How a folder found in `job` is to be looked at; `None` when it is left out.
    fn regard(
        &mut self,
        job: &Job,
        folder: &Arc<OwnedFd>,
        name: &OsStr,
        path: &[u8],
        ignored: bool,
    ) -> Option<Regard> {
        if matches!(job.regard, Regard::Nested | Regard::NestedTop) {
            return (!ignored).then_some(Regard::Nested);
        }
        let tracked = self.input.tracked;
        let gitlink = tracked.and_then(|index| index.find(path)).is_some_and(|e| e.mode == GITLINK);
        let below = tracked.is_some_and(|index| index.has_below(path));
        if ignored && !gitlink && !below {
            return None;
        }
        let nested = match self.input.known {
            Some(known) => known.nested.contains(path),
            None => gitlink || (!below && !ignored && holds_repository(folder.as_fd(), name)),
        };
        if nested {
            if self.input.known.is_none() {
                self.out.known.nested.insert(path.to_vec());
            }
            return Some(Regard::NestedTop);
        }
        Some(if ignored { Regard::TrackedOnly } else { Regard::Normal })
    }

    fn is_tracked(&self, path: &[u8]) -> bool {
        self.input.tracked.is_some_and(|index| index.find(path).is_some())
    }

    fn push(&mut self, path: &[u8], stamp: Stamp, flags: Flags) {
        let full = !self.out.manifest.push(path, stamp, flags);
        let step = if full { self.input.max_entries + 1 } else { 1 };
        self.count.fetch_add(step, Ordering::Relaxed);
    }

    fn unseen(&mut self, path: &[u8], why: String) {
        self.out.unseen.push(Unseen { path: path.to_vec(), why });
    }
}

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

fn open_folder(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Whether the folder `name` is the top of a repository: its `.git` is a folder with a HEAD, or a
/// file that points to one.
fn holds_repository(parent: BorrowedFd<'_>, name: &OsStr) -> bool {
    let Ok(folder) = open_folder(parent, name) else { return false };
    match stat_in(folder.as_fd(), OsStr::new(".git")) {
        Ok(stat) if Stamp::of(&stat).kind() == FileType::Directory => {
            open_folder(folder.as_fd(), OsStr::new(".git"))
                .and_then(|git| stat_in(git.as_fd(), OsStr::new("HEAD")))
                .is_ok()
        }
        Ok(_) => read_small_in(folder.as_fd(), ".git", RULE_FILE_LIMIT)
            .is_some_and(|text| text.starts_with(b"gitdir:")),
        Err(_) => false,
    }
}

/// All names in a folder but `.` and `..`.
#[cfg(target_os = "linux")]
pub(crate) fn read_names(
    folder: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    names: &mut Vec<OsString>,
) -> Result<(), Errno> {
    buffer.clear();
    buffer.reserve(32 * 1024);
    let mut entries = rustix::fs::RawDir::new(folder, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(())
}

/// All names in a folder but `.` and `..`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn read_names(
    folder: BorrowedFd<'_>,
    _buffer: &mut Vec<u8>,
    names: &mut Vec<OsString>,
) -> Result<(), Errno> {
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(())
}
