//! What comes back: chunks of a Chat Completions stream.

use super::super::classify::Report;
use super::super::error::{ModelError, ModelErrorKind as Kind, clean};
use super::super::http::{Flow, WireDecoder};
use super::super::json::{Text, count, field, text, value};
use super::super::stream::{ModelEvent, Stop};
use super::RAW;
use crate::protocol::{CallId, Item, Role, ToolCall, ToolPayload, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long usage and `[DONE]` are waited for once the answer is whole: many servers send neither,
/// and some keep the socket open. Those alone pay for it.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    /// In a whole document, and from servers that mix the two up.
    #[serde(borrow)]
    message: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
}

/// One call as its pieces add up.
#[derive(Default)]
struct Partial {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// Fields of the server's own, to be sent back.
    extra: Map<String, Value>,
}

/// What is learned of a server: whether it ends its streams with `[DONE]`. Many never do, so the
/// marker can not be demanded of all; but one that did so once is held to it, and a stream of it
/// that stops before the marker was cut, though the reason to finish had come.
pub(super) type SendsDone = Arc<AtomicBool>;

/// The decoder of one response.
pub(super) struct Decoder {
    sends_done: SendsDone,
    host: String,
    started: bool,
    id: String,
    model: String,
    text: String,
    refusal: String,
    reasoning: String,
    /// The field in which the reasoning came.
    reasoning_field: &'static str,
    calls: Vec<Partial>,
    usage: Option<Usage>,
    finish: Option<String>,
}

impl Decoder {
    pub fn new(host: String, sends_done: SendsDone) -> Self {
        Self {
            sends_done,
            host,
            started: false,
            id: String::new(),
            model: String::new(),
            text: String::new(),
            refusal: String::new(),
            reasoning: String::new(),
            reasoning_field: "reasoning_content",
            calls: Vec::new(),
            usage: None,
            finish: None,
        }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, queue: &mut VecDeque<ModelEvent>) {
        if !self.started {
            self.started = true;
            self.id = text(chunk.id).unwrap_or_default().into_owned();
            self.model = text(chunk.model).unwrap_or_default().into_owned();
            queue.push_back(ModelEvent::Started { response_id: self.id.clone() });
        }
        for choice in chunk.choices.iter().flatten().take(1) {
            for delta in [&choice.delta, &choice.message].into_iter().flatten() {
                self.delta(delta, queue);
            }
            if let Some(reason) = &choice.finish_reason {
                self.finish = Some(reason.0.clone().into_owned());
            }
        }
        if chunk.usage.is_some() {
            self.usage = usage(&value(chunk.usage)).or(self.usage);
        }
    }

    fn delta(&mut self, delta: &Delta<'_>, queue: &mut VecDeque<ModelEvent>) {
        let thoughts =
            [("reasoning_content", delta.reasoning_content), ("reasoning", delta.reasoning)];
        if let Some((name, piece)) = thoughts
            .into_iter()
            .find_map(|(name, raw)| Some((name, text(raw).filter(|piece| !piece.is_empty())?)))
        {
            self.reasoning_field = name;
            self.reasoning.push_str(&piece);
            queue.push_back(ModelEvent::ReasoningDelta(piece.into_owned()));
        }
        let piece = content(delta.content);
        if !piece.is_empty() {
            self.text.push_str(&piece);
            queue.push_back(ModelEvent::TextDelta(piece));
        }
        self.refusal.push_str(&text(delta.refusal).unwrap_or_default());
        if let Value::Array(calls) = value(delta.tool_calls) {
            for call in calls {
                self.call(call, queue);
            }
        }
        if let function @ Value::Object(_) = value(delta.function_call) {
            self.call(json!({ "index": 0, "function": function }), queue);
        }
    }

    fn call(&mut self, piece: Value, queue: &mut VecDeque<ModelEvent>) {
        let Value::Object(mut piece) = piece else { return };
        let index = piece.remove("index").and_then(|index| index.as_u64());
        let id = match piece.remove("id") {
            Some(Value::String(id)) => id,
            _ => String::new(),
        };
        let function = piece.remove("function").unwrap_or(Value::Null);
        piece.remove("type");
        let name = field(&function, "name");
        let position = self.position(index, &id, name);
        let Some(call) = self.calls.get_mut(position) else { return };
        call.index = call.index.or(index);
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_string(),
        };
        call.arguments.push_str(&arguments);
        call.extra.extend(piece);
        if !arguments.is_empty() {
            let output_index = u32::try_from(position).unwrap_or(u32::MAX);
            queue.push_back(ModelEvent::ToolDelta { output_index, delta: arguments });
        }
    }

    /// Which call a piece belongs to. Index and id together name a call; servers that give every
    /// call the same index still give different ids, and servers that give neither send each call
    /// whole, so that a name after whole arguments begins the next one.
    fn position(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let fits = |call: &Partial| match index {
            Some(index) => call.index == Some(index),
            None => true,
        };
        let found = match (id.is_empty(), self.calls.iter().rposition(|call| call.id == id)) {
            (false, Some(position)) => Some(position),
            _ => self.calls.iter().rposition(fits),
        };
        let goes_on = found.filter(|position| {
            let Some(call) = self.calls.get(*position) else { return false };
            let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
            let next_whole = id.is_empty()
                && !name.is_empty()
                && !call.name.is_empty()
                && serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
            !other_id && !next_whole
        });
        goes_on.unwrap_or_else(|| {
            self.calls.push(Partial::default());
            self.calls.len() - 1
        })
    }

    /// The answer is whole: give its items, or the end that its reason means.
    fn complete(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        if let Some(error) = self.bad_finish() {
            return Err(self.charged(error));
        }
        if self.text.trim().is_empty() && self.calls.is_empty() && !self.refusal.is_empty() {
            let words = clean(&self.refusal, 300);
            let error = ModelError::new(Kind::Refused, format!("the model declined: {words}"));
            return Err(self.charged(error));
        }
        if !self.reasoning.is_empty() {
            let text = std::mem::take(&mut self.reasoning);
            let raw = Some(json!({ RAW: { self.reasoning_field: text } }));
            queue.push_back(ModelEvent::ItemDone(Item::Reasoning { text, raw }));
        }
        if !self.text.is_empty() {
            queue.push_back(ModelEvent::ItemDone(Item::Message {
                role: Role::Assistant,
                text: std::mem::take(&mut self.text),
                fragment: None,
                raw: None,
            }));
        }
        for call in std::mem::take(&mut self.calls) {
            queue.push_back(ModelEvent::ItemDone(Item::ToolCall(call.into_call())));
        }
        queue.extend(self.usage.map(ModelEvent::Usage));
        queue.push_back(ModelEvent::Completed {
            response_id: self.id.clone(),
            model: self.model.clone(),
            stop: Stop::End,
        });
        Ok(())
    }

    /// Ends that are no good ones, by their reason; unknown reasons are taken as good ends.
    fn bad_finish(&self) -> Option<ModelError> {
        let reason = self.finish.as_deref()?;
        let message = format!("{} ended the answer early: {}", self.host, clean(reason, 80));
        let incomplete = |reason: &str| {
            ModelError::new(Kind::Incomplete(reason.to_owned()), message.clone())
                .hint("the answer was longer than the output tokens left; raise the token limit")
        };
        match reason {
            "length" | "max_tokens" | "model_length" | "max_output_tokens" => {
                Some(incomplete("max_output_tokens"))
            }
            "content_filter" | "safety" => Some(ModelError::new(Kind::ContentFiltered, message)),
            "error" => Some(ModelError::new(Kind::Server, message)),
            "insufficient_system_resource" => Some(ModelError::new(Kind::Overloaded, message)),
            _ => None,
        }
    }

    fn charged(&self, mut error: ModelError) -> ModelError {
        error.usage = self.usage.unwrap_or_default();
        error.answer_began = true;
        error
    }
}

impl Partial {
    fn into_call(self) -> ToolCall {
        let raw = (!self.extra.is_empty()).then(|| json!({ RAW: self.extra }));
        ToolCall {
            call_id: CallId(self.id),
            name: self.name,
            payload: ToolPayload::Json(self.arguments),
            raw,
        }
    }
}

/// A text, or a list of parts with texts in them.
fn content(raw: Option<&RawValue>) -> String {
    if let Some(text) = text(raw) {
        return text.into_owned();
    }
    match value(raw) {
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| field(part, "type") == "text");
            texts.map(|part| field(part, "text")).collect()
        }
        _ => String::new(),
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    if !usage.is_object() {
        return None;
    }
    let detail = |list: &str, key: &str| count(usage.get(list).and_then(|list| list.get(key)));
    // One family of servers counts cache hits at the top level.
    let cached = detail("prompt_tokens_details", "cached_tokens")
        .max(count(usage.get("prompt_cache_hit_tokens")));
    Some(Usage {
        input: count(usage.get("prompt_tokens")),
        cached,
        output: count(usage.get("completion_tokens")),
        reasoning: detail("completion_tokens_details", "reasoning_tokens"),
    })
}

impl WireDecoder for Decoder {
    fn event(
        &mut self,
        name: &str,
        data: &str,
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<Flow, ModelError> {
        if data == "[DONE]" {
            self.sends_done.store(true, Ordering::Relaxed);
            self.end_marker(queue)?;
            return Ok(Flow::Done);
        }
        if data.trim().is_empty() {
            return Ok(Flow::More);
        }
        let chunk: Chunk<'_> =
            serde_json::from_str(data).map_err(|error| self.malformed(&error, data))?;
        if chunk.error.is_some() || (name == "error" && chunk.choices.is_none()) {
            let whole: Value = serde_json::from_str(data).unwrap_or(Value::Null);
            return Err(self.charged(Report::from_json(&whole).into_error(&self.host)));
        }
        self.chunk(&chunk, queue);
        // Counts after the last piece: nothing of meaning can follow.
        if self.finish.is_some() && chunk.usage.is_some() {
            self.complete(queue)?;
            return Ok(Flow::Done);
        }
        Ok(Flow::More)
    }

    fn end(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        if self.finish.is_some() && !self.sends_done.load(Ordering::Relaxed) {
            return self.complete(queue);
        }
        Err(self.cut())
    }

    fn whole(&mut self, body: &str, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let chunk: Chunk<'_> =
            serde_json::from_str(body).map_err(|error| self.malformed(&error, body))?;
        if chunk.choices.is_none() {
            let whole: Value = serde_json::from_str(body).unwrap_or(Value::Null);
            if chunk.error.is_some() {
                return Err(Report::from_json(&whole).into_error(&self.host));
            }
            let message = format!("{} answered with JSON that is no completion", self.host);
            return Err(ModelError::new(Kind::Protocol, message)
                .hint("check that model.base_url is a Chat Completions API"));
        }
        self.chunk(&chunk, queue);
        self.complete(queue)
    }

    fn grace(&self) -> Option<Duration> {
        (self.finish.is_some() && !self.sends_done.load(Ordering::Relaxed)).then_some(GRACE)
    }
}

impl Decoder {
    /// `[DONE]` is an explicit end, also from servers that name no reason; but an answer with
    /// nothing in it and no reason was cut by something in between.
    fn end_marker(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        if self.finish.is_none() && self.text.is_empty() && self.calls.is_empty() {
            return Err(self.cut());
        }
        self.complete(queue)
    }

    fn cut(&self) -> ModelError {
        let message = format!("{} ended the stream before the answer was complete", self.host);
        ModelError::new(Kind::Cut, message)
    }

    fn malformed(&self, error: &serde_json::Error, data: &str) -> ModelError {
        let shown = clean(data, 60);
        let message = format!("{} sent an event that is no JSON ({error}): {shown}", self.host);
        ModelError::new(Kind::Protocol, message)
    }
}

#[cfg(test)]
mod tests;
