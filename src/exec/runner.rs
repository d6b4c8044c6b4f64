//! The runner's side of a command: from a Permit to a process, and the limits it runs under.

use super::audit::Audit;
use super::capture::Captured;
use super::environment::Environment;
use super::host::{Host, Local, Work};
use super::launched::{Launched, Waiting, Wiring};
use super::live::{Bounds, End, LAUNCHER_GRACE, Live};
use super::log::{LogEnd, OutputLogs};
use super::order::{Finding, Input, Order, ProbeOrder, Report};
use super::sandbox::{Confinement, Sandbox};
use super::{CleanPath, ExecError};
use crate::policy::ExecPermit;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What an [`Executor`] is made from.
pub struct ExecutorConfig {
    /// This binary, which is also the launcher.
    pub launcher: PathBuf,
    pub sandbox: Arc<dyn Sandbox>,
    pub environment: Environment,
    pub path: CleanPath,
}

/// Runs permitted commands.
pub struct Executor {
    config: ExecutorConfig,
    host: Arc<dyn Host>,
    logs: Option<Arc<dyn OutputLogs>>,
    audit: Option<Arc<Audit>>,
    /// A launcher for the next command, started ahead so that none waits for it.
    ready: Mutex<Option<Waiting>>,
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
        Self { config, host, logs: None, audit: None, ready: Mutex::new(None) }
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
        self.start(permit, Wiring::Closed, limits).await?.finished(cancel).await
    }

    /// A launcher with its order: the one that waits for the next command, or a new one.
    async fn launch(&self, order: &mut Order, wiring: Wiring) -> Result<Launched, ExecError> {
        let ready = if wiring == Wiring::Closed { self.ready().take() } else { None };
        if let Some(ready) = ready
            && let Ok(launched) = ready.give(order).await
        {
            return Ok(launched);
        }
        Launched::start(&self.config.launcher, order, wiring).await
    }

    fn ready(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts one permitted command and leaves it running.
    pub async fn start(
        &self,
        permit: ExecPermit,
        wiring: Wiring,
        limits: RunLimits,
    ) -> Result<Live, ExecError> {
        let attributes = permit.attributes();
        let mut order = self.host.order(Work {
            command: permit.command(),
            cwd: permit.cwd(),
            env: self.config.environment.for_command(&attributes.env),
            network: &attributes.network,
            wiring,
        })?;
        let timeout = attributes.timeout.map_or(limits.timeout, |own| own.min(limits.timeout));
        let mut launched = self.launch(&mut order, wiring).await?;
        let process = match launched.reports.next().await {
            Some(Report::Started { pid }) => pid,
            Some(report) => return Err(refusal(report)),
            None => return Err(ExecError::Launcher("it ended before the command started".into())),
        };
        // While the command works, the next one's launcher gets ready.
        *self.ready() = Waiting::start(&self.config.launcher, Wiring::Closed).ok();
        let log = self.logs.as_ref().map(|logs| logs.open(&permit.command().display()));
        let live = Live::attend(launched, Bounds { timeout, output: limits.output }, log);
        Ok(live.audited(self.audit.clone(), process))
    }

    /// Confines a child exactly as commands will be, and reports what held. A layer that cannot be put in
    /// force at all is [`ExecError::Sandbox`].
    pub async fn probe(
        launcher: &std::path::Path,
        confinement: Confinement,
        probe: ProbeOrder,
    ) -> Result<Vec<Finding>, ExecError> {
        let mut order = Order {
            program: PathBuf::new(),
            argv: Vec::new(),
            env: Vec::new(),
            cwd: PathBuf::from("/"),
            confinement,
            input: Input::Nothing,
            unconfined: false,
            afterwards: None,
            probe: Some(probe),
        };
        let mut launched = Launched::start(launcher, &mut order, Wiring::Closed).await?;
        let report = tokio::time::timeout(LAUNCHER_GRACE, launched.reports.next()).await;
        match report {
            Ok(Some(Report::Probed { findings })) => Ok(findings),
            Ok(Some(refused @ Report::Refused { .. })) => Err(refusal(refused)),
            Ok(other) => Err(ExecError::Launcher(format!("no findings from the probe: {other:?}"))),
            Err(_) => Err(ExecError::Launcher("the probe did not answer in time".into())),
        }
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
