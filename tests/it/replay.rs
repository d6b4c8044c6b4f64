//! Recorded runs, run again.

use super::support::recorded::{latest, resume, turnkey};
use super::support::{Run, Sandboxed, alive, command, eventually, patch, script};
use serde_json::Value;
use std::fs;
use std::time::Duration;

const POLICY: &str = "version: 1\nexec: { allow: [\"sleep *\", \"sh *.sh\", \"true\", \"touch *\", \"cat ...\", \"git status ...\", \"pwd\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

/// A run with everything in it: text, calls that succeed, fail, are denied, unknown and broken, a
/// patch, a check that is fed back.
fn rich(place: &Sandboxed) {
    place.write("ws/a.txt", "a\n");
    place.write("ws/dir/b.sh", "echo from b\n");
    place.write("ws/check.sh", "cat wanted\n");
    place.git_init(&place.path("ws"));
    place.write("ws/dirty.txt", "not committed\n");
    place.write(
        "model.yaml",
        format!(
            "version: 1\nsteps:\n  - text: I look\n    reasoning: hm\n    calls: [{}, {}, {}]\n  - calls: [{}, {}, {}, {}]\n  - calls: [{}]\n  - text: done I think\n  - calls: [{}]\n  - text: done\n",
            "{ tool: read_file, args: { path: a.txt } }",
            "{ tool: list_files, args: { path: . } }",
            command("pwd; git status --short"),
            command("cat no-such-file"),
            command("curl evil"),
            "{ tool: nothing_like_it, args: {} }",
            "{ tool: read_file, raw: '{\"path\": ' }",
            patch("*** Begin Patch\n*** Update File: a.txt\n-a\n+b\n*** End Patch"),
            command("touch wanted"),
        ),
    );
    let done = Run::exec(place, &[&["--verify", "sh check.sh"][..], &MODEL[..]].concat()).finish();
    done.assert(0, "completed", "completed");
}

#[test]
fn a_record_replays_without_a_difference_from_itself_and_live() {
    let place = Sandboxed::with_policy(POLICY);
    rich(&place);
    let before = fs::read(latest(&place)).unwrap();
    let status_before = place.git(&place.path("ws"), &["status", "--porcelain"]);
    for tools in ["recorded", "live"] {
        let (status, stdout, stderr) = turnkey(&place, &["replay", "out", "--tools", tools]);
        assert_eq!(status, 0, "{tools}: {stdout}{stderr}");
        assert!(stdout.contains("no difference") && stdout.contains("6 steps"), "{stdout}");
    }
    assert_eq!(fs::read(latest(&place)).unwrap(), before, "a replay writes no record");
    assert_eq!(place.git(&place.path("ws"), &["status", "--porcelain"]), status_before);
    let runs = fs::read_dir(latest(&place).parent().unwrap().parent().unwrap()).unwrap().count();
    assert_eq!(runs, 2, "nothing is left but the run and `latest`");
    // The record alone is enough, wherever it is.
    let alone = Sandboxed::new();
    alone.write("rollout.jsonl", &before);
    let (status, stdout, stderr) = turnkey(&alone, &["replay", "rollout.jsonl"]);
    assert_eq!(status, 0, "{stdout}{stderr}");
}

#[test]
fn the_first_difference_is_told_with_its_step() {
    let place = Sandboxed::with_policy(POLICY);
    rich(&place);
    // A file that the record read differs now: the commit is the same, what is ignored is not.
    let text = String::from_utf8(fs::read(latest(&place)).unwrap()).unwrap();
    place.write(
        "changed.jsonl",
        text.replace("from b", "from c").replacen("no-such-file\\\"", "no-such-file2\\\"", 1),
    );
    let (status, stdout, stderr) = turnkey(&place, &["replay", "changed.jsonl", "--tools", "live"]);
    assert_eq!(status, 1, "{stdout}{stderr}");
    assert!(stdout.contains("first difference, in step 2"), "{stdout}");
    let (status, stdout, _) =
        turnkey(&place, &["replay", "changed.jsonl", "--tools", "live", "--json"]);
    assert_eq!(status, 1);
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(answer["difference"]["step"], 2);
    assert!(answer["difference"]["diff"].as_str().unwrap().contains("no-such-file"), "{stdout}");
}

#[test]
fn a_limit_a_resumed_run_and_a_killed_one_replay_too() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.git_init(&place.path("ws"));
    place.write(
        "model.yaml",
        script(&[
            &command("touch b"),
            &command("touch c"),
            &command("sleep 300.61"),
            &command("touch d"),
        ]),
    );
    let run =
        Run::exec(&place, &["--max-steps", "1", "--model", "scripted/model.yaml", "t"]).finish();
    run.assert(12, "limit_reached", "limit.steps");
    let running = resume(&place, "latest", &["--max-steps", "9"]).start();
    eventually("the command runs", || !alive("sleep 300.61").is_empty());
    running.signal("KILL");
    running.wait(Duration::from_secs(5));
    let replay = |tools: &str| turnkey(&place, &["replay", "latest", "--tools", tools]);
    let (status, stdout, stderr) = replay("recorded");
    assert_eq!(status, 0, "{stdout}{stderr}");
    assert!(stdout.contains("the run was killed"), "{stdout}");
    resume(&place, "latest", &[]).finish().assert(0, "completed", "completed");
    for tools in ["recorded", "live"] {
        let (status, stdout, stderr) = replay(tools);
        assert_eq!(status, 0, "{tools}: {stdout}{stderr}");
    }
    // The first run of the record, by its own id.
    let first = super::support::recorded::records(&latest(&place))[0]["run"].clone();
    let (status, stdout, stderr) = turnkey(&place, &["replay", first.as_str().unwrap()]);
    assert_eq!(status, 0, "{stdout}{stderr}");
    assert!(stdout.contains("1 steps"), "{stdout}");
}

#[test]
fn without_a_commit_only_the_record_replays_and_the_other_way_is_told() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[&command("touch b")]));
    Run::exec(&place, &MODEL).finish().assert(0, "completed", "completed");
    let (status, _, stderr) = turnkey(&place, &["replay", "latest", "--tools", "live"]);
    assert_eq!(status, 2, "{stderr}");
    assert!(
        stderr.contains("did not start from a commit") && stderr.contains("--tools recorded"),
        "{stderr}"
    );
    assert_eq!(turnkey(&place, &["replay", "latest"]).0, 0);
}

#[test]
fn another_policy_makes_live_verdicts_incomparable_and_is_refused() {
    let place = Sandboxed::with_policy(POLICY);
    rich(&place);
    place.write("policy.yaml", POLICY.replace("\"true\", ", ""));
    let (status, _, stderr) = turnkey(&place, &["replay", "latest", "--tools", "live"]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("policy is not the recorded one"), "{stderr}");
    assert_eq!(turnkey(&place, &["replay", "latest"]).0, 0, "the record needs no policy");
}
