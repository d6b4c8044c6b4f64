//! From the file's tree to a `Spec`: one function per key or group, every fault collected.

use super::check;
use super::fault::{At, Fault, Faults};
use super::keys::{self, Field, Fields, not_supported};
use super::parse_model;
use super::types::*;
use super::yaml::{self, Kind, Node, quoted};
use std::path::Path;

/// The most entries of a list or mapping that a spec may have anywhere.
const MAX_ENTRIES: usize = 1000;

/// Reads a whole spec. `file` is how messages name it and what its relative paths start from.
pub fn parse(file: &str, source: &str) -> Result<Spec, Vec<Fault>> {
    let root = yaml::parse(file, source)?;
    let mut faults = Faults::new(file);
    if root.is_null() {
        faults.add(At::default(), "the spec is empty", "begin with: version: 1");
        return Err(faults.list);
    }
    let mut spec = Spec {
        file: file.to_owned(),
        dir: Path::new(file).parent().unwrap_or(Path::new("")).to_path_buf(),
        ..Spec::default()
    };
    if let Some(fields) = Fields::open(&root, "", keys::ROOT, &mut faults) {
        read_root(fields, &mut spec, &mut faults);
    }
    cross_check(&spec, &mut faults);
    faults.finish(spec)
}

fn read_root(mut fields: Fields<'_>, spec: &mut Spec, faults: &mut Faults) {
    read_version(&mut fields, faults);
    spec.name = checked(fields.take("name"), faults, check::job_name);
    spec.task = read_task(&mut fields, faults);
    if let Some(field) = fields.take("params") {
        spec.params = read_params(&field, faults);
    }
    if let Some(field) = fields.take("inputs") {
        spec.inputs = read_inputs(&field, faults);
    }
    spec.instructions = checked_list(fields.take("instructions"), faults, check::path);
    spec.workspace = checked(fields.take("workspace"), faults, check::path);
    spec.isolate = choice(fields.take("isolate"), Isolate::CHOICES, faults);
    if let Some(field) = fields.take("model") {
        spec.model = parse_model::read_model(&field, faults);
    }
    spec.policy = checked(fields.take("policy"), faults, check::path);
    if let Some(field) = fields.take("limits") {
        spec.limits = read_limits(&field, faults);
    }
    spec.expect = choice(fields.take("expect"), Expect::CHOICES, faults);
    spec.require_files = checked_list(fields.take("require_files"), faults, check::required_file);
    spec.keep = checked_list(fields.take("keep"), faults, check::glob);
    spec.max_changed_files = uint(fields.take("max_changed_files"), 0, faults);
    spec.max_changed_lines = uint(fields.take("max_changed_lines"), 0, faults);
    if let Some(field) = fields.take("verify") {
        spec.verify = read_verify(&field, faults);
    }
    if let Some(field) = fields.take("agents") {
        read_agents(&field, faults);
    }
    read_environment(&mut fields, faults);
    spec.artifacts = checked(fields.take("artifacts"), faults, check::path);
    fields.finish(faults);
}

fn read_version(fields: &mut Fields<'_>, faults: &mut Faults) {
    let Some(field) = fields.take("version") else {
        let at = fields.at();
        return faults.add(at, "\"version\" is missing", "begin the file with: version: 1");
    };
    if field.node.kind != Kind::Int(1) {
        let what = format!("\"version\" must be 1, not {}", field.node.describe());
        faults.add(field.node.at, what, "this program reads version 1 of the format");
    }
}

fn read_task(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Placed<TaskText>> {
    let inline = fields.take("task");
    let file = fields.take("task_file");
    if let (Some(_), Some(file)) = (&inline, &file) {
        let what = "\"task\" and \"task_file\" stand side by side";
        faults.add(file.key_at, what, "keep one of them");
    }
    let inline = inline.and_then(|field| read_inline_task(&field, faults));
    let file = checked(file, faults, check::path);
    inline.or(file.map(|path| Placed::new(TaskText::File(path.value), path.at)))
}

fn read_inline_task(field: &Field<'_>, faults: &mut Faults) -> Option<Placed<TaskText>> {
    let text = match &field.node.kind {
        Kind::Str(text) => text.clone(),
        _ => return field.node.wrong(&field.path, "a text", faults),
    };
    if text.trim().is_empty() {
        faults.add(field.node.at, "\"task\" is empty", "say what is to be done");
        return None;
    }
    let start = text_start(field.node, &text);
    Some(Placed::new(TaskText::Inline { text, start }, field.node.at))
}

/// The place of the text's first character, where its lines stand in the file as they are. A block
/// scalar's place is its first line with content; empty lines before it belong to the text too.
fn text_start(node: &Node, text: &str) -> Option<At> {
    let lead = text.bytes().take_while(|byte| *byte == b'\n').count();
    let written = node.raw.lines().map(str::trim);
    let meant = text.get(lead..)?.trim_end().lines().map(str::trim);
    if !written.eq(meant) {
        return None;
    }
    let line = node.at.line.checked_sub(u32::try_from(lead).ok()?)?;
    Some(At { line, column: node.at.column })
}

fn read_params(field: &Field<'_>, faults: &mut Faults) -> Vec<Param> {
    let mut params = Vec::new();
    for (key, node) in named_entries(field, faults) {
        if !check::is_identifier(&key.name) {
            let what = format!("{} is no name for a parameter", quoted(&key.name));
            faults.add(key.at, what, "use letters, digits and \"_\", the first no digit");
            continue;
        }
        let path = format!("{}.{}", field.path, key.name);
        let param = read_param(&key.name, key.at, &path, node, faults);
        // A faulty one is declared all the same: the task that names it is not at fault.
        params.push(param.unwrap_or_else(|| Param {
            name: key.name.clone(),
            at: key.at,
            kind: ParamKind::String,
            default: None,
            about: None,
        }));
    }
    params
}

fn read_param(name: &str, at: At, path: &str, node: &Node, faults: &mut Faults) -> Option<Param> {
    let mut fields = Fields::open(node, path, keys::PARAM, faults)?;
    let word = match fields.take("type") {
        Some(field) => choice_word(&field, keys::PARAM_TYPES, faults),
        None => {
            let what = format!("\"{path}.type\" is missing");
            faults.add(at, what, format!("one of {}", keys::PARAM_TYPES.join(", ")));
            None
        }
    };
    let required = fields.take("required");
    let must = required.as_ref().and_then(|field| field.node.bool(&field.path, faults));
    let choices = fields.take("choices");
    let values = choices.as_ref().and_then(|field| field.node.strings(&field.path, faults));
    let default = fields.take("default");
    let default_text = default.as_ref().and_then(|field| field.node.string(&field.path, faults));
    let about = fields.take("about").and_then(|field| field.node.string(&field.path, faults));
    fields.finish(faults);
    match (must, &default) {
        (Some(true), Some(field)) => {
            let what = format!("\"{path}\" is required and has a default");
            faults.add(field.key_at, what, "keep one of them");
        }
        (Some(false), None) => {
            let what = format!("\"{path}\" is not required and has no default");
            faults.add(at, what, "give it a default, an empty text for instance");
        }
        _ => {}
    }
    let kind = match word? {
        "string" => ParamKind::String,
        "number" => ParamKind::Number,
        "bool" => ParamKind::Bool,
        "path" => ParamKind::Path,
        "file" => ParamKind::File,
        _ => match values {
            Some(values) if !values.is_empty() => ParamKind::Choice(values),
            _ => {
                let what = format!("\"{path}\" is a choice without choices");
                faults.add(at, what, "write choices: [one, another]");
                return None;
            }
        },
    };
    if let (Some(field), false) = (&choices, matches!(kind, ParamKind::Choice(_))) {
        let what = format!("\"{}\" belongs to the type choice alone", field.path);
        faults.add(field.key_at, what, "write type: choice, or take the choices out");
    }
    let param = Param { name: name.to_owned(), at, kind, default: default_text, about };
    if let (Some(field), Some(text)) = (&default, &param.default)
        && let Err(why) = param.check(text)
    {
        faults.add(field.node.at, format!("\"{}\" {why}", field.path), "");
    }
    Some(param)
}

fn read_inputs(field: &Field<'_>, faults: &mut Faults) -> Vec<Placed<Input>> {
    let mut inputs = Vec::new();
    for (key, node) in named_entries(field, faults) {
        let path = format!("{}.{}", field.path, key.name);
        if !check::is_identifier(&key.name) {
            let what = format!("{} is no name for an input", quoted(&key.name));
            faults.add(key.at, what, "use letters, digits and \"_\", the first no digit");
        }
        let Some(mut fields) = Fields::open(node, &path, keys::INPUT, faults) else { continue };
        let env = fields.take("env").and_then(|field| read_variable(&field, faults));
        let file = checked(fields.take("file"), faults, check::path);
        let text = fields.take("text").and_then(|field| field.node.string(&field.path, faults));
        fields.finish(faults);
        let sources = [
            env.map(InputFrom::Env),
            file.map(|path| InputFrom::File(path.value.into())),
            text.map(InputFrom::Text),
        ];
        if let Some(from) = exactly_one(&path, key.at, node, keys::INPUT, sources, faults) {
            inputs.push(Placed::new(Input { name: key.name.clone(), from }, key.at));
        }
    }
    inputs
}

/// The one of `env`, `file`, … that is there; more or fewer are a fault, unless the mapping was
/// faulty before: then that is all a person needs to hear.
pub(super) fn exactly_one<T, const N: usize>(
    path: &str,
    at: At,
    node: &Node,
    keys: &[keys::Key],
    sources: [Option<T>; N],
    faults: &mut Faults,
) -> Option<T> {
    let written = match &node.kind {
        Kind::Map(entries) => entries.iter().filter(|(_, value)| !value.is_null()).count(),
        _ => 0,
    };
    let mut found: Vec<T> = sources.into_iter().flatten().collect();
    if found.len() == 1 && written == 1 {
        return found.pop();
    }
    if found.len() == written {
        faults.add(
            at,
            format!("\"{path}\" must name exactly one source, not {}", found.len()),
            format!("write one of {}", keys::names_of(keys)),
        );
    }
    None
}

fn read_limits(field: &Field<'_>, faults: &mut Faults) -> LimitsSpec {
    let Some(mut fields) = Fields::open(field.node, &field.path, keys::LIMITS, faults) else {
        return LimitsSpec::default();
    };
    let limits = LimitsSpec {
        steps: uint(fields.take("steps"), 1, faults),
        tool_calls: uint(fields.take("tool_calls"), 1, faults),
        tokens: uint(fields.take("tokens"), 1, faults),
        cost: read_cost(fields.take("cost"), faults),
        time: duration(fields.take("time"), faults),
    };
    fields.finish(faults);
    limits
}

fn read_cost(field: Option<Field<'_>>, faults: &mut Faults) -> Option<Placed<f64>> {
    let cost = number(field, faults)?;
    if cost.value > 0.0 {
        return Some(cost);
    }
    faults.add(cost.at, "\"limits.cost\" must be more than 0", "take it out for no cost limit");
    None
}

fn read_verify(field: &Field<'_>, faults: &mut Faults) -> VerifySpec {
    let Some(mut fields) = Fields::open(field.node, &field.path, keys::VERIFY, faults) else {
        return VerifySpec::default();
    };
    let attempts = uint(fields.take("attempts"), 0, faults);
    off(fields.take("baseline"), faults);
    off(fields.take("clean_checkout"), faults);
    let checks = fields.take("checks").and_then(|field| read_checks(&field, faults));
    fields.finish(faults);
    VerifySpec { attempts, checks }
}

fn read_checks(field: &Field<'_>, faults: &mut Faults) -> Option<Placed<Vec<CheckSpec>>> {
    let items = bounded_seq(field, faults)?;
    let mut checks: Vec<CheckSpec> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(check) = read_check(&format!("{}[{index}]", field.path), item, faults) else {
            continue;
        };
        if let Some(first) = checks.iter().find(|other| other.name == check.name) {
            let what = format!("two checks are called {}", quoted(&check.name));
            faults.add(check.at, what, format!("the first stands in line {}", first.at.line));
        }
        checks.push(check);
    }
    Some(Placed::new(checks, field.node.at))
}

fn read_check(path: &str, node: &Node, faults: &mut Faults) -> Option<CheckSpec> {
    if let Kind::Map(_) = node.kind {
        let mut fields = Fields::open(node, path, keys::CHECK, faults)?;
        let name = fields.take("name").and_then(|field| field.node.string(&field.path, faults));
        let run = fields.take("run");
        let timeout = duration(fields.take("timeout"), faults).map(|timeout| timeout.value);
        fields.finish(faults);
        let Some(run) = run else {
            faults.add(
                node.at,
                format!("\"{path}.run\" is missing"),
                "name the command of this check",
            );
            return None;
        };
        let run = checked(Some(run), faults, check::command)?.value;
        return Some(CheckSpec {
            name: name.unwrap_or_else(|| run.clone()),
            run,
            timeout,
            at: node.at,
        });
    }
    let field = Field { path: path.to_owned(), key_at: node.at, node };
    let run = checked(Some(field), faults, check::command)?.value;
    Some(CheckSpec { name: run.clone(), run, timeout: None, at: node.at })
}

fn read_agents(field: &Field<'_>, faults: &mut Faults) {
    if let Some(mut fields) = Fields::open(field.node, &field.path, keys::AGENTS, faults) {
        off(fields.take("enabled"), faults);
        fields.finish(faults);
    }
}

fn read_environment(fields: &mut Fields<'_>, faults: &mut Faults) {
    let Some(field) = fields.take("environment") else { return };
    let container = match &field.node.kind {
        Kind::Map(entries) => entries.iter().any(|(key, _)| key.name == "container"),
        Kind::Str(word) => word == "container",
        _ => false,
    };
    if container {
        return not_supported(field.node.at, "environment.container", faults);
    }
    choice_word(&field, keys::ENVIRONMENT, faults);
}

/// Faults that need more than one key.
fn cross_check(spec: &Spec, faults: &mut Faults) {
    if let Some(Placed { value: TaskText::Inline { text, .. }, .. }) = &spec.task {
        faults.list.extend(spec.template_faults(&spec.file, text));
    }
    if let (Some(expect), Some(files)) = (&spec.expect, &spec.max_changed_files)
        && expect.value == Expect::Changes
        && files.value == 0
    {
        let what = "\"expect: changes\" and \"max_changed_files: 0\" exclude each other";
        faults.add(files.at, what, "no run could pass; change one of them");
    }
    for check in spec.verify.checks.iter().flat_map(|checks| &checks.value) {
        let named = super::template::scan(&check.run).0.into_iter().find_map(|piece| match piece {
            super::template::Piece::Name { name, .. } => {
                spec.params.iter().any(|param| param.name == name).then_some(name)
            }
            super::template::Piece::Text(_) => None,
        });
        if let Some(name) = named {
            let what =
                format!("{{{{ {name} }}}} stands in a check, where parameters are not filled in");
            faults.add(check.at, what, "only the task is a template; write the value out");
        }
    }
}

// Readers of one value each.

/// The name of a variable. What stands in its place is never repeated: people paste keys there.
pub(super) fn read_variable(field: &Field<'_>, faults: &mut Faults) -> Option<String> {
    match &field.node.kind {
        Kind::Str(name) if check::is_identifier(name) => Some(name.clone()),
        _ => {
            let what = format!("\"{}\" must be the name of an environment variable", field.path);
            faults.add(
                field.node.at,
                what,
                "letters, digits and \"_\": the name of the variable, not its value",
            );
            None
        }
    }
}

pub(super) fn checked(
    field: Option<Field<'_>>,
    faults: &mut Faults,
    check: fn(&str) -> Result<(), String>,
) -> Option<Placed<String>> {
    let field = field?;
    let text = field.node.string(&field.path, faults)?;
    match check(&text) {
        Ok(()) => Some(Placed::new(text, field.node.at)),
        Err(why) => {
            faults.add(field.node.at, format!("\"{}\" {why}", field.path), "");
            None
        }
    }
}

fn checked_list(
    field: Option<Field<'_>>,
    faults: &mut Faults,
    check: fn(&str) -> Result<(), String>,
) -> Option<Placed<Vec<String>>> {
    let field = field?;
    let mut texts = Vec::new();
    for (index, node) in bounded_seq(&field, faults)?.iter().enumerate() {
        let item = Field { path: format!("{}[{index}]", field.path), key_at: node.at, node };
        texts.extend(checked(Some(item), faults, check).map(|text| text.value));
    }
    Some(Placed::new(texts, field.node.at))
}

fn bounded_seq<'a>(field: &Field<'a>, faults: &mut Faults) -> Option<&'a [Node]> {
    let node: &'a Node = field.node;
    let items = node.seq(&field.path, faults)?;
    if items.len() > MAX_ENTRIES {
        let what = format!(
            "\"{}\" has {} entries; {MAX_ENTRIES} are read at most",
            field.path,
            items.len()
        );
        faults.add(node.at, what, "");
        return None;
    }
    Some(items)
}

fn named_entries<'a>(field: &Field<'a>, faults: &mut Faults) -> &'a [(yaml::Key, Node)] {
    let node: &'a Node = field.node;
    let Kind::Map(entries) = &node.kind else {
        node.wrong::<()>(&field.path, "a mapping from names", faults);
        return &[];
    };
    if entries.len() > MAX_ENTRIES {
        let what = format!(
            "\"{}\" has {} entries; {MAX_ENTRIES} are read at most",
            field.path,
            entries.len()
        );
        faults.add(node.at, what, "");
        return &[];
    }
    entries
}

fn choice<T: Copy>(
    field: Option<Field<'_>>,
    choices: &[(&str, T)],
    faults: &mut Faults,
) -> Option<Placed<T>> {
    let field = field?;
    let value = field.node.choice(&field.path, choices, faults)?;
    Some(Placed::new(value, field.node.at))
}

fn choice_word(
    field: &Field<'_>,
    words: &'static [&'static str],
    faults: &mut Faults,
) -> Option<&'static str> {
    let choices: Vec<(&str, &'static str)> = words.iter().map(|word| (*word, *word)).collect();
    field.node.choice(&field.path, &choices, faults)
}

pub(super) fn uint(field: Option<Field<'_>>, min: u64, faults: &mut Faults) -> Option<Placed<u64>> {
    let field = field?;
    let value = field.node.uint(&field.path, min, faults)?;
    Some(Placed::new(value, field.node.at))
}

pub(super) fn number(field: Option<Field<'_>>, faults: &mut Faults) -> Option<Placed<f64>> {
    let field = field?;
    let value = field.node.number(&field.path, faults)?;
    Some(Placed::new(value, field.node.at))
}

pub(super) fn duration(
    field: Option<Field<'_>>,
    faults: &mut Faults,
) -> Option<Placed<std::time::Duration>> {
    let field = field?;
    let value = field.node.duration(&field.path, faults)?;
    Some(Placed::new(value, field.node.at))
}

/// A switch of a later version: `false` is accepted, `true` is refused.
pub(super) fn off(field: Option<Field<'_>>, faults: &mut Faults) {
    let Some(field) = field else { return };
    if field.node.bool(&field.path, faults) == Some(true) {
        not_supported(field.node.at, &format!("{}: true", field.path), faults);
    }
}
