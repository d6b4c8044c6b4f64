//! Parameters: what the spec declares, whether a given value fits, and the task with them filled in.

use super::check;
use super::defaults::{MAX_PARAM_BYTES, MAX_TASK_BYTES};
use super::fault::{At, Fault, Faults, nearest};
use super::template::{self, ESCAPE_HINT, Piece};
use super::types::{Param, ParamKind, Spec, TaskText};
use super::yaml::quoted;
use std::collections::{BTreeMap, BTreeSet};

/// How faults in values from the command line are placed.
const FLAG: &str = "--param";

impl Spec {
    /// The task with its parameters filled in. `params` are the given values, `task_text` the text
    /// of `task` or of the file that `task_file` names. All faults at once: values that do not fit,
    /// missing ones, unknown ones, placeholders nobody declared, parameters the task never names.
    pub fn render_task(
        &self,
        params: &BTreeMap<String, String>,
        task_text: &str,
    ) -> Result<String, Vec<Fault>> {
        let file = match &self.task {
            Some(task) => match &task.value {
                TaskText::File(path) => self.resolve_path(path).display().to_string(),
                TaskText::Inline { text, .. } if text == task_text => self.file.clone(),
                TaskText::Inline { .. } => "task".into(),
            },
            None => "task".into(),
        };
        self.render_task_from(&file, params, task_text)
    }

    /// The same for a task that stands in another file (`--task-file`).
    pub fn render_task_from(
        &self,
        task_file: &str,
        params: &BTreeMap<String, String>,
        task_text: &str,
    ) -> Result<String, Vec<Fault>> {
        let mut faults = Faults::new(FLAG);
        let values = self.param_values(params, &mut faults);
        let mut list = faults.list;
        list.extend(self.template_faults(task_file, task_text));
        let text = fill(task_text, &values);
        if text.trim().is_empty() && list.is_empty() {
            list.push(fault(
                task_file,
                At::default(),
                "the task is empty",
                "say what is to be done",
            ));
        }
        if text.len() > MAX_TASK_BYTES {
            let what = format!("the task is longer than {MAX_TASK_BYTES} bytes");
            list.push(fault(
                task_file,
                At::default(),
                &what,
                "hand long texts over as files or inputs",
            ));
        }
        if list.is_empty() { Ok(text) } else { Err(list) }
    }

    /// Values by name: given ones, else defaults. Faults for what does not fit.
    pub fn param_values(
        &self,
        given: &BTreeMap<String, String>,
        faults: &mut Faults,
    ) -> BTreeMap<String, String> {
        let names = || self.params.iter().map(|param| param.name.as_str());
        for name in given.keys().filter(|name| !names().any(|known| known == name.as_str())) {
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("{} declares: {}", self.file, list_or_none(names())),
            };
            faults.add(At::default(), format!("no parameter is called {}", quoted(name)), hint);
        }
        let mut values = BTreeMap::new();
        for param in &self.params {
            match (given.get(&param.name), &param.default) {
                (Some(value), _) => {
                    if let Err(why) = param.check(value) {
                        faults.add(At::default(), format!("\"{}\" {why}", param.name), "");
                    }
                    values.insert(param.name.clone(), value.clone());
                }
                (None, Some(default)) => {
                    values.insert(param.name.clone(), default.clone());
                }
                (None, None) => faults.add(
                    At::default(),
                    format!("the parameter \"{}\" has no value", param.name),
                    format!("give --param {}=VALUE, or a default in {}", param.name, self.file),
                ),
            }
        }
        values
    }

    /// The values of `file` parameters: the caller, who may look at the disk, checks that they exist.
    pub fn file_params<'a>(
        &'a self,
        values: &'a BTreeMap<String, String>,
    ) -> impl Iterator<Item = (&'a Param, &'a str)> {
        let files = self.params.iter().filter(|param| param.kind == ParamKind::File);
        files.filter_map(|param| values.get(&param.name).map(|value| (param, value.as_str())))
    }

    /// Broken and undeclared placeholders, and declared parameters that the text never names.
    pub(super) fn template_faults(&self, task_file: &str, text: &str) -> Vec<Fault> {
        let (pieces, broken) = template::scan(text);
        let mut list = Vec::new();
        for bad in broken {
            let what = format!("{} is no placeholder", quoted(&bad.text));
            list.push(fault(
                task_file,
                self.place(task_file, text, bad.offset),
                &what,
                ESCAPE_HINT,
            ));
        }
        let mut used = BTreeSet::new();
        for piece in pieces {
            let Piece::Name { name, offset } = piece else { continue };
            let fresh = used.insert(name);
            if fresh && !self.params.iter().any(|param| param.name == name) {
                let names = self.params.iter().map(|param| param.name.as_str());
                let hint = match nearest(name, names) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => format!(
                        "declare it under params, or write {{{{{{{{ {name} }}}} for the literal text"
                    ),
                };
                let at = self.place(task_file, text, offset);
                list.push(fault(
                    task_file,
                    at,
                    &format!("the parameter \"{name}\" is not declared"),
                    &hint,
                ));
            }
        }
        for param in self.params.iter().filter(|param| !used.contains(param.name.as_str())) {
            let what = format!("the task never names the parameter \"{}\"", param.name);
            let hint = format!("write {{{{ {} }}}} where it belongs, or take it out", param.name);
            list.push(fault(&self.file, param.at, &what, &hint));
        }
        list
    }

    /// Where a byte of the task's text stands: in the spec for an inline task, else in its own file.
    fn place(&self, task_file: &str, text: &str, offset: usize) -> At {
        let (line, column) = template::position(text, offset);
        let Some(task) = &self.task else { return At { line, column } };
        match &task.value {
            TaskText::Inline { text: own, start } if own == text && task_file == self.file => {
                match start {
                    Some(start) => At {
                        line: start.line.saturating_add(line - 1),
                        column: start.column.saturating_add(column - 1),
                    },
                    None => task.at,
                }
            }
            _ => At { line, column },
        }
    }
}

impl Param {
    /// Whether a value fits, else why not in words that follow the name.
    pub fn check(&self, value: &str) -> Result<(), String> {
        if value.len() > MAX_PARAM_BYTES {
            return Err(format!(
                "has {} bytes; a parameter has {MAX_PARAM_BYTES} at most",
                value.len()
            ));
        }
        match &self.kind {
            ParamKind::String => no_nul(value),
            ParamKind::Number if is_number(value) => Ok(()),
            ParamKind::Number => Err(format!("must be a number, not {}", quoted(value))),
            ParamKind::Bool if value == "true" || value == "false" => Ok(()),
            ParamKind::Bool => Err(format!("must be true or false, not {}", quoted(value))),
            ParamKind::Choice(choices) if choices.iter().any(|choice| choice == value) => Ok(()),
            ParamKind::Choice(choices) => {
                Err(format!("must be one of {}, not {}", choices.join(", "), quoted(value)))
            }
            ParamKind::Path | ParamKind::File => check::inner_path(value),
        }
    }
}

fn no_nul(value: &str) -> Result<(), String> {
    if value.contains('\0') { Err("holds a NUL".into()) } else { Ok(()) }
}

/// A decimal number as people write it: digits, at most one point and one sign.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    all_digits(whole) && all_digits(fraction)
}

/// Fills the placeholders in; one pass, so a value is never looked at again.
fn fill(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut filled = String::with_capacity(text.len());
    for piece in template::scan(text).0 {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Name { name, .. } => {
                filled.push_str(values.get(name).map_or("", String::as_str));
                if filled.len() > MAX_TASK_BYTES {
                    return filled;
                }
            }
        }
    }
    filled
}

fn list_or_none<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn fault(file: &str, at: At, text: &str, hint: &str) -> Fault {
    Fault { file: file.to_owned(), at, text: text.to_owned(), hint: hint.to_owned() }
}
