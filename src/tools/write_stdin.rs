//! `write_stdin`: looks at a command that outlived its call, types into it, interrupts it, ends it.
//!
//! What is typed needs no rule of its own: the rule that allowed the command allowed it with an open
//! input. That rule is named in the verdict, so that the record says what let the input through.

use super::exec_command::{Shown, describe, running_headline, shown_bytes};
use super::processes::{self, Process};
use super::{
    Action, CallContext, Prepared, Tool, ToolFailure, ToolOutput, ToolWorld, arguments, look,
};
use crate::exec::{InputError, Size};
use crate::protocol::{
    Decision, Effect, PartVerdict, ResultKind, ToolInput, ToolPayload, ToolSpec, Verdict,
};
use crate::workspace::CallRef;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

pub struct WriteStdin;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session_id: u32,
    #[serde(default)]
    chars: String,
    #[serde(default)]
    eof: bool,
    #[serde(default)]
    interrupt: bool,
    #[serde(default)]
    resize: Option<Resize>,
    #[serde(default)]
    close: bool,
    #[serde(default)]
    yield_time_ms: Option<u64>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resize {
    rows: u16,
    columns: u16,
}

const EXAMPLE: &str = r#"{"session_id":1,"chars":"y\n","yield_time_ms":1000}"#;
/// How long a look waits unless the call says otherwise: long where nothing was typed.
const LOOK: Duration = Duration::from_secs(5);
const TYPED: Duration = Duration::from_secs(1);
/// The longest wait; a command's own time limit comes before it as a rule.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// Bytes that one call may type.
const MAX_CHARS: usize = 64 * 1024;

impl Tool for WriteStdin {
    fn spec(&self) -> ToolSpec {
        let flag = |about: &str| json!({"type": "boolean", "description": about});
        ToolSpec {
            name: "write_stdin".into(),
            description: include_str!("write_stdin.md").trim().into(),
            input: ToolInput::Json(json!({
                "type": "object",
                "properties": {
                    "session_id": {"type": "integer", "description": "As exec_command gave it."},
                    "chars": {
                        "type": "string",
                        "description": "Typed as it stands: end a line with \\n. Empty: only look."
                    },
                    "eof": flag("After chars, say that no more input comes (Ctrl-D)."),
                    "interrupt": flag("Ctrl-C."),
                    "resize": {
                        "type": "object",
                        "properties": {"rows": {"type": "integer"}, "columns": {"type": "integer"}},
                        "required": ["rows", "columns"],
                        "additionalProperties": false,
                        "description": "New size of the session's terminal."
                    },
                    "close": flag("End the command and everything it started."),
                    "yield_time_ms": {
                        "type": "integer",
                        "description": "How long to wait for its end before answering with what it printed."
                    },
                    "max_output_tokens": {"type": "integer", "description": "Less output than the default."}
                },
                "required": ["session_id"],
                "additionalProperties": false
            })),
        }
    }

    fn prepare(
        &self,
        payload: &ToolPayload,
        world: &Arc<ToolWorld>,
    ) -> Result<Prepared, ToolFailure> {
        let arguments: Arguments = arguments::parse("write_stdin", payload, EXAMPLE)?;
        check(&arguments)?;
        let Some(process) = world.processes.find(arguments.session_id) else {
            return Err(ToolFailure::bad_arguments(format!(
                "write_stdin: there is no session {}; sessions:\n{}",
                arguments.session_id,
                world.processes.names()
            )));
        };
        let effect = arguments.acts();
        let verdict = verdict(&arguments, &process);
        let action: Action = Box::new(move |context| Box::pin(run(arguments, process, context)));
        Ok(Prepared::Judged { verdict, action: Some(action), effect })
    }
}

impl Arguments {
    /// Whether the command is touched, and not only looked at.
    fn acts(&self) -> bool {
        self.interrupt || self.eof || self.close || self.resize.is_some() || !self.chars.is_empty()
    }
}

fn check(arguments: &Arguments) -> Result<(), ToolFailure> {
    let wrong = |why: String| Err(ToolFailure::bad_arguments(format!("write_stdin: {why}")));
    if arguments.chars.len() > MAX_CHARS {
        let length = arguments.chars.len();
        return wrong(format!("chars has {length} bytes; {MAX_CHARS} is the limit of one call"));
    }
    if arguments.resize.is_some_and(|size| size.rows == 0 || size.columns == 0) {
        return wrong("a terminal has at least one row and one column".into());
    }
    Ok(())
}

fn verdict(arguments: &Arguments, process: &Process) -> Verdict {
    let what = match arguments {
        Arguments { close: true, .. } => "end",
        Arguments { interrupt: true, .. } => "interrupt",
        arguments if arguments.acts() => "type into",
        _ => "look at",
    };
    let action = format!("{what} session {} ({})", process.id, process.command);
    let reason = "the rule that allowed the command allows its input";
    Verdict {
        action: action.clone(),
        decision: Decision::Allow,
        asked: false,
        rule: process.rule.clone(),
        reason: reason.into(),
        parts: vec![PartVerdict {
            part: action,
            argv: Vec::new(),
            decision: Decision::Allow,
            rule: process.rule.clone(),
            reason: reason.into(),
        }],
    }
}

async fn run(arguments: Arguments, process: Arc<Process>, context: CallContext) -> ToolOutput {
    let world = context.world;
    let acted = act(&arguments, &process).await;
    let wait = arguments
        .yield_time_ms
        .map_or(if arguments.acts() { TYPED } else { LOOK }, Duration::from_millis);
    if acted.is_ok() {
        tokio::select! {
            () = process.live.ended() => {}
            () = tokio::time::sleep(wait.min(MAX_WAIT)) => {}
            // The Turn ends: the command goes like one that did not outlive its call.
            () = context.cancel.cancelled() => process.end("cancelled").await,
        }
    }
    let over = process.is_over();
    let look = if over {
        processes::look_after(&world, &process).await
    } else {
        Some(look::look(&world, CallRef::command(process.call_id.as_str()), false).await)
    };
    let bytes = shown_bytes(arguments.max_output_tokens, &world);
    let shown = Shown { bytes, in_parts: true, world: &world };
    let mut output = match process.live.end() {
        Some(end) => describe(end, &process.live, &process.origin, &shown, arguments.close),
        None => {
            let headline = running_headline(process.id, process.live.began());
            let text = shown.with(&headline, &process.live.take_output());
            ToolOutput::new(ResultKind::Ok, effect_of(&arguments), text)
        }
    };
    if let Err(why) = acted {
        output.text = format!("{}\n{}", refused(&why, &process), output.text);
        output.result = Some(ResultKind::Failed);
        output.effect = Some(Effect::None);
    }
    if let Some(look) = look {
        if let Some(text) = look.text() {
            output.text.push_str(&format!("\n[policy: {text}]\n"));
        }
        output.warnings.extend(look.warnings());
    }
    if over {
        process.told();
    }
    output
}

fn effect_of(arguments: &Arguments) -> Effect {
    if arguments.acts() { Effect::Done } else { Effect::None }
}

/// In the order in which a person would do it: the window, the text, its end, Ctrl-C, the end of all.
async fn act(arguments: &Arguments, process: &Process) -> Result<(), InputError> {
    let live = &process.live;
    if process.is_over() {
        // Nothing to act on; the end is told instead, and only text that was lost is a failure.
        return if arguments.chars.is_empty() { Ok(()) } else { Err(InputError::Ended) };
    }
    if let Some(Resize { rows, columns }) = arguments.resize {
        live.resize(Size { rows, columns })?;
    }
    // Ctrl-C as text, for a command without a terminal that would turn it into a signal.
    let typed_interrupt = !live.has_terminal && arguments.chars == "\u{3}";
    if !arguments.chars.is_empty() && !typed_interrupt {
        live.write(arguments.chars.as_bytes())?;
    }
    if arguments.eof {
        live.end_input()?;
    }
    if arguments.interrupt || typed_interrupt {
        live.interrupt()?;
    }
    if arguments.close {
        process.end("closed").await;
    }
    Ok(())
}

fn refused(why: &InputError, process: &Process) -> String {
    let id = process.id;
    let hint = match why {
        InputError::Closed => {
            "start the command with \"stdin\": true or \"tty\": true to type into it"
        }
        InputError::NoTerminal => "start the command with \"tty\": true to give it a terminal",
        InputError::NotReading(_) => "wait until it reads, or end it with close",
        InputError::Ended => "how it ended stands below",
    };
    format!("nothing was typed into session {id}: {why}; {hint}")
}
