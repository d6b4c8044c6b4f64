//! Records that are gone on with: after a limit, with a follow-up, as a fork; and what a resume
//! refuses. Killed runs are in `killed`.

use super::support::model_server::{Call, Reply, Server};
use super::support::recorded::{latest, records, resume, runs, turnkey};
use super::support::{
    Run, Sandboxed, alive, command, eventually, mark, patch, script, without_landlock,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

const POLICY: &str = "version: 1\nexec: { allow: [\"sleep *\", \"sh add.sh ...\", \"true\", \"touch *\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

#[test]
fn after_a_limit_a_larger_one_goes_on_and_is_told() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.write("model.yaml", script(&[&command("touch b"), &command("touch c")]));
    let first =
        Run::exec(&place, &["--max-steps", "1", "--model", "scripted/model.yaml", "t"]).finish();
    first.assert(12, "limit_reached", "limit.steps");
    let session = first.result()["session"].clone();
    let done = resume(&place, "out", &["--max-steps", "9"]).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.result()["session"], session, "the same session");
    assert!(done.stderr.contains("limits.steps: 1 before, 9 now"), "{}", done.stderr);
    let records = done.rollout();
    let started: Vec<&Value> =
        records.iter().filter(|record| record["type"] == "run_started").collect();
    assert_eq!(started.len(), 2);
    assert_eq!(started[1]["parent_run"], started[0]["run"]);
    assert_eq!(started[1]["parent_kind"], "resume");
    // What each was told to do has a digest, which the result has too.
    let digest = |run: &Value| run["spec_digest"].as_str().unwrap().to_owned();
    assert_eq!(digest(started[0]).len(), 64);
    assert_ne!(digest(started[0]), digest(started[1]), "another limit, another task");
    assert_eq!(done.result()["digests"]["spec"], started[1]["spec_digest"]);
    assert!(place.exists("ws/b") && place.exists("ws/c"));
    // Both runs have the one record.
    let ids: Vec<&str> = started.iter().map(|run| run["run"].as_str().unwrap()).collect();
    let read = |id: &str| fs::read(runs(&place).join(id).join("rollout.jsonl")).unwrap();
    assert_eq!(read(ids[0]), read(ids[1]));
}

#[test]
fn after_unverified_a_follow_up_reaches_the_model_with_what_failed() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.write(
        "model.yaml",
        format!(
            "version: 1\nsteps:\n  - text: nothing to do\n  - expect: {{ message: {{ contains: \"now make it\" }} }}\n    calls: [{}]\n  - text: made\n",
            command("touch wanted")
        ),
    );
    let check = ["--require-file", "wanted", "--verify-attempts", "0"];
    let first = Run::exec(&place, &[&check[..], &MODEL[..]].concat()).finish();
    first.assert(10, "unverified", "require_files");
    let done = resume(&place, "latest", &["now make it"]).finish();
    done.assert(0, "completed", "completed");
    let told = done.rollout().iter().any(|record| {
        record["item"]["fragment"] == "interruption"
            && record["item"]["text"].as_str().unwrap().contains("wanted does not exist")
    });
    assert!(told, "what did not hold is told");
}

#[test]
fn what_earlier_turns_changed_counts_for_the_demands_until_it_is_put_back() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/tests/a.txt", "a\n");
    place.git_init(&place.path("ws"));
    place.write("spec.yaml", "version: 1\ntask: t\nworkspace: ws\npolicy: policy.yaml\nmodel: { use: scripted/model.yaml }\nkeep: [\"tests/**\"]\nexpect: changes\nverify: { attempts: 0 }\n");
    let edit = |from: &str, to: &str| {
        patch(&format!(
            "*** Begin Patch\n*** Update File: tests/a.txt\n-{from}\n+{to}\n*** End Patch"
        ))
    };
    place.write(
        "model.yaml",
        format!(
            "version: 1\nsteps:\n  - calls: [{}]\n  - text: one\n  - text: two\n  - calls: [{}, {}]\n  - text: three\n",
            edit("a", "b"),
            edit("b", "a"),
            command("touch other")
        ),
    );
    let first = Run::new(&place, &["exec", "--spec", "spec.yaml", "--artifacts", "out"]).finish();
    first.assert(10, "unverified", "keep");
    let second = resume(&place, "latest", &["say it is fine"]).finish();
    second.assert(10, "unverified", "keep");
    let third = resume(&place, "latest", &["put it back"]).finish();
    third.assert(0, "completed", "completed");
}

#[test]
fn files_changed_meanwhile_and_a_moved_commit_are_told() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.git_init(&place.path("ws"));
    place.write("model.yaml", "version: 1\nsteps:\n  - calls: [{ tool: exec_command, args: { cmd: touch b } }]\n  - text: one\n  - text: two\n  - text: three\n");
    Run::exec(&place, &MODEL).finish().assert(0, "completed", "completed");
    let told = |done: &super::support::Done<'_>| {
        let records = done.rollout();
        let last = records
            .iter()
            .rev()
            .find(|record| record["item"]["fragment"] == "interruption")
            .unwrap();
        last["item"]["text"].as_str().unwrap().to_owned()
    };
    let same = told(&resume(&place, "out", &["more"]).finish());
    assert!(same.contains("all files are as the last Turn left them"), "{same}");
    place.write("ws/a.txt", "changed\n");
    place.git(&place.path("ws"), &["commit", "-qam", "x"]);
    let other = told(&resume(&place, "out", &["more"]).finish());
    assert!(other.contains("the commit checked out was"), "{other}");
    assert!(other.contains("changed by the Turns before: b"), "{other}");
}

#[test]
fn another_policy_or_workspace_is_refused_unless_the_operator_says_so() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.write("model.yaml", script(&[&command("true")]));
    Run::exec(&place, &MODEL).finish().assert(0, "completed", "completed");
    place.write("model.yaml", "version: 1\nsteps:\n  - calls: [{ tool: exec_command, args: { cmd: 'true' } }]\n  - text: one\n  - text: two\n");
    // The same words under another name are the same policy.
    place.write("same.yaml", format!("# a comment\n{POLICY}"));
    place.write("other.yaml", POLICY.replace("\"true\"", "\"true\", \"false\""));
    let done = resume(&place, "latest", &["--policy", "other.yaml"]).finish();
    done.assert(2, "invalid", "resume.policy");
    assert!(done.stderr.contains("--accept-changes"), "{}", done.stderr);
    fs::create_dir(place.path("elsewhere")).unwrap();
    let done = resume(&place, "latest", &["-C", "elsewhere"]).finish();
    done.assert(2, "invalid", "resume.workspace");
    let before = fs::read(latest(&place)).unwrap();
    let done = resume(&place, "latest", &["--policy", "same.yaml", "x"]).finish();
    done.assert(0, "completed", "completed");
    assert!(fs::read(latest(&place)).unwrap().starts_with(&before), "refusals wrote nothing");
    place.write("model.yaml", "version: 1\nsteps:\n  - calls: [{ tool: exec_command, args: { cmd: 'true' } }]\n  - text: one\n  - text: two\n  - text: three\n");
    let done =
        resume(&place, "latest", &["--policy", "other.yaml", "--accept-changes", "x"]).finish();
    done.assert(0, "completed", "completed");
}

#[test]
fn a_second_runner_on_one_record_is_unavailable_and_a_fork_is_not() {
    let mark = mark("300.");
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[&command(&format!("sleep {mark}"))]));
    let running = Run::exec(&place, &MODEL).start();
    eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
    let (status, _, stderr) = turnkey(&place, &["resume", "latest"]);
    assert_eq!(status, 20, "{stderr}");
    assert!(stderr.contains("another runner is writing") && stderr.contains("fork"), "{stderr}");
    let (status, _, stderr) = turnkey(&place, &["rollout", "rollback", "latest"]);
    assert_eq!(status, 20, "{stderr}");
    let session = records(&latest(&place))[0]["session"].clone();
    place.write("model.yaml", script(&[&command("true")]));
    let live = fs::canonicalize(runs(&place).join("latest")).unwrap();
    let live = live.file_name().unwrap().to_string_lossy().into_owned();
    let (status, _, stderr) =
        turnkey(&place, &["fork", &live, "--artifacts", "forked", "another way"]);
    assert_eq!(status, 0, "{stderr}");
    let forked = records(&place.path("forked/rollout.jsonl"));
    let started: Vec<&Value> =
        forked.iter().filter(|record| record["type"] == "run_started").collect();
    assert_eq!(started[1]["parent_kind"], "fork");
    assert_ne!(started[1]["session"], session, "a session of its own");
    assert!(turnkey::rollout::verify(&place.path("forked/rollout.jsonl")).unwrap().ok);
    running.signal("TERM");
    let done = running.wait(Duration::from_secs(10));
    done.assert(143, "interrupted", "interrupted");
    assert_eq!(done.rollout().iter().filter(|r| r["type"] == "run_started").count(), 1);
}

#[test]
fn what_was_untrusted_stays_untrusted() {
    let policy = "version: 1\nexec: { allow: [\"true\"], ask: [\"touch *\"] }\napprovals: { on_ask: approve }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
    let place = Sandboxed::with_policy(policy);
    place.write(
        "model.yaml",
        format!(
            "version: 1\nsteps:\n  - text: one\n  - calls: [{}]\n  - text: two\n",
            command("touch x")
        ),
    );
    Run::exec(&place, &[&["--input", "title=words"][..], &MODEL[..]].concat()).finish().assert(
        0,
        "completed",
        "completed",
    );
    let done = resume(&place, "latest", &["go"]).finish();
    assert_eq!(done.kinds(), ["denied"], "{}", done.stderr);
    assert!(!place.exists("ws/x"));
}

#[test]
fn an_isolated_run_that_was_killed_goes_on_in_its_copy_however_often() {
    let mark = mark("300.");
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.write(
        "model.yaml",
        script(&[
            &command("touch made"),
            &command(&format!("sleep {mark}")),
            &command(&format!("sleep {mark}")),
            &command("touch more"),
        ]),
    );
    for round in 0..2 {
        let running = match round {
            0 => Run::exec(&place, &[&["--isolate", "copy"][..], &MODEL[..]].concat()).start(),
            _ => resume(&place, "latest", &[]).start(),
        };
        eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
        running.signal("KILL");
        running.wait(Duration::from_secs(5));
        eventually("the command is gone", || alive(&format!("sleep {mark}")).is_empty());
    }
    // What does not come to a run leaves the copy alone.
    let mut refused = resume(&place, "latest", &[]);
    without_landlock(&mut refused);
    refused.finish().assert(20, "unavailable", "sandbox.landlock");
    let (status, shown, stderr) = turnkey(&place, &["resume", "latest", "--dry-run"]);
    assert_eq!(status, 0, "{shown}{stderr}");
    let done = resume(&place, "latest", &[]).finish();
    done.assert(0, "completed", "completed");
    assert!(!place.exists("ws/made") && !place.exists("ws/more"));
    assert_eq!(done.result()["changed_files"][0]["path"], "more", "the copy had `made` already");
    let copies = fs::read_dir(runs(&place).parent().unwrap().join("copy")).unwrap().count();
    assert_eq!(copies, 0, "no copy is left");
    // Its end removed the copy: there is nothing to go on in.
    let done = resume(&place, "latest", &["x"]).finish();
    done.assert(2, "invalid", "resume.copy");
}

#[test]
fn after_unverified_the_model_is_asked_again_without_a_follow_up_too() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.write(
        "model.yaml",
        format!(
            "version: 1\nsteps:\n  - text: nothing to do\n  - calls: [{}]\n  - text: made\n",
            command("touch wanted")
        ),
    );
    let check = ["--require-file", "wanted", "--verify-attempts", "0"];
    let first = Run::exec(&place, &[&check[..], &MODEL[..]].concat()).finish();
    first.assert(10, "unverified", "require_files");
    let done = resume(&place, "latest", &[]).finish();
    done.assert(0, "completed", "completed");
    assert!(!done.stderr.contains("not asked again"), "{}", done.stderr);
}

#[test]
fn rollback_cuts_whole_turns_and_compact_shortens() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    let steps: Vec<String> = (0..15).map(|n| command(&format!("touch f{n}"))).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    place.write("model.yaml", format!("{}  - text: again\n  - text: third\n", script(&steps)));
    Run::exec(&place, &MODEL).finish().assert(0, "completed", "completed");
    resume(&place, "latest", &["second task"]).finish().assert(0, "completed", "completed");
    let (status, stdout, stderr) = turnkey(&place, &["rollout", "rollback", "latest"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("1 Turns are in it") && stdout.contains("Files stay"), "{stdout}");
    let (status, _, stderr) = turnkey(&place, &["rollout", "rollback", "latest", "--turns", "5"]);
    assert_eq!(status, 2);
    assert!(stderr.contains("holds 1 of them"), "{stderr}");
    let (status, stdout, stderr) = turnkey(&place, &["rollout", "compact", "latest"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("items now"), "{stdout}");
    let done = resume(&place, "latest", &["third task"]).finish();
    done.assert(0, "completed", "completed");
    let (status, stdout, _) = turnkey(&place, &["rollout", "show", "latest", "--prompt", "1"]);
    assert_eq!(status, 0);
    assert!(stdout.contains("third task") && !stdout.contains("second task"), "{stdout}");
    assert!(stdout.contains("<compacted>") && stdout.contains("touch f0"), "{stdout}");
    // A rollback behind the compaction has the whole history again.
    let (status, stdout, _) = turnkey(&place, &["rollout", "rollback", "latest", "--turns", "2"]);
    assert_eq!((status, stdout.contains("has 0 items")), (0, true), "{stdout}");
    assert!(place.exists("ws/f3"), "files stay");
    let (status, stdout, _) = turnkey(&place, &["rollout", "verify", "latest"]);
    assert_eq!(status, 0, "{stdout}");
}

#[test]
fn d106_sixteen_runs_at_once_in_one_home_and_one_repository_do_not_mix() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.git_init(&place.path("ws"));
    let children: Vec<(usize, std::process::Child)> = (0..16)
        .map(|number| {
            place.write(
                &format!("model{number}.yaml"),
                script(&[&command(&format!("touch made{number}")), &command("true")]),
            );
            let model = format!("scripted/model{number}.yaml");
            let out = format!("out{number}");
            let task = format!("task number {number}.");
            let child = std::process::Command::new(super::support::binary())
                .current_dir(place.path(""))
                .args(["exec", "-C", "ws", "--policy", "policy.yaml", "--artifacts", &out])
                .args(["--model", &model, &task])
                .env_clear()
                .env("HOME", place.path("home"))
                .env("PATH", std::env::var("PATH").unwrap())
                .stdin(std::process::Stdio::null())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            (number, child)
        })
        .collect();
    let mut sessions = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for (number, child) in children {
        let done = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(0), "{number}: {text}");
        let result: Value =
            serde_json::from_str(&place.read(&format!("out{number}/result.json"))).unwrap();
        ids.insert(result["run"].as_str().unwrap().to_owned());
        sessions.insert(result["session"].as_str().unwrap().to_owned());
        let path = place.path(&format!("out{number}/rollout.jsonl"));
        let report = turnkey::rollout::verify(&path).unwrap();
        assert!(report.ok && report.found.runs == 1, "{report:?}");
        let records = records(&path);
        let tasks: Vec<&Value> =
            records.iter().filter(|record| record["type"] == "turn_started").collect();
        assert_eq!(tasks.len(), 1);
        assert_eq!(tasks[0]["task"], format!("task number {number}."));
        let commands: Vec<&str> = records
            .iter()
            .filter(|record| record["item"]["kind"] == "tool_call")
            .filter_map(|record| record["item"]["payload"]["json"].as_str())
            .collect();
        assert!(commands[0].contains(&format!("made{number}\"")), "{commands:?}");
        assert!(place.exists(&format!("ws/made{number}")));
    }
    assert_eq!((ids.len(), sessions.len()), (16, 16));
}

#[test]
fn d99_bytes_in_front_odd_files_and_folders_do_not_disturb_a_good_record() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", "version: 1\nsteps:\n  - text: one\n  - text: two\n");
    Run::exec(&place, &MODEL).finish().assert(0, "completed", "completed");
    let bytes = fs::read(latest(&place)).unwrap();
    place.write("bom.jsonl", [b"\xef\xbb\xbf".as_slice(), &bytes].concat());
    place.write("empty.jsonl", "");
    place.write("words.jsonl", "this is no record\n");
    fs::create_dir(place.path("folder")).unwrap();
    let huge = fs::File::create(place.path("huge.jsonl")).unwrap();
    huge.set_len(2 << 30).unwrap();
    for name in ["empty.jsonl", "words.jsonl", "folder", "huge.jsonl", "no-such-run", ""] {
        for args in
            [&["resume", name][..], &["rollout", "verify", name], &["rollout", "show", name]]
        {
            let (status, _, stderr) = turnkey(&place, args);
            let expected: &[i32] = if name == "words.jsonl" { &[0, 1, 2] } else { &[2] };
            assert!(expected.contains(&status), "{args:?}: {status} {stderr}");
            assert!(!stderr.contains("panicked"), "{stderr}");
            assert!(status == 0 || !stderr.is_empty() || args[1] == "verify");
        }
    }
    let done = resume(&place, "bom.jsonl", &["go"]).finish();
    done.assert(0, "completed", "completed");
}

#[test]
fn wrong_words_on_the_command_line_are_told_with_what_helps() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", "version: 1\nsteps:\n  - text: one\n  - text: two\n");
    Run::exec(&place, &MODEL).finish().assert(0, "completed", "completed");
    let cases = [
        (&["resume"][..], "RUN"),
        (&["resume", "latest", "--spec", "x.yaml"], "the settings are those of the record"),
        (&["resume", "latest", "--max-steps", "0"], "at least 1"),
        (&["replay", "latest", "--tools", "some"], "recorded, live"),
        (&["rollout", "show", "latest", "--prompt", "99"], "no Turn has a step 99"),
        (&["rollout", "rollback", "latest", "--turns", "0"], "cannot be cut off"),
        (&["rollout", "compact", "latest"], "short already"),
    ];
    for (args, text) in cases {
        let (status, _, stderr) = turnkey(&place, args);
        assert_eq!(status, 2, "{args:?}: {stderr}");
        assert!(stderr.contains(text), "{args:?}: {stderr}");
    }
}

#[test]
fn show_prints_steps_calls_verdicts_and_follows_a_live_run() {
    let place = Sandboxed::with_policy(POLICY);
    place.write(
        "model.yaml",
        script(&[&command("touch a"), &command("curl x"), &command("sleep 1")]),
    );
    let running = Run::exec(&place, &MODEL).start();
    eventually("the record is there", || latest(&place).is_file());
    let follow = std::process::Command::new(super::support::binary())
        .current_dir(place.path(""))
        .args(["rollout", "show", "latest", "--follow"])
        .env_clear()
        .env("HOME", place.path("home"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    running.wait(Duration::from_secs(20)).assert(0, "completed", "completed");
    let followed = follow.wait_with_output().unwrap();
    assert!(followed.status.success());
    let followed = String::from_utf8_lossy(&followed.stdout).into_owned();
    let (status, shown, _) = turnkey(&place, &["rollout", "show", "latest"]);
    assert_eq!((status, &shown), (0, &followed), "what came is what is there");
    for text in [
        "step 2",
        "call_1_1 exec_command",
        "allow by policy.yaml:2",
        "deny by",
        "exit code 0",
        "run completed",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let (status, rows, _) = turnkey(&place, &["rollout", "show", "latest", "--json"]);
    assert_eq!(status, 0);
    for line in rows.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert!(row["seq"].is_u64() && row["ts"].as_str().unwrap().ends_with('Z'), "{line}");
    }
}

#[test]
fn d108_times_are_utc_in_every_zone() {
    for zone in ["Asia/Kathmandu", ":bad", "America/New_York"] {
        let place = Sandboxed::with_policy(POLICY);
        place.write("model.yaml", script(&[&command("true")]));
        let done = Run::exec(&place, &MODEL).env("TZ", zone).finish();
        done.assert(0, "completed", "completed");
        let now = turnkey::clock::stamp();
        for record in done.rollout() {
            let ts = record["ts"].as_str().unwrap();
            assert!(ts.ends_with('Z') && ts[..10] <= now[..10] && ts.len() >= 20, "{zone}: {ts}");
        }
        let hour = |ts: &str| ts[11..13].parse::<i32>().unwrap();
        let written = done.rollout()[0]["ts"].as_str().unwrap().to_owned();
        let apart = (hour(&now) - hour(&written)).rem_euclid(24);
        assert!(apart <= 1, "{zone}: {written} against {now}");
        let folder = fs::read_dir(runs(&place)).unwrap().flatten();
        assert!(folder.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains(':')));
    }
}

#[test]
fn d18_a_call_from_a_stream_that_was_cut_runs_once() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/add.sh", "printf x >> log\n");
    let call = || Call::json("c1", "exec_command", json!({"cmd": "sh add.sh"}));
    let server = Server::start([
        Reply::calls([call()]).cut_before_end(),
        Reply::calls([call()]),
        Reply::message("done"),
    ]);
    let base = server.base_url();
    let done = Run::exec(&place, &["--model", "openai/m", "--base-url", &base, "t"]).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(place.read("ws/log"), "x", "once");
}

#[test]
fn latest_is_a_run_of_ours_and_nothing_that_lies_in_the_checkout() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[&command("touch made")]));
    Run::exec(&place, &MODEL).finish().assert(0, "completed", "completed");
    let own = runs(&place).join("latest").canonicalize().unwrap();
    // As a pull request may bring it along.
    place.write("latest/rollout.jsonl", fs::read(latest(&place)).unwrap());
    let (status, shown, stderr) = turnkey(&place, &["rollout", "verify", "latest"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(!shown.contains("/latest/rollout.jsonl"), "{shown}");
    fs::remove_dir_all(own).unwrap();
    // There may be runs of ours elsewhere on this machine, but none of this place.
    let (_, shown, stderr) = turnkey(&place, &["rollout", "verify", "latest"]);
    let told = format!("{shown}{stderr}");
    assert!(!told.contains("/latest/rollout.jsonl"), "{told}");
    assert!(shown.is_empty() == stderr.contains("no run named"), "{told}");
    let (status, _, stderr) = turnkey(&place, &["rollout", "verify", "./latest"]);
    assert_eq!(status, 0, "{stderr}");
}
