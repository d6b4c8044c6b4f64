//! Nothing of a command outlives it: whatever shape its processes take, and whatever ends it.

use super::support::{Run, Running, Sandboxed, alive, eventually, script};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const POLICY: &str = r#"version: 1
exec:
  allow:
    - sleep *
    - bash [obey.sh, stay.sh, server.sh, away.sh]
    - sh [keep.sh, two.sh, zombies.sh]
files: { read: ["**"], write: ["**"] }
"#;
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

fn exec(args: Value) -> String {
    format!("{{ tool: exec_command, args: {args} }}")
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
    for (number, (shape, text)) in SHAPES.iter().enumerate() {
        for by in [By::Timeout, By::TurnEnd, By::RunnerKilled] {
            let mark = format!("471{number}.{}77", by as u8);
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
        By::Timeout => json!({"cmd": format!("bash {file}"), "timeout_ms": 900}),
        By::TurnEnd => json!({"cmd": format!("bash {file}"), "yield_time_ms": 700}),
        By::RunnerKilled => json!({"cmd": format!("bash {file}")}),
    };
    // The run goes on for a while after the timeout, so that it is the timeout that ended the tree.
    place.write("model.yaml", script(&[&exec(call), &exec(json!({"cmd": "sleep 1.4"}))]));
    if by == By::TurnEnd {
        place.write(
            "model.yaml",
            script(&[&exec(json!({"cmd": format!("bash {file}"), "yield_time_ms": 700}))]),
        );
    }
    let running = Run::exec(&place, &MODEL).start();
    eventually(&format!("{what}: the tree stands"), || alive(mark).len() >= 3);
    match by {
        By::Timeout => {
            eventually(&what, || gone(mark));
            assert!(is_alive(&running), "{what}: the run still works when the tree is gone");
            let done = running.wait(Duration::from_secs(20));
            done.assert(0, "completed", "completed");
            assert_eq!(done.kinds(), ["timed_out", "ok"], "{what}");
        }
        By::TurnEnd => {
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
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/keep.sh", "(while :; do echo c; sleep 0.69; done) &\nsleep 300.69\n");
    place.write("model.yaml", script(&[&exec(json!({"cmd": "sh keep.sh", "timeout_ms": 2000}))]));
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.kinds(), ["timed_out"]);
    assert!(done.outputs()[0].contains("c\nc\n"), "{}", done.outputs()[0]);
    assert!(done.took < Duration::from_secs(8), "{:?}", done.took);
    assert!(gone("sleep 0.69") && gone("sleep 300.69"));
}

#[test]
fn d70_every_signal_to_the_runner_ends_all_descendants() {
    for (name, number) in [("TERM", 1), ("INT", 2), ("HUP", 3), ("KILL", 4)] {
        let mark = format!("1000.70{number}");
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
    let place = Sandboxed::with_policy(POLICY);
    place.write(
        "ws/obey.sh",
        "bash -c \"trap '' TERM; while :; do sleep 0.71; done\" &\ntrap 'exit 0' TERM\nwait\n",
    );
    place.write("model.yaml", script(&[&exec(json!({"cmd": "bash obey.sh", "timeout_ms": 800}))]));
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    assert!(gone("sleep 0.71") && gone("obey.sh"), "{:?}", alive("0.71"));
}

#[test]
fn d74_the_deadline_holds_with_live_commands_and_a_model_that_never_answers() {
    use super::support::model_server::{Call, Reply, Server};
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/stay.sh", "trap '' TERM INT HUP\nwhile :; do sleep 0.74; done\n");
    let server = Server::start([
        Reply::calls([Call::json(
            "c1",
            "exec_command",
            json!({"cmd": "bash stay.sh", "yield_time_ms": 200}),
        )]),
        Reply::never_answer(),
    ]);
    let base = server.base_url();
    let args = ["--model", "openai/m", "--base-url", &base, "--timeout", "3s", "t"];
    let done = Run::exec(&place, &args).start().wait(Duration::from_secs(10));
    done.assert(124, "timed_out", "limit.time");
    assert!(done.took < Duration::from_secs(8), "{:?}", done.took);
    assert!(gone("sleep 0.74") && gone("stay.sh"));
    assert_eq!(done.result()["processes"][0]["ended_by"], "cancelled");
}

#[test]
fn d91_a_server_that_ignores_the_end_of_its_input_and_sigterm_holds_up_nothing() {
    let place = Sandboxed::with_policy(POLICY);
    place.write(
        "ws/server.sh",
        "trap '' TERM INT HUP\n\
         setsid bash -c \"trap '' TERM; while :; do sleep 0.91; done\" &\n\
         echo listening\n\
         cat >/dev/null; echo end of input\n\
         while :; do sleep 0.91; done\n",
    );
    place.write(
        "model.yaml",
        script(&[&exec(json!({"cmd": "bash server.sh", "stdin": true, "yield_time_ms": 600}))]),
    );
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    assert!(done.took < Duration::from_secs(8), "{:?}", done.took);
    assert_eq!(done.result()["processes"][0]["ended_by"], "turn_end");
    assert!(gone("sleep 0.91") && gone("server.sh"));
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
    for layers in ["", "sandbox: { layers: [landlock, seccomp] }\n"] {
        let place = Sandboxed::with_policy(&format!("{POLICY}{layers}"));
        let tree = "( ( setsid sleep 300.99 & ) & )\n( sleep 300.99 & )\nsleep 300.99\n";
        place.write("ws/away.sh", tree);
        place.write(
            "model.yaml",
            script(&[&exec(json!({"cmd": "bash away.sh"})), &exec(json!({"cmd": "sleep 1.1"}))]),
        );
        let running = Run::exec(&place, &MODEL).start();
        eventually("the tree stands", || alive("sleep 300.99").len() == 3);
        let starter = starter_of(&running).expect("the kernel lists children");
        let launcher = super::ahead::children_of(starter)[0];
        // SAFETY: no pointers; the launcher lives, as the runner has not been told of its end.
        assert_eq!(unsafe { libc::kill(launcher, libc::SIGKILL) }, 0);
        let killed = Instant::now();
        eventually("all are gone", || gone("sleep 300.99"));
        assert!(killed.elapsed() < Duration::from_secs(2), "{layers} {:?}", killed.elapsed());
        assert_eq!(starter_of(&running), Some(starter), "it goes on");
        let done = running.wait(Duration::from_secs(20));
        done.assert(0, "completed", "completed");
        assert_eq!(done.kinds(), ["failed", "ok"], "{:?}", done.outputs());
        assert!(done.outputs()[0].contains("is not known"), "{:?}", done.outputs());
    }
}

#[test]
fn as_the_first_process_of_a_container_the_runner_reaps_strangers_and_leaves_living_ones_alone() {
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
        "sleep 300.98 & (sleep 0.6 & sleep 0.5 & ); exec {} \"$@\"",
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
    eventually("the namespace is gone", || gone("sleep 300.98"));
}
