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
    if request.path.contains("/responses") {
        return responses(&request.json);
    }
    None
}

fn responses(body: &Value) -> Option<String> {
    let items = body["input"].as_array()?;
    let mut open: Vec<&str> = Vec::new();
    for item in items {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str().unwrap_or_default() {
            "function_call" | "custom_tool_call" => open.push(id),
            "function_call_output" | "custom_tool_call_output" => {
                match open.iter().position(|known| *known == id) {
                    Some(at) => drop(open.remove(at)),
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
