//! What is sent: one request of the Responses API.

use super::super::body::{Encoder, json};
use super::super::strict::is_strict;
use super::RAW;
use crate::protocol::{Item, Prompt, Role, ToolInput, ToolPayload, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;

/// Encodes prompts for one model.
pub(super) struct Request {
    model: String,
    pub freeform: bool,
    reasons: bool,
    /// Whether the provider is to keep what it answers, for a later request to go on from.
    store: bool,
}

impl Request {
    pub fn new(model: &str, freeform: Option<bool>, store: bool) -> Self {
        Self {
            store,
            model: model.to_owned(),
            freeform: freeform.unwrap_or_else(|| takes_grammars(model)),
            reasons: reasons(model),
        }
    }
}

/// Grammar tools came with one family of models; others refuse the whole request.
fn takes_grammars(model: &str) -> bool {
    model.starts_with("gpt-5") && !model.contains("chat")
}

/// Families that do not reason refuse a request for encrypted reasoning. Unknown names are asked
/// for it: compatible servers ignore what they do not know.
fn reasons(model: &str) -> bool {
    !["gpt-4", "gpt-3", "chatgpt-"].iter().any(|family| model.starts_with(family))
}

impl Encoder for Request {
    fn head(&self, prompt: &Prompt, out: &mut Vec<u8>) {
        self.head_after(prompt, None, out);
    }

    fn group(&self, items: &[Arc<Item>], out: &mut Vec<u8>) {
        for item in items {
            self.item(item, out);
        }
    }

    /// Every item is an element of its own on this wire.
    fn begins_group(&self, _before: &Item, _item: &Item) -> bool {
        true
    }

    fn tail(&self, _prompt: &Prompt, out: &mut Vec<u8>) {
        out.extend_from_slice(b"]}");
    }
}

/// A request that goes on from a response that the provider kept.
pub(super) struct After<'a> {
    pub request: &'a Request,
    pub response_id: &'a str,
}

impl Encoder for After<'_> {
    fn head(&self, prompt: &Prompt, out: &mut Vec<u8>) {
        self.request.head_after(prompt, Some(self.response_id), out);
    }

    fn group(&self, items: &[Arc<Item>], out: &mut Vec<u8>) {
        self.request.group(items, out);
    }

    fn begins_group(&self, before: &Item, item: &Item) -> bool {
        self.request.begins_group(before, item)
    }

    fn tail(&self, prompt: &Prompt, out: &mut Vec<u8>) {
        self.request.tail(prompt, out);
    }
}

impl Request {
    fn head_after(&self, prompt: &Prompt, response_id: Option<&str>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"model\":");
        json(out, &self.model);
        out.extend_from_slice(b",\"instructions\":");
        json(out, &*prompt.instructions);
        // Without tools, a word about how to choose among them is refused.
        if !prompt.tools.is_empty() {
            out.extend_from_slice(b",\"tools\":");
            let tools: Vec<Value> = prompt.tools.iter().map(|spec| self.tool(spec)).collect();
            json(out, &tools);
            out.extend_from_slice(b",\"tool_choice\":\"auto\",\"parallel_tool_calls\":true");
        }
        out.extend_from_slice(b",\"store\":");
        json(out, &self.store);
        if let Some(id) = response_id {
            out.extend_from_slice(b",\"previous_response_id\":");
            json(out, id);
        }
        out.extend_from_slice(b",\"stream\":true");
        if self.reasons {
            out.extend_from_slice(b",\"include\":[\"reasoning.encrypted_content\"]");
        }
        let options = &prompt.options;
        if !options.cache_key.is_empty() {
            out.extend_from_slice(b",\"prompt_cache_key\":");
            json(out, &options.cache_key);
        }
        if let Some(effort) = &options.effort {
            out.extend_from_slice(b",\"reasoning\":");
            json(out, &json!({ "effort": effort }));
        }
        if let Some(limit) = options.max_output_tokens {
            out.extend_from_slice(b",\"max_output_tokens\":");
            json(out, &limit);
        }
        if let Some(schema) = &options.output_schema {
            out.extend_from_slice(b",\"text\":");
            json(
                out,
                &json!({ "format": {
                    "type": "json_schema", "name": "final_answer",
                    "strict": is_strict(schema), "schema": &**schema,
                }}),
            );
        }
        out.extend_from_slice(b",\"input\":[");
    }

    fn tool(&self, spec: &ToolSpec) -> Value {
        match &spec.input {
            ToolInput::Json(schema) => function(spec, schema),
            ToolInput::Freeform { grammar, .. } if self.freeform => json!({
                "type": "custom",
                "name": &*spec.name,
                "description": &*spec.description,
                "format": { "type": "grammar", "syntax": "lark", "definition": &**grammar },
            }),
            ToolInput::Freeform { property, .. } => function(spec, &one_property(property)),
        }
    }

    /// The provider's own form goes back verbatim; everything else is written from our fields, so
    /// nothing internal can leave.
    fn item(&self, item: &Item, out: &mut Vec<u8>) {
        match item {
            Item::Message { role, text, raw, .. } => match own(raw.as_ref()) {
                Some(raw) => json(out, raw),
                None => message(*role, text, out),
            },
            Item::Reasoning { raw, .. } => {
                if let Some(raw) = own(raw.as_ref()).filter(|raw| is_sendable(raw)) {
                    json(out, raw);
                }
            }
            Item::ToolCall(call) => match own(call.raw.as_ref()) {
                Some(raw) => json(out, raw),
                None => {
                    let value = match &call.payload {
                        ToolPayload::Json(arguments) => json!({
                            "type": "function_call", "call_id": call.call_id,
                            "name": call.name, "arguments": arguments,
                        }),
                        ToolPayload::Text(input) => json!({
                            "type": "custom_tool_call", "call_id": call.call_id,
                            "name": call.name, "input": input,
                        }),
                    };
                    json(out, &value);
                }
            },
            Item::ToolResult(result) => {
                let kind = if result.freeform {
                    "custom_tool_call_output"
                } else {
                    "function_call_output"
                };
                json(
                    out,
                    &json!({
                        "type": kind, "call_id": result.call_id, "output": result.output,
                    }),
                );
            }
            Item::Unknown { raw } => {
                if let Some(raw) = own(Some(raw)) {
                    json(out, raw);
                }
            }
        }
    }
}

/// The item as this wire gave it, if it came by this wire.
fn own(raw: Option<&Value>) -> Option<&Value> {
    raw?.get(RAW)
}

/// Reasoning that is only an id means nothing to a provider that keeps no state.
fn is_sendable(raw: &Value) -> bool {
    let has = |key: &str| match raw.get(key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        _ => false,
    };
    has("encrypted_content") || has("content")
}

fn message(role: Role, text: &str, out: &mut Vec<u8>) {
    let (role, part) = match role {
        Role::Developer => ("developer", "input_text"),
        Role::User => ("user", "input_text"),
        Role::Assistant => ("assistant", "output_text"),
    };
    json(
        out,
        &json!({
            "type": "message", "role": role, "content": [{ "type": part, "text": text }],
        }),
    );
}

fn function(spec: &ToolSpec, schema: &Value) -> Value {
    json!({
        "type": "function",
        "name": &*spec.name,
        "description": &*spec.description,
        "parameters": schema,
        "strict": is_strict(schema),
    })
}

fn one_property(property: &str) -> Value {
    super::super::strict::one_string(property)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_models_take_what() {
        for model in ["gpt-5", "gpt-5.5", "gpt-5-mini", "gpt-5.1-codex"] {
            assert!(takes_grammars(model) && reasons(model), "{model}");
        }
        for model in ["gpt-4.1", "o3", "gpt-5-chat-latest", "qwen3", "org/gpt-5"] {
            assert!(!takes_grammars(model), "{model}");
        }
        assert!(!reasons("gpt-4o") && reasons("o4-mini") && reasons("local"));
    }
}
