//! Whether a JSON Schema is strict: every object names all its properties, requires all of them,
//! and allows none besides. Providers refuse a whole request whose schema claims this and is not.

use serde_json::{Map, Value, json};

/// The keywords that a strict schema may not use.
const FOREIGN: [&str; 7] = [
    "oneOf",
    "allOf",
    "not",
    "if",
    "patternProperties",
    "dependentSchemas",
    "unevaluatedProperties",
];

pub(super) fn is_strict(schema: &Value) -> bool {
    is_object(schema) && strict(schema, 0)
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

fn strict(schema: &Value, depth: usize) -> bool {
    let Value::Object(map) = schema else { return false };
    if depth > 10 || FOREIGN.iter().any(|key| map.contains_key(*key)) {
        return false;
    }
    let typed = map.contains_key("type")
        || ["anyOf", "$ref", "enum", "const"].iter().any(|key| map.contains_key(*key));
    let all = |key: &str| match map.get(key) {
        None => true,
        Some(Value::Array(list)) => list.iter().all(|inner| strict(inner, depth + 1)),
        Some(Value::Object(named)) => named.values().all(|inner| strict(inner, depth + 1)),
        Some(_) => false,
    };
    let items = map.get("items").is_none_or(|inner| strict(inner, depth + 1));
    typed && items && object_is_closed(map) && all("properties") && all("anyOf") && all("$defs")
}

fn object_is_closed(map: &Map<String, Value>) -> bool {
    let is_object = match map.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => false,
    };
    if !is_object {
        return true;
    }
    let empty = Map::new();
    let properties = map.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> = map
        .get("required")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    map.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.keys().all(|name| required.contains(&name.as_str()))
}

/// The schema of a freeform tool for models that take only functions.
pub(super) fn one_string(property: &str) -> Value {
    json!({
        "type": "object",
        "properties": { property: { "type": "string" } },
        "required": [property],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_means_closed_and_complete_at_every_depth() {
        let good = json!({
            "type": "object", "additionalProperties": false, "required": ["a", "b"],
            "properties": {
                "a": { "type": ["string", "null"] },
                "b": { "type": "array", "items": one_string("x") },
            },
        });
        assert!(is_strict(&good));
        assert!(is_strict(&one_string("patch")));
        let mut open = good.clone();
        open["properties"]["b"]["items"]["additionalProperties"] = json!(true);
        assert!(!is_strict(&open));
        let mut optional = good.clone();
        optional["required"] = json!(["a"]);
        assert!(!is_strict(&optional));
        for bad in
            [json!(true), json!({}), json!({ "type": "object" }), json!({ "type": "string" })]
        {
            assert!(!is_strict(&bad), "{bad}");
        }
    }
}
