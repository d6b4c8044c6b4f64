//! Where launchers come from: a small process of this binary that is started once and then forks one for
//! each command. To execute the binary anew for each costs more than all of the sandbox.
//!
//! The runner sends it the descriptors of a launcher over a socket that keeps messages apart; the starter
//! forks and forgets them. It adopts what a launcher leaves that was killed, and ends it. When the runner
//! is gone, it stays until its launchers have ended what they keep, and goes too. Should it be killed
//! itself, its launchers come to the runner, which ends them as strangers, and the next command gets a
//! new starter.

use super::ExecError;
use super::children;
use super::launcher::LAUNCHER_ARG;
use super::streams;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// A handle on the starter. Clones share it; it ends with the last of them.
#[derive(Clone)]
pub struct Launchers {
    /// This binary.
    program: PathBuf,
    starter: Arc<Mutex<Option<Starter>>>,
}

struct Starter {
    socket: OwnedFd,
}

/// What a launcher is given at its start.
pub(super) struct Given {
    /// Its control socket.
    pub control: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub stdin: Option<OwnedFd>,
}

/// The end of a launcher: a pipe that it alone holds open.
pub struct Gone(pipe::Receiver);

impl Gone {
    /// Until it has gone. Cancel-safe.
    pub async fn wait(&mut self) {
        let mut nothing = [0; 1];
        while matches!(self.0.read(&mut nothing).await, Ok(read) if read > 0) {}
    }
}

impl Launchers {
    /// The starter is started with the first launcher.
    pub fn new(program: PathBuf) -> Self {
        Self { program, starter: Arc::default() }
    }

    /// Starts a launcher.
    pub(super) fn start(&self, given: &Given) -> Result<Gone, ExecError> {
        let (gone, held) = streams::pipe().map_err(|error| self.failed(&error))?;
        let gone = pipe::Receiver::from_owned_fd(gone).map_err(|error| self.failed(&error))?;
        let first = [&given.control, &given.stdout, &given.stderr, &held];
        let fds: Vec<BorrowedFd<'_>> =
            first.into_iter().chain(&given.stdin).map(AsFd::as_fd).collect();
        let mut starter = self.starter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(starter) = &*starter
            && send(&starter.socket, &fds).is_ok()
        {
            return Ok(Gone(gone));
        }
        // None yet, or one that is gone.
        let new = self.new_starter().map_err(|error| self.failed(&error))?;
        send(&new.socket, &fds).map_err(|error| self.failed(&error))?;
        *starter = Some(new);
        Ok(Gone(gone))
    }

    /// The next launcher is to come from a new starter. The old one stays for what is at work.
    pub(super) fn forget(&self) {
        *self.starter.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn new_starter(&self) -> io::Result<Starter> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let child = tokio::process::Command::new(&self.program)
            .arg0("turnkey-launcher")
            .arg(LAUNCHER_ARG)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to the runner's group is the runner's to handle.
            .process_group(0)
            .spawn()?;
        children::leave_to_runtime(child);
        Ok(Starter { socket: ours })
    }

    fn failed(&self, error: &dyn fmt::Display) -> ExecError {
        ExecError::Launcher(format!("{}: {error}", self.program.display()))
    }
}

impl fmt::Debug for Launchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Launchers").field(&self.program).finish()
    }
}

fn send(socket: &OwnedFd, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(fds));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(b"L")], &mut control, flags)?;
    Ok(())
}
