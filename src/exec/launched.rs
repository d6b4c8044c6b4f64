//! A launcher at work: started with its order, listened to, and told when to end.

use super::ExecError;
use super::launchers::{Given, Gone, Launchers};
use super::order::{Input as OrderInput, Order, Report, Setting};
use super::pty::{self, Terminal};
use super::streams::{self, Input, Output};
use serde::Serialize;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// How a command's streams are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wiring {
    /// Nothing to read; output and errors apart.
    #[default]
    Closed,
    /// The same with standard input open for writing.
    Open,
    /// A terminal of its own.
    Terminal(pty::Size),
}

/// One command's launcher. The parts are apart so that several of them can be waited for at once.
pub struct Launched {
    pub gone: Gone,
    pub reports: Reports,
    pub control: Control,
    pub output: Output,
    pub input: Option<Input>,
}

/// What the launcher says.
pub struct Reports {
    reader: BufReader<OwnedReadHalf>,
    /// A line that has come in part: a wait that is dropped loses nothing.
    line: Vec<u8>,
}

impl Reports {
    /// The next report; `None` when there will be none. Cancel-safe.
    pub async fn next(&mut self) -> Option<Report> {
        let report = match self.reader.read_until(b'\n', &mut self.line).await {
            Ok(read) if read > 0 => serde_json::from_slice(&self.line).ok(),
            _ => None,
        };
        self.line.clear();
        report
    }
}

/// What the launcher is told. Dropping it says that we are gone: the launcher kills the tree.
pub struct Control(OwnedWriteHalf);

impl Control {
    /// A launcher that is gone already needs no order.
    pub async fn tell(&mut self, control: u8) {
        let _ = self.0.write_all(&[control]).await;
    }
}

/// The ends that go to the launcher, and ours.
struct Ends {
    stdout: OwnedFd,
    stderr: OwnedFd,
    stdin: Option<OwnedFd>,
    output: Output,
    input: Option<Input>,
}

impl Ends {
    fn new(wiring: Wiring) -> std::io::Result<Self> {
        if let Wiring::Terminal(size) = wiring {
            let Terminal { master, command } = Terminal::open(size)?;
            return Ok(Self {
                stdout: command.try_clone()?,
                stderr: command,
                stdin: None,
                input: Some(Input::terminal(master.try_clone()?)?),
                output: Output::terminal(master)?,
            });
        }
        let (out, stdout) = streams::output_pipe()?;
        let (err, stderr) = streams::output_pipe()?;
        let (stdin, input) = match wiring {
            Wiring::Open => {
                let (read, write) = streams::pipe()?;
                (Some(read), Some(Input::pipe(write)?))
            }
            _ => (None, None),
        };
        Ok(Self { stdout, stderr, stdin, output: Output::pipes(out, err)?, input })
    }
}

/// A launcher that gets ready, and then waits for its order.
pub struct Waiting {
    gone: Gone,
    pub reports: Reports,
    control: OwnedWriteHalf,
    output: Output,
    input: Option<Input>,
}

impl Waiting {
    pub async fn start(
        launchers: &Launchers,
        mut setting: Setting,
        wiring: Wiring,
    ) -> Result<Self, ExecError> {
        let ends = Ends::new(wiring).map_err(|error| failed(&"no streams", &error))?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()
            .map_err(|error| failed(&"no control socket", &error))?;
        ours.set_nonblocking(true).map_err(|error| failed(&"control socket", &error))?;
        setting.input = match (&ends.stdin, wiring) {
            (Some(_), _) => OrderInput::Pipe,
            (None, Wiring::Terminal(_)) => OrderInput::Terminal,
            (None, _) => OrderInput::Nothing,
        };
        let Ends { stdout, stderr, stdin, output, input } = ends;
        let gone =
            launchers.start(&Given { control: OwnedFd::from(theirs), stdout, stderr, stdin })?;
        let socket =
            UnixStream::from_std(ours).map_err(|error| failed(&"control socket", &error))?;
        let (reader, mut control) = socket.into_split();
        let reports = Reports { reader: BufReader::new(reader), line: Vec::new() };
        send(&mut control, &setting).await?;
        Ok(Self { gone, reports, control, output, input })
    }

    /// Gives the order. A launcher that is gone does not take it.
    pub async fn give(mut self, order: &Order) -> Result<Launched, ExecError> {
        send(&mut self.control, order).await?;
        Ok(Launched {
            gone: self.gone,
            reports: self.reports,
            control: Control(self.control),
            output: self.output,
            input: self.input,
        })
    }
}

impl Launched {
    pub async fn start(
        launchers: &Launchers,
        setting: Setting,
        order: &Order,
        wiring: Wiring,
    ) -> Result<Self, ExecError> {
        Waiting::start(launchers, setting, wiring).await?.give(order).await
    }
}

/// One frame, as the launcher reads it.
async fn send(control: &mut OwnedWriteHalf, frame: &impl Serialize) -> Result<(), ExecError> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, frame).map_err(|error| failed(&"the order", &error))?;
    let length = u32::try_from(bytes.len() - 4).map_err(|error| failed(&"the order", &error))?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    let sent = control.write_all(&bytes).await;
    sent.map_err(|error| failed(&"the launcher did not take its order", &error))
}

fn failed(what: &dyn Display, error: &dyn Display) -> ExecError {
    ExecError::Launcher(format!("{what}: {error}"))
}
