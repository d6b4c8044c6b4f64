//! The forms in which a secret is likely to be printed.

use super::words::not_maskable;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Values beyond this are only taken line by line and as wrapped base64: a file of keys, not a token.
const MAX_WHOLE: usize = 16 << 10;

/// A text inside a secret that is JSON counts as a secret from this length on; shorter ones are
/// mostly its labels.
const MIN_JSON_TEXT: usize = 8;

/// Bytes per line of base64 as tools wrap it: 76 columns, and 64 in PEM files.
const WRAPS: [usize; 2] = [57, 48];

/// The shortest run of base64 that stands for enough of a secret to be masked.
const MIN_BASE64: usize = 6;

/// Adds every form of a secret.
pub(super) fn collect(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    whole(value, forms);
    whole(value.trim_ascii(), forms);
    for line in value.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if not_maskable(line).is_none() {
            whole(line, forms);
        }
    }
    for width in WRAPS {
        for chunk in value.chunks(width) {
            add(forms, base64_at(chunk, 0, STANDARD));
        }
    }
    if let Ok(json @ (Value::Object(_) | Value::Array(_))) = serde_json::from_slice(value) {
        json_texts(&json, forms);
    }
}

fn json_texts(value: &Value, forms: &mut BTreeSet<Vec<u8>>) {
    match value {
        Value::String(text) => {
            let bytes = text.as_bytes();
            if text.chars().count() >= MIN_JSON_TEXT && not_maskable(bytes).is_none() {
                whole(bytes, forms);
                for line in bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
                    if not_maskable(line).is_none() {
                        whole(line, forms);
                    }
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|inner| json_texts(inner, forms)),
        Value::Object(map) => map.values().for_each(|inner| json_texts(inner, forms)),
        _ => {}
    }
}

/// One value as it stands and in all its encodings.
fn whole(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    if not_maskable(value).is_some() {
        return;
    }
    forms.insert(value.to_vec());
    if value.len() > MAX_WHOLE {
        return;
    }
    if let Ok(text) = std::str::from_utf8(value) {
        json_escapes(text, forms);
    }
    for alphabet in [STANDARD, URL_SAFE] {
        for shift in 0..3 {
            add(forms, base64_at(value, shift, alphabet));
        }
    }
    percent_encodings(value, forms);
    for digits in [b"0123456789abcdef", b"0123456789ABCDEF"] {
        let digit = |nibble: u8| digits[usize::from(nibble & 15)];
        let hex = value.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect();
        add(forms, hex);
    }
}

fn add(forms: &mut BTreeSet<Vec<u8>>, form: Vec<u8>) {
    if form.len() >= MIN_BASE64 {
        forms.insert(form);
    }
}

/// As the inside of a JSON text: plain, with slashes escaped, all in ASCII; each once more, because
/// tool arguments are JSON inside JSON.
fn json_escapes(text: &str, forms: &mut BTreeSet<Vec<u8>>) {
    let plain = json_escaped(text);
    let slashes = plain.replace('/', "\\/");
    let ascii = ascii_only(&plain);
    for once in [plain, slashes, ascii] {
        forms.insert(json_escaped(&once).into_bytes());
        forms.insert(once.into_bytes());
    }
}

fn json_escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

fn ascii_only(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    let mut units = [0; 2];
    for character in text.chars() {
        if character.is_ascii() {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut units) {
                // Writing into a String cannot fail.
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}

/// What the common encoders leave as it is, from the strictest to the loosest.
const LEFT_BY_ENCODERS: [&[u8]; 4] = [b"-._~", b"-._~!'()*", b"-._*", b"-._~!'()*;/?:@&=+$,#"];

fn percent_encodings(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    for left in LEFT_BY_ENCODERS {
        for upper in [true, false] {
            for space in [&b"%20"[..], b"+"] {
                add(forms, percent_encoded(value, left, upper, space));
            }
        }
    }
}

fn percent_encoded(value: &[u8], left: &[u8], upper: bool, space: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(value.len() * 3);
    for byte in value {
        match byte {
            b' ' => encoded.extend_from_slice(space),
            byte if byte.is_ascii_alphanumeric() || left.contains(byte) => encoded.push(*byte),
            byte if upper => encoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            byte => encoded.extend_from_slice(format!("%{byte:02x}").as_bytes()),
        }
    }
    encoded
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The characters of base64 that depend on nothing but `value`, when `shift` bytes stand before it
/// in the encoded text.
fn base64_at(value: &[u8], shift: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bit = |index: usize| -> usize {
        let byte = value.get(index / 8).copied().unwrap_or(0);
        usize::from(byte >> (7 - index % 8) & 1)
    };
    // The first character whose six bits all lie in `value`, and the bit of `value` it begins at.
    let first = (shift * 8).div_ceil(6);
    let start = first * 6 - shift * 8;
    let count = (value.len() * 8).saturating_sub(start) / 6;
    (0..count)
        .map(|index| {
            let at = start + index * 6;
            let code = (0..6).fold(0, |code, offset| code << 1 | bit(at + offset));
            alphabet[code & 63]
        })
        .collect()
}
