//! The ledger of a Turn: what may be used, what was, and the notes the model gets on the way.

use super::reserve::Measured;
use crate::protocol::{CallCounts, ResultKind, ToolCall, ToolResult, TurnEnd, Usage};
use crate::spec::Prices;
use std::time::{Duration, Instant};

/// Bounds of a Turn.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Samplings.
    pub steps: u32,
    pub tool_calls: Option<u32>,
    /// Input and output tokens together, retries included.
    pub tokens: Option<u64>,
    /// Money at the most, with the prices it is counted by.
    pub cost: Option<(f64, Prices)>,
    /// The run's wall-clock limit and the moment it is reached.
    pub time: Duration,
    pub deadline: Instant,
    /// Equal failing calls in a row.
    pub equal_failures: u32,
    /// Equal denied calls in a row.
    pub equal_denials: u32,
}

/// Shares of the step limit at which the model is told.
const NOTES: [u32; 3] = [50, 80, 95];

/// What a Turn has used.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub steps: u32,
    pub usage: Usage,
    pub calls: CallCounts,
    pub measured: Measured,
    noted: u32,
    last: Option<(String, ResultKind)>,
    equal: u32,
}

impl Ledger {
    #[cfg(test)]
    pub fn used(usage: Usage) -> Self {
        Self { usage, ..Self::default() }
    }

    /// Whether another sampling may be made.
    pub fn before_step(&self, limits: &Limits) -> Result<(), TurnEnd> {
        if self.steps >= limits.steps {
            return Err(reached(
                "limit.steps",
                format!("the limit of {} steps was reached", limits.steps),
            ));
        }
        if let Some((limit, prices)) = &limits.cost {
            let spent = cost(prices, self.usage);
            if spent >= *limit {
                let message = format!("the calls so far cost {spent:.4}; the limit is {limit}");
                return Err(reached("limit.cost", message));
            }
        }
        match limits.tokens {
            Some(tokens) if self.usage.total() >= tokens => Err(reached(
                "limit.tokens",
                format!("{} tokens were used; the limit is {tokens}", self.usage.total()),
            )),
            _ => Ok(()),
        }
    }

    /// Whether the calls of a response may start.
    pub fn before_calls(&self, limits: &Limits, calls: usize) -> Result<(), TurnEnd> {
        let wanted = self.calls.total.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
        match limits.tool_calls {
            Some(limit) if wanted > limit => Err(reached(
                "limit.tool_calls",
                format!("the model asked for call number {wanted}; the limit is {limit}"),
            )),
            _ => Ok(()),
        }
    }

    /// Books one result; an end where calls of the same kind keep failing in the same way.
    pub fn book(
        &mut self,
        call: &ToolCall,
        result: &ToolResult,
        limits: &Limits,
    ) -> Option<TurnEnd> {
        self.calls.book(result);
        if result.result.is_ok() {
            self.last = None;
            self.equal = 0;
            return None;
        }
        let key = (format!("{} {}", call.name, call.payload.as_str()), result.result);
        self.equal = if self.last.as_ref() == Some(&key) { self.equal + 1 } else { 1 };
        self.last = Some(key);
        if result.result == ResultKind::Denied && self.equal >= limits.equal_denials {
            return Some(reached(
                "policy.repeated_denials",
                format!("the same call was denied {} times in a row", self.equal),
            ));
        }
        (self.equal >= limits.equal_failures).then(|| {
            reached(
                "limit.equal_failures",
                format!("the same call failed in the same way {} times in a row", self.equal),
            )
        })
    }

    /// A note for the model where a share of the limit has been passed since the last one, and before
    /// its last step.
    pub fn note(&mut self, limits: &Limits) -> Option<String> {
        let next = self.steps + 1;
        if next == limits.steps {
            return Some("This is your last step: end with a final message now.".into());
        }
        let share = self.steps * 100 / limits.steps.max(1);
        let passed = NOTES.into_iter().rfind(|note| share >= *note)?;
        if passed <= self.noted {
            return None;
        }
        self.noted = passed;
        Some(format!("{passed} % of the steps are used; {} are left.", limits.steps - self.steps))
    }
}

/// What tokens cost; prices are per million of them.
#[allow(clippy::cast_precision_loss, reason = "tokens of a run are far below 2^52")]
pub fn cost(prices: &Prices, usage: Usage) -> f64 {
    let fresh = usage.input.saturating_sub(usage.cached) as f64;
    let sum = fresh * prices.input
        + usage.cached as f64 * prices.cached
        + usage.output as f64 * prices.output;
    sum / 1e6
}

pub(super) fn reached(reason: &str, message: String) -> TurnEnd {
    TurnEnd::Aborted { reason: reason.into(), message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Effect, ToolPayload};

    fn limits() -> Limits {
        Limits {
            steps: 10,
            tool_calls: Some(3),
            tokens: Some(100),
            cost: None,
            time: Duration::from_secs(1),
            deadline: crate::clock::now(),
            equal_failures: 3,
            equal_denials: 2,
        }
    }

    fn pair(text: &str, result: ResultKind) -> (ToolCall, ToolResult) {
        let call = ToolCall {
            call_id: "c".into(),
            name: "exec_command".into(),
            payload: ToolPayload::Json(text.into()),
            raw: None,
        };
        let result = ToolResult {
            call_id: "c".into(),
            name: "exec_command".into(),
            result,
            effect: Effect::None,
            output: String::new(),
            exit_code: None,
            duration_ms: 0,
            freeform: false,
        };
        (call, result)
    }

    fn book(ledger: &mut Ledger, text: &str, kind: ResultKind) -> Option<String> {
        let (call, result) = pair(text, kind);
        match ledger.book(&call, &result, &limits()) {
            Some(TurnEnd::Aborted { reason, .. }) => Some(reason),
            _ => None,
        }
    }

    #[test]
    fn equal_failures_and_denials_end_the_turn_and_others_do_not() {
        let mut ledger = Ledger::default();
        assert_eq!(book(&mut ledger, "a", ResultKind::Failed), None);
        assert_eq!(book(&mut ledger, "b", ResultKind::Failed), None);
        assert_eq!(book(&mut ledger, "b", ResultKind::Failed), None);
        assert_eq!(book(&mut ledger, "b", ResultKind::Failed).unwrap(), "limit.equal_failures");
        let mut ledger = Ledger::default();
        assert_eq!(book(&mut ledger, "a", ResultKind::Denied), None);
        assert_eq!(book(&mut ledger, "x", ResultKind::Ok), None);
        assert_eq!(book(&mut ledger, "a", ResultKind::Denied), None);
        assert_eq!(book(&mut ledger, "a", ResultKind::Denied).unwrap(), "policy.repeated_denials");
        assert_eq!((ledger.calls.total, ledger.calls.denied), (4, 3));
    }

    #[test]
    fn steps_tokens_and_calls_are_bounded() {
        let mut ledger = Ledger { steps: 9, ..Ledger::default() };
        assert!(ledger.before_step(&limits()).is_ok());
        ledger.steps = 10;
        assert!(ledger.before_step(&limits()).is_err());
        ledger = Ledger {
            usage: Usage { input: 90, output: 10, ..Usage::default() },
            ..Ledger::default()
        };
        assert!(ledger.before_step(&limits()).is_err());
        assert!(ledger.before_calls(&limits(), 3).is_ok());
        assert!(ledger.before_calls(&limits(), 4).is_err());
    }

    #[test]
    fn money_is_counted_by_kind_of_token_and_bounded() {
        let prices = Prices { input: 1.0, cached: 0.5, output: 10.0 };
        let usage = Usage { input: 1_000_000, cached: 400_000, output: 100_000, reasoning: 0 };
        assert!((cost(&prices, usage) - 1.8).abs() < 1e-9);
        let ledger = Ledger { usage, ..Ledger::default() };
        let bounded = |limit| Limits { cost: Some((limit, prices)), tokens: None, ..limits() };
        assert!(ledger.before_step(&bounded(1.9)).is_ok());
        assert!(ledger.before_step(&bounded(1.8)).is_err());
    }

    #[test]
    fn each_share_is_told_once_and_the_last_step_always() {
        let mut ledger = Ledger::default();
        let mut told = Vec::new();
        for step in 0..10 {
            ledger.steps = step;
            if let Some(note) = ledger.note(&limits()) {
                told.push((step, note.split_whitespace().next().unwrap_or("").to_owned()));
            }
        }
        assert_eq!(told, [(5, "50".to_owned()), (8, "80".to_owned()), (9, "This".to_owned())]);
    }
}
