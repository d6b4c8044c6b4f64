//! The child of a launcher: from fork to exec, confined on the way.

use super::order::{Input, Order, Report};
use super::sandbox;
use std::ffi::CString;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

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

/// A pair of connected sockets that close on exec.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors, which are then owned here.
    unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        check(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// A command on its way to exec.
pub(super) struct Started {
    pub pid: i32,
    /// Closes on exec; what comes out of it instead is why there was none.
    errors: OwnedFd,
    /// Gives the supervisor its listener.
    #[cfg(target_os = "linux")]
    listener: OwnedFd,
}

/// Forks and, in the child, confines itself and executes the command.
pub(super) fn start(order: &Order) -> io::Result<Result<Started, Report>> {
    let Some(words) = exec_words(order) else {
        return Ok(Err(Report::ExecFailed {
            errno: libc::EINVAL,
            cause: "a word of the command holds a NUL byte".into(),
        }));
    };
    let (errors, write) = pipe()?;
    #[cfg(target_os = "linux")]
    let (listener, channel) = pair()?;
    // SAFETY: the launcher has one thread, so the child may run ordinary code.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        #[cfg(target_os = "linux")]
        let confine = || confine(order, &channel);
        #[cfg(not(target_os = "linux"))]
        let confine = || Ok(());
        let report = child(order, &words, confine);
        let _ = io::Write::write_all(&mut std::fs::File::from(write), &report);
        // SAFETY: leaves without running the parent's exit handlers.
        unsafe { libc::_exit(127) }
    }
    #[cfg(target_os = "linux")]
    return Ok(Ok(Started { pid, errors, listener }));
    #[cfg(not(target_os = "linux"))]
    return Ok(Ok(Started { pid, errors }));
}

/// Confines the child, and hands the listener of its filter to the launcher.
#[cfg(target_os = "linux")]
fn confine(order: &Order, channel: &OwnedFd) -> Result<(), Report> {
    if order.unconfined {
        return Ok(());
    }
    let refused = |layer: &str, errno: i32, cause: String| Report::Refused {
        layer: layer.into(),
        errno,
        cause,
    };
    let listener = sandbox::apply(&order.confinement)
        .map_err(|error| refused(error.layer, error.errno, error.cause))?;
    if let Some(listener) = listener {
        sandbox::hand_over(channel.as_raw_fd(), &listener).map_err(|error| {
            refused("seccomp", error.raw_os_error().unwrap_or(0), error.to_string())
        })?;
    }
    Ok(())
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
fn child(
    order: &Order,
    words: &ExecWords,
    confine: impl FnOnce() -> Result<(), Report>,
) -> Vec<u8> {
    let report = match prepare_child(order, confine) {
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

fn prepare_child(
    order: &Order,
    confine: impl FnOnce() -> Result<(), Report>,
) -> Result<(), Report> {
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
    confine()?;
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

impl Started {
    /// Waits for the exec; the supervisor works from here on. `Some` says why nothing runs.
    pub(super) fn wait(self, order: &Order) -> io::Result<(i32, Option<Report>)> {
        #[cfg(target_os = "linux")]
        if let Err(error) = sandbox::Supervisor::start(&self.listener, &order.confinement) {
            // Nobody would ever answer the command's calls.
            return Ok((
                self.pid,
                Some(Report::Refused {
                    layer: "seccomp".into(),
                    errno: error.raw_os_error().unwrap_or(0),
                    cause: format!("the connect supervisor: {error}"),
                }),
            ));
        }
        #[cfg(not(target_os = "linux"))]
        let _ = order;
        let mut bytes = Vec::new();
        std::fs::File::from(self.errors).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok((self.pid, None));
        }
        Ok((self.pid, Some(serde_json::from_slice(&bytes)?)))
    }
}
