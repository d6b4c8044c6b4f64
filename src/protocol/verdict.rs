//! What the policy says of an action, in the form that events, the rollout and the model share.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The decision itself, ordered by strictness: the strictest of several stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    Ask,
    Deny,
}

impl Decision {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a verdict came from: a rule in a file, a preset, or a built-in reason (line 0).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRef {
    /// The policy file as it was named, `preset:NAME`, or `built-in`.
    pub file: String,
    /// 1-based; 0 where there is no line.
    pub line: u32,
    pub column: u32,
    /// The rule as written, or a short name such as `exec.default`.
    pub text: String,
}

impl RuleRef {
    /// A rule that stands in no file: a default, or a limit of the analysis.
    pub fn built_in(text: impl Into<String>) -> Self {
        Self { file: "built-in".into(), line: 0, column: 0, text: text.into() }
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.file, self.text)
        } else {
            write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.text)
        }
    }
}

/// The verdict on one part of an action: one simple command of a script, one path of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartVerdict {
    /// The part as it would act, e.g. `touch CANARY` or `write src/a.rs`.
    pub part: String,
    /// The words of the command, a word that isn't known as it is written; nothing where the part is no
    /// command. Long ones are cut, and end in `…`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    pub decision: Decision,
    pub rule: RuleRef,
    /// Why, in one sentence; from the rule's `reason` where it has one.
    pub reason: String,
}

/// The verdict on a whole action: the strictest of its parts, after approvals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What was judged, shortened for people.
    pub action: String,
    /// What stands, approvals applied: allow or deny.
    pub decision: Decision,
    /// What the rules alone said; `ask` here and `allow` or `deny` above means approvals decided.
    pub asked: bool,
    /// The rule that decided.
    pub rule: RuleRef,
    pub reason: String,
    /// Every part that was judged, in order.
    pub parts: Vec<PartVerdict>,
}

impl Verdict {
    /// A denial as a whole, not of parts.
    pub fn denied(action: impl Into<String>, rule: RuleRef, reason: impl Into<String>) -> Self {
        Self {
            action: action.into(),
            decision: Decision::Deny,
            asked: false,
            rule,
            reason: reason.into(),
            parts: Vec::new(),
        }
    }

    pub fn is_allow(&self) -> bool {
        self.decision == Decision::Allow
    }
}
