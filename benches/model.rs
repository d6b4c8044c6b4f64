//! What the model room costs: reading streams, and making requests at growing histories.

use divan::{Bencher, counter::BytesCount};
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use turnkey::model::{
    Endpoint, Model, ModelConfig, RetryPolicy, Silent, decode, open, sample, sse,
};
use turnkey::protocol::{
    CallId, Effect, Fragment, Item, Prompt, PromptOptions, ResultKind, Role, ToolCall, ToolInput,
    ToolPayload, ToolResult, ToolSpec,
};

fn main() {
    divan::main();
}

/// A stream of many small deltas, as providers send them.
fn stream(provider: &str, deltas: usize) -> Vec<u8> {
    let mut out = String::new();
    let mut add = |name: &str, data: serde_json::Value| {
        if !name.is_empty() {
            out.push_str(&format!("event: {name}\n"));
        }
        out.push_str(&format!("data: {data}\n\n"));
    };
    for number in 0..deltas {
        let word = format!("word{number} ");
        match provider {
            "openai" => add(
                "response.output_text.delta",
                json!({ "type": "response.output_text.delta", "sequence_number": number,
                        "item_id": "msg_0001", "output_index": 0, "content_index": 0,
                        "delta": word, "logprobs": [] }),
            ),
            "chat" => add(
                "",
                json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                        "choices": [{ "index": 0, "delta": { "content": word },
                                      "finish_reason": null }] }),
            ),
            _ => add(
                "content_block_delta",
                json!({ "type": "content_block_delta", "index": 0,
                        "delta": { "type": "text_delta", "text": word } }),
            ),
        }
    }
    out.into_bytes()
}

#[divan::bench(args = ["openai", "chat", "anthropic"])]
fn decode_20_000_deltas(bencher: Bencher<'_, '_>, provider: &str) {
    let bytes = stream(provider, 20_000);
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench(|| decode(provider, divan::black_box(&bytes).chunks(1400)).0.len());
}

#[divan::bench]
fn sse_alone(bencher: Bencher<'_, '_>) {
    let bytes = stream("openai", 20_000);
    bencher.counter(BytesCount::new(bytes.len())).bench(|| events_in(&bytes, 1400));
}

#[divan::bench]
fn sse_one_line_of_4_mib(bencher: Bencher<'_, '_>) {
    let bytes = format!("data: {}\n\n", "x".repeat(4 << 20)).into_bytes();
    bencher.counter(BytesCount::new(bytes.len())).bench(|| events_in(&bytes, 1400));
}

fn events_in(bytes: &[u8], size: usize) -> usize {
    let mut decoder = sse::Decoder::default();
    let mut count = 0;
    for piece in bytes.chunks(size) {
        decoder.push(piece);
        while let Ok(Some(event)) = decoder.next_event() {
            count += divan::black_box(&event.data).len().min(1);
        }
    }
    count
}

fn model(reference: &str) -> Arc<dyn Model> {
    let endpoint =
        Endpoint { base_url: Some("http://127.0.0.1:9/v1".into()), ..Endpoint::default() };
    open(reference, ModelConfig { endpoint, ..ModelConfig::default() }).expect("a model")
}

fn step(number: usize) -> [Arc<Item>; 2] {
    let call_id = CallId(format!("call_{number}"));
    let arguments = json!({ "cmd": "cargo test --workspace", "workdir": null }).to_string();
    let call = ToolCall {
        call_id: call_id.clone(),
        name: "exec_command".into(),
        payload: ToolPayload::Json(arguments),
        raw: None,
    };
    let result = ToolResult {
        call_id,
        name: "exec_command".into(),
        result: ResultKind::Ok,
        effect: Effect::Done,
        output: "line of output\n".repeat(60),
        exit_code: Some(0),
        duration_ms: 12,
        freeform: false,
    };
    [Arc::new(Item::ToolCall(call)), Arc::new(Item::ToolResult(result))]
}

fn prompt(steps: usize) -> Prompt {
    let schema = json!({ "type": "object", "properties": { "cmd": { "type": "string" } },
                         "required": ["cmd"], "additionalProperties": false });
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: "Does what its name says, within what the policy allows.".into(),
        input: ToolInput::Json(schema.clone()),
    };
    let names = ["exec_command", "read_file", "list_files", "search", "apply_patch", "update_plan"];
    let mut items = vec![Arc::new(Item::ours(Role::User, Fragment::Task, "Do it."))];
    items.extend((0..steps).flat_map(step));
    Prompt {
        instructions: "You work alone. ".repeat(200).into(),
        items,
        tools: names.map(tool).into(),
        options: PromptOptions::default(),
        fingerprint: String::new(),
    }
}

/// One more step after a history: what its request costs until it is ready to be sent.
#[divan::bench(
    args = [("openai/m", 10), ("openai/m", 100), ("openai/m", 1000),
            ("chat/m", 10), ("chat/m", 1000), ("anthropic/m", 10), ("anthropic/m", 1000)]
)]
fn request_of_the_next_step(bencher: Bencher<'_, '_>, (reference, steps): (&str, usize)) {
    let before = prompt(steps);
    let mut after = before.clone();
    after.items.extend(step(steps));
    bencher
        .with_inputs(|| {
            let model = model(reference);
            drop(model.stream(&before, CancellationToken::new()));
            model
        })
        .bench_refs(|model| drop(model.stream(&after, CancellationToken::new())));
}

/// A server that reads a request as fast as it can and gives the same answer each time, so that what
/// is measured is the client.
fn lean_server() -> std::net::SocketAddr {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let body = concat!(
        "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[{\"type\":",
        "\"message\",\"id\":\"m\",\"content\":[{\"type\":\"output_text\",\"text\":\"done\"}]}]}}\n\n",
    );
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ";
    let answer = format!("{head}{}\r\n\r\n{body}", body.len());
    std::thread::spawn(move || {
        let mut chunk = vec![0u8; 256 * 1024];
        for mut socket in listener.incoming().flatten() {
            let _ = socket.set_nodelay(true);
            let mut read: Vec<u8> = Vec::new();
            loop {
                read.clear();
                let mut left = usize::MAX;
                while left > 0 {
                    let Ok(count @ 1..) = socket.read(&mut chunk) else { break };
                    if left == usize::MAX {
                        read.extend_from_slice(&chunk[..count]);
                        let text = String::from_utf8_lossy(&read);
                        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
                        let length = head
                            .lines()
                            .find_map(|line| {
                                line.to_ascii_lowercase()
                                    .strip_prefix("content-length: ")?
                                    .parse()
                                    .ok()
                            })
                            .unwrap_or(0usize);
                        left = length.saturating_sub(read.len() - head.len() - 4);
                    } else {
                        left = left.saturating_sub(count);
                    }
                }
                if left != 0 || socket.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    address
}

/// One response over a loopback connection that is kept.
#[divan::bench(args = [10, 100, 1000], sample_count = 100)]
fn one_response_over_loopback(bencher: Bencher<'_, '_>, steps: usize) {
    let base = format!("http://{}/v1", lean_server());
    let endpoint = Endpoint { base_url: Some(base), ..Endpoint::default() };
    let model =
        open("openai/m", ModelConfig { endpoint, ..ModelConfig::default() }).expect("model");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let mut history = prompt(steps);
    let cancel = CancellationToken::new();
    let retry = RetryPolicy::default();
    let mut number = steps;
    bencher.bench_local(|| {
        history.items.extend(step(number));
        number += 1;
        let mut silent = Silent;
        let answer = sample(&*model, &history, &retry, &cancel, &mut silent);
        runtime.block_on(answer).expect("an answer")
    });
}

#[divan::bench]
fn open_a_model() -> Arc<dyn Model> {
    model("openai/m")
}
