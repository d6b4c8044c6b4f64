//! `apply_patch`: changes files, all of them or none.
//!
//! [`Edit`] is the one way from text to files: parse → judge every path as a file write → plan →
//! commit. `edit_file`, and a patch that a model writes as a shell word, take the same way.

use super::{Action, CallContext, Prepared, Tool, ToolFailure, ToolOutput, ToolWorld};
use crate::patch::{self, Patch, PatchError, Plan};
use crate::policy::WritePermit;
use crate::protocol::{Effect, ResultKind, ToolInput, ToolPayload, ToolSpec};
use crate::workspace::{CommitError, Committed, Workspace};
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
        Edit::of_patch("apply_patch", parsed).prepare(world)
    }
}

/// Makes the plan of a change from the files as they are.
type MakePlan = Box<dyn FnOnce(&Workspace) -> Result<Plan, PatchError> + Send>;

/// A change of files that has been parsed.
pub(super) struct Edit {
    tool: &'static str,
    /// Every path it names, as it names them.
    paths: Vec<String>,
    plan: MakePlan,
    /// It came as a command, so its result is one of a command.
    as_command: bool,
}

impl Edit {
    pub(super) fn of_patch(tool: &'static str, parsed: Patch) -> Self {
        let paths = patch::paths(&parsed).into_iter().map(|reference| reference.path).collect();
        let plan: MakePlan = Box::new(move |workspace| patch::plan(&parsed, &workspace.files()));
        Self { tool, paths, plan, as_command: false }
    }

    /// One piece of text of one file, replaced by another.
    pub(super) fn of_text(tool: &'static str, path: String, old: String, new: String) -> Self {
        let paths = vec![path.clone()];
        let plan: MakePlan =
            Box::new(move |workspace| patch::edit(&path, &old, &new, &workspace.files()));
        Self { tool, paths, plan, as_command: false }
    }

    pub(super) fn written_as_command(mut self) -> Self {
        self.as_command = true;
        self
    }

    /// Has every path judged as a file that is written.
    pub(super) fn prepare(self, world: &Arc<ToolWorld>) -> Result<Prepared, ToolFailure> {
        let mut resolved: Vec<PathBuf> = Vec::new();
        for path in &self.paths {
            let entry = crate::workspace::resolve_entry(world.root(), path).map_err(|why| {
                ToolFailure::bad_arguments(format!("{}: {path:?}: {why}", self.tool))
            })?;
            if !resolved.contains(&entry) {
                resolved.push(entry);
            }
        }
        let judged = world.policy.judge_write(&resolved);
        let action = judged.permit.map(|permit| -> Action {
            Box::new(move |context| Box::pin(self.run(permit, context)))
        });
        Ok(Prepared::Judged { verdict: judged.verdict, action, effect: true })
    }

    async fn run(self, permit: WritePermit, context: CallContext) -> ToolOutput {
        let call_id = context.call_id.as_str().to_owned();
        let (plan, as_command) = (self.plan, self.as_command);
        let done = context
            .world
            .with_workspace(move |workspace| {
                workspace.capture_start()?;
                let plan = match plan(workspace) {
                    Ok(plan) => plan,
                    Err(error) => {
                        return Ok(ToolOutput::failed(format!("nothing was changed: {error}")));
                    }
                };
                match workspace.commit(&permit, &plan) {
                    Ok(committed) => {
                        workspace.note_patch(&call_id, &committed)?;
                        Ok(ToolOutput::new(
                            ResultKind::Ok,
                            Effect::Done,
                            summary(&plan, &committed),
                        ))
                    }
                    Err(error) => Ok(refused(&error)),
                }
            })
            .await;
        let output = done.unwrap_or_else(|error| {
            let text = format!("the patch met a fault of the file system: {error}");
            ToolOutput::new(ResultKind::Failed, Effect::Unknown, text)
        });
        if as_command { like_a_command(output) } else { output }
    }
}

/// One line a file, and what a person should know besides.
fn summary(plan: &Plan, committed: &Committed) -> String {
    let mut text = plan.summary();
    for note in &committed.notes {
        text.push_str(&format!("\nnote: {note}"));
    }
    text
}

fn refused(error: &CommitError) -> ToolOutput {
    if error.nothing_changed() {
        return ToolOutput::failed(format!("nothing was changed: {error}"));
    }
    ToolOutput::new(ResultKind::Failed, Effect::Unknown, error.to_string())
}

/// The answer to a patch that was written as a command: exit code first, as of every command.
fn like_a_command(mut output: ToolOutput) -> ToolOutput {
    let code = i32::from(output.result != Some(ResultKind::Ok));
    output.exit_code = Some(code);
    output.text = format!(
        "exit code: {code}\n(taken by the apply_patch tool, no shell ran)\n{}",
        output.text
    );
    output
}
