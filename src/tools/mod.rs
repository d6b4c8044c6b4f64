//! What the model can do: one registry, one plan per Step, one life for every call.
//!
//! A [`Tool`] parses its arguments and asks the policy; what comes back is either a refusal or an
//! action that already holds its Permit. Running, masking, cutting and recording are the same for all
//! tools and happen in one place (`life`), so that nothing can have an effect before it was judged.

mod apply_patch;
mod arguments;
mod denials;
mod edit_file;
mod exec_command;
mod facts;
mod hooked;
mod life;
mod list_files;
mod look;
mod processes;
mod progress;
mod read_file;
mod registry;
mod update_plan;
mod world;
mod write_stdin;

pub use apply_patch::ApplyPatch;
pub use denials::{Origin, Reach};
pub use edit_file::EditFile;
pub use exec_command::ExecCommand;
pub use facts::{CallFacts, RuleCounts, WorldFacts};
pub use hooked::{HookObserver, HookPlace, ask_hook};
pub use life::{CallObserver, Halt, run_calls};
pub use list_files::ListFiles;
pub use look::{LateLook, Looks, late_looks, observe, settle_look};
pub use processes::{MAX_LIVE, Processes, Settled, end_all, last_words, settle};
pub use progress::{NamedFile, PatchWatch};
pub use read_file::ReadFile;
pub use registry::{Registry, ToolPlan, standard_tools, tool_names};
pub use update_plan::UpdatePlan;
pub use world::{ToolLimits, ToolWorld};
pub use write_stdin::WriteStdin;

use crate::protocol::{CallId, Effect, PlanItem, ResultKind, ToolPayload, ToolSpec, Verdict};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// One tool.
pub trait Tool: Send + Sync {
    fn spec(&self) -> ToolSpec;

    /// Calls of tools that only read may run at the same time; every other call runs alone.
    fn parallel(&self) -> bool {
        false
    }

    /// Parses the arguments and has every action judged. Must not touch anything.
    fn prepare(
        &self,
        payload: &ToolPayload,
        world: &Arc<ToolWorld>,
    ) -> Result<Prepared, ToolFailure>;
}

/// A call that has been parsed and judged.
pub enum Prepared {
    /// Reaches nothing outside the runner, so there is nothing to judge.
    Free(Action),
    Judged {
        verdict: Verdict,
        /// Present exactly when the verdict allows.
        action: Option<Action>,
        /// Whether the action may change anything: then the call is on disk before it starts.
        effect: bool,
    },
}

/// A permitted call, ready to run.
pub type Action = Box<dyn FnOnce(CallContext) -> BoxFuture<'static, ToolOutput> + Send>;

/// What an action may use.
pub struct CallContext {
    pub world: Arc<ToolWorld>,
    pub call_id: CallId,
    pub cancel: CancellationToken,
}

/// What a call gave, before masking and cutting.
#[derive(Debug, Default)]
pub struct ToolOutput {
    pub result: Option<ResultKind>,
    pub effect: Option<Effect>,
    pub text: String,
    pub exit_code: Option<i32>,
    /// A new plan, for `update_plan`.
    pub plan: Option<Vec<PlanItem>>,
    /// Things the operator should know.
    pub warnings: Vec<String>,
}

impl ToolOutput {
    pub fn new(result: ResultKind, effect: Effect, text: impl Into<String>) -> Self {
        Self { result: Some(result), effect: Some(effect), text: text.into(), ..Self::default() }
    }

    pub fn ok(text: impl Into<String>) -> Self {
        Self::new(ResultKind::Ok, Effect::None, text)
    }

    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(ResultKind::Failed, Effect::None, text)
    }
}

/// Why a call could not even be judged. The text is for the model: what, where, what instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFailure {
    pub result: ResultKind,
    pub text: String,
}

impl ToolFailure {
    pub fn bad_arguments(text: impl Into<String>) -> Self {
        Self { result: ResultKind::BadArguments, text: text.into() }
    }
}
