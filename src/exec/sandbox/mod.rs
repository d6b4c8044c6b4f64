//! The sandbox: what even an allowed command can reach.
//!
//! [`Sandbox`] is the seam: it turns the policy's clauses into a [`Confinement`] that the launcher
//! applies to each command, and says truthfully, clause by clause, what holds. On Linux the floor is
//! no_new_privs, no capabilities, Landlock and seccomp with its connect supervisor: all of them work
//! for any user in an ordinary container. Where namespaces can be had, they come on top. Everything is
//! probed by doing it before the first model request.

#[cfg(all(test, target_os = "linux"))]
mod abi_tests;
#[cfg(target_os = "linux")]
mod filter;
mod grades;
#[cfg(target_os = "linux")]
mod rights;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespaces;
mod own_scratch;
mod plan;
#[cfg(target_os = "linux")]
mod privileges;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod ready;
#[cfg(any(target_os = "macos", test))]
pub mod seatbelt;
#[cfg(target_os = "linux")]
mod supervise;

pub use grades::{Findings, Grade, Held};
#[cfg(target_os = "linux")]
pub use namespaces::{arrange, enter};
pub use own_scratch::OwnScratch;
pub use plan::{Plan, PlanInput, SYSTEM_READ};
#[cfg(target_os = "linux")]
pub use privileges::{drop_capabilities, not_dumpable};
#[cfg(target_os = "linux")]
pub use probe::{blind_socket, probe_child};
#[cfg(target_os = "linux")]
pub use ready::Ready;
#[cfg(target_os = "linux")]
pub use rights::abi as landlock_abi;

use super::proxy::HostsProxy;
use crate::policy::Network;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What the launcher puts in force before a command starts. Plain data, so that it can travel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// False only with `sandbox: off`.
    pub enabled: bool,
    pub layers: Layers,
    pub switches: Switches,
    /// Folders and files that may be read and executed, with everything beneath.
    pub read: Vec<PathBuf>,
    /// Folders and files that may be written, with everything beneath.
    pub write: Vec<PathBuf>,
    pub wall: Wall,
    pub mounts: Mounts,
    pub limits: Limits,
    /// Landlock logs what it refuses, because the runner hears it.
    #[serde(default)]
    pub audited: bool,
}

/// Which file a path leads to: its device and its number there.
pub type Identity = (u64, u64);

impl Confinement {
    /// What the policy grants, or a command needs to see, below the /tmp that it does not get, as it is
    /// now. It is brought along when a command's own /tmp is arranged, and can't be looked at from in
    /// there any more.
    pub fn brought(&self) -> Vec<Option<Identity>> {
        if !self.layers.namespaces || self.mounts.tmp.is_none() {
            return Vec::new();
        }
        let places = self.read.iter().chain(&self.write).chain(&self.mounts.seen);
        let places = places.filter(|path| path.starts_with("/tmp"));
        places.map(|path| identity(&std::fs::metadata(path).ok()?)).collect()
    }
}

fn identity(meta: &std::fs::Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    Some((meta.dev(), meta.ino()))
}

/// The layers that are to be in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Layers {
    pub landlock: bool,
    pub seccomp: bool,
    pub namespaces: bool,
}

impl Layers {
    /// The most there is.
    pub const ALL: Self = Self { landlock: true, seccomp: true, namespaces: true };
    /// What works for any user in an ordinary container.
    pub const FLOOR: Self = Self { landlock: true, seccomp: true, namespaces: false };

    /// The set that a policy pins; `None` where it pins none.
    pub fn pinned(names: &[String]) -> Option<Self> {
        let has = |layer: &str| names.iter().any(|name| name == layer);
        (!names.is_empty()).then(|| Self {
            landlock: has("landlock"),
            seccomp: has("seccomp"),
            namespaces: has("namespaces"),
        })
    }
}

/// What the policy lets through for debuggers, sanitizers, browsers and nested sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Switches {
    pub ptrace: bool,
    pub user_namespaces: bool,
    pub io_uring: bool,
    pub sysv_ipc: bool,
}

impl Switches {
    pub fn named(names: &[String]) -> Self {
        let has = |switch: &str| names.iter().any(|name| name == switch);
        Self {
            ptrace: has("allow_ptrace"),
            user_namespaces: has("allow_user_namespaces"),
            io_uring: has("allow_io_uring"),
            sysv_ipc: has("allow_sysv_ipc"),
        }
    }
}

/// What a command's sockets reach. Unix sockets inside writable folders work behind each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wall {
    /// No internet sockets at all.
    #[default]
    None,
    /// 127.0.0.0/8 and ::1.
    Loopback,
    /// One port of 127.0.0.1, where the runner's proxy listens.
    Proxy(u16),
    Open,
}

/// What only mounts can do. Of no effect without the namespaces, but for one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mounts {
    /// Places inside writable folders that become read-only where they exist. Without the namespaces only
    /// the supervisor keeps their metadata.
    pub read_only: Vec<PathBuf>,
    /// Existing folders inside writable ones that cannot be moved.
    pub held: Vec<PathBuf>,
    /// Existing places that cannot be read.
    pub hidden: Vec<Hidden>,
    /// What commands see as /tmp; `None` where the policy grants /tmp itself.
    pub tmp: Option<PathBuf>,
    /// A folder that is brought along into it as it is; Landlock decides what of it may be read.
    pub seen: Option<PathBuf>,
}

/// A place that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hidden {
    pub path: PathBuf,
    /// What it was when the run started. Another file there covers for one that lies open elsewhere.
    pub was: Option<Identity>,
}

impl Hidden {
    pub fn new(path: PathBuf) -> Self {
        let was = std::fs::symlink_metadata(&path).ok().and_then(|meta| identity(&meta));
        Self { path, was }
    }

    fn is_moved(&self) -> bool {
        let now = std::fs::symlink_metadata(&self.path);
        now.map_or(true, |meta| identity(&meta) != self.was)
    }
}

/// Limits on all that one command starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    pub processes: Option<u64>,
    /// Bytes of memory that are nobody else's.
    pub memory: Option<u64>,
    /// Bytes that must stay free on each file system that the command may write.
    pub keep_free: Option<u64>,
}

/// A layer that could not be put in force.
#[derive(Debug)]
pub struct LayerError {
    pub layer: &'static str,
    pub errno: i32,
    pub cause: String,
}

#[cfg(target_os = "linux")]
fn failed(layer: &'static str, cause: impl ToString) -> LayerError {
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    LayerError { layer, errno, cause: cause.to_string() }
}

/// The sandbox of one run.
pub trait Sandbox: Send + Sync {
    /// The confinement for one command, by the network its rule grants.
    fn confinement(&self, network: &Network) -> Result<Confinement, String>;
    /// Variables that a command with this network needs: where the proxy is.
    fn variables(&self, _network: &Network) -> Vec<(String, String)> {
        Vec::new()
    }
    /// What holds, clause by clause, as probed.
    fn grades(&self) -> &[Grade];
}

/// `sandbox: off`: nothing holds, and every grade says so.
pub struct NoSandbox {
    grades: Vec<Grade>,
}

impl NoSandbox {
    pub fn new(why: &str) -> Self {
        let grade = |clause: &str| Grade {
            clause: clause.into(),
            held: Held::NotHeld,
            by: why.to_owned(),
            required: true,
        };
        let clauses = ["files.write", "files.read", "network", "privileges"];
        Self { grades: clauses.map(grade).to_vec() }
    }
}

impl Sandbox for NoSandbox {
    fn confinement(&self, _network: &Network) -> Result<Confinement, String> {
        Ok(Confinement { wall: Wall::Open, ..Confinement::default() })
    }

    fn grades(&self) -> &[Grade] {
        &self.grades
    }
}

/// The layers of this machine, each graded by what the probe found.
pub struct Walls {
    plan: Plan,
    layers: Layers,
    /// One for each list of hosts, at work for as long as the sandbox stands.
    proxies: Vec<HostsProxy>,
    grades: Vec<Grade>,
}

impl Walls {
    /// A plan with the layers that were tried, and what came of it.
    pub fn new(plan: Plan, layers: Layers, proxies: Vec<HostsProxy>, grades: Vec<Grade>) -> Self {
        Self { plan, layers, proxies, grades }
    }

    fn proxy(&self, hosts: &[String]) -> Option<u16> {
        self.proxies.iter().find(|proxy| proxy.hosts() == hosts).map(HostsProxy::port)
    }
}

impl Sandbox for Walls {
    fn confinement(&self, network: &Network) -> Result<Confinement, String> {
        if self.layers.namespaces
            && let Some(path) = self.plan.moved()
        {
            return Err(format!(
                "{}, which commands may not read, is not what it was when the run started: it was \
                 replaced, or an earlier command moved a folder around it, and it may lie open under \
                 another name",
                path.display()
            ));
        }
        let wall = match network {
            Network::None => Wall::None,
            Network::Loopback => Wall::Loopback,
            Network::Open => Wall::Open,
            Network::Hosts(hosts) => Wall::Proxy(
                self.proxy(hosts).ok_or("there is no proxy for the hosts of this command")?,
            ),
        };
        Ok(self.plan.confinement(self.layers, wall))
    }

    fn variables(&self, network: &Network) -> Vec<(String, String)> {
        let Network::Hosts(hosts) = network else { return Vec::new() };
        let Some(port) = self.proxy(hosts) else { return Vec::new() };
        let url = format!("http://127.0.0.1:{port}");
        ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"]
            .into_iter()
            .map(|name| (name.to_owned(), url.clone()))
            .collect()
    }

    fn grades(&self) -> &[Grade] {
        &self.grades
    }
}
