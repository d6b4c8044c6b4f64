//! The way to the model on the real binary: limits, certificates, streams at a size that breaks
//! clients, and the commands that look at it before a run.

use super::support::model_server::{Authority, Call, Reply, Server, Usage};
use super::support::recorded::turnkey;
use super::support::{Done, Run, Running, Sandboxed};
use bytes::Bytes;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

const POLICY: &str = "version: 1\nexec: { allow: [\"true\", \"touch *\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";

const WIRES: [&str; 3] = ["openai/local-test", "chat/local-test", "anthropic/claude-test"];

/// A run against a real HTTP server.
fn served<'a>(place: &'a Sandboxed, server: &Server, wire: &str, args: &[&str]) -> Run<'a> {
    let base = server.base_url();
    let mut all = vec!["--model", wire, "--base-url", base.as_str()];
    all.extend(args);
    all.push("t");
    Run::exec(place, &all)
        .env("OPENAI_API_KEY", "sk-test-key-of-the-model")
        .env("ANTHROPIC_API_KEY", "sk-test-key-of-the-model")
}

/// The bound of output tokens that a request names.
fn bound(body: &Value) -> Option<u64> {
    ["max_output_tokens", "max_tokens"].iter().find_map(|key| body[*key].as_u64())
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, cached: 0, output, reasoning: 0 }
}

fn touch(id: &str) -> Reply {
    Reply::calls([Call::json(id, "exec_command", json!({ "cmd": format!("touch {id}") }))])
}

#[test]
fn each_answer_is_bounded_by_what_the_limits_leave_and_the_last_request_is_not_made() {
    for wire in WIRES {
        let place = Sandboxed::with_policy(POLICY);
        let server = Server::start([
            touch("a").with_usage(usage(30_000, 1_000)),
            touch("b").with_usage(usage(31_100, 1_000)),
            Reply::message("never asked for"),
        ]);
        let done = served(&place, &server, wire, &["--max-tokens", "70000"]).finish();
        done.assert(12, "limit_reached", "limit.tokens");
        assert_eq!(server.request_count(), 2, "{wire}");
        let requests = server.requests();
        let bounds: Vec<u64> =
            requests.iter().map(|request| bound(&request.json).unwrap()).collect();
        // The first is the model's own; then 39,000 are left, of which the request needs 31,000.
        assert!(bounds[0] > 10_000, "{wire} {bounds:?}");
        assert!(bounds[1] > 2_000 && bounds[1] < 8_000, "{wire} {bounds:?}");
        assert!(done.stderr.contains("the limit is 70000"), "{}", done.stderr);
        assert_eq!(done.result()["usage"]["input_tokens"], 61_100);
    }
}

#[test]
fn a_cost_limit_bounds_the_answer_and_an_answer_cut_by_it_is_the_limits_end() {
    let place = Sandboxed::with_policy(POLICY);
    let server = Server::start([
        touch("a").with_usage(usage(100_000, 100)),
        Reply::incomplete("max_output_tokens").with_text("Half").with_usage(usage(100_200, 400)),
    ]);
    // 0.201 for the first, about 0.2 for the input of the second: 0.009 is left, 900 tokens.
    place.write(
        "spec.yaml",
        format!(
            "version: 1\ntask: t\nworkspace: ws\npolicy: policy.yaml\nmodel:\n  use: openai/m\n  base_url: {}\n  prices: {{ input: 2, output: 10 }}\nlimits: {{ cost: 0.41 }}\n",
            server.base_url()
        ),
    );
    let done = Run::new(&place, &["exec", "--spec", "spec.yaml", "--artifacts", "out"])
        .env("OPENAI_API_KEY", "sk-test-key-of-the-model")
        .finish();
    done.assert(12, "limit_reached", "limit.cost");
    let second = bound(&server.requests()[1].json).unwrap();
    assert!((500..1_000).contains(&second), "{second}");
}

#[test]
fn a_cut_attempt_stays_booked_and_ends_the_run_where_no_other_one_fits() {
    for wire in WIRES {
        let place = Sandboxed::with_policy(POLICY);
        let server = Server::start([
            touch("a").with_usage(usage(30_000, 1_000)),
            // Complete and empty: counted, and asked for again where the limit allows it.
            Reply::empty().with_usage(usage(31_100, 10)).forever(),
        ]);
        let done = served(&place, &server, wire, &["--max-tokens", "90000"]).finish();
        done.assert(12, "limit_reached", "limit.tokens");
        assert_eq!(server.request_count(), 2, "{wire}");
        assert_eq!(done.result()["usage"]["input_tokens"], 61_100, "{wire}");
        assert!(done.stderr.contains("no room in the limits"), "{}", done.stderr);
    }
}

#[test]
fn a_bound_of_the_spec_is_sent_and_without_limits_none_is_made_up() {
    let place = Sandboxed::with_policy(POLICY);
    let server = Server::start([Reply::message("done"), Reply::message("done")]);
    let spec = |more: &str| {
        format!(
            "version: 1\ntask: t\nworkspace: ws\npolicy: policy.yaml\nmodel: {{ use: chat/m, base_url: \"{}\"{more} }}\n",
            server.base_url()
        )
    };
    for more in ["", ", max_output_tokens: 700"] {
        place.write("spec.yaml", spec(more));
        let done =
            Run::new(&place, &["exec", "--spec", "spec.yaml", "--artifacts", "out"]).finish();
        done.assert(0, "completed", "completed");
    }
    let bounds: Vec<Option<u64>> =
        server.requests().iter().map(|request| bound(&request.json)).collect();
    assert_eq!(bounds, [None, Some(700)]);
}

#[test]
fn d101_a_private_authority_is_trusted_by_variable_flag_and_spec_and_named_without() {
    let Some(authority) = Authority::new() else { return };
    let place = Sandboxed::with_policy(POLICY);
    let ca = authority.path("ca.pem").display().to_string();
    let start = || Server::start_tls([Reply::message("done")], authority.server_config());
    let server = start();
    let done = served(&place, &server, WIRES[0], &[]).finish();
    done.assert(13, "model_failed", "model.tls");
    assert_eq!(server.request_count(), 0);
    for part in ["certificate", "Acme-Inspection-CA", "127.0.0.1", "--ca-file"] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
    let server = start();
    served(&place, &server, WIRES[0], &[]).env("SSL_CERT_FILE", &ca).finish().assert(
        0,
        "completed",
        "completed",
    );
    let server = start();
    let done = served(&place, &server, WIRES[0], &["--ca-file", &ca]).finish();
    done.assert(0, "completed", "completed");
    // A spec's path is relative to the spec.
    let server = start();
    place.write("conf/acme.pem", fs::read(authority.path("ca.pem")).unwrap());
    place.write(
        "conf/task.yaml",
        format!(
            "version: 1\ntask: t\nworkspace: ../ws\npolicy: ../policy.yaml\nmodel: {{ use: openai/m, base_url: \"{}\", ca_file: acme.pem }}\n",
            server.base_url()
        ),
    );
    let done =
        Run::new(&place, &["exec", "--spec", "conf/task.yaml", "--artifacts", "out"]).finish();
    done.assert(0, "completed", "completed");
    let bad = served(&place, &server, WIRES[0], &["--ca-file", "policy.yaml"]).finish();
    assert_eq!(bad.status, 2, "{}", bad.stderr);
    assert!(bad.stderr.contains("--ca-file: policy.yaml"), "{}", bad.stderr);
}

#[test]
fn d102_a_dead_proxy_and_its_password() {
    let place = Sandboxed::with_policy(POLICY);
    let server = Server::start([Reply::message("done")]);
    let dead = "http://someone:hunter2-of-the-proxy@127.0.0.1:9";
    served(&place, &server, WIRES[1], &[])
        .env("HTTP_PROXY", dead)
        .env("HTTPS_PROXY", dead)
        .env("ALL_PROXY", dead)
        .finish()
        .assert(0, "completed", "completed");
    let proxy = Server::start_proxy([Reply::status(407, "no").forever()], None);
    let through = format!("http://someone:hunter2-of-the-proxy@{}", proxy.address());
    let args = ["--model", WIRES[1], "--base-url", "http://model.example/v1", "t"];
    let done = Run::exec(&place, &args).env("http_proxy", &through).finish();
    done.assert(13, "model_failed", "model.proxy");
    assert!(done.stderr.contains("http_proxy"), "{}", done.stderr);
    let mut said = vec![done.stdout.clone(), done.stderr.clone()];
    for entry in fs::read_dir(place.path("out")).unwrap().flatten() {
        said.push(String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned());
    }
    assert!(said.iter().all(|text| !text.contains("hunter2")), "the password is nowhere");
}

#[test]
fn d18_on_every_wire_a_call_from_a_cut_stream_runs_once() {
    for wire in WIRES {
        for second in ["c1", "c2"] {
            let place = Sandboxed::with_policy(POLICY);
            place.write("policy.yaml", POLICY.replace("\"true\"", "\"sh add.sh\""));
            place.write("ws/add.sh", "printf x >> log\n");
            let call = |id: &str| Call::json(id, "exec_command", json!({ "cmd": "sh add.sh" }));
            let server = Server::start([
                Reply::calls([call("c1")]).cut_before_end(),
                Reply::calls([call(second)]),
                Reply::message("done"),
            ]);
            served(&place, &server, wire, &[]).finish().assert(0, "completed", "completed");
            assert_eq!(place.read("ws/log"), "x", "{wire}: once");
            let requests = server.requests();
            assert!(requests[0].body == requests[1].body, "{wire}: the same question");
            server.assert_clean();
        }
    }
}

#[test]
fn d21_on_every_wire_nothing_of_an_incomplete_answer_runs() {
    let half = || Call::raw("c1", "exec_command", "{\"cmd\": \"touch evil");
    for wire in WIRES {
        let place = Sandboxed::with_policy(POLICY);
        let server = Server::start([Reply::incomplete("max_output_tokens").with_calls([half()])]);
        let done = served(&place, &server, wire, &[]).finish();
        done.assert(13, "model_failed", "model.incomplete");
        assert!(done.kinds().is_empty() && !place.exists("ws/evil"), "{wire}");
        assert!(
            done.stderr.contains("max_output_tokens")
                || done.stderr.contains("length")
                || done.stderr.contains("max_tokens"),
            "{}",
            done.stderr
        );
    }
}

/// Recorded with a provider, replayed without any; and a task that differs in one word is told.
#[test]
fn a_record_of_every_wire_replays_offline_and_a_changed_word_is_shown() {
    for wire in WIRES {
        let place = Sandboxed::with_policy(POLICY);
        place.write("ws/a.txt", "a\n");
        place.git_init(&place.path("ws"));
        let fix = "*** Begin Patch\n*** Update File: a.txt\n-a\n+b\n*** End Patch\n";
        let server = Server::start([
            touch("new").with_text("I look.").with_reasoning("Hm."),
            Reply::calls([
                Call::json("p1", "apply_patch", json!({ "input": fix })),
                Call::raw("p2", "read_file", "{"),
            ]),
            Reply::message("Done."),
        ]);
        let base = server.base_url();
        let task = "Make the change to the file.";
        let args = ["--model", wire, "--base-url", base.as_str(), task];
        let done = Run::exec(&place, &args)
            .env("OPENAI_API_KEY", "sk-test-key-of-the-model")
            .env("ANTHROPIC_API_KEY", "sk-test-key-of-the-model")
            .finish();
        done.assert(0, "completed", "completed");
        server.assert_clean();
        drop(server);
        for tools in ["recorded", "live"] {
            let (status, stdout, stderr) = turnkey(&place, &["replay", "out", "--tools", tools]);
            assert_eq!(status, 0, "{wire} {tools}: {stdout}{stderr}");
            assert!(stdout.contains("no difference") && stdout.contains("3 steps"), "{stdout}");
        }
        // The task that the replay gives is another one than the recorded request holds.
        let lines: Vec<String> = place
            .read("out/rollout.jsonl")
            .lines()
            .map(|line| match line.contains("\"type\":\"turn_started\"") {
                true => line.replace("the change", "a change"),
                false => line.to_owned(),
            })
            .collect();
        place.write("changed.jsonl", lines.join("\n") + "\n");
        for tools in ["recorded", "live"] {
            let (status, stdout, stderr) =
                turnkey(&place, &["replay", "changed.jsonl", "--tools", tools]);
            assert_eq!(status, 1, "{wire} {tools}: {stdout}{stderr}");
            for part in ["first difference, in step 0", "-Make the change", "+Make a change"] {
                assert!(stdout.contains(part), "{wire} {tools}: {part}: {stdout}");
            }
        }
    }
}

/// The most memory that a run takes, in MiB, looked at until it ends.
fn peak(running: Running<'_>, limit: Duration) -> (u64, Done<'_>) {
    let status = format!("/proc/{}/status", running.child.id());
    let watcher = std::thread::spawn(move || {
        let (mut most, end) = (0, Instant::now() + limit);
        while Instant::now() < end {
            let Ok(text) = fs::read_to_string(&status) else { break };
            let line = text.lines().find(|line| line.starts_with("VmHWM:"));
            let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            // A process that has ended but was not waited for has none.
            let Some(kib) = kib else { break };
            most = most.max(kib / 1024);
            std::thread::sleep(Duration::from_millis(10));
        }
        most
    });
    let done = running.wait(limit);
    (watcher.join().unwrap(), done)
}

const MIB: usize = 1 << 20;

/// Comments of about a MiB each, then the rest.
fn keep_alives(mib: usize, rest: &str) -> Reply {
    let block = Bytes::from(": keep-alive\n\n".repeat(MIB / 14));
    let pieces = std::iter::repeat_n(block, mib).chain([Bytes::from(rest.to_owned())]);
    Reply::raw_bytes(pieces.map(|bytes| (Duration::ZERO, bytes)))
}

const ANSWERS: [&str; 3] = [
    "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[{\"type\":\"message\",\"id\":\"m\",\"content\":[{\"type\":\"output_text\",\"text\":\"done\"}]}]}}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"done\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"done\"}}\n\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
];

fn keep_alives_are_bounded(mib: usize) {
    for (wire, answer) in WIRES.into_iter().zip(ANSWERS) {
        let place = Sandboxed::with_policy(POLICY);
        let server = Server::start([keep_alives(mib, answer)]);
        let started = Instant::now();
        let running = served(&place, &server, wire, &[]).start();
        let (most, done) = peak(running, Duration::from_secs(120));
        done.assert(0, "completed", "completed");
        println!(
            "{wire}: {mib} MiB of keep-alives, {most} MiB at the most, {:?}",
            started.elapsed()
        );
        assert!(most > 0 && most < 64, "{wire}: {most} MiB");
    }
}

#[test]
fn d14_d15_keep_alives_take_no_memory() {
    keep_alives_are_bounded(32);
}

/// The same at full size: `cargo test --test it -- --ignored`.
#[test]
#[ignore = "a gigabyte on each wire takes its time"]
fn d14_d15_a_gigabyte_of_keep_alives_takes_no_memory() {
    keep_alives_are_bounded(1024);
}

#[test]
fn an_event_of_100_mb_is_a_failure_and_its_memory_is_bounded() {
    for wire in WIRES {
        let place = Sandboxed::with_policy(POLICY);
        let piece = (Duration::ZERO, Bytes::from(vec![b'x'; MIB]));
        let head = (Duration::ZERO, Bytes::from_static(b"data: "));
        let pieces = [head].into_iter().chain(std::iter::repeat_n(piece, 100));
        let server = Server::start([Reply::raw_bytes(pieces).forever()]);
        let running = served(&place, &server, wire, &[]).start();
        let (most, done) = peak(running, Duration::from_secs(60));
        done.assert(13, "model_failed", "model.protocol");
        assert_eq!(server.request_count(), 1, "{wire}: another attempt would be as large");
        println!("{wire}: an event of 100 MB, {most} MiB at the most");
        assert!(most > 0 && most < 160, "{wire}: {most} MiB");
    }
}

fn doctor(place: &Sandboxed, server: &Server, wire: &str, more: &[&str]) -> (i32, String, String) {
    let base = server.base_url();
    let mut args = vec!["doctor", "--model", wire, "--base-url", base.as_str()];
    args.extend(more);
    turnkey(place, &args)
}

fn checked(arguments: Value) -> Reply {
    Reply::calls([Call::json("call_1", "doctor_check", arguments)])
}

#[test]
fn doctor_says_what_works_with_a_model() {
    let place = Sandboxed::new();
    for wire in WIRES {
        let cached = Usage { input: 300, cached: 256, output: 9, reasoning: 0 };
        let replies = || {
            [
                checked(json!({ "word": "turnkey", "number": 4711 })),
                Reply::message("{\"ok\": true}").with_usage(cached),
            ]
        };
        let server = Server::start(replies());
        let (status, stdout, stderr) = doctor(&place, &server, wire, &[]);
        assert_eq!(status, 0, "{wire}: {stdout}{stderr}");
        for what in ["reached", "streaming", "tools", "results", "schema", "cache"] {
            let line = stdout.lines().find(|line| line.trim_start().starts_with(what)).unwrap();
            assert!(line.contains(" ok "), "{wire}: {line}");
        }
        assert!(stdout.contains("this model can be used") && stdout.contains(" ms"), "{stdout}");
        server.assert_clean();
        assert_eq!(server.request_count(), 2);
        let bodies = server.requests();
        assert!(bodies.iter().all(|request| request.body.len() < 4096), "tiny");
        let server = Server::start(replies());
        let (status, stdout, _) = doctor(&place, &server, wire, &["--json"]);
        let answer: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((status, &answer["usable"]), (0, &json!(true)), "{stdout}");
        assert_eq!(answer["findings"].as_array().unwrap().len(), 6);
        assert_eq!(answer["usage"]["input"], 400);
        assert!(answer["first_event_ms"].is_u64() && answer["whole_ms"].is_u64(), "{stdout}");
    }
}

#[test]
fn doctor_says_what_does_not_work_and_what_now() {
    let place = Sandboxed::new();
    for wire in WIRES {
        let line = |stdout: &str, what: &str| {
            let found = stdout.lines().find(|line| line.trim_start().starts_with(what));
            found.unwrap_or_default().to_owned()
        };
        let server = Server::start([Reply::status(401, "{}").forever()]);
        let (status, stdout, _) = doctor(&place, &server, wire, &[]);
        assert_eq!(status, 1);
        assert!(
            line(&stdout, "reached").contains(" no ") && stdout.contains("hint: check the key")
        );
        assert_eq!(server.request_count(), 1);

        let server = Server::start([Reply::message("I would call it.")]);
        let (status, stdout, _) = doctor(&place, &server, wire, &[]);
        assert_eq!(status, 1, "{stdout}");
        assert!(line(&stdout, "tools").contains(" no "), "{stdout}");
        assert!(line(&stdout, "reached").contains(" ok "), "{stdout}");

        // A server that takes tools but no schema of the answer.
        let server = Server::start([
            checked(json!({ "word": "turnkey", "number": 4711 })),
            Reply::status(400, r#"{"error":{"message":"response_format is not supported"}}"#),
            Reply::message("ok"),
        ]);
        let (status, stdout, _) = doctor(&place, &server, wire, &[]);
        assert_eq!(status, 0, "{stdout}");
        assert!(line(&stdout, "results").contains(" ok "), "{stdout}");
        assert!(line(&stdout, "schema").contains("response_format"), "{stdout}");

        // One that answers whole.
        let server = Server::start([
            checked(json!({ "word": "other", "number": 1 })).without_deltas(),
            Reply::message("{\"ok\": 1}"),
        ]);
        let (status, stdout, _) = doctor(&place, &server, wire, &[]);
        assert_eq!(status, 0, "{stdout}");
        assert!(line(&stdout, "schema").contains(" no "), "{stdout}");
    }
    let (status, _, stderr) = turnkey(&place, &["doctor", "--model"]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("no model is named"), "{stderr}");
    let (status, _, stderr) = turnkey(&place, &["doctor", "--model", "scripted/x.yaml"]);
    assert_eq!(status, 2);
    assert!(stderr.contains("spec check"), "{stderr}");
}

#[test]
fn doctor_reads_the_model_from_a_spec() {
    let place = Sandboxed::new();
    let server = Server::start([
        checked(json!({ "word": "turnkey", "number": 4711 })),
        Reply::message("{\"ok\": true}"),
    ]);
    place.write("key", "sk-from-the-file-4711\n");
    place.write(
        "task.yaml",
        format!(
            "version: 1\ntask: t\nmodel: {{ use: chat/m, base_url: \"{}\", key: {{ file: key }} }}\n",
            server.base_url()
        ),
    );
    let (status, stdout, stderr) = turnkey(&place, &["doctor", "--model", "--spec", "task.yaml"]);
    assert_eq!(status, 0, "{stdout}{stderr}");
    assert!(stdout.contains("key: from the file"), "{stdout}");
    assert!(!stdout.contains("sk-from-the-file"), "{stdout}");
    let sent = server.requests();
    assert_eq!(sent[0].header("authorization"), Some("Bearer sk-from-the-file-4711"));
}

#[test]
fn spec_check_reads_scripts_too() {
    let place = Sandboxed::new();
    place.write("good.yaml", "version: 1\nsteps: [{ text: hi }]\n");
    place.write("bad.yaml", "version: 1\nsteps:\n  - text: hi\n    cals: []\n  - {}\n");
    place.write("task.yaml", "version: 1\ntask: t\nmodel: { use: scripted/bad.yaml }\n");
    place.write("later.yaml", "version: 1\ntask: t\nmodel: { use: scripted/not-there.yaml }\n");
    let check = |file: &str| turnkey(&place, &["spec", "check", file]);
    assert_eq!(check("good.yaml").0, 0);
    assert_eq!(check("later.yaml").0, 0, "it may be there when it runs");
    for (file, name) in [("bad.yaml", "bad.yaml:4:5"), ("task.yaml", "bad.yaml:4:5")] {
        let (status, _, stderr) = check(file);
        assert_eq!(status, 1, "{stderr}");
        assert!(stderr.contains(name) && stderr.contains("calls"), "{stderr}");
    }
    let (status, stdout, _) = turnkey(&place, &["spec", "schema", "--script"]);
    let schema: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((status, &schema["title"]), (0, &json!("Turnkey scripted model")));
}
