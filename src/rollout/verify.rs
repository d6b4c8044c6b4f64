//! `rollout verify`: is this file what its writer wrote, as far as the chain can tell?
//!
//! Each line vouches for the one before it, so nothing vouches for the last: a change there that
//! leaves it readable is only seen by the digest of the whole file in `result.json`.

use super::error::RolloutError;
use super::read::{ReadReport, Reader};
use serde::Serialize;
use std::path::Path;

/// The answer, and the counts behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Whole: nothing unreadable but a torn last line, no break in the chain or the numbers.
    pub ok: bool,
    #[serde(flatten)]
    pub found: ReadReport,
    /// What is wrong, one sentence each.
    pub faults: Vec<String>,
    /// What is worth knowing and no fault: a torn last line, a Turn without an end.
    pub notes: Vec<String>,
}

/// Checks a rollout line by line. An error means that there was nothing to check.
pub fn verify(path: &Path) -> Result<VerifyReport, RolloutError> {
    let mut reader = Reader::open(path)?;
    for entry in &mut reader {
        entry?;
    }
    let found = reader.into_report();
    if found.lines == 0 {
        return Err(RolloutError::Empty { path: path.to_owned() });
    }
    let faults = faults(&found);
    Ok(VerifyReport { ok: faults.is_empty(), notes: notes(&found), faults, found })
}

fn faults(found: &ReadReport) -> Vec<String> {
    let mut faults = Vec::new();
    if found.records == 0 {
        faults.push("No line is a record.".to_owned());
    }
    for bad in &found.bad {
        faults.push(format!("Line {} cannot be read: {}.", bad.line, bad.cause));
    }
    more(&mut faults, found.bad_count, found.bad.len(), "unreadable lines");
    for broken in &found.breaks {
        let line = broken.line;
        faults.push(format!("Line {line} does not follow the line before it: its `prev` differs."));
    }
    more(&mut faults, found.break_count, found.breaks.len(), "breaks in the chain");
    if found.seq_faults > 0 {
        faults.push(format!("{} lines are out of number.", found.seq_faults));
    }
    faults
}

fn more(faults: &mut Vec<String>, count: u64, listed: usize, what: &str) {
    let rest = count.saturating_sub(listed as u64);
    if rest > 0 {
        faults.push(format!("And {rest} more {what}."));
    }
}

fn notes(found: &ReadReport) -> Vec<String> {
    let mut notes = Vec::new();
    if found.bom {
        notes.push(
            "The file begins with a byte order mark that its writer did not put there.".into(),
        );
    }
    for torn in &found.closed_off {
        notes.push(format!("Line {} was torn when a run was killed, and closed off.", torn.line));
    }
    if let Some(torn) = &found.torn {
        notes.push(format!("The last line, {}, is torn: the run was killed in it.", torn.line));
    } else if found.unterminated {
        notes.push("The last line is whole but lacks its newline.".into());
    }
    if found.unknown > 0 {
        notes.push(format!("{} records are of types this version does not know.", found.unknown));
    }
    for turn in &found.incomplete_turns {
        notes.push(format!("Turn {turn} has no end."));
    }
    if found.runs > 0 && !found.finished {
        notes.push("The last run has no end.".into());
    }
    notes
}
