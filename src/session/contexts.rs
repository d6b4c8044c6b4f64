//! The two snapshots with their two lifetimes: frozen for a Turn, frozen for one sampling.

use super::SessionParts;
use super::cancel::TurnCancel;
use super::limits::Limits;
use super::reserve::Reserve;
use crate::context::WorldSnapshot;
use crate::model::RetryPolicy;
use crate::protocol::{Prompt, PromptOptions, SubmissionId, TurnId};
use crate::tools::ToolPlan;
use std::sync::Arc;

/// What the operator set for a Turn.
#[derive(Debug, Clone)]
pub struct TurnConfig {
    pub instructions: Arc<str>,
    pub options: PromptOptions,
    pub retry: RetryPolicy,
    pub limits: Limits,
    pub on_deny: crate::policy::OnDeny,
    pub base_url: Option<String>,
    pub untrusted: bool,
}

/// Frozen for the Turn: an old request stays consistent with itself.
pub struct TurnContext {
    pub turn: TurnId,
    pub submission: SubmissionId,
    pub config: TurnConfig,
    pub policy_digest: String,
    pub cancel: TurnCancel,
}

impl TurnContext {
    pub(super) fn new(
        parts: &SessionParts,
        turn: TurnId,
        submission: SubmissionId,
        cancel: TurnCancel,
    ) -> Self {
        Self {
            turn,
            submission,
            config: parts.config.clone(),
            policy_digest: parts.world.policy.digest().to_owned(),
            cancel,
        }
    }
}

/// Captured before each sampling and frozen for it: a new request sees the new world.
pub struct StepContext {
    /// Counts from 1 within the Turn.
    pub step: u32,
    pub world: WorldSnapshot,
    /// What is advertised and what executes, of one generation.
    pub plan: Arc<ToolPlan>,
    pub prompt: Prompt,
    /// Its share of the limits, where they count tokens.
    pub reserve: Option<Reserve>,
}
