//! The JSON Schema of the policy file, for editors. The reader is stricter; both know the same keys,
//! which a test compares.

use serde_json::{Value, json};

pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Turnkey policy",
        "description": "What a run may do: commands, files, network, sandbox.",
        "type": "object",
        "required": ["version"],
        "additionalProperties": false,
        "properties": {
            "version": { "const": 1 },
            "use": {
                "description": "Presets by name, or policy files by path.",
                "type": "array", "uniqueItems": true, "items": { "type": "string", "minLength": 1 },
                "examples": [super::preset_names()]
            },
            "exec": exec(),
            "approvals": {
                "type": "object", "additionalProperties": false,
                "properties": { "on_ask": { "enum": ["deny", "approve"], "default": "deny" } }
            },
            "files": {
                "type": "object", "additionalProperties": false,
                "properties": {
                    "read": paths("Globs of what may be read; relative to the workspace, with ~, or absolute. The workspace where nothing is said."),
                    "write": paths("Globs of what may be written."),
                    "deny_read": paths("Never read, whatever `read` says."),
                    "protect": paths("Never written, whatever `write` says.")
                }
            },
            "networks": {
                "description": "Networks by name, for rules to grant.",
                "type": "object",
                "propertyNames": { "not": { "enum": ["none", "loopback", "open"] } },
                "additionalProperties": {
                    "oneOf": [
                        { "enum": ["loopback", "open"] },
                        {
                            "type": "object", "additionalProperties": false, "required": ["hosts"],
                            "properties": { "hosts": { "type": "array", "minItems": 1, "items": { "type": "string" } } }
                        }
                    ]
                }
            },
            "network": { "description": "What a rule without a network of its own gets: none, loopback, open, or a name.", "type": "string", "default": "none" },
            "env": {
                "type": "object", "additionalProperties": false,
                "properties": {
                    "pass": { "type": "array", "items": { "$ref": "#/$defs/variable" } },
                    "set": { "$ref": "#/$defs/variables" }
                }
            },
            "sandbox": sandbox(),
            "command_limits": {
                "type": "object", "additionalProperties": false,
                "properties": {
                    "timeout": { "$ref": "#/$defs/duration", "default": "5m" },
                    "output": { "$ref": "#/$defs/size", "default": "1MiB" },
                    "processes": { "type": "integer", "minimum": 1 },
                    "memory": { "$ref": "#/$defs/size" },
                    "keep_free": { "$ref": "#/$defs/size" },
                    "log": { "$ref": "#/$defs/size" }
                }
            },
            "tests": {
                "type": "array",
                "items": {
                    "type": "object", "additionalProperties": false, "required": ["run", "expect"],
                    "properties": {
                        "run": { "type": "string" },
                        "cwd": { "type": "string" },
                        "expect": { "enum": ["allow", "ask", "deny"] }
                    }
                }
            }
        },
        "$defs": definitions()
    })
}

fn paths(description: &str) -> Value {
    json!({ "description": description, "type": "array", "items": { "type": "string", "minLength": 1 } })
}

fn exec() -> Value {
    let rules = |description: &str| json!({ "description": description, "type": "array", "items": { "$ref": "#/$defs/rule" } });
    json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "default": { "enum": ["deny", "ask", "allow"], "default": "deny" },
            "on_deny": { "enum": ["continue", "stop", "fail_at_end"], "default": "continue" },
            "allow": rules("Commands that may run."),
            "ask": rules("Commands that approvals decide on."),
            "deny": rules("Commands that never run; deny always wins.")
        }
    })
}

fn sandbox() -> Value {
    let level = json!({ "enum": ["require", "best-effort", "off"], "default": "require" });
    json!({
        "oneOf": [
            level,
            {
                "type": "object", "additionalProperties": false,
                "properties": {
                    "mode": level,
                    "accept": { "type": "array", "items": { "const": "reverted" } },
                    "layers": { "type": "array", "items": { "enum": ["landlock", "seccomp", "namespaces", "seatbelt"] } },
                    "allow_ptrace": { "type": "boolean" },
                    "allow_user_namespaces": { "type": "boolean" },
                    "allow_io_uring": { "type": "boolean" },
                    "allow_sysv_ipc": { "type": "boolean" }
                }
            }
        ]
    })
}

fn definitions() -> Value {
    json!({
        "variable": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
        "variables": {
            "type": "object",
            "propertyNames": { "$ref": "#/$defs/variable" },
            "additionalProperties": { "type": ["string", "number", "boolean"] }
        },
        "duration": { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h)$" },
        "size": { "type": ["string", "integer"], "pattern": "^[0-9]+ *(B|kB|KiB|MB|MiB|GB|GiB)?$" },
        "command": {
            "description": "Words of one command: literal, [a, b] one of them, a glob, * one word, ... any further words.",
            "type": "string", "minLength": 1
        },
        "rule": {
            "oneOf": [
                { "$ref": "#/$defs/command" },
                {
                    "type": "object", "additionalProperties": false, "required": ["cmd"],
                    "properties": {
                        "cmd": { "$ref": "#/$defs/command" },
                        "without": { "description": "Options that take the rule away.", "type": "array", "items": { "type": "string", "pattern": "^-" } },
                        "only": { "description": "The only options it may bear.", "type": "array", "items": { "type": "string", "pattern": "^-" } },
                        "network": { "type": "string" },
                        "when_unchanged": { "type": "array", "minItems": 1, "items": { "type": "string" } },
                        "timeout": { "$ref": "#/$defs/duration" },
                        "env": { "$ref": "#/$defs/variables" },
                        "cwd": { "description": "The folder, or glob of folders, that it may run in.", "type": "string" },
                        "reason": { "description": "Told to the model with the verdict.", "type": "string" },
                        "max_calls": { "type": "integer", "minimum": 1 },
                        "even_if_untrusted": { "description": "Keeps ask, network and variables with untrusted input.", "type": "boolean" }
                    }
                }
            ]
        }
    })
}
