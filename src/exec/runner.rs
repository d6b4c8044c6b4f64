//! The runner's side of a command: from a Permit to a process, and the limits it runs under.

use super::audit::Audit;
use super::capture::Captured;
use super::environment::Environment;
use super::host::{Host, Local, Work};
use super::launched::{Launched, Waiting, Wiring};
use super::launchers::Launchers;
use super::live::{Bounds, End, Live};
use super::log::{LogEnd, OutputLogs};
use super::order::{Finding, Order, ProbeOrder, Report, Setting};
use super::sandbox::{Confinement, Identity, Sandbox};
use super::{CleanPath, ExecError};
use crate::policy::ExecPermit;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What an [`Executor`] is made from.
pub struct ExecutorConfig {
    pub launchers: Launchers,
    pub sandbox: Arc<dyn Sandbox>,
    pub environment: Environment,
    pub path: CleanPath,
}

/// What commands beside the model's own have for themselves.
#[derive(Debug, Clone)]
pub struct Beside {
    pub environment: Environment,
    /// HOME and TMPDIR of these commands, and those of the others, which they do not get.
    pub scratch: PathBuf,
    pub instead_of: PathBuf,
    /// Files that they may read besides.
    pub read: Vec<PathBuf>,
}

/// Runs permitted commands.
pub struct Executor {
    config: ExecutorConfig,
    host: Arc<dyn Host>,
    logs: Option<Arc<dyn OutputLogs>>,
    audit: Option<Arc<Audit>>,
    /// A launcher for the next command, started ahead so that none waits for it.
    ready: Arc<Mutex<Option<Ahead>>>,
}

/// A command that takes longer shares the machine with the launcher that gets ready for the next one; a
/// shorter one has it for itself.
const SHORT: Duration = Duration::from_millis(5);

/// How long a launcher may take to say that a command has begun: more than each step of its child may take,
/// so that what the launcher knows comes first. A machine that stands still is no answer.
const ANSWER: Duration = Duration::from_secs(12);
/// What is left of that once the run ends.
const ANSWER_CANCELLED: Duration = Duration::from_secs(1);
/// The same for the probe, after which a run is refused.
const PROBE_ANSWER: Duration = Duration::from_secs(30);

/// A launcher that got ready for a command like the one before.
struct Ahead {
    waiting: Waiting,
    setting: Setting,
    /// What it brought along into a /tmp of the command's own, where only we can look at it again.
    brought: Vec<Option<Identity>>,
}

/// Bounds of one command.
#[derive(Debug, Clone, Copy)]
pub struct RunLimits {
    pub timeout: Duration,
    /// Bytes of output kept, head and tail together.
    pub output: usize,
}

/// How a command's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    Exited(i32),
    Signaled(i32),
    TimedOut,
    Cancelled,
}

/// A command that is over, with everything it started.
#[derive(Debug)]
pub struct Finished {
    pub end: ProcessEnd,
    pub output: Captured,
    pub duration: Duration,
    /// Processes that outlived the command and were ended.
    pub stragglers: u32,
    /// Processes that could not be ended.
    pub left: u32,
    /// The limit that it was ended for, in words.
    pub exceeded: Option<String>,
    /// Something still held its output open when the reading ended: its end may be missing.
    pub unread: bool,
    /// What became of its log, where one is kept.
    pub log: Option<LogEnd>,
}

impl Finished {
    pub fn new(end: End, output: Captured, log: Option<LogEnd>) -> Self {
        Self {
            log,
            end: end.end,
            output,
            duration: end.duration,
            stragglers: end.stragglers,
            left: end.left,
            exceeded: end.exceeded,
            unread: end.unread,
        }
    }
}

impl Executor {
    pub fn new(config: ExecutorConfig) -> Self {
        let host = Arc::new(Local::new(config.sandbox.clone(), &config.path));
        Self::on(host, config)
    }

    /// Runs commands elsewhere than on this machine.
    pub fn on(host: Arc<dyn Host>, config: ExecutorConfig) -> Self {
        Self { config, host, logs: None, audit: None, ready: Arc::default() }
    }

    /// Keeps the whole output of every command as well.
    pub fn with_logs(mut self, logs: Arc<dyn OutputLogs>) -> Self {
        self.logs = Some(logs);
        self
    }

    /// Hears from Landlock what it refuses.
    pub fn with_audit(mut self, audit: Option<Arc<Audit>>) -> Self {
        self.audit = audit;
        self
    }

    /// At the end of a run: takes away whatever of it is left where its commands ran.
    pub async fn leave(&self) {
        self.host.leave().await;
    }

    /// Whether scripts can run at all.
    pub fn has_bash(&self) -> bool {
        self.host.has_bash()
    }

    pub fn path(&self) -> &CleanPath {
        &self.config.path
    }

    pub fn sandbox(&self) -> &dyn Sandbox {
        self.config.sandbox.as_ref()
    }

    /// Runs one permitted command to its end, whatever that end is.
    pub async fn run(
        &self,
        permit: ExecPermit,
        limits: RunLimits,
        cancel: &CancellationToken,
    ) -> Result<Finished, ExecError> {
        self.start_unless(permit, Wiring::Closed, limits, cancel).await?.finished(cancel).await
    }

    /// A launcher at work on an order, and its first report: the one that got ready for it, or a new one.
    async fn launch(
        &self,
        setting: &Setting,
        order: &mut Order,
        wiring: Wiring,
    ) -> Result<(Launched, Option<Report>), ExecError> {
        let ahead = if wiring == Wiring::Closed { self.ready().take() } else { None };
        if let Some(ahead) = ahead.filter(|ahead| ahead.fits(setting)) {
            order.looks_again = true;
            // One that took no order has run nothing, nor has one that says so. One that took it and is
            // gone without a word may have.
            if let Ok(mut launched) = ahead.waiting.give(order).await {
                match launched.reports.next().await {
                    Some(Report::Stale | Report::Refused { .. }) => {}
                    report => return Ok((launched, report)),
                }
            }
            order.looks_again = false;
        }
        let launchers = &self.config.launchers;
        let mut launched = Launched::start(launchers, setting.clone(), order, wiring).await?;
        let report = launched.reports.next().await;
        Ok((launched, report))
    }

    fn ready(&self) -> MutexGuard<'_, Option<Ahead>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a launcher get ready for the next command, which most often is to run under the same.
    fn get_ready(&self, setting: Setting, live: &Live) {
        let ended = live.when_ended();
        let (ready, launchers) = (self.ready.clone(), self.config.launchers.clone());
        tokio::spawn(async move {
            let _ = tokio::time::timeout(SHORT, ended).await;
            let brought = setting.confinement.brought();
            let waiting = Waiting::start(&launchers, setting.clone(), Wiring::Closed).await;
            let ahead = waiting.ok().map(|waiting| Ahead { waiting, setting, brought });
            *ready.lock().unwrap_or_else(PoisonError::into_inner) = ahead;
        });
    }

    /// Starts one permitted command and leaves it running.
    pub async fn start(
        &self,
        permit: ExecPermit,
        wiring: Wiring,
        limits: RunLimits,
    ) -> Result<Live, ExecError> {
        self.begin(permit, wiring, limits, 0).await
    }

    /// The same; a cancel does not wait for long for a launcher that does not answer.
    pub async fn start_unless(
        &self,
        permit: ExecPermit,
        wiring: Wiring,
        limits: RunLimits,
        cancel: &CancellationToken,
    ) -> Result<Live, ExecError> {
        self.unless(cancel, self.begin(permit, wiring, limits, 0)).await
    }

    async fn unless(
        &self,
        cancel: &CancellationToken,
        beginning: impl Future<Output = Result<Live, ExecError>>,
    ) -> Result<Live, ExecError> {
        let cancelled = async {
            cancel.cancelled().await;
            tokio::time::sleep(ANSWER_CANCELLED).await;
        };
        tokio::select! {
            biased;
            begun = beginning => begun,
            () = cancelled => Err(self.no_answer("had not answered when the run ended")),
        }
    }

    /// An order that was given and that nothing was heard of. What it started ends with our end of the
    /// launcher's socket.
    fn no_answer(&self, why: &str) -> ExecError {
        // Somebody stopped it, or the one that it was to come from. An order that it finds later is
        // of no effect.
        self.config.launchers.forget();
        ExecError::Unknown(why.into())
    }

    /// Runs one permitted command that reads `input` and whose standard output is an answer, of which
    /// the first `answer` bytes are kept apart.
    pub async fn converse(
        &self,
        permit: ExecPermit,
        input: Vec<u8>,
        answer: usize,
        limits: RunLimits,
        cancel: &CancellationToken,
    ) -> Result<Finished, ExecError> {
        let beginning = self.begin(permit, Wiring::Open, limits, answer);
        let live = self.unless(cancel, beginning).await?;
        // One that has ended by now reads nothing.
        let _ = live.feed(input);
        live.finished(cancel).await
    }

    /// The same executor for commands of the operator's own: other variables, another scratch, and
    /// files of theirs to read.
    pub fn beside(&self, own: Beside) -> Self {
        let host = self.host.beside(&own);
        let config = ExecutorConfig {
            launchers: self.config.launchers.clone(),
            sandbox: self.config.sandbox.clone(),
            environment: own.environment,
            path: self.config.path.clone(),
        };
        Self::on(host, config)
    }

    async fn begin(
        &self,
        permit: ExecPermit,
        wiring: Wiring,
        limits: RunLimits,
        answer: usize,
    ) -> Result<Live, ExecError> {
        let attributes = permit.attributes();
        let (setting, mut order) = self.host.order(Work {
            command: permit.command(),
            cwd: permit.cwd(),
            env: self.config.environment.for_command(&attributes.env),
            network: &attributes.network,
            wiring,
        })?;
        let timeout = attributes.timeout.map_or(limits.timeout, |own| own.min(limits.timeout));
        let launched = self.launch(&setting, &mut order, wiring);
        let Ok(launched) = tokio::time::timeout(ANSWER, launched).await else {
            return Err(self.no_answer("did not answer in time"));
        };
        let (launched, report) = launched?;
        let process = match report {
            Some(Report::Started { pid }) => pid,
            Some(report) => return Err(refusal(report)),
            None => return Err(ExecError::Unknown("ended before it said so".into())),
        };
        let log = self.logs.as_ref().map(|logs| logs.open(&permit.command().display()));
        let bounds = Bounds { timeout, output: limits.output, answer };
        let live = Live::attend(launched, bounds, log);
        // Who converses needs another kind.
        if answer == 0 {
            self.get_ready(setting, &live);
        }
        Ok(live.audited(self.audit.clone(), process))
    }

    /// Confines a child exactly as commands will be, and reports what held. A layer that cannot be put in
    /// force at all is [`ExecError::Sandbox`].
    pub async fn probe(
        launchers: &Launchers,
        confinement: Confinement,
        probe: ProbeOrder,
    ) -> Result<Vec<Finding>, ExecError> {
        let setting = Setting { confinement, probe: Some(probe), ..Setting::default() };
        let mut waiting = Waiting::start(launchers, setting, Wiring::Closed).await?;
        let report = tokio::time::timeout(PROBE_ANSWER, waiting.reports.next()).await;
        match report {
            Ok(Some(Report::Probed { findings })) => Ok(findings),
            Ok(Some(refused @ Report::Refused { .. })) => Err(refusal(refused)),
            Ok(other) => Err(ExecError::Launcher(format!("no findings from the probe: {other:?}"))),
            Err(_) => Err(ExecError::Launcher("the probe did not answer in time".into())),
        }
    }
}

impl Ahead {
    /// Whether it is what a command under this setting would be given now, as far as that can be seen
    /// from here. The launcher looks at the rest.
    fn fits(&self, setting: &Setting) -> bool {
        self.setting == *setting && self.brought == setting.confinement.brought()
    }
}

fn refusal(report: Report) -> ExecError {
    match report {
        Report::Refused { layer, errno, cause } => {
            ExecError::Sandbox { layer, cause: format!("{cause} (errno {errno})") }
        }
        Report::ExecFailed { errno, cause } => ExecError::Start {
            program: "the command".into(),
            cause: format!("{cause}{}", too_long(errno)),
        },
        other => ExecError::Launcher(format!("an answer out of turn: {other:?}")),
    }
}

/// The one start failure that needs an explanation: a word of 128 KiB or more (Linux,
/// `MAX_ARG_STRLEN`), however much room the whole has.
fn too_long(errno: i32) -> &'static str {
    if errno == libc::E2BIG {
        " (a script or word of 131072 bytes or more cannot be passed to a program; write it to a file with apply_patch and run that)"
    } else {
        ""
    }
}
