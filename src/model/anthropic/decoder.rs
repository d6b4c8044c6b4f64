//! What comes back: the events of a Messages stream.

use super::super::classify::Report;
use super::super::error::{ModelError, ModelErrorKind as Kind, clean};
use super::super::http::{Flow, WireDecoder};
use super::super::json::{Text, count, field, text, value};
use super::super::stream::{ModelEvent, Stop};
use super::RAW;
use crate::protocol::{CallId, Item, Role, ToolCall, ToolPayload, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The deltas that come by the thousand.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    partial_json: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
    #[serde(borrow)]
    citation: Option<&'a RawValue>,
}

/// One content block as its deltas add up.
#[derive(Default)]
struct Block {
    start: Value,
    text: String,
    signature: String,
    citations: Vec<Value>,
    stopped: bool,
}

/// Token counts of a message; later events repeat and raise them.
#[derive(Default, Clone, Copy)]
struct Counts {
    input: u64,
    cache_read: u64,
    cache_written: u64,
    output: u64,
    reasoning: u64,
}

/// The decoder of one response.
pub(super) struct Decoder {
    host: String,
    id: String,
    model: String,
    blocks: BTreeMap<u64, Block>,
    counts: Option<Counts>,
    stop_reason: Option<String>,
    stop_details: Value,
}

impl Decoder {
    pub fn new(host: String) -> Self {
        Self {
            host,
            id: String::new(),
            model: String::new(),
            blocks: BTreeMap::new(),
            counts: None,
            stop_reason: None,
            stop_details: Value::Null,
        }
    }

    fn started(&mut self, message: &Value, queue: &mut VecDeque<ModelEvent>) {
        field(message, "id").clone_into(&mut self.id);
        field(message, "model").clone_into(&mut self.model);
        self.count(message.get("usage"));
        queue.push_back(ModelEvent::Started { response_id: self.id.clone() });
    }

    fn count(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else { return };
        let counts = self.counts.get_or_insert_default();
        let raise = |slot: &mut u64, key: &str| *slot = (*slot).max(count(usage.get(key)));
        raise(&mut counts.input, "input_tokens");
        raise(&mut counts.cache_read, "cache_read_input_tokens");
        raise(&mut counts.cache_written, "cache_creation_input_tokens");
        raise(&mut counts.output, "output_tokens");
        if let Some(details) = usage.get("output_tokens_details") {
            counts.reasoning = counts.reasoning.max(count(details.get("thinking_tokens")));
        }
    }

    /// The wire counts cached input apart; for us it is a part of the input.
    fn usage(&self) -> Option<Usage> {
        self.counts.map(|counts| Usage {
            input: counts
                .input
                .saturating_add(counts.cache_read)
                .saturating_add(counts.cache_written),
            cached: counts.cache_read,
            output: counts.output,
            reasoning: counts.reasoning,
        })
    }

    fn block_delta(&mut self, envelope: &Envelope<'_>, queue: &mut VecDeque<ModelEvent>) {
        let Some(delta) =
            envelope.delta.and_then(|raw| serde_json::from_str::<Delta<'_>>(raw.get()).ok())
        else {
            return;
        };
        let index = envelope.index.unwrap_or_default();
        let block = self.blocks.entry(index).or_default();
        let kind = delta.kind.as_ref().map_or("", |kind| kind.0.as_ref());
        let piece = match kind {
            "text_delta" => text(delta.text),
            "thinking_delta" => text(delta.thinking),
            "input_json_delta" => text(delta.partial_json),
            "signature_delta" => {
                block.signature.push_str(&text(delta.signature).unwrap_or_default());
                None
            }
            "citations_delta" => {
                block.citations.push(value(delta.citation));
                None
            }
            _ => None,
        };
        let Some(piece) = piece.filter(|piece| !piece.is_empty()) else { return };
        block.text.push_str(&piece);
        let piece = piece.into_owned();
        queue.push_back(match kind {
            "text_delta" => ModelEvent::TextDelta(piece),
            "thinking_delta" => ModelEvent::ReasoningDelta(piece),
            _ => ModelEvent::ToolDelta {
                output_index: u32::try_from(index).unwrap_or(u32::MAX),
                delta: piece,
            },
        });
    }

    fn message_delta(&mut self, envelope: &Envelope<'_>) {
        let delta = value(envelope.delta);
        if let Some(reason) = delta.get("stop_reason").and_then(Value::as_str) {
            self.stop_reason = Some(reason.to_owned());
        }
        if let Some(details) = delta.get("stop_details").filter(|details| details.is_object()) {
            self.stop_details = details.clone();
        }
        self.count(Some(&value(envelope.usage)));
    }

    /// The answer is whole: give its items, or the end that its reason means.
    fn complete(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let reason = self.stop_reason.clone().unwrap_or_default();
        let blocks = std::mem::take(&mut self.blocks);
        let blocks: Vec<Value> = blocks.into_values().filter_map(Block::into_value).collect();
        if let Some(error) = self.bad_stop(&reason, &blocks) {
            return Err(self.charged(error));
        }
        queue.extend(items(blocks).into_iter().map(ModelEvent::ItemDone));
        queue.extend(self.usage().map(ModelEvent::Usage));
        let stop = if reason == "pause_turn" { Stop::Paused } else { Stop::End };
        let (response_id, model) = (self.id.clone(), self.model.clone());
        queue.push_back(ModelEvent::Completed { response_id, model, stop });
        Ok(())
    }

    fn bad_stop(&self, reason: &str, blocks: &[Value]) -> Option<ModelError> {
        let early = || format!("{} ended the answer early: {}", self.host, clean(reason, 80));
        match reason {
            "max_tokens" => {
                let kind = Kind::Incomplete("max_output_tokens".into());
                Some(ModelError::new(kind, early()).hint(
                    "the answer was longer than the output tokens left; raise the token limit",
                ))
            }
            "model_context_window_exceeded" => Some(
                ModelError::new(Kind::ContextExceeded, early())
                    .hint("set model.window to what the model takes, or give it less to read"),
            ),
            "refusal" => {
                let said: String = blocks.iter().map(|block| field(block, "text")).collect();
                let why = match field(&self.stop_details, "explanation") {
                    "" => said.as_str(),
                    explanation => explanation,
                };
                let message = format!("the model declined: {}", clean(why, 300));
                Some(ModelError::new(Kind::Refused, message))
            }
            _ => None,
        }
    }

    fn charged(&self, mut error: ModelError) -> ModelError {
        error.usage = self.usage().unwrap_or_default();
        error.answer_began = true;
        error
    }

    fn malformed(&self, error: &serde_json::Error, data: &str) -> ModelError {
        let shown = clean(data, 60);
        let message = format!("{} sent an event that is no JSON ({error}): {shown}", self.host);
        ModelError::new(Kind::Protocol, message)
    }
}

impl Block {
    /// The block in its final form, as it goes back.
    fn into_value(self) -> Option<Value> {
        let mut value = self.start;
        let kind = field(&value, "type").to_owned();
        let map = value.as_object_mut()?;
        match kind.as_str() {
            "text" => {
                let whole = format!("{}{}", text_of(map.get("text")), self.text);
                map.insert("text".into(), json!(whole));
                if !self.citations.is_empty() {
                    map.insert("citations".into(), Value::Array(self.citations));
                }
            }
            "thinking" => {
                let whole = format!("{}{}", text_of(map.get("thinking")), self.text);
                map.insert("thinking".into(), json!(whole));
                if !self.signature.is_empty() {
                    map.insert("signature".into(), json!(self.signature));
                }
            }
            // Kept as text until it is read: it may be broken.
            "tool_use" if !self.text.is_empty() => {
                map.insert("input".into(), Value::String(self.text));
            }
            _ => {}
        }
        Some(value)
    }
}

fn text_of(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

/// Blocks as items; neighbouring texts are one message.
fn items(blocks: Vec<Value>) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for block in blocks {
        match field(&block, "type") {
            "text" => add_text(&mut items, block),
            "thinking" | "redacted_thinking" => {
                let text = field(&block, "thinking").to_owned();
                items.push(Item::Reasoning { text, raw: Some(json!({ RAW: block })) });
            }
            "tool_use" => items.push(Item::ToolCall(call(&block))),
            _ => items.push(Item::Unknown { raw: json!({ RAW: block }) }),
        }
    }
    items
}

/// Empty texts are dropped: the provider refuses them when they come back.
fn add_text(items: &mut Vec<Item>, block: Value) {
    let more = field(&block, "text").to_owned();
    if more.trim().is_empty() {
        return;
    }
    if let Some(Item::Message { text, raw: Some(raw), .. }) = items.last_mut()
        && let Some(Value::Array(blocks)) = raw.get_mut(RAW)
    {
        text.push_str(&more);
        blocks.push(block);
        return;
    }
    let raw = Some(json!({ RAW: [block] }));
    items.push(Item::Message { role: Role::Assistant, text: more, fragment: None, raw });
}

fn call(block: &Value) -> ToolCall {
    let arguments = match block.get("input") {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    };
    ToolCall {
        call_id: CallId::from(field(block, "id")),
        name: field(block, "name").to_owned(),
        payload: ToolPayload::Json(arguments),
        raw: None,
    }
}

impl WireDecoder for Decoder {
    fn event(
        &mut self,
        name: &str,
        data: &str,
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<Flow, ModelError> {
        let envelope: Envelope<'_> =
            serde_json::from_str(data).map_err(|error| self.malformed(&error, data))?;
        let kind = envelope.kind.as_ref().map_or(name, |kind| kind.0.as_ref());
        let index = envelope.index.unwrap_or_default();
        match kind {
            "message_start" => self.started(&value(envelope.message), queue),
            "content_block_start" => {
                self.blocks.entry(index).or_default().start = value(envelope.content_block);
            }
            "content_block_delta" => self.block_delta(&envelope, queue),
            "content_block_stop" => self.blocks.entry(index).or_default().stopped = true,
            "message_delta" => self.message_delta(&envelope),
            "message_stop" => {
                self.complete(queue)?;
                return Ok(Flow::Done);
            }
            "error" => return Err(self.reported(data)),
            "" if envelope.error.is_some() => return Err(self.reported(data)),
            _ => {}
        }
        Ok(Flow::More)
    }

    /// A reason to stop and every block closed is a whole answer, though its last event was lost.
    fn end(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let whole = self.stop_reason.is_some() && self.blocks.values().all(|block| block.stopped);
        if whole {
            return self.complete(queue);
        }
        let message = format!("{} ended the stream before the message was complete", self.host);
        Err(ModelError::new(Kind::Cut, message))
    }

    fn whole(&mut self, body: &str, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let message: Value =
            serde_json::from_str(body).map_err(|error| self.malformed(&error, body))?;
        let Some(Value::Array(content)) = message.get("content") else {
            if message.get("error").is_some_and(|error| !error.is_null()) {
                return Err(self.reported(body));
            }
            let text = format!("{} answered with JSON that is no message", self.host);
            return Err(ModelError::new(Kind::Protocol, text)
                .hint("check that model.base_url is a Messages API"));
        };
        self.started(&message, queue);
        for (index, block) in (0..).zip(content) {
            let block = Block { start: block.clone(), stopped: true, ..Block::default() };
            self.blocks.insert(index, block);
        }
        self.stop_reason = message.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
        self.complete(queue)
    }
}

impl Decoder {
    fn reported(&self, data: &str) -> ModelError {
        let value: Value = serde_json::from_str(data).unwrap_or(Value::Null);
        self.charged(Report::from_json(&value).into_error(&self.host))
    }
}

#[cfg(test)]
mod tests;
