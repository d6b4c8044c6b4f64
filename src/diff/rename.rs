//! Renames: which deleted file an added one comes from.
//!
//! A diff is right without this, but reviewers read a rename better than a deletion and an
//! addition. Equal contents are found by their id; edited ones by the pieces of content they share,
//! with a bound on the work. Within the bound the result depends on the two trees alone.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

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

/// The regular files that are on one side only. Empty files resemble each other and say nothing.
/// Links are left out: a pure rename states no mode, so `git apply` would not know that the link
/// goes away, and refuse a new file below its old name.
fn side<'a>(
    changes: &'a [FileChange],
    sides: impl Fn(&'a FileChange) -> (&'a Option<TreeEntry>, &'a Option<TreeEntry>),
) -> Vec<Entry<'a>> {
    let entries = changes.iter().enumerate().filter_map(|(index, change)| match sides(change) {
        (Some(entry), None) if !entry.content.is_empty() && !entry.mode.is_symlink() => {
            Some((index, entry))
        }
        _ => None,
    });
    entries.collect()
}

/// Pairs with equal contents: first those that kept their file name, then any, in order.
fn exact(
    changes: &[FileChange],
    sources: &mut Vec<Entry<'_>>,
    targets: &mut Vec<Entry<'_>>,
) -> Vec<Rename> {
    let mut renames = Vec::new();
    if sources.is_empty() || targets.is_empty() {
        return renames;
    }
    let ids = |entries: &[Entry<'_>]| -> HashMap<usize, String> {
        entries.iter().map(|(index, entry)| (*index, blob_id(&entry.content))).collect()
    };
    let (old_ids, new_ids) = (ids(sources), ids(targets));
    for by_name in [true, false] {
        let key = |index: usize, ids: &HashMap<usize, String>| {
            let name = if by_name { file_name(changes, index) } else { b"" };
            ids.get(&index).map(|id| (id.clone(), name))
        };
        let mut waiting: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (index, _) in sources.iter() {
            waiting.entry(key(*index, &old_ids)).or_default().push_back(*index);
        }
        let mut used = BTreeSet::new();
        targets.retain(|(to, _)| {
            let queue = waiting.get_mut(&key(*to, &new_ids));
            let Some(from) = queue.and_then(VecDeque::pop_front) else { return true };
            used.insert(from);
            renames.push(Rename { from, to: *to, similarity: 100 });
            false
        });
        sources.retain(|(from, _)| !used.contains(from));
    }
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
    budget: usize,
) -> Vec<Rename> {
    let comparable = |(_, entry): &&Entry<'_>| entry.content.len() <= MAX_COMPARED;
    let sources: Vec<Entry<'_>> = sources.iter().filter(comparable).copied().collect();
    let targets: Vec<Entry<'_>> = targets.iter().filter(comparable).copied().collect();
    let mut comparison = Comparison { pieces: BTreeMap::new(), budget, scored: Vec::new() };
    let mut by_name: HashMap<&[u8], Vec<Entry<'_>>> = HashMap::new();
    for target in &targets {
        by_name.entry(file_name(changes, target.0)).or_default().push(*target);
    }
    // Files that kept their name come first, so that a spent budget has found the likeliest.
    for source in &sources {
        for target in by_name.get(file_name(changes, source.0)).into_iter().flatten() {
            comparison.compare(*source, *target, true);
        }
    }
    'all: for source in &sources {
        for target in &targets {
            if file_name(changes, source.0) != file_name(changes, target.0) {
                comparison.compare(*source, *target, false);
            }
            if comparison.budget == 0 {
                break 'all;
            }
        }
    }
    comparison.best()
}

struct Comparison {
    pieces: BTreeMap<usize, Pieces>,
    budget: usize,
    /// Similarity, whether the name was kept, from, to.
    scored: Vec<(usize, bool, usize, usize)>,
}

impl Comparison {
    fn compare(&mut self, (from, old): Entry<'_>, (to, new): Entry<'_>, same_name: bool) {
        let small = old.content.len().min(new.content.len());
        let large = old.content.len().max(new.content.len());
        self.budget = self.budget.saturating_sub(1);
        if small * 100 < large * LEAST_SIMILARITY || self.budget == 0 {
            return;
        }
        let old = self.pieces_of(from, &old.content);
        let new = self.pieces_of(to, &new.content);
        self.budget = self.budget.saturating_sub(old.0.len() + new.0.len());
        let similarity = (old.common(&new) * 100 / large.max(1)).min(99);
        if similarity >= LEAST_SIMILARITY {
            self.scored.push((similarity, same_name, from, to));
        }
    }

    fn pieces_of(&mut self, index: usize, content: &[u8]) -> Pieces {
        if let Some(known) = self.pieces.get(&index) {
            return known.clone();
        }
        self.budget = self.budget.saturating_sub(content.len() / 16);
        let pieces = Pieces::new(content);
        self.pieces.insert(index, pieces.clone());
        pieces
    }

    fn best(mut self) -> Vec<Rename> {
        self.scored.sort_by_key(|(score, same_name, from, to)| {
            (std::cmp::Reverse((*score, *same_name)), *to, *from)
        });
        let (mut renames, mut used) = (Vec::new(), BTreeSet::new());
        let mut taken = BTreeSet::new();
        for (similarity, _, from, to) in self.scored {
            if !used.contains(&from) && !taken.contains(&to) {
                used.insert(from);
                taken.insert(to);
                renames.push(Rename { from, to, similarity });
            }
        }
        renames
    }
}

/// How many bytes of a file stand in pieces with a given hash.
#[derive(Clone)]
struct Pieces(Rc<[(u64, usize)]>);

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
