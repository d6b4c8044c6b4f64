//! Where commands run: on this machine, or in a container beside it. Both turn a permitted command into
//! an Order for a launcher; everything after that is the same.

use super::launched::Wiring;
use super::order::{Order, Setting};
use super::runner::Beside;
use super::sandbox::{OwnScratch, Sandbox};
use super::{CleanPath, ExecError};
use crate::policy::{Command, Network};
use futures_util::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A permitted command with what it runs under.
pub struct Work<'a> {
    pub command: &'a Command,
    pub cwd: &'a Path,
    pub env: Vec<(String, String)>,
    pub network: &'a Network,
    pub wiring: Wiring,
}

/// A place for commands.
pub trait Host: Send + Sync {
    /// What it runs under, and what runs.
    fn order(&self, work: Work<'_>) -> Result<(Setting, Order), ExecError>;
    /// Whether scripts of the model can run at all.
    fn has_bash(&self) -> bool;
    /// The same place for commands that have a scratch of their own.
    fn beside(&self, own: &Beside) -> Arc<dyn Host>;
    /// At the end of a run: takes away whatever of it is left there.
    fn leave(&self) -> BoxFuture<'_, ()>;
}

/// This machine, in the sandbox.
pub struct Local {
    sandbox: Arc<dyn Sandbox>,
    bash: Option<PathBuf>,
    sh: Option<PathBuf>,
}

impl Local {
    pub fn new(sandbox: Arc<dyn Sandbox>, path: &CleanPath) -> Self {
        Self { sandbox, bash: path.find("bash"), sh: path.find("sh") }
    }

    /// bash without profile, rc file or exported functions. Where there is none, `sh` runs what the
    /// operator named; the model's scripts are refused before they come here.
    fn script(&self, text: &str) -> Result<(PathBuf, Vec<String>), ExecError> {
        let shell = self.bash.as_ref().or(self.sh.as_ref()).ok_or_else(|| ExecError::Start {
            program: "sh".into(),
            cause: "there is neither bash nor sh on the PATH of commands".into(),
        })?;
        Ok((shell.clone(), script(self.bash.is_some(), text)))
    }
}

/// The words that run a script.
pub(super) fn script(bash: bool, text: &str) -> Vec<String> {
    let words: &[&str] =
        if bash { &["bash", "--noprofile", "--norc", "-c", text] } else { &["sh", "-c", text] };
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Host for Local {
    fn order(&self, work: Work<'_>) -> Result<(Setting, Order), ExecError> {
        let (program, argv) = match work.command {
            Command::Argv { program, argv } => (program.clone(), argv.clone()),
            Command::Script(text) => self.script(text)?,
        };
        let confinement = self
            .sandbox
            .confinement(work.network)
            .map_err(|cause| ExecError::Sandbox { layer: "the sandbox".into(), cause })?;
        #[cfg(target_os = "macos")]
        let (program, argv) = super::sandbox::seatbelt::wrapped(&confinement, &program, &argv)
            .ok_or_else(|| ExecError::Sandbox {
                layer: "seatbelt".into(),
                cause: "a path of the policy can't be written into a profile".into(),
            })?;
        let mut env = work.env;
        env.extend(self.sandbox.variables(work.network));
        let setting = Setting { confinement, ..Setting::default() };
        let cwd = work.cwd.to_owned();
        let order = Order { program, argv, env, cwd, afterwards: None, looks_again: false };
        Ok((setting, order))
    }

    fn has_bash(&self) -> bool {
        self.bash.is_some()
    }

    fn beside(&self, own: &Beside) -> Arc<dyn Host> {
        Arc::new(Self {
            sandbox: Arc::new(OwnScratch::new(self.sandbox.clone(), own)),
            bash: self.bash.clone(),
            sh: self.sh.clone(),
        })
    }

    fn leave(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// An order for a program of the operator's own, outside the sandbox.
pub(super) fn unconfined(
    program: PathBuf,
    argv: Vec<String>,
    env: Vec<(String, String)>,
) -> (Setting, Order) {
    let setting = Setting { unconfined: true, ..Setting::default() };
    let cwd = PathBuf::from("/");
    (setting, Order { program, argv, env, cwd, afterwards: None, looks_again: false })
}
