//! Where in the script a history stands: derived from its items alone.

use super::matcher;
use super::mismatch;
use super::script::{Script, Step};
use crate::model::error::ModelError;
use crate::protocol::{Item, Role, ToolResult};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The key under which a played item carries the step it came from.
const RAW: &str = "scripted";

/// The step that plays now, and what it can see.
pub(super) struct Scene<'a> {
    pub step: usize,
    /// Responses in the history so far.
    pub responses: usize,
    pub since: Since<'a>,
    pub values: HashMap<String, String>,
}

/// What came after a response.
#[derive(Default, Clone)]
pub(super) struct Since<'a> {
    pub results: Vec<&'a ToolResult>,
    pub messages: Vec<&'a str>,
}

/// One response of the history: the step it says it came from, and what came after it.
struct Played<'a> {
    step: Option<usize>,
    after: Since<'a>,
}

/// Finds the step that answers this history.
pub(super) fn find<'a>(script: &Script, items: &'a [Arc<Item>]) -> Result<Scene<'a>, ModelError> {
    let (opening, played) = responses(items);
    let mut scene =
        Scene { step: 0, responses: played.len(), since: opening, values: HashMap::new() };
    for response in played {
        // What an item says of itself wins: a compacted history has lost its first responses.
        scene.step = response.step.unwrap_or(scene.step);
        if let Some(step) = script.steps.get(scene.step) {
            capture(script, step, &scene.since, &mut scene.values, false)?;
        }
        scene.since = response.after;
        scene.step = next(script, scene.step, &scene.since);
    }
    match script.steps.get(scene.step) {
        Some(step) => {
            capture(script, step, &scene.since, &mut scene.values, true)?;
            Ok(scene)
        }
        None => Err(mismatch(format!(
            "{}: the script is over after {} steps, and the Turn asks for another response",
            script.file,
            script.steps.len()
        ))),
    }
}

/// Which step follows, by the results that came after this one.
fn next(script: &Script, step: usize, since: &Since<'_>) -> usize {
    let branches = script.steps.get(step).map_or(&[][..], |step| &step.next);
    let chosen =
        branches.iter().find(|branch| branch.when.iter().all(|when| when.check(since).is_ok()));
    chosen.map_or(step + 1, |branch| branch.step)
}

/// Takes the values of a step from what it sees. Past steps have matched once; a result that was
/// cut since then must not end a resumed run.
fn capture(
    script: &Script,
    step: &Step,
    since: &Since<'_>,
    values: &mut HashMap<String, String>,
    strict: bool,
) -> Result<(), ModelError> {
    for capture in &step.capture {
        let found = matcher::result_at(since, capture.call).and_then(|result| {
            capture.pattern.capture(&result.output).ok_or_else(|| {
                format!("no match of /{}/ in the output of {}", capture.pattern.source, result.name)
            })
        });
        match found {
            Ok(value) => {
                values.insert(capture.name.clone(), value);
            }
            Err(why) if strict => {
                return Err(mismatch(format!(
                    "{}:{}:{}: the value {} can not be captured: {why}",
                    script.file, capture.at.line, capture.at.column, capture.name
                )));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Splits a history into responses and what came around them.
fn responses(items: &[Arc<Item>]) -> (Since<'_>, Vec<Played<'_>>) {
    let mut opening = Since::default();
    let mut played: Vec<Played<'_>> = Vec::new();
    let mut in_response = false;
    for item in items {
        let since = played.last_mut().map_or(&mut opening, |last| &mut last.after);
        match &**item {
            Item::ToolResult(result) => {
                since.results.push(result);
                in_response = false;
            }
            Item::Message { role: Role::User | Role::Developer, text, .. } => {
                since.messages.push(text);
                in_response = false;
            }
            _ => {
                let step = step_of(item);
                if !in_response {
                    played.push(Played { step, after: Since::default() });
                    in_response = true;
                } else if let Some(last) = played.last_mut() {
                    last.step = last.step.or(step);
                }
            }
        }
    }
    (opening, played)
}

/// The mark that each played item carries.
pub(super) fn mark(step: usize) -> Value {
    json!({ RAW: { "step": step } })
}

fn step_of(item: &Item) -> Option<usize> {
    let raw = match item {
        Item::Message { raw, .. } | Item::Reasoning { raw, .. } => raw.as_ref()?,
        Item::ToolCall(call) => call.raw.as_ref()?,
        Item::ToolResult(_) => return None,
        Item::Unknown { raw } => raw,
    };
    usize::try_from(raw.get(RAW)?.get("step")?.as_u64()?).ok()
}
