//! What a confined child tries, so that every grade is something that was seen to hold.

use super::filter::TRUNCATES;
use super::{Confinement, Layers, Wall, rights};
use crate::exec::order::{Finding, ProbeOrder};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// Nobody answers there: it is set aside for documentation.
const OUTSIDE: [u8; 4] = [203, 0, 113, 1];
/// A refusal comes at once; what only never arrives was not refused.
const PATIENCE: Duration = Duration::from_millis(300);

/// A listener for the probe's own attempts, which nobody accepts from.
pub fn blind_socket(path: &Path) -> io::Result<UnixListener> {
    // The address of a socket holds 107 bytes; the folder is named by its descriptor.
    let folder = std::fs::File::open(path.parent().unwrap_or(path))?;
    let name = path.file_name().unwrap_or_default();
    UnixListener::bind(Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

/// Goes to a socket's folder, so that its name alone is its address.
fn stand_beside(path: &Path) -> io::Result<&Path> {
    std::env::set_current_dir(path.parent().unwrap_or(path))?;
    Ok(Path::new(path.file_name().unwrap_or_default()))
}

/// Tries everything. The caller is confined already.
pub fn probe_child(confinement: &Confinement, probe: &ProbeOrder) -> Vec<Finding> {
    let mut findings = vec![
        files(confinement, probe),
        metadata(confinement, probe),
        network(confinement),
        sockets(confinement, probe),
        signals(confinement, probe),
        ipc(confinement),
        privileges(),
    ];
    if let Some(hidden) = &probe.hidden {
        findings.push(match std::fs::read(hidden) {
            Err(_) => Finding::new("hidden", "mounts", true, "covered by what nobody may open"),
            Ok(_) => Finding::new("hidden", "mounts", false, "a hidden file could be read"),
        });
    }
    findings
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

fn files(confinement: &Confinement, probe: &ProbeOrder) -> Finding {
    let layer = if confinement.layers.landlock { "landlock" } else { "mounts" };
    let write = |path: &Path| {
        std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).map(drop)
    };
    let empty = |path: &Path| {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a text that ends in NUL.
        match unsafe { libc::truncate(path.as_ptr(), 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    let empty_to_read = |path: &Path| {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(libc::O_TRUNC).open(path).map(drop)
    };
    if confinement.layers.landlock
        && (empty(&probe.foreign_file).is_ok() || empty_to_read(&probe.foreign_file).is_ok())
    {
        return Finding::new("files", layer, false, "a file outside the roots could be emptied");
    }
    if confinement.switches.io_uring && !confinement.layers.namespaces && rights::abi() < TRUNCATES
    {
        let why = "allow_io_uring lets files be emptied past the filter, and this Landlock does not know \
                   truncation (Linux 6.2 has it)";
        return Finding::new("files", layer, false, why);
    }
    let (outside, inside) = (write(&probe.forbidden_file), write(&probe.allowed_file));
    match (outside, inside) {
        (Err(error), Ok(())) if is_held(confinement, &error) => {
            let detail = match confinement.layers.landlock {
                true => format!("ABI {}", rights::abi()),
                false => "everything else is mounted read-only".into(),
            };
            Finding::new("files", layer, true, detail)
        }
        (Ok(()), _) => {
            Finding::new("files", layer, false, "a write outside the roots went through")
        }
        (_, Err(error)) => {
            Finding::new("files", layer, false, format!("a write inside the roots failed: {error}"))
        }
        (Err(error), _) => {
            Finding::new("files", layer, false, format!("a write outside the roots: {error}"))
        }
    }
}

/// Whether an error is the refusal that was wanted. What lies below a /tmp that the command does not have
/// is out of its sight, and not there for it.
fn is_held(confinement: &Confinement, error: &io::Error) -> bool {
    match errno(error) {
        libc::EACCES | libc::EROFS => true,
        libc::ENOENT => confinement.mounts.tmp.is_some(),
        _ => false,
    }
}

/// Modes, and with them owners, times and attributes: mounts hold them, else the supervisor.
fn metadata(confinement: &Confinement, probe: &ProbeOrder) -> Finding {
    let (layer, how) = match confinement.layers {
        Layers { namespaces: true, .. } => ("mounts", "what may not be written is read-only"),
        Layers { seccomp: true, .. } => ("the supervisor", "judged and made by it, by place"),
        _ => {
            let why = "without mounts or the supervisor nothing tells whose file a change of mode, \
                       owner, time or attribute is for";
            return Finding::new("metadata", "none", false, why);
        }
    };
    let set = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o640));
    let is_refused = |error: &io::Error| match errno(error) {
        libc::EACCES => false,
        libc::EPERM => !confinement.layers.namespaces,
        _ => is_held(confinement, error),
    };
    match (set(&probe.foreign_file), set(&probe.allowed_file)) {
        (Err(error), Ok(())) if is_refused(&error) => Finding::new("metadata", layer, true, how),
        (Ok(()), _) => Finding::new("metadata", layer, false, "a change of mode went through"),
        (_, Err(error)) => {
            let why = format!("a change of mode inside the roots failed: {error}");
            Finding::new("metadata", layer, false, why)
        }
        (Err(error), _) => Finding::new("metadata", layer, false, error.to_string()),
    }
}

fn network(confinement: &Confinement) -> Finding {
    let supervised = if confinement.layers.namespaces && confinement.wall == Wall::Loopback {
        "a network namespace"
    } else {
        "the connect supervisor"
    };
    match confinement.wall {
        Wall::None => {
            // SAFETY: asks for a socket; the process ends soon.
            let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
            if socket < 0 && confinement.layers.seccomp {
                Finding::new("network.none", "seccomp", true, "no socket but Unix ones")
            } else if confinement.layers.namespaces {
                Finding::new("network.none", "namespaces", true, "a network without any interface")
            } else {
                Finding::new("network.none", "seccomp", false, "internet sockets can be made")
            }
        }
        Wall::Loopback => loopback(supervised),
        Wall::Proxy(port) => proxied(supervised, port),
        Wall::Open => Finding::new("network.open", "policy", true, "granted"),
    }
}

/// Why nothing outside can be reached; what could be, otherwise.
fn outside_is_out_of_reach() -> Result<(), String> {
    let outside = SocketAddr::from((OUTSIDE, 9));
    match TcpStream::connect_timeout(&outside, PATIENCE) {
        Err(error) if [libc::EPERM, libc::EACCES, libc::ENETUNREACH].contains(&errno(&error)) => {}
        Err(error) => return Err(format!("a connection to {outside} was tried: {error}")),
        Ok(_) => return Err(format!("a connection to {outside} was made")),
    }
    let sent = UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"x", outside));
    if sent.is_ok() { Err(format!("a datagram to {outside} was sent")) } else { Ok(()) }
}

fn own_server() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    TcpStream::connect(listener.local_addr()?)?;
    Ok(())
}

fn loopback(layer: &str) -> Finding {
    let tried = own_server()
        .map_err(|error| format!("a server on 127.0.0.1 cannot be reached: {error}"))
        .and_then(|()| outside_is_out_of_reach());
    match tried {
        Ok(()) => Finding::new("network.loopback", layer, true, "127.0.0.1 and ::1, nothing else"),
        Err(why) => Finding::new("network.loopback", layer, false, why),
    }
}

fn proxied(layer: &str, port: u16) -> Finding {
    let proxy = SocketAddr::from(([127, 0, 0, 1], port));
    let tried = TcpStream::connect(proxy)
        .map_err(|error| format!("the proxy cannot be reached: {error}"))
        .and_then(|_| outside_is_out_of_reach())
        .and_then(|()| match own_server() {
            Ok(()) => Err("another port of 127.0.0.1 could be reached".into()),
            Err(_) => Ok(()),
        });
    match tried {
        Ok(()) => Finding::new("network.hosts", layer, true, "the runner's proxy, nothing else"),
        Err(why) => Finding::new("network.hosts", layer, false, why),
    }
}

fn sockets(confinement: &Confinement, probe: &ProbeOrder) -> Finding {
    if !confinement.layers.seccomp {
        let why = "without the supervisor any Unix socket in sight can be reached";
        return Finding::new("sockets", "none", false, why);
    }
    let layer = "the connect supervisor";
    if stand_beside(&probe.foreign_socket).and_then(UnixStream::connect).is_ok() {
        return Finding::new("sockets", layer, false, "a socket outside the roots was reached");
    }
    let own = stand_beside(&probe.own_socket).and_then(|name| {
        let _listener = UnixListener::bind(name)?;
        UnixStream::connect(name)
    });
    match own {
        Ok(_) => Finding::new("sockets", layer, true, "Unix sockets in writable folders only"),
        Err(error) => Finding::new(
            "sockets",
            layer,
            false,
            format!("a Unix socket in a writable folder cannot be reached: {error}"),
        ),
    }
}

fn signals(confinement: &Confinement, probe: &ProbeOrder) -> Finding {
    let layer = if confinement.layers.namespaces { "namespaces" } else { "landlock" };
    let pid = i32::try_from(probe.foreign_process).unwrap_or(i32::MAX);
    // SAFETY: signal 0 only asks.
    if unsafe { libc::kill(pid, 0) } == 0 {
        let why = "a process outside the command can be signalled (Landlock ABI 6, Linux 6.12, \
                   or namespaces hold that)";
        return Finding::new("signals", layer, false, why);
    }
    Finding::new("signals", layer, true, "the command's own processes only")
}

/// Shared memory, semaphores and queues by number or name, System V's and POSIX's.
fn ipc(confinement: &Confinement) -> Finding {
    if confinement.layers.namespaces {
        return Finding::new("ipc", "namespaces", true, "the command has its own");
    }
    // SAFETY: a new segment of one page, which is marked for removal at once; a queue that nobody made.
    let (segment, queue) = unsafe {
        let segment = libc::shmget(libc::IPC_PRIVATE, 4096, 0o600 | libc::IPC_CREAT);
        if segment >= 0 {
            libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut());
        }
        let queue = libc::syscall(libc::SYS_mq_open, c"turnkey-probe".as_ptr(), libc::O_RDONLY);
        (segment, if queue < 0 { errno(&io::Error::last_os_error()) } else { 0 })
    };
    if segment < 0 && queue == libc::ENOSYS {
        return Finding::new(
            "ipc",
            "seccomp",
            true,
            "no System V objects and message queues at all",
        );
    }
    let why = match confinement.switches.sysv_ipc {
        true => {
            "allow_sysv_ipc: what processes of the same user share by System V is open to commands"
        }
        false => {
            "what processes of the same user share by System V or POSIX queues is open to commands"
        }
    };
    Finding::new("ipc", "none", false, why)
}

fn privileges() -> Finding {
    // SAFETY: reads a flag.
    let locked = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == 1;
    let capabilities = effective_capabilities();
    let detail = match capabilities {
        Some(0) => "none can be gained".into(),
        other => format!("no_new_privs {locked}, effective capabilities {other:?}"),
    };
    let holds = locked && capabilities == Some(0);
    Finding::new("privileges", "no_new_privs and capabilities", holds, detail)
}

fn effective_capabilities() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}
