//! A record of ten thousand steps: gone on with soon, and in memory that is bounded by its history.

use super::support::model_server::{Reply, Server};
use super::support::recorded::{latest, records, resume};
use super::support::{Run, Sandboxed, script};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turnkey::protocol::{
    CallId, Decision, Effect, Fragment, Item, ResultKind, Role, RuleRef, SubmissionId, ToolCall,
    ToolPayload, ToolResult, TurnId, Verdict,
};
use turnkey::rollout::{
    HeldRollout, Masker, Record, RolloutWriter, StepStartedRecord, UsageRecord,
};

const POLICY: &str =
    "version: 1\nexec: { allow: [\"true\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
const STEPS: u32 = 10_000;

/// One step as a runner records it, without its end where it is the last one.
async fn step(writer: &RolloutWriter, turn: &TurnId, number: u32) {
    let id = CallId::from(format!("call_{number}").as_str());
    let append = |record| async { writer.append(record).await.unwrap() };
    append(Record::StepStarted(Box::new(StepStartedRecord {
        turn: turn.clone(),
        step: number,
        fingerprint: "0".repeat(64),
        items: u64::from(number) * 2,
        ..StepStartedRecord::default()
    })))
    .await;
    append(Record::Usage(Box::new(UsageRecord {
        step: number,
        status: "completed".into(),
        items: Some(1),
        ..UsageRecord::default()
    })))
    .await;
    let item = |item| Record::Item { step: number, response_id: None, item: Arc::new(item) };
    append(item(Item::ToolCall(ToolCall {
        call_id: id.clone(),
        name: "exec_command".into(),
        payload: ToolPayload::Json(format!("{{\"cmd\":\"true {number}\"}}")),
        raw: None,
    })))
    .await;
    append(Record::Verdict {
        step: number,
        call_id: Some(id.clone()),
        verdict: Verdict {
            action: format!("exec true {number}"),
            decision: Decision::Allow,
            asked: false,
            rule: RuleRef::built_in("exec"),
            reason: "allowed".into(),
            parts: Vec::new(),
        },
    })
    .await;
    if number < STEPS {
        append(item(Item::ToolResult(ToolResult {
            call_id: id,
            name: "exec_command".into(),
            result: ResultKind::Ok,
            effect: Effect::Done,
            output: "test result: ok. 12 passed; 0 failed; finished in 0.03s\n".repeat(10),
            exit_code: Some(0),
            duration_ms: 31,
            freeform: false,
        })))
        .await;
    }
}

#[test]
fn a_record_of_ten_thousand_steps_is_gone_on_with_soon() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[]));
    Run::exec(&place, &["--model", "scripted/model.yaml", "t"]).finish().assert(
        0,
        "completed",
        "completed",
    );
    // The set-up of a real run, and then a Turn that was killed in its last step.
    let text = fs::read_to_string(latest(&place)).unwrap();
    place.write("long.jsonl", format!("{}\n", text.lines().next().unwrap()));
    let path = place.path("long.jsonl");
    let (held, _) = HeldRollout::open(&path, &mut |_| {}).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let writer = held.writer(Arc::new(Masker::new([("", ""); 0]))).unwrap();
        let turn = TurnId::new();
        let started = Record::TurnStarted {
            turn: turn.clone(),
            submission: SubmissionId::new(),
            task: "t".into(),
            answered: false,
        };
        writer.append(started).await.unwrap();
        let task = Arc::new(Item::ours(Role::User, Fragment::Task, "t"));
        writer.append(Record::Item { step: 0, response_id: None, item: task }).await.unwrap();
        for number in 1..=STEPS {
            step(&writer, &turn, number).await;
        }
        writer.close().await.unwrap();
    });
    let bytes = fs::metadata(&path).unwrap().len();
    let server = Server::start([Reply::message("done")]);
    let base = server.base_url();
    let began = Instant::now();
    let running = resume(&place, "long.jsonl", &["--model", "openai/m", "--base-url", &base]);
    let running = running.start();
    let status = format!("/proc/{}/status", running.child.id());
    let mut peak = 0;
    // Its own count of what it held at most, read as long as it is there.
    while let Ok(text) = fs::read_to_string(&status) {
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let Some(line) = line else { break };
        peak = line.trim().trim_end_matches(" kB").parse().unwrap_or(peak);
        std::thread::sleep(Duration::from_millis(2));
    }
    let done = running.wait(Duration::from_secs(60));
    done.assert(0, "completed", "completed");
    assert!(done.stderr.contains("is not run again: exec_command (call_10000)"), "{}", done.stderr);
    let input = server.requests()[0].json["input"].as_array().unwrap().len();
    assert!(input > 20_000, "{input}");
    assert!(records(&place.path("out/rollout.jsonl")).len() > 50_000);
    // By the clock of the server, whoever looked when.
    let asked = server.requests()[0].at.duration_since(began);
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    eprintln!(
        "{build}: {bytes} bytes, asked after {asked:?}, over after {:?}, {peak} KiB",
        done.took
    );
    // The promise is one second; a build for tests is many times slower, on a busy machine more so.
    let limit = if cfg!(debug_assertions) { 50 } else { 1 };
    assert!(asked < Duration::from_secs(limit), "{asked:?}");
    // The history, the request made from it, and its way over the wire.
    assert!(peak < 150 * 1024, "{peak} KiB for a record of {} KiB", bytes / 1024);
}
