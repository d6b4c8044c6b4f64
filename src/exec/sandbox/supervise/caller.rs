//! The process that called: its memory, its files and its descriptors, as it sees them.

use super::{Notice, errno};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// A text is read up to the end of a page at a time: what follows may not be there.
const PAGE: u64 = 4096;
/// `PATH_MAX`, with the NUL.
const MAX_PATH: usize = 4096;
/// To look at and to act through, never to read: nothing waits for a FIFO's other end.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

pub(super) struct Caller {
    pub thread: u32,
}

impl Caller {
    pub fn of(notice: &Notice) -> Self {
        Self { thread: notice.pid }
    }

    /// Reads all of this.
    pub fn read(&self, at: u64, length: usize) -> Result<Vec<u8>, i32> {
        let mut bytes = vec![0; length];
        match self.read_some(at, &mut bytes)? == length {
            true => Ok(bytes),
            false => Err(libc::EFAULT),
        }
    }

    /// A text up to its NUL, which must come within this many bytes.
    pub fn text(&self, at: u64, most: usize, too_long: i32) -> Result<Vec<u8>, i32> {
        let mut text = Vec::new();
        while text.len() < most {
            let from = at.wrapping_add(text.len() as u64);
            let room = usize::try_from(PAGE - from % PAGE).unwrap_or(0);
            // Most are short.
            let room =
                room.min(most - text.len()).min(if text.is_empty() { 256 } else { MAX_PATH });
            let start = text.len();
            text.resize(start + room, 0);
            let read = self.read_some(from, &mut text[start..])?;
            text.truncate(start + read);
            if let Some(end) = text[start..].iter().position(|byte| *byte == 0) {
                text.truncate(start + end);
                return Ok(text);
            }
            if read == 0 {
                return Err(libc::EFAULT);
            }
        }
        Err(too_long)
    }

    pub fn path(&self, at: u64) -> Result<Vec<u8>, i32> {
        self.text(at, MAX_PATH, libc::ENAMETOOLONG)
    }

    fn read_some(&self, at: u64, bytes: &mut [u8]) -> Result<usize, i32> {
        /// The filter of a container may refuse the shorter way.
        static REFUSED: AtomicBool = AtomicBool::new(false);
        if !REFUSED.load(Ordering::Relaxed) {
            let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let there = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: bytes.len() };
            let thread = self.thread.cast_signed();
            // SAFETY: writes into bytes of the given length; the other address is only the caller's.
            let read = unsafe {
                libc::process_vm_readv(thread, &raw const here, 1, &raw const there, 1, 0)
            };
            match usize::try_from(read) {
                Ok(read) => return Ok(read),
                Err(_) if matches!(errno(), libc::EPERM | libc::ENOSYS) => {
                    REFUSED.store(true, Ordering::Relaxed);
                }
                Err(_) => return Err(libc::EFAULT),
            }
        }
        let memory =
            fs::File::open(format!("/proc/{}/mem", self.thread)).map_err(|_| libc::EACCES)?;
        memory.read_at(bytes, at).map_err(|_| libc::EFAULT)
    }

    /// Opens a path as the caller sees it: relative to a descriptor of its own, or to where it stands.
    pub fn open(&self, folder: RawFd, path: &[u8], follow: bool) -> Result<OwnedFd, i32> {
        /// With what stands before it, a longer path is longer than the kernel takes.
        const MAX_JOINED: usize = MAX_PATH - 64;
        let flags = if follow { LOOK } else { LOOK | OFlags::NOFOLLOW };
        if path.first() == Some(&b'/') {
            let path = self.not_ourselves(path);
            return rustix::fs::open(&path[..], flags, Mode::empty())
                .map_err(|error| error.raw_os_error());
        }
        let base = match folder {
            libc::AT_FDCWD => format!("/proc/{}/cwd/", self.thread),
            number => format!("/proc/{}/fd/{number}/", self.thread),
        };
        let opened = if path.len() < MAX_JOINED {
            rustix::fs::open([base.as_bytes(), path].concat(), flags, Mode::empty())
        } else {
            rustix::fs::open(base.as_str(), LOOK, Mode::empty())
                .and_then(|folder| rustix::fs::openat(folder, path, flags, Mode::empty()))
        };
        opened.map_err(|error| match error {
            rustix::io::Errno::NOENT
                if fs::symlink_metadata(base.trim_end_matches('/')).is_err() =>
            {
                libc::EBADF
            }
            error => error.raw_os_error(),
        })
    }

    /// What one of the caller's descriptors stands for.
    pub fn open_descriptor(&self, number: RawFd) -> Result<OwnedFd, i32> {
        let path = format!("/proc/{}/fd/{number}", self.thread);
        rustix::fs::open(path, LOOK, Mode::empty()).map_err(|error| match error {
            rustix::io::Errno::NOENT => libc::EBADF,
            error => error.raw_os_error(),
        })
    }

    /// "Self" is whoever looks, which is not the caller here. Other spellings of it lead to ourselves,
    /// where nothing lies that is not judged by its place all the same.
    fn not_ourselves(&self, path: &[u8]) -> Vec<u8> {
        let own = format!("/proc/{}/", self.thread);
        let names = [
            ("/proc/self/", String::new()),
            ("/proc/thread-self/", String::new()),
            ("/dev/fd/", "fd/".into()),
            ("/dev/stdin", "fd/0".into()),
            ("/dev/stdout", "fd/1".into()),
            ("/dev/stderr", "fd/2".into()),
        ];
        for (name, there) in names {
            if let Some(rest) = path.strip_prefix(name.as_bytes()) {
                return [own.as_bytes(), there.as_bytes(), rest].concat();
            }
        }
        path.to_owned()
    }

    /// Whether the caller has the namespaces and the root that we have: a path means the same here, and
    /// so does a user's id.
    pub fn sees_what_we_see(&self) -> bool {
        let same = |name: &str| {
            let of = |who: &str| fs::read_link(format!("/proc/{who}/ns/{name}")).ok();
            let own = of("self");
            own.is_some() && own == of(&self.thread.to_string())
        };
        let root = fs::read_link(format!("/proc/{}/root", self.thread));
        same("mnt") && same("user") && root.is_ok_and(|root| root == std::path::Path::new("/"))
    }

    /// The caller's own descriptor.
    pub fn borrow(&self, number: RawFd) -> Result<OwnedFd, i32> {
        let process = self.process()?;
        // SAFETY: no pointers; new descriptors are owned at once.
        unsafe {
            let process = libc::syscall(libc::SYS_pidfd_open, process, 0);
            if process < 0 {
                return Err(errno());
            }
            let process = OwnedFd::from_raw_fd(process as RawFd);
            let fd = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0);
            if fd < 0 { Err(errno()) } else { Ok(OwnedFd::from_raw_fd(fd as RawFd)) }
        }
    }

    /// The process of the thread.
    fn process(&self) -> Result<u32, i32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.thread))
            .map_err(|_| libc::EACCES)?;
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        line.and_then(|text| text.trim().parse().ok()).ok_or(libc::EACCES)
    }

    /// The inode of a socket of the caller's.
    pub fn socket_inode(&self, number: RawFd) -> Result<String, i32> {
        let link =
            fs::read_link(format!("/proc/{}/fd/{number}", self.thread)).map_err(|_| libc::EBADF)?;
        let inode = link.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'));
        inode.map(str::to_owned).ok_or(libc::ENOTSOCK)
    }

    pub fn flags(&self, number: RawFd) -> Result<i32, i32> {
        let text = fs::read_to_string(format!("/proc/{}/fdinfo/{number}", self.thread))
            .map_err(|_| libc::EBADF)?;
        let line = text.lines().find_map(|line| line.strip_prefix("flags:"));
        line.and_then(|text| i32::from_str_radix(text.trim(), 8).ok()).ok_or(libc::EBADF)
    }

    /// Stream or packets: the table of Unix sockets tells.
    pub fn unix_kind(&self, inode: &str) -> Result<i32, i32> {
        let table = fs::read_to_string(format!("/proc/{}/net/unix", self.thread))
            .map_err(|_| libc::EACCES)?;
        let kind = table.lines().skip(1).find_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            (fields.get(6) == Some(&inode)).then(|| i32::from_str_radix(fields[4], 16).ok())?
        });
        kind.ok_or(libc::EPROTOTYPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_to_its_end_and_no_further_than_memory_goes() {
        let pages = 2 * PAGE as usize;
        let (prot, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory of three pages, the last of which is taken away again; what is written lies
        // in the first two.
        let memory = unsafe {
            let at = libc::mmap(std::ptr::null_mut(), pages + 4096, prot, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::munmap(at.cast::<u8>().add(pages).cast(), 4096);
            std::slice::from_raw_parts_mut(at.cast::<u8>(), pages)
        };
        memory.fill(b'x');
        let caller =
            Caller { thread: rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs() };
        let start = memory.as_ptr() as u64;
        for length in [1, 255, 256, 257, 4000] {
            let at = pages - length - 1;
            memory[pages - 1] = 0;
            let text = caller.path(start + at as u64).unwrap();
            assert_eq!(text, vec![b'x'; length], "{length}");
            memory[pages - 1] = b'x';
            let cut = caller.path(start + at as u64);
            assert_eq!(cut, Err(libc::EFAULT), "{length}: no end before the memory's");
        }
        assert_eq!(caller.path(start), Err(libc::ENAMETOOLONG));
        assert_eq!(caller.path(8), Err(libc::EFAULT));
        assert_eq!(caller.read(start, 3).unwrap(), b"xxx");
        assert_eq!(caller.read(start + pages as u64 - 2, 3), Err(libc::EFAULT));
        // SAFETY: the memory of above, which nothing refers to any more.
        unsafe { libc::munmap(start as *mut libc::c_void, pages) };
    }
}
