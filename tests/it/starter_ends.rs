//! What is left when the small process is gone from which launchers come, or the run above it, or the
//! binary.

use super::ahead::{below, is_there, living, waits};
use super::orphans::starter_of;
use super::support::{Run, Running, Sandboxed, alive, copied_binary, eventually, mark, script};
use serde_json::json;
use std::time::{Duration, Instant};

const POLICY: &str = "version: 1\nexec: { allow: [\"sleep *\", \"bash away.sh\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

fn exec(args: serde_json::Value) -> String {
    format!("{{ tool: exec_command, args: {args} }}")
}

/// What a run started, and the starter, which is the first of it.
fn started_by(running: &Running<'_>) -> (i32, Vec<i32>) {
    let starter = starter_of(running).expect("the kernel lists children");
    (starter, [vec![starter], below(starter)].concat())
}

#[test]
fn nothing_outlives_a_killed_runner_whatever_was_stopped_before() {
    let mark = mark("300.");
    for layers in ["", "sandbox: { layers: [landlock, seccomp] }\n"] {
        for what in ["nothing", "starter stopped", "launchers stopped"] {
            let place = Sandboxed::with_policy(&format!("{POLICY}{layers}"));
            place.write(
                "ws/away.sh",
                format!("( ( setsid sleep {mark} & ) & )\n( sleep {mark} & )\nsleep {mark}\n"),
            );
            place.write("model.yaml", script(&[&exec(json!({"cmd": "bash away.sh"}))]));
            let running = Run::exec(&place, &MODEL).start();
            eventually("the tree stands", || alive(&format!("sleep {mark}")).len() == 3);
            let starter = starter_of(&running).expect("the kernel lists children");
            let namespaces = layers.is_empty() && crate::sandbox::has_namespaces();
            eventually(
                "a launcher waits for the next command",
                || matches!(living(starter)[..], [_, next] if waits(next, namespaces).is_some()),
            );
            let launchers = living(starter);
            let (_, all) = started_by(&running);
            let send = |pid: i32, signal: i32| {
                // SAFETY: no pointers; processes of the run, which lives.
                assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "{what}");
            };
            match what {
                "starter stopped" => send(starter, libc::SIGSTOP),
                "launchers stopped" => launchers.iter().for_each(|pid| send(*pid, libc::SIGSTOP)),
                _ => {}
            }
            running.signal("KILL");
            running.wait(Duration::from_secs(5));
            let killed = Instant::now();
            eventually(&format!("{what} {layers}"), || all.iter().all(|pid| !is_there(*pid)));
            assert!(killed.elapsed() < Duration::from_secs(10), "{what}: {:?}", killed.elapsed());
        }
    }
}

#[test]
fn the_processes_between_hold_nothing_open_that_the_runner_was_given() {
    let mark = mark("300.");
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(&[&exec(json!({"cmd": format!("sleep {mark}")}))]));
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut run = Run::exec(&place, &MODEL);
    let fd = writer.as_raw_fd();
    // SAFETY: one system call between fork and exec.
    unsafe {
        run.command().pre_exec(move || match libc::dup2(fd, 77) {
            77 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let running = run.start();
    drop(writer);
    eventually("it runs", || alive(&format!("sleep {mark}")).len() == 1);
    let (_, all) = started_by(&running);
    for pid in all {
        assert!(!std::path::Path::new(&format!("/proc/{pid}/fd/77")).exists(), "{pid}");
    }
    running.signal("KILL");
    // Returns when nobody holds the other end.
    std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
    running.wait(Duration::from_secs(5));
}

#[test]
fn a_killed_starter_costs_one_command_and_a_new_one_comes_from_a_binary_that_is_gone() {
    let mark = mark("300.");
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/away.sh", format!("( ( setsid sleep {mark} & ) & )\nsleep {mark}\n"));
    place.write(
        "model.yaml",
        script(&[&exec(json!({"cmd": "bash away.sh"})), &exec(json!({"cmd": "sleep 0.96"}))]),
    );
    let copy = place.path("turnkey");
    copied_binary(&copy);
    let mut run = Run::exec(&place, &MODEL);
    let mut command = std::process::Command::new(&copy);
    let own = run.command();
    command.args(own.get_args()).env_clear().current_dir(place.path(""));
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    *own = command;
    let running = run.start();
    eventually("the tree stands", || alive(&format!("sleep {mark}")).len() == 2);
    let (starter, all) = started_by(&running);
    std::fs::remove_file(&copy).unwrap();
    std::fs::write(&copy, "#!/bin/false\n").unwrap();
    // SAFETY: no pointers; it is not reaped, as the run has not been told of its end.
    assert_eq!(unsafe { libc::kill(starter, libc::SIGKILL) }, 0);
    eventually("all are gone", || all.iter().all(|pid| !is_there(*pid)));
    let done = running.wait(Duration::from_secs(20));
    done.assert(0, "completed", "completed");
    assert_eq!(done.kinds(), ["failed", "ok"], "{:?}", done.outputs());
}
