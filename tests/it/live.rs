//! Commands that outlive their call: looked at, typed into, interrupted, ended, and never left behind.

use super::support::recorded::{HELD, go_after, latest, records};
use super::support::{Run, Sandboxed, alive, eventually, mark, script};
use serde_json::{Value, json};
use std::time::Duration;

const POLICY: &str = r#"version: 1
exec:
  allow:
    - sleep *
    - cat
    - "true"
    - printf ...
    - bash talk.sh
    - sh [slow.sh, late.sh, make.sh, hold.sh, loop.sh, evil.sh, trap.sh]
files: { read: ["**"], write: ["**"] }
command_limits: { timeout: 30s }
"#;
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

/// One call for [`script`].
fn call(tool: &str, args: Value) -> String {
    format!("{{ tool: {tool}, args: {args} }}")
}

fn exec(args: Value) -> String {
    call("exec_command", args)
}

fn stdin(args: Value) -> String {
    call("write_stdin", args)
}

fn place(calls: &[String]) -> Sandboxed {
    let place = Sandboxed::with_policy(POLICY);
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    place.write("model.yaml", script(&calls));
    place.write("ws/a.txt", "a\n");
    place
}

#[test]
fn a_command_yields_is_looked_at_and_its_end_is_told_once() {
    let place = place(&[
        exec(json!({"cmd": "sh slow.sh", "yield_time_ms": 2500})),
        stdin(json!({"session_id": 1, "yield_time_ms": 20_000})),
        exec(json!({"cmd": "true"})),
        stdin(json!({"session_id": 1})),
    ]);
    let text = format!("echo first; {HELD}; echo second; echo x > made.txt; exit 7\n");
    place.write("ws/slow.sh", text);
    let running = Run::exec(&place, &[&["--json"][..], &MODEL].concat()).start();
    go_after(&place, 1);
    let done = running.wait(Duration::from_secs(60));
    done.assert(0, "completed", "completed");
    let told = done.outputs();
    assert!(told[0].contains("still running: session 1") && told[0].contains("first"), "{told:?}");
    assert!(!told[0].contains("second"), "{}", told[0]);
    assert!(told[1].starts_with("exit code: 7") && told[1].contains("second"), "{}", told[1]);
    assert!(!told[1].contains("first"), "what was shown is not shown again: {}", told[1]);
    assert!(told[3].contains("there is no session 1"), "{}", told[3]);
    assert_eq!(done.kinds(), ["ok", "failed", "ok", "bad_arguments"]);
    let ended: Vec<Value> =
        done.rollout().into_iter().filter(|record| record["type"] == "process_ended").collect();
    assert_eq!(ended.len(), 1);
    assert_eq!((&ended[0]["exit_code"], &ended[0]["session_id"]), (&json!(7), &json!(1)));
    assert!(ended[0]["ended_by"].is_null());
    assert!(done.event_types().contains(&"process.ended".to_owned()), "{}", done.stdout);
    let result = done.result();
    assert_eq!(result["processes"][0]["exit_code"], 7, "{result}");
    let made = &result["changed_files"][0];
    assert_eq!(made["path"], "made.txt");
    let by = made["by"].to_string();
    assert!(by.contains("command:"), "{by}");
    done.assert_artifacts_agree();
}

#[test]
fn a_command_that_ends_before_it_yields_is_an_ordinary_call() {
    let place = place(&[exec(json!({"cmd": "printf hello", "yield_time_ms": 20_000}))]);
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    assert!(done.outputs()[0].starts_with("exit code: 0"), "{}", done.outputs()[0]);
    assert!(done.took < Duration::from_secs(10), "{:?}", done.took);
    assert_eq!(done.result()["processes"], json!([]));
}

#[test]
fn input_goes_through_a_pipe_and_its_end_is_told() {
    let place = place(&[
        exec(json!({"argv": ["cat"], "stdin": true, "yield_time_ms": 100})),
        stdin(json!({"session_id": 1, "chars": "你好 ✓\n", "yield_time_ms": 3000})),
        stdin(json!({"session_id": 1, "chars": "bye\n", "eof": true, "yield_time_ms": 20_000})),
        exec(json!({"argv": ["sleep", "200"], "yield_time_ms": 50})),
        stdin(json!({"session_id": 2, "chars": "x\n", "yield_time_ms": 50})),
        stdin(json!({"session_id": 2, "resize": {"rows": 10, "columns": 10}})),
        stdin(json!({"session_id": 2, "close": true})),
    ]);
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    let told = done.outputs();
    assert!(told[1].contains("你好 ✓"), "{}", told[1]);
    assert!(told[2].starts_with("exit code: 0") && told[2].contains("bye"), "{}", told[2]);
    assert!(told[4].contains("standard input is closed"), "{}", told[4]);
    assert!(told[4].contains("\"stdin\": true"), "the way out is named: {}", told[4]);
    assert!(told[5].contains("no terminal"), "{}", told[5]);
    assert!(told[6].starts_with("ended as you asked"), "{}", told[6]);
    assert_eq!(done.kinds(), ["ok", "ok", "ok", "ok", "failed", "failed", "ok"]);
    assert_eq!(done.result()["processes"][1]["ended_by"], "closed");
}

#[test]
fn a_terminal_is_the_commands_own_and_can_be_resized_interrupted_and_closed() {
    let place = place(&[
        exec(json!({"cmd": "bash talk.sh", "tty": true, "yield_time_ms": 3000})),
        stdin(json!({
            "session_id": 1, "resize": {"rows": 33, "columns": 111}, "chars": "size\n",
            "yield_time_ms": 2500,
        })),
        stdin(json!({"session_id": 1, "chars": "wait\n", "yield_time_ms": 1500})),
        stdin(json!({"session_id": 1, "interrupt": true, "yield_time_ms": 2500})),
        stdin(json!({"session_id": 1, "chars": "\u{4}", "yield_time_ms": 20_000})),
    ]);
    place.write(
        "ws/talk.sh",
        "trap 'echo caught' INT\n\
         [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo terminal\n\
         (: </dev/tty) 2>/dev/null && echo controlling\n\
         echo \"TERM=$TERM PAGER=$PAGER\"\n\
         while read -r word; do\n\
           case $word in size) stty size;; wait) sleep 20;; esac\n\
         done\n\
         echo over; exit 3\n",
    );
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    let told = done.outputs();
    for text in ["terminal", "controlling", "TERM=dumb PAGER=cat"] {
        assert!(told[0].contains(text), "{text}: {}", told[0]);
    }
    assert!(told[1].contains("33 111"), "{}", told[1]);
    assert!(told[3].contains("caught"), "{}", told[3]);
    assert!(told[4].starts_with("exit code: 3") && told[4].contains("over"), "{}", told[4]);
}

#[test]
fn an_interrupt_without_a_terminal_reaches_the_whole_group() {
    let place = place(&[
        exec(json!({"cmd": "sh trap.sh", "yield_time_ms": 3000})),
        stdin(json!({"session_id": 1, "chars": "\u{3}", "yield_time_ms": 20_000})),
    ]);
    place.write("ws/trap.sh", "trap 'echo caught; exit 9' INT\nsleep 25.5 & wait\n");
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    let told = &done.outputs()[1];
    assert!(told.starts_with("exit code: 9") && told.contains("caught"), "{told}");
}

#[test]
fn at_most_sixteen_run_at_once_and_the_next_is_told_which() {
    let mark = mark("250.");
    let stays = exec(json!({"argv": ["sleep", &mark], "yield_time_ms": 1}));
    let mut calls = vec![stays.clone(); 17];
    calls.push(stdin(json!({"session_id": 7, "close": true})));
    calls.push(stays);
    calls.push(exec(json!({"cmd": "printf one-shot"})));
    // The scripted model has no answer to what it is told at the end: its final message stands.
    let place = place(&calls);
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    let (kinds, told) = (done.kinds(), done.outputs());
    assert_eq!(kinds[..16], ["ok"; 16]);
    assert_eq!(kinds[16], "failed");
    assert!(told[16].contains("16 commands run already"), "{}", told[16]);
    assert!(
        told[16].contains("session 1:") && told[16].contains(&format!("sleep {mark}")),
        "{}",
        told[16]
    );
    assert_eq!(kinds[17..], ["ok", "ok", "ok"], "{told:?}");
    assert!(told[19].contains("one-shot"), "a call that is waited for takes no place");
    assert_eq!(done.result()["processes"].as_array().unwrap().len(), 17);
    assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
}

#[test]
fn d72_what_still_runs_when_the_turn_ends_is_told_once_then_ended_and_then_the_diff_is_taken() {
    let mark = mark("60.");
    let place = Sandboxed::with_policy(POLICY);
    let text = format!("echo begun; echo begun > begun.txt; sleep {mark}; echo done > f\n");
    place.write("ws/late.sh", text);
    place.write(
        "model.yaml",
        format!(
            "version: 1\nsteps:\n  - calls: [{}]\n  - text: first\n  - text: second\n",
            exec(json!({"cmd": "sh late.sh", "yield_time_ms": 2500}))
        ),
    );
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
    let records = done.rollout();
    let told: Vec<&Value> =
        records.iter().filter(|record| record["item"]["fragment"] == "processes").collect();
    assert_eq!(told.len(), 1, "told once");
    let text = told[0]["item"]["text"].as_str().unwrap();
    assert!(text.contains("session 1 (sh late.sh)"), "{text}");
    let result = done.result();
    assert_eq!(result["steps"], 3, "one more Step to answer: {result}");
    assert_eq!(result["processes"][0]["ended_by"], "turn_end");
    let paths: Vec<&str> = result["changed_files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["begun.txt"], "the diff was taken after the end: f was never written");
    assert!(!place.exists("ws/f"));
    assert_eq!(done.stdout.trim(), "second");
    let order: Vec<&str> = records.iter().filter_map(|record| record["type"].as_str()).collect();
    let at = |kind: &str| order.iter().position(|found| *found == kind).unwrap();
    assert!(at("process_ended") < at("diff"), "{order:?}");
    assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
    done.assert_artifacts_agree();
}

#[test]
fn a_turn_without_a_step_left_ends_them_without_a_word_and_is_no_less_completed() {
    let stays = format!("sleep {}", mark("60."));
    let place = place(&[exec(json!({"cmd": &stays, "yield_time_ms": 50}))]);
    let done = Run::exec(&place, &[&["--max-steps", "2"][..], &MODEL].concat()).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.result()["processes"][0]["ended_by"], "turn_end");
    assert_eq!(alive(&stays), Vec::<i32>::new());
}

#[test]
fn what_still_runs_counts_as_no_attempt_of_the_checks() {
    let place = Sandboxed::with_policy(POLICY);
    place.write(
        "model.yaml",
        format!(
            "version: 1\nsteps:\n  - calls: [{}]\n  - text: first\n  - text: second\n  - calls: [{}]\n  - text: third\n",
            exec(json!({"cmd": "sleep 60.74", "yield_time_ms": 50})),
            exec(json!({"cmd": "sh make.sh"})),
        ),
    );
    place.write("ws/make.sh", "echo x > wanted\n");
    let args = ["--verify", "test -e wanted", "--verify-attempts", "1"];
    let done = Run::exec(&place, &[&args[..], &MODEL].concat()).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.result()["checks"].as_array().unwrap().len(), 2);
}

#[test]
fn d73_an_interrupt_while_a_session_is_looked_at_ends_it_like_a_one_shot() {
    for (name, status) in [("INT", 130), ("TERM", 143)] {
        let mark = mark("600.");
        let place = place(&[
            exec(json!({"cmd": "sh hold.sh", "yield_time_ms": 100})),
            stdin(json!({"session_id": 1, "yield_time_ms": 60_000})),
        ]);
        place.write("ws/hold.sh", format!("exec sleep {mark}\n"));
        let running = Run::exec(&place, &MODEL).start();
        eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
        eventually("the look at it was judged", || {
            let verdicts = records(&latest(&place));
            verdicts.iter().filter(|record| record["type"] == "verdict").count() == 2
        });
        // It waits a moment later, which no record tells.
        std::thread::sleep(Duration::from_millis(200));
        running.signal(name);
        let done = running.wait(Duration::from_secs(10));
        done.assert(status, "interrupted", "interrupted");
        assert_eq!(done.kinds(), ["ok", "cancelled"]);
        assert_eq!(done.result()["processes"][0]["ended_by"], "cancelled");
        assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
        done.assert_artifacts_agree();
    }
}

#[test]
fn time_runs_for_a_session_too_and_what_it_changed_while_it_ran_is_its_own() {
    let place = place(&[
        exec(json!({"cmd": "sh loop.sh", "yield_time_ms": 1000, "timeout_ms": 4000})),
        exec(json!({"cmd": "true"})),
        stdin(json!({"session_id": 1, "yield_time_ms": 20_000})),
    ]);
    place.write("ws/loop.sh", "echo 1 > one; while :; do sleep 0.2; done\n");
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.kinds(), ["ok", "ok", "timed_out"]);
    let result = done.result();
    assert_eq!(result["processes"][0]["ended_by"], "timeout");
    let id = result["processes"][0]["call_id"].as_str().unwrap().to_owned();
    assert_eq!(result["changed_files"][0]["by"], json!([format!("command:{id}")]), "{result}");
}

#[test]
fn a_session_that_touches_a_protected_place_is_ended_and_the_place_is_put_back() {
    let mark = mark("60.");
    let place = place(&[
        exec(json!({"cmd": "sh evil.sh", "yield_time_ms": 200})),
        exec(json!({"cmd": "sleep 3"})),
    ]);
    place.write("ws/evil.sh", format!("{HELD}; echo evil >> .git/config; sleep {mark}\n"));
    place.git_init(&place.path("ws"));
    let before = place.read("ws/.git/config");
    std::thread::sleep(Duration::from_millis(20));
    let running = Run::exec(&place, &MODEL).start();
    go_after(&place, 1);
    let done = running.wait(Duration::from_secs(60));
    assert_eq!(place.read("ws/.git/config"), before, "{}", done.stderr);
    assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
    let told = &done.outputs()[1];
    if told.contains("[policy:") {
        // Where nothing carves .git out of the writable workspace, it is put back.
        assert!(told.contains("sessions were ended: 1"), "{told}");
        assert_eq!(done.result()["processes"][0]["ended_by"], "protected");
    }
}
