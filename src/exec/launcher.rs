//! The launcher: this binary started under a hidden subcommand, one per command.
//!
//! It is small and single-threaded on purpose, so that the work between fork and exec may be ordinary
//! code. It reads one Order from its standard input (a socket), forks, confines the child, executes
//! the command, and stays as the reaper of everything the command started: orphans come back to it
//! (subreaper), and when the command ends, or the runner says so, or the runner is gone (the socket
//! closes), it kills whatever is left before it goes itself.

use super::order::{
    Afterwards, CONTROL_INT, CONTROL_KILL, CONTROL_TERM, Finding, Input, MAX_ORDER, Order,
    ProbeOrder, Report,
};
use super::sandbox;
use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;

/// The hidden subcommand. Not for people: it does nothing without a runner on its standard input.
pub const LAUNCHER_ARG: &str = "__launch";

/// How long the launcher tries to end a tree before it reports what is left (a process that waits
/// inside the kernel for a dead disk cannot be ended by anybody).
const KILL_PATIENCE_MS: u64 = 5_000;

/// How long the order's last program may take.
const AFTERWARDS_MS: u64 = 10_000;

/// Runs the launcher; its return value is the launcher's own exit status.
pub fn launcher_main() -> u8 {
    // SAFETY: standard input is ours alone; the runner gave it as the control socket.
    let socket = unsafe { UnixStream::from_raw_fd(0) };
    match serve(socket) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn serve(mut socket: UnixStream) -> io::Result<()> {
    let order = read_order(&mut socket)?;
    // The command must not inherit the socket: it is the runner's way to us.
    set_cloexec(socket.as_raw_fd())?;
    become_reaper()?;
    if let Some(probe) = &order.probe {
        let findings = run_probe(&order, probe)?;
        return send(&mut socket, &Report::Probed { findings });
    }
    let signals = block_and_watch_children()?;
    let (pid, errors) = match start(&order)? {
        Ok(started) => started,
        Err(report) => return send(&mut socket, &report),
    };
    if let Input::Descriptor(fd) = order.input {
        // Only the command reads it: when it ends, whoever writes is told so.
        // SAFETY: the number was handed over to the launcher and is used nowhere else.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    if let Some(report) = read_start_error(errors)? {
        reap_blocking(pid);
        return send(&mut socket, &report);
    }
    // A send that fails means that the runner is gone; the loop below sees the closed socket.
    let _ = send(&mut socket, &Report::Started { pid });
    let status = watch(&mut socket, &signals, pid)?;
    let (stragglers, left) = end_tree();
    let ended_by_itself = matches!(status, Some((Some(_), _)));
    if let Some(afterwards) =
        order.afterwards.as_ref().filter(|last| last.always || !ended_by_itself)
    {
        run_afterwards(afterwards);
    }
    let (code, signal) = status.unwrap_or((None, Some(libc::SIGKILL)));
    send(&mut socket, &Report::Ended { code, signal, stragglers, left })
}

fn read_order(socket: &mut UnixStream) -> io::Result<Order> {
    let mut length = [0u8; 4];
    socket.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_ORDER {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the order is too large"));
    }
    let mut bytes = vec![0u8; length];
    socket.read_exact(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::from)
}

fn send(socket: &mut UnixStream, report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    socket.write_all(&line)
}

fn set_cloexec(fd: RawFd) -> io::Result<()> {
    // SAFETY: plain fcntl on a descriptor we own.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(target_os = "linux")]
fn become_reaper() -> io::Result<()> {
    // SAFETY: prctl with constant arguments.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// SIGCHLD becomes readable; the signals a terminal or a job runner sends to a whole group are not for
/// the launcher: the runner decides when the tree ends.
fn block_and_watch_children() -> io::Result<OwnedFd> {
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

/// A pair of descriptors that close on exec: (read, write).
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors, which are then owned here.
    unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

type Started = (i32, OwnedFd);

/// Forks and, in the child, confines itself and executes the command. The error pipe closes on exec.
fn start(order: &Order) -> io::Result<Result<Started, Report>> {
    let Some(words) = exec_words(order) else {
        return Ok(Err(Report::ExecFailed {
            errno: libc::EINVAL,
            cause: "a word of the command holds a NUL byte".into(),
        }));
    };
    let (read, write) = pipe()?;
    // SAFETY: the launcher has one thread, so the child may run ordinary code.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        let report = child(order, &words);
        let _ = io::Write::write_all(&mut std::fs::File::from(write), &report);
        // SAFETY: leaves without running the parent's exit handlers.
        unsafe { libc::_exit(127) }
    }
    Ok(Ok((pid, read)))
}

struct ExecWords {
    program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
}

fn exec_words(order: &Order) -> Option<ExecWords> {
    let c = |text: &[u8]| CString::new(text).ok();
    Some(ExecWords {
        program: c(order.program.as_os_str().as_bytes())?,
        argv: order.argv.iter().map(|word| c(word.as_bytes())).collect::<Option<_>>()?,
        env: order
            .env
            .iter()
            .map(|(name, value)| c(format!("{name}={value}").as_bytes()))
            .collect::<Option<_>>()?,
    })
}

/// The child's way to exec. It returns only on failure, with the report to send.
fn child(order: &Order, words: &ExecWords) -> Vec<u8> {
    let report = match prepare_child(order) {
        Ok(()) => {
            let error = execute(words);
            Report::ExecFailed {
                errno: error.raw_os_error().unwrap_or(0),
                cause: error.to_string(),
            }
        }
        Err(report) => report,
    };
    serde_json::to_vec(&report).unwrap_or_default()
}

fn prepare_child(order: &Order) -> Result<(), Report> {
    let failed = |what: &str| {
        let error = io::Error::last_os_error();
        Report::ExecFailed {
            errno: error.raw_os_error().unwrap_or(0),
            cause: format!("{what}: {error}"),
        }
    };
    // SAFETY: a child with one thread; every call takes constants or valid pointers.
    unsafe {
        // Its own session: no controlling terminal, and a process group to signal.
        libc::setsid();
        // Goes with the launcher even where the launcher is killed.
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if let Err(what) = connect_input(order.input) {
            return Err(failed(what));
        }
        reset_signals();
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
    }
    std::env::set_current_dir(&order.cwd).map_err(|error| Report::ExecFailed {
        errno: error.raw_os_error().unwrap_or(0),
        cause: format!("{}: {error}", order.cwd.display()),
    })?;
    #[cfg(target_os = "linux")]
    if !order.unconfined {
        sandbox::apply(&order.confinement).map_err(|error| Report::Refused {
            layer: error.layer.into(),
            errno: error.errno,
            cause: error.cause,
        })?;
    }
    close_everything_else();
    Ok(())
}

/// Puts the command's standard input in place; on failure says what failed.
///
/// # Safety
/// Only between fork and exec, in a session of its own.
unsafe fn connect_input(input: Input) -> Result<(), &'static str> {
    // SAFETY: plain calls on descriptors of this process.
    unsafe {
        match input {
            Input::Nothing => {
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
                if null < 0 || libc::dup2(null, 0) < 0 {
                    return Err("/dev/null");
                }
            }
            Input::Descriptor(fd) => {
                if libc::dup2(fd, 0) < 0 {
                    return Err("standard input");
                }
            }
            Input::Terminal => {
                if libc::ioctl(1, libc::TIOCSCTTY, 0) < 0 || libc::dup2(1, 0) < 0 {
                    return Err("the terminal");
                }
            }
        }
    }
    Ok(())
}

/// Default dispositions and an empty mask: what the launcher ignores or blocks is its own business.
///
/// # Safety
/// Only between fork and exec.
unsafe fn reset_signals() {
    for signal in 1..32 {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            // SAFETY: setting a disposition to default.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    // SAFETY: the set is initialised before use.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Every descriptor but the three standard ones closes on exec (the error pipe among them).
fn close_everything_else() {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: marks descriptors of this process only.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3 as libc::c_uint,
            libc::c_uint::MAX,
            CLOSE_RANGE_CLOEXEC,
        )
    };
    if done != 0 {
        // Kernels before 5.11: one by one.
        for fd in 3..4096 {
            // SAFETY: fcntl on a descriptor that may not exist answers EBADF.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

fn execute(words: &ExecWords) -> io::Error {
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(&words.argv), pointers(&words.env));
    // SAFETY: all pointers live until the call returns, which it does only on failure.
    unsafe { libc::execve(words.program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Waits for the exec: nothing on the pipe means that the command is running.
fn read_start_error(errors: OwnedFd) -> io::Result<Option<Report>> {
    let mut bytes = Vec::new();
    std::fs::File::from(errors).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&bytes)?))
}

type Status = Option<(Option<i32>, Option<i32>)>;

/// Until the command itself has ended, the runner has asked for the end, or the runner is gone.
fn watch(socket: &mut UnixStream, signals: &OwnedFd, pid: i32) -> io::Result<Status> {
    loop {
        if let Some(status) = reap(Some(pid)) {
            return Ok(status);
        }
        let mut fds = [
            libc::pollfd { fd: signals.as_raw_fd(), events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 },
        ];
        // SAFETY: the array is valid for its two entries.
        if unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) } < 0 {
            continue;
        }
        if fds[0].revents != 0 {
            drain(signals);
        }
        if fds[1].revents != 0 {
            match read_control(socket) {
                Some(CONTROL_TERM) => terminate(pid),
                // SAFETY: signals the command's own process group.
                Some(CONTROL_INT) => drop(unsafe { libc::kill(-pid, libc::SIGINT) }),
                Some(CONTROL_KILL) | None => return Ok(None),
                Some(_) => {}
            }
        }
    }
}

fn read_control(socket: &mut UnixStream) -> Option<u8> {
    let mut byte = [0u8; 1];
    match socket.read(&mut byte) {
        Ok(1) => Some(byte[0]),
        _ => None,
    }
}

fn drain(signals: &OwnedFd) {
    let mut buffer = [0u8; 128 * 4];
    // SAFETY: reads into a buffer of the given length.
    unsafe { libc::read(signals.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
}

/// Asks the whole tree to end: its group, and whoever left the group.
fn terminate(pid: i32) {
    // SAFETY: signals the command's own process group.
    unsafe { libc::kill(-pid, libc::SIGTERM) };
    for descendant in descendants() {
        // SAFETY: a process of the tree.
        unsafe { libc::kill(descendant, libc::SIGTERM) };
    }
}

/// Reaps whatever has ended. `Some` once `pid` is among it.
fn reap(pid: Option<i32>) -> Option<Status> {
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

fn reap_blocking(pid: i32) {
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
fn end_tree() -> (u32, u32) {
    let mut killed = std::collections::BTreeSet::new();
    let start = crate::clock::now();
    loop {
        reap(None);
        if !has_children() {
            return (u32::try_from(killed.len()).unwrap_or(u32::MAX), 0);
        }
        let alive = descendants();
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
    end_tree();
}

/// All living descendants, found through the parent of every process.
fn descendants() -> Vec<i32> {
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
        for (pid, _) in parents.iter().filter(|(_, of)| *of == parent) {
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

/// Confines a child as a command would be, and tries what must fail and what must work.
fn run_probe(order: &Order, probe: &ProbeOrder) -> io::Result<Vec<Finding>> {
    let (read, write) = pipe()?;
    // SAFETY: one thread, as above.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        let findings = probe_child(order, probe);
        let bytes = serde_json::to_vec(&findings).unwrap_or_default();
        let _ = io::Write::write_all(&mut std::fs::File::from(write), &bytes);
        // SAFETY: as above.
        unsafe { libc::_exit(0) }
    }
    drop(write);
    let mut bytes = Vec::new();
    std::fs::File::from(read).read_to_end(&mut bytes)?;
    reap_blocking(pid);
    Ok(serde_json::from_slice(&bytes)?)
}

#[cfg(target_os = "linux")]
fn probe_child(order: &Order, probe: &ProbeOrder) -> Vec<Finding> {
    let finding =
        |layer: &str, holds: bool, detail: String| Finding { layer: layer.into(), holds, detail };
    if let Err(error) = sandbox::apply(&order.confinement) {
        let detail = format!("{} (errno {})", error.cause, error.errno);
        return vec![finding(error.layer, false, detail)];
    }
    let abi = sandbox::landlock_abi();
    let files = match (
        sandbox::try_forbidden(&probe.forbidden_file),
        sandbox::try_forbidden(&probe.allowed_file),
    ) {
        (Err(libc::EACCES), Ok(())) => finding("landlock", true, format!("ABI {abi}")),
        (Ok(()), _) => finding("landlock", false, "a write outside the roots went through".into()),
        (Err(errno), Ok(())) => finding(
            "landlock",
            false,
            format!("a write outside the roots failed with errno {errno}"),
        ),
        (_, Err(errno)) => finding(
            "landlock",
            false,
            format!("a write inside the roots failed with errno {errno}"),
        ),
    };
    // SAFETY: asks for a socket and closes it.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
    let network = if socket < 0 {
        finding("seccomp", true, "no socket but Unix ones".into())
    } else {
        finding("seccomp", order.confinement.inet, "internet sockets can be made".into())
    };
    // SAFETY: reads a flag.
    let locked = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == 1;
    let capabilities = effective_capabilities();
    let privileges = finding(
        "no_new_privs and capabilities",
        locked && capabilities == Some(0),
        match capabilities {
            Some(0) => "none can be gained".into(),
            other => format!("no_new_privs {locked}, effective capabilities {other:?}"),
        },
    );
    vec![files, network, privileges]
}

#[cfg(target_os = "linux")]
fn effective_capabilities() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}
