//! The project's own checks, run by the runner in the sandbox.

use super::{VerifyEvent, VerifyFailure, send};
use crate::clock;
use crate::context::Cap;
use crate::exec::{OperatorCommand, ProcessEnd, RunLimits, UNREAD};
use crate::protocol::Unmet;
use crate::rollout::{CheckPhase, CheckRecord};
use crate::tools::{Origin, ToolWorld};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A command that must succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    pub run: String,
    pub timeout: Duration,
}

/// Bytes of output that the record and the model get.
const OUTPUT: usize = 16 * 1024;

impl Check {
    /// Runs the check; `Some` where it failed.
    pub(super) async fn run(
        &self,
        world: &Arc<ToolWorld>,
        attempt: u32,
        cancel: &CancellationToken,
        notes: &mpsc::Sender<VerifyEvent>,
    ) -> Result<Option<Unmet>, VerifyFailure> {
        if cancel.is_cancelled() {
            return Err(VerifyFailure::Cancelled);
        }
        send(notes, VerifyEvent::Started { name: self.name.clone() }).await;
        // A check may be the first thing that runs at all; what it changes must be seen.
        world
            .with_workspace(|workspace| {
                workspace.capture_start()?;
                workspace.watch_protected()
            })
            .await
            .map_err(|error| VerifyFailure::broken("workspace.capture", error.to_string()))?;
        let command = OperatorCommand {
            name: self.name.clone(),
            script: self.run.clone(),
            cwd: world.root().to_owned(),
            network: world.policy.default_network().clone(),
        };
        let permit = command.permit();
        let origin = Origin::of(&permit);
        let limits = RunLimits { timeout: self.timeout, output: OUTPUT };
        let start = clock::now();
        let finished = world.checks.run(permit, limits, cancel).await;
        self.put_protected_back(world, notes).await?;
        let finished = finished.map_err(|error| {
            VerifyFailure::broken(
                "sandbox.check",
                format!("the check {:?} could not be run: {error}", self.name),
            )
        })?;
        if finished.end == ProcessEnd::Cancelled {
            return Err(VerifyFailure::Cancelled);
        }
        let (exit_code, how) = match finished.end {
            ProcessEnd::Exited(code) => (Some(code), format!("ended with exit code {code}")),
            ProcessEnd::Signaled(signal) => {
                (Some(128 + signal), format!("was killed by signal {signal}"))
            }
            ProcessEnd::TimedOut | ProcessEnd::Cancelled => {
                (None, format!("did not end within {}", clock::human(self.timeout)))
            }
        };
        let text = finished.output.text_with(|head, tail| world.masker.mask_cut(head, tail));
        let passed = exit_code == Some(0);
        let denials = if passed { None } else { world.denials(&text, &origin, Vec::new) };
        let text = if finished.unread { format!("{text}\n[{UNREAD}]\n") } else { text };
        let text = match denials {
            Some(told) => format!("{text}\n{told}\n"),
            None => text,
        };
        let output = world.masker.mask(&text).into_owned();
        let record = CheckRecord {
            attempt,
            phase: CheckPhase::Workspace,
            name: self.name.clone(),
            argv: vec![self.run.clone()],
            passed,
            exit_code,
            timed_out: finished.end == ProcessEnd::TimedOut,
            output_tail: output.clone(),
            duration_ms: clock::millis_since(start),
            changed: Vec::new(),
        };
        send(notes, VerifyEvent::Done(Box::new(record))).await;
        if passed {
            return Ok(None);
        }
        let message = format!("the check {:?} {how}", self.name);
        let detail = format!("{message} ({})\n{}", self.run, Cap::middle(&output, OUTPUT));
        Ok(Some(Unmet { reason: "verify.command".into(), message, detail }))
    }

    /// A check runs what the model wrote: it leaves protected places alone like a command, or they are put
    /// back. All that it started has ended.
    async fn put_protected_back(
        &self,
        world: &Arc<ToolWorld>,
        notes: &mpsc::Sender<VerifyEvent>,
    ) -> Result<(), VerifyFailure> {
        let undone = world.with_workspace(|workspace| workspace.put_protected_back()).await;
        let undone = undone.map_err(|error| {
            world.breached(error.to_string());
            VerifyFailure::broken("sandbox.protected", error.to_string())
        })?;
        if !undone.is_empty() {
            let text = format!(
                "the check {:?} changed protected files, which are put back: {}",
                self.name,
                undone.join("; ")
            );
            send(notes, VerifyEvent::Warning(text)).await;
        }
        Ok(())
    }
}
