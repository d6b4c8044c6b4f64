//! `apply_patch`: changes files, all of them or none.

use super::{Action, CallContext, Prepared, Tool, ToolFailure, ToolOutput, ToolWorld};
use crate::patch::{self, Patch};
use crate::policy::WritePermit;
use crate::protocol::{Effect, ResultKind, ToolInput, ToolPayload, ToolSpec};
use crate::workspace::CommitError;
use std::path::PathBuf;
use std::sync::Arc;

pub struct ApplyPatch;

impl Tool for ApplyPatch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "apply_patch".into(),
            description: include_str!("apply_patch.md").trim().into(),
            input: ToolInput::Freeform {
                grammar: include_str!("apply_patch.lark").into(),
                property: "input".into(),
            },
        }
    }

    fn prepare(
        &self,
        payload: &ToolPayload,
        world: &Arc<ToolWorld>,
    ) -> Result<Prepared, ToolFailure> {
        let parsed = patch::parse(payload.as_str())
            .map_err(|error| ToolFailure::bad_arguments(format!("apply_patch: {error}")))?;
        let mut paths: Vec<PathBuf> = Vec::new();
        for reference in patch::paths(&parsed) {
            let resolved =
                crate::workspace::resolve_entry(world.root(), &reference.path).map_err(|why| {
                    ToolFailure::bad_arguments(format!("apply_patch: {:?}: {why}", reference.path))
                })?;
            if !paths.contains(&resolved) {
                paths.push(resolved);
            }
        }
        let judged = world.policy.judge_write(&paths);
        let action = judged.permit.map(|permit| -> Action {
            Box::new(move |context| Box::pin(run(parsed, permit, context)))
        });
        Ok(Prepared::Judged { verdict: judged.verdict, action, effect: true })
    }
}

async fn run(parsed: Patch, permit: WritePermit, context: CallContext) -> ToolOutput {
    let call_id = context.call_id.as_str().to_owned();
    let done = context
        .world
        .with_workspace(move |workspace| {
            workspace.capture_start()?;
            let plan = match patch::plan(&parsed, &workspace.files()) {
                Ok(plan) => plan,
                Err(error) => {
                    return Ok(ToolOutput::failed(format!("nothing was changed: {error}")));
                }
            };
            match workspace.commit(&permit, &plan) {
                Ok(committed) => {
                    workspace.note_patch(&call_id, &committed)?;
                    Ok(ToolOutput::new(ResultKind::Ok, Effect::Done, plan.summary()))
                }
                Err(error) => Ok(refused(&error)),
            }
        })
        .await;
    done.unwrap_or_else(|error| {
        let text = format!("the patch met a fault of the file system: {error}");
        ToolOutput::new(ResultKind::Failed, Effect::Unknown, text)
    })
}

fn refused(error: &CommitError) -> ToolOutput {
    if error.nothing_changed() {
        return ToolOutput::failed(format!("nothing was changed: {error}"));
    }
    ToolOutput::new(ResultKind::Failed, Effect::Unknown, error.to_string())
}
