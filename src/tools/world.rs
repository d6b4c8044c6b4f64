//! What tools act on: the policy, the doors and the look-ups, shared by every call of a run.

use super::Processes;
use super::denials::{self, Origin};
use super::facts::{RuleCounts, WorldFacts};
use super::look::Looks;
use crate::exec::{Executor, Refused};
use crate::hooks::Hooks;
use crate::policy::Policy;
use crate::rollout::Masker;
use crate::workspace::{Workspace, WorkspaceError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bounds of what tools give back.
#[derive(Debug, Clone, Copy)]
pub struct ToolLimits {
    /// Bytes of a command's output that are kept at the most.
    pub capture: usize,
    /// Bytes of a result that the model gets unless it asks for less.
    pub output: usize,
    /// Time of a command unless its rule or the model says less.
    pub timeout: Duration,
    /// Bytes of a file that one read gives at the most.
    pub read: usize,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            capture: 1024 * 1024,
            output: 40 * 1024,
            timeout: Duration::from_secs(300),
            read: 256 * 1024,
        }
    }
}

/// Shared by all calls of a run.
pub struct ToolWorld {
    pub policy: Arc<Policy>,
    pub executor: Arc<Executor>,
    /// Runs the operator's checks.
    pub checks: Arc<Executor>,
    pub facts: Arc<WorldFacts>,
    pub masker: Arc<Masker>,
    pub limits: ToolLimits,
    /// Commands that outlived their call.
    pub processes: Processes,
    /// Looks at the workspace that go on beside other work.
    pub looks: Looks,
    /// How often each rule has allowed a command.
    pub rule_counts: RuleCounts,
    /// What the operator has asked and told at the points of the run.
    pub hooks: Hooks,
    /// Why a protected place is not known to be what it was.
    breach: Mutex<Option<String>>,
    workspace: Arc<Mutex<Workspace>>,
    root: PathBuf,
}

impl ToolWorld {
    pub fn new(
        policy: Arc<Policy>,
        executor: Arc<Executor>,
        facts: Arc<WorldFacts>,
        masker: Arc<Masker>,
        limits: ToolLimits,
        workspace: Arc<Mutex<Workspace>>,
    ) -> Self {
        let root = workspace.lock().unwrap_or_else(PoisonError::into_inner).root().to_owned();
        Self {
            policy,
            checks: executor.clone(),
            executor,
            facts,
            masker,
            limits,
            processes: Processes::default(),
            looks: Looks::default(),
            rule_counts: RuleCounts::default(),
            hooks: Hooks::default(),
            breach: Mutex::default(),
            workspace,
            root,
        }
    }

    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// Where the checks run, if they do not run where commands do.
    pub fn with_checks(mut self, checks: Option<Arc<Executor>>) -> Self {
        self.checks = checks.unwrap_or(self.checks);
        self
    }

    /// A protected place could not be put back. Nothing that follows may count as a success; the first
    /// reason stands.
    pub fn breached(&self, why: String) {
        self.breach.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    pub fn breach(&self) -> Option<String> {
        self.breach.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The workspace's resolved root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The workspace, for short work. A panic while it was held is told as that call's error; the
    /// data is a set of observations that the next walk makes anew.
    pub fn workspace(&self) -> MutexGuard<'_, Workspace> {
        self.workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is certain to be the sandbox's doing in a command's output, explained.
    /// `heard` is what Landlock itself says that it refused.
    pub fn denials(
        &self,
        output: &str,
        origin: &Origin,
        heard: impl FnOnce() -> Vec<Refused>,
    ) -> Option<String> {
        denials::explain(output, origin, self.facts.reach.as_ref()?, &self.policy, heard)
    }

    /// Work on files off the runtime's thread.
    pub async fn with_workspace<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut Workspace) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let world = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&mut world.workspace())).await;
        match done {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
}
