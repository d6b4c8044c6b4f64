//! The system call filter: which calls a command may make at all, and which the supervisor judges.
//!
//! One program of the classic BPF kind, written out straight: the number is compared with one list
//! after the other, the first that knows it answers, everything else is allowed. The kernel keeps a
//! bitmap of what is always allowed, so that its length costs the common calls nothing.

mod calls;
mod writer;

use super::supervise::JUDGED;
use super::{Confinement, LayerError, Wall, failed};
use calls::{
    FILE_CONTROLS, FILE_SETATTR, IO_URING, IPC, NESTING, OTHERS, QUEUES, REFUSED, TRACING,
};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
#[cfg(target_arch = "x86_64")]
use writer::AT_LEAST;
use writer::{
    ALLOW, AND, ARCH_AT, EQUAL, KILL_PROCESS, NOTIFY, NUMBER_AT, Program, argument, errno,
    high_half,
};

const LAYER: &str = "seccomp";

/// Namespaces that clone(2) and unshare(2) may not make:
/// NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET NEWTIME.
const NAMESPACES: u32 = 0x7e02_0080;

/// Connects while it sends, past connect(2).
const MSG_FASTOPEN: u32 = 0x2000_0000;

const NETLINK_ROUTE: u32 = 0;
/// The kind of a socket, without the flags that creation takes beside it.
const SOCKET_KIND: u32 = 0xf;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// The x32 ABI reaches the same calls under other numbers while the architecture reads the same.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

const DENIED: u32 = errno(libc::EPERM);

/// The filter of a confinement.
fn program(confinement: &Confinement, landlock: i32) -> Program {
    let mut program = Program::default();
    program.load(ARCH_AT);
    program.put(EQUAL, ARCH, 1, 0);
    // Another architecture has other numbers: nothing that follows would mean what it says.
    program.answer(KILL_PROCESS);
    program.load(NUMBER_AT);
    #[cfg(target_arch = "x86_64")]
    {
        program.put(AT_LEAST, X32_BIT, 0, 1);
        program.answer(errno(libc::ENOSYS));
    }
    let switches = &confinement.switches;
    for call in REFUSED.iter().filter(|call| !switches.user_namespaces || !NESTING.contains(call)) {
        program.call(*call, DENIED);
    }
    for call in TRACING.iter().filter(|_| !switches.ptrace) {
        program.call(*call, DENIED);
    }
    for call in IO_URING.iter().filter(|_| !switches.io_uring) {
        program.call(*call, DENIED);
    }
    others(&mut program, confinement.layers.namespaces);
    processes(&mut program, switches);
    let mounted = confinement.layers.namespaces;
    if !mounted {
        metadata(&mut program);
    }
    if confinement.layers.landlock && !mounted && landlock < TRUNCATES {
        truncation(&mut program);
    }
    let objects = IPC.iter().filter(|_| !switches.sysv_ipc).chain(QUEUES);
    for call in objects.filter(|_| !mounted) {
        // As a kernel that was built without them: programs that can do without do so.
        program.call(*call, errno(libc::ENOSYS));
    }
    controls(&mut program, mounted);
    sockets(&mut program, confinement);
    program.answer(ALLOW);
    program
}

fn others(program: &mut Program, alone: bool) {
    // Threads pin each other by their ids, which is worth keeping where no one else can be named.
    let affinity = (!alone).then_some(libc::SYS_sched_setaffinity);
    for call in OTHERS.iter().copied().chain(affinity) {
        program.block(call, |block| {
            block.load(argument(0));
            block.equal(0, ALLOW);
            block.answer(DENIED);
        });
    }
    // Reading the limits of another process is harmless; setting them could end the runner.
    program.block(libc::SYS_prlimit64, |block| {
        block.load(argument(0));
        block.equal(0, ALLOW);
        block.load(argument(2));
        block.put(EQUAL, 0, 1, 0);
        block.answer(DENIED);
        block.load(high_half(2));
        block.equal(0, ALLOW);
        block.answer(DENIED);
    });
    // "Which" is a process: 0 is the caller itself. Groups and users are more than the caller.
    for call in [libc::SYS_setpriority, libc::SYS_ioprio_set] {
        let process = if call == libc::SYS_setpriority { 0 } else { 1 };
        program.block(call, |block| {
            block.load(argument(0));
            block.put(EQUAL, process, 1, 0);
            block.answer(DENIED);
            block.load(argument(1));
            block.equal(0, ALLOW);
            block.answer(DENIED);
        });
    }
}

fn processes(program: &mut Program, switches: &super::Switches) {
    // 0xffffffff asks; 0 is what everybody has; ADDR_NO_RANDOMIZE is for debuggers and sanitizers.
    program.block(libc::SYS_personality, |block| {
        block.load(argument(0));
        block.equal(u32::MAX, ALLOW);
        block.equal(0, ALLOW);
        if switches.ptrace {
            block.equal(0x0004_0000, ALLOW);
        }
        block.answer(DENIED);
    });
    if switches.user_namespaces {
        return;
    }
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        program.block(call, |block| {
            block.load(argument(0));
            block.any_bit(NAMESPACES, DENIED);
            block.answer(ALLOW);
        });
    }
    // Programs fall back from clone3 to clone, whose flags a filter can read.
    program.call(libc::SYS_clone3, errno(libc::ENOSYS));
}

/// Modes, owners, times and attributes, which Landlock does not know: the supervisor judges them where
/// no mounts hold them.
fn metadata(program: &mut Program) {
    for call in JUDGED {
        program.call(*call, NOTIFY);
    }
    // For attributes that no build needs: as on a file system that has none.
    program.call(FILE_SETATTR, errno(libc::EOPNOTSUPP));
}

/// The Landlock ABI that knows truncation (Linux 6.2).
pub const TRUNCATES: i32 = 3;

/// Without it: a call by path is judged, and a file is not emptied by being opened to be read. (Where it
/// is opened to be written, Landlock holds it.) The flags of openat2 are out of sight; who uses it can do
/// without.
fn truncation(program: &mut Program) {
    const READ_ONLY: u32 = 0;
    /// Asks for the right to read and write, and gives neither.
    const NEITHER: u32 = 3;
    program.call(libc::SYS_truncate, NOTIFY);
    program.call(libc::SYS_openat2, errno(libc::ENOSYS));
    let calls = [
        (libc::SYS_openat, 2),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1),
    ];
    let empties = libc::O_TRUNC.unsigned_abs();
    for (call, flags) in calls {
        program.block(call, |block| {
            block.load(argument(flags));
            block.put(AND, empties | libc::O_ACCMODE.unsigned_abs(), 0, 0);
            block.equal(empties | READ_ONLY, errno(libc::EACCES));
            block.equal(empties | NEITHER, errno(libc::EACCES));
            block.answer(ALLOW);
        });
    }
}

/// Typing into the terminal of whoever started us, and what changes files without mounts to hold them.
fn controls(program: &mut Program, mounted: bool) {
    const TIOCSTI: u32 = 0x5412;
    const TIOCLINUX: u32 = 0x541c;
    program.block(libc::SYS_ioctl, |block| {
        block.load(argument(1));
        block.equal(TIOCSTI, DENIED);
        block.equal(TIOCLINUX, DENIED);
        for control in FILE_CONTROLS.iter().filter(|_| !mounted) {
            block.equal(*control, errno(libc::EOPNOTSUPP));
        }
        block.answer(ALLOW);
    });
}

/// Sockets. Every connect(2) is judged and made by the supervisor, on its own copy of the address.
///
/// What sends to an address without a connect must not be there at all where the kernel does not hold
/// it by itself: Unix datagram sockets are refused (their sendmsg(2) takes an address that no filter can
/// see, and mounts that cannot be written do not hold it back either), and so is TCP's fast open. A raw
/// Unix socket is a datagram one by another name, so that the kinds that stay are named.
fn sockets(program: &mut Program, confinement: &Confinement) {
    program.call(libc::SYS_connect, NOTIFY);
    let alone = confinement.layers.namespaces;
    program.block(libc::SYS_socketpair, |block| {
        block.load(argument(0));
        block.put(EQUAL, low_family(libc::AF_UNIX), 1, 0);
        block.answer(DENIED);
        block.load(argument(1));
        block.put(AND, SOCKET_KIND, 0, 0);
        connected_kinds(block);
    });
    program.block(libc::SYS_socket, |block| {
        block.load(argument(0));
        block.put(EQUAL, low_family(libc::AF_UNIX), 0, 7);
        block.load(argument(1));
        block.put(AND, SOCKET_KIND, 0, 0);
        connected_kinds(block);
        match confinement.wall {
            Wall::None => {}
            Wall::Open => {
                block.equal(low_family(libc::AF_INET), ALLOW);
                block.equal(low_family(libc::AF_INET6), ALLOW);
                netlink(block);
            }
            Wall::Loopback if alone => {
                block.equal(low_family(libc::AF_INET), ALLOW);
                block.equal(low_family(libc::AF_INET6), ALLOW);
                netlink(block);
            }
            // Made by the supervisor, tied to the loopback device.
            Wall::Loopback | Wall::Proxy(_) => {
                block.equal(low_family(libc::AF_INET), NOTIFY);
                block.equal(low_family(libc::AF_INET6), NOTIFY);
                netlink(block);
            }
        }
        block.answer(DENIED);
    });
    if confinement.wall != Wall::Open {
        for (call, flags) in
            [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)]
        {
            program.block(call, |block| {
                block.load(argument(flags));
                block.any_bit(MSG_FASTOPEN, DENIED);
                block.answer(ALLOW);
            });
        }
    }
}

/// Kinds of Unix sockets that reach nobody without a connect. The accumulator holds the kind.
fn connected_kinds(block: &mut Program) {
    block.equal(low_family(libc::SOCK_STREAM), ALLOW);
    block.equal(low_family(libc::SOCK_SEQPACKET), ALLOW);
    block.answer(DENIED);
}

/// The list of interfaces and addresses, which name look-ups read; changing anything takes privileges.
/// The accumulator holds the family.
fn netlink(block: &mut Program) {
    block.put(EQUAL, low_family(libc::AF_NETLINK), 0, 3);
    block.load(argument(2));
    block.equal(NETLINK_ROUTE, ALLOW);
}

fn low_family(family: libc::c_int) -> u32 {
    family.unsigned_abs()
}

/// Puts the filter in force and gives the supervisor's end of it.
pub fn install(confinement: &Confinement) -> Result<OwnedFd, LayerError> {
    install_as(confinement, super::rights::abi())
}

/// Beside a Landlock of this ABI.
pub fn install_as(confinement: &Confinement, landlock: i32) -> Result<OwnedFd, LayerError> {
    const NEW_LISTENER: libc::c_ulong = 1 << 3;
    /// A signal does not tear a call that the supervisor has taken up (Linux 5.19): without it a
    /// program that is signalled all the time, as Go's are, would make its connection twice.
    const WAIT_KILLABLE: libc::c_ulong = 1 << 5;
    let program = program(confinement, landlock);
    let length = u16::try_from(program.0.len())
        .map_err(|_| failed(LAYER, "the filter is longer than the kernel takes"))?;
    let wanted = libc::sock_fprog { len: length, filter: program.0.as_ptr().cast_mut() };
    for flags in [NEW_LISTENER | WAIT_KILLABLE, NEW_LISTENER] {
        // SAFETY: the program lives until the call has returned; the kernel copies it.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const wanted,
            )
        };
        if fd >= 0 {
            let fd = i32::try_from(fd).map_err(|error| failed(LAYER, error))?;
            // SAFETY: the call gave a new descriptor, which is owned here.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        if io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
            break;
        }
    }
    Err(failed(LAYER, io::Error::last_os_error()))
}

#[cfg(test)]
mod tests {
    use super::super::Layers;
    use super::writer::{ANY_BIT, LOAD, RETURN};
    use super::*;

    /// Runs the program on one call, as the kernel would.
    fn judge(program: &Program, arch: u32, number: libc::c_long, args: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(u32::try_from(number).unwrap().to_le_bytes());
        data.extend(arch.to_le_bytes());
        data.extend(0u64.to_le_bytes());
        args.iter().for_each(|value| data.extend(value.to_le_bytes()));
        let (mut at, mut value) = (0, 0u32);
        loop {
            let step = &program.0[at];
            at += 1;
            let taken = match step.code {
                LOAD => {
                    let at = step.k as usize;
                    value = u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
                    continue;
                }
                AND => {
                    value &= step.k;
                    continue;
                }
                EQUAL => value == step.k,
                ANY_BIT => value & step.k != 0,
                AT_LEAST => value >= step.k,
                RETURN => return step.k,
                other => panic!("unknown instruction {other:#x}"),
            };
            at += usize::from(if taken { step.jt } else { step.jf });
        }
    }

    fn walls(wall: Wall, layers: Layers) -> Program {
        program(&Confinement { enabled: true, layers, wall, ..Confinement::default() }, 6)
    }

    fn socket(program: &Program, family: i32, kind: i32, protocol: i32) -> u32 {
        let args = [family, kind, protocol].map(|value| u64::from(value.unsigned_abs()));
        judge(program, ARCH, libc::SYS_socket, [args[0], args[1], args[2], 0, 0, 0])
    }

    #[test]
    fn each_wall_lets_through_its_sockets_and_no_others() {
        let (stream, datagram) = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::SOCK_DGRAM);
        for layers in [Layers::FLOOR, Layers::ALL] {
            let alone = layers.namespaces;
            for wall in [Wall::None, Wall::Loopback, Wall::Proxy(1), Wall::Open] {
                let program = walls(wall, layers);
                assert_eq!(socket(&program, libc::AF_UNIX, stream, 0), ALLOW, "{wall:?}");
                for kind in [datagram, libc::SOCK_RAW, libc::SOCK_RDM] {
                    assert_eq!(socket(&program, libc::AF_UNIX, kind, 0), DENIED);
                    let pair = [libc::AF_UNIX, kind].map(|word| u64::from(word.unsigned_abs()));
                    let pair = [pair[0], pair[1], 0, 0, 0, 0];
                    assert_eq!(judge(&program, ARCH, libc::SYS_socketpair, pair), DENIED);
                }
                let packets = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK;
                assert_eq!(socket(&program, libc::AF_UNIX, packets, 0), ALLOW, "{wall:?}");
                let inet = match wall {
                    Wall::None => DENIED,
                    Wall::Open => ALLOW,
                    Wall::Loopback if alone => ALLOW,
                    _ => NOTIFY,
                };
                for family in [libc::AF_INET, libc::AF_INET6] {
                    assert_eq!(socket(&program, family, stream, 0), inet, "{wall:?}");
                }
                let route = if wall == Wall::None { DENIED } else { ALLOW };
                assert_eq!(socket(&program, libc::AF_NETLINK, libc::SOCK_RAW, 0), route);
                assert_eq!(socket(&program, libc::AF_NETLINK, libc::SOCK_RAW, 9), DENIED);
                for other in [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG, libc::AF_BLUETOOTH] {
                    assert_eq!(socket(&program, other, stream, 0), DENIED, "{other}");
                }
                let connect = judge(&program, ARCH, libc::SYS_connect, [0; 6]);
                assert_eq!(connect, NOTIFY, "every connection is judged");
                let fast = [0, 0, 0, u64::from(MSG_FASTOPEN), 0, 0];
                let expected = if wall == Wall::Open { ALLOW } else { DENIED };
                assert_eq!(judge(&program, ARCH, libc::SYS_sendto, fast), expected);
                assert_eq!(judge(&program, ARCH, libc::SYS_sendto, [0; 6]), ALLOW);
            }
        }
    }

    #[test]
    fn what_leads_out_is_refused_and_what_programs_need_is_not() {
        let program = walls(Wall::None, Layers::FLOOR);
        for call in REFUSED.iter().chain(TRACING).chain(IO_URING) {
            assert_eq!(judge(&program, ARCH, *call, [0; 6]), DENIED, "{call}");
        }
        let needed = [
            libc::SYS_read,
            libc::SYS_execve,
            libc::SYS_mmap,
            libc::SYS_bind,
            libc::SYS_listen,
            libc::SYS_futex,
            libc::SYS_openat,
            libc::SYS_seccomp,
        ];
        for call in needed {
            assert_eq!(judge(&program, ARCH, call, [0; 6]), ALLOW, "{call}");
        }
        let other = judge(&program, 0x4000_0003, libc::SYS_read, [0; 6]);
        assert_eq!(other, KILL_PROCESS, "32-bit calls have other numbers");
        let namespaces = [u64::from(NAMESPACES & 0x1000_0000), 0, 0, 0, 0, 0];
        assert_eq!(judge(&program, ARCH, libc::SYS_clone, namespaces), DENIED);
        assert_eq!(judge(&program, ARCH, libc::SYS_unshare, namespaces), DENIED);
        assert_eq!(judge(&program, ARCH, libc::SYS_clone, [17, 0, 0, 0, 0, 0]), ALLOW);
        assert_eq!(judge(&program, ARCH, libc::SYS_clone3, [0; 6]), errno(libc::ENOSYS));
        // The kernel reads an int: what stands above it changes nothing.
        let typing = [0, 0xffff_ffff_0000_5412, 0, 0, 0, 0];
        assert_eq!(judge(&program, ARCH, libc::SYS_ioctl, typing), DENIED);
        assert_eq!(judge(&program, ARCH, libc::SYS_ioctl, [0, 0x5401, 0, 0, 0, 0]), ALLOW);
        assert_eq!(judge(&program, ARCH, libc::SYS_prlimit64, [7, 0, 1, 0, 0, 0]), DENIED);
        let far = [7, 0, 1 << 40, 0, 0, 0];
        assert_eq!(judge(&program, ARCH, libc::SYS_prlimit64, far), DENIED);
        assert_eq!(judge(&program, ARCH, libc::SYS_prlimit64, [7, 0, 0, 1, 0, 0]), ALLOW);
        assert_eq!(judge(&program, ARCH, libc::SYS_prlimit64, [0, 0, 1, 0, 0, 0]), ALLOW);
        assert_eq!(judge(&program, ARCH, libc::SYS_sched_setscheduler, [7, 0, 0, 0, 0, 0]), DENIED);
        assert_eq!(judge(&program, ARCH, libc::SYS_sched_setaffinity, [7, 0, 0, 0, 0, 0]), DENIED);
        assert_eq!(judge(&program, ARCH, libc::SYS_sched_setaffinity, [0, 0, 0, 0, 0, 0]), ALLOW);
        let alone = walls(Wall::None, Layers::ALL);
        assert_eq!(judge(&alone, ARCH, libc::SYS_sched_setaffinity, [7, 0, 0, 0, 0, 0]), ALLOW);
        assert_eq!(judge(&program, ARCH, libc::SYS_setpriority, [0, 0, 5, 0, 0, 0]), ALLOW);
        assert_eq!(judge(&program, ARCH, libc::SYS_setpriority, [2, 0, 5, 0, 0, 0]), DENIED);
        assert_eq!(
            judge(&program, ARCH, libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0]),
            ALLOW
        );
        assert_eq!(judge(&program, ARCH, libc::SYS_personality, [0x40000, 0, 0, 0, 0, 0]), DENIED);
        #[cfg(target_arch = "x86_64")]
        {
            let x32 = libc::SYS_connect | libc::c_long::from(X32_BIT);
            assert_eq!(judge(&program, ARCH, x32, [0; 6]), errno(libc::ENOSYS));
        }
    }

    #[test]
    fn metadata_and_shared_objects_are_held_where_no_namespaces_hold_them() {
        let (floor, full) = (walls(Wall::None, Layers::FLOOR), walls(Wall::None, Layers::ALL));
        for call in JUDGED {
            assert_eq!(judge(&floor, ARCH, *call, [0; 6]), NOTIFY, "{call}");
            assert_eq!(judge(&full, ARCH, *call, [0; 6]), ALLOW, "{call}");
        }
        let unknown = errno(libc::EOPNOTSUPP);
        assert_eq!(judge(&floor, ARCH, FILE_SETATTR, [0; 6]), unknown);
        for control in FILE_CONTROLS {
            let args = [3, 0xffff_ffff_0000_0000 | u64::from(*control), 0, 0, 0, 0];
            assert_eq!(judge(&floor, ARCH, libc::SYS_ioctl, args), unknown, "{control:x}");
            assert_eq!(judge(&full, ARCH, libc::SYS_ioctl, args), ALLOW, "{control:x}");
        }
        for call in IPC.iter().chain(QUEUES) {
            assert_eq!(judge(&floor, ARCH, *call, [0; 6]), errno(libc::ENOSYS), "{call}");
            assert_eq!(judge(&full, ARCH, *call, [0; 6]), ALLOW, "{call}");
        }
        // FICLONE: copies that share their blocks.
        let clone = [3, 0x4004_9409, 4, 0, 0, 0];
        assert_eq!(judge(&floor, ARCH, libc::SYS_ioctl, clone), ALLOW);
    }

    #[test]
    fn switches_give_back_what_they_name() {
        let switches = super::super::Switches {
            ptrace: true,
            user_namespaces: true,
            io_uring: true,
            sysv_ipc: true,
        };
        let confinement = Confinement {
            enabled: true,
            layers: Layers::FLOOR,
            switches,
            ..Confinement::default()
        };
        let program = program(&confinement, 6);
        for call in TRACING.iter().chain(IO_URING).chain(NESTING).chain(IPC) {
            assert_eq!(judge(&program, ARCH, *call, [0; 6]), ALLOW, "{call}");
        }
        assert_eq!(judge(&program, ARCH, libc::SYS_clone3, [0; 6]), ALLOW);
        assert_eq!(judge(&program, ARCH, libc::SYS_bpf, [0; 6]), DENIED);
    }
}
