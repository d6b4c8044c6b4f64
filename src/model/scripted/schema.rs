//! The JSON Schema of a script, for editors and for checks outside this program.

use serde_json::{Value, json};

/// JSON Schema (2020-12) of the file that `scripted/FILE` reads.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Turnkey scripted model",
        "type": "object",
        "required": ["version", "steps"],
        "additionalProperties": false,
        "properties": {
            "version": { "const": 1 },
            "steps": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/step" } },
        },
        "$defs": {
            "duration": { "type": "string", "pattern": "^[0-9.]+(ms|s|m|h)$" },
            "texts": { "anyOf": [
                { "type": ["string", "number", "boolean"] },
                { "type": "array", "items": { "type": ["string", "number", "boolean"] } },
            ] },
            "step": step(),
            "call": call(),
            "usage": usage(),
            "fail": fail(),
            "expect": expect(),
            "expects": { "anyOf": [
                { "$ref": "#/$defs/expect" },
                { "type": "array", "items": { "anyOf": [
                    { "$ref": "#/$defs/expect" }, { "type": "null" },
                ] } },
            ] },
            "capture": {
                "type": "object",
                "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
                "additionalProperties": {
                    "type": "object",
                    "required": ["regex"],
                    "additionalProperties": false,
                    "properties": {
                        "regex": { "type": "string" },
                        "call": { "type": "integer", "minimum": 1 },
                    },
                },
            },
            "next": { "anyOf": [
                { "type": "string" },
                { "type": "array", "items": {
                    "type": "object",
                    "required": ["step"],
                    "additionalProperties": false,
                    "properties": {
                        "when": { "$ref": "#/$defs/expects" },
                        "step": { "type": "string" },
                    },
                } },
            ] },
        },
    })
}

fn step() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "anyOf": [{ "required": ["text"] }, { "required": ["calls"] }, { "required": ["fail"] }],
        "properties": {
            "name": { "type": "string" },
            "expect": { "$ref": "#/$defs/expects" },
            "capture": { "$ref": "#/$defs/capture" },
            "reasoning": { "type": "string" },
            "text": { "type": ["string", "number", "boolean"] },
            "calls": { "type": "array", "items": { "$ref": "#/$defs/call" } },
            "usage": { "$ref": "#/$defs/usage" },
            "delay": { "$ref": "#/$defs/duration" },
            "fail": { "$ref": "#/$defs/fail" },
            "next": { "$ref": "#/$defs/next" },
        },
    })
}

fn call() -> Value {
    json!({
        "type": "object",
        "required": ["tool"],
        "additionalProperties": false,
        "properties": {
            "tool": { "type": "string" },
            "id": { "type": "string" },
            "args": {},
            "input": { "type": "string" },
            "raw": { "type": "string" },
        },
        "not": { "anyOf": [
            { "required": ["args", "input"] },
            { "required": ["args", "raw"] },
            { "required": ["input", "raw"] },
        ] },
    })
}

fn usage() -> Value {
    let count = json!({ "type": "integer", "minimum": 0 });
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": { "input": count, "cached": count, "output": count, "reasoning": count },
    })
}

fn fail() -> Value {
    let kinds = ["status", "drop", "stall", "empty", "connect", "incomplete", "refuse"];
    let one_of: Vec<Value> = kinds.iter().map(|kind| json!({ "required": [kind] })).collect();
    json!({
        "type": "object",
        "additionalProperties": false,
        "oneOf": one_of,
        "properties": {
            "status": { "type": "integer", "minimum": 300, "maximum": 599 },
            "code": { "type": "string" },
            "message": { "type": "string" },
            "retry_after": { "$ref": "#/$defs/duration" },
            "drop": { "const": true },
            "stall": { "const": true },
            "empty": { "const": true },
            "connect": { "const": true },
            "incomplete": { "type": "string" },
            "refuse": { "type": "string" },
            "times": { "anyOf": [{ "type": "integer", "minimum": 1 }, { "const": "always" }] },
        },
    })
}

fn expect() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "call": { "type": "integer", "minimum": 1 },
            "tool": { "type": "string" },
            "result": { "enum": [
                "ok", "failed", "unknown_tool", "bad_arguments", "denied", "timed_out",
                "cancelled", "aborted", "internal",
            ] },
            "exit_code": { "type": "integer" },
            "contains": { "$ref": "#/$defs/texts" },
            "absent": { "$ref": "#/$defs/texts" },
            "regex": { "type": "string" },
            "message": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "contains": { "$ref": "#/$defs/texts" },
                    "absent": { "$ref": "#/$defs/texts" },
                    "regex": { "type": "string" },
                },
            },
        },
    })
}
