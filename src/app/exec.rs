//! `turnkey exec`: from typed words to an exit status.

use super::exec_input::{self, Refused};
use super::finish::{self, Finishing};
use super::{env, exit, faults, host, signals};
use crate::cli::ExecArgs;
use crate::clock;
use crate::job::{self, Artifacts, Controls, Face, Prepared, RunInput};
use crate::protocol::{Event, Outcome, Signal, State};
use crate::report::{Mode, Output, Reporter, ReporterOptions, ResultRecord, write_result};
use crate::rollout::Masker;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::io::IsTerminal;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;

pub async fn run(args: ExecArgs, output: &Output, started: Instant) -> u8 {
    // An older run's result in the named folder must not survive this one, however it ends.
    let artifacts = match claim(args.artifacts.as_deref().map(Path::new)) {
        Ok(artifacts) => artifacts,
        Err(outcome) => return refused(output, &outcome, None).await,
    };
    let dry_run = args.dry_run;
    let gathered = match exec_input::gather(&args, started) {
        Ok(input) => input,
        Err(refusal) => {
            let outcome = match refusal {
                Refused::Invalid(text) => Outcome::new(State::Invalid, "invalid", text),
                Refused::Outcome(outcome) => *outcome,
            };
            return refused(output, &outcome, artifacts.as_deref()).await;
        }
    };
    let artifacts = match (artifacts, &gathered.settings.artifacts.value) {
        (Some(artifacts), _) => Some(artifacts),
        (None, named) => match claim(named.as_deref()) {
            Ok(artifacts) => artifacts,
            Err(outcome) => return refused(output, &outcome, None).await,
        },
    };
    start(gathered, artifacts, dry_run, output).await
}

/// Makes a run of what was gathered, and runs it.
pub(super) async fn start(
    gathered: RunInput,
    artifacts: Option<Arc<Artifacts>>,
    dry_run: bool,
    output: &Output,
) -> u8 {
    let mode = mode(&gathered.settings);
    let artifacts = artifacts.as_deref();
    let mut signals = signals::preparing();
    let prepared = match job::prepare(gathered, artifacts, &mut signals).await {
        Ok(prepared) => prepared,
        Err(outcome) => return refused(output, &outcome, artifacts).await,
    };
    if dry_run {
        output.stdout(job::dry_run(&prepared)).await;
        prepared.folder.discard();
        return 0;
    }
    let broken = Broken::of(&prepared);
    signals::begun();
    let going = go(prepared, artifacts, output, mode, signals);
    match AssertUnwindSafe(going).catch_unwind().await {
        Ok(status) => status,
        Err(panic) => broken.end(output, artifacts, &*panic).await,
    }
}

pub(super) fn claim(path: Option<&Path>) -> Result<Option<Arc<Artifacts>>, Outcome> {
    let Some(path) = path else { return Ok(None) };
    let artifacts = Artifacts::claim(path).map(Arc::new).map_err(|why| {
        Outcome::new(State::Unavailable, "artifacts.claim", format!("the artifacts folder: {why}"))
            .hint("name another folder with --artifacts, or wait for the other run")
            .retryable(true)
    })?;
    signals::claimed(&artifacts);
    Ok(Some(artifacts))
}

fn mode(settings: &crate::spec::Settings) -> Mode {
    if settings.json.value {
        return Mode::Json;
    }
    if settings.quiet.value {
        return Mode::Quiet;
    }
    let tty = std::io::stderr().is_terminal() && !env::under_github();
    let color = match settings.color.value {
        crate::spec::Color::Always => true,
        crate::spec::Color::Never => false,
        crate::spec::Color::Auto => tty,
    };
    Mode::Human { tty, color }
}

/// A run that did not start: said on stderr, and in the artifacts folder where one is claimed.
pub(super) async fn refused(
    output: &Output,
    outcome: &Outcome,
    artifacts: Option<&Artifacts>,
) -> u8 {
    let status = exit::status(outcome.state);
    output.stderr(format!("turnkey: {}: {}", outcome.state, outcome.message)).await;
    if !outcome.hint.is_empty() {
        output.stderr(format!("  hint: {}", outcome.hint)).await;
    }
    let now = clock::stamp();
    let mut record = ResultRecord::running("", "", &now);
    record.end(outcome, &now, 0, exit::status);
    if let Some(artifacts) = artifacts {
        record.artifacts.directory = artifacts.path().display().to_string();
        let bytes = serde_json::to_vec_pretty(&record).unwrap_or_default();
        if let Err(error) = artifacts.put("result.json", &bytes) {
            output.stderr(format!("turnkey: result.json could not be written: {error}")).await;
        }
    }
    // What was refused holds no secret that was read from anywhere.
    host::tell(&record, None, &Masker::new([("", ""); 0]), output).await;
    status
}

/// The run itself: everything from here on leaves a result.
async fn go(
    prepared: Prepared,
    artifacts: Option<&Artifacts>,
    output: &Output,
    mode: Mode,
    signals: mpsc::Receiver<Signal>,
) -> u8 {
    let began = clock::stamp();
    let masker = prepared.masker.clone();
    let run_folder = prepared.folder.dir.clone();
    prepared.folder.point_latest();
    let running =
        ResultRecord::running(prepared.folder.id.as_str(), prepared.parts.session.as_str(), &began);
    if let Err(outcome) = write_running(&running, &run_folder, artifacts, &masker) {
        return refused(output, &outcome, artifacts).await;
    }
    let shown = artifacts.map_or(run_folder.clone(), |folder| folder.path().to_owned());
    let options =
        ReporterOptions { mode, host_reads_commands: env::under_github(), masker: masker.clone() };
    let mut reporter = Reporter::new(options, output.clone());
    reporter.opened(&shown).await;
    for warning in &prepared.warnings {
        reporter.warning(warning).await;
    }
    let hurry = output.clone();
    let controls = Controls {
        signals,
        hurry: Box::new(move || hurry.stop_waiting()),
        exit_status: exit::status,
    };
    let started = prepared.started;
    let mut face = ReporterFace { reporter };
    let (end, leftover) = job::run(prepared, &mut face, controls).await;
    tokio::spawn(signalled_late(output.clone()));
    let finishing =
        Finishing { began: &began, started, run_folder: &run_folder, shown: &shown, artifacts };
    finish::finish(end, leftover, finishing, &mut face.reporter, output).await
}

/// `result.json` says `running` from the start, so that a run that is killed is no success.
fn write_running(
    record: &ResultRecord,
    run_folder: &Path,
    artifacts: Option<&Artifacts>,
    masker: &Masker,
) -> Result<(), Outcome> {
    let failed = |error: String| {
        Outcome::new(State::Unavailable, "result.write", error)
            .hint("check the disk that holds the run folder and the artifacts folder")
    };
    let folder = std::fs::File::open(run_folder)
        .map_err(|error| failed(format!("{}: {error}", run_folder.display())))?;
    write_result(&folder, record, masker).map_err(|error| failed(error.to_string()))?;
    if let Some(artifacts) = artifacts {
        let bytes = serde_json::to_vec_pretty(record).unwrap_or_default();
        artifacts.put("result.json", &bytes).map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

/// The Outcome is recorded and stands. A signal now means that nothing may wait for a slow reader any
/// more.
async fn signalled_late(output: Output) {
    if signals::arriving().recv().await.is_some() {
        output.stop_waiting();
    }
}

/// What must be known to end a run whose runner broke: kept apart, because the run is lost then.
struct Broken {
    run: String,
    session: String,
    began: String,
    run_folder: PathBuf,
    masker: Arc<Masker>,
}

impl Broken {
    fn of(prepared: &Prepared) -> Self {
        Self {
            run: prepared.folder.id.to_string(),
            session: prepared.parts.session.to_string(),
            began: clock::stamp(),
            run_folder: prepared.folder.dir.clone(),
            masker: prepared.masker.clone(),
        }
    }

    /// A panic of the runner itself: said, recorded, and never a success.
    async fn end(
        self,
        output: &Output,
        artifacts: Option<&Artifacts>,
        panic: &(dyn std::any::Any + Send),
    ) -> u8 {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".into());
        let outcome =
            Outcome::new(State::Internal, "internal.panic", format!("the runner broke: {text}"))
                .hint("this is a bug; the rollout is valid up to this moment");
        let mut record = ResultRecord::running(&self.run, &self.session, &self.began);
        record.end(&outcome, &clock::stamp(), 0, exit::status);
        let published = write_running(&record, &self.run_folder, None, &self.masker)
            .map(|()| artifacts.map_or(Ok(()), |artifacts| artifacts.publish(&self.run_folder)));
        let status = refused(output, &outcome, None).await;
        if !matches!(published, Ok(Ok(()))) {
            let text =
                "turnkey: the result could not be published; exit status and run folder stand";
            output.stderr(text).await;
        }
        let folder = self.run_folder.display();
        output.stderr(format!("artifacts: {folder}")).await;
        status
    }
}

struct ReporterFace {
    reporter: Reporter,
}

impl Face for ReporterFace {
    fn event<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, ()> {
        faults::break_runner();
        Box::pin(self.reporter.event(event))
    }

    fn tick(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.reporter.heartbeat())
    }
}
