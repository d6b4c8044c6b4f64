//! The door to hooks: commands of the operator's own that are asked or told at fixed points of a run.
//! JSON goes in on standard input, a JSON verdict comes out on standard output; whatever is not
//! exactly that is an error of the hook, and what an error means is decided where the hook is asked.
//!
//! Hooks come from the operator's spec alone. They run in the run's sandbox, with variables and a
//! scratch of their own, one at a time. A replay answers from its record instead.

mod answer;
mod run;

pub use crate::spec::HookPoint;
pub use answer::{Answer, Decision, Reply};
pub use run::Runner;

use crate::protocol::CallId;
use crate::rollout::HookRecord;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio_util::sync::CancellationToken;

/// One hook of the operator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub point: HookPoint,
    /// Its place among those of its point.
    pub index: usize,
    pub run: String,
    pub timeout: Duration,
    /// Whether its error ends the run, where it is only told.
    pub required: bool,
    /// Globs of tool names; empty for every tool.
    pub tools: Vec<String>,
}

impl Hook {
    /// What records and messages call it.
    pub fn label(&self) -> String {
        format!("{}[{}]", self.point.as_str(), self.index)
    }

    fn covers(&self, tool: Option<&str>) -> bool {
        match tool {
            Some(tool) if !self.tools.is_empty() => {
                self.tools.iter().any(|glob| matches(glob, tool))
            }
            _ => true,
        }
    }
}

/// Whether a name fits a glob in which `*` stands for any text.
pub fn matches(glob: &str, name: &str) -> bool {
    let Some((before, after)) = glob.split_once('*') else { return glob == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.any(|at| matches(after, &rest[at..]))
}

/// What a hook is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    pub step: u32,
    pub call_id: Option<&'a CallId>,
    pub input: &'a Value,
}

/// What came of asking a hook.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub answer: Answer,
    /// Absent where a replayed record ends before it.
    pub record: Option<HookRecord>,
}

/// The hooks of a run.
pub struct Hooks {
    list: Vec<Hook>,
    source: Source,
    /// How the run began, for hooks that ask: `exec`, `resume`, `fork`.
    began_by: &'static str,
    /// Hooks run one at a time, so that what each of them changed is known.
    turn: tokio::sync::Mutex<()>,
    failure: Mutex<Option<String>>,
}

/// Where answers come from.
enum Source {
    Live(Box<Runner>),
    Recorded(Mutex<HashMap<Key, VecDeque<HookRecord>>>),
}

/// A hook and the call that it was asked about.
type Key = (String, Option<CallId>);

impl Default for Hooks {
    fn default() -> Self {
        Self::recorded(Vec::new(), [])
    }
}

impl Hooks {
    /// Hooks that really run.
    pub fn live(list: Vec<Hook>, runner: Runner, began_by: &'static str) -> Self {
        Self::new(list, Source::Live(Box::new(runner)), began_by)
    }

    /// Hooks whose answers are known.
    pub fn recorded(list: Vec<Hook>, records: impl IntoIterator<Item = HookRecord>) -> Self {
        let mut known: HashMap<Key, VecDeque<HookRecord>> = HashMap::new();
        for record in records {
            let key = (record.hook.clone(), record.call_id.clone());
            known.entry(key).or_default().push_back(record);
        }
        Self::new(list, Source::Recorded(Mutex::new(known)), "replay")
    }

    fn new(list: Vec<Hook>, source: Source, began_by: &'static str) -> Self {
        let (turn, failure) = (tokio::sync::Mutex::default(), Mutex::default());
        Self { list, source, began_by, turn, failure }
    }

    pub fn list(&self) -> &[Hook] {
        &self.list
    }

    /// The hooks of a point, in order; of those for tools only the ones for this tool.
    pub fn at(&self, point: HookPoint, tool: Option<&str>) -> Vec<Hook> {
        let here = self.list.iter().filter(|hook| hook.point == point && hook.covers(tool));
        here.cloned().collect()
    }

    pub fn is_live(&self) -> bool {
        matches!(self.source, Source::Live(_))
    }

    pub fn began_by(&self) -> &'static str {
        self.began_by
    }

    /// Held while a hook runs.
    pub async fn alone(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Asks one hook. Whatever happens to it is an answer.
    pub async fn ask(&self, hook: &Hook, asking: Asking<'_>, cancel: &CancellationToken) -> Asked {
        match &self.source {
            Source::Live(runner) => runner.ask(hook, asking, cancel).await,
            Source::Recorded(known) => {
                let key = (hook.label(), asking.call_id.cloned());
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                let record = known.get_mut(&key).and_then(VecDeque::pop_front);
                let answer = record.as_ref().map_or(Answer::Cancelled, Answer::of_record);
                Asked { answer, record }
            }
        }
    }

    /// A hook that was told and whose error ends the run; the first one stands.
    pub fn failed(&self, why: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    /// Why the run must end, where it must.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_fit_globs() {
        for (glob, name, fits) in [
            ("exec_command", "exec_command", true),
            ("exec_command", "exec_commands", false),
            ("exec_*", "exec_command", true),
            ("*", "read_file", true),
            ("*_file", "read_file", true),
            ("*_file", "list_files", false),
            ("mcp__*__search", "mcp__docs__search", true),
            ("mcp__*__search", "mcp__docs__find", false),
            ("**", "x", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
        ] {
            assert_eq!(matches(glob, name), fits, "{glob} {name}");
        }
    }

    #[test]
    fn a_point_has_its_hooks_in_order_and_by_tool() {
        let hook = |point, index, tools: &[&str]| Hook {
            point,
            index,
            run: format!("{index}"),
            timeout: Duration::from_secs(1),
            required: true,
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        };
        let hooks = Hooks::recorded(
            vec![
                hook(HookPoint::BeforeTool, 0, &["exec_*"]),
                hook(HookPoint::BeforeTool, 1, &[]),
                hook(HookPoint::Stop, 0, &[]),
            ],
            [],
        );
        let labels = |point, tool| -> Vec<String> {
            hooks.at(point, tool).iter().map(Hook::label).collect()
        };
        let before = HookPoint::BeforeTool;
        assert_eq!(labels(before, Some("exec_command")), ["before_tool[0]", "before_tool[1]"]);
        assert_eq!(labels(before, Some("read_file")), ["before_tool[1]"]);
        assert_eq!(labels(HookPoint::Stop, None), ["stop[0]"]);
        assert!(labels(HookPoint::RunEnd, None).is_empty());
    }

    #[tokio::test]
    async fn a_record_answers_call_by_call_and_then_no_more() {
        let hook = Hook {
            point: HookPoint::BeforeTool,
            index: 0,
            run: "x".into(),
            timeout: Duration::from_secs(1),
            required: true,
            tools: Vec::new(),
        };
        let record = |call: &str, outcome: &str| HookRecord {
            hook: "before_tool[0]".into(),
            call_id: Some(call.into()),
            outcome: outcome.into(),
            reason: "r".into(),
            ..HookRecord::default()
        };
        let records = [record("a", "deny"), record("b", "allow"), record("a", "timeout")];
        let hooks = Hooks::recorded(vec![hook.clone()], records);
        let (input, cancel) = (Value::Null, CancellationToken::new());
        let mut answers = Vec::new();
        for call in ["b", "a", "a", "a"] {
            let call = CallId::from(call);
            let asking = Asking { step: 1, call_id: Some(&call), input: &input };
            answers.push(hooks.ask(&hook, asking, &cancel).await.answer);
        }
        let deny = Reply { decision: Decision::Deny, reason: "r".into(), ..Reply::default() };
        assert_eq!(answers[0], Answer::Replied(Reply { reason: "r".into(), ..Reply::default() }));
        assert_eq!(answers[1], Answer::Replied(deny));
        assert_eq!(answers[2], Answer::Erred { why: "r".into(), timed_out: true });
        assert_eq!(answers[3], Answer::Cancelled);
    }
}
