//! The child of a launcher: from fork to exec, confined on the way.

use super::order::{Input, MAX_FRAME, Order, Report, Setting};
#[cfg(target_os = "linux")]
use super::sandbox;
use super::tree;
use std::ffi::CString;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long the child may take for each of its steps. It can be stopped by whoever may signal it, and its
/// keeper would not see any more that the runner is gone.
const PATIENCE: Duration = Duration::from_secs(9);
/// The child's last word before the exec, in front of what it says where that fails.
const ABOUT_TO_EXEC: &[u8] = b" ";

pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A pair of descriptors that close on exec: (read, write).
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors, which are then owned here.
    unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// A command on its way to exec: its child is forked and waits for its words.
pub(super) struct Ready {
    pid: i32,
    /// Closes on exec; what comes out of it instead is why there was none.
    errors: OwnedFd,
    /// To the child.
    channel: UnixStream,
    #[cfg(target_os = "linux")]
    sandbox: Option<sandbox::Ready>,
}

/// Forks; the child confines itself, and then waits.
pub(super) fn prepare(
    setting: &Setting,
    stdin: Option<&OwnedFd>,
) -> io::Result<Result<Ready, Report>> {
    #[cfg(target_os = "linux")]
    let sandbox = match (!setting.unconfined).then(|| sandbox::Ready::new(&setting.confinement)) {
        Some(Err(error)) => return Ok(Err(error.into())),
        Some(Ok(ready)) => Some(ready),
        None => None,
    };
    let (errors, write) = pipe()?;
    let (channel, theirs) = UnixStream::pair()?;
    channel.set_read_timeout(Some(PATIENCE))?;
    channel.set_write_timeout(Some(PATIENCE))?;
    // SAFETY: the launcher has one thread, so the child may run ordinary code.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        drop(channel);
        let confine = || {
            #[cfg(target_os = "linux")]
            if let Some(ready) = sandbox {
                ready.apply(&setting.confinement, &theirs)?;
            }
            Ok(())
        };
        let mut errors = std::fs::File::from(write);
        if let Some(report) = child((setting.input, stdin), &theirs, &mut errors, confine) {
            let bytes = serde_json::to_vec(&report).unwrap_or_default();
            let _ = errors.write_all(&bytes);
        }
        // SAFETY: leaves without running the parent's exit handlers.
        unsafe { libc::_exit(127) }
    }
    drop(write);
    drop(theirs);
    let ready = Ready {
        pid,
        errors,
        channel,
        #[cfg(target_os = "linux")]
        sandbox,
    };
    #[cfg(target_os = "linux")]
    if let Some(sandbox) = &ready.sandbox
        && let Err(error) = sandbox.supervise(&ready.channel, &setting.confinement)
    {
        // Nobody would ever answer the command's calls.
        let error = sandbox::LayerError {
            layer: "seccomp",
            errno: error.raw_os_error().unwrap_or(0),
            cause: format!("the connect supervisor: {error}"),
        };
        ready.give_up();
        return Ok(Err(error.into()));
    }
    Ok(Ok(ready))
}

impl Ready {
    /// Whether this is what would be made ready now.
    pub(super) fn stands(&self, setting: &Setting) -> bool {
        #[cfg(target_os = "linux")]
        return self.sandbox.as_ref().is_none_or(|ready| ready.stands(&setting.confinement));
        #[cfg(not(target_os = "linux"))]
        {
            let _ = setting;
            true
        }
    }

    /// Ends the child, which has run nothing.
    pub(super) fn give_up(self) {
        // SAFETY: our own child, not reaped yet.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        tree::reap_blocking(self.pid);
    }

    /// Gives the child its words and waits for the exec: its process id, or why nothing runs.
    pub(super) fn become_command(mut self, frame: &[u8]) -> io::Result<Result<i32, Report>> {
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        // A child that is gone has said why.
        let _ = self
            .channel
            .write_all(&length.to_le_bytes())
            .and_then(|()| self.channel.write_all(frame));
        let (said, closed) = read_within(self.errors)?;
        if closed && said == ABOUT_TO_EXEC {
            return Ok(Ok(self.pid));
        }
        // SAFETY: our own child, not reaped yet.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        if said == ABOUT_TO_EXEC {
            // It may just have begun: it counts as a command that was killed.
            return Ok(Ok(self.pid));
        }
        tree::reap_blocking(self.pid);
        let never = |errno: i32, cause: &str| Report::ExecFailed { errno, cause: cause.into() };
        Ok(Err(match said.as_slice() {
            _ if !closed => never(libc::ETIMEDOUT, "it was stopped before its program ran"),
            [] => never(0, "it was killed before its program ran"),
            said => serde_json::from_slice(said)?,
        }))
    }
}

/// What comes out of a pipe, and whether it was closed before that took too long.
fn read_within(pipe: OwnedFd) -> io::Result<(Vec<u8>, bool)> {
    let start = crate::clock::now();
    let mut pipe = std::fs::File::from(pipe);
    let mut said = Vec::new();
    loop {
        let mut ready = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        match unsafe { libc::poll(&raw mut ready, 1, milliseconds_left(start)) } {
            0 => return Ok((said, false)),
            1 => {}
            _ => continue,
        }
        let mut chunk = [0u8; 4096];
        match pipe.read(&mut chunk)? {
            0 => return Ok((said, true)),
            read => said.extend_from_slice(&chunk[..read]),
        }
    }
}

fn milliseconds_left(start: Instant) -> libc::c_int {
    let passed = crate::clock::now().saturating_duration_since(start);
    libc::c_int::try_from(PATIENCE.saturating_sub(passed).as_millis()).unwrap_or(libc::c_int::MAX)
}

/// The rest of a frame, whose length has been read.
pub(super) fn read_body(from: &mut impl Read, length: [u8; 4]) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the order is too large"));
    }
    let mut bytes = vec![0u8; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
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

/// The child's way to exec. It returns only on failure, with the report to send, or where no order came.
fn child(
    input: (Input, Option<&OwnedFd>),
    mut channel: &UnixStream,
    errors: &mut impl Write,
    confine: impl FnOnce() -> Result<(), Report>,
) -> Option<Report> {
    if let Err(report) = settle(input).and_then(|()| confine()) {
        return Some(report);
    }
    let mut length = [0u8; 4];
    channel.read_exact(&mut length).ok()?;
    let frame = read_body(&mut channel, length);
    let order = match frame.and_then(|frame| Ok(serde_json::from_slice::<Order>(&frame)?)) {
        Ok(order) => order,
        Err(error) => return Some(failed(&"the order", &error)),
    };
    let Some(words) = exec_words(&order) else {
        return Some(Report::ExecFailed {
            errno: libc::EINVAL,
            cause: "a word of the command holds a NUL byte".into(),
        });
    };
    if let Err(error) = std::env::set_current_dir(&order.cwd) {
        return Some(failed(&order.cwd.display(), &error));
    }
    close_everything_else(true);
    if let Err(error) = errors.write_all(ABOUT_TO_EXEC) {
        return Some(failed(&"the launcher", &error));
    }
    let error = execute(&words);
    Some(Report::ExecFailed { errno: error.raw_os_error().unwrap_or(0), cause: error.to_string() })
}

fn failed(what: &dyn Display, error: &io::Error) -> Report {
    Report::ExecFailed {
        errno: error.raw_os_error().unwrap_or(0),
        cause: format!("{what}: {error}"),
    }
}

/// A session, streams and signals of its own.
fn settle((input, stdin): (Input, Option<&OwnedFd>)) -> Result<(), Report> {
    // SAFETY: a child with one thread; every call takes constants or valid pointers.
    unsafe {
        // Its own session: no controlling terminal, and a process group to signal.
        libc::setsid();
        // Goes with the launcher even where the launcher is killed.
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if let Err(what) = connect_input(input, stdin) {
            return Err(failed(&what, &io::Error::last_os_error()));
        }
        reset_signals();
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
    }
    Ok(())
}

/// Puts the command's standard input in place; on failure says what failed.
///
/// # Safety
/// Only between fork and exec, in a session of its own.
unsafe fn connect_input(input: Input, stdin: Option<&OwnedFd>) -> Result<(), &'static str> {
    // SAFETY: plain calls on descriptors of this process.
    unsafe {
        match input {
            Input::Nothing => {
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
                if null < 0 || libc::dup2(null, 0) < 0 {
                    return Err("/dev/null");
                }
            }
            Input::Pipe => {
                if stdin.is_none_or(|stdin| libc::dup2(stdin.as_raw_fd(), 0) < 0) {
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

/// Closes every descriptor but the three standard ones, now or on exec (the error pipe among them).
pub(super) fn close_everything_else(on_exec: bool) {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    let how = if on_exec { CLOSE_RANGE_CLOEXEC } else { 0 };
    // SAFETY: closes or marks descriptors of this process that nobody owns in here.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, how) };
    if done != 0 {
        // Kernels before 5.11: one by one.
        for fd in 3..4096 {
            // SAFETY: as above; one that does not exist answers EBADF.
            unsafe {
                match on_exec {
                    true => libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC),
                    false => libc::close(fd),
                }
            };
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
