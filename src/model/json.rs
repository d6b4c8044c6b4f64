//! Small readers for JSON that others wrote: nothing is trusted to be there or to have its type.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A text that borrows from the event where it has no escapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// The text of a raw JSON string; none for anything else.
pub(super) fn text<'a>(raw: Option<&'a RawValue>) -> Option<Cow<'a, str>> {
    serde_json::from_str::<Text<'a>>(raw?.get()).ok().map(|text| text.0)
}

/// The whole value; null where there is none.
pub(super) fn value(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null)
}

/// A text field of an object, empty where it is missing.
pub(super) fn field<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A count, nothing where it is missing.
pub(super) fn count(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_u64).unwrap_or_default()
}

/// A call's arguments as an object, for wires whose servers parse them. What the model wrote
/// broken stays readable to it under a name that says so.
pub(super) fn argument_object(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => value,
        _ if text.trim().is_empty() => Value::Object(serde_json::Map::new()),
        _ => serde_json::json!({ "invalid_json": text }),
    }
}
