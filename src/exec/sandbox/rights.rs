//! Landlock: the folders and files a command may touch, the TCP ports, and who it may signal.

use super::ready::Place;
use super::{Confinement, LayerError, Wall, failed};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::os::fd::AsFd;
use std::path::Path;

const LAYER: &str = "landlock";

/// The Landlock ABI of this kernel; 0 where there is none.
pub fn abi() -> i32 {
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
        // Later ABIs add what is not asked for here.
        version if version >= 6 => ABI::V6,
        _ => return None,
    })
}

/// The rules, ready to be put in force.
pub fn rules(confinement: &Confinement, places: &[Place]) -> Result<RulesetCreated, LayerError> {
    rules_as(confinement, places, abi())
}

/// By what a kernel of this ABI has.
pub fn rules_as(
    confinement: &Confinement,
    places: &[Place],
    version: i32,
) -> Result<RulesetCreated, LayerError> {
    let abi = abi_of(version)
        .ok_or_else(|| failed(LAYER, "this kernel offers no Landlock (5.13 or newer has it)"))?;
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        .map_err(|error| failed(LAYER, error))?;
    let tcp = refused_tcp(confinement);
    if abi >= ABI::V4 && !tcp.is_empty() {
        ruleset = ruleset.handle_access(tcp).map_err(|error| failed(LAYER, error))?;
    }
    if abi >= ABI::V6 {
        ruleset = ruleset
            .scope(Scope::AbstractUnixSocket | Scope::Signal)
            .map_err(|error| failed(LAYER, error))?;
    }
    let mut created = ruleset.create().map_err(|error| failed(LAYER, error))?;
    if let Ok(fd) = PathFd::new("/dev") {
        created = allow(created, Path::new("/dev"), fd, AccessFs::ReadDir.into())?;
    }
    for place in places {
        // One that does not exist grants nothing, which is what leaving it out means.
        let Some((fd, is_folder)) = place.open() else { continue };
        let all = if place.writable { AccessFs::from_all(abi) } else { AccessFs::from_read(abi) };
        let access = if is_folder { all } else { all & AccessFs::from_file(abi) };
        created = allow(created, place.path(), fd, access)?;
    }
    if confinement.audited {
        created = created.log_new_exec(true).map_err(|error| failed(LAYER, error))?;
    }
    Ok(created)
}

/// Puts the rules in force for the calling process.
pub fn restrict(rules: RulesetCreated) -> Result<(), LayerError> {
    let status = rules.restrict_self().map_err(|error| failed(LAYER, error))?;
    if status.ruleset == RulesetStatus::FullyEnforced {
        Ok(())
    } else {
        Err(failed(LAYER, "the kernel enforces less than was asked for"))
    }
}

/// The TCP operations that are refused whatever the port. Ports alone never decide: a connection that
/// is allowed is made by the supervisor, which is outside of this rule.
fn refused_tcp(confinement: &Confinement) -> landlock::BitFlags<AccessNet> {
    let supervised = confinement.layers.seccomp;
    match confinement.wall {
        Wall::None | Wall::Proxy(_) => AccessNet::BindTcp | AccessNet::ConnectTcp,
        Wall::Loopback if supervised => AccessNet::ConnectTcp.into(),
        Wall::Loopback | Wall::Open => landlock::BitFlags::empty(),
    }
}

fn allow(
    created: RulesetCreated,
    path: &Path,
    fd: impl AsFd,
    access: landlock::BitFlags<AccessFs>,
) -> Result<RulesetCreated, LayerError> {
    created
        .add_rule(PathBeneath::new(fd, access))
        .map_err(|error| failed(LAYER, format!("{}: {error}", path.display())))
}
