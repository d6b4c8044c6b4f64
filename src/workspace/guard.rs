//! Protected places inside writable folders: what the sandbox's floor cannot carve out is looked at
//! after each command, put back as it was, and told.
//!
//! The processes of a command have ended by then, so nothing races with the putting back. No link is
//! followed on the way: a folder that a command swapped for a link is taken away first.

use super::error::named;
use rustix::fs::{CWD, Mode, OFlags};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of protected files that are kept for putting back, in all.
const MAX_KEPT: u64 = 64 << 20;

/// What git itself writes on harmless calls (the refreshed index) or names by its content, so that a
/// change of it is found anyway (objects).
const NOT_WATCHED: &[&str] = &["objects", "lfs", "index", "index.lock", "gc.log", "FETCH_HEAD"];

/// Protected places and what was in them.
#[derive(Debug, Default)]
pub struct Guard {
    places: Vec<PathBuf>,
    root: PathBuf,
    kept: Option<BTreeMap<PathBuf, Kept>>,
    /// The folders on the way to the places, and those that are places, outer ones first: one that was
    /// moved away is moved back, with all that is not watched in it.
    anchors: BTreeMap<PathBuf, Identity>,
}

/// A folder whatever its name is: device and inode.
type Identity = (u64, u64);

/// Folders looked at for one that was moved.
const MAX_SEARCHED: usize = 20_000;

/// One entry as it was.
#[derive(Debug, Clone)]
struct Kept {
    kind: Kind,
    stamp: Stamp,
}

#[derive(Debug, Clone)]
enum Kind {
    Folder { mode: u32 },
    File { mode: u32, bytes: Option<Arc<[u8]>> },
    Link { target: PathBuf },
    Other,
}

/// What tells that an entry was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    mode: u32,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Kept {
    /// Of what it is, not of when it was changed. Of a file that is too large to be kept, of its size and
    /// time.
    fn digest(&self) -> String {
        match &self.kind {
            Kind::Folder { mode } => format!("folder {mode:o}"),
            Kind::File { mode, bytes: Some(bytes) } => {
                let digest = Sha256::digest(bytes);
                let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("file {mode:o} {hex}")
            }
            Kind::File { mode, bytes: None } => {
                format!("file {mode:o} {} {:?}", self.stamp.size, self.stamp.modified)
            }
            Kind::Link { target } => format!("link {}", target.display()),
            Kind::Other => format!("other {:o}", self.stamp.mode),
        }
    }
}

impl Guard {
    /// Watches these places, whether they exist or not. Folders that were moved are looked for in `root`.
    pub fn new(places: Vec<PathBuf>, root: &Path) -> Self {
        Self { places, root: root.to_owned(), ..Self::default() }
    }

    pub fn places(&self) -> &[PathBuf] {
        &self.places
    }

    /// As if nothing had been taken down.
    pub fn forget(&mut self) {
        self.kept = None;
    }

    pub fn is_taken(&self) -> bool {
        self.kept.is_some()
    }

    /// A digest of each entry as it was taken down.
    pub fn digests(&self) -> impl Iterator<Item = (&Path, String)> {
        let kept = self.kept.iter().flatten();
        kept.map(|(path, entry)| (path.as_path(), entry.digest()))
    }

    /// Takes down what is there. Later calls do nothing.
    pub fn take(&mut self) -> io::Result<()> {
        if self.kept.is_some() {
            return Ok(());
        }
        let mut kept = BTreeMap::new();
        let mut room = MAX_KEPT;
        for path in self.all()? {
            kept.insert(path.clone(), keep(&path, &mut room)?);
        }
        self.kept = Some(kept);
        let around = self.places.iter().flat_map(|place| place.ancestors());
        self.anchors = around
            .filter(|folder| folder.starts_with(&self.root) && *folder != self.root)
            .filter_map(|folder| Some((folder.to_owned(), identity(folder)?)))
            .collect();
        Ok(())
    }

    /// Moves folders back that were moved away, and says which.
    fn bring_back(&self) -> io::Result<Vec<String>> {
        let mut told = Vec::new();
        for (path, wanted) in &self.anchors {
            if identity(path) == Some(*wanted) {
                continue;
            }
            if let Some(found) = find_folder(&self.root, *wanted) {
                remove(path)?;
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                fs::rename(&found, path)?;
                told.push(format!("{} was moved and is back", named(path)));
            }
        }
        Ok(told)
    }

    /// Puts back whatever differs, and names it.
    pub fn put_back(&mut self) -> io::Result<Vec<String>> {
        let Some(kept) = &self.kept else { return Ok(Vec::new()) };
        let mut undone = self.bring_back()?;
        // First what keeps the runner from looking into a folder.
        for (path, entry) in kept {
            let mode = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir);
            let mode = mode.map(|meta| meta.permissions().mode() & 0o7777);
            if matches!((&entry.kind, mode), (Kind::Folder { mode }, Some(now)) if *mode != now) {
                restore(path, entry)?;
                undone.push(format!("{} was changed and is put back", named(path)));
            }
        }
        let now = self.all()?;
        // What was not there goes first, deepest first, so that folders are empty when their turn comes.
        for path in now.iter().rev().filter(|path| !kept.contains_key(*path)) {
            remove(path)?;
            undone.push(format!("{} was made and is gone again", named(path)));
        }
        let mut restored = Vec::new();
        for (path, entry) in kept {
            if stamp(path).ok() == Some(entry.stamp) {
                continue;
            }
            if restore(path, entry)? {
                undone.push(format!("{} was changed and is put back", named(path)));
            }
            restored.push(path.clone());
        }
        if let Some(kept) = &mut self.kept {
            for path in restored {
                if let (Some(entry), Ok(stamp)) = (kept.get_mut(&path), stamp(&path)) {
                    entry.stamp = stamp;
                }
            }
        }
        Ok(undone)
    }

    /// Whether anything differs, touching nothing. True also where only a time stamp moved.
    pub fn differs(&self) -> io::Result<bool> {
        let Some(kept) = &self.kept else { return Ok(false) };
        if self.anchors.iter().any(|(path, wanted)| identity(path) != Some(*wanted)) {
            return Ok(true);
        }
        if self.all()?.iter().any(|path| !kept.contains_key(path)) {
            return Ok(true);
        }
        Ok(kept.iter().any(|(path, entry)| stamp(path).ok() != Some(entry.stamp)))
    }

    /// Every entry in the places, parents before what they hold.
    fn all(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for place in &self.places {
            let mut open = vec![place.clone()];
            while let Some(path) = open.pop() {
                let Ok(meta) = fs::symlink_metadata(&path) else { continue };
                if meta.is_dir() {
                    for entry in fs::read_dir(&path)? {
                        let entry = entry?;
                        let name = entry.file_name();
                        if !NOT_WATCHED.iter().any(|skipped| name == *skipped) {
                            open.push(entry.path());
                        }
                    }
                }
                found.push(path);
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }
}

/// `None` where there is no folder.
fn identity(path: &Path) -> Option<Identity> {
    let meta = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir)?;
    Some((meta.dev(), meta.ino()))
}

/// Looks for a folder below another one, following no link.
fn find_folder(below: &Path, wanted: Identity) -> Option<PathBuf> {
    let mut open = std::collections::VecDeque::from([below.to_owned()]);
    let mut looked = 0;
    while let Some(folder) = open.pop_front() {
        for entry in fs::read_dir(&folder).ok()?.flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            looked += 1;
            if looked > MAX_SEARCHED {
                return None;
            }
            let path = entry.path();
            if identity(&path) == Some(wanted) {
                return Some(path);
            }
            open.push_back(path);
        }
    }
    None
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let meta = fs::symlink_metadata(path)?;
    // A folder's size and times move with its entries, which are watched one by one.
    let folder = meta.is_dir();
    Ok(Stamp {
        inode: meta.ino(),
        mode: meta.mode(),
        size: if folder { 0 } else { meta.size() },
        modified: if folder { (0, 0) } else { (meta.mtime(), meta.mtime_nsec()) },
        changed: if folder { (0, 0) } else { (meta.ctime(), meta.ctime_nsec()) },
    })
}

fn keep(path: &Path, room: &mut u64) -> io::Result<Kept> {
    let stamp = stamp(path)?;
    let meta = fs::symlink_metadata(path)?;
    let kind = if meta.is_dir() {
        Kind::Folder { mode: meta.permissions().mode() & 0o7777 }
    } else if meta.is_symlink() {
        Kind::Link { target: fs::read_link(path)? }
    } else if meta.is_file() {
        let mode = meta.permissions().mode() & 0o7777;
        let bytes = if meta.len() <= *room {
            *room -= meta.len();
            Some(Arc::from(read_no_follow(path)?))
        } else {
            None
        };
        Kind::File { mode, bytes }
    } else {
        Kind::Other
    };
    Ok(Kept { kind, stamp })
}

fn read_no_follow(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut file = fs::File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Takes a file or folder away, also from a folder that a command has closed.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let denied = io::ErrorKind::PermissionDenied;
    in_parent(path, || match try_remove(path) {
        Err(error) if error.kind() == denied => open_below(path).and_then(|()| try_remove(path)),
        done => done,
    })
}

/// Does something with an entry of a folder; where the folder is closed to its owner, after opening it.
fn in_parent<T>(path: &Path, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match (work(), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(parent)?;
            work()
        }
        (done, _) => done,
    }
}

/// Gives a folder's owner all rights to it. No link is followed.
fn open_up(folder: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, folder, flags, Mode::empty())?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode) | Mode::RWXU;
    // A descriptor that only names a folder takes no mode; its name in /proc does.
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode)?)
}

fn open_below(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()) {
        return Ok(());
    }
    open_up(path)?;
    fs::read_dir(path)?.flatten().try_for_each(|entry| open_below(&entry.path()))
}

fn try_remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes one entry what it was; false where its content turns out to be the same.
fn restore(path: &Path, entry: &Kept) -> io::Result<bool> {
    match &entry.kind {
        Kind::Folder { mode } => {
            if !fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()) {
                remove(path)?;
                in_parent(path, || fs::DirBuilder::new().mode(*mode).create(path))?;
            }
            fs::set_permissions(path, fs::Permissions::from_mode(*mode))?;
            Ok(true)
        }
        Kind::Link { target } => {
            if fs::read_link(path).is_ok_and(|now| now == *target) {
                return Ok(false);
            }
            remove(path)?;
            in_parent(path, || symlink(target, path))?;
            Ok(true)
        }
        Kind::File { mode, bytes: Some(bytes) } => restore_file(path, *mode, bytes),
        Kind::File { bytes: None, .. } | Kind::Other => Err(io::Error::other(format!(
            "{} was changed and is too large to have been kept",
            named(path)
        ))),
    }
}

fn restore_file(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<bool> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    let same_mode = || fs::symlink_metadata(path).is_ok_and(|meta| meta.mode() & 0o7777 == mode);
    if is_file && same_mode() && read_no_follow(path).is_ok_and(|now| now == bytes) {
        return Ok(false);
    }
    // A new file in its place: writing into the old one would also write into its hard links.
    remove(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || Ok(rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o600))?);
    let mut file = fs::File::from(in_parent(path, create)?);
    file.write_all(bytes)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d86_a_folder_that_was_moved_is_moved_back_with_what_is_not_watched_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join("sub/.git");
        fs::create_dir_all(git.join("objects")).unwrap();
        fs::create_dir_all(dir.path().join("elsewhere")).unwrap();
        fs::write(git.join("config"), "[core]\n").unwrap();
        fs::write(git.join("objects/one"), "object").unwrap();
        // With commits allowed only parts of it are watched; the folder must stay all the same.
        for places in [vec![git.clone()], vec![git.join("config"), git.join("hooks")]] {
            let mut guard = Guard::new(places, dir.path());
            guard.take().unwrap();
            fs::rename(dir.path().join("sub"), dir.path().join("elsewhere/sub")).unwrap();
            fs::create_dir_all(&git).unwrap();
            fs::write(git.join("config"), "evil\n").unwrap();
            assert!(guard.differs().unwrap());
            let undone = guard.put_back().unwrap();
            assert!(undone.iter().any(|line| line.contains("was moved")), "{undone:?}");
            assert_eq!(fs::read(git.join("config")).unwrap(), b"[core]\n");
            assert_eq!(fs::read(git.join("objects/one")).unwrap(), b"object");
            assert!(!guard.differs().unwrap());
            fs::rename(&git, dir.path().join("elsewhere/git")).unwrap();
            guard.put_back().unwrap();
            assert_eq!(fs::read(git.join("objects/one")).unwrap(), b"object");
            let _ = fs::remove_dir_all(dir.path().join("elsewhere/sub"));
        }
    }

    #[test]
    fn d86_what_a_command_did_to_protected_places_is_undone_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let (git, absent) = (dir.path().join(".git"), dir.path().join("absent"));
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::create_dir_all(git.join("objects")).unwrap();
        fs::write(git.join("config"), "[core]\n").unwrap();
        fs::write(git.join("index"), "i").unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let mut guard = Guard::new(vec![git.clone(), absent.clone()], dir.path());
        guard.take().unwrap();
        assert_eq!(guard.put_back().unwrap(), Vec::<String>::new());
        assert!(!guard.differs().unwrap());
        fs::write(git.join("config"), "[core]\nfsmonitor = evil\n").unwrap();
        fs::remove_dir(git.join("hooks")).unwrap();
        symlink(&outside, git.join("hooks")).unwrap();
        fs::write(git.join("hooks/pre-commit"), "evil").unwrap();
        fs::write(git.join("index"), "refreshed").unwrap();
        fs::write(&absent, "new").unwrap();
        assert!(guard.differs().unwrap());
        let undone = guard.put_back().unwrap();
        assert!(!guard.differs().unwrap());
        assert_eq!(undone.len(), 3, "{undone:?}");
        assert_eq!(fs::read(git.join("config")).unwrap(), b"[core]\n");
        assert!(fs::symlink_metadata(git.join("hooks")).unwrap().is_dir());
        assert!(!absent.exists() && outside.exists());
        assert_eq!(fs::read(git.join("index")).unwrap(), b"refreshed");
        assert_eq!(guard.put_back().unwrap(), Vec::<String>::new());
    }
}
