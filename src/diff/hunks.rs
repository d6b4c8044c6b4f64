//! Text hunks: from two files to the lines that differ.
//!
//! Lines end at `\n` and nowhere else, so every other byte is carried as it is. The search for a
//! small difference has a deadline; past it, or for very large files, the diff becomes one coarse
//! hunk between the first and the last changed line, which is longer to read and just as true.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::DiffOptions;

/// A run of lines that is replaced by another.
struct Replaced {
    old: Range<usize>,
    new: Range<usize>,
}

/// Appends the hunks that lead from `before` to `after`; gives the lines added and removed.
pub(super) fn write(
    before: &[u8],
    after: &[u8],
    options: &DiffOptions,
    out: &mut Vec<u8>,
) -> (usize, usize) {
    let old = lines(before);
    let new = lines(after);
    let coarse = before.len().saturating_add(after.len()) > options.max_searched_bytes;
    let changes = changes(&old, &new, options, coarse);
    let mut hunk: Vec<&Replaced> = Vec::new();
    for change in &changes {
        let apart = hunk.last().is_some_and(|last| {
            change.old.start.saturating_sub(last.old.end) > options.context.saturating_mul(2)
        });
        if apart {
            write_hunk(&hunk, &old, &new, options.context, out);
            hunk.clear();
        }
        hunk.push(change);
    }
    write_hunk(&hunk, &old, &new, options.context, out);
    changes.iter().fold((0, 0), |(added, removed), change| {
        (added + change.new.len(), removed + change.old.len())
    })
}

/// The lines that `after` has more than `before`, each run of them in one piece.
pub(super) fn added(before: &[u8], after: &[u8], options: &DiffOptions) -> Vec<u8> {
    let (old, new) = (lines(before), lines(after));
    let coarse = before.len().saturating_add(after.len()) > options.max_searched_bytes;
    let changes = changes(&old, &new, options, coarse);
    changes
        .iter()
        .flat_map(|change| new.get(change.new.clone()))
        .flatten()
        .copied()
        .flatten()
        .copied()
        .collect()
}

fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The replaced runs, in order.
fn changes(old: &[&[u8]], new: &[&[u8]], options: &DiffOptions, coarse: bool) -> Vec<Replaced> {
    let front = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - front;
    let back =
        old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let old_middle = front..old.len() - back;
    let new_middle = front..new.len() - back;
    if old_middle.is_empty() && new_middle.is_empty() {
        return Vec::new();
    }
    if coarse || old_middle.is_empty() || new_middle.is_empty() {
        return vec![Replaced { old: old_middle, new: new_middle }];
    }
    let (Some(a), Some(b)) = (old.get(old_middle), new.get(new_middle)) else { return Vec::new() };
    let ops = capture_diff_slices_deadline(Algorithm::Myers, a, b, options.deadline);
    let mut changes: Vec<Replaced> = Vec::new();
    for op in ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. })) {
        let shift = |range: Range<usize>| range.start + front..range.end + front;
        let (old, new) = (shift(op.old_range()), shift(op.new_range()));
        match changes.last_mut() {
            // A deletion and an insertion at one place are one replacement.
            Some(last) if last.old.end == old.start && last.new.end == new.start => {
                last.old.end = old.end;
                last.new.end = new.end;
            }
            _ => changes.push(Replaced { old, new }),
        }
    }
    changes
}

fn write_hunk(
    changes: &[&Replaced],
    old: &[&[u8]],
    new: &[&[u8]],
    context: usize,
    out: &mut Vec<u8>,
) {
    let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return };
    let above = first.old.start.min(context);
    let below = old.len().saturating_sub(last.old.end).min(context);
    let old_range = first.old.start.saturating_sub(above)..last.old.end + below;
    let new_range = first.new.start.saturating_sub(above)..last.new.end + below;
    out.extend_from_slice(b"@@ -");
    write_range(&old_range, out);
    out.extend_from_slice(b" +");
    write_range(&new_range, out);
    out.extend_from_slice(b" @@\n");
    let mut at = old_range.start;
    for change in changes {
        write_lines(b' ', old.get(at..change.old.start), out);
        write_lines(b'-', old.get(change.old.clone()), out);
        write_lines(b'+', new.get(change.new.clone()), out);
        at = change.old.end;
    }
    write_lines(b' ', old.get(at..old_range.end), out);
}

/// `start,count` as git writes it: counted from 1, the count left out when it is 1, and for an
/// empty range the line before it.
fn write_range(range: &Range<usize>, out: &mut Vec<u8>) {
    let text = match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        count => format!("{},{count}", range.start + 1),
    };
    out.extend_from_slice(text.as_bytes());
}

fn write_lines(prefix: u8, lines: Option<&[&[u8]]>, out: &mut Vec<u8>) {
    for line in lines.unwrap_or(&[]) {
        out.push(prefix);
        out.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            // The marker belongs to this very line, so each side of the last line gets its own.
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}
