//! The one life of a call: parse → judge → before-hooks → run → mask → cut → after-hooks → record.
//!
//! Everything that can stop an effect stands before it. Every accepted call ends with exactly one
//! result that carries its id, whatever happens in between, a panic of the tool included.

use super::hooked::{self, HookObserver};
use super::look::settle_look;
use super::{Action, CallContext, Prepared, Tool, ToolOutput, ToolPlan, ToolWorld};
use crate::clock;
use crate::context::Cap;
use crate::protocol::{
    CallId, Decision, Effect, Item, PlanItem, ResultKind, ToolCall, ToolPayload, ToolResult,
    Verdict,
};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The Turn cannot go on (the record cannot be written); no further call may start.
#[derive(Debug, Clone)]
pub struct Halt {
    pub reason: String,
    pub message: String,
}

/// What the life of a call reports while it happens.
pub trait CallObserver: HookObserver {
    fn started<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<(), Halt>>;
    fn verdict<'a>(
        &'a self,
        call: &'a ToolCall,
        verdict: &'a Verdict,
    ) -> BoxFuture<'a, Result<(), Halt>>;
    /// Returns once everything recorded so far is on disk: called before an effect.
    fn before_effect(&self) -> BoxFuture<'_, Result<(), Halt>>;
    fn plan(&self, items: Vec<PlanItem>) -> BoxFuture<'_, Result<(), Halt>>;
    /// Something for the model, told after the results of this Step.
    fn note(&self, item: Item) -> BoxFuture<'_, Result<(), Halt>>;
    /// The call's one result.
    fn done<'a>(&'a self, result: &'a ToolResult) -> BoxFuture<'a, Result<(), Halt>>;
}

/// Runs the calls of one response in order; neighbours that only read run at the same time. The
/// results come in the order of the calls. `Err` comes with the results there are: the rest of the
/// calls are answered as aborted.
pub async fn run_calls(
    plan: &ToolPlan,
    calls: &[ToolCall],
    world: &Arc<ToolWorld>,
    observer: &dyn CallObserver,
    cancel: &CancellationToken,
) -> (Vec<ToolResult>, Result<(), Halt>) {
    let mut results: Vec<ToolResult> = Vec::with_capacity(calls.len());
    let mut halted = Ok(());
    let mut seen: HashSet<&CallId> = HashSet::new();
    let mut next = 0;
    while next < calls.len() && halted.is_ok() {
        let batch = batch_from(plan, &calls[next..]);
        let lives = calls[next..next + batch].iter().map(|call| {
            let repeated = !seen.insert(&call.call_id);
            live(plan, call, repeated, world, observer, cancel)
        });
        for (result, outcome) in join_all(lives).await {
            halted = halted.and(outcome);
            if halted.is_ok() {
                halted = observer.done(&result).await;
            }
            results.push(result);
        }
        next += batch;
    }
    for call in &calls[results.len()..] {
        results.push(plain(call, ResultKind::Aborted, "the run ended before this call started"));
    }
    (results, halted)
}

/// How many calls from the front may run together.
fn batch_from(plan: &ToolPlan, calls: &[ToolCall]) -> usize {
    let parallel = |call: &ToolCall| plan.tool(&call.name).is_some_and(|tool| tool.parallel());
    calls.iter().take_while(|call| parallel(call)).take(8).count().max(1)
}

async fn live(
    plan: &ToolPlan,
    call: &ToolCall,
    repeated: bool,
    world: &Arc<ToolWorld>,
    observer: &dyn CallObserver,
    cancel: &CancellationToken,
) -> (ToolResult, Result<(), Halt>) {
    let start = clock::now();
    let mut result = match attempt(plan, call, repeated, world, observer, cancel).await {
        Ok(result) => result,
        Err(halt) => {
            let text = format!("the run is ending: {}", halt.message);
            return (plain(call, ResultKind::Aborted, &text), Err(halt));
        }
    };
    result.duration_ms = clock::millis_since(start);
    (result, Ok(()))
}

async fn attempt(
    plan: &ToolPlan,
    call: &ToolCall,
    repeated: bool,
    world: &Arc<ToolWorld>,
    observer: &dyn CallObserver,
    cancel: &CancellationToken,
) -> Result<ToolResult, Halt> {
    observer.started(call).await?;
    if !goes_on(world, cancel).await {
        return Ok(plain(call, ResultKind::Aborted, "the Turn ended before this call started"));
    }
    if repeated {
        let text =
            format!("the call id {} was used before in this response; nothing ran", call.call_id);
        return Ok(plain(call, ResultKind::BadArguments, &text));
    }
    let Some(tool) = plan.tool(&call.name) else {
        let names = plan.names().join(", ");
        let text = format!("there is no tool {:?}; the tools are: {names}", call.name);
        return Ok(plain(call, ResultKind::UnknownTool, &text));
    };
    let judged = judge(tool.as_ref(), call, &call.payload, world, observer).await?;
    let asked = hooked::before(tool.as_ref(), call, judged, world, observer, cancel).await?;
    let (action, effect, replaced) = match asked {
        Judged::Go { action, effect, replaced, .. } => (action, effect, replaced),
        Judged::Done(result) => return Ok(result),
    };
    if !goes_on(world, cancel).await {
        return Ok(plain(call, ResultKind::Aborted, "the Turn ended before this call started"));
    }
    if effect {
        observer.before_effect().await?;
    }
    let context =
        CallContext { world: world.clone(), call_id: call.call_id.clone(), cancel: cancel.clone() };
    // The action is made inside the guard too: building its future may panic as well.
    let running = AssertUnwindSafe(async move { action(context).await }).catch_unwind();
    let output = match running.await {
        Ok(output) => output,
        Err(panic) => {
            let unsure = if effect { Effect::Unknown } else { Effect::None };
            return Ok(broken(call, unsure, &panic_text(&*panic)));
        }
    };
    let result = finish(call, output, world, observer).await?;
    let payload = replaced.as_ref().unwrap_or(&call.payload);
    hooked::after(call, payload, &result, world, observer, cancel).await?;
    Ok(result)
}

/// Whether the next thing may happen. It happens in the tree that all before it left, protected places put
/// back; where that failed, nothing begins any more.
async fn goes_on(world: &Arc<ToolWorld>, cancel: &CancellationToken) -> bool {
    settle_look(world).await;
    if world.breach().is_some() {
        cancel.cancel();
    }
    !cancel.is_cancelled()
}

/// What parsing and judging come to.
pub(super) enum Judged {
    Go {
        action: Action,
        effect: bool,
        verdict: Option<Verdict>,
        /// What a hook put in the place of the call's arguments.
        replaced: Option<ToolPayload>,
    },
    /// Nothing runs.
    Done(ToolResult),
}

/// Parses these arguments and has every action in them judged.
pub(super) async fn judge(
    tool: &dyn Tool,
    call: &ToolCall,
    payload: &ToolPayload,
    world: &Arc<ToolWorld>,
    observer: &dyn CallObserver,
) -> Result<Judged, Halt> {
    // The policy asks what became of files.
    settle_look(world).await;
    let prepared = std::panic::catch_unwind(AssertUnwindSafe(|| tool.prepare(payload, world)));
    let result = match prepared {
        Err(panic) => broken(call, Effect::None, &panic_text(&*panic)),
        Ok(Err(failure)) => {
            let text = world.masker.mask(&failure.text).into_owned();
            plain(call, failure.result, &text)
        }
        Ok(Ok(Prepared::Free(action))) => {
            return Ok(Judged::Go { action, effect: false, verdict: None, replaced: None });
        }
        Ok(Ok(Prepared::Judged { verdict, action, effect })) => {
            observer.verdict(call, &verdict).await?;
            match action {
                Some(action) if verdict.is_allow() => {
                    return Ok(Judged::Go {
                        action,
                        effect,
                        verdict: Some(verdict),
                        replaced: None,
                    });
                }
                _ => plain(call, ResultKind::Denied, &denial(&verdict)),
            }
        }
    };
    Ok(Judged::Done(result))
}

async fn finish(
    call: &ToolCall,
    output: ToolOutput,
    world: &Arc<ToolWorld>,
    observer: &dyn CallObserver,
) -> Result<ToolResult, Halt> {
    if let Some(items) = output.plan {
        observer.plan(items).await?;
    }
    for warning in output.warnings {
        observer.warning(warning).await?;
    }
    let kind = output.result.unwrap_or(ResultKind::Ok);
    let text = Cap::middle(&world.masker.mask(&output.text), Cap::of("tool_output"));
    let mut result = plain(call, kind, &text);
    result.effect = output.effect.unwrap_or(Effect::None);
    result.exit_code = output.exit_code;
    Ok(result)
}

/// A result without an effect.
pub(super) fn plain(call: &ToolCall, result: ResultKind, text: &str) -> ToolResult {
    ToolResult {
        call_id: call.call_id.clone(),
        name: call.name.clone(),
        result,
        effect: Effect::None,
        output: text.to_owned(),
        exit_code: None,
        duration_ms: 0,
        freeform: matches!(call.payload, ToolPayload::Text(_)),
    }
}

fn broken(call: &ToolCall, effect: Effect, panic: &str) -> ToolResult {
    let text =
        format!("the tool {} broke ({panic}); this is a fault of the runner, not yours", call.name);
    ToolResult { effect, ..plain(call, ResultKind::Internal, &text) }
}

/// What the model is told of a denial: the rule, each refused part, and why.
fn denial(verdict: &Verdict) -> String {
    let mut text =
        format!("denied by the policy, nothing ran: {}\nrule: {}", verdict.reason, verdict.rule);
    let refused: Vec<_> =
        verdict.parts.iter().filter(|part| part.decision > Decision::Allow).collect();
    if refused.len() < 2 {
        // The reason above is already that of the one refused part.
        return text;
    }
    for part in refused {
        text.push_str(&format!("\n- {} ({}): {}", part.part, part.decision, part.reason));
    }
    text
}

/// The message of a panic.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    Cap::head(&text.unwrap_or_else(|| "panic".into()), 300)
}
