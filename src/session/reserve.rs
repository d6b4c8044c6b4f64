//! What one request may use: its output is bounded by what the limits leave before it is sent, and
//! another attempt is made only where what the attempts before it cost leaves room for it.
//!
//! The input of a request is known only afterwards, so it is estimated: what the provider counted
//! last, and what was added since at three bytes a token. A limit can be passed by the error of that
//! estimate, never by an answer.

use super::limits::{Ledger, Limits, cost, reached};
use super::turn::Turn;
use crate::model::Model;
use crate::protocol::{Item, TurnEnd, Usage};
use std::sync::Arc;

/// The shortest answer worth asking for, in tokens.
const LEAST: u64 = 16;
/// What is left below this is given to one answer whole; above, half of it stays for a retry.
const SMALL: u64 = 4_096;
/// The bound of one answer where a limit must hold and nobody knows the model.
const UNKNOWN_MODEL: u64 = 16_384;
/// Fewer bytes than a token usually has, so that estimates err to the safe side.
const BYTES_PER_TOKEN: u64 = 3;

/// How large the context is: measured where a response told it.
#[derive(Debug, Default)]
pub(super) struct Measured {
    tokens: u64,
    /// Items of the history that are in `tokens`.
    items: usize,
}

impl Measured {
    /// A response with these counts is in the history, which has `items` items with it.
    pub fn set(&mut self, usage: Usage, items: usize) {
        *self = Self { tokens: usage.total(), items };
    }

    /// Tokens of the next request; `fixed` are the bytes that are sent in front of the items.
    fn estimate(&self, fixed: impl FnOnce() -> usize, items: &[Arc<Item>]) -> u64 {
        let fixed = if self.items == 0 { fixed() } else { 0 };
        let new = items.get(self.items..).unwrap_or_default();
        let bytes: usize = fixed + new.iter().map(|item| item.text_bytes()).sum::<usize>();
        self.tokens.saturating_add((bytes as u64).div_ceil(BYTES_PER_TOKEN))
    }
}

/// One request's share of the limits.
#[derive(Debug, Clone)]
pub struct Reserve {
    limits: Limits,
    used: Usage,
    /// What the request is estimated to need at the most.
    request: Usage,
    /// The bound that is sent, where one must be.
    pub(super) max_output_tokens: Option<u64>,
    /// The limit that bounds the answer, where it is not the model's own bound.
    pub(super) by: Option<&'static str>,
}

impl Reserve {
    /// Whether another request like this one fits, after `spent` more was used.
    pub fn affords(&self, spent: Usage) -> bool {
        let mut all = self.used;
        all += spent;
        all += self.request;
        let tokens = self.limits.tokens.is_none_or(|limit| all.total() <= limit);
        tokens && self.limits.cost.is_none_or(|(limit, prices)| cost(&prices, all) <= limit)
    }

    /// The limit that leaves no room for another request after `spent`.
    pub(super) fn passed_by(&self, spent: Usage) -> &'static str {
        let mut all = self.used;
        all += spent;
        all += self.request;
        match self.limits.tokens {
            Some(limit) if all.total() > limit => "limit.tokens",
            _ => "limit.cost",
        }
    }
}

/// The share of the next request; none where no limit counts tokens. Fails where not even a short
/// answer fits.
pub(super) fn next(turn: &Turn, items: &[Arc<Item>]) -> Result<Option<Reserve>, TurnEnd> {
    let config = &turn.context.config;
    let model = turn.parts.model.as_ref();
    if !model.is_billed() || (config.limits.tokens.is_none() && config.limits.cost.is_none()) {
        return Ok(None);
    }
    let fixed = || {
        let tools = serde_json::to_vec(&turn.parts.registry.plan().specs).unwrap_or_default();
        config.instructions.len() + tools.len()
    };
    let input = turn.ledger.measured.estimate(fixed, items);
    let own = config.options.max_output_tokens;
    turn.ledger.reserve(&config.limits, input, own, model).map(Some)
}

impl Ledger {
    fn reserve(
        &self,
        limits: &Limits,
        input: u64,
        own: Option<u64>,
        model: &dyn Model,
    ) -> Result<Reserve, TurnEnd> {
        let (left, by) = self.left_for_output(limits, input)?;
        let fair = if left <= SMALL { left } else { SMALL.max(left / 2) };
        let known = model.max_output_tokens();
        let ceiling = own.or(known).unwrap_or(UNKNOWN_MODEL);
        let output = fair.min(ceiling);
        let by_limit = fair < ceiling;
        // A bound that the model has by itself need not be said.
        let said = by_limit || own.is_some() || known.is_none();
        Ok(Reserve {
            limits: limits.clone(),
            used: self.usage,
            request: Usage { input, output, ..Usage::default() },
            max_output_tokens: said.then_some(output),
            by: by_limit.then_some(by),
        })
    }

    /// Tokens that the limits leave for an answer, and the limit that leaves the fewest.
    fn left_for_output(&self, limits: &Limits, input: u64) -> Result<(u64, &'static str), TurnEnd> {
        let mut left = (u64::MAX, "limit.tokens");
        if let Some(limit) = limits.tokens {
            let used = self.usage.total();
            left.0 = limit.saturating_sub(used).saturating_sub(input);
            if left.0 < LEAST {
                let message = format!(
                    "{used} tokens were used and the next request needs about {input}; the limit \
                     is {limit}"
                );
                return Err(reached("limit.tokens", message));
            }
        }
        if let Some((limit, prices)) = &limits.cost {
            let asked = cost(prices, Usage { input, ..Usage::default() });
            let spent = cost(prices, self.usage);
            let tokens = output_for(limit - spent - asked, prices.output);
            if tokens < LEAST {
                let message = format!(
                    "the calls so far cost {spent:.4} and the next one costs about {asked:.4}; the \
                     limit is {limit}"
                );
                return Err(reached("limit.cost", message));
            }
            if tokens < left.0 {
                left = (tokens, "limit.cost");
            }
        }
        Ok(left)
    }
}

/// Output tokens that this much money buys at this price per million.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float becomes the nearest integer there is"
)]
fn output_for(money: f64, price: f64) -> u64 {
    if money < 0.0 {
        return 0;
    }
    if price <= 0.0 { u64::MAX } else { (money / price * 1e6) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ResponseStream;
    use crate::protocol::{Fragment, Prompt, Role};
    use crate::spec::Prices;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;

    struct Named(Option<u64>);

    impl Model for Named {
        fn id(&self) -> &str {
            "test"
        }

        fn freeform_tools(&self) -> bool {
            false
        }

        fn max_output_tokens(&self) -> Option<u64> {
            self.0
        }

        fn stream(&self, _: &Prompt, _: CancellationToken) -> ResponseStream {
            ResponseStream::ready(Vec::new(), None)
        }
    }

    fn limits(tokens: Option<u64>, cost: Option<f64>) -> Limits {
        let prices = Prices { input: 1.0, cached: 0.1, output: 10.0 };
        Limits {
            steps: 10,
            tool_calls: None,
            tokens,
            cost: cost.map(|cost| (cost, prices)),
            time: Duration::from_secs(1),
            deadline: crate::clock::now(),
            equal_failures: 3,
            equal_denials: 2,
        }
    }

    fn used(tokens: u64) -> Ledger {
        Ledger::used(Usage { input: tokens, ..Usage::default() })
    }

    #[test]
    fn an_answer_gets_what_the_limits_leave_and_a_retry_keeps_its_share() {
        let reserve = |ledger: &Ledger, limits: &Limits, own, known| {
            ledger
                .reserve(limits, 1_000, own, &Named(known))
                .map(|reserve| (reserve.request.output, reserve.max_output_tokens, reserve.by))
        };
        let tokens = |limit| limits(Some(limit), None);
        // Plenty: the model's own bound, which is not said where it is known.
        let plenty = tokens(10_000_000);
        assert_eq!(reserve(&used(0), &plenty, None, Some(128_000)), Ok((128_000, None, None)));
        assert_eq!(reserve(&used(0), &plenty, None, None), Ok((16_384, Some(16_384), None)));
        assert_eq!(reserve(&used(0), &plenty, Some(500), None), Ok((500, Some(500), None)));
        // Half of what is left, then all of it, then nothing.
        let by = Some("limit.tokens");
        assert_eq!(reserve(&used(0), &tokens(21_000), None, None), Ok((10_000, Some(10_000), by)));
        assert_eq!(reserve(&used(0), &tokens(3_000), None, None), Ok((2_000, Some(2_000), by)));
        let end = reserve(&used(2_000), &tokens(3_010), None, None).unwrap_err();
        let TurnEnd::Aborted { reason, message } = end else { panic!("{end:?}") };
        assert_eq!(reason, "limit.tokens");
        assert!(message.contains("2000 tokens were used"), "{message}");
    }

    #[test]
    fn money_bounds_an_answer_too_and_the_stricter_limit_counts() {
        let ledger = used(1_000_000);
        // 1.0 is spent, the input costs 0.001, an output token 0.00001.
        let reserve = |limits: &Limits| ledger.reserve(limits, 1_000, None, &Named(None));
        let dear = reserve(&limits(None, Some(1.021))).unwrap();
        assert!((1_998..=2_000).contains(&dear.request.output), "{dear:?}");
        assert_eq!(dear.by, Some("limit.cost"));
        let both = reserve(&limits(Some(1_001_500), Some(1.021))).unwrap();
        assert_eq!((both.request.output, both.by), (500, Some("limit.tokens")));
        assert!(reserve(&limits(None, Some(1.0011))).is_err());
    }

    #[test]
    fn an_attempt_that_was_cut_stays_booked() {
        let reserve = used(0).reserve(&limits(Some(20_000), None), 1_000, None, &Named(None));
        let reserve = reserve.unwrap();
        assert_eq!(reserve.request.output, 9_500);
        let spent = |output| Usage { input: 1_000, output, ..Usage::default() };
        assert!(reserve.affords(Usage::default()));
        assert!(reserve.affords(spent(8_500)));
        assert!(!reserve.affords(spent(8_501)), "20,001 tokens in all");
        assert_eq!(reserve.passed_by(spent(9_000)), "limit.tokens");
    }

    #[test]
    fn the_size_of_a_request_is_measured_where_it_can_be() {
        let items = [Arc::new(Item::ours(Role::User, Fragment::Task, "x".repeat(300)))];
        let mut measured = Measured::default();
        assert_eq!(measured.estimate(|| 600, &items), 300);
        measured.set(Usage { input: 5_000, output: 70, ..Usage::default() }, 1);
        assert_eq!(measured.estimate(|| 600, &items), 5_070);
    }
}
