//! How much memory a command's processes hold, what they share among them counted once.
//!
//! A process's own pages are told by the kernel for next to nothing. What lies in memory files (memfd,
//! System V, `/dev/shm`) is nobody's own: it is found by who has it open or mapped. That takes longer, so
//! that it is looked for no more than a tenth of the time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Where the command's own memory file system is, with namespaces.
const SHM: &str = "/dev/shm";
/// How the mapping of a segment of System V begins.
const SEGMENT: &str = "/SYSV";
/// Between two searches lies this many times what the last one took.
const REST: u32 = 10;

/// A file whatever its name is: device and inode.
type Identity = (u64, u64);

pub(super) struct Memory {
    limit: u64,
    /// The device of the command's own `/dev/shm`.
    own_shm: Option<u64>,
    /// What all memory files of the machine held before.
    before: u64,
    search: RefCell<Search>,
}

/// What the last search found.
#[derive(Default)]
struct Search {
    shared: u64,
    next: Option<Instant>,
    /// With what it found, the last look found too much.
    exceeded: bool,
}

impl Search {
    /// What processes share is added up from parts that were asked for one after another, while pages go
    /// from one to the other: it counts once a second look, with a search of its own, says the same.
    fn confirms(&mut self, exceeded: bool) -> bool {
        if exceeded {
            self.next = None;
        }
        std::mem::replace(&mut self.exceeded, exceeded) && exceeded
    }
}

impl Memory {
    pub(super) fn new(limit: u64, namespaces: bool) -> Self {
        let own_shm = fs::metadata(SHM).ok().filter(|_| namespaces).map(|meta| meta.dev());
        Self { limit, own_shm, before: of_the_machine(), search: RefCell::default() }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether these processes hold more than they may. To be asked time and again.
    pub(super) fn is_exceeded(&self, tree: &[i32]) -> bool {
        let own: u64 = tree.iter().map(|pid| own_pages(*pid)).sum();
        if own > self.limit {
            return true;
        }
        let exceeded = own + self.shared(tree, own) > self.limit;
        self.search.borrow_mut().confirms(exceeded)
    }

    fn shared(&self, tree: &[i32], own: u64) -> u64 {
        let mut search = self.search.borrow_mut();
        let begun = crate::clock::now();
        if search.next.is_some_and(|next| begun < next) {
            return search.shared;
        }
        search.shared = self.search(tree, own);
        let end = crate::clock::now();
        search.next =
            Some(end + REST * end.saturating_duration_since(begun).min(Duration::from_secs(1)));
        search.shared
    }

    fn search(&self, tree: &[i32], own: u64) -> u64 {
        let mut open = BTreeMap::new();
        let mut hidden = false;
        for pid in tree {
            hidden |= self.open_files(*pid, &mut open).is_err();
        }
        let mut held = open.values().sum::<u64>() + self.in_own_namespaces();
        if hidden {
            // A process that lets nobody look at its descriptors: what the machine has more is its.
            held = held.max(of_the_machine().saturating_sub(self.before));
        }
        // Mapped, and no longer open: bounded first by what is mapped in all.
        let mapped: u64 = tree.iter().map(|pid| mapped_shared(*pid)).sum();
        if own + held + mapped > self.limit {
            held += tree.iter().map(|pid| self.only_mapped(*pid, &open)).sum::<u64>();
        }
        held
    }

    /// Memory files that a process has open, with the bytes in them.
    fn open_files(&self, pid: i32, found: &mut BTreeMap<Identity, u64>) -> io::Result<()> {
        let entries = match fs::read_dir(format!("/proc/{pid}/fd")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries.flatten() {
            let link = match fs::read_link(entry.path()) {
                // The folder of root's own process can be listed all the same.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                Err(_) => continue,
                Ok(link) => link,
            };
            if !is_memory(&link.to_string_lossy()) {
                continue;
            }
            if let Ok(meta) = fs::metadata(entry.path())
                && Some(meta.dev()) != self.own_shm
            {
                found.insert((meta.dev(), meta.ino()), meta.blocks() * 512);
            }
        }
        Ok(())
    }

    /// What lies in the command's own `/dev/shm` and in its own segments of System V, used or not.
    fn in_own_namespaces(&self) -> u64 {
        if self.own_shm.is_none() {
            return 0;
        }
        let fs = rustix::fs::statvfs(Path::new(SHM));
        fs.map_or(0, |fs| fs.f_blocks.saturating_sub(fs.f_bfree).saturating_mul(fs.f_frsize))
            + segments()
    }

    /// A process's part of the memory files that it maps and nobody has open.
    fn only_mapped(&self, pid: i32, open: &BTreeMap<Identity, u64>) -> u64 {
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/smaps")) else {
            return mapped_shared(pid);
        };
        let mut bytes = 0;
        let mut counts = false;
        for line in text.lines() {
            if let Some(part) = line.strip_prefix("Pss:") {
                bytes += if counts { kilobytes(part) } else { 0 };
            } else if let Some((identity, path)) = mapping(line) {
                let is_counted = open.contains_key(&identity)
                    || self
                        .own_shm
                        .is_some_and(|own| own == identity.0 || path.starts_with(SEGMENT));
                counts = is_memory(path) && !is_counted;
            }
        }
        bytes
    }
}

/// Bytes in all segments of System V of this namespace.
fn segments() -> u64 {
    const SHM_INFO: libc::c_int = 14;
    /// `struct shm_info`: identifiers in use, then pages in all, in memory and swapped out.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        used: libc::c_int,
        all: libc::c_ulong,
        resident: libc::c_ulong,
        swapped: libc::c_ulong,
        attempts: libc::c_ulong,
        successes: libc::c_ulong,
    }
    let mut info = Info::default();
    // SAFETY: writes one structure of this kind.
    let done = unsafe { libc::shmctl(0, SHM_INFO, (&raw mut info).cast()) };
    if done < 0 { 0 } else { info.resident.saturating_mul(page_size()) }
}

/// What a memory file is called where it is open or mapped.
fn is_memory(path: &str) -> bool {
    let names = ["/memfd:", "/dev/shm/", SEGMENT, "/dev/zero"];
    names.iter().any(|name| path.starts_with(name))
}

/// `7f00-7f01 rw-s 00000000 00:01 1027 /memfd:x (deleted)`: the file and its path.
fn mapping(line: &str) -> Option<(Identity, &str)> {
    let mut rest = line;
    let mut next = || {
        let (word, after) = rest.split_once(' ')?;
        rest = after.trim_start();
        Some(word)
    };
    next()?.split_once('-')?;
    next()?;
    next()?;
    let (major, minor) = next()?.split_once(':')?;
    let inode = next()?.parse().ok()?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    // The type has other widths on other systems.
    #[allow(clippy::unnecessary_cast)]
    let device = rustix::fs::makedev(number(major)?, number(minor)?) as u64;
    Some(((device, inode), rest))
}

/// Bytes that a process holds and shares with nobody.
fn own_pages(pid: i32) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/statm")) else { return 0 };
    let mut fields = text.split_ascii_whitespace().skip(1).map(|field| field.parse::<u64>());
    match (fields.next(), fields.next()) {
        (Some(Ok(resident)), Some(Ok(shared))) => resident.saturating_sub(shared) * page_size(),
        _ => 0,
    }
}

/// Bytes of memory files that a process has mapped and touched.
fn mapped_shared(pid: i32) -> u64 {
    line_of(&format!("/proc/{pid}/status"), "RssShmem:")
}

/// Bytes in all memory files of the machine.
fn of_the_machine() -> u64 {
    line_of("/proc/meminfo", "Shmem:")
}

fn line_of(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix(name)).map_or(0, kilobytes)
}

/// `  123 kB` in bytes.
fn kilobytes(text: &str) -> u64 {
    let number = text.trim().trim_end_matches("kB").trim_end();
    number.parse::<u64>().unwrap_or(0) * 1024
}

fn page_size() -> u64 {
    // SAFETY: asks for a constant of the system.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_counts_only_once_two_looks_in_a_row_agree() {
        let mut search = Search::default();
        let looks = [true, false, true, true];
        assert_eq!(looks.map(|exceeded| search.confirms(exceeded)), [false, false, false, true]);
        search.next = Some(crate::clock::now());
        search.confirms(true);
        assert_eq!(search.next, None, "the next look searches itself");
    }

    #[test]
    fn mappings_are_told_by_device_inode_and_path() {
        let line = "7f2a00000000-7f2a06000000 rw-s 00000000 00:01 2051                       /memfd:a b (deleted)";
        let ((device, inode), path) = mapping(line).unwrap();
        assert_eq!((device, inode), (rustix::fs::makedev(0, 1), 2051));
        assert!(is_memory(path), "{path}");
        for other in
            ["Rss:                 224 kB", "VmFlags: rd wr sh", "7f2a-7f2b rw-p 0 00:00 0"]
        {
            assert!(mapping(other).is_none_or(|(_, path)| !is_memory(path)), "{other}");
        }
        assert!(!is_memory("/usr/lib/libc.so.6") && is_memory("/SYSV00000000 (deleted)"));
        assert_eq!(kilobytes("      98304 kB"), 96 << 20);
    }
}
