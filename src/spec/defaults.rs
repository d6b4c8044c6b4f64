//! Every default, in one table: what holds where neither a flag nor the spec says anything.
//!
//! The reference, the JSON Schema and `--dry-run` print this table, so a number that people read is
//! the number that runs. A default that no key changes stands here too, marked as fixed.

use std::time::Duration;

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultRow {
    /// The spec key, dotted; for a fixed value the name it has in messages.
    pub key: &'static str,
    pub value: String,
    /// Whether a spec key or a flag can change it.
    pub fixed: bool,
    pub about: &'static str,
}

/// Declares a constant and its line of the table in one breath, so that they can't disagree.
macro_rules! defaults {
    ($($kind:ident $name:ident: $type:ty = $value:expr, $key:literal, $about:literal;)*) => {
        $(#[doc = $about] pub const $name: $type = $value;)*

        /// The whole table, in the order of the reference.
        pub fn table() -> Vec<DefaultRow> {
            vec![$(DefaultRow {
                key: $key,
                value: Show::show(&$name),
                fixed: stringify!($kind) == "fixed",
                about: $about,
            }),*]
        }
    };
}

defaults! {
    key WORKSPACE: &str = ".", "workspace", "The folder the Turn works in.";
    key ISOLATE: &str = "none", "isolate", "Whether the Turn works in the workspace itself or in a copy.";
    key TIMEOUT_CONNECT: Duration = Duration::from_secs(10), "model.timeouts.connect", "Until the connection to the model stands.";
    key TIMEOUT_FIRST_BYTE: Duration = Duration::from_secs(120), "model.timeouts.first_byte", "Until the first byte of a response.";
    key TIMEOUT_IDLE: Duration = Duration::from_secs(300), "model.timeouts.idle", "Between two bytes of a response.";
    key RETRY_ATTEMPTS: u64 = 5, "model.retries.attempts", "Requests for one response, the first one included.";
    key RETRY_TOTAL_WAIT: Duration = Duration::from_secs(300), "model.retries.total_wait", "All waiting between the attempts of one request.";
    key STEPS: u64 = 50, "limits.steps", "Model requests in the Turn.";
    key TIME: Duration = Duration::from_secs(30 * 60), "limits.time", "Wall clock of the whole run.";
    key EXPECT: &str = "any", "expect", "What the Turn must have done to the workspace.";
    key VERIFY_ATTEMPTS: u64 = 3, "verify.attempts", "How often failing checks are fed back to the model.";
    key CHECK_TIMEOUT: Duration = Duration::from_secs(10 * 60), "verify.checks[].timeout", "Wall clock of one check.";
    key HOOK_TIMEOUT: Duration = Duration::from_secs(30), "hooks.*[].timeout", "Wall clock of one run of a hook.";
    key ENVIRONMENT: &str = "local", "environment", "Where the tools run.";
    key CONTAINER_RUNTIME: &str = "docker", "environment.container.runtime", "The engine's command line.";
    key OUTPUT: &str = "human", "output", "What standard output and standard error carry.";
    key COLOR: &str = "auto", "color", "Whether output is coloured; auto asks the terminal.";
    fixed EQUAL_FAILURES: u64 = 10, "equal_failures", "Equal failures in a row that end the Turn.";
    fixed MAX_TASK_BYTES: usize = 1024 * 1024, "task_bytes", "The longest task, parameters filled in.";
    fixed MAX_PARAM_BYTES: usize = 64 * 1024, "param_bytes", "The longest value of a parameter.";
    fixed MAX_INPUT_BYTES: usize = 128 * 1024, "input_bytes", "What is kept of one untrusted input: its head and its tail.";
}

/// The default of a spec key as the reference prints it, if it has one.
pub fn text_of(key: &str) -> Option<String> {
    table().into_iter().find(|row| covers(row.key, key)).map(|row| row.value)
}

/// Whether a row is that of this key; a part `*` of the row stands for any name.
pub fn covers(row: &str, key: &str) -> bool {
    let Some((before, after)) = row.split_once('*') else { return row == key };
    let inner = key.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    inner.is_some_and(|name| !name.is_empty() && !name.contains('.'))
}

/// A value as a person would write it in the spec.
pub trait Show {
    fn show(&self) -> String;
}

impl Show for &str {
    fn show(&self) -> String {
        (*self).to_owned()
    }
}

impl Show for u64 {
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Show for usize {
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Show for Duration {
    /// The largest unit that holds the value in whole numbers: `30m`, `90s`, `1500ms`.
    fn show(&self) -> String {
        let millis = self.as_millis();
        for (unit, size) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
            if millis >= size && millis.is_multiple_of(size) {
                return format!("{}{unit}", millis / size);
            }
        }
        format!("{millis}ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::yaml::parse_duration;

    #[test]
    fn durations_are_shown_as_they_are_written() {
        for text in ["500ms", "10s", "90s", "5m", "30m", "2h"] {
            assert_eq!(parse_duration(text).unwrap().show(), text);
        }
    }

    #[test]
    fn a_key_stands_in_the_table_once() {
        let mut keys: Vec<&str> = table().iter().map(|row| row.key).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
        assert_eq!(text_of("limits.steps").as_deref(), Some("50"));
        assert_eq!(text_of("limits.time").as_deref(), Some("30m"));
        assert_eq!(text_of("policy"), None);
        assert_eq!(text_of("hooks.stop[].timeout").as_deref(), Some("30s"));
        assert_eq!(text_of("hooks.a.b[].timeout"), None);
    }
}
