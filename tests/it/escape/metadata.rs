//! Attacks on modes, owners, times and attributes outside.

use super::{Targets, Ways, c, check};
use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const SETXATTRAT: libc::c_long = 463;
const FILE_SETATTR: libc::c_long = 469;
/// Tries of an attack that wins only by chance.
const TRIES: usize = 2_000;

fn canary(t: &Targets, attack: &str) -> PathBuf {
    t.outside(attack).join("canary")
}

/// Names of a file outside that a judge could take for something else.
fn names(canary: &Path) -> Vec<(&'static str, CString)> {
    let link = PathBuf::from(format!("link-to-{}", std::process::id()));
    let _ = std::fs::remove_file(&link);
    symlink(canary, &link).unwrap();
    let below = canary.strip_prefix("/").unwrap();
    vec![
        ("path", c(canary)),
        ("link", c(&link)),
        ("root", c(&Path::new("/proc/self/root").join(below))),
        ("thread's root", c(&Path::new("/proc/thread-self/root").join(below))),
        ("dots", c(&Path::new("/proc/self/cwd/..").join("outside").join(part(canary)))),
    ]
}

/// The attack's folder and the name in it.
fn part(canary: &Path) -> PathBuf {
    let folder = canary.parent().unwrap().file_name().unwrap();
    Path::new(folder).join(canary.file_name().unwrap())
}

/// A descriptor that only names the file, and a path to it.
fn held(canary: &Path) -> (File, CString) {
    let held = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(canary).unwrap();
    let path = CString::new(format!("/proc/self/fd/{}", held.as_raw_fd())).unwrap();
    (held, path)
}

pub fn chmod(t: &Targets, ways: &mut Ways) {
    let canary = canary(t, "chmod");
    let set = |name: &CStr| {
        // SAFETY: valid C strings; so in all calls below.
        i64::from(unsafe { libc::chmod(name.as_ptr(), 0o777) })
    };
    for (way, name) in names(&canary) {
        ways.call(way, set(&name));
    }
    let (held, path) = held(&canary);
    ways.call("a descriptor's path", set(&path));
    let at = libc::AT_FDCWD;
    let number = held.as_raw_fd();
    // SAFETY: as above.
    unsafe {
        ways.call("fchmod", libc::fchmod(number, 0o777));
        ways.call("fchmodat", libc::syscall(libc::SYS_fchmodat, at, c(&canary).as_ptr(), 0o777));
        let nofollow = libc::AT_SYMLINK_NOFOLLOW;
        ways.call("fchmodat2", libc::syscall(452, at, c(&canary).as_ptr(), 0o777, nofollow));
        let empty = libc::AT_EMPTY_PATH;
        ways.call("empty path", libc::syscall(452, number, c"".as_ptr(), 0o777, empty));
    }
    swapped_link(&canary);
    swapped_path(&canary);
}

/// A link that leads inside while it is judged, and outside when the change is made.
fn swapped_link(canary: &Path) {
    std::fs::write("mine", "x").unwrap();
    symlink("mine", "to-mine").unwrap();
    symlink(canary, "to-canary").unwrap();
    symlink("mine", "swapped").unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for link in ["to-mine", "to-canary"] {
                    let _ = std::fs::hard_link(link, "next");
                    let _ = std::fs::rename("next", "swapped");
                }
            }
        });
        for _ in 0..TRIES {
            // SAFETY: as above.
            unsafe { libc::chmod(c"swapped".as_ptr(), 0o777) };
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// A path in memory that another thread writes over.
fn swapped_path(canary: &Path) {
    let outside = c(canary).into_bytes_with_nul();
    let mut inside = c(&std::env::current_dir().unwrap().join("mine")).into_bytes_with_nul();
    inside.resize(outside.len().max(inside.len()), 0);
    let mut shared = inside.clone();
    let start = shared.as_mut_ptr() as usize;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for text in [&outside, &inside] {
                    for (at, byte) in text.iter().enumerate() {
                        // SAFETY: within the bytes, which outlive this thread.
                        unsafe { std::ptr::write_volatile((start + at) as *mut u8, *byte) };
                    }
                }
            }
        });
        for _ in 0..TRIES {
            // SAFETY: the last byte of the longer text is NUL in both.
            unsafe { libc::chmod(start as *const libc::c_char, 0o777) };
        }
        done.store(true, Ordering::Relaxed);
    });
}

pub fn chown(t: &Targets, ways: &mut Ways) {
    let canary = canary(t, "chown");
    // Nobody's user, and our own group: that needs no privilege.
    // SAFETY: cannot fail.
    let (user, group) = (u32::MAX, unsafe { libc::getegid() });
    for (way, name) in names(&canary) {
        // SAFETY: as above.
        ways.call(way, unsafe { libc::chown(name.as_ptr(), user, group) });
    }
    let (held, path) = held(&canary);
    // SAFETY: as above.
    unsafe {
        ways.call("a descriptor's path", libc::chown(path.as_ptr(), user, group));
        ways.call("lchown", libc::lchown(c(&canary).as_ptr(), user, group));
        ways.call("fchown", libc::fchown(held.as_raw_fd(), user, group));
        let empty = libc::AT_EMPTY_PATH;
        let number = held.as_raw_fd();
        ways.call("empty path", libc::fchownat(number, c"".as_ptr(), user, group, empty));
    }
}

pub fn utime(t: &Targets, ways: &mut Ways) {
    let canary = canary(t, "utime");
    let times = [libc::timespec { tv_sec: 1, tv_nsec: 0 }; 2];
    let at = libc::AT_FDCWD;
    for (way, name) in names(&canary) {
        // SAFETY: two times, as the call reads.
        ways.call(way, unsafe { libc::utimensat(at, name.as_ptr(), times.as_ptr(), 0) });
    }
    let (held, path) = held(&canary);
    let number = held.as_raw_fd();
    // SAFETY: as above.
    unsafe {
        let none = std::ptr::null();
        ways.call("now", libc::utimensat(at, c(&canary).as_ptr(), none, 0));
        ways.call("a descriptor's path", libc::utimensat(at, path.as_ptr(), none, 0));
        ways.call("futimens", libc::futimens(number, times.as_ptr()));
        let empty = libc::AT_EMPTY_PATH;
        ways.call("empty path", libc::utimensat(number, c"".as_ptr(), times.as_ptr(), empty));
        #[cfg(target_arch = "x86_64")]
        {
            let path = c(&canary);
            let zero = [0i64; 4];
            ways.call("utime", libc::syscall(libc::SYS_utime, path.as_ptr(), zero.as_ptr()));
            ways.call("utimes", libc::syscall(libc::SYS_utimes, path.as_ptr(), zero.as_ptr()));
            let futimesat = libc::SYS_futimesat;
            ways.call("futimesat", libc::syscall(futimesat, at, path.as_ptr(), zero.as_ptr()));
        }
    }
}

pub fn setxattr(t: &Targets, ways: &mut Ways) {
    let canary = canary(t, "setxattr");
    let (name, value) = (c"user.attacked", c"x");
    for (way, path) in names(&canary) {
        // SAFETY: a value of one byte; so below.
        ways.call(way, unsafe {
            libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), 1, 0)
        });
    }
    let (held, path) = held(&canary);
    let number = held.as_raw_fd();
    // SAFETY: as above; the structure holds the value's address, its size and no flags.
    unsafe {
        let value = value.as_ptr().cast();
        let by = libc::setxattr(path.as_ptr(), name.as_ptr(), value, 1, 0);
        ways.call("a descriptor's path", by);
        let path = c(&canary);
        ways.call("lsetxattr", libc::lsetxattr(path.as_ptr(), name.as_ptr(), value, 1, 0));
        ways.call("fsetxattr", libc::fsetxattr(number, name.as_ptr(), value, 1, 0));
        let structure = [value as u64, 1];
        let args = structure.as_ptr();
        let at = libc::AT_FDCWD;
        let by = libc::syscall(SETXATTRAT, at, path.as_ptr(), 0, name.as_ptr(), args, 16);
        ways.call("setxattrat", by);
        let there = c"user.there";
        ways.call("removexattr", libc::removexattr(path.as_ptr(), there.as_ptr()));
        ways.call("lremovexattr", libc::lremovexattr(path.as_ptr(), there.as_ptr()));
        ways.call("fremovexattr", libc::fremovexattr(number, there.as_ptr()));
    }
}

pub fn file_flags(t: &Targets, ways: &mut Ways) {
    let canary = canary(t, "file_flags");
    const FS_IOC_GETFLAGS: libc::c_ulong = 0x8008_6601;
    const FS_IOC_SETFLAGS: libc::c_ulong = 0x4008_6602;
    const FS_NODUMP_FL: libc::c_int = 0x40;
    let set = |file: &File| {
        let mut flags: libc::c_int = 0;
        // SAFETY: reads and writes one int.
        unsafe {
            check(i64::from(libc::ioctl(file.as_raw_fd(), FS_IOC_GETFLAGS, &raw mut flags)))?;
            flags ^= FS_NODUMP_FL;
            check(i64::from(libc::ioctl(file.as_raw_fd(), FS_IOC_SETFLAGS, &raw const flags)))
        }
    };
    ways.tried("the canary", File::open(&canary).and_then(|file| set(&file)));
    let readable = File::open(t.root.join("home/readable"));
    ways.tried("what may be read", readable.and_then(|file| set(&file)));
    let attributes = [0u64; 3];
    // SAFETY: a structure of the size that is named.
    let done = unsafe {
        let at = libc::AT_FDCWD;
        libc::syscall(FILE_SETATTR, at, c(&canary).as_ptr(), attributes.as_ptr(), 24, 0)
    };
    ways.call("file_setattr", done);
}
