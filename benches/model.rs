//! What the model room costs: reading streams, and making requests at growing histories.

use divan::{Bencher, counter::BytesCount};
use serde_json::json;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;
use turnkey::context::History;
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
        items: items.into(),
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

/// The answer of the lean server.
const ANSWER: &str = concat!(
    "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[{\"type\":",
    "\"message\",\"id\":\"m\",\"content\":[{\"type\":\"output_text\",\"text\":\"done\"}]}]}}\n\n",
);

/// A server that reads a request as fast as it can and gives the same answer each time, so that what
/// is measured is the client. It keeps the length of the last body.
fn lean_server() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ";
    let answer = format!("{head}{}\r\n\r\n{ANSWER}", ANSWER.len());
    let length = Arc::new(AtomicUsize::new(0));
    let seen = length.clone();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.set_nodelay(true);
            let mut chunk = vec![0u8; 256 * 1024];
            while let Some(length) = read_request(&mut socket, &mut chunk) {
                seen.store(length, Ordering::Relaxed);
                if socket.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    (address, length)
}

/// Reads one request and gives the length of its body.
fn read_request(socket: &mut std::net::TcpStream, chunk: &mut [u8]) -> Option<usize> {
    let mut read: Vec<u8> = Vec::new();
    let (length, mut left) = loop {
        let count = socket.read(chunk).ok().filter(|count| *count > 0)?;
        read.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&read).to_ascii_lowercase();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let line = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = line?.trim().parse().ok()?;
            break (length, length.saturating_sub(read.len() - head.len() - 4));
        }
    };
    while left > 0 {
        left -= socket.read(chunk).ok().filter(|count| *count > 0)?.min(left);
    }
    Some(length)
}

fn history(steps: usize) -> History {
    let mut history = History::default();
    prompt(steps).items.iter().cloned().for_each(|item| history.push(item));
    history
}

/// Steps over a loopback connection that is kept: two items enter the history, the prompt is
/// compiled, the request is made and sent, the answer is read.
struct Steps {
    model: Arc<dyn Model>,
    history: History,
    number: usize,
    like: Prompt,
    runtime: tokio::runtime::Runtime,
}

impl Steps {
    fn new(address: std::net::SocketAddr, steps: usize) -> Self {
        let base_url = Some(format!("http://{address}/v1"));
        let endpoint = Endpoint { base_url, ..Endpoint::default() };
        let config = ModelConfig { endpoint, ..ModelConfig::default() };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        let model = open("openai/m", config).expect("model");
        Self { model, history: history(steps), number: steps, like: prompt(0), runtime }
    }

    fn step(&mut self) {
        step(self.number).into_iter().for_each(|item| self.history.push(item));
        self.number += 1;
        let Prompt { instructions, tools, options, .. } = &self.like;
        let prompt = self.history.compile(instructions, tools, options);
        let (cancel, retry, mut silent) =
            (CancellationToken::new(), RetryPolicy::default(), Silent);
        let answer = sample(&*self.model, &prompt, &retry, &cancel, &mut silent);
        self.runtime.block_on(answer).expect("an answer");
    }
}

/// All that a Step costs on this side, and the bytes' way through the loopback.
#[divan::bench(args = [10, 100, 1000], sample_count = 40, sample_size = 1)]
fn one_step_over_loopback(bencher: Bencher<'_, '_>, steps: usize) {
    let mut steps = Steps::new(lean_server().0, steps);
    steps.step();
    bencher.bench_local(|| steps.step());
}

/// The same bytes on the same way with nothing done to them: what no client can save.
#[divan::bench(args = [10, 100, 1000], sample_count = 40, sample_size = 1)]
fn the_bare_bytes_over_loopback(bencher: Bencher<'_, '_>, steps: usize) {
    let (address, length) = lean_server();
    Steps::new(address, steps).step();
    let length = length.load(Ordering::Relaxed);
    let head = format!("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
    let request = [head.into_bytes(), vec![b'x'; length]].concat();
    let mut socket = std::net::TcpStream::connect(address).expect("a connection");
    socket.set_nodelay(true).expect("no delay");
    let mut answer = vec![0u8; 64 * 1024];
    bencher.bench_local(|| {
        socket.write_all(&request).expect("the request goes");
        let mut read = 0;
        while !answer[..read].ends_with(b"}]}]}}\n\n") {
            read += socket.read(&mut answer[read..]).expect("the answer comes");
        }
    });
}

/// Everything of a Step that is no transport: compile the prompt, make the body.
#[divan::bench(args = [10, 100, 1000], sample_count = 40, sample_size = 1)]
fn one_step_without_transport(bencher: Bencher<'_, '_>, steps: usize) {
    let model = model("openai/m");
    let (mut history, mut number, like) = (history(steps), steps, prompt(0));
    let mut make = || {
        step(number).into_iter().for_each(|item| history.push(item));
        number += 1;
        let prompt = history.compile(&like.instructions, &like.tools, &like.options);
        model.stream(&prompt, CancellationToken::new())
    };
    make();
    bencher.bench_local(make);
}

#[divan::bench]
fn open_a_model() -> Arc<dyn Model> {
    model("openai/m")
}
