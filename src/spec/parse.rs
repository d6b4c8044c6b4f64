//! From the file's tree to a `Spec`: one function per key or group, every fault collected.

use super::check;
use super::fault::{At, Fault, Faults};
use super::keys::{self, Field, Fields};
use super::parse_hooks::read_hooks;
use super::parse_model;
use super::parse_params::{read_inputs, read_params};
use super::read::{
    bounded_seq, checked, checked_list, choice, choice_word, duration, number, off, uint,
};
use super::template::{self, Piece};
use super::types::*;
use super::yaml::{self, Kind, Node, quoted};
use std::path::Path;

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
    spec.hooks = fields.take("hooks").and_then(|field| read_hooks(&field, faults));
    if let Some(field) = fields.take("agents") {
        read_agents(&field, faults);
    }
    spec.environment = read_environment(&mut fields, faults);
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

fn read_environment(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Placed<Environment>> {
    let field = fields.take("environment")?;
    let at = field.node.at;
    match &field.node.kind {
        Kind::Map(_) => {
            let mut inner = Fields::open(field.node, &field.path, keys::ENVIRONMENT_TABLE, faults)?;
            let container = inner.take("container");
            inner.finish(faults);
            let Some(container) = container else {
                faults.add(at, "\"environment\" is empty", CONTAINER_FORM);
                return None;
            };
            let container = read_container(&container, faults)?;
            Some(Placed::new(Environment::Container(container), at))
        }
        Kind::Str(word) if word == "container" => {
            faults.add(at, "\"environment: container\" names no image", CONTAINER_FORM);
            None
        }
        _ => {
            choice_word(&field, keys::ENVIRONMENT, faults);
            Some(Placed::new(Environment::Local, at))
        }
    }
}

const CONTAINER_FORM: &str = "write: environment: { container: { image: NAME } }";

fn read_container(field: &Field<'_>, faults: &mut Faults) -> Option<Container> {
    let mut fields = Fields::open(field.node, &field.path, keys::CONTAINER, faults)?;
    let image = checked(fields.take("image"), faults, check::container_reference);
    let name = checked(fields.take("name"), faults, check::container_reference);
    let runtime = choice(fields.take("runtime"), ContainerRuntime::CHOICES, faults);
    fields.finish(faults);
    let from = match (image, name) {
        (Some(image), None) => ContainerFrom::Image(image.value),
        (None, Some(name)) => ContainerFrom::Name(name.value),
        (None, None) if !faults.list.is_empty() => return None,
        _ => {
            let what = format!("\"{}\" needs one of \"image\" and \"name\"", field.path);
            faults.add(field.node.at, what, CONTAINER_FORM);
            return None;
        }
    };
    let runtime = runtime.map(|runtime| runtime.value).unwrap_or_default();
    Some(Container { from, runtime })
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
    let checks = spec.verify.checks.iter().flat_map(|checks| &checks.value);
    let checks = checks.map(|check| ("check", &check.run, check.at));
    let hooks = spec.hooks.iter().flat_map(|hooks| &hooks.value);
    let hooks = hooks.map(|hook| ("hook", &hook.run, hook.at));
    for (kind, run, at) in checks.chain(hooks) {
        let named = template::scan(run).0.into_iter().find_map(|piece| match piece {
            Piece::Name { name, .. } => {
                spec.params.iter().any(|param| param.name == name).then_some(name)
            }
            Piece::Text(_) => None,
        });
        if let Some(name) = named {
            let what =
                format!("{{{{ {name} }}}} stands in a {kind}, where parameters are not filled in");
            faults.add(at, what, "only the task is a template; write the value out");
        }
    }
}
