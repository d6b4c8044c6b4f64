//! Renames: which deleted file an added one comes from.
//!
//! A diff is right without this, but reviewers read a rename better than a deletion and an
//! addition. Equal contents are found by their id; edited ones by the pieces of content they share,
//! with a bound on the work. Within the bound the result depends on the two trees alone.

use std::collections::{BTreeMap, HashMap};

use super::{FileChange, TreeEntry, blob_id};

/// A deleted and an added file that are one, by their positions in the list of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rename {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Per cent; 100 means equal contents.
    pub(super) similarity: usize,
}

/// Below this share of common content two files are strangers.
const LEAST_SIMILARITY: usize = 50;
/// Larger files are renamed only with equal contents.
const MAX_COMPARED: usize = 4 * 1024 * 1024;
/// Pieces end at a newline or at this length, so that binary files have pieces too.
const PIECE: usize = 64;

/// Finds renames among `changes`. Each file is used once.
pub(super) fn find(changes: &[FileChange], budget: usize) -> Vec<Rename> {
    let mut sources = side(changes, |change| (&change.before, &change.after));
    let mut targets = side(changes, |change| (&change.after, &change.before));
    let mut renames = exact(changes, &mut sources, &mut targets);
    renames.extend(similar(changes, &sources, &targets, budget));
    renames
}

type Entry<'a> = (usize, &'a TreeEntry);

/// The files that are on one side only. Empty files resemble each other and say nothing.
fn side<'a>(
    changes: &'a [FileChange],
    sides: impl Fn(&'a FileChange) -> (&'a Option<TreeEntry>, &'a Option<TreeEntry>),
) -> Vec<Entry<'a>> {
    let entries = changes.iter().enumerate().filter_map(|(index, change)| match sides(change) {
        (Some(entry), None) if !entry.content.is_empty() => Some((index, entry)),
        _ => None,
    });
    entries.collect()
}

fn exact(
    changes: &[FileChange],
    sources: &mut Vec<Entry<'_>>,
    targets: &mut Vec<Entry<'_>>,
) -> Vec<Rename> {
    if sources.is_empty() || targets.is_empty() {
        return Vec::new();
    }
    let mut by_content: HashMap<(String, bool), Vec<usize>> = HashMap::new();
    let key = |entry: &TreeEntry| (blob_id(&entry.content), entry.mode.is_symlink());
    for (index, entry) in sources.iter() {
        by_content.entry(key(entry)).or_default().push(*index);
    }
    let mut renames = Vec::new();
    targets.retain(|(to, entry)| {
        let Some(candidates) = by_content.get_mut(&key(entry)) else { return true };
        let same_name = |from: &usize| file_name(changes, *from) == file_name(changes, *to);
        let best = candidates.iter().position(same_name).unwrap_or(0);
        if candidates.is_empty() {
            return true;
        }
        renames.push(Rename { from: candidates.remove(best), to: *to, similarity: 100 });
        false
    });
    sources.retain(|(from, _)| !renames.iter().any(|rename| rename.from == *from));
    renames
}

fn file_name(changes: &[FileChange], index: usize) -> &[u8] {
    let path = changes.get(index).map_or(&b""[..], |change| &change.path);
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// The best pairs of edited files, the most similar first.
fn similar(
    changes: &[FileChange],
    sources: &[Entry<'_>],
    targets: &[Entry<'_>],
    mut budget: usize,
) -> Vec<Rename> {
    let comparable =
        |entry: &TreeEntry| !entry.mode.is_symlink() && entry.content.len() <= MAX_COMPARED;
    let mut pieces: BTreeMap<usize, Pieces> = BTreeMap::new();
    let mut scored: Vec<(usize, bool, usize, usize)> = Vec::new();
    // Files that kept their name come first, so that a spent budget has found the likeliest.
    for same_name in [true, false] {
        for (from, old) in sources.iter().filter(|(_, entry)| comparable(entry)) {
            for (to, new) in targets.iter().filter(|(_, entry)| comparable(entry)) {
                let (small, large) = (
                    old.content.len().min(new.content.len()),
                    old.content.len().max(new.content.len()),
                );
                let named_alike = file_name(changes, *from) == file_name(changes, *to);
                if named_alike != same_name || small * 100 < large * LEAST_SIMILARITY {
                    continue;
                }
                let cost = large / 32 + 16;
                if cost > budget {
                    continue;
                }
                budget -= cost;
                let a = pieces.entry(*from).or_insert_with(|| Pieces::new(&old.content)).clone();
                let b = pieces.entry(*to).or_insert_with(|| Pieces::new(&new.content));
                let similarity = (a.common(b) * 100 / large).min(99);
                if similarity >= LEAST_SIMILARITY {
                    scored.push((similarity, same_name, *from, *to));
                }
            }
        }
    }
    scored.sort_by_key(|(score, same_name, from, to)| {
        (std::cmp::Reverse(*score), std::cmp::Reverse(*same_name), *to, *from)
    });
    let mut renames: Vec<Rename> = Vec::new();
    let mut used: std::collections::BTreeSet<usize> = std::collections::BTreeSet::new();
    for (similarity, _, from, to) in scored {
        if !used.contains(&from) && !used.contains(&to) {
            used.extend([from, to]);
            renames.push(Rename { from, to, similarity });
        }
    }
    renames
}

/// How many bytes of a file stand in pieces with a given hash.
#[derive(Clone)]
struct Pieces(std::rc::Rc<[(u64, usize)]>);

impl Pieces {
    fn new(content: &[u8]) -> Self {
        let mut pieces: Vec<(u64, usize)> = content
            .split_inclusive(|byte| *byte == b'\n')
            .flat_map(|line| line.chunks(PIECE))
            .map(|piece| (hash(piece), piece.len()))
            .collect();
        pieces.sort_unstable();
        let mut merged: Vec<(u64, usize)> = Vec::with_capacity(pieces.len());
        for (hash, bytes) in pieces {
            match merged.last_mut() {
                Some(last) if last.0 == hash => last.1 += bytes,
                _ => merged.push((hash, bytes)),
            }
        }
        Self(merged.into())
    }

    /// The bytes that both files have in common.
    fn common(&self, other: &Self) -> usize {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0;
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            match x.0.cmp(&y.0) {
                std::cmp::Ordering::Less => drop(a.next()),
                std::cmp::Ordering::Greater => drop(b.next()),
                std::cmp::Ordering::Equal => {
                    common += x.1.min(y.1);
                    a.next();
                    b.next();
                }
            }
        }
        common
    }
}

/// FNV-1a: the same on every machine, so that a diff is too.
fn hash(piece: &[u8]) -> u64 {
    piece.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
