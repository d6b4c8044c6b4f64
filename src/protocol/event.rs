//! What comes out of a Session.

use super::ids::{CallId, SubmissionId, TurnId};
use super::item::{Item, ToolCall, ToolResult};
use super::tool::{Effect, ResultKind};
use super::usage::Usage;
use super::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One Event, numbered at the one door it leaves by.
#[derive(Debug, Clone)]
pub struct Event {
    /// The Op it answers.
    pub submission: SubmissionId,
    /// Counts from 0 without gaps for a Session.
    pub seq: u64,
    /// RFC 3339, UTC.
    pub ts: String,
    pub msg: EventMsg,
}

/// How a Turn ended: exactly one per Turn, after its record is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model gave its final message and nothing cut it short.
    Completed,
    /// Ended from outside: an interrupt or a limit. The reason is dotted (`interrupted`, `limit.steps`).
    Aborted { reason: String, message: String },
    /// It could not go on: the model, the record, a bug.
    Failed { reason: String, message: String, retryable: bool },
}

impl TurnEnd {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted { .. } => "aborted",
            Self::Failed { .. } => "failed",
        }
    }
}

/// What a Turn came to, told with its terminal event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnSummary {
    pub steps: u32,
    pub calls: CallCounts,
    pub usage: Usage,
    /// The model's final message, where it gave one.
    pub final_message: Option<String>,
    /// What verification still found after all attempts.
    pub unmet: Vec<Unmet>,
    /// The first thing the policy refused, for the outcome's message.
    pub first_denial: Option<String>,
    pub duration_ms: u64,
}

/// Tool calls of a Turn by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    pub total: u32,
    pub failed: u32,
    pub denied: u32,
    /// Calls that ran with an effect, or may have.
    pub with_effect: u32,
}

impl CallCounts {
    pub fn book(&mut self, result: &ToolResult) {
        self.total += 1;
        match result.result {
            ResultKind::Ok => {}
            ResultKind::Denied => self.denied += 1,
            _ => self.failed += 1,
        }
        if result.effect != Effect::None {
            self.with_effect += 1;
        }
    }
}

/// One demand of the operator that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmet {
    /// Dotted: `verify.command`, `expect.changes`, `require_files`, `keep`, `limit.changed_files`.
    pub reason: String,
    /// One line for people.
    pub message: String,
    /// What the model is told, with the output that explains it.
    pub detail: String,
}

/// The end of a command that outlived its call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// The number under which the model knows it.
    pub session_id: u32,
    /// The call that started it.
    pub call_id: CallId,
    /// For people, shortened and masked.
    pub command: String,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Who ended it, if not itself: `timeout`, `cancelled`, `closed` (by the model), `turn_end`,
    /// `protected` (it changed what the policy protects), `lost` (nothing is known of its end).
    pub ended_by: Option<String>,
    pub output_bytes: u64,
    pub duration_ms: u64,
}

/// One entry of the model's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanItem {
    pub step: String,
    pub status: PlanStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    Pending,
    InProgress,
    Completed,
}

/// The Events. Deltas may be lost by a reader that only wants items; everything else is never dropped.
#[derive(Debug, Clone)]
pub enum EventMsg {
    SessionStarted {
        session: String,
        run: String,
    },
    TurnStarted {
        turn: TurnId,
    },
    StepStarted {
        step: u32,
    },
    TextDelta {
        text: String,
    },
    /// A patch that still arrives names a file: progress for people, nothing has happened yet.
    PatchProgress {
        /// `add`, `update`, `delete`, `move to`.
        action: &'static str,
        path: String,
    },
    /// A complete item entered the history.
    ItemDone {
        item: Arc<Item>,
    },
    CallStarted {
        call: ToolCall,
    },
    Verdict {
        call_id: Option<CallId>,
        step: u32,
        verdict: Verdict,
    },
    CallDone {
        result: ToolResult,
    },
    Plan {
        items: Vec<PlanItem>,
    },
    Retry {
        attempt: u32,
        wait_ms: u64,
        cause: String,
    },
    Usage {
        step: u32,
        usage: Usage,
        total: Usage,
    },
    /// A command that outlived its call has ended, with everything it started.
    ProcessEnded {
        process: ProcessEnd,
    },
    /// A command of the operator's own is asked or told.
    HookStarted {
        hook: String,
        step: u32,
        call_id: Option<CallId>,
    },
    HookDone {
        hook: String,
        step: u32,
        call_id: Option<CallId>,
        /// `allow`, `deny`, `block`, `error`, `timeout`, `cancelled`.
        outcome: String,
        /// Why it was not `allow`; else possibly empty.
        reason: String,
        exit_code: Option<i32>,
        duration_ms: u64,
    },
    VerifyStarted {
        attempt: u32,
        name: String,
    },
    VerifyDone {
        attempt: u32,
        name: String,
        argv: Vec<String>,
        passed: bool,
        exit_code: Option<i32>,
        timed_out: bool,
        /// Masked and bounded.
        output_tail: String,
        duration_ms: u64,
    },
    Diff {
        files: u32,
        added: u64,
        removed: u64,
    },
    /// Something the operator should know that ends nothing.
    Warning {
        text: String,
    },
    /// An Op that could not be taken. `code` is closed: `turn_active`, `no_turn`, `shutting_down`.
    Rejected {
        code: &'static str,
        text: String,
    },
    /// The terminal event of a Turn.
    TurnEnded {
        turn: TurnId,
        end: TurnEnd,
        summary: Box<TurnSummary>,
    },
    SessionEnded,
}

impl EventMsg {
    /// A terminal event ends a Turn; there is exactly one for each.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::TurnEnded { .. })
    }
}
