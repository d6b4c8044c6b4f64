//! The connect supervisor: a thread of the launcher that judges, and makes, what the filter hands to it.
//!
//! The kernel stops the caller of connect(2) until an answer is given (seccomp user notification). The
//! address lies in the caller's memory, where another of its threads may change it at any time: it is
//! copied once, the copy is judged, and the connection is made *here*, to the copy. The call is never let
//! through to the kernel, which would read the caller's memory again. For Unix sockets the same holds of
//! the path: the file is opened first, what was opened is judged, and the connection is made through that
//! descriptor, so that a link that is swapped meanwhile leads nowhere else.
//!
//! Where the caller's descriptor can be had (pidfd_getfd, which a container's own filter may refuse), the
//! connection is made on the caller's own socket. Where not, a new socket is connected and put in its
//! place under the same number; options that were set before are lost then, `O_NONBLOCK` and close-on-exec
//! are kept.
//!
//! Behind a wall without a network namespace, internet sockets are made here as well: TCP ones only, tied
//! to the loopback device. Only CAP_NET_RAW could untie them. So they reach no other interface and are
//! reached from none, whatever is done to them: bind, listen and accept need no judging.

use super::{Confinement, Wall};
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Connections that may hang at the same time; more are refused with EAGAIN.
const MAX_WAITING: usize = 256;
/// `sizeof(struct sockaddr_storage)`: no address is longer.
const MAX_ADDRESS: usize = 128;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Notice {
    id: u64,
    pid: u32,
    flags: u32,
    call: i32,
    arch: u32,
    instruction: u64,
    args: [u64; 6],
}

#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

#[repr(C)]
struct AddFd {
    id: u64,
    flags: u32,
    source: u32,
    number: u32,
    number_flags: u32,
}

const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const IS_VALID: libc::c_ulong = 0x4008_2102;
const ADD_FD: libc::c_ulong = 0x4018_2103;
/// Put it under the given number.
const SET_FD: u32 = 1;

/// Hands the listener from the confined child to the launcher.
pub fn hand_over(channel: BorrowedFd<'_>, listener: &OwnedFd) -> io::Result<()> {
    let fds = [listener.as_fd()];
    let mut space = [0u8; 64];
    let mut control = rustix::net::SendAncillaryBuffer::new(as_uninit(&mut space));
    control.push(rustix::net::SendAncillaryMessage::ScmRights(&fds));
    let flags = rustix::net::SendFlags::NOSIGNAL;
    rustix::net::sendmsg(channel, &[IoSlice::new(b"l")], &mut control, flags)?;
    Ok(())
}

/// Takes the listener; `None` where the other side closed without one.
fn take_over(channel: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let mut space = [0u8; 64];
    let mut control = rustix::net::RecvAncillaryBuffer::new(as_uninit(&mut space));
    let mut byte = [0u8; 1];
    let flags = rustix::net::RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(channel, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    for message in control.drain() {
        if let rustix::net::RecvAncillaryMessage::ScmRights(mut fds) = message {
            return Ok(fds.next());
        }
    }
    Ok(None)
}

fn as_uninit(space: &mut [u8]) -> &mut [std::mem::MaybeUninit<u8>] {
    // SAFETY: initialised bytes are valid as possibly uninitialised ones, and only bytes are written.
    unsafe { std::slice::from_raw_parts_mut(space.as_mut_ptr().cast(), space.len()) }
}

/// What the supervisor judges by.
pub struct Supervisor {
    listener: OwnedFd,
    wall: Wall,
    /// Sockets are tied to the loopback device of this machine.
    tied: bool,
    /// The command's abstract sockets are its own.
    alone: bool,
    /// Places, and whether Unix sockets in them may be reached; the innermost decides. What is only
    /// readable stays out of reach also where it lies in the command's own /tmp.
    roots: Vec<(PathBuf, bool)>,
    waiting: AtomicUsize,
}

impl Supervisor {
    /// Takes the listener from the confined child and starts to judge, in a thread of its own that ends
    /// with the last process of the command.
    pub fn start(
        channel: BorrowedFd<'_>,
        confinement: &Confinement,
        roots: Vec<(PathBuf, bool)>,
    ) -> io::Result<()> {
        let Some(listener) = take_over(channel)? else { return Ok(()) };
        let namespaces = confinement.layers.namespaces;
        let own_network = namespaces && confinement.wall == Wall::Loopback;
        let supervisor = Arc::new(Self {
            listener,
            wall: confinement.wall,
            tied: !own_network && matches!(confinement.wall, Wall::Loopback | Wall::Proxy(_)),
            alone: own_network,
            roots,
            waiting: AtomicUsize::new(0),
        });
        std::thread::Builder::new()
            .name("supervisor".into())
            .stack_size(128 * 1024)
            .spawn(move || supervisor.serve())
            .map(drop)
    }

    fn serve(self: Arc<Self>) {
        loop {
            let mut ready =
                libc::pollfd { fd: self.listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid entry.
            if unsafe { libc::poll(&raw mut ready, 1, -1) } < 0 {
                continue;
            }
            if ready.revents & libc::POLLIN == 0 {
                // Nobody is behind the filter any more.
                return;
            }
            // The kernel wants it zeroed.
            let mut notice = Notice::default();
            // SAFETY: a structure of the size that the request's number names.
            let got = unsafe { libc::ioctl(self.listener.as_raw_fd(), RECEIVE, &raw mut notice) };
            if got == 0 {
                self.clone().judge(notice);
            }
        }
    }

    fn judge(self: Arc<Self>, notice: Notice) {
        let answered = match libc::c_long::from(notice.call) {
            libc::SYS_socket => self.socket(&notice).map(Some),
            libc::SYS_connect => self.clone().connect(&notice),
            _ => Err(libc::ENOSYS),
        };
        match answered {
            Ok(Some(value)) => self.answer(&notice, Ok(value)),
            // A thread answers when the connection stands.
            Ok(None) => {}
            Err(errno) => self.answer(&notice, Err(errno)),
        }
    }

    fn answer(&self, notice: &Notice, result: Result<i64, i32>) {
        let (value, error) = match result {
            Ok(value) => (value, 0),
            Err(errno) => (0, -errno),
        };
        let response = Response { id: notice.id, value, error, flags: 0 };
        // SAFETY: a structure of the size that the request's number names. A caller that is gone
        // needs no answer.
        unsafe { libc::ioctl(self.listener.as_raw_fd(), SEND, &raw const response) };
    }

    /// Whether the caller still waits for this answer, so that its process id is still its own.
    fn is_valid(&self, notice: &Notice) -> bool {
        // SAFETY: reads one number.
        unsafe { libc::ioctl(self.listener.as_raw_fd(), IS_VALID, &raw const notice.id) == 0 }
    }

    /// Gives the caller a descriptor; `number` puts it in the place of another.
    fn install(
        &self,
        notice: &Notice,
        fd: &OwnedFd,
        number: Option<RawFd>,
        close_on_exec: bool,
    ) -> Result<i64, i32> {
        let request = AddFd {
            id: notice.id,
            flags: if number.is_some() { SET_FD } else { 0 },
            source: fd.as_raw_fd().cast_unsigned(),
            number: number.unwrap_or(0).cast_unsigned(),
            number_flags: if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
        };
        // SAFETY: a structure of the size that the request's number names.
        let given = unsafe { libc::ioctl(self.listener.as_raw_fd(), ADD_FD, &raw const request) };
        if given < 0 { Err(errno()) } else { Ok(given.into()) }
    }

    /// socket(2): TCP only, tied to the loopback device.
    fn socket(&self, notice: &Notice) -> Result<i64, i32> {
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

    fn connect(self: Arc<Self>, notice: &Notice) -> Result<Option<i64>, i32> {
        let number = low(notice.args[0]);
        let length = usize::try_from(low(notice.args[2])).map_err(|_| libc::EINVAL)?;
        if !(2..=MAX_ADDRESS).contains(&length) {
            return Err(libc::EINVAL);
        }
        let process = Caller::of(notice)?;
        let address = process.read(notice.args[1], length)?;
        let target = self.target(&process, &address)?;
        let socket = process.socket(number, &target, &self)?;
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
        let file = process.open(&path[..end])?;
        let place = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .map_err(|_| libc::EACCES)?;
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

/// The process that called.
struct Caller {
    thread: u32,
    process: u32,
}

impl Caller {
    fn of(notice: &Notice) -> Result<Self, i32> {
        let status =
            fs::read_to_string(format!("/proc/{}/status", notice.pid)).map_err(|_| libc::EACCES)?;
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let process = line.and_then(|text| text.trim().parse().ok()).ok_or(libc::EACCES)?;
        Ok(Self { thread: notice.pid, process })
    }

    fn read(&self, at: u64, length: usize) -> Result<Vec<u8>, i32> {
        let memory =
            fs::File::open(format!("/proc/{}/mem", self.thread)).map_err(|_| libc::EACCES)?;
        let mut bytes = vec![0; length];
        memory.read_exact_at(&mut bytes, at).map_err(|_| libc::EFAULT)?;
        Ok(bytes)
    }

    /// Opens a path as the caller sees it, to look at and to connect through, not to read.
    fn open(&self, path: &[u8]) -> Result<OwnedFd, i32> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        // "Self" is whoever looks, which is not the caller here.
        let own = [&b"/proc/self/"[..], b"/proc/thread-self/"]
            .into_iter()
            .find_map(|prefix| path.strip_prefix(prefix));
        let renamed;
        let path = match own {
            Some(rest) => {
                renamed = [format!("/proc/{}/", self.thread).as_bytes(), rest].concat();
                &renamed[..]
            }
            None => path,
        };
        let folder = rustix::fs::open(format!("/proc/{}/cwd", self.thread), flags, Mode::empty());
        let folder = folder.map_err(|error| error.raw_os_error())?;
        rustix::fs::openat(&folder, path, flags, Mode::empty())
            .map_err(|error| error.raw_os_error())
    }

    fn socket(&self, number: RawFd, target: &Target, own: &Supervisor) -> Result<Socket, i32> {
        if let Ok(fd) = self.borrow(number) {
            // SAFETY: reads flags.
            let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
            let nonblocking = flags & libc::O_NONBLOCK != 0;
            return Ok(Socket { fd, nonblocking, close_on_exec: false, is_ours: false });
        }
        let link =
            fs::read_link(format!("/proc/{}/fd/{number}", self.thread)).map_err(|_| libc::EBADF)?;
        let inode = link
            .to_str()
            .and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'))
            .ok_or(libc::ENOTSOCK)?
            .to_owned();
        let flags = self.flags(number)?;
        let nonblocking = flags & libc::O_NONBLOCK != 0;
        let kind = match target.family {
            libc::AF_UNIX => self.unix_kind(&inode)?,
            libc::AF_INET | libc::AF_INET6 => libc::SOCK_STREAM,
            _ => return Err(libc::EOPNOTSUPP),
        };
        let mode = if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
        Ok(Socket {
            fd: own.make(target.family, kind | mode)?,
            nonblocking,
            close_on_exec: flags & libc::O_CLOEXEC != 0,
            is_ours: true,
        })
    }

    /// The caller's own descriptor.
    fn borrow(&self, number: RawFd) -> Result<OwnedFd, i32> {
        // SAFETY: no pointers; new descriptors are owned at once.
        unsafe {
            let process = libc::syscall(libc::SYS_pidfd_open, self.process, 0);
            if process < 0 {
                return Err(errno());
            }
            let process = OwnedFd::from_raw_fd(process as RawFd);
            let fd = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0);
            if fd < 0 { Err(errno()) } else { Ok(OwnedFd::from_raw_fd(fd as RawFd)) }
        }
    }

    fn flags(&self, number: RawFd) -> Result<i32, i32> {
        let text = fs::read_to_string(format!("/proc/{}/fdinfo/{number}", self.thread))
            .map_err(|_| libc::EBADF)?;
        let line = text.lines().find_map(|line| line.strip_prefix("flags:"));
        line.and_then(|text| i32::from_str_radix(text.trim(), 8).ok()).ok_or(libc::EBADF)
    }

    /// Stream or packets: the table of Unix sockets tells.
    fn unix_kind(&self, inode: &str) -> Result<i32, i32> {
        let table = fs::read_to_string(format!("/proc/{}/net/unix", self.thread))
            .map_err(|_| libc::EACCES)?;
        let kind = table.lines().skip(1).find_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            (fields.get(6) == Some(&inode)).then(|| i32::from_str_radix(fields[4], 16).ok())?
        });
        kind.ok_or(libc::EPROTOTYPE)
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

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// The kernel reads an `int` and nothing above it.
fn low(argument: u64) -> i32 {
    argument as u32 as i32
}
