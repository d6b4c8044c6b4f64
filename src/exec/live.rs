//! A command at work, attended by a task of its own: its output is read and bounded, its time runs, and
//! whoever holds the [`Live`] may look at it, write to it and end it.
//!
//! A one-shot command is the same thing, waited for at once. Dropping a `Live` ends the command: the
//! task goes, the launcher sees its socket close and kills the tree.

use super::ExecError;
use super::audit::{Audit, Refused};
use super::capture::{Capture, Captured, Stream};
use super::launched::Launched;
use super::log::{LogEnd, LogPipe, OutputLog};
use super::order::{CONTROL_INT, CONTROL_KILL, CONTROL_TERM, Report};
use super::pty::{self, Size};
use super::runner::{Finished, ProcessEnd};
use super::streams::{Input, Output};
use crate::clock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a tree that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_millis(1_500);
/// How long no byte may come before readers stop waiting for the pipes to close once the launcher says
/// that everything has ended, and once it says that something could not be ended and may hold them open
/// for ever.
const READER_GRACE: Duration = Duration::from_secs(1);
const READER_GRACE_LEFT: Duration = Duration::from_millis(200);
/// How long they may take in all: a stranger may hold a pipe and write for ever, a disk may hang.
const READER_LIMIT: Duration = Duration::from_secs(10);
/// The same for a command that a run ends on its own way to the end.
const READER_LIMIT_CANCELLED: Duration = Duration::from_secs(1);
/// How long the launcher itself may take after a kill before we stop listening to it.
const LAUNCHER_GRACE: Duration = Duration::from_secs(6);
/// Input that a command has not read yet; more is refused.
const MAX_UNREAD: usize = 256 * 1024;

/// Why a command could not be written to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("its standard input is closed")]
    Closed,
    #[error("it has not read {0} bytes of earlier input yet")]
    NotReading(usize),
    #[error("it has no terminal")]
    NoTerminal,
    #[error("it has ended")]
    Ended,
}

/// Bounds of a live command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub timeout: Duration,
    pub output: usize,
    /// Bytes of standard output that are kept by themselves.
    pub answer: usize,
}

/// A command at work, or one that has just ended.
pub struct Live {
    shared: Arc<Shared>,
    asks: mpsc::UnboundedSender<Ask>,
    ended: watch::Receiver<bool>,
    task: JoinHandle<()>,
    began: Instant,
    pub has_terminal: bool,
    /// Who tells what was refused to the command, and the id of its first process.
    audit: Option<(Arc<Audit>, i32)>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    capture: Capture,
    limit: usize,
    /// Bytes printed since the start.
    total: u64,
    unread_input: usize,
    input_open: bool,
    end: Option<Result<End, ExecError>>,
    log: Option<LogEnd>,
}

/// The end of a command, without its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub end: ProcessEnd,
    pub duration: Duration,
    /// Processes that outlived the command and were ended.
    pub stragglers: u32,
    /// Processes that could not be ended.
    pub left: u32,
    /// The limit that it was ended for, in words.
    pub exceeded: Option<String>,
    /// Something still held its output open when the reading ended: its end may be missing.
    pub unread: bool,
}

/// What is said of an output whose end may be missing.
pub const UNREAD: &str =
    "the output may lack its end: something outside the command still holds it open";

enum Ask {
    Write(Vec<u8>),
    EndOfInput,
    Interrupt,
    Resize(Size),
    End,
}

impl Live {
    pub(super) fn attend(
        launched: Launched,
        bounds: Bounds,
        log: Option<Box<dyn OutputLog>>,
    ) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                capture: Capture::with_answer(bounds.output, bounds.answer),
                limit: bounds.output,
                total: 0,
                unread_input: 0,
                input_open: launched.input.is_some(),
                end: None,
                log: None,
            }),
        });
        let (asks, inbox) = mpsc::unbounded_channel();
        let (tell_end, ended) = watch::channel(false);
        let has_terminal = launched.input.as_ref().is_some_and(|input| input.is_terminal);
        let began = clock::now();
        let mut attendant = Attendant {
            launched,
            shared: shared.clone(),
            inbox,
            pending: Vec::new(),
            close_when_written: false,
            early: None,
            killed: false,
            log: log.map(LogPipe::new),
        };
        let task = tokio::spawn(async move {
            attendant.run(bounds.timeout, began).await;
            tell_end.send_replace(true);
            // Nothing of the command is left; the launcher itself takes a while to go, with the
            // namespaces that it was in, and goes when it is let go.
            let Launched { mut gone, control, .. } = attendant.launched;
            drop(control);
            let _ = tokio::time::timeout(LAUNCHER_GRACE, gone.wait()).await;
        });
        Self { shared, asks, ended, task, began, has_terminal, audit: None }
    }

    pub(super) fn audited(mut self, audit: Option<Arc<Audit>>, process: i32) -> Self {
        self.audit = audit.map(|audit| (audit, process));
        self
    }

    /// What Landlock says that it refused since the last call; nothing where it is not heard.
    pub fn refused(&self) -> Vec<Refused> {
        self.audit.as_ref().map_or_else(Vec::new, |(audit, process)| audit.of(*process))
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    /// Returns once the command and all it started have ended.
    pub async fn ended(&self) {
        self.when_ended().await;
    }

    /// The same for somebody who does not hold on to the command.
    pub(super) fn when_ended(&self) -> impl Future<Output = ()> + use<> {
        let mut ended = self.ended.clone();
        async move {
            // The sender going without a word means that the task was torn down: over as well.
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    /// How it ended, where it has.
    pub fn end(&self) -> Option<Result<End, ExecError>> {
        let state = self.state();
        match &state.end {
            None if self.task.is_finished() => {
                Some(Err(ExecError::Launcher("nobody attended to the command any more".into())))
            }
            end => end.clone(),
        }
    }

    /// What became of its log, once it has ended; nothing where none is kept.
    pub fn log(&self) -> Option<LogEnd> {
        self.state().log.clone()
    }

    /// What was printed since the last look. A character that has come in part stays for the next.
    pub fn take_output(&self) -> Captured {
        let mut state = self.state();
        let limit = state.limit;
        let over = state.end.is_some();
        state.capture.take(limit, over)
    }

    /// Bytes printed since the start.
    pub fn total(&self) -> u64 {
        self.state().total
    }

    /// Puts bytes where the command reads them.
    pub fn write(&self, bytes: &[u8]) -> Result<(), InputError> {
        let mut state = self.state();
        match &*state {
            State { end: Some(_), .. } => return Err(InputError::Ended),
            State { input_open: false, .. } => return Err(InputError::Closed),
            State { unread_input, .. } if unread_input + bytes.len() > MAX_UNREAD => {
                return Err(InputError::NotReading(*unread_input));
            }
            _ => state.unread_input += bytes.len(),
        }
        drop(state);
        self.ask(Ask::Write(bytes.to_vec()))
    }

    /// All that a command is to read, however much it is, and nothing after it. One that does not read
    /// it to the end may do so.
    pub(super) fn feed(&self, bytes: Vec<u8>) -> Result<(), InputError> {
        self.ask(Ask::Write(bytes))?;
        self.ask(Ask::EndOfInput)
    }

    /// Says that no more input comes: closes a pipe, types Ctrl-D on a terminal.
    pub fn end_input(&self) -> Result<(), InputError> {
        if !self.state().input_open {
            return Err(InputError::Closed);
        }
        self.ask(Ask::EndOfInput)
    }

    /// Ctrl-C: typed on a terminal, else SIGINT to the command's process group.
    pub fn interrupt(&self) -> Result<(), InputError> {
        self.ask(Ask::Interrupt)
    }

    pub fn resize(&self, size: Size) -> Result<(), InputError> {
        if !self.has_terminal {
            return Err(InputError::NoTerminal);
        }
        self.ask(Ask::Resize(size))
    }

    /// Asks it to end, kills it after a grace, and returns once nothing of it is left.
    pub async fn end_now(&self) {
        let _ = self.ask(Ask::End);
        self.ended().await;
    }

    /// Waits for the end; a cancel ends it. Gives everything printed since the last look.
    pub(super) async fn finished(self, cancel: &CancellationToken) -> Result<Finished, ExecError> {
        tokio::select! {
            () = self.ended() => {}
            () = cancel.cancelled() => self.end_now().await,
        }
        let end = self.end().unwrap_or_else(|| Err(ExecError::Launcher("no end".into())))?;
        Ok(Finished::new(end, self.take_output(), self.log()))
    }

    fn ask(&self, ask: Ask) -> Result<(), InputError> {
        self.asks.send(ask).map_err(|_| InputError::Ended)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn took(&self, stream: Stream, chunk: &[u8], log: &mut Option<LogPipe>) {
        let mut state = self.state();
        state.total += chunk.len() as u64;
        state.capture.push(stream, chunk);
        if let Some(log) = log {
            log.put(chunk);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task behind a [`Live`].
struct Attendant {
    launched: Launched,
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedReceiver<Ask>,
    /// Input that is still to be written.
    pending: Vec<u8>,
    close_when_written: bool,
    /// Why the command is being ended, if not by itself.
    early: Option<ProcessEnd>,
    killed: bool,
    /// Where the whole output is kept, if it is.
    log: Option<LogPipe>,
}

/// What the attendant woke up for.
enum Wake {
    Report(Option<Report>),
    /// A chunk was taken, or a stream came to its end.
    Output,
    Written(std::io::Result<usize>),
    /// The log has room again.
    Logged,
    Ask(Option<Ask>),
    Deadline,
}

impl Attendant {
    async fn run(&mut self, timeout: Duration, began: Instant) {
        let ended = self.until_the_end(timeout).await;
        let left = matches!(ended, Some(Report::Ended { left: 0, .. }));
        let quiet = if left { READER_GRACE } else { READER_GRACE_LEFT };
        let limit = match self.early {
            Some(ProcessEnd::Cancelled) => READER_LIMIT_CANCELLED,
            _ => READER_LIMIT,
        };
        let unread = !self.drain(quiet, limit).await;
        if ended.is_none() {
            // It gave no report: what it kept is ended for certain only when it is gone.
            let _ = tokio::time::timeout(LAUNCHER_GRACE, self.launched.gone.wait()).await;
        }
        let end = self.verdict(ended, clock::now().saturating_duration_since(began), unread);
        let log = match self.log.take() {
            Some(log) => Some(log.end().await),
            None => None,
        };
        let mut state = self.shared.state();
        state.end = Some(end);
        state.log = log;
        state.input_open = false;
        state.unread_input = 0;
    }

    /// Attends until the launcher has reported the end, or does not answer any more.
    async fn until_the_end(&mut self, timeout: Duration) -> Option<Report> {
        let deadline = tokio::time::sleep(timeout);
        tokio::pin!(deadline);
        loop {
            let wake = {
                let Launched { reports, output, input, .. } = &mut self.launched;
                let open = output.is_open();
                let log = &mut self.log;
                let behind = log.as_ref().is_some_and(LogPipe::is_behind);
                tokio::select! {
                    report = reports.next() => Wake::Report(report),
                    chunk = output.next(), if open && !behind => {
                        if let Some((stream, chunk)) = chunk {
                            self.shared.took(stream, chunk, log);
                        }
                        Wake::Output
                    }
                    () = catch_up(log), if behind => Wake::Logged,
                    written = write(input, &self.pending), if !self.pending.is_empty() => {
                        Wake::Written(written)
                    }
                    ask = self.inbox.recv() => Wake::Ask(ask),
                    () = &mut deadline => Wake::Deadline,
                }
            };
            match wake {
                Wake::Report(report) => return report,
                Wake::Output | Wake::Logged => {}
                Wake::Written(written) => self.written(written),
                Wake::Ask(Some(Ask::End)) => {
                    if self.end_early(ProcessEnd::Cancelled).await {
                        deadline.as_mut().reset((clock::now() + GRACE).into());
                    }
                }
                Wake::Ask(Some(ask)) => self.take(ask).await,
                // Nobody holds the command any more.
                Wake::Ask(None) => return None,
                Wake::Deadline if self.early.is_none() => {
                    self.end_early(ProcessEnd::TimedOut).await;
                    deadline.as_mut().reset((clock::now() + GRACE).into());
                }
                // The launcher does not answer: closing the socket is all that is left.
                Wake::Deadline if self.killed => return None,
                Wake::Deadline => {
                    self.killed = true;
                    self.launched.control.tell(CONTROL_KILL).await;
                    deadline.as_mut().reset((clock::now() + LAUNCHER_GRACE).into());
                }
            }
        }
    }

    /// Asks the tree to end; false where that was done already.
    async fn end_early(&mut self, why: ProcessEnd) -> bool {
        if self.early.is_some() {
            return false;
        }
        self.early = Some(why);
        // Servers that read until the end of their input end by this alone.
        self.close_input();
        self.launched.control.tell(CONTROL_TERM).await;
        true
    }

    async fn take(&mut self, ask: Ask) {
        let terminal = self.launched.input.as_ref().is_some_and(|input| input.is_terminal);
        match ask {
            Ask::Write(bytes) => self.pending.extend_from_slice(&bytes),
            Ask::EndOfInput if terminal => self.pending.push(pty::END_OF_INPUT),
            Ask::EndOfInput if self.pending.is_empty() => self.close_input(),
            Ask::EndOfInput => self.close_when_written = true,
            Ask::Interrupt if terminal => {
                // As at a keyboard: what was typed and not read yet is gone.
                self.pending.clear();
                self.pending.push(pty::INTERRUPT);
            }
            Ask::Interrupt => self.launched.control.tell(CONTROL_INT).await,
            Ask::Resize(size) => {
                if let Some(input) = &self.launched.input {
                    // A terminal that is gone has no size to change.
                    let _ = pty::resize(input.descriptor(), size);
                }
            }
            Ask::End => {}
        }
    }

    fn written(&mut self, written: std::io::Result<usize>) {
        match written {
            Ok(written) => {
                self.pending.drain(..written.min(self.pending.len()));
            }
            // Nobody reads: a closed pipe, a terminal without its other side.
            Err(_) => self.close_input(),
        }
        let mut state = self.shared.state();
        state.unread_input = self.pending.len();
        drop(state);
        if self.pending.is_empty() && self.close_when_written {
            self.close_input();
        }
    }

    /// A terminal stays: its master side also carries the output.
    fn close_input(&mut self) {
        self.pending.clear();
        self.launched.input = None;
        self.shared.state().input_open = false;
    }

    /// Reads what is still in the pipes, until they close; false where that was given up.
    async fn drain(&mut self, quiet: Duration, limit: Duration) -> bool {
        let Self { launched, shared, log, inbox, .. } = self;
        drain(&mut launched.output, shared, log, inbox, quiet, limit).await
    }

    fn verdict(
        &self,
        ended: Option<Report>,
        duration: Duration,
        unread: bool,
    ) -> Result<End, ExecError> {
        let (own, stragglers, left, exceeded) = match ended {
            Some(Report::Ended { code: Some(code), stragglers, left, exceeded, .. }) => {
                (ProcessEnd::Exited(code), stragglers, left, exceeded)
            }
            Some(Report::Ended { signal, stragglers, left, exceeded, .. }) => {
                let signal = signal.unwrap_or(libc::SIGKILL);
                (ProcessEnd::Signaled(signal), stragglers, left, exceeded)
            }
            _ if self.early.is_some() => (ProcessEnd::Signaled(libc::SIGKILL), 0, 1, None),
            _ => return Err(ExecError::Launcher("it ended without a report".into())),
        };
        let end = self.early.unwrap_or(own);
        Ok(End { end, duration, stragglers, left, exceeded, unread })
    }
}

async fn drain(
    output: &mut Output,
    shared: &Shared,
    log: &mut Option<LogPipe>,
    inbox: &mut mpsc::UnboundedReceiver<Ask>,
    quiet: Duration,
    limit: Duration,
) -> bool {
    let over = tokio::time::sleep(limit);
    tokio::pin!(over);
    let mut is_held = true;
    // Time that passed says nothing where nobody looked meanwhile: there is one more look after it.
    let mut last_look = false;
    while output.is_open() {
        let behind = log.as_ref().is_some_and(LogPipe::is_behind);
        let wait = if last_look { Duration::ZERO } else { quiet };
        tokio::select! {
            biased;
            () = &mut over => return false,
            ask = inbox.recv(), if is_held => {
                is_held = ask.is_some();
                if matches!(ask, None | Some(Ask::End)) {
                    over.set(tokio::time::sleep(limit.min(READER_LIMIT_CANCELLED)));
                }
            }
            chunk = output.next(), if !behind => {
                last_look = false;
                if let Some((stream, chunk)) = chunk {
                    shared.took(stream, chunk, log);
                }
            }
            // The time that the disk takes is not the pipe's.
            () = catch_up(log), if behind => {}
            () = tokio::time::sleep(wait), if !behind => {
                if last_look {
                    return false;
                }
                last_look = true;
                tokio::task::yield_now().await;
            }
        }
    }
    true
}

async fn write(input: &Option<Input>, bytes: &[u8]) -> std::io::Result<usize> {
    match input {
        Some(input) => input.write(bytes).await,
        None => Err(std::io::ErrorKind::BrokenPipe.into()),
    }
}

async fn catch_up(log: &mut Option<LogPipe>) {
    if let Some(log) = log {
        log.catch_up().await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::streams;
    use super::*;
    use std::io::Write;
    use std::os::fd::OwnedFd;

    const LONG: Duration = Duration::from_secs(3600);

    /// A command's output that is read to its end, and how.
    struct Reading {
        output: Output,
        shared: Shared,
        asks: mpsc::UnboundedSender<Ask>,
        inbox: mpsc::UnboundedReceiver<Ask>,
    }

    impl Reading {
        fn new() -> (Self, OwnedFd) {
            let (out, stdout) = streams::output_pipe().unwrap();
            let (err, _) = streams::pipe().unwrap();
            let state = State {
                capture: Capture::new(4096),
                limit: 4096,
                total: 0,
                unread_input: 0,
                input_open: false,
                end: None,
                log: None,
            };
            let (asks, inbox) = mpsc::unbounded_channel();
            let shared = Shared { state: Mutex::new(state) };
            let output = Output::pipes(out, err).unwrap();
            (Self { output, shared, asks, inbox }, stdout)
        }

        /// Whether it was read to its end, and the bytes read.
        async fn drain(&mut self, quiet: Duration, limit: Duration) -> (bool, u64) {
            let Self { output, shared, inbox, .. } = self;
            let whole = drain(output, shared, &mut None, inbox, quiet, limit).await;
            (whole, self.shared.state().total)
        }
    }

    /// Somebody who writes for as long as anybody reads.
    fn stranger(stdout: OwnedFd) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let mut pipe = std::fs::File::from(stdout);
            while pipe.write_all(&[b'x'; 4096]).is_ok() {}
        })
    }

    #[tokio::test]
    async fn what_is_in_the_pipe_is_read_though_no_time_is_left() {
        let (mut reading, stdout) = Reading::new();
        let length = rustix::pipe::fcntl_getpipe_size(&stdout).unwrap();
        std::fs::File::from(stdout).write_all(&vec![b'x'; length]).unwrap();
        assert_eq!(reading.drain(Duration::ZERO, LONG).await, (true, length as u64));
    }

    #[tokio::test]
    async fn a_pipe_that_stays_open_is_given_up_and_what_came_is_kept() {
        let (mut reading, stdout) = Reading::new();
        let mut held = std::fs::File::from(stdout);
        held.write_all(b"begun").unwrap();
        assert_eq!(reading.drain(Duration::from_millis(10), LONG).await, (false, 5));
    }

    #[tokio::test]
    async fn who_writes_for_ever_is_not_listened_to_for_ever() {
        let (mut reading, stdout) = Reading::new();
        let writer = stranger(stdout);
        let (whole, _) = reading.drain(LONG, Duration::from_millis(50)).await;
        assert!(!whole);
        // Nor is one that does not write once the run ends.
        reading.asks.send(Ask::End).unwrap();
        let (whole, _) = reading.drain(LONG, LONG).await;
        assert!(!whole);
        drop(reading);
        writer.join().unwrap();
    }
}
