//! Playing one step: its expectations, then its events or its failure.

use super::mismatch;
use super::scene::{self, Scene};
use super::script::{Call, Fail, FailKind, Payload, Script, Step, substitute};
use crate::model::classify::Report;
use crate::model::error::{ModelError, ModelErrorKind as Kind, TimeoutKind};
use crate::model::stream::{ModelEvent, Stop};
use crate::protocol::{CallId, Item, Role, ToolCall, ToolPayload};
use serde_json::Value;
use std::time::Duration;

/// What a response is going to do.
pub(super) struct Act {
    pub delay: Duration,
    pub events: Vec<ModelEvent>,
    /// Silence before the failure.
    pub stall: Duration,
    pub failure: Option<ModelError>,
}

impl Act {
    pub fn failing(error: ModelError) -> Self {
        Self {
            delay: Duration::ZERO,
            events: Vec::new(),
            stall: Duration::ZERO,
            failure: Some(error),
        }
    }
}

/// The act for a scene that was tried `before` times already.
pub(super) fn act(
    script: &Script,
    scene: &Scene<'_>,
    before: u32,
    idle: Duration,
) -> Result<Act, ModelError> {
    let Some(step) = script.steps.get(scene.step) else {
        return Err(mismatch(format!("{}: there is no such step", script.file)));
    };
    for expect in &step.expect {
        expect.check(&scene.since).map_err(|why| {
            let (line, column) = (expect.at.line, expect.at.column);
            mismatch(format!("{}:{line}:{column}: {} {why}", script.file, title(scene.step, step)))
        })?;
    }
    let fill = Filler { script, scene, step };
    if let Some(fail) = &step.fail
        && fail.times.is_none_or(|times| before < times)
    {
        return failing(&fill, fail, idle);
    }
    let mut events = opening(&fill)?;
    let items = fill.items()?;
    events.extend(items.into_iter().map(ModelEvent::ItemDone));
    events.push(ModelEvent::Usage(step.usage));
    events.push(completed(scene));
    Ok(Act { delay: step.delay, events, stall: Duration::ZERO, failure: None })
}

fn title(position: usize, step: &Step) -> String {
    match &step.name {
        Some(name) => format!("step {} ({name:?})", position + 1),
        None => format!("step {}", position + 1),
    }
}

fn response_id(scene: &Scene<'_>) -> String {
    format!("scripted_{}", scene.responses + 1)
}

fn completed(scene: &Scene<'_>) -> ModelEvent {
    ModelEvent::Completed {
        response_id: response_id(scene),
        model: "scripted".into(),
        stop: Stop::End,
    }
}

/// The events before the items: started, reasoning, text.
fn opening(fill: &Filler<'_>) -> Result<Vec<ModelEvent>, ModelError> {
    let mut events = vec![ModelEvent::Started { response_id: response_id(fill.scene) }];
    if let Some(reasoning) = &fill.step.reasoning {
        events.push(ModelEvent::ReasoningDelta(fill.text(reasoning)?));
    }
    if let Some(text) = &fill.step.text {
        events.push(ModelEvent::TextDelta(fill.text(text)?));
    }
    Ok(events)
}

fn failing(fill: &Filler<'_>, fail: &Fail, idle: Duration) -> Result<Act, ModelError> {
    let mut act = Act::failing(ModelError::new(Kind::Cut, "the script drops the connection"));
    act.delay = fill.step.delay;
    match &fail.kind {
        FailKind::Status { status, code, message, retry_after } => {
            let report = Report {
                status: Some(*status),
                code: code.clone(),
                message: message.clone(),
                ..Report::default()
            };
            let mut error = report.into_error("the script");
            error.retry_after = retry_after.or(error.retry_after);
            act.failure = Some(error);
        }
        FailKind::Drop => act.events = opening(fill)?,
        FailKind::Stall => {
            act.events = opening(fill)?;
            act.stall = idle;
            let kind = Kind::Timeout(TimeoutKind::Idle);
            act.failure = Some(ModelError::new(kind, "the script sent nothing more"));
        }
        FailKind::Empty => {
            act.events = vec![ModelEvent::Usage(fill.step.usage), completed(fill.scene)];
            act.failure = None;
        }
        FailKind::Connect => {
            act.failure = Some(ModelError::new(Kind::Connect, "the script refuses the connection"));
        }
        FailKind::Incomplete(reason) => {
            act.events = opening(fill)?;
            let text = format!("the script ended the answer early: {reason}");
            let mut error = ModelError::new(Kind::Incomplete(reason.clone()), text);
            error.usage = fill.step.usage;
            act.failure = Some(error);
        }
        FailKind::Refuse(words) => {
            let mut error = ModelError::new(Kind::Refused, format!("the model declined: {words}"));
            error.usage = fill.step.usage;
            act.failure = Some(error);
        }
    }
    Ok(act)
}

/// Fills captured values into a step's texts.
struct Filler<'a> {
    script: &'a Script,
    scene: &'a Scene<'a>,
    step: &'a Step,
}

impl Filler<'_> {
    fn text(&self, text: &str) -> Result<String, ModelError> {
        if !self.script.captures {
            return Ok(text.to_owned());
        }
        substitute(text, &mut |name| self.scene.values.get(name).cloned()).map_err(|name| {
            mismatch(format!(
                "{}:{}:{}: {} uses {{{{{name}}}}}, which no step before it has captured",
                self.script.file,
                self.step.at.line,
                self.step.at.column,
                title(self.scene.step, self.step)
            ))
        })
    }

    fn value(&self, value: &Value) -> Result<Value, ModelError> {
        Ok(match value {
            Value::String(text) => Value::String(self.text(text)?),
            Value::Array(list) => {
                Value::Array(list.iter().map(|inner| self.value(inner)).collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let entries = map.iter().map(|(key, inner)| Ok((key.clone(), self.value(inner)?)));
                Value::Object(entries.collect::<Result<_, ModelError>>()?)
            }
            other => other.clone(),
        })
    }

    fn items(&self) -> Result<Vec<Item>, ModelError> {
        let mark = || Some(scene::mark(self.scene.step));
        let mut items = Vec::new();
        if let Some(reasoning) = &self.step.reasoning {
            items.push(Item::Reasoning { text: self.text(reasoning)?, raw: mark() });
        }
        if let Some(text) = &self.step.text {
            items.push(Item::Message {
                role: Role::Assistant,
                text: self.text(text)?,
                fragment: None,
                raw: mark(),
            });
        }
        for (position, call) in self.step.calls.iter().enumerate() {
            let id = match &call.id {
                Some(id) => id.clone(),
                None => format!("call_{}_{}", self.scene.responses + 1, position + 1),
            };
            items.push(Item::ToolCall(ToolCall {
                call_id: CallId(id),
                name: call.tool.clone(),
                payload: self.payload(call)?,
                raw: mark(),
            }));
        }
        Ok(items)
    }

    fn payload(&self, call: &Call) -> Result<ToolPayload, ModelError> {
        Ok(match &call.payload {
            Payload::Args(value) => ToolPayload::Json(self.value(value)?.to_string()),
            Payload::Input(text) => ToolPayload::Text(self.text(text)?),
            Payload::Raw(text) => ToolPayload::Json(self.text(text)?),
        })
    }
}
