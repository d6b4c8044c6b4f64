//! A recorded run, run again: the same responses of the model, and the results either from the record
//! or from tools that really run in a copy of the recorded start. The answer is the first difference.

use super::find::FoundRun;
use super::folder::RunFolder;
use super::past::{Past, PastFold};
use super::prepare::{Refusal, RunInput};
use super::replay_live;
use super::resume::refused;
use super::run::{Controls, Face};
use super::trace::{Fact, Normal, facts, item_text, lines_that_differ};
use crate::context::{History, repaired};
use crate::model::{Divergence, RecordedResponse, ReplayModel};
use crate::protocol::{Fragment, Item, Outcome, State, TurnEnd};
use crate::rollout::{
    Entry, Reader, Record, RunStartedRecord, StepStartedRecord, TurnContextRecord,
};
use crate::session::Answered;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The fact that ends a Turn.
const END: &str = "end of the turn";

/// Where results come from.
pub enum Tools<'a> {
    /// From the record; folders for the run lie below these.
    Recorded(RunInput),
    /// From tools that run.
    Live(RunInput, &'a mut dyn Face, Controls),
}

/// What a replay came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replayed {
    pub run: String,
    pub tools: &'static str,
    /// Steps that were replayed.
    pub steps: u32,
    /// Things compared.
    pub compared: usize,
    pub difference: Option<Difference>,
    /// What is worth knowing and no difference.
    pub notes: Vec<String>,
}

/// The first difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub step: u32,
    pub what: String,
    /// Lines that differ: `-` recorded, `+` replayed.
    pub diff: String,
}

/// The Turn of one run, with what was before it.
pub(super) struct RecordedRun {
    pub started: Box<RunStartedRecord>,
    pub context: Box<TurnContextRecord>,
    pub task: String,
    /// The Turn began with the verification of the answer before it.
    pub answered: bool,
    pub records: Vec<Record>,
    pub before: Past,
}

impl RecordedRun {
    /// How the Turn ended; absent where it was killed.
    pub fn end(&self) -> Option<TurnEnd> {
        self.records.iter().rev().find_map(|record| match record {
            Record::TurnCompleted { .. } => Some(TurnEnd::Completed),
            Record::TurnAborted { reason, message, .. } => {
                Some(TurnEnd::Aborted { reason: reason.clone(), message: message.clone() })
            }
            Record::TurnFailed { reason, message, retryable, .. } => Some(TurnEnd::Failed {
                reason: reason.clone(),
                message: message.clone(),
                retryable: *retryable,
            }),
            _ => None,
        })
    }
}

/// The settings that a recorded run had, for whoever makes the input of its replay.
pub fn recorded_settings(found: &FoundRun) -> Result<Box<RunStartedRecord>, Refusal> {
    Ok(read(found)?.started)
}

/// Replays a run.
pub async fn replay(found: &FoundRun, tools: Tools<'_>) -> Result<Replayed, Refusal> {
    let recorded = Arc::new(read(found)?);
    match tools {
        Tools::Recorded(input) => super::replay_recorded::replay(recorded, input).await,
        Tools::Live(input, face, controls) => {
            replay_live::replay(found, recorded, input, face, controls).await
        }
    }
}

fn invalid(reason: &str, text: impl Into<String>) -> Refusal {
    Box::new(Outcome::new(State::Invalid, reason, text))
}

/// Reads the run that was named: by its id, else the last one of the record.
pub(super) fn read(found: &FoundRun) -> Result<RecordedRun, Refusal> {
    let path = &found.rollout;
    let last = super::find::last_run_in(path);
    let named = found.id.clone().filter(|id| holds_run(path, id));
    let Some(id) = named.or(last) else {
        return Err(invalid("replay.record", format!("{}: it holds no run", path.display())));
    };
    let mut before = PastFold::default();
    let mut started = None;
    let mut context = None;
    let mut task = None;
    let mut answered = false;
    let mut records = Vec::new();
    let mut inside = false;
    for entry in Reader::open(path).map_err(|error| refused(&error))? {
        let entry: Entry = entry.map_err(|error| refused(&error))?;
        if let Record::RunStarted(run) = &entry.record {
            if inside {
                break;
            }
            if run.run.as_str() == id {
                inside = true;
                started = Some(run.clone());
                continue;
            }
        }
        if !inside {
            before.take(entry);
            continue;
        }
        match entry.record {
            Record::TurnStarted { task: text, answered: by_record, .. } => {
                task = Some(text);
                answered = by_record;
            }
            Record::TurnContext(recorded) => context = Some(recorded),
            record => records.push(record),
        }
    }
    match (started, context, task) {
        (Some(started), Some(context), Some(task)) => {
            Ok(RecordedRun { started, context, task, answered, records, before: before.finish() })
        }
        _ => Err(invalid("replay.record", format!("the run {id} ended before its Turn began"))),
    }
}

fn holds_run(path: &Path, id: &str) -> bool {
    let Ok(reader) = Reader::open(path) else { return false };
    reader
        .flatten()
        .any(|entry| matches!(&entry.record, Record::RunStarted(run) if run.run.as_str() == id))
}

/// The items that stood before the task in this Turn: what the runner said first.
pub(super) fn opening(recorded: &RecordedRun) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for record in &recorded.records {
        match record {
            Record::Item { step: 0, item, .. } => items.push(item.as_ref().clone()),
            Record::StepStarted(_) | Record::Diff(_) | Record::Verified { .. } => break,
            _ => {}
        }
    }
    if recorded.answered {
        return items;
    }
    // The task itself is added by the Turn, and what is said after it by its ledger.
    let is_task =
        |item: &Item| matches!(item, Item::Message { fragment: Some(Fragment::Task), .. });
    items.truncate(items.iter().rposition(is_task).unwrap_or(items.len()));
    items
}

/// The model that answers from the record.
pub(super) fn model(recorded: &Arc<RecordedRun>, normal: &Normal) -> ReplayModel {
    let (responses, lengths) = responses(recorded);
    let source = recorded.clone();
    let mut history = source.before.history.clone();
    history.extend(recorded.records.iter().filter_map(|record| match record {
        Record::Item { item, .. } => Some(item.clone()),
        _ => None,
    }));
    let sent = move |number: usize| {
        let length = lengths.get(number).copied().unwrap_or(history.len());
        repaired(&history[..length.min(history.len())], &source.before.not_started)
    };
    let normal = normal.clone();
    ReplayModel::new(
        &recorded.context.model,
        recorded.context.instructions.clone(),
        recorded.context.tools.clone(),
        responses,
        Box::new(sent),
        Box::new(move |item| normal.item(item)),
    )
}

/// The complete responses of the Turn, and how many items the history had before each.
fn responses(recorded: &RecordedRun) -> (Vec<RecordedResponse>, Vec<usize>) {
    let mut responses: Vec<RecordedResponse> = Vec::new();
    let mut lengths = Vec::new();
    let mut length = recorded.before.history.len();
    let mut asked: Option<(&StepStartedRecord, usize)> = None;
    for record in &recorded.records {
        match record {
            Record::StepStarted(step) => asked = Some((step.as_ref(), length)),
            Record::Usage(usage) if usage.status == "completed" => {
                if let Some((step, length)) = asked.take() {
                    lengths.push(length);
                    responses.push(RecordedResponse {
                        step: step.step,
                        fingerprint: step.fingerprint.clone(),
                        items: Vec::new(),
                        usage: usage.usage,
                        response_id: usage.response_id.clone().unwrap_or_default(),
                        model: usage.model.clone().unwrap_or_default(),
                    });
                }
            }
            Record::Item { item, .. } => {
                length += 1;
                if let Some(response) = responses.last_mut().filter(|_| item.is_of_the_model()) {
                    response.items.push(item.as_ref().clone());
                }
            }
            _ => {}
        }
    }
    (responses, lengths)
}

/// The history that the Turn began with.
pub(super) fn history(recorded: &RecordedRun) -> History {
    let before = &recorded.before;
    History::recorded(before.history.clone(), before.not_started.clone())
}

/// The answer that the Turn began with, where it had one.
pub(super) fn answer(recorded: &RecordedRun) -> Option<Answered> {
    recorded.before.answer.clone().filter(|_| recorded.answered)
}

/// Compares the record with what the replay wrote.
pub(super) fn compare(
    recorded: &RecordedRun,
    replayed: &Path,
    divergence: Option<Divergence>,
    normal: &Normal,
    tools: &'static str,
) -> Result<Replayed, Refusal> {
    let mut again = Vec::new();
    let mut inside = false;
    for entry in Reader::open(replayed).map_err(|error| refused(&error))? {
        let record = entry.map_err(|error| refused(&error))?.record;
        inside |= matches!(record, Record::TurnContext(_));
        if inside {
            again.push(record);
        }
    }
    let plain = Normal::default();
    let mut then = facts(&recorded.records, &plain);
    let mut now = facts(&again, normal);
    if tools == "recorded" {
        // What is taken from the workspace after the Turn is no business of the runtime.
        up_to_the_end(&mut then);
        up_to_the_end(&mut now);
    }
    let mut answer = Replayed {
        run: recorded.started.run.to_string(),
        tools,
        steps: now.last().map_or(0, |fact| fact.step),
        compared: then.len().min(now.len()),
        difference: None,
        notes: Vec::new(),
    };
    let (then, now) = ends_apart(recorded, then, now, &mut answer.notes);
    answer.difference = first_difference(&then, &now);
    if answer.difference.is_none() {
        answer.difference = divergence.map(of_request);
    }
    Ok(answer)
}

/// A Turn that something outside cut short cannot be cut at the same moment again: then what comes
/// after the recorded end is no difference, and the end itself is told instead of compared.
fn ends_apart(
    recorded: &RecordedRun,
    mut then: Vec<Fact>,
    mut now: Vec<Fact>,
    notes: &mut Vec<String>,
) -> (Vec<Fact>, Vec<Fact>) {
    let outside = match recorded.end() {
        None => Some("the record ends without an end of the turn: the run was killed".to_owned()),
        Some(TurnEnd::Aborted { reason, message })
            if !["limit.", "policy.", "hook."].iter().any(|own| reason.starts_with(own))
                || reason == "limit.time" =>
        {
            Some(format!("the turn was cut short from outside: {message}"))
        }
        Some(TurnEnd::Failed { reason, message, .. }) if reason.starts_with("model.") => {
            Some(format!("the model failed there ({reason}): {message}"))
        }
        Some(TurnEnd::Failed { reason, message, .. }) if reason == "sandbox.protected" => {
            Some(format!("a protected place could not be put back there: {message}"))
        }
        _ => None,
    };
    let Some(why) = outside else { return (then, now) };
    notes.push(format!("{why}; compared up to there"));
    let cut = then.iter().position(|fact| fact.what == END).unwrap_or(then.len());
    then.truncate(cut);
    if let Some(end) = now.iter().position(|fact| fact.what == END)
        && now[end].text.ends_with("replay.over")
    {
        now.truncate(end);
    }
    // The call that was cut has no result in the record, or that of a cancelled one.
    let length = then.len().min(now.len());
    now.truncate(length);
    (then, now)
}

fn up_to_the_end(facts: &mut Vec<Fact>) {
    if let Some(end) = facts.iter().position(|fact| fact.what == END) {
        facts.truncate(end + 1);
    }
}

fn first_difference(then: &[Fact], now: &[Fact]) -> Option<Difference> {
    let at = (0..then.len().max(now.len())).find(|at| then.get(*at) != now.get(*at))?;
    let (recorded, replayed) = (then.get(at), now.get(at));
    let step = recorded.or(replayed).map_or(0, |fact| fact.step);
    let (what, diff) = match (recorded, replayed) {
        (Some(then), Some(now)) if then.what == now.what => {
            (then.what.clone(), lines_that_differ(&then.text, &now.text))
        }
        (Some(then), Some(now)) => (
            format!("{} where the record has {}", now.what, then.what),
            lines_that_differ(&then.text, &now.text),
        ),
        (Some(then), None) => {
            (format!("{} is missing", then.what), lines_that_differ(&then.text, ""))
        }
        (None, Some(now)) => {
            (format!("{} is not in the record", now.what), lines_that_differ("", &now.text))
        }
        (None, None) => return None,
    };
    Some(Difference { step, what, diff })
}

fn of_request(divergence: Divergence) -> Difference {
    let text = |item: Option<Arc<Item>>| item.map(|item| item_text(&item)).unwrap_or_default();
    Difference {
        step: divergence.step,
        what: divergence.what,
        diff: lines_that_differ(&text(divergence.recorded), &text(divergence.replayed)),
    }
}

/// The folder of a replay: gone when it is over.
pub(super) fn throw_away(folder: &RunFolder) {
    folder.remove_working_folders();
    super::folder::remove_tree(&folder.dir);
}

/// The rollout that a run writes in its folder.
pub(super) fn rollout_in(folder: &RunFolder) -> PathBuf {
    folder.dir.join("rollout.jsonl")
}
