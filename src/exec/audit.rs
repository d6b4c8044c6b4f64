//! Landlock's own word for what it refused: the kernel's audit log, where the runner may listen to it.
//!
//! That takes Linux 6.15 (Landlock ABI 7), an audit that is switched on, and CAP_AUDIT_READ on the machine
//! itself: a container's root does not have it. Listening changes nothing; the log goes to whoever else
//! reads it as well. A domain of Landlock is ours if the process that made it is a command of ours.

use super::sandbox::landlock_abi;
use crate::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::{AUDIT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The first Landlock ABI that logs.
const LOGS: i32 = 7;
/// `AUDIT_NLGRP_READLOG`, as a mask.
const READ_LOG: u32 = 1;
const AUDIT_GET: u16 = 1000;
const LANDLOCK_ACCESS: u16 = 1423;
const LANDLOCK_DOMAIN: u16 = 1424;
/// Domains kept, and refusals of each.
const MAX_DOMAINS: usize = 256;
const MAX_REFUSALS: usize = 64;
/// How late a record may be; waited for only where nothing has come of a command.
const LATE: Duration = Duration::from_millis(200);
/// The same for the answer to a question.
const PATIENCE: Duration = Duration::from_secs(2);

/// Something that Landlock refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The rights that were missing: `fs.write_file`.
    pub rights: Vec<String>,
    /// The file, or the folder for what was to be made or removed in it.
    pub path: PathBuf,
}

#[derive(Debug, Default)]
struct Domain {
    id: u64,
    /// The process that made it; it comes with the first refusal.
    maker: Option<i32>,
    refused: Vec<Refused>,
}

/// A listener to the machine's audit log.
pub struct Audit {
    socket: OwnedFd,
    domains: Mutex<VecDeque<Domain>>,
}

impl Audit {
    /// Why there is nothing to listen to, otherwise.
    pub fn open() -> Result<Self, String> {
        if landlock_abi() < LOGS {
            return Err(format!(
                "Landlock of ABI {LOGS} or newer logs, here is {}",
                landlock_abi()
            ));
        }
        let failed = |what: &str, error: io::Error| format!("{what}: {error}");
        let socket = bound(READ_LOG).map_err(|error| failed("the audit log", error))?;
        if !is_on().map_err(|error| failed("whether audit is on", error))? {
            return Err("the machine's audit is switched off".into());
        }
        Ok(Self { socket, domains: Mutex::default() })
    }

    /// What was refused to the command whose first process had this id; each is told once.
    pub fn of(&self, process: i32) -> Vec<Refused> {
        let mut domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        // A number may come again; the newest domain is the living command's.
        let is_ours = |domain: &Domain| domain.maker == Some(process);
        // A thread of the kernel's sends it, and may be on its way, with records of others before it.
        let begun = clock::now();
        self.take_in_all(&mut domains);
        while !domains.iter().any(is_ours) {
            let passed = clock::now().saturating_duration_since(begun);
            if !wait(&self.socket, LATE.saturating_sub(passed)) {
                break;
            }
            self.take_in_all(&mut domains);
        }
        let ours = domains.iter().rposition(is_ours);
        ours.map_or_else(Vec::new, |at| std::mem::take(&mut domains[at].refused))
    }

    fn take_in_all(&self, domains: &mut VecDeque<Domain>) {
        let mut buffer = [0u8; 16 * 1024];
        while let Ok((length, _)) =
            rustix::net::recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT)
        {
            if let Some(record) = Record::read(&buffer[..length.min(buffer.len())]) {
                take_in(domains, record);
            }
        }
    }
}

/// Until something has come, for no longer than this; false where nothing has.
fn wait(socket: &OwnedFd, limit: Duration) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let limit = Timespec::try_from(limit).ok();
    limit.is_some_and(|limit| matches!(poll(&mut fds, Some(&limit)), Ok(1..)))
}

fn bound(groups: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let family = AddressFamily::NETLINK;
    let socket = rustix::net::socket_with(family, SocketType::RAW, flags, Some(AUDIT))?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Asks the kernel; that takes CAP_AUDIT_CONTROL.
fn is_on() -> io::Result<bool> {
    const REQUEST: u16 = 1;
    const HEADER: usize = 16;
    let socket = bound(0)?;
    let mut question = Vec::with_capacity(HEADER);
    question.extend((HEADER as u32).to_ne_bytes());
    question.extend(AUDIT_GET.to_ne_bytes());
    question.extend(REQUEST.to_ne_bytes());
    question.extend([0; 8]);
    rustix::net::send(&socket, &question, SendFlags::empty())?;
    wait(&socket, PATIENCE);
    let mut answer = [0u8; 512];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::DONTWAIT)?;
    let word = |at: usize| {
        let bytes = answer.get(at..at + 4).filter(|_| length >= at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    // An error has its number behind the header; a status a mask, and then whether it is on.
    match word(4).map(|kinds| kinds as u16) {
        Some(AUDIT_GET) => Ok(word(HEADER + 4) == Some(1) || word(HEADER + 4) == Some(2)),
        _ => {
            let number = word(HEADER).unwrap_or(0).cast_signed().saturating_neg();
            Err(io::Error::from_raw_os_error(number))
        }
    }
}

/// One record that speaks of Landlock.
#[derive(Debug, PartialEq, Eq)]
enum Record {
    Made { domain: u64, by: i32 },
    Gone { domain: u64 },
    Refused { domain: u64, what: Refused },
}

impl Record {
    fn read(message: &[u8]) -> Option<Self> {
        let kind = u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?);
        let text = String::from_utf8_lossy(message.get(16..)?);
        let text = text.trim_end_matches(['\0', '\n']);
        let domain = u64::from_str_radix(field(text, "domain")?, 16).ok()?;
        match kind {
            LANDLOCK_DOMAIN if field(text, "status") == Some("deallocated") => {
                Some(Self::Gone { domain })
            }
            LANDLOCK_DOMAIN => Some(Self::Made { domain, by: field(text, "pid")?.parse().ok()? }),
            LANDLOCK_ACCESS => {
                let rights = field(text, "blockers")?.split(',').map(str::to_owned).collect();
                let path = untrusted(field(text, "path")?)?;
                Some(Self::Refused { domain, what: Refused { rights, path } })
            }
            _ => None,
        }
    }
}

/// The word behind `name=`, quotes included.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// A text from outside: in quotes where it is harmless, else as hexadecimal numbers.
fn untrusted(word: &str) -> Option<PathBuf> {
    if let Some(plain) = word.strip_prefix('"') {
        return Some(plain.strip_suffix('"')?.into());
    }
    let digits = word.as_bytes();
    let bytes: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    bytes.filter(|_| digits.len().is_multiple_of(2)).map(|bytes| OsString::from_vec(bytes).into())
}

fn take_in(domains: &mut VecDeque<Domain>, record: Record) {
    let (Record::Made { domain: id, .. }
    | Record::Gone { domain: id }
    | Record::Refused { domain: id, .. }) = record;
    let at = domains.iter().position(|domain| domain.id == id);
    let at = at.unwrap_or_else(|| {
        if domains.len() == MAX_DOMAINS {
            domains.pop_front();
        }
        domains.push_back(Domain { id, ..Domain::default() });
        domains.len() - 1
    });
    match record {
        Record::Made { by, .. } => domains[at].maker = Some(by),
        Record::Refused { what, .. } => {
            let refused = &mut domains[at].refused;
            if refused.len() < MAX_REFUSALS && !refused.contains(&what) {
                refused.push(what);
            }
        }
        // Its last command is over, and is asked for after that.
        Record::Gone { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, text: &str) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(format!("audit(1796031410.082:2): {text}").bytes());
        bytes
    }

    #[test]
    fn records_are_read_as_the_kernel_writes_them() {
        let refused = |rights: &[&str], path: &str| Record::Refused {
            domain: 0x1_8676_d4b1,
            what: Refused {
                rights: rights.iter().map(ToString::to_string).collect(),
                path: path.into(),
            },
        };
        let cases = [
            (
                LANDLOCK_ACCESS,
                "domain=18676d4b1 blockers=fs.remove_file,fs.make_reg path=\"/a/b\" dev=\"vda\" ino=19",
                Some(refused(&["fs.remove_file", "fs.make_reg"], "/a/b")),
            ),
            (
                LANDLOCK_ACCESS,
                "domain=18676d4b1 blockers=fs.write_file path=2F6120622F22 dev=\"vda\" ino=19",
                Some(refused(&["fs.write_file"], "/a b/\"")),
            ),
            (LANDLOCK_ACCESS, "domain=18676d4b1 blockers=net.connect_tcp daddr=::1 dest=80", None),
            (
                LANDLOCK_DOMAIN,
                "domain=18676d4b1 status=allocated mode=enforcing pid=18259 uid=0 exe=\"/x\"",
                Some(Record::Made { domain: 0x1_8676_d4b1, by: 18259 }),
            ),
            (
                LANDLOCK_DOMAIN,
                "domain=18676d4b1 status=deallocated denials=5",
                Some(Record::Gone { domain: 0x1_8676_d4b1 }),
            ),
            (1300, "arch=c000003e syscall=257 success=no exit=-13", None),
        ];
        for (kind, text, expected) in cases {
            assert_eq!(Record::read(&message(kind, text)), expected, "{text}");
        }
        assert_eq!(Record::read(b"short"), None);
    }

    #[test]
    fn refusals_are_kept_by_domain_and_bounded() {
        let mut domains = VecDeque::new();
        for domain in 0..MAX_DOMAINS as u64 + 10 {
            for number in 0..MAX_REFUSALS + 10 {
                let path = PathBuf::from(format!("/{number}"));
                let what = Refused { rights: vec!["fs.write_file".into()], path };
                take_in(&mut domains, Record::Refused { domain, what });
            }
            take_in(&mut domains, Record::Made { domain, by: 7 });
        }
        assert_eq!(domains.len(), MAX_DOMAINS);
        assert!(domains.iter().all(|domain| domain.refused.len() == MAX_REFUSALS));
        assert_eq!(domains.back().unwrap().id, MAX_DOMAINS as u64 + 9);
    }
}
