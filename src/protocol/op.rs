//! What goes into a Session.

use super::ids::SubmissionId;
use std::sync::Arc;

/// One Op with the id that its Events will carry.
#[derive(Debug, Clone)]
pub struct Submission {
    pub id: SubmissionId,
    pub op: Op,
}

/// A request to a Session. The Session keeps receiving these while a Turn runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Start a Turn with this text. During a Turn it is refused with a typed error, never queued.
    UserInput { text: Arc<str> },
    /// End the running Turn in order: results for every call, diff, record, then the terminal event.
    Interrupt { reason: String },
    /// End the Session once no Turn runs; a running one is interrupted first.
    Shutdown,
}
