//! Events as lines for people: one line per step, call, verdict and check.
//!
//! Every line begins with a word of ours; text from outside comes after it, on one line.

use super::events::patch_changes;
use super::text::one_line;
use crate::clock;
use crate::protocol::{
    Decision, Event, EventMsg, Item, PlanStatus, ProcessEnd, ResultKind, Role, ToolCall,
    ToolPayload, ToolResult, TurnEnd, Verdict,
};
use crate::rollout::Masker;
use serde_json::Value;
use std::time::Duration;

/// Text from outside is shown up to this many characters.
const MAX_TEXT: usize = 200;

/// Whether words are coloured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub color: bool,
}

impl Style {
    fn paint(self, code: &str, word: &str) -> String {
        if self.color { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() }
    }

    pub(super) fn good(self, word: &str) -> String {
        self.paint("32", word)
    }

    pub(super) fn bad(self, word: &str) -> String {
        self.paint("31", word)
    }

    pub(super) fn careful(self, word: &str) -> String {
        self.paint("33", word)
    }

    fn quiet(self, word: &str) -> String {
        self.paint("2", word)
    }
}

/// How lines are made: colours, and the masking that comes before any cut.
#[derive(Clone, Copy)]
pub(super) struct Show<'a> {
    pub style: Style,
    pub masker: &'a Masker,
}

impl Show<'_> {
    /// Text from outside, masked first, because a cut through a secret would hide it from the masker.
    pub(super) fn text(self, text: &str, max: usize) -> String {
        one_line(&self.masker.mask(text), max)
    }

    /// The line for an Event, if people should see it.
    pub(super) fn event(self, event: &Event) -> Option<String> {
        match &event.msg {
            EventMsg::StepStarted { step } => Some(format!("step {step}")),
            EventMsg::ItemDone { item } => self.message(item),
            EventMsg::CallStarted { call } => Some(self.call(call)),
            EventMsg::Verdict { verdict, .. } => Some(self.verdict(verdict)),
            EventMsg::CallDone { result } => Some(self.result(result)),
            EventMsg::Plan { items } => {
                let done = items.iter().filter(|item| item.status == PlanStatus::Completed).count();
                Some(format!("  plan: {done} of {} done", items.len()))
            }
            EventMsg::Retry { attempt, wait_ms, cause } => {
                let wait = clock::human(Duration::from_millis(*wait_ms));
                let word = self.style.careful("retry");
                Some(format!("  {word} {attempt} in {wait}: {}", self.text(cause, MAX_TEXT)))
            }
            EventMsg::ProcessEnded { process } => Some(self.process_ended(process)),
            // Shown while it lasts, and with its answer.
            EventMsg::HookStarted { .. } => None,
            EventMsg::HookDone { hook, call_id, outcome, reason, duration_ms, .. } => {
                let took = clock::human(Duration::from_millis(*duration_ms));
                let on = call_id.as_ref().map_or(String::new(), |id| format!(" on {}", self.text(id.as_str(), 64)));
                let word = match outcome.as_str() {
                    "allow" => self.style.quiet("allow"),
                    other => self.style.bad(&self.text(other, 20)),
                };
                let why = if reason.is_empty() { String::new() } else { format!(": {}", self.text(reason, MAX_TEXT)) };
                Some(format!("  hook {}{on}: {word}, {took}{why}", self.text(hook, 64)))
            }
            EventMsg::VerifyStarted { name, .. } => {
                Some(format!("check {}: started", self.text(name, MAX_TEXT)))
            }
            EventMsg::VerifyDone { attempt, name, passed, exit_code, duration_ms, .. } => {
                Some(self.check(*attempt, name, *passed, *exit_code, *duration_ms))
            }
            EventMsg::Diff { files, added, removed } => {
                let noun = if *files == 1 { "file" } else { "files" };
                Some(format!("diff: {files} {noun}, +{added} -{removed}"))
            }
            EventMsg::Warning { text } => Some(self.warning(text)),
            EventMsg::Rejected { code, text } => Some(self.warning(&format!("{text} ({code})"))),
            EventMsg::TurnEnded { end, .. } => Some(self.end(end)),
            EventMsg::SessionStarted { .. }
            // Shown while it lasts; the call that follows names the files again.
            | EventMsg::PatchProgress { .. }
            | EventMsg::TurnStarted { .. }
            | EventMsg::TextDelta { .. }
            | EventMsg::Usage { .. }
            | EventMsg::SessionEnded => None,
        }
    }

    pub(super) fn warning(self, text: &str) -> String {
        format!("{}: {}", self.style.careful("warning"), self.text(text, 1000))
    }

    /// A call in a few words, for a spinner or a heartbeat.
    pub(super) fn short_call(self, call: &ToolCall) -> String {
        format!("{} {}", self.text(&call.name, 40), self.text(&brief(call), 60))
    }

    fn process_ended(self, process: &ProcessEnd) -> String {
        let command = self.text(&process.command, 60);
        let how = match (process.exit_code, process.signal) {
            (Some(code), _) => format!(", exit {code}"),
            (None, Some(signal)) => format!(", signal {signal}"),
            (None, None) => String::new(),
        };
        let by = process
            .ended_by
            .as_ref()
            .map_or(String::new(), |by| format!(" ({})", self.text(by, 64)));
        let took = clock::human(Duration::from_millis(process.duration_ms));
        format!("  session {} ({command}) ended{how}, {took}{by}", process.session_id)
    }

    fn message(self, item: &Item) -> Option<String> {
        match item {
            Item::Message { role: Role::Assistant, text, .. } if !text.trim().is_empty() => {
                Some(format!("  model: {}", self.text(text, MAX_TEXT)))
            }
            _ => None,
        }
    }

    fn call(self, call: &ToolCall) -> String {
        format!("  call {}: {}", self.text(&call.name, 64), self.text(&brief(call), MAX_TEXT))
    }

    fn verdict(self, verdict: &Verdict) -> String {
        let action = self.text(&verdict.action, MAX_TEXT);
        let rule = self.text(&verdict.rule.to_string(), MAX_TEXT);
        match verdict.decision {
            Decision::Allow => format!("  {} {action} ({rule})", self.style.quiet("allow")),
            decision => {
                let word = self.style.bad(decision.as_str());
                format!("  {word} {action}: {} ({rule})", self.text(&verdict.reason, MAX_TEXT))
            }
        }
    }

    fn result(self, result: &ToolResult) -> String {
        let word = self.kind(result.result);
        let name = self.text(&result.name, 64);
        let exit = result.exit_code.map_or(String::new(), |code| format!(", exit {code}"));
        let took = clock::human(Duration::from_millis(result.duration_ms));
        format!("  {word} {name}{exit}, {took}")
    }

    fn kind(self, kind: ResultKind) -> String {
        match kind {
            ResultKind::Ok => self.style.good("ok"),
            ResultKind::Failed => self.style.careful("failed"),
            ResultKind::UnknownTool => self.style.bad("unknown tool"),
            ResultKind::BadArguments => self.style.bad("bad arguments"),
            ResultKind::Denied => self.style.bad("denied"),
            ResultKind::TimedOut => self.style.bad("timed out"),
            ResultKind::Cancelled => self.style.careful("cancelled"),
            ResultKind::Aborted => self.style.careful("aborted"),
            ResultKind::Internal => self.style.bad("internal error"),
        }
    }

    fn check(
        self,
        attempt: u32,
        name: &str,
        passed: bool,
        exit_code: Option<i32>,
        duration_ms: u64,
    ) -> String {
        let name = self.text(name, MAX_TEXT);
        let took = clock::human(Duration::from_millis(duration_ms));
        if passed {
            return format!("check {name}: {}, {took}", self.style.good("passed"));
        }
        let exit = exit_code.map_or(", no exit status".to_owned(), |code| format!(", exit {code}"));
        let word = self.style.bad("failed");
        format!("check {name}: {word}{exit}, {took} (attempt {attempt})")
    }

    fn end(self, end: &TurnEnd) -> String {
        match end {
            TurnEnd::Completed => format!("turn {}", self.style.good("completed")),
            TurnEnd::Aborted { reason, message } | TurnEnd::Failed { reason, message, .. } => {
                let word = self.style.bad(end.as_str());
                format!("turn {word}: {} ({})", self.text(message, 1000), self.text(reason, 64))
            }
        }
    }
}

/// Shown even when little is shown: what the operator should know.
pub(super) fn matters(event: &Event) -> bool {
    matches!(
        event.msg,
        EventMsg::Warning { .. } | EventMsg::Rejected { .. } | EventMsg::Retry { .. }
    )
}

/// What a call is about, short: its command, its path, else its arguments.
fn brief(call: &ToolCall) -> String {
    let text = call.payload.as_str();
    let arguments = match &call.payload {
        ToolPayload::Json(text) => serde_json::from_str(text).unwrap_or(Value::Null),
        ToolPayload::Text(text) => return changed_paths(text),
    };
    for key in ["cmd", "argv", "command", "path", "pattern", "query"] {
        match arguments.get(key) {
            Some(Value::String(value)) => return value.clone(),
            Some(Value::Array(words)) => {
                let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
                return words.join(" ");
            }
            _ => {}
        }
    }
    for key in ["patch", "input"] {
        if let Some(patch) = arguments.get(key).and_then(Value::as_str) {
            return changed_paths(patch);
        }
    }
    text.to_owned()
}

fn changed_paths(patch: &str) -> String {
    let paths: Vec<&str> = patch_changes(patch).map(|(path, _)| path).take(8).collect();
    paths.join(" ")
}
