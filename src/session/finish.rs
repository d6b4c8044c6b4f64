//! The end of a Turn as the runner sees it: what the model says is done must hold.

use super::ReplayedWorld;
use super::turn::{Turn, failed};
use crate::protocol::{EventMsg, TurnEnd, Unmet};
use crate::rollout::Record;
use crate::verify::{VerifyEvent, VerifyFailure};
use tokio::sync::mpsc;

/// Takes the Turn diff, holds it against the operator's demands and runs the checks. What is left
/// unmet goes back to the model or into the outcome.
pub(super) async fn verify(turn: &Turn, attempt: u32) -> Result<Vec<Unmet>, TurnEnd> {
    let unmet = match turn.parts.replayed.clone() {
        Some(replayed) => look_up(turn, attempt, &replayed).await?,
        None => run(turn, attempt).await?,
    };
    let verified = Record::Verified { attempt, unmet: unmet.clone() };
    turn.emitter.record(verified).await.map_err(failed)?;
    Ok(unmet)
}

/// What the record says this verification came to.
async fn look_up(
    turn: &Turn,
    attempt: u32,
    replayed: &ReplayedWorld,
) -> Result<Vec<Unmet>, TurnEnd> {
    let Some(recorded) = replayed.next_attempt() else {
        return Err(TurnEnd::Failed {
            reason: "replay.over".into(),
            message: "the record has no further verification".into(),
            retryable: false,
        });
    };
    if let Some(diff) = recorded.diff {
        pass_on(turn, attempt, VerifyEvent::Diff(diff)).await?;
    }
    for check in recorded.checks {
        pass_on(turn, attempt, VerifyEvent::Done(check)).await?;
    }
    Ok(recorded.unmet)
}

async fn run(turn: &Turn, attempt: u32) -> Result<Vec<Unmet>, TurnEnd> {
    let (sender, mut notes) = mpsc::channel(super::QUEUE);
    let verifying =
        turn.parts.verifier.verify(&turn.parts.world, attempt, turn.context.cancel.token(), sender);
    let passing_on = async {
        let mut broken = Ok(());
        while let Some(note) = notes.recv().await {
            broken = broken.and(pass_on(turn, attempt, note).await);
        }
        broken
    };
    let (unmet, recorded) = tokio::join!(verifying, passing_on);
    recorded?;
    match unmet {
        Ok(unmet) => Ok(unmet),
        Err(VerifyFailure::Cancelled) => Err(turn.aborted()),
        Err(VerifyFailure::Broken { reason, message }) => {
            Err(TurnEnd::Failed { reason, message, retryable: false })
        }
    }
}

async fn pass_on(turn: &Turn, attempt: u32, note: VerifyEvent) -> Result<(), TurnEnd> {
    match note {
        VerifyEvent::Started { name } => {
            turn.emit(EventMsg::VerifyStarted { attempt, name }).await;
        }
        VerifyEvent::Done(check) => {
            let msg = EventMsg::VerifyDone {
                attempt,
                name: check.name.clone(),
                argv: check.argv.clone(),
                passed: check.passed,
                exit_code: check.exit_code,
                timed_out: check.timed_out,
                output_tail: check.output_tail.clone(),
                duration_ms: check.duration_ms,
            };
            turn.emitter.record(Record::Verification(check)).await.map_err(failed)?;
            turn.emit(msg).await;
        }
        VerifyEvent::Diff(record) => {
            let files = u32::try_from(record.files.len()).unwrap_or(u32::MAX);
            let msg = EventMsg::Diff { files, added: record.added, removed: record.removed };
            turn.emitter.record(Record::Diff(record)).await.map_err(failed)?;
            turn.emit(msg).await;
        }
        VerifyEvent::Warning(text) => turn.emit(EventMsg::Warning { text }).await,
    }
    Ok(())
}
