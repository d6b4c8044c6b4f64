//! The door to processes: every command of the model and every check of the operator runs here.
//!
//! A command needs an [`ExecPermit`](crate::policy::ExecPermit) and runs under the *launcher*: this
//! same binary, started again under a hidden subcommand. The launcher confines the command, outlives
//! the runner by the length of a kill, and ends the whole process tree whatever happens to either.
//! That keeps the runner free of work between fork and exec, and keeps one promise in one place:
//! when a command is over, nothing of it is left.

#[cfg(target_os = "linux")]
mod audit;
#[cfg(not(target_os = "linux"))]
#[path = "no_audit.rs"]
mod audit;
mod capture;
mod child;
mod children;
mod container;
mod engine;
mod environment;
mod host;
mod launched;
mod launcher;
mod launchers;
mod live;
mod log;
mod memory;
mod operator;
pub mod order;
mod programs;
mod proxy;
mod pty;
mod runner;
pub mod sandbox;
mod starter;
mod streams;
mod tree;

pub use audit::{Audit, Refused};
pub use capture::{Captured, Stream};
pub use children::adopt_orphans;
pub use container::{Container, ContainerConfig, ContainerError, ContainerWalls, Place};
pub use engine::{CLIENT_VARIABLES, Engine, Runtime};
pub use environment::{Environment, EnvironmentInput};
pub use host::Host;
pub use launched::Wiring;
pub use launcher::LAUNCHER_ARG;
pub use launchers::Launchers;
pub use live::{End, InputError, Live, UNREAD};
pub use log::{LogEnd, OutputLog, OutputLogs};
pub use operator::OperatorCommand;
pub use programs::CleanPath;
pub use proxy::HostsProxy;
pub use pty::Size;
pub use runner::{Beside, Executor, ExecutorConfig, Finished, ProcessEnd, RunLimits};
pub use starter::launcher_main;

/// What can go wrong before a command is known to run.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExecError {
    #[error("the launcher could not be started: {0}")]
    Launcher(String),
    /// It had its order.
    #[error("whether the command ran is not known: its launcher {0}")]
    Unknown(String),
    #[error("the sandbox refused to start the command: {layer}: {cause}")]
    Sandbox { layer: String, cause: String },
    #[error("{program} could not be started: {cause}")]
    Start { program: String, cause: String },
}
