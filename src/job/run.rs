//! One Run: a Session with its one Turn, watched to its end, and the evidence of it.

use super::collect::Collected;
use super::outcome::{self, Facts};
use super::prepare::Prepared;
use crate::clock;
use crate::diff::{self, DiffOptions};
use crate::exec;
use crate::protocol::{Event, EventMsg, Op, Outcome, Signal, State, TurnEnd, TurnSummary};
use crate::rollout::{Record, RunFinishedRecord, RunStartedRecord, WorkspaceIdentity};
use crate::session::{self, SessionHandle, SessionParts};
use crate::tools;
use crate::verify::{self, Evidence};
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// Whoever shows a run to people and programs.
pub trait Face: Send {
    fn event<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, ()>;
    /// About every second.
    fn tick(&mut self) -> BoxFuture<'_, ()>;
}

/// What the process itself does for a run.
pub struct Controls {
    pub signals: mpsc::Receiver<Signal>,
    /// From now on nothing may wait for a slow reader.
    pub hurry: Box<dyn Fn()>,
    /// Ends the process at once; the second signal asks for that.
    pub kill: Box<dyn Fn(Signal)>,
    /// The one exit table.
    pub exit_status: fn(State) -> u8,
}

/// A Run that is over.
pub struct RunEnd {
    pub outcome: Outcome,
    pub summary: TurnSummary,
    pub collected: Collected,
    pub evidence: Evidence,
    /// The start's difference from its commit, where it was dirty and holds no known secret.
    pub start_diff: Option<Vec<u8>>,
    /// True where the diff adds a known secret and must not be published.
    pub diff_withheld: bool,
}

/// How long a slow reader may hold up a run that is out of time.
const READER_GRACE: Duration = Duration::from_secs(1);

/// Runs the Turn and computes the one Outcome.
pub async fn run(
    prepared: Prepared,
    face: &mut dyn Face,
    mut controls: Controls,
) -> (RunEnd, Leftover) {
    let Prepared {
        parts,
        task,
        masker,
        settings,
        policy_file,
        grades,
        root,
        started,
        folder,
        warnings,
        folder_of_settings,
        parent,
    } = prepared;
    exec::adopt_orphans();
    let rollout = parts.rollout.clone();
    let world = parts.world.clone();
    let on_deny = parts.config.on_deny;
    let model = parts.model.id().to_owned();
    let session = parts.session.to_string();
    let deadline = parts.config.limits.deadline;
    let mut started_record =
        run_started(&parts, &folder.id, &settings, &grades, &root, &policy_file);
    started_record.task.clone_from(&task);
    started_record.folder = folder_of_settings.display().to_string();
    started_record.model_folder =
        folder_of_settings.join(&settings.model.base_dir).display().to_string();
    if let Some((run, kind)) = parent {
        started_record.parent_run = Some(run);
        started_record.parent_kind = Some(kind.to_owned());
    }
    let opened = rollout.append(Record::RunStarted(Box::new(started_record))).await;
    let mut watcher = Watcher { collected: Collected::default(), signal: None, deadline };
    watcher.collected.warnings = warnings;
    let end = match opened {
        Ok(()) => watcher.watch(parts, task, face, &mut controls).await,
        Err(error) => (
            TurnEnd::Failed {
                reason: "rollout.write".into(),
                message: format!("the rollout cannot be written: {error}"),
                retryable: true,
            },
            TurnSummary::default(),
        ),
    };
    let (turn_end, summary) = end;
    // The Turn ended them; what a broken Turn left behind ends here, before the diff is taken.
    let left = tools::end_all(&world, "turn_end").await;
    watcher.collected.processes.extend(left.into_iter().map(|settled| settled.process));
    world.executor.leave().await;
    let mut around = Vec::new();
    let knows = masker.clone();
    let taken = world.with_workspace(move |workspace| take_evidence(workspace, &knows)).await;
    let (evidence, start_diff) = taken.unwrap_or_else(|error| {
        let message = format!("the turn diff could not be made: {error}");
        around.push(Outcome::new(State::Unavailable, "workspace.diff", message));
        (Evidence::default(), (None, Vec::new()))
    });
    if let Some(why) = &evidence.disproved {
        around.push(Outcome::new(State::Internal, "internal.diff_proof", why));
    }
    let (start_diff, untold) = start_diff;
    watcher.collected.warnings.extend(untold);
    let diff_withheld = evidence.adds(&|bytes| masker.finds_secret(bytes));
    if diff_withheld {
        around.push(
            Outcome::new(
                State::Unverified,
                "secret.in_diff",
                "the turn adds a known secret to a file; its diff is not published",
            )
            .hint("look at the workspace itself, and take the secret out of the file"),
        );
    }
    let facts = Facts {
        signal: watcher.signal,
        end: &turn_end,
        summary: &summary,
        on_deny,
        fail_on_changes: settings.fail_on_changes.value,
        changed: !evidence.record.files.is_empty(),
        around,
    };
    let mut outcome = outcome::judge(&facts);
    let finished = Record::RunFinished(Box::new(RunFinishedRecord {
        run: folder.id.clone(),
        state: outcome.state.as_str().into(),
        exit_status: (controls.exit_status)(outcome.state),
        reason: outcome.reason.clone(),
        message: outcome.message.clone(),
        hint: outcome.hint.clone(),
        retryable: outcome.retryable,
        steps: summary.steps,
        usage: summary.usage,
        cost: None,
        duration_ms: clock::millis_since(started),
    }));
    // A Turn that was cut short had no verification, and so no diff of its own in the record.
    let diff = Record::Diff(Box::new(evidence.record.clone()));
    let closed = async {
        if !matches!(turn_end, TurnEnd::Completed) {
            rollout.append(diff).await?;
        }
        rollout.append(finished).await?;
        rollout.close().await
    };
    if let Err(error) = closed.await {
        let message = format!("the end of the run could not be recorded: {error}");
        outcome = outcome.strictest(Outcome::new(State::Unavailable, "rollout.write", message));
    }
    let collected = watcher.collected;
    let end = RunEnd { outcome, summary, collected, evidence, start_diff, diff_withheld };
    (
        end,
        Leftover {
            folder,
            settings,
            masker,
            grades,
            model,
            session,
            policy_digest: world.policy.digest().to_owned(),
        },
    )
}

/// What the artifacts are written from, besides the end.
pub struct Leftover {
    pub folder: super::RunFolder,
    pub settings: crate::spec::Settings,
    pub masker: std::sync::Arc<crate::rollout::Masker>,
    pub grades: Vec<crate::exec::sandbox::Grade>,
    pub model: String,
    pub session: String,
    pub policy_digest: String,
}

/// The start's own diff, and what is to be told of it.
type StartDiff = (Option<Vec<u8>>, Vec<String>);

fn take_evidence(
    workspace: &mut crate::workspace::Workspace,
    masker: &crate::rollout::Masker,
) -> Result<(Evidence, StartDiff), crate::workspace::WorkspaceError> {
    let evidence = verify::take(workspace)?;
    if !workspace.is_captured() || workspace.git().is_none() {
        return Ok((evidence, (None, Vec::new())));
    }
    let start = workspace.start_changes()?;
    let why = start.reasons.iter().map(|why| format!("start.diff is not exact: {why}"));
    let mut untold: Vec<String> = why.collect();
    let diff = diff::write_diff(start.files, &DiffOptions::default());
    if masker.finds_secret(&diff.bytes) {
        untold.push("the start was dirty with a known secret: start.diff is not published".into());
        return Ok((evidence, (None, untold)));
    }
    Ok((evidence, ((!diff.bytes.is_empty()).then_some(diff.bytes), untold)))
}

fn run_started(
    parts: &SessionParts,
    run: &crate::protocol::RunId,
    settings: &crate::spec::Settings,
    grades: &[crate::exec::sandbox::Grade],
    root: &std::path::Path,
    policy_file: &str,
) -> RunStartedRecord {
    let workspace = parts.world.workspace();
    let git = workspace.git();
    let sources: BTreeMap<String, String> =
        settings.rows().iter().map(|row| (row.key.clone(), row.source.to_string())).collect();
    RunStartedRecord {
        run: run.clone(),
        session: parts.session.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        settings: settings.to_json(),
        sources,
        policy_digest: parts.world.policy.digest().to_owned(),
        policy: serde_json::json!({ "file": policy_file }),
        workspace: WorkspaceIdentity {
            root: root.display().to_string(),
            repository_root: git.map(|git| git.work_root.display().to_string()),
            head: git.and_then(|git| git.head.commit).map(|commit| commit.hex()),
            ..WorkspaceIdentity::default()
        },
        sandbox: serde_json::json!(grades),
        untrusted: parts.config.untrusted,
        ..RunStartedRecord::default()
    }
}

/// Watches the Session of a run.
struct Watcher {
    collected: Collected,
    signal: Option<Signal>,
    deadline: std::time::Instant,
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
                Some(signal) = controls.signals.recv() => self.signalled(signal, &handle, controls).await,
                () = &mut patience, if !out_of_patience => {
                    out_of_patience = true;
                    (controls.hurry)();
                }
                event = events.recv() => {
                    let Some(event) = event else { break };
                    self.collected.event(&event);
                    if matches!(event.msg, EventMsg::TurnEnded { .. }) {
                        // One Turn is all that a run has.
                        let _ = handle.submit(Op::Shutdown).await;
                    }
                    self.show(&event, face, &handle, controls).await;
                }
                _ = tick.tick() => face.tick().await,
            }
        }
        self.collected.end.take().unwrap_or_else(closed_early)
    }

    /// Shows an event; a signal and the deadline get through while its reader is slow.
    async fn show(
        &mut self,
        event: &Event,
        face: &mut dyn Face,
        handle: &SessionHandle,
        controls: &mut Controls,
    ) {
        let showing = face.event(event);
        tokio::pin!(showing);
        loop {
            tokio::select! {
                () = &mut showing => return,
                Some(signal) = controls.signals.recv() => self.signalled(signal, handle, controls).await,
                () = tokio::time::sleep_until((self.deadline + READER_GRACE).into()) => {
                    (controls.hurry)();
                    showing.await;
                    return;
                }
            }
        }
    }

    /// The first signal ends the Turn in order, the second one the process.
    async fn signalled(&mut self, signal: Signal, handle: &SessionHandle, controls: &Controls) {
        if self.signal.is_some() {
            (controls.kill)(signal);
        }
        self.signal = Some(signal);
        (controls.hurry)();
        // Without a session there is nothing left to interrupt.
        let _ = handle.submit(Op::Interrupt { reason: "interrupted".into() }).await;
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
