//! What a run's Events say for its result: denials, checks, warnings, and how the Turn ended.

use crate::protocol::{
    CallId, Event, EventMsg, ProcessEnd, RuleRef, TurnEnd, TurnSummary, Verdict,
};
use crate::rollout::{CheckPhase, CheckRecord};
use std::collections::BTreeMap;

/// At the most this many of a kind are kept for the result; the rollout has them all.
const MAX_KEPT: usize = 1_000;

/// One thing that the policy refused.
#[derive(Debug, Clone)]
pub struct DeniedCall {
    pub step: u32,
    pub call_id: Option<CallId>,
    pub action: String,
    /// The words of the command that was refused; nothing where it is no command.
    pub argv: Vec<String>,
    pub rule: RuleRef,
    pub reason: String,
}

/// How often a hook ran, and with what answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HookCounts {
    pub times: u64,
    pub denials: u64,
    pub errors: u64,
    pub duration_ms: u64,
}

/// Gathered while a run works.
#[derive(Debug, Default)]
pub struct Collected {
    pub denials: Vec<DeniedCall>,
    pub checks: Vec<CheckRecord>,
    pub warnings: Vec<String>,
    /// Commands that outlived their call.
    pub processes: Vec<ProcessEnd>,
    /// What became of each hook that was asked or told, by its name.
    pub hooks: BTreeMap<String, HookCounts>,
    pub end: Option<(TurnEnd, TurnSummary)>,
}

impl Collected {
    pub fn event(&mut self, event: &Event) {
        match &event.msg {
            EventMsg::Verdict { call_id, step, verdict } if !verdict.is_allow() => {
                self.denied(call_id.clone(), *step, verdict);
            }
            EventMsg::VerifyDone {
                attempt,
                name,
                argv,
                passed,
                exit_code,
                timed_out,
                output_tail,
                duration_ms,
            } => {
                self.checks.push(CheckRecord {
                    attempt: *attempt,
                    phase: CheckPhase::Workspace,
                    name: name.clone(),
                    argv: argv.clone(),
                    passed: *passed,
                    exit_code: *exit_code,
                    timed_out: *timed_out,
                    output_tail: output_tail.clone(),
                    duration_ms: *duration_ms,
                    changed: Vec::new(),
                });
            }
            EventMsg::Warning { text } if self.warnings.len() < MAX_KEPT => {
                self.warnings.push(text.clone());
            }
            EventMsg::ProcessEnded { process } if self.processes.len() < MAX_KEPT => {
                self.processes.push(process.clone());
            }
            EventMsg::HookDone { hook, outcome, duration_ms, .. } => {
                let counts = self.hooks.entry(hook.clone()).or_default();
                counts.times += 1;
                counts.denials += u64::from(matches!(outcome.as_str(), "deny" | "block"));
                counts.errors += u64::from(matches!(outcome.as_str(), "error" | "timeout"));
                counts.duration_ms += duration_ms;
            }
            EventMsg::TurnEnded { end, summary, .. } => {
                self.end = Some((end.clone(), summary.as_ref().clone()));
            }
            _ => {}
        }
    }

    fn denied(&mut self, call_id: Option<CallId>, step: u32, verdict: &Verdict) {
        if self.denials.len() >= MAX_KEPT {
            return;
        }
        let worst = verdict.parts.iter().map(|part| part.decision).max();
        let deciding = verdict.parts.iter().find(|part| Some(part.decision) == worst);
        self.denials.push(DeniedCall {
            step,
            call_id,
            action: verdict.action.clone(),
            argv: deciding.map(|part| part.argv.clone()).unwrap_or_default(),
            rule: verdict.rule.clone(),
            reason: verdict.reason.clone(),
        });
    }
}
