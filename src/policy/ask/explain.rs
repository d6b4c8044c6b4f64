//! `policy explain`: what would become of a command, part by part, and what would hold it.

use crate::policy::facts::{CommandForm, CommandRequest, Facts};
use crate::policy::model::SandboxLevel;
use crate::policy::permit::{Command, Network};
use crate::policy::policy::Policy;
use crate::policy::shell::{lex, outline};
use crate::protocol::{Decision, PartVerdict, RuleRef};
use serde::Serialize;
use std::fmt;

/// The whole answer; rendered for people by `Display`.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    pub command: String,
    pub cwd: String,
    pub decision: Decision,
    /// The rules said ask, and approvals decided.
    pub asked: bool,
    pub rule: RuleRef,
    pub reason: String,
    /// The shape of the script, a line each.
    pub tree: Vec<String>,
    pub parts: Vec<ExplainedPart>,
    /// How it would run: the program's file, or bash; nothing when it would not.
    pub runs: Option<String>,
    pub network: Option<String>,
    pub timeout_seconds: Option<u64>,
    /// Names of the variables that the rule sets.
    pub environment: Vec<String>,
    pub sandbox: String,
    pub policy_digest: String,
}

/// One part with its verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedPart {
    pub part: String,
    pub decision: Decision,
    /// `file:line:column: text`
    pub rule: String,
    pub reason: String,
}

impl From<&PartVerdict> for ExplainedPart {
    fn from(part: &PartVerdict) -> Self {
        Self {
            part: part.part.clone(),
            decision: part.decision,
            rule: part.rule.to_string(),
            reason: part.reason.clone(),
        }
    }
}

/// Explains a command by judging it.
pub fn explain(policy: &Policy, request: &CommandRequest, facts: &dyn Facts) -> Explanation {
    let judged = policy.judge_command(request, facts);
    let (command, tree) = match &request.form {
        CommandForm::Argv(words) => (words.join(" "), vec![words.join(" ")]),
        CommandForm::Script(script) => {
            let tree = lex(script).and_then(|lexed| outline(&lexed));
            let tree = tree.unwrap_or_else(|refusal| {
                vec![format!("(not read: {}: {})", refusal.part, refusal.reason)]
            });
            (script.clone(), tree)
        }
    };
    let permit = judged.permit.as_ref();
    let attributes = permit.map(|permit| permit.attributes());
    Explanation {
        command,
        cwd: request.cwd.display().to_string(),
        decision: judged.verdict.decision,
        asked: judged.verdict.asked,
        rule: judged.verdict.rule.clone(),
        reason: judged.verdict.reason.clone(),
        tree,
        parts: judged.verdict.parts.iter().map(ExplainedPart::from).collect(),
        runs: permit.map(|permit| match permit.command() {
            Command::Argv { program, .. } => program.display().to_string(),
            Command::Script(_) => "bash, without profile and rc".to_owned(),
        }),
        network: attributes.map(|attributes| network(&attributes.network)),
        timeout_seconds: attributes
            .map(|attributes| attributes.timeout.unwrap_or(policy.limits().timeout).as_secs()),
        environment: attributes
            .map(|attributes| attributes.env.iter().map(|(name, _)| name.clone()).collect())
            .unwrap_or_default(),
        sandbox: sandbox(policy),
        policy_digest: policy.digest().to_owned(),
    }
}

fn network(network: &Network) -> String {
    match network {
        Network::None => "none".into(),
        Network::Loopback => "loopback".into(),
        Network::Hosts(hosts) => hosts.join(", "),
        Network::Open => "open".into(),
    }
}

/// What the policy asks of the sandbox; what this machine gives is `doctor`'s to say.
fn sandbox(policy: &Policy) -> String {
    let mode = policy.sandbox();
    let mut text = match mode.level {
        SandboxLevel::Require if mode.accept_reverted => {
            "required; what can't be prevented is undone afterwards".to_owned()
        }
        SandboxLevel::Require => "required; the run does not start without it".to_owned(),
        SandboxLevel::BestEffort => "whatever can be had".to_owned(),
        SandboxLevel::Off => {
            "OFF: only this policy stands between the command and the machine".into()
        }
    };
    if !mode.layers.is_empty() {
        text.push_str(&format!("; layers: {}", mode.layers.join(", ")));
    }
    if !mode.switches.is_empty() {
        text.push_str(&format!("; opened: {}", mode.switches.join(", ")));
    }
    text
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.decision, self.reason)?;
        writeln!(f, "  rule: {}", self.rule)?;
        if self.asked {
            writeln!(f, "  asked: the rules said ask; approvals decided")?;
        }
        writeln!(f, "read as:")?;
        for line in &self.tree {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "parts:")?;
        for part in &self.parts {
            writeln!(f, "  {:<5} {}", part.decision.as_str(), part.part)?;
            writeln!(f, "        {} ({})", part.reason, part.rule)?;
        }
        if let Some(runs) = &self.runs {
            writeln!(f, "runs:    {runs}, in {}", self.cwd)?;
        }
        if let Some(network) = &self.network {
            writeln!(f, "network: {network}")?;
        }
        if let Some(seconds) = self.timeout_seconds {
            writeln!(f, "timeout: {seconds} s")?;
        }
        if !self.environment.is_empty() {
            writeln!(f, "sets:    {}", self.environment.join(", "))?;
        }
        writeln!(f, "sandbox: {}", self.sandbox)?;
        write!(f, "policy:  {}", self.policy_digest)
    }
}
