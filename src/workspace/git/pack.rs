//! One pack: its index is searched on disk, its objects are inflated, their deltas applied.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::objects::{Kind, Object, ObjectError};
use super::{ObjectFormat, Oid};

/// Git itself makes chains of at most 4,095.
const MAX_CHAIN: usize = 4096;

#[derive(Debug)]
pub(crate) struct Pack {
    index: File,
    data: File,
    format: ObjectFormat,
    fanout: Vec<u32>,
}

/// What stands at one place of the pack.
enum Part {
    Whole(Kind, Vec<u8>),
    DeltaAt(u64, Vec<u8>),
    DeltaOf(Oid, Vec<u8>),
}

impl Pack {
    /// Open `….idx` and the pack beside it. Only version 2 of the index is read; every git since
    /// 2007 writes it.
    pub(crate) fn open(index_path: &Path, format: ObjectFormat) -> io::Result<Self> {
        let index = File::open(index_path)?;
        let data = File::open(index_path.with_extension("pack"))?;
        let mut head = [0; 8 + 1024];
        index.read_exact_at(&mut head, 0)?;
        let (magic, fanout) = head.split_at(8);
        if magic != b"\xfftOc\0\0\0\x02" {
            return Err(io::Error::other("not a pack index of version 2"));
        }
        let fanout: Vec<u32> = fanout.chunks_exact(4).map(big_endian).collect();
        if !fanout.is_sorted() {
            return Err(io::Error::other("a damaged pack index"));
        }
        Ok(Self { index, data, format, fanout })
    }

    /// Read an object, or `None` if it is not in this pack. A pack on disk holds the bases of all
    /// its deltas, so one that is missing is damage.
    pub(crate) fn read(&self, oid: &Oid, limit: u64) -> Result<Option<Object>, ObjectError> {
        let io = |error| ObjectError::Io(*oid, error);
        let Some(mut offset) = self.find(oid).map_err(io)? else { return Ok(None) };
        let mut deltas = Vec::new();
        let mut held: u64 = 0;
        let (kind, mut bytes) = loop {
            let part = self.part(offset, limit, oid)?;
            let delta = match part {
                Part::Whole(kind, bytes) => break (kind, bytes),
                Part::DeltaAt(base, delta) => {
                    offset = base;
                    delta
                }
                Part::DeltaOf(base, delta) => {
                    let found = self.find(&base).map_err(io)?;
                    offset = found.ok_or(ObjectError::Missing(base))?;
                    delta
                }
            };
            held += delta.len() as u64;
            deltas.push(delta);
            if deltas.len() > MAX_CHAIN || held > limit.saturating_mul(4) {
                return Err(ObjectError::Damaged(*oid, "its chain of deltas is too long"));
            }
        };
        while let Some(delta) = deltas.pop() {
            bytes = apply_delta(&bytes, &delta, limit)
                .ok_or(ObjectError::Damaged(*oid, "a delta does not apply"))?;
        }
        Ok(Some(Object { kind, bytes }))
    }

    /// Where the object lies in the pack: a binary search among the ids that begin alike.
    fn find(&self, oid: &Oid) -> io::Result<Option<u64>> {
        let id = oid.as_bytes();
        let width = self.format.width();
        let Some(first) = id.first().filter(|_| id.len() == width) else { return Ok(None) };
        let first = usize::from(*first);
        let at = |bucket: usize| self.fanout.get(bucket).copied().unwrap_or(0);
        let mut low = if first == 0 { 0 } else { u64::from(at(first - 1)) };
        let mut high = u64::from(at(first));
        let mut name = vec![0; width];
        while low < high {
            let middle = low + (high - low) / 2;
            self.index.read_exact_at(&mut name, 8 + 1024 + middle * width as u64)?;
            match name.as_slice().cmp(id) {
                std::cmp::Ordering::Equal => return self.offset(middle).map(Some),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    fn offset(&self, position: u64) -> io::Result<u64> {
        let count = u64::from(self.fanout.last().copied().unwrap_or(0));
        let small = 8 + 1024 + count * (self.format.width() as u64 + 4);
        let mut word = [0; 4];
        self.index.read_exact_at(&mut word, small + position * 4)?;
        let value = u32::from_be_bytes(word);
        if value & 0x8000_0000 == 0 {
            return Ok(u64::from(value));
        }
        let mut long = [0; 8];
        let large = small + count * 4 + u64::from(value & 0x7fff_ffff) * 8;
        self.index.read_exact_at(&mut long, large)?;
        Ok(u64::from_be_bytes(long))
    }

    fn part(&self, offset: u64, limit: u64, oid: &Oid) -> Result<Part, ObjectError> {
        let io = |error| ObjectError::Io(*oid, error);
        let damaged = |why| ObjectError::Damaged(*oid, why);
        let mut reader = io::BufReader::new(At { file: &self.data, at: offset });
        let mut byte = read_byte(&mut reader).map_err(io)?;
        let code = byte >> 4 & 7;
        let mut size = u64::from(byte & 15);
        let mut shift = 4;
        while byte & 0x80 != 0 {
            byte = read_byte(&mut reader).map_err(io)?;
            let more = u64::from(byte & 0x7f);
            size |= more.checked_shl(shift).ok_or(damaged("its size overflows"))?;
            shift += 7;
        }
        if size > limit {
            return Err(ObjectError::TooLarge(*oid, limit));
        }
        let kind = match code {
            1 => Kind::Commit,
            2 => Kind::Tree,
            3 => Kind::Blob,
            4 => Kind::Tag,
            6 => {
                let back = read_back(&mut reader).map_err(io)?;
                let base = offset.checked_sub(back).filter(|base| *base < offset);
                let base = base.ok_or(damaged("a delta's base lies outside the pack"))?;
                return Ok(Part::DeltaAt(base, inflate(reader, size).map_err(io)?));
            }
            7 => {
                let mut raw = vec![0; self.format.width()];
                reader.read_exact(&mut raw).map_err(io)?;
                let base = Oid::from_bytes(&raw).ok_or(damaged("a delta's base"))?;
                return Ok(Part::DeltaOf(base, inflate(reader, size).map_err(io)?));
            }
            _ => return Err(damaged("an unknown kind")),
        };
        Ok(Part::Whole(kind, inflate(reader, size).map_err(io)?))
    }
}

/// Reads a file from a place on, without a shared position.
struct At<'a> {
    file: &'a File,
    at: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

fn big_endian(word: &[u8]) -> u32 {
    word.iter().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn read_byte(reader: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    reader.read_exact(&mut byte)?;
    Ok(byte[0])
}

/// How far back the base of a delta lies.
fn read_back(reader: &mut impl Read) -> io::Result<u64> {
    let mut byte = read_byte(reader)?;
    let mut value = u64::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = read_byte(reader)?;
        value = value
            .checked_add(1)
            .and_then(|value| value.checked_mul(128))
            .ok_or_else(|| io::Error::other("an offset overflows"))?
            | u64::from(byte & 0x7f);
    }
    Ok(value)
}

fn inflate(reader: impl io::BufRead, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(1 << 24)).unwrap_or(0));
    let decoder = flate2::bufread::ZlibDecoder::new(reader);
    decoder.take(size.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == size { Ok(bytes) } else { Err(io::Error::other("a wrong size")) }
}

/// Apply one delta. `None` if it does not fit its base or makes more than `limit` bytes.
fn apply_delta(base: &[u8], delta: &[u8], limit: u64) -> Option<Vec<u8>> {
    let mut at = 0;
    let mut next = || {
        let byte = delta.get(at).copied();
        at += 1;
        byte
    };
    let base_size = varint(&mut next)?;
    let size = varint(&mut next)?;
    if base_size != base.len() as u64 || size > limit {
        return None;
    }
    let size = usize::try_from(size).ok()?;
    let mut result = Vec::with_capacity(size);
    while at < delta.len() {
        let code = *delta.get(at)?;
        at += 1;
        if code & 0x80 == 0 {
            let end = at.checked_add(usize::from(code)).filter(|_| code != 0)?;
            result.extend_from_slice(delta.get(at..end)?);
            at = end;
        } else {
            let mut field = |bits: std::ops::Range<u32>| -> Option<usize> {
                let mut value = 0;
                for (place, bit) in bits.enumerate() {
                    if code & (1 << bit) != 0 {
                        value |= usize::from(*delta.get(at)?) << (8 * place);
                        at += 1;
                    }
                }
                Some(value)
            };
            let start = field(0..4)?;
            let count = field(4..7)?;
            let count = if count == 0 { 0x10000 } else { count };
            result.extend_from_slice(base.get(start..start.checked_add(count)?)?);
        }
        if result.len() > size {
            return None;
        }
    }
    (result.len() == size).then_some(result)
}

fn varint(next: &mut impl FnMut() -> Option<u8>) -> Option<u64> {
    let mut value = 0_u64;
    let mut shift = 0_u32;
    loop {
        let byte = next()?;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_copy_insert_and_refuse_what_does_not_fit() {
        let base = b"hello world";
        // Copy 5 from 0, insert 2, copy 5 from 6.
        let delta = [11, 12, 0x90, 5, 2, b',', b' ', 0x91, 6, 5];
        assert_eq!(apply_delta(base, &delta, 100).expect("applies"), b"hello, world");
        assert!(apply_delta(b"short", &delta, 100).is_none());
        assert!(apply_delta(base, &delta, 5).is_none());
        assert!(apply_delta(base, &[11, 3, 0x91, 10, 3], 100).is_none());
        assert!(apply_delta(base, &[11, 1, 0], 100).is_none());
        assert!(apply_delta(base, &[], 100).is_none());
    }
}
