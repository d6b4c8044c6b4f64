//! Every way to end, on the real binary: whatever ends a run, what it leaves is valid and says one
//! thing.

use super::support::model_server::{Call, Reply, Server};
use super::support::recorded::{latest, records, resume, runs, turnkey};
use super::support::{
    Done, Run, Sandboxed, alive, binary, command, eventually, mark, patch, script, without_landlock,
};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const POLICY: &str = "version: 1\nexec: { allow: [\"sleep *\", \"sh [stay.sh, wait.sh, parent.sh, forms.sh, cut.sh, split.sh]\", \"true\", \"touch *\", \"env\", \"printenv ...\", \"printf ...\", \"cat ...\", \"git remote -v\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

fn scripted(calls: &[&str]) -> Sandboxed {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.write("model.yaml", script(calls));
    place
}

/// Whatever there is must be valid, and nothing says two things.
fn assert_one_truth(place: &Sandboxed, status: Option<i32>, context: &str) {
    if latest(place).is_file() && fs::metadata(latest(place)).unwrap().len() > 0 {
        let report = turnkey::rollout::verify(&latest(place)).unwrap();
        assert!(report.ok, "{context}: {report:?}");
    }
    if !place.exists("out/result.json") {
        assert_ne!(status, Some(0), "{context}: success without a result");
        return;
    }
    let result: Value = serde_json::from_str(&place.read("out/result.json")).unwrap();
    match result["state"].as_str().unwrap() {
        "running" => assert_ne!(status, Some(0), "{context}: running is no success"),
        _ => assert_eq!(result["exit_status"].as_i64(), status.map(i64::from), "{context}"),
    }
}

#[test]
fn a_signal_at_any_moment_of_a_run_ends_it_in_order() {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for round in 0..24u64 {
        let place = scripted(&[&command("touch b"), &command("sleep 0.15")]);
        let check = ["--verify", "sleep 0.1"];
        let running = Run::exec(&place, &[&check[..], &MODEL[..]].concat()).start();
        std::thread::sleep(Duration::from_millis(round * 25));
        // It may be over already.
        let pid = running.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).stderr(Stdio::null()).status();
        let mut child = running.child;
        let deadline = Instant::now() + Duration::from_secs(5);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "round {round}: not over within 5 s");
            std::thread::sleep(Duration::from_millis(5));
        };
        // Before the handlers stand, the kernel ends the process: no work, no record.
        let by_kernel = status.signal() == Some(15);
        assert!(by_kernel || matches!(status.code(), Some(0 | 143)), "round {round}: {status:?}");
        *seen.entry(format!("{:?}", status.code())).or_default() += 1;
        assert_one_truth(&place, status.code(), &format!("round {round}"));
        if status.code() == Some(143) {
            let result: Value = serde_json::from_str(&place.read("out/result.json")).unwrap();
            assert_eq!(result["state"], "interrupted", "round {round}");
            // Before it began there is nothing but that.
            let began = result["run"] != "";
            assert_eq!(place.exists("out/rollout.jsonl"), began, "round {round}");
            assert_eq!(place.exists("out/summary.md"), began, "round {round}");
        }
    }
    assert!(seen.get("Some(143)").is_some_and(|count| *count > 3), "{seen:?}");
}

#[test]
fn a_signal_during_verification_ends_the_check_and_the_run() {
    let mark = mark("300.");
    let place = scripted(&[&command("touch b")]);
    // Not in the words of the command line, where the runner itself would be found by them.
    place.write("ws/wait.sh", format!("sleep {mark}\n"));
    let check = ["--verify", "sh wait.sh"];
    let running = Run::exec(&place, &[&check[..], &MODEL[..]].concat()).start();
    eventually("the check runs", || !alive(&format!("sleep {mark}")).is_empty());
    running.signal("INT");
    let done = running.wait(Duration::from_secs(5));
    done.assert(130, "interrupted", "interrupted");
    done.assert_artifacts_agree();
    assert_eq!(done.result()["changed_files"][0]["path"], "b", "the best diff so far is kept");
    assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
}

#[test]
fn two_signals_during_verification_end_it_at_once() {
    let mark = mark("0.2");
    let place = scripted(&[]);
    place.write("ws/stay.sh", format!("trap '' TERM INT; while :; do sleep {mark}; done\n"));
    let check = ["--verify", "sh stay.sh"];
    let running = Run::exec(&place, &[&check[..], &MODEL[..]].concat()).start();
    eventually("the check runs", || !alive(&format!("sleep {mark}")).is_empty());
    running.signal("TERM");
    std::thread::sleep(Duration::from_millis(100));
    running.signal("TERM");
    let done = running.wait(Duration::from_secs(5));
    assert_eq!(done.status, 143);
    assert_one_truth(&place, Some(143), "two signals");
    eventually("nothing is left", || alive(&format!("sleep {mark}")).is_empty());
}

#[test]
fn a_signal_in_the_shutdown_does_not_wait_for_a_reader() {
    let place = Sandboxed::with_policy(POLICY);
    let text = "word ".repeat(60_000);
    let server = Server::start([Reply::message(&text)]);
    let base = server.base_url();
    let mut run = Run::exec(&place, &["--model", "openai/m", "--base-url", &base, "t"]);
    run.command().stdout(Stdio::piped());
    let mut running = run.start();
    let _never_read = running.child.stdout.take();
    eventually("the run has ended and its message waits", || place.exists("out/summary.md"));
    let sent = Instant::now();
    running.signal("TERM");
    let done = running.wait(Duration::from_secs(6));
    assert!(sent.elapsed() < Duration::from_secs(6));
    assert!(matches!(done.status, 0 | 143), "{}", done.status);
    assert_one_truth(&place, Some(done.status), "shutdown");
}

#[test]
fn a_runner_that_is_killed_leaves_a_record_that_is_no_success_and_can_be_gone_on_with() {
    let mark = mark("300.");
    let place = scripted(&[&command("touch b"), &command(&format!("sleep {mark}"))]);
    let running = Run::exec(&place, &MODEL).start();
    eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
    running.signal("KILL");
    let done = running.wait(Duration::from_secs(5));
    assert_eq!(done.result()["state"], "running");
    let (status, stdout, stderr) = turnkey(&place, &["rollout", "verify", "out"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("The last run has no end"), "{stdout}");
    let (_, _, stderr) = turnkey(&place, &["rollout", "show", "out", "--follow"]);
    assert!(stderr.contains("the run was killed"), "{stderr}");
    eventually("nothing is left", || alive(&format!("sleep {mark}")).is_empty());
    let done = resume(&place, "out", &[]).finish();
    done.assert(0, "completed", "completed");
    // What only the killed run's processes needed is gone.
    let state = runs(&place).parent().unwrap().to_owned();
    for kind in ["scratch", "store", "copy"] {
        let left = fs::read_dir(state.join(kind)).unwrap().count();
        assert_eq!(left, 0, "{kind}");
    }
}

#[test]
fn an_artifacts_folder_that_cannot_be_written_is_told_before_anything_runs() {
    let place = scripted(&[&command("touch b")]);
    fs::write(place.path("out"), "a file").unwrap();
    let (status, _, stderr) = exec(&place, &[]);
    assert_eq!(status, 20, "{stderr}");
    assert!(stderr.contains("artifacts folder") && !place.exists("ws/b"), "{stderr}");
}

#[test]
fn an_artifacts_folder_that_is_read_only_is_told_before_anything_runs() {
    if !can_mount() {
        eprintln!("SKIPPED: no mounts in a user namespace here");
        return;
    }
    let place = scripted(&[&command("touch b")]);
    fs::create_dir(place.path("out")).unwrap();
    let (status, stderr) = mounted(&place, "mount --bind out out && mount -o remount,bind,ro out");
    assert_eq!(status, 20, "{stderr}");
    assert!(stderr.contains("Read-only") && !place.exists("ws/b"), "{stderr}");
}

#[test]
fn an_artifacts_folder_that_goes_away_meanwhile_leaves_the_run_folder() {
    let place = scripted(&[&command("sh wait.sh"), &command("touch b")]);
    place.write("ws/wait.sh", "while [ ! -e go ]; do sleep 0.02; done\n");
    let running = Run::exec(&place, &MODEL).start();
    eventually("it has begun", || place.exists("out/result.json"));
    fs::remove_dir_all(place.path("out")).unwrap();
    place.write("ws/go", "");
    let done = running.wait(Duration::from_secs(20));
    assert_eq!(done.status, 20, "{}", done.stderr);
    assert!(done.stderr.contains("artifacts"), "{}", done.stderr);
    let own = runs(&place).join("latest");
    let result: Value =
        serde_json::from_slice(&fs::read(own.join("result.json")).unwrap()).unwrap();
    assert_eq!((&result["state"], &result["exit_status"]), (&json!("unavailable"), &json!(20)));
    assert!(own.join("turn.diff").is_file() && own.join("summary.md").is_file());
    assert!(
        done.stderr.trim_end().ends_with(&fs::canonicalize(own).unwrap().display().to_string())
    );
}

#[test]
fn an_artifacts_folder_that_fills_up_leaves_the_run_folder() {
    if !can_mount() {
        eprintln!("SKIPPED: no mounts in a user namespace here");
        return;
    }
    let place = scripted(&[&command("touch b")]);
    fs::create_dir(place.path("out")).unwrap();
    // Room for the first result and for nothing more.
    let (status, stderr) = mounted(&place, "mount -t tmpfs -o size=8k tmpfs out");
    assert_eq!(status, 20, "{stderr}");
    assert!(stderr.contains("No space"), "{stderr}");
    let own = runs(&place).join("latest");
    let result: Value =
        serde_json::from_slice(&fs::read(own.join("result.json")).unwrap()).unwrap();
    assert_eq!((&result["state"], &result["exit_status"]), (&json!("unavailable"), &json!(20)));
    assert!(turnkey::rollout::verify(&own.join("rollout.jsonl")).unwrap().ok);
    assert!(place.exists("ws/b"), "the work stands");
}

#[test]
fn a_disk_that_is_too_full_for_the_record_ends_the_run_and_nothing_runs_unrecorded() {
    if !can_mount() {
        eprintln!("SKIPPED: no mounts in a user namespace here");
        return;
    }
    let calls: Vec<String> =
        (0..60).map(|n| command(&format!("printf {}{n}", "x".repeat(2000)))).collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let place = scripted(&calls);
    // The whole state lies on a disk of 160 KiB; it is copied out before the mount goes.
    let mount = "mkdir -p home/.local/state/turnkey && mount -t tmpfs -o size=160k,mode=700 tmpfs home/.local/state/turnkey";
    let after = "cp -r home/.local/state/turnkey/runs kept";
    let (status, stderr) = mounted_and(&place, mount, after);
    assert_eq!(status, 20, "{stderr}");
    assert!(stderr.contains("rollout") || stderr.contains("No space"), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    let run = fs::read_dir(place.path("kept"))
        .unwrap()
        .flatten()
        .find(|entry| entry.file_name() != "latest")
        .unwrap();
    let rollout = run.path().join("rollout.jsonl");
    let report = turnkey::rollout::verify(&rollout).unwrap();
    assert!(report.ok, "{report:?}");
    let records = records(&rollout);
    let called = records.iter().filter(|record| record["item"]["kind"] == "tool_call").count();
    assert!((1..60).contains(&called), "{called}");
}

fn exec(place: &Sandboxed, more: &[&str]) -> (i32, String, String) {
    let mut args = vec!["exec", "-C", "ws", "--policy", "policy.yaml", "--artifacts", "out"];
    args.extend(MODEL);
    args.extend(more);
    turnkey(place, &args)
}

fn can_mount() -> bool {
    Command::new("unshare")
        .args(["-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn mounted(place: &Sandboxed, mount: &str) -> (i32, String) {
    mounted_and(place, mount, "true")
}

/// A run after this mount, in a mount namespace of its own.
fn mounted_and(place: &Sandboxed, mount: &str, after: &str) -> (i32, String) {
    let line = format!(
        "{mount} && {{ {} exec -C ws --policy policy.yaml --artifacts out --model scripted/model.yaml t; status=$?; {after}; exit $status; }}",
        binary().display()
    );
    let done = Command::new("unshare")
        .args(["-rm", "sh", "-c", &line])
        .current_dir(place.path(""))
        .env_clear()
        .env("HOME", place.path("home"))
        .env("PATH", std::env::var("PATH").unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (done.status.code().unwrap_or(-1), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn d10_a_sandbox_that_cannot_be_had_ends_the_run_before_any_request() {
    let place = scripted(&[&command("touch b")]);
    let server = Server::start([Reply::message("never asked")]);
    let base = server.base_url();
    let mut run = Run::exec(&place, &["--model", "openai/m", "--base-url", &base, "t"]);
    without_landlock(&mut run);
    let done = run.finish();
    done.assert(20, "unavailable", "sandbox.landlock");
    assert!(done.stderr.contains("sandbox"), "{}", done.stderr);
    assert_eq!(server.request_count(), 0);
    assert!(!place.exists("ws/b"));
}

#[test]
fn d36_text_of_wide_characters_never_ends_a_run_wherever_it_is_cut() {
    let text = "阴影".repeat(70);
    for shift in 0..3 {
        let shifted = format!("{}{text}", "x".repeat(shift));
        let place = scripted(&[
            &patch(&format!(
                "*** Begin Patch\n*** Add File: {}.txt\n+{shifted}\n*** End Patch",
                "影".repeat(20)
            )),
            &patch(&format!(
                "*** Begin Patch\n*** Update File: a.txt\n-{shifted}\n+b\n*** End Patch"
            )),
            &command(&format!("printf {}", shifted.repeat(200))),
            &command(&format!("sh {shifted}")),
        ]);
        let done = Run::exec(&place, &MODEL).finish();
        done.assert(0, "completed", "completed");
        assert_eq!(done.kinds().len(), 4);
        let (status, shown, _) = turnkey(&place, &["rollout", "show", "latest"]);
        assert_eq!(status, 0, "{shown}");
    }
}

/// Every file that a run left and everything that it said must be free of these.
fn assert_nowhere(place: &Sandboxed, done: &Done<'_>, server: &Server, secrets: &[&str]) {
    let mut texts = vec![
        ("stdout".to_owned(), done.stdout.clone()),
        ("stderr".to_owned(), done.stderr.clone()),
    ];
    for request in server.requests() {
        texts.push(("a request".into(), String::from_utf8_lossy(&request.body).into_owned()));
    }
    for folder in [place.path("out"), runs(place).join("latest")] {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            let name = entry.path().display().to_string();
            texts.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    for (name, text) in &texts {
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is in {name}:\n{text}");
        }
    }
}

fn served(commands: &[&str]) -> Server {
    let mut replies: Vec<Reply> = commands
        .iter()
        .enumerate()
        .map(|(number, cmd)| {
            Reply::calls([Call::json(&format!("c{number}"), "exec_command", json!({ "cmd": cmd }))])
        })
        .collect();
    replies.push(Reply::message("done"));
    Server::start(replies)
}

fn with_secrets<'a>(place: &'a Sandboxed, server: &Server) -> Run<'a> {
    with_secrets_on(place, server, "openai/m")
}

fn with_secrets_on<'a>(place: &'a Sandboxed, server: &Server, model: &str) -> Run<'a> {
    let base = server.base_url();
    let variable =
        if model.starts_with("anthropic/") { "ANTHROPIC_API_KEY" } else { "OPENAI_API_KEY" };
    Run::exec(place, &["--json", "--model", model, "--base-url", &base, "t"])
        .env(variable, "sk-value-of-the-key-0001")
        .env("CI_JOB_TOKEN", "glcbt-value-of-the-token-0002")
        .env("AWS_SECRET_ACCESS_KEY", "aws/value+of+the+secret/0003")
}

#[test]
fn d79_no_secret_of_the_runner_reaches_a_child_a_request_or_an_artifact() {
    for model in ["openai/m", "chat/m", "anthropic/m"] {
        let place = scripted(&[]);
        let server = served(&[
            "env",
            "printenv OPENAI_API_KEY ANTHROPIC_API_KEY CI_JOB_TOKEN",
            "cat /proc/self/environ",
            "sh parent.sh",
        ]);
        place.write(
            "ws/parent.sh",
            "cat /proc/$PPID/environ; cat /proc/1/environ; tr '\\0' '\\n' < /proc/$PPID/environ\n",
        );
        let done = with_secrets_on(&place, &server, model).finish();
        done.assert(0, "completed", "completed");
        let secrets = [
            "sk-value-of-the-key-0001",
            "glcbt-value-of-the-token-0002",
            "aws/value+of+the+secret/0003",
        ];
        assert_nowhere(&place, &done, &server, &secrets);
        let env = &done.outputs()[0];
        assert!(!env.contains("TOKEN") && !env.contains("API_KEY"), "{env}");
        let keys = ["authorization", "x-api-key"];
        let sent = &server.requests()[0];
        let said = keys.iter().any(|name| {
            sent.header(name).is_some_and(|text| text.ends_with("sk-value-of-the-key-0001"))
        });
        assert!(said, "{model}: the key is sent where it belongs");
    }
}

#[test]
fn d80_d82_a_secret_passed_on_purpose_is_masked_in_every_form_it_is_printed_in() {
    let place = scripted(&[]);
    place.write("policy.yaml", format!("{POLICY}env: {{ pass: [MY_TOKEN] }}\n"));
    let value = "{\"t\":\"SECRET-part-one-1\"\n,\"u\":\"SECRET-part-two-2\"}";
    place.write(
        "ws/forms.sh",
        "printenv MY_TOKEN | cut -d= -f1\nprintf %s \"$MY_TOKEN\" | base64\nprintf %s \"$MY_TOKEN\" | while IFS= read -r -n1 c; do printf '%s' \"$c\"; done\nprintf '%s' \"$MY_TOKEN\" | sed 's/\"/%22/g'\n",
    );
    place.write(
        "ws/cut.sh",
        "head -c 20470 /dev/zero | tr '\\0' x; printf 'SECRET-part-one-1'; head -c 40000 /dev/zero | tr '\\0' y\n",
    );
    place.write("ws/split.sh", "printf %s 'SECRET-pa'; sleep 0.2; printf %s 'rt-one-1'\n");
    let server = served(&["sh forms.sh", "sh cut.sh", "sh split.sh"]);
    let done = with_secrets(&place, &server).env("MY_TOKEN", value).finish();
    done.assert(0, "completed", "completed");
    assert_nowhere(&place, &done, &server, &["SECRET-part-one-1", "SECRET-part-two-2"]);
    let base64 = "U0VDUkVULXBhcnQtb25l";
    assert!(!done.outputs().join("").contains(base64));
}

#[test]
fn d81_the_user_part_of_an_address_is_masked() {
    let place = scripted(&[]);
    place.git_init(&place.path("ws"));
    let address = "https://x-access-token:ghs_TokenInTheAddress42@host.invalid/r.git";
    place.git(&place.path("ws"), &["remote", "add", "origin", address]);
    let server = served(&["git remote -v", "cat .git/config"]);
    let done = with_secrets(&place, &server).finish();
    done.assert(0, "completed", "completed");
    assert!(done.outputs()[0].contains("host.invalid"), "{}", done.outputs()[0]);
    assert_nowhere(&place, &done, &server, &["ghs_TokenInTheAddress42"]);
}

#[test]
fn d08_d11_a_resumed_run_is_judged_like_any_other() {
    let place = scripted(&[]);
    place.write("model.yaml", "version: 1\nsteps:\n  - text: one\n  - fail: { status: 401 }\n");
    let first = Run::exec(&place, &MODEL).finish();
    first.assert(0, "completed", "completed");
    let done = resume(&place, "latest", &["more"]).finish();
    done.assert(13, "model_failed", "model.auth");
    let third = resume(&place, "latest", &["more", "--require-file", "report.md"]).finish();
    assert_ne!(third.status, 0);
    let result = third.result();
    assert_eq!(result["exit_status"], third.status);
}

#[test]
fn d09_a_resumed_run_ends_in_order_on_a_signal_and_can_be_resumed_again() {
    let mark = mark("300.");
    let place = scripted(&[
        &command(&format!("sleep {mark}")),
        &command(&format!("sleep {mark}")),
        &command("touch b"),
    ]);
    for (name, status) in [("TERM", 143), ("INT", 130)] {
        let running = match name {
            "TERM" => Run::exec(&place, &MODEL).start(),
            _ => resume(&place, "latest", &[]).start(),
        };
        eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
        running.signal(name);
        let done = running.wait(Duration::from_secs(5));
        done.assert(status, "interrupted", "interrupted");
        assert_eq!(done.result()["exit_status"], status);
    }
    let done = resume(&place, "latest", &[]).finish();
    done.assert(0, "completed", "completed");
    assert!(place.exists("ws/b"));
    let mode = fs::metadata(latest(&place)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}
