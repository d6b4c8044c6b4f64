//! What a command may become, and how much it may take: no_new_privs, capabilities, limits.

use super::{LayerError, Limits, failed};
use std::io;

pub fn no_new_privs() -> Result<(), LayerError> {
    // SAFETY: prctl with constant arguments touches no memory of ours.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(failed("no_new_privs", io::Error::last_os_error()));
    }
    Ok(())
}

/// Nobody of the same user reads this process's memory, descriptors or environment from now on.
pub fn not_dumpable() {
    set_dumpable(false);
}

pub fn set_dumpable(to: bool) {
    // SAFETY: prctl with a number; it cannot fail with these two.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(to), 0, 0, 0) };
}

/// Drops every capability from every set, for root too. no_new_privs keeps an exec of a root process
/// from gaining them back.
pub fn drop_capabilities() -> Result<(), LayerError> {
    const LAYER: &str = "capabilities";
    // SAFETY: prctl with constant arguments; a kernel that knows fewer capabilities answers EINVAL.
    unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        for capability in 0..64 {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 {
                break;
            }
        }
    }
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    let none = [[0u32; 3]; 2];
    // SAFETY: both structures have the layout capset(2) reads for version 3.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(failed(LAYER, io::Error::last_os_error())) }
}

/// Processes and threads of a command count against the user's limit, which holds back a burst until
/// the launcher's look has seen it. The launcher counts what is the command's own, and counts for root
/// too, whom the kernel exempts.
const THREADS_PER_PROCESS: u64 = 8;

pub fn limit(limits: &Limits) -> Result<(), LayerError> {
    set(libc::RLIMIT_CORE, 0)?;
    if let Some(processes) = limits.processes {
        set(libc::RLIMIT_NPROC, processes.saturating_mul(THREADS_PER_PROCESS).max(1024))?;
    }
    Ok(())
}

/// Lowers a limit for good; one that is lower already stays.
fn set(resource: libc::__rlimit_resource_t, to: u64) -> Result<(), LayerError> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a valid pointer to a local.
    let done = unsafe {
        if libc::getrlimit(resource, &raw mut now) != 0 {
            return Err(failed("rlimits", io::Error::last_os_error()));
        }
        let to = libc::rlimit { rlim_cur: to.min(now.rlim_max), rlim_max: to.min(now.rlim_max) };
        libc::setrlimit(resource, &raw const to)
    };
    if done == 0 { Ok(()) } else { Err(failed("rlimits", io::Error::last_os_error())) }
}
