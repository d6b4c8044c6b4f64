//! Commands that outlive their call, as the Turn sees them: their ends are recorded and told, and none
//! of them outlives the Turn.

use super::turn::{Turn, failed};
use super::{Memory, world};
use crate::context;
use crate::protocol::{EventMsg, TurnEnd};
use crate::rollout::{ProcessEndedRecord, Record};
use crate::tools::{self, Settled};

/// Records and tells every end since the last time.
pub(super) async fn settle(turn: &Turn) -> Result<(), TurnEnd> {
    let settled = tools::settle(&turn.parts.world).await;
    tell(turn, settled).await
}

/// Ends whatever still runs, and records it; what walks of the workspace are under way are waited for.
pub(super) async fn end_all(turn: &mut Turn) -> Result<(), TurnEnd> {
    let by = if turn.context.cancel.is_cancelled() { "cancelled" } else { "turn_end" };
    let settled = tools::end_all(&turn.parts.world, by).await;
    tools::settle_look(&turn.parts.world).await;
    world::take_late_looks(turn).await;
    tell(turn, settled).await
}

/// Tells the model once a Turn what still runs when it ends; true where there was something to tell. A
/// Turn that has no Step left is not held open for it.
pub(super) async fn tell_the_model(turn: &mut Turn, memory: &mut Memory) -> Result<bool, TurnEnd> {
    if turn.told_processes || turn.ledger.before_step(&turn.context.config.limits).is_err() {
        return Ok(false);
    }
    let commands = tools::last_words(&turn.parts.world);
    if commands.is_empty() {
        return Ok(false);
    }
    turn.told_processes = true;
    turn.add_item(memory, context::live_processes(&commands), None).await?;
    Ok(true)
}

async fn tell(turn: &Turn, settled: Vec<Settled>) -> Result<(), TurnEnd> {
    for Settled { process, warnings } in settled {
        let record = record(turn.ledger.steps, &process);
        turn.emitter.record(record).await.map_err(failed)?;
        turn.emit(EventMsg::ProcessEnded { process }).await;
        for text in warnings {
            turn.emit(EventMsg::Warning { text }).await;
        }
    }
    Ok(())
}

fn record(step: u32, process: &crate::protocol::ProcessEnd) -> Record {
    Record::ProcessEnded(Box::new(ProcessEndedRecord {
        step,
        session_id: process.session_id,
        call_id: Some(process.call_id.clone()),
        argv: vec![process.command.clone()],
        exit_code: process.exit_code,
        signal: process.signal,
        ended_by: process.ended_by.clone(),
        output_bytes: process.output_bytes,
        duration_ms: process.duration_ms,
    }))
}
