//! Flag over environment over spec over default: how `Settings` come about.

use super::check;
use super::defaults;
use super::fault::{At, Fault, nearest};
use super::resolve_model::cost_needs_prices;
use super::settings::*;
use super::types::*;
use super::yaml::{parse_duration, quoted};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Resolves a run, or tells everything that keeps it from being one.
pub fn resolve(
    flags: FlagValues,
    env: EnvValues,
    spec: Option<&Spec>,
) -> Result<Settings, Vec<Fault>> {
    let nothing = Spec::default();
    let from = Resolver { spec: spec.unwrap_or(&nothing), has_spec: spec.is_some() };
    let mut faults = Vec::new();
    let task = from.task(&flags, &mut faults);
    let params = from.params(&flags, task.as_ref(), &mut faults);
    let inputs = from.inputs(&flags, &mut faults);
    let mut notes = Vec::new();
    let model = from.model(&flags, &env, &mut notes, &mut faults);
    let limits = from.limits(&flags, &mut faults);
    if let Some(model) = &model {
        cost_needs_prices(&limits, model, from.spec, &mut faults);
    }
    check_paths(&flags, &mut faults);
    let isolate = word(&flags.isolate, "--isolate", Isolate::CHOICES, &mut faults);
    let expect = word(&flags.expect, "--expect", Expect::CHOICES, &mut faults);
    let sandbox = word(&flags.sandbox, "--sandbox", SandboxMode::CHOICES, &mut faults);
    let require_files = from.require_files(&flags, &mut faults);
    let checks = from.checks(&flags, &mut faults);
    let [json, quiet] = output(&flags, &env, &mut faults);
    let color = color(&flags, &env, &mut faults);
    let spec = from.spec;
    let (Some(task), Some(model), true) = (task, model, faults.is_empty()) else {
        return Err(faults);
    };
    Ok(Settings {
        spec_file: from.has_spec.then(|| spec.file.clone()),
        name: pick(None, copy(&spec.name)).optional(),
        task,
        params,
        inputs,
        instructions: list(spec.instructions.as_ref())
            .map(|paths| paths.iter().map(|path| spec.resolve_path(path)).collect()),
        workspace: from
            .path(&flags.workspace, "--workspace", &spec.workspace)
            .or(PathBuf::from(defaults::WORKSPACE)),
        isolate: pick(isolate, copy(&spec.isolate)).or(Isolate::None),
        model,
        policy: from.path(&flags.policy, "--policy", &spec.policy).optional(),
        sandbox: pick(sandbox, None).optional(),
        limits,
        expect: pick(expect, copy(&spec.expect)).or(Expect::Any),
        require_files,
        keep: list(spec.keep.as_ref()),
        max_changed_files: pick(None, copy(&spec.max_changed_files)).optional(),
        max_changed_lines: pick(None, copy(&spec.max_changed_lines)).optional(),
        verify_attempts: pick(
            flag(flags.verify_attempts, "--verify-attempts"),
            copy(&spec.verify.attempts),
        )
        .or(defaults::VERIFY_ATTEMPTS),
        checks,
        hooks: from.hooks(),
        fail_on_changes: pick(
            flag(flags.fail_on_changes.then_some(true), "--fail-on-changes"),
            None,
        )
        .or(false),
        environment: pick(None, copy(&spec.environment)).or(Environment::Local),
        artifacts: from.path(&flags.artifacts, "--artifacts", &spec.artifacts).optional(),
        json,
        quiet,
        color,
        notes,
    })
}

/// The model alone, for whoever has no task: which one, where, with what key.
pub fn resolve_model(
    flags: &FlagValues,
    env: &EnvValues,
    spec: Option<&Spec>,
) -> Result<ModelSettings, Vec<Fault>> {
    let nothing = Spec::default();
    let from = Resolver { spec: spec.unwrap_or(&nothing), has_spec: spec.is_some() };
    let mut faults = Vec::new();
    let model = from.model(flags, env, &mut Vec::new(), &mut faults);
    model.filter(|_| faults.is_empty()).ok_or(faults)
}

/// A value that a flag, the environment or the spec gave, or none.
pub(super) struct Picked<T>(Option<Setting<T>>);

impl<T> Picked<T> {
    pub(super) fn or(self, default: T) -> Setting<T> {
        self.0.unwrap_or(Setting::new(default, Source::Default))
    }

    pub(super) fn optional(self) -> Setting<Option<T>> {
        match self.0 {
            Some(setting) => setting.map(Some),
            None => Setting::new(None, Source::Default),
        }
    }
}

pub(super) fn pick<T>(first: Option<Setting<T>>, spec: Option<Placed<T>>) -> Picked<T> {
    Picked(first.or_else(|| spec.map(placed)))
}

pub(super) fn placed<T>(value: Placed<T>) -> Setting<T> {
    Setting::new(value.value, Source::Spec { line: value.at.line })
}

pub(super) fn copy<T: Clone>(value: &Option<Placed<T>>) -> Option<Placed<T>> {
    value.clone()
}

fn flag<T>(value: Option<T>, name: &'static str) -> Option<Setting<T>> {
    value.map(|value| Setting::new(value, Source::Flag(name)))
}

fn list(value: Option<&Placed<Vec<String>>>) -> Setting<Vec<String>> {
    pick(None, value.cloned()).or(Vec::new())
}

/// A fault in a flag or variable, which has a name and no line.
pub(super) fn add(
    faults: &mut Vec<Fault>,
    name: &str,
    text: impl Into<String>,
    hint: impl Into<String>,
) {
    let (text, hint) = (text.into(), hint.into());
    faults.push(Fault { file: name.to_owned(), at: At::default(), text, hint });
}

/// One of a closed set of words from a flag.
fn word<T: Copy>(
    value: &Option<String>,
    name: &'static str,
    choices: &[(&str, T)],
    faults: &mut Vec<Fault>,
) -> Option<Setting<T>> {
    let text = value.as_deref()?;
    if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text) {
        return Some(Setting::new(*value, Source::Flag(name)));
    }
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    let hint = nearest(text, words.iter().copied())
        .map(|near| format!("did you mean \"{near}\"?"))
        .unwrap_or_default();
    add(faults, name, format!("must be one of {}, not {}", words.join(", "), quoted(text)), hint);
    None
}

/// Paths of flags are checked as those of a spec.
fn check_paths(flags: &FlagValues, faults: &mut Vec<Fault>) {
    let paths = [
        (&flags.task_file, "--task-file"),
        (&flags.policy, "--policy"),
        (&flags.workspace, "--workspace"),
        (&flags.artifacts, "--artifacts"),
        (&flags.ca_file, "--ca-file"),
    ];
    for (path, name) in paths {
        if let Some(Err(why)) = path.as_deref().map(check::path) {
            add(faults, name, why, "");
        }
    }
}

/// Everything that needs the spec beside the flags.
pub(super) struct Resolver<'a> {
    pub(super) spec: &'a Spec,
    pub(super) has_spec: bool,
}

impl Resolver<'_> {
    pub(super) fn path(
        &self,
        value: &Option<String>,
        name: &'static str,
        spec: &Option<Placed<String>>,
    ) -> Picked<PathBuf> {
        let given = flag(value.as_ref().map(PathBuf::from), name);
        let own =
            spec.as_ref().map(|path| Placed::new(self.spec.resolve_path(&path.value), path.at));
        pick(given, own)
    }

    fn task(&self, flags: &FlagValues, faults: &mut Vec<Fault>) -> Option<Setting<TaskSource>> {
        if let Some(text) = &flags.task {
            if flags.task_file.is_some() {
                add(faults, "--task-file", "given beside a task", "give one of them");
            }
            if text.trim().is_empty() {
                add(faults, "task", "the task is empty", "say what is to be done");
            }
            if text.len() > defaults::MAX_TASK_BYTES {
                let what = format!("the task is longer than {} bytes", defaults::MAX_TASK_BYTES);
                add(faults, "task", what, "hand long texts over as files or inputs");
            }
            return Some(Setting::new(TaskSource::Literal(text.clone()), Source::Flag("TASK")));
        }
        if let Some(path) = &flags.task_file {
            let source = TaskSource::File { path: path.into(), template: self.has_spec };
            return Some(Setting::new(source, Source::Flag("--task-file")));
        }
        let task = self.spec.task.clone().map(|task| {
            let source = match task.value {
                TaskText::Inline { text, .. } => TaskSource::Template(text),
                TaskText::File(path) => {
                    TaskSource::File { path: self.spec.resolve_path(&path), template: true }
                }
            };
            Setting::new(source, Source::Spec { line: task.at.line })
        });
        if task.is_none() {
            let file = if self.has_spec { &self.spec.file } else { "task" };
            let hint = "give it as an argument, with - on standard input, with --task-file, or as task: in a spec";
            add(faults, file, "there is no task", hint);
        }
        task
    }

    fn params(
        &self,
        flags: &FlagValues,
        task: Option<&Setting<TaskSource>>,
        faults: &mut Vec<Fault>,
    ) -> BTreeMap<String, String> {
        let mut params = BTreeMap::new();
        for given in &flags.params {
            let Some((name, value)) =
                given.split_once('=').filter(|(name, _)| check::is_identifier(name))
            else {
                add(faults, "--param", format!("must be NAME=VALUE, not {}", quoted(given)), "");
                continue;
            };
            if params.insert(name.to_owned(), value.to_owned()).is_some() {
                add(faults, "--param", format!("\"{name}\" is given twice"), "give it once");
            }
        }
        let template = task.is_none_or(|task| match &task.value {
            TaskSource::Literal(_) => false,
            TaskSource::Template(_) => true,
            TaskSource::File { template, .. } => *template,
        });
        if !params.is_empty() && !template {
            let what = "the task given here is no template, so nothing takes the parameters";
            add(faults, "--param", what, "use a spec whose task names them");
        }
        params
    }

    fn inputs(&self, flags: &FlagValues, faults: &mut Vec<Fault>) -> Vec<Setting<Input>> {
        let mut inputs: Vec<Setting<Input>> =
            self.spec.inputs.iter().map(|input| placed(self.own_input(input))).collect();
        let mut given: Vec<Setting<Input>> = Vec::new();
        for text in &flags.inputs {
            let Some((name, value)) =
                text.split_once('=').filter(|(name, _)| check::is_identifier(name))
            else {
                // Untrusted text may stand in it: the message names the form alone.
                add(
                    faults,
                    "--input",
                    "must be NAME=TEXT or NAME=@FILE",
                    "NAME: letters, digits, \"_\"",
                );
                continue;
            };
            if given.iter().any(|input| input.value.name == name) {
                add(faults, "--input", format!("\"{name}\" is given twice"), "give it once");
                continue;
            }
            let from = match value.strip_prefix('@') {
                Some(text) if text.starts_with('@') => InputFrom::Text(text.to_owned()),
                Some(path) => InputFrom::File(path.into()),
                None => InputFrom::Text(value.to_owned()),
            };
            inputs.retain(|input| input.value.name != name);
            given
                .push(Setting::new(Input { name: name.to_owned(), from }, Source::Flag("--input")));
        }
        inputs.extend(given);
        inputs
    }

    /// An input of the spec with its file's path joined to the spec's folder.
    fn own_input(&self, input: &Placed<Input>) -> Placed<Input> {
        let mut input = input.clone();
        if let InputFrom::File(path) = &input.value.from {
            input.value.from = InputFrom::File(self.spec.dir.join(path));
        }
        input
    }

    fn limits(&self, flags: &FlagValues, faults: &mut Vec<Fault>) -> LimitSettings {
        let own = &self.spec.limits;
        let at_least_one = [
            (flags.max_steps, "--max-steps"),
            (flags.max_tool_calls, "--max-tool-calls"),
            (flags.max_tokens, "--max-tokens"),
        ];
        for (value, name) in at_least_one {
            if value == Some(0) {
                add(faults, name, "must be a whole number of at least 1, not 0", "");
            }
        }
        if let Some(cost) = flags.max_cost.filter(|cost| !cost.is_finite() || *cost <= 0.0) {
            add(faults, "--max-cost", format!("must be more than 0, not {cost}"), "");
        }
        let time = flags.timeout.as_deref().and_then(|text| match parse_duration(text) {
            Ok(time) => Some(Setting::new(time, Source::Flag("--timeout"))),
            Err(why) => {
                add(faults, "--timeout", why, "write a number and a unit: 500ms, 10s, 5m, 2h");
                None
            }
        });
        LimitSettings {
            steps: pick(flag(flags.max_steps, "--max-steps"), own.steps).or(defaults::STEPS),
            tool_calls: pick(flag(flags.max_tool_calls, "--max-tool-calls"), own.tool_calls)
                .optional(),
            tokens: pick(flag(flags.max_tokens, "--max-tokens"), own.tokens).optional(),
            cost: pick(flag(flags.max_cost, "--max-cost"), own.cost).optional(),
            time: pick(time, own.time).or(defaults::TIME),
            equal_failures: defaults::EQUAL_FAILURES,
        }
    }

    /// A repeatable flag replaces the spec's list.
    fn require_files(&self, flags: &FlagValues, faults: &mut Vec<Fault>) -> Setting<Vec<String>> {
        for path in &flags.require_file {
            if let Err(why) = check::required_file(path) {
                add(faults, "--require-file", why, "");
            }
        }
        let given = (!flags.require_file.is_empty()).then(|| flags.require_file.clone());
        pick(flag(given, "--require-file"), self.spec.require_files.clone()).or(Vec::new())
    }

    /// Only the spec names hooks: no flag and no variable does.
    fn hooks(&self) -> Setting<Vec<Hook>> {
        let own = self.spec.hooks.as_ref().map(|hooks| {
            let hook = |own: &HookSpec| Hook {
                point: own.point,
                run: own.run.clone(),
                timeout: own.timeout.unwrap_or(defaults::HOOK_TIMEOUT),
                required: own.required,
                tools: own.tools.clone(),
            };
            Placed::new(hooks.value.iter().map(hook).collect(), hooks.at)
        });
        pick(None, own).or(Vec::new())
    }

    fn checks(&self, flags: &FlagValues, faults: &mut Vec<Fault>) -> Setting<Vec<Check>> {
        let check = |name: &str, run: &str, timeout: Option<Duration>| Check {
            name: name.to_owned(),
            run: run.to_owned(),
            timeout: timeout.unwrap_or(defaults::CHECK_TIMEOUT),
        };
        if flags.verify.is_empty() {
            let own = self.spec.verify.checks.as_ref().map(|checks| {
                let built = checks.value.iter().map(|own| check(&own.name, &own.run, own.timeout));
                Placed::new(built.collect(), checks.at)
            });
            return pick(None, own).or(Vec::new());
        }
        let mut built: Vec<Check> = Vec::new();
        for run in &flags.verify {
            if let Err(why) = check::command(run) {
                add(faults, "--verify", why, "");
            } else if !built.iter().any(|other| other.run == *run) {
                built.push(check(run, run, None));
            }
        }
        Setting::new(built, Source::Flag("--verify"))
    }
}

/// A variable that is set to something.
pub(super) fn set(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|text| !text.is_empty())
}

/// `--json` and `--quiet`, which may stand together; the variable sets one where no flag does.
fn output(flags: &FlagValues, env: &EnvValues, faults: &mut Vec<Fault>) -> [Setting<bool>; 2] {
    let words = [("human", None), ("json", Some(0)), ("quiet", Some(1))];
    let by_flag = flags.json || flags.quiet;
    let chosen = set(&env.output).filter(|_| !by_flag).and_then(|text| {
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let what = format!("must be one of human, json, quiet, not {}", quoted(text));
            add(faults, ENV_OUTPUT, what, "");
        }
        found.and_then(|(_, index)| *index)
    });
    let one = |index: usize, by_flag: bool, name: &'static str| match (by_flag, chosen) {
        (true, _) => Setting::new(true, Source::Flag(name)),
        (false, Some(chosen)) if chosen == index => Setting::new(true, Source::Env(ENV_OUTPUT)),
        _ => Setting::new(false, Source::Default),
    };
    [one(0, flags.json, "--json"), one(1, flags.quiet, "--quiet")]
}

/// The flag, else our variable, else `NO_COLOR`, else the terminal decides.
fn color(flags: &FlagValues, env: &EnvValues, faults: &mut Vec<Fault>) -> Setting<Color> {
    if flags.color.is_some() {
        let chosen = word(&flags.color, "--color", Color::CHOICES, faults);
        return chosen.unwrap_or(Setting::new(Color::Auto, Source::Default));
    }
    if let Some(text) = set(&env.color) {
        let chosen = Color::CHOICES.iter().find(|(word, _)| *word == text);
        if let Some((_, color)) = chosen {
            return Setting::new(*color, Source::Env(ENV_COLOR));
        }
        let what = format!("must be one of auto, always, never, not {}", quoted(text));
        add(faults, ENV_COLOR, what, "");
    }
    if env.no_color {
        return Setting::new(Color::Never, Source::Env("NO_COLOR"));
    }
    Setting::new(Color::Auto, Source::Default)
}
