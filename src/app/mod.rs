//! Wiring: the command line meets the rooms, signals and streams meet the run, and the process ends.
//!
//! The only room that reads the environment, and the only one that ends the process.

mod change;
mod doctor;
mod doctor_model;
pub mod env;
mod exec;
mod exec_input;
pub mod exit;
mod faults;
mod finish;
mod hook;
mod host;
mod policy;
mod replay;
mod resume;
mod rollout;
mod signals;
mod spec;

use crate::cli::{Cli, Command, ToolsFrom};
use crate::job::Kind;
use crate::report::Output;
use clap::{CommandFactory, Parser};
use std::process::ExitCode;
use std::time::Duration;

/// How long the last lines may wait for a slow reader.
const LAST_LINES: Duration = Duration::from_secs(5);

/// The program: parse, run, exit.
pub fn main() -> ExitCode {
    let started = crate::clock::now();
    let before = match signals::hear() {
        Ok(before) => before,
        Err(error) => return unavailable(&format!("signals cannot be heard: {error}")),
    };
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let status = u8::try_from(error.exit_code()).unwrap_or(exit::INVALID);
            // Help goes to stdout, faults to stderr; a reader that is gone ends nothing.
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    let is_run = matches!(
        &cli.command,
        Command::Exec(_) | Command::Resume(_) | Command::Fork(_) | Command::Hook { .. }
    );
    if !is_run && !replays_live(&cli.command) {
        // Where the default cannot be had back, the thread ends the process just as well.
        let _ = signals::stand_back(&before);
    }
    not_dumpable();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return unavailable(&format!("the runtime could not be started: {error}")),
    };
    let output = Output::process();
    let status = runtime.block_on(async {
        let status = dispatch(cli, &output, started).await;
        output.finish(LAST_LINES).await;
        status
    });
    // Work that is stuck on a dead disk must not hold up the exit.
    runtime.shutdown_timeout(Duration::from_millis(500));
    ExitCode::from(status)
}

async fn dispatch(cli: Cli, output: &Output, started: std::time::Instant) -> u8 {
    match cli.command {
        Command::Exec(args) => exec::run(*args, output, started).await,
        Command::Resume(args) => resume::run(*args, Kind::Resume, output, started).await,
        Command::Fork(args) => resume::run(*args, Kind::Fork, output, started).await,
        Command::Replay(args) => replay::run(args, output, started).await,
        Command::Patch(args) => change::patch(args, output).await,
        Command::Apply(args) => change::apply(args, output).await,
        Command::Rollout { command } => rollout::run(command, output).await,
        Command::Policy { command } => policy::run(command, output).await,
        Command::Spec { command } => spec::run(command, output).await,
        Command::Hook { command } => hook::run(command, output, started).await,
        Command::Doctor(args) if args.model.is_some() => doctor_model::run(&args, output).await,
        Command::Doctor(args) => doctor::run(args, output).await,
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "turnkey", &mut text);
            output.stdout(String::from_utf8_lossy(&text).trim_end()).await;
            0
        }
    }
}

/// Before there is anything to print by.
fn unavailable(why: &str) -> ExitCode {
    let text = format!("turnkey: {why}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    ExitCode::from(exit::status(crate::protocol::State::Unavailable))
}

fn replays_live(command: &Command) -> bool {
    matches!(command, Command::Replay(args) if args.tools == ToolsFrom::Live)
}

/// No child, and nobody of the same user, reads the runner's memory or environment.
fn not_dumpable() {
    #[cfg(target_os = "linux")]
    // SAFETY: prctl with constant arguments.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}

/// Prints faults or any refusal, one per line, and gives the status for wrong input.
async fn refuse(output: &Output, text: &str) -> u8 {
    output.stderr(format!("turnkey: {text}")).await;
    exit::INVALID
}

/// A refusal with its hint; wrong input is 2, and what could not be had keeps its own status.
async fn told(output: &Output, outcome: &crate::protocol::Outcome) -> u8 {
    output.stderr(format!("turnkey: {}: {}", outcome.state, outcome.message)).await;
    if !outcome.hint.is_empty() {
        output.stderr(format!("  hint: {}", outcome.hint)).await;
    }
    match outcome.state {
        crate::protocol::State::Invalid => exit::INVALID,
        state => exit::status(state),
    }
}

/// Faults as lines.
fn lines(faults: &[crate::spec::Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
