//! One Step: capture the world, sample the model once, run the calls that follow.

use super::contexts::StepContext;
use super::reserve::Reserve;
use super::turn::{Turn, failed};
use super::{Memory, emit::Emitter, hooked, processes, world};
use crate::clock;
use crate::context;
use crate::hooks::Hook;
use crate::model::{self, ModelError, ModelErrorKind, Response};
use crate::policy::OnDeny;
use crate::protocol::{
    CallId, EventMsg, Item, Items, PlanItem, ResultKind, Role, SubmissionId, ToolCall, ToolResult,
    TurnEnd, Usage, Verdict,
};
use crate::rollout::{ApprovalRecord, HookRecord, Record, StepStartedRecord, UsageRecord};
use crate::tools::{self, CallObserver, Halt, HookObserver, HookPlace, PatchWatch};
use futures_util::future::BoxFuture;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Runs one Step. `Some` is the final message: the model asked for nothing more.
pub(super) async fn run(
    turn: &mut Turn,
    memory: &mut Memory,
    reserve: Option<Reserve>,
) -> Result<Option<String>, TurnEnd> {
    if let Some(note) = turn.ledger.note(&turn.context.config.limits) {
        turn.add_item(memory, context::budget(&note), None).await?;
    }
    turn.ledger.steps += 1;
    let steps = turn.ledger.steps;
    turn.progress.update(|summary| summary.steps = steps);
    turn.emit(EventMsg::StepStarted { step: steps }).await;
    let mut step = capture(turn, memory, reserve).await?;
    let started = Record::StepStarted(Box::new(StepStartedRecord {
        turn: turn.context.turn.clone(),
        step: step.step,
        fingerprint: step.prompt.fingerprint.clone(),
        items: step.prompt.items.len() as u64,
        generation: step.plan.generation,
        // The first generation stands in the Turn's own record.
        tools: (step.plan.generation > 0).then(|| step.plan.specs.clone()),
    }));
    turn.emitter.record(started).await.map_err(failed)?;
    let response = sample(turn, &step).await?;
    // It shares the history's list, which grows now: let go of, the list need not be copied.
    step.prompt.items = Items::default();
    let calls = accept(turn, memory, response).await?;
    if calls.is_empty() {
        return Ok(Some(last_message(memory)));
    }
    run_calls(turn, memory, &step, calls).await?;
    Ok(None)
}

/// Freezes what this sampling sees.
async fn capture(
    turn: &mut Turn,
    memory: &mut Memory,
    reserve: Option<Reserve>,
) -> Result<StepContext, TurnEnd> {
    processes::settle(turn).await?;
    let observed = world::tell(turn, memory).await?;
    intact(turn)?;
    let plan = turn.parts.registry.plan();
    let config = &turn.context.config;
    let mut options = config.options.clone();
    if let Some(reserve) = &reserve {
        options.max_output_tokens = reserve.max_output_tokens;
    }
    let prompt = memory.history.compile(&config.instructions, &plan.specs, &options);
    Ok(StepContext { step: turn.ledger.steps, world: observed, plan, prompt, reserve })
}

async fn sample(turn: &mut Turn, step: &StepContext) -> Result<Response, TurnEnd> {
    let mut observer = SampleObserver {
        emitter: &turn.emitter,
        submission: &turn.context.submission,
        step: step.step,
        reserve: step.reserve.as_ref(),
        broken: None,
        patches: PatchWatch::default(),
    };
    let start = clock::now();
    let sampled = model::sample(
        turn.parts.model.as_ref(),
        &step.prompt,
        &turn.context.config.retry,
        turn.context.cancel.token(),
        &mut observer,
    )
    .await;
    if let Some(halt) = observer.broken {
        return Err(failed(halt));
    }
    let (status, usage) = match &sampled {
        Ok(response) => ("completed", response.total_usage()),
        Err(error) => ("failed", error.usage),
    };
    turn.ledger.usage += usage;
    let total = turn.ledger.usage;
    turn.progress.update(|summary| summary.usage = total);
    let record = Record::Usage(Box::new(UsageRecord {
        step: step.step,
        fingerprint: step.prompt.fingerprint.clone(),
        response_id: sampled.as_ref().ok().and_then(|response| response.response_id.clone()),
        model: sampled.as_ref().ok().and_then(|response| response.model_as_served.clone()),
        status: status.into(),
        items: sampled
            .as_ref()
            .ok()
            .map(|response| u32::try_from(response.items.len()).unwrap_or(u32::MAX)),
        usage,
        total,
        duration_ms: clock::millis_since(start),
    }));
    turn.emitter.record(record).await.map_err(failed)?;
    turn.emit(EventMsg::Usage { step: step.step, usage, total }).await;
    sampled.map_err(|error| sampling_failed(turn, step.reserve.as_ref(), error))
}

fn sampling_failed(turn: &Turn, reserve: Option<&Reserve>, error: ModelError) -> TurnEnd {
    // A limit of the operator's ended it, and not the model.
    let limit = match (&error.kind, reserve) {
        (ModelErrorKind::Cancelled, _) => return turn.aborted(),
        (ModelErrorKind::OverBudget, Some(reserve)) => Some(reserve.passed_by(error.usage)),
        (ModelErrorKind::Incomplete(why), Some(reserve)) if why == "max_output_tokens" => {
            reserve.by
        }
        _ => None,
    };
    if let Some(reason) = limit {
        return TurnEnd::Aborted { reason: reason.into(), message: error.message.clone() };
    }
    let retryable = error.retryable();
    let mut message = format!("{} ({} requests)", error.message, error.attempts);
    if !error.hint.is_empty() {
        message = format!("{message}; {}", error.hint);
    }
    TurnEnd::Failed { reason: error.reason().into(), message, retryable }
}

/// Puts a complete response into record and history; gives its calls.
async fn accept(
    turn: &mut Turn,
    memory: &mut Memory,
    response: Response,
) -> Result<Vec<ToolCall>, TurnEnd> {
    let (mut calls, usage) = (Vec::new(), response.usage);
    let measured = !response.estimated;
    for item in response.items {
        if let Item::ToolCall(call) = &item {
            calls.push(call.clone());
        }
        turn.add_item(memory, item, response.response_id.clone()).await?;
    }
    if measured {
        turn.ledger.measured.set(usage, memory.history.items().len());
    }
    Ok(calls)
}

/// The text of the last message the model wrote.
fn last_message(memory: &Memory) -> String {
    let last = memory.history.items().iter().rev().find_map(|item| match item.as_ref() {
        Item::Message { role: Role::Assistant, text, .. } => Some(text.clone()),
        _ => None,
    });
    last.unwrap_or_default()
}

async fn run_calls(
    turn: &mut Turn,
    memory: &mut Memory,
    step: &StepContext,
    calls: Vec<ToolCall>,
) -> Result<(), TurnEnd> {
    let allowed = turn.ledger.before_calls(&turn.context.config.limits, calls.len());
    if allowed.is_err() {
        // Over the limit nothing starts, and yet every call gets its result.
        turn.context.cancel.token().cancel();
    }
    let observer = LifeObserver::of(turn);
    // A hook that was told and failed ends these calls and, after them, the Turn.
    let cancel = turn.context.cancel.token().child_token();
    let (results, halted) =
        tools::run_calls(&step.plan, &calls, &turn.parts.world, &observer, &cancel).await;
    let mut end = None;
    for (call, result) in calls.iter().zip(results) {
        let booked = turn.ledger.book(call, &result, &turn.context.config.limits);
        end = end.or(booked).or_else(|| denied_for_good(turn, &result));
        // Recorded by the observer the moment it was there; here it enters the history.
        memory.history.push(Arc::new(Item::ToolResult(result)));
    }
    let counts = turn.ledger.calls;
    turn.progress.update(|summary| summary.calls = counts);
    halted.map_err(failed)?;
    hooked::tell_notes(turn, memory, observer.notes()).await?;
    allowed?;
    if turn.context.cancel.is_cancelled() {
        return Err(turn.aborted());
    }
    hooked::failure(turn)?;
    intact(turn)?;
    end.map_or(Ok(()), Err)
}

/// Nothing goes on in a tree whose protected places are not what they were.
pub(super) fn intact(turn: &Turn) -> Result<(), TurnEnd> {
    match turn.parts.world.breach() {
        None => Ok(()),
        Some(message) => {
            Err(TurnEnd::Failed { reason: "sandbox.protected".into(), message, retryable: false })
        }
    }
}

/// A denial, where the policy says that the first one ends the Turn.
fn denied_for_good(turn: &Turn, result: &ToolResult) -> Option<TurnEnd> {
    if result.result != ResultKind::Denied {
        return None;
    }
    let first = result.denial();
    turn.progress.update(|summary| {
        summary.first_denial.get_or_insert(first.clone());
    });
    (turn.context.config.on_deny == OnDeny::Stop).then(|| TurnEnd::Aborted {
        reason: "policy.on_deny".into(),
        message: format!("the policy stops at the first denial; {first}"),
    })
}

/// Passes deltas and retries on while a response is under way.
struct SampleObserver<'a> {
    emitter: &'a Arc<Emitter>,
    submission: &'a SubmissionId,
    step: u32,
    reserve: Option<&'a Reserve>,
    broken: Option<Halt>,
    patches: PatchWatch,
}

impl model::Observer for SampleObserver<'_> {
    fn affords(&self, spent: Usage) -> bool {
        self.reserve.is_none_or(|reserve| reserve.affords(spent))
    }

    fn delta<'a>(&'a mut self, text: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let msg = EventMsg::TextDelta { text: text.to_owned() };
            self.emitter.emit(self.submission, msg).await;
        })
    }

    fn arguments<'a>(&'a mut self, output_index: u32, piece: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for tools::NamedFile { action, path } in self.patches.feed(output_index, piece) {
                let msg = EventMsg::PatchProgress { action, path };
                self.emitter.emit(self.submission, msg).await;
            }
        })
    }

    fn retry<'a>(
        &'a mut self,
        attempt: u32,
        wait: Duration,
        cause: &'a ModelError,
    ) -> BoxFuture<'a, ()> {
        self.patches.reset();
        Box::pin(async move {
            let wait_ms = clock::millis(wait);
            let cause = cause.message.clone();
            let record = Record::Retry { step: self.step, attempt, wait_ms, cause: cause.clone() };
            if let Err(halt) = self.emitter.record(record).await {
                self.broken.get_or_insert(halt);
            }
            self.emitter.emit(self.submission, EventMsg::Retry { attempt, wait_ms, cause }).await;
        })
    }
}

/// Passes on what happens in the life of a call, and around hooks.
pub(super) struct LifeObserver {
    emitter: Arc<Emitter>,
    submission: SubmissionId,
    step: u32,
    place: HookPlace,
    notes: Mutex<Vec<Item>>,
}

impl LifeObserver {
    pub fn of(turn: &Turn) -> Self {
        let step = turn.ledger.steps;
        let place = HookPlace {
            run: turn.parts.run.clone(),
            thread: turn.parts.session.to_string(),
            turn: turn.context.turn.to_string(),
            step,
        };
        let submission = turn.context.submission.clone();
        Self { emitter: turn.emitter.clone(), submission, step, place, notes: Mutex::default() }
    }

    /// What the model is to be told.
    fn notes(&self) -> Vec<Item> {
        std::mem::take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HookObserver for LifeObserver {
    fn place(&self) -> HookPlace {
        self.place.clone()
    }

    fn hook_started<'a>(
        &'a self,
        hook: &'a Hook,
        call_id: Option<&'a CallId>,
    ) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move {
            let call_id = call_id.cloned();
            let msg = EventMsg::HookStarted { hook: hook.label(), step: self.step, call_id };
            self.emitter.emit(&self.submission, msg).await;
            Ok(())
        })
    }

    fn hook_done(&self, record: HookRecord) -> BoxFuture<'_, Result<(), Halt>> {
        Box::pin(async move {
            let msg = record.event();
            self.emitter.record(Record::Hook(Box::new(record))).await?;
            self.emitter.emit(&self.submission, msg).await;
            Ok(())
        })
    }

    fn warning(&self, text: String) -> BoxFuture<'_, Result<(), Halt>> {
        Box::pin(async move {
            self.emitter.emit(&self.submission, EventMsg::Warning { text }).await;
            Ok(())
        })
    }
}

impl CallObserver for LifeObserver {
    fn started<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move {
            self.emitter.emit(&self.submission, EventMsg::CallStarted { call: call.clone() }).await;
            Ok(())
        })
    }

    fn verdict<'a>(
        &'a self,
        call: &'a ToolCall,
        verdict: &'a Verdict,
    ) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move {
            let call_id = Some(call.call_id.clone());
            let record = Record::Verdict {
                step: self.step,
                call_id: call_id.clone(),
                verdict: verdict.clone(),
            };
            self.emitter.record(record).await?;
            if verdict.asked {
                let approval = Record::Approval(ApprovalRecord {
                    step: self.step,
                    call_id: call_id.clone(),
                    approved: verdict.is_allow(),
                    by: "on_ask".into(),
                    reason: verdict.reason.clone(),
                });
                self.emitter.record(approval).await?;
            }
            let msg = EventMsg::Verdict { call_id, step: self.step, verdict: verdict.clone() };
            self.emitter.emit(&self.submission, msg).await;
            Ok(())
        })
    }

    fn before_effect(&self) -> BoxFuture<'_, Result<(), Halt>> {
        Box::pin(self.emitter.flush())
    }

    fn plan(&self, items: Vec<PlanItem>) -> BoxFuture<'_, Result<(), Halt>> {
        Box::pin(async move {
            self.emitter.emit(&self.submission, EventMsg::Plan { items }).await;
            Ok(())
        })
    }

    fn note(&self, item: Item) -> BoxFuture<'_, Result<(), Halt>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(item);
        Box::pin(std::future::ready(Ok(())))
    }

    fn done<'a>(&'a self, result: &'a ToolResult) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(async move {
            let item = Arc::new(Item::ToolResult(result.clone()));
            let record = Record::Item { step: self.step, response_id: None, item: item.clone() };
            self.emitter.record(record).await?;
            self.emitter
                .emit(&self.submission, EventMsg::CallDone { result: result.clone() })
                .await;
            self.emitter.emit(&self.submission, EventMsg::ItemDone { item }).await;
            Ok(())
        })
    }
}
