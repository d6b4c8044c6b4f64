//! The process that launchers are forked from. Small, with one thread, and nothing of the runner's in it.

use super::child::{self, check};
use super::launcher::{self, Streams};
use super::tree;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::collections::BTreeSet;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Runs the starter; its return value is its exit status.
pub fn launcher_main() -> u8 {
    // SAFETY: standard input is ours alone; the runner gave it as the socket.
    let socket = unsafe { OwnedFd::from_raw_fd(0) };
    match serve(socket) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// How long launchers may take to end what they keep, and to go.
const GOING_MS: u64 = tree::KILL_PATIENCE_MS + launcher::AFTERWARDS_MS + 2_000;

fn serve(socket: OwnedFd) -> io::Result<()> {
    // SAFETY: asks for a number.
    let runner = unsafe { libc::getppid() };
    // What the runner itself was given and does not close on exec: whoever is at its other end is to see
    // it close with the runner.
    child::close_everything_else(false);
    // No folder of the machine is held by it.
    std::env::set_current_dir("/")?;
    #[cfg(target_os = "linux")]
    {
        super::sandbox::not_dumpable();
        // Whoever stopped it does not keep it from going with the runner.
        // SAFETY: prctl with constant arguments.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGCONT, 0, 0, 0) };
    }
    launcher::become_reaper()?;
    let signals = launcher::block_and_watch_children()?;
    // The number stays taken: what comes below 3 would be in the way of a launcher's own.
    let socket = moved_up(socket)?;
    let mut launchers = BTreeSet::new();
    let mut strangers = false;
    loop {
        let mut fds = [
            libc::pollfd { fd: signals.as_raw_fd(), events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 },
        ];
        // SAFETY: the array is valid for its two entries.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), 2, patience(strangers)) };
        if ready < 0 {
            continue;
        }
        strangers = look_after(fds[0], &signals, &mut launchers, strangers);
        if fds[1].revents != 0 {
            let Some((control, life, streams)) = receive(&socket)? else { break };
            // SAFETY: one thread, so that the child may run ordinary code.
            let pid = check(unsafe { libc::fork() });
            if matches!(pid, Ok(0)) {
                drop(socket);
                drop(signals);
                let done = launcher::serve(control, life, streams);
                // SAFETY: leaves without running the starter's exit handlers.
                unsafe { libc::_exit(i32::from(done.is_err())) }
            }
            // Where there can be no process, the runner sees its ends close.
            launchers.extend(pid.ok());
        }
    }
    drop(socket);
    // The launchers see that the runner is gone as well, and end what they keep. A runner that lives has
    // another starter by now, and launchers of this one at work.
    let mut gone = None;
    while !launchers.is_empty() {
        // SAFETY: as above.
        if unsafe { libc::getppid() } != runner {
            hurry(&launchers, *gone.get_or_insert_with(crate::clock::now));
        }
        let mut ready = libc::pollfd { fd: signals.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&raw mut ready, 1, if strangers { 20 } else { 200 }) };
        strangers = look_after(ready, &signals, &mut launchers, strangers);
    }
    tree::end_tree();
    Ok(())
}

/// A launcher that somebody stopped goes on; one that does not go is ended, and so is what it kept.
fn hurry(launchers: &BTreeSet<i32>, gone: Instant) {
    let is_late = crate::clock::millis_since(gone) > GOING_MS;
    for pid in launchers {
        // SAFETY: a child of ours that is not reaped yet.
        unsafe { libc::kill(*pid, if is_late { libc::SIGKILL } else { libc::SIGCONT }) };
    }
}

/// How long to wait for news, in milliseconds.
fn patience(strangers: bool) -> libc::c_int {
    if strangers { 20 } else { -1 }
}

/// Reaps what has ended. What a launcher leaves that did not end by itself is ended here; true while
/// there is some of it.
fn look_after(
    ready: libc::pollfd,
    signals: &OwnedFd,
    launchers: &mut BTreeSet<i32>,
    mut strangers: bool,
) -> bool {
    if ready.revents != 0 {
        launcher::drain(signals);
        while let Some((pid, is_clean)) = tree::reap_any() {
            strangers |= launchers.remove(&pid) && !is_clean;
        }
    }
    strangers && tree::end_all_but(launchers)
}

/// The same socket under a number above the standard ones, in whose places is nothing to be reached.
fn moved_up(socket: OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: plain calls on descriptors of this process; the new one is owned from here on.
    unsafe {
        let up = check(libc::fcntl(socket.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3))?;
        let null = check(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC))?;
        check(libc::dup2(null, socket.as_raw_fd()))?;
        libc::close(null);
        // It is /dev/null from here on, and stays open.
        std::mem::forget(socket);
        Ok(OwnedFd::from_raw_fd(up))
    }
}

/// The next launcher's descriptors; `None` where the runner is gone.
fn receive(socket: &OwnedFd) -> io::Result<Option<(UnixStream, OwnedFd, Streams)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8; 1];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(given) = message {
            fds.extend(given);
        }
    }
    let mut fds = fds.into_iter();
    match (fds.next(), fds.next(), fds.next(), fds.next(), fds.next()) {
        (Some(control), Some(stdout), Some(stderr), Some(life), stdin) => {
            Ok(Some((UnixStream::from(control), life, Streams { stdin, stdout, stderr })))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "descriptors are missing")),
    }
}
