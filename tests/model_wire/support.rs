//! What the tests share: prompts, models at a test server, an observer that keeps notes.

use crate::model_server::Server;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use turnkey::model::{
    BoxFuture, Endpoint, Model, ModelConfig, ModelError, Observer, Response, RetryPolicy, Secret,
    Timeouts, open, sample,
};
use turnkey::protocol::{
    CallId, Effect, Fragment, Item, Prompt, PromptOptions, ResultKind, Role, ToolInput, ToolResult,
    ToolSpec,
};

/// The runtime of the program: one thread.
pub fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

pub fn schema() -> Value {
    json!({
        "type": "object", "properties": { "cmd": { "type": "string" } },
        "required": ["cmd"], "additionalProperties": false,
    })
}

pub fn prompt(items: Vec<Item>) -> Prompt {
    let tools = [
        ToolSpec {
            name: "exec_command".into(),
            description: "Runs a command.".into(),
            input: ToolInput::Json(schema()),
        },
        ToolSpec {
            name: "apply_patch".into(),
            description: "Applies a patch.".into(),
            input: ToolInput::Freeform { grammar: "start: /.+/".into(), property: "patch".into() },
        },
    ];
    Prompt {
        instructions: "You work alone.".into(),
        items: items.into_iter().map(Arc::new).collect(),
        tools: tools.into(),
        options: PromptOptions { cache_key: "session-1".into(), ..PromptOptions::default() },
        fingerprint: String::new(),
    }
}

pub fn task() -> Prompt {
    prompt(vec![Item::ours(Role::User, Fragment::Task, "Make the test pass.")])
}

pub fn result(call_id: &str, output: &str, freeform: bool) -> Item {
    Item::ToolResult(ToolResult {
        call_id: CallId::from(call_id),
        name: "exec_command".into(),
        result: ResultKind::Ok,
        effect: Effect::Done,
        output: output.into(),
        exit_code: Some(0),
        duration_ms: 3,
        freeform,
    })
}

pub fn config(base_url: &str) -> ModelConfig {
    ModelConfig {
        endpoint: Endpoint {
            base_url: Some(base_url.into()),
            key: Some(Secret::new("sk-test-key".into())),
            timeouts: Timeouts {
                connect: Duration::from_secs(5),
                first_byte: Duration::from_secs(5),
                idle: Duration::from_secs(5),
                total: None,
            },
            ..Endpoint::default()
        },
        ..ModelConfig::default()
    }
}

/// One model on each wire. A field case holds on all of them unless it says otherwise.
pub const WIRES: [&str; 3] = ["openai/gpt-5-test", "chat/local-test", "anthropic/claude-test"];

pub const OPENAI: &str = WIRES[0];
pub const CHAT: &str = WIRES[1];
pub const ANTHROPIC: &str = WIRES[2];

pub fn model_at(wire: &str, server: &Server) -> Arc<dyn Model> {
    open(wire, config(&server.base_url())).unwrap()
}

/// Five attempts with short waits between them.
pub fn quick() -> RetryPolicy {
    RetryPolicy { base: Duration::from_millis(4), ..RetryPolicy::default() }
}

/// Keeps what it was told.
#[derive(Default)]
pub struct Notes {
    pub text: String,
    pub reasoning: String,
    pub retries: Vec<(u32, Duration, String)>,
}

impl Observer for Notes {
    fn delta<'a>(&'a mut self, text: &'a str) -> BoxFuture<'a, ()> {
        self.text.push_str(text);
        Box::pin(std::future::ready(()))
    }

    fn reasoning<'a>(&'a mut self, text: &'a str) -> BoxFuture<'a, ()> {
        self.reasoning.push_str(text);
        Box::pin(std::future::ready(()))
    }

    fn retry<'a>(&'a mut self, n: u32, wait: Duration, cause: &'a ModelError) -> BoxFuture<'a, ()> {
        self.retries.push((n, wait, cause.reason().to_owned()));
        Box::pin(std::future::ready(()))
    }
}

/// One sampling and what was told meanwhile.
pub fn ask_with(
    model: &dyn Model,
    prompt: &Prompt,
    retry: &RetryPolicy,
) -> (Result<Response, ModelError>, Notes) {
    let mut notes = Notes::default();
    let cancel = CancellationToken::new();
    let answer = run(sample(model, prompt, retry, &cancel, &mut notes));
    (answer, notes)
}

pub fn ask(wire: &str, server: &Server) -> (Result<Response, ModelError>, Notes) {
    ask_with(&*model_at(wire, server), &task(), &quick())
}

/// The visible text of a response.
pub fn text(response: &Response) -> String {
    let texts = response.items.iter().filter_map(|item| match item {
        Item::Message { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Call ids, names and arguments of a response.
pub fn calls(response: &Response) -> Vec<(String, String, String)> {
    let calls = response.items.iter().filter_map(|item| match item {
        Item::ToolCall(call) => {
            Some((call.call_id.0.clone(), call.name.clone(), call.payload.as_str().to_owned()))
        }
        _ => None,
    });
    calls.collect()
}
