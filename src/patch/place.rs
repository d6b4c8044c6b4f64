//! Where each chunk of an update goes.
//!
//! All chunks are matched against the file as it was before the update. A chunk may fit in several
//! places; its anchors and the order of the chunks decide between them. If exactly one assignment
//! remains, that is it; otherwise the update fails and says what is open. Guessing the first place
//! is how wrong functions get edited.

use super::error::{PatchError, PatchErrorKind, counted, shorten, show_line};
use super::matching::{Haystack, Rung};
use super::nearest;
use super::{Chunk, ChunkLine, LineKind};

/// How many places one chunk may have, and all chunks of a file together. Beyond it nothing could
/// decide anyway.
const MAX_PLACES: usize = 1_000_000;
/// How many lines may be compared for one file: seconds of work, far beyond any honest patch.
const MAX_WORK: u64 = 2_000_000_000;
/// How far elimination may go for chunks that are out of order, in chunks times places.
const MAX_ELIMINATION: usize = 50_000_000;

/// A run of chunk lines at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// The file line at which the old lines begin; for a pure insertion, the line it goes before.
    pub(super) start: usize,
    /// The part of the file that changes: from the first to after the last changed line.
    core: (usize, usize),
    pub(super) rung: Rung,
    /// Chunk lines left out at the front and at the back: spacing that is not in the file.
    pub(super) skip: (usize, usize),
}

/// A place for each chunk, in the chunks' order.
pub(super) fn place(chunks: &[Chunk], hay: &Haystack<'_, '_>) -> Result<Vec<Spot>, PatchError> {
    let mut all: Vec<Vec<Spot>> = Vec::with_capacity(chunks.len());
    let mut budget = MAX_PLACES;
    for chunk in chunks {
        let spots = candidates(chunk, hay)?;
        if hay.work() > MAX_WORK {
            let message =
                "this chunk and those before it take too long to find in so large a file.";
            return Err(PatchError::new(PatchErrorKind::TooLarge, chunk.line, message)
                .hint("split the patch into several"));
        }
        if spots.len() > budget {
            return Err(ambiguous(chunk, spots.len(), &spots));
        }
        budget = budget.saturating_sub(spots.len());
        all.push(spots);
    }
    if let [only] = all.as_slice()
        && let [spot] = only.as_slice()
    {
        return Ok(vec![*spot]);
    }
    match in_order(&all) {
        Order::One(spots) => Ok(spots),
        Order::Several(index) => Err(open_question(index, chunks, &all)),
        Order::Impossible => any_order(chunks, all),
    }
}

/// The places where one chunk fits, in file order; never empty.
fn candidates(chunk: &Chunk, hay: &Haystack<'_, '_>) -> Result<Vec<Spot>, PatchError> {
    let anchors = anchor_lines(chunk, hay)?;
    let old: Vec<&ChunkLine> =
        chunk.lines.iter().filter(|line| line.kind != LineKind::Add).collect();
    if old.iter().all(|line| line.unprefixed) {
        return Ok(insertions(chunk, anchors.as_deref(), hay.len()));
    }
    let variants = variants(chunk);
    let mut elsewhere: Option<usize> = None;
    for rung in Rung::ALL {
        for variant in &variants {
            let pattern: Vec<&[u8]> = variant.old.iter().map(|line| line.text.as_bytes()).collect();
            let mut found = hay.find(&pattern, rung);
            if variant.at_end_only {
                found.retain(|start| start + pattern.len() == hay.len());
            }
            if chunk.end_of_file {
                elsewhere = elsewhere.or(found.first().copied());
                let ends = text_ends(hay);
                found.retain(|start| start + pattern.len() >= ends);
                // The very end is the best end; blank lines may follow only where it isn't met.
                if found.last().is_some_and(|start| start + pattern.len() == hay.len()) {
                    found.drain(..found.len() - 1);
                }
            }
            if let Some(anchors) = &anchors {
                found = first_after_each(anchors, &found);
            }
            let spot = |start: &usize| variant.spot(*start, rung, chunk);
            if found.len() > MAX_PLACES {
                let first: Vec<Spot> = found.iter().take(SHOWN + 1).map(spot).collect();
                return Err(ambiguous(chunk, found.len(), &first));
            }
            if !found.is_empty() {
                return Ok(found.iter().map(spot).collect());
            }
        }
    }
    if let Some(start) = elsewhere.filter(|_| chunk.end_of_file) {
        return Err(not_at_end(chunk, start, &old, hay));
    }
    let wanted: Vec<&ChunkLine> = variants.last().map_or(old, |variant| variant.old.clone());
    Err(nearest::not_found(chunk, &wanted, hay))
}

/// Where lines without any context go: after the anchor, or at the end of the file.
fn insertions(chunk: &Chunk, anchors: Option<&[usize]>, end: usize) -> Vec<Spot> {
    let first = chunk.lines.iter().position(|line| !line.unprefixed).unwrap_or(0);
    let last = chunk.lines.iter().rposition(|line| !line.unprefixed).unwrap_or(0);
    let skip = (first, chunk.lines.len().saturating_sub(last + 1));
    let spot = |start| Spot { start, core: (start, start), rung: Rung::Exact, skip };
    match anchors {
        Some(anchors) if !chunk.end_of_file => {
            anchors.iter().map(|anchor| spot(anchor + 1)).collect()
        }
        _ => vec![spot(end)],
    }
}

/// The lines that the whole stack of anchors names; `None` for a chunk without anchors.
fn anchor_lines(chunk: &Chunk, hay: &Haystack<'_, '_>) -> Result<Option<Vec<usize>>, PatchError> {
    let mut current: Option<Vec<usize>> = None;
    for (depth, anchor) in chunk.anchors.iter().enumerate() {
        let found = match &current {
            None => hay.find_anchor(anchor, |_| true),
            Some(outer) => {
                let earliest = outer.first().copied().unwrap_or(0);
                first_after_each_strictly(outer, &hay.find_anchor(anchor, |at| at > earliest))
            }
        };
        if found.is_empty() {
            return Err(no_anchor(chunk, depth, anchor, hay));
        }
        current = Some(found);
    }
    Ok(current)
}

/// For each anchor the first place at or after it. (A chunk may repeat its anchor as context.)
fn first_after_each(anchors: &[usize], places: &[usize]) -> Vec<usize> {
    let first =
        |anchor: &usize| places.get(places.partition_point(|place| place < anchor)).copied();
    let mut found: Vec<usize> = anchors.iter().filter_map(first).collect();
    found.dedup();
    found
}

fn first_after_each_strictly(anchors: &[usize], places: &[usize]) -> Vec<usize> {
    let after: Vec<usize> = anchors.iter().map(|anchor| anchor + 1).collect();
    first_after_each(&after, places)
}

/// The number of lines up to the last one that isn't blank.
fn text_ends(hay: &Haystack<'_, '_>) -> usize {
    hay.lines().rposition(|line| !line.trim_ascii().is_empty()).map_or(0, |last| last + 1)
}

/// A reading of a chunk's old lines.
struct Variant<'a> {
    old: Vec<&'a ChunkLine>,
    skip: (usize, usize),
    at_end_only: bool,
}

impl Variant<'_> {
    fn spot(&self, start: usize, rung: Rung, chunk: &Chunk) -> Spot {
        let lines = kept(&chunk.lines, self.skip);
        let context = |line: &&ChunkLine| line.kind == LineKind::Context;
        let head = lines.iter().take_while(context).count();
        let tail = lines.iter().rev().take_while(context).count();
        let end = start + self.old.len();
        // A chunk of context alone changes nothing and so can't be in anybody's way.
        let core =
            if head == lines.len() { (end, end) } else { (start + head, end.saturating_sub(tail)) };
        Spot { start, core, rung, skip: self.skip }
    }
}

/// The chunk's lines without the spacing left out.
pub(super) fn kept(lines: &[ChunkLine], skip: (usize, usize)) -> &[ChunkLine] {
    lines.get(skip.0..lines.len().saturating_sub(skip.1)).unwrap_or(&[])
}

/// How a chunk may be read: as it is; without empty lines at its end or beginning that have no
/// prefix and may be mere spacing; without one blank context line at its end, which stands for
/// what some see after a file's last newline.
fn variants(chunk: &Chunk) -> Vec<Variant<'_>> {
    let total = chunk.lines.len();
    let spacing = |line: &&ChunkLine| line.unprefixed;
    let front = chunk.lines.iter().take_while(spacing).count();
    let back = chunk.lines.iter().rev().take_while(spacing).count();
    let blank = |line: &ChunkLine| line.kind == LineKind::Context && line.text.trim().is_empty();
    let past_end = usize::from(chunk.lines.last().is_some_and(blank));
    let mut variants: Vec<Variant<'_>> = Vec::new();
    let readings = [
        (0, 0, false),
        (0, past_end, true),
        (0, back, false),
        (front, 0, false),
        (front, back, false),
    ];
    for (skip_front, skip_back, at_end_only) in readings {
        let skip = (skip_front, skip_back);
        let known = |other: &Variant<'_>| other.skip == skip && !other.at_end_only;
        if skip_front + skip_back >= total || variants.iter().any(known) {
            continue;
        }
        let old: Vec<&ChunkLine> =
            kept(&chunk.lines, skip).iter().filter(|line| line.kind != LineKind::Add).collect();
        if !old.is_empty() {
            variants.push(Variant { old, skip, at_end_only });
        }
    }
    variants
}

enum Order {
    One(Vec<Spot>),
    /// More than one way; the index of the first chunk that is open.
    Several(usize),
    Impossible,
}

/// Counts the ways to place all chunks one after the other, up to two, and gives the only one.
fn in_order(all: &[Vec<Spot>]) -> Order {
    // ways[k][i]: ways to place chunk k at its place i and all later chunks after it; capped at 2.
    let mut ways: Vec<Vec<u8>> = Vec::with_capacity(all.len());
    let mut later: Option<(&Vec<Spot>, Vec<u8>)> = None;
    for spots in all.iter().rev() {
        let counts: Vec<u8> = match &later {
            None => vec![1; spots.len()],
            Some((next, sums)) => spots
                .iter()
                .map(|spot| {
                    let from = next.partition_point(|other| other.core.0 < spot.core.1);
                    sums.get(from).copied().unwrap_or(0)
                })
                .collect(),
        };
        let mut sums = counts.clone();
        let mut sum = 0u8;
        for slot in sums.iter_mut().rev() {
            sum = (sum + *slot).min(2);
            *slot = sum;
        }
        ways.push(counts);
        later = Some((spots, sums));
    }
    ways.reverse();
    let mut spots = Vec::with_capacity(all.len());
    let mut end = 0;
    for (index, (places, counts)) in all.iter().zip(&ways).enumerate() {
        let mut possible =
            places.iter().zip(counts).filter(|(spot, count)| **count > 0 && spot.core.0 >= end);
        match (possible.next(), possible.next()) {
            (Some((spot, _)), None) => {
                end = spot.core.1;
                spots.push(*spot);
            }
            (Some(_), Some(_)) => return Order::Several(index),
            (None, _) => return Order::Impossible,
        }
    }
    Order::One(spots)
}

/// The chunks are not in the file's order: allowed while each has a single place that is left.
fn any_order(chunks: &[Chunk], mut all: Vec<Vec<Spot>>) -> Result<Vec<Spot>, PatchError> {
    let places: usize = all.iter().map(Vec::len).sum();
    let crowded = |spots: &Vec<Spot>| spots.len() > 1;
    if let Some(open) = all.iter().position(crowded)
        && places.saturating_mul(chunks.len()) > MAX_ELIMINATION
    {
        return Err(open_question(open, chunks, &all));
    }
    let mut taken: Vec<(usize, usize)> = Vec::new();
    let mut settled = vec![false; all.len()];
    while let Some(index) = (0..all.len()).find(|i| {
        !settled.get(*i).copied().unwrap_or(true)
            && all.get(*i).is_some_and(|spots| spots.len() == 1)
    }) {
        let Some(spot) = all.get(index).and_then(|spots| spots.first()).copied() else { break };
        if let Some(flag) = settled.get_mut(index) {
            *flag = true;
        }
        if let Some(core) = taken.iter().find(|core| overlap(**core, spot.core)) {
            return Err(overlapping(chunks.get(index), core.0.max(spot.core.0)));
        }
        taken.push(spot.core);
        for (spots, settled) in all.iter_mut().zip(&settled) {
            if !settled {
                spots.retain(|other| !overlap(other.core, spot.core));
            }
        }
        if let Some(empty) = all.iter().position(Vec::is_empty) {
            return Err(overlapping(chunks.get(empty), spot.core.0));
        }
    }
    if let Some(open) = all.iter().position(|spots| spots.len() != 1) {
        return Err(open_question(open, chunks, &all));
    }
    Ok(all.into_iter().flatten().collect())
}

/// Whether two changes touch the same line. Insertions side by side don't.
fn overlap(a: (usize, usize), b: (usize, usize)) -> bool {
    a.0 < b.1 && b.0 < a.1
}

fn open_question(index: usize, chunks: &[Chunk], all: &[Vec<Spot>]) -> PatchError {
    match (chunks.get(index), all.get(index)) {
        (Some(chunk), Some(spots)) => ambiguous(chunk, spots.len(), spots),
        _ => PatchError::new(PatchErrorKind::Ambiguous, 0, "a chunk fits in several places."),
    }
}

/// How many of the places an error names.
const SHOWN: usize = 6;

fn ambiguous(chunk: &Chunk, count: usize, spots: &[Spot]) -> PatchError {
    let shown: Vec<String> =
        spots.iter().take(SHOWN).map(|spot| (spot.start + 1).to_string()).collect();
    let more = if spots.len() > shown.len() { ", …" } else { "" };
    let how = match spots.first().and_then(|spot| spot.rung.overlooked()) {
        Some(overlooked) => format!(" when {overlooked} are overlooked"),
        None => String::new(),
    };
    let message = format!(
        "this chunk fits in {} of the file{how}: lines {}{more}.",
        counted(count, "place"),
        shown.join(", ")
    );
    PatchError::new(PatchErrorKind::Ambiguous, chunk.line, message).hint(
        "add unchanged lines around the change, or an `@@` line with the function or class it is in, \
         until only one place fits; nothing was changed",
    )
}

fn overlapping(chunk: Option<&Chunk>, line: usize) -> PatchError {
    let message =
        format!("two chunks change the same lines of the file, around line {}.", line + 1);
    PatchError::new(PatchErrorKind::Overlap, chunk.map_or(0, |chunk| chunk.line), message)
        .hint("join them into one chunk; all chunks are compared with the file as it is now")
}

fn not_at_end(
    chunk: &Chunk,
    start: usize,
    old: &[&ChunkLine],
    hay: &Haystack<'_, '_>,
) -> PatchError {
    let after = start + old.len();
    let next = hay.line(after).unwrap_or(b"");
    let message = format!(
        "the chunk is marked as the end of the file, but its lines stand at line {} and the file \
         goes on with {}.",
        start + 1,
        show_line(next)
    );
    PatchError::new(PatchErrorKind::Context, chunk.line, message)
        .hint("leave out `*** End of File`, or copy the file's real last lines")
}

fn no_anchor(chunk: &Chunk, depth: usize, anchor: &str, hay: &Haystack<'_, '_>) -> PatchError {
    let near = nearest::similar_lines(anchor.as_bytes(), hay);
    let near = match near.as_slice() {
        [] => String::new(),
        lines => format!(" The lines most like it: {}.", lines.join("; ")),
    };
    let below = if depth > 0 { " below the one before it" } else { "" };
    let message = format!("no line of the file{below} is `@@ {}`.{near}", shorten(anchor, 80));
    PatchError::new(PatchErrorKind::Anchor, chunk.line + depth, message).hint(
        "copy a whole line of the file after `@@`, or leave the anchor out; nothing was changed",
    )
}
