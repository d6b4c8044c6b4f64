//! A record for people, and as objects for programs: steps, calls, verdicts, times.
//!
//! One line per thing that matters, each Step under its own heading; texts of tools and of the model
//! are cut to a line and made harmless. With `json` the same things are objects, one a line.

use super::text::{json_line, many_lines, one_line, without_commands};
use crate::protocol::{CallId, Item, Role, ToolResult, ToolSpec, Verdict};
use crate::rollout::{Entry, Record, VerifyReport};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Characters of a text on one line.
const WIDTH: usize = 160;

/// Text for a terminal that others may interpret as well.
pub fn safe(text: &str) -> String {
    without_commands(&many_lines(text)).into_owned()
}

/// Turns records into lines.
pub struct Shown {
    json: bool,
    verdicts: HashMap<CallId, Verdict>,
    /// The step that the last heading named.
    step: u32,
}

impl Shown {
    pub fn new(json: bool) -> Self {
        Self { json, verdicts: HashMap::new(), step: 0 }
    }

    /// The lines of one record; none for what a person has no use for.
    pub fn lines(&mut self, entry: &Entry) -> Vec<String> {
        if self.json {
            let row = row(entry);
            return row.map(|row| json_line(row.to_string())).into_iter().collect();
        }
        let time = entry.ts.get(11..19).unwrap_or(&entry.ts);
        self.texts(entry).into_iter().map(|text| format!("{time}  {}", safe(&text))).collect()
    }

    fn texts(&mut self, entry: &Entry) -> Vec<String> {
        match &entry.record {
            Record::RunStarted(run) => {
                self.step = 0;
                let date = entry.ts.get(..10).unwrap_or_default();
                let from = match (&run.parent_kind, &run.parent_run) {
                    (Some(kind), Some(parent)) => format!(", {kind} of {parent}"),
                    _ => String::new(),
                };
                vec![
                    format!("run {} on {date} (UTC), session {}{from}", run.run, run.session),
                    format!("  workspace {}, turnkey {}", run.workspace.root, run.version),
                ]
            }
            Record::TurnStarted { answered: true, .. } => {
                self.step = 0;
                vec!["turn: the final message before it stands, it is verified".into()]
            }
            Record::TurnStarted { task, .. } => {
                self.step = 0;
                vec![format!("turn: {}", one_line(task, WIDTH))]
            }
            Record::TurnContext(context) => vec![format!(
                "  model {}, policy {}",
                context.model,
                context.policy_digest.get(..12).unwrap_or(&context.policy_digest)
            )],
            Record::StepStarted(step) => {
                self.step = step.step;
                vec![format!("step {} ({} items sent)", step.step, step.items)]
            }
            Record::Verdict { call_id: Some(id), verdict, .. } => {
                self.verdicts.insert(id.clone(), verdict.clone());
                Vec::new()
            }
            Record::Item { item, .. } => self.item(item),
            Record::Usage(usage) => vec![format!(
                "  response {} in {} ({} in, {} out)",
                usage.status,
                time_of(usage.duration_ms),
                usage.usage.input,
                usage.usage.output
            )],
            Record::Retry { attempt, wait_ms, cause, .. } => vec![format!(
                "  attempt {attempt} failed, waiting {}: {}",
                time_of(*wait_ms),
                one_line(cause, WIDTH)
            )],
            Record::Hook(hook) => {
                let on = hook.call_id.as_ref().map(|id| format!(" on {id}")).unwrap_or_default();
                let why = match hook.reason.is_empty() {
                    true => String::new(),
                    false => format!(": {}", one_line(&hook.reason, WIDTH)),
                };
                let took = time_of(hook.duration_ms);
                let new = if hook.arguments.is_some() { ", other arguments" } else { "" };
                vec![format!("  hook {}{on}: {}{new} in {took}{why}", hook.hook, hook.outcome)]
            }
            Record::Verification(check) => {
                let how = if check.passed { "passed" } else { "FAILED" };
                vec![format!("check {}: {how} in {}", check.name, time_of(check.duration_ms))]
            }
            Record::Verified { unmet, .. } => unmet
                .iter()
                .map(|unmet| format!("  not met: {}", one_line(&unmet.message, WIDTH)))
                .collect(),
            Record::Diff(diff) => {
                let (files, added, removed) = (diff.files.len(), diff.added, diff.removed);
                vec![format!("diff: {files} files, +{added} -{removed}")]
            }
            Record::Compacted(compacted) => vec![format!(
                "compacted ({}): {} items became {}",
                compacted.by,
                compacted.replaced,
                compacted.replacement.len()
            )],
            Record::RolledBack { turns, to_seq } => {
                vec![format!("rolled back: {turns} Turns, to record {to_seq}")]
            }
            Record::TurnCompleted { steps, duration_ms, .. } => {
                vec![format!("turn completed: {steps} steps in {}", time_of(*duration_ms))]
            }
            Record::TurnAborted { steps, duration_ms, reason, message, .. }
            | Record::TurnFailed { steps, duration_ms, reason, message, .. } => vec![format!(
                "turn cut short after {steps} steps and {} ({reason}): {}",
                time_of(*duration_ms),
                one_line(message, WIDTH)
            )],
            Record::RunFinished(run) => vec![format!(
                "run {}: {} (status {}), {}",
                run.state,
                run.reason,
                run.exit_status,
                one_line(&run.message, WIDTH)
            )],
            Record::Verdict { call_id: None, .. }
            | Record::WorldState { .. }
            | Record::Approval(_)
            | Record::ProcessEnded(_)
            | Record::Unknown => Vec::new(),
        }
    }

    fn item(&mut self, item: &Item) -> Vec<String> {
        match item {
            Item::Message { role: Role::Assistant, text, .. } => {
                vec![format!("  says: {}", one_line(text, WIDTH))]
            }
            Item::Message { fragment, .. } if self.step > 0 => {
                let kind = fragment.map(|fragment| format!("{fragment:?}")).unwrap_or_default();
                vec![format!("  told: {}", one_line(&kind, WIDTH))]
            }
            Item::Reasoning { text, .. } if !text.is_empty() => {
                vec![format!("  thinks: {}", one_line(text, WIDTH))]
            }
            Item::ToolCall(call) => vec![format!(
                "  call {} {}: {}",
                call.call_id,
                call.name,
                one_line(call.payload.as_str(), WIDTH)
            )],
            Item::ToolResult(result) => self.result(result),
            Item::Message { .. } | Item::Reasoning { .. } | Item::Unknown { .. } => Vec::new(),
        }
    }

    fn result(&mut self, result: &ToolResult) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(verdict) = self.verdicts.remove(&result.call_id) {
            lines.push(format!(
                "    {} {} by {}",
                result.call_id,
                verdict.decision,
                one_line(&verdict.rule.to_string(), WIDTH)
            ));
        }
        let code = result.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
        let unsure = match result.effect {
            crate::protocol::Effect::Unknown => ", effect unknown",
            _ => "",
        };
        lines.push(format!(
            "    {} {}{code}{unsure} in {}",
            result.call_id,
            word(result),
            time_of(result.duration_ms)
        ));
        lines
    }
}

fn word(result: &ToolResult) -> String {
    serde_json::to_value(result.result)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn time_of(millis: u64) -> String {
    crate::clock::human(std::time::Duration::from_millis(millis))
}

/// The object of one record, without long texts: those are in the record itself, by `seq`.
fn row(entry: &Entry) -> Option<Value> {
    let mut row = match &entry.record {
        Record::RunStarted(run) => json!({
            "run": run.run, "session": run.session, "parent_run": run.parent_run,
            "parent_kind": run.parent_kind, "workspace": run.workspace.root, "version": run.version,
        }),
        Record::TurnStarted { turn, task, answered, .. } => {
            json!({ "turn": turn, "task": task, "answered": answered })
        }
        Record::TurnContext(context) => {
            json!({ "model": context.model, "policy_digest": context.policy_digest })
        }
        Record::StepStarted(step) => {
            json!({ "step": step.step, "items": step.items, "fingerprint": step.fingerprint })
        }
        Record::Verdict { step, call_id, verdict } => json!({
            "step": step, "call_id": call_id, "decision": verdict.decision, "rule": verdict.rule,
            "action": verdict.action, "reason": verdict.reason,
        }),
        Record::Item { step, item, .. } => item_row(*step, item),
        Record::Usage(usage) => json!({
            "step": usage.step, "status": usage.status, "usage": usage.usage,
            "duration_ms": usage.duration_ms,
        }),
        Record::Retry { step, attempt, wait_ms, cause } => {
            json!({ "step": step, "attempt": attempt, "wait_ms": wait_ms, "cause": cause })
        }
        Record::Verification(check) => json!({
            "attempt": check.attempt, "name": check.name, "passed": check.passed,
            "exit_code": check.exit_code, "duration_ms": check.duration_ms,
        }),
        Record::Verified { attempt, unmet } => json!({ "attempt": attempt, "unmet": unmet }),
        Record::Diff(diff) => json!({
            "files": diff.files, "added": diff.added, "removed": diff.removed,
            "start_tree": diff.start_tree, "end_tree": diff.end_tree, "proven": diff.proven,
        }),
        Record::Compacted(compacted) => json!({
            "by": compacted.by, "replaced": compacted.replaced, "items": compacted.replacement.len(),
        }),
        Record::RolledBack { turns, to_seq } => json!({ "turns": turns, "to_seq": to_seq }),
        Record::TurnCompleted { turn, steps, duration_ms, .. } => {
            json!({ "turn": turn, "steps": steps, "duration_ms": duration_ms })
        }
        Record::TurnAborted { turn, steps, duration_ms, reason, message }
        | Record::TurnFailed { turn, steps, duration_ms, reason, message, .. } => json!({
            "turn": turn, "steps": steps, "duration_ms": duration_ms, "reason": reason,
            "message": message,
        }),
        Record::RunFinished(run) => json!({
            "run": run.run, "state": run.state, "exit_status": run.exit_status, "reason": run.reason,
            "message": run.message, "steps": run.steps, "usage": run.usage,
            "duration_ms": run.duration_ms,
        }),
        Record::WorldState { step, full, .. } => json!({ "step": step, "full": full }),
        Record::Approval(approval) => json!({
            "step": approval.step, "call_id": approval.call_id, "approved": approval.approved,
            "by": approval.by, "reason": approval.reason,
        }),
        Record::Hook(hook) => json!({
            "step": hook.step, "hook": hook.hook, "call_id": hook.call_id, "outcome": hook.outcome,
            "reason": hook.reason, "exit_code": hook.exit_code, "output_tail": hook.output_tail,
            "arguments": hook.arguments, "duration_ms": hook.duration_ms,
        }),
        Record::ProcessEnded(process) => json!({
            "step": process.step, "call_id": process.call_id, "exit_code": process.exit_code,
            "ended_by": process.ended_by, "duration_ms": process.duration_ms,
        }),
        Record::Unknown => return None,
    };
    let object = row.as_object_mut()?;
    object.insert("seq".into(), json!(entry.seq));
    object.insert("ts".into(), json!(entry.ts));
    object.insert("type".into(), json!(entry.record.type_name()));
    Some(row)
}

fn item_row(step: u32, item: &Item) -> Value {
    match item {
        Item::Message { role, text, fragment, .. } => json!({
            "step": step, "kind": "message", "role": role, "fragment": fragment,
            "text": one_line(text, WIDTH * 4),
        }),
        Item::Reasoning { text, .. } => {
            json!({ "step": step, "kind": "reasoning", "text": one_line(text, WIDTH * 4) })
        }
        Item::ToolCall(call) => json!({
            "step": step, "kind": "tool_call", "call_id": call.call_id, "tool": call.name,
            "arguments": call.payload.as_str(),
        }),
        Item::ToolResult(result) => json!({
            "step": step, "kind": "tool_result", "call_id": result.call_id, "tool": result.name,
            "result": result.result, "effect": result.effect, "exit_code": result.exit_code,
            "duration_ms": result.duration_ms, "bytes": result.output.len(),
        }),
        Item::Unknown { .. } => json!({ "step": step, "kind": "unknown" }),
    }
}

/// The request of one Step.
pub struct Prompt<'a> {
    pub turn: &'a str,
    pub step: u32,
    pub model: &'a str,
    pub fingerprint: &'a str,
    pub instructions: &'a str,
    pub tools: &'a [ToolSpec],
    pub items: &'a [Arc<Item>],
}

impl Prompt<'_> {
    pub fn json(&self) -> String {
        let value = json!({
            "turn": self.turn, "step": self.step, "model": self.model,
            "fingerprint": self.fingerprint, "instructions": self.instructions,
            "tools": self.tools, "items": self.items,
        });
        json_line(value.to_string())
    }

    pub fn text(&self) -> String {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_ref()).collect();
        let mut text = format!(
            "model {}, step {}, tools: {}\nfingerprint {}\n\n== instructions\n{}\n",
            self.model,
            self.step,
            names.join(", "),
            self.fingerprint,
            self.instructions
        );
        for (number, item) in self.items.iter().enumerate() {
            let (title, body) = match item.as_ref() {
                Item::Message { role, text, .. } => (format!("{role:?}"), text.clone()),
                Item::Reasoning { text, .. } => ("reasoning".to_owned(), text.clone()),
                Item::ToolCall(call) => (
                    format!("call {} of {}", call.call_id, call.name),
                    call.payload.as_str().to_owned(),
                ),
                Item::ToolResult(result) => {
                    (format!("result of {}", result.call_id), result.output.clone())
                }
                Item::Unknown { raw } => ("unknown".to_owned(), raw.to_string()),
            };
            text.push_str(&format!("\n== {}. {title}\n{}\n", number + 1, body.trim_end()));
        }
        safe(text.trim_end())
    }
}

/// The answer of `rollout verify` in words.
pub fn verified(path: &Path, report: &VerifyReport) -> String {
    let found = &report.found;
    let answer = if report.ok { "whole" } else { "NOT whole" };
    let mut text = format!(
        "{}: {answer}: {} records of {} runs in {} lines, {} bytes",
        path.display(),
        found.records,
        found.runs,
        found.lines,
        found.bytes
    );
    for fault in &report.faults {
        text.push_str(&format!("\nfault: {fault}"));
    }
    for note in &report.notes {
        text.push_str(&format!("\nnote: {note}"));
    }
    safe(&text)
}
