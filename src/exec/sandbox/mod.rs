//! The sandbox: what even an allowed command can reach.
//!
//! [`Sandbox`] is the seam: it turns the policy's clauses into a [`Confinement`] that the launcher
//! applies to each command, and says truthfully, clause by clause, what holds. On Linux the floor is
//! no_new_privs, no capabilities, Landlock and seccomp: all of them work for any user in an ordinary
//! container. Everything is probed by doing it before the first model request.

#[cfg(target_os = "linux")]
mod linux;
mod plan;

#[cfg(target_os = "linux")]
pub use linux::{apply, landlock_abi, try_forbidden};
pub use plan::{Plan, PlanInput, SYSTEM_READ};

use super::order::Finding;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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

/// What the launcher puts in force before a command starts. Plain data, so that it can travel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// False only with `sandbox: off`.
    pub enabled: bool,
    /// Folders and files that may be read and executed, with everything beneath.
    pub read: Vec<PathBuf>,
    /// Folders and files that may be written, with everything beneath.
    pub write: Vec<PathBuf>,
    /// False refuses every socket that is not a Unix one.
    pub inet: bool,
}

/// The sandbox of one run.
pub trait Sandbox: Send + Sync {
    /// The confinement for one command. `inet` is whether its rule grants any network.
    fn confinement(&self, inet: bool) -> Confinement;
    /// What holds, clause by clause, as probed.
    fn grades(&self) -> &[Grade];
}

/// `sandbox: off`: nothing holds, and every grade says so.
pub struct NoSandbox {
    grades: Vec<Grade>,
}

impl NoSandbox {
    pub fn new(why: &str) -> Self {
        let grade = |clause: &str| Grade {
            clause: clause.into(),
            held: Held::NotHeld,
            by: why.to_owned(),
            required: true,
        };
        Self { grades: ["files.write", "files.read", "network", "privileges"].map(grade).to_vec() }
    }
}

impl Sandbox for NoSandbox {
    fn confinement(&self, _inet: bool) -> Confinement {
        Confinement { enabled: false, inet: true, ..Confinement::default() }
    }

    fn grades(&self) -> &[Grade] {
        &self.grades
    }
}

/// The layers of the floor, each graded by what the probe found.
pub struct Floor {
    plan: Plan,
    grades: Vec<Grade>,
}

impl Floor {
    /// Grades a plan by the probe's findings.
    pub fn new(plan: Plan, findings: &[Finding]) -> Self {
        let grades = plan.grades(findings);
        Self { plan, grades }
    }

    /// The grades alone, for walls that are not ours.
    pub fn into_grades(self) -> Vec<Grade> {
        self.grades
    }

    /// The grades that fall short of `prevented`, for refusing under `sandbox: require`.
    pub fn shortfalls(&self) -> Vec<&Grade> {
        self.grades.iter().filter(|grade| grade.required && grade.held == Held::NotHeld).collect()
    }
}

impl Sandbox for Floor {
    fn confinement(&self, inet: bool) -> Confinement {
        self.plan.confinement(inet)
    }

    fn grades(&self) -> &[Grade] {
        &self.grades
    }
}
