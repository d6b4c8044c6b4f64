//! Many small loose objects made one pack, for a copy: to make a file costs more than what is in it.
//!
//! Each object is read whole and checked against its id on the way. One that is large, damaged or no
//! object at all is not taken, and goes over as the file that it is.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};

use super::objects::{Kind, split_loose};
use super::oid::checksum;
use super::{ObjectFormat, Oid};
use crate::workspace::parallel::Crew;

/// Fewer than this are copied one by one.
const FEW: usize = 32;
/// Larger ones, as they lie and with their content, are files of their own also in the copy.
const SMALL_FILE: usize = 16 << 10;
const SMALL_CONTENT: usize = 128 << 10;
/// Objects of one pack, which is made in memory.
const MOST: usize = 4096;

/// A loose object: its file, and its id as the file is named.
pub(super) struct Loose {
    pub(super) file: PathBuf,
    pub(super) oid: Oid,
}

/// An object as it stands in a pack.
struct Packed {
    oid: Oid,
    bytes: Vec<u8>,
    crc: u32,
}

/// Writes packs into `folder`, and gives back what they do not hold.
pub(super) fn pack(
    mut loose: Vec<Loose>,
    folder: &Path,
    format: ObjectFormat,
    crew: &Crew<'_>,
) -> io::Result<Vec<Loose>> {
    if loose.len() < FEW {
        return Ok(loose);
    }
    loose.sort_by_key(|one| one.oid);
    let left = Mutex::new(Vec::new());
    while !loose.is_empty() {
        let batch = loose.split_off(loose.len().saturating_sub(MOST));
        let packed = Mutex::new(Vec::with_capacity(batch.len()));
        let work = |bench: &mut Bench, one: &Loose| -> io::Result<()> {
            match bench.take(one, format) {
                Some(object) => locked(&packed).push(object),
                None => locked(&left).push(Loose { file: one.file.clone(), oid: one.oid }),
            }
            Ok(())
        };
        crew.each(&batch, Bench::new, work, |error| error)?;
        let packed = packed.into_inner().unwrap_or_else(PoisonError::into_inner);
        write(packed, folder, format)?;
    }
    Ok(left.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn locked<T>(list: &Mutex<Vec<T>>) -> std::sync::MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one thread works with.
struct Bench {
    file: Vec<u8>,
    content: Vec<u8>,
    inflate: Decompress,
    deflate: Compress,
}

impl Bench {
    fn new() -> Self {
        Self {
            file: vec![0; SMALL_FILE],
            content: Vec::with_capacity(SMALL_CONTENT),
            inflate: Decompress::new(true),
            deflate: Compress::new(Compression::fast(), true),
        }
    }

    fn take(&mut self, one: &Loose, format: ObjectFormat) -> Option<Packed> {
        let mut file = File::open(&one.file).ok()?;
        let mut filled = 0;
        loop {
            match file.read(self.file.get_mut(filled..)?).ok()? {
                0 if filled == SMALL_FILE => return None,
                0 => break,
                read => filled += read,
            }
        }
        self.inflate.reset(true);
        self.content.clear();
        let raw = self.file.get(..filled)?;
        let end = self.inflate.decompress_vec(raw, &mut self.content, FlushDecompress::Finish);
        if !matches!(end, Ok(Status::StreamEnd)) || self.inflate.total_in() != filled as u64 {
            return None;
        }
        let (kind, at) = split_loose(&self.content)?;
        let content = self.content.get(at..)?;
        if format.id_of(kind.name(), content) != one.oid {
            return None;
        }
        let mut bytes = header(kind, content.len());
        // No text grows by more than this.
        bytes.reserve(content.len() + content.len() / 1000 + 64);
        self.deflate.reset();
        let end = self.deflate.compress_vec(content, &mut bytes, FlushCompress::Finish);
        if !matches!(end, Ok(Status::StreamEnd)) {
            return None;
        }
        let mut crc = Crc::new();
        crc.update(&bytes);
        Some(Packed { oid: one.oid, bytes, crc: crc.sum() })
    }
}

/// Kind and length, as they stand in front of an object in a pack.
fn header(kind: Kind, length: usize) -> Vec<u8> {
    let number: u8 = match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let mut bytes = vec![number << 4 | (length & 0xf) as u8];
    let mut rest = length >> 4;
    while rest > 0 {
        if let Some(last) = bytes.last_mut() {
            *last |= 0x80;
        }
        bytes.push((rest & 0x7f) as u8);
        rest >>= 7;
    }
    bytes
}

/// A pack, version 2, with its index, version 2.
fn write(mut objects: Vec<Packed>, folder: &Path, format: ObjectFormat) -> io::Result<()> {
    if objects.is_empty() {
        return Ok(());
    }
    objects.sort_by_key(|object| object.oid);
    let count = u32::try_from(objects.len()).map_err(io::Error::other)?;
    let mut pack = b"PACK\0\0\0\x02".to_vec();
    pack.extend(count.to_be_bytes());
    let mut offsets = Vec::with_capacity(objects.len());
    for object in &objects {
        // What is small stays far below the 2 GiB that four bytes can say.
        offsets.push(u32::try_from(pack.len()).map_err(io::Error::other)?);
        pack.extend(&object.bytes);
    }
    let sum = checksum(format, &pack);
    pack.extend(&sum);
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    for first in 0..=u8::MAX {
        let below = objects.partition_point(|object| object.oid.as_bytes().first() <= Some(&first));
        index.extend((below as u32).to_be_bytes());
    }
    objects.iter().for_each(|object| index.extend(object.oid.as_bytes()));
    objects.iter().for_each(|object| index.extend(object.crc.to_be_bytes()));
    offsets.iter().for_each(|offset| index.extend(offset.to_be_bytes()));
    index.extend(&sum);
    let index_sum = checksum(format, &index);
    index.extend(index_sum);
    let name: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    // The pack first: without it an index means nothing.
    for (end, bytes) in [("pack", pack), ("idx", index)] {
        let path = folder.join(format!("pack-{name}.{end}"));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)?;
        file.write_all(&bytes)?;
    }
    Ok(())
}
