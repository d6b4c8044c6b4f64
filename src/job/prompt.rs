//! The request of one recorded Step, put together again as it was sent.

use super::past::PastFold;
use crate::context::repaired;
use crate::protocol::{Item, ToolSpec, TurnId};
use crate::rollout::{Reader, Record, RolloutError};
use std::path::Path;
use std::sync::Arc;

/// What was asked of the model.
#[derive(Debug)]
pub struct SentPrompt {
    pub turn: TurnId,
    pub step: u32,
    pub fingerprint: String,
    pub model: String,
    pub instructions: Arc<str>,
    pub tools: Arc<[ToolSpec]>,
    pub items: Vec<Arc<Item>>,
}

/// The request of this Step in the last Turn that has one; `None` where there is none.
pub fn sent_prompt(path: &Path, step: u32) -> Result<Option<SentPrompt>, RolloutError> {
    let mut at = None;
    for entry in Reader::open(path)? {
        let entry = entry?;
        if let Record::StepStarted(started) = entry.record
            && started.step == step
        {
            at = Some((entry.seq, started));
        }
    }
    let Some((seq, started)) = at else { return Ok(None) };
    let mut fold = PastFold::default();
    for entry in Reader::open(path)? {
        let entry = entry?;
        if entry.seq >= seq {
            break;
        }
        fold.take(entry);
    }
    let past = fold.finish();
    let context = past.context.unwrap_or_default();
    Ok(Some(SentPrompt {
        turn: started.turn.clone(),
        step,
        fingerprint: started.fingerprint.clone(),
        model: context.model.clone(),
        instructions: context.instructions.clone(),
        tools: started.tools.clone().unwrap_or_else(|| context.tools.clone()),
        items: repaired(&past.history, &past.not_started),
    }))
}
