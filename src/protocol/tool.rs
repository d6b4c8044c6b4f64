//! Tools as the model sees them, and the closed words for how a call went.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// What the model is told about one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: Arc<str>,
    pub description: Arc<str>,
    pub input: ToolInput,
}

/// How the arguments of a tool are written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolInput {
    /// A JSON object by this JSON Schema (strict: every property required, none besides).
    Json(Value),
    /// Free text by a grammar (Lark), where the model takes such tools. `property` names the one
    /// string property under which the same text travels where it does not.
    Freeform { grammar: Arc<str>, property: Arc<str> },
}

/// What a call did to the world, as far as we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing changed and nothing ran.
    None,
    /// It ran; what it changed is in the Turn diff.
    Done,
    /// It was started and we did not see its end.
    Unknown,
}

/// How a call ended. Closed: a new kind is a change of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultKind {
    /// It ran and reported success.
    Ok,
    /// It ran and reported failure (a command with a non-zero exit status, a patch that does not match).
    Failed,
    /// No tool of this name in the ToolPlan.
    UnknownTool,
    /// The arguments do not parse or do not fit the schema.
    BadArguments,
    /// The policy said no.
    Denied,
    /// It ran into its time limit and was ended.
    TimedOut,
    /// It was running when the Turn was cancelled.
    Cancelled,
    /// It had not started when the Turn ended.
    Aborted,
    /// The tool itself broke (a panic): our bug, told as such, never the end of the run.
    Internal,
}

impl ResultKind {
    pub fn is_ok(self) -> bool {
        self == Self::Ok
    }
}
