//! The Linux layers, applied by the launcher to itself between fork and exec.
//!
//! Order matters: no_new_privs first (the rest needs it), then the file rules, then the capabilities,
//! and the system call filter last, because it refuses what the others still need.

use super::Confinement;
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A layer that could not be put in force.
#[derive(Debug)]
pub struct LayerError {
    pub layer: &'static str,
    pub errno: i32,
    pub cause: String,
}

fn failed(layer: &'static str, cause: impl ToString) -> LayerError {
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    LayerError { layer, errno, cause: cause.to_string() }
}

/// Confines the calling process for good. Any layer that fails is an error: there is no less.
pub fn apply(confinement: &Confinement) -> Result<(), LayerError> {
    no_new_privs()?;
    if confinement.enabled {
        restrict_files(confinement)?;
        drop_capabilities()?;
        filter_system_calls(confinement.inet)?;
    }
    Ok(())
}

fn no_new_privs() -> Result<(), LayerError> {
    // SAFETY: prctl with constant arguments touches no memory of ours.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(failed("no_new_privs", io::Error::last_os_error()));
    }
    Ok(())
}

/// The Landlock ABI of this kernel; 0 where there is none.
pub fn landlock_abi() -> i32 {
    const VERSION: libc::c_int = 1;
    // SAFETY: with the version flag the kernel reads no attribute (null, size 0).
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            VERSION,
        )
    };
    i32::try_from(abi).unwrap_or(0).max(0)
}

fn abi_of(version: i32) -> Option<ABI> {
    Some(match version {
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        // Later ABIs add what this version does not ask for yet.
        version if version >= 7 => ABI::V6,
        _ => return None,
    })
}

fn restrict_files(confinement: &Confinement) -> Result<(), LayerError> {
    const LAYER: &str = "landlock";
    let abi = abi_of(landlock_abi())
        .ok_or_else(|| failed(LAYER, "this kernel offers no Landlock (5.13 or newer has it)"))?;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        .map_err(|error| failed(LAYER, error))?;
    let ruleset = if abi >= ABI::V6 {
        ruleset
            .scope(Scope::AbstractUnixSocket | Scope::Signal)
            .map_err(|error| failed(LAYER, error))?
    } else {
        ruleset
    };
    let mut created = ruleset.create().map_err(|error| failed(LAYER, error))?;
    for path in &confinement.read {
        created = allow(created, path, abi, false)?;
    }
    for path in &confinement.write {
        created = allow(created, path, abi, true)?;
    }
    let status = created.restrict_self().map_err(|error| failed(LAYER, error))?;
    if status.ruleset == RulesetStatus::FullyEnforced {
        Ok(())
    } else {
        Err(failed(LAYER, "the kernel enforces less than was asked for"))
    }
}

/// Adds one path. One that does not exist grants nothing, which is what leaving it out means.
fn allow(
    created: RulesetCreated,
    path: &Path,
    abi: ABI,
    write: bool,
) -> Result<RulesetCreated, LayerError> {
    let Ok(fd) = PathFd::new(path) else { return Ok(created) };
    let all = if write { AccessFs::from_all(abi) } else { AccessFs::from_read(abi) };
    let is_dir = File::open(path)
        .and_then(|file| file.metadata())
        .map(|meta| meta.is_dir())
        .unwrap_or_else(|_| path.is_dir());
    let access = if is_dir { all } else { all & AccessFs::from_file(abi) };
    created
        .add_rule(PathBeneath::new(fd, access))
        .map_err(|error| failed("landlock", format!("{}: {error}", path.display())))
}

/// Drops every capability from every set, for root too. no_new_privs keeps an exec of a root process
/// from gaining them back.
fn drop_capabilities() -> Result<(), LayerError> {
    const LAYER: &str = "capabilities";
    // SAFETY: prctl with constant arguments; a kernel that knows fewer capabilities answers EINVAL.
    unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        for capability in 0..64 {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 {
                break;
            }
        }
    }
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    let none = [[0u32; 3]; 2];
    // SAFETY: both structures have the layout capset(2) reads for version 3.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(failed(LAYER, io::Error::last_os_error())) }
}

/// System calls that no build or test needs and that lead out of the sandbox, or into the kernel's
/// less-trodden corners.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_chroot,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_open_by_handle_at,
    libc::SYS_personality,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
];

/// Namespaces that clone(2) may not make.
const NAMESPACES: u64 = 0x7e02_0080; // NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET NEWTIME

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filter_system_calls(inet: bool) -> Result<(), LayerError> {
    let refused = program(refused_rules(inet)?, libc::EPERM)?;
    // Programs fall back from clone3 to clone, whose flags a filter can read.
    let absent = program(Rules::from([(libc::SYS_clone3, vec![])]), libc::ENOSYS)?;
    for filter in [&refused, &absent] {
        seccompiler::apply_filter(filter).map_err(|error| failed("seccomp", error))?;
    }
    Ok(())
}

fn refused_rules(inet: bool) -> Result<Rules, LayerError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, vec![])).collect();
    let mut clone = Vec::new();
    for bit in (0..32).map(|shift| 1u64 << shift).filter(|bit| bit & NAMESPACES != 0) {
        clone.push(rule(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(bit), bit)?);
    }
    rules.insert(libc::SYS_clone, clone);
    // Typing into the terminal of whoever started us.
    rules.insert(
        libc::SYS_ioctl,
        vec![
            rule(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::TIOCSTI)?,
            rule(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::TIOCLINUX)?,
        ],
    );
    if !inet {
        let unix = u64::from(libc::AF_UNIX.unsigned_abs());
        let other = rule(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, unix)?;
        rules.insert(libc::SYS_socket, vec![other]);
    }
    add_x32_aliases(&mut rules);
    Ok(rules)
}

/// The x32 ABI reaches the same calls under other numbers while the filter sees the same architecture.
fn add_x32_aliases(rules: &mut Rules) {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    const X32_BIT: i64 = 0x4000_0000;
    let aliases: Rules =
        rules.iter().map(|(call, conditions)| (call | X32_BIT, conditions.clone())).collect();
    rules.extend(aliases);
}

fn rule(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, LayerError> {
    SeccompCondition::new(argument, length, operator, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| failed("seccomp", error))
}

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, LayerError> {
    let arch = std::env::consts::ARCH.try_into().map_err(|error| failed("seccomp", error))?;
    let action = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, action, arch)
        .and_then(BpfProgram::try_from)
        .map_err(|error| failed("seccomp", error))
}

/// For the probe: opens a file for writing and says whether the kernel let it.
pub fn try_forbidden(path: &Path) -> Result<(), i32> {
    let opened = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
    match opened.and_then(|file| file.metadata().map(|meta| meta.ino())) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.raw_os_error().unwrap_or(0)),
    }
}
