//! Judging one simple command: through its wrappers, to the program that runs.

use super::attributes::Granted;
use super::judge::Verdicts;
use super::nearest::{Nearest, nearest_form};
use super::program::{self, quote_words, shown_words};
use super::wrappers::{Peeled, peel};
use crate::policy::hazards::names::is_never_assignable;
use crate::policy::rules::{Call, Program, Ruled};
use crate::policy::shell::{Builtin, Simple, builtin, check_grammar, lex, walk};
use crate::policy::value::Value;
use crate::protocol::{Decision, PartVerdict, RuleRef};

/// Wrappers around wrappers, and scripts in scripts.
const MAX_LAYERS: usize = 6;

/// Scripts inside scripts share this many commands.
const MAX_JUDGED: usize = 2000;

/// What was found of one command: the verdict, and what an allow grants.
pub struct Found {
    pub verdict: PartVerdict,
    pub granted: Option<Granted>,
    /// An ask may be approved here: the input is trusted, or the rule holds even if it is not.
    pub keeps_ask: bool,
}

impl Found {
    pub fn deny(part: &str, rule: RuleRef, reason: impl Into<String>) -> Self {
        Self::new(part, Decision::Deny, rule, reason.into(), None)
    }

    pub fn allow(part: &str, rule: RuleRef, reason: impl Into<String>, granted: Granted) -> Self {
        Self::new(part, Decision::Allow, rule, reason.into(), Some(granted))
    }

    pub fn new(
        part: &str,
        decision: Decision,
        rule: RuleRef,
        reason: String,
        granted: Option<Granted>,
    ) -> Self {
        let verdict =
            PartVerdict { part: part.to_owned(), argv: Vec::new(), decision, rule, reason };
        Self { verdict, granted, keeps_ask: false }
    }
}

/// How a command word is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Through {
    /// Written by itself: bash looks among its builtins first.
    Shell,
    /// Through `command` or `exec`: builtins count, but what they change can't be followed.
    Prefix,
    /// Through a program: builtins mean nothing to it.
    Program,
}

impl Verdicts<'_> {
    /// Judges one command in one state.
    pub fn part(&mut self, simple: &Simple<'_>) {
        let mut text = String::new();
        for (name, value) in simple.assignments {
            text.push_str(&format!("{name}={} ", quote_words(std::slice::from_ref(value))));
        }
        text.push_str(&quote_words(simple.argv));
        let outer = std::mem::replace(&mut self.argv, shown_words(simple.argv));
        let first = self.parts.len();
        self.layer(&text, simple, Through::Shell, 0);
        self.argv = outer;
        let new = self.parts.get(first..).unwrap_or_default();
        if self.nearest == Nearest::Unsought
            && new.iter().any(|part| part.decision == Decision::Deny)
        {
            self.nearest = nearest_form(self, simple);
        }
    }

    fn layer(&mut self, text: &str, simple: &Simple<'_>, through: Through, depth: usize) {
        if let Some(found) = self.assignments(text, simple) {
            return self.push(found);
        }
        if depth > MAX_LAYERS {
            let rule = RuleRef::built_in("shell: limits");
            return self.push(Found::deny(text, rule, "too many wrappers around each other"));
        }
        let unknown = || RuleRef::built_in("shell: the command must be known");
        let word = match simple.argv.first().map(Value::as_known) {
            Some(Some(word)) if !word.is_empty() => word.to_owned(),
            Some(Some(_)) | None => {
                return self.push(Found::deny(text, unknown(), "the command word is empty"));
            }
            Some(None) => {
                let reason = "the command word can't be known before running";
                return self.push(Found::deny(text, unknown(), reason));
            }
        };
        let program = program::find(&word, simple.cwd, self.facts);
        if self.is_peeled(text, simple, &program, depth) {
            return;
        }
        let kind = if word.contains('/') { None } else { builtin(&word) };
        match (kind, through) {
            (Some(Builtin::Refused(why)), Through::Shell | Through::Prefix) => {
                let rule = RuleRef::built_in(format!("shell: {word} is never allowed"));
                self.push(Found::deny(text, rule, why));
            }
            (Some(Builtin::Grammar), Through::Shell) => {
                let found = self.grammar(text, simple, &program);
                self.push(found);
            }
            (Some(Builtin::Grammar), _) => {
                let rule = RuleRef::built_in("shell: builtins stand by themselves");
                let reason = format!("`{word}` through another command can't be followed");
                self.push(Found::deny(text, rule, reason));
            }
            _ => {
                let found = self.program(text, simple, &program);
                self.push(found);
            }
        }
    }

    /// Assignments in front reach the command's environment: literal, and only passed names.
    fn assignments(&self, text: &str, simple: &Simple<'_>) -> Option<Found> {
        for (name, value) in simple.assignments {
            if !self.may_assign(name, true) {
                let rule = RuleRef::built_in("variables: only what the policy passes");
                let reason = if is_never_assignable(name) {
                    format!("{name} decides what programs run or load, so no command may set it")
                } else {
                    format!("the policy does not pass {name} to commands; name it under env.pass")
                };
                return Some(Found::deny(text, rule, reason));
            }
            if value.as_known().is_none() {
                let rule = RuleRef::built_in("variables: literal values only");
                return Some(Found::deny(
                    text,
                    rule,
                    format!("the value of {name} can't be known"),
                ));
            }
        }
        None
    }

    /// Sees through a wrapper, if it is the real one. True when that settled the command.
    fn is_peeled(
        &mut self,
        text: &str,
        simple: &Simple<'_>,
        program: &Program,
        depth: usize,
    ) -> bool {
        if !program.is_usual() || program.writable {
            return false;
        }
        let peeled = peel(&program.base, simple.argv);
        if peeled == Peeled::Itself {
            return false;
        }
        // A rule may deny the wrapper itself, or ask for it.
        if let Some(ruled) = self.ruled(simple, program)
            && ruled.decision != Decision::Allow
            && ruled.rule.is_some()
        {
            let found = self.by_rule(text, &ruled, Granted::nothing());
            let is_denied = found.verdict.decision == Decision::Deny;
            self.push(found);
            if is_denied {
                return true;
            }
        }
        let through = match program.word.as_str() {
            "command" | "exec" => Through::Prefix,
            _ => Through::Program,
        };
        let rule = || RuleRef::built_in(format!("wrappers: {} is seen through", program.base));
        if through == Through::Program && program.file.is_none() {
            let reason = format!("there is no program `{}` on the clean PATH", program.word);
            self.push(Found::deny(text, rule(), reason));
            return true;
        }
        match peeled {
            Peeled::Itself => return false,
            Peeled::Refused(why) => self.push(Found::deny(text, rule(), why)),
            Peeled::Looks => {
                let reason = "it only looks a name up";
                self.push(Found::allow(text, rule(), reason, Granted::nothing()));
            }
            Peeled::Runs { argv, assignments, repeats } => {
                let inner = Simple {
                    argv: &argv,
                    assignments: &assignments,
                    cwd: simple.cwd,
                    repeats: simple.repeats || repeats,
                };
                self.layer(text, &inner, through, depth + 1);
            }
            Peeled::Script { text: script, posix } => {
                self.inner_script(text, &script, posix, simple, rule());
            }
        }
        true
    }

    /// A script handed to another shell: judged like the outer one, in a state of its own.
    fn inner_script(
        &mut self,
        text: &str,
        script: &str,
        posix: bool,
        simple: &Simple<'_>,
        rule: RuleRef,
    ) {
        let Some(cwd) = simple.cwd.map(std::path::Path::to_path_buf) else {
            return self.push(Found::deny(text, rule, "the folder it would run in can't be known"));
        };
        if self.scripts >= MAX_LAYERS || self.judged > MAX_JUDGED {
            return self.push(Found::deny(
                text,
                rule,
                "too many scripts inside each other, or too long ones",
            ));
        }
        // A plain POSIX shell reads these signs in another way than bash does.
        let differs = ["$'", "&>", "|&", "<<<", "[[", "<(", ">(", ";&"];
        if posix && let Some(sign) = differs.iter().find(|sign| script.contains(**sign)) {
            let reason =
                format!("`{sign}` means different things to different shells; use bash -c");
            return self.push(Found::deny(text, rule, reason));
        }
        match lex(script) {
            Ok(lexed) if lexed.is_empty() => {
                self.push(Found::allow(text, rule, "the script is empty", Granted::nothing()));
            }
            Ok(lexed) => {
                self.scripts += 1;
                let repeats = self.repeats;
                self.repeats |= simple.repeats;
                walk(&lexed, &cwd, self);
                self.repeats = repeats;
                self.scripts -= 1;
            }
            Err(refusal) => {
                self.push(Found::deny(&refusal.part, rule, refusal.reason.clone()));
            }
        }
    }

    /// Builtins that are part of the script itself. A rule may deny or ask; one that allows adds
    /// nothing.
    fn grammar(&self, text: &str, simple: &Simple<'_>, program: &Program) -> Found {
        if let Some(ruled) = self.ruled(simple, program)
            && ruled.decision != Decision::Allow
            && ruled.rule.is_some()
        {
            return self.by_rule(text, &ruled, Granted::nothing());
        }
        let words = simple.argv.get(1..).unwrap_or_default();
        let may_assign = |name: &str, exported: bool| self.may_assign(name, exported);
        let rule = RuleRef::built_in("shell: part of the script itself");
        match check_grammar(&program.word, words, &may_assign) {
            Ok(()) => {
                Found::allow(text, rule, "it changes nothing but the shell", Granted::nothing())
            }
            Err(why) => Found::deny(text, rule, why),
        }
    }

    pub fn ruled(&self, simple: &Simple<'_>, program: &Program) -> Option<Ruled<'_>> {
        self.policy.rules.judge(&Call {
            program,
            argv: simple.argv,
            cwd: simple.cwd,
            facts: self.facts,
            workspace: &self.policy.workspace,
            used: &self.used,
            repeats: simple.repeats || self.repeats,
        })
    }

    /// Whether a script may set a variable: in the environment of commands, or only in the shell.
    pub fn may_assign(&self, name: &str, exported: bool) -> bool {
        !is_never_assignable(name) && (!exported || self.policy.passes(name))
    }
}
