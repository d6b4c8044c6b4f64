//! The `container` environment of a run: the engine found, the image had, its walls tried and graded.

use super::RunFolder;
use super::prepare::{Refusal, RunInput, unavailable};
use crate::exec::sandbox::{Findings, Grade, Held, Layers, Plan, PlanInput};
use crate::exec::{
    self, CLIENT_VARIABLES, CleanPath, Container, ContainerConfig, ContainerWalls, Engine,
};
use crate::policy::{Network, Policy, SandboxLevel};
use crate::protocol::{Outcome, State};
use crate::spec::{self, ContainerFrom, ContainerRuntime};
use std::sync::Arc;
use std::time::Duration;

/// Time for pulling an image.
const PULL: Duration = Duration::from_secs(600);

/// Opens the container that the spec names. `outside` is the clean PATH of this machine, on which the
/// engine's client is looked up.
pub(super) async fn open(
    wanted: &spec::Container,
    input: &RunInput,
    policy: &Policy,
    folder: &RunFolder,
    plan: PlanInput,
    outside: &CleanPath,
) -> Result<(Arc<Container>, Vec<Grade>), Refusal> {
    let runtime = match wanted.runtime {
        ContainerRuntime::Docker => exec::Runtime::Docker,
        ContainerRuntime::Podman => exec::Runtime::Podman,
    };
    refuse_hosts(policy)?;
    let client = outside.find(runtime.program()).ok_or_else(|| {
        unavailable(
            "container.engine",
            format!("there is no {runtime} on the PATH, which `environment: container` needs"),
            "install its client, name the other one with `runtime`, or use `environment: local`",
        )
    })?;
    let env = CLIENT_VARIABLES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), (input.lookup)(name)?)))
        .collect();
    // SAFETY: these calls cannot fail and touch nothing.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let limits = policy.limits();
    let config = ContainerConfig {
        engine: Engine { runtime, client, env, launchers: input.launchers.clone() },
        place: match &wanted.from {
            ContainerFrom::Image(image) => exec::Place::Image(image.clone()),
            ContainerFrom::Name(name) => exec::Place::Name(name.clone()),
        },
        run: folder.id.to_string(),
        uid,
        gid,
        workspace: policy.workspace().to_owned(),
        scratch: folder.scratch.clone(),
        read: plan.read.clone(),
        write: plan.write.clone(),
        protected: plan.protected_inside.clone(),
        run_folder: folder.dir.clone(),
        processes: limits.processes,
        memory: limits.memory,
        pull: PULL,
    };
    let opened = Container::open(config).await;
    let (container, findings) = opened.map_err(|error| {
        let outcome = Outcome::new(State::Unavailable, error.reason, error.message);
        Box::new(outcome.hint(error.hint).retryable(true))
    })?;
    let mut grades = Plan::new(plan.clone()).grades(Layers::default(), &Findings(findings));
    name_the_engine(&mut grades, wanted);
    if limits.keep_free.is_some() {
        grades.push(Grade {
            clause: "command_limits.keep_free".into(),
            held: Held::NotHeld,
            by: "nobody looks at the disk for a container".into(),
            required: true,
        });
    }
    Ok((Arc::new(container), grades))
}

/// The walls as what they are: the plan speaks of the layers of this machine.
fn name_the_engine(grades: &mut [Grade], wanted: &spec::Container) {
    let image = matches!(wanted.from, ContainerFrom::Image(_));
    for grade in grades {
        if grade.clause == "files.protect" && image {
            grade.held = Held::Prevented;
            grade.by = "mounted read-only over the writable folder".into();
        }
    }
}

/// What holds, or why the run must not start.
pub(super) fn walls(
    level: SandboxLevel,
    grades: Vec<Grade>,
    warnings: &mut Vec<String>,
) -> Result<ContainerWalls, Refusal> {
    let missing: Vec<String> = grades
        .iter()
        .filter(|grade| grade.required && grade.held == Held::NotHeld)
        .map(|grade| format!("{} ({})", grade.clause, grade.by))
        .collect();
    if missing.is_empty() || level == SandboxLevel::Off {
        return Ok(ContainerWalls::new(grades));
    }
    let what = missing.join("; ");
    if level == SandboxLevel::Require {
        return Err(unavailable(
            "container.not_held",
            format!("the container does not hold what the policy asks for: {what}"),
            "name an image instead of a container, start the container without network and \
             capabilities, or accept less with --sandbox best-effort",
        ));
    }
    warnings.push(format!("the container holds less than the policy asks for: {what}"));
    Ok(ContainerWalls::new(grades))
}

fn refuse_hosts(policy: &Policy) -> Result<(), Refusal> {
    let hosts = policy.networks_in_use().into_iter().any(|net| matches!(net, Network::Hosts(_)));
    if hosts {
        return Err(unavailable(
            "container.network",
            "a network of named hosts cannot be given to a container",
            "grant `none`, `loopback` or `open`, or use `environment: local`",
        ));
    }
    Ok(())
}
