//! An answer in the events of the Messages wire.

use super::reply::{Answer, Ending, Usage};
use super::wire_responses::pieces;
use serde_json::{Value, json};

/// How many events at the end of an answer say that it is whole.
pub const TERMINAL: usize = 2;

/// All events of one message.
pub fn render(answer: &Answer, request: &Value) -> Vec<(String, String)> {
    let mut stream = Stream { events: Vec::new(), blocks: 0, deltas: answer.deltas };
    let usage = answer.usage.unwrap_or(Usage { input: 0, cached: 0, output: 0, reasoning: 0 });
    let message = json!({
        "id": "resp_0001", "type": "message", "role": "assistant", "content": [],
        "model": request["model"], "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input - usage.cached, "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": 0, "output_tokens": 1,
        },
    });
    stream.push("message_start", json!({ "message": message }));
    stream.push("ping", json!({}));
    if let Ending::Failed { code, message } = &answer.ending {
        stream.push("error", json!({ "error": { "type": code, "message": message } }));
        return stream.events;
    }
    if let Some(text) = &answer.reasoning {
        stream.thinking(text);
    }
    for text in [&answer.text, &answer.refusal].into_iter().flatten() {
        let start = json!({ "type": "text", "text": "" });
        stream.block(start, "text_delta", "text", text);
    }
    for call in &answer.calls {
        let start = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        stream.block(start, "input_json_delta", "partial_json", &call.input);
    }
    let reason = match &answer.ending {
        Ending::Incomplete(reason) if reason == "content_filter" => "refusal",
        Ending::Incomplete(reason) if reason == "pause_turn" => "pause_turn",
        Ending::Incomplete(_) => "max_tokens",
        _ if answer.refusal.is_some() => "refusal",
        _ if answer.calls.is_empty() => "end_turn",
        _ => "tool_use",
    };
    stream.push(
        "message_delta",
        json!({
            "delta": { "stop_reason": reason, "stop_sequence": null },
            "usage": { "output_tokens": usage.output },
        }),
    );
    stream.push("message_stop", json!({}));
    stream.events
}

struct Stream {
    events: Vec<(String, String)>,
    blocks: usize,
    deltas: bool,
}

impl Stream {
    fn push(&mut self, name: &str, mut event: Value) {
        event["type"] = json!(name);
        self.events.push((name.to_owned(), event.to_string()));
    }

    fn open(&mut self, start: Value) {
        let index = self.blocks;
        self.push("content_block_start", json!({ "index": index, "content_block": start }));
    }

    fn delta(&mut self, delta: Value) {
        let index = self.blocks;
        self.push("content_block_delta", json!({ "index": index, "delta": delta }));
    }

    fn close(&mut self) {
        let index = self.blocks;
        self.push("content_block_stop", json!({ "index": index }));
        self.blocks += 1;
    }

    fn block(&mut self, start: Value, kind: &str, key: &str, text: &str) {
        self.open(start);
        let all = if self.deltas { pieces(text) } else { vec![text.to_owned()] };
        for piece in all {
            self.delta(json!({ "type": kind, key: piece }));
        }
        self.close();
    }

    fn thinking(&mut self, text: &str) {
        self.open(json!({ "type": "thinking", "thinking": "", "signature": "" }));
        for piece in pieces(text) {
            self.delta(json!({ "type": "thinking_delta", "thinking": piece }));
        }
        let signature = format!("signed-{}", self.blocks);
        self.delta(json!({ "type": "signature_delta", "signature": signature }));
        self.close();
    }
}
