//! Changes to a record between runs: history cut back by whole Turns, or replaced by a short one
//! without asking a model. Both are added as a record; nothing is taken away.

use super::find::FoundRun;
use super::past::{Past, PastFold};
use super::resume::{in_words, refused};
use crate::context::Cap;
use crate::protocol::{Fragment, Item, Outcome, Role, State};
use crate::rollout::{CompactedRecord, HeldRollout, Masker, Record};
use serde_json::json;
use std::sync::Arc;

/// What became of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub items_before: usize,
    pub items_after: usize,
    pub turns_left: usize,
}

/// The last items that a compaction keeps as they are, at least.
const KEPT: usize = 20;

/// Cuts the last `turns` Turns off the history.
pub async fn roll_back(found: &FoundRun, turns: u32) -> Result<Edited, Box<Outcome>> {
    let (held, past) = open(found)?;
    let wanted = usize::try_from(turns).unwrap_or(usize::MAX);
    if turns == 0 || wanted > past.turns.len() {
        let text = format!(
            "{turns} Turns cannot be cut off: the history holds {} of them",
            past.turns.len()
        );
        return Err(Box::new(Outcome::new(State::Invalid, "rollout.rollback", text)));
    }
    let left = past.turns.len() - wanted;
    let to_seq = past.turns[left].before_seq;
    let items_after = items_up_to(found, to_seq)?;
    append(held, Record::RolledBack { turns, to_seq }).await?;
    Ok(Edited { items_before: past.history.len(), items_after, turns_left: left })
}

/// How many items the history has after going back to a record: recounted, not estimated.
fn items_up_to(found: &FoundRun, to_seq: u64) -> Result<usize, Box<Outcome>> {
    let mut fold = PastFold::default();
    let reader = crate::rollout::Reader::open(&found.rollout).map_err(|error| refused(&error))?;
    let mut last = None;
    for entry in reader {
        let entry = entry.map_err(|error| refused(&error))?;
        last = Some((entry.line, entry.seq, entry.ts.clone()));
        fold.take(entry);
    }
    if let Some((line, seq, ts)) = last {
        let record = Record::RolledBack { turns: 1, to_seq };
        fold.take(crate::rollout::Entry { line: line + 1, seq: seq + 1, ts, record });
    }
    Ok(fold.finish().history.len())
}

/// Replaces the history by its tasks, a summary of what was done, and its last items.
pub async fn compact(found: &FoundRun) -> Result<Edited, Box<Outcome>> {
    let (held, past) = open(found)?;
    let replacement = short_history(&past);
    let edited = Edited {
        items_before: past.history.len(),
        items_after: replacement.len(),
        turns_left: past.turns.len(),
    };
    if replacement.len() >= past.history.len() {
        let text = format!("the history has {} items, which is short already", past.history.len());
        return Err(Box::new(Outcome::new(State::Invalid, "rollout.compact", text)));
    }
    let record = CompactedRecord {
        step: past.turns.last().map_or(0, |turn| turn.steps),
        by: "local".into(),
        replaced: past.history.len() as u64,
        replacement,
        plan: past.plan.clone(),
        state: json!({ "changed": past.changed }),
    };
    append(held, Record::Compacted(Box::new(record))).await?;
    Ok(edited)
}

fn open(found: &FoundRun) -> Result<(HeldRollout, Past), Box<Outcome>> {
    let mut fold = PastFold::default();
    let (held, _) = HeldRollout::open(&found.rollout, &mut |entry| fold.take(entry))
        .map_err(|error| refused(&error))?;
    Ok((held, fold.finish()))
}

async fn append(held: HeldRollout, record: Record) -> Result<(), Box<Outcome>> {
    // What is written here was masked when it was first recorded.
    let masker = Arc::new(Masker::new(std::iter::empty::<(&str, &str)>()));
    let writer = held.writer(masker).map_err(|error| refused(&error))?;
    writer.append(record).await.map_err(|error| refused(&error))?;
    writer.close().await.map(drop).map_err(|error| refused(&error))
}

fn short_history(past: &Past) -> Vec<Arc<Item>> {
    let tail = tail_from(&past.history);
    let head = &past.history[..tail];
    let said = |item: &&Arc<Item>| {
        matches!(item.as_ref(), Item::Message { fragment: Some(fragment), .. }
            if matches!(fragment, Fragment::ProjectRules | Fragment::Permissions
                | Fragment::Environment | Fragment::Task))
    };
    let mut short: Vec<Arc<Item>> = head.iter().filter(said).cloned().collect();
    short.push(Arc::new(Item::ours(Role::Developer, Fragment::Interruption, summary(head, past))));
    short.extend(past.history[tail..].iter().cloned());
    short
}

/// Where the kept tail begins: before a message or a response, so that no call loses its result.
fn tail_from(history: &[Arc<Item>]) -> usize {
    let mut at = history.len().saturating_sub(KEPT);
    while at > 0 {
        let before = history[at - 1].as_ref();
        let first = history[at].as_ref();
        let begins = !matches!(first, Item::ToolResult(_))
            && matches!(before, Item::ToolResult(_) | Item::Message { .. });
        let between_calls = matches!(first, Item::ToolCall(_))
            && matches!(before, Item::ToolCall(_) | Item::Reasoning { .. });
        if begins && !between_calls {
            break;
        }
        at -= 1;
    }
    at
}

/// What was done, in lines: calls with how they ended, and what the model said last.
fn summary(head: &[Arc<Item>], past: &Past) -> String {
    const LINES: usize = 24 * 1024;
    let mut calls = String::new();
    for item in head {
        match item.as_ref() {
            Item::ToolCall(call) => calls.push_str(&format!("- {}\n", in_words(call))),
            Item::ToolResult(result) if !result.result.is_ok() => {
                let first = result.output.lines().next().unwrap_or_default();
                calls.push_str(&format!("  did not succeed: {}\n", Cap::head(first, 200)));
            }
            _ => {}
        }
    }
    let said = head.iter().rev().find_map(|item| match item.as_ref() {
        Item::Message { role: Role::Assistant, text, .. } => Some(Cap::head(text, 4096)),
        _ => None,
    });
    let changed: Vec<&str> = past.changed.iter().map(String::as_str).collect();
    format!(
        "<compacted>\nWhat came before was left out to save space. Files changed so far: {}\n\
         Calls made, oldest first:\n{}{}\n</compacted>",
        if changed.is_empty() { "none that are known".to_owned() } else { changed.join(", ") },
        Cap::middle(&calls, LINES),
        said.map(|text| format!("Last said: {text}")).unwrap_or_default()
    )
}
