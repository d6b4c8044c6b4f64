//! JSON Schemas (2020-12) of what this room writes, printed by the binary and held by tests against
//! what is really written.

use super::events::SCHEMA as EVENTS_SCHEMA;
use super::result::{RUNNING, SCHEMA as RESULT_SCHEMA};
use crate::protocol::{Signal, State};
use serde_json::{Value, json};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Every terminal state.
pub(super) const STATES: [State; 15] = [
    State::Interrupted(Signal::Hup),
    State::Interrupted(Signal::Int),
    State::Interrupted(Signal::Term),
    State::TimedOut,
    State::Internal,
    State::Invalid,
    State::Unavailable,
    State::ModelFailed,
    State::LimitReached,
    State::Blocked,
    State::Unverified,
    State::Findings,
    State::ChangesFound,
    State::Partial,
    State::Completed,
];

/// The schema of one line of `--json`.
pub fn events_schema() -> Value {
    let lines: Vec<Value> = [
        line("thread.started", json!({"thread_id": text(), "run_id": text()})),
        line("turn.started", json!({"turn_id": text()})),
        line("item.started", json!({"item": item()})),
        line("item.updated", json!({"item": item()})),
        line("item.completed", json!({"item": item()})),
        line("turn.completed", json!({"usage": usage(), "duration_ms": count_or_null()})),
        line(
            "turn.failed",
            json!({"error": error(), "aborted": flag(), "usage": usage(), "duration_ms": count_or_null()}),
        ),
        line("error", json!({"message": text(), "reason": text(), "hint": text()})),
        line("patch.progress", json!({"action": text(), "path": text()})),
        line(
            "verdict",
            json!({
                "step": count(), "call_id": text_or_null(), "action": text(),
                "decision": {"enum": ["allow", "deny", "ask"]}, "asked": flag(),
                "rule": rule(), "reason": text(),
                "parts": list(object(json!({
                    "part": text(), "decision": {"enum": ["allow", "deny", "ask"]},
                    "rule": rule(), "reason": text(),
                }))),
            }),
        ),
        line("retry", json!({"attempt": count(), "wait_ms": count(), "cause": text()})),
        line("hook.started", json!({"hook": text(), "step": count(), "call_id": text_or_null()})),
        line(
            "hook.completed",
            json!({"hook": text(), "step": count(), "call_id": text_or_null(),
                "outcome": {"enum": ["allow", "deny", "block", "error", "timeout", "cancelled"]},
                "reason": text(), "exit_code": integer_or_null(), "duration_ms": count()}),
        ),
        line("verify.started", json!({"attempt": count(), "name": text()})),
        line(
            "verify.completed",
            json!({"attempt": count(), "name": text(), "passed": flag(),
                "exit_code": integer_or_null(), "duration_ms": count()}),
        ),
        line("diff.updated", json!({"files": count(), "added": count(), "removed": count()})),
        line(
            "process.ended",
            process_fields(),
        ),
        line(
            "run.finished",
            json!({"state": states(), "exit_status": count(), "reason": text(), "message": text(),
                "hint": text(), "retryable": flag(), "artifacts": text_or_null(), "steps": count(),
                "usage": usage(), "changed": {"type": ["boolean", "null"]}, "duration_ms": count()}),
        ),
    ]
    .into();
    json!({
        "$schema": DIALECT,
        "title": "One line of the event stream of turnkey exec --json",
        "oneOf": lines,
    })
}

/// The schema of `result.json`; `exit_status` is the one exit table.
pub fn result_schema(exit_status: impl Fn(State) -> u8) -> Value {
    let mut schema = object(json!({
        "schema": {"const": RESULT_SCHEMA},
        "run": text(),
        "session": text(),
        "state": true,
        "exit_status": true,
        "reason": text(),
        "message": text(),
        "hint": text(),
        "retryable": flag(),
        "started": text(),
        "ended": text_or_null(),
        "duration_ms": count(),
        "model": text_or_null(),
        "usage": object(json!({
            "input_tokens": count(), "cached_input_tokens": count(), "output_tokens": count(),
            "reasoning_output_tokens": count(), "total_tokens": count(),
        })),
        "cost": {"oneOf": [{"type": "null"}, object(json!({
            "amount": {"type": "number"},
            "prices": object(json!({
                "input": {"type": "number"}, "cached": {"type": "number"},
                "output": {"type": "number"},
            })),
        }))]},
        "steps": count(),
        "tool_calls": object(json!({"total": count(), "failed": count(), "denied": count()})),
        "changed": flag(),
        "changed_files": list(changed_file()),
        "not_in_diff": list(text()),
        "checks": list(object(json!({
            "name": text(), "phase": {"enum": ["baseline", "workspace", "clean_checkout"]},
            "attempt": count(), "argv": list(text()), "passed": flag(),
            "exit_code": integer_or_null(), "timed_out": flag(), "duration_ms": count(),
            "against_baseline": text_or_null(), "output_tail": text(),
        }))),
        "denials": list(object(json!({
            "step": count(), "call_id": text_or_null(), "action": text(), "argv": list(text()),
            "rule": rule(), "reason": text(),
        }))),
        "hooks": list(object(json!({
            "hook": text(), "command": text(), "times": count(), "denials": count(),
            "errors": count(), "duration_ms": count(),
        }))),
        "processes": list(object(process_fields())),
        "command_logs": list(object(json!({
            "command": text(), "file": text_or_null(), "bytes": count(), "cut": count(),
            "fault": text_or_null(),
        }))),
        "sandbox": true,
        "digests": object(json!({
            "policy": text(), "spec": text(), "rollout": text(), "diff": text(),
            "start_tree": text(), "end_tree": text(),
        })),
        "artifacts": object(json!({
            "directory": text(), "rollout": text_or_null(), "diff": text_or_null(),
            "start_diff": text_or_null(), "last_message": text_or_null(),
            "summary": text_or_null(), "report": text_or_null(),
        })),
        "warnings": list(text()),
        "sources": {"type": "object", "additionalProperties": text()},
    }));
    let mut pairs = vec![json!({"properties": {
        "state": {"const": RUNNING}, "exit_status": {"type": "null"}, "ended": {"type": "null"},
    }})];
    pairs.extend(states_with_status(exit_status).into_iter().map(|(state, statuses)| {
        json!({"properties": {
            "state": {"const": state}, "exit_status": {"enum": statuses}, "ended": text(),
        }})
    }));
    if let Value::Object(schema) = &mut schema {
        schema.insert("oneOf".into(), Value::Array(pairs));
        schema.insert("$schema".into(), json!(DIALECT));
        schema.insert("title".into(), json!("result.json of a turnkey run"));
    }
    schema
}

fn states_with_status(exit_status: impl Fn(State) -> u8) -> Vec<(&'static str, Vec<u8>)> {
    let mut pairs: Vec<(&str, Vec<u8>)> = Vec::new();
    for state in STATES {
        let status = exit_status(state);
        match pairs.iter_mut().find(|(word, _)| *word == state.as_str()) {
            Some((_, statuses)) => statuses.push(status),
            None => pairs.push((state.as_str(), vec![status])),
        }
    }
    pairs
}

fn states() -> Value {
    let mut words: Vec<&str> = STATES.iter().map(|state| state.as_str()).collect();
    words.dedup();
    json!({"enum": words})
}

/// One kind of line: its own fields, all required, and those of every line.
fn line(kind: &str, fields: Value) -> Value {
    let mut all = json!({
        "type": {"const": kind}, "schema": {"const": EVENTS_SCHEMA}, "seq": count(), "ts": text(),
    });
    if let (Value::Object(all), Value::Object(fields)) = (&mut all, fields) {
        all.extend(fields);
    }
    object(all)
}

fn item() -> Value {
    let status = json!({"enum": ["in_progress", "completed", "failed"]});
    let kinds = [
        item_kind("agent_message", json!({"text": text()}), json!({})),
        item_kind("reasoning", json!({"text": text()}), json!({})),
        item_kind("error", json!({"message": text()}), json!({"code": text()})),
        item_kind(
            "command_execution",
            json!({"command": text(), "aggregated_output": text(), "exit_code": integer_or_null(),
                "status": {"enum": ["in_progress", "completed", "failed", "declined"]},
                "call_id": text()}),
            call_fields(),
        ),
        item_kind(
            "file_change",
            json!({"changes": list(object(json!({
                    "path": text(), "kind": {"enum": ["add", "update", "delete"]},
                }))), "status": status, "call_id": text()}),
            with(call_fields(), "message", text()),
        ),
        item_kind(
            "mcp_tool_call",
            json!({"server": text(), "tool": text(), "arguments": true,
                "result": {"oneOf": [{"type": "null"}, object(json!({
                    "content": list(json!({"type": "object"})), "structured_content": true,
                }))]},
                "error": {"oneOf": [{"type": "null"}, object(json!({"message": text()}))]},
                "status": status, "call_id": text()}),
            call_fields(),
        ),
        item_kind(
            "todo_list",
            json!({"items": list(object(json!({"text": text(), "completed": flag()})))}),
            json!({}),
        ),
    ];
    json!({"oneOf": kinds})
}

/// The end of a command that outlived its call.
fn process_fields() -> Value {
    json!({
        "session_id": count(), "call_id": text(), "command": text(),
        "exit_code": integer_or_null(), "signal": integer_or_null(), "ended_by": text_or_null(),
        "output_bytes": count(), "duration_ms": count(),
    })
}

/// What a completed call has besides.
fn call_fields() -> Value {
    json!({
        "outcome": {"enum": ["ok", "failed", "unknown_tool", "bad_arguments", "denied", "timed_out",
            "cancelled", "aborted", "internal"]},
        "effect": {"enum": ["none", "done", "unknown"]},
        "duration_ms": count(),
    })
}

fn item_kind(kind: &str, required: Value, optional: Value) -> Value {
    let mut all = json!({"id": text(), "type": {"const": kind}});
    if let (Value::Object(all), Value::Object(required)) = (&mut all, required) {
        all.extend(required);
    }
    with_optional(object(all), optional)
}

fn changed_file() -> Value {
    let statuses = ["added", "modified", "deleted", "renamed", "type_changed", "mode_changed"];
    let required = object(json!({
        "path": text(), "status": {"enum": statuses}, "added": count(), "removed": count(),
        "by": list(text()),
    }));
    with_optional(required, json!({"renamed_from": text()}))
}

/// An object of exactly these properties.
fn object(properties: Value) -> Value {
    let Value::Object(properties) = properties else { return Value::Null };
    let required: Vec<&String> = properties.keys().collect();
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}

fn with_optional(mut schema: Value, optional: Value) -> Value {
    if let (Some(Value::Object(properties)), Value::Object(optional)) =
        (schema.get_mut("properties"), optional)
    {
        properties.extend(optional);
    }
    schema
}

fn with(mut fields: Value, name: &str, schema: Value) -> Value {
    if let Value::Object(fields) = &mut fields {
        fields.insert(name.to_owned(), schema);
    }
    fields
}

fn error() -> Value {
    object(json!({"message": text(), "reason": text(), "retryable": flag()}))
}

fn rule() -> Value {
    object(json!({"file": text(), "line": count(), "column": count(), "text": text()}))
}

fn usage() -> Value {
    object(json!({
        "input_tokens": count(), "cached_input_tokens": count(), "output_tokens": count(),
        "reasoning_output_tokens": count(),
    }))
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn text_or_null() -> Value {
    json!({"type": ["string", "null"]})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn count_or_null() -> Value {
    json!({"type": ["integer", "null"], "minimum": 0})
}

fn integer_or_null() -> Value {
    json!({"type": ["integer", "null"]})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

/// Kept for the exhaustiveness of [`STATES`]: a new state does not compile until it is listed here.
#[cfg(test)]
pub(super) fn place_in_states(state: State) -> usize {
    match state {
        State::Interrupted(Signal::Hup) => 0,
        State::Interrupted(Signal::Int) => 1,
        State::Interrupted(Signal::Term) => 2,
        State::TimedOut => 3,
        State::Internal => 4,
        State::Invalid => 5,
        State::Unavailable => 6,
        State::ModelFailed => 7,
        State::LimitReached => 8,
        State::Blocked => 9,
        State::Unverified => 10,
        State::Findings => 11,
        State::ChangesFound => 12,
        State::Partial => 13,
        State::Completed => 14,
    }
}
