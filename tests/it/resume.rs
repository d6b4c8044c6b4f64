//! Records that are gone on with: after a kill, an interruption, a limit, with a follow-up; and what
//! a resume refuses.

use super::support::model_server::{Call, Reply, Server};
use super::support::recorded::{latest, records, resume, runs, turnkey};
use super::support::{Run, Sandboxed, alive, command, eventually, patch, script};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

const POLICY: &str = "version: 1\nexec: { allow: [\"sleep *\", \"sh add.sh ...\", \"true\", \"touch *\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

/// Kills in the normal suite; `just soak` makes more.
fn kills() -> usize {
    option_env!("TURNKEY_SOAK").and_then(|text| text.parse().ok()).unwrap_or(20)
}

/// Numbers that differ from run to run and are told, so that a failure can be made again.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = u64::from(seed.subsec_nanos()) | 1;
        eprintln!("seed {seed}");
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Thirty steps: commands that add a line to a log, and patches that add a file.
fn thirty_steps() -> (String, Vec<String>) {
    let mut calls = Vec::new();
    let mut names = Vec::new();
    for step in 0..30 {
        if step % 3 == 2 {
            let name = format!("file{step}");
            calls.push(patch(&format!(
                "*** Begin Patch\n*** Add File: {name}\n+{name}\n*** Add File: {name}.twin\n+{name}\n*** End Patch"
            )));
            names.push(name);
        } else {
            let name = format!("line{step}");
            calls.push(command(&format!("sh add.sh {name}")));
            names.push(name);
        }
    }
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    (script(&calls), names)
}

/// Calls of the record that a resume told as unknown, by what they were to do.
fn told_unknown(rollout: &[Value]) -> String {
    let told = rollout.iter().filter(|record| record["item"]["fragment"] == "interruption");
    let texts = told.filter_map(|record| record["item"]["text"].as_str());
    let lists = texts.filter_map(|text| {
        let list = text.split("whether they took effect is unknown").nth(1)?;
        Some(list.split("\n\n").next().unwrap_or(list).to_owned())
    });
    lists.collect()
}

#[test]
fn a_run_killed_at_any_moment_is_finished_and_every_effect_happens_once_or_is_told() {
    let mut random = Random::new();
    let (model, names) = thirty_steps();
    // How long a whole run takes here says which moments there are.
    let whole = {
        let place = Sandboxed::with_policy(POLICY);
        place.write("ws/add.sh", "echo $1 >> log\n");
        place.write("model.yaml", &model);
        let done = Run::exec(&place, &MODEL).finish();
        done.assert(0, "completed", "completed");
        done.took
    };
    let mut interrupted = 0;
    for round in 0..kills() {
        let place = Sandboxed::with_policy(POLICY);
        place.write("ws/add.sh", "echo $1 >> log\n");
        place.write("model.yaml", &model);
        let moment = Duration::from_micros(random.below(whole.as_micros() as u64));
        let running = Run::exec(&place, &MODEL).start();
        std::thread::sleep(moment);
        running.signal("KILL");
        running.wait(Duration::from_secs(10));
        let rollout = latest(&place);
        if !rollout.is_file() || fs::metadata(&rollout).unwrap().len() == 0 {
            // Killed before its record began: nothing ran, and there is nothing to go on from.
            assert!(!place.exists("ws/log"), "round {round}: an effect without a record");
            continue;
        }
        let report = turnkey::rollout::verify(&rollout).unwrap();
        assert!(report.ok, "round {round}: {report:?}");
        let before = records(&rollout);
        let resumed = resume(&place, "latest", &[]).finish();
        if !before.iter().any(|record| record["type"] == "turn_context") {
            assert_eq!(resumed.status, 0, "round {round}: {}", resumed.stderr);
            continue;
        }
        resumed.assert(0, "completed", "completed");
        interrupted += 1;
        let after = resumed.rollout();
        assert_eq!(after[..before.len()], before[..], "round {round}: nothing of it is lost");
        let log = fs::read_to_string(place.path("ws/log")).unwrap_or_default();
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for line in log.lines() {
            *lines.entry(line).or_default() += 1;
        }
        let unknown = told_unknown(&after);
        for name in &names {
            let happened = if name.starts_with("line") {
                lines.get(name.as_str()).copied().unwrap_or(0)
            } else {
                let (one, two) = (format!("ws/{name}"), format!("ws/{name}.twin"));
                assert_eq!(place.exists(&one), place.exists(&two), "round {round}: half a patch");
                usize::from(place.exists(&one))
            };
            let said = unknown.contains(name.as_str());
            assert!(
                happened == 1 || (happened == 0 && said),
                "round {round}, after {moment:?}: {name} happened {happened} times, told: {said}\n{log}"
            );
        }
        let left: Vec<_> = fs::read_dir(place.path("ws"))
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(".turnkey"))
            .collect();
        assert!(left.is_empty(), "round {round}: {left:?}");
    }
    assert!(interrupted > 0, "no kill hit a Turn");
}

#[test]
fn d98_a_record_cut_at_every_byte_of_its_last_three_records_is_gone_on_with() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.write("model.yaml", script(&[&command("touch b.txt"), &command("touch c.txt")]));
    Run::exec(&place, &MODEL).finish().assert(0, "completed", "completed");
    let bytes = fs::read(latest(&place)).unwrap();
    let ends: Vec<usize> = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    let from = ends[ends.len() - 4];
    // Reading, verifying and the place for the next line: at every byte.
    let dir = tempfile::tempdir().unwrap();
    for cut in from..=bytes.len() {
        let path = dir.path().join("rollout.jsonl");
        fs::write(&path, &bytes[..cut]).unwrap();
        let report = turnkey::rollout::verify(&path).unwrap();
        assert!(report.ok, "cut at {cut}: {report:?}");
        // A line without its newline is whole all the same.
        let lines = ends.iter().filter(|end| **end <= cut + 1).count() as u64;
        assert_eq!(report.found.records, lines, "cut at {cut}");
        let mut seen = 0;
        let (held, _) = turnkey::rollout::HeldRollout::open(&path, &mut |_| seen += 1).unwrap();
        assert_eq!(seen, lines, "cut at {cut}");
        let masker = std::sync::Arc::new(turnkey::rollout::Masker::new([("", ""); 0]));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let writer = held.writer(masker).unwrap();
            let record = turnkey::rollout::Record::RolledBack { turns: 0, to_seq: 0 };
            writer.append(record).await.unwrap();
            writer.close().await.unwrap();
        });
        let report = turnkey::rollout::verify(&path).unwrap();
        assert!(report.ok, "cut at {cut}, gone on: {report:?}");
        assert_eq!(report.found.records, lines + 1, "cut at {cut}: only the torn record is lost");
    }
    // The whole program: at some bytes of each of the three, and at every end of a line.
    let mut cuts: BTreeSet<usize> = BTreeSet::new();
    for pair in ends[ends.len() - 4..].windows(2) {
        cuts.extend([pair[0] + 1, (pair[0] + pair[1]) / 2, pair[1] - 1, pair[1]]);
    }
    for cut in cuts {
        fs::write(place.path("cut.jsonl"), &bytes[..cut]).unwrap();
        place.write(
            "model.yaml",
            script(&[&command("touch b.txt"), &command("touch c.txt"), &command("true")]),
        );
        let done = resume(&place, "cut.jsonl", &["and once more"]).finish();
        assert_eq!(done.status, 0, "cut at {cut}: {}", done.stderr);
        assert!(turnkey::rollout::verify(&place.path("out/rollout.jsonl")).unwrap().ok);
        assert!(records(&place.path("out/rollout.jsonl")).len() > ends.len() - 4);
    }
}

#[test]
fn d100_killed_in_a_tool_the_resumed_request_has_every_call_answered() {
    let place = Sandboxed::with_policy(POLICY);
    let server = Server::start([
        Reply::calls([
            Call::json("c1", "exec_command", json!({"cmd": "touch first"})),
            Call::json("c2", "exec_command", json!({"cmd": "sleep 300.49"})),
            Call::json("c3", "exec_command", json!({"cmd": "touch third"})),
        ]),
        Reply::message("done"),
    ]);
    let base = server.base_url();
    let running = Run::exec(&place, &["--model", "openai/m", "--base-url", &base, "t"]).start();
    eventually("the command runs", || !alive("sleep 300.49").is_empty());
    running.signal("KILL");
    running.wait(Duration::from_secs(5));
    let done = resume(&place, "out", &[]).finish();
    done.assert(0, "completed", "completed");
    assert!(place.exists("ws/first") && !place.exists("ws/third"));
    let requests = server.requests();
    let input = requests.last().unwrap().json["input"].as_array().unwrap().clone();
    let of = |kind: &str| -> Vec<String> {
        let items = input.iter().filter(|item| item["type"] == kind);
        items.map(|item| item["call_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of("function_call"), ["c1", "c2", "c3"]);
    assert_eq!(of("function_call_output").len(), 3, "{input:?}");
    let output = |id: &str| {
        let item = input
            .iter()
            .find(|item| item["type"] == "function_call_output" && item["call_id"] == id);
        item.unwrap()["output"].to_string()
    };
    assert!(output("c2").contains("what it changed is unknown"), "{}", output("c2"));
    assert!(output("c3").contains("nothing ran"), "{}", output("c3"));
    let text = serde_json::to_string(&input).unwrap();
    assert!(text.contains("it was killed in step 1") && text.contains("sleep 300.49"), "{text}");
    assert!(done.stderr.contains("is not run again: exec_command (c2)"), "{}", done.stderr);
    // The record itself was not repaired.
    let results = done.kinds();
    assert_eq!(results, ["ok"], "only what was reported is recorded");
}

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
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[&command("sleep 300.41")]));
    let running = Run::exec(&place, &MODEL).start();
    eventually("the command runs", || !alive("sleep 300.41").is_empty());
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
fn an_isolated_run_that_was_killed_goes_on_in_its_copy() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.write(
        "model.yaml",
        script(&[&command("touch made"), &command("sleep 300.42"), &command("touch more")]),
    );
    let running = Run::exec(&place, &[&["--isolate", "copy"][..], &MODEL[..]].concat()).start();
    eventually("the command runs", || !alive("sleep 300.42").is_empty());
    running.signal("KILL");
    running.wait(Duration::from_secs(5));
    let done = resume(&place, "latest", &[]).finish();
    done.assert(0, "completed", "completed");
    assert!(!place.exists("ws/made") && !place.exists("ws/more"));
    assert_eq!(done.result()["changed_files"][0]["path"], "more", "the copy had `made` already");
    // Its end removed the copy: there is nothing to go on in.
    let done = resume(&place, "latest", &["x"]).finish();
    done.assert(2, "invalid", "resume.copy");
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
