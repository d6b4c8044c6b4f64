//! `result.json`: how a run ended and what it left, for machines.
//!
//! State and exit status cannot contradict each other: both are set by [`Ending`] from one Outcome and
//! the one exit table, nothing else can set them, and the schema ties each state to its status.

use crate::protocol::{CallId, Outcome, ProcessEnd, RuleRef, State, Usage};
use crate::rollout::{CheckPhase, FileStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The version of `result.json`.
pub const SCHEMA: u64 = 1;

/// The state of a result whose run has not ended. A reader that finds it after the run must take it
/// for a failure.
pub const RUNNING: &str = "running";

/// State and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    state: String,
    exit_status: Option<u8>,
    reason: String,
    message: String,
    hint: String,
    retryable: bool,
}

impl Ending {
    /// Before the end.
    pub fn running() -> Self {
        Self {
            state: RUNNING.to_owned(),
            exit_status: None,
            reason: String::new(),
            message: "The run has not ended; if its process is gone, it was killed.".to_owned(),
            hint: "Go on with `turnkey resume`.".to_owned(),
            retryable: true,
        }
    }

    /// The end. `exit_status` is the one exit table.
    pub fn of(outcome: &Outcome, exit_status: impl Fn(State) -> u8) -> Self {
        Self {
            state: outcome.state.as_str().to_owned(),
            exit_status: Some(exit_status(outcome.state)),
            reason: outcome.reason.clone(),
            message: outcome.message.clone(),
            hint: outcome.hint.clone(),
            retryable: outcome.retryable,
        }
    }

    pub fn state(&self) -> &str {
        &self.state
    }

    pub fn exit_status(&self) -> Option<u8> {
        self.exit_status
    }

    pub fn reason(&self) -> &str {
        &self.reason
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn hint(&self) -> &str {
        &self.hint
    }

    pub fn retryable(&self) -> bool {
        self.retryable
    }
}

/// The record. The order of the fields is the order in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultRecord {
    pub schema: u64,
    pub run: String,
    pub session: String,
    #[serde(flatten)]
    pub ending: Ending,
    pub started: String,
    pub ended: Option<String>,
    pub duration_ms: u64,
    pub model: Option<String>,
    pub usage: UsageCounts,
    pub cost: Option<Cost>,
    pub steps: u32,
    pub tool_calls: ToolCalls,
    pub changed: bool,
    pub changed_files: Vec<ChangedFile>,
    /// What a diff cannot say: mode bits, empty folders, content of submodules.
    pub not_in_diff: Vec<String>,
    pub checks: Vec<Check>,
    pub denials: Vec<Denial>,
    /// Every hook of the run, those that never ran as well.
    pub hooks: Vec<HookRuns>,
    /// Commands that outlived their call, each with its end.
    pub processes: Vec<ProcessEnd>,
    /// Whole outputs of commands, where the policy keeps them.
    pub command_logs: Vec<CommandLog>,
    /// Grades clause by clause, as the sandbox reports them.
    pub sandbox: Value,
    pub digests: Digests,
    pub artifacts: ArtifactPaths,
    pub warnings: Vec<String>,
    /// Where each setting came from: `flag`, `env`, `spec`, `default`.
    pub sources: BTreeMap<String, String>,
}

impl ResultRecord {
    /// The record of a run that has just begun.
    pub fn running(run: &str, session: &str, started: &str) -> Self {
        Self {
            schema: SCHEMA,
            run: run.to_owned(),
            session: session.to_owned(),
            ending: Ending::running(),
            started: started.to_owned(),
            ended: None,
            duration_ms: 0,
            model: None,
            usage: UsageCounts::default(),
            cost: None,
            steps: 0,
            tool_calls: ToolCalls::default(),
            changed: false,
            changed_files: Vec::new(),
            not_in_diff: Vec::new(),
            checks: Vec::new(),
            denials: Vec::new(),
            hooks: Vec::new(),
            processes: Vec::new(),
            command_logs: Vec::new(),
            sandbox: Value::Null,
            digests: Digests::default(),
            artifacts: ArtifactPaths::default(),
            warnings: Vec::new(),
            sources: BTreeMap::new(),
        }
    }

    /// Sets the end.
    pub fn end(
        &mut self,
        outcome: &Outcome,
        ended: &str,
        duration_ms: u64,
        exit_status: impl Fn(State) -> u8,
    ) {
        self.ending = Ending::of(outcome, exit_status);
        self.ended = Some(ended.to_owned());
        self.duration_ms = duration_ms;
    }
}

/// Tokens, named as in the event stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageCounts {
    pub input_tokens: u64,
    pub cached_input_tokens: u64,
    pub output_tokens: u64,
    pub reasoning_output_tokens: u64,
    pub total_tokens: u64,
}

impl From<Usage> for UsageCounts {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input,
            cached_input_tokens: usage.cached,
            output_tokens: usage.output,
            reasoning_output_tokens: usage.reasoning,
            total_tokens: usage.total(),
        }
    }
}

/// Money, in the currency of the prices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub amount: f64,
    pub prices: Prices,
}

/// Per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    pub input: f64,
    pub cached: f64,
    pub output: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCalls {
    pub total: u64,
    pub failed: u64,
    pub denied: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    pub status: FileStatus,
    pub added: u64,
    pub removed: u64,
    /// Ids of the calls that changed it; `outside` where none did.
    pub by: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    pub phase: CheckPhase,
    pub attempt: u32,
    pub argv: Vec<String>,
    pub passed: bool,
    pub exit_code: Option<i32>,
    pub timed_out: bool,
    pub duration_ms: u64,
    /// Against the baseline, where there is one: `failing_before`, `fixed`, `newly_broken`, `passing_before`.
    pub against_baseline: Option<String>,
    pub output_tail: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    pub step: u32,
    pub call_id: Option<CallId>,
    pub action: String,
    pub argv: Vec<String>,
    pub rule: RuleRef,
    pub reason: String,
}

/// One hook and what it came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRuns {
    /// The point and its place there: `before_tool[0]`.
    pub hook: String,
    pub command: String,
    pub times: u64,
    /// Answers of `deny` or `block`.
    pub denials: u64,
    pub errors: u64,
    pub duration_ms: u64,
}

/// The whole output of one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLog {
    pub command: String,
    /// Name inside the artifacts folder; absent where nothing was kept.
    pub file: Option<String>,
    /// Bytes of output kept, and not kept.
    pub bytes: u64,
    pub cut: u64,
    /// Why less is kept than should be.
    pub fault: Option<String>,
}

/// SHA-256, in hex; empty where there is nothing to digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    pub policy: String,
    pub spec: String,
    pub rollout: String,
    pub diff: String,
    pub start_tree: String,
    pub end_tree: String,
}

/// Names inside the artifacts folder; absent ones were not made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactPaths {
    pub directory: String,
    pub rollout: Option<String>,
    pub diff: Option<String>,
    pub start_diff: Option<String>,
    pub last_message: Option<String>,
    pub summary: Option<String>,
    pub report: Option<String>,
}
