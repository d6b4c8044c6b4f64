//! Ends from outside: signals, time, and readers that do not read.

use super::support::model_server::{Call, Reply, Server};
use super::support::{Run, Sandboxed, alive, at_work_in, command, eventually, mark, script};
use serde_json::json;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

const POLICY: &str = "version: 1\nexec: { allow: [\"sleep *\", \"sh look.sh\", \"sh stay.sh\", \"sh two.sh\", \"true\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

#[test]
fn d09_each_signal_during_a_command_ends_it_in_order_with_all_artifacts() {
    for (name, status) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let mark = mark("300.");
        let place = Sandboxed::with_policy(POLICY);
        place.write("ws/a.txt", "a\n");
        place.write("model.yaml", script(&[&command(&format!("sleep {mark}"))]));
        let running = Run::exec(&place, &MODEL).start();
        eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
        let sent = Instant::now();
        running.signal(name);
        let done = running.wait(Duration::from_secs(10));
        assert!(sent.elapsed() < Duration::from_secs(8), "{name}: {:?}", sent.elapsed());
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
    let mark = mark("0.2");
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/stay.sh", format!("trap '' TERM INT; while :; do sleep {mark}; done\n"));
    place.write("model.yaml", script(&[&command("sh stay.sh")]));
    let running = Run::exec(&place, &MODEL).start();
    eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
    running.signal("INT");
    std::thread::sleep(Duration::from_millis(200));
    running.signal("INT");
    let done = running.wait(Duration::from_secs(5));
    assert_eq!(done.status, 130);
    eventually("the command is gone", || at_work_in(&place).is_empty());
    let rollout = place.path("home/.local/state/turnkey/runs/latest/rollout.jsonl");
    let report = turnkey::rollout::verify(&rollout).unwrap();
    assert!(report.found.records > 0, "{report:?}");
    assert_eq!(done.result()["state"], "running", "what was not ended is never a success");
}

#[test]
fn d70_a_killed_runner_leaves_no_process() {
    let mark = mark("300.");
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/two.sh", format!("sleep {mark} & sleep {mark}\n"));
    place.write("model.yaml", script(&[&command("sh two.sh")]));
    let running = Run::exec(&place, &MODEL).start();
    eventually("the command runs", || alive(&format!("sleep {mark}")).len() == 2);
    running.signal("KILL");
    running.wait(Duration::from_secs(5));
    eventually("all are gone", || alive(&format!("sleep {mark}")).is_empty());
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

fn left_in_state(place: &Sandboxed) -> usize {
    let state = place.path("home/.local/state/turnkey");
    let kinds = ["copy", "runs", "scratch", "store"].iter();
    kinds.map(|kind| std::fs::read_dir(state.join(kind)).into_iter().flatten().count()).sum()
}

/// A workspace that takes a while to copy, and without git to look at as well.
fn large() -> Sandboxed {
    let place = Sandboxed::with_policy(POLICY);
    for number in 0..20_000 {
        place.write(&format!("ws/d{}/f{number}", number % 100), format!("{number}\n"));
    }
    place.write("model.yaml", script(&[&command("true")]));
    place
}

/// Whether a process hears this signal, in place of what the kernel does.
fn hears(pid: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

/// Signals a run this long after it was started, and looks at how it ends, which takes `most`.
fn signal_early(
    place: &Sandboxed,
    run: Run<'_>,
    after: Duration,
    name: &str,
    most: Duration,
) -> i32 {
    let status = if name == "INT" { 130 } else { 143 };
    let before = left_in_state(place);
    let running = run.start();
    let began = Instant::now();
    while began.elapsed() < after {
        std::hint::spin_loop();
    }
    let heard = hears(running.child.id(), if name == "INT" { libc::SIGINT } else { libc::SIGTERM });
    running.signal(name);
    let sent = Instant::now();
    let done = running.wait(most);
    let took = sent.elapsed();
    let context = format!("{name} after {after:?}: {} in {took:?}\n{}", done.status, done.stderr);
    eprintln!("{}", context.chars().take(260).collect::<String>());
    assert!(took < most, "{context}");
    eventually("nothing is left alive", || at_work_in(place).is_empty());
    match done.status {
        // The kernel's own doing: the program had not begun to run.
        -1 => assert!(!heard && done.stderr.is_empty(), "{context}"),
        _ => {
            assert_eq!(done.status, status, "{context}");
            let result = std::fs::read_to_string(place.path("out/result.json"));
            // Before the folder for artifacts is claimed there is no place to say it.
            if let Ok(result) = result {
                let result: serde_json::Value = serde_json::from_str(&result).unwrap();
                assert_eq!(result["state"], "interrupted", "{context}");
                // Where it could not clear away in this time, it was ended in the middle of that.
                let cleared = took < Duration::from_millis(3500);
                if result["run"] == "" && cleared {
                    assert_eq!(left_in_state(place), before, "{context}");
                }
            }
            assert!(done.stderr.contains("interrupted"), "{context}");
        }
    }
    done.status
}

#[test]
fn d09_a_signal_at_any_early_moment_ends_a_run_that_takes_long_to_begin() {
    let mark = mark("300.");
    let place = large();
    let seed = std::process::id();
    eprintln!("seed {seed}");
    let mut random = seed;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % below
    };
    let mut moments: Vec<u64> = (0..12).map(|_| u64::from(next(12_000))).collect();
    moments.extend((0..8).map(|_| u64::from(next(1_500_000))));
    moments.push(0);
    // By then it has begun to run on the slowest machine.
    moments.extend([300_000, 700_000, 1_200_000]);
    // Once it has begun, it goes on until it is ended.
    let stays: Vec<String> = (0..9).map(|_| command(&format!("sleep {mark}"))).collect();
    let stays: Vec<&str> = stays.iter().map(String::as_str).collect();
    place.write("stays.yaml", script(&stays));
    let copy = ["--isolate", "copy", "--model", "scripted/stays.yaml", "t"];
    // A run to go on from: a resume looks at the whole tree before it begins.
    let whole = Run::exec(&place, &MODEL).finish();
    whole.assert(0, "completed", "completed");
    // Some of what it does is not held up in the middle, and takes longer where all takes longer.
    let most = Duration::from_secs(5).max(3 * whole.took);
    let record = super::support::recorded::latest(&place).canonicalize().unwrap();
    let stays = place.path("stays.yaml").display().to_string();
    let model = format!("scripted/{stays}");
    let record_name = record.to_str().unwrap();
    let resumed = ["resume", record_name, "--artifacts", "out", "--model", &model, "go on"];
    let mut ended = std::collections::BTreeMap::<i32, u32>::new();
    for (round, micros) in moments.into_iter().enumerate() {
        let after = Duration::from_micros(micros);
        let name = ["TERM", "INT"][round % 2];
        let _ = std::fs::remove_dir_all(place.path("out"));
        let bytes = std::fs::read(&record).unwrap();
        let run =
            if round % 3 == 0 { Run::exec(&place, &copy) } else { Run::new(&place, &resumed) };
        let status = signal_early(&place, run, after, name, most);
        *ended.entry(status).or_default() += 1;
        let now = std::fs::read(&record).unwrap();
        assert!(now.starts_with(&bytes), "the record that is gone on from stays");
        assert!(turnkey::rollout::verify(&record).unwrap().ok);
    }
    let in_order = ended.get(&143).copied().unwrap_or(0) + ended.get(&130).copied().unwrap_or(0);
    assert!(in_order >= 9, "{ended:?}");
}

#[test]
fn d09_what_holds_up_the_start_for_ever_holds_up_no_signal() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[&command("true")]));
    place.write("held.yaml", "version: 1\ntask: t\ninstructions: [pipe]\n");
    let pipe = std::ffi::CString::new(place.path("pipe").to_str().unwrap()).unwrap();
    // SAFETY: a path that ends in a zero.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let model = ["--model", "scripted/model.yaml"];
    for (args, most) in [
        // The run folder is made, and a file is read that is never there to be read.
        (&["--spec", "held.yaml"][..], 5000),
        // The task is read from a pipe that nobody closes.
        (&["-"], 2500),
    ] {
        for (name, status, twice) in [("TERM", 143, false), ("INT", 130, true)] {
            // What an earlier round left says nothing of this one.
            let _ = std::fs::remove_dir_all(place.path("out"));
            let _ = std::fs::remove_dir_all(place.path("home/.local/state/turnkey"));
            let mut run = Run::exec(&place, &[args, &model].concat());
            run.command().stdin(Stdio::piped());
            let mut running = run.start();
            let _open = running.child.stdin.take();
            let made = || match args {
                ["-"] => place.exists("out/.turnkey.lock"),
                _ => left_in_state(&place) > 0,
            };
            eventually("it is held up", made);
            let sent = Instant::now();
            running.signal(name);
            if twice {
                std::thread::sleep(Duration::from_millis(100));
                running.signal(name);
            }
            let done = running.wait(Duration::from_secs(6));
            let took = sent.elapsed().as_millis();
            assert!(took < if twice { 2500 } else { most }, "{args:?}: {took} ms");
            assert_eq!(done.status, status, "{args:?}: {}", done.stderr);
            eventually("nothing is left alive", || at_work_in(&place).is_empty());
            if !twice {
                done.assert(status, "interrupted", "interrupted");
                assert!(done.stderr.contains("before it began"), "{}", done.stderr);
            }
        }
    }
}

#[test]
fn a_signal_that_is_sent_twice_at_once_is_one() {
    let mark = mark("300.");
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[&command(&format!("sleep {mark}"))]));
    let running = Run::exec(&place, &MODEL).start();
    eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
    // As `timeout` does: to the process, and to its group.
    running.signal("TERM");
    running.signal("TERM");
    let done = running.wait(Duration::from_secs(5));
    done.assert(143, "interrupted", "interrupted");
    done.assert_artifacts_agree();
}

#[test]
fn a_command_that_is_no_run_keeps_what_signals_did_before() {
    let mark = mark("300.");
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    for ignored in [false, true] {
        let place = Sandboxed::with_policy(POLICY);
        place.write("model.yaml", script(&[&command(&format!("sleep {mark}"))]));
        let running = Run::exec(&place, &MODEL).start();
        eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
        // It follows the run for as long as that goes on.
        let mut show = Run::new(&place, &["rollout", "show", "latest", "--follow"]);
        // SAFETY: one system call between fork and exec.
        unsafe {
            show.command().pre_exec(move || {
                if ignored {
                    libc::signal(libc::SIGHUP, libc::SIG_IGN);
                }
                Ok(())
            });
        }
        let mut show = show.start();
        // It has stood back from signals once it says something.
        let mut said = show.child.stdout.take().unwrap();
        said.read_exact(&mut [0]).unwrap();
        show.child.stdout = Some(said);
        show.signal("HUP");
        // One that ignores it goes on, now and for as long as the run.
        let patience = Duration::from_millis(if ignored { 500 } else { 10_000 });
        let sent = Instant::now();
        let ended = loop {
            let ended = show.child.try_wait().unwrap();
            if ended.is_some() || sent.elapsed() > patience {
                break ended;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(ended.is_none(), ignored, "{ended:?}");
        if let Some(status) = ended {
            assert_eq!(status.signal(), Some(libc::SIGHUP));
        }
        running.signal("TERM");
        running.wait(Duration::from_secs(5)).assert(143, "interrupted", "interrupted");
        if ignored {
            let done = show.wait(Duration::from_secs(10));
            assert_eq!(done.status, 0, "{}", done.stderr);
        }
    }
}
