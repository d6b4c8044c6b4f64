//! One sampling: a stream with its completed gate, and the one retry policy of all providers.
//!
//! Nothing of a response is handed on before the provider said that it is complete; a response that
//! stops before is asked again with the same bytes, within bounds on attempts and on waiting. What
//! failed attempts cost stays booked, so that a budget can not be overrun by retries.

use super::Model;
use super::error::{ModelError, ModelErrorKind};
use super::stream::{BoxFuture, ModelEvent, Stop};
use crate::clock;
use crate::protocol::{CallId, Item, Prompt, Usage, synthetic_id};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often a paused response is sent back to go on, per sampling.
const MAX_PAUSES: u32 = 8;

/// A complete response.
#[derive(Debug, Clone, Default)]
pub struct Response {
    pub items: Vec<Item>,
    /// What this response cost, as the provider reported it: how full the window is.
    pub usage: Usage,
    /// The provider reported nothing and `usage` is an estimate, so that limits hold nevertheless.
    pub estimated: bool,
    /// What the attempts before it cost; estimated from bytes where a cut attempt reported nothing.
    pub booked: Usage,
    pub response_id: Option<String>,
    pub model_as_served: Option<String>,
    /// Requests made for it.
    pub attempts: u32,
}

impl Response {
    /// Everything that counts against a budget.
    pub fn total_usage(&self) -> Usage {
        let mut total = self.usage;
        total += self.booked;
        total
    }
}

/// Told what happens during a sampling. Awaited, so that a slow reader slows the stream.
pub trait Observer: Send {
    /// A piece of the visible answer.
    fn delta<'a>(&'a mut self, text: &'a str) -> BoxFuture<'a, ()>;

    /// A piece of the readable reasoning.
    fn reasoning<'a>(&'a mut self, _text: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Attempt number `attempt` (from 1) failed; the next one starts after `wait`. Deltas of the
    /// failed attempt are void.
    fn retry<'a>(
        &'a mut self,
        attempt: u32,
        wait: Duration,
        cause: &'a ModelError,
    ) -> BoxFuture<'a, ()>;

    /// Whether the limits leave room for one more request like this one, after `spent` was booked
    /// for those made so far.
    fn affords(&self, _spent: Usage) -> bool {
        true
    }
}

/// An observer that wants to know nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {
    fn delta<'a>(&'a mut self, _text: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn retry<'a>(&'a mut self, _: u32, _: Duration, _: &'a ModelError) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Bounds of asking again. Both bounds hold: attempts, and the time spent waiting between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Requests for one response, the first included.
    pub attempts: u32,
    /// Upper bound of all waits of one response together.
    pub total_wait: Duration,
    /// The first wait is random in 0.5..0.9 of this, the second in 1.0..1.8 of it, and so on.
    pub base: Duration,
    /// Upper bound of one such random wait.
    pub cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            total_wait: Duration::from_secs(5 * 60),
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// The wait before the attempt after number `attempt`, or why there is none.
    fn wait(&self, attempt: u32, waited: Duration, error: &ModelError) -> Result<Duration, Over> {
        if attempt >= self.attempts {
            return Err(Over::Attempts);
        }
        let left = self.total_wait.saturating_sub(waited);
        let asked = error.retry_after.unwrap_or_default();
        if asked > left {
            return Err(Over::Wait);
        }
        let wait = (asked + self.back_off(attempt)).min(left);
        if wait.is_zero() && self.total_wait.is_zero() {
            return Err(Over::Wait);
        }
        Ok(wait)
    }
}

impl RetryPolicy {
    /// Exponential with jitter: the n-th wait is fully random in its own window, which lies wholly
    /// above the window before it. So waits always grow, and runs that failed together do not come
    /// back together. It is added to what a provider asks for too: many were told the same moment,
    /// and one that says "at once" must not be asked without a pause.
    fn back_off(&self, attempt: u32) -> Duration {
        let doubled = self.base.saturating_mul(1 << (attempt.max(1) - 1).min(16)).min(self.cap);
        doubled / 2 + random_below(doubled * 2 / 5)
    }
}

/// Why no further attempt is made.
enum Over {
    Attempts,
    Wait,
}

/// A random duration below `bound`, from the entropy that seeds the standard hash maps.
fn random_below(bound: Duration) -> Duration {
    let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 {
        return Duration::ZERO;
    }
    Duration::from_nanos(RandomState::new().hash_one(0u8) % nanos)
}

/// Asks for one response until it is complete or can not be had.
pub async fn sample(
    model: &dyn Model,
    prompt: &Prompt,
    retry: &RetryPolicy,
    cancel: &CancellationToken,
    observer: &mut dyn Observer,
) -> Result<Response, ModelError> {
    let mut whole = attempts(model, prompt, retry, cancel, observer).await?;
    let mut longer = None;
    for _ in 0..MAX_PAUSES {
        if whole.stop == Stop::End {
            break;
        }
        let spent = whole.response.total_usage();
        if !observer.affords(spent) {
            let paused = ModelError::new(
                ModelErrorKind::OverBudget,
                "the provider paused a long answer, and the limits leave no room to go on with it",
            );
            return Err(booked(paused, spent));
        }
        let next = longer.get_or_insert_with(|| prompt.clone());
        next.items.extend(whole.fresh.drain(..).map(Arc::new));
        let more = attempts(model, next, retry, cancel, observer)
            .await
            .map_err(|error| booked(error, spent))?;
        whole.append(more);
    }
    let mut response = whole.response;
    unique_call_ids(&mut response.items, prompt);
    Ok(response)
}

fn booked(mut error: ModelError, usage: Usage) -> ModelError {
    error.usage += usage;
    error
}

/// A response under way over pauses.
struct Whole {
    response: Response,
    /// Items of the last part, to be sent back if it was only a part.
    fresh: Vec<Item>,
    stop: Stop,
}

impl Whole {
    fn append(&mut self, more: Self) {
        self.response.booked += self.response.usage;
        self.response.usage = more.response.usage;
        self.response.estimated |= more.response.estimated;
        self.response.booked += more.response.booked;
        self.response.items.extend(more.response.items);
        self.response.response_id = more.response.response_id;
        self.response.model_as_served = more.response.model_as_served;
        self.response.attempts += more.response.attempts;
        self.fresh = more.fresh;
        self.stop = more.stop;
    }
}

async fn attempts(
    model: &dyn Model,
    prompt: &Prompt,
    retry: &RetryPolicy,
    cancel: &CancellationToken,
    observer: &mut dyn Observer,
) -> Result<Whole, ModelError> {
    let mut spent = Usage::default();
    let mut waited = Duration::ZERO;
    let mut attempt = 1;
    loop {
        let mut error = match one_attempt(model, prompt, cancel, observer).await {
            Ok(mut whole) => {
                whole.response.booked = spent;
                whole.response.attempts = attempt;
                return Ok(whole);
            }
            Err(error) => error,
        };
        spent += error.usage;
        error.usage = spent;
        error.attempts = attempt;
        if !error.retryable() {
            return Err(error);
        }
        if attempt < retry.attempts && !observer.affords(spent) {
            error.message = format!(
                "{}; what its {attempt} {} cost leaves no room in the limits for another",
                error.message,
                if attempt == 1 { "attempt" } else { "attempts" },
            );
            error.kind = ModelErrorKind::OverBudget;
            return Err(error);
        }
        let wait = match retry.wait(attempt, waited, &error) {
            Ok(wait) => wait,
            Err(over) => return Err(given_up(error, &over, waited, retry)),
        };
        told(cancel, observer.retry(attempt, wait, &error))
            .await
            .map_err(|cancelled| booked(cancelled, spent))?;
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(booked(ModelError::cancelled(), spent)),
            () = tokio::time::sleep(wait) => {}
        }
        waited += wait;
        attempt += 1;
    }
}

fn given_up(
    mut error: ModelError,
    over: &Over,
    waited: Duration,
    retry: &RetryPolicy,
) -> ModelError {
    match (over, error.retry_after) {
        (Over::Wait, Some(asked)) => {
            error.message = format!(
                "{}; the provider asks to wait {} and {} of {} are left for waiting",
                error.message,
                clock::human(asked),
                clock::human(retry.total_wait.saturating_sub(waited)),
                clock::human(retry.total_wait),
            );
            error.hint = "start again later, or raise model.retries.total_wait".into();
        }
        (Over::Wait, None) | (Over::Attempts, _) => {
            error.message = format!(
                "{}; gave up after {} {} and {} of waiting",
                error.message,
                error.attempts,
                if error.attempts == 1 { "attempt" } else { "attempts" },
                clock::human(waited),
            );
        }
    }
    error
}

/// One request and its whole answer. An error carries what it cost.
async fn one_attempt(
    model: &dyn Model,
    prompt: &Prompt,
    cancel: &CancellationToken,
    observer: &mut dyn Observer,
) -> Result<Whole, ModelError> {
    if cancel.is_cancelled() {
        return Err(ModelError::cancelled());
    }
    let mut stream = model.stream(prompt, cancel.clone());
    let mut got = Got::default();
    loop {
        let event = match stream.next().await {
            Some(Ok(event)) => event,
            Some(Err(error)) => return Err(got.charge(error, prompt)),
            None => {
                let cut = ModelError::new(
                    ModelErrorKind::Cut,
                    "the model's answer ended before it was complete",
                );
                return Err(got.charge(cut, prompt));
            }
        };
        got.began = true;
        match event {
            ModelEvent::Started { response_id } => got.response_id = Some(response_id),
            ModelEvent::TextDelta(text) => {
                got.bytes += text.len();
                if let Err(error) = told(cancel, observer.delta(&text)).await {
                    return Err(got.charge(error, prompt));
                }
            }
            ModelEvent::ReasoningDelta(text) => {
                got.bytes += text.len();
                if let Err(error) = told(cancel, observer.reasoning(&text)).await {
                    return Err(got.charge(error, prompt));
                }
            }
            ModelEvent::ToolDelta { delta, .. } => got.bytes += delta.len(),
            ModelEvent::ItemDone(item) => got.items.push(item),
            ModelEvent::Usage(usage) => got.usage = Some(usage),
            ModelEvent::Completed { response_id, model, stop } => {
                return got.complete(response_id, model, stop, prompt);
            }
        }
    }
}

/// Tells the observer something. A cancel ends the wait for a reader that has stopped reading.
async fn told(cancel: &CancellationToken, telling: BoxFuture<'_, ()>) -> Result<(), ModelError> {
    tokio::select! {
        biased;
        () = telling => Ok(()),
        () = cancel.cancelled() => Err(ModelError::cancelled()),
    }
}

/// What one attempt has brought so far.
#[derive(Default)]
struct Got {
    items: Vec<Item>,
    usage: Option<Usage>,
    response_id: Option<String>,
    bytes: usize,
    began: bool,
}

impl Got {
    /// Books the cost of a failed attempt. One that had begun was computed and will be billed even
    /// if its counts never came, so they are estimated at four bytes a token.
    fn charge(&self, mut error: ModelError, prompt: &Prompt) -> ModelError {
        if error.usage == Usage::default() {
            error.usage = match self.usage {
                Some(usage) => usage,
                None if self.began || error.answer_began => self.guess(prompt),
                None => Usage::default(),
            };
        }
        error
    }

    fn guess(&self, prompt: &Prompt) -> Usage {
        Usage { input: estimate(prompt), output: tokens(self.bytes), ..Usage::default() }
    }

    fn complete(
        mut self,
        response_id: String,
        model: String,
        stop: Stop,
        prompt: &Prompt,
    ) -> Result<Whole, ModelError> {
        if stop == Stop::End && !self.items.iter().any(says_something) {
            let empty = ModelError::new(
                ModelErrorKind::Empty,
                "the model's answer is complete but has neither text nor a tool call",
            );
            return Err(self.charge(empty, prompt));
        }
        let known = |text: String| (!text.is_empty()).then_some(text);
        let items = std::mem::take(&mut self.items);
        Ok(Whole {
            fresh: if stop == Stop::Paused { items.clone() } else { Vec::new() },
            stop,
            response: Response {
                items,
                usage: self.usage.unwrap_or_else(|| self.guess(prompt)),
                estimated: self.usage.is_none(),
                booked: Usage::default(),
                response_id: known(response_id).or(self.response_id),
                model_as_served: known(model),
                attempts: 1,
            },
        })
    }
}

fn says_something(item: &Item) -> bool {
    match item {
        Item::Message { text, .. } => !text.trim().is_empty(),
        Item::ToolCall(_) => true,
        Item::Reasoning { .. } | Item::ToolResult(_) | Item::Unknown { .. } => false,
    }
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes / 4).unwrap_or(u64::MAX)
}

/// Tokens of a prompt, roughly; only for attempts whose real count never came.
fn estimate(prompt: &Prompt) -> u64 {
    let items: usize = prompt.items.iter().map(|item| item.text_bytes()).sum();
    tokens(prompt.instructions.len() + items)
}

/// One call id means one call and one result, in a response and over the whole history. The same
/// call twice is one call; a different call under a used id gets an id of its own (some servers
/// count ids from zero in each response).
fn unique_call_ids(items: &mut Vec<Item>, prompt: &Prompt) {
    let call_id = |item: &Item| match item {
        Item::ToolCall(call) => Some(call.call_id.clone()),
        _ => None,
    };
    let new: HashSet<CallId> = items.iter().filter_map(call_id).collect();
    if new.is_empty() {
        return;
    }
    // Only ids that are asked about: a step must not copy the ids of a whole history.
    let mut used: HashMap<CallId, Option<(String, String)>> = prompt
        .items
        .iter()
        .filter(|item| matches!(&***item, Item::ToolCall(call) if new.contains(&call.call_id)))
        .filter_map(|item| Some((call_id(item)?, None)))
        .collect();
    let mut number = 0u32;
    items.retain_mut(|item| {
        let Item::ToolCall(call) = item else { return true };
        let said = (call.name.clone(), call.payload.as_str().to_owned());
        if call.call_id.as_str().is_empty() || used.contains_key(&call.call_id) {
            if used.get(&call.call_id).is_some_and(|first| first.as_ref() == Some(&said)) {
                return false;
            }
            number += 1;
            let name = format!("{}/{}/{number}", call.call_id, prompt.items.len());
            let id = format!("call_{}", synthetic_id("repeated-call-id", &name).replace('-', ""));
            replace_raw_id(&mut call.raw, &id);
            call.call_id = CallId(id);
        }
        used.insert(call.call_id.clone(), Some(said));
        true
    });
}

/// The provider's own form of a call names the id too, under one of these keys.
fn replace_raw_id(raw: &mut Option<Value>, id: &str) {
    let Some(Value::Object(wires)) = raw else { return };
    for (wire, form) in wires {
        let key = if wire == "responses" { "call_id" } else { "id" };
        if let Some(slot) = form.get_mut(key) {
            *slot = Value::String(id.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
