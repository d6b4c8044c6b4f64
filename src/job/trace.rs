//! What two records of a Turn are compared by: everything that was seen, said, judged, done and
//! concluded, in order, without what must differ (times, ids of runs, volatile fragments).

use crate::diff::{DiffOptions, FileChange, Mode, TreeEntry, write_diff};
use crate::protocol::{CallId, Item, ToolResult, Verdict};
use crate::rollout::{HookRecord, Record};
use std::collections::HashMap;

/// Makes items comparable: places that differ between the runs become one, durations none.
#[derive(Debug, Clone, Default)]
pub struct Normal {
    /// Text of the replayed run, and what stands for it in the recorded one.
    pub places: Vec<(String, String)>,
}

impl Normal {
    pub fn item(&self, item: &Item) -> Item {
        match item {
            Item::Message { role, fragment, .. }
                if fragment.is_some_and(crate::protocol::Fragment::is_volatile) =>
            {
                let text = "(differs between runs)".to_owned();
                Item::Message { role: *role, text, fragment: *fragment, raw: None }
            }
            Item::Message { role, text, fragment, raw } => Item::Message {
                role: *role,
                text: self.text(text),
                fragment: *fragment,
                raw: raw.clone(),
            },
            Item::ToolResult(result) => Item::ToolResult(ToolResult {
                output: self.text(&without_duration(&result.output)),
                duration_ms: 0,
                ..result.clone()
            }),
            other => other.clone(),
        }
    }

    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in self.places.iter().filter(|(from, _)| !from.is_empty()) {
            if text.contains(from.as_str()) {
                text = text.replace(from.as_str(), to);
            }
        }
        text
    }
}

/// The report of a command says on its second line how long it took.
fn without_duration(output: &str) -> String {
    let mut lines: Vec<&str> = output.split('\n').collect();
    if let Some(line) = lines.get_mut(1).filter(|line| line.starts_with("duration: ")) {
        *line = "duration: -";
    }
    lines.join("\n")
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    pub step: u32,
    pub what: String,
    pub text: String,
}

/// The facts of one Turn. The last one is its end, where it has one.
pub fn facts<'a>(records: impl IntoIterator<Item = &'a Record>, normal: &Normal) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut verdicts: HashMap<CallId, &Verdict> = HashMap::new();
    let mut hooks: HashMap<CallId, Vec<(String, String)>> = HashMap::new();
    let mut step = 0;
    let mut items = 0;
    for record in records {
        let mut add = |what: String, text: String| facts.push(Fact { step, what, text });
        match record {
            Record::StepStarted(started) => step = started.step,
            Record::Item { item, .. } => {
                // Calls that run together are judged together; here each verdict stands by its
                // result, however they came.
                if let Item::ToolResult(result) = item.as_ref()
                    && let Some(verdict) = verdicts.remove(&result.call_id)
                {
                    add(format!("verdict on {}", result.call_id), verdict_text(verdict, normal));
                }
                if let Item::ToolResult(result) = item.as_ref() {
                    let asked = hooks.remove(&result.call_id).unwrap_or_default();
                    asked.into_iter().for_each(|(what, text)| add(what, text));
                }
                items += 1;
                let kind = kind(item);
                add(format!("item {items} ({kind})"), item_text(&normal.item(item)));
            }
            Record::Verdict { call_id: Some(id), verdict, .. } => {
                verdicts.insert(id.clone(), verdict);
            }
            Record::Hook(hook) => {
                let what = match &hook.call_id {
                    Some(id) => format!("hook {} on {id}", hook.hook),
                    None => format!("hook {}", hook.hook),
                };
                let text = hook_text(hook, normal);
                match &hook.call_id {
                    Some(id) => hooks.entry(id.clone()).or_default().push((what, text)),
                    None => add(what, text),
                }
            }
            Record::Diff(diff) => {
                let files: Vec<String> = diff
                    .files
                    .iter()
                    .map(|file| {
                        let (added, removed) = (file.added, file.removed);
                        format!("{} {} +{added} -{removed}", file.status.as_str(), file.path)
                    })
                    .collect();
                let (start, end) = (&diff.start_tree, &diff.end_tree);
                if files.is_empty() {
                    // Whether anybody looked at the tree then is no difference.
                    add("turn diff".into(), "nothing changed".into());
                    continue;
                }
                let text = format!("start tree {start}\nend tree {end}\n{}", files.join("\n"));
                add("turn diff".into(), text);
            }
            Record::Verification(check) => {
                let text = format!("passed: {}\nexit code: {:?}", check.passed, check.exit_code);
                add(format!("check {}", check.name), text);
            }
            Record::Verified { unmet, .. } => {
                let lines: Vec<String> = unmet
                    .iter()
                    .map(|unmet| format!("{}: {}", unmet.reason, normal.text(&unmet.message)))
                    .collect();
                add("what does not hold".into(), lines.join("\n"));
            }
            Record::TurnCompleted { .. } => add("end of the turn".into(), "completed".into()),
            Record::TurnAborted { reason, .. } => {
                add("end of the turn".into(), format!("aborted: {reason}"));
            }
            Record::TurnFailed { reason, .. } => {
                add("end of the turn".into(), format!("failed: {reason}"));
            }
            _ => {}
        }
    }
    facts
}

fn kind(item: &Item) -> &'static str {
    match item {
        Item::Message { fragment: Some(_), .. } => "message of the runner",
        Item::Message { .. } => "message of the model",
        Item::Reasoning { .. } => "reasoning",
        Item::ToolCall(_) => "call",
        Item::ToolResult(_) => "result",
        Item::Unknown { .. } => "of an unknown kind",
    }
}

/// An item as lines that a person can compare.
pub fn item_text(item: &Item) -> String {
    match item {
        Item::Message { text, .. } | Item::Reasoning { text, .. } => text.clone(),
        Item::ToolCall(call) => {
            format!("{} ({})\n{}", call.name, call.call_id, call.payload.as_str())
        }
        Item::ToolResult(result) => format!(
            "{} ({}): {:?}, effect {:?}, exit code {:?}\n{}",
            result.name,
            result.call_id,
            result.result,
            result.effect,
            result.exit_code,
            result.output
        ),
        Item::Unknown { raw } => raw.to_string(),
    }
}

fn hook_text(hook: &HookRecord, normal: &Normal) -> String {
    let arguments = hook.arguments.as_ref().map(ToString::to_string).unwrap_or_default();
    normal.text(&format!("{}: {}\n{arguments}", hook.outcome, hook.reason))
}

fn verdict_text(verdict: &Verdict, normal: &Normal) -> String {
    normal.text(&format!(
        "{}: {}\nrule: {}\nreason: {}",
        verdict.decision, verdict.action, verdict.rule, verdict.reason
    ))
}

/// Two texts as a diff of lines, without the header of a file.
pub fn lines_that_differ(recorded: &str, replayed: &str) -> String {
    let entry = |text: &str| {
        Some(TreeEntry {
            mode: Mode::Regular,
            content: format!("{}\n", text.trim_end()).into_bytes().into(),
        })
    };
    let change =
        FileChange { path: b"x".to_vec(), before: entry(recorded), after: entry(replayed) };
    let diff = write_diff(vec![change], &DiffOptions::default());
    let text = String::from_utf8_lossy(&diff.bytes).into_owned();
    match text.find("\n@@") {
        Some(at) => text[at + 1..].trim_end().to_owned(),
        None => format!("-{recorded}\n+{replayed}"),
    }
}
