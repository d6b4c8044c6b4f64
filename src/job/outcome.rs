//! The one computation of a Run's Outcome.
//!
//! Everything that may stand against success is turned into an Outcome of its own; the strictest of
//! them stands. There is no second flag that could disagree.

use crate::policy::OnDeny;
use crate::protocol::{Outcome, Signal, State, TurnEnd, TurnSummary};

/// What a Run came to, before it is judged.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The first signal that arrived before the Turn ended.
    pub signal: Option<Signal>,
    pub end: &'a TurnEnd,
    pub summary: &'a TurnSummary,
    pub on_deny: OnDeny,
    pub fail_on_changes: bool,
    pub changed: bool,
    /// What went wrong around the Turn: the diff's proof, the record, the artifacts.
    pub around: Vec<Outcome>,
}

/// The Outcome that stands.
pub fn judge(facts: &Facts<'_>) -> Outcome {
    let mut outcome = Outcome::new(State::Completed, "completed", "the turn completed");
    for other in candidates(facts) {
        outcome = outcome.strictest(other);
    }
    outcome
}

fn candidates(facts: &Facts<'_>) -> Vec<Outcome> {
    let mut all = facts.around.clone();
    if let Some(signal) = facts.signal {
        all.push(interrupted(signal));
    }
    match facts.end {
        TurnEnd::Completed => all.extend(completed(facts)),
        TurnEnd::Aborted { reason, message } => all.push(aborted(facts.signal, reason, message)),
        TurnEnd::Failed { reason, message, retryable } => {
            all.push(failed(reason, message, *retryable))
        }
    }
    all
}

pub(super) fn interrupted(signal: Signal) -> Outcome {
    let message = format!("the run was interrupted by {}", signal.name());
    Outcome::new(State::Interrupted(signal), "interrupted", message).retryable(true)
}

/// The time limit was reached after the Turn.
pub(super) fn out_of_time() -> Outcome {
    let message = "the time limit was reached while hooks were told of the end";
    Outcome::new(State::TimedOut, "limit.time", message)
        .hint("raise limits.time (--timeout), or shorten what run_end does")
        .retryable(true)
}

pub(super) const HOOK_HINT: &str =
    "what it printed is in the rollout (turnkey rollout show --json); mend the hook";

/// A Turn that completed can still fall short of what the operator asked for.
fn completed(facts: &Facts<'_>) -> Vec<Outcome> {
    let mut all = Vec::new();
    let summary = facts.summary;
    if let Some(first) = summary.unmet.first() {
        let more = match summary.unmet.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        all.push(
            Outcome::new(State::Unverified, &first.reason, format!("{}{more}", first.message))
                .hint("the failing checks are in result.json and summary.md; the diff is kept"),
        );
    }
    if let Some(denial) = &summary.first_denial {
        if summary.calls.with_effect == 0 {
            all.push(
                Outcome::new(
                    State::Blocked,
                    "policy.all_denied",
                    format!(
                        "nothing took effect and the policy denied {} calls; first: {denial}",
                        summary.calls.denied
                    ),
                )
                .hint("allow what the task needs in the policy, or narrow the task"),
            );
        } else if facts.on_deny == OnDeny::FailAtEnd {
            all.push(
                Outcome::new(
                    State::Blocked,
                    "policy.on_deny",
                    format!("the policy fails a run with denials (on_deny: fail_at_end); first: {denial}"),
                )
                .hint("the denials are listed in result.json"),
            );
        }
    }
    if facts.fail_on_changes && facts.changed {
        all.push(
            Outcome::new(State::ChangesFound, "changes_found", "the session changed files")
                .hint("turn.diff holds the change"),
        );
    }
    all
}

fn aborted(signal: Option<Signal>, reason: &str, message: &str) -> Outcome {
    match reason {
        "limit.time" => Outcome::new(State::TimedOut, reason, message)
            .hint("raise limits.time (--timeout), or give the task in smaller parts")
            .retryable(true),
        _ if reason.starts_with("limit.") => Outcome::new(State::LimitReached, reason, message)
            .hint("raise the limit in the spec or by its flag; the diff so far is kept"),
        _ if reason.starts_with("policy.") => Outcome::new(State::Blocked, reason, message)
            .hint("allow what the task needs in the policy, or narrow the task"),
        _ if reason.starts_with("hook.") => Outcome::new(State::Blocked, reason, message)
            .hint("the operator's own hook refused it; its reason is in the message"),
        // Whoever interrupts without a signal is the controlling side going away.
        _ => Outcome::new(State::Interrupted(signal.unwrap_or(Signal::Term)), reason, message)
            .retryable(true),
    }
}

fn failed(reason: &str, message: &str, retryable: bool) -> Outcome {
    let state = match reason.split('.').next() {
        Some("model") => State::ModelFailed,
        Some("rollout" | "workspace" | "artifacts" | "sandbox" | "hook") => State::Unavailable,
        _ => State::Internal,
    };
    let hint = match reason {
        "sandbox.protected" => PROTECTED_HINT,
        _ if reason.starts_with("hook.") => HOOK_HINT,
        _ => "",
    };
    Outcome::new(state, reason, message).hint(hint).retryable(retryable)
}

const PROTECTED_HINT: &str = "a protected place may not be what it was: take a fresh checkout, and run \
                              where namespaces can be had, so that it cannot be changed at all";

/// A protected place was changed and could not be put back.
pub(super) fn breached(why: &str) -> Outcome {
    Outcome::new(State::Unavailable, "sandbox.protected", why).hint(PROTECTED_HINT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{CallCounts, Unmet};

    fn state(
        end: TurnEnd,
        change: impl FnOnce(&mut TurnSummary, &mut Facts<'_>),
    ) -> (State, String) {
        let mut summary = TurnSummary::default();
        let nothing = TurnSummary::default();
        let mut facts = Facts {
            signal: None,
            end: &end,
            summary: &nothing,
            on_deny: OnDeny::Continue,
            fail_on_changes: false,
            changed: false,
            around: Vec::new(),
        };
        change(&mut summary, &mut facts);
        facts.summary = &summary;
        let outcome = judge(&facts);
        (outcome.state, outcome.reason)
    }

    fn aborted_by(reason: &str) -> TurnEnd {
        TurnEnd::Aborted { reason: reason.into(), message: "m".into() }
    }

    #[test]
    fn every_end_of_a_turn_has_its_state() {
        let fail = |reason: &str| TurnEnd::Failed {
            reason: reason.into(),
            message: "m".into(),
            retryable: false,
        };
        let cases = [
            (TurnEnd::Completed, State::Completed),
            (aborted_by("limit.time"), State::TimedOut),
            (aborted_by("limit.steps"), State::LimitReached),
            (aborted_by("policy.on_deny"), State::Blocked),
            (aborted_by("interrupted"), State::Interrupted(Signal::Term)),
            (fail("model.auth"), State::ModelFailed),
            (aborted_by("hook.user_prompt"), State::Blocked),
            (fail("hook.user_prompt"), State::Unavailable),
            (fail("rollout.write"), State::Unavailable),
            (fail("internal.turn"), State::Internal),
            (fail("never.heard.of"), State::Internal),
        ];
        for (end, want) in cases {
            assert_eq!(state(end.clone(), |_, _| {}).0, want, "{end:?}");
        }
    }

    #[test]
    fn d08_nothing_that_stands_against_success_is_lost() {
        let unmet = || Unmet { reason: "verify.command".into(), ..blank() };
        let got = state(TurnEnd::Completed, |summary, _| summary.unmet = vec![unmet()]);
        assert_eq!(got, (State::Unverified, "verify.command".into()));
        let got = state(TurnEnd::Completed, |summary, _| {
            summary.first_denial = Some("x".into());
            summary.unmet = vec![unmet()];
        });
        assert_eq!(got.0, State::Blocked);
        let got = state(TurnEnd::Completed, |summary, facts| {
            summary.first_denial = Some("x".into());
            summary.calls = CallCounts { with_effect: 1, denied: 1, ..CallCounts::default() };
            facts.on_deny = OnDeny::FailAtEnd;
        });
        assert_eq!(got, (State::Blocked, "policy.on_deny".into()));
        let got = state(TurnEnd::Completed, |_, facts| {
            facts.signal = Some(Signal::Int);
            facts.changed = true;
            facts.fail_on_changes = true;
        });
        assert_eq!(got.0, State::Interrupted(Signal::Int));
        let got = state(TurnEnd::Completed, |_, facts| {
            (facts.changed, facts.fail_on_changes) = (true, true);
        });
        assert_eq!(got.0, State::ChangesFound);
        let got = state(aborted_by("limit.steps"), |_, facts| {
            facts.around.push(Outcome::new(State::Internal, "diff.proof", "m"));
        });
        assert_eq!(got.0, State::Internal);
    }

    fn blank() -> Unmet {
        Unmet { reason: String::new(), message: String::new(), detail: String::new() }
    }
}
