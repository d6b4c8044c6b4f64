//! The writer: a handle that many may hold, and one thread that owns the file.
//!
//! A thread and not a task, because a write or a sync may block for as long as the disk likes, and
//! the runtime must go on hearing signals meanwhile.

use super::error::RolloutError;
use super::file::FileSink;
use super::journal::{Journal, Position};
use super::mask::Masker;
use super::read;
use super::record::Record;
use crate::clock;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio::sync::{mpsc, oneshot};

/// Batches on their way to the thread; a slow disk slows whoever appends.
const QUEUE: usize = 32;

/// What is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmed {
    /// Records that this writer took and a sync confirmed.
    pub records: u64,
    /// Length of the confirmed part of the file.
    pub bytes: u64,
}

enum Message {
    Append(Vec<(String, Record)>),
    Flush(oneshot::Sender<Result<Confirmed, RolloutError>>),
    Close(oneshot::Sender<Result<Confirmed, RolloutError>>),
}

/// A handle of the rollout; cheap to clone.
#[derive(Clone)]
pub struct RolloutWriter {
    queue: mpsc::Sender<Message>,
    failed: Arc<OnceLock<RolloutError>>,
    path: Arc<Path>,
}

impl RolloutWriter {
    /// Starts a new rollout. Refuses a file that is already there.
    pub fn create(path: &Path, masker: Arc<Masker>) -> Result<Self, RolloutError> {
        let sink = FileSink::create(path)?;
        Self::start(Journal::new(sink, path.to_owned(), masker, Position::start()), path)
    }

    /// The same in a run folder that is already open, so that no name on the way to it is looked up
    /// again. `path` is where that is, for messages.
    pub fn create_in(
        folder: impl AsFd,
        name: &str,
        path: &Path,
        masker: Arc<Masker>,
    ) -> Result<Self, RolloutError> {
        if name.is_empty() || name.contains('/') {
            return Err(RolloutError::NotAFile { path: path.to_owned(), found: "a path" });
        }
        let sink = FileSink::create_in(folder, OsStr::new(name), path)?;
        Self::start(Journal::new(sink, path.to_owned(), masker, Position::start()), path)
    }

    /// Goes on with the rollout of an earlier run. A last line that was torn is closed off together
    /// with the next record, so that it costs itself and nothing else.
    pub fn open_append(path: &Path, masker: Arc<Masker>) -> Result<Self, RolloutError> {
        let sink = FileSink::open(path)?;
        let position = read::position(sink.file(), path)?;
        Self::start(Journal::new(sink, path.to_owned(), masker, position), path)
    }

    pub(super) fn start(journal: Journal<FileSink>, path: &Path) -> Result<Self, RolloutError> {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let failed = Arc::new(OnceLock::new());
        let shared = Arc::clone(&failed);
        std::thread::Builder::new()
            .name("rollout".to_owned())
            .spawn(move || run(journal, receiver, &shared))
            .map_err(|error| RolloutError::io(path, "start the thread of", &error))?;
        Ok(Self { queue, failed, path: Arc::from(path) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn path_buf(&self) -> PathBuf {
        self.path.to_path_buf()
    }

    /// Takes a record. It is on disk only once a later [`Self::flush`] has returned.
    pub async fn append(&self, record: Record) -> Result<(), RolloutError> {
        self.append_batch(vec![record]).await
    }

    /// Takes several records with nothing of another handle between them.
    pub async fn append_batch(&self, records: Vec<Record>) -> Result<(), RolloutError> {
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        let batch = records.into_iter().map(|record| (clock::stamp(), record)).collect();
        self.queue.send(Message::Append(batch)).await.map_err(|_| self.gone())
    }

    /// Everything appended so far is on disk when this returns. Dropping the future drops the
    /// answer, not the sync.
    pub async fn flush(&self) -> Result<Confirmed, RolloutError> {
        self.ask(Message::Flush).await
    }

    /// Flushes and gives the file back, lock included. Other handles get [`RolloutError::Closed`].
    pub async fn close(self) -> Result<Confirmed, RolloutError> {
        self.ask(Message::Close).await
    }

    async fn ask(
        &self,
        message: fn(oneshot::Sender<Result<Confirmed, RolloutError>>) -> Message,
    ) -> Result<Confirmed, RolloutError> {
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        let (answer, wait) = oneshot::channel();
        self.queue.send(message(answer)).await.map_err(|_| self.gone())?;
        wait.await.map_err(|_| self.gone())?
    }

    fn gone(&self) -> RolloutError {
        self.failed.get().cloned().unwrap_or(RolloutError::Closed)
    }
}

/// The life of the thread. When every handle is gone, what is queued is still written and synced.
fn run<S: super::file::Sink>(
    mut journal: Journal<S>,
    mut queue: mpsc::Receiver<Message>,
    failed: &OnceLock<RolloutError>,
) {
    let mut closing = Vec::new();
    while let Some(message) = queue.blocking_recv() {
        match message {
            Message::Append(batch) => {
                for (ts, record) in batch {
                    // The error is kept by the journal and told by the next flush.
                    if journal.append(&ts, &record).is_err() {
                        break;
                    }
                }
            }
            Message::Flush(answer) => {
                // Nobody waiting any more is fine: the sync has happened.
                let _ = answer.send(journal.sync());
            }
            Message::Close(answer) => {
                // Nothing more is taken; what was taken before is still written below.
                queue.close();
                closing.push(answer);
            }
        }
        note(&journal, failed);
    }
    let result = journal.sync();
    note(&journal, failed);
    drop(journal);
    for answer in closing {
        let _ = answer.send(result.clone());
    }
}

fn note<S: super::file::Sink>(journal: &Journal<S>, failed: &OnceLock<RolloutError>) {
    if let Some(error) = journal.failure() {
        let _ = failed.set(error.clone());
    }
}
