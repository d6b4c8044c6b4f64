//! What holds, clause by clause.

use crate::exec::order::Finding;
use serde::{Deserialize, Serialize};

/// How much of a clause holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// The kernel refuses it.
    Prevented,
    /// It is undone after the command, with a report.
    Reverted,
    /// Nothing holds it.
    NotHeld,
}

impl Held {
    /// In words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Prevented => "prevented",
            Self::Reverted => "reverted",
            Self::NotHeld => "not held",
        }
    }
}

/// One clause of the policy and what holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grade {
    /// The policy key: `files.write`, `network`, `capabilities`.
    pub clause: String,
    pub held: Held,
    /// The layer that holds it, or why nothing does.
    pub by: String,
    /// Whether `sandbox: require` insists on it: true for what the operator's policy asks for, false
    /// for what is only a default of ours.
    pub required: bool,
}

impl Grade {
    /// Whether `sandbox: require` must refuse the run because of it.
    pub fn falls_short(&self, accepts_reverted: bool) -> bool {
        self.required
            && match self.held {
                Held::Prevented => false,
                Held::Reverted => !accepts_reverted,
                Held::NotHeld => true,
            }
    }
}

/// What a probe found.
#[derive(Debug, Clone, Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    pub fn of(&self, clause: &str) -> Option<&Finding> {
        // A clause that was tried more than once holds only if it held each time.
        let mut all = self.0.iter().filter(|finding| finding.clause == clause);
        let first = all.next()?;
        Some(all.find(|finding| !finding.holds).unwrap_or(first))
    }

    /// The grade of a clause that the kernel either holds or does not.
    pub fn grade(&self, clause: &str, from: &str, required: bool) -> Grade {
        let (held, by) = match self.of(from) {
            Some(finding) if finding.holds => (Held::Prevented, finding.text()),
            Some(finding) => (Held::NotHeld, finding.text()),
            None => (Held::NotHeld, "it was not tried".to_owned()),
        };
        Grade { clause: clause.into(), held, by, required }
    }
}
