//! The runner's side of a command: start a launcher, collect output, hold the limits, end the tree.

use super::capture::{Capture, Captured, Stream};
use super::environment::Environment;
use super::launcher::LAUNCHER_ARG;
use super::order::{CONTROL_KILL, CONTROL_TERM, Finding, Order, ProbeOrder, Report};
use super::sandbox::{Confinement, Sandbox};
use super::{CleanPath, ExecError};
use crate::clock;
use crate::policy::{Command as Permitted, ExecPermit, Network};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

/// How long a tree that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_millis(1_500);
/// How long readers wait for the pipes to close once the launcher says that everything has ended.
const READER_GRACE: Duration = Duration::from_millis(200);
/// How long the launcher itself may take after a kill before we stop listening to it.
const LAUNCHER_GRACE: Duration = Duration::from_secs(6);

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
    shell: Option<PathBuf>,
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
}

impl Executor {
    pub fn new(config: ExecutorConfig) -> Self {
        let shell = config.path.find("bash");
        Self { config, shell }
    }

    /// Whether scripts can run at all.
    pub fn has_bash(&self) -> bool {
        self.shell.is_some()
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
        let order = self.order(&permit)?;
        let timeout =
            permit.attributes().timeout.map_or(limits.timeout, |own| own.min(limits.timeout));
        let mut launched = Launched::start(&self.config.launcher, &order).await?;
        launched.attend(limits.output, timeout, cancel).await
    }

    fn order(&self, permit: &ExecPermit) -> Result<Order, ExecError> {
        let attributes = permit.attributes();
        let (program, argv) = match permit.command() {
            Permitted::Argv { program, argv } => (program.clone(), argv.clone()),
            Permitted::Script(text) => self.script(text)?,
        };
        Ok(Order {
            program,
            argv,
            env: self.config.environment.for_command(&attributes.env),
            cwd: permit.cwd().to_owned(),
            confinement: self.config.sandbox.confinement(attributes.network != Network::None),
            probe: None,
        })
    }

    /// bash without profile, rc file or exported functions. Where there is none, `sh` runs what the
    /// operator named; the model's scripts are refused before they come here.
    fn script(&self, text: &str) -> Result<(PathBuf, Vec<String>), ExecError> {
        if let Some(bash) = &self.shell {
            let argv = ["bash", "--noprofile", "--norc", "-c", text].map(str::to_owned).to_vec();
            return Ok((bash.clone(), argv));
        }
        let sh = self.config.path.find("sh").ok_or_else(|| ExecError::Start {
            program: "sh".into(),
            cause: "there is neither bash nor sh on the PATH of commands".into(),
        })?;
        Ok((sh, ["sh", "-c", text].map(str::to_owned).to_vec()))
    }

    /// Confines a child exactly as commands will be, and reports what held.
    pub async fn probe(
        launcher: &PathBuf,
        confinement: Confinement,
        probe: ProbeOrder,
        cwd: PathBuf,
    ) -> Result<Vec<Finding>, ExecError> {
        let order = Order {
            program: PathBuf::new(),
            argv: Vec::new(),
            env: Vec::new(),
            cwd,
            confinement,
            probe: Some(probe),
        };
        let mut launched = Launched::start(launcher, &order).await?;
        let report = tokio::time::timeout(LAUNCHER_GRACE, launched.next_report()).await;
        match report {
            Ok(Some(Report::Probed { findings })) => Ok(findings),
            Ok(other) => Err(ExecError::Launcher(format!("no findings from the probe: {other:?}"))),
            Err(_) => Err(ExecError::Launcher("the probe did not answer in time".into())),
        }
    }
}

/// A launcher at work.
struct Launched {
    child: tokio::process::Child,
    reports: BufReader<tokio::net::unix::OwnedReadHalf>,
    /// Dropping this tells the launcher that we are gone: it kills the tree.
    control: tokio::net::unix::OwnedWriteHalf,
}

impl Launched {
    async fn start(launcher: &PathBuf, order: &Order) -> Result<Self, ExecError> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            ExecError::Launcher(format!("{what}: {error}"))
        };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()
            .map_err(|error| failed("no control socket", &error))?;
        ours.set_nonblocking(true).map_err(|error| failed("control socket", &error))?;
        let child = tokio::process::Command::new(launcher)
            .arg0("turnkey-launcher")
            .arg(LAUNCHER_ARG)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A signal to the runner's group is the runner's to handle.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(&launcher.display().to_string(), &error))?;
        let socket =
            UnixStream::from_std(ours).map_err(|error| failed("control socket", &error))?;
        let (reports, mut control) = socket.into_split();
        let body = serde_json::to_vec(order).map_err(|error| failed("the order", &error))?;
        let length = u32::try_from(body.len()).map_err(|error| failed("the order", &error))?;
        let sent = async {
            control.write_all(&length.to_le_bytes()).await?;
            control.write_all(&body).await
        };
        sent.await.map_err(|error| failed("the launcher did not take its order", &error))?;
        Ok(Self { child, reports: BufReader::new(reports), control })
    }

    async fn next_report(&mut self) -> Option<Report> {
        let mut line = Vec::new();
        match self.reports.read_until(b'\n', &mut line).await {
            Ok(read) if read > 0 => serde_json::from_slice(&line).ok(),
            _ => None,
        }
    }

    /// Reads output and reports until the tree has ended.
    async fn attend(
        &mut self,
        output: usize,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<Finished, ExecError> {
        let start = clock::now();
        let stdout = self.child.stdout.take();
        let stderr = self.child.stderr.take();
        let mut reader = Reader::new(output, stdout, stderr);
        match self.await_start(&mut reader).await? {
            Some(Report::Started { .. }) => {}
            Some(report) => return Err(refusal(report)),
            None => return Err(ExecError::Launcher("it ended before the command started".into())),
        }
        let (early, ended) = self.await_end(&mut reader, timeout, cancel).await;
        let _ = tokio::time::timeout(READER_GRACE, reader.drain()).await;
        let _ = tokio::time::timeout(LAUNCHER_GRACE, self.child.wait()).await;
        let (own, stragglers, left) = match ended {
            Some(Report::Ended { code: Some(code), stragglers, left, .. }) => {
                (ProcessEnd::Exited(code), stragglers, left)
            }
            Some(Report::Ended { signal, stragglers, left, .. }) => {
                (ProcessEnd::Signaled(signal.unwrap_or(libc::SIGKILL)), stragglers, left)
            }
            _ if early.is_some() => (ProcessEnd::Signaled(libc::SIGKILL), 0, 1),
            _ => return Err(ExecError::Launcher("it ended without a report".into())),
        };
        Ok(Finished {
            end: early.unwrap_or(own),
            output: reader.capture.finish(),
            duration: clock::now().saturating_duration_since(start),
            stragglers,
            left,
        })
    }

    /// The first report, reading output meanwhile: a command may print before we hear that it started.
    async fn await_start(&mut self, reader: &mut Reader) -> Result<Option<Report>, ExecError> {
        let mut line = Vec::new();
        loop {
            tokio::select! {
                read = self.reports.read_until(b'\n', &mut line) => {
                    let read = read.map_err(|error| ExecError::Launcher(error.to_string()))?;
                    return Ok((read > 0).then(|| serde_json::from_slice(&line).ok()).flatten());
                }
                () = reader.step(), if reader.open() => {}
            }
        }
    }

    async fn await_end(
        &mut self,
        reader: &mut Reader,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> (Option<ProcessEnd>, Option<Report>) {
        let mut early = None;
        let mut line = Vec::new();
        let deadline = tokio::time::sleep(timeout);
        tokio::pin!(deadline);
        let mut killed = false;
        loop {
            tokio::select! {
                read = self.reports.read_until(b'\n', &mut line) => {
                    let report = match read {
                        Ok(read) if read > 0 => serde_json::from_slice(&line).ok(),
                        _ => None,
                    };
                    return (early, report);
                }
                () = reader.step(), if reader.open() => {}
                () = cancel.cancelled(), if early.is_none() => {
                    early = Some(ProcessEnd::Cancelled);
                    self.order_end(CONTROL_TERM).await;
                    deadline.as_mut().reset(tokio::time::Instant::now() + GRACE);
                }
                () = &mut deadline => {
                    if early.is_none() {
                        early = Some(ProcessEnd::TimedOut);
                        self.order_end(CONTROL_TERM).await;
                        deadline.as_mut().reset(tokio::time::Instant::now() + GRACE);
                    } else if killed {
                        // The launcher does not answer: closing the socket is all that is left.
                        return (early, None);
                    } else {
                        killed = true;
                        self.order_end(CONTROL_KILL).await;
                        deadline.as_mut().reset(tokio::time::Instant::now() + LAUNCHER_GRACE);
                    }
                }
            }
        }
    }

    /// A launcher that is gone already needs no order.
    async fn order_end(&mut self, control: u8) {
        let _ = self.control.write_all(&[control]).await;
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

/// Reads both pipes as bytes come.
struct Reader {
    capture: Capture,
    stdout: Option<tokio::process::ChildStdout>,
    stderr: Option<tokio::process::ChildStderr>,
    out_buffer: Box<[u8]>,
    err_buffer: Box<[u8]>,
}

impl Reader {
    fn new(
        output: usize,
        stdout: Option<tokio::process::ChildStdout>,
        stderr: Option<tokio::process::ChildStderr>,
    ) -> Self {
        let buffer = || vec![0u8; 64 * 1024].into_boxed_slice();
        Self {
            capture: Capture::new(output),
            stdout,
            stderr,
            out_buffer: buffer(),
            err_buffer: buffer(),
        }
    }

    fn open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// One chunk of either stream. Cancel-safe: a read that is dropped has read nothing.
    async fn step(&mut self) {
        let (stream, read) = tokio::select! {
            read = read_some(&mut self.stdout, &mut self.out_buffer) => (Stream::Stdout, read),
            read = read_some(&mut self.stderr, &mut self.err_buffer) => (Stream::Stderr, read),
        };
        match (stream, read) {
            (Stream::Stdout, 0) => self.stdout = None,
            (Stream::Stderr, 0) => self.stderr = None,
            (Stream::Stdout, read) => self.capture.push(stream, &self.out_buffer[..read]),
            (Stream::Stderr, read) => self.capture.push(stream, &self.err_buffer[..read]),
        }
    }

    async fn drain(&mut self) {
        while self.open() {
            self.step().await;
        }
    }
}

/// Reads a chunk; a stream that is closed or fails is at its end, one that is absent never answers.
async fn read_some<R: AsyncRead + Unpin>(stream: &mut Option<R>, buffer: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}
