//! An answer in the events of the Responses wire, typed and numbered as the real one's are.

use super::reply::{Answer, Call, Ending, Usage};
use serde_json::{Value, json};

/// How many events at the end of an answer say that it is whole.
pub const TERMINAL: usize = 1;

/// All events of one response.
pub fn render(answer: &Answer, request: &Value) -> Vec<(String, String)> {
    let mut stream = Stream::default();
    let base = |status: &str, output: &[Value], usage: Option<&Usage>| {
        response(request, status, output, usage, &answer.ending)
    };
    stream.push("response.created", json!({ "response": base("in_progress", &[], None) }));
    stream.push("response.in_progress", json!({ "response": base("in_progress", &[], None) }));
    let whole = answer.ending == Ending::Completed;
    if let Some(text) = &answer.reasoning {
        stream.reasoning(text, answer.deltas);
    }
    if answer.text.is_some() || answer.refusal.is_some() {
        stream.message(answer, whole);
    }
    for call in &answer.calls {
        stream.call(call, answer.deltas, whole);
    }
    for item in &answer.items {
        let index = stream.output.len();
        stream.push("response.output_item.added", json!({ "output_index": index, "item": item }));
        stream.done(item.clone());
    }
    let (name, status) = match &answer.ending {
        Ending::Completed => ("response.completed", "completed"),
        Ending::Incomplete(_) => ("response.incomplete", "incomplete"),
        Ending::Failed { .. } => ("response.failed", "failed"),
    };
    let output = std::mem::take(&mut stream.output);
    stream.push(name, json!({ "response": base(status, &output, answer.usage.as_ref()) }));
    stream.events
}

fn response(
    request: &Value,
    status: &str,
    output: &[Value],
    usage: Option<&Usage>,
    ending: &Ending,
) -> Value {
    let over = status != "in_progress";
    let error = match ending {
        Ending::Failed { code, message } if over => json!({ "code": code, "message": message }),
        _ => Value::Null,
    };
    let details = match ending {
        Ending::Incomplete(reason) if over => json!({ "reason": reason }),
        _ => Value::Null,
    };
    json!({
        "id": "resp_0001", "object": "response", "created_at": 1_700_000_000,
        "status": status, "error": error, "incomplete_details": details,
        "instructions": request["instructions"], "metadata": {}, "model": request["model"],
        "output": output, "parallel_tool_calls": true, "temperature": 1.0,
        "tool_choice": "auto", "tools": [], "top_p": 1.0, "store": false,
        "usage": usage.map(usage_of),
    })
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": { "cached_tokens": usage.cached, "cache_write_tokens": 0 },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": usage.input + usage.output,
    })
}

#[derive(Default)]
struct Stream {
    events: Vec<(String, String)>,
    output: Vec<Value>,
}

impl Stream {
    fn push(&mut self, name: &str, mut event: Value) {
        let number = self.events.len();
        event["type"] = json!(name);
        event["sequence_number"] = json!(number);
        self.events.push((name.to_owned(), event.to_string()));
    }

    fn done(&mut self, item: Value) {
        let index = self.output.len();
        self.push("response.output_item.done", json!({ "output_index": index, "item": item }));
        self.output.push(item);
    }

    fn reasoning(&mut self, text: &str, deltas: bool) {
        let index = self.output.len();
        let id = format!("rs_{index:04}");
        let added = json!({ "id": id, "type": "reasoning", "summary": [] });
        self.push("response.output_item.added", json!({ "output_index": index, "item": added }));
        let place = |mut event: Value| {
            event["item_id"] = json!(id);
            event["output_index"] = json!(index);
            event["summary_index"] = json!(0);
            event
        };
        let part = json!({ "type": "summary_text", "text": text });
        if deltas {
            let empty = json!({ "part": { "type": "summary_text", "text": "" } });
            self.push("response.reasoning_summary_part.added", place(empty));
            for piece in pieces(text) {
                let event = place(json!({ "delta": piece }));
                self.push("response.reasoning_summary_text.delta", event);
            }
            self.push("response.reasoning_summary_text.done", place(json!({ "text": text })));
            self.push("response.reasoning_summary_part.done", place(json!({ "part": part })));
        }
        self.done(json!({
            "id": id, "type": "reasoning", "summary": [part],
            "encrypted_content": format!("encrypted-{index}"),
        }));
    }

    fn message(&mut self, answer: &Answer, whole: bool) {
        let index = self.output.len();
        let id = format!("msg_{index:04}");
        let item = |status: &str, content: Value| {
            json!({
                "id": id, "type": "message", "role": "assistant", "status": status,
                "content": content,
            })
        };
        let added = item("in_progress", json!([]));
        self.push("response.output_item.added", json!({ "output_index": index, "item": added }));
        let place = |mut event: Value| {
            event["item_id"] = json!(id);
            event["output_index"] = json!(index);
            event["content_index"] = json!(0);
            event
        };
        let output = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
        let part = match (&answer.refusal, &answer.text) {
            (Some(refusal), _) => json!({ "type": "refusal", "refusal": refusal }),
            (None, text) => output(text.as_deref().unwrap_or_default()),
        };
        if answer.deltas && answer.refusal.is_none() {
            let text = answer.text.as_deref().unwrap_or_default();
            self.push("response.content_part.added", place(json!({ "part": output("") })));
            for piece in pieces(text) {
                let event = place(json!({ "delta": piece, "logprobs": [] }));
                self.push("response.output_text.delta", event);
            }
            if whole {
                let event = place(json!({ "text": text, "logprobs": [] }));
                self.push("response.output_text.done", event);
                self.push("response.content_part.done", place(json!({ "part": part })));
            }
        }
        let status = if whole { "completed" } else { "incomplete" };
        self.done(item(status, json!([part])));
    }

    fn call(&mut self, call: &Call, deltas: bool, whole: bool) {
        let index = self.output.len();
        let (kind, field, id) = if call.freeform {
            ("custom_tool_call", "input", format!("ctc_{index:04}"))
        } else {
            ("function_call", "arguments", format!("fc_{index:04}"))
        };
        let item = |status: &str, input: &str| {
            json!({
                "id": id, "type": kind, "status": status, "call_id": call.id,
                "name": call.name, field: input,
            })
        };
        let added = item("in_progress", "");
        self.push("response.output_item.added", json!({ "output_index": index, "item": added }));
        let place = |mut event: Value| {
            event["item_id"] = json!(id);
            event["output_index"] = json!(index);
            event
        };
        let (delta, done) = if call.freeform {
            ("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done")
        } else {
            ("response.function_call_arguments.delta", "response.function_call_arguments.done")
        };
        if deltas {
            for piece in pieces(&call.input) {
                self.push(delta, place(json!({ "delta": piece })));
            }
            if whole {
                let event = place(json!({ field: call.input }));
                self.push(done, event);
            }
        }
        let status = if whole { "completed" } else { "incomplete" };
        self.done(item(status, &call.input));
    }
}

/// A text in a few pieces, cut between characters.
pub fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(4).max(1);
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}
