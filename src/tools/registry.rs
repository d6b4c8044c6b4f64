//! Which tools there are, and the frozen plan that one Step advertises and executes.

use super::{
    ApplyPatch, EditFile, ExecCommand, ListFiles, ReadFile, Tool, ToolWorld, UpdatePlan, WriteStdin,
};
use crate::protocol::ToolSpec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The tools of a Session. Replacing them starts a new generation; plans already made keep theirs.
pub struct Registry {
    current: Mutex<Arc<ToolPlan>>,
}

/// What the model is told (`specs`) and what executes (`router`), made from one snapshot, so that
/// what is advertised has exactly one handler of the same generation.
pub struct ToolPlan {
    pub generation: u64,
    pub specs: Arc<[ToolSpec]>,
    router: BTreeMap<Arc<str>, Arc<dyn Tool>>,
}

impl ToolPlan {
    fn new(generation: u64, tools: Vec<Arc<dyn Tool>>) -> Self {
        let mut specs = Vec::new();
        let mut router = BTreeMap::new();
        for tool in tools {
            let spec = tool.spec();
            // A second tool of a name would be advertised without a handler of its own.
            if router.insert(spec.name.clone(), tool).is_none() {
                specs.push(spec);
            }
        }
        Self { generation, specs: specs.into(), router }
    }

    pub fn tool(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.router.get(name)
    }

    pub fn names(&self) -> Vec<&str> {
        self.router.keys().map(AsRef::as_ref).collect()
    }
}

impl Registry {
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self { current: Mutex::new(Arc::new(ToolPlan::new(0, tools))) }
    }

    /// The plan of the newest generation.
    pub fn plan(&self) -> Arc<ToolPlan> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces all tools at once.
    pub fn replace(&self, tools: Vec<Arc<dyn Tool>>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = current.generation + 1;
        *current = Arc::new(ToolPlan::new(generation, tools));
    }
}

/// Every tool of this version, whether a policy has a use for it or not.
pub const TOOL_NAMES: &[&str] = &[
    "exec_command",
    "write_stdin",
    "apply_patch",
    "edit_file",
    "read_file",
    "list_files",
    "update_plan",
];

/// The tools that the effective policy has a use for: the same list in every mode (D05).
pub fn standard_tools(world: &ToolWorld) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if world.policy.offers_commands() {
        tools.push(Arc::new(ExecCommand));
        tools.push(Arc::new(WriteStdin));
    }
    if world.policy.offers_writes() {
        tools.push(Arc::new(ApplyPatch));
        tools.push(Arc::new(EditFile));
    }
    tools.push(Arc::new(ReadFile));
    tools.push(Arc::new(ListFiles));
    tools.push(Arc::new(UpdatePlan));
    tools
}
