//! Field cases on the real binary: faults that people met with such runners, each one a test.

use super::support::model_server::{Call, Reply, Server};
use super::support::{Run, Sandboxed, command, patch, script};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

const POLICY: &str = r#"version: 1
exec:
  allow: ["true", "cat ...", "echo ...", "wc ...", "npx ...", "sh change.sh", "sh noise.sh", "sh missing.sh", "git status", "git push", "printf ...", "head -c * *"]
files: { read: ["**"], write: ["**"] }
"#;

/// A place with this scripted model.
fn scripted(calls: &[&str]) -> Sandboxed {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(calls));
    place
}

const SCRIPTED: [&str; 2] = ["--model", "scripted/model.yaml"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SCRIPTED.iter().copied().chain(more.iter().copied()).collect()
}

/// A run against a real HTTP server.
fn served<'a>(place: &'a Sandboxed, server: &Server, args: &[&str]) -> Run<'a> {
    let base = server.base_url();
    let mut all = vec!["--model", "openai/gpt-test", "--base-url", base.as_str()];
    all.extend(args);
    Run::exec(place, &all).env("OPENAI_API_KEY", "sk-test-key-of-the-model")
}

#[test]
fn d01_a_pipe_that_nobody_closes_does_not_hold_up_a_task_in_the_arguments() {
    let place = Sandboxed::with_policy(POLICY);
    let server = Server::start([Reply::message("OK")]);
    let mut run = served(&place, &server, &["say OK"]);
    run.command().stdin(Stdio::piped());
    let mut running = run.start();
    let held_open = running.child.stdin.take();
    let done = running.wait(Duration::from_secs(10));
    drop(held_open);
    done.assert(0, "completed", "completed");
    let request = &server.requests()[0];
    let texts = request.json["input"].to_string();
    assert!(
        texts.contains("\"say OK\""),
        "the prompt holds the argument and nothing more: {texts}"
    );
}

#[test]
fn d02_long_tasks_patches_and_commands_have_no_hidden_limit() {
    let long = "word ".repeat(60 * 1024);
    let line = format!("+{}\n", "x".repeat(99));
    let text =
        format!("*** Begin Patch\n*** Add File: big.txt\n{}*** End Patch\n", line.repeat(3072));
    let shell = command(&format!("echo {}", "y".repeat(200 * 1024)));
    let place = scripted(&[&patch(&text), &shell]);
    let done = Run::exec(&place, &with(&["-"])).stdin(&long).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(fs::metadata(place.path("ws/big.txt")).unwrap().len(), 100 * 3072);
    let kinds = done.kinds();
    assert_eq!(kinds[0], "ok");
    assert_ne!(kinds[1], "internal", "{:?}", done.outputs()[1]);
    let task = done.rollout().iter().find(|r| r["type"] == "turn_started").unwrap()["task"].clone();
    assert_eq!(task.as_str().unwrap(), long);
    let spec = format!(
        "version: 1\ntask: |\n  {long}\nworkspace: ws\nmodel: {{ use: scripted/model.yaml }}\npolicy: policy.yaml\n"
    );
    place.write("spec.yaml", spec);
    place.write("model.yaml", script(&[]));
    let done = Run::new(&place, &["exec", "--spec", "spec.yaml", "--artifacts", "out"]).finish();
    done.assert(0, "completed", "completed");
}

#[test]
fn d03_an_ask_is_decided_at_once_and_the_denial_names_the_part() {
    let place = scripted(&[&command("npx tsc | head -40"), &command("true")]);
    let done = Run::exec(&place, &with(&["t"])).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.kinds()[0], "denied");
    let told = &done.outputs()[0];
    assert!(told.contains("head -40"), "{told}");
    assert!(!told.contains("- npx"), "npx is not at fault: {told}");
    let denial = &done.result()["denials"][0];
    assert_eq!(denial["argv"], serde_json::json!(["head", "-40"]));
    assert_eq!(denial["step"], 1);
}

/// A server that asks for a password, as a remote over HTTPS does.
fn asks_for_a_password() -> (std::net::SocketAddr, std::thread::JoinHandle<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        for stream in listener.incoming().take(4).flatten() {
            let mut stream = stream;
            let mut buffer = [0u8; 4096];
            let _ = std::io::Read::read(&mut stream, &mut buffer);
            let _ = stream.write_all(
                b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    (address, thread)
}

#[test]
fn d04_git_that_wants_a_password_fails_instead_of_waiting() {
    let (address, _thread) = asks_for_a_password();
    let place = Sandboxed::with_policy(
        "version: 1\nexec:\n  allow:\n    - { cmd: \"git push ...\", network: open }\n    - \"true\"\nfiles: { read: [\"**\"], write: [\"**\"] }\n",
    );
    place.write("ws/a.txt", "a\n");
    place.git_init(&place.path("ws"));
    let remote = format!("http://{address}/r.git");
    place.git(&place.path("ws"), &["remote", "add", "origin", &remote]);
    place.write("model.yaml", script(&[&command("git push origin main"), &command("true")]));
    let done = Run::exec(&place, &with(&["t"])).finish();
    let told = done.outputs();
    assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
    assert_eq!(done.kinds(), ["failed", "ok"], "{told:?}");
    assert!(told[0].contains("exit code"), "git ran and gave up: {}", told[0]);
    assert!(!told[0].contains("denied by the policy"), "{}", told[0]);
}

#[test]
fn d05_the_tools_offered_follow_the_policy_and_an_unknown_one_is_told() {
    let place = Sandboxed::with_policy(
        "version: 1\nexec: { allow: [\"wc ...\"] }\nfiles: { read: [\"**\"] }\n",
    );
    let server = Server::start([
        Reply::calls([Call::json("c1", "run_shell_command", json!({"command": "ls"}))]),
        Reply::message("done"),
    ]);
    let done = served(&place, &server, &["t"]).finish();
    assert_eq!(done.kinds(), ["unknown_tool"]);
    let names: Vec<String> = server.requests()[0].json["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains(&"exec_command".to_owned()), "{names:?}");
    assert!(!names.contains(&"apply_patch".to_owned()), "nothing may be written: {names:?}");
    assert!(done.outputs()[0].contains("exec_command"));
    server.assert_clean();
}

#[test]
fn d06_retries_used_up_are_a_failure_that_names_status_and_attempts() {
    let place = Sandboxed::with_policy(POLICY);
    let server =
        Server::start([Reply::status(500, "{\"error\":{\"message\":\"broken\"}}").forever()]);
    place.write(
        "spec.yaml",
        format!(
            "version: 1\ntask: t\nworkspace: ws\npolicy: policy.yaml\nmodel:\n  use: openai/m\n  base_url: {}\n  retries: {{ attempts: 3, total_wait: 20s }}\n",
            server.base_url()
        ),
    );
    let done = Run::new(&place, &["exec", "--spec", "spec.yaml", "--artifacts", "out"])
        .env("OPENAI_API_KEY", "sk-test-key-of-the-model")
        .finish();
    done.assert(13, "model_failed", "model.server");
    assert_eq!(server.request_count(), 3);
    assert!(done.stderr.contains("500") && done.stderr.contains("3 requests"), "{}", done.stderr);
    assert_eq!(done.result()["retryable"], true);
}

#[test]
fn d07_a_wrong_key_a_long_prompt_and_no_key_are_three_states_and_none_is_retried() {
    let place = Sandboxed::with_policy(POLICY);
    let too_long = r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#;
    for (status, body, reason) in [
        (401, r#"{"error":{"message":"Incorrect API key"}}"#, "model.auth"),
        (403, r#"{"error":{"message":"no access"}}"#, "model.auth"),
        (400, too_long, "model.context_exceeded"),
    ] {
        let server = Server::start([Reply::status(status, body).forever()]);
        let done = served(&place, &server, &["t"]).finish();
        done.assert(13, "model_failed", reason);
        assert_eq!(server.request_count(), 1, "{status}");
    }
    let done =
        Run::exec(&place, &["--model", "openai/m", "--base-url", "https://example.com/v1", "t"])
            .finish();
    assert_ne!(done.status, 0);
    assert_eq!(done.result()["exit_status"], done.status);
    assert!(done.stderr.contains("key"), "{}", done.stderr);
}

#[test]
fn d08_a_request_that_fails_for_good_never_looks_like_success() {
    let place = Sandboxed::with_policy(POLICY);
    let server = Server::start([Reply::failed("invalid_prompt", "no")]);
    let done = served(&place, &server, &["--json", "t"]).finish();
    assert_ne!(done.status, 0);
    let result = done.result();
    assert_ne!(result["state"], "completed");
    assert_eq!(result["exit_status"], done.status);
    assert!(done.event_types().contains(&"turn.failed".to_owned()), "{}", done.stdout);
    assert!(!done.event_types().contains(&"turn.completed".to_owned()));
    done.assert_artifacts_agree();
}

#[test]
fn d11_promised_files_that_are_missing_are_a_failure_and_failed_calls_are_counted() {
    let place =
        scripted(&[&command("sh missing.sh"), &command("cat missing.txt"), &command("true")]);
    let done = Run::exec(
        &place,
        &with(&["--require-file", "out/report.md", "--verify-attempts", "0", "t"]),
    )
    .finish();
    done.assert(10, "unverified", "require_files");
    assert_eq!(done.result()["tool_calls"]["failed"], 2);
}

#[test]
fn d37_the_diff_holds_what_shell_commands_changed() {
    let place = scripted(&[
        &patch("*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n*** End Patch\n"),
        &command("sh change.sh"),
    ]);
    place.write("ws/a.txt", "a\n");
    place.write("ws/b.txt", "b\n");
    place.write("ws/c.txt", "c\n");
    place.write("ws/f.txt", "f\n");
    place.write(
        "ws/change.sh",
        "echo B > b.txt; rm c.txt; mkdir -p d; echo e > d/e.txt; chmod +x d/e.txt; echo x > f.txt; echo f > f.txt\n",
    );
    place.git_init(&place.path("ws"));
    let done = Run::exec(&place, &with(&["t"])).finish();
    done.assert(0, "completed", "completed");
    let diff = place.read("out/turn.diff");
    assert!(!diff.contains("f.txt"), "{diff}");
    round_trip(&place);
    let result = done.result();
    let by = |path: &str| -> String {
        let files = result["changed_files"].as_array().unwrap();
        files.iter().find(|file| file["path"] == path).unwrap()["by"].to_string()
    };
    assert!(by("a.txt").contains("patch:") && by("b.txt").contains("command:"), "{result}");
}

/// The diff, applied to a clean checkout of the base, gives the workspace, modes included.
fn round_trip(place: &Sandboxed) {
    let (ws, clean) = (place.path("ws"), place.path("clean"));
    place.git(&place.path(""), &["clone", "-q", ws.to_str().unwrap(), clean.to_str().unwrap()]);
    let diff = place.path("out/turn.diff");
    place.git(&clean, &["apply", "--index", diff.to_str().unwrap()]);
    place.git(&ws, &["add", "-A"]);
    let tree = |folder: &std::path::Path| place.git(folder, &["write-tree"]);
    assert_eq!(tree(&ws), tree(&clean));
}

#[test]
fn d38_new_files_are_in_the_diff_ignored_and_unchanged_ones_are_not() {
    let place = scripted(&[&command("sh change.sh")]);
    place.write(
        "ws/change.sh",
        "mkdir -p sub; echo q > sub/q.txt; echo r > r.log; echo '*' > sub/.gitignore\n",
    );
    place.write("ws/.gitignore", "*.log\n");
    place.git_init(&place.path("ws"));
    place.write("ws/p.txt", "untracked before\n");
    let done = Run::exec(&place, &with(&["t"])).finish();
    done.assert(0, "completed", "completed");
    let diff = place.read("out/turn.diff");
    assert!(diff.contains("b/sub/q.txt"), "a new ignore rule hides nothing: {diff}");
    assert!(!diff.contains("p.txt") && !diff.contains("r.log"), "{diff}");
    assert!(
        place.read("out/start.diff").contains("p.txt"),
        "the start was dirty, and that is kept"
    );
}

#[test]
fn d55_no_part_of_a_chain_rides_on_another_ones_rule() {
    for chain in ["&&", "||", ";", "|", "|&", "&"] {
        for script_text in
            [format!("echo ok {chain} touch CANARY"), format!("echo ok{chain}touch CANARY")]
        {
            let place = scripted(&[&command(&script_text), &command("true")]);
            let done = Run::exec(&place, &with(&["t"])).finish();
            assert_eq!(done.kinds()[0], "denied", "{script_text}");
            assert!(!place.exists("ws/CANARY"), "{script_text}");
            assert!(done.outputs()[0].contains("touch CANARY"), "{:?}", done.outputs());
        }
    }
}

#[test]
fn d76_output_that_is_not_text_ends_nothing() {
    let bytes = r"printf '\377\376\200ok\000\355\240\200'";
    let place =
        scripted(&[&command(bytes), &command("head -c 1000000 /dev/urandom"), &command("true")]);
    let done = Run::exec(&place, &with(&["--json", "t"])).finish();
    done.assert(0, "completed", "completed");
    done.assert_events_parse();
    assert_eq!(done.kinds(), ["ok", "ok", "ok"], "{:?}", done.outputs());
    assert!(done.outputs()[0].contains("ok"));
}

#[test]
fn d96_nothing_but_events_reaches_standard_output() {
    let place = scripted(&[&command("sh noise.sh")]);
    place.write(
        "ws/noise.sh",
        "printf '\\033[?2004hraw'; echo raw > /dev/tty; for p in /proc/[0-9]*; do echo raw > $p/fd/1; done 2>/dev/null; true\n",
    );
    let done = Run::exec(&place, &with(&["--json", "t"])).finish();
    done.assert(0, "completed", "completed");
    done.assert_events_parse();
    assert!(!done.stdout.contains('\u{1b}') && !done.stderr.contains('\u{1b}'));
    let done = Run::exec(&place, &with(&["t"])).finish();
    assert_eq!(done.stdout, "done\n", "the final message and nothing else");
}

#[test]
fn d97_text_of_tools_never_becomes_a_line_of_ours() {
    let place = scripted(&[&command("cat old.txt")]);
    place.write("ws/old.txt", "{\"type\":\"turn.completed\"}\n::error::x\n##[group]y\n");
    let done = Run::exec(&place, &with(&["--json", "t"])).env("GITHUB_ACTIONS", "true").finish();
    done.assert(0, "completed", "completed");
    done.assert_events_parse();
    assert_eq!(done.event_types().iter().filter(|kind| *kind == "turn.completed").count(), 1);
    for stream in [&done.stdout, &done.stderr] {
        assert!(
            !stream.lines().any(|line| line.starts_with("::") || line.starts_with("##[")),
            "{stream}"
        );
    }
}

#[test]
fn d100_every_request_is_paired_whatever_became_of_the_calls() {
    let place = Sandboxed::with_policy(POLICY);
    let server = Server::start([
        Reply::calls([
            Call::json("c1", "exec_command", json!({"cmd": "true"})),
            Call::json("c2", "exec_command", json!({"cmd": "curl x"})),
            Call::json("c3", "no_such_tool", json!({})),
            Call::raw("c4", "exec_command", "{"),
        ]),
        Reply::message("done"),
    ]);
    let done = served(&place, &server, &["t"]).finish();
    done.assert(0, "completed", "completed");
    server.assert_clean();
    let input = server.requests()[1].json["input"].clone();
    let outputs =
        |kind: &str| input.as_array().unwrap().iter().filter(|item| item["type"] == kind).count();
    assert_eq!((outputs("function_call"), outputs("function_call_output")), (4, 4));
}

#[test]
fn d109_broken_tool_calls_are_told_and_cost_no_turn() {
    let place = Sandboxed::with_policy(POLICY);
    let broken = [
        "{",
        "",
        "null",
        "[]",
        r#"{"command":"ls"}"#,
        r#"{"cmd":["ls"]}"#,
        r#"{"cmd":"true","cmd":"true"}"#,
    ];
    let mut replies: Vec<Reply> = broken
        .iter()
        .enumerate()
        .map(|(n, text)| Reply::calls([Call::raw(&format!("c{n}"), "exec_command", text)]))
        .collect();
    replies.push(Reply::calls([Call::raw("nul", "exec_command", r#"{"cmd":"echo a\u0000b"}"#)]));
    replies.push(Reply::calls([
        Call::json("same", "exec_command", json!({"cmd": "echo one"})),
        Call::json("same", "exec_command", json!({"cmd": "echo two"})),
    ]));
    replies.push(Reply::message("done"));
    let server = Server::start(replies);
    let done = served(&place, &server, &["t"]).finish();
    let kinds = done.kinds();
    assert!(
        kinds[..7].iter().all(|kind| kind == "bad_arguments"),
        "{kinds:?} {:?}",
        done.outputs()
    );
    assert_eq!(kinds[7], "denied", "a NUL never runs");
    done.assert(0, "completed", "completed");
    server.assert_clean();
}

#[test]
fn d109_a_cap_on_equal_failures_ends_a_loop() {
    let place = Sandboxed::with_policy(POLICY);
    let server = Server::start([Reply::calls([Call::raw("c", "exec_command", "{")]).forever()]);
    let done = served(&place, &server, &["t"]).finish();
    done.assert(12, "limit_reached", "limit.equal_failures");
    assert_eq!(server.request_count(), 10);
}

#[test]
fn the_task_comes_from_stdin_only_when_asked_for() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[]));
    let done = Run::exec(&place, &with(&["-"])).stdin("from stdin").finish();
    done.assert(0, "completed", "completed");
    let task = |done: &super::support::Done<'_>| {
        done.rollout().iter().find(|r| r["type"] == "turn_started").unwrap()["task"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(task(&done), "from stdin");
    let done = Run::exec(&place, &with(&[])).stdin("piped without a dash").finish();
    assert_eq!(task(&done), "piped without a dash");
    let done = Run::exec(&place, &with(&["typed"])).stdin("not this").finish();
    assert_eq!(task(&done), "typed");
}

#[test]
fn the_same_example_runs_against_a_real_server() {
    let place = Sandboxed::new();
    let example =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("ci-examples/fix-failing-test");
    place.copy(&example, "example");
    let fix = "*** Begin Patch\n*** Update File: calc.sh\n@@ max_of() {\n-    largest=0\n+    largest=$1\n     for number in \"$@\"; do\n*** End Patch\n";
    let server = Server::start([
        Reply::calls([
            Call::json("r1", "read_file", json!({"path": "calc.sh"})),
            Call::json("r2", "read_file", json!({"path": "test.sh"})),
        ]),
        Reply::calls([Call::json("t1", "exec_command", json!({"cmd": "sh test.sh"}))]),
        Reply::calls([Call::json("p1", "apply_patch", json!({ "input": fix }))]),
        Reply::calls([Call::json("t2", "exec_command", json!({"cmd": "sh test.sh"}))]),
        Reply::message("Fixed."),
    ]);
    let base = server.base_url();
    let done = Run::new(
        &place,
        &[
            "exec",
            "--spec",
            "example/task.yaml",
            "--artifacts",
            "out",
            "--model",
            "openai/some-model",
            "--base-url",
            &base,
        ],
    )
    .env("OPENAI_API_KEY", "sk-test-key-of-the-model")
    .finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.kinds(), ["ok", "ok", "failed", "ok", "ok"]);
    server.assert_clean();
    assert_eq!(server.request_count(), 5);
    assert!(done.result()["usage"]["input_tokens"].as_u64().unwrap() > 0);
    for name in ["rollout.jsonl", "result.json", "last-message.md", "summary.md"] {
        assert!(!place.read(&format!("out/{name}")).contains("sk-test-key"), "{name}");
    }
    place.git(&place.path("example/sample"), &["init", "-q"]);
    let diff = place.path("out/turn.diff");
    place.git(&place.path("example/sample"), &["apply", "--check", diff.to_str().unwrap()]);
}

#[test]
fn an_older_result_does_not_survive_a_run_that_does_not_start() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[]));
    Run::exec(&place, &with(&["t"])).finish().assert(0, "completed", "completed");
    place.write("policy.yaml", "version: 1\nexec: 7\n");
    let done = Run::exec(&place, &with(&["t"])).finish();
    done.assert(2, "invalid", "policy");
    assert!(!place.exists("out/rollout.jsonl") && !place.exists("out/turn.diff"));
}

#[test]
fn the_run_folder_lies_outside_what_commands_may_write() {
    let place = Sandboxed::with_policy(
        "version: 1\nexec: { allow: [\"true\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n",
    );
    place.write("model.yaml", script(&[&command("true")]));
    let ws = place.path("ws");
    let done = Run::exec(&place, &with(&["t"])).env("HOME", ws.to_str().unwrap()).finish();
    done.assert(0, "completed", "completed");
    assert!(!place.exists("ws/.local"), "nothing of the record lies in the workspace");
}

#[test]
fn artifacts_inside_the_workspace_are_no_part_of_the_diff() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[&command("true")]));
    let args = [
        "exec",
        "-C",
        "ws",
        "--artifacts",
        "ws/artifacts",
        "--policy",
        "policy.yaml",
        "--model",
        "scripted/model.yaml",
        "--expect",
        "none",
        "t",
    ];
    let done = Run::new(&place, &args).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    let result: serde_json::Value =
        serde_json::from_str(&place.read("ws/artifacts/result.json")).unwrap();
    assert_eq!(result["changed"], false, "{result}");
}

#[test]
fn the_models_key_is_in_no_commands_environment() {
    let place = Sandboxed::with_policy(
        "version: 1\nexec: { allow: [\"env\", \"cat ...\", \"sh look.sh\", \"sh stay.sh\", \"sh two.sh\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n",
    );
    place.write(
        "ws/look.sh",
        "env; cat /proc/self/environ; for p in /proc/[0-9]*; do cat $p/environ; done 2>/dev/null; true\n",
    );
    let server = Server::start([
        Reply::calls([Call::json("c1", "exec_command", json!({"cmd": "sh look.sh"}))]),
        Reply::message("done"),
    ]);
    let done = served(&place, &server, &["t"]).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.kinds(), ["ok"]);
    for request in server.requests() {
        assert!(!String::from_utf8_lossy(&request.body).contains("sk-test-key"));
    }
    assert!(!place.read("out/rollout.jsonl").contains("sk-test-key"));
}

#[test]
fn wrong_input_says_what_where_and_what_now() {
    let place = Sandboxed::with_policy(POLICY);
    let cases: [(&[&str], &str); 5] = [
        (&["exec", "--model", "nobody/x", "t"], "scripted"),
        (&["exec", "--model", "scripted/none.yaml", "-C", "nowhere", "t"], "nowhere"),
        (&["exec", "--timeout", "10", "--model", "scripted/m", "t"], "unit"),
        (&["exec", "--spec", "missing.yaml"], "missing.yaml"),
        (&["exec", "--no-such-flag"], "--no-such-flag"),
    ];
    for (args, want) in cases {
        let done = Run::new(&place, args).finish();
        assert_eq!(done.status, 2, "{args:?}: {}", done.stderr);
        assert!(done.stderr.contains(want), "{args:?}: {}", done.stderr);
        assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
    }
}
