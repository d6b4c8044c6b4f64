//! The sandbox of a run: the best set of layers that works here, or the one that the policy pins, tried
//! before the first model request.

use super::RunFolder;
use super::prepare::{Refusal, RunInput, unavailable};
use crate::exec::order::{Finding, ProbeOrder};
use crate::exec::sandbox::{
    self, Confinement, Findings, Grade, Held, Hidden, Layers, NoSandbox, Plan, Sandbox, Wall, Walls,
};
use crate::exec::{ExecError, Executor, HostsProxy, Launchers};
use crate::policy::{Network, Policy, SandboxLevel};
use crate::spec::SandboxMode;
use std::path::PathBuf;
use std::sync::Arc;

/// How strict the run is: the flag, else the policy.
pub(super) fn level(input: &RunInput, policy: &Policy) -> SandboxLevel {
    match input.settings.sandbox.value {
        Some(SandboxMode::Require) => SandboxLevel::Require,
        Some(SandboxMode::BestEffort) => SandboxLevel::BestEffort,
        Some(SandboxMode::Off) => SandboxLevel::Off,
        None => policy.sandbox().level,
    }
}

/// The sandbox as the policy and the flag want it, probed by doing it.
pub(super) async fn raise(
    input: &RunInput,
    policy: &Policy,
    folder: &RunFolder,
    plan: Plan,
    warnings: &mut Vec<String>,
) -> Result<Arc<dyn Sandbox>, Refusal> {
    let level = level(input, policy);
    if level == SandboxLevel::Off {
        warnings
            .push("the sandbox is off: allowed commands can reach whatever this user can".into());
        return Ok(Arc::new(NoSandbox::new("the sandbox is off")));
    }
    let tried = Tried::new(&input.launchers, policy, &plan, folder).await?;
    let short = shortfalls(&tried.grades(&plan), policy);
    if short.is_empty() && tried.failure.is_none() {
        return Ok(Arc::new(tried.walls(plan)));
    }
    let what = tried.failure.as_ref().map_or_else(|| short.join("; "), Failure::text);
    if level == SandboxLevel::Require {
        return Err(unavailable(
            &tried.reason(),
            format!("the sandbox that the policy requires cannot be had: {what}"),
            WAYS_OUT,
        ));
    }
    warnings.push(format!("the sandbox holds less than the policy asks for: {what}"));
    // What cannot be applied at all would fail every command; best effort goes on without.
    if tried.failure.is_none() {
        return Ok(Arc::new(tried.walls(plan)));
    }
    Ok(Arc::new(NoSandbox::new(&format!("best effort, and nothing could be had: {what}"))))
}

pub(super) const WAYS_OUT: &str = "run on Linux 5.13 or newer with Landlock and seccomp allowed (a default \
    container has both), allow user namespaces for what only mounts hold, take undoing for \
    prevention with `sandbox: { accept: [reverted] }`, drop the clause that is not held, or accept \
    less with --sandbox best-effort; `turnkey doctor` shows what holds here";

/// What `require` does not take, in words.
pub(super) fn shortfalls(grades: &[Grade], policy: &Policy) -> Vec<String> {
    let accepts = policy.sandbox().accept_reverted;
    let short = grades.iter().filter(|grade| grade.falls_short(accepts));
    short
        .map(|grade| format!("{} is {} ({})", grade.clause, grade.held.words(), grade.by))
        .collect()
}

/// A layer that could not be put in force.
pub(super) struct Failure {
    layer: String,
    cause: String,
}

impl Failure {
    fn text(&self) -> String {
        format!("{}: {}", self.layer, self.cause)
    }
}

/// What came of trying.
pub(super) struct Tried {
    pub layers: Layers,
    pub findings: Findings,
    pub failure: Option<Failure>,
    /// Why the namespaces are not in use, where they were wanted and could not be had.
    pub without_namespaces: Option<String>,
    proxies: Vec<HostsProxy>,
}

impl Tried {
    /// Tries the set that the policy pins, or else the best one and then the floor, behind each of the
    /// networks that a command could get.
    pub(super) async fn new(
        launchers: &Launchers,
        policy: &Policy,
        plan: &Plan,
        folder: &RunFolder,
    ) -> Result<Self, Refusal> {
        let mut proxies = Vec::new();
        let mut walls = vec![Wall::None];
        for network in policy.networks_in_use() {
            let wall = match network {
                Network::None | Network::Open => continue,
                Network::Loopback => Wall::Loopback,
                Network::Hosts(hosts) => {
                    let proxy = HostsProxy::start(hosts).await.map_err(|error| {
                        let what = format!("the proxy for named hosts: {error}");
                        unavailable("sandbox.proxy", what, "")
                    })?;
                    let wall = Wall::Proxy(proxy.port());
                    proxies.push(proxy);
                    wall
                }
            };
            if !walls.contains(&wall) {
                walls.push(wall);
            }
        }
        let pinned = Layers::pinned(&policy.sandbox().layers);
        let sets = match pinned {
            Some(layers) => vec![layers],
            None => vec![Layers::ALL, Layers::FLOOR],
        };
        let mut tried = Self {
            layers: sets[0],
            findings: Findings::default(),
            failure: None,
            without_namespaces: None,
            proxies,
        };
        for layers in sets {
            tried.layers = layers;
            tried.failure = None;
            match attempt(launchers, plan, layers, &walls, folder).await {
                Ok(findings) => {
                    tried.findings = Findings(findings);
                    break;
                }
                Err(failure) if failure.layer == "namespaces" && pinned.is_none() => {
                    tried.without_namespaces = Some(failure.cause.clone());
                    tried.failure = Some(failure);
                }
                Err(failure) => {
                    tried.failure = Some(failure);
                    break;
                }
            }
        }
        Ok(tried)
    }

    pub fn grades(&self, plan: &Plan) -> Vec<Grade> {
        let mut grades = plan.grades(self.layers, &self.findings);
        if let Some(failure) = &self.failure {
            for grade in &mut grades {
                grade.held = Held::NotHeld;
                grade.by = failure.text();
            }
        }
        if let Some(why) = &self.without_namespaces {
            grades.push(Grade {
                clause: "namespaces".into(),
                held: Held::NotHeld,
                by: format!("the layers below hold without them: {why}"),
                required: false,
            });
        }
        grades
    }

    /// `sandbox.landlock`, `sandbox.seccomp`: the layer that failed first.
    fn reason(&self) -> String {
        let failed = self.findings.0.iter().find(|finding| !finding.holds);
        let layer = match (&self.failure, failed) {
            (Some(failure), _) => failure.layer.as_str(),
            (None, Some(finding)) if finding.layer != "none" => finding.layer.as_str(),
            _ => "not_held",
        };
        format!("sandbox.{}", layer.split(' ').next().unwrap_or("not_held"))
    }

    fn walls(self, plan: Plan) -> Walls {
        let grades = self.grades(&plan);
        Walls::new(plan, self.layers, self.proxies, grades)
    }
}

/// One set of layers behind every wall.
async fn attempt(
    launchers: &Launchers,
    plan: &Plan,
    layers: Layers,
    walls: &[Wall],
    folder: &RunFolder,
) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    for wall in walls {
        let mut confinement = plan.confinement(layers, *wall);
        findings.extend(probe(launchers, &mut confinement, folder).await?);
    }
    Ok(findings)
}

/// Puts what the probe needs in place, lets it try, and takes it away again.
async fn probe(
    launchers: &Launchers,
    confinement: &mut Confinement,
    folder: &RunFolder,
) -> Result<Vec<Finding>, Failure> {
    let failure = |layer: &str, cause: String| Failure { layer: layer.into(), cause };
    let outside = |name: &str| folder.dir.join(name);
    let inside = |name: &str| folder.scratch.join(name);
    let hidden = confinement.layers.namespaces.then(|| inside(".probe-hidden"));
    // It is made below, for the probe alone.
    let cover = |path: PathBuf| Hidden { path, was: None };
    confinement.mounts.hidden.extend(hidden.clone().map(cover));
    let order = ProbeOrder {
        forbidden_file: outside(".probe"),
        allowed_file: inside(".probe"),
        foreign_file: outside(".probe-mode"),
        foreign_socket: outside(".probe.sock"),
        own_socket: inside(".probe.sock"),
        hidden,
        foreign_process: std::process::id(),
    };
    let made = || {
        std::fs::write(&order.foreign_file, "")?;
        if let Some(hidden) = &order.hidden {
            std::fs::write(hidden, "")?;
        }
        sandbox::blind_socket(&order.foreign_socket)
    };
    let listener = made().map_err(|error| failure("the probe", error.to_string()))?;
    let found = Executor::probe(launchers, confinement.clone(), order.clone()).await;
    drop(listener);
    let left = [
        &order.forbidden_file,
        &order.allowed_file,
        &order.foreign_file,
        &order.foreign_socket,
        &order.own_socket,
    ];
    for path in left.into_iter().chain(&order.hidden) {
        let _ = std::fs::remove_file(path);
    }
    found.map_err(|error| match error {
        ExecError::Sandbox { layer, cause } => failure(&layer, cause),
        other => failure("the launcher", other.to_string()),
    })
}
