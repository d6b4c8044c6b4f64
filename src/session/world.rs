//! What the model is told of the tree before it is asked.

use super::turn::{Turn, failed};
use super::{Memory, ReplayedWorld};
use crate::context::WorldSnapshot;
use crate::protocol::{EventMsg, TurnEnd};
use crate::rollout::Record;
use crate::tools;
use std::collections::BTreeMap;

/// The section of what was put back. A record that holds nothing else stands at a Turn's end, and the model
/// was not told it.
const UNDONE: &str = "undone";

/// Looks at the world, and tells what is new in it.
pub(super) async fn tell(turn: &mut Turn, memory: &mut Memory) -> Result<WorldSnapshot, TurnEnd> {
    match turn.parts.replayed.clone() {
        Some(replayed) => look_up(turn, memory, &replayed).await,
        None => look(turn, memory).await,
    }
}

/// What the record says was seen at this Step.
async fn look_up(
    turn: &Turn,
    memory: &mut Memory,
    replayed: &ReplayedWorld,
) -> Result<WorldSnapshot, TurnEnd> {
    if let Some(look) = replayed.looks.get(&turn.ledger.steps) {
        let record = Record::WorldState {
            step: turn.ledger.steps,
            full: look.full,
            sections: look.sections.clone(),
        };
        turn.emitter.record(record).await.map_err(failed)?;
        turn.add_item(memory, look.item.as_ref().clone(), None).await?;
    }
    Ok(WorldSnapshot::default())
}

async fn look(turn: &mut Turn, memory: &mut Memory) -> Result<WorldSnapshot, TurnEnd> {
    let observed = tools::observe(&turn.parts.world).await;
    take_late_looks(turn).await;
    let masker = &turn.parts.world.masker;
    let mask = |text: String| masker.mask(&text).into_owned();
    let undone = turn.undone.iter().cloned().map(mask).collect();
    let observed = match observed {
        Ok(observed) => WorldSnapshot {
            git: observed.git,
            outline: mask(observed.outline),
            changed: observed.changed.into_iter().map(|(path, how)| (mask(path), how)).collect(),
            undone,
        },
        Err(error) => {
            let text = format!("the workspace could not be observed: {error}");
            turn.emit(EventMsg::Warning { text }).await;
            WorldSnapshot { undone, ..WorldSnapshot::default() }
        }
    };
    if let Some(item) = memory.world_told.render(&observed) {
        let mut sections = BTreeMap::from([
            ("git".to_owned(), serde_json::json!(observed.git)),
            ("changed".to_owned(), serde_json::json!(observed.changed)),
        ]);
        if !observed.undone.is_empty() {
            sections.insert(UNDONE.to_owned(), serde_json::json!(observed.undone));
        }
        let full = turn.ledger.steps == 1;
        let record = Record::WorldState { step: turn.ledger.steps, full, sections };
        turn.emitter.record(record).await.map_err(failed)?;
        turn.add_item(memory, item, None).await?;
        memory.world_told.told(observed.clone());
        turn.undone.clear();
    }
    Ok(observed)
}

/// At a Turn's end: what was put back, and not told the model any more, is recorded for whoever goes on.
pub(super) async fn record_undone(turn: &Turn) -> Result<(), TurnEnd> {
    if turn.undone.is_empty() || turn.parts.replayed.is_some() {
        return Ok(());
    }
    let mask = |line: &String| turn.parts.world.masker.mask(line).into_owned();
    let undone: Vec<String> = turn.undone.iter().map(mask).collect();
    let sections = BTreeMap::from([(UNDONE.to_owned(), serde_json::json!(undone))]);
    let record = Record::WorldState { step: turn.ledger.steps, full: false, sections };
    turn.emitter.record(record).await.map_err(failed)
}

/// Warns of what walks found that went on beside other work, and keeps it for the model.
pub(super) async fn take_late_looks(turn: &mut Turn) {
    for late in tools::late_looks(&turn.parts.world).await {
        for text in late.warnings() {
            turn.emit(EventMsg::Warning { text }).await;
        }
        turn.undone.extend(late.told());
    }
}
