//! The spec as written: what the file says, each value with its place, nothing filled in.
//!
//! Defaults, flags and environment come in only when it is resolved (`settings`), so that what a
//! person wrote and what it means stay two things.

use super::fault::At;
use std::path::PathBuf;
use std::time::Duration;

/// A value and where the file says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed<T> {
    pub value: T,
    pub at: At,
}

impl<T> Placed<T> {
    pub fn new(value: T, at: At) -> Self {
        Self { value, at }
    }
}

/// A whole task spec, checked in itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spec {
    /// The file as messages name it.
    pub file: String,
    /// Its folder: what its relative paths are relative to.
    pub dir: PathBuf,
    pub name: Option<Placed<String>>,
    pub task: Option<Placed<TaskText>>,
    pub params: Vec<Param>,
    pub inputs: Vec<Placed<Input>>,
    pub instructions: Option<Placed<Vec<String>>>,
    pub workspace: Option<Placed<String>>,
    pub isolate: Option<Placed<Isolate>>,
    pub model: ModelSpec,
    pub policy: Option<Placed<String>>,
    pub limits: LimitsSpec,
    pub expect: Option<Placed<Expect>>,
    pub require_files: Option<Placed<Vec<String>>>,
    pub keep: Option<Placed<Vec<String>>>,
    pub max_changed_files: Option<Placed<u64>>,
    pub max_changed_lines: Option<Placed<u64>>,
    pub verify: VerifySpec,
    pub hooks: Option<Placed<Vec<HookSpec>>>,
    pub environment: Option<Placed<Environment>>,
    pub artifacts: Option<Placed<String>>,
}

impl Spec {
    /// A path of this spec: relative ones are relative to its folder.
    pub fn resolve_path(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }
}

/// A file or folder that a spec names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The key that names it.
    pub key: String,
    pub path: PathBuf,
    pub at: At,
    pub is_folder: bool,
}

impl Spec {
    /// What must be there for the spec to run, for whoever may look at the disk. The key's file is
    /// left out: it may well exist only where the run does.
    pub fn named_files(&self) -> Vec<Named> {
        let mut named = Vec::new();
        let mut add = |key: &str, path: PathBuf, at: At, is_folder: bool| {
            named.push(Named { key: key.to_owned(), path, at, is_folder });
        };
        if let Some(task) = &self.task
            && let TaskText::File(path) = &task.value
        {
            add("task_file", self.resolve_path(path), task.at, false);
        }
        for input in &self.inputs {
            if let InputFrom::File(path) = &input.value.from {
                add(&format!("inputs.{}", input.value.name), self.dir.join(path), input.at, false);
            }
        }
        if let Some(paths) = &self.instructions {
            for (index, path) in paths.value.iter().enumerate() {
                add(&format!("instructions[{index}]"), self.resolve_path(path), paths.at, false);
            }
        }
        if let Some(path) = &self.workspace {
            add("workspace", self.resolve_path(&path.value), path.at, true);
        }
        if let Some(path) = &self.policy {
            add("policy", self.resolve_path(&path.value), path.at, false);
        }
        named
    }
}

/// Where the task stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskText {
    /// In the spec. `start` is the place of its first character where its lines stand in the file
    /// as they are (a `|` block, one plain line), so that a fault inside it can be placed.
    Inline { text: String, start: Option<At> },
    /// In a file of its own, as written in the spec.
    File(String),
}

/// A declared parameter of the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    pub name: String,
    pub at: At,
    pub kind: ParamKind,
    /// Absent means that a value must be given.
    pub default: Option<String>,
    pub about: Option<String>,
}

/// The type of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParamKind {
    String,
    Number,
    Bool,
    Choice(Vec<String>),
    /// A path inside the workspace; it need not exist.
    Path,
    /// A file inside the workspace that must exist.
    File,
}

/// An untrusted text and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub name: String,
    pub from: InputFrom,
}

/// Where an untrusted text comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputFrom {
    Env(String),
    /// As written; `settings` joins it with the folder it is relative to.
    File(PathBuf),
    Text(String),
}

/// Where the model's key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFrom {
    Env(String),
    File(PathBuf),
    Fd(u64),
}

/// PROVIDER/NAME.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    pub provider: String,
    pub name: String,
}

impl std::fmt::Display for ModelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)
    }
}

/// Whether the Turn works on the workspace itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolate {
    None,
    Copy,
}

impl Isolate {
    pub const CHOICES: &[(&str, Self)] = &[("none", Self::None), ("copy", Self::Copy)];
}

/// Where the tools' commands run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Environment {
    #[default]
    Local,
    Container(Container),
}

/// A container engine and what it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub from: ContainerFrom,
    pub runtime: ContainerRuntime,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerFrom {
    /// Each command gets a container of its own.
    Image(String),
    /// Commands are executed in a container that runs already.
    Name(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ContainerRuntime {
    #[default]
    Docker,
    Podman,
}

impl ContainerRuntime {
    pub const CHOICES: &[(&str, Self)] = &[("docker", Self::Docker), ("podman", Self::Podman)];
}

/// What the Turn must have done to the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Changes,
    None,
    Any,
}

impl Expect {
    pub const CHOICES: &[(&str, Self)] =
        &[("changes", Self::Changes), ("none", Self::None), ("any", Self::Any)];
}

/// Money per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    pub input: f64,
    pub cached: f64,
    pub output: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelSpec {
    pub model: Option<Placed<ModelName>>,
    pub base_url: Option<Placed<String>>,
    pub key: Option<Placed<KeyFrom>>,
    pub effort: Option<Placed<String>>,
    pub window: Option<Placed<u64>>,
    pub max_output_tokens: Option<Placed<u64>>,
    pub server_state: Option<Placed<bool>>,
    pub ca_file: Option<Placed<String>>,
    pub timeout_connect: Option<Placed<Duration>>,
    pub timeout_first_byte: Option<Placed<Duration>>,
    pub timeout_idle: Option<Placed<Duration>>,
    pub timeout_total: Option<Placed<Duration>>,
    pub retry_attempts: Option<Placed<u64>>,
    pub retry_total_wait: Option<Placed<Duration>>,
    pub prices: Option<Placed<Prices>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct LimitsSpec {
    pub steps: Option<Placed<u64>>,
    pub tool_calls: Option<Placed<u64>>,
    pub tokens: Option<Placed<u64>>,
    pub cost: Option<Placed<f64>>,
    pub time: Option<Placed<Duration>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct VerifySpec {
    pub attempts: Option<Placed<u64>>,
    pub checks: Option<Placed<Vec<CheckSpec>>>,
}

/// A command of the operator's own that must succeed after the Turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckSpec {
    pub name: String,
    pub run: String,
    pub timeout: Option<Duration>,
    pub at: At,
}

/// A fixed point of a run at which hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookPoint {
    SessionStart,
    UserPrompt,
    BeforeTool,
    AfterTool,
    Stop,
    RunEnd,
}

impl HookPoint {
    /// In the order of a run.
    pub const ALL: [Self; 6] = [
        Self::SessionStart,
        Self::UserPrompt,
        Self::BeforeTool,
        Self::AfterTool,
        Self::Stop,
        Self::RunEnd,
    ];

    /// The key of the spec.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "session_start",
            Self::UserPrompt => "user_prompt",
            Self::BeforeTool => "before_tool",
            Self::AfterTool => "after_tool",
            Self::Stop => "stop",
            Self::RunEnd => "run_end",
        }
    }

    /// Whether its hooks are asked for a decision: without one nothing goes on.
    pub fn decides(self) -> bool {
        !matches!(self, Self::AfterTool | Self::RunEnd)
    }

    /// Whether its hooks may be for some tools only.
    pub fn is_of_tools(self) -> bool {
        matches!(self, Self::BeforeTool | Self::AfterTool)
    }
}

/// A command of the operator's own that is asked or told at a point of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSpec {
    pub point: HookPoint,
    pub run: String,
    pub timeout: Option<Duration>,
    pub required: bool,
    /// Globs of tool names; empty for every tool.
    pub tools: Vec<String>,
    pub at: At,
}
