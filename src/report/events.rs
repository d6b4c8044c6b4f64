//! The JSON stream of `--json`: one object per line on stdout.
//!
//! Names and fields that readers of such streams already parse are kept; what is ours comes beside
//! them. On every line: `type`, `schema` (1), `seq` (from 0, without gaps), `ts` (RFC 3339, UTC).
//!
//! | Event | lines |
//! | --- | --- |
//! | `SessionStarted` | `thread.started` {thread_id, run_id} |
//! | `TurnStarted` | `turn.started` {turn_id} |
//! | `ItemDone`, assistant message | `item.completed` `agent_message` {text} |
//! | `ItemDone`, reasoning with a summary | `item.completed` `reasoning` {text} |
//! | `CallStarted` | `item.started`: `command_execution` {command, aggregated_output, exit_code, status}, `file_change` {changes: [{path, kind}], status}, else `mcp_tool_call` {server, tool, arguments, result, error, status}; the server of a built-in tool is `turnkey` |
//! | `CallDone` | `item.completed` with the same id; besides `status` the exact `result` and `effect` |
//! | `PatchProgress` | `patch.progress` {action, path}: a patch that still streams in names a file; nothing has changed yet |
//! | `Plan` | `todo_list` {items: [{text, completed}]}: `item.started`, then `item.updated`, and `item.completed` with the Turn |
//! | `Verdict` | `verdict` |
//! | `Retry` | `retry` |
//! | `HookStarted`, `HookDone` | `hook.started` {hook, step, call_id}, `hook.completed` {…, outcome, reason, exit_code, duration_ms} |
//! | `VerifyStarted`, `VerifyDone` | `verify.started`, `verify.completed` |
//! | `Diff` | `diff.updated` |
//! | `ProcessEnded` | `process.ended` {session_id, call_id, command, exit_code, signal, ended_by, output_bytes, duration_ms}: a command that outlived its call |
//! | `Warning`, `Rejected` | `item.completed` `error` {message}: told, and nothing ended |
//! | `TurnEnded` | `turn.completed` {usage}, or `turn.failed` {error: {message}} for failed and aborted |
//! | end of the run | `run.finished`; before it `error` {message} if no Turn could tell what went wrong |
//! | `TextDelta`, `StepStarted`, `Usage`, `SessionEnded` | none; the sum of usage is in `turn.completed` |

use crate::clock;
use crate::protocol::{
    CallId, Event, EventMsg, Item, PlanItem, PlanStatus, ResultKind, Role, ToolCall, ToolPayload,
    ToolResult, TurnEnd, Usage,
};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::time::Instant;

/// The version of the stream.
pub const SCHEMA: u64 = 1;

/// The server under which calls of built-in tools without an item type of their own appear.
pub const BUILT_IN_SERVER: &str = "turnkey";

/// State between Events: numbers, and the items that are open.
#[derive(Debug, Default)]
pub struct EventStream {
    seq: u64,
    items: u64,
    calls: HashMap<CallId, OpenCall>,
    plan: Option<(String, Vec<PlanItem>)>,
    usage: Usage,
    turn_began: Option<Instant>,
    told_end: bool,
}

#[derive(Debug)]
struct OpenCall {
    id: String,
    body: Map<String, Value>,
}

/// What `run.finished` says.
#[derive(Debug, Clone, Default)]
pub struct RunFinished<'a> {
    pub state: &'a str,
    pub exit_status: u8,
    pub reason: &'a str,
    pub message: &'a str,
    pub hint: &'a str,
    pub retryable: bool,
    pub artifacts: Option<&'a str>,
    pub steps: u32,
    pub usage: Usage,
    pub changed: Option<bool>,
    pub duration_ms: u64,
}

impl EventStream {
    pub fn new() -> Self {
        Self::default()
    }

    /// The lines for an Event.
    pub fn lines(&mut self, event: &Event) -> Vec<Value> {
        let ts = &event.ts;
        match &event.msg {
            EventMsg::SessionStarted { session, run } => {
                vec![self.line("thread.started", ts, json!({"thread_id": session, "run_id": run}))]
            }
            EventMsg::TurnStarted { turn } => {
                self.turn_began = Some(clock::now());
                self.usage = Usage::default();
                self.told_end = false;
                vec![self.line("turn.started", ts, json!({"turn_id": turn}))]
            }
            EventMsg::ItemDone { item } => self.item_done(ts, item),
            EventMsg::PatchProgress { action, path } => {
                vec![self.line("patch.progress", ts, json!({"action": action, "path": path}))]
            }
            EventMsg::CallStarted { call } => self.call_started(ts, call),
            EventMsg::CallDone { result } => vec![self.call_done(ts, result)],
            EventMsg::Plan { items } => vec![self.plan(ts, items)],
            EventMsg::Verdict { call_id, step, verdict } => {
                let mut body = json!({"step": step, "call_id": call_id});
                merge(&mut body, serde_json::to_value(verdict).unwrap_or_default());
                vec![self.line("verdict", ts, body)]
            }
            EventMsg::Retry { attempt, wait_ms, cause } => {
                let body = json!({"attempt": attempt, "wait_ms": wait_ms, "cause": cause});
                vec![self.line("retry", ts, body)]
            }
            EventMsg::Usage { total, .. } => {
                self.usage = *total;
                Vec::new()
            }
            EventMsg::ProcessEnded { process } => {
                let body = serde_json::to_value(process).unwrap_or_default();
                vec![self.line("process.ended", ts, body)]
            }
            EventMsg::HookStarted { hook, step, call_id } => {
                let body = json!({"hook": hook, "step": step, "call_id": call_id});
                vec![self.line("hook.started", ts, body)]
            }
            EventMsg::HookDone { hook, step, call_id, outcome, reason, exit_code, duration_ms } => {
                let body = json!({"hook": hook, "step": step, "call_id": call_id,
                    "outcome": outcome, "reason": reason, "exit_code": exit_code,
                    "duration_ms": duration_ms});
                vec![self.line("hook.completed", ts, body)]
            }
            EventMsg::VerifyStarted { attempt, name } => {
                vec![self.line("verify.started", ts, json!({"attempt": attempt, "name": name}))]
            }
            EventMsg::VerifyDone { attempt, name, passed, exit_code, duration_ms, .. } => {
                let body = json!({"attempt": attempt, "name": name, "passed": passed,
                    "exit_code": exit_code, "duration_ms": duration_ms});
                vec![self.line("verify.completed", ts, body)]
            }
            EventMsg::Diff { files, added, removed } => {
                let body = json!({"files": files, "added": added, "removed": removed});
                vec![self.line("diff.updated", ts, body)]
            }
            EventMsg::Warning { text } => vec![self.warning(ts, text)],
            EventMsg::Rejected { code, text } => {
                let id = self.next_item();
                let item = json!({"id": id, "type": "error", "message": text, "code": code});
                vec![self.line("item.completed", ts, json!({"item": item}))]
            }
            EventMsg::TurnEnded { end, .. } => self.turn_ended(ts, end),
            EventMsg::StepStarted { .. } | EventMsg::TextDelta { .. } | EventMsg::SessionEnded => {
                Vec::new()
            }
        }
    }

    /// Something the operator should know that ends nothing.
    pub fn warning(&mut self, ts: &str, text: &str) -> Value {
        let id = self.next_item();
        let item = json!({"id": id, "type": "error", "message": text});
        self.line("item.completed", ts, json!({"item": item}))
    }

    /// The last lines of a run.
    pub fn run_finished(&mut self, ts: &str, end: &RunFinished) -> Vec<Value> {
        let mut lines = Vec::new();
        if !self.told_end && end.exit_status != 0 {
            let body = json!({"message": end.message, "reason": end.reason, "hint": end.hint});
            lines.push(self.line("error", ts, body));
        }
        let body = json!({
            "state": end.state,
            "exit_status": end.exit_status,
            "reason": end.reason,
            "message": end.message,
            "hint": end.hint,
            "retryable": end.retryable,
            "artifacts": end.artifacts,
            "steps": end.steps,
            "usage": usage(&end.usage),
            "changed": end.changed,
            "duration_ms": end.duration_ms,
        });
        lines.push(self.line("run.finished", ts, body));
        lines
    }

    fn line(&mut self, kind: &str, ts: &str, body: Value) -> Value {
        let mut line = json!({"type": kind, "schema": SCHEMA, "seq": self.seq, "ts": ts});
        self.seq += 1;
        merge(&mut line, body);
        line
    }

    fn next_item(&mut self) -> String {
        let id = format!("item_{}", self.items);
        self.items += 1;
        id
    }

    fn item_done(&mut self, ts: &str, item: &Item) -> Vec<Value> {
        let (kind, text) = match item {
            Item::Message { role: Role::Assistant, text, .. } => ("agent_message", text),
            Item::Reasoning { text, .. } if !text.is_empty() => ("reasoning", text),
            _ => return Vec::new(),
        };
        let id = self.next_item();
        let item = json!({"id": id, "type": kind, "text": text});
        vec![self.line("item.completed", ts, json!({"item": item}))]
    }

    fn call_started(&mut self, ts: &str, call: &ToolCall) -> Vec<Value> {
        let id = self.next_item();
        let body = call_body(call);
        let item = item_of(&id, &call.call_id, &body);
        self.calls.insert(call.call_id.clone(), OpenCall { id, body });
        vec![self.line("item.started", ts, json!({"item": item}))]
    }

    fn call_done(&mut self, ts: &str, result: &ToolResult) -> Value {
        // A call that never started (an unknown tool, broken arguments) has a result all the same.
        let open = self.calls.remove(&result.call_id);
        let open = open.unwrap_or_else(|| OpenCall {
            id: self.next_item(),
            body: tool_body(&result.name, Value::Null),
        });
        let mut body = open.body;
        let failed = !result.result.is_ok();
        match body.get("type").and_then(Value::as_str) {
            Some("command_execution") => {
                let status = match result.result {
                    ResultKind::Ok => "completed",
                    ResultKind::Denied => "declined",
                    _ => "failed",
                };
                body.insert("aggregated_output".into(), json!(result.output));
                body.insert("exit_code".into(), json!(result.exit_code));
                body.insert("status".into(), json!(status));
            }
            Some("file_change") => {
                body.insert("status".into(), json!(if failed { "failed" } else { "completed" }));
                body.insert("message".into(), json!(result.output));
            }
            _ => {
                let content = json!([{"type": "text", "text": result.output}]);
                let key = if failed { "error" } else { "result" };
                let value = if failed {
                    json!({"message": result.output})
                } else {
                    json!({"content": content, "structured_content": null})
                };
                body.insert(key.into(), value);
                body.insert("status".into(), json!(if failed { "failed" } else { "completed" }));
            }
        }
        body.insert("outcome".into(), json!(result.result));
        body.insert("effect".into(), json!(result.effect));
        body.insert("duration_ms".into(), json!(result.duration_ms));
        let item = item_of(&open.id, &result.call_id, &body);
        self.line("item.completed", ts, json!({"item": item}))
    }

    fn plan(&mut self, ts: &str, items: &[PlanItem]) -> Value {
        let (id, kind) = match self.plan.take() {
            Some((id, _)) => (id, "item.updated"),
            None => (self.next_item(), "item.started"),
        };
        let item = todo_list(&id, items);
        self.plan = Some((id, items.to_vec()));
        self.line(kind, ts, json!({"item": item}))
    }

    fn turn_ended(&mut self, ts: &str, end: &TurnEnd) -> Vec<Value> {
        let mut lines = Vec::new();
        if let Some((id, items)) = self.plan.take() {
            let item = todo_list(&id, &items);
            lines.push(self.line("item.completed", ts, json!({"item": item})));
        }
        let duration_ms = self.turn_began.take().map(clock::millis_since);
        let usage = usage(&self.usage);
        let (kind, body) = match end {
            TurnEnd::Completed => {
                ("turn.completed", json!({"usage": usage, "duration_ms": duration_ms}))
            }
            TurnEnd::Aborted { reason, message } => {
                self.told_end = true;
                let error = json!({"message": message, "reason": reason, "retryable": false});
                (
                    "turn.failed",
                    json!({"error": error, "aborted": true, "usage": usage,
                    "duration_ms": duration_ms}),
                )
            }
            TurnEnd::Failed { reason, message, retryable } => {
                self.told_end = true;
                let error = json!({"message": message, "reason": reason, "retryable": retryable});
                (
                    "turn.failed",
                    json!({"error": error, "aborted": false, "usage": usage,
                    "duration_ms": duration_ms}),
                )
            }
        };
        lines.push(self.line(kind, ts, body));
        lines
    }
}

fn merge(line: &mut Value, body: Value) {
    if let (Value::Object(line), Value::Object(body)) = (line, body) {
        line.extend(body);
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cached_input_tokens": usage.cached,
        "output_tokens": usage.output,
        "reasoning_output_tokens": usage.reasoning,
    })
}

fn todo_list(id: &str, items: &[PlanItem]) -> Value {
    let items: Vec<Value> = items
        .iter()
        .map(|item| json!({"text": item.step, "completed": item.status == PlanStatus::Completed}))
        .collect();
    json!({"id": id, "type": "todo_list", "items": items})
}

fn item_of(id: &str, call_id: &CallId, body: &Map<String, Value>) -> Value {
    let mut item = json!({"id": id});
    merge(&mut item, Value::Object(body.clone()));
    merge(&mut item, json!({"call_id": call_id}));
    item
}

/// A call as an item that has just begun.
fn call_body(call: &ToolCall) -> Map<String, Value> {
    let text = call.payload.as_str();
    let arguments = match &call.payload {
        ToolPayload::Json(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        ToolPayload::Text(text) => json!(text),
    };
    match call.name.as_str() {
        "exec_command" => object(json!({
            "type": "command_execution",
            "command": command_of(&arguments, text),
            "aggregated_output": "",
            "exit_code": null,
            "status": "in_progress",
        })),
        "apply_patch" => {
            let patch = ["patch", "input"]
                .iter()
                .find_map(|key| arguments.get(key).and_then(Value::as_str))
                .unwrap_or(text);
            let changes: Vec<Value> = patch_changes(patch)
                .map(|(path, kind)| json!({"path": path, "kind": kind}))
                .collect();
            object(json!({"type": "file_change", "changes": changes, "status": "in_progress"}))
        }
        "edit_file" => {
            let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
            let kind = if text("old_text").is_empty() { "add" } else { "update" };
            let changes = json!([{"path": text("path"), "kind": kind}]);
            object(json!({"type": "file_change", "changes": changes, "status": "in_progress"}))
        }
        name => tool_body(name, arguments),
    }
}

fn tool_body(name: &str, arguments: Value) -> Map<String, Value> {
    let (server, tool) = name
        .strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
        .unwrap_or((BUILT_IN_SERVER, name));
    object(json!({
        "type": "mcp_tool_call",
        "server": server,
        "tool": tool,
        "arguments": arguments,
        "result": null,
        "error": null,
        "status": "in_progress",
    }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The command as one text: a script as it stands, words quoted where they need it.
fn command_of(arguments: &Value, text: &str) -> String {
    if let Some(script) = arguments.get("cmd").and_then(Value::as_str) {
        return script.to_owned();
    }
    let Some(words) = arguments.get("argv").and_then(Value::as_array) else {
        return text.to_owned();
    };
    words.iter().filter_map(Value::as_str).map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Which files a patch names, and what it does to them. Only for showing; the patch engine decides.
pub(super) fn patch_changes(patch: &str) -> impl Iterator<Item = (&str, &'static str)> {
    const MARKERS: [(&str, &str); 3] = [
        ("*** Add File: ", "add"),
        ("*** Update File: ", "update"),
        ("*** Delete File: ", "delete"),
    ];
    patch.lines().filter_map(|line| {
        MARKERS
            .iter()
            .find_map(|(marker, kind)| line.strip_prefix(marker).map(|path| (path.trim(), *kind)))
    })
}
