//! The view of the files that a command gets in a mount namespace of its own.
//!
//! Everything is read-only but the folders that the policy lets it write. That also holds what Landlock
//! does not know: modes, owners, times and extended attributes of files outside of them. Protected places
//! inside writable folders become read-only again, hidden ones cannot be read, /tmp is the run's own,
//! /dev/shm and /proc the command's own.
//!
//! Every place is opened first, without following a link in its last part, and mounted through the
//! descriptor: a place that an earlier command swapped for a link is not followed.

use super::namespaces::LAYER;
use super::{Confinement, Hidden, LayerError, Mounts};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, StatVfsMountFlags, StatxAttributes, StatxFlags,
};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::mount::{fsconfig_create, fsconfig_set_string, fsmount, fsopen};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Single files that get a mount of their own. With more of them their folders are made writable as
/// far as mounts go; Landlock still tells the files apart.
const MAX_FILES: usize = 64;

/// What a command's /dev/shm may hold.
const SHM_OPTIONS: &str = "mode=1777,size=1g";

fn failed(what: &str, path: &Path, error: io::Error) -> LayerError {
    LayerError {
        layer: LAYER,
        errno: error.raw_os_error().unwrap_or(0),
        cause: format!("{what} {}: {error}", path.display()),
    }
}

pub fn arrange(confinement: &Confinement) -> Result<(), LayerError> {
    let root = Path::new("/");
    make_private(root).map_err(|error| failed("private mounts", root, error))?;
    let writable = writable_places(&confinement.write);
    for place in &writable {
        bind_onto_itself(place)?;
    }
    for place in confinement.mounts.held.iter().filter(|place| place.is_dir()) {
        // What is mounted on cannot be moved.
        bind_onto_itself(place)?;
    }
    set_read_only(root).map_err(|error| failed("read-only", root, error))?;
    for place in &writable {
        set_writable(place).map_err(|error| failed("writable", place, error))?;
    }
    for place in &confinement.mounts.read_only {
        // What is not there cannot be mounted over; it is looked at after the command.
        if fs::symlink_metadata(place).is_ok_and(|meta| !meta.is_symlink()) {
            cover_by_itself(place)?;
        }
    }
    mount_fresh("tmpfs", "/dev/shm", SHM_OPTIONS)?;
    hide(&confinement.mounts.hidden)?;
    if let Some(tmp) = &confinement.mounts.tmp {
        own_tmp(tmp, confinement)?;
    }
    mount_fresh("proc", "/proc", "")
}

/// Whether every place is covered by what [`arrange`] would cover it with now.
pub fn stand(confinement: &Confinement) -> bool {
    let Mounts { read_only, held, hidden, .. } = &confinement.mounts;
    let is_there =
        |path: &&PathBuf| fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_symlink());
    writable_places(&confinement.write).iter().all(|path| is_mounted(path))
        && held.iter().filter(|path| path.is_dir()).all(|path| is_mounted(path))
        && read_only.iter().filter(is_there).all(|path| is_mounted(path) && is_read_only(path))
        && hidden.iter().map(|hidden| &hidden.path).filter(is_there).all(|path| is_mounted(path))
}

/// Whether something is mounted at this very path. A kernel that can't tell (before 5.8) says no.
fn is_mounted(path: &Path) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statx(CWD, path, flags, StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

fn is_read_only(path: &Path) -> bool {
    let found = rustix::fs::statvfs(path);
    found.is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// The places that are mounted writable, outer ones first. Devices need none: a read-only mount does not
/// hold back what is written through one.
fn writable_places(write: &[PathBuf]) -> Vec<PathBuf> {
    let there: Vec<&PathBuf> =
        write.iter().filter(|path| !path.starts_with("/dev") && path.exists()).collect();
    let files = there.iter().filter(|path| !path.is_dir()).count();
    let mut places: Vec<PathBuf> = there
        .into_iter()
        .filter_map(|path| match files > MAX_FILES && !path.is_dir() {
            true => path.parent().map(Path::to_owned),
            false => Some(path.clone()),
        })
        .collect();
    places.sort();
    places.dedup();
    places
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// What is mounted here stays here.
fn make_private(path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: valid pointers or null where the call ignores them.
    let done = unsafe {
        libc::mount(
            std::ptr::null(),
            path.as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    };
    check(done.into()).map(drop)
}

fn open_place(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// A detached copy of a place with the mounts below it.
fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    let place = open_place(path)?;
    clone_open(&place)
}

fn clone_open(place: &OwnedFd) -> io::Result<OwnedFd> {
    const CLONE: libc::c_uint = 1;
    const CLOEXEC: libc::c_uint = libc::O_CLOEXEC.cast_unsigned();
    const RECURSIVE: libc::c_uint = 0x8000;
    // SAFETY: an empty path with a descriptor of ours.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_tree,
            place.as_raw_fd(),
            c"".as_ptr(),
            CLONE | CLOEXEC | RECURSIVE | AtFlags::EMPTY_PATH.bits(),
        )
    };
    let fd = check(fd)?;
    // SAFETY: a new descriptor, owned here.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Mounts a detached tree over an open place.
fn attach(tree: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    const FROM_EMPTY: libc::c_uint = 0x4;
    const TO_EMPTY: libc::c_uint = 0x40;
    // SAFETY: empty paths with descriptors of ours.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            place.as_raw_fd(),
            c"".as_ptr(),
            FROM_EMPTY | TO_EMPTY,
        )
    };
    check(done).map(drop)
}

fn bind_onto_itself(path: &Path) -> Result<(), LayerError> {
    let bound = open_place(path).and_then(|place| attach(&clone_open(&place)?, &place));
    bound.map_err(|error| failed("bind", path, error))
}

/// Makes a place read-only. It is so before it is mounted: another command may be at work, and move what
/// the path leads to meanwhile.
fn cover_by_itself(path: &Path) -> Result<(), LayerError> {
    let cover = || {
        let place = open_place(path)?;
        let tree = clone_open(&place)?;
        set_tree_read_only(&tree)?;
        attach(&tree, &place)
    };
    cover().map_err(|error| failed("read-only", path, error))
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

const RDONLY: u64 = 1;
const NOSUID: u64 = 2;

const READ_ONLY: MountAttr =
    MountAttr { set: RDONLY | NOSUID, clear: 0, propagation: 0, userns: 0 };
const ALL_BELOW: libc::c_int = 0x8000;

fn set_attr(at: RawFd, path: &CStr, flags: libc::c_int, attr: &MountAttr) -> io::Result<()> {
    // SAFETY: the structure has the layout and size of the first version of mount_setattr(2).
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at,
            path.as_ptr(),
            flags,
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    };
    check(done).map(drop)
}

fn set_read_only(path: &Path) -> io::Result<()> {
    let flags = ALL_BELOW | libc::AT_SYMLINK_NOFOLLOW;
    set_attr(libc::AT_FDCWD, &c_path(path)?, flags, &READ_ONLY)
}

/// The same of a tree that is mounted nowhere yet.
fn set_tree_read_only(tree: &OwnedFd) -> io::Result<()> {
    set_attr(tree.as_raw_fd(), c"", ALL_BELOW | libc::AT_EMPTY_PATH, &READ_ONLY)
}

/// Makes a place writable with what is mounted below it; where that holds something read-only of the
/// machine's own, which stays so, the place alone.
fn set_writable(path: &Path) -> io::Result<()> {
    let attr = MountAttr { set: 0, clear: RDONLY, propagation: 0, userns: 0 };
    let (path, flags) = (c_path(path)?, libc::AT_SYMLINK_NOFOLLOW);
    let set = |flags| set_attr(libc::AT_FDCWD, &path, flags, &attr);
    set(ALL_BELOW | flags).or_else(|_| set(flags))
}

fn mount_fresh(kind: &str, at: &str, options: &str) -> Result<(), LayerError> {
    let mount = || -> io::Result<()> {
        let (kind, at) = (CString::new(kind)?, CString::new(at)?);
        let options = CString::new(options)?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        // SAFETY: pointers to strings that live until the call has returned.
        let done = unsafe {
            libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
        };
        check(done.into()).map(drop)
    };
    mount().map_err(|error| failed(&format!("a {kind} of its own at"), Path::new(at), error))
}

/// Covers places by an empty file or folder that nobody may open. They are made in the new /dev/shm and
/// unlinked there, so that nothing but the mounts is left of them.
fn hide(places: &[Hidden]) -> Result<(), LayerError> {
    if places.is_empty() {
        return Ok(());
    }
    let (file, folder) = (Path::new("/dev/shm/.hidden"), Path::new("/dev/shm/.hidden.d"));
    let made = || -> io::Result<(OwnedFd, OwnedFd)> {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        fs::OpenOptions::new().write(true).create_new(true).mode(0o0).open(file)?;
        fs::DirBuilder::new().mode(0o0).create(folder)?;
        Ok((open_place(file)?, open_place(folder)?))
    };
    let (file_fd, folder_fd) = made().map_err(|error| failed("cover", file, error))?;
    let is_below =
        |path: &Path, at: usize| places[..at].iter().any(|outer| path.starts_with(&outer.path));
    for (at, Hidden { path, was }) in places.iter().enumerate() {
        // A folder that is covered covers what is in it.
        if is_below(path, at) {
            continue;
        }
        let cover = || -> io::Result<()> {
            let place = open_place(path)?;
            let meta = rustix::fs::fstat(&place)?;
            if was.is_some_and(|was| was != (meta.st_dev, meta.st_ino)) {
                return Err(io::Error::other("it is not what it was when the run started"));
            }
            let is_folder = FileType::from_raw_mode(meta.st_mode) == FileType::Directory;
            let tree = clone_open(if is_folder { &folder_fd } else { &file_fd })?;
            set_tree_read_only(&tree)?;
            attach(&tree, &place)
        };
        cover().map_err(|error| failed("cover", path, error))?;
    }
    let _ = fs::remove_file(file);
    let _ = fs::remove_dir(folder);
    Ok(())
}

/// Something below /tmp that is brought along.
struct Kept {
    /// The first name below /tmp, and the names after it.
    first: OsString,
    rest: PathBuf,
    is_folder: bool,
    tree: OwnedFd,
}

/// Puts the run's own folder in the place of /tmp. What the policy grants below /tmp, and whatever the
/// command needs from there, is brought along with the mounts it has got.
fn own_tmp(tmp: &Path, confinement: &Confinement) -> Result<(), LayerError> {
    let at = Path::new("/tmp");
    let mut granted: Vec<&PathBuf> = confinement
        .read
        .iter()
        .chain(&confinement.write)
        .chain(&confinement.mounts.seen)
        .filter(|path| path.starts_with(at) && path.as_path() != at && path.exists())
        .collect();
    granted.sort();
    granted.dedup();
    let mut kept: Vec<Kept> = Vec::new();
    let mut outer: Option<&Path> = None;
    for path in granted {
        if outer.is_some_and(|outer| path.starts_with(outer)) {
            continue;
        }
        outer = Some(path);
        let inside = path.strip_prefix(at).unwrap_or(path);
        let mut names = inside.components();
        let Some(Component::Normal(first)) = names.next() else { continue };
        let tree = clone_tree(path).map_err(|error| failed("keep", path, error))?;
        let (first, rest) = (first.to_owned(), names.as_path().to_owned());
        kept.push(Kept { first, rest, is_folder: path.is_dir(), tree });
    }
    let own = clone_tree(tmp).map_err(|error| failed("keep", tmp, error))?;
    let place = open_place(at).map_err(|error| failed("open", at, error))?;
    attach(&own, &place).map_err(|error| failed("an own folder at", at, error))?;
    for group in kept.chunk_by(|one, next| one.first == next.first) {
        let path = at.join(&group[0].first);
        bring_along(&own, group).map_err(|error| failed("bring along", &path, error))?;
    }
    Ok(())
}

/// Mounts what has the same first name below /tmp. The way to what lies deeper is a file system of this
/// command's own and read-only: in the run's folder other commands could move it meanwhile, and what was
/// left on it would be lost with the run, where a write outside should fail.
fn bring_along(own: &OwnedFd, group: &[Kept]) -> io::Result<()> {
    if let [kept] = group
        && kept.rest.as_os_str().is_empty()
    {
        return attach(&kept.tree, &mount_point(own, &kept.first, kept.is_folder)?);
    }
    let way = empty_folder()?;
    let make = |kept: &Kept| make_below(&way, &kept.rest, kept.is_folder);
    let places = group.iter().map(make).collect::<io::Result<Vec<OwnedFd>>>()?;
    set_tree_read_only(&way)?;
    attach(&way, &mount_point(own, &group[0].first, true)?)?;
    group.iter().zip(&places).try_for_each(|(kept, place)| attach(&kept.tree, place))
}

/// A file system in memory with nothing in it, mounted nowhere yet.
fn empty_folder() -> io::Result<OwnedFd> {
    let made = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(made.as_fd(), "mode", "755")?;
    fsconfig_create(made.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(made.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Makes the folders, and the folder or file at their end, in a folder that is the caller's alone.
fn make_below(base: &OwnedFd, inside: &Path, is_folder: bool) -> io::Result<OwnedFd> {
    let (above, name) = (inside.parent(), inside.file_name());
    let name = name.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    let mut folder = rustix::io::fcntl_dupfd_cloexec(base, 0)?;
    for part in above.into_iter().flat_map(Path::components) {
        folder = mount_point(&folder, part.as_os_str(), true)?;
    }
    mount_point(&folder, name, is_folder)
}

/// A folder or file in a folder that something can be mounted on. Commands may write that folder:
/// whatever stands in the way there and is of another kind is taken away.
fn mount_point(folder: &OwnedFd, name: &OsStr, is_folder: bool) -> io::Result<OwnedFd> {
    let wanted = if is_folder { FileType::Directory } else { FileType::RegularFile };
    let open = || {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(folder, name, flags, Mode::empty())?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
        if kind == wanted { Ok(found) } else { Err(io::Error::from_raw_os_error(libc::EEXIST)) }
    };
    open().or_else(|_| {
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR);
        let made = if is_folder {
            rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o755))
        } else {
            let make = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(folder, name, make, Mode::from_raw_mode(0o644)).map(drop)
        };
        match made {
            // Another launcher may make the same meanwhile: what counts is what is there.
            Ok(()) | Err(Errno::EXIST) => open(),
            Err(error) => Err(error.into()),
        }
    })
}
