//! A Run from settings to artifacts: the rooms put together, once, for one Outcome.

mod artifacts;
mod collect;
mod container;
mod folder;
mod isolate;
mod outcome;
mod places;
mod prepare;
mod run;

pub use artifacts::{ARTIFACT_NAMES, Artifacts};
pub use collect::{Collected, DeniedCall};
pub use folder::RunFolder;
pub use prepare::{Prepared, RunInput, dry_run, prepare};
pub use run::{Controls, Face, Leftover, RunEnd, run};
