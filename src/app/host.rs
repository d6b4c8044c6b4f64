//! What the host of a job is told at the end, where it has files and commands for that: outputs for
//! later steps, the step's summary, annotations. None of it can change how the run ended.

use super::env;
use crate::report::github::{
    GithubError, annotation_commands, annotations, append_step_summary, write_outputs,
};
use crate::report::{Output, ResultRecord, summary};
use crate::rollout::Masker;
use std::path::Path;

/// Tells GitHub Actions; elsewhere nothing happens.
pub async fn tell(
    record: &ResultRecord,
    final_message: Option<&str>,
    masker: &Masker,
    output: &Output,
) {
    if !env::under_github() {
        return;
    }
    for line in annotation_commands(&annotations(record), masker) {
        output.stderr(line).await;
    }
    let (outputs, step_summary) = env::github_files();
    let mut failures = Vec::new();
    if let Some(path) = outputs {
        failures.extend(write(&path, record, final_message, masker).err());
    }
    if let Some(path) = step_summary {
        let text = summary::render(record, final_message, masker);
        failures.extend(append_step_summary(&path, &text).err());
    }
    for failure in failures {
        output.stderr(format!("turnkey: warning: {failure}")).await;
    }
}

fn write(
    path: &Path,
    record: &ResultRecord,
    final_message: Option<&str>,
    masker: &Masker,
) -> Result<(), GithubError> {
    let ending = &record.ending;
    let folder = Path::new(&record.artifacts.directory);
    let file = |name: &Option<String>| {
        let name = name.as_ref().filter(|_| !record.artifacts.directory.is_empty());
        name.map(|name| folder.join(name).display().to_string()).unwrap_or_default()
    };
    let result = Some("result.json".to_owned());
    let exit_code = ending.exit_status().map(|code| code.to_string()).unwrap_or_default();
    let outputs = [
        ("state", ending.state().to_owned()),
        ("reason", ending.reason().to_owned()),
        ("exit-code", exit_code),
        ("changed", record.changed.to_string()),
        ("run", record.run.clone()),
        ("session", record.session.clone()),
        ("artifacts", record.artifacts.directory.clone()),
        ("result", file(&result)),
        ("rollout", file(&record.artifacts.rollout)),
        ("diff", file(&record.artifacts.diff)),
        ("summary", file(&record.artifacts.summary)),
        ("final-message", masker.mask(final_message.unwrap_or_default()).into_owned()),
    ];
    let outputs: Vec<(&str, &str)> =
        outputs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    write_outputs(path, &outputs)
}
