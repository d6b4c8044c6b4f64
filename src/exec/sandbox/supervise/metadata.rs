//! Modes, owners, times and attributes: whose they are is judged, and the change is made here.
//!
//! Landlock does not know these operations, and a filter sees no paths. Only where no mounts hold them do
//! they come here. What a call names is opened first (to act through, not to read, so that nothing can
//! block), judged by where it lies, and changed through that descriptor. The supervisor has the same user
//! as the caller and no capabilities, so that the kernel allows here what it would allow there.

use super::super::Confinement;
use super::caller::Caller;
use super::{Notice, Supervisor, errno, low};
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub const FCHMODAT2: libc::c_long = 452;
pub const SETXATTRAT: libc::c_long = 463;
pub const REMOVEXATTRAT: libc::c_long = 466;

/// The calls that are judged here.
pub const JUDGED: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// `XATTR_NAME_MAX` with the NUL, and `XATTR_SIZE_MAX`.
const MAX_NAME: usize = 256;
const MAX_VALUE: usize = 65_536;

/// Whose metadata may be changed.
pub(super) struct Held {
    writable: Roots,
    /// Places inside writable folders that stay as they are.
    protected: Roots,
    /// Callers may have left for namespaces of their own, where paths and users mean something else.
    may_have_left: bool,
}

impl Held {
    pub fn by(confinement: &Confinement) -> Self {
        let resolved = |list: &[PathBuf]| -> Vec<PathBuf> {
            list.iter().filter_map(|path| path.canonicalize().ok()).collect()
        };
        let is_device = |path: &PathBuf| path.starts_with("/dev") && !path.starts_with("/dev/shm");
        let mut writable = resolved(&confinement.write);
        writable.retain(|path| !is_device(path));
        // What is not there yet is protected as well.
        let mut protected = resolved(&confinement.mounts.read_only);
        protected.extend(confinement.mounts.read_only.iter().cloned());
        let may_have_left = confinement.switches.user_namespaces;
        Self { writable: Roots::of(writable), protected: Roots::of(protected), may_have_left }
    }

    fn may_change(&self, place: &Path) -> bool {
        self.writable.hold(place) && !self.protected.hold(place)
    }
}

/// Resolved places, to be compared often: as bytes, and by no more than is needed.
struct Roots(Vec<Vec<u8>>);

impl Roots {
    fn of(paths: Vec<PathBuf>) -> Self {
        let mut roots: Vec<Vec<u8>> =
            paths.into_iter().map(|path| path.into_os_string().into_vec()).collect();
        roots.sort();
        roots.dedup();
        Self(roots)
    }

    fn hold(&self, place: &Path) -> bool {
        let place = place.as_os_str().as_bytes();
        self.0.iter().any(|root| {
            place.strip_prefix(&root[..]).is_some_and(|rest| {
                rest.is_empty() || rest.first() == Some(&b'/') || root.ends_with(b"/")
            })
        })
    }
}

/// Pipes, sockets and memory files lie nowhere: who has a descriptor of one has it from its own.
fn lies_nowhere(place: &Path) -> bool {
    let text = place.to_string_lossy();
    let is_memory = text.starts_with("/memfd:") && text.ends_with(" (deleted)");
    is_memory || text.starts_with("pipe:[") || text.starts_with("socket:[")
}

/// What a call is about.
enum Named {
    Path { folder: RawFd, path: Vec<u8>, follow: bool },
    Descriptor(RawFd),
}

/// What a call wants.
enum Change {
    Mode(libc::mode_t),
    Owner(libc::uid_t, libc::gid_t),
    /// Now, where none are given.
    Times(Option<[libc::timespec; 2]>),
    /// Where Landlock does not know truncation.
    Length(i64),
    SetAttribute {
        name: CString,
        value: Vec<u8>,
        flags: i32,
    },
    RemoveAttribute {
        name: CString,
    },
}

impl Supervisor {
    pub(super) fn metadata(&self, notice: &Notice) -> Result<(), i32> {
        let caller = Caller::of(notice);
        if self.held.may_have_left && !caller.sees_what_we_see() {
            return Err(libc::EPERM);
        }
        let (named, change) = request(&caller, notice)?;
        let file = match &named {
            Named::Path { folder, path, follow } => caller.open(*folder, path, *follow)?,
            Named::Descriptor(number) => caller.open_descriptor(*number)?,
        };
        let place = self.place(&file)?;
        let is_own = matches!(named, Named::Descriptor(_)) && lies_nowhere(&place);
        if !is_own && !self.held.may_change(&place) {
            return Err(libc::EPERM);
        }
        // What was read and opened belongs to the caller only if it has waited all the while.
        if !self.is_valid(notice) {
            return Err(libc::ENOENT);
        }
        change.make(&file)
    }
}

/// Reads a call, all that lies in the caller's memory once.
fn request(caller: &Caller, notice: &Notice) -> Result<(Named, Change), i32> {
    let a = notice.args;
    let path = |at: u64, follow: bool| -> Result<Named, i32> {
        Named::path(libc::AT_FDCWD, caller.path(at)?, follow)
    };
    let mode = |argument: u64| Change::Mode(low(argument).cast_unsigned() & 0o7777);
    let owner = |user: u64, group: u64| {
        Change::Owner(low(user).cast_unsigned(), low(group).cast_unsigned())
    };
    Ok(match libc::c_long::from(notice.call) {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod => (path(a[0], true)?, mode(a[1])),
        libc::SYS_fchmod => (Named::Descriptor(low(a[0])), mode(a[1])),
        libc::SYS_fchmodat => (Named::at(caller, a[0], a[1], 0)?, mode(a[2])),
        FCHMODAT2 => (Named::at(caller, a[0], a[1], low(a[3]))?, mode(a[2])),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chown => (path(a[0], true)?, owner(a[1], a[2])),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_lchown => (path(a[0], false)?, owner(a[1], a[2])),
        libc::SYS_fchown => (Named::Descriptor(low(a[0])), owner(a[1], a[2])),
        libc::SYS_fchownat => (Named::at(caller, a[0], a[1], low(a[4]))?, owner(a[2], a[3])),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utime => (path(a[0], true)?, Change::seconds(caller, a[1])?),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utimes => (path(a[0], true)?, Change::microseconds(caller, a[1])?),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_futimesat => {
            (Named::file_times(caller, a[0], a[1], 0)?, Change::microseconds(caller, a[2])?)
        }
        libc::SYS_utimensat => {
            let named = Named::file_times(caller, a[0], a[1], low(a[3]))?;
            (named, Change::nanoseconds(caller, a[2])?)
        }
        libc::SYS_truncate => (path(a[0], true)?, Change::Length(a[1].cast_signed())),
        libc::SYS_setxattr => (path(a[0], true)?, Change::attribute(caller, &a[1..])?),
        libc::SYS_lsetxattr => (path(a[0], false)?, Change::attribute(caller, &a[1..])?),
        libc::SYS_fsetxattr => (Named::Descriptor(low(a[0])), Change::attribute(caller, &a[1..])?),
        SETXATTRAT => {
            let named = Named::at(caller, a[0], a[1], low(a[2]))?;
            (named, Change::attribute_by_structure(caller, &a[3..])?)
        }
        libc::SYS_removexattr => (path(a[0], true)?, Change::removal(caller, a[1])?),
        libc::SYS_lremovexattr => (path(a[0], false)?, Change::removal(caller, a[1])?),
        libc::SYS_fremovexattr => (Named::Descriptor(low(a[0])), Change::removal(caller, a[1])?),
        REMOVEXATTRAT => {
            (Named::at(caller, a[0], a[1], low(a[2]))?, Change::removal(caller, a[3])?)
        }
        _ => return Err(libc::ENOSYS),
    })
}

impl Named {
    fn path(folder: RawFd, path: Vec<u8>, follow: bool) -> Result<Self, i32> {
        if path.is_empty() { Err(libc::ENOENT) } else { Ok(Self::Path { folder, path, follow }) }
    }

    /// The form of the `…at` calls.
    fn at(caller: &Caller, folder: u64, path: u64, flags: i32) -> Result<Self, i32> {
        if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Err(libc::EINVAL);
        }
        let folder = low(folder);
        let may_be_empty = flags & libc::AT_EMPTY_PATH != 0;
        let path = match path {
            0 if may_be_empty => Vec::new(),
            at => caller.path(at)?,
        };
        if path.is_empty() && may_be_empty {
            return Ok(match folder {
                libc::AT_FDCWD => Self::Path { folder, path: b".".to_vec(), follow: true },
                number => Self::Descriptor(number),
            });
        }
        Self::path(folder, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0)
    }

    /// Calls for times take no path at all for the descriptor itself.
    fn file_times(caller: &Caller, folder: u64, path: u64, flags: i32) -> Result<Self, i32> {
        match (path, low(folder)) {
            (0, libc::AT_FDCWD) => Err(libc::EFAULT),
            (0, _) if flags != 0 => Err(libc::EINVAL),
            (0, number) => Ok(Self::Descriptor(number)),
            _ => Self::at(caller, folder, path, flags),
        }
    }
}

impl Change {
    /// Two pairs of numbers, or none.
    fn pairs(caller: &Caller, at: u64) -> Result<Option<[(i64, i64); 2]>, i32> {
        if at == 0 {
            return Ok(None);
        }
        let bytes = caller.read(at, 32)?;
        let number = |index: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
            i64::from_ne_bytes(number)
        };
        Ok(Some([(number(0), number(1)), (number(2), number(3))]))
    }

    fn nanoseconds(caller: &Caller, at: u64) -> Result<Self, i32> {
        let times = Self::pairs(caller, at)?;
        Ok(Self::Times(times.map(|pairs| pairs.map(|(sec, nsec)| time(sec, nsec)))))
    }

    #[cfg(target_arch = "x86_64")]
    fn microseconds(caller: &Caller, at: u64) -> Result<Self, i32> {
        let times = Self::pairs(caller, at)?;
        let is_fraction = |(_, micro): &(i64, i64)| (0..1_000_000).contains(micro);
        if !times.iter().flatten().all(is_fraction) {
            return Err(libc::EINVAL);
        }
        Ok(Self::Times(times.map(|pairs| pairs.map(|(sec, micro)| time(sec, micro * 1000)))))
    }

    #[cfg(target_arch = "x86_64")]
    fn seconds(caller: &Caller, at: u64) -> Result<Self, i32> {
        if at == 0 {
            return Ok(Self::Times(None));
        }
        let bytes = caller.read(at, 16)?;
        let second = |half: &[u8]| {
            let mut number = [0; 8];
            number.copy_from_slice(half);
            time(i64::from_ne_bytes(number), 0)
        };
        Ok(Self::Times(Some([second(&bytes[..8]), second(&bytes[8..])])))
    }

    /// Name, value, size and flags.
    fn attribute(caller: &Caller, args: &[u64]) -> Result<Self, i32> {
        let name = attribute_name(caller, args[0])?;
        let size = usize::try_from(args[2]).map_err(|_| libc::E2BIG)?;
        if size > MAX_VALUE {
            return Err(libc::E2BIG);
        }
        let value = if size == 0 { Vec::new() } else { caller.read(args[1], size)? };
        Ok(Self::SetAttribute { name, value, flags: low(args[3]) })
    }

    /// Name, structure and its size: value (8 bytes), size (4), flags (4).
    fn attribute_by_structure(caller: &Caller, args: &[u64]) -> Result<Self, i32> {
        match args[2] {
            16 => {}
            0..16 => return Err(libc::EINVAL),
            _ => return Err(libc::E2BIG),
        }
        let bytes = caller.read(args[1], 16)?;
        let (mut value, mut size, mut flags) = ([0; 8], [0; 4], [0; 4]);
        value.copy_from_slice(&bytes[..8]);
        size.copy_from_slice(&bytes[8..12]);
        flags.copy_from_slice(&bytes[12..]);
        let [size, flags] = [size, flags].map(|word| u64::from(u32::from_ne_bytes(word)));
        Self::attribute(caller, &[args[0], u64::from_ne_bytes(value), size, flags])
    }

    fn removal(caller: &Caller, at: u64) -> Result<Self, i32> {
        Ok(Self::RemoveAttribute { name: attribute_name(caller, at)? })
    }

    /// Changes what was opened.
    fn make(self, file: &OwnedFd) -> Result<(), i32> {
        if let Self::Mode(mode) = self {
            refuse_other_identities(file, mode)?;
        }
        let (number, itself) = (file.as_raw_fd(), c"".as_ptr());
        // SAFETY: texts that end in NUL, times and a value that live until the calls have returned.
        let done = unsafe {
            match &self {
                Self::Mode(mode) => {
                    libc::syscall(FCHMODAT2, number, itself, *mode, libc::AT_EMPTY_PATH) as i32
                }
                Self::Owner(user, group) => {
                    libc::fchownat(number, itself, *user, *group, libc::AT_EMPTY_PATH)
                }
                Self::Times(times) => {
                    libc::utimensat(number, itself, pointer(times), libc::AT_EMPTY_PATH)
                }
                _ => return self.make_by_name(file),
            }
        };
        match done {
            0 => Ok(()),
            // Linux before 6.6 and 5.8, and containers whose filter does not know the call.
            _ if matches!(errno(), libc::ENOSYS | libc::EINVAL | libc::EPERM) => {
                self.make_by_name(file)
            }
            _ => Err(errno()),
        }
    }

    /// The same through the name that leads to what is open, a symbolic link included, and no further.
    fn make_by_name(&self, file: &OwnedFd) -> Result<(), i32> {
        let own = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .map_err(|_| libc::EINVAL)?;
        // SAFETY: as above.
        let done = unsafe {
            match self {
                Self::Mode(mode) => libc::chmod(own.as_ptr(), *mode),
                Self::Owner(user, group) => libc::chown(own.as_ptr(), *user, *group),
                Self::Times(times) => {
                    libc::utimensat(libc::AT_FDCWD, own.as_ptr(), pointer(times), 0)
                }
                Self::Length(length) => libc::truncate(own.as_ptr(), *length),
                Self::SetAttribute { name, value, flags } => libc::setxattr(
                    own.as_ptr(),
                    name.as_ptr(),
                    value.as_ptr().cast(),
                    value.len(),
                    *flags,
                ),
                Self::RemoveAttribute { name } => libc::removexattr(own.as_ptr(), name.as_ptr()),
            }
        };
        if done == 0 { Ok(()) } else { Err(errno()) }
    }
}

/// None of them means now.
fn pointer(times: &Option<[libc::timespec; 2]>) -> *const libc::timespec {
    times.as_ref().map_or(std::ptr::null(), |times| times.as_ptr())
}

/// A file that runs as its owner or group would lend this user to others of the machine; on folders the
/// bits only say whose new files are.
fn refuse_other_identities(file: &OwnedFd, mode: libc::mode_t) -> Result<(), i32> {
    if mode & (libc::S_ISUID | libc::S_ISGID) == 0 {
        return Ok(());
    }
    let kind = rustix::fs::fstat(file).map_err(|error| error.raw_os_error())?.st_mode;
    if kind & libc::S_IFMT == libc::S_IFDIR { Ok(()) } else { Err(libc::EPERM) }
}

fn attribute_name(caller: &Caller, at: u64) -> Result<CString, i32> {
    let name = caller.text(at, MAX_NAME, libc::ERANGE)?;
    if name.is_empty() { Err(libc::ERANGE) } else { CString::new(name).map_err(|_| libc::ERANGE) }
}

fn time(tv_sec: i64, tv_nsec: i64) -> libc::timespec {
    libc::timespec { tv_sec, tv_nsec }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::sandbox::Mounts;

    #[test]
    fn what_may_be_written_may_be_changed_but_for_devices_and_protected_places() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for folder in ["ws/.git", "ws/sub", "outside"] {
            std::fs::create_dir_all(top.join(folder)).unwrap();
        }
        let read_only = vec![top.join("ws/.git"), top.join("ws/CLAUDE.md")];
        let held = Held::by(&Confinement {
            write: vec![top.join("ws"), "/dev/null".into()],
            mounts: Mounts { read_only, ..Mounts::default() },
            ..Confinement::default()
        });
        for place in ["ws", "ws/sub/x", "ws/.github", "ws/CLAUDE.md.new", "ws/gone (deleted)"] {
            assert!(held.may_change(&top.join(place)), "{place}");
        }
        for place in ["", "outside", "wsx", "ws/.git", "ws/.git/config", "ws/CLAUDE.md"] {
            assert!(!held.may_change(&top.join(place)), "{place}");
        }
        assert!(!held.may_change(Path::new("/dev/null")));
    }

    #[test]
    fn what_lies_nowhere_is_told_from_files_with_odd_names() {
        for text in ["pipe:[17]", "socket:[4]", "/memfd:x (deleted)"] {
            assert!(lies_nowhere(Path::new(text)), "{text}");
        }
        for text in ["/pipe:[17]", "/a/memfd:x (deleted)", "/memfd:x", "anon_inode:[eventfd]"] {
            assert!(!lies_nowhere(Path::new(text)), "{text}");
        }
    }
}
