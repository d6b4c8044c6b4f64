//! The doors of a run, made and put together: executors, workspace, hooks, and the world of the tools.

use super::artifacts::Artifacts;
use super::container;
use super::folder::{RunFolder, make_scratch};
use super::hooks;
use super::logs::RunLogs;
use super::places::{self, Surroundings};
use super::prepare::{Place, Refusal, RunInput, absolute, repository_around, unavailable};
use super::sandbox;
use crate::exec::sandbox::{Grade, Plan};
use crate::exec::{
    Audit, Beside, CleanPath, Environment, EnvironmentInput, Executor, ExecutorConfig,
};
use crate::policy::Policy;
use crate::rollout::Masker;
use crate::spec::{self, Settings};
use crate::tools::{Reach, ToolLimits, ToolWorld, WorldFacts};
use crate::workspace::{self, Workspace};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The doors and what the tools need.
pub(super) struct Hands {
    pub world: ToolWorld,
    pub grades: Vec<Grade>,
    pub logs: Option<RunLogs>,
}

impl Hands {
    pub(super) async fn make(
        input: &RunInput,
        place: &Place,
        folder: &RunFolder,
        artifacts: Option<&Artifacts>,
        masker: Arc<Masker>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Refusal> {
        let policy = place.policy.as_ref();
        let writable =
            |path: &Path| path.starts_with(&place.workspace) || places::is_writable(policy, path);
        let outside = CleanPath::new(input.path.as_deref(), &writable);
        let contained = match &input.settings.environment.value {
            spec::Environment::Local => None,
            spec::Environment::Container(container) => Some(container),
        };
        let path = if contained.is_some() { CleanPath::inside() } else { outside.clone() };
        let environment = environment(input, place, &folder.scratch, &path);
        let of_hooks = self::environment(input, place, &folder.hooks, &path);
        let of_checks = self::environment(input, place, &folder.checks, &path);
        let mut programs = path.folders().to_vec();
        programs.extend(environment.tool_homes().iter().cloned());
        let mut protected = place.ground.protected.clone();
        protected.extend(place.ground.git_dirs.iter().cloned());
        protected.push(place.workspace.join(".git"));
        let around = Surroundings {
            scratch: folder.scratch.clone(),
            programs,
            protected,
            git_dirs: place.ground.git_dirs.clone(),
            repository: repository_around(&place.workspace),
        };
        let mut plan_input = places::plan_input(policy, &around, &input.stopped);
        // A plan that was not looked for to its end would hide and protect too little.
        input.go_on()?;
        let audit = Audit::open().ok().filter(|_| contained.is_none()).map(Arc::new);
        plan_input.audited = audit.is_some();
        let plan = Plan::new(plan_input.clone());
        let writable = plan.writable().to_vec();
        let guarded = plan.protected_inside().to_vec();
        let launchers = input.launchers.clone();
        let mut executor = if let Some(wanted) = contained {
            let (host, grades) =
                container::open(wanted, input, policy, folder, plan_input, &outside).await?;
            let walls = container::walls(sandbox::level(input, policy), grades, warnings)?;
            let sandbox = Arc::new(walls);
            Executor::on(
                host,
                ExecutorConfig { launchers, sandbox, environment, path: path.clone() },
            )
        } else {
            let sandbox = sandbox::raise(input, policy, folder, plan, warnings).await?;
            Executor::new(ExecutorConfig { launchers, sandbox, environment, path: path.clone() })
        }
        .with_audit(audit);
        let logs =
            policy.limits().log.map(|limit| RunLogs::new(&folder.dir, limit, masker.clone()));
        if let Some(logs) = &logs {
            executor = executor.with_logs(Arc::new(logs.clone()));
        }
        // Paths in a container are not paths of this machine.
        let reach = contained.is_none().then(|| Reach::of(&executor)).flatten();
        let facts = WorldFacts { path, writable, reach };
        let grades = executor.sandbox().grades().to_vec();
        let options = workspace::Options {
            exclude: artifacts.map(|artifacts| absolute(artifacts.path())).into_iter().collect(),
            store: folder.store.clone(),
            limits: workspace::Limits::default(),
        };
        let mut workspace = Workspace::open(&place.workspace, options)
            .map_err(|error| unavailable("workspace.open", error.to_string(), ""))?;
        workspace.guard(guarded, policy.files().clone());
        let limits = tool_limits(policy);
        let began_by = input.going.as_ref().map_or("exec", |going| going.kind.as_str());
        let with = hooks::Surroundings {
            executor: &executor,
            environment: of_hooks,
            policy,
            folder,
            masker: masker.clone(),
            began_by,
        };
        let hooks = hooks::open(&input.settings, with)?;
        let checks = checks(&input.settings, &executor, of_checks, folder)?.map(|checks| {
            Arc::new(match &logs {
                Some(logs) => checks.with_logs(Arc::new(logs.clone())),
                None => checks,
            })
        });
        let world = ToolWorld::new(
            place.policy.clone(),
            Arc::new(executor),
            Arc::new(facts),
            masker,
            limits,
            Arc::new(Mutex::new(workspace)),
        );
        Ok(Self { world: world.with_hooks(hooks).with_checks(checks), grades, logs })
    }
}

/// What runs the checks: in the same walls, with a scratch that no command of the model ever wrote. Tools
/// obey what they find in their home.
fn checks(
    settings: &Settings,
    executor: &Executor,
    environment: Environment,
    folder: &RunFolder,
) -> Result<Option<Executor>, Refusal> {
    if settings.checks.value.is_empty() {
        return Ok(None);
    }
    make_scratch(&folder.checks)
        .map_err(|why| unavailable("folder.checks", format!("no scratch for checks: {why}"), ""))?;
    let scratch = folder.checks.clone();
    let instead_of = folder.scratch.clone();
    Ok(Some(executor.beside(Beside { environment, scratch, instead_of, read: Vec::new() })))
}

fn tool_limits(policy: &Policy) -> ToolLimits {
    let limits = policy.limits();
    ToolLimits {
        timeout: limits.timeout,
        capture: usize::try_from(limits.output).unwrap_or(usize::MAX),
        ..ToolLimits::default()
    }
}

fn environment(input: &RunInput, place: &Place, scratch: &Path, path: &CleanPath) -> Environment {
    let rules = place.policy.environment();
    let passed = rules
        .pass
        .iter()
        .filter_map(|name| (input.lookup)(name).map(|value| (name.clone(), value)))
        .collect();
    let mut safe_directories = vec![place.workspace.clone()];
    safe_directories.extend(repository_around(&place.workspace));
    safe_directories.dedup();
    let made_of = EnvironmentInput {
        scratch: scratch.to_owned(),
        // The tools of the operator's home are not in a container.
        home: input.home.clone().filter(|_| !path.value().is_empty()),
        passed,
        set: rules.set.clone(),
        safe_directories,
    };
    Environment::new(made_of, path)
}
