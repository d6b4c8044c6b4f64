//! What is sent: one request of Chat Completions.

use super::super::body::{Encoder, is_model_side, json};
use super::super::json::argument_object;
use super::super::strict::{is_strict, one_string};
use super::RAW;
use crate::protocol::{Item, Prompt, ToolCall, ToolInput, ToolPayload, ToolSpec};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Encodes prompts for one model.
pub(super) struct Request {
    model: String,
    pub official: bool,
}

impl Request {
    pub fn new(model: &str, official: bool) -> Self {
        Self { model: model.to_owned(), official }
    }
}

impl Encoder for Request {
    fn head(&self, prompt: &Prompt, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"model\":");
        json(out, &self.model);
        if !prompt.tools.is_empty() {
            out.extend_from_slice(b",\"tools\":");
            let tools: Vec<Value> = prompt.tools.iter().map(tool).collect();
            json(out, &tools);
        }
        out.extend_from_slice(b",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
        let options = &prompt.options;
        if self.official && !options.cache_key.is_empty() {
            out.extend_from_slice(b",\"prompt_cache_key\":");
            json(out, &options.cache_key);
        }
        if let Some(effort) = &options.effort {
            out.extend_from_slice(b",\"reasoning_effort\":");
            json(out, effort);
        }
        if let Some(limit) = options.max_output_tokens {
            let key = if self.official { "max_completion_tokens" } else { "max_tokens" };
            out.extend_from_slice(format!(",\"{key}\":{limit}").as_bytes());
        }
        if let Some(schema) = &options.output_schema {
            out.extend_from_slice(b",\"response_format\":");
            json(
                out,
                &json!({ "type": "json_schema", "json_schema": {
                    "name": "final_answer", "strict": is_strict(schema), "schema": &**schema,
                }}),
            );
        }
        out.extend_from_slice(b",\"messages\":[");
        if !prompt.instructions.is_empty() {
            json(out, &json!({ "role": "system", "content": &*prompt.instructions }));
        }
    }

    /// One side's turn: an assistant message, or tool results followed by one user message.
    fn group(&self, items: &[Arc<Item>], out: &mut Vec<u8>) {
        match items.first() {
            Some(first) if is_model_side(first) => assistant(items, out),
            _ => user(items, out),
        }
    }

    fn begins_group(&self, before: &Item, item: &Item) -> bool {
        is_model_side(before) != is_model_side(item)
    }

    fn tail(&self, _prompt: &Prompt, out: &mut Vec<u8>) {
        out.extend_from_slice(b"]}");
    }
}

fn tool(spec: &ToolSpec) -> Value {
    let schema = match &spec.input {
        ToolInput::Json(schema) => schema.clone(),
        ToolInput::Freeform { property, .. } => one_string(property),
    };
    let mut function = json!({
        "name": &*spec.name,
        "description": &*spec.description,
        "parameters": schema,
    });
    if is_strict(&schema) {
        function["strict"] = Value::Bool(true);
    }
    json!({ "type": "function", "function": function })
}

fn assistant(items: &[Arc<Item>], out: &mut Vec<u8>) {
    let mut content: Vec<&str> = Vec::new();
    let mut calls: Vec<Value> = Vec::new();
    let mut extra = Map::new();
    for item in items {
        match &**item {
            Item::Message { text, .. } if !text.is_empty() => content.push(text),
            // Reasoning goes back under the field it came in, and only to where it came from.
            Item::Reasoning { raw: Some(raw), .. } => {
                let fields = raw.get(RAW).and_then(Value::as_object);
                for (key, value) in fields.into_iter().flatten() {
                    add_text(&mut extra, key, value);
                }
            }
            Item::ToolCall(call) => calls.push(call_of(call)),
            _ => {}
        }
    }
    if content.is_empty() && calls.is_empty() {
        return;
    }
    let mut message = Map::new();
    message.insert("role".into(), json!("assistant"));
    let text = (!content.is_empty()).then(|| content.join("\n\n"));
    message.insert("content".into(), json!(text));
    message.extend(extra);
    if !calls.is_empty() {
        message.insert("tool_calls".into(), Value::Array(calls));
    }
    json(out, &message);
}

fn add_text(map: &mut Map<String, Value>, key: &str, value: &Value) {
    match (map.get_mut(key), value) {
        (Some(Value::String(before)), Value::String(more)) => before.push_str(more),
        _ => {
            map.insert(key.to_owned(), value.clone());
        }
    }
}

/// A call in the form it came in (some servers keep signatures there), with arguments that a
/// server's template can parse.
fn call_of(call: &ToolCall) -> Value {
    let arguments = match &call.payload {
        ToolPayload::Json(text) => argument_object(text),
        ToolPayload::Text(text) => json!({ "input": text }),
    };
    let written = match &call.payload {
        ToolPayload::Json(text) if arguments.get("invalid_json").is_none() && !text.is_empty() => {
            text.clone()
        }
        _ => arguments.to_string(),
    };
    let mut value = match call.raw.as_ref().and_then(|raw| raw.get(RAW)) {
        Some(raw @ Value::Object(_)) => raw.clone(),
        _ => json!({}),
    };
    if let Some(map) = value.as_object_mut() {
        map.insert("id".into(), json!(call.call_id));
        map.insert("type".into(), json!("function"));
        map.insert("function".into(), json!({ "name": call.name, "arguments": written }));
    }
    value
}

/// Results must follow their calls at once; texts come after them, as one message.
fn user(items: &[Arc<Item>], out: &mut Vec<u8>) {
    let mut texts: Vec<&str> = Vec::new();
    let mut first = true;
    let mut add = |value: &Value, out: &mut Vec<u8>| {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        json(out, value);
    };
    for item in items {
        match &**item {
            Item::ToolResult(result) => add(
                &json!({
                    "role": "tool", "tool_call_id": result.call_id, "content": result.output,
                }),
                out,
            ),
            Item::Message { text, .. } if !text.is_empty() => texts.push(text),
            _ => {}
        }
    }
    if !texts.is_empty() {
        add(&json!({ "role": "user", "content": texts.join("\n\n") }), out);
    }
}
