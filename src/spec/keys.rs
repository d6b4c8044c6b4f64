//! The one table of spec keys: name, type, flag, meaning, and whether this version acts on it.
//!
//! The parser knows a key only through this table, and the JSON Schema and the reference are printed
//! from it, so none of the three can know a key that another does not.

use super::defaults;
use super::fault::{At, Faults, nearest};
use super::yaml::{Key as NodeKey, Kind, Node};

/// What may stand behind a key.
#[derive(Debug, Clone, Copy)]
pub enum Type {
    Text,
    /// A path; a relative one is relative to the spec file.
    Path,
    /// A path inside the workspace.
    InnerPath,
    /// A glob over paths inside the workspace.
    Glob,
    /// The name of an environment variable.
    Variable,
    Url,
    /// PROVIDER/NAME.
    Model,
    Bool,
    Uint {
        min: u64,
    },
    /// A number of at least 0.
    Number,
    /// A number, text or boolean: the default of a parameter.
    Scalar,
    Duration,
    /// Exactly this number: the format's version.
    Version(u64),
    Choice(&'static [&'static str]),
    List(&'static Type),
    /// A mapping whose keys are names that the file chose.
    Named(&'static Type),
    Table(&'static [Key]),
    OneOf(&'static [Type]),
    /// A switch that may only say `false` until its feature exists.
    Off,
    /// Anything, for keys that are refused whole.
    Any,
}

/// One key of a mapping.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub value: Type,
    pub flag: Option<&'static str>,
    pub about: &'static str,
    /// False for a key whose feature this version does not have: it is refused, never ignored.
    pub supported: bool,
    /// Why that is so, where there is more to say than that it is not there yet.
    pub why: Option<&'static str>,
}

const fn key(name: &'static str, value: Type, about: &'static str) -> Key {
    Key { name, value, flag: None, about, supported: true, why: None }
}

const fn later(name: &'static str, about: &'static str) -> Key {
    Key { name, value: Type::Any, flag: None, about, supported: false, why: None }
}

impl Key {
    const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    const fn why(mut self, why: &'static str) -> Self {
        self.why = Some(why);
        self
    }
}

pub const ROOT: &[Key] = &[
    key("version", Type::Version(1), "The version of this format. Required."),
    key("name", Type::Text, "A short name for the job: letters, digits, '.', '_' and '-'."),
    key(
        "task",
        Type::Text,
        "The task. `{{ name }}` stands for a parameter; `{{{{` is a literal `{{`.",
    ),
    key("task_file", Type::Path, "A file that holds the task; the same templating.")
        .flag("--task-file"),
    key("params", Type::Named(&Type::Table(PARAM)), "The parameters that the task names.")
        .flag("--param"),
    key(
        "inputs",
        Type::Named(&Type::Table(INPUT)),
        "Untrusted texts for the model: data, never instructions.",
    )
    .flag("--input"),
    key("instructions", Type::List(&Type::Path), "More files of project rules for the model."),
    later("context", "Files that are put before the model whole."),
    key("workspace", Type::Path, "The folder the Turn works in.").flag("--workspace"),
    key(
        "isolate",
        Type::Choice(ISOLATE),
        "`copy` works on a copy and leaves the workspace itself untouched.",
    )
    .flag("--isolate"),
    key("model", Type::Table(MODEL), "The model and how to reach it."),
    key("policy", Type::Path, "The policy file: what may be run, read and written.")
        .flag("--policy"),
    key("limits", Type::Table(LIMITS), "What ends the Turn early."),
    key("expect", Type::Choice(EXPECT), "What the Turn must have done to the workspace.")
        .flag("--expect"),
    key("require_files", Type::List(&Type::InnerPath), "Files that must exist at the end.")
        .flag("--require-file"),
    key("keep", Type::List(&Type::Glob), "Files that may not change, whatever the policy grants."),
    key("max_changed_files", Type::Uint { min: 0 }, "How many files may change."),
    key(
        "max_changed_lines",
        Type::Uint { min: 0 },
        "How many lines may be added and removed; a binary file counts as one.",
    ),
    key("verify", Type::Table(VERIFY), "The checks that decide whether the work is done."),
    later("output_schema", "A JSON Schema for the final message."),
    later("mcp", "MCP servers."),
    key("hooks", Type::Table(HOOKS), "Commands that are asked or told at fixed points of the run."),
    key("agents", Type::Table(AGENTS), "Sub-agents."),
    key(
        "environment",
        Type::OneOf(&[Type::Choice(ENVIRONMENT), Type::Table(ENVIRONMENT_TABLE)]),
        "Where the tools run.",
    ),
    key("artifacts", Type::Path, "The folder where the run's files are published.")
        .flag("--artifacts"),
];

pub const ISOLATE: &[&str] = &["none", "copy"];
pub const EXPECT: &[&str] = &["changes", "none", "any"];
pub const ENVIRONMENT: &[&str] = &["local"];
pub const PARAM_TYPES: &[&str] = &["string", "number", "bool", "choice", "path", "file"];

pub const PARAM: &[Key] = &[
    key(
        "type",
        Type::Choice(PARAM_TYPES),
        "The type of the value. Required. `path` and `file` are paths inside the workspace; a `file` must exist.",
    ),
    key("required", Type::Bool, "Whether a value must be given; without a default it must be."),
    key("default", Type::Scalar, "The value where none is given."),
    key("choices", Type::List(&Type::Text), "The values of a `choice`."),
    key("about", Type::Text, "What the parameter is for."),
];

pub const INPUT: &[Key] = &[
    key("env", Type::Variable, "Take the text from this environment variable."),
    key("file", Type::Path, "Take the text from this file."),
    key("text", Type::Text, "The text itself."),
];

pub const MODEL: &[Key] = &[
    key("use", Type::Model, "PROVIDER/NAME.").flag("--model"),
    key("base_url", Type::Url, "Where the provider is reached, if not at its own address.")
        .flag("--base-url"),
    key("key", Type::Table(MODEL_KEY), "Where the key is; never the key itself."),
    key("effort", Type::Text, "Reasoning effort in the provider's words."),
    key("vision", Type::Off, "Whether the model takes images."),
    key("window", Type::Uint { min: 1024 }, "Tokens that fit into the model's context."),
    key(
        "max_output_tokens",
        Type::Uint { min: 16 },
        "Tokens of one response at the most; limits of tokens and cost make it smaller.",
    ),
    key(
        "server_state",
        Type::Bool,
        "Whether the provider keeps the history between requests (`openai` only).",
    ),
    key("ca_file", Type::Path, "Certificates (PEM) to trust in addition to the system's.")
        .flag("--ca-file"),
    key("timeouts", Type::Table(TIMEOUTS), "How long to wait for the model."),
    key("retries", Type::Table(RETRIES), "How often a request is made again."),
    key("prices", Type::Table(PRICES), "Prices per million tokens; a cost limit needs them."),
];

pub const MODEL_KEY: &[Key] = &[
    key("env", Type::Variable, "The environment variable that holds the key."),
    key("file", Type::Path, "The file that holds the key."),
    key("fd", Type::Uint { min: 3 }, "The open file descriptor that the key is read from."),
];

pub const TIMEOUTS: &[Key] = &[
    key("connect", Type::Duration, "Until the connection stands."),
    key("first_byte", Type::Duration, "Until the first byte of a response."),
    key("idle", Type::Duration, "Between two bytes of a response."),
    key("total", Type::Duration, "One whole response; without it the run's own limit holds."),
];

pub const RETRIES: &[Key] = &[
    key("attempts", Type::Uint { min: 1 }, "Requests for one response, the first one included."),
    key("total_wait", Type::Duration, "All waiting between the attempts of one request."),
];

pub const PRICES: &[Key] = &[
    key("input", Type::Number, "A million input tokens. Required."),
    key(
        "cached",
        Type::Number,
        "A million input tokens read from the provider's cache; without it the price of input.",
    ),
    key("output", Type::Number, "A million output tokens. Required."),
];

pub const LIMITS: &[Key] = &[
    key("steps", Type::Uint { min: 1 }, "Model requests in the Turn.").flag("--max-steps"),
    key("tool_calls", Type::Uint { min: 1 }, "Tool calls in the Turn.").flag("--max-tool-calls"),
    key("tokens", Type::Uint { min: 1 }, "Tokens in and out.").flag("--max-tokens"),
    key("cost", Type::Number, "Money, in the currency of `model.prices`.").flag("--max-cost"),
    key("time", Type::Duration, "Wall clock of the whole run.").flag("--timeout"),
];

pub const VERIFY: &[Key] = &[
    key("attempts", Type::Uint { min: 0 }, "How often failing checks are fed back to the model.")
        .flag("--verify-attempts"),
    key("baseline", Type::Off, "Whether the checks also run before the Turn."),
    later("setup", "Commands before the checks on a clean checkout."),
    key("clean_checkout", Type::Off, "Whether the checks run on a clean checkout too."),
    key(
        "checks",
        Type::List(&Type::OneOf(&[Type::Text, Type::Table(CHECK)])),
        "The commands that must succeed.",
    )
    .flag("--verify"),
];

pub const CHECK: &[Key] = &[
    key("name", Type::Text, "What reports call the check; without it, its command."),
    key("run", Type::Text, "The command. Required."),
    key("timeout", Type::Duration, "Wall clock of this check."),
];

/// The points of a run, in their order. What stands behind each is `HookPoint`'s to know.
pub const HOOKS: &[Key] = &[
    key("session_start", HOOK_LIST, "Asked before the first Step; may add to the context."),
    key("user_prompt", HOOK_LIST, "Asked about the task; may deny it or add to the context."),
    key(
        "before_tool",
        TOOL_HOOK_LIST,
        "Asked before each call that the policy allows; may deny it or replace its arguments.",
    ),
    key("after_tool", TOOL_HOOK_LIST, "Told of each result; may add to the context."),
    later("before_compact", "Asked before a compaction.")
        .why("this version compacts only by `turnkey rollout compact`, where no run is at work"),
    key("stop", HOOK_LIST, "Asked when the model ends the Turn; may send it back."),
    key("run_end", HOOK_LIST, "Told how the run ended."),
];

const HOOK_LIST: Type = Type::List(&Type::OneOf(&[Type::Text, Type::Table(HOOK)]));
const TOOL_HOOK_LIST: Type = Type::List(&Type::OneOf(&[Type::Text, Type::Table(TOOL_HOOK)]));

pub const HOOK: &[Key] = &[HOOK_RUN, HOOK_TIMEOUT, HOOK_REQUIRED];

pub const TOOL_HOOK: &[Key] = &[
    HOOK_RUN,
    HOOK_TIMEOUT,
    HOOK_REQUIRED,
    key("tools", Type::List(&Type::Text), "Only calls of these tools; `*` stands for any text."),
];

const HOOK_RUN: Key = key("run", Type::Text, "The command. Required.");
const HOOK_TIMEOUT: Key = key("timeout", Type::Duration, "Wall clock of one run of the hook.");
const HOOK_REQUIRED: Key = key(
    "required",
    Type::Bool,
    "Whether an error of the hook ends the run; `false` only where the hook is told and not asked.",
);

pub const ENVIRONMENT_TABLE: &[Key] = &[key(
    "container",
    Type::Table(CONTAINER),
    "Commands run in containers; the runner stays outside.",
)];

pub const CONTAINER: &[Key] = &[
    key("image", Type::Text, "An image: each command gets a container of its own."),
    key("name", Type::Text, "Instead of an image, a container that runs already."),
    key("runtime", Type::Choice(CONTAINER_RUNTIMES), "The engine's command line."),
];

pub const CONTAINER_RUNTIMES: &[&str] = &["docker", "podman"];

pub const AGENTS: &[Key] = &[key("enabled", Type::Off, "Whether the model may start sub-agents.")];

/// One line of the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceRow {
    /// Dotted: `limits.steps`, `params.*.type`, `verify.checks[].run`.
    pub path: String,
    pub value: String,
    pub default: Option<String>,
    pub flag: Option<&'static str>,
    pub about: &'static str,
    pub supported: bool,
}

/// Every key, in the order of the table.
pub fn reference() -> Vec<ReferenceRow> {
    let mut rows = Vec::new();
    collect(ROOT, "", &mut rows);
    rows
}

fn collect(keys: &'static [Key], prefix: &str, rows: &mut Vec<ReferenceRow>) {
    for key in keys {
        let path = format!("{prefix}{}", key.name);
        rows.push(ReferenceRow {
            value: key.value.describe(),
            default: defaults::text_of(&path),
            flag: key.flag,
            about: key.about,
            supported: key.supported,
            path: path.clone(),
        });
        collect_below(key.value, &path, rows);
    }
}

fn collect_below(value: Type, path: &str, rows: &mut Vec<ReferenceRow>) {
    match value {
        Type::Table(keys) => collect(keys, &format!("{path}."), rows),
        Type::Named(inner) => collect_below(*inner, &format!("{path}.*"), rows),
        Type::List(inner) => collect_below(*inner, &format!("{path}[]"), rows),
        Type::OneOf(types) => types.iter().for_each(|inner| collect_below(*inner, path, rows)),
        _ => {}
    }
}

impl Type {
    /// The type in words, for the reference.
    pub fn describe(self) -> String {
        match self {
            Self::Text => "text".into(),
            Self::Path => "path".into(),
            Self::InnerPath => "path in the workspace".into(),
            Self::Glob => "glob".into(),
            Self::Variable => "name of an environment variable".into(),
            Self::Url => "http or https address".into(),
            Self::Model => "PROVIDER/NAME".into(),
            Self::Bool => "true or false".into(),
            Self::Uint { min } => format!("whole number, at least {min}"),
            Self::Number => "number, at least 0".into(),
            Self::Scalar => "text, number or boolean".into(),
            Self::Duration => "duration".into(),
            Self::Version(version) => version.to_string(),
            Self::Choice(words) => words.join(" | "),
            Self::List(inner) => format!("list of {}", inner.describe()),
            Self::Named(inner) => format!("names, each with a {}", inner.describe()),
            Self::Table(_) => "mapping".into(),
            Self::OneOf(types) => {
                types.iter().map(|inner| inner.describe()).collect::<Vec<_>>().join(" or ")
            }
            Self::Off => "false".into(),
            Self::Any => "not supported yet".into(),
        }
    }
}

/// A mapping being read against its part of the table. Unknown keys and keys of later versions are
/// faults as soon as it is opened; a known key that nobody takes is one at the end, so that a key
/// can be added to the table too early but never be ignored.
pub struct Fields<'a> {
    path: String,
    at: At,
    entries: &'a [(NodeKey, Node)],
    keys: &'static [Key],
    taken: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// `path` is the dotted place of the mapping; empty for the file itself.
    pub fn open(
        node: &'a Node,
        path: &str,
        keys: &'static [Key],
        faults: &mut Faults,
    ) -> Option<Self> {
        let Kind::Map(entries) = &node.kind else {
            let what = if path.is_empty() { "the spec".to_owned() } else { format!("\"{path}\"") };
            let what = format!("{what} must be a mapping, not {}", node.describe());
            faults.add(node.at, what, format!("keys here: {}", names_of(keys)));
            return None;
        };
        let fields = Self { path: path.to_owned(), at: node.at, entries, keys, taken: Vec::new() };
        for (name, value) in entries {
            fields.check_key(name, value, faults);
        }
        Some(fields)
    }

    fn check_key(&self, name: &NodeKey, value: &Node, faults: &mut Faults) {
        match self.keys.iter().find(|key| key.name == name.name) {
            Some(key) if !key.supported && !value.is_null() => match key.why {
                Some(why) => faults.add(
                    name.at,
                    format!("\"{}\" is not supported yet", self.path_of(key.name)),
                    format!("take it out: {why}"),
                ),
                None => not_supported(name.at, &self.path_of(key.name), faults),
            },
            Some(_) => {}
            None => {
                let names = self.keys.iter().map(|key| key.name);
                let hint = match nearest(&name.name, names) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => format!("keys here: {}", names_of(self.keys)),
                };
                faults.add(name.at, format!("unknown key {}", self.quoted_path(&name.name)), hint);
            }
        }
    }

    pub fn at(&self) -> At {
        self.at
    }

    /// The dotted path of a key of this mapping.
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn quoted_path(&self, name: &str) -> String {
        super::yaml::quoted(&self.path_of(name))
    }

    /// A key's value, its dotted path for messages, and the key's own place; null counts as absent.
    pub fn take(&mut self, name: &'static str) -> Option<Field<'a>> {
        debug_assert!(self.keys.iter().any(|key| key.name == name), "{name} is not in the table");
        self.taken.push(name);
        let (key, node) = self.entries.iter().find(|(key, _)| key.name == name)?;
        (!node.is_null()).then(|| Field { path: self.path_of(name), key_at: key.at, node })
    }

    /// Refuses what nobody took.
    pub fn finish(self, faults: &mut Faults) {
        for (name, value) in self.entries {
            let known = self.keys.iter().find(|key| key.name == name.name && key.supported);
            if let Some(key) = known
                && !self.taken.contains(&key.name)
                && !value.is_null()
            {
                not_supported(name.at, &self.path_of(key.name), faults);
            }
        }
    }
}

/// The keys of a mapping that this version acts on, for hints.
pub fn names_of(keys: &[Key]) -> String {
    let names = keys.iter().filter(|key| key.supported).map(|key| key.name);
    names.collect::<Vec<_>>().join(", ")
}

/// One key's value with what messages need.
pub struct Field<'a> {
    pub path: String,
    pub key_at: At,
    pub node: &'a Node,
}

/// The fault of a key whose feature this version does not have.
pub fn not_supported(at: At, path: &str, faults: &mut Faults) {
    faults.add(
        at,
        format!("\"{path}\" is not supported yet"),
        "take it out: this version refuses what it would otherwise ignore",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_belongs_to_a_key() {
        let paths: Vec<String> = reference().into_iter().map(|row| row.path).collect();
        for row in defaults::table() {
            let by_flag_alone = ["output", "color"].contains(&row.key);
            assert_eq!(
                paths.iter().any(|path| defaults::covers(row.key, path)),
                !row.fixed && !by_flag_alone,
                "{}",
                row.key
            );
        }
    }

    #[test]
    fn every_key_is_described_and_stands_once() {
        let rows = reference();
        for row in &rows {
            assert!(row.about.ends_with('.'), "{}", row.path);
            assert_eq!(
                rows.iter().filter(|other| other.path == row.path).count(),
                1,
                "{}",
                row.path
            );
        }
    }
}
