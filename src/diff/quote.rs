//! Names in a diff, quoted the way git quotes them.
//!
//! A name with control characters, quotes, backslashes or bytes beyond ASCII stands in double
//! quotes, so that a diff is plain text whatever files are called.

/// `prefix` and `name` as one word for a header line.
pub(super) fn quoted(prefix: &str, name: &[u8]) -> Vec<u8> {
    if !name.iter().any(|byte| needs_quotes(*byte)) {
        return [prefix.as_bytes(), name].concat();
    }
    let mut out = vec![b'"'];
    out.extend_from_slice(prefix.as_bytes());
    for &byte in name {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            11 => out.extend_from_slice(b"\\v"),
            12 => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            byte if needs_quotes(byte) => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            plain => out.push(plain),
        }
    }
    out.push(b'"');
    out
}

fn needs_quotes(byte: u8) -> bool {
    !(0x20..0x7f).contains(&byte) || byte == b'"' || byte == b'\\'
}

/// Reads one word that may be quoted; gives it and what follows. An unquoted word reaches to the
/// end, since names may hold spaces.
pub(super) fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b"\"") else { return Some((text.to_vec(), b"")) };
    let mut name = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (&letter, after) = rest.split_first()?;
                rest = after;
                name.push(match letter {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => letter,
                    b'0'..=b'3' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        digits.iter().try_fold(letter - b'0', |value, digit| {
                            (b'0'..=b'7').contains(digit).then(|| value << 3 | (digit - b'0'))
                        })?
                    }
                    _ => return None,
                });
            }
            plain => name.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_names_stay_plain() {
        assert_eq!(quoted("a/", b"src/my file.rs"), b"a/src/my file.rs");
        assert_eq!(quoted("a/", "é\n".as_bytes()), b"\"a/\\303\\251\\n\"");
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in proptest::collection::vec(any::<u8>(), 1..20)) {
            let word = quoted("b/", &name);
            let (back, rest) = unquoted(&word).unwrap();
            prop_assert_eq!(back, [b"b/", name.as_slice()].concat());
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn nothing_panics(text in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = unquoted(&text);
        }
    }
}
