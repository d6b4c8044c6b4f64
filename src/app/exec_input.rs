//! Gathers what a run is made from: settings, task text, untrusted data, the model's key. Everything
//! that is read from the outside for a run, except its workspace and policy, is read here.

use super::{env, signals};
use crate::cli::ExecArgs;
use crate::job::{self, Going, Launchers, RunInput};
use crate::model::{Endpoint, ModelConfig, Secret, Timeouts};
use crate::protocol::{Outcome, State};
use crate::spec::{
    self, Fault, InputFrom, InputText, KeyFrom, ModelSettings, Settings, Spec, TaskSource,
};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Why no run can be made of what was typed.
pub enum Refused {
    Invalid(String),
    Outcome(Box<Outcome>),
}

impl From<Vec<Fault>> for Refused {
    fn from(faults: Vec<Fault>) -> Self {
        Self::Invalid(super::lines(&faults))
    }
}

/// The longest text taken from standard input or a file.
const MAX_TEXT: u64 = 4 * 1024 * 1024;

pub fn gather(args: &ExecArgs, started: Instant) -> Result<RunInput, Refused> {
    let spec = args.spec.as_deref().map(read_spec).transpose()?;
    let typed = typed_task(args, spec.as_ref())?;
    let settings = spec::resolve(args.flags(typed), env::values(), spec.as_ref())?;
    let task = task_text(&settings, spec.as_ref())?;
    input(settings, task, started)
}

/// The model alone, and all that it is reached with.
pub fn model_alone(
    flags: spec::FlagValues,
    spec: Option<&Path>,
) -> Result<(ModelSettings, ModelConfig), Refused> {
    let spec = spec.map(read_spec).transpose()?;
    let settings = spec::resolve_model(&flags, &env::values(), spec.as_ref())?;
    let key = key(&settings)?;
    let config = model_config(&settings, key);
    Ok((settings, config))
}

/// The same for a run that goes on from a record: its settings are the base, flags go over them.
pub fn gather_going(
    args: &ExecArgs,
    mut going: Going,
    started: Instant,
) -> Result<RunInput, Refused> {
    let given = [
        ("--spec", args.spec.is_some(), "single settings can be changed by their flags"),
        ("--param", !args.params.is_empty(), "write the task out"),
        ("--input", !args.inputs.is_empty(), "start a new run for new data"),
    ];
    for (flag, is_given, hint) in given {
        if is_given {
            return Err(Refused::Invalid(format!(
                "{flag} cannot be given here: the settings are those of the record\n  hint: {hint}"
            )));
        }
    }
    going.follow_up = args.task.is_some() || args.task_file.is_some();
    let typed = match going.follow_up {
        true => typed_task(args, None)?,
        false => Some(going.task().to_owned()),
    };
    let (folder, model_folder) = going.folders();
    let recorded = spec::recorded_spec(going.settings(), &folder, &model_folder);
    let flags = spec::recorded_flags(args.flags(typed), going.settings());
    let mut settings = spec::resolve(flags, env::values(), Some(&recorded))?;
    if let TaskSource::File { template, .. } = &mut settings.task.value {
        *template = false;
    }
    let task = task_text(&settings, None)?;
    Ok(RunInput { going: Some(going), ..input(settings, task, started)? })
}

/// The settings of a recorded run for its replay: nothing of it may ask for a key.
pub fn gather_replay(
    args: &ExecArgs,
    recorded: &serde_json::Value,
    folders: (&Path, &Path),
    started: Instant,
) -> Result<RunInput, Refused> {
    let spec = spec::recorded_spec(recorded, folders.0, folders.1);
    let flags = spec::recorded_flags(args.flags(Some(job::GO_ON.to_owned())), recorded);
    let mut settings = spec::resolve(flags, spec::EnvValues::default(), Some(&spec))?;
    settings.model.key.value = None;
    input(settings, job::GO_ON.to_owned(), started)
}

/// Where run folders may lie, best first.
pub fn bases() -> Vec<PathBuf> {
    let uid = user_id();
    let fallbacks = ["/var/tmp", "/tmp"].map(|dir| Path::new(dir).join(format!("turnkey-{uid}")));
    env::state_folder().into_iter().chain(fallbacks).collect()
}

fn input(settings: Settings, task: String, started: Instant) -> Result<RunInput, Refused> {
    let untrusted_data = untrusted_data(&settings)?;
    let key = key(&settings.model)?;
    let mut secrets = env::likely_secrets();
    if let Some(key) = &key {
        secrets.push(("the model's key".into(), key.expose().to_owned()));
    }
    Ok(RunInput {
        model: model_config(&settings.model, key),
        secrets,
        home: env::home(),
        path: env::path(),
        bases: bases(),
        folder: std::env::current_dir().unwrap_or_default(),
        going: None,
        model_instead: None,
        ci_command_files: env::ci_command_files(),
        lookup: Box::new(env::get),
        launchers: launchers(),
        settings,
        task,
        untrusted_data,
        started,
        stopped: signals::arrived(),
        tools: super::faults::tools(),
    })
}

/// This very file, even where it was replaced or removed since we started.
pub fn launchers() -> Launchers {
    let own = PathBuf::from("/proc/self/exe");
    let found = || std::env::current_exe().unwrap_or_else(|_| PathBuf::from("turnkey"));
    Launchers::new(if own.exists() { own } else { found() })
}

fn user_id() -> u32 {
    // SAFETY: geteuid cannot fail and touches nothing.
    unsafe { libc::geteuid() }
}

fn read_spec(path: &Path) -> Result<Spec, Refused> {
    let name = path.display().to_string();
    let hint = "name an existing file with --spec, or give the task itself: turnkey exec \"TASK\"";
    let source = read_text("the spec", path, hint)?;
    let spec = spec::parse(&name, &source)?;
    match job::hook_faults(&spec) {
        faults if faults.is_empty() => Ok(spec),
        faults => Err(faults.into()),
    }
}

/// The task as typed or piped in. Standard input is read only where it was asked for: `-`, or no task
/// at all and no terminal. A pipe that nobody closes must not hold up a run that has its task.
fn typed_task(args: &ExecArgs, spec: Option<&Spec>) -> Result<Option<String>, Refused> {
    let has_task = args.task_file.is_some() || spec.is_some_and(|spec| spec.task.is_some());
    match args.task.as_deref() {
        Some("-") => read_stdin().map(Some),
        Some(text) => Ok(Some(text.to_owned())),
        None if has_task || std::io::stdin().is_terminal() => Ok(None),
        None => read_stdin().map(Some),
    }
}

fn read_stdin() -> Result<String, Refused> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_TEXT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Refused::Invalid(format!("standard input: {error}")))?;
    text_of(bytes, "standard input")
}

/// `what` it is for people, and what they can do where it cannot be read.
fn read_text(what: &str, path: &Path, hint: &str) -> Result<String, Refused> {
    let name = path.display().to_string();
    let read = || {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MAX_TEXT + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error: std::io::Error| {
        let outcome = Outcome::new(State::Invalid, "invalid", format!("{what} {name}: {error}"));
        Refused::Outcome(Box::new(outcome.hint(hint)))
    })?;
    text_of(bytes, &name)
}

fn text_of(bytes: Vec<u8>, name: &str) -> Result<String, Refused> {
    if bytes.len() as u64 > MAX_TEXT {
        return Err(Refused::Invalid(format!("{name}: longer than {MAX_TEXT} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        Refused::Invalid(format!("{name}: not UTF-8 (byte {})", error.utf8_error().valid_up_to()))
    })
}

fn task_text(settings: &Settings, spec: Option<&Spec>) -> Result<String, Refused> {
    let nothing = Spec::default();
    let spec = spec.unwrap_or(&nothing);
    let text = match &settings.task.value {
        TaskSource::Literal(text) => text.clone(),
        TaskSource::Template(text) => spec.render_task(&settings.params, text)?,
        TaskSource::File { path, template } => {
            let hint =
                "name an existing file, or give the task as an argument or, with -, as input";
            let text = read_text("the task file", path, hint)?;
            if *template {
                spec.render_task_from(&path.display().to_string(), &settings.params, &text)?
            } else {
                text
            }
        }
    };
    if text.trim().is_empty() {
        return Err(Refused::Invalid("the task is empty: say what is to be done".into()));
    }
    let limit = spec::defaults::MAX_TASK_BYTES;
    if text.len() > limit {
        return Err(Refused::Invalid(format!(
            "the task is longer than {limit} bytes: hand long texts over as files or inputs"
        )));
    }
    Ok(text)
}

/// Inputs are read here and nowhere expanded: they reach the model as delimited data only.
fn untrusted_data(settings: &Settings) -> Result<String, Refused> {
    let mut read = Vec::new();
    for input in &settings.inputs {
        let (origin, text) = match &input.value.from {
            InputFrom::Text(text) => ("the operator's arguments".to_owned(), text.clone()),
            InputFrom::Env(name) => {
                let text = env::get(name).ok_or_else(|| {
                    Refused::Invalid(format!(
                        "the input {:?}: the environment variable {name} is not set",
                        input.value.name
                    ))
                })?;
                (format!("the environment variable {name}"), text)
            }
            InputFrom::File(path) => {
                let hint = "name an existing file, or give the text itself: --input NAME=TEXT";
                let what = format!("the input {:?}:", input.value.name);
                (format!("the file {}", path.display()), read_text(&what, path, hint)?)
            }
        };
        read.push((input.value.name.clone(), origin, text));
    }
    let texts: Vec<InputText<'_>> =
        read.iter().map(|(name, origin, text)| InputText { name, origin, text }).collect();
    Ok(spec::render_inputs(&texts))
}

/// The model's key from where the settings say; from an environment variable it is taken, not copied.
fn key(model: &ModelSettings) -> Result<Option<Secret>, Refused> {
    let no_key = |text: String| {
        let outcome = Outcome::new(State::ModelFailed, "model.auth", text)
            .hint("name the key by model.key in the spec: a file, a descriptor or a variable");
        Refused::Outcome(Box::new(outcome))
    };
    match &model.key.value {
        None => {
            let variable = crate::model::default_key_variable(&model.name.value.provider);
            Ok(variable.and_then(env::take_secret))
        }
        Some(KeyFrom::Env(name)) => env::take_secret(name).map(Some).ok_or_else(|| {
            no_key(format!(
                "the environment variable {name}, which should hold the model's key, is not set"
            ))
        }),
        Some(KeyFrom::File(path)) => {
            let hint = "name an existing file by model.key, or a descriptor or variable";
            let text = read_text("the model's key", path, hint)?;
            Ok(Some(Secret::new(text.trim().to_owned())))
        }
        Some(KeyFrom::Fd(number)) => read_descriptor(*number)
            .map(Some)
            .map_err(|error| no_key(format!("the model's key from descriptor {number}: {error}"))),
    }
}

fn read_descriptor(number: u64) -> std::io::Result<Secret> {
    use std::os::fd::FromRawFd;
    let fd = i32::try_from(number).map_err(|_| std::io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: fcntl only asks whether the descriptor exists.
    if fd < 3 || unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(std::io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the operator handed this descriptor over for this purpose; we own it from here on.
    let file = unsafe { std::fs::File::from_raw_fd(fd) };
    let mut text = String::new();
    file.take(64 * 1024).read_to_string(&mut text)?;
    Ok(Secret::new(text.trim().to_owned()))
}

fn model_config(model: &ModelSettings, key: Option<Secret>) -> ModelConfig {
    ModelConfig {
        endpoint: Endpoint {
            base_url: model.base_url.value.clone(),
            key,
            timeouts: Timeouts {
                connect: model.timeout_connect.value,
                first_byte: model.timeout_first_byte.value,
                idle: model.timeout_idle.value,
                total: model.timeout_total.value,
            },
            ca_file: model.ca_file.value.clone(),
            ssl_cert_file: env::get("SSL_CERT_FILE").map(PathBuf::from),
            ssl_cert_dir: env::get("SSL_CERT_DIR"),
            proxies: env::proxies(),
            headers: Vec::new(),
        },
        server_state: model.server_state.value,
        ..ModelConfig::default()
    }
}
