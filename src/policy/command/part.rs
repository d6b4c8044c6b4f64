//! Judging one simple command.

use super::attributes::Granted;
use super::judge::Verdicts;
use super::program::{self, quote_words};
use crate::policy::rules::{Call, Program, Ruled};
use crate::policy::shell::{Builtin, Simple, builtin, check_grammar};
use crate::policy::value::Value;
use crate::protocol::{Decision, PartVerdict, RuleRef};

/// What was found of one command: the verdict, and what an allow grants.
pub struct Found {
    pub verdict: PartVerdict,
    pub granted: Option<Granted>,
}

impl Found {
    pub fn deny(part: &str, rule: RuleRef, reason: impl Into<String>) -> Self {
        let verdict = PartVerdict {
            part: part.to_owned(),
            decision: Decision::Deny,
            rule,
            reason: reason.into(),
        };
        Self { verdict, granted: None }
    }

    pub fn allow(part: &str, rule: RuleRef, reason: impl Into<String>, granted: Granted) -> Self {
        let verdict = PartVerdict {
            part: part.to_owned(),
            decision: Decision::Allow,
            rule,
            reason: reason.into(),
        };
        Self { verdict, granted: Some(granted) }
    }
}

impl Verdicts<'_> {
    /// Judges one command in one state.
    pub fn part(&mut self, simple: &Simple<'_>) {
        let mut text = String::new();
        for (name, value) in simple.assignments {
            text.push_str(&format!("{name}={} ", quote_words(std::slice::from_ref(value))));
        }
        text.push_str(&quote_words(simple.argv));
        if let Some(found) = self.assignments(&text, simple) {
            return self.push(found);
        }
        let found = self.words(&text, simple, 0);
        self.push(found);
    }

    /// Assignments in front reach the command's environment: literal, and only passed names.
    fn assignments(&self, text: &str, simple: &Simple<'_>) -> Option<Found> {
        for (name, value) in simple.assignments {
            if !self.may_assign(name, true) {
                let rule = RuleRef::built_in("variables: only what the policy passes");
                let reason = if super::super::hazards::names::is_never_assignable(name) {
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

    fn words(&mut self, text: &str, simple: &Simple<'_>, depth: usize) -> Found {
        let unknown = || RuleRef::built_in("shell: the command must be known");
        let Some(first) = simple.argv.first() else {
            return Found::deny(text, unknown(), "there is no command");
        };
        let Some(word) = first.as_known() else {
            return Found::deny(text, unknown(), "the command word can't be known before running");
        };
        if word.is_empty() || word.contains('\0') {
            return Found::deny(text, unknown(), "the command word is empty");
        }
        let _ = depth;
        let program = program::find(word, simple.cwd, self.facts);
        if !word.contains('/')
            && let Some(kind) = builtin(word)
            && let Some(found) = self.builtin(text, simple, &program, kind)
        {
            return found;
        }
        self.program(text, simple, &program)
    }

    /// Builtins that need no rule, or that no rule can allow.
    fn builtin(
        &self,
        text: &str,
        simple: &Simple<'_>,
        program: &Program,
        kind: Builtin,
    ) -> Option<Found> {
        match kind {
            Builtin::Refused(why) => {
                let rule = RuleRef::built_in(format!("shell: {} is never allowed", program.word));
                Some(Found::deny(text, rule, why))
            }
            Builtin::AsProgram => None,
            Builtin::Grammar => {
                // A rule may still deny or ask; one that allows adds nothing.
                if let Some(ruled) = self.ruled(simple, program)
                    && ruled.decision != Decision::Allow
                    && ruled.rule.is_some()
                {
                    return Some(self.by_rule(text, &ruled, program));
                }
                let words = simple.argv.get(1..).unwrap_or_default();
                let may_assign = |name: &str, exported: bool| self.may_assign(name, exported);
                let rule = RuleRef::built_in("shell: part of the script itself");
                Some(match check_grammar(&program.word, words, &may_assign) {
                    Ok(()) => Found::allow(
                        text,
                        rule,
                        "it changes nothing but the shell",
                        Granted::nothing(),
                    ),
                    Err(why) => Found::deny(text, rule, why),
                })
            }
        }
    }

    fn ruled(&self, simple: &Simple<'_>, program: &Program) -> Option<Ruled<'_>> {
        self.policy.rules.judge(&Call {
            program,
            argv: simple.argv,
            cwd: simple.cwd,
            facts: self.facts,
            workspace: &self.policy.workspace,
            used: &self.used,
            repeats: simple.repeats,
        })
    }

    fn program(&mut self, text: &str, simple: &Simple<'_>, program: &Program) -> Found {
        let ruled = self.ruled(simple, program);
        let Some(ruled) = ruled else {
            return self.by_default(text, simple, program);
        };
        if ruled.decision == Decision::Deny {
            return self.by_rule(text, &ruled, program);
        }
        if let Some(found) = self.unfit(text, simple, program) {
            return found;
        }
        self.by_rule(text, &ruled, program)
    }

    /// What no rule can allow: nowhere to run, no such program, words that may become options.
    fn unfit(&self, text: &str, simple: &Simple<'_>, program: &Program) -> Option<Found> {
        let built_in = RuleRef::built_in;
        match simple.cwd {
            None => {
                let rule = built_in("shell: the working folder must be known");
                let reason = "the folder it would run in can't be known; use `(cd FOLDER && …)`";
                return Some(Found::deny(text, rule, reason));
            }
            Some(cwd) => {
                if let Err((rule, why)) = self.policy.files.may_read(cwd) {
                    let reason = format!("commands run where files may be read: {why}");
                    return Some(Found::deny(text, rule, reason));
                }
            }
        }
        let is_builtin = !program.word.contains('/') && builtin(&program.word).is_some();
        if program.file.is_none() && !is_builtin {
            let reason = format!("there is no program `{}` on the clean PATH", program.word);
            return Some(Found::deny(
                text,
                built_in("programs: resolved on the clean PATH"),
                reason,
            ));
        }
        if let Some(word) = simple.argv.iter().skip(1).find(|word| word.may_be_unknown_option()) {
            let reason = format!(
                "`{}` could become an option; quote it and put text, `./` or `--` in front",
                word.display()
            );
            return Some(Found::deny(text, built_in("shell: options must be known"), reason));
        }
        None
    }

    fn by_rule(&self, text: &str, ruled: &Ruled<'_>, program: &Program) -> Found {
        let Some(rule) = ruled.rule else {
            let reason = ruled.near_miss.clone().unwrap_or_default();
            return Found::deny(text, self.policy.default.source.clone(), reason);
        };
        let reason = rule.reason.clone().unwrap_or_else(|| match ruled.decision {
            Decision::Allow => format!("allowed by `{}`", rule.cmd),
            Decision::Ask => format!("`{}` needs an approval", rule.cmd),
            Decision::Deny => format!("denied by `{}`", rule.cmd),
        });
        match ruled.decision {
            Decision::Deny => Found::deny(text, rule.source.clone(), reason),
            decision => {
                let mut found = Found::allow(
                    text,
                    rule.source.clone(),
                    reason,
                    Granted::by(rule, &self.policy, &program.base),
                );
                found.verdict.decision = decision;
                found
            }
        }
    }

    fn by_default(&mut self, text: &str, simple: &Simple<'_>, program: &Program) -> Found {
        let default = &self.policy.default;
        if default.decision == Decision::Deny {
            return Found::deny(text, default.source.clone(), self.no_rule(simple, program));
        }
        if program.writable || !program.is_usual() {
            let rule = RuleRef::built_in("programs: a path must be named by a rule");
            let reason = format!("`{}` lies where no rule names it by its path", program.word);
            return Found::deny(text, rule, reason);
        }
        if let Some(found) = self.unfit(text, simple, program) {
            return found;
        }
        let reason =
            format!("no rule speaks of `{}`; the default is {}", program.base, default.decision);
        let mut found = Found::allow(
            text,
            default.source.clone(),
            reason,
            Granted::by_default(&self.policy, &program.base),
        );
        found.verdict.decision = default.decision;
        found
    }

    /// Why no rule allows it, and the nearest form that is allowed.
    fn no_rule(&self, simple: &Simple<'_>, program: &Program) -> String {
        let forms = self.policy.rules.forms_of(program);
        if program.writable {
            return format!(
                "`{}` lies where this Turn can write; a rule must name it by its path",
                program.word
            );
        }
        if !program.is_usual() && !forms.is_empty() {
            return format!(
                "`{}` is not the `{}` that rules mean; call it by its bare name",
                program.word, program.base
            );
        }
        if forms.is_empty() {
            return format!("no rule allows `{}`", program.base);
        }
        let shown: Vec<String> = forms.iter().take(4).map(|form| format!("`{form}`")).collect();
        let more = if forms.len() > shown.len() { " and others" } else { "" };
        let _ = simple;
        format!("no rule allows it in this form; allowed: {}{more}", shown.join(", "))
    }

    /// Whether a script may set a variable; in the environment of a command, or only in the shell.
    pub fn may_assign(&self, name: &str, exported: bool) -> bool {
        if super::super::hazards::names::is_never_assignable(name) {
            return false;
        }
        let known = self.policy.passes(name);
        if exported { known } else { known || !Value::known(name).display().is_empty() }
    }
}
