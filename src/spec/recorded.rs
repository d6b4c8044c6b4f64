//! The settings of an earlier run as a spec: the base of a resumed run, over which flags go as over
//! any other spec.
//!
//! The record shows every resolved value as a row (`show`), and this reads those rows back. Texts of
//! untrusted inputs are not among them; they are in the history already. What only a flag can set is
//! handed back as a flag.

use super::fault::At;
use super::settings::{FlagValues, SandboxMode};
use super::types::*;
use super::yaml::parse_duration;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// The source of every recorded value: no line of any file.
const AT: At = At { line: 0, column: 0 };

/// Reads the rows of `settings`, the record's. `folder` is what its relative paths were relative to,
/// `model_folder` the same for a model that is a file.
pub fn recorded_spec(settings: &Value, folder: &Path, model_folder: &Path) -> Spec {
    let rows = Rows { settings, folder };
    Spec {
        file: "the record".into(),
        dir: model_folder.to_owned(),
        name: rows.text("name"),
        task: Some(Placed::new(TaskText::Inline { text: String::new(), start: None }, AT)),
        instructions: rows.paths("instructions"),
        workspace: rows.path("workspace"),
        isolate: rows.word("isolate", Isolate::CHOICES),
        model: model(&rows),
        policy: rows.path("policy"),
        environment: rows.value("environment").and_then(environment).map(placed),
        limits: LimitsSpec {
            steps: rows.number("limits.steps"),
            tool_calls: rows.number("limits.tool_calls"),
            tokens: rows.number("limits.tokens"),
            cost: rows.value("limits.cost").and_then(Value::as_f64).map(placed),
            time: rows.duration("limits.time"),
        },
        expect: rows.word("expect", Expect::CHOICES),
        require_files: rows.texts("require_files"),
        keep: rows.texts("keep"),
        max_changed_files: rows.number("max_changed_files"),
        max_changed_lines: rows.number("max_changed_lines"),
        verify: VerifySpec {
            attempts: rows.number("verify.attempts"),
            checks: rows
                .value("verify.checks")
                .and_then(Value::as_array)
                .map(|checks| placed(checks.iter().filter_map(check).collect())),
        },
        hooks: rows
            .value("hooks")
            .and_then(Value::as_array)
            .map(|hooks| placed(hooks.iter().filter_map(hook).collect())),
        ..Spec::default()
    }
}

/// Fills in what the earlier run was given by flag and no spec can say.
pub fn recorded_flags(flags: FlagValues, settings: &Value) -> FlagValues {
    let rows = Rows { settings, folder: Path::new("") };
    let sandbox = rows.word("sandbox", SandboxMode::CHOICES).and(rows.text("sandbox"));
    FlagValues {
        sandbox: flags.sandbox.or(sandbox.map(|placed| placed.value)),
        fail_on_changes: flags.fail_on_changes
            || rows.value("fail_on_changes").and_then(Value::as_bool).unwrap_or(false),
        ..flags
    }
}

fn model(rows: &Rows<'_>) -> ModelSpec {
    let name = rows.value("model.use").and_then(Value::as_str).and_then(|text| {
        let (provider, name) = text.split_once('/')?;
        Some(placed(ModelName { provider: provider.into(), name: name.into() }))
    });
    ModelSpec {
        model: name,
        base_url: rows.text("model.base_url"),
        key: rows.value("model.key").and_then(|value| key(value, rows.folder)).map(placed),
        effort: rows.text("model.effort"),
        window: rows.number("model.window"),
        max_output_tokens: rows.number("model.max_output_tokens"),
        server_state: rows.value("model.server_state").and_then(Value::as_bool).map(placed),
        ca_file: rows.path("model.ca_file"),
        timeout_connect: rows.duration("model.timeouts.connect"),
        timeout_first_byte: rows.duration("model.timeouts.first_byte"),
        timeout_idle: rows.duration("model.timeouts.idle"),
        timeout_total: rows.duration("model.timeouts.total"),
        retry_attempts: rows.number("model.retries.attempts"),
        retry_total_wait: rows.duration("model.retries.total_wait"),
        prices: rows.value("model.prices").and_then(prices).map(placed),
    }
}

fn placed<T>(value: T) -> Placed<T> {
    Placed::new(value, AT)
}

fn key(value: &Value, folder: &Path) -> Option<KeyFrom> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    if let Some(name) = text("env") {
        return Some(KeyFrom::Env(name.to_owned()));
    }
    if let Some(path) = text("file") {
        return Some(KeyFrom::File(folder.join(path)));
    }
    value.get("fd").and_then(Value::as_u64).map(KeyFrom::Fd)
}

/// Where commands ran; nothing where the record says something that this version does not know.
fn environment(value: &Value) -> Option<Environment> {
    if value.as_str() == Some("local") {
        return Some(Environment::Local);
    }
    let container = value.get("container")?;
    let text = |name: &str| container.get(name).and_then(Value::as_str);
    let from = match (text("image"), text("name")) {
        (Some(image), None) => ContainerFrom::Image(image.to_owned()),
        (None, Some(name)) => ContainerFrom::Name(name.to_owned()),
        _ => return None,
    };
    let runtime = text("runtime")?;
    let (_, runtime) = ContainerRuntime::CHOICES.iter().find(|(word, _)| *word == runtime)?;
    Some(Environment::Container(Container { from, runtime: *runtime }))
}

fn prices(value: &Value) -> Option<Prices> {
    let price = |name: &str| value.get(name).and_then(Value::as_f64);
    Some(Prices { input: price("input")?, cached: price("cached")?, output: price("output")? })
}

fn check(value: &Value) -> Option<CheckSpec> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    Some(CheckSpec {
        name: text("name")?.to_owned(),
        run: text("run")?.to_owned(),
        timeout: text("timeout").and_then(|text| parse_duration(text).ok()),
        at: AT,
    })
}

fn hook(value: &Value) -> Option<HookSpec> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let on = text("on")?;
    let tools = value.get("tools").and_then(Value::as_array);
    Some(HookSpec {
        point: HookPoint::ALL.into_iter().find(|point| point.as_str() == on)?,
        run: text("run")?.to_owned(),
        timeout: text("timeout").and_then(|text| parse_duration(text).ok()),
        required: value.get("required").and_then(Value::as_bool).unwrap_or(true),
        tools: tools.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
        at: AT,
    })
}

/// The rows of a record, each with a `value`. A row that is missing or of another form counts as not
/// set, so that records of other versions can be read.
struct Rows<'a> {
    settings: &'a Value,
    folder: &'a Path,
}

impl<'a> Rows<'a> {
    fn value(&self, key: &str) -> Option<&'a Value> {
        self.settings.get(key)?.get("value").filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Option<Placed<String>> {
        self.value(key)?.as_str().map(|text| placed(text.to_owned()))
    }

    fn number(&self, key: &str) -> Option<Placed<u64>> {
        self.value(key)?.as_u64().map(placed)
    }

    fn duration(&self, key: &str) -> Option<Placed<Duration>> {
        parse_duration(self.value(key)?.as_str()?).ok().map(placed)
    }

    fn texts(&self, key: &str) -> Option<Placed<Vec<String>>> {
        let list = self.value(key)?.as_array()?;
        Some(placed(list.iter().filter_map(Value::as_str).map(str::to_owned).collect()))
    }

    fn path(&self, key: &str) -> Option<Placed<String>> {
        let path = self.folder.join(self.value(key)?.as_str()?);
        Some(placed(path.to_string_lossy().into_owned()))
    }

    fn paths(&self, key: &str) -> Option<Placed<Vec<String>>> {
        let texts = self.texts(key)?.value;
        let joined = texts.iter().map(|text| self.folder.join(text).to_string_lossy().into_owned());
        Some(placed(joined.collect()))
    }

    fn word<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<Placed<T>> {
        let text = self.value(key)?.as_str()?;
        choices.iter().find(|(word, _)| *word == text).map(|(_, value)| placed(*value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{EnvValues, parse, resolve};

    const SPEC: &str = "version: 1\nname: n\ntask: t\nworkspace: ws\nmodel: { use: scripted/m.yaml, effort: low, timeouts: { idle: 90s }, prices: { input: 1.5, cached: 0.5, output: 10 } }\npolicy: p.yaml\nlimits: { steps: 7, cost: 2.5, time: 90s }\nexpect: changes\nkeep: [\"tests/**\"]\nmax_changed_files: 3\nverify: { attempts: 2, checks: [ { name: a, run: make a, timeout: 3m } ] }\nhooks: { before_tool: [ { run: ./guard, timeout: 5s, tools: [\"exec_*\"] } ], run_end: [ { run: tell, required: false } ] }\n";

    #[test]
    fn what_was_resolved_is_resolved_again() {
        let spec = parse("/specs/task.yaml", SPEC).unwrap();
        let flags = FlagValues {
            sandbox: Some("best-effort".into()),
            fail_on_changes: true,
            ..FlagValues::default()
        };
        let first = resolve(flags, EnvValues::default(), Some(&spec)).unwrap();
        let recorded = first.to_json();
        let again = recorded_spec(&recorded, Path::new("/cwd"), Path::new("/specs"));
        let task = FlagValues { task: Some("t".into()), ..FlagValues::default() };
        let flags = recorded_flags(task, &recorded);
        let second = resolve(flags, EnvValues::default(), Some(&again)).unwrap();
        for (before, after) in first.rows().iter().zip(second.rows()) {
            assert_eq!(before.value, after.value, "{}", before.key);
        }
        assert_eq!(second.limits.steps.source.to_string(), "the resumed run");
        assert_eq!(second.model.base_dir, Path::new("/specs"));
        let more =
            FlagValues { max_steps: Some(9), task: Some("t".into()), ..FlagValues::default() };
        let third = resolve(more, EnvValues::default(), Some(&again)).unwrap();
        assert_eq!(third.limits.steps.value, 9);
    }

    #[test]
    fn what_ran_in_a_container_runs_there_again() {
        for text in ["image: \"rust:1\", runtime: podman", "name: builder, runtime: docker"] {
            let spec = format!(
                "version: 1\ntask: t\nmodel: {{ use: scripted/m.yaml }}\nenvironment: {{ container: {{ {text} }} }}\n"
            );
            let spec = parse("t.yaml", &spec).unwrap();
            let first = resolve(FlagValues::default(), EnvValues::default(), Some(&spec)).unwrap();
            let again = recorded_spec(&first.to_json(), Path::new(""), Path::new(""));
            assert_eq!(again.environment.unwrap().value, first.environment.value);
        }
    }

    #[test]
    fn a_record_of_another_form_is_no_settings_at_all() {
        for settings in [Value::Null, serde_json::json!({"limits.steps": 3, "keep": {"value": 1}})]
        {
            let spec = recorded_spec(&settings, Path::new(""), Path::new(""));
            assert!(spec.limits.steps.is_none() && spec.keep.is_none());
        }
    }
}
