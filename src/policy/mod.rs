//! The policy: a pure decision on a concrete action. No I/O; what must be looked up is handed in.
//!
//! In reading order: `source` reads the YAML into a [`Model`]; `policy` binds it to a place;
//! `shell` takes a script apart the way bash would; `command` judges each part of it by `rules`,
//! `hazards` and `files`, and makes the one thing that opens a door: a Permit (`permit`).

mod ask;
mod command;
mod describe;
mod facts;
mod files;
mod hazards;
mod model;
mod pattern;
mod permit;
#[allow(clippy::module_inception)]
mod policy;
mod rules;
mod shell;
mod source;
#[cfg(test)]
mod tests;
mod value;

pub use ask::{
    ExplainedPart, Explanation, ProjectKind, TestOutcome, check, explain, init, preset_names,
    run_tests, schema, show_preset,
};
pub use facts::{CommandForm, CommandRequest, Facts, Ground, Judged};
pub use files::{FilePattern, FileRules, HARMLESS_DEVICES, SYSTEM_READ};
pub use model::{
    CommandLimits, EnvRules, Model, NetworkChoice, NetworkDefinition, OnAsk, OnDeny, PolicyTest,
    Rule, SandboxLevel, SandboxMode,
};
pub use permit::{Attributes, Command, ExecPermit, Network, Origin, ReadPermit, WritePermit};
pub use policy::{Policy, PolicyFile};
