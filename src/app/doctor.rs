//! `turnkey doctor`: what holds on this machine, tried and not guessed. Yes is 0, no is 1, wrong input 2.

use super::{env, exec_input, exit, refuse};
use crate::cli::DoctorArgs;
use crate::job::{self, Examination, ToExamine};
use crate::report::Output;
use serde_json::json;
use std::path::PathBuf;

/// What a run with this policy would find in this workspace.
pub async fn look(policy: Option<PathBuf>, workspace: PathBuf) -> Result<Examination, String> {
    job::examine(ToExamine {
        policy,
        workspace,
        home: env::home(),
        path: env::path(),
        bases: exec_input::bases(),
        launchers: exec_input::launchers(),
        ci_command_files: env::ci_command_files(),
    })
    .await
}

pub async fn run(args: DoctorArgs, output: &Output) -> u8 {
    let found = match look(args.policy, args.workspace).await {
        Ok(found) => found,
        Err(text) => return refuse(output, &text).await,
    };
    let text = if args.json { as_json(&found) } else { as_text(&found) };
    output.stdout(text).await;
    if found.short.is_empty() { 0 } else { exit::NO }
}

/// What holds, a clause a line.
pub fn table(found: &Examination) -> String {
    let width = found.grades.iter().map(|grade| grade.clause.len()).max().unwrap_or(0);
    let mut text = String::new();
    for grade in &found.grades {
        let mark = if grade.required { "required" } else { "" };
        text.push_str(&format!(
            "{:width$}  {:9}  {mark:8}  {}\n",
            grade.clause,
            grade.held.words(),
            grade.by
        ));
    }
    text
}

fn as_json(found: &Examination) -> String {
    let layers = json!({
        "landlock": found.layers.landlock,
        "seccomp": found.layers.seccomp,
        "namespaces": found.layers.namespaces,
    });
    json!({
        "schema": 1,
        "policy": found.policy,
        "workspace": found.workspace,
        "kernel": found.kernel,
        "landlock_abi": found.landlock_abi,
        "landlock_lacks": found.landlock_lacks,
        "landlock_audit": found.landlock_unheard.is_none(),
        "landlock_audit_why_not": found.landlock_unheard,
        "layers": layers,
        "grades": found.grades,
        "always_readable": found.always_readable,
        "ready": found.short.is_empty(),
        "missing": found.short,
        "hint": found.hint(),
    })
    .to_string()
}

fn as_text(found: &Examination) -> String {
    let yes = |has: bool| if has { "in force" } else { "not in use" };
    let mut text = format!(
        "kernel      {}\nlandlock    {}, ABI {}\nseccomp     {}\nnamespaces  {}\n",
        found.kernel,
        yes(found.layers.landlock),
        found.landlock_abi,
        yes(found.layers.seccomp),
        yes(found.layers.namespaces),
    );
    for lacks in &found.landlock_lacks {
        text.push_str(&format!("            this ABI lacks: {lacks}\n"));
    }
    let audit = found.landlock_unheard.as_ref().map_or_else(
        || "what Landlock refuses is heard, and explained to the model".to_owned(),
        |why| format!("Landlock's log is not heard ({why})"),
    );
    text.push_str(&format!("            {audit}\n"));
    text.push_str(&format!("policy      {}\nworkspace   {}\n\n", found.policy, found.workspace));
    text.push_str(&table(found));
    text.push_str(&format!("\nalways readable: {}\n", found.always_readable.join(" ")));
    match found.hint() {
        None => text.push_str("\na run with this policy would start here"),
        Some(hint) => text.push_str(&format!(
            "\na run with this policy would not start here: {}\nhint: {hint}",
            found.short.join("; ")
        )),
    }
    text
}
