//! Terminals for commands that ask for one.
//!
//! The runner holds the master side and never makes it its own controlling terminal; the command gets
//! the other side, through the launcher, as the controlling terminal of its own session.

use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// What Ctrl-C and Ctrl-D are on a terminal in its default mode.
pub const INTERRUPT: u8 = 0x03;
pub const END_OF_INPUT: u8 = 0x04;

/// Rows and columns of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub rows: u16,
    pub columns: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// Both sides of a new terminal.
pub struct Terminal {
    pub master: OwnedFd,
    pub command: OwnedFd,
}

impl Terminal {
    pub fn open(size: Size) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags)?;
        rustix::pty::grantpt(&master)?;
        rustix::pty::unlockpt(&master)?;
        let command = other_side(&master, flags)?;
        resize(&command, size)?;
        Ok(Self { master, command })
    }
}

/// Through the master itself: no path that a mount namespace could show differently.
#[cfg(target_os = "linux")]
fn other_side(master: &OwnedFd, flags: OpenptFlags) -> io::Result<OwnedFd> {
    Ok(rustix::pty::ioctl_tiocgptpeer(master, flags)?)
}

#[cfg(not(target_os = "linux"))]
fn other_side(master: &OwnedFd, _flags: OpenptFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let name = rustix::pty::ptsname(master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(name.as_c_str(), flags, Mode::empty())?)
}

/// The kernel tells the programs in front (SIGWINCH).
pub fn resize(terminal: impl AsFd, size: Size) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_its_size_and_ends_with_an_error_when_its_other_side_is_closed() {
        let terminal = Terminal::open(Size { rows: 30, columns: 100 }).unwrap();
        let size = rustix::termios::tcgetwinsize(&terminal.master).unwrap();
        assert_eq!((size.ws_row, size.ws_col), (30, 100));
        rustix::io::write(&terminal.command, b"bye\n").unwrap();
        drop(terminal.command);
        let mut buffer = [0u8; 16];
        let read = rustix::io::read(&terminal.master, &mut buffer).unwrap();
        assert_eq!(&buffer[..read], b"bye\r\n");
        let end = rustix::io::read(&terminal.master, &mut buffer).unwrap_err();
        assert_eq!(end, rustix::io::Errno::IO, "the end of a terminal's output is EIO");
    }
}
