//! One Run: a Session with its one Turn, watched to its end, and the evidence of it.

use super::collect::Collected;
use super::outcome::{self, Facts};
use super::prepare::Prepared;
use super::run_end;
use crate::clock;
use crate::diff::{self, DiffOptions};
use crate::exec::{self, sandbox::Grade};
use crate::hooks::Hook;
use crate::protocol::{Event, EventMsg, Op, Outcome, Signal, State, TurnEnd, TurnSummary};
use crate::rollout::{
    Masker, Record, RolloutError, RolloutWriter, RunFinishedRecord, RunStartedRecord,
    WorkspaceIdentity,
};
use crate::session::{self, SessionHandle, SessionParts};
use crate::spec::Settings;
use crate::tools::{self, HookPlace, ToolWorld};
use crate::verify::{self, Demands, Evidence, Verifier};
use crate::workspace::{Workspace, WorkspaceError};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Whoever shows a run to people and programs.
pub trait Face: Send {
    fn event<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, ()>;
    /// About every second.
    fn tick(&mut self) -> BoxFuture<'_, ()>;
}

/// What the process itself does for a run.
pub struct Controls {
    /// The signal that ends a run in order. (A second one ends the process, and nobody is asked.)
    pub signals: mpsc::Receiver<Signal>,
    /// From now on nothing may wait for a slow reader.
    pub hurry: Box<dyn Fn()>,
    /// The one exit table.
    pub exit_status: fn(State) -> u8,
}

/// A Run that is over.
pub struct RunEnd {
    pub outcome: Outcome,
    pub summary: TurnSummary,
    pub collected: Collected,
    pub taken: Taken,
}

/// How long a slow reader may hold up a run that is out of time.
const READER_GRACE: Duration = Duration::from_secs(1);

/// Runs the Turn and computes the one Outcome.
pub async fn run(
    mut prepared: Prepared,
    face: &mut dyn Face,
    mut controls: Controls,
) -> (RunEnd, Leftover) {
    exec::adopt_orphans();
    let rollout = prepared.parts.rollout.clone();
    let world = prepared.parts.world.clone();
    let verifier = prepared.parts.verifier.clone();
    let on_deny = prepared.parts.config.on_deny;
    let leftover = Leftover::of(&mut prepared);
    let started = prepared.started;
    let opened = rollout.append(run_started(&prepared, &leftover)).await;
    let mut watcher = Watcher {
        collected: Collected::default(),
        signal: None,
        cut: None,
        deadline: prepared.parts.config.limits.deadline,
        handle: None,
        cancel: CancellationToken::new(),
        next_seq: 0,
        turn: String::new(),
    };
    let (run_id, thread) = (prepared.parts.run.clone(), prepared.parts.session.to_string());
    let artifacts = std::mem::take(&mut prepared.artifacts);
    watcher.collected.warnings = prepared.warnings;
    let is_recorded = opened.is_ok();
    let (turn_end, summary) = match opened {
        Ok(()) => watcher.watch(prepared.parts, prepared.task, face, &mut controls).await,
        Err(error) => (unrecorded(&error), TurnSummary::default()),
    };
    // The Turn ended them; what a broken Turn left behind ends here, before the diff is taken.
    let left = tools::end_all(&world, "turn_end").await;
    watcher.collected.processes.extend(left.into_iter().map(|settled| settled.process));
    tools::settle_look(&world).await;
    let late = tools::late_looks(&world).await;
    watcher.collected.warnings.extend(late.iter().flat_map(|late| late.warnings()));
    world.executor.leave().await;
    let (mut taken, around) = evidence(&world, &verifier, &leftover.masker).await;
    watcher.collected.warnings.extend(taken.untold.iter().cloned());
    let facts = Facts {
        signal: watcher.signal,
        end: &turn_end,
        summary: &summary,
        on_deny,
        fail_on_changes: leftover.settings.fail_on_changes.value,
        changed: !taken.evidence.record.files.is_empty() || !taken.earlier.is_empty(),
        around,
    };
    let mut outcome = outcome::judge(&facts);
    let ended = run_end::Ended {
        world: &world,
        rollout: &rollout,
        outcome: &outcome,
        exit_status: (controls.exit_status)(outcome.state),
        place: HookPlace {
            run: run_id,
            thread,
            turn: std::mem::take(&mut watcher.turn),
            step: summary.steps,
        },
        artifacts,
    };
    if is_recorded {
        for against in run_end::tell(ended, &mut taken, &mut watcher, face, &mut controls).await {
            outcome = outcome.strictest(against);
        }
    }
    // Also where it was the last command, a check or a hook of the end.
    if let Some(why) = world.breach() {
        outcome = outcome.strictest(outcome::breached(&why));
    }
    // A Turn that was cut short had no verification, and so no diff of its own in the record.
    let completed = matches!(turn_end, TurnEnd::Completed);
    let diff = (!completed).then(|| Record::Diff(Box::new(taken.evidence.record.clone())));
    let status = (controls.exit_status)(outcome.state);
    let finished = run_finished(&leftover, &outcome, status, &summary, started);
    if let Err(error) = close(rollout, diff, finished).await {
        let message = format!("the end of the run could not be recorded: {error}");
        outcome = outcome.strictest(Outcome::new(State::Unavailable, "rollout.write", message));
    }
    (RunEnd { outcome, summary, collected: watcher.collected, taken }, leftover)
}

/// A run whose first record cannot be written does nothing.
fn unrecorded(error: &RolloutError) -> TurnEnd {
    TurnEnd::Failed {
        reason: "rollout.write".into(),
        message: format!("the rollout cannot be written: {error}"),
        retryable: true,
    }
}

/// The last records, on disk.
async fn close(
    rollout: RolloutWriter,
    diff: Option<Record>,
    finished: Record,
) -> Result<(), RolloutError> {
    if let Some(diff) = diff {
        rollout.append(diff).await?;
    }
    rollout.append(finished).await?;
    rollout.close().await.map(drop)
}

fn run_finished(
    leftover: &Leftover,
    outcome: &Outcome,
    exit_status: u8,
    summary: &TurnSummary,
    started: Instant,
) -> Record {
    let prices = leftover.settings.model.prices.value;
    Record::RunFinished(Box::new(RunFinishedRecord {
        run: leftover.folder.id.clone(),
        state: outcome.state.as_str().into(),
        exit_status,
        reason: outcome.reason.clone(),
        message: outcome.message.clone(),
        hint: outcome.hint.clone(),
        retryable: outcome.retryable,
        steps: summary.steps,
        usage: summary.usage,
        cost: prices.map(|prices| session::cost(&prices, summary.usage)),
        duration_ms: clock::millis_since(started),
    }))
}

/// What the artifacts are written from, besides the end.
pub struct Leftover {
    pub folder: super::RunFolder,
    pub settings: Settings,
    pub masker: Arc<Masker>,
    pub grades: Vec<Grade>,
    pub hooks: Vec<Hook>,
    pub model: String,
    pub session: String,
    pub policy_digest: String,
    pub spec_digest: String,
}

impl Leftover {
    /// Takes what outlives the run out of what it is made from.
    fn of(prepared: &mut Prepared) -> Self {
        let parts = &prepared.parts;
        Self {
            folder: prepared.folder.clone(),
            settings: prepared.settings.clone(),
            masker: prepared.masker.clone(),
            grades: std::mem::take(&mut prepared.grades),
            hooks: parts.world.hooks.list().to_vec(),
            model: parts.model.id().to_owned(),
            session: parts.session.to_string(),
            policy_digest: parts.world.policy.digest().to_owned(),
            spec_digest: prepared.settings.digest(&prepared.task),
        }
    }
}

/// The files of a Turn when it is over.
#[derive(Debug, Default)]
pub struct Taken {
    pub evidence: Evidence,
    /// False where the tree could not be compared with its start.
    pub is_known: bool,
    /// The start's difference from its commit, where it was dirty and holds no known secret.
    pub start_diff: Option<Vec<u8>>,
    /// True where the diff adds a known secret and must not be published.
    pub diff_withheld: bool,
    /// Paths that earlier Turns of the Session changed and that are not as they were: part of the
    /// work, and in no diff of this Turn.
    pub earlier: Vec<String>,
    /// What the operator should know of the start's diff.
    pub untold: Vec<String>,
}

/// Takes the diff with its proof, and all that it says against a success.
async fn evidence(
    world: &Arc<ToolWorld>,
    verifier: &Verifier,
    masker: &Masker,
) -> (Taken, Vec<Outcome>) {
    let mut around = Vec::new();
    let demands = verifier.demands.clone();
    let taken = world.with_workspace(move |workspace| take(workspace, demands)).await;
    let mut taken = taken.unwrap_or_else(|error| {
        let message = format!("the turn diff could not be made: {error}");
        around.push(Outcome::new(State::Unavailable, "workspace.diff", message));
        Taken::default()
    });
    if let Some(why) = &taken.evidence.disproved {
        around.push(Outcome::new(State::Internal, "internal.diff_proof", why));
    }
    if taken.start_diff.as_ref().is_some_and(|diff| masker.finds_secret(diff)) {
        taken.start_diff = None;
        let text = "the start was dirty with a known secret: start.diff is not published";
        taken.untold.push(text.into());
    }
    taken.diff_withheld = taken.evidence.adds(&|bytes| masker.finds_secret(bytes));
    if taken.diff_withheld {
        around.push(
            Outcome::new(
                State::Unverified,
                "secret.in_diff",
                "the turn adds a known secret to a file; its diff is not published",
            )
            .hint("look at the workspace itself, and take the secret out of the file"),
        );
    }
    (taken, around)
}

fn take(workspace: &mut Workspace, mut demands: Demands) -> Result<Taken, WorkspaceError> {
    let evidence = verify::take(workspace)?;
    demands.put_back(&evidence.ends_of(&demands.carried), workspace)?;
    let known = |path: &String| evidence.record.files.iter().any(|file| file.path == *path);
    let earlier = demands.carried.iter().filter(|path| !known(path)).cloned().collect();
    let mut taken = Taken { earlier, is_known: true, ..Taken::default() };
    if workspace.is_captured() && workspace.git().is_some() {
        let start = workspace.start_changes()?;
        let why = start.reasons.iter().map(|why| format!("start.diff is not exact: {why}"));
        taken.untold.extend(why);
        let diff = diff::write_diff(start.files, &DiffOptions::default());
        taken.start_diff = (!diff.bytes.is_empty()).then_some(diff.bytes);
    }
    taken.evidence = evidence;
    Ok(taken)
}

fn run_started(prepared: &Prepared, leftover: &Leftover) -> Record {
    let parts = &prepared.parts;
    let settings = &prepared.settings;
    let folder = &prepared.folder_of_settings;
    let workspace = parts.world.workspace();
    let git = workspace.git();
    let (parent_run, parent_kind) = match &prepared.parent {
        Some((run, kind)) => (Some(run.clone()), Some((*kind).to_owned())),
        None => (None, None),
    };
    Record::RunStarted(Box::new(RunStartedRecord {
        run: prepared.folder.id.clone(),
        session: parts.session.clone(),
        task: prepared.task.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        parent_run,
        parent_kind,
        folder: folder.display().to_string(),
        model_folder: folder.join(&settings.model.base_dir).display().to_string(),
        settings: settings.to_json(),
        sources: settings
            .rows()
            .iter()
            .map(|row| (row.key.clone(), row.source.to_string()))
            .collect(),
        spec_digest: leftover.spec_digest.clone(),
        policy_digest: leftover.policy_digest.clone(),
        policy: serde_json::json!({ "file": prepared.policy_file }),
        workspace: WorkspaceIdentity {
            root: prepared.root.display().to_string(),
            repository_root: git.map(|git| git.work_root.display().to_string()),
            head: git.and_then(|git| git.head.commit).map(|commit| commit.hex()),
        },
        sandbox: serde_json::json!(leftover.grades),
        untrusted: parts.config.untrusted,
    }))
}

/// Watches the Session of a run, and what comes after it.
pub(super) struct Watcher {
    collected: Collected,
    pub signal: Option<Signal>,
    /// When the first signal came.
    pub cut: Option<Instant>,
    pub deadline: Instant,
    handle: Option<SessionHandle>,
    /// Cancelled by a signal as well.
    pub cancel: CancellationToken,
    next_seq: u64,
    turn: String,
}

impl Watcher {
    async fn watch(
        &mut self,
        parts: SessionParts,
        task: String,
        face: &mut dyn Face,
        controls: &mut Controls,
    ) -> (TurnEnd, TurnSummary) {
        let (handle, mut events) = session::spawn(parts);
        self.handle = Some(handle.clone());
        if handle.submit(Op::UserInput { text: task.into() }).await.is_err() {
            return closed_early();
        }
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        let patience = tokio::time::sleep_until((self.deadline + READER_GRACE).into());
        tokio::pin!(patience);
        let mut out_of_patience = false;
        loop {
            tokio::select! {
                biased;
                Some(signal) = controls.signals.recv() => self.signalled(signal, controls).await,
                () = &mut patience, if !out_of_patience => {
                    out_of_patience = true;
                    (controls.hurry)();
                }
                event = events.recv() => {
                    let Some(event) = event else { break };
                    self.collected.event(&event);
                    self.next_seq = event.seq + 1;
                    if let EventMsg::TurnStarted { turn } = &event.msg {
                        self.turn = turn.to_string();
                    }
                    if matches!(event.msg, EventMsg::TurnEnded { .. }) {
                        // One Turn is all that a run has.
                        let _ = handle.submit(Op::Shutdown).await;
                    }
                    self.show(&event, face, controls).await;
                }
                _ = tick.tick() => face.tick().await,
            }
        }
        self.collected.end.take().unwrap_or_else(closed_early)
    }

    /// Shows an event; a signal and the deadline get through while its reader is slow.
    async fn show(&mut self, event: &Event, face: &mut dyn Face, controls: &mut Controls) {
        let showing = face.event(event);
        tokio::pin!(showing);
        loop {
            tokio::select! {
                () = &mut showing => return,
                Some(signal) = controls.signals.recv() => self.signalled(signal, controls).await,
                () = tokio::time::sleep_until((self.deadline + READER_GRACE).into()) => {
                    (controls.hurry)();
                    showing.await;
                    return;
                }
            }
        }
    }

    /// Shows what happens after the Session.
    pub async fn tell(&mut self, msg: EventMsg, face: &mut dyn Face, controls: &mut Controls) {
        let event = run_end::event(self.next_seq, msg);
        self.next_seq += 1;
        self.collected.event(&event);
        self.show(&event, face, controls).await;
    }

    /// The Turn is ended in order.
    pub async fn signalled(&mut self, signal: Signal, controls: &Controls) {
        self.signal = Some(signal);
        self.cut = Some(clock::now());
        (controls.hurry)();
        self.cancel.cancel();
        if let Some(handle) = &self.handle {
            // Without a session there is nothing left to interrupt.
            let _ = handle.submit(Op::Interrupt { reason: "interrupted".into() }).await;
        }
    }
}

fn closed_early() -> (TurnEnd, TurnSummary) {
    let end = TurnEnd::Failed {
        reason: "internal.session".into(),
        message: "the session ended without an end of its turn".into(),
        retryable: false,
    };
    (end, TurnSummary::default())
}
