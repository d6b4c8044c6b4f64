//! The whole output of a command, kept elsewhere while it comes.
//!
//! Where it is kept is not this room's business: whoever owns the run folder hands an [`OutputLogs`] in.
//! Writing happens on a thread of its own. A log that falls behind holds the command up, as any slow
//! reader does, and never more than a few chunks are waiting: memory stays the same for any output.

use std::fmt;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Makes the logs of a run.
pub trait OutputLogs: Send + Sync {
    /// A log for a command that is about to start; `command` is for people.
    fn open(&self, command: &str) -> Box<dyn OutputLog>;
}

/// One command's log. Both calls may wait for the disk.
pub trait OutputLog: Send {
    /// The next bytes of either stream, in the order received.
    fn write(&mut self, chunk: &[u8]);
    /// There is no more.
    fn end(self: Box<Self>) -> LogEnd;
}

/// What became of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// Its name among the artifacts; empty where there is none.
    pub file: String,
    /// Bytes of output that it holds, as the command printed them.
    pub bytes: u64,
    /// Bytes of output that it does not hold.
    pub cut: u64,
    /// Why it holds less than it should.
    pub fault: Option<String>,
}

impl fmt::Display for LogEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, bytes, cut, .. } = self;
        match (file.as_str(), cut) {
            ("", _) => write!(f, "not kept")?,
            (file, 0) => write!(f, "{file} ({bytes} bytes)")?,
            (file, cut) => write!(f, "{file}, the first {bytes} of {} bytes", bytes + cut)?,
        }
        match &self.fault {
            Some(fault) => write!(f, " ({fault})"),
            None => Ok(()),
        }
    }
}

/// Chunks that may wait for the disk.
const WAITING: usize = 2;
/// How long the end of a log may take; a disk that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(3);

/// The way from a command's attendant to its log.
pub(super) struct LogPipe {
    chunks: mpsc::Sender<Vec<u8>>,
    /// A chunk that has not found room yet. Nothing more is read from the command until it has.
    pending: Option<Vec<u8>>,
    writer: JoinHandle<LogEnd>,
}

impl LogPipe {
    pub fn new(mut log: Box<dyn OutputLog>) -> Self {
        let (chunks, mut inbox) = mpsc::channel::<Vec<u8>>(WAITING);
        let writer = tokio::task::spawn_blocking(move || {
            while let Some(chunk) = inbox.blocking_recv() {
                log.write(&chunk);
            }
            log.end()
        });
        Self { chunks, pending: None, writer }
    }

    /// Takes a chunk; `is_behind` says whether another may follow.
    pub fn put(&mut self, chunk: &[u8]) {
        if let Err(mpsc::error::TrySendError::Full(chunk)) = self.chunks.try_send(chunk.to_vec()) {
            self.pending = Some(chunk);
        }
    }

    pub fn is_behind(&self) -> bool {
        self.pending.is_some()
    }

    /// Waits until there is room for the pending chunk. Cancel-safe.
    pub async fn catch_up(&mut self) {
        if self.pending.is_none() {
            return;
        }
        // A writer that is gone takes nothing any more; its end says so.
        let room = self.chunks.reserve().await;
        if let (Some(chunk), Ok(room)) = (self.pending.take(), room) {
            room.send(chunk);
        }
    }

    /// Waits until everything is written, for as long as a sound disk may take.
    pub async fn end(mut self) -> LogEnd {
        let fault = |why: &str| LogEnd {
            file: String::new(),
            bytes: 0,
            cut: 0,
            fault: Some(why.to_owned()),
        };
        let ended = tokio::time::timeout(PATIENCE, async {
            self.catch_up().await;
            drop(self.chunks);
            self.writer.await
        });
        match ended.await {
            Ok(Ok(end)) => end,
            Ok(Err(_)) => fault("its writer broke"),
            Err(_) => fault("the disk did not take it in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    struct Slow(Arc<Mutex<Vec<u8>>>);

    impl OutputLog for Slow {
        fn write(&mut self, chunk: &[u8]) {
            std::thread::sleep(Duration::from_millis(2));
            self.0.lock().unwrap().extend_from_slice(chunk);
        }

        fn end(self: Box<Self>) -> LogEnd {
            LogEnd { file: "x.log".into(), bytes: 1, cut: 0, fault: None }
        }
    }

    #[tokio::test]
    async fn a_slow_log_gets_everything_in_order_and_holds_the_reader_up() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let mut pipe = LogPipe::new(Box::new(Slow(kept.clone())));
        let mut was_behind = false;
        for number in 0..50u8 {
            pipe.put(&[number]);
            was_behind |= pipe.is_behind();
            pipe.catch_up().await;
        }
        assert!(was_behind);
        assert_eq!(pipe.end().await.to_string(), "x.log (1 bytes)");
        assert_eq!(*kept.lock().unwrap(), (0..50u8).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_missing_is_said_in_words() {
        let end = |file: &str, bytes, cut, fault: Option<&str>| {
            LogEnd { file: file.into(), bytes, cut, fault: fault.map(str::to_owned) }.to_string()
        };
        assert_eq!(end("a.log", 10, 5, None), "a.log, the first 10 of 15 bytes");
        assert_eq!(end("", 0, 0, Some("why")), "not kept (why)");
        assert_eq!(end("a.log", 0, 9, Some("disk")), "a.log, the first 0 of 9 bytes (disk)");
    }
}
