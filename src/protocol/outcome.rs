//! The one terminal state of a Run.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A signal that can end a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    Hup,
    Int,
    Term,
}

impl Signal {
    pub fn name(self) -> &'static str {
        match self {
            Self::Hup => "SIGHUP",
            Self::Int => "SIGINT",
            Self::Term => "SIGTERM",
        }
    }
}

/// The terminal states, in the order of precedence: of several that apply the first one stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    Interrupted(Signal),
    TimedOut,
    Internal,
    Invalid,
    Unavailable,
    ModelFailed,
    LimitReached,
    Blocked,
    Unverified,
    Findings,
    ChangesFound,
    Partial,
    Completed,
}

impl State {
    /// The word in `result.json`, events and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interrupted(_) => "interrupted",
            Self::TimedOut => "timed_out",
            Self::Internal => "internal",
            Self::Invalid => "invalid",
            Self::Unavailable => "unavailable",
            Self::ModelFailed => "model_failed",
            Self::LimitReached => "limit_reached",
            Self::Blocked => "blocked",
            Self::Unverified => "unverified",
            Self::Findings => "findings",
            Self::ChangesFound => "changes_found",
            Self::Partial => "partial",
            Self::Completed => "completed",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a Run ended. Computed once; the exit status follows from `state` alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub state: State,
    /// Dotted and stable, for machines: `model.auth`, `limit.steps`, `verify.command`.
    pub reason: String,
    /// One sentence for people: what, where, why.
    pub message: String,
    /// What to do now; empty where nothing helps.
    pub hint: String,
    /// Whether the same run may well end differently if it is started again.
    pub retryable: bool,
}

impl Outcome {
    pub fn new(state: State, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            state,
            reason: reason.into(),
            message: message.into(),
            hint: String::new(),
            retryable: false,
        }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    pub fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    /// The outcome that stands of the two: the one whose state comes first in the table.
    pub fn strictest(self, other: Self) -> Self {
        if other.state < self.state { other } else { self }
    }
}
