//! Git's base 85: how bytes stand in a binary patch.
//!
//! Each line begins with a letter for its count of bytes (`A` to `Z` for 1 to 26, `a` to `z` for
//! 27 to 52); every four bytes are five digits, the last group filled up with zeros.

const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

const LINE: usize = 52;

/// Appends `data` as lines.
pub(super) fn encode(data: &[u8], out: &mut Vec<u8>) {
    out.reserve(data.len() / 4 * 5 + data.len() / LINE * 2 + 16);
    for line in data.chunks(LINE) {
        let count = line.len() as u8;
        out.push(if count <= 26 { b'A' + count - 1 } else { b'a' + count - 27 });
        for group in line.chunks(4) {
            let mut word = 0u32;
            for index in 0..4 {
                word = word << 8 | u32::from(group.get(index).copied().unwrap_or(0));
            }
            let mut digits = [0u8; 5];
            for slot in digits.iter_mut().rev() {
                *slot = DIGITS.get((word % 85) as usize).copied().unwrap_or(b'0');
                word /= 85;
            }
            out.extend_from_slice(&digits);
        }
        out.push(b'\n');
    }
}

/// Reads one line, without its newline.
pub(super) fn decode_line(line: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (&letter, digits) = line.split_first()?;
    let count = match letter {
        b'A'..=b'Z' => usize::from(letter - b'A') + 1,
        b'a'..=b'z' => usize::from(letter - b'a') + 27,
        _ => return None,
    };
    if digits.len() != count.div_ceil(4) * 5 {
        return None;
    }
    let mut bytes = Vec::with_capacity(LINE);
    for group in digits.chunks(5) {
        let mut word = 0u32;
        for digit in group {
            let value = DIGITS.iter().position(|known| known == digit)? as u32;
            word = word.checked_mul(85)?.checked_add(value)?;
        }
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(bytes.get(..count)?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_string_comes_back(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut text = Vec::new();
            encode(&data, &mut text);
            let mut back = Vec::new();
            for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                prop_assert!(decode_line(line, &mut back).is_some());
            }
            prop_assert_eq!(back, data);
        }

        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode_line(&line, &mut Vec::new());
        }
    }
}
