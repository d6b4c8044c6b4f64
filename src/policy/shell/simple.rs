//! Simple commands: their words, assignments and redirections, in every state they may run in.

use super::builtins;
use super::parse::word_at;
use super::state::{Held, State};
use super::token::{Lexed, Piece, Word};
use super::walk::{Access, Simple, Walk, Ways, merge};
use crate::policy::value::{UnknownKind, Value};
use brush_parser::ast;
use std::path::PathBuf;

/// At most this many commands are judged for one script, loops and combinations counted.
const MAX_JUDGED: usize = 2000;

impl Walk<'_> {
    pub fn simple(&mut self, lexed: &Lexed, simple: &ast::SimpleCommand, state: State) -> Ways {
        let mut parts = Parts::default();
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
        for item in prefix {
            parts.take(self, lexed, item, true);
        }
        if let Some(name) = &simple.word_or_name {
            parts.words.extend(word_at(lexed, name.loc.as_ref()));
        }
        for item in suffix {
            parts.take(self, lexed, item, false);
        }
        let Parts { assignments, words, redirects } = parts;
        if let Some(first) = words.first()
            && first.is_element_assignment()
        {
            self.refuse(&first.raw, "arrays can't be judged");
            return Ways::both(state);
        }
        self.substitutions(
            assignments.iter().map(|(_, _, word)| *word).chain(words.iter().copied()),
            &state,
        );
        for redirect in redirects {
            self.redirect(lexed, redirect, &state);
        }
        if words.is_empty() {
            return self.bare_assignments(&assignments, state);
        }
        self.judged_command(&assignments, &words, state)
    }

    /// Judges the command in every state it may run in.
    fn judged_command(
        &mut self,
        assignments: &[(String, bool, &Word)],
        words: &[&Word],
        state: State,
    ) -> Ways {
        let seen = assignments.iter().map(|(_, _, word)| *word).chain(words.iter().copied());
        let choices = state.choices(seen);
        let mut ways: Option<Ways> = None;
        for choice in &choices {
            let argv: Vec<Value> =
                words.iter().flat_map(|word| state.expand(word, choice)).collect();
            let set: Vec<(String, Value)> = assignments
                .iter()
                .map(|(name, _, word)| {
                    (name.clone(), state.expand_whole(&word.assigned_value(), choice))
                })
                .collect();
            if assignments.iter().any(|(_, append, _)| *append) {
                self.refuse(&assignments_text(assignments), "`+=` in front of a command");
            }
            if argv.is_empty() {
                // The words expanded to nothing; bash then runs nothing.
                continue;
            }
            let folders: Vec<Option<PathBuf>> = if state.folders.is_empty() {
                vec![None]
            } else {
                state.folders.iter().map(|folder| Some(folder.physical.clone())).collect()
            };
            for folder in &folders {
                self.judged += 1;
                if self.judged > MAX_JUDGED {
                    return self.too_much(state);
                }
                self.judge.command(&Simple {
                    argv: &argv,
                    assignments: &set,
                    cwd: folder.as_deref(),
                    repeats: self.repeats > 0,
                });
            }
            let after = self.effect(&argv, &state);
            ways = Some(match ways {
                None => after,
                Some(known) => Ways {
                    ok: merge(known.ok, after.ok),
                    failed: merge(known.failed, after.failed),
                },
            });
        }
        ways.unwrap_or_else(|| Ways::both(state))
    }

    fn too_much(&mut self, state: State) -> Ways {
        if self.judged == MAX_JUDGED + 1 {
            self.refuse("the script", "it has too many commands and combinations to judge");
        }
        Ways::both(state)
    }

    /// What the command does to the shell itself.
    fn effect(&mut self, argv: &[Value], state: &State) -> Ways {
        let judge = &mut *self.judge;
        match builtins::effect(argv, state, &|cwd, text| judge.resolve(cwd, text)) {
            builtins::Effect::None => Ways::both(state.clone()),
            builtins::Effect::Ok => Ways { ok: Some(state.clone()), failed: None },
            builtins::Effect::Fails => Ways { ok: None, failed: Some(state.clone()) },
            builtins::Effect::Moves(moved) => Ways { ok: Some(moved), failed: Some(state.clone()) },
            builtins::Effect::Sets(names) => {
                let mut after = state.clone();
                for name in names {
                    self.judge.assignment(&name);
                    after.set(&name, Held::Anything);
                }
                Ways::both(after)
            }
            builtins::Effect::Assigns(name, value) => {
                self.judge.assignment(&name);
                let mut after = state.clone();
                after.set(&name, held_by(&[value]));
                Ways::both(after)
            }
            builtins::Effect::LeavesLoop => {
                for exits in &mut self.loops {
                    exits.push(state.clone());
                }
                // In a subshell, or outside a loop, the script goes on.
                Ways::both(state.clone())
            }
            builtins::Effect::Ends => Ways::never(),
        }
    }

    /// `NAME=value` alone sets a variable of the shell.
    fn bare_assignments(
        &mut self,
        assignments: &[(String, bool, &Word)],
        mut state: State,
    ) -> Ways {
        for (name, append, word) in assignments {
            self.judge.assignment(name);
            let value_word = word.assigned_value();
            let choices = state.choices(std::iter::once(&value_word));
            let values: Vec<Value> =
                choices.iter().map(|choice| state.expand_whole(&value_word, choice)).collect();
            let held = if *append { Held::Anything } else { held_by(&values) };
            state.set(name, held);
        }
        Ways::both(state)
    }

    pub fn redirect_list(
        &mut self,
        lexed: &Lexed,
        redirects: Option<&ast::RedirectList>,
        state: &State,
    ) {
        for redirect in redirects.iter().flat_map(|list| &list.0) {
            self.redirect(lexed, redirect, state);
        }
    }

    fn redirect(&mut self, lexed: &Lexed, redirect: &ast::IoRedirect, state: &State) {
        use ast::{IoFileRedirectKind as Kind, IoFileRedirectTarget as Target, IoRedirect};
        match redirect {
            IoRedirect::File(_, kind, Target::Filename(word)) => {
                let accesses: &[Access] = match kind {
                    Kind::Read => &[Access::Read],
                    Kind::Write | Kind::Append | Kind::Clobber => &[Access::Write],
                    Kind::ReadAndWrite => &[Access::Read, Access::Write],
                    Kind::DuplicateInput | Kind::DuplicateOutput => {
                        return self.refuse(&word.value, "a redirection that can't be judged");
                    }
                };
                for access in accesses {
                    self.target(lexed, word, *access, state);
                }
            }
            // Made by `|&` alone: standard error goes into the pipe as well.
            IoRedirect::File(_, _, Target::Fd(_)) => {}
            IoRedirect::File(_, _, Target::Duplicate(word)) => {
                let raw = word_at(lexed, word.loc.as_ref()).map(|word| word.raw.clone());
                let raw = raw.unwrap_or_default();
                let digits = raw.strip_suffix('-').unwrap_or(&raw);
                let is_descriptor =
                    raw == "-" || (digits.len() == 1 && digits.bytes().all(|b| b.is_ascii_digit()));
                if !is_descriptor {
                    self.refuse(&format!(">&{raw}"), "write `> FILE 2>&1` for both streams");
                }
            }
            IoRedirect::File(_, _, Target::ProcessSubstitution(..)) => {
                self.refuse("<(…)", "process substitution can't be judged");
            }
            IoRedirect::OutputAndError(word, _) => {
                self.target(lexed, word, Access::Write, state);
            }
            IoRedirect::HereDocument(_, document) => {
                if let Some(word) = word_at(lexed, document.doc.loc.as_ref()) {
                    self.substitutions(std::iter::once(word), state);
                }
            }
            IoRedirect::HereString(_, word) => match word_at(lexed, word.loc.as_ref()) {
                Some(word) => self.substitutions(std::iter::once(word), state),
                None => self.refuse("<<<", "a here-string that can't be judged"),
            },
        }
    }

    fn target(&mut self, lexed: &Lexed, word: &ast::Word, access: Access, state: &State) {
        let Some(word) = word_at(lexed, word.loc.as_ref()) else {
            return self.refuse(&word.value, "a redirection that can't be judged");
        };
        self.substitutions(std::iter::once(word), state);
        for choice in state.choices(std::iter::once(word)) {
            let values = state.expand(word, &choice);
            let [value] = values.as_slice() else {
                return self.refuse(&word.raw, "a redirection must name exactly one file");
            };
            self.judged += 1;
            if self.judged > MAX_JUDGED {
                self.too_much(state.clone());
                return;
            }
            if state.folders.is_empty() {
                self.judge.redirection(access, value, None);
            }
            for folder in &state.folders {
                self.judge.redirection(access, value, Some(&folder.physical));
            }
        }
    }

    /// Judges the commands inside `$(…)`, and the names inside `$((…))`.
    pub fn substitutions<'w>(&mut self, words: impl Iterator<Item = &'w Word>, state: &State) {
        for word in words {
            for piece in &word.pieces {
                match piece {
                    Piece::Substitution { inner, .. } => {
                        self.nesting += 1;
                        let loops = std::mem::take(&mut self.loops);
                        self.script(inner, state.clone());
                        self.loops = loops;
                        self.nesting -= 1;
                    }
                    Piece::Arithmetic { text, names } => {
                        for name in names {
                            let held = state.get(name);
                            let numbers = match held {
                                Held::Number => true,
                                Held::OneOf(values) => values.iter().all(|v| is_digits(v)),
                                _ => false,
                            };
                            if !numbers {
                                let reason = "bash evaluates what the variable holds, and that is not known to be a number";
                                self.refuse(&format!("$(({text}))"), reason);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

fn assignments_text(assignments: &[(String, bool, &Word)]) -> String {
    assignments.iter().map(|(_, _, word)| word.raw.as_str()).collect::<Vec<_>>().join(" ")
}

fn is_digits(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.len() < 18 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn is_number(value: &Value) -> bool {
    match value {
        Value::Known(text) => is_digits(text),
        Value::Unknown(unknown) => {
            unknown.kind == UnknownKind::Number
                && (unknown.prefix.is_empty() || is_digits(&unknown.prefix))
        }
    }
}

/// What a variable holds after getting one of these values.
pub(super) fn held_by(values: &[Value]) -> Held {
    let known: Option<Vec<String>> =
        values.iter().map(|value| value.as_known().map(str::to_owned)).collect();
    if let Some(known) = known {
        return Held::OneOf(known);
    }
    match values {
        [Value::Unknown(unknown)] => match unknown.kind {
            UnknownKind::Number if unknown.prefix.is_empty() => Held::Number,
            UnknownKind::Split => Held::Anything,
            _ if unknown.prefix.is_empty() => Held::Anything,
            _ => Held::Begins(unknown.prefix.clone(), unknown.glob.clone()),
        },
        _ => Held::Anything,
    }
}

/// The parts of a simple command, found in the tree.
#[derive(Default)]
struct Parts<'t> {
    assignments: Vec<(String, bool, &'t Word)>,
    words: Vec<&'t Word>,
    redirects: Vec<&'t ast::IoRedirect>,
}

impl<'t> Parts<'t> {
    fn take(
        &mut self,
        walk: &mut Walk<'_>,
        lexed: &'t Lexed,
        item: &'t ast::CommandPrefixOrSuffixItem,
        in_front: bool,
    ) {
        use ast::CommandPrefixOrSuffixItem as Item;
        match item {
            Item::IoRedirect(redirect) => self.redirects.push(redirect),
            Item::Word(word) => match word_at(lexed, word.loc.as_ref()) {
                Some(word) => self.words.push(word),
                None => walk.refuse(&word.value, "a word that can't be judged"),
            },
            Item::AssignmentWord(assignment, word) => {
                let found = word_at(lexed, word.loc.as_ref());
                match (found, &assignment.value) {
                    (Some(word), ast::AssignmentValue::Scalar(_)) if in_front => {
                        match word.assigned_name() {
                            Some((name, append)) => {
                                self.assignments.push((name.to_owned(), append, word));
                            }
                            None => walk.refuse(&word.raw, "an assignment that can't be judged"),
                        }
                    }
                    (Some(word), ast::AssignmentValue::Scalar(_)) => self.words.push(word),
                    (_, ast::AssignmentValue::Array(_)) | (None, _) => {
                        walk.refuse(&word.value, "arrays can't be judged");
                    }
                }
            }
            Item::ProcessSubstitution(..) => {
                walk.refuse("<(…)", "process substitution can't be judged");
            }
        }
    }
}
