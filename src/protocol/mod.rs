//! The words of the house: what goes into a Session, what comes out, and what a Turn is made of.
//!
//! Plain data, no behaviour that touches the world, so every other room may import it.

mod event;
mod ids;
mod item;
mod op;
mod outcome;
mod prompt;
mod tool;
mod usage;
mod verdict;

pub use event::{
    CallCounts, Event, EventMsg, PlanItem, PlanStatus, ProcessEnd, TurnEnd, TurnSummary, Unmet,
};
pub use ids::{CallId, RunId, SessionId, SubmissionId, TurnId, synthetic_id};
pub use item::{Fragment, Item, Role, ToolCall, ToolPayload, ToolResult};
pub use op::{Op, Submission};
pub use outcome::{Outcome, Signal, State};
pub use prompt::{Items, Prompt, PromptOptions};
pub use tool::{Effect, ResultKind, ToolInput, ToolSpec};
pub use usage::Usage;
pub use verdict::{Decision, PartVerdict, RuleRef, Verdict};
