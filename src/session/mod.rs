//! A Session: Ops go in, Events come out, and a Turn runs as a Task in between.
//!
//! The Session keeps receiving Ops while a Turn runs. Both queues are bounded (32): a slow reader of
//! Events slows the Turn, memory stays flat, and no Event is dropped. Each Turn has exactly one
//! terminal Event, sent here and nowhere else, after its record is on disk.

mod cancel;
mod contexts;
mod emit;
mod finish;
mod hooked;
mod limits;
mod processes;
mod replayed;
mod reserve;
mod step;
mod turn;
mod world;

pub use cancel::TurnCancel;
pub use contexts::{StepContext, TurnConfig, TurnContext};
pub use limits::{Limits, cost};
pub use replayed::{ReplayedAttempt, ReplayedLook, ReplayedWorld};
pub use reserve::Reserve;

use crate::clock;
use crate::context::{History, WorldState};
use crate::model::Model;
use crate::protocol::{
    CallCounts, Event, EventMsg, Op, SessionId, Submission, SubmissionId, TurnEnd, TurnId,
    TurnSummary,
};
use crate::rollout::{Record, RolloutWriter};
use crate::tools::{Registry, ToolWorld};
use crate::verify::Verifier;
use emit::Emitter;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{JoinError, JoinHandle};

/// Places in each queue.
const QUEUE: usize = 32;

/// Everything a Session is made from.
pub struct SessionParts {
    pub session: SessionId,
    pub run: String,
    pub model: Arc<dyn Model>,
    pub registry: Arc<Registry>,
    pub world: Arc<ToolWorld>,
    pub verifier: Arc<Verifier>,
    pub rollout: RolloutWriter,
    pub config: TurnConfig,
    /// What the Session goes on from; empty for a new one.
    pub history: History,
    /// Items that stand before the first user input, after the history: project rules, permissions,
    /// environment; and for a Session that is taken up again, what happened meanwhile.
    pub opening: Vec<crate::protocol::Item>,
    /// A final message that needs no other: the first Turn begins with its verification.
    pub answered: Option<Answered>,
    /// Set where the world is not looked at but read from a record.
    pub replayed: Option<Arc<ReplayedWorld>>,
}

/// The recorded final message of a Turn that was cut short after it: the next Turn takes it up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answered {
    pub message: String,
    /// The calls behind the message, which count for whoever judges it.
    pub calls: CallCounts,
    pub first_denial: Option<String>,
}

/// What lives as long as the Session and belongs to its running Turn meanwhile.
#[derive(Default)]
struct Memory {
    history: History,
    world_told: WorldState,
    opened: bool,
    answered: Option<Answered>,
}

/// The way in.
#[derive(Clone)]
pub struct SessionHandle {
    ops: mpsc::Sender<Submission>,
    idle: Arc<watch::Sender<bool>>,
}

/// The Session has ended; it takes no Op any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SessionClosed;

impl SessionHandle {
    /// Puts an Op in and says which id its Events will carry. Idle is cleared before the Op is in the
    /// queue, so that whoever sees idle after a submit knows that its Turn is over.
    pub async fn submit(&self, op: Op) -> Result<SubmissionId, SessionClosed> {
        let id = SubmissionId::new();
        if matches!(op, Op::UserInput { .. }) {
            self.idle.send_replace(false);
        }
        let submission = Submission { id: id.clone(), op };
        self.ops.send(submission).await.map_err(|_| SessionClosed)?;
        Ok(id)
    }

    /// Whether no Turn runs and none is on its way in.
    pub fn is_idle(&self) -> bool {
        *self.idle.borrow()
    }

    /// Returns once the Session is idle.
    pub async fn idle(&self) {
        let mut idle = self.idle.subscribe();
        // The sender lives in self, so waiting cannot fail.
        let _ = idle.wait_for(|idle| *idle).await;
    }
}

/// Starts a Session on the current runtime.
pub fn spawn(parts: SessionParts) -> (SessionHandle, mpsc::Receiver<Event>) {
    let (ops, inbox) = mpsc::channel(QUEUE);
    let (events, outbox) = mpsc::channel(QUEUE);
    let idle = Arc::new(watch::Sender::new(true));
    let handle = SessionHandle { ops, idle: idle.clone() };
    let emitter = Arc::new(Emitter::new(events, parts.rollout.clone()));
    let memory = Memory {
        history: parts.history.clone(),
        answered: parts.answered.clone(),
        ..Memory::default()
    };
    let session = Session {
        emitter,
        idle,
        inbox,
        memory: Arc::new(Mutex::new(memory)),
        parts: Arc::new(parts),
        running: None,
    };
    tokio::spawn(session.run());
    (handle, outbox)
}

struct Session {
    parts: Arc<SessionParts>,
    emitter: Arc<Emitter>,
    idle: Arc<watch::Sender<bool>>,
    inbox: mpsc::Receiver<Submission>,
    memory: Arc<Mutex<Memory>>,
    running: Option<Task>,
}

/// A Turn at work.
struct Task {
    submission: SubmissionId,
    turn: TurnId,
    cancel: TurnCancel,
    progress: Arc<turn::Progress>,
    started: std::time::Instant,
    work: JoinHandle<TurnEnd>,
}

/// What the Session's loop woke up for.
enum Wake {
    Op(Option<Submission>),
    Ended(Result<TurnEnd, JoinError>),
    Deadline,
}

impl Session {
    async fn run(mut self) {
        let started = EventMsg::SessionStarted {
            session: self.parts.session.to_string(),
            run: self.parts.run.clone(),
        };
        self.emitter.emit(&SubmissionId(String::new()), started).await;
        let mut closing = false;
        while !(closing && self.running.is_none()) {
            match self.next().await {
                Wake::Op(Some(submission)) => closing |= self.take(submission).await,
                Wake::Op(None) => closing |= self.close("the controlling side is gone"),
                Wake::Ended(joined) => self.end(joined).await,
                Wake::Deadline => self.time_is_up(),
            }
        }
        self.emitter.emit(&SubmissionId(String::new()), EventMsg::SessionEnded).await;
    }

    async fn next(&mut self) -> Wake {
        let closed = self.inbox.is_closed() && self.inbox.is_empty();
        match &mut self.running {
            None => Wake::Op(self.inbox.recv().await),
            Some(task) => {
                let deadline = self.parts.config.limits.deadline;
                let armed = !task.cancel.is_cancelled();
                tokio::select! {
                    joined = &mut task.work => Wake::Ended(joined),
                    submission = self.inbox.recv(), if !closed => Wake::Op(submission),
                    () = tokio::time::sleep_until(deadline.into()), if armed => Wake::Deadline,
                }
            }
        }
    }

    /// Takes one Op; true when the Session is to close.
    async fn take(&mut self, submission: Submission) -> bool {
        match submission.op {
            Op::UserInput { text } => self.user_input(submission.id, text).await,
            Op::Interrupt { reason } => self.interrupt(submission.id, &reason).await,
            Op::Shutdown => return self.close("the session was shut down"),
        }
        false
    }

    async fn user_input(&mut self, id: SubmissionId, text: Arc<str>) {
        if let Some(task) = &self.running {
            let text = format!("turn {} is running; wait for its end or interrupt it", task.turn);
            return self.reject(&id, "turn_active", text).await;
        }
        let turn = TurnId::new();
        let cancel = TurnCancel::new();
        let progress = Arc::new(turn::Progress::default());
        let context = TurnContext::new(&self.parts, turn.clone(), id.clone(), cancel.clone());
        let work = tokio::spawn(turn::run(
            context,
            self.parts.clone(),
            self.emitter.clone(),
            self.memory.clone(),
            progress.clone(),
            text,
        ));
        let started = clock::now();
        self.running = Some(Task { submission: id, turn, cancel, progress, started, work });
    }

    async fn interrupt(&mut self, id: SubmissionId, reason: &str) {
        match &self.running {
            Some(task) => task.cancel.cancel(reason, "the run was interrupted"),
            None => self.reject(&id, "no_turn", "no turn is running".into()).await,
        }
    }

    async fn reject(&self, id: &SubmissionId, code: &'static str, text: String) {
        self.emitter.emit(id, EventMsg::Rejected { code, text }).await;
    }

    /// Ends the running Turn, if there is one; the Session ends with it.
    fn close(&mut self, why: &str) -> bool {
        if let Some(task) = &self.running {
            task.cancel.cancel("interrupted", why);
        }
        true
    }

    fn time_is_up(&mut self) {
        if let Some(task) = &self.running {
            let limit = clock::human(self.parts.config.limits.time);
            task.cancel.cancel("limit.time", &format!("the time limit of {limit} was reached"));
        }
    }

    /// The one owner of a Turn's end: record on disk, terminal record, on disk, Event, idle.
    async fn end(&mut self, joined: Result<TurnEnd, JoinError>) {
        let Some(task) = self.running.take() else { return };
        let end = joined.unwrap_or_else(guard);
        let summary = task.progress.summary(clock::millis_since(task.started));
        let end = self.record_end(&task, end, &summary).await;
        let msg = EventMsg::TurnEnded { turn: task.turn, end, summary: Box::new(summary) };
        self.emitter.emit(&task.submission, msg).await;
        self.idle.send_replace(true);
    }

    async fn record_end(&self, task: &Task, end: TurnEnd, summary: &TurnSummary) -> TurnEnd {
        let rollout = &self.parts.rollout;
        let record = Record::turn_ended(
            task.turn.clone(),
            &end,
            summary.steps,
            summary.duration_ms,
            summary.final_message.clone(),
        );
        let written = async {
            rollout.flush().await?;
            rollout.append(record).await?;
            rollout.flush().await
        };
        match written.await {
            Ok(_) => end,
            Err(error) => TurnEnd::Failed {
                reason: "rollout.write".into(),
                message: format!("the end of the turn could not be recorded: {error}"),
                retryable: true,
            },
        }
    }
}

/// The end of a Turn that took none: it panicked, or its Task was torn down.
fn guard(error: JoinError) -> TurnEnd {
    let why = if error.is_panic() {
        turn::panic_text(error.into_panic())
    } else {
        "its task was ended from outside".to_owned()
    };
    TurnEnd::Failed {
        reason: "internal.turn".into(),
        message: format!("the turn ended without saying how: {why}"),
        retryable: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_guard_catches_a_task_that_took_no_end() {
        let work: JoinHandle<TurnEnd> = tokio::spawn(std::future::pending());
        work.abort();
        let end = work.await.unwrap_or_else(guard);
        assert!(matches!(end, TurnEnd::Failed { ref reason, .. } if reason == "internal.turn"));
        let work: JoinHandle<TurnEnd> = tokio::spawn(async { panic!("boom") });
        let end = work.await.unwrap_or_else(guard);
        assert!(matches!(end, TurnEnd::Failed { ref message, .. } if message.contains("boom")));
    }
}
