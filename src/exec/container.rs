//! Commands in a container, by the engine's command line. Runner, key and run folder stay outside.
//!
//! An *image* gives each command a container of its own: its processes end with it as a whole, its
//! network is what its own rule grants, and it sees the workspace under the same path, writable only
//! where the policy says so. A *named* container is the operator's: commands are executed in it, and
//! only what it was started with holds them.

use super::ExecError;
use super::engine::{Answer, Engine, Runtime};
use super::host::{Host, Work, script, unconfined};
use super::launched::Wiring;
use super::order::{Afterwards, Finding, Order, Setting};
use super::runner::Beside;
use super::sandbox::{Confinement, Grade, Sandbox, Wall};
use crate::policy::{Command, Network};
use futures_util::future::BoxFuture;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What is asked of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Image(String),
    Name(String),
}

/// What a container is made from.
#[derive(Debug, Clone)]
pub struct ContainerConfig {
    pub engine: Engine,
    pub place: Place,
    /// The run's id, as a label and in names.
    pub run: String,
    pub uid: u32,
    pub gid: u32,
    pub workspace: PathBuf,
    /// HOME and TMPDIR of commands.
    pub scratch: PathBuf,
    /// Folders and files of this machine that may be read, and those that may be written as well.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Places inside writable ones that stay as they are.
    pub protected: Vec<PathBuf>,
    /// Must not be visible inside.
    pub run_folder: PathBuf,
    pub processes: Option<u64>,
    pub memory: Option<u64>,
    /// Time for getting an image that is not there yet.
    pub pull: Duration,
}

/// Why there is no such place.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ContainerError {
    /// Dotted: `container.engine`, `container.image`, `container.name`, `container.start`.
    pub reason: &'static str,
    pub message: String,
    pub hint: String,
}

fn error(reason: &'static str, message: String, hint: &str) -> ContainerError {
    ContainerError { reason, message, hint: hint.to_owned() }
}

/// A call of the client that only asks.
const ASK: Duration = Duration::from_secs(30);
/// The first container may have to unpack.
const START: Duration = Duration::from_secs(120);
/// Names the processes of one command inside a container that is shared.
const MARK: &str = "TURNKEY_COMMAND";

/// A container, or an image for containers, that answered.
pub struct Container {
    config: ContainerConfig,
    /// The image by its content, so that what was probed is what runs.
    image: String,
    mounts: Vec<String>,
    has_bash: bool,
    /// An init process of the engine's own, which passes signals on and reaps.
    init: bool,
    /// Shared by all that run in it, for names.
    next: Arc<AtomicU64>,
}

impl Container {
    /// Asks the engine, gets the image, and tries what commands will rely on. The findings are for
    /// grading.
    pub async fn open(config: ContainerConfig) -> Result<(Self, Vec<Finding>), ContainerError> {
        let runtime = config.engine.runtime;
        let asked = config.engine.call(&["version", "--format", "json"], ASK).await;
        match asked {
            Ok(answer) if answer.succeeded() => {}
            Ok(answer) => {
                return Err(error(
                    "container.engine",
                    format!("{runtime} does not answer: {}", answer.why()),
                    "start the engine, or let this user reach it; `environment: local` needs none",
                ));
            }
            Err(cause) => return Err(error("container.engine", cause.to_string(), "")),
        }
        let mut container = Self {
            mounts: mounts(&config),
            image: String::new(),
            has_bash: false,
            init: true,
            next: Arc::default(),
            config,
        };
        match container.config.place.clone() {
            Place::Image(image) => container.image = container.find_image(&image).await?,
            Place::Name(name) => container.find_name(&name).await?,
        }
        let findings = container.probe().await?;
        Ok((container, findings))
    }

    async fn ask(&self, words: &[&str], timeout: Duration) -> Result<Answer, ContainerError> {
        let asked = self.config.engine.call(words, timeout).await;
        asked.map_err(|cause| error("container.engine", cause.to_string(), ""))
    }

    /// The image's id; it is pulled where it is not there.
    async fn find_image(&self, image: &str) -> Result<String, ContainerError> {
        let look = ["image", "inspect", "--format", "{{.Id}}", image];
        let found = self.ask(&look, ASK).await?;
        if found.succeeded() {
            return Ok(found.text.trim().to_owned());
        }
        let pulled = self.ask(&["pull", "--quiet", image], self.config.pull).await?;
        let found = self.ask(&look, ASK).await?;
        if found.succeeded() {
            return Ok(found.text.trim().to_owned());
        }
        let runtime = self.config.engine.runtime;
        let (reason, hint) =
            ("container.image", "build or load it, or name one that can be pulled");
        Err(error(
            reason,
            format!("{runtime} cannot get the image {image}: {}", pulled.why()),
            hint,
        ))
    }

    async fn find_name(&self, name: &str) -> Result<(), ContainerError> {
        let look = ["container", "inspect", "--format", "{{.State.Running}}", name];
        let found = self.ask(&look, ASK).await?;
        if found.succeeded() && found.text.trim() == "true" {
            return Ok(());
        }
        let why = if found.succeeded() { "it does not run".to_owned() } else { found.why() };
        let hint =
            "start it with the workspace mounted under the same path, or name an image instead";
        Err(error("container.name", format!("the container {name}: {why}"), hint))
    }

    /// Runs a small script as commands will run, and reads what it found.
    async fn probe(&mut self) -> Result<Vec<Finding>, ContainerError> {
        let token = format!("turnkey-{}", self.config.run);
        let token_file = self.config.workspace.clone();
        let inside = self.config.scratch.join("tmp/.container-probe");
        // Best effort: where it cannot be written, the probe says that it was not seen.
        let _ = std::fs::write(&inside, &token);
        let words = self.probe_words(&inside, &token_file);
        let mut answer = self.run_probe(&words).await?;
        if !answer.succeeded() && self.init && matches!(self.config.place, Place::Image(_)) {
            // Engines without an init program of their own refuse the option.
            self.init = false;
            let words = self.probe_words(&inside, &token_file);
            answer = self.run_probe(&words).await?;
        }
        let _ = std::fs::remove_file(&inside);
        if !answer.succeeded() {
            let what = format!("no command can run in it: {}", answer.why());
            let hint = "the image needs sh, and must run under this user id";
            return Err(error("container.start", what, hint));
        }
        let facts: BTreeSet<&str> = answer.text.lines().map(str::trim).collect();
        self.has_bash = facts.contains("bash");
        if !facts.contains("workspace") {
            let what = format!(
                "the workspace {} is not visible inside under the same path",
                self.config.workspace.display()
            );
            let hint = "an engine on another machine cannot mount it; a named container must have it mounted";
            return Err(error("container.start", what, hint));
        }
        Ok(self.findings(&facts, &token))
    }

    async fn run_probe(&self, words: &[String]) -> Result<Answer, ContainerError> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.ask(&words, START).await
    }

    fn probe_words(&self, token: &Path, workspace: &Path) -> Vec<String> {
        let argv = [
            "sh",
            "-c",
            PROBE,
            "sh",
            &workspace.display().to_string(),
            &token.display().to_string(),
            &self.config.run_folder.display().to_string(),
        ]
        .map(str::to_owned);
        self.words(&Network::None, Wiring::Closed, &[], Path::new("/"), &argv).1
    }

    fn findings(&self, facts: &BTreeSet<&str>, token: &str) -> Vec<Finding> {
        let runtime = self.config.engine.runtime.program();
        let image = matches!(self.config.place, Place::Image(_));
        let mounted = image && facts.contains(token) && !facts.contains("run-folder");
        let files = if image {
            "only what is mounted, writable only what the policy grants"
        } else {
            "the container's own mounts, which this run did not make"
        };
        let alone = facts.contains("net:lo") && !facts.contains("net:more");
        let network = if alone { "no interface but loopback" } else { "it has a network" };
        let bare = facts.contains("caps:0") && facts.contains("nnp:1");
        let privileges =
            if bare { "no capabilities, none can be gained" } else { "it keeps capabilities" };
        vec![
            Finding::new("files", runtime, mounted, files),
            Finding::new("network.none", runtime, alone, network),
            Finding::new("privileges", runtime, bare, privileges),
            // What is not mounted is not there to be reached, and neither are processes outside.
            Finding::new("sockets", runtime, mounted, "what is not mounted cannot be reached"),
            Finding::new("signals", runtime, image, "processes of the container only"),
            Finding::new("metadata", runtime, mounted, "what may not be written is read-only"),
            Finding::new("ipc", runtime, image, "the container has its own"),
        ]
    }

    /// The client's words for one command, and the container's name.
    fn words(
        &self,
        network: &Network,
        wiring: Wiring,
        env: &[(String, String)],
        cwd: &Path,
        argv: &[String],
    ) -> (String, Vec<String>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("turnkey-{}-{number}", self.config.run);
        let config = &self.config;
        let mut words: Vec<String> = Vec::new();
        let mut put = |list: &[&str]| words.extend(list.iter().map(|word| (*word).to_owned()));
        let user = format!("{}:{}", config.uid, config.gid);
        let cwd = cwd.display().to_string();
        match &config.place {
            Place::Image(_) => {
                let label = format!("turnkey.run={}", config.run);
                put(&["run", "--rm", "--name", &name, "--label", &label, "--pull", "never"]);
                put(&["--log-driver", "none", "--read-only", "--tmpfs", "/tmp:rw,exec,mode=1777"]);
                put(&["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
                if self.init {
                    put(&["--init"]);
                }
                if *network != Network::Open {
                    put(&["--network", "none"]);
                }
                if config.engine.runtime == Runtime::Podman && config.uid != 0 {
                    put(&["--userns", "keep-id"]);
                }
                if let Some(processes) = config.processes {
                    put(&["--pids-limit", &processes.to_string()]);
                }
                if let Some(memory) = config.memory {
                    put(&["--memory", &memory.to_string()]);
                }
                for mount in &self.mounts {
                    put(&["--mount", mount]);
                }
                // The image's own program must not stand in front of the command.
                put(&["--entrypoint", ""]);
            }
            Place::Name(_) => put(&["exec", "--env", &format!("{MARK}={name}")]),
        }
        put(&["--user", &user, "--workdir", &cwd]);
        match wiring {
            Wiring::Closed => {}
            Wiring::Open => put(&["--interactive"]),
            Wiring::Terminal(_) => put(&["--interactive", "--tty"]),
        }
        for (variable, value) in env {
            // By name alone, so that no value stands in a command line that others can read; the
            // client's own variables are the exception, and hold no secrets.
            match config.engine.env.iter().any(|(known, _)| known == variable) {
                true => put(&["--env", &format!("{variable}={value}")]),
                false => put(&["--env", variable]),
            }
        }
        match &config.place {
            Place::Image(_) => put(&[&self.image]),
            Place::Name(of) => put(&[of]),
        }
        words.extend(argv.iter().cloned());
        (name, words)
    }

    /// What takes a command away whose client was killed.
    fn afterwards(&self, name: &str) -> Afterwards {
        let words: Vec<String> = match &self.config.place {
            Place::Image(_) => ["rm", "--force", name].map(str::to_owned).to_vec(),
            Place::Name(of) => {
                let user = format!("{}:{}", self.config.uid, self.config.gid);
                ["exec", "--user", &user, of, "sh", "-c", SWEEP, "sh", &format!("{MARK}={name}")]
                    .map(str::to_owned)
                    .to_vec()
            }
        };
        let client = self.config.engine.runtime.program().to_owned();
        Afterwards {
            program: self.config.engine.client.clone(),
            argv: std::iter::once(client).chain(words).collect(),
            env: self.config.engine.env.clone(),
            // A container that is shared keeps what the command left in the background.
            always: matches!(self.config.place, Place::Name(_)),
        }
    }
}

/// Prints one word for each thing that holds. Its words: workspace, token file, run folder.
const PROBE: &str = "\
test -d \"$1\" && echo workspace
cat \"$2\" 2>/dev/null && echo
test -e \"$3\" && echo run-folder
command -v bash >/dev/null 2>&1 && echo bash
for i in /sys/class/net/*; do
  case ${i##*/} in lo) echo net:lo;; *) test -e \"$i\" && echo net:more;; esac
done
while read -r k v rest; do
  case $k in
    CapEff:) case $v in *[!0]*) echo caps:some;; *) echo caps:0;; esac;;
    NoNewPrivs:) echo \"nnp:$v\";;
  esac
done </proc/self/status
exit 0";

/// Ends the processes that carry a mark in their environment, until there are none.
const SWEEP: &str = "\
for round in 1 2 3 4 5 6 7 8 9; do
  found=
  for e in /proc/[0-9]*/environ; do
    p=${e#/proc/}; p=${p%/environ}
    if tr '\\0' '\\n' <\"$e\" 2>/dev/null | grep -qxF \"$1\"; then kill -KILL \"$p\" && found=1; fi
  done
  test -z \"$found\" && exit 0
done";

impl Host for Container {
    fn order(&self, work: Work<'_>) -> Result<(Setting, Order), ExecError> {
        if let Network::Hosts(_) = work.network {
            return Err(ExecError::Sandbox {
                layer: "container".into(),
                cause: "a network of named hosts cannot be given to a container".into(),
            });
        }
        let argv = match work.command {
            Command::Argv { program, argv } => {
                // The resolved file runs; a name that is looked up inside stands for itself.
                let program = program.display().to_string();
                std::iter::once(program).chain(argv.iter().skip(1).cloned()).collect()
            }
            Command::Script(text) => script(self.has_bash, text),
        };
        // The image says where its programs are.
        let env: Vec<(String, String)> =
            work.env.into_iter().filter(|(name, _)| name != "PATH").collect();
        let (name, words) = self.words(work.network, work.wiring, &env, work.cwd, &argv);
        let engine = &self.config.engine;
        let client = engine.runtime.program().to_owned();
        let argv = std::iter::once(client).chain(words).collect();
        let passed = env.into_iter().filter(|(name, _)| !engine.env.iter().any(|(k, _)| k == name));
        let env = engine.env.iter().cloned().chain(passed).collect();
        let (setting, mut order) = unconfined(engine.client.clone(), argv, env);
        order.afterwards = Some(self.afterwards(&name));
        Ok((setting, order))
    }

    fn has_bash(&self) -> bool {
        self.has_bash
    }

    fn beside(&self, own: &Beside) -> Arc<dyn Host> {
        let mut config = self.config.clone();
        config.scratch.clone_from(&own.scratch);
        config.read.extend(own.read.iter().cloned());
        Arc::new(Self {
            mounts: mounts(&config),
            image: self.image.clone(),
            has_bash: self.has_bash,
            init: self.init,
            next: self.next.clone(),
            config,
        })
    }

    fn leave(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Place::Name(_) = self.config.place {
                return;
            }
            let filter = format!("label=turnkey.run={}", self.config.run);
            let list = ["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter];
            let Ok(left) = self.config.engine.call(&list, ASK).await else { return };
            let ids: Vec<&str> = left.text.split_whitespace().collect();
            if left.succeeded() && !ids.is_empty() {
                let words: Vec<&str> = ["rm", "--force"].into_iter().chain(ids).collect();
                // Nothing more can be done about an engine that does not answer any more.
                let _ = self.config.engine.call(&words, ASK).await;
            }
        })
    }
}

/// The workspace and what the policy grants, each under its own path: parents first, protected last.
fn mounts(config: &ContainerConfig) -> Vec<String> {
    let mut all: Vec<(PathBuf, bool)> = Vec::new();
    let mut add = |path: &Path, writable: bool| {
        if path.exists() && may_be_mounted(path) && path.to_str().is_some() {
            all.retain(|(known, _)| known != path);
            all.push((path.to_owned(), writable));
        }
    };
    config.read.iter().for_each(|path| add(path, false));
    add(&config.workspace, false);
    config.write.iter().for_each(|path| add(path, true));
    add(&config.scratch, true);
    config.protected.iter().for_each(|path| add(path, false));
    // One that lies in another of the same kind, with nothing of the other kind between, adds nothing.
    let covered = |path: &Path, writable: bool| {
        let outer = all
            .iter()
            .filter(|(other, _)| other != path && path.starts_with(other))
            .max_by_key(|(other, _)| other.components().count());
        outer.is_some_and(|(_, kind)| *kind == writable)
    };
    let mut kept: Vec<&(PathBuf, bool)> =
        all.iter().filter(|(path, writable)| !covered(path, *writable)).collect();
    kept.sort();
    kept.iter().map(|(path, writable)| mount(path, *writable)).collect()
}

/// The image's own system is not covered by this machine's.
fn may_be_mounted(path: &Path) -> bool {
    const SYSTEM: &[&str] = &[
        "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev", "/run", "/var",
    ];
    !SYSTEM.iter().any(|system| Path::new(system).starts_with(path))
}

/// The engines read this as a line of CSV.
fn mount(path: &Path, writable: bool) -> String {
    let text = path.display().to_string();
    let field = |name: &str| {
        let field = format!("{name}={text}");
        if field.contains([',', '"']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field
        }
    };
    let kind = if writable { "" } else { ",readonly" };
    format!("type=bind,{},{}{kind}", field("source"), field("target"))
}

/// The grades of a container, and no layer of ours: its walls are the engine's.
pub struct ContainerWalls {
    grades: Vec<Grade>,
}

impl ContainerWalls {
    pub fn new(grades: Vec<Grade>) -> Self {
        Self { grades }
    }
}

impl Sandbox for ContainerWalls {
    fn confinement(&self, _network: &Network) -> Result<Confinement, String> {
        Ok(Confinement { wall: Wall::Open, ..Confinement::default() })
    }

    fn grades(&self) -> &[Grade] {
        &self.grades
    }
}

#[cfg(test)]
mod tests;
