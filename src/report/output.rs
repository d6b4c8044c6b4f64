//! stdout and stderr, each behind a thread and a bounded queue.
//!
//! The runtime has one thread; a write to a pipe that nobody reads would stop it, signals and all.
//! Here a stalled reader slows only whoever waits for a place in the queue, until
//! [`Output::stop_waiting`] is called at the end: from then on what finds no place is dropped and
//! counted. A stream that fails (closed pipe, full disk) ends alone.

use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Lines on their way to a thread.
const QUEUE: usize = 32;

/// How long one stream may wait for the other, so that on a terminal, or in a log that has both, lines
/// stand in the order they were said.
const SETTLE: Duration = Duration::from_millis(500);

/// Lines that are waiting are written together, up to this many bytes.
const BATCH: usize = 64 << 10;

enum Message {
    Bytes(Vec<u8>),
    /// Answered once everything before it is written.
    Settle(oneshot::Sender<()>),
    Close(oneshot::Sender<()>),
}

/// Both streams; cheap to clone.
#[derive(Clone)]
pub struct Output {
    stdout: Stream,
    stderr: Stream,
    hurry: CancellationToken,
    /// stderr has been told that stdout failed.
    told: Arc<AtomicBool>,
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEnd {
    /// Everything was written.
    Whole,
    /// It could not be written any more; why.
    Failed(String),
    /// Its reader was too slow; so many lines were given up, besides what was still queued.
    Stalled { dropped: u64 },
}

/// How both streams ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub stdout: StreamEnd,
    pub stderr: StreamEnd,
}

impl Output {
    /// The streams of this process.
    pub fn process() -> Self {
        Self::new(Descriptor(io::stdout()), Descriptor(io::stderr()))
    }

    /// Any two streams.
    pub fn new(stdout: impl Write + Send + 'static, stderr: impl Write + Send + 'static) -> Self {
        Self {
            stdout: Stream::start("stdout", stdout),
            stderr: Stream::start("stderr", stderr),
            hurry: CancellationToken::new(),
            told: Arc::new(AtomicBool::new(false)),
        }
    }

    /// One line on stdout; waits for a place in the queue.
    pub async fn stdout(&self, line: impl Into<String>) {
        self.stdout.send(terminated(line.into()), &self.hurry).await;
    }

    /// One line on stderr; waits for a place in the queue.
    pub async fn stderr(&self, line: impl Into<String>) {
        self.stderr_bytes(terminated(line.into())).await;
    }

    /// Bytes for the terminal on stderr.
    pub(super) async fn stderr_bytes(&self, bytes: Vec<u8>) {
        self.tell_stdout_failure().await;
        self.stderr.send(bytes, &self.hurry).await;
    }

    /// Once, with whatever is said next on stderr.
    async fn tell_stdout_failure(&self) {
        if let Some(error) = self.stdout_failure()
            && !self.told.swap(true, Ordering::Relaxed)
        {
            let note = format!("turnkey: stdout can no longer be written ({error}); going on\n");
            self.stderr.send(note.into_bytes(), &self.hurry).await;
        }
    }

    /// Bytes for the terminal on stderr, given up if there is no place: a frame of a spinner.
    pub(super) fn try_stderr_bytes(&self, bytes: Vec<u8>) {
        if !self.stderr.is_dead() {
            let _ = self.stderr.queue.try_send(Message::Bytes(bytes));
        }
    }

    /// Why stdout cannot be written any more, if so.
    pub fn stdout_failure(&self) -> Option<&str> {
        self.stdout.dead.get().map(String::as_str)
    }

    /// Why stderr cannot be written any more, if so.
    pub fn stderr_failure(&self) -> Option<&str> {
        self.stderr.dead.get().map(String::as_str)
    }

    /// From now on nothing waits for a slow reader: for the end of a run that was told to end.
    pub fn stop_waiting(&self) {
        self.hurry.cancel();
    }

    /// Waits until everything said so far is written, for a moment at most.
    pub async fn settle(&self) {
        let both = async { tokio::join!(self.stdout.settle(), self.stderr.settle()) };
        let _ = tokio::time::timeout(SETTLE, both).await;
    }

    /// Waits until everything is written, but not longer than `deadline`.
    pub async fn finish(&self, deadline: Duration) -> Finished {
        // A stalled stdout must not cost stderr its last lines, so it gets half of the time.
        let _ = tokio::time::timeout(deadline / 2, self.stdout.close()).await;
        let rest = async {
            self.tell_stdout_failure().await;
            self.stderr.close().await;
        };
        let _ = tokio::time::timeout(deadline / 2, rest).await;
        self.hurry.cancel();
        Finished { stdout: self.stdout.end(), stderr: self.stderr.end() }
    }
}

fn terminated(mut line: String) -> Vec<u8> {
    line.push('\n');
    line.into_bytes()
}

#[derive(Clone)]
struct Stream {
    queue: mpsc::Sender<Message>,
    dead: Arc<OnceLock<String>>,
    dropped: Arc<AtomicU64>,
    closed: Arc<OnceLock<()>>,
}

impl Stream {
    fn start(name: &'static str, target: impl Write + Send + 'static) -> Self {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let stream = Self {
            queue,
            dead: Arc::new(OnceLock::new()),
            dropped: Arc::new(AtomicU64::new(0)),
            closed: Arc::new(OnceLock::new()),
        };
        let dead = Arc::clone(&stream.dead);
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            run(target, receiver, |error| {
                let _ = dead.set(error.to_string());
            });
        });
        if let Err(error) = spawned {
            let _ = stream.dead.set(error.to_string());
        }
        stream
    }

    fn is_dead(&self) -> bool {
        self.dead.get().is_some()
    }

    async fn send(&self, bytes: Vec<u8>, hurry: &CancellationToken) {
        if self.is_dead() {
            return;
        }
        let place = tokio::select! {
            biased;
            place = self.queue.reserve() => place.ok(),
            () = hurry.cancelled() => None,
        };
        match place {
            Some(place) => place.send(Message::Bytes(bytes)),
            None => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn settle(&self) {
        let (answer, done) = oneshot::channel();
        if self.queue.send(Message::Settle(answer)).await.is_ok() {
            let _ = done.await;
        }
    }

    async fn close(&self) {
        let (answer, done) = oneshot::channel();
        if self.queue.send(Message::Close(answer)).await.is_ok() && done.await.is_ok() {
            let _ = self.closed.set(());
        }
    }

    fn end(&self) -> StreamEnd {
        let dropped = self.dropped.load(Ordering::Relaxed);
        match self.dead.get() {
            Some(error) => StreamEnd::Failed(error.clone()),
            None if self.closed.get().is_some() && dropped == 0 => StreamEnd::Whole,
            None => StreamEnd::Stalled { dropped },
        }
    }
}

/// The life of a thread. A stream that failed still empties its queue, so that nobody waits for it.
fn run(mut target: impl Write, mut queue: mpsc::Receiver<Message>, failed: impl Fn(&io::Error)) {
    let mut alive = true;
    let mut waiting = Vec::new();
    let mut answers = Vec::new();
    let mut next = queue.blocking_recv();
    while let Some(message) = next {
        let mut close = false;
        match message {
            Message::Bytes(bytes) => waiting.extend_from_slice(&bytes),
            Message::Settle(answer) => answers.push(answer),
            Message::Close(answer) => {
                answers.push(answer);
                close = true;
            }
        }
        if !close
            && waiting.len() < BATCH
            && let Ok(more) = queue.try_recv()
        {
            next = Some(more);
            continue;
        }
        if alive
            && !waiting.is_empty()
            && let Err(error) = write_whole(&mut target, &waiting)
        {
            alive = false;
            failed(&error);
        }
        waiting.clear();
        for answer in answers.drain(..) {
            let _ = answer.send(());
        }
        if close {
            return;
        }
        next = queue.blocking_recv();
    }
}

fn write_whole(target: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    target.write_all(bytes)?;
    target.flush()
}

/// A descriptor of this process, written without the buffers and locks of the standard library, so
/// that a thread that hangs in a write holds nothing that the end of the process waits for.
pub(super) struct Descriptor<F>(pub(super) F);

impl<F: AsFd> Write for Descriptor<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(&self.0, bytes) {
                // Somebody who shares the pipe with us made it non-blocking.
                Err(rustix::io::Errno::AGAIN) => {
                    poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None)?;
                }
                result => return Ok(result?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
