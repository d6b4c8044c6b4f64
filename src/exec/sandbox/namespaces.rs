//! Namespaces: a command that sees only its own processes, its own IPC, its own network and a view of
//! the files that fits the policy.
//!
//! The launcher leaves its own namespaces first ([`enter`]) and then forks: the child is process 1 of the
//! new ones, arranges the mounts ([`arrange`]), gives up what it needed for that, and keeps the command.
//! When it goes, the kernel ends everything in them.

use super::{Confinement, LayerError, Wall, failed, mounts, privileges};
use std::fs;
use std::io;

pub(super) const LAYER: &str = "namespaces";

/// Leaves the namespaces of this machine. A process that may make them as it is keeps its user ids; any
/// other takes a user namespace first, in which it is who it was.
pub fn enter(confinement: &Confinement) -> Result<(), LayerError> {
    let mut flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC;
    if own_network(confinement) {
        flags |= libc::CLONE_NEWNET;
    }
    // SAFETY: no pointers; the process has one thread, as the launcher's design demands.
    if unsafe { libc::unshare(flags) } == 0 {
        return Ok(());
    }
    // SAFETY: cannot fail, touch nothing.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: as above.
    if unsafe { libc::unshare(flags | libc::CLONE_NEWUSER) } != 0 {
        return Err(failed(LAYER, format!("unshare: {}", io::Error::last_os_error())));
    }
    let write = |file: &str, text: String| {
        fs::write(file, text).map_err(|error| failed(LAYER, format!("{file}: {error}")))
    };
    // A process that nobody may read has no files in /proc of its own either.
    privileges::set_dumpable(true);
    // Without the first a group map is not for the unprivileged: a dropped group could open what it closed.
    let mapped = write("/proc/self/setgroups", "deny".into())
        .and_then(|()| write("/proc/self/uid_map", format!("{uid} {uid} 1")))
        .and_then(|()| write("/proc/self/gid_map", format!("{gid} {gid} 1")));
    privileges::set_dumpable(false);
    mapped
}

/// Whether the command gets a network of its own. Behind a proxy it needs the machine's loopback, and
/// without any network the filter leaves it no socket to reach one with: making and tearing down a
/// network costs more than all the rest together, so that it is made where it is used.
fn own_network(confinement: &Confinement) -> bool {
    match confinement.wall {
        Wall::Loopback => true,
        Wall::None => !confinement.layers.seccomp,
        Wall::Proxy(_) | Wall::Open => false,
    }
}

/// Arranges the new namespaces from inside, as their process 1.
pub fn arrange(confinement: &Confinement) -> Result<(), LayerError> {
    // SAFETY: prctl with constant arguments. Goes with the launcher outside.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    mounts::arrange(confinement)?;
    if own_network(confinement) && confinement.wall == Wall::Loopback {
        raise_loopback()?;
    }
    Ok(())
}

/// Switches the loopback device of the new network on; 127.0.0.1 and ::1 come with it.
fn raise_loopback() -> Result<(), LayerError> {
    // SAFETY: the request is initialised in full, its name ends with a NUL; the socket is closed below.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(failed(LAYER, format!("loopback: {}", io::Error::last_os_error())));
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let done = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        let error = io::Error::last_os_error();
        libc::close(socket);
        if done == 0 { Ok(()) } else { Err(failed(LAYER, format!("loopback: {error}"))) }
    }
}
