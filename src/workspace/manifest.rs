//! The manifest: every path of the workspace with what the file system says of it.
//!
//! Two manifests are compared by size, times, inode and mode, without reading any file. The names
//! lie in one buffer, so that 100,000 files cost about ten megabytes and no allocation each.

use rustix::fs::{FileType, Stat};

/// What the file system says of one path. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) size: u64,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    pub(crate) ino: u64,
    pub(crate) mode: u32,
}

impl Stamp {
    /// The fields have other widths on other systems.
    #[allow(clippy::unnecessary_cast)]
    pub(crate) fn of(stat: &Stat) -> Self {
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000) + nanos;
        Self {
            size: stat.st_size as u64,
            mtime: nanos(stat.st_mtime, stat.st_mtime_nsec as i64),
            ctime: nanos(stat.st_ctime, stat.st_ctime_nsec as i64),
            ino: stat.st_ino as u64,
            mode: stat.st_mode as u32,
        }
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode as _)
    }

    pub(crate) fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }

    /// Whether git can hold it: a regular file or a symbolic link.
    pub(crate) fn has_content(&self) -> bool {
        matches!(self.kind(), FileType::RegularFile | FileType::Symlink)
    }

    /// The same as far as it tells of a change. A folder's times and size move with its entries,
    /// which have stamps of their own.
    pub(crate) fn same(&self, other: &Self) -> bool {
        if self.kind() == FileType::Directory && other.kind() == FileType::Directory {
            return self.mode == other.mode;
        }
        self == other
    }
}

/// How many names a file has.
#[allow(clippy::useless_conversion)]
pub(crate) fn links_of(stat: &Stat) -> u64 {
    u64::from(stat.st_nlink)
}

/// What else is known of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u8);

impl Flags {
    pub(crate) const NONE: Self = Self(0);
    /// A folder with nothing in it, which git cannot hold.
    pub(crate) const EMPTY: Self = Self(1);
    /// Lies inside a nested repository: watched, but not part of the diff.
    pub(crate) const NESTED: Self = Self(2);
    /// The top folder of a nested repository.
    pub(crate) const NESTED_TOP: Self = Self(4);
    /// Git may have changed the bytes on their way to the work tree.
    pub(crate) const CONVERTED: Self = Self(8);
    /// Changed so late before the manifest that a further change could show the same times.
    pub(crate) const RACY: Self = Self(16);

    pub(crate) fn has(self, flag: Self) -> bool {
        self.0 & flag.0 == flag.0
    }

    pub(crate) fn with(self, flag: Self) -> Self {
        Self(self.0 | flag.0)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    start: u32,
    len: u32,
    pub(crate) stamp: Stamp,
    pub(crate) flags: Flags,
}

/// Paths in the order of their bytes, relative to the workspace.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    names: Vec<u8>,
    entries: Vec<Entry>,
}

impl Manifest {
    /// Add an entry; the order is made by [`Manifest::sort`]. `false` when the names are full.
    pub(crate) fn push(&mut self, name: &[u8], stamp: Stamp, flags: Flags) -> bool {
        let (Ok(start), Ok(len)) = (u32::try_from(self.names.len()), u32::try_from(name.len()))
        else {
            return false;
        };
        self.names.extend_from_slice(name);
        self.entries.push(Entry { start, len, stamp, flags });
        true
    }

    /// Take in the entries of another, unsorted one. `false` when the names are full.
    pub(crate) fn absorb(&mut self, other: Self) -> bool {
        let Ok(base) = u32::try_from(self.names.len()) else { return false };
        if u32::try_from(self.names.len() + other.names.len()).is_err() {
            return false;
        }
        self.names.extend_from_slice(&other.names);
        let moved =
            other.entries.into_iter().map(|entry| Entry { start: entry.start + base, ..entry });
        self.entries.extend(moved);
        true
    }

    pub(crate) fn sort(&mut self) {
        let names = std::mem::take(&mut self.names);
        let name = |entry: &Entry| {
            let start = entry.start as usize;
            names.get(start..start + entry.len as usize).unwrap_or_default()
        };
        // This sort finds the runs that the parts of a walk, sorted before, make.
        self.entries.sort_by(|left, right| name(left).cmp(name(right)));
        self.names = names;
        self.names.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    /// Without what lies at these paths and below them.
    pub(crate) fn without(&self, gone: &[Vec<u8>]) -> Self {
        let mut kept = Self::default();
        for entry in &self.entries {
            let name = self.name(entry);
            if !gone.iter().any(|top| is_below(name, top)) {
                kept.push(name, entry.stamp, entry.flags);
            }
        }
        kept
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn name(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize;
        self.names.get(start..start + entry.len as usize).unwrap_or_default()
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    pub(crate) fn position(&self, name: &[u8]) -> Option<usize> {
        self.entries.binary_search_by(|entry| self.name(entry).cmp(name)).ok()
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<&Entry> {
        self.entries.get(self.position(name)?)
    }
}

/// Whether a path is, or lies below, another one.
pub(crate) fn is_below(path: &[u8], top: &[u8]) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// One path on which two manifests differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Difference<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) before: Option<&'a Entry>,
    pub(crate) after: Option<&'a Entry>,
}

/// Every path on which two manifests differ, in order.
pub(crate) fn differences<'a>(
    before: &'a Manifest,
    after: &'a Manifest,
) -> impl Iterator<Item = Difference<'a>> {
    let (mut left, mut right) = (0, 0);
    std::iter::from_fn(move || {
        loop {
            let old = before.entries.get(left);
            let new = after.entries.get(right);
            let order = match (old, new) {
                (None, None) => return None,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(old), Some(new)) => before.name(old).cmp(after.name(new)),
            };
            left += usize::from(order.is_le());
            right += usize::from(order.is_ge());
            let old = old.filter(|_| order.is_le());
            let new = new.filter(|_| order.is_ge());
            match (old, new) {
                (Some(old), Some(new)) => {
                    if !same_entry(old, new) {
                        let path = after.name(new);
                        return Some(Difference { path, before: Some(old), after: Some(new) });
                    }
                }
                (Some(old), None) => {
                    let path = before.name(old);
                    return Some(Difference { path, before: Some(old), after: None });
                }
                (_, Some(new)) => {
                    let path = after.name(new);
                    return Some(Difference { path, before: None, after: Some(new) });
                }
                (None, None) => return None,
            }
        }
    })
}

fn same_entry(old: &Entry, new: &Entry) -> bool {
    old.stamp.same(&new.stamp) && old.flags.has(Flags::EMPTY) == new.flags.has(Flags::EMPTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(size: u64) -> Stamp {
        Stamp { size, mtime: 1, ctime: 1, ino: 1, mode: 0o100_644 }
    }

    fn manifest(files: &[(&str, u64)]) -> Manifest {
        let mut manifest = Manifest::default();
        for (name, size) in files {
            assert!(manifest.push(name.as_bytes(), stamp(*size), Flags::NONE));
        }
        manifest.sort();
        manifest
    }

    #[test]
    fn differences_come_in_order_and_leave_out_what_is_the_same() {
        let before = manifest(&[("b", 1), ("a", 1), ("a/c", 1), ("z", 1)]);
        let mut after = manifest(&[("a", 2), ("a/c", 1)]);
        assert!(after.absorb(manifest(&[("c", 1), ("z", 1)])));
        after.sort();
        let found: Vec<_> = differences(&before, &after)
            .map(|found| {
                let path = String::from_utf8_lossy(found.path).into_owned();
                (path, found.before.is_some(), found.after.is_some())
            })
            .collect();
        let want = [("a", true, true), ("b", true, false), ("c", false, true)]
            .map(|(p, b, a)| (p.to_owned(), b, a));
        assert_eq!(found, want);
        assert!(before.find(b"a/c").is_some());
        assert!(before.find(b"a/d").is_none());
    }
}
