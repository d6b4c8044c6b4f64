//! The script as a file: read whole, checked whole, every fault placed.

use super::matcher::{self, Expect, Pattern};
use crate::protocol::Usage;
use crate::spec::fault::{At, Fault, Faults, nearest};
use crate::spec::yaml::{self, Kind, Node, Table};
use serde_json::{Map, Value};
use std::time::Duration;

/// A checked script.
#[derive(Debug, Clone)]
pub struct Script {
    pub(super) file: String,
    pub(super) steps: Vec<Step>,
    /// Whether `{{name}}` means a captured value.
    pub(super) captures: bool,
}

/// One response.
#[derive(Debug, Clone, Default)]
pub(super) struct Step {
    pub at: At,
    pub name: Option<String>,
    pub expect: Vec<Expect>,
    pub capture: Vec<Capture>,
    pub reasoning: Option<String>,
    pub text: Option<String>,
    pub calls: Vec<Call>,
    pub usage: Usage,
    pub delay: Duration,
    pub fail: Option<Fail>,
    pub next: Vec<Branch>,
}

#[derive(Debug, Clone)]
pub(super) struct Capture {
    pub at: At,
    pub name: String,
    pub call: Option<usize>,
    pub pattern: Pattern,
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub tool: String,
    pub id: Option<String>,
    pub payload: Payload,
}

#[derive(Debug, Clone)]
pub(super) enum Payload {
    Args(Value),
    Input(String),
    Raw(String),
}

/// A failure of the provider, to be met `times` times.
#[derive(Debug, Clone)]
pub(super) struct Fail {
    pub kind: FailKind,
    /// None: always.
    pub times: Option<u32>,
}

#[derive(Debug, Clone)]
pub(super) enum FailKind {
    Status {
        status: u16,
        code: Option<String>,
        message: String,
        retry_after: Option<Duration>,
    },
    /// The connection breaks after the step's text.
    Drop,
    /// Nothing more comes after the step's text, until the idle limit.
    Stall,
    Incomplete(String),
    Refuse(String),
    /// A complete response with nothing in it.
    Empty,
    /// No connection at all.
    Connect,
}

#[derive(Debug, Clone)]
pub(super) struct Branch {
    pub when: Vec<Expect>,
    pub step: usize,
}

impl Script {
    /// Parses and checks. `file` is how messages name it.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<Fault>> {
        let root = yaml::parse(file, text)?;
        let mut faults = Faults::new(file);
        let mut script = Self { file: file.to_owned(), steps: Vec::new(), captures: false };
        if let Some(mut table) = Table::new(&root, "the script", &mut faults) {
            version(&mut table, &mut faults);
            match table.get("steps").and_then(|node| node.seq("steps", &mut faults)) {
                Some([]) => faults.add(table.at(), "the script has no steps", "write at least one"),
                Some(nodes) => script.steps = steps(nodes, &mut faults),
                None if faults.list.is_empty() => {
                    faults.add(table.at(), "the script has no \"steps\"", "write a list of steps");
                }
                None => {}
            }
            table.finish("the script", &mut faults);
        }
        script.captures = script.steps.iter().any(|step| !step.capture.is_empty());
        script.check_values(&mut faults);
        faults.finish(script)
    }

    /// Every `{{name}}` must be captured somewhere; a typo would reach the tools otherwise.
    fn check_values(&self, faults: &mut Faults) {
        if !self.captures {
            return;
        }
        let known: Vec<&str> = self
            .steps
            .iter()
            .flat_map(|step| step.capture.iter().map(|capture| capture.name.as_str()))
            .collect();
        for step in &self.steps {
            for name in step.values() {
                if !known.contains(&name.as_str()) {
                    let hint = match nearest(&name, known.iter().copied()) {
                        Some(near) => format!("did you mean {{{{{near}}}}}?"),
                        None => format!("captured values: {}", known.join(", ")),
                    };
                    faults.add(step.at, format!("{{{{{name}}}}} is captured by no step"), hint);
                }
            }
        }
    }
}

impl Step {
    /// The names of all values that the step's texts use.
    fn values(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut note = |text: &str| {
            let _ = substitute(text, &mut |name| {
                names.push(name.to_owned());
                Some(String::new())
            });
        };
        for text in [&self.text, &self.reasoning].into_iter().flatten() {
            note(text);
        }
        for call in &self.calls {
            match &call.payload {
                Payload::Args(value) => each_text(value, &mut note),
                Payload::Input(text) | Payload::Raw(text) => note(text),
            }
        }
        names
    }
}

fn each_text(value: &Value, note: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => note(text),
        Value::Array(list) => list.iter().for_each(|inner| each_text(inner, note)),
        Value::Object(map) => map.values().for_each(|inner| each_text(inner, note)),
        _ => {}
    }
}

/// Replaces each `{{name}}`; other double braces stay. Fails with the first name without a value.
pub(super) fn substitute(
    text: &str,
    value: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find("{{") {
        let (before, from) = rest.split_at(open);
        out.push_str(before);
        let inner = from.get(2..).unwrap_or_default();
        let end = inner.find("}}");
        let name = end.and_then(|end| inner.get(..end)).unwrap_or_default();
        if is_name(name) {
            out.push_str(&value(name).ok_or_else(|| name.to_owned())?);
            rest = inner.get(name.len() + 2..).unwrap_or_default();
        } else {
            out.push_str("{{");
            rest = inner;
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn version(table: &mut Table<'_>, faults: &mut Faults) {
    match table.get("version") {
        None => faults.add(table.at(), "\"version\" is missing", "write version: 1"),
        Some(node) if node.kind == Kind::Int(1) => {}
        Some(node) => {
            let text = format!("version {} is not known", node.raw);
            faults.add(node.at, text, "write version: 1");
        }
    }
}

fn steps(nodes: &[Node], faults: &mut Faults) -> Vec<Step> {
    let mut targets = Vec::new();
    let mut steps: Vec<Step> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut next = None;
        let step = step(node, &mut next, faults);
        if let Some(name) = &step.name
            && let Some(first) = steps.iter().find(|other| other.name.as_ref() == Some(name))
        {
            let hint = format!("the step in line {} has it already", first.at.line);
            faults.add(step.at, format!("two steps are named {name:?}"), hint);
        }
        steps.push(step);
        targets.push(next);
    }
    let names: Vec<Option<String>> = steps.iter().map(|step| step.name.clone()).collect();
    for (step, target) in steps.iter_mut().zip(targets) {
        if let Some(node) = target {
            step.next = branches(node, &names, faults);
        }
    }
    steps
}

fn step<'a>(node: &'a Node, next: &mut Option<&'a Node>, faults: &mut Faults) -> Step {
    let mut step = Step { at: node.at, ..Step::default() };
    let Some(mut table) = Table::new(node, "a step", faults) else { return step };
    step.name = table.get("name").and_then(|node| node.string("name", faults));
    if let Some(node) = table.get("expect") {
        step.expect = matcher::list(node, "expect", faults);
    }
    if let Some(node) = table.get("capture") {
        step.capture = captures(node, faults);
    }
    step.reasoning = table.get("reasoning").and_then(|node| node.string("reasoning", faults));
    step.text = table.get("text").and_then(|node| node.string("text", faults));
    if let Some(nodes) = table.get("calls").and_then(|node| node.seq("calls", faults)) {
        step.calls = nodes.iter().filter_map(|node| call(node, faults)).collect();
    }
    if let Some(node) = table.get("usage") {
        step.usage = usage(node, faults);
    }
    if let Some(node) = table.get("delay") {
        step.delay = node.duration("delay", faults).unwrap_or_default();
    }
    step.fail = table.get("fail").and_then(|node| fail(node, faults));
    *next = table.get("next");
    let says_nothing = step.text.is_none() && step.calls.is_empty() && step.fail.is_none();
    if says_nothing && faults.list.is_empty() {
        faults.add(node.at, "the step says nothing", "write text:, calls: or fail:");
    }
    table.finish("a step", faults);
    step
}

fn captures(node: &Node, faults: &mut Faults) -> Vec<Capture> {
    let Some(table) = Table::new(node, "capture", faults) else { return Vec::new() };
    let mut list = Vec::new();
    for (key, node) in table.all() {
        if !is_name(&key.name) {
            faults.add(key.at, format!("{:?} is no name", key.name), "use letters, digits and _");
            continue;
        }
        let Some(mut inner) = Table::new(node, "capture", faults) else { continue };
        let call = inner.get("call").and_then(|node| node.uint("call", 1, faults));
        let pattern = match inner.get("regex") {
            Some(node) => matcher::pattern(node, faults),
            None => {
                faults.add(node.at, "a captured value needs \"regex\"", "");
                None
            }
        };
        inner.finish("capture", faults);
        if let Some(pattern) = pattern {
            let call = call.and_then(|n| usize::try_from(n).ok());
            list.push(Capture { at: key.at, name: key.name.clone(), call, pattern });
        }
    }
    list
}

fn call(node: &Node, faults: &mut Faults) -> Option<Call> {
    let mut table = Table::new(node, "a call", faults)?;
    let tool = match table.get("tool") {
        Some(node) => node.string("tool", faults),
        None => {
            faults.add(node.at, "the call names no \"tool\"", "");
            None
        }
    };
    let id = table.get("id").and_then(|node| node.string("id", faults));
    let args = table.get("args").map(to_json).map(Payload::Args);
    let input =
        table.get("input").and_then(|node| node.string("input", faults)).map(Payload::Input);
    let raw = table.get("raw").and_then(|node| node.string("raw", faults)).map(Payload::Raw);
    table.finish("a call", faults);
    let mut given = [args, input, raw].into_iter().flatten();
    let payload = given.next().unwrap_or_else(|| Payload::Args(Value::Object(Map::new())));
    if given.next().is_some() {
        faults.add(node.at, "a call has one of args, input and raw", "keep one of them");
    }
    Some(Call { tool: tool?, id, payload })
}

/// A YAML value as JSON; keys keep their order.
fn to_json(node: &Node) -> Value {
    match &node.kind {
        Kind::Null => Value::Null,
        Kind::Bool(value) => Value::Bool(*value),
        Kind::Int(value) => Value::from(*value),
        Kind::Float(value) => Value::from(*value),
        Kind::Str(value) => Value::String(value.clone()),
        Kind::Seq(items) => Value::Array(items.iter().map(to_json).collect()),
        Kind::Map(entries) => Value::Object(
            entries.iter().map(|(key, value)| (key.name.clone(), to_json(value))).collect(),
        ),
    }
}

fn usage(node: &Node, faults: &mut Faults) -> Usage {
    let Some(mut table) = Table::new(node, "usage", faults) else { return Usage::default() };
    let mut count = |key: &'static str, faults: &mut Faults| {
        table.get(key).and_then(|node| node.uint(key, 0, faults)).unwrap_or_default()
    };
    let usage = Usage {
        input: count("input", faults),
        cached: count("cached", faults),
        output: count("output", faults),
        reasoning: count("reasoning", faults),
    };
    table.finish("usage", faults);
    usage
}

fn fail(node: &Node, faults: &mut Faults) -> Option<Fail> {
    let mut table = Table::new(node, "fail", faults)?;
    let times = match table.get("times") {
        None => Some(1),
        Some(node) if node.kind == Kind::Str("always".into()) => None,
        Some(node) => node.uint("times", 1, faults).map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
    };
    let text = |table: &mut Table<'_>, key: &'static str, faults: &mut Faults| {
        table.get(key).and_then(|node| node.string(key, faults))
    };
    let flag = |table: &mut Table<'_>, key: &'static str, kind: FailKind, faults: &mut Faults| {
        let node = table.get(key)?;
        node.bool(key, faults).filter(|set| *set).map(|_| kind)
    };
    let status = table.get("status").and_then(|node| status(node, faults));
    let code = text(&mut table, "code", faults);
    let message = text(&mut table, "message", faults).unwrap_or_default();
    let retry_after =
        table.get("retry_after").and_then(|node| node.duration("retry_after", faults));
    let kinds = [
        status.map(|status| FailKind::Status { status, code, message, retry_after }),
        flag(&mut table, "drop", FailKind::Drop, faults),
        flag(&mut table, "stall", FailKind::Stall, faults),
        flag(&mut table, "empty", FailKind::Empty, faults),
        flag(&mut table, "connect", FailKind::Connect, faults),
        text(&mut table, "incomplete", faults).map(FailKind::Incomplete),
        text(&mut table, "refuse", faults).map(FailKind::Refuse),
    ];
    table.finish("fail", faults);
    let mut kinds = kinds.into_iter().flatten();
    let kind = kinds.next();
    if kind.is_none() || kinds.next().is_some() {
        faults.add(
            node.at,
            "\"fail\" needs one kind of failure",
            "write one of status, drop, stall, empty, connect, incomplete, refuse",
        );
    }
    Some(Fail { kind: kind?, times })
}

fn status(node: &Node, faults: &mut Faults) -> Option<u16> {
    let number = node.uint("status", 300, faults)?;
    match u16::try_from(number) {
        Ok(status) if status < 600 => Some(status),
        _ => node.wrong("status", "an HTTP status from 300 to 599", faults),
    }
}

fn branches(node: &Node, names: &[Option<String>], faults: &mut Faults) -> Vec<Branch> {
    if let Kind::Seq(nodes) = &node.kind {
        return nodes.iter().filter_map(|node| branch(node, names, faults)).collect();
    }
    let target = target(node, names, faults);
    target.map(|step| Branch { when: Vec::new(), step }).into_iter().collect()
}

fn branch(node: &Node, names: &[Option<String>], faults: &mut Faults) -> Option<Branch> {
    let mut table = Table::new(node, "next", faults)?;
    let when =
        table.get("when").map(|node| matcher::list(node, "when", faults)).unwrap_or_default();
    let step = match table.get("step") {
        Some(node) => target(node, names, faults),
        None => {
            faults.add(node.at, "an entry of \"next\" needs \"step\"", "");
            None
        }
    };
    table.finish("next", faults);
    Some(Branch { when, step: step? })
}

fn target(node: &Node, names: &[Option<String>], faults: &mut Faults) -> Option<usize> {
    let name = node.string("step", faults)?;
    let found = names.iter().position(|known| known.as_ref() == Some(&name));
    if found.is_none() {
        let known: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        let hint = match nearest(&name, known.iter().copied()) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("named steps: {}", known.join(", ")),
        };
        faults.add(node.at, format!("there is no step {name:?}"), hint);
    }
    found
}
