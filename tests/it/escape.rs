//! The escape suite: what a command that was allowed can reach in spite of the sandbox. Every attack runs
//! behind every set of layers, and canaries outside prove what it did, whatever it says of itself.
//!
//! The expectations are a table, and the table is part of the docs (`UPDATE_DOCS=1 cargo test --test it
//! escape::`). An attack that is not held is only right where a grade of the run says so as well.

#[path = "escape/attacks.rs"]
mod attacks;
#[path = "escape/targets.rs"]
mod targets;

use super::support::{Done, Run, Sandboxed, binary};
use serde_json::{Value, json};
use std::ffi::CString;
use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use targets::Range;

/// What became of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It had no effect.
    Prevented,
    /// It had one, which was undone and reported.
    Reverted,
    /// It was ended by a limit.
    Ended,
    NotHeld,
}
use Fate::{Ended, NotHeld, Prevented, Reverted};

impl Fate {
    fn words(self) -> &'static str {
        match self {
            Prevented => "prevented",
            Reverted => "reverted",
            Ended => "ended",
            NotHeld => "**not held**",
        }
    }
}

/// One attack and what must become of it.
struct Row {
    attack: &'static str,
    words: &'static str,
    floor: Fate,
    full: Fate,
    /// The grade that says so where it is not held.
    clause: &'static str,
}

const fn row(
    attack: &'static str,
    words: &'static str,
    floor: Fate,
    full: Fate,
    clause: &'static str,
) -> Row {
    Row { attack, words, floor, full, clause }
}

const TABLE: &[Row] = &[
    row("write", "write, create, remove or truncate outside, by path", Prevented, Prevented, ""),
    row("symlink", "the same through a symbolic link made inside", Prevented, Prevented, ""),
    row(
        "hard_link",
        "the same through a hard link, also of an open descriptor",
        Prevented,
        Prevented,
        "",
    ),
    row("rename", "rename a file out, a file in, exchange two", Prevented, Prevented, ""),
    row("proc_self", "write through `/proc/self/cwd`, `root`, `fd`", Prevented, Prevented, ""),
    row(
        "proc_pid",
        "write through `/proc/PID/root`, `cwd`, `fd`, `oom_score_adj` of others",
        Prevented,
        Prevented,
        "",
    ),
    row("read", "read outside, by path, link, `/proc`", Prevented, Prevented, ""),
    row("dev_shm_write", "change a file in the machine's `/dev/shm`", Prevented, Prevented, ""),
    row("dev_shm_read", "read a file in the machine's `/dev/shm`", Prevented, Prevented, ""),
    row(
        "chmod",
        "`chmod` outside, also by a path that changes meanwhile",
        Prevented,
        Prevented,
        "",
    ),
    row("chown", "`chown` outside", Prevented, Prevented, ""),
    row("utime", "`utimensat` and its elders outside", Prevented, Prevented, ""),
    row("setxattr", "`setxattr` and `removexattr` outside", Prevented, Prevented, ""),
    row(
        "file_flags",
        "flags of files and directories (`chattr`) outside",
        Prevented,
        Prevented,
        "",
    ),
    row(
        "git_rename_in",
        "rename a hook from a writable folder into `.git`",
        Reverted,
        Prevented,
        "",
    ),
    row("git_config", "write `.git/config`", Reverted, Prevented, ""),
    row("git_moved", "rename `.git` away and put another in its place", Reverted, Prevented, ""),
    row(
        "mount",
        "mounts, old and new calls, mount and user namespaces, `setns`",
        Prevented,
        Prevented,
        "",
    ),
    row("chroot", "`chroot`, `pivot_root`", Prevented, Prevented, ""),
    row(
        "ptrace",
        "`ptrace` and `process_vm_readv` of runner, launcher, others",
        Prevented,
        Prevented,
        "",
    ),
    row(
        "environ",
        "the environment of every other process (the model key)",
        Prevented,
        Prevented,
        "",
    ),
    row(
        "memory",
        "`/proc/PID/mem`, `maps`, `pidfd_getfd` of runner and others",
        Prevented,
        Prevented,
        "",
    ),
    row("descriptors", "descriptors that the runner left open", Prevented, Prevented, ""),
    row("memfd_exec", "a program in memory that writes outside", Prevented, Prevented, ""),
    row("io_uring", "`io_uring`", Prevented, Prevented, ""),
    row(
        "kernel_surface",
        "keys, `bpf`, `perf`, `userfaultfd`, `personality`, more namespaces",
        Prevented,
        Prevented,
        "",
    ),
    row(
        "abstract_socket",
        "an abstract Unix socket outside, streams and datagrams",
        Prevented,
        Prevented,
        "",
    ),
    row(
        "unix_socket",
        "a Unix socket outside, by path, link, `/proc`, descriptor",
        Prevented,
        Prevented,
        "",
    ),
    row(
        "unix_datagram",
        "a Unix datagram socket outside, also from one of a pair",
        Prevented,
        Prevented,
        "",
    ),
    row("engine_socket", "a container engine's socket", Prevented, Prevented, ""),
    row(
        "internet",
        "TCP and UDP on 127.0.0.1 and ::1, raw, packet, vsock, netlink",
        Prevented,
        Prevented,
        "",
    ),
    row("sysv_shm", "System V shared memory of a process outside", Prevented, Prevented, ""),
    row(
        "queues",
        "System V semaphores and queues, POSIX queues of a process outside",
        Prevented,
        Prevented,
        "",
    ),
    row(
        "terminal",
        "type into, write to or read from a terminal outside (`TIOCSTI`)",
        Prevented,
        Prevented,
        "",
    ),
    row("signals", "signals to runner, launcher, others", Prevented, Prevented, ""),
    row("sigio", "a signal by way of a descriptor's owner (`SIGIO`)", Prevented, Prevented, ""),
    row("setuid", "other user and group ids, capabilities", Prevented, Prevented, ""),
    row("scheduler", "scheduling of others, real time for oneself", Prevented, Prevented, ""),
    row(
        "limits_of_others",
        "resource limits of another process (`prlimit`)",
        Prevented,
        Prevented,
        "",
    ),
    row("core_dump", "a core dump", Prevented, Prevented, ""),
    row("fork_bomb", "more processes than `command_limits.processes`", Ended, Ended, ""),
    row(
        "memory_hog",
        "more memory than `command_limits.memory`, in several processes",
        Ended,
        Ended,
        "",
    ),
    row(
        "memory_files",
        "the same in memory files, without a descriptor, hidden from who looks",
        Ended,
        Ended,
        "",
    ),
    row("disk_filler", "filling the disk below `command_limits.keep_free`", Ended, Ended, ""),
];

/// All but the one attack that needs a disk of its own, and has a test of its own.
fn rows() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(|row| row.attack != attacks::FILLER)
}

fn policy(program: &Path, layers: &str) -> String {
    let program = program.display();
    format!(
        "version: 1\n\
         exec: {{ allow: [\"{program} ...\"] }}\n\
         files: {{ read: [\"**\", \"{program}\", \"~/readable\"], write: [\"**\"] }}\n\
         command_limits: {{ processes: 64, memory: 256MiB, timeout: 30s }}\n\
         sandbox: {{ mode: require, accept: [reverted]{layers} }}\n"
    )
}

fn call(program: &Path, attack: &str) -> String {
    let args = json!({"argv": [
        program, "escape::attacks::attack", format!("attack={attack}"), "--exact", "--nocapture",
        "--test-threads=1",
    ]});
    format!("{{ tool: exec_command, args: {args} }}")
}

/// Runs every attack behind these layers: a fate for each.
fn attack_all(layers: &str) -> Option<(Vec<Fate>, Value)> {
    let program = std::env::current_exe().unwrap();
    let place = Sandboxed::outside_tmp();
    place.write("policy.yaml", policy(&program, layers));
    place.write("ws/README.md", "x\n");
    place.git_init(&place.path("ws"));
    let calls: Vec<String> = rows().map(|row| call(&program, row.attack)).collect();
    place.write(
        "model.yaml",
        super::support::script(&calls.iter().map(String::as_str).collect::<Vec<_>>()),
    );
    let mut range = Range::set_up(&place, &binary());
    let running = Run::exec(&place, &["--model", "scripted/model.yaml", "--max-steps", "100", "t"])
        .env("ESCAPE_KEY", targets::SECRET)
        .start();
    range.tell(&place, running.child.id());
    let done = running.wait(Duration::from_secs(180));
    if done.status == 20 && layers.contains("namespaces") {
        println!("SKIPPED: the set with namespaces cannot be had here: {}", done.stderr);
        return None;
    }
    done.assert(0, "completed", "completed");
    let outputs = done.outputs();
    assert_eq!(outputs.len(), calls.len(), "{}", done.stderr);
    let fates = rows().zip(&outputs).map(|(row, told)| fate(row, told, &range)).collect();
    Some((fates, done.result()["sandbox"].clone()))
}

/// What became of one attack, from what it said and from what its target shows.
fn fate(row: &Row, told: &str, range: &Range) -> Fate {
    let name = row.attack;
    let hit = range.is_hit(name);
    let said = told.lines().find_map(|line| line.strip_prefix(&format!("ATTACK {name} ")));
    println!("{name}: hit {hit}, said {said:?}");
    match said {
        None if told.contains("command_limits.") => Ended,
        None => panic!("{name} did not end as it should:\n{told}"),
        Some(_) if hit => NotHeld,
        Some(said) if said.starts_with("stopped") => Prevented,
        Some(_) if told.contains("protected files were changed and put back") => Reverted,
        Some(_) => NotHeld,
    }
}

fn compare(set: &str, fates: &[Fate], grades: &Value, expected: impl Fn(&Row) -> Fate) {
    let mut wrong = String::new();
    for (row, fate) in rows().zip(fates) {
        println!("| {set} | {} | {} |", row.words, fate.words());
        if *fate != expected(row) {
            let _ = writeln!(wrong, "{}: {fate:?}, not {:?}", row.attack, expected(row));
        }
        let said = grades
            .as_array()
            .unwrap()
            .iter()
            .any(|grade| grade["clause"] == row.clause && grade["held"] == "not_held");
        if *fate == NotHeld && !said {
            let _ = writeln!(wrong, "{}: not held, and no grade says so", row.attack);
        }
    }
    assert!(wrong.is_empty(), "behind {set}:\n{wrong}{grades:#}");
}

#[test]
fn no_attack_gets_further_than_the_floor_says() {
    let (fates, grades) = attack_all(", layers: [landlock, seccomp]").unwrap();
    compare("floor", &fates, &grades, |row| row.floor);
}

#[test]
fn no_attack_gets_further_than_the_full_set_says() {
    if let Some((fates, grades)) = attack_all(", layers: [landlock, seccomp, namespaces]") {
        compare("full", &fates, &grades, |row| row.full);
    }
}

/// Fills a disk that is the test's own: a mount where one can be made, or what a container was given
/// (`TURNKEY_TEST_OWN_DISK`). On a shared one others could free or take what is counted here.
#[test]
fn a_command_that_fills_the_disk_is_ended() {
    const DISK_MIB: u64 = 128;
    let program = std::env::current_exe().unwrap();
    for layers in ["[landlock, seccomp]", "[landlock, seccomp, namespaces]"] {
        let place = Sandboxed::with_policy("");
        place.write("model.yaml", super::support::script(&[&call(&program, attacks::FILLER)]));
        let mut run = Run::exec(&place, &["--model", "scripted/model.yaml", "t"]);
        let free = if std::env::var_os("TURNKEY_TEST_OWN_DISK").is_some() {
            let fs = rustix::fs::statvfs(place.path("ws")).unwrap();
            (fs.f_bavail * fs.f_frsize) >> 20
        } else if mount_over(&mut Command::new("true"), &place.path("ws"), DISK_MIB)
            .status()
            .is_ok()
        {
            mount_over(run.command(), &place.path("ws"), DISK_MIB);
            DISK_MIB
        } else {
            println!("SKIPPED: no disk of its own can be had (needs the right to mount)");
            return;
        };
        let keep = format!("keep_free: {}MiB, timeout:", free - 12);
        let text = policy(&program, &format!(", layers: {layers}")).replace("timeout:", &keep);
        place.write("policy.yaml", text);
        let done = run.start().wait(Duration::from_secs(60));
        if done.status == 20 && layers.contains("namespaces") {
            println!("SKIPPED: the set with namespaces cannot be had here: {}", done.stderr);
            continue;
        }
        done.assert(0, "completed", "completed");
        let told = &done.outputs()[0];
        assert!(told.contains("(command_limits.keep_free)"), "{layers}: {told}");
    }
}

/// Puts an empty disk of this size over a folder, for this command and what it starts alone.
fn mount_over<'a>(command: &'a mut Command, at: &Path, mib: u64) -> &'a mut Command {
    let at = CString::new(at.to_str().unwrap()).unwrap();
    let options = CString::new(format!("size={mib}m")).unwrap();
    // SAFETY: only system calls between fork and exec, with strings that the closure owns.
    unsafe {
        command.pre_exec(move || {
            let none = std::ptr::null::<libc::c_char>();
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let tmpfs = c"tmpfs".as_ptr();
            if libc::unshare(libc::CLONE_NEWNS) != 0
                || libc::mount(none, c"/".as_ptr(), none, private, none.cast()) != 0
                || libc::mount(tmpfs, at.as_ptr(), tmpfs, 0, options.as_ptr().cast()) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        })
    }
}

/// Without a sandbox the attacks that need no privilege reach their targets: the suite sees what it
/// would have to see.
#[test]
fn the_canaries_sing_where_nothing_holds() {
    let program = std::env::current_exe().unwrap();
    let text = policy(&program, "").replace("mode: require", "mode: off");
    let place = Sandboxed::with_policy(&text);
    place.write("ws/README.md", "x\n");
    place.git_init(&place.path("ws"));
    let names = [
        "write",
        "read",
        "chmod",
        "chown",
        "utime",
        "setxattr",
        "file_flags",
        "unix_socket",
        "unix_datagram",
        "abstract_socket",
        "engine_socket",
        "internet",
        "signals",
        "limits_of_others",
        "environ",
        "sysv_shm",
        "queues",
    ];
    let calls: Vec<String> = names.iter().map(|name| call(&program, name)).collect();
    place.write(
        "model.yaml",
        super::support::script(&calls.iter().map(String::as_str).collect::<Vec<_>>()),
    );
    // Not the real binary: one of its own to be written to.
    place.write("program", "x");
    let mut range = Range::set_up(&place, &place.path("program"));
    let running = Run::exec(&place, &["--model", "scripted/model.yaml", "t"]).start();
    range.tell(&place, running.child.id());
    let done: Done = running.wait(Duration::from_secs(120));
    done.assert(0, "completed", "completed");
    for (name, told) in names.iter().zip(done.outputs()) {
        assert!(range.is_hit(name), "{name}: {told}");
    }
}

/// The table of the docs is the one that is tested.
#[test]
fn the_docs_hold_this_table() {
    const BEGIN: &str = "<!-- the escape suite's table -->\n";
    const END: &str = "<!-- end of the table -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sandbox.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut table = String::from("| attack | floor | with namespaces |\n| --- | --- | --- |\n");
    for row in TABLE {
        let _ = writeln!(table, "| {} | {} | {} |", row.words, row.floor.words(), row.full.words());
    }
    let (start, rest) = text.split_once(BEGIN).expect("docs/sandbox.md has a place for the table");
    let (_, end) = rest.split_once(END).expect("the table has an end");
    let made = format!("{start}{BEGIN}{table}{END}{end}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(
        made == std::fs::read_to_string(&path).unwrap(),
        "docs/sandbox.md is old: UPDATE_DOCS=1 cargo test --test it escape::the_docs"
    );
}
