//! Gathering the contents of the start: which files must be read, and what becomes of each.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::fs::FileType;

use super::beneath::Root;
use super::error::WorkspaceError;
use super::git::ObjectFormat;
use super::git::index::{Index, LINK};
use super::kept::{Fate, HASH_MOST, Keeper, hash_file};
use super::manifest::{Entry, Flags, Manifest, Stamp};
use super::read::{link_target, open_regular};
use super::start::Origin;
use super::{Limits, Workspace};

/// Sort the entries: those whose blob git certainly holds, and those that must be read.
pub(super) fn sort_out(manifest: &Manifest, index: Option<&Index>) -> (Vec<Origin>, Vec<u32>) {
    let mut origins = vec![Origin::None; manifest.len()];
    let mut open = Vec::new();
    let tracked = index.map(Index::entries).unwrap_or_default();
    let mut next = 0;
    for (position, entry) in manifest.entries().iter().enumerate() {
        if !entry.stamp.has_content() || entry.flags.has(Flags::NESTED) {
            continue;
        }
        let name = manifest.name(entry);
        let found = index.and_then(|index| {
            while tracked.get(next).is_some_and(|tracked| index.name(tracked) < name) {
                next += 1;
            }
            tracked.get(next).filter(|tracked| index.name(tracked) == name)
        });
        if let Some(tracked) = found {
            origins[position] = Origin::Tracked(next as u32);
            let certain = index.is_some_and(|index| index.is_clean(tracked, &entry.stamp));
            if certain && !entry.flags.has(Flags::CONVERTED) {
                continue;
            }
        }
        open.push(position as u32);
    }
    (origins, open)
}

pub(super) struct Taken {
    pub(super) results: Vec<One>,
    pub(super) parts: Vec<File>,
}

pub(super) struct One {
    pub(super) position: u32,
    pub(super) fate: Result<Fate, String>,
    /// The stamp of what was really read, where it is another than the walk saw.
    pub(super) stamp: Option<Stamp>,
}

/// Read every open entry on a few threads: hash it, and copy it unless git holds it.
pub(super) fn take_in(
    workspace: &Workspace,
    manifest: &Manifest,
    index: Option<&Index>,
    open: &[u32],
    format: ObjectFormat,
) -> Result<Taken, WorkspaceError> {
    const CHUNK: usize = 64;
    let next = AtomicUsize::new(0);
    let total = AtomicU64::new(0);
    let threads = if open.len() < CHUNK { 1 } else { workspace.limits.threads.max(1) };
    let reader = Reader { root: &workspace.root, manifest, index, limits: &workspace.limits };
    let work = |part: usize| -> std::io::Result<(usize, Vec<One>, File)> {
        let mut keeper = Keeper::create(&workspace.store, part as u32, format)?;
        let mut results = Vec::new();
        loop {
            let at = next.fetch_add(CHUNK, Ordering::Relaxed);
            let chunk = open.get(at..).unwrap_or_default();
            if chunk.is_empty() {
                break;
            }
            for position in chunk.iter().take(CHUNK) {
                if workspace.go_on().is_err() {
                    break;
                }
                results.push(reader.take(*position, &mut keeper, &total));
            }
        }
        Ok((part, results, keeper.finish()?))
    };
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|part| scope.spawn(move || work(part))).collect();
        let own = work(0);
        let lost = || Err(std::io::Error::other("a thread broke off"));
        let joined = others.into_iter().map(|other| other.join().unwrap_or_else(|_| lost()));
        [own].into_iter().chain(joined.collect::<Vec<_>>()).collect()
    });
    let mut taken = Taken { results: Vec::with_capacity(open.len()), parts: Vec::new() };
    for outcome in outcomes {
        let store = workspace.store.as_os_str().as_bytes();
        let (_, results, file) =
            outcome.map_err(|cause| WorkspaceError::io("keep start contents in", store, cause))?;
        taken.results.extend(results);
        taken.parts.push(file);
    }
    Ok(taken)
}

struct Reader<'a> {
    root: &'a Root,
    manifest: &'a Manifest,
    index: Option<&'a Index>,
    limits: &'a Limits,
}

impl Reader<'_> {
    fn take(&self, position: u32, keeper: &mut Keeper, total: &AtomicU64) -> One {
        let Some(entry) = self.manifest.entries().get(position as usize) else {
            return One { position, fate: Err("not kept".to_owned()), stamp: None };
        };
        let room = self.limits.start_total.saturating_sub(total.load(Ordering::Relaxed));
        let room = room.min(self.limits.start_file);
        let mut stamp = None;
        let fate = self.take_entry(entry, keeper, room, &mut stamp);
        if let Ok(Fate::Kept(kept)) = &fate {
            total.fetch_add(kept.len, Ordering::Relaxed);
        }
        let stamp = stamp.filter(|stamp| *stamp != entry.stamp);
        One { position, fate: fate.map_err(|error| error.to_string()), stamp }
    }

    fn take_entry(
        &self,
        entry: &Entry,
        keeper: &mut Keeper,
        room: u64,
        stamp: &mut Option<Stamp>,
    ) -> Result<Fate, WorkspaceError> {
        let name = self.manifest.name(entry);
        let failed = |cause| WorkspaceError::io("keep", name, cause);
        let is_link = entry.stamp.kind() == FileType::Symlink;
        let known = self
            .index
            .and_then(|index| index.find(name))
            .filter(|tracked| !tracked.unmerged && (tracked.mode == LINK) == is_link);
        let known = known.map(|tracked| &tracked.oid);
        if is_link {
            let target = link_target(self.root, name)?;
            return keeper.take_bytes(&target, known, room).map_err(failed);
        }
        let (file, seen) = open_regular(self.root, name)?;
        *stamp = Some(seen);
        let fate = keeper.take_file(&file, seen.size, known, room).map_err(failed)?;
        match fate {
            // Whether it changes within this tick of the clock can only be told by its hash.
            Fate::TooLarge(None) if entry.flags.has(Flags::RACY) && seen.size <= HASH_MOST => {
                let oid = hash_file(&file, seen.size, keeper.format()).map_err(failed)?;
                Ok(Fate::TooLarge(oid))
            }
            fate => Ok(fate),
        }
    }
}
