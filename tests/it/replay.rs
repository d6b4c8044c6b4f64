//! Recorded runs, run again.

use super::support::recorded::{latest, resume, turnkey};
use super::support::{Run, Sandboxed, alive, command, eventually, mark, patch, script};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

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
fn a_run_on_a_copy_with_a_dirty_start_replays_live_too() {
    for below in ["", "inner"] {
        let place = Sandboxed::with_policy(&POLICY.replace("sh *.sh", "sh bin.sh"));
        let at = |path: &str| format!("ws/{below}/{path}");
        place.write(&at("a.txt"), "a\n");
        place.write(&at("gone.txt"), "in the commit only\n");
        place.write(&at("bin.sh"), "cat staged.txt\n");
        place.write("ws/outer.txt", "beside the workspace\n");
        place.git_init(&place.path("ws"));
        // Changed, new, staged, deleted, made a program, and a link: all of it is the start.
        place.write(&at("a.txt"), "changed before\n");
        place.write(&at("new.bin"), [0, 159, 146, 150]);
        place.write(&at("staged.txt"), "staged\n");
        place.git(&place.path("ws"), &["add", "-A"]);
        place.write(&at("untracked.txt"), "u\n");
        fs::remove_file(place.path(&at("gone.txt"))).unwrap();
        let program = fs::Permissions::from_mode(0o755);
        fs::set_permissions(place.path(&at("bin.sh")), program).unwrap();
        std::os::unix::fs::symlink("a.txt", place.path(&at("link"))).unwrap();
        let update = "*** Begin Patch\n*** Update File: a.txt\n-changed before\n+b\n*** End Patch";
        let calls = [
            command("cat a.txt link untracked.txt"),
            command("pwd; sh bin.sh"),
            command("cat gone.txt"),
            patch(update),
            command("touch wanted"),
            command("cat ../outer.txt"),
        ];
        let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        place.write("model.yaml", script(&calls));
        place.write(&at("check.sh"), "cat wanted untracked.txt\n");
        let folder = place.path("ws").join(below).display().to_string();
        let args = ["--isolate", "copy", "--verify", "sh check.sh", "-C", &folder];
        let run = [&["exec", "--artifacts", "out", "--policy", "policy.yaml"][..], &args, &MODEL];
        Run::new(&place, &run.concat()).finish().assert(0, "completed", "completed");
        assert!(place.exists("out/start.diff"), "the start was dirty");
        let before = tree(&place.path("ws"));
        for tools in ["recorded", "live"] {
            let (status, stdout, stderr) = turnkey(&place, &["replay", "out", "--tools", tools]);
            assert_eq!(status, 0, "{below}: {tools}: {stdout}{stderr}");
            assert!(stdout.contains("no difference") && stdout.contains("7 steps"), "{stdout}");
        }
        assert_eq!(tree(&place.path("ws")), before, "the tree itself is only read");
        // What the start was made of is missing: no replay of something else.
        fs::write(place.path("out/start.diff"), "").unwrap();
        let (status, stdout, _) = turnkey(&place, &["replay", "out", "--tools", "live"]);
        assert_eq!(status, 1, "{stdout}");
        assert!(stdout.contains("first difference, in step 0"), "{stdout}");
        fs::rename(place.path("ws"), place.path("elsewhere")).unwrap();
        let (status, _, stderr) = turnkey(&place, &["replay", "out", "--tools", "live"]);
        assert_eq!(status, 2, "{stderr}");
        assert!(stderr.contains("--tools recorded"), "{stderr}");
    }
}

/// Every file of a tree with its content and time.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                folders.push(entry.path());
            } else {
                let bytes = fs::read(entry.path()).unwrap();
                files.push((entry.path(), bytes, meta.modified().unwrap()));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn an_answer_that_was_taken_up_replays_from_the_record_and_live() {
    let mark = mark("300.");
    for isolate in ["none", "copy"] {
        // What the check waits for lies outside: no file of the work changes meanwhile.
        let place = Sandboxed::with_policy("");
        let outside = place.path("outside").display().to_string();
        let policy =
            POLICY.replace("[\"**\"], write", &format!("[\"**\", \"{outside}/**\"], write"));
        place.write("policy.yaml", policy);
        place.write("outside/time", format!("{mark}\n"));
        place.write("ws/a.txt", "a\n");
        place.write("ws/check.sh", format!("sleep $(cat {outside}/time)\ntest -f wanted\n"));
        place.git_init(&place.path("ws"));
        place.write("model.yaml", script(&[&command("touch wanted"), &command("true")]));
        let args = ["--isolate", isolate, "--verify", "sh check.sh"];
        let running = Run::exec(&place, &[&args[..], &MODEL[..]].concat()).start();
        eventually("the check runs", || !alive(&format!("sleep {mark}")).is_empty());
        running.signal("KILL");
        running.wait(Duration::from_secs(5));
        eventually("the check is gone", || alive(&format!("sleep {mark}")).is_empty());
        place.write("outside/time", "0\n");
        let done = resume(&place, "latest", &[]).finish();
        done.assert(0, "completed", "completed");
        assert!(done.stderr.contains("the model is not asked again"), "{}", done.stderr);
        for tools in ["recorded", "live"] {
            let (status, stdout, stderr) = turnkey(&place, &["replay", "latest", "--tools", tools]);
            assert_eq!(status, 0, "{isolate}, {tools}: {stdout}{stderr}");
            assert!(stdout.contains("no difference"), "{isolate}, {tools}: {stdout}");
        }
        // A check that fails now is told as the difference.
        if isolate == "none" {
            let text = fs::read_to_string(latest(&place)).unwrap();
            let text = text.replace("\"passed\":true", "\"passed\":false");
            place.write("changed.jsonl", text);
            fs::copy(place.path("out/start.diff"), place.path("start.diff")).unwrap();
            let (status, stdout, stderr) =
                turnkey(&place, &["replay", "changed.jsonl", "--tools", "live"]);
            assert_eq!(status, 1, "{stdout}{stderr}");
            assert!(stdout.contains("sh check.sh"), "{stdout}");
        }
    }
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
    let mark = mark("300.");
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.git_init(&place.path("ws"));
    place.write(
        "model.yaml",
        script(&[
            &command("touch b"),
            &command("touch c"),
            &command(&format!("sleep {mark}")),
            &command("touch d"),
        ]),
    );
    let run =
        Run::exec(&place, &["--max-steps", "1", "--model", "scripted/model.yaml", "t"]).finish();
    run.assert(12, "limit_reached", "limit.steps");
    let running = resume(&place, "latest", &["--max-steps", "9"]).start();
    eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
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
