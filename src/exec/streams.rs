//! The runner's ends of a command's streams: output read as it comes, input written as it is taken.

use super::capture::Stream;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes that one read takes at the most. With pipes as large as this a loud command costs a system
/// call for each quarter of a mebibyte, and nothing is copied on the way to the capture.
const CHUNK: usize = 256 * 1024;
/// What a pipe may hold where the kernel lets us ask; 64 KiB where it does not.
const PIPE: usize = 1024 * 1024;

/// A pair of pipe ends that close on exec: (read, write).
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// A pipe for output, larger than usual where that can be had.
pub fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe()?;
    #[cfg(target_os = "linux")]
    // A user's share of pipe memory may be used up: the usual size works as well.
    let _ = rustix::pipe::fcntl_setpipe_size(&read, PIPE);
    Ok((read, write))
}

/// Takes a descriptor over for the runtime.
fn asynchronous(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?;
    // SAFETY: the descriptor is owned, so that it stays open and the same until the AsyncFd is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}

/// Standard output and error, or the one stream of a terminal.
pub struct Output {
    stdout: Option<AsyncFd<OwnedFd>>,
    stderr: Option<AsyncFd<OwnedFd>>,
    buffer: Box<[u8]>,
}

impl Output {
    pub fn pipes(stdout: OwnedFd, stderr: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            stdout: Some(asynchronous(stdout, Interest::READABLE)?),
            stderr: Some(asynchronous(stderr, Interest::READABLE)?),
            buffer: vec![0u8; CHUNK].into_boxed_slice(),
        })
    }

    pub fn terminal(master: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            stdout: Some(asynchronous(master, Interest::READABLE)?),
            stderr: None,
            // A terminal gives a few KiB at a time.
            buffer: vec![0u8; 16 * 1024].into_boxed_slice(),
        })
    }

    pub fn is_open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// The next chunk of either stream; `None` where one has come to its end. Cancel-safe: what is
    /// dropped while it waits has read nothing.
    pub async fn next(&mut self) -> Option<(Stream, &[u8])> {
        let stream = tokio::select! {
            () = readable(&self.stdout) => Stream::Stdout,
            () = readable(&self.stderr) => Stream::Stderr,
        };
        let source = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        match read(source, &mut self.buffer) {
            Some(0) => None,
            Some(read) => self.buffer.get(..read).map(|chunk| (stream, chunk)),
            None => {
                *source = None;
                None
            }
        }
    }
}

async fn readable(source: &Option<AsyncFd<OwnedFd>>) {
    match source {
        // An error of the runtime's own shows up in the read that follows.
        Some(fd) => drop(fd.readable().await.map(|mut guard| guard.retain_ready())),
        None => std::future::pending().await,
    }
}

/// Bytes read, 0 where there was nothing after all, `None` at the end: end of file, EIO on a terminal
/// whose other side is closed, or any other error.
fn read(source: &Option<AsyncFd<OwnedFd>>, buffer: &mut [u8]) -> Option<usize> {
    let done = source.as_ref()?.try_io(Interest::READABLE, |fd| {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(fd.as_fd(), &mut *buffer))?)
    });
    match done {
        Ok(0) => None,
        Ok(read) => Some(read),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(0),
        Err(_) => None,
    }
}

/// What a command reads: a pipe or its terminal.
pub struct Input {
    fd: AsyncFd<OwnedFd>,
    pub is_terminal: bool,
}

impl Input {
    pub fn pipe(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { fd: asynchronous(fd, Interest::WRITABLE)?, is_terminal: false })
    }

    pub fn terminal(master: OwnedFd) -> io::Result<Self> {
        Ok(Self { fd: asynchronous(master, Interest::WRITABLE)?, is_terminal: true })
    }

    pub fn descriptor(&self) -> &OwnedFd {
        self.fd.get_ref()
    }

    /// Writes what can be written now; an error means that nobody reads any more. Cancel-safe.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.fd
            .async_io(Interest::WRITABLE, |fd| {
                Ok(rustix::io::retry_on_intr(|| rustix::io::write(fd.as_fd(), bytes))?)
            })
            .await
    }
}
