//! Runs that were killed: at any moment, at any byte of their record, after their last word. They are
//! gone on with, nothing happens twice, and what nobody can know is told.

use super::support::model_server::{Call, Reply, Server};
use super::support::recorded::{latest, records, resume, turnkey};
use super::support::{Done, Run, Sandboxed, alive, command, eventually, mark, patch, script};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

const POLICY: &str = "version: 1\nexec: { allow: [\"sleep *\", \"sh add.sh ...\", \"true\", \"touch *\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

/// Kills in the normal suite; `just soak` makes more.
fn kills() -> usize {
    std::env::var("TURNKEY_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
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
            let name = format!("file{step:02}");
            calls.push(patch(&format!(
                "*** Begin Patch\n*** Add File: {name}\n+{name}\n*** Add File: {name}.twin\n+{name}\n*** End Patch"
            )));
            names.push(name);
        } else {
            let name = format!("line{step:02}");
            calls.push(command(&format!("sh add.sh {name}")));
            names.push(name);
        }
    }
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    (script(&calls), names)
}

/// The list under a title in what a resume told of the calls that were cut.
fn told(rollout: &[Value], title: &str) -> String {
    let told = rollout.iter().filter(|record| record["item"]["fragment"] == "interruption");
    let texts = told.filter_map(|record| record["item"]["text"].as_str());
    let lists = texts.filter_map(|text| {
        let list = text.split(title).nth(1)?;
        Some(list.split("\n\n").next().unwrap_or(list).to_owned())
    });
    lists.collect()
}

#[test]
fn a_run_killed_at_any_moment_is_finished_and_every_effect_happens_once_or_is_told() {
    let mut random = Random::new();
    let (model, names) = thirty_steps();
    let fresh = || {
        let place = Sandboxed::with_policy(POLICY);
        place.write("ws/add.sh", "echo $1 >> log\n");
        place.write("ws/check.sh", "sleep 0.03\n");
        place.write("model.yaml", &model);
        place
    };
    let args = [&["--verify", "sh check.sh"][..], &MODEL[..]].concat();
    // How long a whole run takes here says which moments there are.
    let whole = {
        let place = fresh();
        let done = Run::exec(&place, &args).finish();
        done.assert(0, "completed", "completed");
        done.took
    };
    let mut interrupted = 0;
    for round in 0..kills() {
        let place = fresh();
        let moment = Duration::from_micros(random.below(whole.as_micros() as u64));
        let running = Run::exec(&place, &args).start();
        std::thread::sleep(moment);
        running.signal("KILL");
        running.wait(Duration::from_secs(10));
        let rollout = latest(&place);
        if !rollout.is_file() || fs::metadata(&rollout).unwrap().len() == 0 {
            // Killed before its record began: nothing ran, and there is nothing to go on from.
            assert!(!place.exists("ws/log"), "round {round}: an effect without a record");
            continue;
        }
        if round % 2 == 1 {
            // Killed once more while it goes on, or just over.
            let running = resume(&place, "latest", &[]).start();
            std::thread::sleep(Duration::from_micros(random.below(whole.as_micros() as u64)));
            running.signal("KILL");
            running.wait(Duration::from_secs(10));
        }
        let report = turnkey::rollout::verify(&rollout).unwrap();
        assert!(report.ok, "round {round}: {report:?}");
        let before = records(&rollout);
        // Whatever happened was judged before, and the verdict was on disk.
        for line in fs::read_to_string(place.path("ws/log")).unwrap_or_default().lines() {
            let judged = before.iter().any(|record| {
                record["type"] == "verdict"
                    && record["verdict"].to_string().contains(&format!("add.sh {line}"))
            });
            assert!(judged, "round {round}: {line} without a verdict in the record");
        }
        let resumed = resume(&place, "latest", &[]).finish();
        if before.is_empty() {
            // Not even the set-up is recorded: refused, and nothing was done.
            resumed.assert(2, "invalid", "resume.record");
            assert!(!place.exists("ws/log"), "round {round}: an effect without a record");
            continue;
        }
        let kinds = |kind: &str| before.iter().any(|record| record["type"] == kind);
        resumed.assert(0, "completed", "completed");
        interrupted += usize::from(kinds("step_started") && !kinds("turn_completed"));
        let after = resumed.rollout();
        let told_task = after.iter().filter(|record| record["item"]["text"] == "t").count();
        assert_eq!(told_task, 1, "round {round}, after {moment:?}: the task is told once");
        assert_eq!(after[..before.len()], before[..], "round {round}: nothing of it is lost");
        let log = fs::read_to_string(place.path("ws/log")).unwrap_or_default();
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for line in log.lines() {
            *lines.entry(line).or_default() += 1;
        }
        let unknown = told(&after, "whether they took effect is unknown");
        let not_begun = told(&after, "These calls did not begin:");
        for name in &names {
            let happened = if name.starts_with("line") {
                lines.get(name.as_str()).copied().unwrap_or(0)
            } else {
                let (one, two) = (format!("ws/{name}"), format!("ws/{name}.twin"));
                assert_eq!(place.exists(&one), place.exists(&two), "round {round}: half a patch");
                usize::from(place.exists(&one))
            };
            let right = match (unknown.contains(name.as_str()), not_begun.contains(name.as_str())) {
                (false, false) => happened == 1,
                (true, false) => happened <= 1,
                (false, true) => happened == 0,
                (true, true) => false,
            };
            assert!(
                right,
                "round {round}, after {moment:?}: {name} happened {happened} times; unknown: \
                 {unknown}\nnot begun: {not_begun}\n{log}"
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
    // The whole program: at some bytes of each of the three, and at every end of a line; at every byte
    // where there is time for it.
    let mut cuts: BTreeSet<usize> = BTreeSet::new();
    if kills() > 20 {
        cuts.extend(from..=bytes.len());
    }
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
fn d86_what_a_killed_run_could_not_put_back_is_found_before_another_goes_on() {
    let policy = "version: 1\nexec: { allow: [\"sh a.sh\", \"true\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n\
                  sandbox: { layers: [landlock, seccomp], accept: [reverted] }\n";
    let begin = || {
        let place = Sandboxed::with_policy(policy);
        place.write(
            "ws/a.sh",
            "mkdir -p sub/.claude target; touch sub/mine target/AGENTS.md; echo evil >>.git/config\n\
             echo evil >.git/hooks/pre-commit; echo evil >sub/AGENTS.md; git status\n\
             echo >ready; sleep 30\n",
        );
        place.write("ws/.gitignore", "target/\n");
        place.git_init(&place.path("ws"));
        place.write("model.yaml", script(&[&command("true"), &command("sh a.sh")]));
        let running = Run::exec(&place, &MODEL).start();
        eventually("the command is at work", || place.exists("ws/ready"));
        running.signal("KILL");
        running.wait(Duration::from_secs(10));
        // Nothing of the killed run is at work any more.
        eventually("its command is gone", || !alive_in(&place));
        place
    };
    let place = begin();
    let refused = resume(&place, "latest", &[]).finish();
    refused.assert(2, "invalid", "resume.protected");
    let told = &refused.stderr;
    for line in
        [".git/config is not what it was", ".git/hooks/pre-commit is new", "sub/AGENTS.md is new"]
    {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert!(told.contains("--accept-changes"), "{told}");
    for other in ["sub/mine", "target", "index", "refs"] {
        assert!(!told.contains(other), "{other}: {told}");
    }
    // Asked again it says the same; put back by the operator, all is well.
    resume(&place, "latest", &[]).finish().assert(2, "invalid", "resume.protected");
    fs::remove_file(place.path("ws/.git/hooks/pre-commit")).unwrap();
    fs::remove_dir_all(place.path("ws/sub")).unwrap();
    let config = place.read("ws/.git/config").replace("evil\n", "");
    place.write("ws/.git/config", &config);
    place.write("ws/a.sh", "true\n");
    resume(&place, "latest", &[]).finish().assert(0, "completed", "completed");

    let place = begin();
    place.write("ws/a.sh", "true\n");
    resume(&place, "latest", &["--accept-changes"]).finish().assert(0, "completed", "completed");
    assert!(place.exists("ws/.git/hooks/pre-commit"), "the operator said that he knows");
}

/// Whether a command is at work in the place's workspace.
fn alive_in(place: &Sandboxed) -> bool {
    let workspace = place.path("ws");
    let folders = fs::read_dir("/proc").unwrap().flatten();
    let mut at_work = folders.filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok());
    at_work.any(|cwd| cwd.starts_with(&workspace))
}

#[test]
fn d100_killed_in_a_tool_the_resumed_request_has_every_call_answered() {
    let mark = mark("300.");
    let place = Sandboxed::with_policy(POLICY);
    let server = Server::start([
        Reply::calls([
            Call::json("c1", "exec_command", json!({"cmd": "touch first"})),
            Call::json("c2", "exec_command", json!({"cmd": format!("sleep {mark}")})),
            Call::json("c3", "exec_command", json!({"cmd": "touch third"})),
        ]),
        Reply::message("done"),
    ]);
    let base = server.base_url();
    let running = Run::exec(&place, &["--model", "openai/m", "--base-url", &base, "t"]).start();
    eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
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
    assert!(
        text.contains("it was killed in step 1") && text.contains(&format!("sleep {mark}")),
        "{text}"
    );
    assert!(done.stderr.contains("is not run again: exec_command (c2)"), "{}", done.stderr);
    // The record itself was not repaired.
    let results = done.kinds();
    assert_eq!(results, ["ok"], "only what was reported is recorded");
}

/// Picks the record that a cut comes after.
type IsLast = fn(&Value) -> bool;

/// The record of a run up to and with the last record that `is_last` says is the last one.
fn cut_after(bytes: &[u8], is_last: impl Fn(&Value) -> bool) -> Vec<u8> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let last = lines.iter().rposition(|line| is_last(&serde_json::from_slice(line).unwrap()));
    lines[..=last.expect("such a record")].concat()
}

fn new_records(done: &Done<'_>) -> Vec<Value> {
    let records = done.rollout();
    let from = records.iter().rposition(|record| record["type"] == "run_started").unwrap();
    records[from..].to_vec()
}

/// A run with two steps, a final message and a check, and its record. Its script holds no further
/// response: whoever asks for one fails.
fn answered_run(place: &Sandboxed) -> Vec<u8> {
    place.write("ws/a.txt", "a\n");
    place.write("ws/check.sh", "test -f made\n");
    place.git_init(&place.path("ws"));
    place.write("model.yaml", script(&[&command("touch made"), &command("true")]));
    let args = [&["--verify", "sh check.sh"][..], &MODEL[..]].concat();
    Run::exec(place, &args).finish().assert(0, "completed", "completed");
    fs::read(latest(place)).unwrap()
}

#[test]
fn after_the_last_word_the_model_is_not_asked_again() {
    let place = Sandboxed::with_policy(POLICY);
    let bytes = answered_run(&place);
    let moments: [(&str, IsLast); 6] = [
        ("after the final message", |record| record["item"]["text"] == "done"),
        ("during verification, the diff taken", |record| record["type"] == "diff"),
        ("during verification, the check run", |record| record["type"] == "verification"),
        ("after verification", |record| record["type"] == "verified"),
        ("after the end of the Turn", |record| record["type"] == "turn_completed"),
        ("after the end of the run", |record| record["type"] == "run_finished"),
    ];
    for (moment, is_last) in moments {
        fs::write(place.path("cut.jsonl"), cut_after(&bytes, is_last)).unwrap();
        let done = resume(&place, "cut.jsonl", &[]).finish();
        assert_eq!(done.status, 0, "{moment}: {}", done.stderr);
        done.assert(0, "completed", "completed");
        assert!(done.stderr.contains("the model is not asked again"), "{moment}: {}", done.stderr);
        assert_eq!(place.read("out/last-message.md").trim(), "done", "{moment}");
        let new = new_records(&done);
        let count = |kind: &str| new.iter().filter(|record| record["type"] == kind).count();
        assert_eq!((count("step_started"), count("usage")), (0, 0), "{moment}");
        assert_eq!((count("verification"), count("verified")), (1, 1), "{moment}: verified anew");
        let started = new.iter().find(|record| record["type"] == "turn_started").unwrap();
        assert_eq!(started["answered"], true, "{moment}");
        let (_, shown, _) = turnkey(&place, &["rollout", "show", "out"]);
        assert!(shown.contains("the final message before it stands"), "{moment}: {shown}");
        // Cut again, it is taken up again; and such a run replays.
        let (status, stdout, stderr) = turnkey(&place, &["replay", "out"]);
        assert_eq!(status, 0, "{moment}: {stdout}{stderr}");
        let again = cut_after(&fs::read(place.path("out/rollout.jsonl")).unwrap(), |record| {
            record["type"] == "turn_started"
        });
        fs::write(place.path("again.jsonl"), again).unwrap();
        let done = resume(&place, "again.jsonl", &[]).finish();
        done.assert(0, "completed", "completed");
        // With a follow-up it is asked, and the script has no more answers.
        let done = resume(&place, "cut.jsonl", &["and now this"]).finish();
        done.assert(13, "model_failed", "model.script");
    }
    // One record earlier the answer is not there, and is asked for.
    let cut = cut_after(&bytes, |record| record["type"] == "usage");
    fs::write(place.path("cut.jsonl"), cut).unwrap();
    let done = resume(&place, "cut.jsonl", &[]).finish();
    done.assert(0, "completed", "completed");
    assert!(new_records(&done).iter().any(|record| record["type"] == "step_started"));
}

#[test]
fn an_answer_that_no_longer_fits_is_asked_for_again() {
    let place = Sandboxed::with_policy(POLICY);
    let bytes = answered_run(&place);
    let asked = |done: &Done<'_>| {
        assert_eq!((done.status, done.reason().as_str()), (13, "model.script"), "{}", done.stderr);
    };
    fs::write(place.path("cut.jsonl"), cut_after(&bytes, |r| r["type"] == "verified")).unwrap();
    // Rules that the model was not told.
    place.write("ws/AGENTS.md", "be kind\n");
    asked(&resume(&place, "cut.jsonl", &[]).finish());
    fs::remove_file(place.path("ws/AGENTS.md")).unwrap();
    // Files that are not as it left them.
    place.write("ws/made", "by another\n");
    asked(&resume(&place, "cut.jsonl", &[]).finish());
    place.write("ws/made", "");
    resume(&place, "cut.jsonl", &[]).finish().assert(0, "completed", "completed");
    // Another commit.
    place.git(&place.path("ws"), &["commit", "-q", "--allow-empty", "-m", "x"]);
    asked(&resume(&place, "cut.jsonl", &[]).finish());
}

#[test]
fn a_message_whose_calls_were_not_recorded_is_no_last_word() {
    let place = Sandboxed::with_policy(POLICY);
    place.write(
        "model.yaml",
        format!(
            "version: 1\nsteps:\n  - text: now I add\n    calls: [{}]\n  - text: done\n",
            command("touch b")
        ),
    );
    Run::exec(&place, &MODEL).finish().assert(0, "completed", "completed");
    let bytes = fs::read(latest(&place)).unwrap();
    fs::remove_file(place.path("ws/b")).unwrap();
    fs::write(place.path("cut.jsonl"), cut_after(&bytes, |r| r["item"]["text"] == "now I add"))
        .unwrap();
    let done = resume(&place, "cut.jsonl", &[]).finish();
    let new = new_records(&done);
    assert!(new.iter().any(|record| record["type"] == "step_started"), "{}", done.stderr);
    assert!(!done.stderr.contains("not asked again"), "{}", done.stderr);
}

#[test]
fn an_answer_taken_up_counts_as_it_did_and_is_fed_back_as_it_was() {
    // Everything was denied: the kill does not make that a success.
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[&command("curl x")]));
    Run::exec(&place, &MODEL).finish().assert(11, "blocked", "policy.all_denied");
    let bytes = fs::read(latest(&place)).unwrap();
    let cut = cut_after(&bytes, |record| record["item"]["text"] == "done");
    fs::write(place.path("cut.jsonl"), cut).unwrap();
    resume(&place, "cut.jsonl", &[]).finish().assert(11, "blocked", "policy.all_denied");
    // What does not hold goes to the model, which then goes on.
    let place = Sandboxed::with_policy(POLICY);
    place.write(
        "model.yaml",
        format!(
            "version: 1\nsteps:\n  - text: one\n  - expect: {{ message: {{ contains: \"wanted does not exist\" }} }}\n    calls: [{}]\n  - text: two\n",
            command("touch wanted")
        ),
    );
    Run::exec(&place, &[&["--require-file", "wanted"][..], &MODEL[..]].concat()).finish().assert(
        0,
        "completed",
        "completed",
    );
    let bytes = fs::read(latest(&place)).unwrap();
    for kind in ["item", "verified"] {
        fs::remove_file(place.path("ws/wanted")).unwrap();
        let cut = cut_after(&bytes, |record| {
            record["item"]["text"] == "one" || (kind == "verified" && record["attempt"] == 0)
        });
        fs::write(place.path("cut.jsonl"), cut).unwrap();
        let done = resume(&place, "cut.jsonl", &[]).finish();
        done.assert(0, "completed", "completed");
        let steps = new_records(&done).iter().filter(|r| r["type"] == "step_started").count();
        assert_eq!(steps, 2, "asked only after the verification");
        let (status, stdout, stderr) = turnkey(&place, &["replay", "out"]);
        assert_eq!(status, 0, "{stdout}{stderr}");
    }
}

#[test]
fn interrupted_in_its_verification_a_run_goes_on_with_it() {
    let mark = mark("300.");
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/check.sh", format!("exec sleep {mark}\n"));
    place.write("model.yaml", script(&[&command("true")]));
    let args = [&["--verify", "sh check.sh"][..], &MODEL[..]].concat();
    for signal in ["TERM", "KILL"] {
        let running = Run::exec(&place, &args).start();
        eventually("the check runs", || !alive(&format!("sleep {mark}")).is_empty());
        running.signal(signal);
        running.wait(Duration::from_secs(10));
        eventually("the check is over", || alive(&format!("sleep {mark}")).is_empty());
        let done = resume(&place, "latest", &["--verify", "true"]).finish();
        done.assert(0, "completed", "completed");
        assert!(!new_records(&done).iter().any(|record| record["type"] == "step_started"));
    }
    // Out of time is no other thing; and what comes after it has all the time that it is given.
    let limit = [&["--timeout", "5s"][..], &args[..]].concat();
    Run::exec(&place, &limit).finish().assert(124, "timed_out", "limit.time");
    let done = resume(&place, "latest", &["--timeout", "5m", "--verify", "true"]).finish();
    done.assert(0, "completed", "completed");
    assert!(!new_records(&done).iter().any(|record| record["type"] == "step_started"));
}

#[test]
fn killed_before_the_model_was_told_its_task_a_run_still_does_it() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", "version: 1\nsteps:\n  - expect: { message: { contains: \"the real task\" } }\n    text: done\n  - expect: { message: { contains: \"the follow-up\" } }\n    text: done\n");
    let model = ["--model", "scripted/model.yaml", "the real task"];
    Run::exec(&place, &model).finish().assert(0, "completed", "completed");
    let bytes = fs::read(latest(&place)).unwrap();
    let told = |done: &Done<'_>, task: &str| {
        let records = done.rollout();
        assert_eq!(records.iter().filter(|r| r["item"]["text"] == task).count(), 1, "{task}");
    };
    let moments: [IsLast; 4] = [
        |record| record["type"] == "run_started",
        |record| record["type"] == "turn_started",
        |record| record["type"] == "turn_context",
        |record| record["item"]["fragment"] == "environment",
    ];
    for is_last in moments {
        fs::write(place.path("cut.jsonl"), cut_after(&bytes, is_last)).unwrap();
        let done = resume(&place, "cut.jsonl", &[]).finish();
        done.assert(0, "completed", "completed");
        told(&done, "the real task");
    }
    // The same for a follow-up; and one more does not take its place.
    resume(&place, "latest", &["the follow-up"]).finish().assert(0, "completed", "completed");
    let bytes = fs::read(place.path("out/rollout.jsonl")).unwrap();
    for is_last in moments {
        fs::write(place.path("cut.jsonl"), cut_after(&bytes, is_last)).unwrap();
        let done = resume(&place, "cut.jsonl", &[]).finish();
        done.assert(0, "completed", "completed");
        told(&done, "the follow-up");
        let done = resume(&place, "cut.jsonl", &["and another"]).finish();
        told(&done, "the follow-up");
        told(&done, "and another");
    }
    // Texts of inputs are gone with the run that read them.
    let args = ["--input", "title=words", "--model", "scripted/model.yaml", "the real task"];
    Run::exec(&place, &args).finish().assert(0, "completed", "completed");
    let bytes = fs::read(latest(&place)).unwrap();
    fs::write(place.path("cut.jsonl"), cut_after(&bytes, moments[2])).unwrap();
    let done = resume(&place, "cut.jsonl", &[]).finish();
    done.assert(2, "invalid", "resume.record");
    assert!(done.stderr.contains("start again with turnkey exec"), "{}", done.stderr);
}

#[test]
fn what_is_unknown_is_told_once_and_counts_as_the_sessions_work() {
    let mark = mark("300.");
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.write(
        "model.yaml",
        format!(
            "version: 1\nsteps:\n  - calls: [{}]\n  - calls: [{}]\n  - text: one\n  - text: two\n",
            command("touch made"),
            command(&format!("sleep {mark}"))
        ),
    );
    let args = [&["--fail-on-changes"][..], &MODEL[..]].concat();
    let running = Run::exec(&place, &args).start();
    eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
    running.signal("KILL");
    running.wait(Duration::from_secs(5));
    let done = resume(&place, "latest", &[]).finish();
    assert!(told(&done.rollout(), "is unknown").contains(&format!("sleep {mark}")));
    // `made` came before the kill, in no diff of this Turn: it is a change of the Session.
    done.assert(14, "changes_found", "changes_found");
    let result = done.result();
    assert_eq!(result["changed"], true);
    assert_eq!(result["changed_files"].as_array().unwrap().len(), 0);
    assert!(result["not_in_diff"][0].as_str().unwrap().starts_with("made: "), "{result}");
    let done = resume(&place, "latest", &["more"]).finish();
    assert!(!done.stderr.contains(&format!("sleep {mark}")), "told once: {}", done.stderr);
    let lists = told(&new_records(&done), "is unknown");
    assert!(lists.is_empty(), "{lists}");
}
