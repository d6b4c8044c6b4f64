//! The retry policy and the gate, against a model that says what it is told to.

use super::*;
use crate::model::ResponseStream;
use crate::protocol::{PromptOptions, Role, ToolCall, ToolPayload};
use std::collections::VecDeque;
use std::sync::Mutex;

type Attempt = (Vec<ModelEvent>, Option<ModelError>);

struct Fake {
    attempts: Mutex<VecDeque<Attempt>>,
    asked: Mutex<Vec<usize>>,
}

impl Model for Fake {
    fn id(&self) -> &str {
        "fake"
    }

    fn freeform_tools(&self) -> bool {
        false
    }

    fn stream(&self, prompt: &Prompt, _cancel: CancellationToken) -> ResponseStream {
        self.asked.lock().unwrap().push(prompt.items.len());
        let next = self.attempts.lock().unwrap().pop_front();
        let (events, failed) = next.unwrap_or_default();
        ResponseStream::ready(events, failed)
    }
}

fn fake(attempts: impl IntoIterator<Item = Attempt>) -> Fake {
    Fake { attempts: Mutex::new(attempts.into_iter().collect()), asked: Mutex::default() }
}

fn prompt() -> Prompt {
    Prompt {
        instructions: "x".repeat(400).into(),
        items: Vec::new().into(),
        tools: Vec::new().into(),
        options: PromptOptions::default(),
        fingerprint: String::new(),
    }
}

fn message(text: &str) -> ModelEvent {
    ModelEvent::ItemDone(Item::Message {
        role: Role::Assistant,
        text: text.into(),
        fragment: None,
        raw: None,
    })
}

fn call(id: &str, arguments: &str) -> Item {
    Item::ToolCall(ToolCall {
        call_id: CallId::from(id),
        name: "t".into(),
        payload: ToolPayload::Json(arguments.into()),
        raw: Some(serde_json::json!({ "responses": { "call_id": id } })),
    })
}

fn completed(stop: Stop) -> ModelEvent {
    ModelEvent::Completed { response_id: "r".into(), model: "m".into(), stop }
}

fn usage(input: u64) -> ModelEvent {
    ModelEvent::Usage(Usage { input, ..Usage::default() })
}

fn failing(kind: ModelErrorKind) -> Attempt {
    (Vec::new(), Some(ModelError::new(kind, "no")))
}

/// Waits of milliseconds in the place of seconds.
fn quick() -> RetryPolicy {
    RetryPolicy {
        base: Duration::from_millis(2),
        total_wait: Duration::from_millis(300),
        ..RetryPolicy::default()
    }
}

fn run(fake: &Fake, retry: &RetryPolicy) -> (Result<Response, ModelError>, Duration) {
    // The clock stands still but for the waits, so that they are exact on any machine.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let start = tokio::time::Instant::now();
        let cancel = CancellationToken::new();
        let answer = sample(fake, &prompt(), retry, &cancel, &mut Silent).await;
        (answer, start.elapsed())
    })
}

#[test]
fn attempts_are_bounded() {
    let model = fake((0..9).map(|_| failing(ModelErrorKind::Server)));
    let (answer, waited) = run(&model, &quick());
    assert_eq!(answer.unwrap_err().attempts, 5);
    assert_eq!(model.asked.lock().unwrap().len(), 5);
    assert!(waited < Duration::from_millis(200), "{waited:?}");
}

#[test]
fn the_total_wait_is_bounded() {
    let mut error = ModelError::new(ModelErrorKind::RateLimited, "slow down");
    error.retry_after = Some(Duration::from_millis(100));
    let model = fake((0..9).map(|_| (Vec::new(), Some(error.clone()))));
    let retry = RetryPolicy { attempts: 9, ..quick() };
    let (answer, waited) = run(&model, &retry);
    let error = answer.unwrap_err();
    assert_eq!(error.reason(), "model.rate_limited");
    assert!(
        waited >= Duration::from_millis(200) && waited < Duration::from_millis(400),
        "{waited:?}"
    );
    assert_eq!(error.attempts, 3);
    assert!(error.message.contains("asks to wait 100ms"), "{}", error.message);
}

#[test]
fn what_can_not_help_is_not_tried() {
    for kind in [ModelErrorKind::Auth, ModelErrorKind::Quota, ModelErrorKind::Refused] {
        let model = fake([failing(kind)]);
        let (answer, waited) = run(&model, &quick());
        assert_eq!(answer.unwrap_err().attempts, 1);
        assert_eq!(waited, Duration::ZERO);
    }
}

#[test]
fn items_of_a_stream_without_its_end_are_never_seen() {
    let model = fake([
        (vec![ModelEvent::ItemDone(call("a", "1"))], None),
        (vec![message("whole"), usage(7), completed(Stop::End)], None),
    ]);
    let response = run(&model, &quick()).0.unwrap();
    assert_eq!(response.items.len(), 1);
    assert!(matches!(&response.items[0], Item::Message { text, .. } if text == "whole"));
    assert_eq!((response.attempts, response.usage.input), (2, 7));
    assert_eq!(response.booked.input, 100, "estimated at four bytes a token");
    assert_eq!(response.total_usage().input, 107);
}

#[test]
fn a_failure_keeps_what_all_its_attempts_cost() {
    let cut = || (vec![usage(10)], None);
    let model = fake([cut(), cut(), failing(ModelErrorKind::Auth)]);
    let error = run(&model, &quick()).0.unwrap_err();
    assert_eq!((error.reason(), error.usage.input, error.attempts), ("model.auth", 20, 3));
}

#[test]
fn a_paused_response_is_sent_back_to_go_on() {
    let model = fake([
        (vec![message("one "), usage(5), completed(Stop::Paused)], None),
        (vec![message("two"), usage(6), completed(Stop::End)], None),
    ]);
    let response = run(&model, &quick()).0.unwrap();
    assert_eq!(response.items.len(), 2);
    assert_eq!(*model.asked.lock().unwrap(), [0, 1]);
    assert_eq!((response.usage.input, response.booked.input), (6, 5));
}

#[test]
fn call_ids_are_unique_over_the_history() {
    let mut history = prompt();
    history.items.push(Arc::new(call("call_0", "{}")));
    let mut items =
        vec![call("call_0", "{}"), call("x", "1"), call("x", "1"), call("x", "2"), call("", "3")];
    unique_call_ids(&mut items, &history);
    let ids: Vec<&str> = items
        .iter()
        .map(|item| match item {
            Item::ToolCall(call) => {
                let raw = call.raw.as_ref().unwrap();
                assert_eq!(raw["responses"]["call_id"], call.call_id.as_str());
                call.call_id.as_str()
            }
            _ => unreachable!(),
        })
        .collect();
    assert_eq!(ids.len(), 4, "the same call twice is one call");
    assert_eq!(ids[1], "x");
    assert!(!ids.contains(&"call_0") && !ids.contains(&""));
    let mut sorted = ids.clone();
    sorted.dedup();
    assert_eq!(sorted.len(), 4);
}

#[test]
fn a_response_without_counts_is_estimated() {
    let model = fake([(vec![message("whole"), completed(Stop::End)], None)]);
    let response = run(&model, &quick()).0.unwrap();
    assert!(response.estimated);
    assert_eq!(response.usage.input, 100);
}

#[test]
fn waits_grow_whatever_the_jitter() {
    let retry = RetryPolicy::default();
    for _ in 0..100 {
        let waits: Vec<Duration> = (1..7).map(|attempt| retry.back_off(attempt)).collect();
        assert!(waits.windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
        assert!(waits[0] >= Duration::from_millis(250) && waits[0] < Duration::from_millis(450));
    }
    assert!(retry.back_off(40) <= retry.cap);
}

#[test]
fn jitter_is_below_its_bound_and_not_always_the_same() {
    let bound = Duration::from_secs(1);
    let waits: Vec<Duration> = (0..64).map(|_| random_below(bound)).collect();
    assert!(waits.iter().all(|wait| *wait < bound));
    assert!(waits.windows(2).any(|pair| pair[0] != pair[1]));
    assert_eq!(random_below(Duration::ZERO), Duration::ZERO);
}

/// A sampling runs inside tasks, so it and everything it borrows must be able to travel.
#[test]
fn a_sampling_can_be_spawned() {
    fn travels<T: Send>(_: &T) {}
    let (model, prompt, retry) = (fake([]), prompt(), quick());
    let (cancel, mut silent) = (CancellationToken::new(), Silent);
    travels(&sample(&model, &prompt, &retry, &cancel, &mut silent));
    travels(&ResponseStream::ready(Vec::new(), None));
}
