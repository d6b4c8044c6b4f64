//! Judging a call of a program: rules, hazards, and the files it names.

use super::attributes::Granted;
use super::judge::Verdicts;
use super::part::Found;
use crate::policy::hazards::{self, Access, Examined, FileUse, git::config::Tamed};
use crate::policy::model::{Rule, SandboxLevel};
use crate::policy::rules::{Program, Ruled};
use crate::policy::shell::{Simple, builtin};
use crate::policy::value::Value;
use crate::protocol::{Decision, RuleRef};
use std::path::Path;

impl Verdicts<'_> {
    pub fn program(&self, text: &str, simple: &Simple<'_>, program: &Program) -> Found {
        let ruled = self.ruled(simple, program);
        if let Some(ruled) = &ruled
            && ruled.decision == Decision::Deny
        {
            return self.by_rule(text, ruled, Granted::nothing());
        }
        if ruled.is_none()
            && let Some(found) = self.refused_by_default(text, simple.argv, program)
        {
            return found;
        }
        let examined = hazards::examine(&program.base, program.target.as_deref(), simple.argv);
        let rule = ruled.as_ref().and_then(|ruled| ruled.rule);
        if let Some(found) = self.unfit(text, simple, program, &examined) {
            return found;
        }
        if let Some(found) = self.hazardous(text, simple, program, rule, &examined) {
            return found;
        }
        let tamed = match self.git(text, simple, program, &examined) {
            Ok(tamed) => tamed,
            Err(found) => return *found,
        };
        if let Some(found) = self.files(text, simple, &examined) {
            return found;
        }
        match ruled {
            Some(ruled) => {
                let granted = ruled.rule.map_or_else(Granted::nothing, |rule| {
                    Granted::by(rule, self.policy, &examined, tamed)
                });
                self.by_rule(text, &ruled, granted)
            }
            None => self.by_default(text, program, &examined, tamed),
        }
    }

    /// No rule speaks, and the default does not carry it.
    fn refused_by_default(&self, text: &str, argv: &[Value], program: &Program) -> Option<Found> {
        let default = &self.policy.default;
        if default.decision == Decision::Deny {
            let mut reason = self.no_rule(program);
            if let Some(word) = argv.iter().find(|word| word.as_known().is_none()) {
                reason = format!("`{}` can't be known before running; {reason}", word.display());
            }
            return Some(Found::deny(text, default.source.clone(), reason));
        }
        if program.writable || !program.is_usual() {
            let rule = RuleRef::built_in("programs: a path must be named by a rule");
            let reason = format!("`{}` lies where no rule names it by its path", program.word);
            return Some(Found::deny(text, rule, reason));
        }
        None
    }

    /// What no rule can allow: nowhere to run, no such program, words that may become options.
    fn unfit(
        &self,
        text: &str,
        simple: &Simple<'_>,
        program: &Program,
        examined: &Examined,
    ) -> Option<Found> {
        let built_in = RuleRef::built_in;
        let Some(cwd) = simple.cwd else {
            let rule = built_in("shell: the working folder must be known");
            let reason = "the folder it would run in can't be known; use `(cd FOLDER && …)`";
            return Some(Found::deny(text, rule, reason));
        };
        if cwd != self.policy.workspace
            && let Err((rule, why)) = self.policy.files.may_read(cwd)
        {
            let reason = format!("commands run where files may be read: {why}");
            return Some(Found::deny(text, rule, reason));
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
        if examined.known {
            return None;
        }
        let word = simple.argv.iter().skip(1).find(|word| word.may_be_unknown_option())?;
        let reason = format!(
            "`{}` could become an option; put known text or `./` in front, or quote it behind some",
            word.display()
        );
        Some(Found::deny(text, built_in("shell: options must be known"), reason))
    }

    /// A hazard stands only where the rule spells it out.
    fn hazardous(
        &self,
        text: &str,
        simple: &Simple<'_>,
        program: &Program,
        rule: Option<&Rule>,
        examined: &Examined,
    ) -> Option<Found> {
        let spelled = |hazard: &hazards::Hazard| {
            let Some(rule) = rule else { return false };
            if hazard.whole {
                return rule.pattern.is_spelled_out();
            }
            simple
                .argv
                .get(hazard.index)
                .and_then(Value::as_known)
                .is_some_and(|word| rule.pattern.spells_at(hazard.index, word))
        };
        let hazard = examined.hazards.iter().find(|hazard| !spelled(hazard))?;
        let mut reason = hazard.why.clone();
        if let Some(rule) = rule
            && rule.pattern.has_rest()
        {
            reason.push_str(&format!("; `{}` does not spell it out", rule.cmd));
        }
        let rule = RuleRef::built_in(format!("hazards: {}", program.base));
        Some(Found::deny(text, rule, reason))
    }

    /// What the repository's configuration could do in this call.
    fn git(
        &self,
        text: &str,
        simple: &Simple<'_>,
        program: &Program,
        examined: &Examined,
    ) -> Result<Option<Tamed>, Box<Found>> {
        if program.base != "git" && program.target.as_deref() != Some("git") {
            return Ok(None);
        }
        let config = simple.cwd.and_then(|cwd| self.facts.git_config(cwd));
        let tamed = Tamed::read(config.as_deref());
        if examined.may_run_external_diff && tamed.external_diff {
            let rule = RuleRef::built_in("hazards: git");
            let reason = "the repository's configuration may name a program that shows \
                          differences; write `git diff --no-ext-diff …`";
            return Err(Box::new(Found::deny(text, rule, reason)));
        }
        Ok(Some(tamed))
    }

    /// The first file that the command may not use.
    fn files(&self, text: &str, simple: &Simple<'_>, examined: &Examined) -> Option<Found> {
        let cwd = simple.cwd?;
        examined.files.iter().find_map(|file| {
            let (rule, why) = self.file_use(cwd, file).err()?;
            Some(Found::deny(text, rule, why))
        })
    }

    fn file_use(&self, cwd: &Path, file: &FileUse) -> Result<(), (RuleRef, String)> {
        let built_in = |text: &str, why: String| Err((RuleRef::built_in(text), why));
        let text = match &file.value {
            Value::Known(text) => text,
            Value::Unknown(unknown) => {
                if let Some(glob) = &unknown.glob {
                    return self.glob_use(cwd, file.access, &unknown.prefix, glob);
                }
                let is_held = self.policy.sandbox.level == SandboxLevel::Require;
                let only_read = matches!(file.access, Access::Read | Access::Mentioned);
                if only_read && is_held {
                    // The sandbox is required, and it keeps reads inside the same rules.
                    return Ok(());
                }
                let why = format!("which file {} is can't be known before running", unknown.text);
                return built_in("files: what is not known is not touched", why);
            }
        };
        if text.is_empty() || (text == "-" && file.access == Access::Read) {
            return Ok(());
        }
        if crate::policy::files::HARMLESS_DEVICES.contains(&text.as_str()) {
            return Ok(());
        }
        let path = match self.facts.resolve(cwd, text) {
            Ok(path) => path,
            Err(why) => return built_in("files: resolved paths only", why),
        };
        let files = &self.policy.files;
        match file.access {
            Access::Read => files.may_read(&path).map(|_| ()),
            Access::Mentioned => files.must_not_read(&path).map_or(Ok(()), Err),
            Access::Write => files.may_write(&path).map(|_| ()),
            Access::Replace => {
                files.may_write(&path)?;
                match files.protected_below(&path) {
                    Some(pattern) => {
                        let why = format!("{text} holds `{}`, which is protected", pattern.text);
                        Err((pattern.rule.clone(), why))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// A glob stays in the folder before it, when nothing in it climbs.
    fn glob_use(
        &self,
        cwd: &Path,
        access: Access,
        prefix: &str,
        glob: &str,
    ) -> Result<(), (RuleRef, String)> {
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder_text = match (folder.is_empty(), prefix.starts_with('/')) {
            (true, true) => "/",
            (true, false) => ".",
            _ => folder,
        };
        let escaped = globset::escape(folder);
        let rest = glob.strip_prefix(&escaped).unwrap_or(glob).trim_start_matches('/');
        // `.*` names `..` as well in older shells.
        if rest.split('/').any(|part| part.starts_with('.') && part != ".") {
            let rule = RuleRef::built_in("files: what is not known is not touched");
            return Err((rule, format!("`{glob}` may climb out of its folder; name the files")));
        }
        let path = self
            .facts
            .resolve(cwd, folder_text)
            .map_err(|why| (RuleRef::built_in("files: resolved paths only"), why))?;
        let files = &self.policy.files;
        match access {
            Access::Read | Access::Mentioned => files.may_read_glob(&path, rest).map(|_| ()),
            Access::Write | Access::Replace => files.may_write_glob(&path, rest).map(|_| ()),
        }
    }

    pub fn by_rule(&self, text: &str, ruled: &Ruled<'_>, granted: Granted) -> Found {
        let Some(rule) = ruled.rule else {
            let reason = ruled.near_miss.clone().unwrap_or_default();
            return Found::deny(text, self.policy.default.source.clone(), reason);
        };
        let reason = rule.reason.clone().unwrap_or_else(|| match ruled.decision {
            Decision::Allow => format!("allowed by `{}`", rule.cmd),
            Decision::Ask => format!("`{}` needs an approval", rule.cmd),
            Decision::Deny => format!("denied by `{}`", rule.cmd),
        });
        let granted = (ruled.decision != Decision::Deny).then_some(granted);
        let keeps_ask = !self.policy.untrusted || rule.even_if_untrusted;
        let found = Found::new(text, ruled.decision, rule.source.clone(), reason, granted);
        Found { keeps_ask, ..found }
    }

    fn by_default(
        &self,
        text: &str,
        program: &Program,
        examined: &Examined,
        tamed: Option<Tamed>,
    ) -> Found {
        let default = &self.policy.default;
        let reason =
            format!("no rule speaks of `{}`; the default is {}", program.base, default.decision);
        let granted = Granted::by_default(self.policy, &program.base, examined, tamed);
        let found =
            Found::new(text, default.decision, default.source.clone(), reason, Some(granted));
        Found { keeps_ask: !self.policy.untrusted, ..found }
    }

    /// Why no rule allows it, and the nearest form that is allowed.
    fn no_rule(&self, program: &Program) -> String {
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
        format!("no rule allows it in this form; allowed: {}{more}", shown.join(", "))
    }
}
