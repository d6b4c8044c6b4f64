//! What a script expects of the world: matchers on tool results and messages.

use super::scene::Since;
use crate::model::error::clean;
use crate::protocol::{ResultKind, ToolResult};
use crate::spec::fault::{At, Faults};
use crate::spec::yaml::{Kind, Node, Table};
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

/// A compiled pattern with its source.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub source: String,
    pub regex: Regex,
}

/// Conditions on one tool result, and on messages.
#[derive(Debug, Clone, Default)]
pub(super) struct Expect {
    pub at: At,
    /// 1-based among the results since the last response; the last one where not given.
    call: Option<usize>,
    tool: Option<String>,
    result: Option<ResultKind>,
    exit_code: Option<i64>,
    text: TextIs,
    message: Option<TextIs>,
}

/// Conditions on a text.
#[derive(Debug, Clone, Default)]
struct TextIs {
    contains: Vec<String>,
    absent: Vec<String>,
    regex: Option<Pattern>,
}

const KINDS: [(&str, ResultKind); 9] = [
    ("ok", ResultKind::Ok),
    ("failed", ResultKind::Failed),
    ("unknown_tool", ResultKind::UnknownTool),
    ("bad_arguments", ResultKind::BadArguments),
    ("denied", ResultKind::Denied),
    ("timed_out", ResultKind::TimedOut),
    ("cancelled", ResultKind::Cancelled),
    ("aborted", ResultKind::Aborted),
    ("internal", ResultKind::Internal),
];

/// One mapping, or a list of them: the n-th of a list is about the n-th result.
pub(super) fn list(node: &Node, what: &str, faults: &mut Faults) -> Vec<Expect> {
    let Kind::Seq(nodes) = &node.kind else {
        return expect(node, what, faults).into_iter().collect();
    };
    let mut list = Vec::new();
    for (position, node) in nodes.iter().enumerate() {
        if node.is_null() {
            continue;
        }
        let Some(mut expect) = expect(node, what, faults) else { continue };
        expect.call = expect.call.or(Some(position + 1));
        list.push(expect);
    }
    list
}

fn expect(node: &Node, what: &str, faults: &mut Faults) -> Option<Expect> {
    let mut table = Table::new(node, what, faults)?;
    let call = table.get("call").and_then(|node| node.uint("call", 1, faults));
    let tool = table.get("tool").and_then(|node| node.string("tool", faults));
    let result = table.get("result").and_then(|node| node.choice("result", &KINDS, faults));
    let exit_code = table.get("exit_code").and_then(|node| match node.kind {
        Kind::Int(value) => Some(value),
        _ => node.wrong("exit_code", "a whole number", faults),
    });
    let text = text_is(&mut table, faults);
    let message = table.get("message").and_then(|node| {
        let mut inner = Table::new(node, "message", faults)?;
        let text = text_is(&mut inner, faults);
        inner.finish("message", faults);
        Some(text)
    });
    table.finish(what, faults);
    Some(Expect {
        at: node.at,
        call: call.and_then(|n| usize::try_from(n).ok()),
        tool,
        result,
        exit_code,
        text,
        message,
    })
}

fn text_is(table: &mut Table<'_>, faults: &mut Faults) -> TextIs {
    TextIs {
        contains: table
            .get("contains")
            .map(|node| texts(node, "contains", faults))
            .unwrap_or_default(),
        absent: table.get("absent").map(|node| texts(node, "absent", faults)).unwrap_or_default(),
        regex: table.get("regex").and_then(|node| pattern(node, faults)),
    }
}

fn texts(node: &Node, what: &str, faults: &mut Faults) -> Vec<String> {
    match node.kind {
        Kind::Seq(_) => node.strings(what, faults).unwrap_or_default(),
        _ => node.string(what, faults).into_iter().collect(),
    }
}

/// Compiles a pattern; its size is bounded, and it runs in linear time whatever it meets.
pub(super) fn pattern(node: &Node, faults: &mut Faults) -> Option<Pattern> {
    let source = node.string("regex", faults)?;
    let config = Regex::config().nfa_size_limit(Some(1 << 20)).utf8_empty(false);
    let syntax = syntax::Config::new().unicode(false).utf8(false).multi_line(true);
    match Regex::builder().configure(config).syntax(syntax).build(&source) {
        Ok(regex) => Some(Pattern { source, regex }),
        Err(error) => {
            let why = match error.syntax_error() {
                Some(error) => clean(&error.to_string(), 200),
                None => clean(&error.to_string(), 200),
            };
            faults.add(node.at, format!("not a regular expression: {why}"), "");
            None
        }
    }
}

/// The result that a matcher or a capture looks at.
pub(super) fn result_at<'a>(
    since: &Since<'a>,
    call: Option<usize>,
) -> Result<&'a ToolResult, String> {
    let found = match call {
        Some(n) => since.results.get(n.saturating_sub(1)),
        None => since.results.last(),
    };
    found.copied().ok_or_else(|| match (call, since.results.len()) {
        (_, 0) => "no tool result since the last response".into(),
        (Some(n), have) => format!("no result {n}, there are {have}"),
        (None, _) => "no result".into(),
    })
}

impl Expect {
    /// Nothing if all conditions hold; else what was wanted and what is there.
    pub fn check(&self, since: &Since<'_>) -> Result<(), String> {
        if let Some(message) = &self.message {
            let text = since.messages.join("\n");
            message.check(&text).map_err(|wanted| {
                format!("expects messages {wanted}; received {}", shown(&text))
            })?;
        }
        if !self.looks_at_result() {
            return Ok(());
        }
        let result = result_at(since, self.call)
            .map_err(|why| format!("expects {}; there is {why}", self.wanted()))?;
        let received = || {
            let code = result.exit_code.map(|code| format!(" with exit code {code}"));
            format!(
                "received {} from {}{}: {}",
                kind_name(result.result),
                result.name,
                code.unwrap_or_default(),
                shown(&result.output)
            )
        };
        self.check_result(result).map_err(|wanted| format!("expects {wanted}; {}", received()))
    }

    fn check_result(&self, result: &ToolResult) -> Result<(), String> {
        if let Some(tool) = self.tool.as_deref().filter(|tool| *tool != result.name) {
            return Err(format!("a result of {tool}"));
        }
        if let Some(kind) = self.result.filter(|kind| *kind != result.result) {
            return Err(format!("the result {:?}", kind_name(kind)));
        }
        if let Some(code) = self.exit_code
            && result.exit_code.map(i64::from) != Some(code)
        {
            return Err(format!("exit code {code}"));
        }
        self.text.check(&result.output).map_err(|wanted| format!("an output {wanted}"))
    }

    fn looks_at_result(&self) -> bool {
        self.tool.is_some()
            || self.result.is_some()
            || self.exit_code.is_some()
            || self.call.is_some()
            || !self.text.is_nothing()
    }

    fn wanted(&self) -> String {
        match (self.exit_code, &self.tool) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(tool)) => format!("a result of {tool}"),
            (None, None) => "a tool result".into(),
        }
    }
}

impl TextIs {
    fn is_nothing(&self) -> bool {
        self.contains.is_empty() && self.absent.is_empty() && self.regex.is_none()
    }

    fn check(&self, text: &str) -> Result<(), String> {
        if let Some(missing) = self.contains.iter().find(|part| !text.contains(part.as_str())) {
            return Err(format!("containing {}", shown(missing)));
        }
        if let Some(present) = self.absent.iter().find(|part| text.contains(part.as_str())) {
            return Err(format!("without {}", shown(present)));
        }
        match &self.regex {
            Some(pattern) if !pattern.regex.is_match(text) => {
                Err(format!("matching /{}/", clean(&pattern.source, 80)))
            }
            _ => Ok(()),
        }
    }
}

impl Pattern {
    /// The first group, or the whole match where the pattern has none.
    pub fn capture(&self, text: &str) -> Option<String> {
        let mut captures = self.regex.create_captures();
        self.regex.captures(text, &mut captures);
        let whole = captures.get_match()?.range();
        let range = captures.get_group(1).map_or(whole, |span| span.range());
        Some(String::from_utf8_lossy(text.as_bytes().get(range)?).into_owned())
    }
}

fn kind_name(kind: ResultKind) -> &'static str {
    KINDS.iter().find(|(_, known)| *known == kind).map_or("unknown", |(name, _)| name)
}

/// A text for a message.
fn shown(text: &str) -> String {
    format!("{:?}", clean(text, 160))
}
