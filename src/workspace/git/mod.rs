//! Git's own files, read and never obeyed.
//!
//! Everything here reads bytes of a `.git` folder: HEAD, refs, the index, objects. No git program
//! runs, so no hook, filter, monitor or helper that a repository configures can run either, and
//! nothing is ever written: the user's index, objects and refs stay as they are.

pub(crate) mod config;
mod copy;
pub(crate) mod index;
mod make;
pub(crate) mod objects;
mod oid;
mod pack;
mod packing;
mod place;
pub(crate) mod tree;
pub(crate) mod watch;

pub(crate) use copy::copy_repository;
pub use make::{MakeError, make_start};
pub use oid::{ObjectFormat, Oid};
pub(crate) use place::head_of_nested;
pub use place::{GitPlace, Head};

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Read a file of git's, bounded: a file over `limit`, or one that is no regular file, is an error.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len().min(limit)).unwrap_or(0));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("larger than the limit of {limit} bytes")));
    }
    Ok(bytes)
}

/// A hasher for a blob of `size` bytes that comes in pieces.
pub(crate) fn oid_hasher(format: ObjectFormat, size: u64) -> oid::ObjectHasher {
    oid::ObjectHasher::new(format, objects::Kind::Blob.name(), size)
}
