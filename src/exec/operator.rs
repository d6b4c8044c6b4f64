//! The one place where a command gets its Permit without a verdict: the operator himself named it.

use crate::policy::{Attributes, ExecPermit, Network};
use std::path::PathBuf;

/// A command of the operator's own: a check, a hook. Nothing judges it; it runs in the same walls.
#[derive(Debug, Clone)]
pub struct OperatorCommand {
    /// What the operator calls it.
    pub name: String,
    pub script: String,
    pub cwd: PathBuf,
    /// What a rule that names no network gets.
    pub network: Network,
}

impl OperatorCommand {
    pub fn permit(self) -> ExecPermit {
        let attributes = Attributes { network: self.network, ..Attributes::default() };
        ExecPermit::operator(self.name, self.script, self.cwd, attributes)
    }
}
