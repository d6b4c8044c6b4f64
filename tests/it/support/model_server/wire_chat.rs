//! An answer in the chunks of the Chat Completions wire.

use super::reply::{Answer, Ending, Usage};
use serde_json::{Value, json};

/// How many events at the end of an answer say that it is whole.
pub const TERMINAL: usize = 3;

/// All chunks of one completion, the end marker included.
pub fn render(answer: &Answer, request: &Value) -> Vec<(String, String)> {
    let mut stream = Stream { model: request["model"].clone(), events: Vec::new() };
    if let Ending::Failed { code, message } = &answer.ending {
        stream.delta(json!({ "role": "assistant", "content": "" }), Value::Null);
        let error = json!({ "error": { "code": code, "type": code, "message": message } });
        stream.events.push((String::new(), error.to_string()));
        return stream.events;
    }
    stream.delta(json!({ "role": "assistant", "content": "" }), Value::Null);
    for piece in answer.reasoning.iter().flat_map(|text| pieces(text, answer.deltas)) {
        stream.delta(json!({ "reasoning_content": piece }), Value::Null);
    }
    for piece in answer.refusal.iter().flat_map(|text| pieces(text, answer.deltas)) {
        stream.delta(json!({ "refusal": piece }), Value::Null);
    }
    for piece in answer.text.iter().flat_map(|text| pieces(text, answer.deltas)) {
        stream.delta(json!({ "content": piece }), Value::Null);
    }
    for (index, call) in answer.calls.iter().enumerate() {
        let mut first = json!({
            "index": index, "id": call.id, "type": "function",
            "function": { "name": call.name, "arguments": "" },
        });
        if !answer.deltas {
            first["function"]["arguments"] = json!(call.input);
        }
        stream.delta(json!({ "tool_calls": [first] }), Value::Null);
        for piece in pieces(&call.input, true).into_iter().filter(|_| answer.deltas) {
            let piece = json!({ "index": index, "function": { "arguments": piece } });
            stream.delta(json!({ "tool_calls": [piece] }), Value::Null);
        }
    }
    let reason = match &answer.ending {
        Ending::Incomplete(reason) if reason == "content_filter" => "content_filter",
        Ending::Incomplete(_) => "length",
        _ if answer.calls.is_empty() => "stop",
        _ => "tool_calls",
    };
    stream.delta(json!({}), json!(reason));
    if let Some(usage) = &answer.usage {
        let mut chunk = stream.chunk(json!([]));
        chunk["usage"] = usage_of(usage);
        stream.events.push((String::new(), chunk.to_string()));
    }
    stream.events.push((String::new(), "[DONE]".into()));
    stream.events
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
        "completion_tokens": usage.output,
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": usage.input + usage.output,
    })
}

struct Stream {
    model: Value,
    events: Vec<(String, String)>,
}

impl Stream {
    fn chunk(&self, choices: Value) -> Value {
        json!({
            "id": "resp_0001", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": self.model, "choices": choices, "usage": null,
        })
    }

    fn delta(&mut self, delta: Value, finish: Value) {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let chunk = self.chunk(json!([choice]));
        self.events.push((String::new(), chunk.to_string()));
    }
}

fn pieces(text: &str, cut: bool) -> Vec<String> {
    if cut { super::wire_responses::pieces(text) } else { vec![text.to_owned()] }
}
