//! What a real provider refuses a request for.

use super::http::Request;
use serde_json::Value;

/// The first fault of a request, in the provider's manner.
pub fn problem(request: &Request) -> Option<String> {
    if request.method == "CONNECT" {
        return None;
    }
    if request.json.is_null() {
        return Some(format!("{} {}: the body is no JSON", request.method, request.path));
    }
    match request.path.split('?').next().unwrap_or_default() {
        path if path.ends_with("/chat/completions") => chat(&request.json),
        path if path.ends_with("/messages") => messages(&request.json),
        path if path.ends_with("/responses") => responses(&request.json),
        path => Some(format!("there is nothing at {path}")),
    }
}

fn responses(body: &Value) -> Option<String> {
    let items = body["input"].as_array()?;
    let mut open: Vec<&str> = Vec::new();
    // Then the calls stand in a response that we would have kept.
    let goes_on = body["previous_response_id"].is_string();
    for item in items {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str().unwrap_or_default() {
            "function_call" | "custom_tool_call" => open.push(id),
            "function_call_output" | "custom_tool_call_output" => {
                match open.iter().position(|known| *known == id) {
                    Some(at) => drop(open.remove(at)),
                    None if goes_on => {}
                    None => {
                        return Some(format!("No tool call found for output with call_id {id}."));
                    }
                }
            }
            _ => {}
        }
    }
    open.first().map(|id| format!("No tool output found for function call {id}."))
}

/// Every call is answered by a tool message before anybody else speaks, arguments are JSON, and
/// sides alternate.
fn chat(body: &Value) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    let mut before = "";
    for message in body["messages"].as_array()? {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            match open.iter().position(|known| known == id) {
                Some(at) => drop(open.remove(at)),
                None => return Some(format!("'tool' message answers unknown call {id}")),
            }
        } else if !open.is_empty() {
            return Some(format!("tool calls without messages: {}", open.join(", ")));
        }
        if role == before && role != "tool" {
            return Some(format!("two messages of {role} in a row"));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                return Some(format!("arguments are no JSON object: {arguments}"));
            }
            open.push(call["id"].as_str().unwrap_or_default().to_owned());
        }
        before = role;
    }
    open.first().map(|id| format!("no tool message for call {id}"))
}

/// Sides alternate, each `tool_use` is answered in the very next message, results stand first.
fn messages(body: &Value) -> Option<String> {
    if body["max_tokens"].as_u64().is_none() {
        return Some("max_tokens: Field required".into());
    }
    let mut open: Vec<String> = Vec::new();
    let mut before = "assistant";
    for message in body["messages"].as_array()? {
        let role = message["role"].as_str().unwrap_or_default();
        if role == before {
            return Some(format!("messages: two messages of {role} in a row"));
        }
        before = role;
        let mut texts = false;
        let mut asked = Vec::new();
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str().unwrap_or_default() {
                "tool_use" => asked.push(block["id"].as_str().unwrap_or_default().to_owned()),
                "tool_result" => {
                    let id = block["tool_use_id"].as_str().unwrap_or_default();
                    match open.iter().position(|known| known == id) {
                        Some(at) => drop(open.remove(at)),
                        None => return Some(format!("unexpected `tool_use_id`: {id}")),
                    }
                    if texts {
                        return Some("tool_result blocks must come first".into());
                    }
                }
                "text" if block["text"].as_str().unwrap_or_default().trim().is_empty() => {
                    return Some("text content blocks must be non-empty".into());
                }
                "text" => texts = true,
                _ => {}
            }
        }
        if let Some(id) = open.first() {
            return Some(format!("`tool_use` ids without `tool_result` blocks: {id}"));
        }
        open = asked;
    }
    open.first().map(|id| format!("`tool_use` ids without `tool_result` blocks: {id}"))
}
