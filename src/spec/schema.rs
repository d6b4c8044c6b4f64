//! The JSON Schema (2020-12) of the spec, printed from the one table of keys.
//!
//! It serves editors and CI linters. What a schema can't say (one of `env` and `file`, units, names
//! that a task must use) the parser says; the schema is never stricter than the parser.

use super::defaults;
use super::keys::{self, Key, Type};
use serde_json::{Map, Value, json};

/// The whole schema.
pub fn schema() -> Value {
    let mut root = table(keys::ROOT, "");
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Turnkey task spec, version 1",
        "description": "One Turn of a coding agent: its task, its model, its limits, and the checks that decide.",
    });
    let mut merged = Map::new();
    for part in [head, root.take()] {
        if let Value::Object(entries) = part {
            merged.extend(entries);
        }
    }
    merged.insert("required".into(), json!(["version"]));
    Value::Object(merged)
}

fn table(keys: &'static [Key], prefix: &str) -> Value {
    let mut properties = Map::new();
    for key in keys {
        let path = format!("{prefix}{}", key.name);
        properties.insert(key.name.to_owned(), property(key, &path));
    }
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// One key: its type or null (an empty value counts as absent), its meaning, its default.
fn property(key: &Key, path: &str) -> Value {
    let mut value = nullable(of_type(key.value, path));
    if let Value::Object(entries) = &mut value {
        let about = match key.supported {
            true => key.about.to_owned(),
            false => format!("Not supported yet. {}", key.about),
        };
        entries.insert("description".into(), about.into());
        if let Some(default) = defaults::text_of(path) {
            entries.insert("default".into(), default_value(key.value, default));
        }
    }
    value
}

fn default_value(value: Type, text: String) -> Value {
    match value {
        Type::Uint { .. } => text.parse::<u64>().map_or(Value::String(text), Value::from),
        _ => Value::String(text),
    }
}

fn of_type(value: Type, path: &str) -> Value {
    match value {
        // The parser takes plain numbers and booleans as the text they are written as.
        Type::Text => json!({ "type": ["string", "number", "boolean"] }),
        Type::Path | Type::InnerPath | Type::Glob => json!({ "type": "string", "minLength": 1 }),
        Type::Variable => json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" }),
        Type::Url => json!({ "type": "string", "pattern": "^https?://" }),
        Type::Model => json!({ "type": "string", "pattern": "^[a-z][a-z0-9-]*/[^\\s]+$" }),
        Type::Bool => json!({ "type": "boolean" }),
        Type::Uint { min } => json!({ "type": "integer", "minimum": min }),
        Type::Number => json!({ "type": "number", "minimum": 0 }),
        Type::Scalar => json!({ "type": ["string", "number", "boolean"] }),
        Type::Duration => {
            json!({ "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h)$" })
        }
        Type::Version(version) => json!({ "const": version }),
        Type::Choice(words) => json!({ "enum": words }),
        Type::List(inner) => {
            json!({ "type": "array", "items": of_type(*inner, &format!("{path}[]")) })
        }
        Type::Named(inner) => json!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
            "additionalProperties": of_type(*inner, &format!("{path}.*")),
        }),
        Type::Table(keys) => table(keys, &format!("{path}.")),
        Type::OneOf(types) => {
            let all: Vec<Value> = types.iter().map(|inner| of_type(*inner, path)).collect();
            json!({ "anyOf": all })
        }
        Type::Off => json!({ "const": false }),
        Type::Any => json!({ "type": "null" }),
    }
}

/// The same or null.
fn nullable(mut schema: Value) -> Value {
    let Value::Object(entries) = &mut schema else { return schema };
    match entries.get_mut("type") {
        Some(Value::String(word)) if word == "null" => {}
        Some(Value::String(word)) => {
            let word = std::mem::take(word);
            entries.insert("type".into(), json!([word, "null"]));
        }
        Some(Value::Array(words)) => words.push("null".into()),
        _ => {
            if let Some(Value::Array(words)) = entries.get_mut("enum") {
                words.push(Value::Null);
            } else if let Some(Value::Array(all)) = entries.get_mut("anyOf") {
                all.push(json!({ "type": "null" }));
            } else if let Some(only) = entries.remove("const") {
                entries.insert("enum".into(), json!([only, null]));
            }
        }
    }
    schema
}
