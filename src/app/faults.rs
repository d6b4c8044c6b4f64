//! Faults put in on purpose, in builds for tests only: what happens when the runner itself breaks
//! must be seen on the real binary.

use super::env;
use crate::job::MakeTools;
use crate::protocol::{ToolPayload, ToolSpec};
use crate::tools::{ExecCommand, Prepared, Tool, ToolFailure, ToolWorld, standard_tools};
use std::sync::Arc;

/// Other tools than the standard ones, where a fault asks for them.
pub fn tools() -> Option<MakeTools> {
    (env::fault().as_deref() == Some("tool_panic")).then_some(with_a_broken_tool)
}

/// Breaks the runner, where a fault asks for it.
pub fn break_runner() {
    assert!(env::fault().as_deref() != Some("runner_panic"), "a fault was put in");
}

fn with_a_broken_tool(world: &ToolWorld) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(Broken)];
    tools.extend(standard_tools(world).into_iter().skip(1));
    tools
}

/// `exec_command`, except that it breaks when it is called.
struct Broken;

impl Tool for Broken {
    fn spec(&self) -> ToolSpec {
        ExecCommand.spec()
    }

    fn prepare(&self, _: &ToolPayload, _: &Arc<ToolWorld>) -> Result<Prepared, ToolFailure> {
        panic!("a fault was put in");
    }
}
