//! The record types. Together they hold all that resume and replay need: what was set, what the
//! model was told and answered, what was judged, what ran and how it ended.
//!
//! Readers of a later version must still read these lines: fields are only ever added, and an added
//! field has a default. No field may be called `v`, `seq`, `ts`, `type` or `prev`; those belong to
//! the line.

use crate::protocol::{
    CallId, EventMsg, Item, PlanItem, RunId, SessionId, SubmissionId, ToolSpec, TurnEnd, TurnId,
    Unmet, Usage, Verdict,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One line of the rollout, without what belongs to the line itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    RunStarted(Box<RunStartedRecord>),
    TurnStarted {
        turn: TurnId,
        submission: SubmissionId,
        /// The user's request as the model got it.
        task: String,
        /// The final message of the Turn before stands: the model was not asked again, and this Turn
        /// began with its verification.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        answered: bool,
    },
    TurnContext(Box<TurnContextRecord>),
    StepStarted(Box<StepStartedRecord>),
    /// What the model was shown of the world; `full` or only what changed since the last one.
    WorldState {
        step: u32,
        full: bool,
        sections: BTreeMap<String, Value>,
    },
    /// A unit of history, in the order the model sees them.
    Item {
        step: u32,
        /// The response that brought it; absent for items this runner made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_id: Option<String>,
        item: Arc<Item>,
    },
    /// What the policy said, on disk before the effect it allows.
    Verdict {
        step: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<CallId>,
        verdict: Verdict,
    },
    Approval(ApprovalRecord),
    Hook(Box<HookRecord>),
    /// One response: its id, the model that served it, its tokens.
    Usage(Box<UsageRecord>),
    Retry {
        step: u32,
        attempt: u32,
        wait_ms: u64,
        cause: String,
    },
    ProcessEnded(Box<ProcessEndedRecord>),
    Diff(Box<DiffRecord>),
    /// One check of the operator, run by this runner.
    Verification(Box<CheckRecord>),
    /// What the verification of an attempt came to: all that does not hold.
    Verified {
        attempt: u32,
        unmet: Vec<Unmet>,
    },
    Compacted(Box<CompactedRecord>),
    /// History was cut back: what follows continues after the record `to_seq`. Files stay.
    RolledBack {
        turns: u32,
        to_seq: u64,
    },
    TurnCompleted {
        turn: TurnId,
        steps: u32,
        duration_ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_message: Option<String>,
    },
    TurnAborted {
        turn: TurnId,
        steps: u32,
        duration_ms: u64,
        reason: String,
        message: String,
    },
    TurnFailed {
        turn: TurnId,
        steps: u32,
        duration_ms: u64,
        reason: String,
        message: String,
        retryable: bool,
    },
    RunFinished(Box<RunFinishedRecord>),
    /// A type this version does not know: kept in count, otherwise passed over. Never written.
    #[serde(other)]
    Unknown,
}

impl Record {
    /// The one terminal record of a Turn.
    pub fn turn_ended(
        turn: TurnId,
        end: &TurnEnd,
        steps: u32,
        duration_ms: u64,
        last_message: Option<String>,
    ) -> Self {
        match end.clone() {
            TurnEnd::Completed => Self::TurnCompleted { turn, steps, duration_ms, last_message },
            TurnEnd::Aborted { reason, message } => {
                Self::TurnAborted { turn, steps, duration_ms, reason, message }
            }
            TurnEnd::Failed { reason, message, retryable } => {
                Self::TurnFailed { turn, steps, duration_ms, reason, message, retryable }
            }
        }
    }

    /// The Turn this record ends, if it ends one.
    pub fn ends_turn(&self) -> Option<&TurnId> {
        match self {
            Self::TurnCompleted { turn, .. }
            | Self::TurnAborted { turn, .. }
            | Self::TurnFailed { turn, .. } => Some(turn),
            _ => None,
        }
    }

    /// The word under `type`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::RunStarted(_) => "run_started",
            Self::TurnStarted { .. } => "turn_started",
            Self::TurnContext(_) => "turn_context",
            Self::StepStarted(_) => "step_started",
            Self::WorldState { .. } => "world_state",
            Self::Item { .. } => "item",
            Self::Verdict { .. } => "verdict",
            Self::Approval(_) => "approval",
            Self::Hook(_) => "hook",
            Self::Usage(_) => "usage",
            Self::Retry { .. } => "retry",
            Self::ProcessEnded(_) => "process_ended",
            Self::Diff(_) => "diff",
            Self::Verification(_) => "verification",
            Self::Verified { .. } => "verified",
            Self::Compacted(_) => "compacted",
            Self::RolledBack { .. } => "rolled_back",
            Self::TurnCompleted { .. } => "turn_completed",
            Self::TurnAborted { .. } => "turn_aborted",
            Self::TurnFailed { .. } => "turn_failed",
            Self::RunFinished(_) => "run_finished",
            Self::Unknown => "unknown",
        }
    }
}

/// Which files a Session works on, so that a resume can refuse a different workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkspaceIdentity {
    pub root: String,
    /// Absent without git.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_root: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// The first record of every run on a Session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunStartedRecord {
    pub run: RunId,
    pub session: SessionId,
    /// What the run was asked to do: a Turn that is killed before the model was told has it here.
    pub task: String,
    /// Version of this program.
    pub version: String,
    /// The run this one goes on from, and how: `resume`, `fork`, `replay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_kind: Option<String>,
    /// The current folder of the invocation: what relative paths of the settings are relative to.
    pub folder: String,
    /// What a model that is a file is relative to.
    pub model_folder: String,
    /// The resolved spec, every default filled in.
    pub settings: Value,
    /// Where each setting came from: `flag`, `env`, `spec`, `default`.
    pub sources: BTreeMap<String, String>,
    pub spec_digest: String,
    pub policy_digest: String,
    /// The effective policy.
    pub policy: Value,
    pub workspace: WorkspaceIdentity,
    /// Grades of the sandbox, clause by clause.
    pub sandbox: Value,
    pub untrusted: bool,
}

/// What is frozen for a Turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnContextRecord {
    pub turn: TurnId,
    /// The base instructions, whole.
    pub instructions: Arc<str>,
    /// `PROVIDER/NAME`, as asked for.
    pub model: String,
    pub base_url: Option<String>,
    pub options: Value,
    /// The tools of the first ToolPlan; a later generation is in its `step_started`.
    pub tools: Arc<[ToolSpec]>,
    pub generation: u64,
    pub limits: Value,
    pub policy_digest: String,
    pub workspace_root: String,
    pub output_schema: Option<Arc<Value>>,
    pub untrusted: bool,
}

impl Default for TurnContextRecord {
    fn default() -> Self {
        Self {
            turn: TurnId(String::new()),
            instructions: Arc::from(""),
            model: String::new(),
            base_url: None,
            options: Value::Null,
            tools: Arc::from([]),
            generation: 0,
            limits: Value::Null,
            policy_digest: String::new(),
            workspace_root: String::new(),
            output_schema: None,
            untrusted: false,
        }
    }
}

/// What one sampling saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepStartedRecord {
    pub turn: TurnId,
    pub step: u32,
    /// Key of the request for replay: SHA-256 over all but volatile fragments.
    pub fingerprint: String,
    /// Items of history in the request.
    pub items: u64,
    pub generation: u64,
    /// Set when the generation is not the one recorded last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Arc<[ToolSpec]>>,
}

impl Default for StepStartedRecord {
    fn default() -> Self {
        Self {
            turn: TurnId(String::new()),
            step: 0,
            fingerprint: String::new(),
            items: 0,
            generation: 0,
            tools: None,
        }
    }
}

/// How an `ask` was decided with nobody there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    pub step: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    pub approved: bool,
    /// Who decided, e.g. `on_ask`, `untrusted_input`.
    pub by: String,
    pub reason: String,
}

/// One run of a hook.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookRecord {
    pub step: u32,
    /// The point and its place there: `before_tool[0]`.
    pub hook: String,
    pub command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// What it decided (`allow`, `deny`, `block`), or `error`, `timeout`, `cancelled`.
    pub outcome: String,
    pub reason: String,
    /// What it put in the place of the call's arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// What it had to tell the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    pub output_tail: String,
}

impl HookRecord {
    /// The event that tells of it.
    pub fn event(&self) -> EventMsg {
        EventMsg::HookDone {
            hook: self.hook.clone(),
            step: self.step,
            call_id: self.call_id.clone(),
            outcome: self.outcome.clone(),
            reason: self.reason.clone(),
            exit_code: self.exit_code,
            duration_ms: self.duration_ms,
        }
    }
}

/// One response of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageRecord {
    pub step: u32,
    pub fingerprint: String,
    pub response_id: Option<String>,
    /// The model as served, which may be more exact than what was asked for.
    pub model: Option<String>,
    /// How the response ended: `completed`, `incomplete`, `failed`, `cut`.
    pub status: String,
    /// Items of the response, which follow. With fewer of them the record of the response was cut.
    pub items: Option<u32>,
    pub usage: Usage,
    pub total: Usage,
    pub duration_ms: u64,
}

/// A process of a tool has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessEndedRecord {
    pub step: u32,
    /// The number under which the model knew it.
    pub session_id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    pub argv: Vec<String>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Why it ended where that was not its own doing: `timeout`, `cancelled`, `closed`, `turn_end`,
    /// `protected`, `lost`.
    pub ended_by: Option<String>,
    pub output_bytes: u64,
    pub duration_ms: u64,
}

/// How a file differs between start and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileStatus {
    Added,
    Modified,
    Deleted,
    Renamed,
    TypeChanged,
    ModeChanged,
}

impl FileStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Renamed => "renamed",
            Self::TypeChanged => "type_changed",
            Self::ModeChanged => "mode_changed",
        }
    }
}

/// One file of the Turn diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChangeRecord {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    pub status: FileStatus,
    pub added: u64,
    pub removed: u64,
    #[serde(default)]
    pub binary: bool,
    /// Ids of the calls that changed it, `command:ID` or `patch:ID`; `outside` where none did.
    #[serde(default)]
    pub by: Vec<String>,
}

/// The Turn diff: what it is about, not its text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiffRecord {
    pub turn: Option<TurnId>,
    pub start_tree: String,
    pub end_tree: String,
    /// Whether applying it to the start tree gave the end tree.
    pub proven: bool,
    /// SHA-256 of `turn.diff`.
    pub digest: String,
    pub added: u64,
    pub removed: u64,
    pub files: Vec<FileChangeRecord>,
}

/// Where a check ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckPhase {
    Baseline,
    #[default]
    Workspace,
    CleanCheckout,
}

/// One check and how it went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckRecord {
    pub attempt: u32,
    pub phase: CheckPhase,
    pub name: String,
    pub argv: Vec<String>,
    pub passed: bool,
    pub exit_code: Option<i32>,
    pub timed_out: bool,
    pub output_tail: String,
    pub duration_ms: u64,
    /// Files the check itself changed; their change was undone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

/// History was replaced by a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompactedRecord {
    pub step: u32,
    /// `model` or `local`.
    pub by: String,
    /// Items the history had before.
    pub replaced: u64,
    /// The history from here on, whole.
    pub replacement: Vec<Arc<Item>>,
    /// Structure that survives beside the text.
    #[serde(default)]
    pub plan: Vec<PlanItem>,
    #[serde(default)]
    pub state: Value,
}

/// The last record of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFinishedRecord {
    pub run: RunId,
    pub state: String,
    pub exit_status: u8,
    pub reason: String,
    pub message: String,
    pub hint: String,
    pub retryable: bool,
    pub steps: u32,
    pub usage: Usage,
    pub cost: Option<f64>,
    pub duration_ms: u64,
}
