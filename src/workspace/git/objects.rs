//! Reading objects: loose ones, packed ones, and those of alternates.
//!
//! Why not `git cat-file`: in a partial clone a missing object makes git fetch it, and so run the
//! helpers that the repository configures. Here a missing object is simply missing. The packs are
//! opened when the start is captured and held open, so that a command which removes or repacks
//! them cannot take the start away. Every object is checked against its id after reading.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use super::pack::Pack;
use super::{GitPlace, ObjectFormat, Oid, read_bounded};

/// More packs than a tended repository has; each costs two descriptors.
const MAX_PACKS: usize = 200;
const MAX_STORES: usize = 16;
/// How often packs are looked for anew when an object is missing.
const MAX_LATE_LOOKS: usize = 20;

#[derive(Debug, Error)]
pub(crate) enum ObjectError {
    #[error("object {0} is not in the repository")]
    Missing(Oid),
    #[error("object {0} is larger than the limit of {1} bytes")]
    TooLarge(Oid, u64),
    #[error("object {0} is damaged: {1}")]
    Damaged(Oid, &'static str),
    #[error("object {0} cannot be read: {1}")]
    Io(Oid, io::Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Commit,
    Tree,
    Blob,
    Tag,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
            Self::Tag => "tag",
        }
    }

    fn of(name: &[u8]) -> Option<Self> {
        [Self::Commit, Self::Tree, Self::Blob, Self::Tag]
            .into_iter()
            .find(|kind| kind.name().as_bytes() == name)
    }
}

#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) bytes: Vec<u8>,
}

/// The object stores of a repository, opened once.
#[derive(Debug)]
pub(crate) struct Objects {
    format: ObjectFormat,
    folders: Vec<PathBuf>,
    packs: Vec<Pack>,
    /// Packs that were not there at first: a command may have packed what was loose.
    late: Mutex<Vec<Pack>>,
    looks: AtomicUsize,
}

impl Objects {
    pub(crate) fn open(place: &GitPlace) -> Self {
        let mut folders = vec![place.common_dir.join("objects")];
        add_alternates(&mut folders);
        let packs = packs_of(&folders, place.format());
        let (late, looks) = (Mutex::default(), AtomicUsize::new(0));
        Self { format: place.format(), folders, packs, late, looks }
    }

    /// Read one object whose content is at most `limit` bytes.
    pub(crate) fn read(&self, oid: &Oid, limit: u64) -> Result<Object, ObjectError> {
        let found = match read_packed(&self.packs, oid, limit)? {
            Some(object) => Ok(object),
            None => self.read_loose(oid, limit),
        };
        let object = match found {
            Err(ObjectError::Missing(_)) => {
                self.read_late(oid, limit)?.ok_or(ObjectError::Missing(*oid))?
            }
            found => found?,
        };
        if self.format.id_of(object.kind.name(), &object.bytes) != *oid {
            return Err(ObjectError::Damaged(*oid, "its content does not have this id"));
        }
        Ok(object)
    }

    fn read_late(&self, oid: &Oid, limit: u64) -> Result<Option<Object>, ObjectError> {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = read_packed(&late, oid, limit)? {
            return Ok(Some(object));
        }
        if self.looks.fetch_add(1, Ordering::Relaxed) >= MAX_LATE_LOOKS {
            return Ok(None);
        }
        *late = packs_of(&self.folders, self.format);
        read_packed(&late, oid, limit)
    }

    fn read_loose(&self, oid: &Oid, limit: u64) -> Result<Object, ObjectError> {
        let hex = oid.hex();
        let (fan, rest) = hex.split_at(2);
        for folder in &self.folders {
            match std::fs::File::open(folder.join(fan).join(rest)) {
                Ok(file) => return inflate_loose(file, oid, limit),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(ObjectError::Io(*oid, error)),
            }
        }
        Err(ObjectError::Missing(*oid))
    }
}

fn read_packed(packs: &[Pack], oid: &Oid, limit: u64) -> Result<Option<Object>, ObjectError> {
    let mut failed = None;
    for pack in packs {
        match pack.read(oid, limit) {
            Ok(Some(object)) => return Ok(Some(object)),
            Ok(None) => {}
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(None), Err)
}

fn packs_of(folders: &[PathBuf], format: ObjectFormat) -> Vec<Pack> {
    let mut packs = Vec::new();
    for folder in folders {
        open_packs(&folder.join("pack"), format, &mut packs);
    }
    packs
}

fn inflate_loose(file: std::fs::File, oid: &Oid, limit: u64) -> Result<Object, ObjectError> {
    const HEADER: u64 = 64;
    let damaged = |why| ObjectError::Damaged(*oid, why);
    let reader = flate2::read::ZlibDecoder::new(file);
    let mut bytes = Vec::new();
    reader
        .take(limit.saturating_add(HEADER))
        .read_to_end(&mut bytes)
        .map_err(|error| ObjectError::Io(*oid, error))?;
    let (kind, size, at) = loose_header(&bytes).map_err(damaged)?;
    if size > limit {
        return Err(ObjectError::TooLarge(*oid, limit));
    }
    bytes.drain(..at);
    if bytes.len() as u64 != size {
        return Err(damaged("its size is wrong"));
    }
    Ok(Object { kind, bytes })
}

/// Kind and size that a loose object begins with, and where its content does.
fn loose_header(bytes: &[u8]) -> Result<(Kind, u64, usize), &'static str> {
    let nul = bytes.iter().position(|byte| *byte == 0).ok_or("no header")?;
    let header = bytes.get(..nul).unwrap_or_default();
    let space = header.iter().position(|byte| *byte == b' ').ok_or("no header")?;
    let (kind, size) = header.split_at(space);
    let kind = Kind::of(kind).ok_or("an unknown kind")?;
    let size = std::str::from_utf8(size.get(1..).unwrap_or_default()).ok();
    let size = size.and_then(|text| text.parse().ok()).ok_or("no size")?;
    Ok((kind, size, nul + 1))
}

/// The kind of a whole loose object, inflated, and where its content begins.
pub(super) fn split_loose(bytes: &[u8]) -> Option<(Kind, usize)> {
    let (kind, size, at) = loose_header(bytes).ok()?;
    (bytes.len() as u64 == size.checked_add(at as u64)?).then_some((kind, at))
}

fn open_packs(folder: &Path, format: ObjectFormat, packs: &mut Vec<Pack>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut names: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "idx"))
        .collect();
    names.sort();
    let room = MAX_PACKS.saturating_sub(packs.len());
    packs.extend(names.iter().take(room).filter_map(|path| Pack::open(path, format).ok()));
}

/// Other repositories whose objects this one borrows, theirs in turn included.
fn add_alternates(folders: &mut Vec<PathBuf>) {
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        let Ok(text) = read_bounded(&folder.join("info/alternates"), 1 << 20) else { continue };
        for line in text.split(|byte| *byte == b'\n') {
            if line.is_empty() || line.starts_with(b"#") || folders.len() >= MAX_STORES {
                continue;
            }
            let path = folder.join(Path::new(std::ffi::OsStr::from_bytes(line)));
            if !folders.contains(&path) {
                folders.push(path);
            }
        }
    }
}
