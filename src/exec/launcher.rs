//! The launcher: a process for each command, forked from this binary under a hidden subcommand.
//!
//! It is small and single-threaded until it has forked, so that the work between fork and exec may be
//! ordinary code. It reads a Setting from its socket and becomes the *keeper* of the
//! command to come: it forks a child that confines itself and waits. With the Order the child becomes the
//! command, and the keeper stays as the reaper of everything that the command starts. Orphans come back
//! to it, and when the command ends, or the runner says so, or the runner is gone (the socket closes), it
//! kills whatever is left before it goes itself.
//!
//! The order may come long after the setting, and other commands may have run meanwhile. What was made
//! ready is used only if it is what would be made now; otherwise the launcher says so and goes.
//!
//! With namespaces there are two: the launcher leaves the machine's namespaces, and its child, process
//! 1 of the new ones, is the keeper. The kernel ends everything in there with it.

use super::child::{self, check};
use super::order::{
    Afterwards, CONTROL_INT, CONTROL_KILL, CONTROL_TERM, Order, ProbeOrder, Report, Setting,
};
#[cfg(target_os = "linux")]
use super::sandbox::{self, Confinement};
use super::tree::{self, Status, Watched};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The hidden subcommand. Not for people: it does nothing without a runner on its standard input.
pub const LAUNCHER_ARG: &str = "__launch";

/// How long the order's last program may take.
pub(super) const AFTERWARDS_MS: u64 = 10_000;

/// How often a command with limits is counted.
const LOOK: Duration = Duration::from_millis(100);

/// The ends that the command writes to and reads from.
pub(super) struct Streams {
    pub stdin: Option<OwnedFd>,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// Runs a launcher, in a process that was forked for it. The runner sees `_life` close when it has gone.
pub(super) fn serve(mut socket: UnixStream, _life: OwnedFd, streams: Streams) -> io::Result<()> {
    let Streams { stdin, stdout, stderr } = streams;
    // SAFETY: plain calls on descriptors of this process.
    unsafe {
        libc::setpgid(0, 0);
        check(libc::dup2(stdout.as_raw_fd(), 1))?;
        check(libc::dup2(stderr.as_raw_fd(), 2))?;
    }
    drop((stdout, stderr));
    let Some(setting) = read_frame(&mut socket)? else { return Ok(()) };
    let setting: Setting = serde_json::from_slice(&setting)?;
    let signals = block_and_watch_children()?;
    #[cfg(target_os = "linux")]
    if setting.confinement.enabled && setting.confinement.layers.namespaces {
        return apart(socket, signals, stdin, &setting);
    }
    become_reaper()?;
    keep(socket, &signals, stdin, &setting)
}

/// Keeps the command in namespaces of its own.
#[cfg(target_os = "linux")]
fn apart(
    mut socket: UnixStream,
    signals: OwnedFd,
    stdin: Option<OwnedFd>,
    setting: &Setting,
) -> io::Result<()> {
    if let Err(error) = sandbox::enter(&setting.confinement) {
        return send(&mut socket, &error.into());
    }
    // SAFETY: one thread, so that the child may run ordinary code.
    let keeper = check(unsafe { libc::fork() })?;
    if keeper == 0 {
        let done = match sandbox::arrange(&setting.confinement) {
            Ok(()) => keep(socket, &signals, stdin, setting),
            Err(error) => send(&mut socket, &error.into()),
        };
        // SAFETY: leaves without running the launcher's exit handlers.
        unsafe { libc::_exit(i32::from(done.is_err())) }
    }
    // The keeper alone holds the socket: when it goes, the runner sees it close.
    drop(socket);
    drop(signals);
    drop(stdin);
    close_streams();
    tree::reap_blocking(keeper);
    Ok(())
}

/// Gets a child ready, makes it the command, and stays until nothing of it is left.
fn keep(
    mut socket: UnixStream,
    signals: &OwnedFd,
    stdin: Option<OwnedFd>,
    setting: &Setting,
) -> io::Result<()> {
    let confinement = &setting.confinement;
    #[cfg(target_os = "linux")]
    {
        sandbox::not_dumpable();
        if confinement.enabled {
            // Nothing that follows needs a privilege.
            let _ = sandbox::drop_capabilities();
        }
        if let Some(probe) = &setting.probe {
            let report = run_probe(confinement, probe)?;
            return send(&mut socket, &report);
        }
    }
    let ready = match child::prepare(setting, stdin.as_ref())? {
        Ok(ready) => ready,
        Err(report) => return send(&mut socket, &report),
    };
    drop(stdin);
    close_streams();
    let Some(frame) = read_frame(&mut socket)? else {
        ready.give_up();
        return Ok(());
    };
    let order: Order = serde_json::from_slice(&frame)?;
    if order.looks_again && !ready.stands(setting) {
        ready.give_up();
        return send(&mut socket, &Report::Stale);
    }
    if is_closed(&socket) {
        // It has told of this order already that nothing came of it.
        ready.give_up();
        return Ok(());
    }
    let pid = match ready.become_command(&frame)? {
        Ok(pid) => pid,
        Err(report) => return send(&mut socket, &report),
    };
    // A send that fails means that the runner is gone; the loop below sees the closed socket.
    let _ = send(&mut socket, &Report::Started { pid });
    let (status, exceeded) = watch(&mut socket, signals, pid, &Watched::new(confinement))?;
    let (stragglers, left) = tree::end_tree();
    let ended_by_itself = matches!(status, Some((Some(_), _)));
    if let Some(afterwards) =
        order.afterwards.as_ref().filter(|last| last.always || !ended_by_itself)
    {
        run_afterwards(afterwards);
    }
    let (code, signal) = status.unwrap_or((None, Some(libc::SIGKILL)));
    send(&mut socket, &Report::Ended { code, signal, stragglers, left, exceeded })?;
    // To go takes a while, which would be in the way of whoever waits for this report.
    while read_control(&mut socket).is_some() {}
    Ok(())
}

/// The streams are the command's alone: whoever is at their other ends sees them close with it.
fn close_streams() {
    // SAFETY: plain calls on this process's own descriptors. The numbers stay taken, so that no file
    // that is opened later stands in their place.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null >= 0 {
            libc::dup2(null, 1);
            libc::dup2(null, 2);
            libc::close(null);
        }
    }
}

/// The next frame; `None` where the runner is gone or wants nothing more.
fn read_frame(socket: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0u8; 4];
    match socket.read_exact(&mut length) {
        Ok(()) => child::read_body(socket, length).map(Some),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the runner has let go of us.
fn is_closed(socket: &UnixStream) -> bool {
    let mut state = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut state, 1, 0) > 0 && state.revents & libc::POLLHUP != 0 }
}

fn send(socket: &mut UnixStream, report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    socket.write_all(&line)
}

#[cfg(target_os = "linux")]
pub(super) fn become_reaper() -> io::Result<()> {
    // SAFETY: prctl with constant arguments.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// SIGCHLD becomes readable; the signals a terminal or a job runner sends to a whole group are not for
/// the launcher: the runner decides when the tree ends.
pub(super) fn block_and_watch_children() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before use; all calls take valid pointers.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in
            [libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE]
        {
            libc::sigaddset(&raw mut set, signal);
        }
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
        let mut children: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut children);
        libc::sigaddset(&raw mut children, libc::SIGCHLD);
        let fd = check(libc::signalfd(-1, &raw const children, libc::SFD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Until the command itself has ended, the runner has asked for the end, a limit was exceeded, or the
/// runner is gone.
fn watch(
    socket: &mut UnixStream,
    signals: &OwnedFd,
    pid: i32,
    watched: &Watched,
) -> io::Result<(Status, Option<String>)> {
    let limited = watched.is_limited();
    let mut looked = crate::clock::now();
    loop {
        if let Some(status) = tree::reap(Some(pid)) {
            return Ok((status, None));
        }
        let mut fds = [
            libc::pollfd { fd: signals.as_raw_fd(), events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 },
        ];
        let wait = if limited { remaining(looked) } else { -1 };
        // SAFETY: the array is valid for its two entries.
        if unsafe { libc::poll(fds.as_mut_ptr(), 2, wait) } < 0 {
            continue;
        }
        if limited && remaining(looked) == 0 {
            if let Some(what) = watched.exceeded() {
                return Ok((None, Some(what)));
            }
            looked = crate::clock::now();
        }
        if fds[0].revents != 0 {
            drain(signals);
        }
        if fds[1].revents != 0 {
            match read_control(socket) {
                Some(CONTROL_TERM) => tree::terminate(pid),
                // SAFETY: signals the command's own process group.
                Some(CONTROL_INT) => drop(unsafe { libc::kill(-pid, libc::SIGINT) }),
                Some(CONTROL_KILL) | None => return Ok((None, None)),
                Some(_) => {}
            }
        }
    }
}

/// Milliseconds until the next look.
fn remaining(looked: Instant) -> libc::c_int {
    let passed = crate::clock::now().saturating_duration_since(looked);
    let left = LOOK.saturating_sub(passed);
    // Rounded up: a wait that ends early would only be repeated.
    libc::c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(100)
}

fn read_control(socket: &mut UnixStream) -> Option<u8> {
    let mut byte = [0u8; 1];
    match socket.read(&mut byte) {
        Ok(1) => Some(byte[0]),
        _ => None,
    }
}

pub(super) fn drain(signals: &OwnedFd) {
    let mut buffer = [0u8; 128 * 4];
    // SAFETY: reads into a buffer of the given length.
    unsafe { libc::read(signals.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
}

/// Runs the operator's program with nothing to read and nowhere to write, for as long as the launcher
/// would try to end a tree; a program that takes longer is ended like one.
fn run_afterwards(afterwards: &Afterwards) {
    let spawned = std::process::Command::new(&afterwards.program)
        .args(afterwards.argv.iter().skip(1))
        .env_clear()
        .envs(afterwards.env.iter().map(|(name, value)| (name, value)))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    // A program that is not there leaves nothing more to do: the runner asks the engine itself too.
    let Ok(mut child) = spawned else { return };
    let start = crate::clock::now();
    while let Ok(None) = child.try_wait() {
        if crate::clock::millis_since(start) > AFTERWARDS_MS {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    tree::end_tree();
}

/// Confines a child as a command would be, and tries what must fail and what must work.
#[cfg(target_os = "linux")]
fn run_probe(confinement: &Confinement, probe: &ProbeOrder) -> io::Result<Report> {
    let ready = match sandbox::Ready::new(confinement) {
        Ok(ready) => ready,
        Err(error) => return Ok(error.into()),
    };
    let (read, write) = child::pipe()?;
    let (listener, channel) = UnixStream::pair()?;
    // SAFETY: one thread, so that the child may run ordinary code.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        // As a program is that was executed: the supervisor reads its addresses.
        // SAFETY: prctl with constant arguments.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
        let report = match ready.apply(confinement, &channel) {
            Ok(()) => Report::Probed { findings: sandbox::probe_child(confinement, probe) },
            Err(error) => error.into(),
        };
        let bytes = serde_json::to_vec(&report).unwrap_or_default();
        let _ = io::Write::write_all(&mut std::fs::File::from(write), &bytes);
        // SAFETY: as above.
        unsafe { libc::_exit(0) }
    }
    drop(write);
    drop(channel);
    ready.supervise(&listener, confinement)?;
    let mut bytes = Vec::new();
    std::fs::File::from(read).read_to_end(&mut bytes)?;
    tree::reap_blocking(pid);
    Ok(serde_json::from_slice(&bytes)?)
}
