//! Scripts played against histories, without any run around them.

use super::*;
use crate::model::Response;
use crate::model::sample::{RetryPolicy, Silent, sample};
use crate::protocol::{
    CallId, Effect, Fragment, Item, Prompt, PromptOptions, ResultKind, Role, ToolPayload,
    ToolResult,
};
use std::sync::Arc;

fn script(text: &str) -> Scripted {
    let script = Script::parse("demo.yaml", text).unwrap_or_else(|faults| panic!("{faults:?}"));
    let idle = Duration::from_millis(20);
    Scripted::new("demo.yaml", script, Timeouts { idle, ..Timeouts::default() })
}

fn faults(text: &str) -> Vec<String> {
    let faults = Script::parse("demo.yaml", text).unwrap_err();
    faults.iter().map(ToString::to_string).collect()
}

/// A history that grows as a Turn's does.
struct Turn {
    model: Scripted,
    prompt: Prompt,
}

impl Turn {
    fn new(text: &str) -> Self {
        let task = Arc::new(Item::ours(Role::User, Fragment::Task, "Do it."));
        let prompt = Prompt {
            instructions: "".into(),
            items: vec![task].into(),
            tools: Vec::new().into(),
            options: PromptOptions::default(),
            fingerprint: String::new(),
        };
        Self { model: script(text), prompt }
    }

    fn ask(&mut self) -> Result<Response, ModelError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let cancel = CancellationToken::new();
        let retry = RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() };
        let answer =
            runtime.block_on(sample(&self.model, &self.prompt, &retry, &cancel, &mut Silent));
        if let Ok(response) = &answer {
            self.prompt.items.extend(response.items.iter().cloned().map(Arc::new));
        }
        answer
    }

    /// Answers all open calls with one output and exit code.
    fn results(&mut self, output: &str, exit_code: i32) {
        let calls: Vec<_> = self
            .prompt
            .items
            .iter()
            .filter_map(|item| match &**item {
                Item::ToolCall(call) => Some((call.call_id.clone(), call.name.clone())),
                _ => None,
            })
            .collect();
        let answered: Vec<CallId> = self
            .prompt
            .items
            .iter()
            .filter_map(|item| match &**item {
                Item::ToolResult(result) => Some(result.call_id.clone()),
                _ => None,
            })
            .collect();
        for (call_id, name) in calls {
            if answered.contains(&call_id) {
                continue;
            }
            let kind = if exit_code == 0 { ResultKind::Ok } else { ResultKind::Failed };
            self.prompt.items.push(Arc::new(Item::ToolResult(ToolResult {
                call_id,
                name,
                result: kind,
                effect: Effect::Done,
                output: output.into(),
                exit_code: Some(exit_code),
                duration_ms: 1,
                freeform: false,
            })));
        }
    }

    fn text(&mut self) -> String {
        match self.ask().unwrap().items.first() {
            Some(Item::Message { text, .. }) => text.clone(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn steps_play_in_order_with_texts_calls_and_usage() {
    let mut turn = Turn::new(
        r#"
version: 1
steps:
  - reasoning: Hm.
    text: I look.
    calls:
      - { tool: exec_command, args: { cmd: "true", n: 3, list: [a, null] } }
      - { tool: apply_patch, input: "*** Begin Patch" }
      - { tool: read_file, raw: '{"path": "bro' }
    usage: { input: 900, cached: 100, output: 40, reasoning: 7 }
  - text: Done.
"#,
    );
    let response = turn.ask().unwrap();
    assert_eq!(response.usage.input, 900);
    assert_eq!(response.usage.reasoning, 7);
    let payloads: Vec<ToolPayload> = response
        .items
        .iter()
        .filter_map(|item| match item {
            Item::ToolCall(call) => Some(call.payload.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(
        payloads,
        [
            ToolPayload::Json(r#"{"cmd":"true","n":3,"list":["a",null]}"#.into()),
            ToolPayload::Text("*** Begin Patch".into()),
            ToolPayload::Json(r#"{"path": "bro"#.into()),
        ]
    );
    turn.results("ok", 0);
    assert_eq!(turn.text(), "Done.");
    let error = turn.ask().unwrap_err();
    assert_eq!(error.reason(), "model.script");
    assert!(error.message.contains("the script is over after 2 steps"), "{}", error.message);
}

#[test]
fn the_same_history_gets_the_same_answer() {
    let mut turn = Turn::new("version: 1\nsteps: [{ calls: [{ tool: a }] }, { text: b }]\n");
    let first = turn.ask().unwrap();
    turn.prompt.items.truncate(1);
    let again = turn.ask().unwrap();
    assert_eq!(first.items, again.items);
    turn.results("x", 0);
    assert_eq!(turn.text(), "b");
}

#[test]
fn a_mismatch_names_the_place_and_what_was_received() {
    let source = "version: 1
steps:
  - calls: [{ tool: exec_command, args: { cmd: sh test.sh } }]
  - name: check
    expect: { exit_code: 0, contains: passed }
    text: Good.
";
    let mut turn = Turn::new(source);
    turn.ask().unwrap();
    turn.results("2 tests failed", 1);
    let error = turn.ask().unwrap_err();
    assert_eq!(
        error.message,
        "demo.yaml:5:13: step 2 (\"check\") expects exit code 0; \
         received failed from exec_command with exit code 1: \"2 tests failed\""
    );
    let mut turn = Turn::new(source);
    turn.ask().unwrap();
    turn.results("nothing", 0);
    assert!(turn.ask().unwrap_err().message.contains("expects an output containing \"passed\""));
    let mut turn = Turn::new(source);
    turn.ask().unwrap();
    turn.results("all passed", 0);
    assert_eq!(turn.text(), "Good.");
}

#[test]
fn values_are_captured_and_branches_taken() {
    let source = r#"
version: 1
steps:
  - name: test
    calls: [{ tool: exec_command, args: { cmd: sh test.sh } }]
    next:
      - { when: { exit_code: 0 }, step: done }
      - { step: fix }
  - name: fix
    expect: { regex: "line [0-9]+" }
    capture: { line: { regex: 'line (\d+)' } }
    calls: [{ tool: edit, args: { at: "{{line}}", keep: "{{ not a value }}" } }]
    next: test
  - name: done
    text: Fixed line {{line}}.
"#;
    let mut turn = Turn::new(source);
    turn.ask().unwrap();
    turn.results("error in line 42", 1);
    let edit = turn.ask().unwrap();
    let Item::ToolCall(call) = &edit.items[0] else { panic!() };
    assert_eq!(call.payload.as_str(), r#"{"at":"42","keep":"{{ not a value }}"}"#);
    turn.results("edited", 0);
    turn.ask().unwrap();
    turn.results("passed", 0);
    assert_eq!(turn.text(), "Fixed line 42.");
}

#[test]
fn a_branch_that_skips_the_capture_is_told() {
    let source = "
version: 1
steps:
  - { text: 'line {{line}}' }
  - { capture: { line: { regex: x } }, text: y }
";
    let error = Turn::new(source).ask().unwrap_err();
    assert!(error.message.contains("{{line}}, which no step before it has captured"), "{error}");
}

#[test]
fn faults_of_the_provider_are_played_so_often_as_said() {
    let mut turn = Turn::new(
        "version: 1
steps:
  - { text: a, fail: { status: 500, times: 2 } }
  - { text: b, fail: { status: 429, code: insufficient_quota, times: always } }
",
    );
    let response = turn.ask().unwrap();
    assert_eq!(response.attempts, 3);
    turn.prompt.items.push(Arc::new(Item::ours(Role::User, Fragment::Task, "more")));
    let error = turn.ask().unwrap_err();
    assert_eq!((error.reason(), error.attempts), ("model.quota", 1));
}

#[test]
fn each_kind_of_fault_has_its_reason() {
    let cases = [
        ("drop: true", "model.cut"),
        ("stall: true", "model.timeout"),
        ("empty: true", "model.empty"),
        ("connect: true", "model.connect"),
        ("incomplete: max_output_tokens", "model.incomplete"),
        ("refuse: never", "model.refused"),
        ("status: 401", "model.auth"),
        ("status: 503, retry_after: 1h", "model.overloaded"),
    ];
    for (fail, reason) in cases {
        let source =
            format!("version: 1\nsteps: [{{ text: a, fail: {{ {fail}, times: always }} }}]\n");
        let error = Turn::new(&source).ask().unwrap_err();
        assert_eq!(error.reason(), reason, "{fail}");
    }
}

#[test]
fn all_faults_of_a_file_are_told_at_once() {
    let found = faults(
        "version: 2
steps:
  - { txt: a }
  - { text: a, next: nowhere }
  - { text: b, expect: { exit_code: zero, regex: '(' } }
  - { calls: [{ args: {}, raw: x }] }
  - { fail: { times: 2 } }
more: 1
",
    );
    let wanted = [
        "demo.yaml:1:10: version 2 is not known",
        "unknown key \"txt\" in a step",
        "there is no step \"nowhere\"",
        "\"exit_code\" must be a whole number",
        "not a regular expression",
        "the call names no \"tool\"",
        "a call has one of args, input and raw",
        "\"fail\" needs one kind of failure",
        "unknown key \"more\"",
    ];
    for want in wanted {
        assert!(found.iter().any(|fault| fault.contains(want)), "{want}\n{found:#?}");
    }
}

#[test]
fn a_misspelled_value_is_a_fault_only_where_values_exist() {
    let found =
        faults("version: 1\nsteps:\n  - { text: '{{lime}}', capture: { line: { regex: x } } }\n");
    assert!(found[0].contains("{{lime}} is captured by no step"), "{found:?}");
    assert_eq!(Turn::new("version: 1\nsteps: [{ text: '{{lime}}' }]\n").text(), "{{lime}}");
}
