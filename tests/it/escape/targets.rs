//! What the attacks aim at: canaries in a folder outside of everything granted, processes, sockets, a
//! terminal and memory of the test's own. They show whether an attack had an effect, whatever it says.

use super::attacks::ipc::Shared;
use crate::support::Sandboxed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Where the attack program finds its targets: in the workspace, which it may read.
const FILE: &str = "targets.json";
/// In the environment of a process outside, and in files outside.
pub const SECRET: &str = "escape-suite-secret-5f2c81";

/// What the attack program is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Targets {
    pub root: PathBuf,
    pub runner: i32,
    pub runner_program: PathBuf,
    /// Whoever started the runner.
    pub parent: i32,
    /// A process that stands in the folder outside, and an address in its memory.
    pub victim: i32,
    pub victim_address: u64,
    /// Processes for the attacks by signals alone.
    pub prey: [i32; 2],
    pub shm_file: PathBuf,
    pub shared: Shared,
    pub abstract_name: String,
    pub tcp_port: u16,
    pub udp_port: u16,
    pub terminal: PathBuf,
}

impl Targets {
    /// The folder of one attack.
    pub fn outside(&self, attack: &str) -> PathBuf {
        self.root.join("outside").join(attack)
    }

    pub fn sockets(&self) -> PathBuf {
        self.root.join("s")
    }

    /// The test writes them once it knows the runner.
    pub fn wait_for() -> Self {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Ok(text) = fs::read(FILE)
                && let Ok(targets) = serde_json::from_slice(&text)
            {
                return targets;
            }
            assert!(Instant::now() < deadline, "no {FILE}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The targets while the test holds them.
pub struct Range {
    pub targets: Targets,
    children: Vec<Child>,
    reached: BTreeMap<&'static str, Arc<AtomicU32>>,
    terminal: (OwnedFd, OwnedFd),
    before: BTreeMap<String, Vec<String>>,
}

/// Attacks with a folder of their own outside.
const FOLDERS: &[&str] = &[
    "write",
    "symlink",
    "hard_link",
    "rename",
    "proc_self",
    "proc_pid",
    "read",
    "chmod",
    "chown",
    "utime",
    "setxattr",
    "file_flags",
    "mount",
    "memfd_exec",
];

impl Range {
    pub fn set_up(place: &Sandboxed, program: &Path) -> Self {
        let root = place.path("");
        for folder in FOLDERS {
            let file = if *folder == "read" { "secret" } else { "canary" };
            place.write(&format!("outside/{folder}/{file}"), SECRET);
        }
        place.write("outside/write/second", "");
        // The one file outside that commands may read: the policy names it.
        place.write("home/readable", SECRET);
        let attributed =
            std::ffi::CString::new(root.join("outside/setxattr/canary").to_str().unwrap());
        // SAFETY: two texts and a value of one byte.
        unsafe {
            let value = c"x".as_ptr().cast();
            libc::setxattr(attributed.unwrap().as_ptr(), c"user.there".as_ptr(), value, 1, 0);
        }
        fs::create_dir(root.join("s")).unwrap();
        let mut reached = BTreeMap::new();
        let outside = root.join("outside");
        let victim = process(&outside);
        let prey = [process(&outside), process(&outside)];
        // Tests of one process run beside each other.
        static RANGES: AtomicU32 = AtomicU32::new(0);
        let number = RANGES.fetch_add(1, Ordering::SeqCst);
        let abstract_name = format!("turnkey-escape-{}-{number}", std::process::id());
        let (tcp_port, udp_port) = listen(&root.join("s"), &abstract_name, &mut reached);
        let shm_file = Path::new("/dev/shm").join(&abstract_name);
        fs::write(&shm_file, SECRET).unwrap();
        let shared = Shared::new(&abstract_name);
        let (terminal, name) = terminal();
        let pid = |child: &Child| child.id().cast_signed();
        let targets = Targets {
            root: root.clone(),
            runner: 0,
            runner_program: program.to_owned(),
            parent: std::process::id().cast_signed(),
            victim: pid(&victim),
            victim_address: readable_address(pid(&victim)),
            prey: [pid(&prey[0]), pid(&prey[1])],
            shm_file,
            shared,
            abstract_name,
            tcp_port,
            udp_port,
            terminal: name,
        };
        let [first, second] = prey;
        let mut range = Self {
            targets,
            children: vec![victim, first, second],
            reached,
            terminal,
            before: BTreeMap::new(),
        };
        range.before = super::attacks::ATTACKS
            .iter()
            .map(|(name, _)| (name.to_string(), range.look(name)))
            .collect();
        range
    }

    /// Tells the attack program where everything is.
    pub fn tell(&mut self, place: &Sandboxed, runner: u32) {
        self.targets.runner = runner.cast_signed();
        place.write(&format!("ws/.{FILE}"), serde_json::to_vec(&self.targets).unwrap());
        fs::rename(place.path(&format!("ws/.{FILE}")), place.path(&format!("ws/{FILE}"))).unwrap();
    }

    /// Whether an attack left a mark on its target.
    pub fn is_hit(&self, name: &str) -> bool {
        self.look(name) != self.before[name]
    }

    /// What an attack could change, as text.
    fn look(&self, name: &str) -> Vec<String> {
        let t = &self.targets;
        let mut seen = Vec::new();
        let mut count = |what: &str| {
            seen.push(format!(
                "{:?}",
                self.reached.get(what).map(|count| count.load(Ordering::SeqCst))
            ));
        };
        match name {
            "abstract_socket" => count("abstract"),
            "unix_socket" => count("path"),
            "unix_datagram" => count("datagram"),
            "engine_socket" => count("engine"),
            "internet" => count("internet"),
            _ => {}
        }
        match name {
            "dev_shm_write" => seen.push(fs::read_to_string(&t.shm_file).unwrap_or_default()),
            "signals" => seen.push(state(t.prey[0], name)),
            "sigio" => seen.push(state(t.prey[1], name)),
            "ptrace" | "scheduler" | "limits_of_others" | "proc_pid" => {
                seen.push(state(t.victim, name));
            }
            "sysv_shm" => seen.push(t.shared.memory()),
            "queues" => seen.push(t.shared.queues()),
            "terminal" => {
                seen.push(waiting(&self.terminal.0));
                seen.push(waiting(&self.terminal.1));
            }
            "mount" => seen.push(mounts(&t.root)),
            "read" | "dev_shm_read" | "environ" => {
                let loot = fs::read(t.root.join(format!("ws/loot-{name}"))).unwrap_or_default();
                let found: Vec<u8> = loot.iter().rev().copied().collect();
                seen.push(format!("{}", String::from_utf8_lossy(&found).contains(SECRET)));
            }
            "file_flags" => {
                let canaries = ["outside/file_flags/canary", "home/readable"];
                seen.extend(canaries.map(|name| file_flags(&t.root.join(name))));
            }
            "core_dump" => seen.push(format!("{}", t.root.join("ws/core").exists())),
            _ => {}
        }
        if FOLDERS.contains(&name) {
            seen.extend(folder(&t.outside(name), name));
        }
        if name.starts_with("git_") {
            let git = t.root.join("ws/.git");
            seen.push(fs::read_to_string(git.join("config")).unwrap_or_default());
            seen.push(format!("{}", git.join("hooks/pre-commit").exists()));
            seen.push(format!("{}", git.join("HEAD").exists()));
        }
        seen
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_file(&self.targets.shm_file);
        self.targets.shared.remove();
    }
}

/// Contents and attributes of a folder. Times of last access say nothing; times of last change of state
/// say that an owner was set, and are looked at for that alone: a link that was refused sets them too on
/// some file systems.
fn folder(path: &Path, attack: &str) -> Vec<String> {
    let mut seen: Vec<String> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| {
            let meta = entry.path().symlink_metadata().unwrap();
            let changed = if attack == "chown" { meta.ctime_nsec() } else { 0 };
            let mut name = [0u8; 256];
            let path = std::ffi::CString::new(entry.path().to_str().unwrap()).unwrap();
            // SAFETY: room for the names.
            let names =
                unsafe { libc::listxattr(path.as_ptr(), name.as_mut_ptr().cast(), name.len()) };
            format!(
                "{:?} {:o} {}:{} {} {} {changed} {names} {:?}",
                entry.file_name(),
                meta.mode(),
                meta.uid(),
                meta.gid(),
                meta.nlink(),
                meta.mtime_nsec(),
                // Reading a pipe would wait for ever.
                meta.is_file().then(|| fs::read(entry.path()).unwrap_or_default()),
            )
        })
        .collect();
    seen.sort();
    seen
}

/// The flags of a file, where its file system has any.
fn file_flags(path: &Path) -> String {
    const FS_IOC_GETFLAGS: libc::c_ulong = 0x8008_6601;
    let file = fs::File::open(path).unwrap();
    let mut flags: libc::c_int = 0;
    // SAFETY: writes one int.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETFLAGS, &raw mut flags) };
    format!("{done} {flags:x}")
}

/// A process outside the sandbox that only waits.
fn process(cwd: &Path) -> Child {
    Command::new("sleep")
        .arg("300.5")
        .env("ESCAPE_SECRET", SECRET)
        .current_dir(cwd)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// What an attack of this kind could have done to a process.
fn state(pid: i32, attack: &str) -> String {
    let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = file("status");
    let line = |name: &str| {
        status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
    };
    match attack {
        "ptrace" => line("TracerPid:"),
        "limits_of_others" => file("limits"),
        "proc_pid" => file("oom_score_adj"),
        "scheduler" => {
            // SAFETY: no pointers.
            let (policy, nice, io) = unsafe {
                (
                    libc::sched_getscheduler(pid),
                    libc::getpriority(libc::PRIO_PROCESS, pid.cast_unsigned()),
                    libc::syscall(libc::SYS_ioprio_get, 1, pid),
                )
            };
            format!("{policy} {nice} {io} {}", line("Cpus_allowed:"))
        }
        // Whether it lives and is not stopped.
        _ => ["S (", "R ("].iter().any(|living| line("State:").contains(living)).to_string(),
    }
}

/// The start of the victim's first readable mapping.
fn readable_address(pid: i32) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        // It may not have executed its program yet.
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let line = maps.lines().find(|line| line.contains(" r") && line.contains("sleep"));
        let start = line.and_then(|line| line.split('-').next());
        if let Some(start) = start.and_then(|start| u64::from_str_radix(start, 16).ok()) {
            return start;
        }
        assert!(Instant::now() < deadline, "no map of the victim: {maps}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn mounts(root: &Path) -> String {
    let all = fs::read_to_string("/proc/self/mounts").unwrap();
    all.lines().filter(|line| line.contains(root.to_str().unwrap())).collect()
}

/// Bytes that wait on one side of the terminal.
fn waiting(fd: &OwnedFd) -> String {
    let mut count = 0i32;
    // SAFETY: writes one int.
    unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    count.to_string()
}

/// A terminal that is nobody's controlling one: both sides, and the name of the second. Nothing waits for
/// a whole line, so that a byte that was put in shows at once.
fn terminal() -> ((OwnedFd, OwnedFd), PathBuf) {
    use rustix::pty::OpenptFlags;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).unwrap();
    let mut settings = rustix::termios::tcgetattr(&slave).unwrap();
    settings.make_raw();
    rustix::termios::tcsetattr(&slave, rustix::termios::OptionalActions::Now, &settings).unwrap();
    // Somebody has typed a letter, which is not for the attacker.
    rustix::io::write(&master, b"k").unwrap();
    crate::support::eventually("the letter is there", || waiting(&slave) == "1");
    ((master, slave), PathBuf::from(name.into_string().unwrap()))
}

/// Listeners that count who reaches them; they go with the test's process.
fn listen(
    folder: &Path,
    abstract_name: &str,
    reached: &mut BTreeMap<&'static str, Arc<AtomicU32>>,
) -> (u16, u16) {
    let mut counter = |name| reached.entry(name).or_default().clone();
    let address = SocketAddr::from_abstract_name(abstract_name).unwrap();
    streams(UnixListener::bind_addr(&address).unwrap(), counter("abstract"));
    let address = SocketAddr::from_abstract_name(format!("{abstract_name}.d")).unwrap();
    datagrams(UnixDatagram::bind_addr(&address).unwrap(), counter("abstract"));
    streams(UnixListener::bind(folder.join("s")).unwrap(), counter("path"));
    packets(&folder.join("p"), counter("path"));
    datagrams(UnixDatagram::bind(folder.join("d")).unwrap(), counter("datagram"));
    streams(UnixListener::bind(folder.join("docker.sock")).unwrap(), counter("engine"));
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let count = counter("internet");
    for listener in [Ok(tcp), TcpListener::bind(("::1", port))].into_iter().flatten() {
        let count = count.clone();
        std::thread::spawn(move || {
            for _ in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp_port = udp.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while udp.recv(&mut [0; 8]).is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, udp_port)
}

fn streams(listener: UnixListener, count: Arc<AtomicU32>) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
            let _ = stream.read(&mut [0; 256]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        }
    });
}

fn datagrams(socket: UnixDatagram, count: Arc<AtomicU32>) {
    std::thread::spawn(move || {
        while socket.recv(&mut [0; 8]).is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
}

fn packets(path: &Path, count: Arc<AtomicU32>) {
    // SAFETY: a new descriptor, owned at once; an address of the given length.
    let listener = unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, from) in address.sun_path.iter_mut().zip(path.to_str().unwrap().bytes()) {
            *to = from as libc::c_char;
        }
        let length = size_of_val(&address) as libc::socklen_t;
        assert_eq!(libc::bind(fd, (&raw const address).cast(), length), 0);
        assert_eq!(libc::listen(fd, 8), 0);
        OwnedFd::from_raw_fd(fd)
    };
    std::thread::spawn(move || {
        // SAFETY: no addresses are asked for.
        while unsafe {
            libc::accept(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut())
        } >= 0
        {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
}
