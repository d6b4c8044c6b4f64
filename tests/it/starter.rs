//! The small processes between the runner and its commands: what happens when somebody stops or ends one
//! of them, what comes through them, and what is left of them.

use super::ahead::{LIMITS, NAMESPACES, Place, each_layer_set, is_there, starters};
use super::support::eventually;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use turnkey::exec::sandbox::Layers;
use turnkey::exec::{ProcessEnd, Wiring};

fn signal(pid: i32, signal: i32) {
    // SAFETY: no pointers; a process that these tests started and that is not reaped yet.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "{}", std::io::Error::last_os_error());
}

/// The starter, the launcher that waits and the child that waits in it.
fn waiting(place: &Place) -> (i32, i32, i32) {
    place.holds("true");
    place.ready(Duration::from_secs(60)).expect("a launcher waits for the next command")
}

/// Runs a script that leaves a mark, which must fail within a time, and then one that must work.
fn fails_and_goes_on(place: &Place, what: &str) -> String {
    let began = Instant::now();
    let error = place.try_run("echo ran >open/ran").unwrap_err().to_string();
    assert!(began.elapsed() < Duration::from_secs(40), "{what}: {:?}", began.elapsed());
    place.holds("echo next");
    error
}

#[test]
fn a_stopped_starter_holds_up_one_command_and_what_it_was_told_is_void() {
    let place = Place::new(Layers::FLOOR, false);
    let (starter, ..) = waiting(&place);
    signal(starter, libc::SIGSTOP);
    // One launcher was ready before.
    place.holds("true");
    let error = fails_and_goes_on(&place, "starter");
    assert!(error.contains("did not answer in time"), "{error}");
    signal(starter, libc::SIGCONT);
    place.rest(500);
    assert!(!place.work().join("open/ran").exists(), "it ran after it had failed");
    eventually("the old starter has gone", || !is_there(starter));
}

#[test]
fn a_waiting_launcher_or_child_that_was_stopped_runs_nothing_and_does_not_stay() {
    each_layer_set(|layers| {
        for child in [false, true] {
            let what = format!("{layers:?}, child: {child}");
            let place = Place::new(layers, false);
            let (_, launcher, last) = waiting(&place);
            let stopped = if child { last } else { launcher };
            signal(stopped, libc::SIGSTOP);
            if !child && layers.namespaces {
                // The keeper in the namespaces does not need it.
                place.holds("true");
                signal(launcher, libc::SIGCONT);
            } else {
                let error = fails_and_goes_on(&place, &what);
                let (reported, unknown) = ("was stopped before its program ran", "answer in time");
                assert!(error.contains(if child { reported } else { unknown }), "{what}: {error}");
                let work = place.work();
                assert!(!work.join("open/ran").exists(), "{what}");
                if !child {
                    signal(launcher, libc::SIGCONT);
                }
                eventually(&what, || !is_there(last) && !is_there(launcher));
                assert!(!work.join("open/ran").exists(), "{what}: it ran later");
            }
        }
    });
}

#[test]
fn a_launcher_or_child_that_was_killed_runs_nothing_twice_and_nothing_else() {
    each_layer_set(|layers| {
        for which in ["starter", "launcher", "child"] {
            let what = format!("{layers:?} {which}");
            let place = Place::new(layers, false);
            let (starter, launcher, child) = waiting(&place);
            let killed = match which {
                "starter" => starter,
                "launcher" => launcher,
                _ => child,
            };
            signal(killed, libc::SIGKILL);
            place.rest(100);
            let count = || {
                let text = std::fs::read_to_string(place.work().join("open/count"));
                text.unwrap_or_default().len()
            };
            match place.try_run("printf x >>open/count") {
                Ok(done) => {
                    assert_eq!((done.end, count()), (ProcessEnd::Exited(0), 1), "{what}");
                }
                Err(error) => {
                    let error = error.to_string();
                    assert_eq!((which, count()), ("child", 0), "{what}: {error}");
                    assert!(error.contains("killed before its program ran"), "{what}: {error}");
                }
            }
            place.holds("echo next");
        }
    });
}

/// Prints what is open beyond the standard streams, and what those are.
const OPEN: &str = "python3 -c '
import os
for fd in range(4096):
    try: print(fd, os.readlink(f\"/proc/self/fd/{fd}\").split(\":\")[0])
    except OSError: pass
'";

#[test]
fn a_command_has_its_three_streams_and_nothing_else_open() {
    let sets = |check: &dyn Fn(Layers)| {
        each_layer_set(check);
        check(Layers { landlock: true, ..Layers::default() });
        check(Layers { seccomp: true, ..Layers::default() });
        if crate::sandbox::has_namespaces() {
            check(Layers { namespaces: true, ..Layers::default() });
        }
    };
    sets(&|layers| {
        let place = Place::new(layers, false);
        for _ in ["new", "ahead"] {
            assert_eq!(place.holds(OPEN), "0 /dev/null\n1 pipe\n2 pipe\n", "{layers:?}");
        }
        let cancel = CancellationToken::new();
        let terminal = Wiring::Terminal(turnkey::exec::Size::default());
        for (wiring, want) in [(Wiring::Open, "0 pipe 1 pipe 2 pipe"), (terminal, "/dev/pts/")] {
            let text = place.runtime.block_on(async {
                let live = place.executor.start(place.permit(OPEN), wiring, LIMITS).await.unwrap();
                live.ended().await;
                live.take_output().text
            });
            let lines: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(lines.len(), 6, "{layers:?} {wiring:?}: {text}");
            assert!(lines.join(" ").contains(want), "{layers:?} {wiring:?}: {text}");
        }
        let converse =
            place.executor.converse(place.permit(OPEN), vec![b'x'], 9999, LIMITS, &cancel);
        let done = place.runtime.block_on(converse).unwrap();
        assert_eq!(done.output.text, "0 pipe\n1 pipe\n2 pipe\n", "{layers:?}");
    });
}

#[test]
fn sixteen_commands_at_once_and_no_pipe_of_one_is_held_by_another() {
    each_layer_set(|layers| {
        let place = Place::new(layers, false);
        let began = Instant::now();
        place.runtime.block_on(async {
            let mut lives = Vec::new();
            for _ in 0..16 {
                let permit = place.permit("cat");
                lives.push(place.executor.start(permit, Wiring::Open, LIMITS).await.unwrap());
            }
            for (number, live) in lives.iter().enumerate() {
                live.write(format!("{number}\n").as_bytes()).unwrap();
                live.end_input().unwrap();
            }
            for (number, live) in lives.iter().enumerate() {
                live.ended().await;
                let end = live.end().unwrap().unwrap();
                assert_eq!(end.end, ProcessEnd::Exited(0), "{layers:?} {number}");
                assert_eq!(live.take_output().text, format!("{number}\n"));
            }
        });
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    });
}

/// Open descriptors, and pages that are its own, of a process.
fn size_of(pid: &str) -> (usize, usize) {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    if fds == 0 {
        println!("SKIPPED in part: only root sees the descriptors of the starter");
    }
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: Vec<usize> = pages.split_whitespace().map(|part| part.parse().unwrap()).collect();
    (fds, pages[1].saturating_sub(pages[2]))
}

#[test]
fn many_commands_leave_nothing_in_the_starter_or_the_runner() {
    let place = Place::new(Layers::FLOOR, false);
    let (starter, ..) = waiting(&place);
    let (before, own) = (size_of(&starter.to_string()), size_of("self").0);
    let count = std::env::var("TURNKEY_TEST_COMMANDS").ok().and_then(|text| text.parse().ok());
    let cancel = CancellationToken::new();
    for _ in 0..count.unwrap_or(60) {
        let run = place.executor.run(place.permit("true"), LIMITS, &cancel);
        place.runtime.block_on(run).unwrap();
    }
    let (same, ..) = place.ready(Duration::from_secs(60)).expect("one launcher and its child wait");
    assert_eq!((same, starters()), (starter, vec![starter]));
    let after = size_of(&starter.to_string());
    assert_eq!(before.0, after.0, "descriptors of the starter");
    assert!(after.1 <= before.1 + 64, "pages of the starter: {before:?} {after:?}");
    // Tests beside this one open and close some too.
    println!("descriptors of this process: {own}, then {}", size_of("self").0);
}

#[test]
fn orders_that_cannot_be_carried_out_are_refused_and_the_next_one_runs() {
    each_layer_set(|layers| {
        let place = Place::new(layers, false);
        place.holds("true");
        // Below the limit of an order. A build for tests takes seconds to read one just below it, and a
        // launcher has some seconds to answer.
        let mib = if cfg!(debug_assertions) { 3 } else { 15 };
        let long = format!(": {}", "x".repeat(mib << 20));
        let too_long = format!(": {}", "x".repeat(17 << 20));
        let cases = [("echo a\0b", "NUL"), (&long, "131072"), (&too_long, "launcher")];
        for (script, want) in cases {
            for _ in ["ahead", "again"] {
                let began = Instant::now();
                let error = place.try_run(script).unwrap_err().to_string();
                assert!(error.contains(want), "{layers:?} {want}: {error}");
                assert!(began.elapsed() < Duration::from_secs(20), "{want}: {:?}", began.elapsed());
            }
            place.holds("true");
        }
        let gone = place.work().join("open/gone");
        std::fs::create_dir(&gone).unwrap();
        std::fs::remove_dir(&gone).unwrap();
        let attributes = turnkey::policy::Attributes::default();
        let permit = turnkey::policy::ExecPermit::operator("t", "true", gone, attributes);
        let run = place.executor.start(permit, Wiring::Closed, LIMITS);
        let error = place.runtime.block_on(run).err().unwrap().to_string();
        assert!(error.contains("open/gone: No such file"), "{error}");
        place.holds("true");
    });
}

/// Tries to get at every process of ours that it sees, its own launcher and the waiting ones.
const REACH: &str = r#"python3 -c '
import ctypes, os, signal, time
time.sleep(0.2)
libc = ctypes.CDLL(None, use_errno=True)
seen = 0
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    try: line = open(f"/proc/{pid}/cmdline").read()
    except OSError: continue
    if "turnkey-launcher" not in line or pid == os.getpid(): continue
    seen += 1
    for name in ["mem", "environ", "maps", "auxv"]:
        try: open(f"/proc/{pid}/{name}", "rb").close(); print(pid, name)
        except OSError: pass
    for name in ["cwd", "root", "exe", "fd/1", "fd/3"]:
        try: print(pid, name, os.readlink(f"/proc/{pid}/{name}"))
        except OSError: pass
    try: print(pid, os.listdir(f"/proc/{pid}/map_files"))
    except OSError: pass
    try: os.kill(pid, 0); print(pid, "signal")
    except OSError: pass
    if libc.ptrace(16, pid, None, None) == 0: print(pid, "ptrace")
    fd = libc.syscall(434, pid, 0)
    if fd >= 0 and libc.syscall(438, fd, 0, 0) >= 0: print(pid, "pidfd_getfd")
print("seen", seen > 0)
'"#;

#[test]
fn nothing_of_the_starter_or_a_launcher_that_waits_is_within_reach_of_a_command() {
    let check = |layers: Layers| {
        let place = Place::new(layers, false);
        place.holds("true");
        let text = place.holds(REACH);
        // Landlock (since Linux 6.12) and a process namespace hold signals back, the filter does not.
        let is_scoped = layers.landlock && turnkey::exec::sandbox::landlock_abi() >= 6;
        let got: Vec<&str> = text
            .lines()
            .filter(|line| is_scoped || !line.ends_with("signal"))
            .filter(|line| !line.starts_with("seen"))
            .collect();
        assert_eq!(got, Vec::<&str>::new(), "{layers:?}");
        assert!(text.contains("seen True"), "{layers:?}: {text}");
    };
    each_layer_set(check);
    check(Layers { landlock: true, ..Layers::default() });
    check(Layers { seccomp: true, ..Layers::default() });
    if crate::sandbox::has_namespaces() {
        check(NAMESPACES);
    }
}
