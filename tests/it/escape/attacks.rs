//! The attacks themselves. The test binary is its own attack program: a run starts it once more as a
//! command, with the name of one attack, so that nothing has to be installed where the suite runs.
//!
//! Every attack is bounded by itself: a fixed number of tries, processes and bytes. None could do harm
//! where nothing holds it: its targets are a folder, a process and sockets that the test made for it.

#[path = "ipc.rs"]
pub mod ipc;
#[path = "metadata.rs"]
mod metadata;

use super::targets::Targets;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processes that the fork bomb starts at the most, and how long each of them lives.
pub const FORKS: usize = 200;
const FORK_LIFE: Duration = Duration::from_secs(2);
/// The hog: so many processes with so many MiB each.
const HOGS: usize = 4;
const HOG_MIB: usize = 100;
/// The attack that is told of no targets: its disk is mounted over them. It writes so many MiB.
pub const FILLER: &str = "disk_filler";
const FILL_MIB: usize = 32;

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
        disk_filler(&mut ways);
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
    ("ptrace", ptrace),
    ("environ", environ),
    ("memory", memory),
    ("descriptors", descriptors),
    ("memfd_exec", memfd_exec),
    ("io_uring", io_uring),
    ("kernel_surface", kernel_surface),
    ("abstract_socket", abstract_socket),
    ("unix_socket", unix_socket),
    ("unix_datagram", unix_datagram),
    ("engine_socket", engine_socket),
    ("internet", internet),
    ("sysv_shm", ipc::sysv_shm),
    ("queues", ipc::queues),
    ("terminal", terminal),
    ("signals", signals),
    ("sigio", sigio),
    ("setuid", setuid),
    ("scheduler", scheduler),
    ("limits_of_others", limits_of_others),
    ("core_dump", core_dump),
    ("fork_bomb", fork_bomb),
    ("memory_hog", memory_hog),
    ("memory_files", memory_files),
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

fn ptrace(t: &Targets, ways: &mut Ways) {
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

fn environ(t: &Targets, ways: &mut Ways) {
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

fn memory(t: &Targets, ways: &mut Ways) {
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

fn descriptors(_: &Targets, ways: &mut Ways) {
    for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let number: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
        let link = fs::read_link(entry.path()).unwrap_or_default();
        if number > 2 && !link.starts_with("/proc") {
            ways.tried(&format!("{number} → {}", link.display()), Ok(()));
        }
    }
}

fn memfd_exec(t: &Targets, ways: &mut Ways) {
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

/// A socket address of a Unix socket, whatever its name begins with.
fn unix_address(name: &[u8]) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: all zeroes are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    (address, (2 + name.len()) as libc::socklen_t)
}

/// Connects, or sends one byte to, a Unix socket of this kind.
fn reach(name: &[u8], kind: i32, send: bool) -> io::Result<()> {
    let (address, length) = unix_address(name);
    let address = (&raw const address).cast();
    // SAFETY: a valid address of the given length; the socket is owned at once.
    unsafe {
        let fd = check(i64::from(libc::socket(libc::AF_UNIX, kind, 0)))?;
        let socket = OwnedFd::from_raw_fd(i32::try_from(fd).unwrap());
        let fd = socket.as_raw_fd();
        if send {
            check(libc::sendto(fd, c"x".as_ptr().cast(), 1, 0, address, length) as i64)?;
        } else {
            check(i64::from(libc::connect(fd, address, length)))?;
            check(libc::send(fd, c"x".as_ptr().cast(), 1, libc::MSG_NOSIGNAL) as i64)?;
        }
    }
    Ok(())
}

fn abstract_socket(t: &Targets, ways: &mut Ways) {
    let name = [b"\0", t.abstract_name.as_bytes()].concat();
    ways.tried("stream", reach(&name, libc::SOCK_STREAM, false));
    let name = [b"\0", t.abstract_name.as_bytes(), b".d"].concat();
    ways.tried("datagram", reach(&name, libc::SOCK_DGRAM, true));
    ways.tried("connected datagram", reach(&name, libc::SOCK_DGRAM, false));
}

fn unix_socket(t: &Targets, ways: &mut Ways) {
    let path = t.sockets().join("s");
    let _ = symlink(&path, "link-socket");
    let held = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&path);
    for (way, path) in [
        ("path", path.clone()),
        ("relative", PathBuf::from("../s/s")),
        ("link", PathBuf::from("link-socket")),
        ("root", Path::new("/proc/self/root").join(path.strip_prefix("/").unwrap())),
        ("another process", PathBuf::from(format!("/proc/{}/cwd/../s/s", t.victim))),
    ] {
        ways.tried(way, reach(path.as_os_str().as_bytes(), libc::SOCK_STREAM, false));
    }
    if let Ok(held) = held {
        let path = format!("/proc/self/fd/{}", held.as_raw_fd());
        ways.tried("a descriptor", reach(path.as_bytes(), libc::SOCK_STREAM, false));
    }
    let packets = t.sockets().join("p");
    ways.tried("packets", reach(packets.as_os_str().as_bytes(), libc::SOCK_SEQPACKET, false));
}

fn unix_datagram(t: &Targets, ways: &mut Ways) {
    let path = t.sockets().join("d");
    ways.tried("sendto", reach(path.as_os_str().as_bytes(), libc::SOCK_DGRAM, true));
    ways.tried("connect", reach(path.as_os_str().as_bytes(), libc::SOCK_DGRAM, false));
    // The same kind by another name.
    ways.tried("raw", reach(path.as_os_str().as_bytes(), libc::SOCK_RAW, true));
    // A pair has two sockets that are connected already; a datagram may be sent elsewhere all the same.
    let mut pair = [0; 2];
    let (address, length) = unix_address(path.as_os_str().as_bytes());
    // SAFETY: room for two descriptors; a valid address.
    unsafe {
        if libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr()) == 0 {
            let sent = libc::sendto(
                pair[0],
                c"x".as_ptr().cast(),
                1,
                0,
                (&raw const address).cast(),
                length,
            );
            ways.call("one of a pair", sent as i64);
        }
    }
}

/// The socket of a container engine: who reaches it is root on the machine.
fn engine_socket(t: &Targets, ways: &mut Ways) {
    let talk = UnixStream::connect(t.sockets().join("docker.sock")).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")?;
        let mut answer = [0u8; 16];
        stream.read_exact(&mut answer)
    });
    ways.tried("connect", talk);
}

fn internet(t: &Targets, ways: &mut Ways) {
    use std::net::{TcpStream, UdpSocket};
    let wait = Duration::from_secs(2);
    let v4 = std::net::SocketAddr::from(([127, 0, 0, 1], t.tcp_port));
    ways.tried("TCP", TcpStream::connect_timeout(&v4, wait));
    let v6 = std::net::SocketAddr::from(([0u16, 0, 0, 0, 0, 0, 0, 1], t.tcp_port));
    ways.tried("TCP over IPv6", TcpStream::connect_timeout(&v6, wait));
    let sent =
        UdpSocket::bind("127.0.0.1:0").and_then(|s| s.send_to(b"x", ("127.0.0.1", t.udp_port)));
    ways.tried("UDP", sent);
    // SAFETY: no pointers.
    unsafe {
        ways.call("raw", libc::socket(libc::AF_INET, libc::SOCK_RAW, 1));
        ways.call("packet", libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0));
        ways.call("vsock", libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0));
        ways.call("netlink", libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 15));
    }
}

/// Shared memory of System V that a process outside made.
fn terminal(t: &Targets, ways: &mut Ways) {
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

fn signals(t: &Targets, ways: &mut Ways) {
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
fn sigio(t: &Targets, ways: &mut Ways) {
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

fn setuid(_: &Targets, ways: &mut Ways) {
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

fn scheduler(t: &Targets, ways: &mut Ways) {
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

fn limits_of_others(t: &Targets, ways: &mut Ways) {
    let few = libc::rlimit { rlim_cur: 7, rlim_max: 7 };
    // SAFETY: a valid limit.
    let done = unsafe {
        libc::prlimit(t.victim, libc::RLIMIT_NOFILE, &raw const few, std::ptr::null_mut())
    };
    ways.call("prlimit", done);
}

fn core_dump(_: &Targets, ways: &mut Ways) {
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

/// Starts processes, at the most [`FORKS`], that do nothing and end soon.
fn fork_bomb(_: &Targets, ways: &mut Ways) {
    let mut started = 0;
    for _ in 0..FORKS {
        // SAFETY: the child only sleeps and leaves.
        unsafe {
            match libc::fork() {
                0 => {
                    std::thread::sleep(FORK_LIFE);
                    libc::_exit(0);
                }
                -1 => break,
                _ => started += 1,
            }
        }
    }
    let limit = FORKS;
    std::thread::sleep(FORK_LIFE / 2);
    if started == limit {
        ways.tried(&format!("{started} processes"), Ok(()));
    } else {
        ways.tried("fork", Err::<(), _>(io::Error::other(format!("stopped at {started}"))));
    }
}

/// Several processes that together hold [`HOGS`] × [`HOG_MIB`] MiB for a moment.
fn memory_hog(_: &Targets, ways: &mut Ways) {
    let mut children = Vec::new();
    for _ in 0..HOGS {
        // SAFETY: the child fills memory of its own, holds it for a moment and leaves.
        unsafe {
            match libc::fork() {
                0 => {
                    let size = HOG_MIB << 20;
                    let (prot, flags) = (
                        libc::PROT_READ | libc::PROT_WRITE,
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    );
                    let at = libc::mmap(std::ptr::null_mut(), size, prot, flags, -1, 0);
                    if at == libc::MAP_FAILED {
                        libc::_exit(1);
                    }
                    for page in (0..size).step_by(4096) {
                        at.cast::<u8>().add(page).write(1);
                    }
                    std::thread::sleep(FORK_LIFE);
                    libc::_exit(0);
                }
                pid => children.push(pid),
            }
        }
    }
    let mut held = 0;
    for pid in children {
        let mut status = 0;
        // SAFETY: waits for a child of ours.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        held += usize::from(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
    }
    match held == HOGS {
        true => ways.tried(&format!("{} MiB", HOGS * HOG_MIB), Ok(())),
        false => ways.tried("hold", Err::<(), _>(io::Error::other(format!("{held} of {HOGS}")))),
    }
}

/// The same in memory files, half of them mapped and closed, by processes that let nobody look at them.
fn memory_files(_: &Targets, ways: &mut Ways) {
    let mut kept = Vec::new();
    let block = vec![1u8; 1 << 20];
    // SAFETY: no pointers but a name; new descriptors are owned at once; what is mapped stays so.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        for number in 0..HOGS {
            let fd = libc::memfd_create(c"hog".as_ptr(), 0);
            if fd < 0 {
                return ways.call("memfd_create", fd);
            }
            let mut file = File::from_raw_fd(fd);
            for _ in 0..HOG_MIB {
                if let Err(error) = file.write_all(&block) {
                    return ways.tried("write", Err::<(), _>(error));
                }
            }
            if number % 2 == 0 {
                kept.push(file);
                continue;
            }
            let (size, prot) = (HOG_MIB << 20, libc::PROT_READ);
            let at = libc::mmap(std::ptr::null_mut(), size, prot, libc::MAP_SHARED, fd, 0);
            if at == libc::MAP_FAILED {
                return ways.call("mmap", -1);
            }
        }
    }
    std::thread::sleep(FORK_LIFE);
    ways.tried(&format!("{} MiB", HOGS * HOG_MIB), Ok(()));
}

fn disk_filler(ways: &mut Ways) {
    let block = vec![1u8; 1 << 20];
    let filled = (0..FILL_MIB).try_for_each(|number| {
        // Several files, each of which is small; slow enough for whoever looks.
        std::thread::sleep(Duration::from_millis(25));
        let mut file =
            OpenOptions::new().create(true).append(true).open(format!("fill-{}", number % 8))?;
        file.write_all(&block)
    });
    for number in 0..8 {
        let _ = fs::remove_file(format!("fill-{number}"));
    }
    ways.tried(&format!("{FILL_MIB} MiB"), filled);
}
