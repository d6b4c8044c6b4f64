//! The hooks that are told how a run ended, while its record is still open. They cannot change the end
//! but by failing: what they change in the tree comes after the diff and is undone.

use super::outcome;
use super::run::{Controls, Face, Taken, Watcher};
use crate::clock;
use crate::hooks::{Answer, Hook, HookPoint};
use crate::protocol::{CallId, Event, EventMsg, Outcome, State, SubmissionId};
use crate::rollout::{HookRecord, Record, RolloutWriter};
use crate::tools::{self, Halt, HookObserver, HookPlace, ToolWorld};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long after a signal, or after its time limit, a run may still tell hooks. A hook that does not
/// end by then gets a grace of 1.5 s, and artifacts must stand within five seconds.
const AFTER_A_CUT: Duration = Duration::from_secs(2);

/// What hooks are told with.
pub(super) struct Ended<'a> {
    pub world: &'a Arc<ToolWorld>,
    pub rollout: &'a RolloutWriter,
    pub outcome: &'a Outcome,
    pub exit_status: u8,
    pub place: HookPlace,
    /// Where the files of the run will be published.
    pub artifacts: PathBuf,
}

/// Tells every hook, and gives what stands against the outcome because of that.
pub(super) async fn tell(
    ended: Ended<'_>,
    taken: &mut Taken,
    watcher: &mut Watcher,
    face: &mut dyn Face,
    controls: &mut Controls,
) -> Vec<Outcome> {
    let hooks = ended.world.hooks.at(HookPoint::RunEnd, None);
    if hooks.is_empty() {
        return Vec::new();
    }
    let cut = watcher.cut.or((ended.outcome.state == State::TimedOut).then_some(watcher.deadline));
    let bound = cut.map_or(watcher.deadline, |cut| cut + AFTER_A_CUT);
    let signalled = watcher.signal.is_some();
    // From here on a signal has no Session to interrupt.
    let cancel = CancellationToken::new();
    watcher.cancel = cancel.clone();
    let (events, mut inbox) = mpsc::unbounded_channel();
    let observer = Observer { rollout: ended.rollout, place: ended.place.clone(), events };
    let about = about(&ended, taken);
    let telling = tell_all(&hooks, about, ended.world, &observer, &cancel);
    tokio::pin!(telling);
    let patience = tokio::time::sleep_until(bound.into());
    tokio::pin!(patience);
    let mut against = loop {
        tokio::select! {
            biased;
            Some(signal) = controls.signals.recv() => watcher.signalled(signal, controls).await,
            () = &mut patience, if !cancel.is_cancelled() => cancel.cancel(),
            Some(msg) = inbox.recv() => watcher.tell(msg, face, controls).await,
            against = &mut telling => break against,
        }
    };
    while let Ok(msg) = inbox.try_recv() {
        watcher.tell(msg, face, controls).await;
    }
    match watcher.signal.filter(|_| !signalled) {
        Some(signal) => against.push(outcome::interrupted(signal)),
        None if cut.is_none() && cancel.is_cancelled() => against.push(outcome::out_of_time()),
        None => {}
    }
    tools::settle_look(ended.world).await;
    for late in tools::late_looks(ended.world).await {
        for text in late.warnings() {
            watcher.tell(EventMsg::Warning { text }, face, controls).await;
        }
    }
    against.extend(undo(ended.world, taken, watcher, face, controls).await);
    ended.world.executor.leave().await;
    against
}

fn about(ended: &Ended<'_>, taken: &Taken) -> Value {
    let diff = &taken.evidence.record;
    let changed: Vec<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
    json!({
        "state": ended.outcome.state.as_str(),
        "exit_status": ended.exit_status,
        "reason": ended.outcome.reason,
        "message": ended.outcome.message,
        "changed_files": changed,
        "diff_digest": diff.digest,
        "artifacts": {
            "directory": ended.artifacts.display().to_string(),
            "rollout": "rollout.jsonl", "diff": "turn.diff", "result": "result.json",
            "last_message": "last-message.md", "summary": "summary.md",
        },
    })
}

async fn tell_all(
    hooks: &[Hook],
    about: Value,
    world: &Arc<ToolWorld>,
    observer: &Observer<'_>,
    cancel: &CancellationToken,
) -> Vec<Outcome> {
    let mut against = Vec::new();
    for hook in hooks {
        let asked = tools::ask_hook(world, hook, None, about.clone(), observer, cancel).await;
        let why = match asked {
            Ok(Answer::Replied(_)) => continue,
            Ok(Answer::Erred { why, .. }) => format!("erred: {why}"),
            Ok(Answer::Cancelled) => "was not told to its end: no time was left".to_owned(),
            Err(halt) => {
                against.push(Outcome::new(State::Unavailable, halt.reason, halt.message));
                continue;
            }
        };
        let text = format!("the hook {} {why}", hook.label());
        observer.say(EventMsg::Warning { text: text.clone() });
        if hook.required {
            against.push(
                Outcome::new(State::Unavailable, "hook.run_end", text)
                    .hint(outcome::HOOK_HINT)
                    .retryable(true),
            );
        }
    }
    against
}

/// The diff is taken: what hooks changed after it is put back and told.
async fn undo(
    world: &Arc<ToolWorld>,
    taken: &mut Taken,
    watcher: &mut Watcher,
    face: &mut dyn Face,
    controls: &mut Controls,
) -> Option<Outcome> {
    if !taken.is_known {
        return None;
    }
    let evidence = std::mem::take(&mut taken.evidence);
    let (evidence, undone) = match world
        .with_workspace(move |workspace| {
            let undone = evidence.put_back(workspace);
            Ok((evidence, undone))
        })
        .await
    {
        Ok(done) => done,
        Err(error) => {
            return Some(Outcome::new(State::Unavailable, "workspace.restore", error.to_string()));
        }
    };
    taken.evidence = evidence;
    match undone {
        Ok(undone) if undone.is_empty() => None,
        Ok(undone) => {
            let text = format!("run_end hooks changed files; undone: {}", undone.join(", "));
            watcher.tell(EventMsg::Warning { text }, face, controls).await;
            None
        }
        Err(error) => {
            let text = format!("what run_end hooks changed could not be undone: {error}");
            Some(Outcome::new(State::Unavailable, "workspace.restore", text))
        }
    }
}

struct Observer<'a> {
    rollout: &'a RolloutWriter,
    place: HookPlace,
    events: mpsc::UnboundedSender<EventMsg>,
}

impl Observer<'_> {
    fn say(&self, msg: EventMsg) {
        // The receiver lives as long as the hooks are told.
        let _ = self.events.send(msg);
    }
}

impl HookObserver for Observer<'_> {
    fn place(&self) -> HookPlace {
        self.place.clone()
    }

    fn hook_started<'a>(
        &'a self,
        hook: &'a Hook,
        _: Option<&'a CallId>,
    ) -> BoxFuture<'a, Result<(), Halt>> {
        let step = self.place.step;
        self.say(EventMsg::HookStarted { hook: hook.label(), step, call_id: None });
        Box::pin(std::future::ready(Ok(())))
    }

    fn hook_done(&self, record: HookRecord) -> BoxFuture<'_, Result<(), Halt>> {
        Box::pin(async move {
            let msg = record.event();
            let written = self.rollout.append(Record::Hook(Box::new(record))).await;
            self.say(msg);
            written.map_err(|error| Halt {
                reason: "rollout.write".into(),
                message: format!("the rollout cannot be written: {error}"),
            })
        })
    }

    fn warning(&self, text: String) -> BoxFuture<'_, Result<(), Halt>> {
        self.say(EventMsg::Warning { text });
        Box::pin(std::future::ready(Ok(())))
    }
}

/// An Event from outside the Session, after its last one.
pub(super) fn event(seq: u64, msg: EventMsg) -> Event {
    Event { submission: SubmissionId(String::new()), seq, ts: clock::stamp(), msg }
}
