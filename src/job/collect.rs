//! What a run's Events say for its result: denials, checks, warnings, and how the Turn ended.

use crate::protocol::{
    CallId, Event, EventMsg, ProcessEnd, RuleRef, TurnEnd, TurnSummary, Verdict,
};
use crate::rollout::{CheckPhase, CheckRecord};
use std::collections::HashMap;

/// At the most this many of a kind are kept for the result; the rollout has them all.
const MAX_KEPT: usize = 1_000;

/// One thing that the policy refused.
#[derive(Debug, Clone)]
pub struct DeniedCall {
    pub step: u32,
    pub call_id: Option<CallId>,
    pub action: String,
    pub argv: Vec<String>,
    pub rule: RuleRef,
    pub reason: String,
}

/// Gathered while a run works.
#[derive(Debug, Default)]
pub struct Collected {
    pub denials: Vec<DeniedCall>,
    pub checks: Vec<CheckRecord>,
    pub warnings: Vec<String>,
    /// Commands that outlived their call.
    pub processes: Vec<ProcessEnd>,
    pub end: Option<(TurnEnd, TurnSummary)>,
    argv: HashMap<CallId, String>,
}

impl Collected {
    pub fn event(&mut self, event: &Event) {
        match &event.msg {
            EventMsg::CallStarted { call } => {
                let text: String = call.payload.as_str().chars().take(2_000).collect();
                self.argv.insert(call.call_id.clone(), text);
            }
            EventMsg::CallDone { result } => {
                self.argv.remove(&result.call_id);
            }
            EventMsg::Verdict { call_id, step, verdict } if !verdict.is_allow() => {
                self.denied(call_id.clone(), *step, verdict);
            }
            EventMsg::VerifyDone { attempt, name, passed, exit_code, duration_ms } => {
                self.checks.push(CheckRecord {
                    attempt: *attempt,
                    phase: CheckPhase::Workspace,
                    name: name.clone(),
                    passed: *passed,
                    exit_code: *exit_code,
                    duration_ms: *duration_ms,
                    ..CheckRecord::default()
                });
            }
            EventMsg::Warning { text } if self.warnings.len() < MAX_KEPT => {
                self.warnings.push(text.clone());
            }
            EventMsg::ProcessEnded { process } if self.processes.len() < MAX_KEPT => {
                self.processes.push(process.clone());
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
        let argv = call_id.as_ref().and_then(|id| self.argv.get(id)).cloned();
        self.denials.push(DeniedCall {
            step,
            call_id,
            action: verdict.action.clone(),
            argv: argv.into_iter().collect(),
            rule: verdict.rule.clone(),
            reason: verdict.reason.clone(),
        });
    }
}
