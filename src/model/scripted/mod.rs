//! A model that says what a YAML file tells it to: for demos, tests, and dry runs of one's own
//! policy. It is only used when it is named (`scripted/FILE`).
//!
//! ```yaml
//! version: 1
//! steps:                                   # one response each, played in order
//!   - name: look                           # optional; a target for `next`
//!     reasoning: The test must show what is wrong.
//!     text: I run the test first.
//!     calls:
//!       - { tool: exec_command, args: { cmd: sh test.sh } }
//!       - { tool: read_file, raw: '{"path": "broken' }        # sent as it stands, even if broken
//!       - { tool: apply_patch, input: "*** Begin Patch…" }    # freeform text
//!     usage: { input: 900, cached: 0, output: 40, reasoning: 0 }
//!     delay: 100ms                         # before the response
//!     next:                                # default: the step that follows in the file
//!       - { when: { exit_code: 0 }, step: done }
//!       - { step: fix }
//!   - name: fix
//!     expect: { call: 1, exit_code: 1, contains: "expected 3" }   # else the run fails
//!     capture: { line: { regex: 'line (\d+)' } }
//!     text: Line {{line}} is wrong.
//!     fail: { status: 500, times: 2 }      # fails twice, then plays
//!   - name: done
//!     text: The test passes now.
//! ```
//!
//! Which step plays is read off the history: the responses in it and the results that followed
//! them. Nothing is remembered beside it, so a retried request gets the same answer and a resumed
//! run goes on where it was. The one exception is `fail`, which counts attempts: those leave no
//! trace in a history.
//!
//! `expect` and `when` look at what came since the last response: `tool`, `result` (the closed
//! kinds of results), `exit_code`, `contains`, `absent`, `regex` at one tool result (the last one,
//! or `call: N` of them, or a list with one entry for each), and `message: {contains, absent,
//! regex}` at the text of messages. Regular expressions are ASCII in `\w`, `\d`, `\s`.
//!
//! `capture` takes the first group (or the whole match) of a pattern out of a result, for
//! `{{name}}` in this and later steps. Only files that capture something have such values; in all
//! others double braces are plain text.

mod matcher;
mod play;
mod scene;
mod schema;
mod script;

pub use schema::schema;
pub use script::Script;

use super::Model;
use super::endpoint::Timeouts;
use super::error::{ModelError, ModelErrorKind};
use super::open::OpenError;
use super::stream::{BoxFuture, ModelEvent, ResponseStream, Source};
use crate::protocol::Prompt;
use crate::spec::yaml;
use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The model that plays a script.
pub(super) struct Scripted {
    id: String,
    script: Script,
    timeouts: Timeouts,
    /// Attempts made so far at a place of the history, for `fail`.
    attempts: Mutex<HashMap<usize, u32>>,
}

/// Reads and checks the file; all of its faults are told at once.
pub(super) fn open(name: &str, timeouts: Timeouts) -> Result<Scripted, OpenError> {
    let path = Path::new(name);
    let text =
        read(path).map_err(|error| OpenError::ScriptFile { path: path.to_owned(), error })?;
    let script = Script::parse(name, &text).map_err(OpenError::Script)?;
    Ok(Scripted::new(name, script, timeouts))
}

/// A little more than is taken, so that a file that is too long is told and not cut.
fn read(path: &Path) -> std::io::Result<String> {
    let limit = u64::try_from(yaml::MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut text = String::new();
    std::fs::File::open(path)?.take(limit).read_to_string(&mut text)?;
    Ok(text)
}

impl Scripted {
    pub fn new(name: &str, script: Script, timeouts: Timeouts) -> Self {
        let attempts = Mutex::default();
        Self { id: format!("scripted/{name}"), script, timeouts, attempts }
    }

    /// How often this place of the history was asked before.
    fn count_attempt(&self, place: usize) -> u32 {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = attempts.entry(place).or_default();
        *count = count.saturating_add(1);
        *count - 1
    }
}

impl Model for Scripted {
    fn id(&self) -> &str {
        &self.id
    }

    fn freeform_tools(&self) -> bool {
        true
    }

    fn is_billed(&self) -> bool {
        false
    }

    fn stream(&self, prompt: &Prompt, cancel: CancellationToken) -> ResponseStream {
        let act = scene::find(&self.script, &prompt.items)
            .and_then(|scene| {
                let before = self.count_attempt(scene.responses);
                play::act(&self.script, &scene, before, self.timeouts.idle)
            })
            .unwrap_or_else(play::Act::failing);
        ResponseStream::new(Box::new(Playing { act: Some(act), cancel }))
    }
}

/// A mismatch names the place in the file and what was met instead.
fn mismatch(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::ScriptMismatch, message)
        .hint("change the script, or what it meets")
}

/// A response being played.
struct Playing {
    act: Option<play::Act>,
    cancel: CancellationToken,
}

impl Playing {
    async fn wait(&self, time: Duration) -> Result<(), ModelError> {
        if time.is_zero() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(ModelError::cancelled()),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }
}

impl Source for Playing {
    fn fill<'a>(
        &'a mut self,
        queue: &'a mut VecDeque<ModelEvent>,
    ) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            let Some(act) = self.act.take() else {
                return Err(ModelError::new(ModelErrorKind::Cut, "the script's answer was cut"));
            };
            self.wait(act.delay).await?;
            queue.extend(act.events);
            let Some(failure) = act.failure else { return Ok(()) };
            self.wait(act.stall).await?;
            Err(failure)
        })
    }
}

#[cfg(test)]
mod tests;
