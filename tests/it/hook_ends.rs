//! Ends in the middle of a hook: signals, the time limit, a killed runner; and what a resume makes of it.

use super::hooks::{EXEC, exec, outcomes, place};
use super::support::recorded::{latest, resume};
use super::support::{Run, Sandboxed, alive, command, eventually, mark};
use std::fs;
use std::time::{Duration, Instant};

/// Runs with a hook at this point that sleeps and does not listen to SIGTERM.
fn stubborn(point: &str, mark: &str) -> Sandboxed {
    let place = place(&format!("{point}: [ HOOK(stay.sh) ]"), &[&command("touch a")]);
    place.write(
        "hooks/stay.sh",
        format!(
            "trap '' TERM INT HUP\ncat > /dev/null\nfor i in $(seq 90); do sleep {mark}; done\n"
        ),
    );
    place
}

#[test]
fn d09_a_signal_in_each_hook_ends_the_run_in_order_with_all_artifacts() {
    let points = ["session_start", "user_prompt", "before_tool", "after_tool", "stop", "run_end"];
    for point in points {
        let mark = mark("1.");
        let place = stubborn(point, &mark);
        let running = exec(&place).start();
        eventually("the hook runs", || !alive(&format!("sleep {mark}")).is_empty());
        let sent = Instant::now();
        running.signal("TERM");
        let done = running.wait(Duration::from_secs(10));
        assert!(sent.elapsed() < Duration::from_secs(8), "{point}: {:?}", sent.elapsed());
        done.assert(143, "interrupted", "interrupted");
        done.assert_artifacts_agree();
        assert_eq!(outcomes(&done).last().unwrap(), &format!("{point}[0] cancelled"));
        assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new(), "no process is left");
        let ran = matches!(point, "after_tool" | "stop" | "run_end");
        assert_eq!(place.exists("ws/a"), ran, "{point}");
        let changed = done.result()["changed_files"].as_array().unwrap().len();
        assert_eq!(changed, usize::from(ran), "{point}: the diff is the truth");
    }
}

#[test]
fn a_second_signal_in_a_hook_ends_the_run_at_once() {
    for point in ["before_tool", "run_end"] {
        let mark = mark("1.");
        let place = stubborn(point, &mark);
        let running = exec(&place).start();
        eventually("the hook runs", || !alive(&format!("sleep {mark}")).is_empty());
        running.signal("INT");
        std::thread::sleep(Duration::from_millis(200));
        running.signal("INT");
        let done = running.wait(Duration::from_secs(5));
        assert_eq!(done.status, 130, "{point}: {}", done.stderr);
        eventually("the hook is gone", || alive(&format!("sleep {mark}")).is_empty());
        let report = turnkey::rollout::verify(&latest(&place)).unwrap();
        assert!(report.found.records > 0, "{point}: {report:?}");
        assert_eq!(done.result()["state"], "running", "what was not ended is never a success");
    }
}

#[test]
fn the_time_of_hooks_is_the_time_of_the_run() {
    for point in ["before_tool", "run_end"] {
        let mark = mark("300.");
        let place = place(&format!("{point}: [ HOOK(slow.sh) ]"), &[&command("touch a")]);
        place.write("hooks/slow.sh", format!("cat > /dev/null; sleep {mark}\n"));
        let done = Run::new(&place, &[&EXEC[..], &["--timeout", "2s"]].concat()).finish();
        done.assert(124, "timed_out", "limit.time");
        done.assert_artifacts_agree();
        assert!(done.took < Duration::from_secs(7), "{point}: {:?}", done.took);
        assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
    }
}

#[test]
fn run_end_is_told_of_an_interrupted_run_and_bounded_by_what_time_is_left() {
    let (called, mark) = (format!("sleep {}", mark("300.")), mark("300."));
    let place = place("run_end: [ HOOK(tell.sh), HOOK(slow.sh) ]", &[&command(&called)]);
    place.write(
        "hooks/tell.sh",
        "grep -q '\"state\":\"interrupted\",\"exit_status\":143' && exit 0; exit 1\n",
    );
    place.write("hooks/slow.sh", format!("cat > /dev/null; sleep {mark}\n"));
    let running = exec(&place).start();
    eventually("the command runs", || !alive(&called).is_empty());
    let sent = Instant::now();
    running.signal("TERM");
    let done = running.wait(Duration::from_secs(10));
    assert!(sent.elapsed() < Duration::from_secs(8), "{:?}", sent.elapsed());
    done.assert(143, "interrupted", "interrupted");
    done.assert_artifacts_agree();
    assert_eq!(outcomes(&done), ["run_end[0] allow", "run_end[1] cancelled"], "{}", done.stderr);
    assert!(done.stderr.contains("run_end[1] was not told to its end"), "{}", done.stderr);
    assert_eq!(alive(&mark), Vec::<i32>::new());
}

#[test]
fn a_run_killed_in_a_hook_goes_on_and_nothing_happens_twice() {
    let mark = mark("300.");
    let place = place(
        "session_start: [ HOOK(start.sh) ]\nbefore_tool: [ HOOK(guard.sh) ]",
        &[&command("sh add.sh one"), &command("sh add.sh two")],
    );
    place.write("ws/add.sh", "echo $1 >> log\n");
    place.write(
        "hooks/start.sh",
        "source=$(sed 's/.*\"source\":\"\\([a-z]*\\)\".*/\\1/'); echo \"{\\\"decision\\\":\\\"allow\\\",\\\"context\\\":\\\"begun by $source\\\"}\"\n",
    );
    // Stays in its second call once: the workspace remembers.
    place.write(
        "hooks/guard.sh",
        format!("in=$(cat); case $in in *'sh add.sh two'*) test -e stayed || {{ touch stayed; sleep {mark}; }};; esac\n"),
    );
    let running = exec(&place).start();
    eventually("the hook stays", || !alive(&format!("sleep {mark}")).is_empty());
    running.signal("KILL");
    running.wait(Duration::from_secs(5));
    eventually("it is gone with its runner", || alive(&format!("sleep {mark}")).is_empty());
    assert_eq!(place.read("ws/log"), "one\n");
    let done = resume(&place, "latest", &[]).finish();
    done.assert(0, "completed", "completed");
    let log = place.read("ws/log");
    assert!(log.matches("one").count() == 1 || done.stderr.contains("unknown"), "{log}");
    let records = done.rollout();
    let sources: Vec<&str> = records
        .iter()
        .filter(|record| record["hook"] == "session_start[0]")
        .map(|record| record["context"].as_str().unwrap())
        .collect();
    assert_eq!(sources, ["begun by exec", "begun by resume"]);
    // The call whose hook was killed is told as one whose effect nobody knows.
    assert!(done.stderr.contains("whether this call took effect is unknown"), "{}", done.stderr);
    let kinds = place.path("home/.local/state/turnkey/hooks");
    assert_eq!(fs::read_dir(kinds).unwrap().count(), 0, "no scratch is left");
}

#[test]
fn a_denied_prompt_is_asked_about_again_when_the_run_is_resumed() {
    let place = place("user_prompt: [ HOOK(prompt.sh) ]", &[&command("touch a")]);
    place.write(
        "hooks/prompt.sh",
        "grep -q '\"prompt\":\"Do it.\"' && echo '{\"decision\":\"deny\",\"reason\":\"no\"}'; exit 0\n",
    );
    exec(&place).finish().assert(11, "blocked", "hook.user_prompt");
    let again = resume(&place, "latest", &[]).finish();
    again.assert(11, "blocked", "hook.user_prompt");
    assert!(!place.exists("ws/a"));
    let other = resume(&place, "latest", &["Do something else."]).finish();
    // Another task may be done; the denied one stands nowhere before the model.
    let items = other.rollout().iter().filter(|r| r["item"]["fragment"] == "task").count();
    assert_eq!((other.status, items), (0, 1), "{}", other.stderr);
}
