//! `exec_command`: one command or script, run to its end.

use super::{Action, CallContext, Prepared, Tool, ToolFailure, ToolOutput, ToolWorld, arguments};
use crate::clock;
use crate::context::Cap;
use crate::exec::{Finished, ProcessEnd, RunLimits};
use crate::policy::{CommandForm, CommandRequest, ExecPermit};
use crate::protocol::{Effect, ResultKind, ToolInput, ToolPayload, ToolSpec};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

pub struct ExecCommand;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    cmd: Option<String>,
    #[serde(default)]
    argv: Option<Vec<String>>,
    #[serde(default)]
    workdir: Option<String>,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
}

const EXAMPLE: &str = r#"{"cmd":"cargo test 2>&1 | tail -50","workdir":"crates/core"}"#;
/// A token is taken as four bytes when the model asks for a number of tokens.
const BYTES_PER_TOKEN: u64 = 4;

impl Tool for ExecCommand {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "exec_command".into(),
            description: include_str!("exec_command.md").trim().into(),
            input: ToolInput::Json(json!({
                "type": "object",
                "properties": {
                    "cmd": {"type": "string", "description": "A shell script (bash)."},
                    "argv": {
                        "type": "array", "items": {"type": "string"},
                        "description": "Instead of cmd: a program and its words, without a shell."
                    },
                    "workdir": {
                        "type": "string",
                        "description": "Folder to run in, relative to the workspace."
                    },
                    "timeout_ms": {"type": "integer", "description": "Less time than the policy gives."},
                    "max_output_tokens": {"type": "integer", "description": "Less output than the default."}
                },
                "required": ["cmd"],
                "additionalProperties": false
            })),
        }
    }

    fn prepare(
        &self,
        payload: &ToolPayload,
        world: &Arc<ToolWorld>,
    ) -> Result<Prepared, ToolFailure> {
        let arguments: Arguments = arguments::parse("exec_command", payload, EXAMPLE)?;
        let request = request(&arguments, world)?;
        let judged = world.policy.judge_command(&request, world.facts.as_ref());
        let limits = limits(&arguments, world);
        let action = judged.permit.map(|permit| -> Action {
            Box::new(move |context| Box::pin(run(permit, limits, context)))
        });
        Ok(Prepared::Judged { verdict: judged.verdict, action, effect: true })
    }
}

fn request(arguments: &Arguments, world: &ToolWorld) -> Result<CommandRequest, ToolFailure> {
    let form = match (&arguments.cmd, &arguments.argv) {
        (Some(script), None) => CommandForm::Script(script.clone()),
        (None, Some(argv)) if !argv.is_empty() => CommandForm::Argv(argv.clone()),
        _ => {
            return Err(ToolFailure::bad_arguments(
                "exec_command: give either cmd (a script) or argv (a list that is not empty)",
            ));
        }
    };
    let workdir = arguments.workdir.as_deref().filter(|text| !text.is_empty()).unwrap_or(".");
    let cwd = crate::workspace::resolve(world.root(), workdir).map_err(|why| {
        ToolFailure::bad_arguments(format!("exec_command: workdir {workdir:?}: {why}"))
    })?;
    Ok(CommandRequest { form, cwd })
}

#[derive(Clone, Copy)]
struct Limits {
    run: RunLimits,
    shown: usize,
}

fn limits(arguments: &Arguments, world: &ToolWorld) -> Limits {
    let timeout = arguments.timeout_ms.map_or(world.limits.timeout, |ms| {
        Duration::from_millis(ms.max(1)).min(world.limits.timeout)
    });
    let shown = arguments.max_output_tokens.map_or(world.limits.output, |tokens| {
        usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
    });
    let shown = shown.clamp(256, world.limits.output);
    Limits { run: RunLimits { timeout, output: shown.min(world.limits.capture) }, shown }
}

async fn run(permit: ExecPermit, limits: Limits, context: CallContext) -> ToolOutput {
    let world = context.world;
    let call_id = context.call_id.as_str().to_owned();
    let begun = call_id.clone();
    let before = world.with_workspace(move |workspace| {
        workspace.capture_start()?;
        workspace.watch_protected()?;
        workspace.command_started(&begun);
        Ok(())
    });
    if let Err(error) = before.await {
        return ToolOutput::failed(format!(
            "nothing ran: the state of the workspace could not be taken down first ({error})"
        ));
    }
    let ran = world.executor.run(permit, limits.run, &context.cancel).await;
    let mut output = match &ran {
        Ok(finished) => report(finished, limits),
        Err(error) => ToolOutput::failed(format!("nothing ran: {error}")),
    };
    let after = world.with_workspace(move |workspace| {
        let undone = workspace.put_protected_back()?;
        workspace.after_command(&call_id)?;
        Ok(undone)
    });
    match after.await {
        Ok(undone) if undone.is_empty() => {}
        Ok(undone) => {
            let text = format!("protected files were changed and put back: {}", undone.join("; "));
            output.text.push_str(&format!("\n[policy: {text}]\n"));
            output.warnings.push(text);
        }
        Err(error) => {
            let text = format!("the workspace could not be looked at after a command: {error}");
            output.warnings.push(text);
        }
    }
    output
}

/// Exit code first, then what happened, then the output.
fn report(finished: &Finished, limits: Limits) -> ToolOutput {
    let (kind, effect, code, headline) = match finished.end {
        ProcessEnd::Exited(0) => (ResultKind::Ok, Effect::Done, Some(0), "exit code: 0".to_owned()),
        ProcessEnd::Exited(code) => {
            (ResultKind::Failed, Effect::Done, Some(code), format!("exit code: {code}"))
        }
        ProcessEnd::Signaled(signal) => (
            ResultKind::Failed,
            Effect::Done,
            Some(128 + signal),
            format!("exit code: {} (killed by signal {signal})", 128 + signal),
        ),
        ProcessEnd::TimedOut => (
            ResultKind::TimedOut,
            Effect::Unknown,
            None,
            format!(
                "timed out after {}; the command and all it started were ended",
                clock::human(limits.run.timeout)
            ),
        ),
        ProcessEnd::Cancelled => (
            ResultKind::Cancelled,
            Effect::Unknown,
            None,
            "cancelled: the run is ending; the command was ended".to_owned(),
        ),
    };
    let mut text = format!("{headline}\nduration: {}\n", clock::human(finished.duration));
    if finished.stragglers > 0 && matches!(finished.end, ProcessEnd::Exited(_)) {
        text.push_str(&format!(
            "background processes ended with the command: {}\n",
            finished.stragglers
        ));
    }
    text.push_str("output:\n");
    text.push_str(&Cap::middle(&finished.output.text, limits.shown));
    if let Some(tail) = &finished.output.stderr_tail {
        text.push_str("\n[the end of standard error]\n");
        text.push_str(tail);
    }
    let mut output = ToolOutput::new(kind, effect, text);
    output.exit_code = code;
    if finished.left > 0 {
        output
            .warnings
            .push(format!("{} processes of a command could not be ended", finished.left));
    }
    output
}
