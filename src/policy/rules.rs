//! Which rule speaks for a command: the strictest that matches wins, order means nothing.

use super::facts::{Facts, Ground};
use super::model::{Model, Rule};
use super::pattern::WordPattern;
use super::value::Value;
use crate::protocol::{Decision, RuleRef};
use globset::GlobMatcher;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The rules of a policy, bound to a place and indexed by the program they name.
#[derive(Debug, Default)]
pub struct RuleSet {
    rules: Vec<Bound>,
    by_name: HashMap<String, Vec<usize>>,
    /// Rules whose program is a glob, `*`, or a path.
    open: Vec<usize>,
}

#[derive(Debug)]
struct Bound {
    rule: Rule,
    /// `cwd` as an absolute glob.
    cwd: Option<GlobMatcher>,
    /// Absolute paths of `when_unchanged`.
    unchanged: Vec<PathBuf>,
}

/// A program as the script names it.
#[derive(Debug, Clone)]
pub struct Program {
    /// The word as written.
    pub word: String,
    /// The last part of it.
    pub base: String,
    /// The last part of the file that the word leads to, links followed.
    pub target: Option<String>,
    /// The file itself, links followed; nothing for a builtin.
    pub file: Option<PathBuf>,
    /// The file that the bare name would run, links followed.
    pub usual: Option<PathBuf>,
    /// The Turn could write the file.
    pub writable: bool,
}

impl Program {
    /// Whether the word leads to the very file that its bare name would run.
    pub fn is_usual(&self) -> bool {
        !self.word.contains('/') || (self.file.is_some() && self.file == self.usual)
    }
}

/// One command as the rules see it.
pub struct Call<'a> {
    pub program: &'a Program,
    pub argv: &'a [Value],
    pub cwd: Option<&'a Path>,
    pub facts: &'a dyn Facts,
    pub workspace: &'a Path,
    /// The rules with a limit of calls that this script used already, one entry a use.
    pub used: &'a [RuleRef],
    pub repeats: bool,
}

/// What the rules say.
pub struct Ruled<'a> {
    pub decision: Decision,
    /// The rule that decided; nothing when it was the default.
    pub rule: Option<&'a Rule>,
    /// Why an allow rule that names this program did not match, for the reason.
    pub near_miss: Option<String>,
}

impl RuleSet {
    pub fn bind(model: &Model, ground: &Ground) -> Self {
        let mut set = Self::default();
        for rule in &model.rules {
            let index = set.rules.len();
            match rule.pattern.programs() {
                Some(names) => {
                    for name in names {
                        let base = name.rsplit('/').next().unwrap_or(name);
                        set.by_name.entry(base.to_owned()).or_default().push(index);
                    }
                }
                None => set.open.push(index),
            }
            set.rules.push(Bound {
                cwd: rule.cwd.as_deref().and_then(|text| super::files::folder_glob(text, ground)),
                unchanged: rule
                    .when_unchanged
                    .iter()
                    .map(|path| ground.workspace.join(path))
                    .collect(),
                rule: rule.clone(),
            });
        }
        set
    }

    pub fn all(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|bound| &bound.rule)
    }

    /// The rules that could speak of a program.
    fn about(&self, program: &Program) -> impl Iterator<Item = &Bound> {
        let mut indices: Vec<usize> = self.open.clone();
        let names = [Some(&program.base), program.target.as_ref()];
        for name in names.into_iter().flatten() {
            indices.extend(self.by_name.get(name).into_iter().flatten());
        }
        indices.sort_unstable();
        indices.dedup();
        indices.into_iter().filter_map(|index| self.rules.get(index))
    }

    /// The rules' word on a call. `deny` and `ask` rules match when they could, `allow` rules only
    /// when they surely do.
    pub fn judge(&self, call: &Call<'_>) -> Option<Ruled<'_>> {
        let mut ask: Option<&Rule> = None;
        let mut allow: Option<&Rule> = None;
        let mut near_miss = None;
        for bound in self.about(call.program) {
            let rule = &bound.rule;
            match rule.decision {
                Decision::Deny => {
                    if rule.pattern.may_match(&|first| names_strictly(first, call), call.argv) {
                        return Some(Ruled {
                            decision: Decision::Deny,
                            rule: Some(rule),
                            near_miss: None,
                        });
                    }
                }
                Decision::Ask => {
                    let hit =
                        rule.pattern.may_match(&|first| names_strictly(first, call), call.argv);
                    if hit && applies_loosely(rule, call) {
                        ask = ask.or(Some(rule));
                    }
                }
                Decision::Allow => {
                    if !rule.pattern.surely_matches(&|first| names(first, call), call.argv) {
                        continue;
                    }
                    match applies(bound, call) {
                        Ok(()) => allow = Some(more_literal(allow, rule)),
                        Err(why) => near_miss = near_miss.or(Some(why)),
                    }
                }
            }
        }
        match (ask, allow) {
            (Some(rule), _) => {
                Some(Ruled { decision: Decision::Ask, rule: Some(rule), near_miss: None })
            }
            (None, Some(rule)) => {
                Some(Ruled { decision: Decision::Allow, rule: Some(rule), near_miss: None })
            }
            (None, None) => near_miss.map(|why| Ruled {
                decision: Decision::Deny,
                rule: None,
                near_miss: Some(why),
            }),
        }
    }

    /// Allow rules that name the same program, for "allowed is …".
    pub fn forms_of(&self, program: &Program) -> Vec<&str> {
        self.about(program)
            .filter(|bound| bound.rule.decision == Decision::Allow)
            .filter(|bound| bound.rule.pattern.programs().is_some())
            .map(|bound| bound.rule.cmd.as_str())
            .collect()
    }
}

fn more_literal<'a>(known: Option<&'a Rule>, rule: &'a Rule) -> &'a Rule {
    match known {
        Some(known) if known.pattern.literals() >= rule.pattern.literals() => known,
        _ => rule,
    }
}

/// Whether the first word of an allow rule means this program: a bare name means the file on the
/// clean PATH, a path means that very file.
fn names(first: &WordPattern, call: &Call<'_>) -> bool {
    let program = call.program;
    match first {
        WordPattern::Literal(name) if name.contains('/') => {
            let meant = call.facts.resolve(call.workspace, name).ok();
            meant.is_some() && meant == program.file
        }
        WordPattern::Literal(name) => {
            *name == program.base && program.is_usual() && !program.writable
        }
        WordPattern::OneOf(choices) => choices.iter().any(|choice| names(choice, call)),
        WordPattern::Glob(_) | WordPattern::Any => {
            first.matches(&program.base) && program.is_usual() && !program.writable
        }
        WordPattern::Rest => false,
    }
}

/// For deny and ask: whatever name leads to the program counts.
fn names_strictly(first: &WordPattern, call: &Call<'_>) -> bool {
    let program = call.program;
    match first {
        WordPattern::Literal(name) if name.contains('/') => {
            *name == program.word
                || (call.facts.resolve(call.workspace, name).ok() == program.file
                    && program.file.is_some())
        }
        WordPattern::OneOf(choices) => choices.iter().any(|choice| names_strictly(choice, call)),
        _ => {
            first.matches(&program.base)
                || first.matches(&program.word)
                || program.target.as_deref().is_some_and(|target| first.matches(target))
        }
    }
}

/// `without` and `only` spare an `ask` only when that is certain.
fn applies_loosely(rule: &Rule, call: &Call<'_>) -> bool {
    options_fit(rule, call.argv).is_ok() || call.argv.iter().any(|value| value.as_known().is_none())
}

fn applies(bound: &Bound, call: &Call<'_>) -> Result<(), String> {
    let rule = &bound.rule;
    options_fit(rule, call.argv)?;
    if let Some(text) = &rule.cwd {
        let inside = match (&bound.cwd, call.cwd) {
            (Some(glob), Some(cwd)) => glob.is_match(cwd),
            _ => false,
        };
        if !inside {
            return Err(format!("`{}` is allowed in {text} only", rule.cmd));
        }
    }
    for path in &bound.unchanged {
        if !call.facts.is_unchanged(path) {
            let shown = path.strip_prefix(call.workspace).unwrap_or(path);
            return Err(format!(
                "`{}` is allowed only while {} is unchanged",
                rule.cmd,
                shown.display()
            ));
        }
    }
    if let Some(max) = rule.max_calls {
        let used = call.used.iter().filter(|used| **used == rule.source).count() as u64;
        let before = call.facts.calls_so_far(&rule.source);
        if call.repeats || before.saturating_add(used) >= max {
            return Err(format!("`{}` is allowed {max} times in a run", rule.cmd));
        }
    }
    Ok(())
}

/// Whether the options in the call leave the rule in force.
fn options_fit(rule: &Rule, argv: &[Value]) -> Result<(), String> {
    if rule.without.is_empty() && rule.only.is_none() {
        return Ok(());
    }
    for value in argv.iter().skip(1) {
        let text = match value {
            Value::Known(text) => text.as_str(),
            Value::Unknown(_) if value.may_be_unknown_option() => {
                return Err(format!("`{}` could become an option", value.display()));
            }
            Value::Unknown(unknown) => unknown.prefix.as_str(),
        };
        if let Some(option) = rule.without.iter().find(|option| could_be(option, text)) {
            return Err(format!("`{}` is not allowed with {option}", rule.cmd));
        }
        if let Some(only) = &rule.only
            && text.starts_with('-')
            && text.len() > 1
            && text != "--"
            && !only.iter().any(|option| is_option(option, text))
        {
            return Err(format!("`{}` takes only the options {}", rule.cmd, only.join(", ")));
        }
    }
    Ok(())
}

/// Whether a word could be an option that a rule excludes: as it stands, with a value, abbreviated,
/// or among clustered letters. Says yes too often rather than too seldom.
pub fn could_be(option: &str, word: &str) -> bool {
    if !word.starts_with('-') || word == "-" || word == "--" {
        return false;
    }
    let name = word.split('=').next().unwrap_or(word);
    if name == option {
        return true;
    }
    if let Some(long) = option.strip_prefix("--") {
        let given = name.trim_start_matches('-');
        return name.starts_with("--") && !given.is_empty() && long.starts_with(given)
            || given == long;
    }
    let letters = option.strip_prefix('-').unwrap_or(option);
    if name.starts_with("--") {
        // Some programs take `--run` for `-run`.
        return letters.len() > 1 && name.trim_start_matches('-') == letters;
    }
    let mut chars = letters.chars();
    match (chars.next(), chars.next()) {
        // A single letter: alone, with its value glued on, or anywhere in a cluster.
        (Some(letter), None) => word.chars().skip(1).any(|c| c == letter),
        // A word with one dash: with its value glued on, or abbreviated.
        _ => name.starts_with(option) || option.starts_with(name),
    }
}

/// Whether a word surely is an option that a rule admits.
fn is_option(option: &str, word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    name == option
}
