//! The one door Events leave by: number it, queue it; and record what belongs into the rollout.

use crate::clock;
use crate::protocol::{Event, EventMsg, SubmissionId};
use crate::rollout::{Record, RolloutWriter};
use crate::tools::Halt;
use tokio::sync::{Mutex, mpsc};

pub(super) struct Emitter {
    /// Held while an Event waits for its place, so that numbers and order agree.
    next: Mutex<u64>,
    events: mpsc::Sender<Event>,
    rollout: RolloutWriter,
}

impl Emitter {
    pub fn new(events: mpsc::Sender<Event>, rollout: RolloutWriter) -> Self {
        Self { next: Mutex::new(0), events, rollout }
    }

    /// Waits for a place in the queue. A reader that is gone ends nothing: the rollout has it all.
    pub async fn emit(&self, submission: &SubmissionId, msg: EventMsg) {
        let mut next = self.next.lock().await;
        let event = Event { submission: submission.clone(), seq: *next, ts: clock::stamp(), msg };
        *next += 1;
        let _ = self.events.send(event).await;
    }

    pub async fn record(&self, record: Record) -> Result<(), Halt> {
        self.rollout.append(record).await.map_err(halt)
    }

    /// Returns once everything recorded so far is on disk.
    pub async fn flush(&self) -> Result<(), Halt> {
        self.rollout.flush().await.map(drop).map_err(halt)
    }
}

fn halt(error: crate::rollout::RolloutError) -> Halt {
    Halt {
        reason: "rollout.write".into(),
        message: format!("the rollout cannot be written: {error}"),
    }
}
