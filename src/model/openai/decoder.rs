//! What comes back: the events of a Responses stream, in order or not, with or without deltas.
//!
//! Items are held until the terminal event, then given in the order of their output index: servers
//! close items late, leave deltas or done events out, or send both and differ. The done item is the
//! truth, then the item in the terminal event, then what the deltas add up to.

use super::super::classify::Report;
use super::super::error::{ModelError, ModelErrorKind as Kind, clean};
use super::super::http::{Flow, WireDecoder};
use super::super::json::{field, text, value};
use super::super::stream::{ModelEvent, Stop};
use super::wire::{self, Envelope};
use crate::protocol::{Item, Usage};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// The decoder of one response.
pub(super) struct Decoder {
    host: String,
    started: bool,
    slots: BTreeMap<u64, Slot>,
}

/// What is known of one output item.
#[derive(Default)]
struct Slot {
    id: String,
    added: Option<Value>,
    done: Option<Value>,
    /// Text, or arguments, as the deltas add up to them.
    text: String,
    arguments: String,
}

impl Decoder {
    pub fn new(host: String) -> Self {
        Self { host, started: false, slots: BTreeMap::new() }
    }

    /// The slot that an event speaks of: by index, else by the item's id, else the newest one.
    fn slot(&mut self, envelope: &Envelope<'_>) -> (u64, &mut Slot) {
        let by_id = || {
            let id = envelope.item_id.as_ref()?.0.as_ref();
            self.slots.iter().find(|(_, slot)| slot.id == id).map(|(index, _)| *index)
        };
        let index = envelope.output_index.or_else(by_id).unwrap_or_else(|| self.newest());
        (index, self.slots.entry(index).or_default())
    }

    fn newest(&self) -> u64 {
        self.slots.keys().next_back().copied().unwrap_or_default()
    }

    fn free_index(&self) -> u64 {
        self.slots.keys().next_back().map_or(0, |index| index.saturating_add(1))
    }

    fn started(&mut self, envelope: &Envelope<'_>, queue: &mut VecDeque<ModelEvent>) {
        if self.started {
            return;
        }
        let response: Value = value(envelope.response);
        self.started = true;
        queue.push_back(ModelEvent::Started { response_id: field(&response, "id").to_owned() });
    }

    fn item_added(&mut self, envelope: &Envelope<'_>) {
        let item = value(envelope.item);
        let index = self.index_of(envelope.output_index, &item);
        let slot = self.slots.entry(index).or_default();
        slot.id = field(&item, "id").to_owned();
        slot.added = Some(item);
    }

    fn item_done(&mut self, envelope: &Envelope<'_>) {
        let item = value(envelope.item);
        let index = self.index_of(envelope.output_index, &item);
        let slot = self.slots.entry(index).or_default();
        slot.text = String::new();
        slot.arguments = String::new();
        slot.added = None;
        slot.id = field(&item, "id").to_owned();
        slot.done = Some(item);
    }

    /// Where an item belongs. An index that is taken by another finished item is not believed.
    fn index_of(&self, given: Option<u64>, item: &Value) -> u64 {
        let taken = |index: &u64| {
            self.slots
                .get(index)
                .is_some_and(|slot| slot.done.as_ref().is_some_and(|done| !same(done, item)))
        };
        let by_id = || {
            let id = field(item, "id");
            let mut slots = self.slots.iter();
            slots.find(|(_, slot)| !id.is_empty() && slot.id == id).map(|(index, _)| *index)
        };
        given.filter(|index| !taken(index)).or_else(by_id).unwrap_or_else(|| self.free_index())
    }

    fn text_delta(&mut self, envelope: &Envelope<'_>, queue: &mut VecDeque<ModelEvent>) {
        let Some(delta) = text(envelope.delta) else { return };
        let (_, slot) = self.slot(envelope);
        slot.text.push_str(&delta);
        queue.push_back(ModelEvent::TextDelta(delta.into_owned()));
    }

    fn arguments_delta(&mut self, envelope: &Envelope<'_>, queue: &mut VecDeque<ModelEvent>) {
        let Some(delta) = text(envelope.delta) else { return };
        let (index, slot) = self.slot(envelope);
        slot.arguments.push_str(&delta);
        let output_index = u32::try_from(index).unwrap_or(u32::MAX);
        queue.push_back(ModelEvent::ToolDelta { output_index, delta: delta.into_owned() });
    }

    fn arguments_done(&mut self, envelope: &Envelope<'_>) {
        let Some(whole) = text(envelope.arguments.or(envelope.input)) else { return };
        let (_, slot) = self.slot(envelope);
        slot.arguments = whole.into_owned();
    }

    /// The terminal event of a response that is whole, or says that it is.
    fn completed(
        &mut self,
        response: Value,
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ModelError> {
        match field(&response, "status") {
            "failed" | "cancelled" => return Err(self.failed(&response)),
            "incomplete" => return Err(self.incomplete(&response)),
            _ => {}
        }
        let usage = wire::usage(&response);
        let raws = self.outputs(&response);
        if let Some(raw) = raws.iter().find(|raw| field(raw, "status") == "incomplete") {
            let what = format!("an item of type {:?} is marked incomplete", field(raw, "type"));
            return Err(charged(ModelError::new(Kind::Incomplete("item".into()), what), usage));
        }
        let refusal = raws.iter().find_map(wire::refusal);
        let items: Vec<Item> = raws.into_iter().map(wire::item).collect();
        let acts = items.iter().any(|item| matches!(item, Item::ToolCall(_)));
        if let Some(words) = refusal
            && !acts
        {
            let message = format!("the model declined: {}", clean(&words, 300));
            return Err(charged(ModelError::new(Kind::Refused, message), usage));
        }
        queue.extend(items.into_iter().map(ModelEvent::ItemDone));
        queue.extend(usage.map(ModelEvent::Usage));
        queue.push_back(ModelEvent::Completed {
            response_id: field(&response, "id").to_owned(),
            model: field(&response, "model").to_owned(),
            stop: Stop::End,
        });
        Ok(())
    }

    /// All items of the response, from the best source that each has, in order.
    fn outputs(&mut self, response: &Value) -> Vec<Value> {
        let mut slots = std::mem::take(&mut self.slots);
        let listed = response.get("output").and_then(Value::as_array);
        for (position, item) in listed.into_iter().flatten().enumerate() {
            if slots.values().any(|slot| slot.done.as_ref().is_some_and(|done| same(done, item))) {
                continue;
            }
            let position = u64::try_from(position).unwrap_or(u64::MAX);
            let by_id = slots
                .iter()
                .find(|(_, slot)| {
                    slot.done.is_none() && !slot.id.is_empty() && slot.id == field(item, "id")
                })
                .map(|(index, _)| *index);
            let at_position =
                || slots.get(&position).is_none_or(|slot| slot.done.is_none()).then_some(position);
            let last = slots.keys().next_back().map_or(0, |index| index.saturating_add(1));
            let index = by_id.or_else(at_position).unwrap_or(last);
            slots.entry(index).or_default().done = Some(item.clone());
        }
        slots.into_values().filter_map(Slot::into_item).collect()
    }

    fn failed(&self, response: &Value) -> ModelError {
        let error = response.get("error").filter(|error| error.is_object());
        let report = Report::from_json(error.unwrap_or(response));
        charged(report.into_error(&self.host), wire::usage(response))
    }

    fn incomplete(&self, response: &Value) -> ModelError {
        let reason = response.get("incomplete_details").map(|details| field(details, "reason"));
        let reason = reason.filter(|reason| !reason.is_empty()).unwrap_or("unknown");
        charged(incomplete_error(&self.host, reason), wire::usage(response))
    }
}

/// An answer that was ended early, by its reason.
fn incomplete_error(host: &str, reason: &str) -> ModelError {
    let shown = clean(reason, 80);
    let message = format!("{host} ended the answer early: {shown}");
    match reason {
        "content_filter" => ModelError::new(Kind::ContentFiltered, message)
            .hint("the provider's filter decided; a different wording may pass"),
        "max_output_tokens" => ModelError::new(Kind::Incomplete(shown), message)
            .hint("the answer was longer than the output tokens left; raise the token limit"),
        _ => ModelError::new(Kind::Incomplete(shown), message),
    }
}

fn charged(mut error: ModelError, usage: Option<Usage>) -> ModelError {
    error.usage = usage.unwrap_or_default();
    error.answer_began = true;
    error
}

impl Slot {
    /// The done item; else the added one filled from the deltas, where they add up to something.
    fn into_item(self) -> Option<Value> {
        if let Some(done) = self.done {
            return Some(done);
        }
        let mut item =
            self.added.unwrap_or_else(|| json!({ "type": "message", "role": "assistant" }));
        let kind = field(&item, "type").to_owned();
        let map = item.as_object_mut()?;
        match kind.as_str() {
            "message" if !self.text.is_empty() => {
                let part = json!({ "type": "output_text", "text": self.text, "annotations": [] });
                map.insert("content".into(), json!([part]));
            }
            "function_call" => {
                map.insert("arguments".into(), Value::String(self.arguments));
            }
            "custom_tool_call" => {
                map.insert("input".into(), Value::String(self.arguments));
            }
            _ => return None,
        }
        map.insert("status".into(), Value::String("completed".into()));
        Some(item)
    }
}

/// Whether two forms are of the same item: by id, else by call id, else by content.
fn same(a: &Value, b: &Value) -> bool {
    for key in ["id", "call_id"] {
        let (a, b) = (field(a, key), field(b, key));
        if !a.is_empty() && !b.is_empty() {
            return a == b;
        }
    }
    a == b
}

impl WireDecoder for Decoder {
    fn event(
        &mut self,
        name: &str,
        data: &str,
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<Flow, ModelError> {
        if data == "[DONE]" {
            self.end(queue)?;
            return Ok(Flow::Done);
        }
        let envelope: Envelope<'_> =
            serde_json::from_str(data).map_err(|error| self.malformed(&error, data))?;
        let kind = envelope.kind.as_ref().map_or(name, |kind| kind.0.as_ref());
        match kind {
            "response.created" => self.started(&envelope, queue),
            "response.output_item.added" => self.item_added(&envelope),
            "response.output_item.done" => self.item_done(&envelope),
            "response.output_text.delta" => self.text_delta(&envelope, queue),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let delta = text(envelope.delta);
                queue.extend(delta.map(|delta| ModelEvent::ReasoningDelta(delta.into_owned())));
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.arguments_delta(&envelope, queue);
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                self.arguments_done(&envelope);
            }
            "response.completed" | "response.done" => {
                self.completed(value(envelope.response), queue)?;
                return Ok(Flow::Done);
            }
            "response.failed" => return Err(self.failed(&value(envelope.response))),
            "response.incomplete" => return Err(self.incomplete(&value(envelope.response))),
            "error" => return Err(self.error_event(data)),
            // An error object without any type: gateways put it into the stream of a good status.
            "" if data.contains("\"error\"") => return Err(self.error_event(data)),
            // Everything else repeats what other events say, or is newer than this version.
            _ => {}
        }
        Ok(Flow::More)
    }

    fn end(&mut self, _queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let message = format!("{} ended the stream before the response was complete", self.host);
        Err(ModelError::new(Kind::Cut, message))
    }

    fn whole(&mut self, body: &str, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let response: Value =
            serde_json::from_str(body).map_err(|error| self.malformed(&error, body))?;
        if response.get("output").is_some_and(Value::is_array) {
            return self.completed(response, queue);
        }
        if response.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Report::from_json(&response).into_error(&self.host));
        }
        let message = format!("{} answered with JSON that is no response", self.host);
        Err(ModelError::new(Kind::Protocol, message)
            .hint("check that model.base_url is a Responses API"))
    }
}

impl Decoder {
    fn malformed(&self, error: &serde_json::Error, data: &str) -> ModelError {
        let message =
            format!("{} sent an event that is no JSON ({error}): {}", self.host, clean(data, 60));
        ModelError::new(Kind::Protocol, message)
    }

    fn error_event(&self, data: &str) -> ModelError {
        let value: Value = serde_json::from_str(data).unwrap_or(Value::Null);
        Report::from_json(&value).into_error(&self.host)
    }
}

#[cfg(test)]
mod tests;
