//! A file as lines of bytes, each with the ending it has.
//!
//! Only `\n` ends a line. A lone CR is an ordinary byte, as it is for git, so that whatever the file
//! holds comes out again unchanged.

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Lf,
    CrLf,
    /// The last line of a file without a final newline.
    None,
}

impl Ending {
    pub(super) fn bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::CrLf => b"\r\n",
            Self::None => b"",
        }
    }
}

const BOM: &[u8] = &[0xEF, 0xBB, 0xBF];

/// A file split into lines. A byte order mark is kept apart, so that the first line is an ordinary
/// line. Only where lines end is kept, four bytes a line: a file of nothing but newlines is a file
/// too.
pub(super) struct Text<'a> {
    pub(super) bom: &'a [u8],
    /// The file without its mark.
    bytes: &'a [u8],
    /// Where each line ends, its ending included.
    ends: Vec<u32>,
}

impl<'a> Text<'a> {
    /// `bytes` has at most [`super::MAX_FILE_BYTES`], so that positions fit.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let (bom, bytes) = match bytes.strip_prefix(BOM) {
            Some(rest) => (BOM, rest),
            None => (&b""[..], bytes),
        };
        let mut ends: Vec<u32> = Vec::new();
        let mut end = 0usize;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            end += line.len();
            ends.push(end as u32);
        }
        Self { bom, bytes, ends }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The line with its ending; empty beyond the end.
    pub(super) fn raw(&self, index: usize) -> &'a [u8] {
        let start = match index.checked_sub(1) {
            Some(above) => self.ends.get(above).copied(),
            None => Some(0),
        };
        let range = start.zip(self.ends.get(index).copied());
        range.and_then(|(from, to)| self.bytes.get(from as usize..to as usize)).unwrap_or(b"")
    }

    /// The line without its ending.
    pub(super) fn body(&self, index: usize) -> &'a [u8] {
        split_ending(self.raw(index)).0
    }

    /// All lines without their endings.
    pub(super) fn bodies(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator {
        (0..self.len()).map(|index| self.body(index))
    }

    pub(super) fn ending(&self, index: usize) -> Ending {
        split_ending(self.raw(index)).1
    }

    /// Whether the file has content but no newline at its end.
    pub(super) fn lacks_final_newline(&self) -> bool {
        self.bytes.last().is_some_and(|byte| *byte != b'\n')
    }

    /// The ending a line gets that is put in before line `index`: that of the line above, else of
    /// the line at that place, else the first one the file has.
    pub(super) fn neighbour_ending(&self, index: usize) -> Option<Ending> {
        let known = |ending: Ending| (ending != Ending::None).then_some(ending);
        let above = index.checked_sub(1).and_then(|above| known(self.ending(above)));
        above.or_else(|| known(self.ending(index))).or_else(|| known(self.ending(0)))
    }
}

fn split_ending(raw: &[u8]) -> (&[u8], Ending) {
    if let Some(body) = raw.strip_suffix(b"\r\n") {
        (body, Ending::CrLf)
    } else if let Some(body) = raw.strip_suffix(b"\n") {
        (body, Ending::Lf)
    } else {
        (raw, Ending::None)
    }
}

/// Why a file that isn't plain text can't be matched against a patch; `None` for the usual files.
/// Other encodings that keep ASCII as it is (Latin-1, GBK) pass: their bytes are carried along.
pub(super) fn wide_encoding(bytes: &[u8]) -> Option<&'static str> {
    let starts = |mark: &[u8]| bytes.starts_with(mark);
    if starts(&[0xFF, 0xFE, 0, 0]) || starts(&[0, 0, 0xFE, 0xFF]) {
        return Some("UTF-32");
    }
    if starts(&[0xFF, 0xFE]) || starts(&[0xFE, 0xFF]) {
        return Some("UTF-16");
    }
    // Without a mark: ASCII text in UTF-16 has a NUL at every second place.
    let head = bytes.get(..bytes.len().min(512)).unwrap_or(bytes);
    let nul_at = |parity: usize| {
        head.iter().skip(parity).step_by(2).filter(|byte| **byte == 0).count() * 10
            >= head.len() / 2 * 9
    };
    (head.len() >= 8 && (nul_at(0) != nul_at(1))).then_some("UTF-16 (without a mark)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_lines_are_the_file() {
        for bytes in [&b""[..], b"\n", b"a", b"a\r\nb\rc\n\n", b"\xEF\xBB\xBFx\ny"] {
            let text = Text::new(bytes);
            let mut joined = text.bom.to_vec();
            (0..text.len()).for_each(|index| joined.extend(text.raw(index)));
            assert_eq!(joined, bytes);
            assert_eq!(text.raw(text.len()), b"");
        }
    }

    #[test]
    fn utf16_is_seen_with_and_without_its_mark() {
        let wide: Vec<u8> = "hello there".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(wide_encoding(&wide).is_some());
        assert_eq!(wide_encoding(b"\xFF\xFEh\0"), Some("UTF-16"));
        assert_eq!(wide_encoding(b"plain text, nothing else"), None);
        assert_eq!(wide_encoding(&[0; 64]), None);
    }
}
