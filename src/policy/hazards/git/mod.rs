//! Git is a chapter of its own: its options run programs and write files, its configuration can do
//! both behind a harmless verb, and its verbs range from looking to rewriting history.
//!
//! Here: which words of a git call are safe. `config`: what every allowed call gets in its
//! environment so that the repository's configuration decides nothing.

pub mod config;
mod looking;
mod verbs;

use super::table::{self, Spec};
use super::{Access, Examined, FileUse};
use crate::policy::value::Value;

/// Options in front of the verb that change nothing but the output.
const GLOBAL: &[&str] = &[
    "--no-pager",
    "-P",
    "--no-optional-locks",
    "--literal-pathspecs",
    "--glob-pathspecs",
    "--noglob-pathspecs",
    "--icase-pathspecs",
    "--no-replace-objects",
    "--no-advice",
];

/// Takes a git call apart.
pub fn examine(argv: &[Value]) -> Examined {
    let mut out = Examined::default();
    let mut index = 1;
    while let Some(value) = argv.get(index) {
        match value.as_known() {
            Some(word) if GLOBAL.contains(&word) => {}
            Some("--version" | "-v") if argv.len() == index + 1 => return out,
            Some(word) if word.starts_with('-') => {
                out.hazard(index, global_reason(word));
            }
            Some(_) => break,
            None => {
                out.hazard(index, "the verb of git can't be known before running");
                return out;
            }
        }
        index += 1;
    }
    let Some(verb) = argv.get(index).and_then(Value::as_known) else {
        return out;
    };
    let words = argv.get(index..).unwrap_or_default();
    let mut inner = match verbs::spec(verb) {
        Some(spec) => known(verb, spec, words),
        None => unknown(verb, words),
    };
    for (offset, value) in words.iter().enumerate().skip(1) {
        if value.as_known() == Some("--help") {
            inner.hazard(offset, "git --help runs a viewer that the configuration names; use -h");
        }
    }
    for hazard in inner.hazards {
        out.hazards.push(super::Hazard { index: hazard.index + index, ..hazard });
    }
    out.files.extend(inner.files);
    out.may_run_external_diff = inner.may_run_external_diff;
    out
}

fn global_reason(word: &str) -> String {
    let name = word.split('=').next().unwrap_or(word);
    match name {
        "-C" | "--git-dir" | "--work-tree" | "--bare" | "--namespace" | "--super-prefix" => {
            format!("git {name} acts on another place; write `cd FOLDER && git …`")
        }
        "-p" | "--paginate" => "git -p starts a pager; leave it out".into(),
        "-c" | "--config-env" | "--exec-path" => {
            format!("git {name} can make git run any program")
        }
        _ => format!("git {name} in front of the verb is not known to be harmless"),
    }
}

fn known(verb: &str, spec: &Spec, words: &[Value]) -> Examined {
    let mut out = table::examine(spec, words);
    out.harmless = false;
    // Revisions and paths look alike; what leaves the workspace, or names a path in a revision, is
    // judged as a file.
    let files = std::mem::take(&mut out.files);
    for file in files {
        if file.access != Access::Read {
            out.files.push(file);
            continue;
        }
        out.files.extend(operand(file.value));
    }
    match verb {
        "diff" => external_diff(words, &mut out),
        "log" | "show" | "whatchanged" | "reflog" | "shortlog" | "rev-list" | "for-each-ref"
        | "branch" | "tag" => signatures(words, &mut out),
        _ => {}
    }
    if let Some(why) = looking::only(verb, words) {
        out.whole(why);
    }
    out
}

/// An operand as a file. Revisions and paths look alike, so what stays in the workspace is only held
/// against what may never be read; `revision:path` names a path too.
fn operand(value: Value) -> Vec<FileUse> {
    let text = match &value {
        Value::Known(word) => word.as_str(),
        Value::Unknown(unknown) => unknown.prefix.as_str(),
    };
    let climbs = text.split('/').any(|part| part == "..");
    let may_leave =
        text.starts_with('/') || climbs || (value.as_known().is_none() && text.is_empty());
    let access = if may_leave { Access::Read } else { Access::Mentioned };
    let mut uses = Vec::new();
    if let Value::Known(word) = &value {
        let mut rest = word.as_str();
        while let Some((_, path)) = rest.split_once(':') {
            if !path.is_empty() {
                let value = Value::known(path.trim_start_matches("./"));
                uses.push(FileUse { access: Access::Mentioned, value });
            }
            rest = path;
        }
    }
    uses.push(FileUse { access, value });
    uses
}

/// `git diff` hands files to a program that the configuration names, and no configuration can take
/// that back; the option can. Whether it is needed is decided where the configuration is known.
fn external_diff(words: &[Value], out: &mut Examined) {
    const SUMMARIES: &[&str] = &[
        "--name-only",
        "--name-status",
        "--numstat",
        "--shortstat",
        "--raw",
        "--summary",
        "--stat",
        "--compact-summary",
        "--dirstat",
    ];
    const BESIDE: &[&str] = &[
        "--cached",
        "--staged",
        "--no-color",
        "--color",
        "--diff-filter",
        "--no-renames",
        "-M",
        "-C",
        "-z",
        "--merge-base",
        "-w",
        "-b",
        "--relative",
        "--",
    ];
    let mut summary = false;
    let mut other = false;
    for word in words.iter().skip(1).filter_map(Value::as_known) {
        let name = word.split('=').next().unwrap_or(word);
        if name == "--no-ext-diff" {
            return;
        }
        summary |= SUMMARIES.contains(&name);
        other |= name.starts_with('-') && !SUMMARIES.contains(&name) && !BESIDE.contains(&name);
    }
    out.may_run_external_diff = !summary || other;
}

/// `%G…` in a format checks signatures with a program.
fn signatures(words: &[Value], out: &mut Examined) {
    for (index, value) in words.iter().enumerate() {
        let text = match value {
            Value::Known(text) => text.as_str(),
            Value::Unknown(unknown) => unknown.prefix.as_str(),
        };
        if text.contains("%G") || text.contains("%(signature") {
            out.hazard(index, "this format makes git check signatures with another program");
        }
    }
}

/// A verb that the tables do not know: the rule must spell it, and every option it takes.
fn unknown(verb: &str, words: &[Value]) -> Examined {
    let mut out = Examined::default();
    let why = match verb {
        "config" => "changes what later git commands run".to_owned(),
        "push" | "fetch" | "pull" | "clone" | "remote" | "ls-remote" | "submodule" => {
            "reaches other machines".to_owned()
        }
        _ => "is no verb that is known to be harmless".to_owned(),
    };
    out.hazard(0, format!("git {verb} {why}"));
    for (index, value) in words.iter().enumerate().skip(1) {
        let is_option = match value {
            Value::Known(word) => word.starts_with('-') && word.len() > 1 && word != "--",
            Value::Unknown(_) => value.may_be_unknown_option(),
        };
        let is_quiet = matches!(
            value.as_known(),
            Some("-q" | "-v" | "--quiet" | "--verbose" | "-n" | "--dry-run")
        );
        let runs = value.as_known().is_some_and(|word| word.contains("::"));
        if (is_option && !is_quiet) || runs {
            let shown = value.display();
            out.hazard(index, format!("git {verb} {shown} is not known to be harmless"));
        }
    }
    out
}

/// What a verb does with the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerbKind {
    Looks,
    Changes,
    /// It depends on the words.
    Either,
}

pub fn verb_kind(verb: &str) -> VerbKind {
    verbs::kind(verb)
}
