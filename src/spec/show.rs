//! Settings as rows of key, value and source: what `--dry-run` prints and the record keeps.

use super::defaults::Show;
use super::settings::{Color, Hook, SandboxMode, Setting, Settings, Source, TaskSource};
use super::types::{
    ContainerFrom, ContainerRuntime, Environment, Expect, InputFrom, Isolate, KeyFrom, Prices,
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::Duration;

/// One resolved value.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub key: String,
    pub value: Value,
    pub source: Source,
}

impl Settings {
    /// Every value in the order of the reference. No secret and no untrusted text is among them:
    /// a key is shown as where it is, an input as where it comes from.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Rows(Vec::new());
        rows.add("name", &self.name);
        rows.add("task", &self.task);
        for (name, value) in &self.params {
            rows.push(&format!("params.{name}"), json!(value), Source::Flag("--param"));
        }
        for input in &self.inputs {
            let value = input.value.from.to_value();
            rows.push(&format!("inputs.{}", input.value.name), value, input.source);
        }
        rows.add("instructions", &self.instructions);
        rows.add("workspace", &self.workspace);
        rows.add("isolate", &self.isolate);
        self.model_rows(&mut rows);
        rows.add("policy", &self.policy);
        rows.add("sandbox", &self.sandbox);
        rows.add("limits.steps", &self.limits.steps);
        rows.add("limits.tool_calls", &self.limits.tool_calls);
        rows.add("limits.tokens", &self.limits.tokens);
        rows.add("limits.cost", &self.limits.cost);
        rows.add("limits.time", &self.limits.time);
        rows.add("expect", &self.expect);
        rows.add("require_files", &self.require_files);
        rows.add("keep", &self.keep);
        rows.add("max_changed_files", &self.max_changed_files);
        rows.add("max_changed_lines", &self.max_changed_lines);
        rows.add("verify.attempts", &self.verify_attempts);
        let checks = self.checks.value.iter();
        let checks = checks.map(|check| {
            json!({ "name": check.name, "run": check.run, "timeout": check.timeout.show() })
        });
        rows.push("verify.checks", checks.collect(), self.checks.source);
        rows.add("hooks", &self.hooks);
        rows.add("fail_on_changes", &self.fail_on_changes);
        rows.add("environment", &self.environment);
        rows.add("artifacts", &self.artifacts);
        rows.add("json", &self.json);
        rows.add("quiet", &self.quiet);
        rows.add("color", &self.color);
        rows.0
    }

    fn model_rows(&self, rows: &mut Rows) {
        let model = &self.model;
        rows.push("model.use", json!(model.name.value.to_string()), model.name.source);
        rows.add("model.base_url", &model.base_url);
        rows.add("model.key", &model.key);
        rows.add("model.effort", &model.effort);
        rows.add("model.window", &model.window);
        rows.add("model.max_output_tokens", &model.max_output_tokens);
        rows.add("model.server_state", &model.server_state);
        rows.add("model.ca_file", &model.ca_file);
        rows.add("model.timeouts.connect", &model.timeout_connect);
        rows.add("model.timeouts.first_byte", &model.timeout_first_byte);
        rows.add("model.timeouts.idle", &model.timeout_idle);
        rows.add("model.timeouts.total", &model.timeout_total);
        rows.add("model.retries.attempts", &model.retry_attempts);
        rows.add("model.retries.total_wait", &model.retry_total_wait);
        rows.add("model.prices", &model.prices);
    }

    /// SHA-256, in hex, of what the run is told to do: every value with `task` being its text, but
    /// neither where a value came from nor where things are shown and put.
    pub fn digest(&self, task: &str) -> String {
        const ASIDE: &[&str] = &["task", "artifacts", "json", "quiet", "color"];
        let mut digest = Sha256::new();
        for row in self.rows().iter().filter(|row| !ASIDE.contains(&row.key.as_str())) {
            // A value is plain data: it always has a JSON form.
            digest.update(format!("{} {}\n", row.key, row.value));
        }
        digest.update(task);
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The same as one JSON object: `{"limits.steps": {"value": 50, "source": "default"}, …}`.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        for row in self.rows() {
            object.insert(row.key, json!({ "value": row.value, "source": row.source.to_string() }));
        }
        Value::Object(object)
    }
}

struct Rows(Vec<Row>);

impl Rows {
    fn push(&mut self, key: &str, value: Value, source: Source) {
        self.0.push(Row { key: key.to_owned(), value, source });
    }

    fn add<T: ToValue>(&mut self, key: &str, setting: &Setting<T>) {
        self.push(key, setting.value.to_value(), setting.source);
    }
}

/// A value as the record shows it.
trait ToValue {
    fn to_value(&self) -> Value;
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl ToValue for $type {
            fn to_value(&self) -> Value {
                json!(self)
            }
        }
    )*};
}
plain!(bool, u64, f64, String, Vec<String>);

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}

impl ToValue for Vec<Hook> {
    fn to_value(&self) -> Value {
        let hooks = self.iter().map(|hook| {
            let mut value = json!({
                "on": hook.point.as_str(), "run": hook.run, "timeout": hook.timeout.show(),
            });
            if !hook.point.decides() {
                value["required"] = json!(hook.required);
            }
            if !hook.tools.is_empty() {
                value["tools"] = json!(hook.tools);
            }
            value
        });
        hooks.collect()
    }
}

impl ToValue for Duration {
    fn to_value(&self) -> Value {
        json!(self.show())
    }
}

impl ToValue for PathBuf {
    fn to_value(&self) -> Value {
        json!(self.to_string_lossy())
    }
}

impl ToValue for Vec<PathBuf> {
    fn to_value(&self) -> Value {
        self.iter().map(ToValue::to_value).collect()
    }
}

impl ToValue for TaskSource {
    fn to_value(&self) -> Value {
        match self {
            Self::Literal(text) | Self::Template(text) => json!(text),
            Self::File { path, .. } => json!({ "file": path.to_string_lossy() }),
        }
    }
}

impl ToValue for InputFrom {
    fn to_value(&self) -> Value {
        match self {
            Self::Env(name) => json!({ "env": name }),
            Self::File(path) => json!({ "file": path.to_string_lossy() }),
            Self::Text(text) => json!({ "text": format!("{} bytes", text.len()) }),
        }
    }
}

impl ToValue for KeyFrom {
    fn to_value(&self) -> Value {
        match self {
            Self::Env(name) => json!({ "env": name }),
            Self::File(path) => json!({ "file": path.to_string_lossy() }),
            Self::Fd(fd) => json!({ "fd": fd }),
        }
    }
}

impl ToValue for Prices {
    fn to_value(&self) -> Value {
        json!({ "input": self.input, "cached": self.cached, "output": self.output })
    }
}

impl ToValue for Isolate {
    fn to_value(&self) -> Value {
        word_of(*self, Self::CHOICES)
    }
}

impl ToValue for Environment {
    fn to_value(&self) -> Value {
        let Self::Container(container) = self else { return json!("local") };
        let runtime = word_of(container.runtime, ContainerRuntime::CHOICES);
        let container = match &container.from {
            ContainerFrom::Image(image) => json!({ "image": image, "runtime": runtime }),
            ContainerFrom::Name(name) => json!({ "name": name, "runtime": runtime }),
        };
        json!({ "container": container })
    }
}

impl ToValue for Expect {
    fn to_value(&self) -> Value {
        word_of(*self, Self::CHOICES)
    }
}

impl ToValue for SandboxMode {
    fn to_value(&self) -> Value {
        word_of(*self, Self::CHOICES)
    }
}

impl ToValue for Color {
    fn to_value(&self) -> Value {
        word_of(*self, Self::CHOICES)
    }
}

fn word_of<T: PartialEq>(value: T, choices: &[(&str, T)]) -> Value {
    choices.iter().find(|(_, choice)| *choice == value).map_or(Value::Null, |(word, _)| json!(word))
}
