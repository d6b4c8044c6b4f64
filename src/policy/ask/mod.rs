//! What people ask of a policy: check it, test it, explain a command, show a preset, start a file.
//! All of it is the same code that judges in a Turn.

mod explain;
mod init;
mod schema;
mod tests;

pub use explain::{ExplainedPart, Explanation, explain};
pub use init::{ProjectKind, init};
pub use schema::schema;
pub use tests::{TestOutcome, run_tests};

use super::facts::Ground;
use super::policy::PolicyFile;
use super::source;
use crate::spec::fault::Fault;

/// Every fault of a policy, bound to its place as well when one is given.
pub fn check(
    file: &str,
    text: &str,
    load: &dyn Fn(&str) -> Result<String, String>,
    ground: Option<&Ground>,
) -> Result<PolicyFile, Vec<Fault>> {
    let policy = PolicyFile::parse(file, text, load)?;
    if let Some(ground) = ground {
        policy.compile(ground)?;
    }
    Ok(policy)
}

/// The text of a preset, comments included.
pub fn show_preset(name: &str) -> Option<&'static str> {
    source::preset(name)
}

/// The names of all presets.
pub fn preset_names() -> Vec<&'static str> {
    source::PRESETS.iter().map(|preset| preset.name).collect()
}
