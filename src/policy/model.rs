//! The policy as it was written: parsed and checked, not yet bound to a place.

use super::hazards::git::VerbKind;
use super::pattern::{Pattern, WordPattern};
use crate::protocol::{Decision, RuleRef};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// What happens to the Turn when something was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDeny {
    /// The model is told and goes on.
    #[default]
    Continue,
    /// The Turn ends as blocked.
    Stop,
    /// The Turn goes on and ends as blocked.
    FailAtEnd,
}

/// What an `ask` becomes with nobody there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnAsk {
    #[default]
    Deny,
    Approve,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxLevel {
    #[default]
    Require,
    BestEffort,
    Off,
}

/// What the policy asks of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SandboxMode {
    pub level: SandboxLevel,
    /// `accept: [reverted]`: `require` also takes what is undone afterwards.
    pub accept_reverted: bool,
    /// Pins the set of layers; empty means the best there is.
    pub layers: Vec<String>,
    /// Switches for sanitizers, debuggers, browsers and nested sandboxes.
    pub switches: Vec<String>,
}

/// A network by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkChoice {
    None,
    Loopback,
    Open,
    Named(String),
}

/// What a name in `networks` stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkDefinition {
    Loopback,
    Open,
    Hosts(Vec<String>),
}

/// Which environment variables commands get.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EnvRules {
    /// Taken from the runner's environment.
    pub pass: Vec<String>,
    /// Set to these values.
    pub set: Vec<(String, String)>,
}

/// Limits of one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandLimits {
    pub timeout: Duration,
    /// Bytes kept of each stream.
    pub output: u64,
    pub processes: Option<u64>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Bytes of the whole output that is kept as an artifact; nothing is without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<u64>,
}

impl Default for CommandLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(300),
            output: 1024 * 1024,
            processes: Some(4096),
            memory: None,
            log: None,
        }
    }
}

/// One rule of `exec`.
#[derive(Debug, Clone, Serialize)]
pub struct Rule {
    #[serde(skip)]
    pub pattern: Pattern,
    /// The pattern's text, for the digest.
    pub cmd: String,
    pub decision: Decision,
    #[serde(skip)]
    pub source: RuleRef,
    pub without: Vec<String>,
    pub only: Option<Vec<String>>,
    pub network: Option<NetworkChoice>,
    pub when_unchanged: Vec<String>,
    pub timeout: Option<Duration>,
    pub env: Vec<(String, String)>,
    pub cwd: Option<String>,
    pub reason: Option<String>,
    pub max_calls: Option<u64>,
    pub even_if_untrusted: bool,
}

impl Rule {
    /// Whether the rule lets git change the repository.
    pub fn changes_git(&self) -> bool {
        let words = &self.pattern.words;
        let Some(first) = words.first() else { return false };
        if !first.matches("git") {
            return false;
        }
        // Global options may stand in front of the verb.
        let is_option = |word: &&WordPattern| matches!(word, WordPattern::Literal(text) if text.starts_with('-'));
        match words.iter().skip(1).find(|word| !is_option(word)) {
            None => false,
            Some(WordPattern::Literal(verb)) => verb_changes(verb, self),
            Some(WordPattern::OneOf(verbs)) => verbs.iter().any(|verb| match verb {
                WordPattern::Literal(verb) => verb_changes(verb, self),
                _ => true,
            }),
            Some(_) => true,
        }
    }

    /// Whether two rules grant the same.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.network == other.network
            && self.timeout == other.timeout
            && self.env == other.env
            && self.even_if_untrusted == other.even_if_untrusted
    }
}

/// Some verbs look or change things by their words; to change things, the rule must spell them all.
fn verb_changes(verb: &str, rule: &Rule) -> bool {
    match super::hazards::git::verb_kind(verb) {
        VerbKind::Looks => false,
        VerbKind::Changes => true,
        VerbKind::Either => rule.pattern.is_spelled_out() && rule.pattern.words.len() > 2,
    }
}

/// A path pattern as written.
#[derive(Debug, Clone, Serialize)]
pub struct PathRule {
    pub text: String,
    #[serde(skip)]
    pub source: RuleRef,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct FileLists {
    /// Some file says what may be read; where none does, it is the workspace.
    pub says_read: bool,
    pub read: Vec<PathRule>,
    pub write: Vec<PathRule>,
    pub deny_read: Vec<PathRule>,
    pub protect: Vec<PathRule>,
}

/// One entry of `tests`.
#[derive(Debug, Clone)]
pub struct PolicyTest {
    pub run: String,
    /// Where it runs, relative to the workspace.
    pub cwd: Option<String>,
    pub expect: Decision,
    pub source: RuleRef,
}

/// Everything one policy says, the files it uses included.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Model {
    pub default: DefaultDecision,
    pub on_deny: OnDeny,
    pub on_ask: OnAsk,
    pub rules: Vec<Rule>,
    pub files: FileLists,
    pub networks: BTreeMap<String, NetworkDefinition>,
    pub network: Option<NetworkChoice>,
    pub env: EnvRules,
    pub sandbox: SandboxMode,
    pub limits: CommandLimits,
    #[serde(skip)]
    pub tests: Vec<PolicyTest>,
    /// The files and presets it was made from, in the order they were read. Their names say nothing
    /// of what they mean: a policy has the same digest from wherever it is named.
    #[serde(skip)]
    pub sources: Vec<String>,
}

/// `exec.default` and where it stands.
#[derive(Debug, Clone, Serialize)]
pub struct DefaultDecision {
    pub decision: Decision,
    #[serde(skip)]
    pub source: RuleRef,
}

impl Default for DefaultDecision {
    fn default() -> Self {
        Self { decision: Decision::Deny, source: RuleRef::built_in("exec.default: deny") }
    }
}
