//! The reporter: Events in, lines out, in the form that was asked for.

use super::events::{EventStream, RunFinished};
use super::human::{self, Show, Style};
use super::output::Output;
use super::spinner::Spinner;
use super::text::{json_line, many_lines, one_line, without_commands};
use crate::clock;
use crate::protocol::{Event, EventMsg, Outcome, State, Usage};
use crate::rollout::Masker;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nobody waits longer than this for a sign of life.
pub const HEARTBEAT: Duration = Duration::from_secs(30);

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Progress on stderr, the final message on stdout.
    Human { tty: bool, color: bool },
    /// The event stream on stdout; on stderr only warnings, retries, heartbeats and the end.
    Json,
    /// The final message on stdout; on stderr only warnings and an end that is no success.
    Quiet,
}

/// How a reporter is set up.
#[derive(Debug, Clone)]
pub struct ReporterOptions {
    pub mode: Mode,
    /// The host of this job takes some lines for commands (GitHub Actions and its like): lines of the
    /// final message that would be such are disarmed. On stderr and in JSON that is always so.
    pub host_reads_commands: bool,
    pub masker: Arc<Masker>,
}

/// How a run ended, for its last lines.
#[derive(Debug, Clone)]
pub struct Finish<'a> {
    pub outcome: &'a Outcome,
    /// From the one exit table.
    pub exit_status: u8,
    pub final_message: Option<&'a str>,
    /// Where the artifacts are.
    pub artifacts: Option<&'a Path>,
    pub steps: u32,
    pub usage: Usage,
    pub changed: Option<bool>,
    pub duration: Duration,
}

/// Turns Events into lines.
pub struct Reporter {
    options: ReporterOptions,
    output: Output,
    style: Style,
    stream: EventStream,
    spinner: Option<Spinner>,
    /// When stderr last got a line.
    last_said: Instant,
    step: u32,
    busy: Option<(String, Instant)>,
    /// What waits while a hook runs.
    beside_hook: Option<(String, Instant)>,
    told_stderr_failure: bool,
}

impl Reporter {
    pub fn new(options: ReporterOptions, output: Output) -> Self {
        let (tty, color) = match options.mode {
            Mode::Human { tty, color } => (tty, color),
            Mode::Json | Mode::Quiet => (false, false),
        };
        Self {
            spinner: tty.then(Spinner::new),
            style: Style { color },
            stream: EventStream::new(),
            options,
            output,
            last_said: clock::now(),
            step: 0,
            busy: None,
            beside_hook: None,
            told_stderr_failure: false,
        }
    }

    /// The first line: where the artifacts will be.
    pub async fn opened(&mut self, artifacts: &Path) {
        if self.options.mode != Mode::Quiet {
            self.say(format!("artifacts: {}", one_line(&artifacts.display().to_string(), 4096)))
                .await;
        }
    }

    /// Shows an Event.
    pub async fn event(&mut self, event: &Event) {
        self.follow(event);
        if self.options.mode == Mode::Json {
            for line in self.stream.lines(event) {
                self.json(line).await;
            }
            self.tell_stderr_failure(&event.ts).await;
        }
        let show = match self.options.mode {
            Mode::Human { .. } => true,
            Mode::Json => human::matters(event),
            Mode::Quiet => {
                matches!(event.msg, EventMsg::Warning { .. } | EventMsg::Rejected { .. })
            }
        };
        if show && let Some(line) = self.show().event(event) {
            self.say(line).await;
        }
    }

    /// A warning from outside the Session.
    pub async fn warning(&mut self, text: &str) {
        if self.options.mode == Mode::Json {
            let line = self.stream.warning(&clock::stamp(), text);
            self.json(line).await;
        }
        let line = self.show().warning(text);
        self.say(line).await;
    }

    /// Call this every second or so: moves the spinner, and breaks a silence of [`HEARTBEAT`].
    pub async fn heartbeat(&mut self) {
        self.heartbeat_at(clock::now()).await;
    }

    pub(super) async fn heartbeat_at(&mut self, now: Instant) {
        if let Some(spinner) = &self.spinner {
            spinner.say(self.doing(now));
            spinner.tick(&self.output);
            return;
        }
        let silent = now.saturating_duration_since(self.last_said);
        if self.options.mode != Mode::Quiet && silent >= HEARTBEAT {
            let line = format!("still working: {}", self.doing(now));
            self.say(line).await;
            self.last_said = now;
        }
    }

    /// The last lines, and the final message.
    pub async fn finish(&mut self, end: &Finish<'_>) {
        if let Some(spinner) = self.spinner.take() {
            spinner.clear(&self.output).await;
            self.output.settle().await;
        }
        let artifacts = end.artifacts.map(|path| path.display().to_string());
        if self.options.mode == Mode::Json {
            let finished = RunFinished {
                state: end.outcome.state.as_str(),
                exit_status: end.exit_status,
                reason: &end.outcome.reason,
                message: &end.outcome.message,
                hint: &end.outcome.hint,
                retryable: end.outcome.retryable,
                artifacts: artifacts.as_deref(),
                steps: end.steps,
                usage: end.usage,
                changed: end.changed,
                duration_ms: clock::millis(end.duration),
            };
            for line in self.stream.run_finished(&clock::stamp(), &finished) {
                self.json(line).await;
            }
        } else if let Some(message) = end.final_message {
            let message = self.final_message(message);
            self.output.stdout(message).await;
            self.output.settle().await;
        }
        let success = end.outcome.state == State::Completed;
        if self.options.mode == Mode::Quiet && success {
            return;
        }
        self.say_outcome(end).await;
        if let (Some(artifacts), true) = (artifacts, self.options.mode != Mode::Quiet) {
            self.say(format!("artifacts: {}", one_line(&artifacts, 4096))).await;
        }
    }

    async fn say_outcome(&mut self, end: &Finish<'_>) {
        let outcome = end.outcome;
        let word = outcome.state.as_str();
        let word = match outcome.state {
            State::Completed => self.style.good(word),
            _ => self.style.bad(word),
        };
        let took = clock::human(end.duration);
        let message = self.show().text(&outcome.message, 2000);
        let reason = if outcome.reason.is_empty() || outcome.state == State::Completed {
            String::new()
        } else {
            format!(" ({})", self.show().text(&outcome.reason, 64))
        };
        self.say(format!("turnkey: {word}, exit {}, {took}: {message}{reason}", end.exit_status))
            .await;
        if !outcome.hint.is_empty() {
            let hint = self.show().text(&outcome.hint, 2000);
            self.say(format!("hint: {hint}")).await;
        }
    }

    /// The message as it stands, but for characters that no text needs, and secrets.
    fn final_message(&self, message: &str) -> String {
        let masked = self.options.masker.mask(message);
        let mut text = many_lines(&masked);
        if self.options.host_reads_commands {
            text = without_commands(&text).into_owned();
        }
        // The line adds its own.
        if text.ends_with('\n') {
            text.pop();
        }
        text
    }

    async fn json(&mut self, mut line: Value) {
        self.options.masker.mask_value(&mut line);
        self.output.stdout(json_line(line.to_string())).await;
    }

    async fn say(&mut self, line: String) {
        match &self.spinner {
            Some(spinner) => spinner.line(&line, &self.output).await,
            None => self.output.stderr(line).await,
        }
        self.last_said = clock::now();
    }

    /// stdout carries JSON here, so that is where a dead stderr can be told.
    async fn tell_stderr_failure(&mut self, ts: &str) {
        if self.told_stderr_failure {
            return;
        }
        if let Some(failure) = self.output.stderr_failure() {
            let text = format!("stderr can no longer be written ({failure}); going on");
            self.told_stderr_failure = true;
            let line = self.stream.warning(ts, &text);
            self.json(line).await;
        }
    }

    fn follow(&mut self, event: &Event) {
        match &event.msg {
            EventMsg::StepStarted { step } => {
                self.step = *step;
                self.busy = Some(("the model".to_owned(), clock::now()));
            }
            EventMsg::PatchProgress { action, path } => {
                let path = self.show().text(path, 60);
                self.busy = Some((format!("a patch arriving: {action} {path}"), clock::now()));
            }
            EventMsg::CallStarted { call } => {
                self.busy = Some((self.show().short_call(call), clock::now()));
            }
            EventMsg::VerifyStarted { name, .. } => {
                self.busy = Some((format!("check {}", self.show().text(name, 60)), clock::now()));
            }
            EventMsg::HookStarted { hook, .. } => {
                self.beside_hook = self.busy.take();
                self.busy = Some((format!("hook {}", self.show().text(hook, 60)), clock::now()));
            }
            EventMsg::HookDone { .. } => self.busy = self.beside_hook.take(),
            EventMsg::TurnEnded { .. } => self.busy = None,
            _ => {}
        }
    }

    fn show(&self) -> Show<'_> {
        Show { style: self.style, masker: &self.options.masker }
    }

    fn doing(&self, now: Instant) -> String {
        match &self.busy {
            Some((what, since)) => {
                let time = clock::human(now.saturating_duration_since(*since));
                format!("step {}, {what} for {time}", self.step)
            }
            None => format!("step {}", self.step),
        }
    }
}
