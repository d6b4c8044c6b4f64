//! Signals: the first one ends the run in order, the second one the process at once.
//!
//! They are heard from the first moment on, by a thread of its own: the runtime may be busy with a
//! long look at a tree, or wait for a disk, and a signal must not wait for it. Long work before the
//! run begins gives up when it sees a flag; and what does not end by itself then is ended by the
//! thread, with what there is to be said of a run that did not begin.

use super::exit;
use crate::clock;
use crate::job::{Artifacts, interrupted};
use crate::protocol::Signal;
use crate::report::ResultRecord;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// Some senders of a signal send it twice at once: to the process, and to the group it is in. It counts
/// when the signals came, not when the thread had its turn.
const SAME: Duration = Duration::from_millis(50);

const HEARD: [(libc::c_int, Signal); 3] =
    [(libc::SIGHUP, Signal::Hup), (libc::SIGINT, Signal::Int), (libc::SIGTERM, Signal::Term)];

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It is found out what is to be done; nothing was made yet.
    Starting,
    /// Its folders are made, its tree is copied or looked at.
    Preparing,
    /// It ends itself, in order.
    Begun,
}

impl Phase {
    /// How long a run may take to end by itself.
    fn patience(self) -> Option<Duration> {
        match self {
            Self::Starting => Some(Duration::from_millis(300)),
            Self::Preparing => Some(Duration::from_millis(3500)),
            Self::Begun => None,
        }
    }
}

struct State {
    phase: Phase,
    /// With the time it came at, by [`clock::monotonic`].
    first: Option<(Signal, Duration)>,
    listeners: Vec<mpsc::Sender<Signal>>,
    artifacts: Option<Arc<Artifacts>>,
}

static STATE: Mutex<State> = Mutex::new(State {
    phase: Phase::Starting,
    first: None,
    listeners: Vec::new(),
    artifacts: None,
});
static ARRIVED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Where the handler tells the thread.
static PIPE: AtomicI32 = AtomicI32::new(-1);
/// The last signal that the handler was called for, 0 before the first.
static CAME: AtomicI32 = AtomicI32::new(0);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What signals did before they were heard; a program may be started so that it ignores some.
pub struct Before(Vec<(libc::c_int, libc::sigaction)>);

/// From here on signals are heard. To be called once, before anything else.
pub fn hear() -> io::Result<Before> {
    let (reader, writer) = pipe()?;
    LazyLock::force(&ARRIVED);
    // Never closed: the handler may run until the very end.
    PIPE.store(writer.into_raw_fd(), Ordering::Relaxed);
    std::thread::Builder::new().name("signals".into()).spawn(move || listen(File::from(reader)))?;
    let mut before = Before(Vec::new());
    for (number, _) in HEARD {
        // SAFETY: all zeros is a valid sigaction, and the handler does only what a handler may.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        before.0.push((number, exchange(number, &action)?));
    }
    Ok(before)
}

/// For commands that are no run: a signal does what it does to any program.
pub fn stand_back(before: &Before) -> io::Result<()> {
    for (number, action) in &before.0 {
        exchange(*number, action)?;
    }
    // Of one that came before, the thread may not have heard yet.
    match named(CAME.load(Ordering::Relaxed)) {
        Some(signal) => end(signal),
        None => Ok(()),
    }
}

/// The folder that is told of a run that never began.
pub fn claimed(artifacts: &Arc<Artifacts>) {
    state().artifacts = Some(artifacts.clone());
}

/// The run is being made ready; the signal for whoever makes it so.
pub fn preparing() -> mpsc::Receiver<Signal> {
    state().phase = Phase::Preparing;
    arriving()
}

/// Set once a signal has arrived, after it was sent: for work that cannot wait for a message.
pub fn arrived() -> Arc<AtomicBool> {
    ARRIVED.clone()
}

/// From here on the run ends itself.
pub fn begun() {
    state().phase = Phase::Begun;
}

/// The first signal, also where it has come already.
pub fn arriving() -> mpsc::Receiver<Signal> {
    let (sender, receiver) = mpsc::channel(1);
    let mut state = state();
    match state.first {
        // There is room for one.
        Some((signal, _)) => drop(sender.try_send(signal)),
        None => state.listeners.push(sender),
    }
    receiver
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are nobody else's.
    let (reader, writer) = unsafe {
        if libc::pipe(ends.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    for end in [&reader, &writer] {
        rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
    }
    rustix::io::ioctl_fionbio(&writer, true)?;
    Ok((reader, writer))
}

/// Sets what a signal does, and says what it did.
fn exchange(number: libc::c_int, to: &libc::sigaction) -> io::Result<libc::sigaction> {
    // SAFETY: both are whole, and the second is there to be written to.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        match libc::sigaction(number, to, &raw mut before) {
            0 => Ok(before),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn named(number: libc::c_int) -> Option<Signal> {
    HEARD.iter().find(|(heard, _)| *heard == number).map(|(_, signal)| *signal)
}

/// What the handler tells the thread, in one write that a pipe takes whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    number: libc::c_int,
    at: Duration,
}

impl Message {
    const LENGTH: usize = 16;

    fn bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&self.number.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.at.subsec_nanos().to_ne_bytes());
        bytes[8..].copy_from_slice(&self.at.as_secs().to_ne_bytes());
        bytes
    }

    fn read(from: &mut impl Read) -> io::Result<Self> {
        let (mut number, mut nanos, mut secs) = ([0; 4], [0; 4], [0; 8]);
        for part in [&mut number[..], &mut nanos, &mut secs] {
            from.read_exact(part)?;
        }
        let at = Duration::new(u64::from_ne_bytes(secs), u32::from_ne_bytes(nanos));
        Ok(Self { number: libc::c_int::from_ne_bytes(number), at })
    }
}

extern "C" fn handler(number: libc::c_int) {
    CAME.store(number, Ordering::Relaxed);
    let message = Message { number, at: clock::monotonic() }.bytes();
    // SAFETY: write may be called in a handler; errno is what it was afterwards.
    unsafe {
        #[cfg(target_os = "linux")]
        let errno = libc::__errno_location();
        #[cfg(not(target_os = "linux"))]
        let errno = libc::__error();
        let before = *errno;
        libc::write(PIPE.load(Ordering::Relaxed), message.as_ptr().cast(), message.len());
        *errno = before;
    }
}

/// The thread.
fn listen(mut pipe: File) {
    loop {
        if waits(&pipe, time_left()) {
            let Ok(Message { number, at }) = Message::read(&mut pipe) else { return };
            if let Some(signal) = named(number) {
                take(signal, at);
            }
        } else if time_left() == Some(Duration::ZERO) {
            last_resort();
        }
    }
}

/// Whether there is something to read within this time.
fn waits(pipe: &File, limit: Option<Duration>) -> bool {
    let limit = limit.map_or(-1, |limit| i32::try_from(limit.as_millis() + 1).unwrap_or(i32::MAX));
    let mut poll = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, as said.
    unsafe { libc::poll(&raw mut poll, 1, limit) > 0 }
}

/// What is left to a run that has heard a signal and did not begin.
fn time_left() -> Option<Duration> {
    let state = state();
    let (_, at) = state.first?;
    Some(state.phase.patience()?.saturating_sub(clock::monotonic().saturating_sub(at)))
}

fn take(signal: Signal, at: Duration) {
    let mut state = state();
    match state.first {
        Some((_, first)) if is_another(first, at) => end(signal),
        Some(_) => {}
        None => {
            state.first = Some((signal, at));
            for listener in state.listeners.drain(..) {
                // Whoever does not listen any more has ended.
                let _ = listener.try_send(signal);
            }
            ARRIVED.store(true, Ordering::Release);
        }
    }
}

/// Handlers interrupt each other: the later signal may be the first that was told.
fn is_another(first: Duration, at: Duration) -> bool {
    first.abs_diff(at) >= SAME
}

/// Whatever holds up a run that is no run yet, it has held it up for long enough.
fn last_resort() {
    let state = state();
    let Some((signal, _)) = state.first.filter(|_| state.phase != Phase::Begun) else { return };
    let outcome = interrupted(signal);
    let now = clock::stamp();
    let mut record = ResultRecord::running("", "", &now);
    record.end(&outcome, &now, 0, exit::status);
    if let Some(artifacts) = &state.artifacts {
        record.artifacts.directory = artifacts.path().display().to_string();
        let bytes = serde_json::to_vec_pretty(&record).unwrap_or_default();
        // The exit status stands.
        let _ = artifacts.put("result.json", &bytes);
    }
    let text = format!("turnkey: {}: {}\n", outcome.state, outcome.message);
    let say = move || io::stderr().write_all(text.as_bytes());
    let _ = std::thread::Builder::new().spawn(say);
    // A reader that is gone or stuck holds up nothing.
    std::thread::sleep(Duration::from_millis(100));
    end(signal);
}

/// At once. Launchers see their sockets close and kill what is left.
fn end(signal: Signal) -> ! {
    std::process::exit(i32::from(exit::status(crate::protocol::State::Interrupted(signal))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_is_told_when_a_signal_came() {
        let (reader, writer) = pipe().unwrap();
        let (first, second) = (Duration::new(7, 999_999_999), Duration::new(8, 60_000_000));
        for at in [first, second] {
            let bytes = Message { number: libc::SIGTERM, at }.bytes();
            File::from(writer.try_clone().unwrap()).write_all(&bytes).unwrap();
        }
        let mut reader = File::from(reader);
        // Both are read at the same moment, and are two signals all the same.
        for at in [first, second] {
            let told = Message::read(&mut reader).unwrap();
            assert_eq!(told, Message { number: libc::SIGTERM, at });
        }
        assert!(is_another(first, second));
        assert!(!is_another(first, first + Duration::from_millis(49)));
        assert!(!is_another(first, first - Duration::from_millis(1)));
    }
}
