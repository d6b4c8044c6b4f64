//! `turnkey policy …`: yes is 0, no is 1, wrong input is 2.

use super::spec::pretty;
use super::{doctor, env, exit, lines, refuse};
use crate::cli::PolicyCommand;
use crate::job::{self, AskedPolicy};
use crate::policy::{self, CommandForm, CommandRequest, PolicyFile, ProjectKind};
use crate::protocol::Decision;
use crate::report::Output;
use serde_json::json;
use std::path::{Path, PathBuf};

pub async fn run(command: PolicyCommand, output: &Output) -> u8 {
    match command {
        PolicyCommand::Check { file } => check(&file, output).await,
        PolicyCommand::Test { file, workspace } => test(&file, &workspace, output).await,
        PolicyCommand::Explain { policy, workspace, json, untrusted, command } => {
            let asked = bind(policy.as_deref(), &workspace, untrusted);
            match asked {
                Ok(asked) => explain(&asked, policy, command, json, output).await,
                Err(text) => refuse(output, &text).await,
            }
        }
        PolicyCommand::Show { preset } => show(preset.as_deref(), output).await,
        PolicyCommand::Init { workspace } => init(&workspace, output).await,
        PolicyCommand::Schema => {
            output.stdout(pretty(&policy::schema())).await;
            0
        }
    }
}

fn bind(file: Option<&Path>, workspace: &Path, untrusted: bool) -> Result<AskedPolicy, String> {
    job::bind_policy(file, workspace, env::home(), env::path().as_deref(), untrusted)
}

async fn check(path: &Path, output: &Output) -> u8 {
    let name = path.display().to_string();
    let source = match std::fs::read_to_string(path) {
        Ok(source) => source,
        Err(error) => return refuse(output, &format!("{name}: {error}")).await,
    };
    let dir = path.parent().map(Path::to_owned).unwrap_or_default();
    let load = move |used: &str| {
        std::fs::read_to_string(dir.join(used)).map_err(|error| format!("{used}: {error}"))
    };
    match PolicyFile::parse(&name, &source, &load) {
        Ok(_) => {
            output.stdout(format!("{name}: ok")).await;
            0
        }
        Err(faults) => {
            output.stderr(lines(&faults)).await;
            exit::NO
        }
    }
}

async fn test(file: &Path, workspace: &Path, output: &Output) -> u8 {
    let asked = match bind(Some(file), workspace, false) {
        Ok(asked) => asked,
        Err(text) => return refuse(output, &text).await,
    };
    let outcomes = policy::run_tests(&asked.policy, &asked.facts);
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    for outcome in &outcomes {
        let word = if outcome.passed { "ok" } else { "FAILED" };
        let mut text = format!(
            "{word} {}:{}: {} is {}",
            outcome.test.file, outcome.test.line, outcome.run, outcome.got
        );
        if !outcome.passed {
            text.push_str(&format!(
                ", not {}: {} ({})",
                outcome.expect, outcome.reason, outcome.rule
            ));
        }
        output.stdout(text).await;
    }
    output
        .stdout(format!("{}: {} passed, {failed} failed", asked.file, outcomes.len() - failed))
        .await;
    if failed == 0 { 0 } else { exit::NO }
}

async fn explain(
    asked: &AskedPolicy,
    file: Option<PathBuf>,
    command: Vec<String>,
    json: bool,
    output: &Output,
) -> u8 {
    // One word is a script, as the model would write it; several are a program and its words.
    let form = match <[String; 1]>::try_from(command) {
        Ok([script]) => CommandForm::Script(script),
        Err(words) => CommandForm::Argv(words),
    };
    let request = CommandRequest { form, cwd: asked.workspace.clone() };
    let explanation = policy::explain(&asked.policy, &request, &asked.facts);
    let allowed = explanation.decision == Decision::Allow;
    // Where nothing would run there is nothing to hold.
    let held = match allowed {
        true => Some(doctor::look(file, asked.workspace.clone()).await),
        false => None,
    };
    let text = if json {
        let mut value = serde_json::to_value(&explanation).unwrap_or_default();
        let (grades, missing) = match &held {
            Some(Ok(found)) => (json!(found.grades), json!(found.short)),
            Some(Err(why)) => (json!([]), json!([why])),
            None => (json!([]), json!([])),
        };
        value["sandbox_grades"] = grades;
        value["sandbox_missing"] = missing;
        pretty(&value)
    } else {
        let mut text = explanation.to_string().trim_end().to_owned();
        match held {
            Some(Ok(found)) => {
                text.push_str("\nheld here:\n");
                let table = doctor::table(&found);
                text.extend(table.lines().map(|line| format!("  {line}\n")));
                if !found.short.is_empty() {
                    let short = found.short.join("; ");
                    text.push_str(&format!("  a run would not start here: {short}\n"));
                }
            }
            Some(Err(why)) => text.push_str(&format!("\nheld here: not known: {why}")),
            None => {}
        }
        text.trim_end().to_owned()
    };
    output.stdout(text).await;
    if allowed { 0 } else { exit::NO }
}

async fn show(preset: Option<&str>, output: &Output) -> u8 {
    let names = policy::preset_names().join(", ");
    let Some(name) = preset else {
        output.stdout(names).await;
        return 0;
    };
    match policy::show_preset(name) {
        Some(text) => {
            output.stdout(text.trim_end()).await;
            0
        }
        None => {
            refuse(output, &format!("there is no preset {name:?}; those that exist: {names}")).await
        }
    }
}

async fn init(workspace: &Path, output: &Output) -> u8 {
    let entries = match std::fs::read_dir(workspace) {
        Ok(entries) => entries,
        Err(error) => return refuse(output, &format!("{}: {error}", workspace.display())).await,
    };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let kinds = ProjectKind::detect(names.iter().map(String::as_str));
    output.stdout(policy::init(&kinds).trim_end()).await;
    0
}
