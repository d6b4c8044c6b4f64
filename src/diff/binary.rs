//! Binary files: the whole content of both sides, compressed, so that the diff applies anywhere.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::base85;

/// Whether content is written as binary. Git looks at the first bytes only; a NUL anywhere is
/// treated so here, since tools that read diffs as text stumble over it wherever it is.
pub(super) fn is_binary(content: &[u8]) -> bool {
    content.contains(&0)
}

/// Appends a binary patch with its way back.
pub(super) fn write(before: &[u8], after: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"GIT binary patch\n");
    literal(after, out);
    literal(before, out);
}

fn literal(content: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("literal {}\n", content.len()).as_bytes());
    base85::encode(&deflate(content), out);
    out.push(b'\n');
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory doesn't fail; should it ever, the run's own proof finds the broken hunk.
    let _ = encoder.write_all(content);
    encoder.finish().unwrap_or_default()
}

/// The largest content that is unpacked: a small forged diff may not fill the memory.
const MAX_LITERAL: usize = 2 * 1024 * 1024 * 1024 - 1;

/// The content of a literal that must have `length` bytes.
pub(super) fn inflate(data: &[u8], length: usize) -> Option<Vec<u8>> {
    if length > MAX_LITERAL {
        return None;
    }
    let mut content = Vec::new();
    // One byte more than stated is enough to know that the statement is wrong.
    let limit = (length as u64).checked_add(1)?;
    ZlibDecoder::new(data).take(limit).read_to_end(&mut content).ok()?;
    (content.len() == length).then_some(content)
}
