//! `turnkey rollout …`: looking at a record, checking it, cutting it back.

use super::{exec_input, exit, refuse};
use crate::cli::RolloutCommand;
use crate::job::{self, Edited, FoundRun, find_run};
use crate::protocol::{Outcome, State};
use crate::report::{Output, rollout_show};
use crate::rollout::{self, Entry, Reader, Record, RolloutError};
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

/// How often a live record is looked at.
const LOOK: Duration = Duration::from_millis(200);

pub async fn run(command: RolloutCommand, output: &Output) -> u8 {
    let name = match &command {
        RolloutCommand::Show { run, .. }
        | RolloutCommand::Verify { run, .. }
        | RolloutCommand::Compact { run }
        | RolloutCommand::Rollback { run, .. } => run,
    };
    let found = match find_run(name, &exec_input::bases()) {
        Ok(found) => found,
        Err(why) => return refuse(output, &why).await,
    };
    match command {
        RolloutCommand::Show { prompt: Some(step), json, .. } => {
            prompt(&found.rollout, step, json, output).await
        }
        RolloutCommand::Show { follow: true, json, .. } => {
            follow(&found.rollout, json, output).await
        }
        RolloutCommand::Show { json, .. } => show(&found.rollout, json, output).await,
        RolloutCommand::Verify { json, .. } => verify(&found.rollout, json, output).await,
        RolloutCommand::Compact { .. } => edited(job::compact(&found).await, output).await,
        RolloutCommand::Rollback { turns, .. } => rollback(&found, turns, output).await,
    }
}

async fn broken(output: &Output, error: &RolloutError) -> u8 {
    let status = refuse(output, &error.to_string()).await;
    if !error.hint().is_empty() {
        output.stderr(format!("  hint: {}", error.hint())).await;
    }
    status
}

async fn show(path: &Path, json: bool, output: &Output) -> u8 {
    let reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(error) => return broken(output, &error).await,
    };
    let mut shown = rollout_show::Shown::new(json);
    let mut reader = reader;
    for entry in &mut reader {
        match entry {
            Ok(entry) => print(&mut shown, &entry, output).await,
            Err(error) => return broken(output, &error).await,
        }
    }
    let report = reader.into_report();
    if report.lines == 0 {
        return broken(output, &RolloutError::Empty { path: path.to_owned() }).await;
    }
    if report.bad_count > 0 || report.torn.is_some() || report.break_count > 0 {
        let text = "the record is not whole; `turnkey rollout verify` says where";
        output.stderr(format!("turnkey: {text}")).await;
    }
    0
}

async fn print(shown: &mut rollout_show::Shown, entry: &Entry, output: &Output) {
    for line in shown.lines(entry) {
        output.stdout(line).await;
    }
}

/// Prints what is there and what comes, until the run has ended or nobody writes it any more.
async fn follow(path: &Path, json: bool, output: &Output) -> u8 {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return refuse(output, &format!("{}: {error}", path.display())).await,
    };
    let mut shown = rollout_show::Shown::new(json);
    let mut rest: Vec<u8> = Vec::new();
    let mut at = 0;
    let mut ended = false;
    loop {
        // Asked before reading: what was written until then is read below.
        let held = rollout::is_held(path);
        let mut fresh = Vec::new();
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_to_end(&mut fresh));
        if let Err(error) = read {
            return refuse(output, &format!("{}: {error}", path.display())).await;
        }
        at += fresh.len() as u64;
        rest.extend_from_slice(&fresh);
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = rest.drain(..whole).collect();
        for entry in Reader::new(Cursor::new(lines), path).flatten() {
            ended = match entry.record {
                Record::RunFinished(_) => true,
                Record::RunStarted(_) => false,
                _ => ended,
            };
            print(&mut shown, &entry, output).await;
        }
        if output.stdout_failure().is_some() {
            return 0;
        }
        if ended && !held {
            return 0;
        }
        if !held && fresh.is_empty() {
            output.stderr("turnkey: nobody writes this record any more; the run was killed").await;
            return 0;
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn prompt(path: &Path, step: u32, json: bool, output: &Output) -> u8 {
    match job::sent_prompt(path, step) {
        Ok(Some(sent)) => {
            let shown = rollout_show::Prompt {
                turn: sent.turn.as_str(),
                step: sent.step,
                model: &sent.model,
                fingerprint: &sent.fingerprint,
                instructions: &sent.instructions,
                tools: &sent.tools,
                items: &sent.items,
            };
            output.stdout(if json { shown.json() } else { shown.text() }).await;
            0
        }
        Ok(None) => refuse(output, &format!("{}: no Turn has a step {step}", path.display())).await,
        Err(error) => broken(output, &error).await,
    }
}

async fn verify(path: &Path, json: bool, output: &Output) -> u8 {
    let report = match rollout::verify(path) {
        Ok(report) => report,
        Err(error) => return broken(output, &error).await,
    };
    if json {
        let text = serde_json::to_string(&report).unwrap_or_default();
        output.stdout(crate::report::text::json_line(text)).await;
    } else {
        output.stdout(rollout_show::verified(path, &report)).await;
    }
    if report.ok { 0 } else { exit::NO }
}

async fn rollback(found: &FoundRun, turns: u32, output: &Output) -> u8 {
    edited(job::roll_back(found, turns).await, output).await
}

async fn edited(answer: Result<Edited, Box<Outcome>>, output: &Output) -> u8 {
    match answer {
        Ok(edited) => {
            output
                .stdout(format!(
                    "the history has {} items now, it had {}; {} Turns are in it. Files stay as they \
                     are, and the record keeps everything.",
                    edited.items_after, edited.items_before, edited.turns_left
                ))
                .await;
            0
        }
        Err(outcome) => {
            output.stderr(format!("turnkey: {}", outcome.message)).await;
            if !outcome.hint.is_empty() {
                output.stderr(format!("  hint: {}", outcome.hint)).await;
            }
            match outcome.state {
                State::Invalid => exit::INVALID,
                state => exit::status(state),
            }
        }
    }
}
