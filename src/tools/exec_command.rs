//! `exec_command`: one command or script, run to its end, or left running for `write_stdin`.

use super::apply_patch::Edit;
use super::{
    Action, CallContext, CallFacts, Prepared, Tool, ToolFailure, ToolOutput, ToolWorld, arguments,
    denials, look, processes,
};
use crate::clock;
use crate::context::Cap;
use crate::exec::{Captured, End, ExecError, Live, ProcessEnd, RunLimits, Size, UNREAD, Wiring};
use crate::patch;
use crate::policy::{CommandForm, CommandRequest, ExecPermit};
use crate::protocol::{Effect, ResultKind, ToolInput, ToolPayload, ToolSpec, Verdict};
use crate::workspace::CallRef;
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
    yield_time_ms: Option<u64>,
    #[serde(default)]
    tty: bool,
    #[serde(default)]
    stdin: bool,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
}

const EXAMPLE: &str = r#"{"cmd":"cargo test 2>&1 | tail -50","workdir":"crates/core"}"#;
/// A token is taken as four bytes when the model asks for a number of tokens.
const BYTES_PER_TOKEN: u64 = 4;
/// When a command with an input answers, unless the call says.
const DEFAULT_YIELD: Duration = Duration::from_secs(10);

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
                    "yield_time_ms": {
                        "type": "integer",
                        "description": "Answer after this time with the output so far and a session_id, and leave the command running for write_stdin. Without it the call waits for the end."
                    },
                    "tty": {
                        "type": "boolean",
                        "description": "Run in a terminal of its own, for programs that talk to a person. Answers after 10 s unless yield_time_ms says otherwise."
                    },
                    "stdin": {
                        "type": "boolean",
                        "description": "Keep standard input open for write_stdin, without a terminal. Else there is nothing to read."
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
        if let Some(edit) = patch_in(&arguments)? {
            return edit.prepare(world);
        }
        let request = request(&arguments, world)?;
        let judged = world.policy.judge_command(&request, &CallFacts { world });
        let how = How::new(&arguments, world, judged.verdict.clone());
        let action = judged.permit.map(|permit| -> Action {
            Box::new(move |context| Box::pin(run(permit, how, context)))
        });
        Ok(Prepared::Judged { verdict: judged.verdict, action, effect: true })
    }
}

/// The patch in a command that is nothing but one: it goes the way of the patch tool, and what it
/// writes is judged as file writes. No shell runs, and no rule for commands is asked.
fn patch_in(arguments: &Arguments) -> Result<Option<Edit>, ToolFailure> {
    let found = match (&arguments.cmd, &arguments.argv) {
        (Some(script), None) => patch::from_shell(script),
        (None, Some(argv)) => patch::from_argv(argv),
        _ => None,
    };
    let Some(found) = found else { return Ok(None) };
    let failed = |error| ToolFailure::bad_arguments(format!("exec_command: {error}"));
    let workdir = arguments.workdir.as_deref().filter(|text| !matches!(*text, "" | "."));
    let parsed = found.and_then(|patch| patch.inside(workdir).parse()).map_err(failed)?;
    Ok(Some(Edit::of_patch("exec_command", parsed).written_as_command()))
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

/// How a call runs.
struct How {
    limits: RunLimits,
    shown: usize,
    wiring: Wiring,
    /// `None` for a command that is waited for.
    wait: Option<Duration>,
    /// What allowed it.
    /// What allowed it; its rules count a command when it runs.
    verdict: Verdict,
}

impl How {
    fn new(arguments: &Arguments, world: &ToolWorld, verdict: Verdict) -> Self {
        let timeout = arguments.timeout_ms.map_or(world.limits.timeout, |ms| {
            Duration::from_millis(ms.max(1)).min(world.limits.timeout)
        });
        let shown = shown_bytes(arguments.max_output_tokens, world);
        let wait = match (arguments.yield_time_ms, arguments.tty || arguments.stdin) {
            (Some(ms), _) => Some(Duration::from_millis(ms)),
            (None, true) => Some(DEFAULT_YIELD),
            (None, false) => None,
        };
        let wiring = match (arguments.tty, arguments.stdin) {
            (true, _) => Wiring::Terminal(Size::default()),
            (false, true) => Wiring::Open,
            (false, false) => Wiring::Closed,
        };
        let limits = RunLimits { timeout, output: shown.min(world.limits.capture) };
        Self { limits, shown, wiring, wait, verdict }
    }
}

/// Bytes of output that a call shows.
pub(super) fn shown_bytes(tokens: Option<u64>, world: &ToolWorld) -> usize {
    let wanted = tokens.map_or(world.limits.output, |tokens| {
        usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
    });
    wanted.clamp(256, world.limits.output)
}

async fn run(permit: ExecPermit, how: How, context: CallContext) -> ToolOutput {
    let world = context.world.clone();
    if how.wait.is_some()
        && let Some(why) = world.processes.full()
    {
        return ToolOutput::failed(why);
    }
    let call = CallRef::command(context.call_id.as_str());
    if let Err(error) = look::take_down(&world, call.clone()).await {
        return ToolOutput::failed(format!(
            "nothing ran: the state of the workspace could not be taken down first ({error})"
        ));
    }
    world.rule_counts.book(&how.verdict);
    let command = world.masker.mask(&permit.command().display()).into_owned();
    let origin = denials::Origin::of(&permit);
    let starting = world.executor.start_unless(permit, how.wiring, how.limits, &context.cancel);
    let (mut output, still_running) = match starting.await {
        Ok(live) => attend(live, &command, origin, &how, &context).await,
        Err(error) => (not_begun(&error), false),
    };
    let look = look::look(&world, call, !still_running).await;
    if let Some(text) = look.text() {
        output.text.push_str(&format!("\n[policy: {text}]\n"));
    }
    output.warnings.extend(look.warnings());
    output
}

fn not_begun(error: &ExecError) -> ToolOutput {
    match error {
        ExecError::Unknown(_) => {
            let text = format!("{error}; look at what it was to change before you run it again");
            ToolOutput::new(ResultKind::Failed, Effect::Unknown, text)
        }
        error => ToolOutput::failed(format!("nothing ran: {error}")),
    }
}

/// Waits for the end, or for as long as the call may take; true where the command goes on.
async fn attend(
    live: Live,
    command: &str,
    origin: denials::Origin,
    how: &How,
    context: &CallContext,
) -> (ToolOutput, bool) {
    let world = &context.world;
    let patience = async {
        match how.wait {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = live.ended() => {}
        () = context.cancel.cancelled() => live.end_now().await,
        () = patience => {}
    }
    let shown = Shown { bytes: how.shown, in_parts: false, world };
    if let Some(end) = live.end() {
        return (describe(end, &live, &origin, &shown, false), false);
    }
    let begun = processes::Begun { command, origin, rule: how.verdict.rule.clone() };
    let process = world.processes.add(context.call_id.clone(), begun, live);
    let headline = running_headline(process.id, process.live.began());
    let shown = Shown { in_parts: true, ..shown };
    let text = shown.with(&headline, &process.live.take_output());
    // What it will still do is not known.
    (ToolOutput::new(ResultKind::Ok, Effect::Unknown, text), true)
}

pub(super) fn running_headline(id: u32, began: std::time::Instant) -> String {
    let running = clock::now().saturating_duration_since(began);
    format!(
        "still running: session {id}; write_stdin with this session_id looks at it again, types \
         into it or ends it\nduration so far: {}\n",
        clock::human(running)
    )
}

/// How output is put into a result.
pub(super) struct Shown<'a> {
    pub bytes: usize,
    /// Other looks show what came before or comes after.
    pub in_parts: bool,
    pub world: &'a ToolWorld,
}

impl Shown<'_> {
    /// A headline, then the output with the end of standard error where something was cut.
    pub fn with(&self, headline: &str, output: &Captured) -> String {
        let mut text = format!("{headline}output:\n");
        text.push_str(&Cap::middle(
            &masked(output, self.in_parts, self.world),
            self.bytes + CUT_NOTICE,
        ));
        if let Some(tail) = &output.stderr_tail {
            text.push_str("\n[the end of standard error]\n");
            let (_, tail) = self.world.masker.mask_cut("", tail);
            text.push_str(&self.world.masker.mask(&tail));
        }
        text
    }
}

/// Room for the sentence that tells the cut.
const CUT_NOTICE: usize = 64;

/// Output as text, masked. Where it was cut, or where another look has the other half of a secret, what
/// is left of that secret is masked as well.
pub(super) fn masked(output: &Captured, in_parts: bool, world: &ToolWorld) -> String {
    let masker = &world.masker;
    let text = output.text_with(|head, tail| masker.mask_cut(head, tail));
    let text = masker.mask(&text).into_owned();
    if !in_parts {
        return text;
    }
    let (_, text) = masker.mask_cut("", &text);
    masker.mask_cut(&text, "").0
}

/// Exit code first, then what happened, then the output.
pub(super) fn describe(
    end: Result<End, ExecError>,
    live: &Live,
    origin: &denials::Origin,
    shown: &Shown<'_>,
    as_asked: bool,
) -> ToolOutput {
    let output = &live.take_output();
    let log = live.log().map(|log| format!("full output: {log}\n")).unwrap_or_default();
    let end = match end {
        Ok(end) => end,
        Err(error) => {
            let head = format!("how the command ended is not known: {error}\n{log}");
            let text = shown.with(&head, output);
            return ToolOutput::new(ResultKind::Failed, Effect::Unknown, text);
        }
    };
    let (kind, effect, code, headline) = match end.end {
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
            "timed out; the command and all it started were ended".to_owned(),
        ),
        ProcessEnd::Cancelled if as_asked => (
            ResultKind::Ok,
            Effect::Done,
            None,
            "ended as you asked, with all it started".to_owned(),
        ),
        ProcessEnd::Cancelled => (
            ResultKind::Cancelled,
            Effect::Unknown,
            None,
            "cancelled: the run is ending, or the policy ended it; the command was ended"
                .to_owned(),
        ),
    };
    let mut head = format!("{headline}\nduration: {}\n", clock::human(end.duration));
    if let Some(limit) = &end.exceeded {
        head.push_str(&format!("ended by the runner, with all it started: {limit}\n"));
    }
    if end.stragglers > 0 && matches!(end.end, ProcessEnd::Exited(_)) {
        head.push_str(&format!(
            "background processes ended with the command: {}\n",
            end.stragglers
        ));
    }
    head.push_str(&log);
    if end.unread {
        head.push_str(&format!("{UNREAD}\n"));
    }
    let mut text = shown.with(&head, output);
    if let Some(told) = shown.world.denials(&output.text, origin, || live.refused()) {
        text.push_str(&format!("\n{told}\n"));
    }
    let mut result = ToolOutput::new(kind, effect, text);
    result.exit_code = code;
    if end.left > 0 {
        result.warnings.push(format!("{} processes of a command could not be ended", end.left));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_nothing_was_heard_of_may_have_run() {
        let unknown = not_begun(&ExecError::Unknown("did not answer in time".into()));
        assert_eq!(unknown.effect, Some(Effect::Unknown));
        assert!(unknown.text.contains("whether the command ran is not known"), "{}", unknown.text);
        let never = not_begun(&ExecError::Launcher("no streams".into()));
        assert!(never.text.starts_with("nothing ran"), "{}", never.text);
        assert_ne!(never.effect, Some(Effect::Unknown));
    }
}
