//! Git's index: which files are tracked, and what git last saw of each.
//!
//! Versions 2, 3 and 4 are read, for both hashes, with sparse folders. A split index is not: then
//! the caller is told and treats every file as if nothing were known of it.

use std::path::Path;

use thiserror::Error;

use super::oid::checksum;
use super::{ObjectFormat, Oid, read_bounded};
use crate::workspace::manifest::Stamp;

const LIMIT: u64 = 2 << 30;
const EXTENDED: u16 = 0x4000;
const SKIP_WORKTREE: u16 = 0x4000;
/// Mode of a tracked symbolic link, a submodule, a sparse folder.
pub(crate) const LINK: u32 = 0o120_000;
pub(crate) const GITLINK: u32 = 0o160_000;
pub(crate) const TREE: u32 = 0o040_000;

#[derive(Debug, Error)]
pub(crate) enum IndexError {
    #[error("the index cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("the index is damaged: {0}")]
    Damaged(&'static str),
    #[error("the index has a form that is not read here: {0}")]
    Unsupported(String),
}

/// One tracked path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    start: u32,
    len: u32,
    pub(crate) mode: u32,
    pub(crate) oid: Oid,
    /// The path is in conflict: no single blob stands for it.
    pub(crate) unmerged: bool,
    /// Left out of the work tree by a sparse checkout: being absent is not being deleted.
    pub(crate) skip_worktree: bool,
    seen: Seen,
}

/// What git saw of the file when it last compared it with its blob.
#[derive(Debug, Clone, Copy)]
struct Seen {
    ctime: (u32, u32),
    mtime: (u32, u32),
    ino: u32,
    size: u32,
}

/// The tracked paths below a folder of the repository, by name.
#[derive(Debug, Default)]
pub(crate) struct Index {
    names: Vec<u8>,
    entries: Vec<Entry>,
    /// When the index was written: files changed at that moment or later may differ unseen.
    written: i64,
    /// The tree that the whole index stands for, where git left it noted.
    pub(crate) root_tree: Option<Oid>,
}

impl Index {
    /// Read the index, keeping what lies below `prefix` (empty, or ending in `/`), with the names
    /// cut to be relative to it. No index file means that nothing is tracked yet.
    pub(crate) fn read(
        path: &Path,
        format: ObjectFormat,
        prefix: &[u8],
    ) -> Result<Self, IndexError> {
        let written = match path.metadata() {
            Ok(meta) => modified(&meta),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(error.into()),
        };
        let bytes = read_bounded(path, LIMIT)?;
        let mut index = parse(&bytes, format, prefix)?;
        index.written = written;
        Ok(index)
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn name(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize;
        self.names.get(start..start + entry.len as usize).unwrap_or_default()
    }

    pub(crate) fn position(&self, name: &[u8]) -> Option<usize> {
        self.entries.binary_search_by(|entry| self.name(entry).cmp(name)).ok()
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<&Entry> {
        self.entries.get(self.position(name)?)
    }

    /// Whether anything below the folder `name` is tracked.
    pub(crate) fn has_below(&self, name: &[u8]) -> bool {
        let mut start = name.to_vec();
        start.push(b'/');
        let at = self.entries.partition_point(|entry| self.name(entry) < start.as_slice());
        self.entries.get(at).is_some_and(|entry| self.name(entry).starts_with(&start))
    }

    /// The sparse folder that would hold `name`, if the index keeps one whole.
    pub(crate) fn sparse_folder_of(&self, name: &[u8]) -> Option<(&Entry, usize)> {
        let cuts = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (at, _) in cuts {
            let folder = name.get(..=at)?;
            if let Some(entry) = self.find(folder)
                && entry.mode == TREE
            {
                return Some((entry, at + 1));
            }
        }
        None
    }

    /// Whether the file is certainly what git last compared with the blob: all that git noted is
    /// the same, and it was not changed so late that a further change could hide behind the clock.
    pub(crate) fn is_clean(&self, entry: &Entry, now: &Stamp) -> bool {
        const SLACK: i64 = 20_000_000;
        let seen = &entry.seen;
        let kind = now.mode & 0o170_000;
        let same_kind = match entry.mode {
            LINK => kind == LINK,
            mode => kind == 0o100_000 && (now.mode & 0o100 != 0) == (mode & 0o100 != 0),
        };
        let coarse = seen.mtime.1 == 0 || now.mtime % 1_000_000_000 == 0;
        let late = if coarse {
            now.mtime.div_euclid(1_000_000_000) + 2 >= self.written.div_euclid(1_000_000_000)
        } else {
            now.mtime.saturating_add(SLACK) >= self.written
        };
        same_kind
            && !entry.unmerged
            && !late
            && seen.size == now.size as u32
            && seen.ino == now.ino as u32
            && nanos(seen.mtime) == now.mtime
            && nanos(seen.ctime) == now.ctime
    }
}

fn nanos((seconds, nanos): (u32, u32)) -> i64 {
    i64::from(seconds) * 1_000_000_000 + i64::from(nanos)
}

fn modified(meta: &std::fs::Metadata) -> i64 {
    use std::os::unix::fs::MetadataExt;
    meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec())
}

/// Walks over bytes without ever reading past their end.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], IndexError> {
        let end = self.at.checked_add(count).ok_or(IndexError::Damaged("a length overflows"))?;
        let part = self.bytes.get(self.at..end).ok_or(IndexError::Damaged("it ends too early"))?;
        self.at = end;
        Ok(part)
    }

    fn u32(&mut self) -> Result<u32, IndexError> {
        let part = self.take(4)?;
        Ok(part.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }

    fn u16(&mut self) -> Result<u16, IndexError> {
        let part = self.take(2)?;
        Ok(part.iter().fold(0, |value, byte| value << 8 | u16::from(*byte)))
    }

    fn until_nul(&mut self) -> Result<&'a [u8], IndexError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|byte| *byte == 0);
        let len = len.ok_or(IndexError::Damaged("a name does not end"))?;
        let name = self.take(len)?;
        self.take(1)?;
        Ok(name)
    }

    /// The length that version 4 cuts from the name before: seven bits a byte, each continuation
    /// counting one more.
    fn offset(&mut self) -> Result<usize, IndexError> {
        let mut byte = *self.take(1)?.first().unwrap_or(&0);
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first().unwrap_or(&0);
            value = value
                .checked_add(1)
                .and_then(|value| value.checked_mul(128))
                .ok_or(IndexError::Damaged("a length overflows"))?
                | usize::from(byte & 0x7f);
        }
        Ok(value)
    }
}

fn parse(bytes: &[u8], format: ObjectFormat, prefix: &[u8]) -> Result<Index, IndexError> {
    let body = bytes.len().checked_sub(format.width()).ok_or(IndexError::Damaged("too short"))?;
    let (body, sum) = bytes.split_at(body);
    if sum.iter().any(|byte| *byte != 0) && checksum(format, body) != sum {
        return Err(IndexError::Damaged("its checksum is wrong"));
    }
    let mut cursor = Cursor { bytes: body, at: 0 };
    if cursor.take(4)? != b"DIRC" {
        return Err(IndexError::Damaged("no index header"));
    }
    let version = cursor.u32()?;
    if !(2..=4).contains(&version) {
        return Err(IndexError::Unsupported(format!("version {version}")));
    }
    let count = cursor.u32()?;
    let mut index = Index::default();
    let mut name = Vec::new();
    for _ in 0..count {
        let entry = read_entry(&mut cursor, format, version, &mut name)?;
        keep(&mut index, entry, &name, prefix)?;
    }
    read_extensions(&mut cursor, format, &mut index)?;
    Ok(index)
}

fn read_entry(
    cursor: &mut Cursor<'_>,
    format: ObjectFormat,
    version: u32,
    name: &mut Vec<u8>,
) -> Result<Entry, IndexError> {
    let start = cursor.at;
    let ctime = (cursor.u32()?, cursor.u32()?);
    let mtime = (cursor.u32()?, cursor.u32()?);
    let _dev = cursor.u32()?;
    let ino = cursor.u32()?;
    let mode = cursor.u32()?;
    let _owner = (cursor.u32()?, cursor.u32()?);
    let size = cursor.u32()?;
    let oid = Oid::from_bytes(cursor.take(format.width())?).ok_or(IndexError::Damaged("an id"))?;
    let flags = cursor.u16()?;
    let more = if flags & EXTENDED != 0 && version >= 3 { cursor.u16()? } else { 0 };
    if version == 4 {
        let cut = cursor.offset()?;
        let kept = name.len().checked_sub(cut).ok_or(IndexError::Damaged("a name's prefix"))?;
        name.truncate(kept);
        name.extend_from_slice(cursor.until_nul()?);
    } else {
        name.clear();
        name.extend_from_slice(cursor.until_nul()?);
        // An entry is padded with NULs to a multiple of eight; one of them ended the name.
        let used = cursor.at - start;
        cursor.take(used.next_multiple_of(8) - used)?;
    }
    Ok(Entry {
        start: 0,
        len: 0,
        mode,
        oid,
        unmerged: flags & 0x3000 != 0,
        skip_worktree: more & SKIP_WORKTREE != 0,
        seen: Seen { ctime, mtime, ino, size },
    })
}

/// Add an entry that lies below the prefix; the several stages of a conflict become one.
fn keep(index: &mut Index, mut entry: Entry, name: &[u8], prefix: &[u8]) -> Result<(), IndexError> {
    let Some(name) = name.strip_prefix(prefix).filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    if let Some(last) = index.entries.last() {
        match index.name(last).cmp(name) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal if entry.unmerged => return Ok(()),
            _ => return Err(IndexError::Damaged("its names are not in order")),
        }
    }
    let overflow = IndexError::Damaged("its names are too long");
    entry.start = u32::try_from(index.names.len()).map_err(|_| overflow)?;
    entry.len = u32::try_from(name.len()).map_err(|_| IndexError::Damaged("a name is too long"))?;
    index.names.extend_from_slice(name);
    index.entries.push(entry);
    Ok(())
}

fn read_extensions(
    cursor: &mut Cursor<'_>,
    format: ObjectFormat,
    index: &mut Index,
) -> Result<(), IndexError> {
    while cursor.at < cursor.bytes.len() {
        let name = cursor.take(4)?;
        let size = cursor.u32()? as usize;
        let content = cursor.take(size)?;
        match name {
            b"TREE" => index.root_tree = root_of_cache(content, format),
            b"sdir" => {}
            // A name in lower case is one that a reader must understand.
            name if name.first().is_some_and(u8::is_ascii_lowercase) => {
                return Err(IndexError::Unsupported(name.escape_ascii().to_string()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The cached tree of the whole index: an empty path, the number of entries (-1: not valid), the
/// number of subtrees, the id.
fn root_of_cache(content: &[u8], format: ObjectFormat) -> Option<Oid> {
    let rest = content.strip_prefix(b"\0")?;
    let line_end = rest.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = rest.split_at(line_end);
    if line.starts_with(b"-") {
        return None;
    }
    Oid::from_bytes(rest.get(1..=format.width())?)
}
