//! What stands in the place of the world where a Session is replayed from its record alone: what was
//! seen at each Step, and what each verification came to. Positional and strict: what the record does
//! not hold is the end of the replay.

use crate::protocol::{Item, Unmet};
use crate::rollout::{CheckRecord, DiffRecord};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// What the model was shown of the world at a Step.
#[derive(Debug, Clone)]
pub struct ReplayedLook {
    pub full: bool,
    pub sections: BTreeMap<String, Value>,
    pub item: Arc<Item>,
}

/// One verification.
#[derive(Debug, Clone, Default)]
pub struct ReplayedAttempt {
    pub diff: Option<Box<DiffRecord>>,
    pub checks: Vec<Box<CheckRecord>>,
    pub unmet: Vec<Unmet>,
}

/// Looks by Step, verifications in order.
#[derive(Debug, Default)]
pub struct ReplayedWorld {
    pub looks: BTreeMap<u32, ReplayedLook>,
    attempts: Mutex<VecDeque<ReplayedAttempt>>,
}

impl ReplayedWorld {
    pub fn new(looks: BTreeMap<u32, ReplayedLook>, attempts: Vec<ReplayedAttempt>) -> Self {
        Self { looks, attempts: Mutex::new(attempts.into()) }
    }

    /// The next verification; `None` where the record has no further one.
    pub(super) fn next_attempt(&self) -> Option<ReplayedAttempt> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
