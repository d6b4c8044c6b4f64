//! Connections: what a command's sockets reach.
//!
//! Where the caller's descriptor can be had (pidfd_getfd, which a container's own filter may refuse), the
//! connection is made on the caller's own socket. Where not, a new socket is connected and put in its
//! place under the same number; options that were set before are lost then, `O_NONBLOCK` and close-on-exec
//! are kept.
//!
//! Behind a wall without a network namespace, internet sockets are made here as well: TCP ones only, tied
//! to the loopback device. Only CAP_NET_RAW could untie them. So they reach no other interface and are
//! reached from none, whatever is done to them: bind, listen and accept need no judging.

use super::super::Wall;
use super::caller::Caller;
use super::{Notice, Supervisor, errno, low};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Connections that may hang at the same time; more are refused with EAGAIN.
const MAX_WAITING: usize = 256;
/// `sizeof(struct sockaddr_storage)`: no address is longer.
const MAX_ADDRESS: usize = 128;

impl Supervisor {
    /// socket(2): TCP only, tied to the loopback device.
    pub(super) fn socket(&self, notice: &Notice) -> Result<i64, i32> {
        let [family, kind, protocol, ..] = notice.args.map(low);
        let is_tcp = kind & 0xf == libc::SOCK_STREAM
            && (protocol == 0 || protocol == libc::IPPROTO_TCP)
            && (family == libc::AF_INET || family == libc::AF_INET6);
        if !self.tied || !is_tcp {
            return Err(libc::EPERM);
        }
        let nonblocking = kind & libc::SOCK_NONBLOCK;
        let socket = self.make(family, libc::SOCK_STREAM | nonblocking)?;
        self.install(notice, &socket, None, kind & libc::SOCK_CLOEXEC != 0)
    }

    fn make(&self, family: i32, kind: i32) -> Result<OwnedFd, i32> {
        // SAFETY: no pointers; the descriptor is owned from here on.
        let socket = unsafe {
            let fd = libc::socket(family, kind | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Err(errno());
            }
            OwnedFd::from_raw_fd(fd)
        };
        if self.tied && family != libc::AF_UNIX {
            tie(&socket)?;
        }
        Ok(socket)
    }

    pub(super) fn connect(self: Arc<Self>, notice: &Notice) -> Result<Option<i64>, i32> {
        let number = low(notice.args[0]);
        let length = usize::try_from(low(notice.args[2])).map_err(|_| libc::EINVAL)?;
        if !(2..=MAX_ADDRESS).contains(&length) {
            return Err(libc::EINVAL);
        }
        let process = Caller::of(notice);
        let address = process.read(notice.args[1], length)?;
        let target = self.target(&process, &address)?;
        let socket = Socket::of(&process, number, &target, &self)?;
        // What was looked up belongs to the caller only if it has waited all the while.
        if !self.is_valid(notice) {
            return Err(libc::ENOENT);
        }
        if socket.nonblocking {
            return self.finish(notice, &socket, &target, number).map(Some);
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(libc::EAGAIN);
        }
        let (own, notice) = (self.clone(), *notice);
        let thread = std::thread::Builder::new().stack_size(64 * 1024).spawn(move || {
            let result = own.finish(&notice, &socket, &target, number);
            own.answer(&notice, result);
            own.waiting.fetch_sub(1, Ordering::Relaxed);
        });
        match thread {
            Ok(_) => Ok(None),
            Err(_) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                Err(libc::EAGAIN)
            }
        }
    }

    /// Makes the connection, and puts a socket of ours in the place of the caller's.
    fn finish(
        &self,
        notice: &Notice,
        socket: &Socket,
        target: &Target,
        number: RawFd,
    ) -> Result<i64, i32> {
        let connected = target.connect(&socket.fd);
        let goes_on = matches!(connected, Ok(()) | Err(libc::EINPROGRESS));
        if socket.is_ours && goes_on {
            self.install(notice, &socket.fd, Some(number), socket.close_on_exec)?;
        }
        connected.map(|()| 0)
    }

    /// Judges an address.
    fn target(&self, process: &Caller, address: &[u8]) -> Result<Target, i32> {
        let family = i32::from(u16::from_ne_bytes([address[0], address[1]]));
        match family {
            libc::AF_UNSPEC => Ok(Target::plain(address)),
            libc::AF_UNIX => self.unix(process, &address[2..]),
            libc::AF_INET | libc::AF_INET6 => self.internet(family, address),
            _ if self.wall == Wall::Open && family == libc::AF_NETLINK => {
                Ok(Target::plain(address))
            }
            _ => Err(libc::EPERM),
        }
    }

    fn internet(&self, family: i32, address: &[u8]) -> Result<Target, i32> {
        let mut address = address.to_vec();
        let port = u16::from_be_bytes(part(&address, 2)?);
        let (at, mut host) = match family {
            libc::AF_INET => (4, IpAddr::V4(Ipv4Addr::from(part::<4>(&address, 4)?))),
            _ => (8, IpAddr::V6(Ipv6Addr::from(part::<16>(&address, 8)?))),
        };
        if host.is_unspecified() {
            // What the kernel takes it for.
            host = match host {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            };
            match host {
                IpAddr::V4(host) => address[at..at + 4].copy_from_slice(&host.octets()),
                IpAddr::V6(host) => address[at..at + 16].copy_from_slice(&host.octets()),
            }
        }
        let allowed = match self.wall {
            Wall::None => false,
            Wall::Loopback => is_loopback(host),
            Wall::Proxy(proxy) => {
                port == proxy && host.to_canonical() == IpAddr::V4(Ipv4Addr::LOCALHOST)
            }
            Wall::Open => true,
        };
        if allowed { Ok(Target { family, address, held: None }) } else { Err(libc::EPERM) }
    }

    fn unix(&self, process: &Caller, path: &[u8]) -> Result<Target, i32> {
        if path.first().is_none_or(|first| *first == 0) {
            // An abstract socket has no owner and no folder: whose it is can't be told, unless there
            // are no others.
            if !self.alone {
                return Err(libc::EPERM);
            }
            let mut address = libc::AF_UNIX.to_ne_bytes()[..2].to_vec();
            address.extend_from_slice(path);
            return Ok(Target { family: libc::AF_UNIX, address, held: None });
        }
        let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
        let file = process.open(libc::AT_FDCWD, &path[..end], true)?;
        let place = self.place(&file)?;
        let innermost = self
            .roots
            .iter()
            .filter(|(root, _)| place.starts_with(root))
            .max_by_key(|(root, writable)| (root.components().count(), *writable));
        if !innermost.is_some_and(|(_, writable)| *writable) {
            return Err(libc::EPERM);
        }
        let mut address = libc::AF_UNIX.to_ne_bytes()[..2].to_vec();
        address.extend(format!("/proc/self/fd/{}\0", file.as_raw_fd()).into_bytes());
        Ok(Target { family: libc::AF_UNIX, address, held: Some(file) })
    }
}

/// Where a connection goes, and what must stay open until it is made.
struct Target {
    family: i32,
    address: Vec<u8>,
    held: Option<OwnedFd>,
}

impl Target {
    fn plain(address: &[u8]) -> Self {
        let family = i32::from(u16::from_ne_bytes([address[0], address[1]]));
        Self { family, address: address.to_vec(), held: None }
    }

    fn connect(&self, socket: &OwnedFd) -> Result<(), i32> {
        debug_assert!(self.held.is_none() || self.family == libc::AF_UNIX);
        let length = libc::socklen_t::try_from(self.address.len()).map_err(|_| libc::EINVAL)?;
        // SAFETY: a pointer to bytes of the given length; the kernel copies them.
        let done =
            unsafe { libc::connect(socket.as_raw_fd(), self.address.as_ptr().cast(), length) };
        if done == 0 { Ok(()) } else { Err(errno()) }
    }
}

/// The socket that is to be connected.
struct Socket {
    fd: OwnedFd,
    nonblocking: bool,
    close_on_exec: bool,
    /// It has to be put in the place of the caller's.
    is_ours: bool,
}

impl Socket {
    /// The socket that the caller calls by this number, or one of ours to take its place.
    fn of(caller: &Caller, number: RawFd, target: &Target, own: &Supervisor) -> Result<Self, i32> {
        if let Ok(fd) = caller.borrow(number) {
            // SAFETY: reads flags.
            let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
            let nonblocking = flags & libc::O_NONBLOCK != 0;
            return Ok(Self { fd, nonblocking, close_on_exec: false, is_ours: false });
        }
        let inode = caller.socket_inode(number)?;
        let flags = caller.flags(number)?;
        let nonblocking = flags & libc::O_NONBLOCK != 0;
        let kind = match target.family {
            libc::AF_UNIX => caller.unix_kind(&inode)?,
            libc::AF_INET | libc::AF_INET6 => libc::SOCK_STREAM,
            _ => return Err(libc::EOPNOTSUPP),
        };
        let mode = if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
        Ok(Self {
            fd: own.make(target.family, kind | mode)?,
            nonblocking,
            close_on_exec: flags & libc::O_CLOEXEC != 0,
            is_ours: true,
        })
    }
}

fn is_loopback(host: IpAddr) -> bool {
    host.to_canonical().is_loopback()
}

/// Ties a socket to the loopback device.
fn tie(socket: &OwnedFd) -> Result<(), i32> {
    let name = b"lo\0";
    // SAFETY: a pointer to bytes of the given length.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            3,
        )
    };
    if done == 0 { Ok(()) } else { Err(libc::EPERM) }
}

fn part<const N: usize>(address: &[u8], at: usize) -> Result<[u8; N], i32> {
    address.get(at..at + N).and_then(|part| part.try_into().ok()).ok_or(libc::EINVAL)
}
