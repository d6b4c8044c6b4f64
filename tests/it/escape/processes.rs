//! Attacks on other processes, and on what this one may become.

use super::{Targets, Ways, check, in_child, loot};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

pub fn ptrace(t: &Targets, ways: &mut Ways) {
    const SEIZE: u32 = 0x4206;
    // SAFETY: no memory of ours is touched; a seized process goes on.
    unsafe {
        for pid in [t.victim, t.runner, libc::getppid()].into_iter().filter(|pid| *pid > 1) {
            ways.call("seize", libc::ptrace(SEIZE, pid, 0, 0));
        }
        ways.tried("traceme", in_child(|| libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0)));
        let mut byte = 0u8;
        let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let remote = libc::iovec { iov_base: t.victim_address as *mut libc::c_void, iov_len: 1 };
        ways.call(
            "process_vm_readv",
            libc::process_vm_readv(t.victim, &raw const local, 1, &raw const remote, 1, 0) as i64,
        );
    }
}

pub fn environ(t: &Targets, ways: &mut Ways) {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if pid == std::process::id() {
            continue;
        }
        found.extend(fs::read(entry.path().join("environ")).unwrap_or_default());
    }
    for pid in [t.victim, t.runner, t.parent] {
        ways.tried("environ", fs::read(format!("/proc/{pid}/environ")));
    }
    loot("environ", &found);
}

pub fn memory(t: &Targets, ways: &mut Ways) {
    for pid in [t.victim, t.runner] {
        let mut byte = [0u8; 1];
        let mem = File::open(format!("/proc/{pid}/mem"));
        let read = mem.and_then(|mem| {
            use std::os::unix::fs::FileExt;
            mem.read_exact_at(&mut byte, if pid == t.victim { t.victim_address } else { 0 })
        });
        ways.tried("mem", read);
        ways.tried("maps", fs::read(format!("/proc/{pid}/maps")));
    }
    // SAFETY: no pointers; descriptors are owned at once.
    unsafe {
        for pid in [t.victim, t.runner] {
            let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            if check(process).is_err() {
                continue;
            }
            let process = OwnedFd::from_raw_fd(i32::try_from(process).unwrap());
            let fd = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), 0, 0);
            ways.call("pidfd_getfd", fd);
        }
    }
}

pub fn descriptors(_: &Targets, ways: &mut Ways) {
    for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let number: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
        let link = fs::read_link(entry.path()).unwrap_or_default();
        if number > 2 && !link.starts_with("/proc") {
            ways.tried(&format!("{number} → {}", link.display()), Ok(()));
        }
    }
}

pub fn memfd_exec(t: &Targets, ways: &mut Ways) {
    let canary = t.outside("memfd_exec").join("canary");
    let script = format!("#!/bin/sh\necho attacked > '{}'\n", canary.display());
    for (way, bytes, words) in [
        ("script", script.into_bytes(), vec![]),
        (
            "program",
            fs::read("/bin/sh").unwrap_or_default(),
            vec![
                "sh".to_owned(),
                "-c".to_owned(),
                format!("echo attacked > '{}'", canary.display()),
            ],
        ),
    ] {
        // SAFETY: a new descriptor, owned at once.
        let fd = unsafe { libc::memfd_create(c"attack".as_ptr(), 0) };
        if fd < 0 {
            ways.call(way, fd);
            continue;
        }
        // SAFETY: as said.
        let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.write_all(&bytes).unwrap();
        let status = std::process::Command::new(format!("/proc/self/fd/{fd}"))
            .args(words.iter().skip(1))
            .stderr(std::process::Stdio::null())
            .status();
        let wrote = status.and_then(|status| match status.success() {
            true => Ok(()),
            false => Err(io::Error::other("ran, and could not write")),
        });
        ways.tried(way, wrote);
    }
}

/// Shared memory of System V that a process outside made.
pub fn terminal(t: &Targets, ways: &mut Ways) {
    const LINUX: u64 = 0x541c;
    let mut tries: Vec<(String, io::Result<File>)> = vec![];
    for path in [t.terminal.as_path(), Path::new("/dev/tty")] {
        for write in [false, true] {
            let mut options = OpenOptions::new();
            let opened = options
                .read(!write)
                .write(write)
                .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
                .open(path);
            tries.push((path.display().to_string(), opened));
        }
    }
    for (name, opened) in tries {
        let Ok(mut file) = opened else { continue };
        // SAFETY: one byte, which the call reads.
        unsafe {
            let fd = file.as_raw_fd();
            let byte = b'!';
            ways.call(
                &format!("TIOCSTI on {name}"),
                libc::ioctl(fd, libc::TIOCSTI, &raw const byte),
            );
            ways.call(&format!("TIOCLINUX on {name}"), libc::ioctl(fd, LINUX, &raw const byte));
        }
        ways.tried(&format!("write to {name}"), file.write_all(b"!"));
        ways.tried(&format!("read from {name}"), file.read_exact(&mut [0]));
    }
    for fd in 0..3 {
        let byte = b'!';
        // SAFETY: as above.
        ways.call("TIOCSTI", unsafe { libc::ioctl(fd, libc::TIOCSTI, &raw const byte) });
    }
}

pub fn signals(t: &Targets, ways: &mut Ways) {
    // SAFETY: no pointers but null; descriptors are closed with the process.
    unsafe {
        ways.call("kill", libc::kill(t.prey[0], libc::SIGTERM));
        ways.call("kill a group", libc::kill(-t.prey[0], libc::SIGTERM));
        ways.call("tgkill", libc::syscall(libc::SYS_tgkill, t.prey[0], t.prey[0], libc::SIGTERM));
        let process = libc::syscall(libc::SYS_pidfd_open, t.prey[0], 0);
        if process >= 0 {
            let none = std::ptr::null::<libc::siginfo_t>();
            let sent = libc::syscall(libc::SYS_pidfd_send_signal, process, libc::SIGTERM, none, 0);
            ways.call("pidfd_send_signal", sent);
        }
        // Ignored by whoever gets it.
        ways.call("the runner", libc::kill(t.runner, libc::SIGURG));
        let launcher = libc::getppid();
        if launcher > 1 {
            ways.call("the launcher", libc::kill(launcher, libc::SIGURG));
        }
    }
}

/// The kernel sends a signal to whom a descriptor says it belongs.
pub fn sigio(t: &Targets, ways: &mut Ways) {
    let (mine, other) = UnixStream::pair().unwrap();
    // SAFETY: plain calls on a descriptor of ours.
    unsafe {
        let fd = mine.as_raw_fd();
        // SIGIO ends who has no handler for it.
        let owned = libc::fcntl(fd, libc::F_SETOWN, t.prey[1]);
        libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK);
        let _ = (&other).write_all(b"x");
        std::thread::sleep(Duration::from_millis(100));
        // That it could be set says nothing; the victim does.
        let gone = libc::kill(t.prey[1], 0) < 0
            && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
        if owned < 0 {
            ways.call("F_SETOWN", owned);
        } else if gone && Path::new(&format!("/proc/{}", t.runner)).exists() {
            ways.tried("SIGIO", Ok(()));
        }
    }
}

pub fn setuid(_: &Targets, ways: &mut Ways) {
    // SAFETY: no pointers but to valid structures; in processes of their own.
    unsafe {
        let other = if libc::geteuid() == 0 { 12345 } else { 0 };
        ways.tried("setuid", in_child(|| i64::from(libc::setresuid(other, other, other))));
        ways.tried("setgid", in_child(|| i64::from(libc::setresgid(other, other, other))));
        let groups = [other];
        ways.tried("setgroups", in_child(|| i64::from(libc::setgroups(1, groups.as_ptr()))));
        let header = [0x2008_0522u32, 0];
        let all = [[u32::MAX; 3]; 2];
        ways.tried(
            "capset",
            in_child(|| libc::syscall(libc::SYS_capset, header.as_ptr(), all.as_ptr())),
        );
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    // Only root can empty the bounding set, and only root could gain from it.
    // SAFETY: cannot fail.
    let bounding = (unsafe { libc::geteuid() } == 0).then_some("CapBnd");
    for line in ["CapInh", "CapPrm", "CapEff", "CapAmb"].into_iter().chain(bounding) {
        let text = status.lines().find_map(|text| text.strip_prefix(&format!("{line}:")));
        if text.is_none_or(|text| text.trim() != "0000000000000000") {
            ways.tried(line, Ok(()));
        }
    }
    if !status.contains("NoNewPrivs:\t1") {
        ways.tried("NoNewPrivs", Ok(()));
    }
}

pub fn scheduler(t: &Targets, ways: &mut Ways) {
    // SAFETY: pointers to valid structures of the sizes given.
    unsafe {
        let mut param: libc::sched_param = std::mem::zeroed();
        ways.tried("nice", in_child(|| i64::from(libc::setpriority(libc::PRIO_PROCESS, 0, -10))));
        ways.call("idle", libc::sched_setscheduler(t.victim, libc::SCHED_IDLE, &raw const param));
        ways.call(
            "nice of another",
            libc::setpriority(libc::PRIO_PROCESS, t.victim.cast_unsigned(), 10),
        );
        ways.call("ioprio", libc::syscall(libc::SYS_ioprio_set, 1, t.victim, 3 << 13));
        param.sched_priority = 1;
        let fifo =
            in_child(|| i64::from(libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param)));
        ways.tried("real time", fifo);
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        ways.call("affinity", libc::sched_setaffinity(t.victim, size_of_val(&set), &raw const set));
    }
}

pub fn limits_of_others(t: &Targets, ways: &mut Ways) {
    let few = libc::rlimit { rlim_cur: 7, rlim_max: 7 };
    // SAFETY: a valid limit.
    let done = unsafe {
        libc::prlimit(t.victim, libc::RLIMIT_NOFILE, &raw const few, std::ptr::null_mut())
    };
    ways.call("prlimit", done);
}

pub fn core_dump(_: &Targets, ways: &mut Ways) {
    let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: as above; the child ends itself.
    unsafe {
        ways.call("setrlimit", libc::setrlimit(libc::RLIMIT_CORE, &raw const all));
        let pid = libc::fork();
        if pid == 0 {
            libc::abort();
        }
        let mut status = 0;
        libc::waitpid(pid, &raw mut status, 0);
        if libc::WCOREDUMP(status) {
            ways.tried("dump", Ok(()));
        }
    }
}
