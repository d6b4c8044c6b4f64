//! The supervisor: a thread of the launcher that judges, and makes, what the filter hands to it.
//!
//! The kernel stops the caller of connect(2) until an answer is given (seccomp user notification). The
//! address lies in the caller's memory, where another of its threads may change it at any time: it is
//! copied once, the copy is judged, and the connection is made *here*, to the copy. The call is never let
//! through to the kernel, which would read the caller's memory again. For Unix sockets the same holds of
//! the path: the file is opened first, what was opened is judged, and the connection is made through that
//! descriptor, so that a link that is swapped meanwhile leads nowhere else.
//!
//! Without mounts that hold them, changes of modes, owners, times and attributes are judged and made here
//! as well, in the same way (`metadata`).

mod caller;
mod metadata;
mod sockets;

pub use metadata::JUDGED;

use super::{Confinement, Wall};
use std::ffi::OsString;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

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
const SET_FLAGS: libc::c_ulong = 0x4008_2104;
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
    held: metadata::Held,
    /// `/proc/self/fd`: held open, it is shorter to go through.
    own_files: OwnedFd,
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
            held: metadata::Held::by(confinement),
            own_files: fs::File::open("/proc/self/fd")?.into(),
            waiting: AtomicUsize::new(0),
        });
        supervisor.stay_on_one_processor();
        std::thread::Builder::new()
            .name("supervisor".into())
            .stack_size(128 * 1024)
            .spawn(move || supervisor.serve())
            .map(drop)
    }

    /// The caller sleeps while it is judged: who wakes the other hands over its processor (Linux 6.6).
    fn stay_on_one_processor(&self) {
        const SYNC_WAKE_UP: libc::c_ulong = 1;
        // SAFETY: a number instead of a pointer. A kernel that does not know it is slower.
        unsafe { libc::ioctl(self.listener.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
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
            _ => self.metadata(&notice).map(|()| Some(0)),
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

    /// Where a file lies, whatever name it was opened by.
    fn place(&self, file: &OwnedFd) -> Result<PathBuf, i32> {
        let number = file.as_raw_fd().to_string();
        let place = rustix::fs::readlinkat(&self.own_files, number, Vec::with_capacity(512));
        let bytes = place.map_err(|_| libc::EACCES)?.into_bytes();
        Ok(PathBuf::from(OsString::from_vec(bytes)))
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
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// The kernel reads an `int` and nothing above it.
fn low(argument: u64) -> i32 {
    argument as u32 as i32
}
