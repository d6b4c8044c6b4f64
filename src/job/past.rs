//! What a record says has happened: the state of a Session, folded out of its records in order.
//!
//! Nothing is repaired here. A call without a result stays without one; what is known of it (whether
//! it can have begun) is told beside the history, for the copy that is sent.

use crate::protocol::{
    CallCounts, CallId, Fragment, Item, PlanItem, ResultKind, Role, ToolCall, TurnEnd, TurnId,
    Verdict,
};
use crate::rollout::{
    Entry, ReadReport, Reader, Record, RolloutError, RunFinishedRecord, RunStartedRecord,
    TurnContextRecord, WorkspaceIdentity,
};
use crate::session::Answered;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// Tools that change nothing: without a result, nothing is unknown of them.
const READING: &[&str] = &["read_file", "list_files", "search", "view_image", "update_plan"];

/// A Session as its record tells it.
#[derive(Debug, Default)]
pub struct Past {
    /// How the last run was set up.
    pub run: Option<Box<RunStartedRecord>>,
    pub context: Option<Box<TurnContextRecord>>,
    /// How the last run ended; absent where it was killed.
    pub finished: Option<Box<RunFinishedRecord>>,
    /// What the model has seen, compactions and rollbacks taken into account.
    pub history: Vec<Arc<Item>>,
    /// Turns whose items are still in the history, oldest first.
    pub turns: Vec<PastTurn>,
    /// Calls without a result that can have taken effect, where the model was not told of them yet.
    pub unknown: Vec<ToolCall>,
    /// Calls without a result that certainly did not begin.
    pub not_started: HashSet<CallId>,
    /// Those of them that the model was not told of yet.
    pub unbegun: Vec<ToolCall>,
    /// Paths that the Turns so far have changed, as far as the record knows.
    pub changed: BTreeSet<String>,
    /// Protected places that were put back after the model was asked for the last time.
    pub undone: Vec<String>,
    /// Id of the tree that the last Turn left, where its end was recorded.
    pub end_tree: Option<String>,
    /// The commit that the Session began from, empty without git.
    pub base_commit: String,
    /// What did not hold after the last Turn.
    pub unmet: Vec<String>,
    pub plan: Vec<PlanItem>,
    /// The final message that the record ends with, nothing having been said to the model since.
    pub answer: Option<Answered>,
    /// What the last Turn was to do, where it was killed before the model was told.
    pub untold_task: Option<String>,
    pub last_seq: u64,
}

/// One Turn of the past.
#[derive(Debug, Clone)]
pub struct PastTurn {
    pub turn: TurnId,
    pub task: String,
    /// The record before it; a rollback goes back to here.
    pub before_seq: u64,
    /// Absent where it was killed.
    pub end: Option<TurnEnd>,
    pub steps: u32,
}

/// The last response, as far as the record holds it.
#[derive(Debug)]
struct LastResponse {
    /// Items of it that did not come yet.
    missing: u32,
    asks: bool,
}

impl Past {
    /// The last Turn, if it was cut short, with the reason in words.
    pub fn cut_short(&self) -> Option<String> {
        let turn = self.turns.last()?;
        match &turn.end {
            None if self.answer.is_some() => Some("it was killed after its final message".into()),
            None if turn.steps == 0 => Some("it was killed before its first step".into()),
            None => Some(format!("it was killed in step {}", turn.steps)),
            Some(TurnEnd::Completed) => None,
            Some(
                TurnEnd::Aborted { reason, message } | TurnEnd::Failed { reason, message, .. },
            ) => Some(format!("{reason}: {message}")),
        }
    }

    /// Whether the answer is all that the model has to say: what ended the run after it, if anything
    /// did, was not what the model had done.
    pub fn answer_stands(&self) -> bool {
        const NOT_THE_MODELS: &[&str] =
            &["completed", "changes_found", "interrupted", "timed_out", "unavailable", "internal"];
        let by_others = self
            .finished
            .as_ref()
            .is_none_or(|finished| NOT_THE_MODELS.contains(&finished.state.as_str()));
        self.answer.is_some() && by_others
    }

    /// Reads the record up to the end, or up to the run `before`, which is left out.
    pub fn read(path: &Path, before: Option<&str>) -> Result<(Self, ReadReport), RolloutError> {
        let mut reader = Reader::open(path)?;
        let mut fold = PastFold::default();
        let mut stopped = false;
        for entry in &mut reader {
            let entry = entry?;
            if let Record::RunStarted(started) = &entry.record {
                stopped |= before == Some(started.run.as_str());
            }
            if !stopped {
                fold.take(entry);
            }
        }
        let report = reader.into_report();
        if report.lines == 0 {
            return Err(RolloutError::Empty { path: path.to_owned() });
        }
        Ok((fold.finish(), report))
    }
}

/// An item with the number of the record that brought it.
type Numbered = (u64, Arc<Item>);

/// Takes records one by one; memory is that of the history.
#[derive(Default)]
pub struct PastFold {
    past: Past,
    items: Vec<Numbered>,
    /// What each compaction replaced, so that a rollback can go behind it.
    replaced: Vec<(u64, Vec<Numbered>)>,
    /// Verdicts of calls that have no result yet.
    verdicts: HashMap<CallId, Verdict>,
    /// What the last look at the world, or the last diff, said of the Turn at hand.
    changed_now: BTreeSet<String>,
    /// The way from the repository's root to the workspace, which paths of a diff begin with.
    prefix: String,
    response: Option<LastResponse>,
    /// The last record that told the model of calls without a result.
    told_at: u64,
    /// What the calls of the Turn came to.
    calls: CallCounts,
    first_denial: Option<String>,
}

fn prefix_of(workspace: &WorkspaceIdentity) -> String {
    let repository = workspace.repository_root.as_deref().unwrap_or(&workspace.root);
    match Path::new(&workspace.root).strip_prefix(repository) {
        Ok(inside) if !inside.as_os_str().is_empty() => format!("{}/", inside.display()),
        _ => String::new(),
    }
}

impl PastFold {
    pub fn take(&mut self, entry: Entry) {
        let Entry { seq, record, .. } = entry;
        match record {
            Record::RunStarted(started) => {
                if self.past.run.is_none() {
                    self.past.base_commit = started.workspace.head.clone().unwrap_or_default();
                }
                self.prefix = prefix_of(&started.workspace);
                self.past.untold_task = Some(started.task.clone()).filter(|task| !task.is_empty());
                self.past.run = Some(started);
                self.past.finished = None;
            }
            Record::TurnStarted { turn, task, answered, .. } => {
                self.keep_changed();
                if answered {
                    self.past.untold_task = None;
                } else {
                    self.past.untold_task = Some(task.clone());
                    self.forget_answer();
                }
                self.past.unmet.clear();
                self.past.end_tree = None;
                self.past.turns.push(PastTurn {
                    turn,
                    task,
                    before_seq: seq.saturating_sub(1),
                    end: None,
                    steps: 0,
                });
            }
            Record::TurnContext(context) => self.past.context = Some(context),
            Record::StepStarted(step) => {
                self.past.undone.clear();
                if let Some(turn) = self.past.turns.last_mut() {
                    turn.steps = step.step;
                }
            }
            Record::WorldState { sections, .. } => {
                let changed = sections.get("changed").and_then(serde_json::Value::as_object);
                let prefix = &self.prefix;
                let paths =
                    changed.into_iter().flatten().map(|(path, _)| format!("{prefix}{path}"));
                self.changed_now.extend(paths);
                if !sections.contains_key("git") {
                    let undone = sections.get("undone").and_then(serde_json::Value::as_array);
                    let lines = undone.into_iter().flatten().filter_map(|line| line.as_str());
                    self.past.undone.extend(lines.map(str::to_owned));
                }
            }
            Record::Item { item, .. } => self.item(seq, item),
            Record::Usage(usage) => {
                let items = usage.items.filter(|_| usage.status == "completed");
                self.response = items.map(|missing| LastResponse { missing, asks: false });
            }
            Record::Verdict { call_id: Some(id), verdict, .. } => {
                self.verdicts.insert(id, verdict);
            }
            Record::Diff(diff) => {
                self.changed_now = diff.files.iter().map(|file| file.path.clone()).collect();
                self.past.end_tree = Some(diff.end_tree).filter(|tree| !tree.is_empty());
            }
            Record::Verified { unmet, .. } => {
                self.past.unmet = unmet.into_iter().map(|unmet| unmet.message).collect();
            }
            Record::Compacted(compacted) => {
                let new = compacted.replacement.into_iter().map(|item| (seq, item)).collect();
                self.replaced.push((seq, std::mem::replace(&mut self.items, new)));
                self.past.plan = compacted.plan;
                self.forget_answer();
            }
            Record::RolledBack { to_seq, .. } => self.roll_back(to_seq),
            Record::TurnCompleted { steps, .. } => self.ended(TurnEnd::Completed, steps),
            Record::TurnAborted { steps, reason, message, .. } => {
                self.ended(TurnEnd::Aborted { reason, message }, steps);
            }
            Record::TurnFailed { steps, reason, message, retryable, .. } => {
                self.ended(TurnEnd::Failed { reason, message, retryable }, steps);
            }
            Record::RunFinished(finished) => self.past.finished = Some(finished),
            Record::Verdict { call_id: None, .. }
            | Record::Approval(_)
            | Record::Hook(_)
            | Record::Retry { .. }
            | Record::ProcessEnded(_)
            | Record::Verification(_)
            | Record::Unknown => {}
        }
        self.past.last_seq = seq;
    }

    fn item(&mut self, seq: u64, item: Arc<Item>) {
        match item.as_ref() {
            Item::ToolResult(result) => {
                self.verdicts.remove(&result.call_id);
                self.calls.book(result);
                if result.result == ResultKind::Denied {
                    self.first_denial.get_or_insert_with(|| result.denial());
                }
                self.response = None;
            }
            // What opens a Turn that takes an answer up says nothing that asks for another.
            Item::Message { fragment: Some(Fragment::Environment), .. } => {}
            Item::Message { fragment: Some(Fragment::Interruption), .. } => self.told_at = seq,
            Item::Message { fragment: Some(Fragment::Task), text, .. } => {
                if self.past.untold_task.as_ref() == Some(text) {
                    self.past.untold_task = None;
                }
                self.response = None;
            }
            item if item.is_of_the_model() => {
                if let Some(response) = &mut self.response {
                    response.missing = response.missing.saturating_sub(1);
                    response.asks |= matches!(item, Item::ToolCall(_));
                }
            }
            _ => self.response = None,
        }
        self.items.push((seq, item));
    }

    fn forget_answer(&mut self) {
        self.response = None;
        self.calls = CallCounts::default();
        self.first_denial = None;
    }

    /// The last response, where it is whole and asks for nothing more.
    fn answer(&mut self) -> Option<Answered> {
        self.response.take().filter(|response| response.missing == 0 && !response.asks)?;
        let message = self.items.iter().rev().find_map(|(_, item)| match item.as_ref() {
            Item::Message { role: Role::Assistant, text, .. } => Some(text.clone()),
            _ => None,
        });
        let first_denial = self.first_denial.take();
        Some(Answered { message: message?, calls: self.calls, first_denial })
    }

    fn ended(&mut self, end: TurnEnd, steps: u32) {
        if let Some(turn) = self.past.turns.last_mut() {
            turn.end = Some(end);
            turn.steps = steps;
        }
    }

    fn roll_back(&mut self, to_seq: u64) {
        while self.replaced.last().is_some_and(|(seq, _)| *seq > to_seq) {
            if let Some((_, items)) = self.replaced.pop() {
                self.items = items;
            }
        }
        self.items.retain(|(seq, _)| *seq <= to_seq);
        self.past.turns.retain(|turn| turn.before_seq < to_seq);
        self.verdicts.clear();
        self.told_at = self.told_at.min(to_seq);
        self.past.untold_task = None;
        self.forget_answer();
    }

    fn keep_changed(&mut self) {
        self.past.changed.append(&mut self.changed_now);
    }

    pub fn finish(mut self) -> Past {
        self.keep_changed();
        let answer = self.answer();
        let mut past = self.past;
        past.answer = answer;
        let told_at = self.told_at;
        let told: HashSet<CallId> = self
            .items
            .iter()
            .filter_map(|(seq, item)| match item.as_ref() {
                Item::ToolCall(call) if *seq < told_at => Some(call.call_id.clone()),
                _ => None,
            })
            .collect();
        past.history = self.items.into_iter().map(|(_, item)| item).collect();
        let answered: HashSet<&CallId> = past
            .history
            .iter()
            .filter_map(|item| match item.as_ref() {
                Item::ToolResult(result) => Some(&result.call_id),
                _ => None,
            })
            .collect();
        for item in &past.history {
            let Item::ToolCall(call) = item.as_ref() else { continue };
            if answered.contains(&call.call_id) {
                continue;
            }
            // The verdict is on disk before an effect, so without one nothing began.
            match self.verdicts.get(&call.call_id) {
                Some(verdict) if verdict.is_allow() && !READING.contains(&call.name.as_str()) => {
                    past.unknown.push(call.clone());
                }
                _ => {
                    past.not_started.insert(call.call_id.clone());
                    past.unbegun.push(call.clone());
                }
            }
        }
        past.unknown.retain(|call| !told.contains(&call.call_id));
        past.unbegun.retain(|call| !told.contains(&call.call_id));
        past
    }
}
