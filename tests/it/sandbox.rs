//! The layers of the sandbox on the real binary: what each set of them holds, and what it says.
//!
//! Every test runs with the best set that this machine has and with the floor pinned, so that the sets
//! are tried alike wherever namespaces can be had.

#[path = "sandbox/audit.rs"]
mod audit;
#[path = "sandbox/ipc.rs"]
mod ipc;
#[path = "sandbox/memory.rs"]
mod memory;
#[path = "sandbox/metadata.rs"]
mod metadata;
#[path = "sandbox/protected.rs"]
mod protected;
#[path = "sandbox/switches.rs"]
mod switches;
#[path = "sandbox/toolchain.rs"]
mod toolchain;
#[path = "sandbox/users.rs"]
mod users;

use super::support::{Done, Run, Sandboxed, command, mark, script, without};
use serde_json::Value;
use std::fs;
use std::os::unix::net::UnixListener;

const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];

/// Sets of layers: none pinned, and the floor.
const SETS: [&str; 2] = ["", "layers: [landlock, seccomp]"];

fn policy(set: &str, more: &str) -> String {
    let more = if set.is_empty() || more.is_empty() {
        format!("{set}{more}")
    } else {
        format!("{set}, {more}")
    };
    format!(
        "version: 1\nexec:\n  allow: [\"python3 a.py\", \"python3 b.py\", \"true\", \"sh a.sh\", \"sh b.sh\", \"git ...\"]\nfiles:\n  read: [\"**\"]\n  write: [\"**\"]\nsandbox: {{ mode: require, {more} }}\n"
    )
}

/// A run with the system's own programs: a wrapper in somebody's home needs more than the policy grants.
fn run<'a>(place: &'a Sandboxed, args: &[&str]) -> Run<'a> {
    Run::exec(place, args).env("PATH", "/usr/local/bin:/usr/bin:/bin")
}

/// A place whose commands are these files of the workspace, run one after the other.
fn place(policy: &str, files: &[(&str, &str)]) -> Sandboxed {
    let place = Sandboxed::with_policy(policy);
    let mut calls = Vec::new();
    for (name, text) in files {
        place.write(&format!("ws/{name}"), text);
        let program = if name.ends_with(".py") { "python3" } else { "sh" };
        calls.push(command(&format!("{program} {name}")));
    }
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    place.write("model.yaml", script(&calls));
    place
}

fn grade(done: &Done<'_>, clause: &str) -> Value {
    let grades = done.result()["sandbox"].clone();
    let grades = grades.as_array().unwrap().clone();
    grades.into_iter().find(|grade| grade["clause"] == clause).unwrap_or(Value::Null)
}

/// Whether namespaces can be had on this machine; says so where not.
pub fn has_namespaces() -> bool {
    let probe = std::process::Command::new("unshare")
        .args([
            "--user",
            "--map-current-user",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "true",
        ])
        .output();
    let has = probe.is_ok_and(|done| done.status.success());
    if !has {
        println!("SKIPPED in part: no namespaces can be made here");
    }
    has
}

#[test]
fn d51_unix_sockets_work_inside_and_nowhere_else() {
    for set in SETS {
        let place = place(
            &policy(set, ""),
            &[(
                "a.py",
                r#"
import os, socket, tempfile
def tell(what, call):
    try:
        call(); print(what, "works")
    except OSError as error:
        print(what, "errno", error.errno)
def pair(kind):
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    a.send(b"x"); assert b.recv(1) == b"x"
tell("pair", lambda: pair(socket.SOCK_STREAM))
path = os.path.join(tempfile.mkdtemp(), "s")
server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen(5)
def own(kind=0):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | kind)
    client.connect(path)
    peer, _ = server.accept()
    client.sendall(b"hello"); assert peer.recv(5) == b"hello"
tell("own", own)
tell("own-nonblocking", lambda: own(socket.SOCK_NONBLOCK))
os.chdir(os.path.dirname(path))
def relative():
    client = socket.socket(socket.AF_UNIX); client.connect("s")
tell("relative", relative)
def foreign(name):
    client = socket.socket(socket.AF_UNIX); client.connect(name)
tell("foreign", lambda: foreign(os.environ["FOREIGN"]))
os.symlink(os.environ["FOREIGN"], "link")
tell("link", lambda: foreign("link"))
tell("abstract", lambda: foreign("\0turnkey-test-" + os.environ["FOREIGN"]))
for name in ["AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK"]:
    tell(name, lambda: socket.socket(getattr(socket, name), socket.SOCK_RAW if name == "AF_NETLINK" else socket.SOCK_STREAM))
"#,
            )],
        );
        let foreign = place.path("foreign.sock");
        let _listener = UnixListener::bind(&foreign).unwrap();
        let mut text = place.read("policy.yaml");
        text.push_str(&format!("env: {{ set: {{ FOREIGN: {} }} }}\n", foreign.display()));
        // Readable, so that only the supervisor stands between a command and the socket.
        let readable = format!("read: [\"**\", \"{}/**\"]", place.path("").display());
        place.write("policy.yaml", text.replace("read: [\"**\"]", &readable));
        let done = run(&place, &MODEL).finish();
        done.assert(0, "completed", "completed");
        let told = &done.outputs()[0];
        for works in ["pair", "own", "own-nonblocking", "relative"] {
            assert!(told.contains(&format!("{works} works")), "{set:?} {works}: {told}");
        }
        for refused in ["foreign", "link", "abstract", "AF_INET", "AF_INET6", "AF_NETLINK"] {
            assert!(told.contains(&format!("\n{refused} errno")), "{set:?} {refused}: {told}");
        }
        assert!(told.contains("foreign errno 1"), "refused, not missing: {told}");
        assert_eq!(grade(&done, "sockets")["held"], "prevented", "{set:?}");
    }
}

#[test]
fn d50_semaphores_and_tmp_are_the_commands_own() {
    if !has_namespaces() {
        return;
    }
    let marker = format!("turnkey-test-{}", std::process::id());
    let host = [format!("/tmp/{marker}"), format!("/dev/shm/{marker}")];
    for path in &host {
        fs::write(path, "host").unwrap();
    }
    let kept = format!("/tmp/kept-{}", std::process::id());
    let place = place(
        &policy("", ""),
        &[
            (
                "a.py",
                &format!(
                    "import multiprocessing, os\nlock = multiprocessing.Lock()\nwith lock: print('semaphore works')\nopen('{kept}', 'w').write('kept')\nopen('/dev/shm/mine', 'w').write('x')\nprint('tmp', [n for n in os.listdir('/tmp') if n.startswith('turnkey-test')], 'shm', os.listdir('/dev/shm'))\n"
                ),
            ),
            (
                "b.py",
                &format!(
                    "import os\nprint(open('{kept}').read(), 'shm', os.listdir('/dev/shm'))\n"
                ),
            ),
        ],
    );
    let done = run(&place, &MODEL).finish();
    for path in &host {
        fs::remove_file(path).unwrap();
    }
    done.assert(0, "completed", "completed");
    let told = done.outputs();
    assert!(told[0].contains("semaphore works"), "{}", told[0]);
    assert!(told[0].contains("tmp [] shm ['mine']"), "{}", told[0]);
    assert!(told[1].contains("kept shm []"), "/tmp stays for the run: {}", told[1]);
    assert!(!std::path::Path::new(&kept).exists());
}

#[test]
fn what_must_not_be_read_is_covered_and_a_folder_moved_around_it_stops_everything() {
    if !has_namespaces() {
        return;
    }
    let reads = "cat deep/.env; cat keys/k; ln deep/.env hard; echo end; mv deep elsewhere; true\n";
    let text = policy("", "")
        .replace("read: [\"**\"]", "read: [\"**\"]\n  deny_read: [\"**/.env\", \"keys/**\"]");
    let place = place(&text, &[("a.sh", reads), ("b.sh", "cat elsewhere/.env\n")]);
    place.write("ws/deep/.env", "SECRET=1");
    place.write("ws/keys/k", "SECRET=2");
    let done = run(&place, &MODEL).finish();
    let told = done.outputs();
    assert!(!told[0].contains("SECRET") && told[0].contains("end"), "{}", told[0]);
    assert!(told[1].contains("may lie open under another name"), "{}", told[1]);
    assert!(!told[1].contains("SECRET"), "{}", told[1]);
    let grade = grade(&done, "files.deny_read");
    assert_eq!((&grade["held"], &grade["required"]), (&"prevented".into(), &true.into()));
}

#[test]
fn on_the_floor_an_inner_deny_read_is_refused_under_require_and_named_under_best_effort() {
    let text =
        policy(SETS[1], "").replace("read: [\"**\"]", "read: [\"**\"]\n  deny_read: [\"**/.env\"]");
    let place = place(&text, &[("a.sh", "true\n")]);
    let done = run(&place, &MODEL).finish();
    done.assert(20, "unavailable", "sandbox.not_held");
    assert!(done.stderr.contains("files.deny_read is not held"), "{}", done.stderr);
    assert!(done.stderr.contains("accept: [reverted]"), "the ways out are named: {}", done.stderr);
    let best = ["--sandbox", "best-effort", "--model", "scripted/model.yaml", "t"];
    let done = run(&place, &best).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(grade(&done, "files.deny_read")["held"], "not_held");
    assert!(done.stderr.contains("holds less"), "{}", done.stderr);
}

#[test]
fn d86_protected_places_hold_with_mounts_and_are_put_back_without_also_when_absent() {
    for set in SETS {
        let tries = "echo evil >> .git/config; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo evil > CLAUDE.md; mkdir .claude && echo evil > .claude/settings.json; echo evil >> guarded/file; mv .git .moved; echo new > other; true\n";
        let text = policy(set, "accept: [reverted]")
            .replace("write: [\"**\"]", "write: [\"**\"]\n  protect: [\"guarded/**\"]");
        let place = place(&text, &[("a.sh", tries), ("b.sh", "cat .git/config; ls -a\n")]);
        place.write("ws/guarded/file", "good\n");
        place.git_init(&place.path("ws"));
        let config = place.read("ws/.git/config");
        let done = run(&place, &MODEL).finish();
        assert_eq!(place.read("ws/.git/config"), config, "{set:?}");
        assert_eq!(place.read("ws/guarded/file"), "good\n", "{set:?}");
        for absent in ["CLAUDE.md", ".claude", ".moved", ".git/hooks/pre-commit"] {
            assert!(!place.exists(&format!("ws/{absent}")), "{set:?}: {absent}");
        }
        assert_eq!(place.read("ws/other"), "new\n");
        assert!(!done.outputs()[1].contains("evil"), "{set:?}: {}", done.outputs()[1]);
        let held = grade(&done, "files.protect");
        let expected = if set.is_empty() && has_namespaces() { "prevented" } else { "reverted" };
        assert_eq!(held["held"], expected, "{set:?}: {held}");
        assert_eq!(held["required"], true, "the policy names a place");
        assert!(done.outputs()[0].contains("put back") || done.outputs()[0].contains("gone again"));
    }
}

#[test]
fn d86_checks_leave_protected_places_alone_as_well() {
    for set in SETS {
        let text = policy(set, "accept: [reverted]")
            .replace("write: [\"**\"]", "write: [\"**\"]\n  protect: [\"guarded/**\"]");
        let place = place(&text, &[("a.sh", "true\n")]);
        place.write("ws/guarded/file", "good\n");
        place.git_init(&place.path("ws"));
        let config = place.read("ws/.git/config");
        let check = "echo evil >>.git/config; echo evil >.git/hooks/pre-commit; \
                     echo evil >CLAUDE.md; echo evil >guarded/file; \
                     mkdir -p sub/.git && echo evil >sub/.git/config; true";
        let args = ["--verify", check, MODEL[0], MODEL[1], MODEL[2]];
        let done = run(&place, &args).finish();
        assert_eq!(done.status, 0, "{set:?}: {}", done.stderr);
        assert_eq!(place.read("ws/.git/config"), config, "{set:?}");
        assert_eq!(place.read("ws/guarded/file"), "good\n", "{set:?}");
        for absent in ["CLAUDE.md", ".git/hooks/pre-commit", "sub/.git"] {
            assert!(!place.exists(&format!("ws/{absent}")), "{set:?}: {absent}");
        }
        assert!(done.stderr.contains("changed protected files"), "{set:?}: {}", done.stderr);
    }
}

#[test]
fn a_protected_place_that_cannot_be_put_back_ends_the_run_and_is_no_success() {
    // More than is kept for putting back.
    let text = policy(SETS[1], "accept: [reverted]")
        .replace("write: [\"**\"]", "write: [\"**\"]\n  protect: [\"guarded/**\"]");
    let place = place(&text, &[("a.sh", "echo evil >>guarded/big\n"), ("b.sh", "touch on\n")]);
    fs::create_dir(place.path("ws/guarded")).unwrap();
    let big = fs::File::create(place.path("ws/guarded/big")).unwrap();
    big.set_len(65 << 20).unwrap();
    let done = run(&place, &MODEL).finish();
    done.assert(20, "unavailable", "sandbox.protected");
    assert!(!place.exists("ws/on"), "nothing more runs");
    assert!(done.stderr.contains("too large to have been kept"), "{}", done.stderr);
    assert!(done.stderr.contains("take a fresh checkout"), "{}", done.stderr);
    // The last thing that happens may be a check.
    fs::File::create(place.path("ws/guarded/big")).unwrap().set_len(65 << 20).unwrap();
    place.write("ws/a.sh", "true\n");
    let args = ["--verify", "echo evil >>guarded/big", MODEL[0], MODEL[1], MODEL[2]];
    run(&place, &args).finish().assert(20, "unavailable", "sandbox.protected");
}

#[test]
fn what_is_only_undone_needs_the_policys_word() {
    let text = policy(SETS[1], "")
        .replace("write: [\"**\"]", "write: [\"**\"]\n  protect: [\"guarded/**\"]");
    let place = place(&text, &[("a.sh", "true\n")]);
    place.write("ws/guarded/file", "good\n");
    let done = run(&place, &MODEL).finish();
    assert_eq!(done.status, 20, "{}", done.stderr);
    assert!(done.stderr.contains("files.protect is reverted"), "{}", done.stderr);
}

#[test]
fn protected_places_beyond_those_that_are_looked_at_are_not_passed_over_in_silence() {
    for (set, status) in [("require", 20), ("best-effort", 0)] {
        let text = policy(SETS[0], "")
            .replace("write: [\"**\"]", "write: [\"**\"]\n  protect: [\"**/*.lock\"]")
            .replace("mode: require", &format!("mode: {set}"));
        let place = place(&text, &[("a.sh", "true\n")]);
        for number in 0..201 {
            place.write(&format!("ws/{number}.lock"), "locked\n");
        }
        let done = run(&place, &MODEL).finish();
        assert_eq!(done.status, status, "{}", done.stderr);
        let told = "**/*.lock finds more than is looked at";
        if status == 0 {
            let held = grade(&done, "files.protect (in part)");
            assert_eq!(held["held"], "not_held", "{held}");
            assert!(held["by"].as_str().unwrap().starts_with(told), "{held}");
        } else {
            assert!(done.stderr.contains("files.protect (in part) is not held"), "{}", done.stderr);
            assert!(done.stderr.contains(told), "{}", done.stderr);
        }
    }
}

#[test]
fn checks_have_a_home_that_no_command_wrote() {
    for set in SETS {
        let text = policy(set, "");
        let writes = "mkdir -p ~/.cargo; echo evil >~/.cargo/config.toml; echo evil >$TMPDIR/evil; echo $HOME\n";
        let place = place(&text, &[("a.sh", writes), ("b.sh", "cat ~/.cargo/config.toml\n")]);
        let check = "! ls ~/.cargo/config.toml $TMPDIR/evil && touch ~/mine && echo $HOME >home";
        let args = ["--verify", check, "--verify", "test -e ~/mine", MODEL[0], MODEL[1], MODEL[2]];
        let done = run(&place, &args).finish();
        assert_eq!(done.status, 0, "{set:?}: {}", done.stderr);
        assert!(done.outputs()[1].contains("evil"), "commands keep theirs: {}", done.outputs()[1]);
        for left in ["scratch", "checks"] {
            let left = place.path(&format!("home/.local/state/turnkey/{left}"));
            let count = fs::read_dir(&left).map_or(0, Iterator::count);
            assert_eq!(count, 0, "{}", left.display());
        }
    }
}

#[test]
fn d47_d48_without_namespaces_the_floor_holds_and_says_why_they_are_not_there() {
    for call in [libc::SYS_unshare, libc::SYS_open_tree, libc::SYS_mount_setattr] {
        let place =
            place(&policy("", ""), &[("a.sh", "echo no > ../outside; echo yes > inside\n")]);
        let mut started = run(&place, &MODEL);
        without(&mut started, &[call]);
        let done = started.finish();
        done.assert(0, "completed", "completed");
        assert!(place.exists("ws/inside") && !place.exists("outside"));
        let told = grade(&done, "namespaces");
        assert_eq!(told["held"], "not_held", "{call}: {told}");
        assert!(told["by"].as_str().unwrap().contains("errno 1"), "{call}: {told}");
        assert_eq!(grade(&done, "files.write")["held"], "prevented");
        assert_eq!(grade(&done, "network")["held"], "prevented");
    }
}

#[test]
fn d46_d52_a_pinned_layer_that_cannot_be_had_is_named_and_nothing_runs() {
    for (layers, call, reason) in [
        ("layers: [landlock, seccomp, namespaces]", libc::SYS_unshare, "sandbox.namespaces"),
        ("layers: [landlock, seccomp]", libc::SYS_landlock_create_ruleset, "sandbox.landlock"),
        ("layers: [landlock, seccomp]", libc::SYS_seccomp, "sandbox.seccomp"),
    ] {
        let place = place(&policy(layers, ""), &[("a.sh", "echo ran > ran\n")]);
        let mut started = run(&place, &MODEL);
        without(&mut started, &[call]);
        let done = started.finish();
        done.assert(20, "unavailable", reason);
        assert!(
            done.stderr.contains("errno 1") || done.stderr.contains("no Landlock"),
            "{}",
            done.stderr
        );
        assert!(!place.exists("ws/ran"));
    }
}

#[test]
fn layers_that_are_not_pinned_are_not_graded_as_held() {
    let place = place(&policy("layers: [landlock]", ""), &[("a.sh", "true\n")]);
    let done = run(&place, &MODEL).finish();
    assert_eq!(done.status, 20, "{}", done.stderr);
    assert!(done.stderr.contains("network is not held"), "{}", done.stderr);
}

#[test]
fn limits_end_what_takes_more_with_all_it_started() {
    let mark = mark("300.");
    for set in SETS {
        let mut text = policy(set, "");
        text.push_str("command_limits: { processes: 20, memory: 200MiB }\n");
        let place = place(
            &text,
            &[
                (
                    "a.sh",
                    &format!(
                        "i=0; while [ $i -lt 40 ]; do sleep {mark} & i=$((i+1)); done; wait\n"
                    ),
                ),
                ("b.py", "x = bytearray(400 << 20)\nimport time; time.sleep(20)\n"),
            ],
        );
        let done = run(&place, &MODEL).finish();
        let told = done.outputs();
        assert!(told[0].contains("more than 20 processes"), "{set:?}: {}", told[0]);
        assert!(told[1].contains("more than 200 MiB of memory"), "{set:?}: {}", told[1]);
        assert!(super::support::alive(&format!("sleep {mark}")).is_empty());
        assert!(done.took < std::time::Duration::from_secs(20), "{:?}", done.took);
    }
}

#[test]
fn d85_neither_the_runner_nor_the_launcher_can_be_read_from_a_command() {
    for set in SETS {
        let place = place(
            &policy(set, ""),
            &[(
                "a.py",
                r#"
import os
pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
own = {os.getpid()}
for pid in pids:
    try:
        line = open(f"/proc/{pid}/cmdline").read()
    except OSError:
        continue
    if "turnkey" not in line:
        continue
    print("seen", line.replace("\0", " "))
    for name in ["environ", "mem", "maps", "auxv"]:
        try:
            open(f"/proc/{pid}/{name}", "rb").read(1); print("READ", name)
        except OSError:
            pass
    for name in ["cwd", "root", "exe", "fd/0", "fd/1", "fd/2", "fd/3"]:
        try:
            os.readlink(f"/proc/{pid}/{name}"); print("FOLLOWED", name)
        except OSError:
            pass
print("end")
"#,
            )],
        );
        let done = run(&place, &MODEL).env("OPENAI_API_KEY", "sk-test-key-of-the-model").finish();
        done.assert(0, "completed", "completed");
        let told = &done.outputs()[0];
        assert!(told.contains("end") && told.contains("seen"), "{told}");
        assert!(!told.contains("READ") && !told.contains("FOLLOWED"), "{set:?}: {told}");
    }
}

#[test]
fn d49_git_in_a_linked_worktree_works_as_the_policy_says() {
    for set in SETS {
        for may_commit in [true, false] {
            let rule = if may_commit { "\"git add ...\", \"git commit ...\"" } else { "" };
            let text = policy(set, "").replace("\"git ...\"", rule).replace(", ]", "]");
            let place = Sandboxed::with_policy(&text);
            fs::remove_dir(place.path("ws")).unwrap();
            place.write("main/a.txt", "a\n");
            place.git_init(&place.path("main"));
            place.git(&place.path("main"), &["worktree", "add", "-q", "../ws"]);
            place.git(&place.path("main"), &["config", "user.email", "t@example.com"]);
            place.git(&place.path("main"), &["config", "user.name", "t"]);
            place.write("ws/a.sh", "echo b >> a.txt; echo evil >> ../main/.git/config\n");
            place.write(
                "model.yaml",
                script(&[
                    &command("sh a.sh"),
                    &command("git add a.txt"),
                    &command("git commit -q -m change"),
                ]),
            );
            let config = place.read("main/.git/config");
            let done = run(&place, &MODEL).finish();
            let log = place.git(&place.path("ws"), &["log", "--oneline", "--all"]);
            assert_eq!(log.contains("change"), may_commit, "{set:?}: {:?}", done.outputs());
            assert_eq!(place.read("main/.git/config"), config, "{set:?}");
            assert!(place.read("out/turn.diff").contains("+b"), "{set:?}");
        }
    }
}

#[test]
fn d53_d54_roots_come_from_the_operator_and_temporary_files_have_a_place() {
    for set in SETS {
        let evil = format!("evil-{}", std::process::id());
        let place = place(
            &policy(set, ""),
            &[(
                "a.sh",
                &format!(
                    "f=$(mktemp) && echo x > $f && echo temp works; echo $HOME > $HOME/.x && echo home works; touch ../{evil}; touch ~root/{evil}; touch $OLDPWD/{evil}\n"
                ),
            )],
        );
        place.write(
            "model.yaml",
            script(&[
                &command("sh a.sh"),
                "{ tool: exec_command, args: { cmd: \"true\", workdir: \"..\" } }",
                "{ tool: exec_command, args: { cmd: \"sh ws/a.sh\", workdir: \"..\" } }",
            ]),
        );
        let done = run(&place, &MODEL).finish();
        let told = done.outputs();
        assert!(told[0].contains("temp works") && told[0].contains("home works"), "{}", told[0]);
        assert!(!place.exists(&evil) && !std::path::Path::new("/root").join(&evil).exists());
        assert_ne!(done.kinds()[2], "ok", "{}", told[2]);
    }
}

#[test]
fn switches_open_what_they_name_and_say_so() {
    let trace = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nprint('ptrace', libc.ptrace(0, 0, 0, 0))\nprint('personality', libc.personality(0x40000))\n";
    for set in SETS {
        for (more, expected) in [("", "ptrace -1"), ("allow_ptrace: true", "ptrace 0")] {
            let place = place(&policy(set, more), &[("a.py", trace)]);
            let done = run(&place, &MODEL).finish();
            done.assert(0, "completed", "completed");
            assert!(done.outputs()[0].contains(expected), "{set:?} {more}: {}", done.outputs()[0]);
        }
    }
}

#[test]
fn one_table_stands_in_the_result_the_dry_run_and_the_doctor() {
    let place = place(&policy("", ""), &[("a.sh", "true\n")]);
    let done = run(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    let grades = done.result()["sandbox"].clone();
    let doctor = Run::new(&place, &["doctor", "-C", "ws", "--policy", "policy.yaml", "--json"])
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let asked = doctor.finish();
    assert_eq!(asked.status, 0, "{}", asked.stderr);
    let found: Value = serde_json::from_str(&asked.stdout).unwrap();
    assert_eq!(found["grades"], grades);
    assert_eq!(found["ready"], true);
    let dry = ["--dry-run", "--model", "scripted/model.yaml", "t"];
    let shown = run(&place, &dry).finish().stdout;
    let text = Run::new(&place, &["doctor", "-C", "ws", "--policy", "policy.yaml"]).finish().stdout;
    for grade in grades.as_array().unwrap() {
        let (clause, by) = (grade["clause"].as_str().unwrap(), grade["by"].as_str().unwrap());
        assert!(shown.contains(&format!("{clause}: ")) && shown.contains(by), "{clause}: {shown}");
        assert!(text.contains(clause) && text.contains(by), "{clause}: {text}");
    }
    assert!(text.contains("would start here") && text.contains("always readable: "), "{text}");
    let left = fs::read_dir(place.path("home/.local/state/turnkey/scratch")).unwrap().count();
    assert_eq!(left, 0, "the doctor leaves nothing");
}

#[test]
fn the_doctor_says_no_with_the_ways_out_and_wrong_input_is_neither() {
    let place = place(&policy("layers: [landlock]", ""), &[]);
    let asked = Run::new(&place, &["doctor", "-C", "ws", "--policy", "policy.yaml"]).finish();
    assert_eq!(asked.status, 1, "{}", asked.stdout);
    assert!(asked.stdout.contains("would not start here"), "{}", asked.stdout);
    assert!(asked.stdout.contains("hint: "), "{}", asked.stdout);
    let asked = Run::new(&place, &["doctor", "-C", "gone"]).finish();
    assert_eq!(asked.status, 2, "{}", asked.stdout);
}
