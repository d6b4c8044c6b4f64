//! The form of one line: the envelope around a record, and the hash that ties it to the line before.

use super::cut::{char_ceil, char_floor};
use super::error::RolloutError;
use super::mask::Masker;
use super::record::Record;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::Write as _;

/// The format this version writes, and the newest it reads.
pub const VERSION: u64 = 1;

/// `prev` of the first line.
pub const ZERO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// No line is longer: the writer cuts long texts, the reader passes over longer lines.
pub const MAX_LINE: usize = 16 << 20;

/// A text inside a record that would be over [`MAX_LINE`] keeps this much of its head and its tail.
const KEPT_OF_A_LONG_TEXT: usize = 128 << 10;

/// The JSON reader gives up at 128 levels; what a provider sent may be nested as deep before it is
/// put into a record.
const MAX_DEPTH: usize = 100;

/// Encodes one record as a line with its newline, masked.
pub(super) fn encode(
    record: &Record,
    seq: u64,
    ts: &str,
    prev: &str,
    masker: &Masker,
) -> Result<Vec<u8>, RolloutError> {
    let failed = |error: serde_json::Error| RolloutError::Encode { cause: error.to_string() };
    let mut value = serde_json::to_value(record).map_err(failed)?;
    masker.mask_value(&mut value);
    flatten_depths(&mut value, MAX_DEPTH);
    let mut line = envelope(&value, seq, ts, prev).map_err(failed)?;
    if line.len() > MAX_LINE {
        shorten_texts(&mut value);
        line = envelope(&value, seq, ts, prev).map_err(failed)?;
    }
    if line.len() > MAX_LINE {
        return Err(RolloutError::TooLarge { bytes: line.len(), cap: MAX_LINE });
    }
    Ok(line)
}

fn envelope(value: &Value, seq: u64, ts: &str, prev: &str) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = Vec::with_capacity(512);
    // Writing into a Vec cannot fail.
    let _ = write!(line, "{{\"v\":{VERSION},\"seq\":{seq},\"ts\":\"{ts}\",");
    let at = line.len();
    serde_json::to_writer(&mut line, value)?;
    // The record's own braces give way to those of the line.
    line.remove(at);
    line.pop();
    let _ = write!(line, ",\"prev\":\"{prev}\"}}");
    line.push(b'\n');
    Ok(line)
}

/// What lies deeper becomes its JSON as a text, because a line that cannot be read back is lost.
fn flatten_depths(value: &mut Value, left: usize) {
    match value {
        Value::Array(_) | Value::Object(_) if left == 0 => {
            *value = Value::String(value.to_string())
        }
        Value::Array(values) => values.iter_mut().for_each(|inner| flatten_depths(inner, left - 1)),
        Value::Object(map) => map.values_mut().for_each(|inner| flatten_depths(inner, left - 1)),
        _ => {}
    }
}

fn shorten_texts(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > 2 * KEPT_OF_A_LONG_TEXT => {
            let head = char_floor(text, KEPT_OF_A_LONG_TEXT);
            let tail = char_ceil(text, text.len() - KEPT_OF_A_LONG_TEXT);
            let cut = tail - head;
            *text = format!(
                "{}\n[… {cut} bytes left out of the record …]\n{}",
                &text[..head],
                &text[tail..]
            );
        }
        Value::Array(values) => values.iter_mut().for_each(shorten_texts),
        Value::Object(map) => map.values_mut().for_each(shorten_texts),
        _ => {}
    }
}

/// SHA-256 of a line without its newline, in hex.
pub(super) fn hash(line: &[u8]) -> String {
    let digest = Sha256::digest(line);
    digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// What stands on every line, whatever its type.
#[derive(Deserialize)]
pub(super) struct Head {
    pub v: u64,
    #[serde(default)]
    pub seq: u64,
    #[serde(default)]
    pub ts: String,
    #[serde(default)]
    pub prev: String,
}
