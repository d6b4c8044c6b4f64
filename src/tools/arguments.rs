//! Arguments as the model wrote them: parsed strictly, with errors it can act on.

use super::ToolFailure;
use crate::protocol::ToolPayload;
use serde::de::DeserializeOwned;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt;

/// Longer arguments are refused unread.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Reads a JSON object into `T`. `example` shows the model what a right call looks like.
pub fn parse<T: DeserializeOwned>(
    tool: &str,
    payload: &ToolPayload,
    example: &str,
) -> Result<T, ToolFailure> {
    let text = payload.as_str();
    let fail = |why: String| {
        ToolFailure::bad_arguments(format!(
            "{tool}: {why}\nreceived: {}\nexpected an object like {example}",
            received(text)
        ))
    };
    if text.len() > MAX_BYTES {
        return Err(fail(format!(
            "the arguments have {} bytes; {MAX_BYTES} is the limit",
            text.len()
        )));
    }
    if !text.trim_start().starts_with('{') {
        return Err(fail("the arguments are not a JSON object".into()));
    }
    serde_json::from_str::<UniqueKeys>(text).map_err(|error| fail(error.to_string()))?;
    serde_json::from_str(text).map_err(|error| fail(error.to_string()))
}

/// What arrived, in a form that shows its type and beginning.
fn received(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{start:?}{more} ({} bytes)", text.len())
}

/// Accepts any JSON in which no object names a key twice: which of the two counts is a guess, and a
/// guess must not decide what runs.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeysVisitor)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = UniqueKeys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_i64<E>(self, _: i64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_u64<E>(self, _: u64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_f64<E>(self, _: f64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_str<E>(self, _: &str) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_unit<E>(self) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<UniqueKeys, A::Error> {
        while access.next_element::<UniqueKeys>()?.is_some() {}
        Ok(UniqueKeys)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<UniqueKeys, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = access.next_key::<String>()? {
            access.next_value::<UniqueKeys>()?;
            if seen.contains(&key) {
                return Err(serde::de::Error::custom(format!("the key {key:?} stands twice")));
            }
            seen.insert(key);
        }
        Ok(UniqueKeys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Args {
        #[allow(dead_code)]
        cmd: String,
    }

    #[test]
    fn d109_broken_arguments_are_told_with_their_position() {
        let cases = [
            ("{", "EOF"),
            ("", "not a JSON object"),
            ("null", "not a JSON object"),
            ("[]", "not a JSON object"),
            (r#"{"cmd":["ls"]}"#, "invalid type"),
            (r#"{"cmd":"a","cmd":"b"}"#, "stands twice"),
            (r#"{"cmd":"a","x":{"k":1,"k":2}}"#, "stands twice"),
            (r#"{"cmd":"a","shell":"zsh"}"#, "unknown field `shell`"),
            (r#"{"command":"ls"}"#, "unknown field"),
        ];
        for (text, want) in cases {
            let payload = ToolPayload::Json(text.into());
            let failure = parse::<Args>("exec_command", &payload, r#"{"cmd":"ls"}"#).unwrap_err();
            assert!(failure.text.contains(want), "{text}: {}", failure.text);
            assert!(failure.text.contains("received:"), "{text}");
        }
        let long = ToolPayload::Json("x".repeat(10_000_000));
        let failure = parse::<Args>("t", &long, "{}").unwrap_err();
        assert!(failure.text.len() < 300, "{}", failure.text.len());
        let ok = ToolPayload::Json(r#"{"cmd":"a\u0000b"}"#.into());
        assert!(parse::<Args>("t", &ok, "{}").is_ok(), "NUL is the policy's to refuse");
    }
}
