//! From a request to a verdict: the one way that the runtime, `explain` and the tests all take.

use super::attributes::{Granted, combine};
use super::nearest::Nearest;
use super::part::Found;
use super::program::quote_words;
use crate::policy::facts::{CommandForm, CommandRequest, Facts, Judged};
use crate::policy::model::OnAsk;
use crate::policy::permit::{Command, ExecPermit};
use crate::policy::policy::Policy;
use crate::policy::shell::{Access, Judge, Lexed, Piece, Refusal, Simple, Word, lex, walk};
use crate::policy::value::Value;
use crate::protocol::{Decision, PartVerdict, RuleRef, Verdict};
use std::path::{Path, PathBuf};

/// At most this many different parts are judged; a script with more is denied.
const MAX_PARTS: usize = 500;

/// Gathers the verdicts on all parts of one request.
pub struct Verdicts<'a> {
    pub policy: &'a Policy,
    pub facts: &'a dyn Facts,
    pub parts: Vec<PartVerdict>,
    pub granted: Vec<Granted>,
    /// The rules with a limit of calls that this script used so far, one entry a use.
    pub used: Vec<RuleRef>,
    /// How many scripts are inside each other right now.
    pub scripts: usize,
    /// Whatever is judged now may run any number of times.
    pub repeats: bool,
    /// How many commands were judged, scripts inside scripts included.
    pub judged: usize,
    /// An ask came up that no approval may settle, since untrusted input is present.
    pub firm_ask: bool,
    /// The words of the command that is judged right now; nothing between commands.
    pub argv: Vec<String>,
    /// The form that would be allowed in the place of the first denied command.
    pub nearest: Nearest,
}

impl<'a> Verdicts<'a> {
    pub fn new(policy: &'a Policy, facts: &'a dyn Facts) -> Self {
        Self {
            policy,
            facts,
            parts: Vec::new(),
            granted: Vec::new(),
            used: Vec::new(),
            scripts: 0,
            repeats: false,
            judged: 0,
            firm_ask: false,
            argv: Vec::new(),
            nearest: Nearest::Unsought,
        }
    }

    pub fn push(&mut self, mut found: Found) {
        found.verdict.argv.clone_from(&self.argv);
        if let Some(granted) = found.granted {
            if granted.is_counted {
                self.used.push(found.verdict.rule.clone());
            }
            self.granted.push(granted);
        }
        self.firm_ask |= found.verdict.decision == Decision::Ask && !found.keeps_ask;
        if self.parts.contains(&found.verdict) {
            return;
        }
        match self.parts.len() {
            // A part that is not told must not be lost either.
            MAX_PARTS => {
                let rule = RuleRef::built_in("shell: limits");
                let reason = format!("it has more than {MAX_PARTS} different parts");
                self.parts.push(Found::deny("the script", rule, reason).verdict);
            }
            many if many > MAX_PARTS => {}
            _ => self.parts.push(found.verdict),
        }
    }

    /// A file action of the shell itself.
    fn file(&mut self, access: Access, path: &Path, shown: &str) {
        let (verb, ruling) = match access {
            Access::Read => ("read", self.policy.files.may_read(path)),
            Access::Write => ("write", self.policy.files.may_write(path)),
        };
        let part = format!("{verb} {shown}");
        let found = match ruling {
            Ok(rule) => {
                let reason = format!("files.{verb} covers it");
                Found::allow(&part, rule.clone(), reason, Granted::nothing())
            }
            Err((rule, why)) => Found::deny(&part, rule, why),
        };
        self.push(found);
    }
}

impl Judge for Verdicts<'_> {
    fn command(&mut self, simple: &Simple<'_>) {
        self.judged += 1;
        self.part(simple);
    }

    fn redirection(&mut self, access: Access, target: &Value, cwd: Option<&Path>) {
        let shown = quote_words(std::slice::from_ref(target));
        let part = format!("{} {shown}", if access == Access::Read { "read" } else { "write" });
        let rule = || RuleRef::built_in("shell: redirections must be known");
        let Some(text) = target.as_known() else {
            return self.push(Found::deny(&part, rule(), "the file can't be known before running"));
        };
        if text.is_empty() {
            return self.push(Found::deny(&part, rule(), "the file has no name"));
        }
        if text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/") {
            let reason = "bash opens a network connection for this name";
            return self.push(Found::deny(&part, rule(), reason));
        }
        let from = match cwd {
            Some(cwd) => cwd,
            None if text.starts_with('/') => Path::new("/"),
            None => {
                let reason = "the folder it would lie in can't be known";
                return self.push(Found::deny(&part, rule(), reason));
            }
        };
        // Device names are judged as written: what they lead to depends on the process.
        if crate::policy::files::HARMLESS_DEVICES.contains(&text) {
            return self.file(access, Path::new(text), &shown);
        }
        match self.facts.resolve(from, text) {
            Ok(path) => self.file(access, &path, &shown),
            Err(why) => self.push(Found::deny(&part, rule(), why)),
        }
    }

    fn assignment(&mut self, name: &str) {
        if !self.may_assign(name, false) {
            let rule = RuleRef::built_in("variables: some are never set by a script");
            let reason = format!("{name} decides what later commands do, so no script may set it");
            self.push(Found::deny(&format!("{name}=…"), rule, reason));
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        let rule = RuleRef::built_in("shell: what can't be known is denied");
        let place = match refusal.line {
            0 => String::new(),
            line => format!(" (line {line}, column {})", refusal.column),
        };
        self.push(Found::deny(&refusal.part, rule, format!("{}{place}", refusal.reason)));
    }

    fn resolve(&self, cwd: &Path, text: &str) -> Option<PathBuf> {
        self.facts.resolve(cwd, text).ok()
    }
}

impl Policy {
    /// Judges a command: every part of it, the strictest verdict stands.
    pub fn judge_command(&self, request: &CommandRequest, facts: &dyn Facts) -> Judged<ExecPermit> {
        let mut verdicts = Verdicts::new(self, facts);
        let (action, command) = match &request.form {
            CommandForm::Argv(words) => {
                (shortened(&words.join(" ")), self.argv(words, request, &mut verdicts))
            }
            CommandForm::Script(script) => {
                (shortened(script), self.script(script, request, &mut verdicts))
            }
        };
        self.conclude(action, command, request, verdicts)
    }

    fn argv(
        &self,
        words: &[String],
        request: &CommandRequest,
        verdicts: &mut Verdicts<'_>,
    ) -> Option<Command> {
        if words.iter().any(|word| word.contains('\0')) {
            verdicts.refuse(Refusal {
                part: shortened(&words.join(" ")),
                reason: "a word holds a NUL".into(),
                line: 0,
                column: 0,
            });
            return None;
        }
        let argv: Vec<Value> = words.iter().map(Value::known).collect();
        verdicts.command(&Simple {
            argv: &argv,
            assignments: &[],
            cwd: Some(&request.cwd),
            repeats: false,
        });
        let command = direct(words, request, verdicts.facts);
        if command.is_none() {
            let part = shortened(&words.join(" "));
            let rule = RuleRef::built_in("programs: resolved on the clean PATH");
            let reason = "no program has this name; what is part of a shell goes into a script";
            verdicts.push(Found::deny(&part, rule, reason));
        }
        command
    }

    fn script(
        &self,
        script: &str,
        request: &CommandRequest,
        verdicts: &mut Verdicts<'_>,
    ) -> Option<Command> {
        match lex(script) {
            Ok(lexed) if lexed.is_empty() => {
                verdicts.refuse(Refusal {
                    part: shortened(script),
                    reason: "there is no command".into(),
                    line: 0,
                    column: 0,
                });
                None
            }
            Ok(lexed) => {
                walk(&lexed, &request.cwd, verdicts);
                // Without anything for a shell to do, no shell is started.
                plain_words(&lexed)
                    .and_then(|words| direct(&words, request, verdicts.facts))
                    .or_else(|| Some(Command::Script(script.to_owned())))
            }
            Err(refusal) => {
                verdicts.refuse(refusal);
                None
            }
        }
    }

    fn conclude(
        &self,
        action: String,
        command: Option<Command>,
        request: &CommandRequest,
        verdicts: Verdicts<'_>,
    ) -> Judged<ExecPermit> {
        let Verdicts { parts, granted, firm_ask, nearest, .. } = verdicts;
        let strictest = parts.iter().map(|part| part.decision).max();
        let Some(worst) = strictest else {
            let verdict = Verdict {
                action,
                decision: Decision::Deny,
                asked: false,
                rule: RuleRef::built_in("shell: there is no command"),
                reason: "there is no command".into(),
                parts,
            };
            return Judged { verdict, permit: None };
        };
        let (decision, asked) = match worst {
            Decision::Ask if firm_ask => (Decision::Deny, true),
            Decision::Ask => (self.on_ask(), true),
            decision => (decision, false),
        };
        let deciding = parts
            .iter()
            .find(|part| part.decision == worst)
            .map(|part| (part.rule.clone(), part.part.clone(), part.reason.clone()));
        let is_command = parts
            .iter()
            .find(|part| part.decision == worst)
            .is_some_and(|part| !part.argv.is_empty());
        let (rule, part, why) = deciding.unwrap_or_else(|| {
            (RuleRef::built_in("shell: there is no command"), String::new(), String::new())
        });
        let (attributes, note) = combine(&granted, self);
        let mut reason = match (decision, asked) {
            (Decision::Deny, false) => format!("`{part}`: {why}"),
            (Decision::Deny, true) => {
                format!("`{part}`: {why}; nobody is here to approve it, and approvals say deny")
            }
            (_, true) => format!("{why}; approvals say approve"),
            (_, false) => why,
        };
        if let (Decision::Deny, false, true, Nearest::Form(form)) =
            (decision, asked, is_command, &nearest)
        {
            reason.push_str(&format!("; `{form}` would be allowed"));
        }
        if let (Decision::Allow, Some(note)) = (decision, note) {
            reason.push_str(&format!("; {note}"));
        }
        let verdict = Verdict { action, decision, asked, rule, reason, parts };
        let permit = match (decision, command) {
            (Decision::Allow, Some(command)) => {
                Some(ExecPermit::granted(command, request.cwd.clone(), attributes))
            }
            _ => None,
        };
        Judged { verdict, permit }
    }

    /// What an ask becomes here.
    fn on_ask(&self) -> Decision {
        match self.on_ask {
            OnAsk::Deny => Decision::Deny,
            OnAsk::Approve => Decision::Allow,
        }
    }
}

/// The words of a script that is one simple command without expansions, assignments or
/// redirections.
fn plain_words(lexed: &Lexed) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for word in lexed.only_words()? {
        words.push(word.literal()?);
    }
    let first: &Word = lexed.only_words()?.into_iter().next()?;
    let is_grammar = first.assigned_name().is_some() || first.is_element_assignment();
    let has_tilde = lexed
        .only_words()?
        .iter()
        .any(|word| word.pieces.iter().any(|piece| matches!(piece, Piece::Tilde | Piece::Brace)));
    (!is_grammar && !has_tilde).then_some(words)
}

/// A program with its words, if the first one leads to a file. Builtins of the grammar stay with
/// the shell.
fn direct(words: &[String], request: &CommandRequest, facts: &dyn Facts) -> Option<Command> {
    let first = words.first()?;
    if !first.contains('/')
        && crate::policy::shell::builtin(first)
            .is_some_and(|kind| kind == crate::policy::shell::Builtin::Grammar)
    {
        return None;
    }
    let program = if first.contains('/') {
        facts.resolve(&request.cwd, first).ok()?
    } else {
        facts.program(first)?
    };
    Some(Command::Argv { program, argv: words.to_vec() })
}

/// For people: one line, bounded.
pub fn shortened(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(200).map(shown).collect();
    if text.chars().nth(200).is_some() {
        short.push('…');
    }
    short
}
