//! Done needs outside evidence: the Turn diff with its proof, the operator's demands, and the
//! project's own checks, all by the runner and none by the model.

mod checks;
mod demands;
mod evidence;

pub use checks::Check;
pub use demands::{Demands, Expect};
pub use evidence::{Evidence, take};

use crate::protocol::Unmet;
use crate::rollout::{CheckRecord, DiffRecord};
use crate::tools::ToolWorld;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What verification reports while it happens.
#[derive(Debug)]
pub enum VerifyEvent {
    Started { name: String },
    Done(Box<CheckRecord>),
    Diff(Box<DiffRecord>),
    Warning(String),
}

/// Why verification could not come to an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyFailure {
    Cancelled,
    Broken { reason: String, message: String },
}

impl VerifyFailure {
    fn broken(reason: &str, message: impl Into<String>) -> Self {
        Self::Broken { reason: reason.into(), message: message.into() }
    }
}

/// What must hold at the end of a Turn.
#[derive(Debug, Default)]
pub struct Verifier {
    pub demands: Demands,
    pub checks: Vec<Check>,
    /// Feedbacks to the model at the most.
    pub attempts: u32,
}

impl Verifier {
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Everything that does not hold, in the order of the contract: the diff and its proof, limits on
    /// change and expectations, then the checks.
    pub async fn verify(
        &self,
        world: &Arc<ToolWorld>,
        attempt: u32,
        cancel: &CancellationToken,
        notes: mpsc::Sender<VerifyEvent>,
    ) -> Result<Vec<Unmet>, VerifyFailure> {
        let evidence = self.evidence(world).await?;
        if let Some(why) = &evidence.disproved {
            return Err(VerifyFailure::broken("internal.diff_proof", why.clone()));
        }
        send(&notes, VerifyEvent::Diff(Box::new(evidence.record.clone()))).await;
        let mut demands = self.demands.clone();
        let mut record = evidence.record.clone();
        let ends = evidence.ends_of(&demands.carried);
        let mut unmet = world
            .with_workspace(move |workspace| {
                let back = demands.put_back(&ends, workspace)?;
                record.files.retain(|file| !back.contains(&file.path));
                Ok(demands.unmet(&record, workspace))
            })
            .await
            .map_err(|error| VerifyFailure::broken("workspace.read", error.to_string()))?;
        for check in &self.checks {
            unmet.extend(check.run(world, attempt, cancel, &notes).await?);
        }
        if !self.checks.is_empty() {
            self.undo_changes_of_checks(world, evidence, &notes).await?;
        }
        Ok(unmet)
    }

    async fn evidence(&self, world: &Arc<ToolWorld>) -> Result<Evidence, VerifyFailure> {
        world
            .with_workspace(evidence::take)
            .await
            .map_err(|error| VerifyFailure::broken("workspace.diff", error.to_string()))
    }

    /// A check says whether the work is good; it does not add to the work. What it changed is told
    /// and put back, so that the diff stays what the Turn made.
    async fn undo_changes_of_checks(
        &self,
        world: &Arc<ToolWorld>,
        before: Evidence,
        notes: &mpsc::Sender<VerifyEvent>,
    ) -> Result<(), VerifyFailure> {
        let undone = world
            .with_workspace(move |workspace| {
                let mut undone = workspace.take_new_intruders_away()?;
                undone.extend(before.put_back(workspace)?);
                Ok(undone)
            })
            .await
            .map_err(|error| {
                world.breached(error.to_string());
                VerifyFailure::broken("workspace.restore", error.to_string())
            })?;
        if !undone.is_empty() {
            let text = format!("the checks changed files; undone: {}", undone.join(", "));
            send(notes, VerifyEvent::Warning(text)).await;
        }
        Ok(())
    }
}

/// Whoever listens is on the same Turn; if it is gone, so is the Turn.
async fn send(notes: &mpsc::Sender<VerifyEvent>, event: VerifyEvent) {
    let _ = notes.send(event).await;
}
