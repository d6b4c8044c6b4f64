//! What a command prints, as the model gets it: bounded, both ends, errors with a share of their own,
//! and no terminal or prompt that could hold anything up.

use super::support::recorded::{HELD, go_after};
use super::support::{Run, Sandboxed, command, patch, script};
use serde_json::json;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

const POLICY: &str = r#"version: 1
exec:
  allow:
    - "true"
    - printf ...
    - head -c * *
    - env
    - git push ...
    - git log ...
    - sh [long.sh, noise.sh, bytes.sh, tty.sh]
    - { cmd: "sh push.sh", network: open }
    - echo ...
    - wc ...
files: { read: ["**"], write: ["**"] }
"#;
const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

fn place(calls: &[&str]) -> Sandboxed {
    let place = Sandboxed::with_policy(POLICY);
    place.write("model.yaml", script(calls));
    place
}

#[test]
fn d75_few_very_long_lines_keep_both_ends_and_the_exit_code_stands_first() {
    let place = place(&[&command("sh long.sh")]);
    place.write(
        "ws/long.sh",
        "echo begun\nfor i in 1 2 3 4; do head -c 500000 /dev/zero | tr '\\0' x; echo; done\n\
         echo 'error: boom'; exit 101\n",
    );
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    let told = &done.outputs()[0];
    assert!(told.starts_with("exit code: 101\n"), "{}", &told[..80]);
    assert!(told.contains("begun") && told.trim_end().ends_with("error: boom"));
    assert_eq!(told.matches("bytes cut …]").count(), 1, "the cut is told once");
    let cut = 4 * 500_001 + "begun\nerror: boom\n".len() - 40 * 1024;
    assert!(told.contains(&format!("[… {cut} bytes cut …]")), "{cut} bytes: {told:.0}");
    assert!(told.len() < 48 * 1024, "{}", told.len());
}

#[test]
fn d76_bytes_that_are_no_text_reach_the_model_as_text_and_every_line_stays_json() {
    let place = place(&[
        &command("sh bytes.sh"),
        &command("head -c 1000000 /dev/urandom"),
        &command("true"),
    ]);
    place.write("ws/bytes.sh", "printf '\\377\\376\\200ok\\000\\355\\240\\200end'\n");
    let done = Run::exec(&place, &[&["--json"][..], &MODEL].concat()).finish();
    done.assert(0, "completed", "completed");
    done.assert_events_parse();
    let told = done.outputs();
    assert!(told[0].contains("ok") && told[0].contains("end"), "{}", told[0]);
    assert!(told[1].contains("bytes cut …]"), "{:.200}", told[1]);
    assert_eq!(done.kinds(), ["ok", "ok", "ok"]);
}

#[test]
fn d77_the_reason_on_standard_error_survives_any_noise() {
    let place = place(&[&command("sh noise.sh")]);
    place.write(
        "ws/noise.sh",
        "echo 'reason 1' >&2; echo 'reason 2' >&2; echo 'reason 3' >&2\n\
         head -c 30000 /dev/zero | tr '\\0' a\nsleep 0.3; echo 'in the middle' >&2; sleep 0.3\n\
         head -c 5000000 /dev/zero | tr '\\0' b\nexit 1\n",
    );
    let done = Run::exec(&place, &MODEL).finish();
    let told = &done.outputs()[0];
    assert!(told.starts_with("exit code: 1\n"));
    let tail = told.split("[the end of standard error]").nth(1).expect("a share of its own");
    for reason in ["reason 1", "reason 3", "in the middle"] {
        assert!(tail.contains(reason), "{reason}: {tail}");
    }
}

#[test]
fn d78_the_locale_is_utf8_whatever_the_runner_has_and_names_pass_unchanged() {
    let place = place(&[
        &command("echo ABC你好DEF > 中文/x.txt"),
        &command("wc -m 中文/x.txt"),
        &command("env"),
    ]);
    place.write("ws/中文/keep", "");
    let done = Run::exec(&place, &MODEL).env("LC_ALL", "C").env("LC_CTYPE", "C").finish();
    done.assert(0, "completed", "completed");
    assert_eq!(place.read("ws/中文/x.txt"), "ABC你好DEF\n");
    let told = done.outputs();
    assert!(told[1].contains("9 中文/x.txt"), "characters, not bytes: {}", told[1]);
    assert!(told[2].contains("LC_CTYPE=C.UTF-8") && !told[2].contains("LC_ALL"), "{}", told[2]);
    assert_eq!(done.result()["changed_files"][0]["path"], "中文/x.txt");
}

/// The runner's peak memory in KiB while a command prints so many bytes.
fn peak(bytes: &str, log: Option<&str>) -> u64 {
    let call = command(&format!("head -c {bytes} /dev/zero"));
    let place = match log {
        Some(limit) => logging(limit, &[&call]),
        None => place(&[&call]),
    };
    let mut running = Run::exec(&place, &MODEL).start();
    let status = format!("/proc/{}/status", running.child.id());
    let mut peak = 0;
    while running.child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    let done = running.wait(Duration::from_secs(60));
    done.assert(0, "completed", "completed");
    peak
}

#[test]
fn memory_stays_the_same_for_much_output() {
    let (little, much) = (peak("1000", None), peak("400000000", None));
    assert!(much < little + 4 * 1024, "{little} KiB for 1 kB, {much} KiB for 400 MB");
    // With the log: a few chunks more, however slow the disk.
    let logged = peak("50000000", Some("64MiB"));
    assert!(logged < little + 6 * 1024, "{little} KiB for 1 kB, {logged} KiB for 50 MB logged");
}

/// The same with whole outputs kept, this much of each.
fn logging(limit: &str, calls: &[&str]) -> Sandboxed {
    let policy = format!("{POLICY}command_limits: {{ log: {limit} }}\n");
    let place = Sandboxed::with_policy(&policy);
    place.write("model.yaml", script(calls));
    place
}

#[test]
fn whole_outputs_are_kept_as_artifacts_where_the_policy_says_so() {
    let look = json!({"cmd": "sh noise.sh", "yield_time_ms": 2500});
    let place = logging(
        "64MiB",
        &[
            &command("head -c 50000000 /dev/zero"),
            &format!("{{ tool: exec_command, args: {look} }}"),
            "{ tool: write_stdin, args: { session_id: 1, yield_time_ms: 20000 } }",
            &command("true"),
        ],
    );
    let secret = "tok-7Qz4xYb91LmN0pRs";
    place.write("ws/noise.sh", format!("echo out; {HELD}; echo {secret} >&2; exit 3\n"));
    // An older run's log is not taken for one of this run.
    place.write("out/command-0009.log", "old");
    let running = Run::exec(&place, &MODEL).env("BUILD_TOKEN", secret).start();
    go_after(&place, 2);
    let done = running.wait(Duration::from_secs(60));
    done.assert(0, "completed", "completed");
    let told = done.outputs();
    assert!(
        told[0].contains("\nfull output: command-0001.log (50000000 bytes)\n"),
        "{:.200}",
        told[0]
    );
    assert!(told[2].contains("\nfull output: command-0002.log (25 bytes)\n"), "{}", told[2]);
    assert!(told[3].contains("\nfull output: not kept\n"), "nothing was printed: {}", told[3]);
    let size = std::fs::metadata(place.path("out/command-0001.log")).unwrap().len();
    assert_eq!(size, 50_000_000);
    assert_eq!(place.read("out/command-0002.log"), "out\n[masked]\n");
    assert!(!place.exists("out/command-0003.log") && !place.exists("out/command-0009.log"));
    let logs = &done.result()["command_logs"];
    assert_eq!(logs[0]["file"], "command-0001.log");
    assert_eq!((&logs[0]["bytes"], &logs[0]["cut"]), (&json!(50_000_000), &json!(0)));
    assert_eq!(logs[1]["command"], "sh noise.sh");
}

#[test]
fn a_kept_output_is_bounded_and_what_was_cut_is_said_in_words() {
    let place = logging("1MiB", &[&command("head -c 5000000 /dev/zero")]);
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    let told = &done.outputs()[0];
    let words = "full output: command-0001.log, the first 1048576 of 5000000 bytes\n";
    assert!(told.contains(words), "{told:.200}");
    assert_eq!(std::fs::metadata(place.path("out/command-0001.log")).unwrap().len(), 1 << 20);
    assert_eq!(done.result()["command_logs"][0]["cut"], 5_000_000 - (1 << 20));
    // Without the key there is none.
    let place = self::place(&[&command("echo hi")]);
    let done = Run::exec(&place, &MODEL).finish();
    assert!(!done.outputs()[0].contains("full output"));
    assert_eq!(done.result()["command_logs"], json!([]));
}

#[test]
fn d54_what_the_sandbox_refused_is_explained_to_the_model() {
    let place = place(&[&command("sh bytes.sh"), &command("sh long.sh")]);
    let outside = place.path("home/.x");
    place.write("ws/bytes.sh", format!("echo x > {}\n", outside.display()));
    place.write("ws/long.sh", "t=$(mktemp); echo x > $t; echo x > ~/.x; cat nothing; exit 1\n");
    let done = Run::exec(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    let told = done.outputs();
    let line = format!("[sandbox: creating {} was refused:", outside.display());
    assert!(told[0].contains(&line), "{}", told[0]);
    assert!(told[0].contains("the policy key that would allow it is files.write]"), "{}", told[0]);
    assert!(!outside.exists());
    // Scratch is writable, and a failure of the command's own is none of the sandbox.
    assert!(!told[1].contains("[sandbox:"), "{}", told[1]);
}

#[test]
fn d54_what_the_sandbox_refused_a_check_is_explained_too() {
    let place = place(&[]);
    let (outside, secret) = (place.path("home/.cache-of-check"), "tok-7Qz4xYb91LmN0pRs");
    // It fails with the sandbox at first, and then for a reason of its own.
    let check = format!(
        "[ -f done ] && {{ cat nothing; exit 1; }}\necho {secret}; echo x > {}; head -c 40000 /dev/zero | tr '\\0' x\necho x > {}\n",
        outside.display(),
        outside.display(),
    );
    place.write("ws/check.sh", check);
    place.write(
        "model.yaml",
        format!(
            "version: 1\nsteps:\n  - text: all done\n  - calls: [{}]\n  - text: done\n",
            patch("*** Begin Patch\n*** Add File: done\n+x\n*** End Patch")
        ),
    );
    let args = ["--verify", "sh check.sh", "--verify-attempts", "1"];
    let done = Run::exec(&place, &[&args[..], &MODEL].concat()).env("BUILD_TOKEN", secret).finish();
    done.assert(10, "unverified", "verify.command");
    let line = format!(
        "[sandbox: creating {0} was refused: {0} is outside what may be written (built-in: files.write: everything else is denied); the policy key that would allow it is files.write]",
        outside.display()
    );
    let result = done.result();
    let tails: Vec<&str> =
        (0..2).filter_map(|n| result["checks"][n]["output_tail"].as_str()).collect();
    assert!(tails[0].contains(&line) && !tails[0].contains(secret), "{}", tails[0]);
    assert!(!tails[1].contains("[sandbox:"), "a failure of its own: {}", tails[1]);
    let feedback = done.rollout().into_iter().find(|record| {
        record["item"]["text"].as_str().is_some_and(|text| text.contains("sh check.sh"))
    });
    let feedback = feedback.unwrap()["item"]["text"].as_str().unwrap().to_owned();
    assert!(feedback.contains(&line) && !feedback.contains(secret), "{feedback}");
    assert!(!outside.exists());
}

/// Run by `.ci/full`: it takes a while.
#[test]
#[ignore = "five gigabytes take a while"]
fn soak_five_gigabytes_cost_what_a_kilobyte_costs() {
    let (little, much) = (peak("1000", None), peak("5000000000", None));
    assert!(much < little + 4 * 1024, "{little} KiB for 1 kB, {much} KiB for 5 GB");
    println!("peak memory: {little} KiB for 1 kB, {much} KiB for 5 GB");
}

#[test]
fn a_secret_that_the_cut_goes_through_or_that_comes_in_two_looks_is_masked() {
    let secret = "tok-7Qz4xYb91LmN0pRs";
    let look = json!({"cmd": "sh long.sh", "yield_time_ms": 2500});
    let place = place(&[
        &command("sh noise.sh"),
        &format!("{{ tool: exec_command, args: {look} }}"),
        "{ tool: write_stdin, args: { session_id: 1, yield_time_ms: 20000 } }",
    ]);
    // The head ends in the middle of the secret: 20 KiB are kept in front of the cut.
    place.write(
        "ws/noise.sh",
        format!("head -c 20470 /dev/zero | tr '\\0' a\nprintf %s {secret}\nhead -c 90000 /dev/zero | tr '\\0' b\n"),
    );
    let (first, second) = secret.split_at(10);
    place.write("ws/long.sh", format!("printf %s {first}; {HELD}; echo {second}\n"));
    let running = Run::exec(&place, &MODEL).env("BUILD_TOKEN", secret).start();
    go_after(&place, 2);
    let done = running.wait(Duration::from_secs(60));
    done.assert(0, "completed", "completed");
    let told = done.outputs();
    assert!(!told[0].contains("tok-7Qz4"), "{}", &told[0][20_000..21_000]);
    assert!(!told[1].contains(first), "{}", told[1]);
    assert!(!told[2].contains(second), "{}", told[2]);
    assert!(told.iter().all(|text| text.contains("[masked]")), "{told:.0?}");
}

/// A server that asks for a password.
fn asks_for_a_password() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().take(8).flatten() {
            let _ = std::io::Read::read(&mut stream, &mut [0u8; 4096]);
            let _ = std::io::Write::write_all(
                &mut stream,
                b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    address
}

#[test]
fn d04_on_a_terminal_too_git_neither_asks_nor_pages() {
    let address = asks_for_a_password();
    let push = json!({"cmd": "sh push.sh", "tty": true, "yield_time_ms": 25_000});
    let log = json!({"cmd": "git log --oneline", "tty": true, "yield_time_ms": 25_000});
    let place = place(&[
        &format!("{{ tool: exec_command, args: {push} }}"),
        &format!("{{ tool: exec_command, args: {log} }}"),
    ]);
    place.write("ws/push.sh", "git push origin main; echo \"git says $?\"\n");
    place.git_init(&place.path("ws"));
    for number in 0..60 {
        let message = format!("commit {number}");
        place.git(&place.path("ws"), &["commit", "-q", "--allow-empty", "-m", &message]);
    }
    let remote = format!("http://{address}/r.git");
    place.git(&place.path("ws"), &["remote", "add", "origin", &remote]);
    let done = Run::exec(&place, &MODEL).finish();
    assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
    let told = done.outputs();
    assert!(told[0].contains("git says 128"), "git ran and gave up: {}", told[0]);
    assert!(told[1].starts_with("exit code: 0"), "no pager waits for a key: {}", told[1]);
    assert!(told[1].contains("commit 0") && told[1].contains("commit 59"), "{}", told[1]);
}

#[test]
fn d04_the_runners_own_terminal_reaches_no_command() {
    let place = place(&[&command("sh tty.sh")]);
    place.write(
        "ws/tty.sh",
        "(: </dev/tty) 2>/dev/null && echo 'a terminal' || echo 'no terminal'\n\
         [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo 'none open'\n",
    );
    let (master, slave) = terminal();
    let mut run = Run::exec(&place, &MODEL);
    let fd = slave.as_raw_fd();
    run.command().stdin(Stdio::from(slave.try_clone().unwrap()));
    // SAFETY: plain system calls between fork and exec.
    unsafe {
        run.command().pre_exec(move || {
            libc::setsid();
            if libc::ioctl(fd, libc::TIOCSCTTY, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let done = run.finish();
    drop((master, slave));
    done.assert(0, "completed", "completed");
    let told = &done.outputs()[0];
    assert!(told.contains("no terminal") && told.contains("none open"), "{told}");
}

fn terminal() -> (OwnedFd, OwnedFd) {
    use rustix::pty::OpenptFlags;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).unwrap();
    (master, slave)
}
