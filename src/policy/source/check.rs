//! Faults that show only when the whole policy is together: names that nothing defines, rules that
//! can never win, rules that contradict each other.

use super::super::model::{Model, NetworkChoice, Rule};
use super::super::pattern::WordPattern;
use crate::protocol::{Decision, RuleRef};
use crate::spec::fault::{At, Fault, nearest};
use std::collections::HashMap;

pub fn check(model: &Model) -> Vec<Fault> {
    let mut faults = Vec::new();
    networks(model, &mut faults);
    never_winning(model, &mut faults);
    contradictions(model, &mut faults);
    faults.sort_by(|a, b| (&a.file, a.at).cmp(&(&b.file, b.at)));
    faults
}

fn fault(at: &RuleRef, text: String, hint: impl Into<String>) -> Fault {
    Fault {
        file: at.file.clone(),
        at: At { line: at.line, column: at.column },
        text,
        hint: hint.into(),
    }
}

fn networks(model: &Model, faults: &mut Vec<Fault>) {
    let known = || model.networks.keys().map(String::as_str);
    let hint = |name: &str| match nearest(name, known().chain(["none", "loopback", "open"])) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "define it under `networks`, or write none, loopback or open".to_owned(),
    };
    for rule in &model.rules {
        if let Some(NetworkChoice::Named(name)) = &rule.network
            && !model.networks.contains_key(name)
        {
            let text = format!(
                "the rule `{}` names the network \"{name}\", which nothing defines",
                rule.cmd
            );
            faults.push(fault(&rule.source, text, hint(name)));
        }
    }
    if let Some(NetworkChoice::Named(name)) = &model.network
        && !model.networks.contains_key(name)
    {
        let file = model.sources.first().cloned().unwrap_or_default();
        faults.push(Fault {
            file,
            at: At::default(),
            text: format!("\"network\" names \"{name}\", which nothing defines"),
            hint: hint(name),
        });
    }
}

/// The same command twice, or allowed where it is denied: the second can never matter.
fn never_winning(model: &Model, faults: &mut Vec<Fault>) {
    let mut seen: HashMap<(&str, Decision), &Rule> = HashMap::new();
    for rule in &model.rules {
        let is_main = model.sources.first().is_some_and(|main| *main == rule.source.file);
        if let Some(first) = seen.insert((&rule.cmd, rule.decision), rule)
            && is_main
            && first.source.file == rule.source.file
            && first.without == rule.without
            && first.only == rule.only
            && first.cwd == rule.cwd
        {
            let text = format!("`{}` stands twice", rule.cmd);
            faults.push(fault(&rule.source, text, format!("first in line {}", first.source.line)));
        }
    }
    let strict: HashMap<&str, &Rule> = model
        .rules
        .iter()
        .filter(|rule| rule.decision == Decision::Deny)
        .map(|rule| (rule.cmd.as_str(), rule))
        .collect();
    for rule in model.rules.iter().filter(|rule| rule.decision != Decision::Deny) {
        let is_main = model.sources.first().is_some_and(|main| *main == rule.source.file);
        if is_main && let Some(deny) = strict.get(rule.cmd.as_str()) {
            let text = format!("the rule `{}` can never match: it is denied as well", rule.cmd);
            let hint = format!("deny wins; see {}:{}", deny.source.file, deny.source.line);
            faults.push(fault(&rule.source, text, hint));
        }
    }
}

/// Allows with as many literal words each, that can match the same command and grant different
/// things: which one would win is undefined, so the file is at fault.
fn contradictions(model: &Model, faults: &mut Vec<Fault>) {
    let mut by_program: HashMap<Option<&str>, Vec<&Rule>> = HashMap::new();
    for rule in model.rules.iter().filter(|rule| rule.decision == Decision::Allow) {
        match rule.pattern.programs() {
            Some(names) => {
                for name in names {
                    by_program.entry(Some(name)).or_default().push(rule);
                }
            }
            None => by_program.entry(None).or_default().push(rule),
        }
    }
    for rules in by_program.values() {
        // Rules that grant nothing of their own agree with each other; a long list of them costs
        // nothing.
        for (index, rule) in rules.iter().enumerate() {
            if grants_nothing(rule) {
                continue;
            }
            for (position, other) in rules.iter().enumerate() {
                let is_first_look = position > index || grants_nothing(other);
                if position != index
                    && is_first_look
                    && rule.pattern.literals() == other.pattern.literals()
                    && !rule.agrees_with(other)
                    && overlap(&rule.pattern.words, &other.pattern.words)
                {
                    let text = format!(
                        "`{}` and `{}` match the same commands and grant different things",
                        rule.cmd, other.cmd
                    );
                    let hint = format!(
                        "the other stands at {}:{}; spell out more words in one of them",
                        other.source.file, other.source.line
                    );
                    faults.push(fault(&rule.source, text, hint));
                }
            }
        }
    }
    faults.dedup();
}

fn grants_nothing(rule: &Rule) -> bool {
    rule.network.is_none()
        && rule.timeout.is_none()
        && rule.env.is_empty()
        && !rule.even_if_untrusted
}

/// Whether some command matches both. Two globs are taken to overlap: a fault too many is told, one
/// too few is a surprise at run time.
fn overlap(a: &[WordPattern], b: &[WordPattern]) -> bool {
    let (mut a, mut b) = (a.iter(), b.iter());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(WordPattern::Rest), _) | (_, Some(WordPattern::Rest)) => return true,
            (Some(first), Some(second)) if words_overlap(first, second) => {}
            _ => return false,
        }
    }
}

fn words_overlap(a: &WordPattern, b: &WordPattern) -> bool {
    match (a, b) {
        (WordPattern::OneOf(choices), other) | (other, WordPattern::OneOf(choices)) => {
            choices.iter().any(|choice| words_overlap(choice, other))
        }
        (WordPattern::Literal(word), other) | (other, WordPattern::Literal(word)) => {
            other.matches(word)
        }
        _ => true,
    }
}
