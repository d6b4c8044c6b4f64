//! A runner that gets no memory any more: it is ended like by the kernel's own killer, in the middle
//! of whatever it does. Nothing is left alive, the record is a valid prefix, and a resume goes on.
//!
//! No memory is used up: the limit of the live runner's address space is set to what it has, so that
//! its next larger allocation finds none.

use super::support::model_server::{Call, Reply, Server};
use super::support::recorded::{latest, records, resume, turnkey};
use super::support::{
    Run, Running, Sandboxed, alive, at_work_in, command, eventually, mark, script,
};
use serde_json::json;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

const POLICY: &str = "version: 1\nexec: { allow: [\"sleep *\", \"sh loud.sh\", \"true\", \"touch *\"] }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

/// From now on the runner gets no more memory: no address space, and no use of what the allocator has
/// set aside of it.
fn starve(running: &Running<'_>) {
    let pid = running.child.id().cast_signed();
    let limit = libc::rlimit { rlim_cur: 1, rlim_max: libc::RLIM_INFINITY };
    for resource in [libc::RLIMIT_AS, libc::RLIMIT_DATA] {
        // SAFETY: the limit is read, nothing is written back; the child is not reaped yet.
        let set = unsafe { libc::prlimit(pid, resource, &raw const limit, std::ptr::null_mut()) };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Waits for the end, which must be that of a process that found no memory.
fn aborted(mut running: Running<'_>) -> String {
    let stderr = running.child.stderr.take().unwrap();
    let stderr = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = running.child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            running.child.kill().unwrap();
            panic!("it went on without memory: {}", stderr.join().unwrap());
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let text = stderr.join().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{status:?}: {text}");
    // The allocator's own words, or those of a thread that could not be started.
    let words = ["memory allocation of", "Cannot allocate memory"];
    assert!(words.iter().any(|words| text.contains(words)), "{text}");
    text
}

/// What must hold then: no success, no process, a record that is a valid prefix.
fn check(place: &Sandboxed) {
    eventually("nothing is left alive", || at_work_in(place).is_empty());
    let result: serde_json::Value = serde_json::from_str(&place.read("out/result.json")).unwrap();
    assert_eq!(result["state"], "running", "what was not ended is never a success");
    let (status, stdout, stderr) = turnkey(place, &["rollout", "verify", "out"]);
    assert_eq!(status, 0, "{stdout}{stderr}");
    assert!(stdout.contains("The last run has no end"), "{stdout}");
}

#[test]
fn a_runner_without_memory_during_a_command_leaves_nothing_and_is_resumed() {
    let mark = mark("300.");
    let place = Sandboxed::with_policy(POLICY);
    // It waits until the limit is set, and then says more than the runner has room for.
    place.write(
        "ws/loud.sh",
        "echo begun >> begun\nwhile [ ! -e go ]; do sleep 0.05; done\n\
         head -c 30000000 /dev/zero | tr '\\0' x\n",
    );
    let stays = json!({"argv": ["sleep", &mark], "yield_time_ms": 50});
    let stays = format!("{{ tool: exec_command, args: {stays} }}");
    let calls = [&command("touch a"), &stays, &command("sh loud.sh"), &command("touch b")];
    place.write("model.yaml", script(&calls.map(String::as_str)));
    let running = Run::exec(&place, &MODEL).start();
    eventually("the command runs", || place.exists("ws/begun"));
    assert!(!alive(&format!("sleep {mark}")).is_empty(), "another one stays");
    starve(&running);
    place.write("ws/go", "");
    aborted(running);
    check(&place);
    assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
    assert_eq!(place.read("ws/begun"), "begun\n");
    let done = resume(&place, "out", &[]).finish();
    done.assert(0, "completed", "completed");
    assert!(done.stderr.contains("whether this call took effect is unknown"), "{}", done.stderr);
    assert_eq!(place.read("ws/begun"), "begun\n", "it is not run again");
    assert!(place.exists("ws/a") && place.exists("ws/b"));
}

#[test]
fn a_runner_without_memory_while_the_model_answers_leaves_nothing_and_is_resumed() {
    let place = Sandboxed::with_policy(POLICY);
    let call =
        |id: &str, cmd: &str| Reply::calls([Call::json(id, "exec_command", json!({"cmd": cmd}))]);
    // Made before, as a stream of it is slow to make: one whole event, and one that does not end and
    // is larger than what the allocator may have set aside.
    let name = "response.output_text.delta";
    let event = json!({"type": name, "item_id": "m", "output_index": 0, "delta": "many words "});
    let long = format!("event: {name}\ndata: {event}\n\nevent: {name}\ndata: {{\"delta\": \"")
        + &"many words ".repeat(2_500_000);
    let server = Server::start([
        call("c1", "touch a"),
        Reply::raw_bytes([(Duration::from_millis(2500), long)]),
        call("c2", "touch b"),
        Reply::message("done"),
    ]);
    let base = server.base_url();
    let model = ["--model", "openai/m", "--base-url", &base, "t"];
    let running = Run::exec(&place, &model).start();
    assert!(server.wait_for(2, Duration::from_secs(60)));
    starve(&running);
    aborted(running);
    check(&place);
    // Nothing of the answer that was cut counts.
    let before = records(&latest(&place));
    assert!(before.iter().all(|record| !record.to_string().contains("many words")));
    let done = resume(&place, "out", &[]).finish();
    done.assert(0, "completed", "completed");
    assert!(place.exists("ws/a") && place.exists("ws/b"));
    assert_eq!(server.request_count(), 4);
    server.assert_clean();
    assert!(fs::metadata(latest(&place)).unwrap().len() > 0);
}
