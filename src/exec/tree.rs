//! The processes of one command, seen from the launcher that adopts them all.

use super::memory::Memory;
use super::sandbox::{Confinement, Limits};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How long the launcher tries to end a tree before it reports what is left (a process that waits
/// inside the kernel for a dead disk cannot be ended by anybody).
pub(super) const KILL_PATIENCE_MS: u64 = 5_000;

/// How a process ended: its code or its signal.
pub(super) type Status = Option<(Option<i32>, Option<i32>)>;

/// Whether everything else in sight is the command's: the launcher is process 1 of its namespace.
fn is_alone() -> bool {
    std::process::id() == 1
}

/// Asks the whole tree to end: its group, and whoever left the group.
pub(super) fn terminate(pid: i32) {
    if is_alone() {
        // SAFETY: everybody but the caller, in this namespace.
        unsafe { libc::kill(-1, libc::SIGTERM) };
        return;
    }
    // SAFETY: signals the command's own process group.
    unsafe { libc::kill(-pid, libc::SIGTERM) };
    for descendant in descendants() {
        // SAFETY: a process of the tree.
        unsafe { libc::kill(descendant, libc::SIGTERM) };
    }
}

/// Reaps whatever has ended. `Some` once `pid` is among it.
pub(super) fn reap(pid: Option<i32>) -> Option<Status> {
    let mut found = None;
    loop {
        let mut status = 0;
        // SAFETY: writes one int.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if ended <= 0 {
            return found;
        }
        if Some(ended) == pid {
            found = Some(Some(if libc::WIFSIGNALED(status) {
                (None, Some(libc::WTERMSIG(status)))
            } else {
                (Some(libc::WEXITSTATUS(status)), None)
            }));
        }
    }
}

/// Reaps one of those that have ended: which, and whether it ended by itself and well.
pub(super) fn reap_any() -> Option<(i32, bool)> {
    let mut status = 0;
    // SAFETY: writes one int.
    let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (ended > 0).then(|| (ended, libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0))
}

/// Kills every descendant but these and theirs; true where there were any.
pub(super) fn end_all_but(kept: &BTreeSet<i32>) -> bool {
    let strangers = descendants_but(kept);
    for pid in &strangers {
        // SAFETY: a process of the tree.
        unsafe { libc::kill(*pid, libc::SIGKILL) };
    }
    !strangers.is_empty()
}

pub(super) fn reap_blocking(pid: i32) {
    // SAFETY: waits for our own child, which is on its way out.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

/// True while any child, own or adopted, is alive or unreaped.
fn has_children() -> bool {
    // SAFETY: waitid with WNOWAIT only looks.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)
            == 0
    }
}

/// Kills everything that is left of the command. Returns how many processes that were, and how many
/// could not be ended.
pub(super) fn end_tree() -> (u32, u32) {
    let mut killed = BTreeSet::new();
    let start = crate::clock::now();
    loop {
        reap(None);
        if !has_children() {
            return (u32::try_from(killed.len()).unwrap_or(u32::MAX), 0);
        }
        let alive = descendants();
        if is_alone() {
            // All at once, so that nothing is born meanwhile.
            // SAFETY: as above.
            unsafe { libc::kill(-1, libc::SIGKILL) };
        }
        for pid in &alive {
            killed.insert(*pid);
            // SAFETY: a process of the tree.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        if crate::clock::millis_since(start) > KILL_PATIENCE_MS {
            let left = u32::try_from(alive.len()).unwrap_or(u32::MAX);
            return (u32::try_from(killed.len()).unwrap_or(u32::MAX), left);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// All living descendants, found through the parent of every process.
fn descendants() -> Vec<i32> {
    descendants_but(&BTreeSet::new())
}

fn descendants_but(kept: &BTreeSet<i32>) -> Vec<i32> {
    let mut parents = Vec::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if let Some(parent) = parent_of(pid) {
            parents.push((pid, parent));
        }
    }
    let mut found = Vec::new();
    let mut next = vec![std::process::id().cast_signed()];
    while let Some(parent) = next.pop() {
        let children = parents.iter().filter(|(pid, of)| *of == parent && !kept.contains(pid));
        for (pid, _) in children {
            found.push(*pid);
            next.push(*pid);
        }
    }
    found
}

/// The parent of a living process; zombies have nothing left to end.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything; fields count from the last one.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}

/// The limits of a command, and where to look.
pub(super) struct Watched {
    limits: Limits,
    /// A place on each file system that the command may write.
    disks: Vec<PathBuf>,
    memory: Option<Memory>,
}

impl Watched {
    pub(super) fn new(confinement: &Confinement) -> Self {
        let limits = confinement.limits;
        let mut devices = BTreeSet::new();
        // Devices are no place to write files to.
        let places = confinement.write.iter().filter(|path| !path.starts_with("/dev"));
        let disks = places
            .filter(|_| limits.keep_free.is_some())
            .filter(|place| std::fs::metadata(place).is_ok_and(|meta| devices.insert(meta.dev())))
            .cloned()
            .collect();
        let namespaces = confinement.enabled && confinement.layers.namespaces;
        let memory = limits.memory.map(|most| Memory::new(most, namespaces));
        Self { limits, disks, memory }
    }

    pub(super) fn is_limited(&self) -> bool {
        self.limits != Limits::default()
    }

    /// The limit that the tree exceeds, in words.
    pub(super) fn exceeded(&self) -> Option<String> {
        self.tree_exceeds().or_else(|| self.disk_exceeds())
    }

    fn tree_exceeds(&self) -> Option<String> {
        if self.limits.processes.is_none() && self.memory.is_none() {
            return None;
        }
        let tree = descendants();
        if let Some(most) = self.limits.processes
            && tree.len() as u64 > most
        {
            return Some(format!("more than {most} processes (command_limits.processes)"));
        }
        let memory = self.memory.as_ref()?;
        memory.is_exceeded(&tree).then(|| {
            let most = memory.limit().div_ceil(1 << 20);
            format!("more than {most} MiB of memory (command_limits.memory)")
        })
    }

    fn disk_exceeds(&self) -> Option<String> {
        let least = self.limits.keep_free?;
        let full = |place: &PathBuf| free_bytes(place).is_some_and(|free| free < least);
        let place = self.disks.iter().find(|place| full(place))?;
        let (least, place) = (least.div_ceil(1 << 20), place.display());
        Some(format!(
            "less than {least} MiB left on the disk of {place} (command_limits.keep_free)"
        ))
    }
}

/// What is free for ordinary users on the file system of a place.
fn free_bytes(place: &Path) -> Option<u64> {
    let fs = rustix::fs::statvfs(place).ok()?;
    Some(fs.f_bavail.saturating_mul(fs.f_frsize))
}
