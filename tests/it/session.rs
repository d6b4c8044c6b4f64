//! The Session's contract, with models made for the purpose behind the real runtime.

use super::support::{Sandboxed, alive, binary, mark};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use turnkey::job::{self, Prepared, RunInput};
use turnkey::model::{
    BoxFuture, Model, ModelConfig, ModelError, ModelEvent, ResponseStream, Source, Stop,
};
use turnkey::protocol::{
    CallId, Event, EventMsg, Item, Op, Prompt, Role, ToolCall, ToolPayload, TurnEnd, Usage,
};
use turnkey::session::{self, SessionHandle};
use turnkey::spec::{EnvValues, FlagValues};
use turnkey::tools::{ListFiles, ReadFile, Registry, UpdatePlan};

/// Answers request number n (from 0) with what the function makes of it.
type Answer = Box<dyn Fn(usize, &Prompt) -> Vec<Item> + Send + Sync>;

struct Fake {
    answer: Answer,
    prompts: Mutex<Vec<Prompt>>,
    /// Where set, each response waits for this before it completes, and says that it has begun.
    gate: Option<Arc<(Notify, Notify)>>,
    panics: bool,
}

impl Fake {
    fn new(answer: impl Fn(usize, &Prompt) -> Vec<Item> + Send + Sync + 'static) -> Self {
        Self { answer: Box::new(answer), prompts: Mutex::default(), gate: None, panics: false }
    }

    fn prompts(&self) -> Vec<Prompt> {
        self.prompts.lock().unwrap().clone()
    }
}

/// Events handed out one by one, the last one behind a gate.
struct Held {
    events: std::vec::IntoIter<ModelEvent>,
    gate: Option<Arc<(Notify, Notify)>>,
    cancel: CancellationToken,
}

impl Source for Held {
    fn fill<'a>(
        &'a mut self,
        queue: &'a mut VecDeque<ModelEvent>,
    ) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            if let Some(gate) = self.gate.take() {
                gate.0.notify_one();
                tokio::select! {
                    () = gate.1.notified() => {}
                    () = self.cancel.cancelled() => return Err(ModelError::cancelled()),
                }
            }
            queue.extend(self.events.by_ref());
            Ok(())
        })
    }
}

impl Model for Fake {
    fn id(&self) -> &str {
        "fake/model"
    }

    fn freeform_tools(&self) -> bool {
        false
    }

    fn stream(&self, prompt: &Prompt, cancel: CancellationToken) -> ResponseStream {
        assert!(!self.panics, "the model broke");
        let number = self.prompts.lock().unwrap().len();
        self.prompts.lock().unwrap().push(prompt.clone());
        let mut events: Vec<ModelEvent> =
            (self.answer)(number, prompt).into_iter().map(ModelEvent::ItemDone).collect();
        events.push(ModelEvent::Usage(Usage { input: 10, output: 5, ..Usage::default() }));
        events.push(ModelEvent::Completed {
            response_id: format!("r{number}"),
            model: "fake".into(),
            stop: Stop::End,
        });
        ResponseStream::new(Box::new(Held {
            events: events.into_iter(),
            gate: self.gate.clone(),
            cancel,
        }))
    }
}

fn says(text: &str) -> Vec<Item> {
    vec![Item::Message { role: Role::Assistant, text: text.into(), fragment: None, raw: None }]
}

fn calls(id: &str, name: &str, arguments: &str) -> Vec<Item> {
    vec![Item::ToolCall(ToolCall {
        call_id: CallId::from(id),
        name: name.into(),
        payload: ToolPayload::Json(arguments.into()),
        raw: None,
    })]
}

const POLICY: &str = "version: 1\nexec:\n  allow: [\"true\", \"sleep *\", \"touch *\"]\nfiles: { read: [\"**\"], write: [\"**\"] }\n";

struct Ready {
    _place: Sandboxed,
    prepared: Prepared,
}

async fn ready(model: Arc<Fake>) -> Ready {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    let text = |path: PathBuf| Some(path.display().to_string());
    let flags = FlagValues {
        task: Some("the task".into()),
        model: Some("openai/none".into()),
        base_url: Some("http://127.0.0.1:9/v1".into()),
        policy: text(place.path("policy.yaml")),
        workspace: text(place.path("ws")),
        ..FlagValues::default()
    };
    let settings = turnkey::spec::resolve(flags, EnvValues::default(), None).unwrap();
    let endpoint = turnkey::model::Endpoint {
        base_url: Some("http://127.0.0.1:9/v1".into()),
        ..turnkey::model::Endpoint::default()
    };
    let input = RunInput {
        stopped: Arc::default(),
        settings,
        task: "the task".into(),
        untrusted_data: String::new(),
        model: ModelConfig { endpoint, ..ModelConfig::default() },
        secrets: Vec::new(),
        home: Some(place.path("home")),
        path: std::env::var("PATH").ok(),
        bases: vec![place.path("state")],
        ci_command_files: Vec::new(),
        lookup: Box::new(|_| None),
        launchers: turnkey::exec::Launchers::new(binary()),
        folder: place.path(""),
        going: None,
        model_instead: None,
        started: Instant::now(),
        tools: None,
    };
    let mut prepared = job::prepare(input, None, &mut tokio::sync::mpsc::channel(1).1)
        .await
        .unwrap_or_else(|outcome| panic!("{outcome:?}"));
    prepared.parts.model = model;
    Ready { _place: place, prepared }
}

/// Reads events until the Turn has ended; the terminal one is the last.
async fn until_end(events: &mut mpsc::Receiver<Event>) -> Vec<Event> {
    let mut seen = Vec::new();
    loop {
        let event = tokio::time::timeout(Duration::from_secs(20), events.recv())
            .await
            .expect("the turn did not end")
            .expect("the session ended without an end of its turn");
        let terminal = event.msg.is_terminal();
        seen.push(event);
        if terminal {
            return seen;
        }
    }
}

async fn close(handle: &SessionHandle, events: &mut mpsc::Receiver<Event>) -> Vec<Event> {
    handle.submit(Op::Shutdown).await.unwrap();
    let mut rest = Vec::new();
    while let Some(event) = events.recv().await {
        rest.push(event);
    }
    rest
}

fn end_of(events: &[Event]) -> TurnEnd {
    match &events.last().unwrap().msg {
        EventMsg::TurnEnded { end, .. } => end.clone(),
        other => panic!("not an end: {other:?}"),
    }
}

fn input(text: &str) -> Op {
    Op::UserInput { text: text.into() }
}

#[tokio::test]
async fn idle_is_cleared_before_the_op_is_in_and_set_after_the_terminal_event() {
    let ready = ready(Arc::new(Fake::new(|_, _| says("done")))).await;
    let (handle, mut events) = session::spawn(ready.prepared.parts);
    assert!(handle.is_idle());
    handle.submit(input("go")).await.unwrap();
    assert!(!handle.is_idle(), "a submit that is on its way in is work");
    let seen = until_end(&mut events).await;
    assert_eq!(end_of(&seen), TurnEnd::Completed);
    handle.idle().await;
    assert!(handle.is_idle());
    close(&handle, &mut events).await;
}

#[tokio::test]
async fn events_come_numbered_in_order_and_carry_their_submission() {
    let model = Fake::new(|n, _| match n {
        0 => calls("c1", "exec_command", r#"{"cmd":"true"}"#),
        _ => says("done"),
    });
    let ready = ready(Arc::new(model)).await;
    let (handle, mut events) = session::spawn(ready.prepared.parts);
    let id = handle.submit(input("go")).await.unwrap();
    let seen = until_end(&mut events).await;
    for (number, event) in seen.iter().enumerate() {
        assert_eq!(event.seq, number as u64);
        assert!(number == 0 || event.submission == id, "{event:?}");
    }
    let place = |wanted: fn(&EventMsg) -> bool| {
        seen.iter().position(|event| wanted(&event.msg)).expect("the event is there")
    };
    let order = [
        place(|msg| matches!(msg, EventMsg::SessionStarted { .. })),
        place(|msg| matches!(msg, EventMsg::TurnStarted { .. })),
        place(|msg| matches!(msg, EventMsg::StepStarted { .. })),
        place(|msg| matches!(msg, EventMsg::CallStarted { .. })),
        place(|msg| matches!(msg, EventMsg::Verdict { .. })),
        place(|msg| matches!(msg, EventMsg::CallDone { .. })),
        place(|msg| matches!(msg, EventMsg::TurnEnded { .. })),
    ];
    assert!(order.is_sorted(), "{order:?}");
    close(&handle, &mut events).await;
}

#[tokio::test]
async fn exactly_one_terminal_event_on_every_path() {
    type Make = fn() -> Fake;
    let paths: [(&str, Make); 4] = [
        ("completed", || Fake::new(|_, _| says("done"))),
        ("empty for ever", || Fake::new(|_, _| Vec::new())),
        ("the model panics", || Fake { panics: true, ..Fake::new(|_, _| Vec::new()) }),
        ("the step limit", || {
            Fake::new(|n, _| calls(&format!("c{n}"), "exec_command", r#"{"cmd":"true"}"#))
        }),
    ];
    for (name, make) in paths {
        let mut ready = ready(Arc::new(make())).await;
        ready.prepared.parts.config.limits.steps = 2;
        ready.prepared.parts.config.retry.attempts = 2;
        ready.prepared.parts.config.retry.base = Duration::from_millis(1);
        let rollout = ready.prepared.folder.dir.join("rollout.jsonl");
        let (handle, mut events) = session::spawn(ready.prepared.parts);
        handle.submit(input("go")).await.unwrap();
        let seen = until_end(&mut events).await;
        let end = end_of(&seen);
        let rest = close(&handle, &mut events).await;
        assert!(!rest.iter().any(|event| event.msg.is_terminal()), "{name}: a second end");
        let reason = match &end {
            TurnEnd::Completed => "completed",
            TurnEnd::Aborted { reason, .. } | TurnEnd::Failed { reason, .. } => reason.as_str(),
        };
        let want = match name {
            "completed" => "completed",
            "empty for ever" => "model.empty",
            "the model panics" => "internal.turn",
            _ => "limit.steps",
        };
        assert_eq!(reason, want, "{name}");
        let text = std::fs::read_to_string(rollout).unwrap();
        let ends = ["\"turn_completed\"", "\"turn_aborted\"", "\"turn_failed\""];
        let count: usize = ends.iter().map(|end| text.matches(end).count()).sum();
        assert_eq!(count, 1, "{name}: the record has one end too");
    }
}

#[tokio::test]
async fn an_interrupt_arrives_while_a_turn_runs_and_a_second_input_is_refused() {
    let gate = Arc::new((Notify::new(), Notify::new()));
    let model = Fake { gate: Some(gate.clone()), ..Fake::new(|_, _| says("done")) };
    let ready = ready(Arc::new(model)).await;
    let (handle, mut events) = session::spawn(ready.prepared.parts);
    handle.submit(input("go")).await.unwrap();
    let reader = tokio::spawn(async move {
        let seen = until_end(&mut events).await;
        (seen, events)
    });
    gate.0.notified().await;
    let second = handle.submit(input("me too")).await.unwrap();
    let started = Instant::now();
    handle.submit(Op::Interrupt { reason: "interrupted".into() }).await.unwrap();
    let (seen, mut events) = reader.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(2));
    let refused = seen.iter().any(|event| {
        event.submission == second
            && matches!(event.msg, EventMsg::Rejected { code: "turn_active", .. })
    });
    assert!(refused, "the second input was answered by a typed refusal");
    assert!(
        matches!(end_of(&seen), TurnEnd::Aborted { ref reason, .. } if reason == "interrupted")
    );
    handle.submit(Op::Interrupt { reason: "again".into() }).await.unwrap();
    let rest = close(&handle, &mut events).await;
    assert!(
        rest.iter().any(|event| matches!(event.msg, EventMsg::Rejected { code: "no_turn", .. }))
    );
}

#[tokio::test]
async fn a_registry_replaced_while_the_model_samples_changes_the_next_step_only() {
    let gate = Arc::new((Notify::new(), Notify::new()));
    let model = Arc::new(Fake {
        gate: Some(gate.clone()),
        ..Fake::new(|n, _| match n {
            0 => calls("c1", "exec_command", r#"{"cmd":"true"}"#),
            1 => calls("c2", "exec_command", r#"{"cmd":"true"}"#),
            _ => says("done"),
        })
    });
    let ready = ready(model.clone()).await;
    let registry: Arc<Registry> = ready.prepared.parts.registry.clone();
    let (handle, mut events) = session::spawn(ready.prepared.parts);
    handle.submit(input("go")).await.unwrap();
    let reader = tokio::spawn(async move {
        let seen = until_end(&mut events).await;
        (seen, events)
    });
    gate.0.notified().await;
    registry.replace(vec![Arc::new(ReadFile), Arc::new(ListFiles), Arc::new(UpdatePlan)]);
    gate.1.notify_one();
    for _ in 0..2 {
        gate.0.notified().await;
        gate.1.notify_one();
    }
    let (seen, mut events) = reader.await.unwrap();
    let results: Vec<_> = seen
        .iter()
        .filter_map(|event| match &event.msg {
            EventMsg::CallDone { result } => Some(result.result),
            _ => None,
        })
        .collect();
    use turnkey::protocol::ResultKind::{Ok, UnknownTool};
    assert_eq!(
        results,
        [Ok, UnknownTool],
        "the old request keeps its handler, the new one has none"
    );
    let names = |prompt: &Prompt| -> Vec<String> {
        prompt.tools.iter().map(|tool| tool.name.to_string()).collect()
    };
    let prompts = model.prompts();
    assert!(names(&prompts[0]).contains(&"exec_command".to_owned()));
    assert!(!names(&prompts[1]).contains(&"exec_command".to_owned()));
    close(&handle, &mut events).await;
}

#[tokio::test]
async fn what_is_advertised_has_exactly_one_handler() {
    let ready = ready(Arc::new(Fake::new(|_, _| says("done")))).await;
    let plan = ready.prepared.parts.registry.plan();
    let mut seen = BTreeMap::new();
    for spec in plan.specs.iter() {
        *seen.entry(spec.name.to_string()).or_insert(0) += 1;
        let handler = plan.tool(&spec.name).expect("a handler");
        assert_eq!(handler.spec(), *spec);
    }
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    assert_eq!(seen.keys().map(String::as_str).collect::<Vec<_>>(), plan.names());
}

#[tokio::test]
async fn a_file_made_in_one_step_is_seen_in_the_next() {
    let model = Arc::new(Fake::new(|n, _| match n {
        0 => calls("c1", "exec_command", r#"{"cmd":"touch made.txt"}"#),
        _ => says("done"),
    }));
    let ready = ready(model.clone()).await;
    let (handle, mut events) = session::spawn(ready.prepared.parts);
    handle.submit(input("go")).await.unwrap();
    until_end(&mut events).await;
    let tells = |prompt: &Prompt| {
        prompt.items.iter().any(|item| match item.as_ref() {
            Item::Message { text, .. } => text.contains("added made.txt"),
            _ => false,
        })
    };
    let prompts = model.prompts();
    assert!(!tells(&prompts[0]) && tells(&prompts[1]));
    let shorter = prompts[0].items.iter().zip(&prompts[1].items);
    assert!(shorter.into_iter().all(|(a, b)| Arc::ptr_eq(a, b)), "the beginning stays as it is");
    close(&handle, &mut events).await;
}

#[tokio::test]
async fn every_call_gets_one_result_also_when_the_turn_is_cancelled() {
    let stays = format!("sleep {}", mark("300."));
    let cmd = serde_json::json!({ "cmd": &stays }).to_string();
    let model = Fake::new(move |_, _| {
        let mut all = calls("c1", "exec_command", &cmd);
        all.extend(calls("c2", "exec_command", r#"{"cmd":"touch never.txt"}"#));
        all.extend(calls("c3", "read_file", r#"{"path":"a.txt"}"#));
        all
    });
    let ready = ready(Arc::new(model)).await;
    let root = ready.prepared.root.clone();
    let (handle, mut events) = session::spawn(ready.prepared.parts);
    handle.submit(input("go")).await.unwrap();
    let other = handle.clone();
    tokio::spawn(async move {
        while alive(&stays).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        other.submit(Op::Interrupt { reason: "interrupted".into() }).await.unwrap();
    });
    let seen = until_end(&mut events).await;
    let results: Vec<(String, String)> = seen
        .iter()
        .filter_map(|event| match &event.msg {
            EventMsg::CallDone { result } => {
                Some((result.call_id.to_string(), format!("{:?}", result.result)))
            }
            _ => None,
        })
        .collect();
    let want = [("c1", "Cancelled"), ("c2", "Aborted"), ("c3", "Aborted")];
    assert_eq!(results, want.map(|(id, kind)| (id.to_owned(), kind.to_owned())));
    assert!(!root.join("never.txt").exists());
    close(&handle, &mut events).await;
}
