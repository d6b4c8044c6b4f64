//! Attacks through sockets, Unix and internet ones.

use super::{Targets, Ways, check};
use std::fs::OpenOptions;
use std::io;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

pub fn abstract_socket(t: &Targets, ways: &mut Ways) {
    let name = [b"\0", t.abstract_name.as_bytes()].concat();
    ways.tried("stream", reach(&name, libc::SOCK_STREAM, false));
    let name = [b"\0", t.abstract_name.as_bytes(), b".d"].concat();
    ways.tried("datagram", reach(&name, libc::SOCK_DGRAM, true));
    ways.tried("connected datagram", reach(&name, libc::SOCK_DGRAM, false));
}

pub fn unix_socket(t: &Targets, ways: &mut Ways) {
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

pub fn unix_datagram(t: &Targets, ways: &mut Ways) {
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
pub fn engine_socket(t: &Targets, ways: &mut Ways) {
    let talk = UnixStream::connect(t.sockets().join("docker.sock")).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")?;
        let mut answer = [0u8; 16];
        stream.read_exact(&mut answer)
    });
    ways.tried("connect", talk);
}

pub fn internet(t: &Targets, ways: &mut Ways) {
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
