//! Every Landlock ABI up to this kernel's: that its rules can be made, what they hold by themselves, and
//! that with the other layers nothing that the floor promises is missing on an older kernel.
//!
//! What is confined is confined for good: each ABI is tried in a process of its own, this test program
//! once more, which tells what it could do.

use super::ready::{Ready, restrict_as};
use super::supervise::hand_over;
use super::{Confinement, Layers, filter, privileges, probe, rights};
use crate::exec::order::ProbeOrder;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The newest that has something of its own here.
const NEWEST: i32 = 6;

/// What was tried, and the error number; 0 where it worked.
type Told = BTreeMap<String, i32>;

fn told<T>(result: io::Result<T>) -> i32 {
    result.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |_| 0)
}

fn word(name: &str) -> Option<String> {
    std::env::args().find_map(|word| word.strip_prefix(name).map(str::to_owned))
}

/// Not a test: the process that is confined. Without its words it does nothing.
#[test]
fn confined() {
    let (Some(abi), Some(top)) = (word("abi="), word("top=")) else { return };
    let (abi, top) = (abi.parse().unwrap(), PathBuf::from(top));
    let told = if word("layers=").as_deref() == Some("all") {
        beside_the_others(abi, &top)
    } else {
        alone(abi, &top)
    };
    println!("\nTOLD {}", serde_json::to_string(&told).unwrap());
}

fn confinement(top: &Path) -> Confinement {
    let read =
        [Path::new("/proc"), Path::new("/usr"), Path::new("/dev/random"), &top.join("shown")];
    Confinement {
        enabled: true,
        layers: Layers::FLOOR,
        read: read.map(Path::to_owned).to_vec(),
        write: vec![top.join("inside")],
        ..Confinement::default()
    }
}

fn truncate(path: &Path) -> io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a text that ends in NUL.
    match unsafe { libc::truncate(path.as_ptr(), 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens with these flags and nothing else.
fn open(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    use rustix::fs::{CWD, Mode, OFlags};
    let flags = OFlags::from_bits_retain(flags.unsigned_abs());
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// What Landlock does by itself.
fn alone(abi: i32, top: &Path) -> Told {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let name = format!("turnkey-abi-{}", std::process::id());
    let outside = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&outside).unwrap();
    privileges::no_new_privs().unwrap();
    restrict_as(&confinement(top), abi).unwrap();
    let mut told_of = Told::new();
    let mut put = |what: &str, errno: i32| told_of.insert(what.to_owned(), errno);
    put("write", told(OpenOptions::new().write(true).open(top.join("shown/file"))));
    put("read", told(fs::read(top.join("hidden"))));
    put("across", told(fs::rename(top.join("inside/a/file"), top.join("inside/b/file"))));
    put("truncate", told(truncate(&top.join("shown/file"))));
    put("tcp", told(TcpStream::connect(address)));
    put("ioctl", told(count_entropy()));
    put("abstract", told(UnixStream::connect_addr(&outside)));
    // SAFETY: signal 0 only asks.
    let asked = unsafe { libc::kill(libc::getppid(), 0) };
    put("signal", if asked == 0 { 0 } else { told::<()>(Err(io::Error::last_os_error())) });
    told_of
}

fn count_entropy() -> io::Result<()> {
    const RNDGETENTCNT: libc::c_ulong = 0x8004_5200;
    let device = fs::File::open("/dev/random")?;
    let mut count: libc::c_int = 0;
    // SAFETY: writes one int.
    match unsafe { libc::ioctl(device.as_raw_fd(), RNDGETENTCNT, &raw mut count) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// With the filter and the supervisor, as on the floor. They are put on one thread, so that the other
/// can supervise.
fn beside_the_others(abi: i32, top: &Path) -> Told {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (confinement, own, top) = (confinement(top), confinement(top), top.to_owned());
    let confined = std::thread::spawn(move || {
        privileges::no_new_privs().unwrap();
        restrict_as(&own, abi).unwrap();
        let listener = filter::install_as(&own, abi).unwrap();
        hand_over(theirs.as_fd(), &listener).unwrap();
        drop((listener, theirs));
        try_the_floor(&own, &top)
    });
    Ready::new(&confinement).unwrap().supervise(&ours, &confinement).unwrap();
    confined.join().unwrap()
}

fn try_the_floor(own: &Confinement, top: &Path) -> Told {
    let mut told_of = Told::new();
    let mut put = |what: &str, errno: i32| told_of.insert(what.to_owned(), errno);
    let (shown, inside) = (top.join("shown/file"), top.join("inside/file"));
    put("write", told(OpenOptions::new().write(true).open(&shown)));
    put("truncate", told(truncate(&shown)));
    put("empty to read", told(open(&shown, libc::O_RDONLY | libc::O_TRUNC)));
    put("empty to neither", told(open(&shown, libc::O_ACCMODE | libc::O_TRUNC)));
    put("read", told(fs::read(top.join("hidden"))));
    put("create", told(fs::write(top.join("new"), "x")));
    put("link in", told(fs::hard_link(&shown, top.join("inside/linked"))));
    put("move out", told(fs::rename(top.join("inside/a/other"), top.join("other"))));
    put("move in", told(fs::rename(&shown, top.join("inside/moved"))));
    put("inside: write", told(fs::write(&inside, "longer than before")));
    put("inside: truncate", told(truncate(&inside)));
    put("inside: length", i32::try_from(fs::metadata(&inside).unwrap().len()).unwrap());
    put("inside: rename", told(fs::rename(&inside, top.join("inside/renamed"))));
    put("inside: across", told(fs::rename(top.join("inside/a/file"), top.join("inside/b/file"))));
    let order = ProbeOrder {
        forbidden_file: top.join("new"),
        allowed_file: top.join("inside/probe"),
        foreign_file: shown,
        foreign_socket: top.join("foreign.sock"),
        own_socket: top.join("inside/own.sock"),
        hidden: None,
        foreign_process: std::os::unix::process::parent_id(),
    };
    for finding in probe::probe_child(own, &order) {
        put(&format!("holds: {}", finding.clause), i32::from(finding.holds));
    }
    told_of
}

/// The ABIs that can be tried here.
fn abis() -> std::ops::RangeInclusive<i32> {
    let here = rights::abi();
    if here < NEWEST {
        println!(
            "SKIPPED in part: this kernel's Landlock is ABI {here}, newer ones were not tried"
        );
    }
    1..=here.min(NEWEST)
}

fn run(abi: i32, layers: &str) -> Told {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    for folder in ["shown", "inside/a", "inside/b"] {
        fs::create_dir_all(top.join(folder)).unwrap();
    }
    for file in ["shown/file", "hidden", "inside/file", "inside/a/file", "inside/a/other"] {
        fs::write(top.join(file), "before").unwrap();
    }
    let _listener = probe::blind_socket(&top.join("foreign.sock")).unwrap();
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["exec::sandbox::abi_tests::confined", "--exact", "--nocapture", "--test-threads=1"])
        .args([format!("abi={abi}"), format!("layers={layers}"), format!("top={}", top.display())])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("TOLD "));
    let line = line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&done.stderr)));
    if layers == "all" {
        assert_eq!(fs::read(top.join("shown/file")).unwrap(), b"before", "ABI {abi}: {line}");
    }
    serde_json::from_str(line).unwrap()
}

#[test]
fn each_abi_holds_what_it_has_and_lacks_what_it_has_not() {
    use libc::{EACCES, EPERM, EXDEV};
    for abi in abis() {
        let told = run(abi, "landlock");
        let since = |first: i32, errno: i32| if abi >= first { errno } else { 0 };
        let expected = [
            ("write", EACCES),
            ("read", EACCES),
            ("across", if abi < 2 { EXDEV } else { 0 }),
            ("truncate", since(3, EACCES)),
            ("tcp", since(4, EACCES)),
            ("ioctl", since(5, EACCES)),
            ("abstract", since(6, EPERM)),
            ("signal", since(6, EPERM)),
        ];
        let expected: Told = expected.map(|(what, errno)| (what.to_owned(), errno)).into();
        assert_eq!(told, expected, "ABI {abi}");
    }
}

#[test]
fn what_an_older_abi_lacks_is_held_by_another_layer_or_said() {
    for abi in abis() {
        let told = run(abi, "all");
        let outside = ["write", "truncate", "empty to read", "empty to neither", "read", "create"];
        for what in outside.iter().chain(&["link in", "move out", "move in"]) {
            let refused = [libc::EACCES, libc::EPERM, libc::EXDEV].contains(&told[*what]);
            assert!(refused, "ABI {abi}: {what}: {told:?}");
        }
        for what in ["inside: write", "inside: truncate", "inside: rename"] {
            assert_eq!(told[what], 0, "ABI {abi}: {what}: {told:?}");
        }
        assert_eq!(told["inside: length"], 1, "ABI {abi}: {told:?}");
        let across = if abi < 2 { libc::EXDEV } else { 0 };
        assert_eq!(told["inside: across"], across, "ABI {abi}: {told:?}");
        for clause in ["files", "metadata", "network.none", "sockets", "ipc"] {
            assert_eq!(told[&format!("holds: {clause}")], 1, "ABI {abi}: {clause}: {told:?}");
        }
        // Only namespaces hold signals then; the grade says so.
        assert_eq!(told["holds: signals"], i32::from(abi >= 6), "ABI {abi}: {told:?}");
    }
}
