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

/// Every tool of this version, in the order in which they are offered.
fn all_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(ExecCommand),
        Arc::new(WriteStdin),
        Arc::new(ApplyPatch),
        Arc::new(EditFile),
        Arc::new(ReadFile),
        Arc::new(ListFiles),
        Arc::new(UpdatePlan),
    ]
}

/// The names of all tools, whether a policy has a use for them or not.
pub fn tool_names() -> Vec<Arc<str>> {
    all_tools().iter().map(|tool| tool.spec().name).collect()
}

/// The tools that the effective policy has a use for: the same list in every mode (D05).
pub fn standard_tools(world: &ToolWorld) -> Vec<Arc<dyn Tool>> {
    let mut tools = all_tools();
    tools.retain(|tool| match tool.spec().name.as_ref() {
        "exec_command" | "write_stdin" => world.policy.offers_commands(),
        "apply_patch" | "edit_file" => world.policy.offers_writes(),
        _ => true,
    });
    tools
}
