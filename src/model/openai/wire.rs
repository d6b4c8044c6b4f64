//! The forms of the wire that are read: lenient where a server may differ, and nothing is trusted
//! to be there.

use super::super::json::{Text, count, field};
use super::RAW;
use crate::protocol::{CallId, Item, Role, ToolCall, ToolPayload, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What any event may carry; the large parts are looked at only when needed.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Option<Text<'a>>,
    pub output_index: Option<u64>,
    #[serde(borrow)]
    pub item_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub delta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub response: Option<&'a RawValue>,
}

/// An output item in our words, the provider's form kept beside it.
pub(super) fn item(raw: Value) -> Item {
    match field(&raw, "type") {
        "message" => Item::Message {
            role: Role::Assistant,
            text: parts(&raw, "content", &["output_text", "text"], "text", ""),
            fragment: None,
            raw: Some(kept(raw)),
        },
        "reasoning" => {
            let summary = parts(&raw, "summary", &["summary_text"], "text", "\n\n");
            let text = if summary.is_empty() {
                parts(&raw, "content", &["reasoning_text", "text"], "text", "\n\n")
            } else {
                summary
            };
            Item::Reasoning { text, raw: Some(kept(raw)) }
        }
        "function_call" => {
            let arguments = ToolPayload::Json(argument_text(raw.get("arguments")));
            call(raw, arguments)
        }
        "custom_tool_call" => {
            let input = ToolPayload::Text(field(&raw, "input").to_owned());
            call(raw, input)
        }
        _ => Item::Unknown { raw: kept(raw) },
    }
}

/// The words with which the model declined, if this item is that.
pub(super) fn refusal(raw: &Value) -> Option<String> {
    let text = parts(raw, "content", &["refusal"], "refusal", " ");
    (!text.is_empty()).then_some(text)
}

fn kept(raw: Value) -> Value {
    json!({ RAW: raw })
}

fn call(raw: Value, payload: ToolPayload) -> Item {
    let id = match field(&raw, "call_id") {
        "" => field(&raw, "id"),
        id => id,
    };
    Item::ToolCall(ToolCall {
        call_id: CallId::from(id),
        name: field(&raw, "name").to_owned(),
        payload,
        raw: Some(kept(raw)),
    })
}

/// Arguments are a text that should be JSON; some servers send the JSON itself.
fn argument_text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

/// The texts of an item's parts of certain types, joined.
fn parts(raw: &Value, list: &str, types: &[&str], key: &str, joint: &str) -> String {
    match raw.get(list) {
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts
                .iter()
                .filter(|part| types.contains(&field(part, "type")))
                .map(|part| field(part, key))
                .collect();
            texts.join(joint)
        }
        Some(Value::String(text)) if key == "text" => text.clone(),
        _ => String::new(),
    }
}

/// Token counts; what is missing counts as nothing.
pub(super) fn usage(response: &Value) -> Option<Usage> {
    let usage = response.get("usage").filter(|usage| usage.is_object())?;
    let detail = |list: &str, key: &str| count(usage.get(list).and_then(|list| list.get(key)));
    Some(Usage {
        input: count(usage.get("input_tokens")),
        cached: detail("input_tokens_details", "cached_tokens"),
        output: count(usage.get("output_tokens")),
        reasoning: detail("output_tokens_details", "reasoning_tokens"),
    })
}
