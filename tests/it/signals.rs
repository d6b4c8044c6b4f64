//! Ends from outside: signals, time, and readers that do not read.

use super::support::model_server::{Call, Reply, Server};
use super::support::{Run, Sandboxed, alive, command, eventually, script};
use serde_json::json;
use std::process::Stdio;
use std::time::{Duration, Instant};

const POLICY: &str = "version: 1\nexec: { allow: [\"sleep *\", \"sh look.sh\", \"sh stay.sh\", \"sh two.sh\", \"true\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

#[test]
fn d09_each_signal_during_a_command_ends_it_in_order_with_all_artifacts() {
    for (name, status) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let mark = format!("300.{status}");
        let place = Sandboxed::with_policy(POLICY);
        place.write("ws/a.txt", "a\n");
        place.write("model.yaml", script(&[&command(&format!("sleep {mark}"))]));
        let running = Run::exec(&place, &MODEL).start();
        eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
        let sent = Instant::now();
        running.signal(name);
        let done = running.wait(Duration::from_secs(10));
        assert!(sent.elapsed() < Duration::from_secs(5), "{name}: {:?}", sent.elapsed());
        done.assert(status, "interrupted", "interrupted");
        done.assert_artifacts_agree();
        assert_eq!(done.kinds(), ["cancelled"]);
        assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new(), "no process is left");
    }
}

#[test]
fn d09_a_signal_while_the_model_is_asked_ends_the_run_at_once() {
    let place = Sandboxed::with_policy(POLICY);
    let server = Server::start([Reply::never_answer()]);
    let base = server.base_url();
    let running = Run::exec(&place, &["--model", "openai/m", "--base-url", &base, "t"]).start();
    assert!(server.wait_for(1, Duration::from_secs(10)));
    running.signal("TERM");
    let done = running.wait(Duration::from_secs(5));
    done.assert(143, "interrupted", "interrupted");
    done.assert_artifacts_agree();
}

#[test]
fn a_second_signal_ends_the_run_at_once_and_the_record_stays_valid() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/stay.sh", "trap '' TERM INT; while :; do sleep 0.277; done\n");
    place.write("model.yaml", script(&[&command("sh stay.sh")]));
    let running = Run::exec(&place, &MODEL).start();
    eventually("the command runs", || !alive("sleep 0.277").is_empty());
    running.signal("INT");
    std::thread::sleep(Duration::from_millis(200));
    running.signal("INT");
    let done = running.wait(Duration::from_secs(2));
    assert_eq!(done.status, 130);
    eventually("the command is gone", || alive("stay.sh").is_empty());
    let rollout = place.path("home/.local/state/turnkey/runs/latest/rollout.jsonl");
    let report = turnkey::rollout::verify(&rollout).unwrap();
    assert!(report.found.records > 0, "{report:?}");
    assert_eq!(done.result()["state"], "running", "what was not ended is never a success");
}

#[test]
fn d70_a_killed_runner_leaves_no_process() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/two.sh", "sleep 300.701 & sleep 300.701\n");
    place.write("model.yaml", script(&[&command("sh two.sh")]));
    let running = Run::exec(&place, &MODEL).start();
    eventually("the command runs", || alive("sleep 300.701").len() == 2);
    running.signal("KILL");
    running.wait(Duration::from_secs(5));
    eventually("all are gone", || alive("sleep 300.701").is_empty());
}

#[test]
fn an_output_that_nobody_reads_does_not_keep_a_signal_from_ending_the_run() {
    let place = Sandboxed::with_policy(POLICY);
    let text = "many words ".repeat(2000);
    let mut replies: Vec<Reply> = (0..40)
        .map(|n| {
            Reply::calls([Call::json(&format!("c{n}"), "exec_command", json!({"cmd": "true"}))])
                .with_text(&text)
        })
        .collect();
    replies.push(Reply::message("done"));
    let server = Server::start(replies);
    let base = server.base_url();
    let mut run = Run::exec(&place, &["--json", "--model", "openai/m", "--base-url", &base, "t"]);
    run.command().stdout(Stdio::piped());
    let mut running = run.start();
    // Held open and never read.
    let _stdout = running.child.stdout.take();
    eventually("the pipe is full", || {
        let before = server.request_count();
        std::thread::sleep(Duration::from_millis(300));
        before > 0 && server.request_count() == before
    });
    assert!(server.request_count() < 41, "a slow reader slows the run");
    let sent = Instant::now();
    running.signal("TERM");
    let done = running.wait(Duration::from_secs(8));
    assert!(sent.elapsed() < Duration::from_secs(6), "{:?}", sent.elapsed());
    done.assert(143, "interrupted", "interrupted");
    done.assert_artifacts_agree();
}

#[test]
fn d95_a_closed_or_full_standard_output_ends_nothing() {
    for (redirect, mode) in [
        (">&-", "--json"),
        (">/dev/full", "--json"),
        ("| head -n1 >/dev/null", "--json"),
        (">/dev/full", "--quiet"),
    ] {
        let place = Sandboxed::with_policy(POLICY);
        place.write("model.yaml", script(&[&command("true"), &command("true")]));
        let line = format!(
            "{} exec -C ws --policy policy.yaml --artifacts out --model scripted/model.yaml {mode} t {redirect}",
            super::support::binary().display()
        );
        let done = std::process::Command::new("bash")
            .args(["-o", "pipefail", "-c", &line])
            .current_dir(place.path(""))
            .env("HOME", place.path("home"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(0), "{redirect}: {text}");
        assert!(!text.contains("panicked"), "{text}");
        let result: serde_json::Value =
            serde_json::from_str(&place.read("out/result.json")).unwrap();
        assert_eq!(result["state"], "completed", "{redirect}");
    }
}

#[test]
fn d09_a_signal_while_the_copy_is_made_leaves_nothing_behind() {
    let place = Sandboxed::with_policy(POLICY);
    for number in 0..6000 {
        place.write(&format!("ws/d{}/f{number}", number % 60), "x\n");
    }
    place.write("model.yaml", script(&[&command("true")]));
    let running = Run::exec(&place, &[&["--isolate", "copy"][..], &MODEL[..]].concat()).start();
    let copies = place.path("home/.local/state/turnkey/copy");
    let begun = || {
        let folders = std::fs::read_dir(&copies).into_iter().flatten().flatten();
        folders.into_iter().any(|folder| folder.path().join("d0").exists())
    };
    eventually("the copy is begun", begun);
    running.signal("TERM");
    let done = running.wait(Duration::from_secs(5));
    done.assert(143, "interrupted", "interrupted");
    assert!(done.stderr.contains("before it began"), "{}", done.stderr);
    for kind in ["copy", "runs", "scratch", "store"] {
        let left = std::fs::read_dir(copies.parent().unwrap().join(kind)).unwrap().count();
        assert_eq!(left, 0, "{kind}");
    }
}
