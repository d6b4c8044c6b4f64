//! Contents of the start that git does not hold, kept in the run's own folder.
//!
//! They are written one after the other into a few large files instead of one file each: a folder
//! without git may hold 100,000 of them. They have no names, so nothing is left behind.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::git::objects::Kind;
use super::git::oid_hasher;
use super::git::{ObjectFormat, Oid};

/// Files up to this size are read whole before it is decided whether they must be kept.
const WHOLE: u64 = 1 << 20;

/// A file larger than this is not hashed: what it holds is then not known.
pub(crate) const HASH_MOST: u64 = 4 << 30;

/// Where one kept content lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptRef {
    pub(crate) part: u32,
    offset: u64,
    pub(crate) len: u64,
    pub(crate) oid: Oid,
}

/// Appends contents to one file of the store.
pub(crate) struct Keeper {
    part: u32,
    format: ObjectFormat,
    out: BufWriter<File>,
    at: u64,
    buffer: Vec<u8>,
}

/// What became of one content.
pub(crate) enum Fate {
    /// It is the blob that git holds.
    SameAs,
    Kept(KeptRef),
    /// Not kept; its id, where it was to be had at no cost.
    TooLarge(Option<Oid>),
}

impl Keeper {
    pub(crate) fn create(store: &Path, part: u32, format: ObjectFormat) -> io::Result<Self> {
        let path = store.join(format!("start-contents.{}.{part}", uuid::Uuid::now_v7().simple()));
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        // The open file is enough: without a name it is gone with this process, however that ends.
        std::fs::remove_file(path)?;
        let out = BufWriter::with_capacity(256 << 10, file);
        Ok(Self { part, format, out, at: 0, buffer: Vec::new() })
    }

    pub(crate) fn format(&self) -> ObjectFormat {
        self.format
    }

    /// Take in a file of `size` bytes, unless it is the blob `known` or would need more than
    /// `room` bytes.
    pub(crate) fn take_file(
        &mut self,
        file: &File,
        size: u64,
        known: Option<&Oid>,
        room: u64,
    ) -> io::Result<Fate> {
        if size <= WHOLE {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.clear();
            let read = file.take(WHOLE + 1).read_to_end(&mut buffer);
            let fate = match read {
                Ok(count) if count as u64 <= WHOLE => self.take_bytes(&buffer, known, room),
                Ok(_) => Err(io::Error::other("it grew while it was read")),
                Err(error) => Err(error),
            };
            self.buffer = buffer;
            return fate;
        }
        if let Some(known) = known.filter(|_| size <= HASH_MOST) {
            let oid = hash_file(file, size, known.format())?;
            if oid.as_ref() == Some(known) {
                return Ok(Fate::SameAs);
            }
        }
        if size > room { Ok(Fate::TooLarge(None)) } else { self.copy(file, size) }
    }

    pub(crate) fn take_bytes(
        &mut self,
        bytes: &[u8],
        known: Option<&Oid>,
        room: u64,
    ) -> io::Result<Fate> {
        let oid = self.format.id_of(Kind::Blob.name(), bytes);
        if known == Some(&oid) {
            return Ok(Fate::SameAs);
        }
        let len = bytes.len() as u64;
        if len > room {
            return Ok(Fate::TooLarge(Some(oid)));
        }
        self.out.write_all(bytes)?;
        Ok(Fate::Kept(self.kept(len, oid)))
    }

    fn copy(&mut self, file: &File, size: u64) -> io::Result<Fate> {
        let mut hasher = oid_hasher(self.format, size);
        let mut buffer = vec![0; 256 << 10];
        let mut at = 0;
        while at < size {
            let count = file.read_at(&mut buffer, at)?;
            let piece = buffer.get(..count).unwrap_or_default();
            if piece.is_empty() || at + count as u64 > size {
                // What was written stays in the file as a gap that nothing points to.
                self.at += at;
                return Err(io::Error::other("it changed while it was read"));
            }
            hasher.update(piece);
            self.out.write_all(piece)?;
            at += count as u64;
        }
        Ok(Fate::Kept(self.kept(size, hasher.finish())))
    }

    fn kept(&mut self, len: u64, oid: Oid) -> KeptRef {
        let kept = KeptRef { part: self.part, offset: self.at, len, oid };
        self.at += len;
        kept
    }

    /// All is written; the file to read from.
    pub(crate) fn finish(self) -> io::Result<File> {
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

/// Read a kept content back, checked against its id.
pub(crate) fn read_kept(parts: &[File], kept: &KeptRef) -> io::Result<Vec<u8>> {
    let damaged = || io::Error::other("the run's store is damaged");
    let file = parts.get(kept.part as usize).ok_or_else(damaged)?;
    let mut bytes = vec![0; usize::try_from(kept.len).map_err(|_| damaged())?];
    file.read_exact_at(&mut bytes, kept.offset)?;
    if kept.oid.format().id_of(Kind::Blob.name(), &bytes) != kept.oid {
        return Err(damaged());
    }
    Ok(bytes)
}

/// The blob id of a file without holding it; `None` if it is not `size` bytes long.
pub(crate) fn hash_file(file: &File, size: u64, format: ObjectFormat) -> io::Result<Option<Oid>> {
    let mut hasher = oid_hasher(format, size);
    let mut buffer = vec![0; 128 << 10];
    let mut at = 0;
    loop {
        let count = file.read_at(&mut buffer, at)?;
        if count == 0 {
            return Ok((at == size).then(|| hasher.finish()));
        }
        at += count as u64;
        if at > size {
            return Ok(None);
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
}
