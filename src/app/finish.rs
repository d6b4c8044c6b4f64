//! The end of a run on disk and on the streams: artifacts, result, summary, last lines.

use super::{exit, host};
use crate::clock;
use crate::job::{Artifacts, CommandLog, Leftover, RunEnd, RunLogs};
use crate::protocol::{Outcome, State};
use crate::report::{
    self, ArtifactPaths, ChangedFile, Check, Cost, Denial, Digests, Finish, HookRuns, Output,
    Prices, Reporter, ResultRecord, ToolCalls, summary, write_atomic, write_result,
};
use crate::rollout::Masker;
use crate::session::cost;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

/// Where and when a run ends.
pub struct Finishing<'a> {
    pub began: &'a str,
    pub started: Instant,
    pub run_folder: &'a Path,
    /// The folder that people are told of.
    pub shown: &'a Path,
    pub artifacts: Option<&'a Artifacts>,
}

/// Writes everything, publishes it, says the last lines. The exit status comes from the Outcome alone.
pub async fn finish(
    end: RunEnd,
    leftover: Leftover,
    at: Finishing<'_>,
    reporter: &mut Reporter,
    output: &Output,
) -> u8 {
    let mut outcome = end.outcome.clone();
    let mut record = record(&end, &leftover, &at);
    if let Err(error) = write_all(&end, &mut record, &outcome, &leftover, &at) {
        outcome = worse(outcome, "artifacts.write", &error, reporter).await;
    }
    leftover.folder.remove_working_folders();
    if let Some(artifacts) = at.artifacts
        && let Err(error) = artifacts.publish(at.run_folder)
    {
        let error = format!("{}: {error}", artifacts.path().display());
        outcome = worse(outcome, "artifacts.publish", &error, reporter).await;
        record.end(&outcome, &clock::stamp(), clock::millis_since(at.started), exit::status);
        if let Ok(folder) = File::open(at.run_folder) {
            // The run folder is the record of last resort; if it fails too, the exit status stands.
            let _ = write_result(&folder, &record, &leftover.masker);
        }
    }
    record.end(&outcome, &clock::stamp(), clock::millis_since(at.started), exit::status);
    let message = end.summary.final_message.as_deref();
    host::tell(&record, message, &leftover.masker, output).await;
    let status = exit::status(outcome.state);
    let shown = if outcome.reason == "artifacts.publish" { at.run_folder } else { at.shown };
    reporter
        .finish(&Finish {
            outcome: &outcome,
            exit_status: status,
            final_message: end.summary.final_message.as_deref(),
            artifacts: Some(shown),
            steps: end.summary.steps,
            usage: end.summary.usage,
            changed: Some(record.changed),
            duration: clock::now().saturating_duration_since(at.started),
        })
        .await;
    status
}

async fn worse(outcome: Outcome, reason: &str, error: &str, reporter: &mut Reporter) -> Outcome {
    let text = format!("the artifacts could not be written: {error}");
    reporter.warning(&text).await;
    let hint = "the run folder keeps what could be written; name another folder with --artifacts";
    outcome.strictest(Outcome::new(State::Unavailable, reason, text).hint(hint).retryable(true))
}

fn record(end: &RunEnd, leftover: &Leftover, at: &Finishing<'_>) -> ResultRecord {
    let mut record =
        ResultRecord::running(leftover.folder.id.as_str(), &leftover.session, at.began);
    let summary = &end.summary;
    record.model = Some(leftover.model.clone());
    record.usage = summary.usage.into();
    record.cost = leftover.settings.model.prices.value.map(|prices| Cost {
        amount: cost(&prices, summary.usage),
        prices: Prices { input: prices.input, cached: prices.cached, output: prices.output },
    });
    record.steps = summary.steps;
    record.tool_calls = ToolCalls {
        total: summary.calls.total.into(),
        failed: summary.calls.failed.into(),
        denied: summary.calls.denied.into(),
    };
    let evidence = &end.taken.evidence;
    record.changed = !evidence.record.files.is_empty() || !end.taken.earlier.is_empty();
    record.changed_files = evidence
        .record
        .files
        .iter()
        .map(|file| ChangedFile {
            path: file.path.clone(),
            renamed_from: file.renamed_from.clone(),
            status: file.status,
            added: file.added,
            removed: file.removed,
            by: file.by.clone(),
        })
        .collect();
    record.not_in_diff = evidence.not_in_diff.iter().chain(&evidence.inexact).cloned().collect();
    let earlier = end.taken.earlier.iter();
    record
        .not_in_diff
        .extend(earlier.map(|path| format!("{path}: changed by an earlier Turn of this session")));
    record.checks = end.collected.checks.iter().map(check).collect();
    record.denials = end
        .collected
        .denials
        .iter()
        .map(|denied| Denial {
            step: denied.step,
            call_id: denied.call_id.clone(),
            action: denied.action.clone(),
            argv: denied.argv.clone(),
            rule: denied.rule.clone(),
            reason: denied.reason.clone(),
        })
        .collect();
    record.hooks = hooks(end, leftover);
    record.processes = end.collected.processes.clone();
    let logs = leftover.folder.logs.as_ref().map(RunLogs::kept).unwrap_or_default();
    record.command_logs = logs.into_iter().map(command_log).collect();
    record.sandbox = serde_json::json!(leftover.grades);
    record.warnings = end.collected.warnings.clone();
    let git = evidence.git_changes.iter().map(|change| format!("git's own files: {change}"));
    record.warnings.extend(git);
    record.sources = leftover
        .settings
        .rows()
        .iter()
        .map(|row| (row.key.clone(), row.source.to_string()))
        .collect();
    record.digests = Digests {
        policy: leftover.policy_digest.clone(),
        spec: leftover.spec_digest.clone(),
        diff: evidence.record.digest.clone(),
        start_tree: evidence.record.start_tree.clone(),
        end_tree: evidence.record.end_tree.clone(),
        ..Digests::default()
    };
    record
}

fn hooks(end: &RunEnd, leftover: &Leftover) -> Vec<HookRuns> {
    let runs = leftover.hooks.iter().map(|hook| {
        let counts = end.collected.hooks.get(&hook.label()).copied().unwrap_or_default();
        HookRuns {
            hook: hook.label(),
            command: hook.run.clone(),
            times: counts.times,
            denials: counts.denials,
            errors: counts.errors,
            duration_ms: counts.duration_ms,
        }
    });
    runs.collect()
}

fn command_log(log: CommandLog) -> report::CommandLog {
    let CommandLog { command, end } = log;
    let file = (!end.file.is_empty()).then_some(end.file);
    report::CommandLog { command, file, bytes: end.bytes, cut: end.cut, fault: end.fault }
}

fn check(check: &crate::rollout::CheckRecord) -> Check {
    Check {
        name: check.name.clone(),
        phase: check.phase,
        attempt: check.attempt,
        argv: check.argv.clone(),
        passed: check.passed,
        exit_code: check.exit_code,
        timed_out: check.timed_out,
        duration_ms: check.duration_ms,
        against_baseline: None,
        output_tail: check.output_tail.clone(),
    }
}

fn write_all(
    end: &RunEnd,
    record: &mut ResultRecord,
    outcome: &Outcome,
    leftover: &Leftover,
    at: &Finishing<'_>,
) -> Result<(), String> {
    let masker: &Masker = &leftover.masker;
    let folder = File::open(at.run_folder).map_err(|error| error.to_string())?;
    let write = |name: &str, bytes: &[u8]| {
        write_atomic(&folder, name, bytes).map_err(|error| error.to_string())
    };
    if !end.taken.diff_withheld {
        write("turn.diff", &end.taken.evidence.diff.bytes)?;
    }
    if let Some(start) = &end.taken.start_diff {
        write("start.diff", start)?;
    }
    let message = end.summary.final_message.as_deref().unwrap_or_default();
    write("last-message.md", masker.mask(&with_newline(message)).as_bytes())?;
    record.digests.rollout = file_digest(&at.run_folder.join("rollout.jsonl"))
        .map_err(|error| format!("rollout.jsonl cannot be read back: {error}"))?;
    let named = |name: &str| Some(name.to_owned());
    record.artifacts = ArtifactPaths {
        directory: at.shown.display().to_string(),
        rollout: named("rollout.jsonl"),
        diff: if end.taken.diff_withheld { None } else { named("turn.diff") },
        start_diff: end.taken.start_diff.as_ref().and_then(|_| named("start.diff")),
        last_message: named("last-message.md"),
        summary: named("summary.md"),
        report: None,
    };
    record.end(outcome, &clock::stamp(), clock::millis_since(at.started), exit::status);
    let text = summary::render(record, end.summary.final_message.as_deref(), masker);
    write("summary.md", text.as_bytes())?;
    write_result(&folder, record, masker).map_err(|error| error.to_string())
}

fn with_newline(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// SHA-256 of a file of any length, in hex.
fn file_digest(path: &Path) -> std::io::Result<String> {
    let mut digest = Sha256::new();
    let mut file = File::open(path)?;
    let mut buffer = vec![0u8; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => digest.update(&buffer[..read]),
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
