//! Items: the complete units of a Session's history.

use super::ids::CallId;
use super::tool::{Effect, ResultKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The operator and this runner.
    Developer,
    User,
    Assistant,
}

/// What a message of ours is, so that compaction, resume and fingerprints can treat it by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fragment {
    ProjectRules,
    Permissions,
    /// Clock, paths of this run and the like: volatile, left out of prompt fingerprints.
    Environment,
    WorldState,
    Task,
    /// What the checks said, sent back as the next message of the same Turn.
    CheckFeedback,
    /// Steps or tokens left: volatile, left out of prompt fingerprints.
    Budget,
    Interruption,
    /// What a hook of the operator's has to say.
    Hook,
    /// Commands that still run when the model ends the Turn: volatile, since what they printed by then
    /// depends on how fast they are.
    Processes,
}

impl Fragment {
    /// Volatile fragments differ between two runs of the same task; fingerprints leave them out.
    pub fn is_volatile(self) -> bool {
        matches!(self, Self::Environment | Self::Budget | Self::Processes)
    }
}

/// One unit of history. Serialised as it stands into the rollout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Item {
    Message {
        role: Role,
        text: String,
        /// Set for messages that this runner wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fragment: Option<Fragment>,
        /// The provider's own form, sent back verbatim where the same provider reads it again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Value>,
    },
    /// The model's reasoning. `raw` holds what the provider wants back verbatim (encrypted content,
    /// signatures), `text` the readable summary, possibly empty.
    Reasoning {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Value>,
    },
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    /// An output item of a type this version does not know: kept and sent back verbatim.
    Unknown {
        raw: Value,
    },
}

/// A call the model made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub call_id: CallId,
    pub name: String,
    pub payload: ToolPayload,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
}

/// The arguments exactly as the model wrote them; parsing is the tool's business.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolPayload {
    /// JSON text of a function tool; may be broken.
    Json(String),
    /// Text of a freeform (grammar) tool.
    Text(String),
}

impl ToolPayload {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Json(text) | Self::Text(text) => text,
        }
    }
}

/// The one result of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub call_id: CallId,
    pub name: String,
    pub result: ResultKind,
    pub effect: Effect,
    /// What the model reads; masked and cut.
    pub output: String,
    /// The exit status of a command, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    /// True when the call itself was freeform, so that its output goes back in the same form.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub freeform: bool,
}

impl ToolResult {
    /// A denial in one line.
    pub fn denial(&self) -> String {
        format!("{}: {}", self.name, self.output.lines().next().unwrap_or_default())
    }
}

impl Item {
    /// Bytes of text in it that a model reads; what a provider hides from us counts as nothing.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Message { text, .. } | Self::Reasoning { text, .. } => text.len(),
            Self::ToolCall(call) => call.name.len() + call.payload.as_str().len(),
            Self::ToolResult(result) => result.output.len(),
            Self::Unknown { .. } => 0,
        }
    }

    /// Whether it is part of a response of the model.
    pub fn is_of_the_model(&self) -> bool {
        match self {
            Self::Message { role, fragment, .. } => *role == Role::Assistant && fragment.is_none(),
            Self::Reasoning { .. } | Self::ToolCall(_) | Self::Unknown { .. } => true,
            Self::ToolResult(_) => false,
        }
    }

    /// A message of ours.
    pub fn ours(role: Role, fragment: Fragment, text: impl Into<String>) -> Self {
        Self::Message { role, text: text.into(), fragment: Some(fragment), raw: None }
    }
}
