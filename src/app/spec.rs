//! `turnkey spec …`

use super::{exit, lines, refuse};
use crate::cli::SpecCommand;
use crate::job;
use crate::model::{Script, script_schema};
use crate::report::Output;
use crate::spec::{self, Fault, Spec, yaml};
use std::path::Path;

pub async fn run(command: SpecCommand, output: &Output) -> u8 {
    match command {
        SpecCommand::Schema { script } => {
            let schema = if script { script_schema() } else { spec::schema() };
            output.stdout(pretty(&schema)).await;
            0
        }
        SpecCommand::Check { file } => check(&file, output).await,
    }
}

async fn check(file: &Path, output: &Output) -> u8 {
    let name = file.display().to_string();
    let source = match std::fs::read_to_string(file) {
        Ok(source) => source,
        Err(error) => {
            let hint =
                "name an existing spec or script; turnkey spec schema shows what stands in one";
            return refuse(output, &format!("{name}: {error}\n  hint: {hint}")).await;
        }
    };
    let checked = if is_script(&name, &source) {
        Script::parse(&name, &source).map(|_| None)
    } else {
        spec::parse(&name, &source).and_then(|spec| match job::hook_faults(&spec) {
            faults if faults.is_empty() => Ok(script_of(&spec)),
            faults => Err(faults),
        })
    };
    match checked {
        Ok(None) => output.stdout(format!("{name}: ok")).await,
        // The script that a spec names is a part of what will run.
        Ok(Some((script, Ok(())))) => output.stdout(format!("{name}: ok\n{script}: ok")).await,
        Ok(Some((_, Err(faults)))) | Err(faults) => {
            output.stderr(lines(&faults)).await;
            return exit::NO;
        }
    }
    0
}

/// A script has steps, and a task spec never has.
fn is_script(name: &str, source: &str) -> bool {
    yaml::parse(name, source).is_ok_and(|root| match root.kind {
        yaml::Kind::Map(entries) => entries.iter().any(|(key, _)| key.name == "steps"),
        _ => false,
    })
}

/// The script that a spec names and what is wrong with it; none where it is not there to be read,
/// which may be so until the run.
fn script_of(spec: &Spec) -> Option<(String, Result<(), Vec<Fault>>)> {
    let model = &spec.model.model.as_ref()?.value;
    let path = (model.provider == "scripted").then(|| spec.resolve_path(&model.name))?;
    let name = path.display().to_string();
    let source = std::fs::read_to_string(&path).ok()?;
    Some((name.clone(), Script::parse(&name, &source).map(drop)))
}

pub fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
