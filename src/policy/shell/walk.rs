//! Visits the syntax tree by an allowlist of node kinds, in the state each command would run in.
//!
//! Everything that is not listed here is refused. Every command of every branch is judged, whether
//! or not it will be reached; the state only says where it acts and what its variables hold.

use super::changes::Changes;
use super::parse::{parse, word_at};
use super::simple::{held_by, is_number};
use super::state::{Held, State};
use super::token::{Lexed, Refusal, Word, short};
use crate::policy::value::Value;
use brush_parser::ast;
use std::path::{Path, PathBuf};

/// At most this many commands of any kind are visited, each round of a loop counted.
const MAX_STEPS: usize = 8_000;

/// How a redirection uses a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// One simple command with everything that is known of it.
#[derive(Debug)]
pub struct Simple<'a> {
    pub argv: &'a [Value],
    /// Assignments in front of the command.
    pub assignments: &'a [(String, Value)],
    /// Where it runs; nothing when that can't be known.
    pub cwd: Option<&'a Path>,
    /// It may run any number of times.
    pub repeats: bool,
}

/// Judges what the walk finds.
pub trait Judge {
    fn command(&mut self, simple: &Simple<'_>);
    fn redirection(&mut self, access: Access, target: &Value, cwd: Option<&Path>);
    /// A variable of the shell itself gets a value.
    fn assignment(&mut self, name: &str);
    fn refuse(&mut self, refusal: Refusal);
    fn resolve(&self, cwd: &Path, text: &str) -> Option<PathBuf>;
}

/// Walks a whole script.
pub fn walk(lexed: &Lexed, cwd: &Path, judge: &mut dyn Judge) {
    let mut walk = Walk { judge, judged: 0, steps: 0, loops: Vec::new(), repeats: 0, nesting: 0 };
    walk.script(lexed, State::new(cwd.to_path_buf()));
}

/// The states after a command, by its exit status; nothing where that way does not exist.
#[derive(Clone)]
pub(super) struct Ways {
    pub ok: Option<State>,
    pub failed: Option<State>,
}

impl Ways {
    pub fn both(state: State) -> Self {
        Self { ok: Some(state.clone()), failed: Some(state) }
    }

    pub const fn never() -> Self {
        Self { ok: None, failed: None }
    }

    pub fn merged(self) -> Option<State> {
        merge(self.ok, self.failed)
    }
}

pub(super) fn merge(a: Option<State>, b: Option<State>) -> Option<State> {
    match (a, b) {
        (Some(mut a), Some(b)) => {
            a.join(&b);
            Some(a)
        }
        (a, b) => a.or(b),
    }
}

pub(super) struct Walk<'a> {
    pub judge: &'a mut dyn Judge,
    pub judged: usize,
    /// How many commands of any kind were visited.
    steps: usize,
    /// For each loop around: the states at its `break` and `continue`.
    pub loops: Vec<Vec<State>>,
    /// How many loops around run an unknown number of times.
    pub repeats: usize,
    pub nesting: usize,
}

impl Walk<'_> {
    pub fn script(&mut self, lexed: &Lexed, state: State) {
        match parse(lexed) {
            Ok(program) => {
                let mut start = state;
                for list in &program.complete_commands {
                    // Behind an `exit` nothing runs; it is judged as if it did.
                    if let Some(next) = self.list(lexed, list, start.clone()).merged() {
                        start = next;
                    }
                }
            }
            Err(refusal) => self.judge.refuse(refusal),
        }
    }

    pub fn refuse(&mut self, part: &str, reason: &str) {
        let part = short(part);
        self.judge.refuse(Refusal { part, reason: reason.into(), line: 0, column: 0 });
    }

    /// Commands one after the other. What can't be reached is judged all the same, as if it were.
    fn list(&mut self, lexed: &Lexed, list: &ast::CompoundList, state: State) -> Ways {
        let mut start = state;
        let mut reached = true;
        let mut ways = Ways::both(start.clone());
        for ast::CompoundListItem(and_or, separator) in &list.0 {
            let after = self.and_or(lexed, and_or, start.clone());
            ways = match separator {
                // It runs beside the rest, in a shell of its own.
                ast::SeparatorOperator::Async => Ways::both(start.clone()),
                ast::SeparatorOperator::Sequence => after,
            };
            match ways.clone().merged() {
                Some(next) => start = next,
                None => reached = false,
            }
        }
        if reached { ways } else { Ways::never() }
    }

    fn and_or(&mut self, lexed: &Lexed, list: &ast::AndOrList, state: State) -> Ways {
        let mut ways = self.pipeline(lexed, &list.first, state.clone());
        for more in &list.additional {
            ways = match more {
                ast::AndOr::And(pipeline) => {
                    let start = ways.ok.clone().unwrap_or_else(|| state.clone());
                    let reached = ways.ok.is_some();
                    let then = self.pipeline(lexed, pipeline, start);
                    if reached {
                        Ways { ok: then.ok, failed: merge(ways.failed, then.failed) }
                    } else {
                        ways
                    }
                }
                ast::AndOr::Or(pipeline) => {
                    let start = ways.failed.clone().unwrap_or_else(|| state.clone());
                    let reached = ways.failed.is_some();
                    let then = self.pipeline(lexed, pipeline, start);
                    if reached {
                        Ways { ok: merge(ways.ok, then.ok), failed: then.failed }
                    } else {
                        ways
                    }
                }
            };
        }
        ways
    }

    fn pipeline(&mut self, lexed: &Lexed, pipeline: &ast::Pipeline, state: State) -> Ways {
        let ways = match pipeline.seq.as_slice() {
            [] => Ways::both(state),
            [one] => self.command(lexed, one, state),
            several => {
                // Each part runs in a shell of its own; what it changes is gone afterwards.
                for command in several {
                    self.command(lexed, command, state.clone());
                }
                Ways::both(state)
            }
        };
        if pipeline.bang { Ways { ok: ways.failed, failed: ways.ok } } else { ways }
    }

    /// Whether the effort is used up; said once, and then nothing is allowed any more.
    fn is_spent(&mut self) -> bool {
        self.steps += 1;
        if self.steps == MAX_STEPS {
            self.refuse("the script", "its loops have too many rounds to judge");
        }
        self.steps >= MAX_STEPS
    }

    fn command(&mut self, lexed: &Lexed, command: &ast::Command, state: State) -> Ways {
        if self.is_spent() {
            return Ways::both(state);
        }
        match command {
            ast::Command::Simple(simple) => self.simple(lexed, simple, state),
            ast::Command::Compound(compound, redirects) => {
                self.redirect_list(lexed, redirects.as_ref(), &state);
                self.compound(lexed, compound, state)
            }
            ast::Command::ExtendedTest(test, redirects) => {
                self.redirect_list(lexed, redirects.as_ref(), &state);
                self.test(lexed, &test.expr, &state);
                Ways::both(state)
            }
            ast::Command::Function(function) => {
                let name = word_at(lexed, function.fname.loc.as_ref());
                let name = name.map(|word| word.raw.clone()).unwrap_or_default();
                self.refuse(
                    &format!("{name}()"),
                    "functions can't be judged; write the commands out",
                );
                Ways::both(state)
            }
        }
    }

    fn compound(&mut self, lexed: &Lexed, compound: &ast::CompoundCommand, state: State) -> Ways {
        match compound {
            ast::CompoundCommand::BraceGroup(group) => self.list(lexed, &group.list, state),
            ast::CompoundCommand::Subshell(subshell) => {
                let loops = std::mem::take(&mut self.loops);
                self.list(lexed, &subshell.list, state.clone());
                self.loops = loops;
                Ways::both(state)
            }
            ast::CompoundCommand::IfClause(clause) => self.if_clause(lexed, clause, state),
            ast::CompoundCommand::ForClause(clause) => self.for_clause(lexed, clause, state),
            ast::CompoundCommand::WhileClause(clause)
            | ast::CompoundCommand::UntilClause(clause) => self.while_clause(lexed, clause, state),
            ast::CompoundCommand::CaseClause(clause) => self.case_clause(lexed, clause, state),
            ast::CompoundCommand::Arithmetic(_) | ast::CompoundCommand::ArithmeticForClause(_) => {
                self.refuse("((", "arithmetic commands can't be judged; loop with `for … in`");
                Ways::both(state)
            }
            ast::CompoundCommand::Coprocess(_) => {
                self.refuse("coproc", "coprocesses can't be judged");
                Ways::both(state)
            }
        }
    }

    fn if_clause(&mut self, lexed: &Lexed, clause: &ast::IfClauseCommand, state: State) -> Ways {
        let mut tested = self.list(lexed, &clause.condition, state.clone());
        let start = tested.ok.clone().unwrap_or_else(|| state.clone());
        let mut ends = vec![self.list(lexed, &clause.then, start)];
        let mut has_else = false;
        for branch in clause.elses.iter().flatten() {
            let start = tested.failed.clone().unwrap_or_else(|| state.clone());
            match &branch.condition {
                Some(condition) => {
                    tested = self.list(lexed, condition, start.clone());
                    let start = tested.ok.clone().unwrap_or(start);
                    ends.push(self.list(lexed, &branch.body, start));
                }
                None => {
                    has_else = true;
                    ends.push(self.list(lexed, &branch.body, start));
                }
            }
        }
        let mut all = Ways::never();
        for end in ends {
            all = Ways { ok: merge(all.ok, end.ok), failed: merge(all.failed, end.failed) };
        }
        if !has_else {
            all.ok = merge(all.ok, tested.failed);
        }
        all
    }

    fn case_clause(
        &mut self,
        lexed: &Lexed,
        clause: &ast::CaseClauseCommand,
        state: State,
    ) -> Ways {
        if let Some(word) = word_at(lexed, clause.value.loc.as_ref()) {
            self.substitutions(std::iter::once(word), &state);
        }
        let mut end = Some(state.clone());
        for item in &clause.cases {
            for pattern in &item.patterns {
                let Some(word) = word_at(lexed, pattern.loc.as_ref()) else { continue };
                if matches!(word.raw.as_str(), "esac" | "in" | "do" | "done") {
                    self.refuse(&word.raw, "a keyword as a pattern of `case`");
                }
                self.substitutions(std::iter::once(word), &state);
            }
            // A branch may be entered from the one before (`;&`), so it starts from all states.
            if let Some(body) = &item.cmd {
                let after = self.list(lexed, body, end.clone().unwrap_or_else(|| state.clone()));
                end = merge(end, after.merged());
            }
        }
        end.map_or_else(Ways::never, Ways::both)
    }

    fn for_clause(&mut self, lexed: &Lexed, clause: &ast::ForClauseCommand, state: State) -> Ways {
        let name = clause.variable_name.as_str();
        self.judge.assignment(name);
        let Some(values) = &clause.values else {
            self.refuse(&format!("for {name}"), "a loop over the script's own arguments");
            return Ways::both(state);
        };
        let words: Vec<&Word> =
            values.iter().filter_map(|value| word_at(lexed, value.loc.as_ref())).collect();
        self.substitutions(words.iter().copied(), &state);
        let mut list = Vec::new();
        let choices = state.choices(words.iter().copied());
        for choice in &choices {
            for word in &words {
                list.extend(state.expand(word, choice));
            }
        }
        let known: Option<Vec<String>> =
            list.iter().map(|value| value.as_known().map(str::to_owned)).collect();
        match known {
            // One combination only: the loop runs once for each of these words, in order.
            Some(known) if choices.len() == 1 && known.len() <= 64 => {
                self.loops.push(Vec::new());
                let mut current = state;
                for value in known {
                    if self.steps >= MAX_STEPS {
                        break;
                    }
                    current.set(name, Held::OneOf(vec![value]));
                    let after = self.list(lexed, &clause.body.list, current.clone());
                    current = self.joined_with_exits(after.merged(), current);
                }
                self.loops.pop();
                Ways::both(current)
            }
            _ => {
                let held = held_by(&list);
                self.repeated(lexed, state, &[&clause.body.list], Some((name, held)))
            }
        }
    }

    fn joined_with_exits(&mut self, after: Option<State>, start: State) -> State {
        let exits = self.loops.last_mut().map(std::mem::take).unwrap_or_default();
        let mut all = after;
        for exit in exits {
            all = merge(all, Some(exit));
        }
        all.unwrap_or(start)
    }

    fn while_clause(
        &mut self,
        lexed: &Lexed,
        clause: &ast::WhileOrUntilClauseCommand,
        state: State,
    ) -> Ways {
        let ast::WhileOrUntilClauseCommand(condition, body, _) = clause;
        self.repeated(lexed, state, &[condition, &body.list], None)
    }

    /// A loop that runs any number of times: whatever it changes is unknown from the start.
    fn repeated(
        &mut self,
        lexed: &Lexed,
        mut state: State,
        bodies: &[&ast::CompoundList],
        variable: Option<(&str, Held)>,
    ) -> Ways {
        let mut changes = Changes::default();
        for body in bodies {
            changes.list(lexed, body);
        }
        for name in &changes.names {
            state.set(name, Held::Anything);
        }
        if changes.folder {
            state.folders.clear();
        }
        let entry = state.clone();
        if let Some((name, held)) = variable {
            state.set(name, held);
        }
        self.loops.push(Vec::new());
        self.repeats += 1;
        let mut current = Some(state.clone());
        for body in bodies {
            let after = self.list(lexed, body, current.unwrap_or_else(|| state.clone()));
            current = after.merged();
        }
        self.repeats -= 1;
        let mut end = self.joined_with_exits(current, entry.clone());
        self.loops.pop();
        end.join(&entry);
        Ways::both(end)
    }

    /// The conditions of `[[ … ]]` that evaluate nothing.
    fn test(&mut self, lexed: &Lexed, expr: &ast::ExtendedTestExpr, state: &State) {
        use ast::ExtendedTestExpr as Expr;
        match expr {
            Expr::And(a, b) | Expr::Or(a, b) => {
                self.test(lexed, a, state);
                self.test(lexed, b, state);
            }
            Expr::Not(inner) | Expr::Parenthesized(inner) => self.test(lexed, inner, state),
            Expr::UnaryTest(predicate, word) => {
                use ast::UnaryPredicate as P;
                let is_evaluated = matches!(
                    predicate,
                    P::ShellVariableIsSetAndAssigned | P::ShellVariableIsSetAndNameRef
                );
                match word_at(lexed, word.loc.as_ref()) {
                    Some(word) if !is_evaluated => {
                        self.substitutions(std::iter::once(word), state);
                    }
                    _ => self.refuse("[[ -v … ]]", "this test evaluates its operand"),
                }
            }
            Expr::BinaryTest(predicate, a, b) => {
                let words = (word_at(lexed, a.loc.as_ref()), word_at(lexed, b.loc.as_ref()));
                let (Some(a), Some(b)) = words else {
                    return self.refuse(
                        "[[ … =~ … ]]",
                        "a regular expression in `[[` can't be judged; use grep",
                    );
                };
                self.substitutions([a, b].into_iter(), state);
                use ast::BinaryPredicate as P;
                match predicate {
                    P::StringMatchesRegex | P::StringContainsSubstring => {
                        self.refuse(
                            "[[ … =~ … ]]",
                            "a regular expression in `[[` can't be judged; use grep",
                        );
                    }
                    P::ArithmeticEqualTo
                    | P::ArithmeticNotEqualTo
                    | P::ArithmeticLessThan
                    | P::ArithmeticLessThanOrEqualTo
                    | P::ArithmeticGreaterThan
                    | P::ArithmeticGreaterThanOrEqualTo => {
                        for word in [a, b] {
                            self.must_be_number(word, state);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Bash evaluates what stands here as an expression, commands in it included.
    fn must_be_number(&mut self, word: &Word, state: &State) {
        for choice in state.choices(std::iter::once(word)) {
            let value = state.expand_whole(word, &choice);
            if !is_number(&value) {
                return self.refuse(&word.raw, "only a number is sure not to run anything here");
            }
        }
    }
}
