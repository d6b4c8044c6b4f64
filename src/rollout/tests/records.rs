//! Every record type: its exact line, and that it comes back as it was.

use super::super::line;
use super::*;
use crate::protocol::{
    CallId, Decision, Effect, ResultKind, RuleRef, ToolCall, ToolInput, ToolPayload, ToolResult,
    ToolSpec, TurnEnd, Usage, Verdict,
};
use serde_json::{Value, json};

fn every_record() -> Vec<Record> {
    let call = ToolCall {
        call_id: CallId::from("c-1"),
        name: "exec_command".into(),
        payload: ToolPayload::Json("{\"argv\":[\"true\"]}".into()),
        raw: Some(json!({"id": "fc_1"})),
    };
    let result = ToolResult {
        call_id: CallId::from("c-1"),
        name: "exec_command".into(),
        result: ResultKind::Ok,
        effect: Effect::Unknown,
        output: "out".into(),
        exit_code: Some(0),
        duration_ms: 3,
        freeform: false,
    };
    let verdict = Verdict {
        action: "true".into(),
        decision: Decision::Allow,
        asked: true,
        rule: RuleRef::built_in("exec.default"),
        reason: "because".into(),
        parts: Vec::new(),
    };
    let tool = ToolSpec {
        name: "read_file".into(),
        description: "Reads".into(),
        input: ToolInput::Json(json!({"type": "object"})),
    };
    let tools: Arc<[ToolSpec]> = Arc::from([tool]);
    let item = |item| Record::Item { step: 1, response_id: None, item: Arc::new(item) };
    let usage = Usage { input: 1, cached: 2, output: 3, reasoning: 4 };
    let ended = |end| Record::turn_ended("t-1".into(), &end, 2, 9, None);
    let reason = || "limit.steps".to_owned();
    vec![
        run_started(),
        turn_started("t-1"),
        Record::TurnContext(Box::new(TurnContextRecord {
            turn: "t-1".into(),
            instructions: "Be good.".into(),
            model: "openai/x".into(),
            tools: Arc::clone(&tools),
            output_schema: Some(Arc::new(json!({"type": "object"}))),
            ..Default::default()
        })),
        Record::StepStarted(Box::new(StepStartedRecord {
            turn: "t-1".into(),
            step: 1,
            fingerprint: "ab".into(),
            items: 4,
            generation: 2,
            tools: Some(tools),
        })),
        Record::WorldState {
            step: 1,
            full: true,
            sections: [("git".to_owned(), json!({"head": "x"}))].into(),
        },
        message("text"),
        item(Item::Reasoning { text: String::new(), raw: Some(json!({"enc": "x"})) }),
        item(Item::ToolCall(call)),
        item(Item::ToolResult(result)),
        item(Item::Unknown { raw: json!([1, null]) }),
        Record::Verdict { step: 1, call_id: Some("c-1".into()), verdict },
        Record::Approval(ApprovalRecord {
            step: 1,
            call_id: None,
            approved: false,
            by: "on_ask".into(),
            reason: "nobody is there".into(),
        }),
        Record::Hook(Box::new(HookRecord { hook: "stop".into(), ..Default::default() })),
        Record::Usage(Box::new(UsageRecord {
            step: 1,
            fingerprint: "ab".into(),
            response_id: Some("r-1".into()),
            model: Some("x-2026".into()),
            status: "completed".into(),
            items: Some(1),
            usage,
            total: usage,
            duration_ms: 12,
        })),
        Record::Retry { step: 1, attempt: 2, wait_ms: 10, cause: "503".into() },
        Record::ProcessEnded(Box::new(ProcessEndedRecord {
            signal: Some(9),
            ..Default::default()
        })),
        Record::Diff(Box::new(DiffRecord {
            turn: Some("t-1".into()),
            proven: true,
            files: vec![FileChangeRecord {
                path: "a".into(),
                renamed_from: None,
                status: FileStatus::Modified,
                added: 1,
                removed: 0,
                binary: false,
                by: vec!["patch:c-1".into()],
            }],
            ..Default::default()
        })),
        Record::Verification(Box::new(CheckRecord { name: "tests".into(), ..Default::default() })),
        Record::Compacted(Box::new(CompactedRecord {
            step: 3,
            by: "local".into(),
            replaced: 7,
            replacement: Vec::new(),
            plan: Vec::new(),
            state: Value::Null,
        })),
        Record::RolledBack { turns: 1, to_seq: 4 },
        ended(TurnEnd::Completed),
        ended(TurnEnd::Aborted { reason: reason(), message: "m".into() }),
        ended(TurnEnd::Failed { reason: reason(), message: "m".into(), retryable: true }),
        Record::RunFinished(Box::new(RunFinishedRecord {
            run: "run-1".into(),
            state: "completed".into(),
            cost: Some(0.25),
            ..Default::default()
        })),
    ]
}

#[test]
fn every_type_comes_back_and_has_the_name_of_the_design() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    let all = every_record();
    write_all(&path, all.clone());
    assert_eq!(records(&read(&path).unwrap()), all);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut names = Vec::new();
    for (line, record) in text.lines().zip(&all) {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["type"], record.type_name());
        let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys[..4], ["v", "seq", "ts", "type"]);
        assert_eq!(keys[keys.len() - 1], "prev");
        names.push(record.type_name());
    }
    names.dedup();
    assert_eq!(
        names.join(", "),
        "run_started, turn_started, turn_context, step_started, world_state, item, verdict, \
         approval, hook, usage, retry, process_ended, diff, verification, compacted, rolled_back, \
         turn_completed, turn_aborted, turn_failed, run_finished"
    );
}

#[test]
fn the_line_is_exactly_this() {
    let encoded =
        line::encode(&message("a\nb"), 7, "2026-11-29T22:48:21.035Z", ZERO_HASH, &Masker::none());
    assert_eq!(
        String::from_utf8(encoded.unwrap()).unwrap(),
        format!(
            "{{\"v\":1,\"seq\":7,\"ts\":\"2026-11-29T22:48:21.035Z\",\"type\":\"item\",\"step\":1,\
             \"response_id\":\"r-1\",\"item\":{{\"kind\":\"message\",\"role\":\"assistant\",\
             \"text\":\"a\\nb\"}},\"prev\":\"{ZERO_HASH}\"}}\n"
        )
    );
}

#[test]
fn an_older_line_with_fewer_fields_is_read() {
    for (line, name) in [
        ("{\"v\":1,\"type\":\"run_started\",\"run\":\"r\",\"session\":\"s\"}", "run_started"),
        ("{\"v\":1,\"type\":\"usage\"}", "usage"),
        ("{\"v\":1,\"type\":\"turn_context\"}", "turn_context"),
        ("{\"v\":1,\"type\":\"run_finished\",\"state\":\"completed\"}", "run_finished"),
    ] {
        let entry = Reader::new(line.as_bytes(), Path::new("x")).next().unwrap().unwrap();
        assert_eq!(entry.record.type_name(), name);
    }
}

#[test]
fn a_record_too_deep_or_too_long_is_still_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    let mut deep = json!("secret-inside");
    for _ in 0..120 {
        deep = json!([deep]);
    }
    let long = "阴影\n".repeat(6 << 20);
    let raw =
        Record::Item { step: 1, response_id: None, item: Arc::new(Item::Unknown { raw: deep }) };
    runtime().block_on(async {
        let masker = Arc::new(Masker::new([("K", "secret-inside")]));
        let writer = RolloutWriter::create(&path, masker).unwrap();
        for record in [raw, message(&long), message("after")] {
            writer.append(record).await.unwrap();
        }
        writer.close().await.unwrap();
    });
    let report = verify(&path).unwrap();
    assert!(report.ok && report.found.records == 3, "{report:?}");
    let rollout = read(&path).unwrap();
    assert!(!format!("{:?}", rollout.entries[0]).contains("secret-inside"));
    let Record::Item { item, .. } = &rollout.entries[1].record else { panic!() };
    let Item::Message { text, .. } = item.as_ref() else { panic!() };
    assert!(text.len() < 300 << 10 && text.contains("bytes left out of the record"));
}
