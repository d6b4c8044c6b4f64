//! `list_files`: what is in a folder, without what git ignores.

use super::{Action, CallContext, Prepared, Tool, ToolFailure, ToolOutput, ToolWorld, arguments};
use crate::policy::ReadPermit;
use crate::protocol::{ToolInput, ToolPayload, ToolSpec};
use crate::workspace::Listing;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

pub struct ListFiles;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    depth: Option<usize>,
}

const EXAMPLE: &str = r#"{"path":"src","depth":2}"#;
const MAX_DEPTH: usize = 16;
const MAX_ENTRIES: usize = 1_000;

impl Tool for ListFiles {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "list_files".into(),
            description: "Lists a folder of the workspace, without what git ignores.".into(),
            input: ToolInput::Json(json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the workspace; default is its root."},
                    "depth": {"type": "integer", "description": "How many levels; default 2."}
                },
                "required": [],
                "additionalProperties": false
            })),
        }
    }

    fn parallel(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        payload: &ToolPayload,
        world: &Arc<ToolWorld>,
    ) -> Result<Prepared, ToolFailure> {
        let arguments: Arguments = arguments::parse("list_files", payload, EXAMPLE)?;
        let path = arguments.path.clone().filter(|path| !path.is_empty()).unwrap_or(".".into());
        let resolved = crate::workspace::resolve(world.root(), &path)
            .map_err(|why| ToolFailure::bad_arguments(format!("list_files: {path:?}: {why}")))?;
        let judged = world.policy.judge_read(&resolved);
        let depth = arguments.depth.unwrap_or(2).clamp(1, MAX_DEPTH);
        let action = judged.permit.map(|permit| -> Action {
            Box::new(move |context| Box::pin(run(path, depth, permit, context)))
        });
        Ok(Prepared::Judged { verdict: judged.verdict, action, effect: false })
    }
}

async fn run(path: String, depth: usize, permit: ReadPermit, context: CallContext) -> ToolOutput {
    let listed = context
        .world
        .with_workspace(move |workspace| workspace.list(&permit, depth, MAX_ENTRIES))
        .await;
    match listed {
        Ok(listing) => ToolOutput::ok(render(&path, &listing)),
        Err(error) => ToolOutput::failed(format!("{path}: {error}")),
    }
}

fn render(path: &str, listing: &Listing) -> String {
    let mut text = format!("{path}: {} entries", listing.entries.len());
    if listing.ignored > 0 {
        text.push_str(&format!(", {} ignored ones left out", listing.ignored));
    }
    if listing.cut {
        text.push_str(&format!(", cut at {MAX_ENTRIES}; list a folder below for more"));
    }
    for line in listing.lines() {
        text.push('\n');
        text.push_str(&line);
    }
    for unseen in &listing.unseen {
        text.push_str(&format!("\ncould not be read: {}", unseen.why));
    }
    text
}
