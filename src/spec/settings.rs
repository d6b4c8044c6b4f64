//! What a run is really told to do: every value resolved, each with the source it came from.
//!
//! Precedence is flag, then environment (for the model, its address, output and colour only), then
//! spec, then default. `--dry-run` and the result record print the source, so that nobody has to
//! guess why a run did what it did.

use super::types::{Environment, Expect, HookPoint, Input, Isolate, KeyFrom, ModelName, Prices};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Flag(&'static str),
    Env(&'static str),
    Spec { line: u32 },
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) if name.starts_with('-') => write!(f, "flag {name}"),
            Self::Flag(name) => write!(f, "argument {name}"),
            Self::Env(name) => write!(f, "environment {name}"),
            // The first line is 1: what has none came with the record of an earlier run.
            Self::Spec { line: 0 } => f.write_str("the resumed run"),
            Self::Spec { line } => write!(f, "spec line {line}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub source: Source,
}

impl<T> Setting<T> {
    pub fn new(value: T, source: Source) -> Self {
        Self { value, source }
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: change(self.value), source: self.source }
    }
}

/// What was typed on the command line, unread: words are checked when they are resolved, so that
/// their faults read like the spec's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlagValues {
    /// The task's text, from the argument or, with `-`, from standard input.
    pub task: Option<String>,
    pub task_file: Option<String>,
    pub params: Vec<String>,
    pub inputs: Vec<String>,
    pub policy: Option<String>,
    pub workspace: Option<String>,
    pub artifacts: Option<String>,
    pub isolate: Option<String>,
    pub model: Option<String>,
    pub base_url: Option<String>,
    pub ca_file: Option<String>,
    pub json: bool,
    pub quiet: bool,
    pub color: Option<String>,
    pub max_steps: Option<u64>,
    pub max_tool_calls: Option<u64>,
    pub max_tokens: Option<u64>,
    pub max_cost: Option<f64>,
    pub timeout: Option<String>,
    pub verify: Vec<String>,
    pub verify_attempts: Option<u64>,
    pub require_file: Vec<String>,
    pub expect: Option<String>,
    pub sandbox: Option<String>,
    pub fail_on_changes: bool,
}

/// The environment variables that have a say. Empty values count as unset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvValues {
    pub model: Option<String>,
    pub base_url: Option<String>,
    /// `human`, `json` or `quiet`.
    pub output: Option<String>,
    pub color: Option<String>,
    /// Whether `NO_COLOR` is set to anything.
    pub no_color: bool,
}

pub const ENV_MODEL: &str = "TURNKEY_MODEL";
pub const ENV_BASE_URL: &str = "TURNKEY_BASE_URL";
pub const ENV_OUTPUT: &str = "TURNKEY_OUTPUT";
pub const ENV_COLOR: &str = "TURNKEY_COLOR";

/// Where the task's text is and whether it is a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskSource {
    /// Typed or piped in: taken as it is, whatever braces it holds.
    Literal(String),
    /// The spec's `task`: a template.
    Template(String),
    /// A file; a template where a spec declares the parameters.
    File { path: PathBuf, template: bool },
}

/// Whether output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    pub const CHOICES: &[(&str, Self)] =
        &[("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)];
}

/// What the sandbox flag may say; without the flag the policy file decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxMode {
    Require,
    BestEffort,
    Off,
}

impl SandboxMode {
    pub const CHOICES: &[(&str, Self)] =
        &[("require", Self::Require), ("best-effort", Self::BestEffort), ("off", Self::Off)];
}

/// A check with everything it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    pub run: String,
    pub timeout: Duration,
}

/// A hook with everything it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub point: HookPoint,
    pub run: String,
    pub timeout: Duration,
    pub required: bool,
    pub tools: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ModelSettings {
    pub name: Setting<ModelName>,
    /// The folder that a file name in `name` (`scripted/model.yaml`) is relative to: the spec's
    /// where the spec names the model, else the current one (empty).
    pub base_dir: PathBuf,
    pub base_url: Setting<Option<String>>,
    pub key: Setting<Option<KeyFrom>>,
    pub effort: Setting<Option<String>>,
    pub window: Setting<Option<u64>>,
    pub max_output_tokens: Setting<Option<u64>>,
    pub server_state: Setting<bool>,
    pub ca_file: Setting<Option<PathBuf>>,
    pub timeout_connect: Setting<Duration>,
    pub timeout_first_byte: Setting<Duration>,
    pub timeout_idle: Setting<Duration>,
    pub timeout_total: Setting<Option<Duration>>,
    pub retry_attempts: Setting<u64>,
    pub retry_total_wait: Setting<Duration>,
    pub prices: Setting<Option<Prices>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LimitSettings {
    pub steps: Setting<u64>,
    pub tool_calls: Setting<Option<u64>>,
    pub tokens: Setting<Option<u64>>,
    pub cost: Setting<Option<f64>>,
    pub time: Setting<Duration>,
    pub equal_failures: u64,
}

/// A whole run, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub spec_file: Option<String>,
    pub name: Setting<Option<String>>,
    pub task: Setting<TaskSource>,
    pub params: BTreeMap<String, String>,
    pub inputs: Vec<Setting<Input>>,
    pub instructions: Setting<Vec<PathBuf>>,
    pub workspace: Setting<PathBuf>,
    pub isolate: Setting<Isolate>,
    pub model: ModelSettings,
    pub policy: Setting<Option<PathBuf>>,
    pub sandbox: Setting<Option<SandboxMode>>,
    pub limits: LimitSettings,
    pub expect: Setting<Expect>,
    pub require_files: Setting<Vec<String>>,
    pub keep: Setting<Vec<String>>,
    pub max_changed_files: Setting<Option<u64>>,
    pub max_changed_lines: Setting<Option<u64>>,
    pub verify_attempts: Setting<u64>,
    pub checks: Setting<Vec<Check>>,
    pub hooks: Setting<Vec<Hook>>,
    pub fail_on_changes: Setting<bool>,
    pub environment: Setting<Environment>,
    pub artifacts: Setting<Option<PathBuf>>,
    pub json: Setting<bool>,
    pub quiet: Setting<bool>,
    pub color: Setting<Color>,
    /// What of the spec does not apply, and why: for people, in whole sentences.
    pub notes: Vec<String>,
}
