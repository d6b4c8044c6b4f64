//! A tiny exchange with a model, to see what works on the way to it: whether it is reached, streams,
//! calls tools, takes their results, keeps to schemas, and whether its provider caches. Two requests
//! of a few hundred tokens; nothing is asked again, so that what is seen is what happened.

use super::Model;
use super::error::{ModelError, ModelErrorKind};
use super::stream::ModelEvent;
use crate::clock;
use crate::protocol::{
    Effect, Fragment, Item, Prompt, PromptOptions, ResultKind, Role, ToolCall, ToolInput,
    ToolResult, ToolSpec, Usage,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const TOOL: &str = "doctor_check";
const WORD: &str = "turnkey";
const NUMBER: u64 = 4711;
/// Room for a model that thinks before it calls.
const MAX_OUTPUT: u64 = 4_000;

/// What was found of one ability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `reached`, `streaming`, `tools`, `results`, `schema`, `cache`.
    pub what: &'static str,
    /// None where it could not be seen.
    pub works: Option<bool>,
    pub detail: String,
    /// What to do now; empty where nothing is to be done.
    pub hint: String,
}

/// What an exchange came to.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    pub findings: Vec<Finding>,
    /// The name by which the provider says it answered.
    pub model_as_served: Option<String>,
    /// Until the first event and until the end of the first answer.
    pub first_event: Option<Duration>,
    pub whole: Option<Duration>,
    pub requests: u32,
    pub usage: Usage,
}

impl Probe {
    /// Whether the model can do a Turn: reached, and its tool calls work.
    pub fn is_usable(&self) -> bool {
        let works = |what| self.findings.iter().any(|f| f.what == what && f.works == Some(true));
        works("reached") && works("tools") && works("results")
    }

    fn add(&mut self, what: &'static str, works: Option<bool>, detail: impl Into<String>) {
        let detail = detail.into();
        self.findings.push(Finding { what, works, detail, hint: String::new() });
    }

    fn failed(&mut self, what: &'static str, error: &ModelError) {
        let detail = format!("{} ({})", error.message, error.reason());
        let hint = error.hint.clone();
        self.findings.push(Finding { what, works: Some(false), detail, hint });
    }

    /// Everything that could not be looked at.
    fn unseen(&mut self, whats: &[&'static str], why: &str) {
        for what in whats {
            self.add(what, None, why);
        }
    }
}

/// One answer and how it came.
#[derive(Default)]
struct Answer {
    items: Vec<Item>,
    usage: Usage,
    served: Option<String>,
    pieces: u32,
    first: Option<Duration>,
    whole: Duration,
}

/// Asks the model.
pub async fn probe(model: &dyn Model) -> Probe {
    let mut probe = Probe::default();
    let mut prompt = prompt();
    let answer = match ask(model, &prompt, &mut probe).await {
        Ok(answer) => answer,
        Err(error) => {
            probe.failed("reached", &error);
            let rest = ["streaming", "tools", "results", "schema", "cache"];
            probe.unseen(&rest, "the model did not answer");
            return probe;
        }
    };
    (probe.first_event, probe.whole) = (answer.first, Some(answer.whole));
    probe.model_as_served = answer.served.clone();
    let first = answer.first.unwrap_or(answer.whole);
    let times = format!("first event after {}, whole answer after {}", ms(first), ms(answer.whole));
    probe.add("reached", Some(true), times);
    streaming(&mut probe, &answer);
    let calls: Vec<&ToolCall> = answer.items.iter().filter_map(as_call).collect();
    let Some(call) = calls.iter().find(|call| call.name == TOOL) else {
        let said = match calls.first() {
            Some(call) => format!("it called {:?}, which is not what it was asked for", call.name),
            None => "it answered with text where it was asked to call a tool".into(),
        };
        probe.add("tools", Some(false), said);
        probe.unseen(&["results", "schema", "cache"], "no tool was called");
        return probe;
    };
    let arguments = fits(call);
    let said = if arguments { "with what it was asked for" } else { "with other arguments" };
    probe.add("tools", Some(true), format!("it called {TOOL} {said}"));
    let results: Vec<Item> = calls.iter().map(|call| result(call)).collect();
    prompt.items.extend(answer.items.iter().cloned().chain(results).map(Arc::new));
    prompt.options.output_schema = Some(Arc::new(answer_schema()));
    second(model, &prompt, &mut probe, arguments).await;
    probe
}

/// The call's result goes back, and the final message is to keep to a schema.
async fn second(model: &dyn Model, prompt: &Prompt, probe: &mut Probe, arguments: bool) {
    let mut answer = ask(model, prompt, probe).await;
    let mut refused = None;
    // A server that knows no output schema refuses the whole request: then it is asked without.
    if let Err(error) = &answer
        && error.kind == ModelErrorKind::InvalidRequest
    {
        refused = Some(error.clone());
        let mut plain = prompt.clone();
        plain.options.output_schema = None;
        answer = ask(model, &plain, probe).await;
    }
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            probe.failed("results", &error);
            probe.unseen(&["schema", "cache"], "the tool's result was not taken");
            return;
        }
    };
    probe.add("results", Some(true), "the tool's result was taken and answered");
    match refused {
        Some(error) => probe.failed("schema", &error),
        None => {
            let text: String = answer.items.iter().filter_map(as_text).collect();
            let final_message = serde_json::from_str::<Value>(&text)
                .is_ok_and(|value| value.get("ok").is_some_and(Value::is_boolean));
            let detail = match (arguments, final_message) {
                (true, true) => "arguments and final message keep to their schemas",
                (false, true) => "the arguments do not keep to their schema",
                (true, false) => "the final message does not keep to its schema",
                (false, false) => "neither arguments nor final message keep to their schemas",
            };
            probe.add("schema", Some(arguments && final_message), detail);
        }
    }
    let Usage { input, cached, .. } = answer.usage;
    if cached > 0 {
        let detail = format!("{cached} of {input} input tokens came from the provider's cache");
        probe.add("cache", Some(true), detail);
    } else {
        let detail = "no input came from a cache, which prompts as small as this one seldom do";
        probe.add("cache", None, detail);
    }
}

fn streaming(probe: &mut Probe, answer: &Answer) {
    match answer.pieces {
        0 => probe.add("streaming", Some(false), "the answer came whole, without any piece of it"),
        1 => probe.add("streaming", None, "the answer was one piece"),
        n => probe.add("streaming", Some(true), format!("the answer came in {n} pieces")),
    }
}

async fn ask(model: &dyn Model, prompt: &Prompt, probe: &mut Probe) -> Result<Answer, ModelError> {
    probe.requests += 1;
    let start = clock::now();
    let mut stream = model.stream(prompt, CancellationToken::new());
    let mut answer = Answer::default();
    while let Some(event) = stream.next().await {
        let event = event.inspect_err(|error| probe.usage += error.usage)?;
        answer.first.get_or_insert_with(|| start.elapsed());
        match event {
            ModelEvent::TextDelta(_)
            | ModelEvent::ReasoningDelta(_)
            | ModelEvent::ToolDelta { .. } => answer.pieces += 1,
            ModelEvent::ItemDone(item) => answer.items.push(item),
            ModelEvent::Usage(usage) => answer.usage = usage,
            ModelEvent::Completed { model, .. } => {
                answer.served = (!model.is_empty()).then_some(model);
            }
            ModelEvent::Started { .. } => {}
        }
    }
    answer.whole = start.elapsed();
    probe.usage += answer.usage;
    Ok(answer)
}

fn prompt() -> Prompt {
    let schema = json!({
        "type": "object",
        "properties": { "word": { "type": "string" }, "number": { "type": "integer" } },
        "required": ["word", "number"],
        "additionalProperties": false,
    });
    let tool = ToolSpec {
        name: TOOL.into(),
        description: "Says that the model can be used.".into(),
        input: ToolInput::Json(schema),
    };
    let task = format!(
        "Call the tool {TOOL} once, with word \"{WORD}\" and number {NUMBER}. After its result \
         answer with the JSON object {{\"ok\": true}} and nothing else."
    );
    Prompt {
        instructions: "A program asks whether you can be used. Do what it says and no more.".into(),
        items: vec![Arc::new(Item::ours(Role::User, Fragment::Task, task))].into(),
        tools: [tool].into(),
        options: PromptOptions {
            cache_key: "turnkey-doctor".into(),
            max_output_tokens: Some(MAX_OUTPUT),
            ..PromptOptions::default()
        },
        fingerprint: String::new(),
    }
}

fn answer_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "ok": { "type": "boolean" } },
        "required": ["ok"],
        "additionalProperties": false,
    })
}

fn fits(call: &ToolCall) -> bool {
    let Ok(arguments) = serde_json::from_str::<Value>(call.payload.as_str()) else { return false };
    arguments == json!({ "word": WORD, "number": NUMBER })
}

fn as_call(item: &Item) -> Option<&ToolCall> {
    match item {
        Item::ToolCall(call) => Some(call),
        _ => None,
    }
}

fn as_text(item: &Item) -> Option<&str> {
    match item {
        Item::Message { text, .. } => Some(text),
        _ => None,
    }
}

fn result(call: &ToolCall) -> Item {
    Item::ToolResult(ToolResult {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        result: ResultKind::Ok,
        effect: Effect::None,
        output: "ok".into(),
        exit_code: None,
        duration_ms: 0,
        freeform: false,
    })
}

fn ms(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}
