//! Reads the rules of `exec`: a text, or a mapping with `cmd` and what the rule grants.

use super::super::model::Rule;
use super::super::pattern::{Pattern, WordPattern};
use super::parts;
use crate::protocol::{Decision, RuleRef};
use crate::spec::fault::{At, Faults};
use crate::spec::yaml::{Kind, Node, Table, quoted};

/// A rule's place in the file being read.
pub fn rule_ref(faults: &Faults, at: At, text: impl Into<String>) -> RuleRef {
    RuleRef { file: faults.file.clone(), line: at.line, column: at.column, text: text.into() }
}

pub fn read_rules(node: &Node, key: &str, decision: Decision, faults: &mut Faults) -> Vec<Rule> {
    let what = format!("exec.{key}");
    let items = node.seq(&what, faults).unwrap_or_default();
    items.iter().filter_map(|item| read_rule(item, &what, decision, faults)).collect()
}

fn read_rule(node: &Node, what: &str, decision: Decision, faults: &mut Faults) -> Option<Rule> {
    match &node.kind {
        Kind::Map(_) => read_object(node, decision, faults),
        Kind::Seq(_) | Kind::Null => {
            node.wrong(what, "a command as a text, or a mapping with `cmd`", faults)
        }
        _ => {
            let text = node.string(what, faults)?;
            plain(&text, node.at, decision, faults)
        }
    }
}

/// A rule with nothing but its pattern.
fn plain(text: &str, at: At, decision: Decision, faults: &mut Faults) -> Option<Rule> {
    let pattern = match Pattern::parse(text) {
        Ok(pattern) => pattern,
        Err(why) => {
            faults.add(at, why.text, why.hint);
            return None;
        }
    };
    if let Some((why, hint)) = impossible(&pattern) {
        faults.add(at, format!("{} can never match: {why}", quoted(text)), hint);
        return None;
    }
    Some(Rule {
        cmd: pattern.text.clone(),
        source: rule_ref(faults, at, pattern.text.clone()),
        pattern,
        decision,
        without: Vec::new(),
        only: None,
        network: None,
        when_unchanged: Vec::new(),
        timeout: None,
        env: Vec::new(),
        cwd: None,
        reason: None,
        max_calls: None,
        even_if_untrusted: false,
    })
}

/// Words that bash reads as grammar, so that no command ever bears them.
const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "in", "function", "select", "coproc", "{", "}", "!", "[[", "]]",
];

fn impossible(pattern: &Pattern) -> Option<(String, &'static str)> {
    let WordPattern::Literal(first) = pattern.words.first()? else { return None };
    if KEYWORDS.contains(&first.as_str()) {
        return Some((
            format!("`{first}` is shell grammar, not a command"),
            "the commands inside are judged one by one; write a rule for each",
        ));
    }
    if let Some((name, _)) = first.split_once('=')
        && parts::is_variable_name(name)
    {
        return Some((
            format!("`{first}` is an assignment, not a command"),
            "start with the program; variables are set under `env`",
        ));
    }
    if first.is_empty() {
        return Some(("no program has an empty name".into(), "name the program"));
    }
    None
}

fn read_object(node: &Node, decision: Decision, faults: &mut Faults) -> Option<Rule> {
    let mut table = Table::new(node, "rule", faults)?;
    let rule = match table.get("cmd") {
        None => {
            faults.add(node.at, "the rule has no \"cmd\"", "write `cmd: cargo test ...`");
            None
        }
        Some(cmd) => {
            let text = cmd.string("cmd", faults);
            text.and_then(|text| plain(&text, cmd.at, decision, faults))
        }
    };
    // The other keys are read even when the command is at fault, so that all faults come at once.
    let mut rule = rule.unwrap_or_else(|| placeholder(decision));
    options(&mut table, &mut rule, faults);
    grants(&mut table, &mut rule, faults);
    if let Some(node) = table.get("reason") {
        rule.reason = node.string("reason", faults);
    }
    table.finish("a rule", faults);
    (!rule.cmd.is_empty()).then_some(rule)
}

fn placeholder(decision: Decision) -> Rule {
    Rule {
        pattern: Pattern { text: String::new(), words: Vec::new() },
        cmd: String::new(),
        decision,
        source: RuleRef::built_in(""),
        without: Vec::new(),
        only: None,
        network: None,
        when_unchanged: Vec::new(),
        timeout: None,
        env: Vec::new(),
        cwd: None,
        reason: None,
        max_calls: None,
        even_if_untrusted: false,
    }
}

/// `without` and `only`: which options a matching command may bear.
fn options(table: &mut Table<'_>, rule: &mut Rule, faults: &mut Faults) {
    if let Some((key, node)) = table.entry("without") {
        rule.without = option_words(node, "without", faults);
        if rule.decision == Decision::Deny {
            faults.add(
                key.at,
                "\"without\" is only for allow and ask",
                "a deny rule that spares some options is an allow rule for those",
            );
        } else if !rule.cmd.is_empty() && !rule.pattern.words.iter().any(is_open) {
            faults.add(
                key.at,
                format!("\"without\" has no effect: `{}` takes no further options", rule.cmd),
                "add ` ...` to the command, or drop \"without\"",
            );
        }
        for word in &rule.without {
            if rule.pattern.spells(word) {
                faults.add(
                    node.at,
                    format!("the rule can never match: it spells out \"{word}\" and excludes it"),
                    "take the word out of one of them",
                );
            }
        }
    }
    if let Some((key, node)) = table.entry("only") {
        let words = option_words(node, "only", faults);
        if rule.decision == Decision::Deny {
            faults.add(key.at, "\"only\" is only for allow and ask", "");
        } else if !rule.cmd.is_empty() && !rule.pattern.words.iter().any(is_open) {
            faults.add(
                key.at,
                format!("\"only\" has no effect: `{}` takes no further options", rule.cmd),
                "add ` ...` to the command, or drop \"only\"",
            );
        }
        rule.only = Some(words);
    }
}

fn is_open(word: &WordPattern) -> bool {
    !matches!(word, WordPattern::Literal(_) | WordPattern::OneOf(_))
}

fn option_words(node: &Node, what: &str, faults: &mut Faults) -> Vec<String> {
    let mut words = Vec::new();
    for item in node.seq(what, faults).unwrap_or_default() {
        let Some(word) = item.string(what, faults) else { continue };
        if word.len() < 2 || !word.starts_with('-') || word.contains(char::is_whitespace) {
            faults.add(
                item.at,
                format!("{} in \"{what}\" is no option", quoted(&word)),
                "write options such as \"-o\" or \"--output\"",
            );
        } else {
            words.push(word);
        }
    }
    words
}

/// What the rule grants, and when it applies.
fn grants(table: &mut Table<'_>, rule: &mut Rule, faults: &mut Faults) {
    let allows = rule.decision != Decision::Deny;
    let refuse = |at: At, key: &str, faults: &mut Faults| {
        if !allows {
            faults.add(at, format!("\"{key}\" has no meaning in a deny rule"), "drop it");
        }
    };
    if let Some((key, node)) = table.entry("network") {
        refuse(key.at, "network", faults);
        rule.network = parts::network_choice(node, "network", faults);
    }
    if let Some((key, node)) = table.entry("timeout") {
        refuse(key.at, "timeout", faults);
        rule.timeout = node.duration("timeout", faults);
    }
    if let Some((key, node)) = table.entry("env") {
        refuse(key.at, "env", faults);
        rule.env = parts::pairs(node, "env", faults);
    }
    if let Some((key, node)) = table.entry("max_calls") {
        refuse(key.at, "max_calls", faults);
        rule.max_calls = node.uint("max_calls", 1, faults);
    }
    if let Some((key, node)) = table.entry("even_if_untrusted") {
        refuse(key.at, "even_if_untrusted", faults);
        rule.even_if_untrusted = node.bool("even_if_untrusted", faults).unwrap_or(false);
    }
    if let Some((key, node)) = table.entry("when_unchanged") {
        refuse(key.at, "when_unchanged", faults);
        rule.when_unchanged = relative_paths(node, "when_unchanged", faults);
    }
    if let Some((key, node)) = table.entry("cwd") {
        refuse(key.at, "cwd", faults);
        if let Some(text) = node.string("cwd", faults) {
            match super::super::files::check_pattern(&text) {
                Ok(()) => rule.cwd = Some(text),
                Err((why, hint)) => faults.add(node.at, format!("\"cwd\": {why}"), hint),
            }
        }
    }
}

/// Single files, not globs: each must be the very file.
fn relative_paths(node: &Node, what: &str, faults: &mut Faults) -> Vec<String> {
    let mut paths = Vec::new();
    for item in node.seq(what, faults).unwrap_or_default() {
        let Some(text) = item.string(what, faults) else { continue };
        let is_glob = text.contains(['*', '?', '[', '{']);
        match super::super::files::check_pattern(&text) {
            Err((why, hint)) => faults.add(item.at, format!("\"{what}\": {why}"), hint),
            Ok(()) if is_glob => faults.add(
                item.at,
                format!("\"{what}\": {} is a glob", quoted(&text)),
                "name each file",
            ),
            Ok(()) => paths.push(text),
        }
    }
    if paths.is_empty() {
        faults.add(node.at, format!("\"{what}\" names no file"), "name the files, or drop the key");
    }
    paths
}
