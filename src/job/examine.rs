//! What a run would find here: the same probe as before a run, without one.

use super::RunFolder;
use super::places::{self, Surroundings};
use super::prepare::{ground, read_policy, repository_around};
use super::sandbox::{Tried, WAYS_OUT, shortfalls};
use crate::exec::sandbox::{Grade, Layers, NoSandbox, Plan, SYSTEM_READ, Sandbox, landlock_abi};
use crate::exec::{Audit, CleanPath, Launchers};
use crate::policy::SandboxLevel;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// What is to be looked at; everything from outside is in here already.
pub struct ToExamine {
    pub policy: Option<PathBuf>,
    pub workspace: PathBuf,
    pub home: Option<PathBuf>,
    pub path: Option<String>,
    pub bases: Vec<PathBuf>,
    pub launchers: Launchers,
    pub ci_command_files: Vec<PathBuf>,
}

/// What was found.
pub struct Examination {
    pub policy: String,
    pub workspace: String,
    pub kernel: String,
    pub landlock_abi: i32,
    /// What later ABIs than this kernel's hold.
    pub landlock_lacks: Vec<&'static str>,
    /// Why Landlock's own log is not heard; `None` where it is.
    pub landlock_unheard: Option<String>,
    pub layers: Layers,
    pub grades: Vec<Grade>,
    pub always_readable: Vec<&'static str>,
    /// Why a run would be refused.
    pub short: Vec<String>,
}

impl Examination {
    /// The ways out, where a run would be refused.
    pub fn hint(&self) -> Option<&'static str> {
        (!self.short.is_empty()).then_some(WAYS_OUT)
    }
}

/// Tries the sandbox of a policy in its place. `Err` is a message for wrong input.
pub async fn examine(asked: ToExamine) -> Result<Examination, String> {
    let (file, name) = read_policy(asked.policy.as_deref()).map_err(|refusal| refusal.message)?;
    let workspace = asked
        .workspace
        .canonicalize()
        .map_err(|error| format!("the workspace {}: {error}", asked.workspace.display()))?;
    let mut protected = asked.ci_command_files;
    protected.extend(asked.policy.iter().filter_map(|path| path.canonicalize().ok()));
    let ground = ground(&workspace, asked.home, protected, false);
    let policy = file
        .compile(&ground)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let writable = |path: &Path| path.starts_with(&workspace) || places::is_writable(&policy, path);
    let folder = RunFolder::create(&asked.bases, &writable)
        .map_err(|why| format!("no folder to try things in: {why}"))?;
    let path = CleanPath::new(asked.path.as_deref(), &writable);
    let mut protected = ground.protected.clone();
    protected.extend(ground.git_dirs.iter().cloned());
    protected.push(workspace.join(".git"));
    let around = Surroundings {
        scratch: folder.scratch.clone(),
        programs: path.folders().to_vec(),
        protected,
        git_dirs: ground.git_dirs.clone(),
        repository: repository_around(&workspace),
    };
    // A signal ends this at once, with all of it.
    let never = AtomicBool::new(false);
    let plan = Plan::new(places::plan_input(&policy, &around, &never));
    let tried = Tried::new(&asked.launchers, &policy, &plan, &folder).await;
    folder.remove_working_folders();
    let _ = std::fs::remove_dir_all(&folder.dir);
    let tried = tried.map_err(|refusal| refusal.message)?;
    let off = policy.sandbox().level == SandboxLevel::Off;
    let grades = match off {
        true => NoSandbox::new("the sandbox is off").grades().to_vec(),
        false => tried.grades(&plan),
    };
    let short = match policy.sandbox().level {
        SandboxLevel::Require => shortfalls(&grades, &policy),
        SandboxLevel::BestEffort | SandboxLevel::Off => Vec::new(),
    };
    Ok(Examination {
        policy: name,
        workspace: workspace.display().to_string(),
        kernel: kernel(),
        landlock_abi: landlock_abi(),
        landlock_lacks: lacks(landlock_abi()),
        landlock_unheard: Audit::open().err(),
        layers: if off || tried.failure.is_some() { Layers::default() } else { tried.layers },
        grades,
        always_readable: SYSTEM_READ.to_vec(),
        short,
    })
}

fn kernel() -> String {
    let name = rustix::system::uname();
    format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy())
}

/// What an ABI does not hold yet, and the kernel that does.
fn lacks(abi: i32) -> Vec<&'static str> {
    const SINCE: &[(i32, &str)] = &[
        (1, "files (Linux 5.13)"),
        (2, "moving files between folders: refused altogether (Linux 5.19)"),
        (3, "truncating files (Linux 6.2); the filter and the supervisor hold it"),
        (4, "TCP ports (Linux 6.7); the filter and the supervisor hold them"),
        (5, "ioctl on devices (Linux 6.10); only harmless ones can be opened"),
        (
            6,
            "signals and abstract sockets (Linux 6.12); namespaces hold both, the supervisor the latter",
        ),
    ];
    SINCE.iter().filter(|(since, _)| *since > abi).map(|(_, what)| *what).collect()
}
