//! `policy test`: the cases that the policy file itself brings.

use crate::policy::facts::{CommandRequest, Facts};
use crate::policy::policy::Policy;
use crate::protocol::{Decision, RuleRef};
use serde::Serialize;
use std::path::Path;

/// What became of one test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestOutcome {
    pub run: String,
    pub expect: Decision,
    pub got: Decision,
    pub passed: bool,
    /// Where the test stands.
    pub test: RuleRef,
    /// The rule that decided, and why.
    pub rule: RuleRef,
    pub reason: String,
}

/// Runs every test of the policy.
pub fn run_tests(policy: &Policy, facts: &dyn Facts) -> Vec<TestOutcome> {
    policy
        .tests()
        .iter()
        .map(|test| {
            let cwd = match &test.cwd {
                Some(folder) => facts
                    .resolve(policy.workspace(), folder)
                    .unwrap_or_else(|_| policy.workspace().join(folder)),
                None => Path::to_path_buf(policy.workspace()),
            };
            let request = CommandRequest::script(test.run.clone(), cwd);
            let verdict = policy.judge_command(&request, facts).verdict;
            let got = if verdict.asked { Decision::Ask } else { verdict.decision };
            TestOutcome {
                run: test.run.clone(),
                expect: test.expect,
                got,
                // An ask that approvals settled is what it became, too.
                passed: test.expect == got || (verdict.asked && test.expect == verdict.decision),
                test: test.source.clone(),
                rule: verdict.rule,
                reason: verdict.reason,
            }
        })
        .collect()
}
