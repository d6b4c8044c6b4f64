//! A container engine, reached by its command line: the one thing that docker and podman share.
//!
//! The client is the operator's program. It runs outside the sandbox, because it must reach a socket that
//! no command may reach, and it gets the operator's environment, not that of commands.

use super::ExecError;
use super::host::unconfined;
use super::launched::{Launched, Wiring};
use super::launchers::Launchers;
use super::live::{Bounds, Live};
use super::order::Report;
use super::runner::ProcessEnd;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Which client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    Docker,
    Podman,
}

impl Runtime {
    pub fn program(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}

/// Variables that the clients read; nothing else of the runner's environment reaches them.
pub const CLIENT_VARIABLES: &[&str] = &[
    "HOME",
    "PATH",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "DOCKER_API_VERSION",
    "CONTAINER_HOST",
    "CONTAINER_CONNECTION",
    "CONTAINER_SSHKEY",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "REGISTRY_AUTH_FILE",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// A client and how it is called.
#[derive(Debug, Clone)]
pub struct Engine {
    pub runtime: Runtime,
    pub client: PathBuf,
    pub env: Vec<(String, String)>,
    pub launchers: Launchers,
}

/// What a call of the client came to.
#[derive(Debug, Clone)]
pub struct Answer {
    pub end: ProcessEnd,
    /// Both streams, bounded.
    pub text: String,
}

impl Answer {
    pub fn succeeded(&self) -> bool {
        self.end == ProcessEnd::Exited(0)
    }

    /// What went wrong, in one line.
    pub fn why(&self) -> String {
        let line = self.text.lines().map(str::trim).rfind(|line| !line.is_empty());
        match (self.end, line) {
            (ProcessEnd::TimedOut, _) => "it did not answer in time".into(),
            (_, Some(line)) => line.chars().take(400).collect(),
            (end, None) => format!("it ended with {end:?} and said nothing"),
        }
    }
}

impl Engine {
    /// Calls the client and waits for its end.
    pub async fn call(&self, words: &[&str], timeout: Duration) -> Result<Answer, ExecError> {
        let argv = [self.runtime.program()].iter().chain(words).map(|w| (*w).to_owned()).collect();
        let (setting, order) = unconfined(self.client.clone(), argv, self.env.clone());
        let mut launched =
            Launched::start(&self.launchers, setting, &order, Wiring::Closed).await?;
        match launched.reports.next().await {
            Some(Report::Started { .. }) => {}
            other => {
                return Err(ExecError::Start {
                    program: self.client.display().to_string(),
                    cause: format!("{other:?}"),
                });
            }
        }
        let live = Live::attend(launched, Bounds { timeout, output: 64 * 1024, answer: 0 }, None);
        let done = live.finished(&CancellationToken::new()).await?;
        Ok(Answer { end: done.end, text: done.output.text })
    }
}
