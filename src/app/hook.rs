//! `turnkey hook test`: the hooks of a spec, asked without a model. Allowed is 0, anything else 1, wrong
//! input 2.

use super::exec_input::{self, Refused};
use super::{exit, refuse, signals, told};
use crate::cli::{ExecArgs, HookCommand, HookTestArgs};
use crate::job::{self, HookTest};
use crate::report::{Output, rollout_show};
use crate::spec::Isolate;
use serde_json::{Value, json};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

pub async fn run(command: HookCommand, output: &Output, started: Instant) -> u8 {
    let HookCommand::Test(args) = command;
    let about = match about(&args) {
        Ok(about) => about,
        Err(why) => return refuse(output, &why).await,
    };
    let exec = ExecArgs { spec: Some(args.spec.clone()), ..ExecArgs::default() };
    let mut input = match exec_input::gather(&exec, started) {
        Ok(input) => input,
        Err(Refused::Invalid(text)) => return refuse(output, &text).await,
        Err(Refused::Outcome(outcome)) => return told(output, &outcome).await,
    };
    // What a hook changes while it is tried is nobody's work.
    input.settings.isolate.value = Isolate::Copy;
    let mut signals = signals::preparing();
    let prepared = match job::prepare(input, None, &mut signals).await {
        Ok(prepared) => prepared,
        Err(outcome) => return told(output, &outcome).await,
    };
    signals::begun();
    let cancel = CancellationToken::new();
    let asked = {
        let asking = job::test_hooks(&prepared, &args.hook, &about, &cancel);
        tokio::pin!(asking);
        loop {
            tokio::select! {
                biased;
                Some(_) = signals.recv() => cancel.cancel(),
                asked = &mut asking => break asked,
            }
        }
    };
    prepared.folder.discard();
    match asked {
        Ok(tests) => answer(output, &tests, args.json).await,
        Err(why) => refuse(output, &why).await,
    }
}

/// What is asked over the sample.
fn about(args: &HookTestArgs) -> Result<Value, String> {
    let Some(text) = &args.input else { return Ok(Value::Null) };
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("--input: no JSON: {error}"))?;
    if !value.is_object() {
        return Err("--input: must be a JSON object".into());
    }
    Ok(value)
}

async fn answer(output: &Output, tests: &[HookTest], as_json: bool) -> u8 {
    for test in tests {
        if as_json {
            let mut row = serde_json::to_value(&test.record).unwrap_or_default();
            row["warnings"] = json!(test.warnings);
            output.stdout(crate::report::text::json_line(row.to_string())).await;
        } else {
            output.stdout(rollout_show::safe(&in_words(test))).await;
        }
    }
    if tests.iter().all(|test| test.allows) { 0 } else { exit::NO }
}

fn in_words(test: &HookTest) -> String {
    let record = &test.record;
    let mut text = format!("{}: {} in {} ms", record.hook, record.outcome, record.duration_ms);
    if !record.reason.is_empty() {
        text.push_str(&format!(": {}", record.reason));
    }
    if let Some(arguments) = &record.arguments {
        text.push_str(&format!("\n  arguments: {arguments}"));
    }
    if let Some(context) = &record.context {
        text.push_str(&format!("\n  context: {context}"));
    }
    let printed = record.output_tail.trim_end();
    if !printed.is_empty() {
        text.push_str(&format!("\n  printed: {}", printed.replace('\n', "\n           ")));
    }
    for warning in &test.warnings {
        text.push_str(&format!("\n  warning: {warning}"));
    }
    text
}
