//! What is sent: one request of the Messages API.

use super::super::body::{Encoder, is_model_side, json};
use super::super::json::argument_object;
use super::super::strict::one_string;
use super::RAW;
use crate::protocol::{Item, Prompt, PromptOptions, ToolCall, ToolInput, ToolPayload, ToolSpec};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Encodes prompts for one model.
pub(super) struct Request {
    model: String,
}

impl Request {
    pub fn new(model: &str) -> Self {
        Self { model: model.to_owned() }
    }

    /// The wire wants an upper bound of output tokens; without one of the operator's it is what
    /// every model of the generation takes.
    pub fn default_max_tokens(&self) -> u64 {
        match self.model.as_str() {
            name if name.starts_with("claude-3-5") => 8_192,
            name if name.starts_with("claude-3-7") => 32_000,
            name if name.starts_with("claude-3") => 4_096,
            _ => 32_000,
        }
    }

    fn max_tokens(&self, options: &PromptOptions) -> u64 {
        options.max_output_tokens.unwrap_or(self.default_max_tokens()).max(1)
    }

    /// Models up to this generation take a budget of tokens to think with; later ones decide
    /// themselves and take the effort as a word.
    fn thinks_by_budget(&self) -> bool {
        let old = ["claude-3", "claude-opus-4-", "claude-sonnet-4-", "claude-haiku-4-"];
        let new = ["-4-6", "-4-7", "-4-8", "-4-9"];
        old.iter().any(|family| self.model.starts_with(family))
            && !new.iter().any(|version| self.model.contains(version))
    }

    /// Thinking and its effort, where the operator asks for one.
    fn effort(&self, options: &PromptOptions, max_tokens: u64, body: &mut Map<String, Value>) {
        let Some(effort) = options.effort.as_deref() else { return };
        if effort == "none" {
            body.insert("thinking".into(), json!({ "type": "disabled" }));
            return;
        }
        if !self.thinks_by_budget() {
            body.insert("thinking".into(), json!({ "type": "adaptive" }));
            body.insert("output_config".into(), json!({ "effort": effort }));
            return;
        }
        let wanted: u64 = match effort {
            "minimal" | "low" => 4_096,
            "medium" => 12_288,
            _ => 24_576,
        };
        // The budget must stay below the bound of the whole answer, and has a least size.
        let budget = wanted.min(max_tokens / 4 * 3);
        if budget >= 1_024 {
            let thinking = json!({ "type": "enabled", "budget_tokens": budget });
            body.insert("thinking".into(), thinking);
        }
    }
}

impl Encoder for Request {
    fn head(&self, prompt: &Prompt, out: &mut Vec<u8>) {
        let options = &prompt.options;
        let max_tokens = self.max_tokens(options);
        let mut body = Map::new();
        body.insert("model".into(), json!(self.model));
        body.insert("max_tokens".into(), json!(max_tokens));
        body.insert("stream".into(), json!(true));
        if !prompt.tools.is_empty() {
            body.insert("tools".into(), prompt.tools.iter().map(tool).collect());
        }
        if !prompt.instructions.is_empty() {
            let block = json!({
                "type": "text", "text": &*prompt.instructions,
                "cache_control": { "type": "ephemeral" },
            });
            body.insert("system".into(), json!([block]));
        }
        self.effort(options, max_tokens, &mut body);
        if let Some(schema) = &options.output_schema {
            let format = json!({ "type": "json_schema", "schema": &**schema });
            match body.get_mut("output_config") {
                Some(config) => config["format"] = format,
                None => drop(body.insert("output_config".into(), json!({ "format": format }))),
            }
        }
        json(out, &body);
        // Reopened, so that the messages can follow: an object ends with its brace.
        out.pop();
        out.extend_from_slice(b",\"messages\":[");
    }

    fn group(&self, items: &[Arc<Item>], out: &mut Vec<u8>) {
        message(items, false, out);
    }

    /// The end of the history is where the next request's shared prefix ends.
    fn last_group(&self, items: &[Arc<Item>], out: &mut Vec<u8>) {
        message(items, true, out);
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
    json!({ "name": &*spec.name, "description": &*spec.description, "input_schema": schema })
}

fn message(items: &[Arc<Item>], mark: bool, out: &mut Vec<u8>) {
    let model_side = items.first().is_some_and(|first| is_model_side(first));
    let mut blocks = if model_side { assistant(items) } else { user(items) };
    if blocks.is_empty() {
        return;
    }
    if mark
        && !model_side
        && let Some(Value::Object(last)) = blocks.last_mut()
    {
        last.insert("cache_control".into(), json!({ "type": "ephemeral" }));
    }
    let role = if model_side { "assistant" } else { "user" };
    json(out, &json!({ "role": role, "content": blocks }));
}

fn assistant(items: &[Arc<Item>]) -> Vec<Value> {
    let mut blocks = Vec::new();
    for item in items {
        match &**item {
            Item::Message { raw: Some(raw), .. } if raw.get(RAW).is_some() => own(raw, &mut blocks),
            Item::Message { text, .. } if !text.trim().is_empty() => {
                blocks.push(json!({ "type": "text", "text": text }));
            }
            Item::Reasoning { raw: Some(raw), .. } | Item::Unknown { raw } => {
                own(raw, &mut blocks);
            }
            Item::ToolCall(call) => blocks.push(tool_use(call)),
            _ => {}
        }
    }
    blocks
}

/// The blocks as this wire gave them, if they came by this wire.
fn own(raw: &Value, blocks: &mut Vec<Value>) {
    match raw.get(RAW) {
        Some(Value::Array(list)) => blocks.extend(list.iter().cloned()),
        Some(block) => blocks.push(block.clone()),
        None => {}
    }
}

fn tool_use(call: &ToolCall) -> Value {
    let input = match &call.payload {
        ToolPayload::Json(text) => argument_object(text),
        ToolPayload::Text(text) => json!({ "input": text }),
    };
    json!({ "type": "tool_use", "id": call.call_id, "name": call.name, "input": input })
}

/// Results come before any text of the same message, or the provider refuses it.
fn user(items: &[Arc<Item>]) -> Vec<Value> {
    let mut blocks = Vec::new();
    let mut texts = Vec::new();
    for item in items {
        match &**item {
            Item::ToolResult(result) => {
                let mut block = json!({
                    "type": "tool_result", "tool_use_id": result.call_id,
                    "content": result.output,
                });
                if !result.result.is_ok() {
                    block["is_error"] = json!(true);
                }
                blocks.push(block);
            }
            Item::Message { text, .. } if !text.trim().is_empty() => {
                texts.push(json!({ "type": "text", "text": text }));
            }
            _ => {}
        }
    }
    blocks.extend(texts);
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(model: &str, options: PromptOptions) -> Value {
        let prompt = Prompt {
            instructions: "i".into(),
            items: Vec::new().into(),
            tools: Vec::new().into(),
            options,
            fingerprint: String::new(),
        };
        let mut out = Vec::new();
        let request = Request::new(model);
        request.head(&prompt, &mut out);
        request.tail(&prompt, &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn effort_is_said_in_the_words_of_the_model() {
        let options = |effort: &str, max: Option<u64>| PromptOptions {
            effort: Some(effort.into()),
            max_output_tokens: max,
            ..PromptOptions::default()
        };
        let old = body("claude-sonnet-4-5", options("high", None));
        assert_eq!(old["thinking"], json!({ "type": "enabled", "budget_tokens": 24_000 }));
        let short = body("claude-sonnet-4-5", options("high", Some(1_000)));
        assert_eq!(short["thinking"], Value::Null);
        assert_eq!(short["max_tokens"], 1_000);
        for model in ["claude-opus-4-6", "claude-opus-5"] {
            let new = body(model, options("xhigh", None));
            assert_eq!(new["thinking"], json!({ "type": "adaptive" }));
            assert_eq!(new["output_config"], json!({ "effort": "xhigh" }));
        }
        let plain = body("claude-3-5-haiku", PromptOptions::default());
        assert_eq!(plain["max_tokens"], 8_192);
        assert!(plain.get("thinking").is_none());
    }
}
