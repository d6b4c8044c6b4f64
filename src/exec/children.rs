//! The runner's own children, and those that became its children without being started by it.
//!
//! A launcher ends its whole tree before it goes, and the starter ends what a killed one left. Should the
//! starter itself be killed, its launchers come to the runner, which is a subreaper: they are ended here.
//! As PID 1 of a container the runner also inherits whatever else in there lost its parent; such strangers
//! are reaped and otherwise left alone.
//!
//! The runtime waits for the children that it knows by their process ids. Strangers are waited for by
//! their ids too, and only those, so that neither takes the other's exit status away.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::process::Child;

/// Ids of the children that the runtime waits for. One set for the process, as its children are.
static KNOWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn known() -> MutexGuard<'static, BTreeSet<u32>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves a child to the runtime, which reaps it when it ends. Its entry goes with the first look after
/// that.
pub fn leave_to_runtime(child: Child) {
    known().extend(child.id());
    drop(child);
}

/// Takes in orphans for as long as the runtime lives. Call once, inside the runtime.
#[cfg(target_os = "linux")]
pub fn adopt_orphans() {
    // SAFETY: prctl with constant arguments.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    let before: BTreeSet<u32> = linux::children().into_iter().collect();
    let Ok(mut signals) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child())
    else {
        return;
    };
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            linux::take_in(&before);
        }
    });
}

#[cfg(not(target_os = "linux"))]
pub fn adopt_orphans() {}

#[cfg(target_os = "linux")]
mod linux {
    use super::known;
    use std::collections::BTreeSet;
    use std::fs;

    /// Reaps strangers that have ended and, unless this is PID 1, ends those that live: they can only
    /// come from a starter that was killed.
    pub fn take_in(before: &BTreeSet<u32>) {
        let children: BTreeSet<u32> = children().into_iter().collect();
        let mut known = known();
        known.retain(|pid| children.contains(pid));
        for pid in children.iter().filter(|pid| !known.contains(pid)) {
            let Ok(raw) = i32::try_from(*pid) else { continue };
            if std::process::id() != 1 && !before.contains(pid) {
                // SAFETY: a child of ours that is not reaped yet, so that the id is still its own.
                unsafe { libc::kill(raw, libc::SIGKILL) };
            }
            // SAFETY: waits for this child alone; the status is of no use to anybody.
            unsafe { libc::waitpid(raw, std::ptr::null_mut(), libc::WNOHANG) };
        }
    }

    /// The children of this process, living and ended.
    pub fn children() -> Vec<u32> {
        let tasks = fs::read_dir("/proc/self/task");
        let mut found = Vec::new();
        for task in tasks.into_iter().flatten().flatten() {
            match fs::read_to_string(task.path().join("children")) {
                Ok(list) => found.extend(pids(&list)),
                // A thread that ended meanwhile has no children left.
                Err(_) if fs::metadata("/proc/thread-self/children").is_ok() => {}
                // A kernel built without that file.
                Err(_) => return by_parent(),
            }
        }
        found
    }

    fn pids(list: &str) -> impl Iterator<Item = u32> {
        list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok())
    }

    fn by_parent() -> Vec<u32> {
        let own = std::process::id();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| parent_of(*pid) == Some(own)).collect()
    }

    fn parent_of(pid: u32) -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in parentheses and may hold anything; fields count from the last one.
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}
