//! Nothing of a command outlives it: whatever shape its processes take, and whatever ends it.

use super::support::{Run, Running, Sandboxed, alive, eventually, mark, script};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const POLICY: &str = r#"version: 1
exec:
  allow:
    - sleep *
    - bash [obey.sh, stay.sh, server.sh, away.sh, hold.sh]
    - sh [keep.sh, two.sh, zombies.sh]
files: { read: ["**"], write: ["**"] }
"#;
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

fn exec(args: Value) -> String {
    format!("{{ tool: exec_command, args: {args} }}")
}

/// A call that lasts until [`let_go`].
fn hold(place: &Sandboxed) -> String {
    place.write("ws/hold.sh", "while [ ! -e go ]; do sleep 0.02; done\n");
    exec(json!({"cmd": "bash hold.sh"}))
}

fn let_go(place: &Sandboxed) {
    place.write("ws/go", "");
}

/// Shapes of trees. MARK stands in the name of every process of a tree.
const SHAPES: [(&str, &str); 4] = [
    ("group kill", "sleep MARK & sleep MARK & wait\n"),
    ("setsid child", "setsid sleep MARK & setsid setsid sleep MARK & sleep MARK\n"),
    ("double fork", "( ( setsid sleep MARK & ) & )\n( sleep MARK & )\nsleep MARK\n"),
    (
        "SIGTERM ignored",
        "trap '' TERM INT HUP\n( trap '' TERM; while :; do sleep MARK; done ) &\nsetsid sleep MARK &\nwhile :; do sleep MARK; done\n",
    ),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    Timeout,
    TurnEnd,
    RunnerKilled,
}

fn gone(mark: &str) -> bool {
    alive(mark).is_empty()
}

#[test]
fn no_shape_of_a_tree_outlives_its_timeout_the_turn_or_the_runner() {
    for (shape, text) in SHAPES {
        for by in [By::Timeout, By::TurnEnd, By::RunnerKilled] {
            let mark = mark("471.");
            one(shape, &text.replace("MARK", &mark), &mark, by);
        }
    }
}

fn one(shape: &str, text: &str, mark: &str, by: By) {
    let what = format!("{shape} × {by:?}");
    let file = format!("tree-{mark}.sh");
    let place =
        Sandboxed::with_policy(&POLICY.replace("sleep *", &format!("sleep *\n    - bash {file}")));
    place.write(&format!("ws/{file}"), text);
    let call = match by {
        By::Timeout => json!({"cmd": format!("bash {file}"), "timeout_ms": 3000}),
        By::TurnEnd => json!({"cmd": format!("bash {file}"), "yield_time_ms": 200}),
        By::RunnerKilled => json!({"cmd": format!("bash {file}")}),
    };
    // The run goes on after the timeout, so that it is the timeout that ended the tree.
    place.write("model.yaml", script(&[&exec(call), &hold(&place)]));
    let running = Run::exec(&place, &MODEL).start();
    eventually(&format!("{what}: the tree stands"), || alive(mark).len() >= 3);
    match by {
        By::Timeout => {
            eventually(&what, || gone(mark));
            assert!(is_alive(&running), "{what}: the run still works when the tree is gone");
            let_go(&place);
            let done = running.wait(Duration::from_secs(20));
            done.assert(0, "completed", "completed");
            assert_eq!(done.kinds(), ["timed_out", "ok"], "{what}");
        }
        By::TurnEnd => {
            let_go(&place);
            let done = running.wait(Duration::from_secs(20));
            done.assert(0, "completed", "completed");
            assert_eq!(alive(mark), Vec::<i32>::new(), "{what}");
            assert_eq!(done.result()["processes"][0]["ended_by"], "turn_end", "{what}");
        }
        By::RunnerKilled => {
            running.signal("KILL");
            running.wait(Duration::from_secs(5));
            eventually(&what, || gone(mark));
        }
    }
}

fn is_alive(running: &Running<'_>) -> bool {
    std::fs::metadata(format!("/proc/{}", running.child.id())).is_ok()
}

#[test]
fn d69_a_grandchild_that_keeps_the_pipe_does_not_keep_the_call() {
    let (keeps, mark) = (mark("0.6"), mark("300."));
    let place = Sandboxed::with_policy(POLICY);
    let text = format!("(while :; do echo c; sleep {keeps}; done) &\nsleep {mark}\n");
    place.write("ws/keep.sh", text);
    place.write("model.yaml", script(&[&exec(json!({"cmd": "sh keep.sh", "timeout_ms": 4000}))]));
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.kinds(), ["timed_out"]);
    assert!(done.outputs()[0].contains("c\nc\n"), "{}", done.outputs()[0]);
    assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
    assert!(gone(&format!("sleep {keeps}")) && gone(&format!("sleep {mark}")));
}

#[test]
fn d70_every_signal_to_the_runner_ends_all_descendants() {
    for name in ["TERM", "INT", "HUP", "KILL"] {
        let mark = mark("1000.");
        let place = Sandboxed::with_policy(POLICY);
        place.write("ws/two.sh", format!("sleep {mark} & sleep {mark}\n"));
        place.write("model.yaml", script(&[&exec(json!({"cmd": "sh two.sh"}))]));
        let running = Run::exec(&place, &MODEL).start();
        eventually("both run", || alive(&format!("sleep {mark}")).len() == 2);
        running.signal(name);
        running.wait(Duration::from_secs(8));
        eventually(name, || gone(&format!("sleep {mark}")));
    }
}

#[test]
fn d71_a_parent_that_obeys_does_not_save_a_grandchild_that_does_not() {
    let mark = mark("0.7");
    let file = format!("obey-{mark}.sh");
    let place = Sandboxed::with_policy(&POLICY.replace("obey.sh", &file));
    place.write(
        &format!("ws/{file}"),
        format!(
            "bash -c \"trap '' TERM; while :; do sleep {mark}; done\" &\ntrap 'exit 0' TERM\nwait\n"
        ),
    );
    let call = json!({"cmd": format!("bash {file}"), "timeout_ms": 800});
    place.write("model.yaml", script(&[&exec(call)]));
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    // In the names of both: the parent's script, and what the grandchild sleeps for.
    assert_eq!(alive(&mark), Vec::<i32>::new());
}

#[test]
fn d74_the_deadline_holds_with_live_commands_and_a_model_that_never_answers() {
    use super::support::model_server::{Call, Reply, Server};
    let mark = mark("0.7");
    let file = format!("stay-{mark}.sh");
    let place = Sandboxed::with_policy(&POLICY.replace("stay.sh", &file));
    let text = format!("trap '' TERM INT HUP\nwhile :; do sleep {mark}; done\n");
    place.write(&format!("ws/{file}"), text);
    let server = Server::start([
        Reply::calls([Call::json(
            "c1",
            "exec_command",
            json!({"cmd": format!("bash {file}"), "yield_time_ms": 200}),
        )]),
        Reply::never_answer(),
    ]);
    let base = server.base_url();
    let args = ["--model", "openai/m", "--base-url", &base, "--timeout", "5s", "t"];
    let done = Run::exec(&place, &args).start().wait(Duration::from_secs(30));
    done.assert(124, "timed_out", "limit.time");
    assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
    assert_eq!(alive(&mark), Vec::<i32>::new());
    assert_eq!(done.result()["processes"][0]["ended_by"], "cancelled");
}

#[test]
fn d91_a_server_that_ignores_the_end_of_its_input_and_sigterm_holds_up_nothing() {
    let mark = mark("0.9");
    let file = format!("server-{mark}.sh");
    let place = Sandboxed::with_policy(&POLICY.replace("server.sh", &file));
    place.write(
        &format!("ws/{file}"),
        format!(
            "trap '' TERM INT HUP\n\
         setsid bash -c \"trap '' TERM; while :; do sleep {mark}; done\" &\n\
         echo listening\n\
         cat >/dev/null; echo end of input\n\
         while :; do sleep {mark}; done\n"
        ),
    );
    let call = json!({"cmd": format!("bash {file}"), "stdin": true, "yield_time_ms": 600});
    place.write("model.yaml", script(&[&exec(call)]));
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
    assert_eq!(done.result()["processes"][0]["ended_by"], "turn_end");
    assert_eq!(alive(&mark), Vec::<i32>::new());
    assert_eq!(done.stdout.trim(), "done", "the final message is there");
}

/// What the launchers of a run are forked from: the runner's only child.
pub fn starter_of(running: &Running<'_>) -> Option<i32> {
    let pid = running.child.id();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    tasks.flatten().find_map(|task| {
        let list = std::fs::read_to_string(task.path().join("children")).ok()?;
        list.split_whitespace().next()?.parse().ok()
    })
}

#[test]
fn what_a_killed_launcher_leaves_is_ended_by_the_starter() {
    let mark = mark("300.");
    for layers in ["", "sandbox: { layers: [landlock, seccomp] }\n"] {
        let place = Sandboxed::with_policy(&format!("{POLICY}{layers}"));
        let tree = format!("( ( setsid sleep {mark} & ) & )\n( sleep {mark} & )\nsleep {mark}\n");
        place.write("ws/away.sh", tree);
        let call = exec(json!({"cmd": "bash away.sh"}));
        place.write("model.yaml", script(&[&call, &hold(&place)]));
        let running = Run::exec(&place, &MODEL).start();
        eventually("the tree stands", || alive(&format!("sleep {mark}")).len() == 3);
        let starter = starter_of(&running).expect("the kernel lists children");
        // The runner knows that the command began: it has the next launcher made ready then.
        eventually("two launchers", || super::ahead::living(starter).len() == 2);
        let launcher = super::ahead::living(starter)[0];
        // SAFETY: no pointers; the launcher lives, as the runner has not been told of its end.
        assert_eq!(unsafe { libc::kill(launcher, libc::SIGKILL) }, 0);
        let killed = Instant::now();
        eventually("all are gone", || gone(&format!("sleep {mark}")));
        assert!(killed.elapsed() < Duration::from_secs(10), "{layers} {:?}", killed.elapsed());
        assert_eq!(starter_of(&running), Some(starter), "it goes on");
        let_go(&place);
        let done = running.wait(Duration::from_secs(20));
        done.assert(0, "completed", "completed");
        assert_eq!(done.kinds(), ["failed", "ok"], "{:?}", done.outputs());
        assert!(done.outputs()[0].contains("is not known"), "{:?}", done.outputs());
    }
}

#[test]
fn as_the_first_process_of_a_container_the_runner_reaps_strangers_and_leaves_living_ones_alone() {
    let mark = mark("300.");
    // On the floor a command sees the processes of the machine, and so what became of strangers.
    let floor = format!("{POLICY}sandbox: {{ layers: [landlock, seccomp] }}\n");
    let place = Sandboxed::with_policy(&floor);
    place.write(
        "ws/zombies.sh",
        "sleep 1.2\ngrep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l\necho own: $(cat /proc/1/comm)\n",
    );
    place.write("model.yaml", script(&[&exec(json!({"cmd": "sh zombies.sh"}))]));
    let mut run = Run::exec(&place, &MODEL);
    // A shell that leaves a living child, and a grandchild that ends later, becomes the runner.
    let inner = format!(
        "sleep {mark} & (sleep 0.6 & sleep 0.5 & ); exec {} \"$@\"",
        super::support::binary().display()
    );
    let args: Vec<std::ffi::OsString> = run.command().get_args().map(Into::into).collect();
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", &inner, "sh"]).args(args);
    let probe = std::process::Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "true"])
        .output();
    if !probe.is_ok_and(|done| done.status.success()) {
        println!("SKIPPED: no process namespace can be made here (needs root and unshare)");
        return;
    }
    let own = run.command();
    for (name, value) in own.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
        .env_remove("RUST_BACKTRACE")
        .current_dir(place.path(""))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    *own = command;
    let done = run.finish();
    done.assert(0, "completed", "completed");
    let told = &done.outputs()[0];
    assert!(told.contains("\n0\nown: turnkey"), "no zombie, and the runner is process 1: {told}");
    eventually("the namespace is gone", || gone(&format!("sleep {mark}")));
}
