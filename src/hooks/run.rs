//! One run of a hook: a process of the operator's, in the sandbox.

use super::answer::{self, Answer};
use super::{Asked, Asking, Hook};
use crate::clock;
use crate::exec::{Executor, Finished, OperatorCommand, ProcessEnd, RunLimits, UNREAD};
use crate::policy::Network;
use crate::rollout::{HookRecord, Masker};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Bytes that a hook may be asked with, and that it may answer with.
const MAX_INPUT: usize = 16 * 1024 * 1024;
const MAX_ANSWER: usize = 1024 * 1024;
/// Bytes of what it printed that the record keeps.
const OUTPUT: usize = 4 * 1024;

/// What hooks run with.
pub struct Runner {
    /// With a scratch that no command of the model's writes.
    pub executor: Executor,
    pub network: Network,
    pub root: PathBuf,
    pub masker: Arc<Masker>,
}

impl Runner {
    pub(super) async fn ask(
        &self,
        hook: &Hook,
        asking: Asking<'_>,
        cancel: &CancellationToken,
    ) -> Asked {
        let start = clock::now();
        let mut record = HookRecord {
            step: asking.step,
            hook: hook.label(),
            command: vec![self.masker.mask(&hook.run).into_owned()],
            call_id: asking.call_id.cloned(),
            ..HookRecord::default()
        };
        let answer = match self.run(hook, asking.input, cancel).await {
            Ok(finished) => {
                record.exit_code = match finished.end {
                    ProcessEnd::Exited(code) => Some(code),
                    ProcessEnd::Signaled(signal) => Some(128 + signal),
                    ProcessEnd::TimedOut | ProcessEnd::Cancelled => None,
                };
                record.output_tail = self.printed(&finished);
                self.judge(hook, &finished)
            }
            Err(why) => Answer::Erred { why, timed_out: false },
        };
        record.outcome = answer.outcome().into();
        record.duration_ms = clock::millis_since(start);
        match &answer {
            Answer::Replied(reply) => {
                record.reason.clone_from(&reply.reason);
                record.arguments = reply.arguments.clone().map(Value::Object);
                record.context.clone_from(&reply.context);
            }
            Answer::Erred { why, .. } => record.reason.clone_from(why),
            Answer::Cancelled => {}
        }
        Asked { answer, record: Some(record) }
    }

    async fn run(
        &self,
        hook: &Hook,
        input: &Value,
        cancel: &CancellationToken,
    ) -> Result<Finished, String> {
        let mut input = input.clone();
        self.masker.mask_value(&mut input);
        let mut bytes = input.to_string().into_bytes();
        bytes.push(b'\n');
        if bytes.len() > MAX_INPUT {
            return Err(format!(
                "what it is asked about has {} bytes; {MAX_INPUT} are the limit",
                bytes.len()
            ));
        }
        let command = OperatorCommand {
            name: hook.label(),
            script: hook.run.clone(),
            cwd: self.root.clone(),
            network: self.network.clone(),
        };
        let limits = RunLimits { timeout: hook.timeout, output: OUTPUT };
        let running =
            self.executor.converse(command.permit(), bytes, MAX_ANSWER, limits, cancel).await;
        running.map_err(|error| format!("it could not be run: {error}"))
    }

    fn judge(&self, hook: &Hook, finished: &Finished) -> Answer {
        let erred = |why: String| Answer::Erred { why, timed_out: false };
        match finished.end {
            ProcessEnd::Cancelled => return Answer::Cancelled,
            ProcessEnd::TimedOut => {
                let why = format!("it did not end within {}", clock::human(hook.timeout));
                return Answer::Erred { why, timed_out: true };
            }
            ProcessEnd::Signaled(signal) => {
                return erred(format!("it was killed by signal {signal}"));
            }
            ProcessEnd::Exited(0) => {}
            ProcessEnd::Exited(code) => {
                return erred(format!(
                    "it ended with exit code {code}{}",
                    self.last_line(finished)
                ));
            }
        }
        if let Some(limit) = &finished.exceeded {
            return erred(format!("it was ended by the runner: {limit}"));
        }
        let answered = finished.output.total - finished.output.stderr_total;
        if answered > MAX_ANSWER as u64 {
            return erred(format!("its answer has {answered} bytes; {MAX_ANSWER} are the limit"));
        }
        let mask = |text: &str| self.masker.mask(text).into_owned();
        match answer::read(hook.point, &finished.output.answer, &mask) {
            Ok(reply) => Answer::Replied(reply),
            Err(why) if finished.unread => erred(format!("{why} ({UNREAD})")),
            Err(why) => erred(why),
        }
    }

    fn printed(&self, finished: &Finished) -> String {
        let text = finished.output.text_with(|head, tail| self.masker.mask_cut(head, tail));
        self.masker.mask(&text).into_owned()
    }

    /// What a script that failed said last, for the message.
    fn last_line(&self, finished: &Finished) -> String {
        let text = self.printed(finished);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        line.map_or(String::new(), |line| {
            let short: String = line.chars().take(200).collect();
            format!(": {short}")
        })
    }
}
