//! Everything that must stand before the first model request: policy, folders, sandbox, workspace,
//! model. Whatever is missing ends the run here, typed, before a token is spent.

use super::artifacts::Artifacts;
use super::assemble::{Made, make};
use super::folder::RunFolder;
use super::hooks;
use super::isolate;
use super::places;
use super::resume::Going;
use crate::clock;
use crate::context::{self, EnvironmentFacts};
use crate::exec::Launchers;
use crate::exec::sandbox::Grade;
use crate::model::{self, Model, ModelConfig, RetryPolicy};
use crate::policy::{Ground, Policy, PolicyFile};
use crate::protocol::{Item, Outcome, PromptOptions, RunId, Signal, State};
use crate::rollout::Masker;
use crate::session::{Limits, SessionParts, TurnConfig};
use crate::spec::{Fault, Isolate, Settings};
use crate::tools::ToolWorld;
use crate::verify::{Check, Demands, Expect, Verifier};
use crate::workspace;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::mpsc;

/// A variable of the runner's environment by name.
pub type Lookup = Box<dyn Fn(&str) -> Option<String>>;

/// Makes the tools of a run.
pub type MakeTools = fn(&ToolWorld) -> Vec<Arc<dyn crate::tools::Tool>>;

/// What a run is made from; everything that had to be read from the outside is in here already.
pub struct RunInput {
    pub settings: Settings,
    /// The task with its parameters filled in.
    pub task: String,
    /// The block of untrusted data, empty without inputs.
    pub untrusted_data: String,
    pub model: ModelConfig,
    /// Known secrets by name, for masking.
    pub secrets: Vec<(String, String)>,
    pub home: Option<PathBuf>,
    pub path: Option<String>,
    /// Where run folders may lie, best first.
    pub bases: Vec<PathBuf>,
    pub ci_command_files: Vec<PathBuf>,
    /// A variable of the runner's environment, for what the policy passes.
    pub lookup: Lookup,
    /// This binary.
    pub launchers: Launchers,
    /// The current folder.
    pub folder: PathBuf,
    /// The record that this run goes on from.
    pub going: Option<Going>,
    /// A model in place of the one that the settings name, for a replay.
    pub model_instead: Option<Arc<dyn Model>>,
    pub started: Instant,
    /// Set when a signal has arrived: long work before the run begins gives up.
    pub stopped: Arc<AtomicBool>,
    /// Puts other tools in place of the standard ones; for tests of the runner itself.
    pub tools: Option<MakeTools>,
}

impl RunInput {
    /// Whether anything untrusted is, or was in an earlier run, part of what the model reads.
    fn is_untrusted(&self) -> bool {
        !self.untrusted_data.is_empty() || self.going.as_ref().is_some_and(Going::was_untrusted)
    }

    /// A refusal once a signal has arrived; [`prepare`] says which one.
    pub(super) fn go_on(&self) -> Result<(), Refusal> {
        // The signal is told before this is set: whoever sees it finds the signal as well.
        match self.stopped.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(unavailable("interrupted", "the run was interrupted before it began", "")),
        }
    }
}

/// A run that can start.
pub struct Prepared {
    pub folder: RunFolder,
    pub parts: SessionParts,
    pub task: String,
    pub masker: Arc<Masker>,
    pub grades: Vec<Grade>,
    pub policy_file: String,
    pub warnings: Vec<String>,
    pub settings: Settings,
    pub started: Instant,
    /// Where its files are published.
    pub artifacts: PathBuf,
    /// Where the work really happens: the workspace, or its copy.
    pub root: PathBuf,
    /// Where the settings were read from and their relative paths lead.
    pub folder_of_settings: PathBuf,
    /// The run that this one goes on from, and how.
    pub parent: Option<(RunId, &'static str)>,
}

pub(super) type Refusal = Box<Outcome>;

fn invalid(reason: &str, message: impl Into<String>) -> Refusal {
    Box::new(Outcome::new(State::Invalid, reason, message))
}

pub(super) fn unavailable(reason: &str, message: impl Into<String>, hint: &str) -> Refusal {
    Box::new(Outcome::new(State::Unavailable, reason, message).hint(hint).retryable(true))
}

/// How a run ends that a signal found before it began.
pub fn interrupted(signal: Signal) -> Outcome {
    let text = format!("the run was interrupted by {} before it began", signal.name());
    Outcome::new(State::Interrupted(signal), "interrupted", text).retryable(true)
}

fn faults(reason: &str, list: &[Fault]) -> Refusal {
    let lines: Vec<String> = list.iter().map(ToString::to_string).collect();
    invalid(reason, lines.join("\n"))
}

/// Makes a run ready. `artifacts` is the claimed folder, if one was named; a signal that arrives
/// meanwhile ends it here, with nothing left behind.
pub async fn prepare(
    mut input: RunInput,
    artifacts: Option<&Artifacts>,
    signals: &mut mpsc::Receiver<Signal>,
) -> Result<Prepared, Refusal> {
    let place = Place::find(&input, artifacts)?;
    let mut warnings = input.settings.notes.clone();
    let masker = Arc::new(Masker::new(input.secrets.iter().map(|(n, v)| (n.as_str(), v.as_str()))));
    let mut folder = RunFolder::create(&input.bases, &|path| {
        path.starts_with(&place.workspace) || places::is_writable(&place.policy, path)
    })
    .map_err(|why| {
        unavailable(
            "folder.run",
            format!(
                "no folder for the run's record can be had outside what commands may write: {why}"
            ),
            "set HOME or XDG_STATE_HOME to a folder outside the workspace",
        )
    })?;
    let making = make(&mut input, place, &mut folder, artifacts, masker.clone(), &mut warnings);
    let made = tokio::select! {
        biased;
        Some(signal) = signals.recv() => Err(Box::new(interrupted(signal))),
        // What gave up because of a signal says so of itself only.
        made = making => made.map_err(|refusal| match signals.try_recv() {
            Ok(signal) => Box::new(interrupted(signal)),
            Err(_) => refusal,
        }),
    };
    let Made { place, exec_grades, parts, parent } = match made {
        Ok(made) => made,
        Err(mut refusal) => {
            // A run that is refused leaves nothing behind.
            if let Some(left) = folder.discard() {
                refusal.message.push_str(&format!(
                    "; {} is left: a file was still being copied into it; remove it",
                    left.display()
                ));
            }
            return Err(refusal);
        }
    };
    Ok(Prepared {
        parent,
        folder_of_settings: input.folder.clone(),
        grades: exec_grades,
        policy_file: place.policy_file.clone(),
        parts,
        task: input.task,
        masker,
        warnings,
        started: input.started,
        root: place.workspace,
        artifacts: artifacts.map_or_else(|| folder.dir.clone(), |folder| folder.path().to_owned()),
        settings: input.settings,
        folder,
    })
}

/// The workspace and the policy bound to it.
pub(super) struct Place {
    pub(super) workspace: PathBuf,
    file: PolicyFile,
    policy_file: String,
    pub(super) ground: Ground,
    pub(super) policy: Arc<Policy>,
}

impl Place {
    fn find(input: &RunInput, artifacts: Option<&Artifacts>) -> Result<Self, Refusal> {
        let given = &input.settings.workspace.value;
        let workspace = given.canonicalize().map_err(|error| {
            invalid("workspace", format!("the workspace {}: {error}", given.display()))
        })?;
        if !workspace.is_dir() {
            return Err(invalid(
                "workspace",
                format!("the workspace {} is no folder", given.display()),
            ));
        }
        let (file, policy_file) = read_policy(input.settings.policy.value.as_deref())?;
        let mut protected = input.ci_command_files.clone();
        let named = [
            input.settings.spec_file.as_deref().map(PathBuf::from),
            input.settings.policy.value.clone(),
            artifacts.map(|artifacts| artifacts.path().to_owned()),
        ];
        protected.extend(named.into_iter().flatten());
        protected.extend(hooks::files(&input.settings, &workspace));
        let protected = protected.iter().map(|path| absolute(path)).collect();
        let untrusted = input.is_untrusted();
        let ground = ground(&workspace, input.home.clone(), protected, untrusted);
        let policy = Arc::new(file.compile(&ground).map_err(|list| faults("policy", &list))?);
        Ok(Self { workspace, file, policy_file, ground, policy })
    }

    /// With `isolate: copy` the place moves into the copy; the original is not even readable then,
    /// unless the policy names it.
    pub(super) async fn isolated(
        self,
        input: &RunInput,
        folder: &RunFolder,
        artifacts: Option<&Artifacts>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Refusal> {
        if input.settings.isolate.value == Isolate::None {
            return Ok(self);
        }
        let exclude: Vec<PathBuf> =
            artifacts.map(|artifacts| artifacts.path().to_owned()).into_iter().collect();
        let (from, to) = (self.workspace.clone(), folder.copy.clone());
        let copied =
            isolate::copy(from, to, folder.store.clone(), exclude, folder.is_copied_to.clone())
                .await;
        let notes = copied.map_err(|error| {
            unavailable(
                "isolate.copy",
                format!("{} could not be copied: {error}", self.workspace.display()),
                "check the free space of the disk that holds the run folder",
            )
        })?;
        warnings.extend(notes.iter().map(|note| format!("not in the copy: {note}")));
        self.moved(&folder.copy)
    }

    /// The same place in a copy of its repository.
    pub(super) fn moved(mut self, copy: &Path) -> Result<Self, Refusal> {
        let tree = isolate::tree_of(&self.workspace);
        let there = |path: &Path| path.strip_prefix(&tree).ok().map(|inside| copy.join(inside));
        // What the policy protects in the tree itself is protected in its copy as well.
        let copies: Vec<PathBuf> =
            self.ground.protected.iter().filter_map(|path| there(path)).collect();
        self.ground.protected.extend(copies);
        // Joined to nothing, a path would end in a slash.
        self.workspace = copy.join(isolate::inside(&self.workspace)).components().collect();
        self.ground.workspace.clone_from(&self.workspace);
        self.ground.git_dirs = [copy.join(".git")].into_iter().filter(|git| git.exists()).collect();
        let policy = self.file.compile(&self.ground).map_err(|list| faults("policy", &list))?;
        self.policy = Arc::new(policy);
        Ok(self)
    }
}

/// The root of the checkout that the workspace lies in.
pub(super) fn repository_around(workspace: &Path) -> Option<PathBuf> {
    workspace::git::GitPlace::discover(workspace).map(|git| git.work_root)
}

/// The place that a policy is bound to.
pub(super) fn ground(
    workspace: &Path,
    home: Option<PathBuf>,
    protected: Vec<PathBuf>,
    untrusted: bool,
) -> Ground {
    let git = workspace::git::GitPlace::discover(workspace);
    let git_dirs = git.map(|git| vec![git.git_dir.clone(), git.common_dir.clone()]);
    Ground {
        workspace: workspace.to_owned(),
        home,
        protected,
        untrusted,
        git_dirs: git_dirs.unwrap_or_default(),
    }
}

pub(super) fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

pub(super) fn read_policy(path: Option<&Path>) -> Result<(PolicyFile, String), Refusal> {
    let Some(path) = path else { return Ok((PolicyFile::built_in(), "built-in".into())) };
    let name = path.display().to_string();
    let source = std::fs::read_to_string(path).map_err(|error| {
        let what_now = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "; name an existing file, or make one: turnkey policy init > policy.yaml"
            }
            _ => "",
        };
        invalid("policy", format!("the policy {name}: {error}{what_now}"))
    })?;
    let dir = path.parent().map(Path::to_owned).unwrap_or_default();
    let load = move |used: &str| {
        std::fs::read_to_string(dir.join(used)).map_err(|error| format!("{used}: {error}"))
    };
    let file = PolicyFile::parse(&name, &source, &load).map_err(|list| faults("policy", &list))?;
    Ok((file, name))
}

pub(super) fn open_model(input: &RunInput) -> Result<Arc<dyn Model>, Refusal> {
    if let Some(model) = &input.model_instead {
        return Ok(model.clone());
    }
    let settings = &input.settings.model;
    let name = &settings.name.value;
    // A name that is a file is relative to the file that wrote it.
    let reference = if name.provider == "scripted" {
        format!("scripted/{}", settings.base_dir.join(&name.name).display())
    } else {
        name.to_string()
    };
    model::open(&reference, input.model.clone())
        .map_err(|error| invalid("model", error.to_string()))
}

pub(super) fn turn_config(input: &RunInput, policy: &Policy, session: &str) -> TurnConfig {
    let settings = &input.settings;
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let limits = &settings.limits;
    TurnConfig {
        instructions: context::BASE_INSTRUCTIONS.into(),
        options: PromptOptions {
            cache_key: session.to_owned(),
            effort: settings.model.effort.value.clone(),
            max_output_tokens: settings.model.max_output_tokens.value,
            output_schema: None,
        },
        retry: RetryPolicy {
            attempts: small(settings.model.retry_attempts.value),
            total_wait: settings.model.retry_total_wait.value,
            ..RetryPolicy::default()
        },
        limits: Limits {
            steps: small(limits.steps.value),
            tool_calls: limits.tool_calls.value.map(small),
            tokens: limits.tokens.value,
            cost: limits.cost.value.zip(settings.model.prices.value),
            time: limits.time.value,
            deadline: input.started + limits.time.value,
            equal_failures: small(limits.equal_failures),
            equal_denials: EQUAL_DENIALS,
        },
        on_deny: policy.on_deny(),
        base_url: settings.model.base_url.value.clone(),
        untrusted: input.is_untrusted(),
    }
}

/// Equal denied calls in a row that end the Turn as blocked, instead of burning its steps.
const EQUAL_DENIALS: u32 = 5;

pub(super) fn verifier(settings: &Settings) -> Verifier {
    Verifier {
        demands: Demands {
            expect: match settings.expect.value {
                crate::spec::Expect::Changes => Expect::Changes,
                crate::spec::Expect::None => Expect::None,
                crate::spec::Expect::Any => Expect::Any,
            },
            require_files: settings.require_files.value.clone(),
            keep: settings.keep.value.clone(),
            max_changed_files: settings.max_changed_files.value,
            max_changed_lines: settings.max_changed_lines.value,
            ..Demands::default()
        },
        checks: settings
            .checks
            .value
            .iter()
            .map(|check| Check {
                name: check.name.clone(),
                run: check.run.clone(),
                timeout: check.timeout,
            })
            .collect(),
        attempts: u32::try_from(settings.verify_attempts.value).unwrap_or(u32::MAX),
    }
}

/// What stands before the task: project rules, permissions, environment, untrusted data.
pub(super) fn opening(input: &RunInput, world: &ToolWorld) -> Result<Vec<Item>, Refusal> {
    let mut items = Vec::new();
    items.extend(project_rules(world));
    for path in &input.settings.instructions.value {
        let text = std::fs::read_to_string(path).map_err(|error| {
            invalid("spec.instructions", format!("{}: {error}", path.display()))
        })?;
        items.push(context::project_rules(&path.display().to_string(), &text));
    }
    items.push(context::permissions(&world.policy.describe()));
    items.push(context::environment(&EnvironmentFacts {
        workspace: world.root().display().to_string(),
        date: clock::stamp().chars().take(10).collect(),
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        shell: if world.executor.has_bash() { "bash".into() } else { "none".into() },
        steps: u32::try_from(input.settings.limits.steps.value).unwrap_or(u32::MAX),
        time: clock::human(input.settings.limits.time.value),
    }));
    if !input.untrusted_data.is_empty() {
        items.push(context::untrusted(&input.untrusted_data));
    }
    Ok(items)
}

/// AGENTS.md of the workspace's root, read through the policy like any other file.
fn project_rules(world: &ToolWorld) -> Option<Item> {
    const NAME: &str = "AGENTS.md";
    const MAX_BYTES: u64 = 256 * 1024;
    let path = workspace::resolve(world.root(), NAME).ok()?;
    let permit = world.policy.judge_read(&path).permit?;
    let content = world.workspace().read(&permit, MAX_BYTES).ok()?;
    Some(context::project_rules(NAME, &String::from_utf8_lossy(&content.bytes)))
}

/// What `--dry-run` prints: everything a run would start with.
pub fn dry_run(prepared: &Prepared) -> String {
    let mut text = String::from("settings:\n");
    for row in prepared.settings.rows() {
        text.push_str(&format!("  {}: {} ({})\n", row.key, row.value, row.source));
    }
    text.push_str(&format!("\npolicy: {}\n", prepared.policy_file));
    text.push_str(&prepared.parts.world.policy.describe());
    text.push_str("\n\nsandbox:\n");
    for grade in &prepared.grades {
        text.push_str(&format!("  {}: {} ({})\n", grade.clause, grade.held.words(), grade.by));
    }
    for hook in prepared.parts.world.hooks.list() {
        text.push_str(&format!("\nhook {}: {}", hook.label(), hook.run));
    }
    let plan = prepared.parts.registry.plan();
    text.push_str(&format!("\ntools: {}\n\nprompt:\n", plan.names().join(", ")));
    text.push_str(&prepared.parts.config.instructions);
    for item in &prepared.parts.opening {
        if let Item::Message { text: part, .. } = item {
            text.push_str(&format!("\n{part}\n"));
        }
    }
    text.push_str(&format!("\n{}\n", prepared.task));
    text
}
