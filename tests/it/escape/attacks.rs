//! The attacks themselves. The test binary is its own attack program: a run starts it once more as a
//! command, with the name of one attack, so that nothing has to be installed where the suite runs.
//!
//! Every attack is bounded by itself: a fixed number of tries, processes and bytes. None could do harm
//! where nothing holds it: its targets are a folder, a process and sockets that the test made for it.

#[path = "hogs.rs"]
mod hogs;
#[path = "ipc.rs"]
pub mod ipc;
#[path = "metadata.rs"]
mod metadata;
#[path = "processes.rs"]
mod processes;
#[path = "sockets.rs"]
mod sockets;

use super::targets::Targets;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// The attack that is told of no targets: its disk is mounted over them.
pub const FILLER: &str = "disk_filler";

/// What the ways of one attack came to.
#[derive(Default)]
pub struct Ways {
    went: Vec<String>,
    refused: Vec<String>,
}

impl Ways {
    fn tried<T>(&mut self, way: &str, done: io::Result<T>) {
        match done {
            Ok(_) => self.went.push(way.to_owned()),
            Err(error) => {
                let number = error.raw_os_error().map_or(error.to_string(), |n| n.to_string());
                self.refused.push(format!("{way}: {number}"));
            }
        }
    }

    fn call(&mut self, way: &str, result: impl Into<i64>) {
        self.tried(way, check(result.into()));
    }

    fn report(&self) -> String {
        let verdict = if self.went.is_empty() { "stopped" } else { "achieved" };
        format!("{verdict} | went: {} | refused: {}", self.went.join(", "), self.refused.join(", "))
    }
}

fn check(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Not a test: the attack program. Without its word it does nothing.
#[test]
fn attack() {
    let Some(name) =
        std::env::args().find_map(|word| Some(word.strip_prefix("attack=")?.to_owned()))
    else {
        return;
    };
    let mut ways = Ways::default();
    if name == FILLER {
        hogs::disk_filler(&mut ways);
    } else {
        let known = ATTACKS.iter().find(|(known, _)| *known == name);
        let (_, attack) = known.unwrap_or_else(|| panic!("no attack is called {name}"));
        attack(&Targets::wait_for(), &mut ways);
    }
    println!("\nATTACK {name} {}", ways.report());
}

type Attack = fn(&Targets, &mut Ways);

pub const ATTACKS: &[(&str, Attack)] = &[
    ("write", write_path),
    ("symlink", through_symlink),
    ("hard_link", hard_link),
    ("rename", rename_over),
    ("proc_self", proc_self),
    ("proc_pid", proc_pid),
    ("read", read_outside),
    ("dev_shm_write", dev_shm_write),
    ("dev_shm_read", dev_shm_read),
    ("chmod", metadata::chmod),
    ("chown", metadata::chown),
    ("utime", metadata::utime),
    ("setxattr", metadata::setxattr),
    ("file_flags", metadata::file_flags),
    ("git_rename_in", git_rename_in),
    ("git_config", git_config),
    ("git_moved", git_moved),
    ("mount", mount),
    ("chroot", chroot),
    ("ptrace", processes::ptrace),
    ("environ", processes::environ),
    ("memory", processes::memory),
    ("descriptors", processes::descriptors),
    ("memfd_exec", processes::memfd_exec),
    ("io_uring", io_uring),
    ("kernel_surface", kernel_surface),
    ("abstract_socket", sockets::abstract_socket),
    ("unix_socket", sockets::unix_socket),
    ("unix_datagram", sockets::unix_datagram),
    ("engine_socket", sockets::engine_socket),
    ("internet", sockets::internet),
    ("sysv_shm", ipc::sysv_shm),
    ("queues", ipc::queues),
    ("terminal", processes::terminal),
    ("signals", processes::signals),
    ("sigio", processes::sigio),
    ("setuid", processes::setuid),
    ("scheduler", processes::scheduler),
    ("limits_of_others", processes::limits_of_others),
    ("core_dump", processes::core_dump),
    ("fork_bomb", hogs::fork_bomb),
    ("memory_hog", hogs::memory_hog),
    ("memory_files", hogs::memory_files),
];

fn overwrite(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(b"attacked")
}

fn write_path(t: &Targets, ways: &mut Ways) {
    let canary = t.outside("write").join("canary");
    ways.tried("open", overwrite(&canary));
    ways.tried("create", fs::write(t.outside("write").join("new"), "x"));
    ways.tried("mkdir", fs::create_dir(t.outside("write").join("dir")));
    // SAFETY: valid C strings; so in all calls below.
    unsafe {
        ways.call("truncate", libc::truncate(c(&canary).as_ptr(), 0));
        let fifo = c(&t.outside("write").join("fifo"));
        ways.call("mknod", libc::mknod(fifo.as_ptr(), libc::S_IFIFO | 0o600, 0));
    }
    ways.tried("unlink", fs::remove_file(t.outside("write").join("second")));
    ways.tried("the runner's program", OpenOptions::new().append(true).open(&t.runner_program));
}

fn through_symlink(t: &Targets, ways: &mut Ways) {
    let outside = t.outside("symlink");
    let _ = symlink(outside.join("canary"), "link-file");
    let _ = symlink(&outside, "link-dir");
    ways.tried("file", overwrite(Path::new("link-file")));
    ways.tried("folder", overwrite(Path::new("link-dir/canary")));
    ways.tried("create", fs::write("link-dir/new", "x"));
}

fn hard_link(t: &Targets, ways: &mut Ways) {
    let canary = t.outside("hard_link").join("canary");
    ways.tried(
        "link",
        fs::hard_link(&canary, "hard-1").and_then(|()| overwrite(Path::new("hard-1"))),
    );
    let held = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&canary);
    let through = held.and_then(|held| {
        let from = CString::new(format!("/proc/self/fd/{}", held.as_raw_fd())).unwrap();
        // SAFETY: as above.
        check(i64::from(unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                c"hard-2".as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        }))?;
        overwrite(Path::new("hard-2"))
    });
    ways.tried("link of a descriptor", through);
}

fn rename_over(t: &Targets, ways: &mut Ways) {
    let canary = t.outside("rename").join("canary");
    for name in ["mine-1", "mine-2"] {
        fs::write(name, "attacked").unwrap();
    }
    ways.tried("over", fs::rename("mine-1", &canary));
    ways.tried("away", fs::rename(&canary, "stolen"));
    // SAFETY: as above.
    let exchanged = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            c"mine-2".as_ptr(),
            libc::AT_FDCWD,
            c(&canary).as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    ways.call("exchange", exchanged);
}

fn proc_self(t: &Targets, ways: &mut Ways) {
    let canary = t.outside("proc_self").join("canary");
    let below = canary.strip_prefix("/").unwrap();
    ways.tried("root", overwrite(&Path::new("/proc/self/root").join(below)));
    ways.tried("cwd", overwrite(Path::new("/proc/self/cwd/../outside/proc_self/canary")));
    ways.tried("thread", overwrite(&Path::new("/proc/thread-self/root").join(below)));
    let held = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&canary);
    ways.tried(
        "reopened descriptor",
        held.and_then(|held| {
            overwrite(&PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd())))
        }),
    );
    let folder =
        OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(canary.parent().unwrap());
    let through = folder.and_then(|folder| {
        // SAFETY: as above.
        let fd = unsafe {
            libc::openat(folder.as_raw_fd(), c"canary".as_ptr(), libc::O_WRONLY | libc::O_TRUNC)
        };
        check(i64::from(fd))
    });
    ways.tried("openat", through);
}

fn proc_pid(t: &Targets, ways: &mut Ways) {
    let canary = t.outside("proc_pid").join("canary");
    let below = canary.strip_prefix("/").unwrap();
    for pid in [t.victim, t.runner, t.parent, 1] {
        ways.tried("root", overwrite(&PathBuf::from(format!("/proc/{pid}/root")).join(below)));
        // The victim stands in that very folder.
        ways.tried("cwd", overwrite(&PathBuf::from(format!("/proc/{pid}/cwd/proc_pid/canary"))));
    }
    let score = format!("/proc/{}/oom_score_adj", t.victim);
    ways.tried(
        "oom_score_adj",
        OpenOptions::new().write(true).open(score).and_then(|mut f| f.write_all(b"1000")),
    );
    for pid in [t.victim, t.runner] {
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            ways.tried("descriptor", File::open(entry.path()));
        }
    }
}

/// Puts what an attack could read where the test finds it; backwards, or the run itself would find a
/// known secret in its diff.
fn loot(name: &str, bytes: &[u8]) {
    let backwards: Vec<u8> = bytes.iter().rev().copied().collect();
    fs::write(format!("loot-{name}"), backwards).unwrap();
}

fn read_outside(t: &Targets, ways: &mut Ways) {
    let secret = t.outside("read").join("secret");
    let below = secret.strip_prefix("/").unwrap();
    let _ = symlink(&secret, "link-secret");
    let _ = fs::hard_link(&secret, "hard-secret");
    let places = [
        secret.clone(),
        PathBuf::from("link-secret"),
        PathBuf::from("hard-secret"),
        Path::new("/proc/self/root").join(below),
        PathBuf::from(format!("/proc/{}/cwd/read/secret", t.victim)),
    ];
    let mut found = Vec::new();
    for place in places {
        let read = fs::read(&place);
        if let Ok(bytes) = &read {
            found.extend_from_slice(bytes);
        }
        ways.tried("read", read);
    }
    ways.tried("list", fs::read_dir(secret.parent().unwrap()));
    loot("read", &found);
}

fn dev_shm_write(t: &Targets, ways: &mut Ways) {
    ways.tried("overwrite", overwrite(&t.shm_file));
    ways.tried("unlink", fs::remove_file(&t.shm_file));
}

fn dev_shm_read(t: &Targets, ways: &mut Ways) {
    let read = fs::read(&t.shm_file);
    loot("dev_shm_read", read.as_deref().unwrap_or_default());
    ways.tried("read", read);
}

fn git_rename_in(_: &Targets, ways: &mut Ways) {
    fs::write("hook", "#!/bin/sh\ntouch attacked\n").unwrap();
    ways.tried("rename", fs::rename("hook", ".git/hooks/pre-commit"));
}

fn git_config(_: &Targets, ways: &mut Ways) {
    let append = OpenOptions::new().append(true).open(".git/config");
    ways.tried(
        "append",
        append.and_then(|mut file| file.write_all(b"[core]\n\tfsmonitor = ./attack\n")),
    );
}

fn git_moved(_: &Targets, ways: &mut Ways) {
    let moved = fs::rename(".git", "moved")
        .and_then(|()| fs::create_dir(".git"))
        .and_then(|()| fs::write(".git/config", "[core]\n\tfsmonitor = ./attack\n"));
    ways.tried("rename", moved);
}

/// In a process of its own, which has one thread.
fn in_child(work: impl FnOnce() -> i64) -> io::Result<()> {
    // SAFETY: the child makes plain system calls and leaves at once.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let error = if work() >= 0 {
                0
            } else {
                io::Error::last_os_error().raw_os_error().unwrap_or(1)
            };
            libc::_exit(error);
        }
        let mut status = 0;
        check(i64::from(pid))?;
        libc::waitpid(pid, &raw mut status, 0);
        match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
            (true, 0) => Ok(()),
            (true, error) => Err(io::Error::from_raw_os_error(error)),
            _ => Err(io::Error::other("killed")),
        }
    }
}

fn mount(t: &Targets, ways: &mut Ways) {
    let _ = fs::create_dir("mnt");
    let outside = c(&t.outside("mount"));
    let none = std::ptr::null::<libc::c_char>();
    let tmpfs = || unsafe {
        // SAFETY: as above.
        i64::from(libc::mount(c"none".as_ptr(), c"mnt".as_ptr(), c"tmpfs".as_ptr(), 0, none.cast()))
    };
    ways.tried("tmpfs", in_child(tmpfs));
    let bind = || unsafe {
        // SAFETY: as above.
        i64::from(libc::mount(outside.as_ptr(), c"mnt".as_ptr(), none, libc::MS_BIND, none.cast()))
    };
    ways.tried("bind", in_child(bind));
    let new_user = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
    // SAFETY: no pointers.
    ways.tried("user namespace", in_child(|| unsafe { i64::from(libc::unshare(new_user)) }));
    // SAFETY: no pointers.
    ways.tried(
        "mount namespace",
        in_child(|| unsafe { i64::from(libc::unshare(libc::CLONE_NEWNS)) }),
    );
    // SAFETY: as above.
    unsafe {
        ways.call(
            "open_tree",
            libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, outside.as_ptr(), 1),
        );
        ways.call("fsopen", libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0));
        let attr = [0u64, 1, 0, 0];
        let here = c".".as_ptr();
        ways.call(
            "mount_setattr",
            libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, here, 0, attr.as_ptr(), 32),
        );
        let namespace = File::open(format!("/proc/{}/ns/mnt", t.victim));
        let joined =
            namespace.and_then(|ns| in_child(|| i64::from(libc::setns(ns.as_raw_fd(), 0))));
        ways.tried("setns", joined);
    }
}

fn chroot(_: &Targets, ways: &mut Ways) {
    // SAFETY: as above, in processes of their own.
    unsafe {
        ways.tried("chroot", in_child(|| i64::from(libc::chroot(c".".as_ptr()))));
        ways.tried(
            "pivot_root",
            in_child(|| libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr())),
        );
    }
}

fn io_uring(_: &Targets, ways: &mut Ways) {
    let mut params = [0u8; 120];
    // SAFETY: a zeroed structure of the size that the call fills in.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
    ways.call("io_uring_setup", fd);
}

fn kernel_surface(_: &Targets, ways: &mut Ways) {
    // SAFETY: null or valid pointers with sizes that go with them; nothing here changes the machine.
    unsafe {
        let no = std::ptr::null::<u8>();
        ways.call(
            "add_key",
            libc::syscall(
                libc::SYS_add_key,
                c"user".as_ptr(),
                c"attack".as_ptr(),
                c"x".as_ptr(),
                1,
                -3,
            ),
        );
        ways.call("keyctl", libc::syscall(libc::SYS_keyctl, 0, -3, 0));
        ways.call("userfaultfd", libc::syscall(libc::SYS_userfaultfd, 1));
        let mut attr = [0u8; 128];
        attr[4] = 128;
        ways.call(
            "perf_event_open",
            libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), 0, -1, -1, 0),
        );
        ways.call("bpf", libc::syscall(libc::SYS_bpf, 0, attr.as_ptr(), 128));
        ways.tried("personality", in_child(|| libc::syscall(libc::SYS_personality, 0x0040_0000)));
        for flag in [libc::CLONE_NEWNET, libc::CLONE_NEWPID, libc::CLONE_NEWIPC, libc::CLONE_NEWUTS]
        {
            ways.tried("unshare", in_child(|| i64::from(libc::unshare(flag))));
        }
        let sethost = in_child(|| i64::from(libc::sethostname(c"attacked".as_ptr(), 8)));
        ways.tried("sethostname", sethost);
        ways.call("open_by_handle_at", libc::syscall(libc::SYS_open_by_handle_at, -1, no, 0));
    }
}
