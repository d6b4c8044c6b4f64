//! Hooks in their place: told what happens, watched like commands, and their answers put into effect on
//! the calls they are about.

use super::life::{CallObserver, Halt, Judged, judge, plain};
use super::look::{self, settle_look};
use super::{Tool, ToolWorld};
use crate::context::{self, Cap};
use crate::hooks::{Answer, Asking, Decision, Hook, HookPoint, Reply};
use crate::protocol::{
    CallId, Item, ResultKind, RuleRef, ToolCall, ToolPayload, ToolResult, Verdict,
};
use crate::rollout::HookRecord;
use crate::workspace::CallRef;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Bytes of a call's output that an `after_tool` hook is shown.
const SHOWN: usize = 16 * 1024;

/// Where a hook is asked.
#[derive(Debug, Clone, Default)]
pub struct HookPlace {
    pub run: String,
    pub thread: String,
    pub turn: String,
    pub step: u32,
}

/// What hooks report while they run.
pub trait HookObserver: Send + Sync {
    fn place(&self) -> HookPlace;
    fn hook_started<'a>(
        &'a self,
        hook: &'a Hook,
        call_id: Option<&'a CallId>,
    ) -> BoxFuture<'a, Result<(), Halt>>;
    /// The answer, recorded before anything is made of it.
    fn hook_done(&self, record: HookRecord) -> BoxFuture<'_, Result<(), Halt>>;
    fn warning(&self, text: String) -> BoxFuture<'_, Result<(), Halt>>;
}

/// Asks one hook, alone. `about` is what its point adds to what every hook is told.
pub async fn ask_hook(
    world: &Arc<ToolWorld>,
    hook: &Hook,
    call_id: Option<&CallId>,
    about: Value,
    observer: &dyn HookObserver,
    cancel: &CancellationToken,
) -> Result<Answer, Halt> {
    let _alone = world.hooks.alone().await;
    settle_look(world).await;
    // In a tree that is not what it was nothing begins any more; how the run ended is told all the same.
    if cancel.is_cancelled() || (world.breach().is_some() && hook.point != HookPoint::RunEnd) {
        return Ok(Answer::Cancelled);
    }
    observer.hook_started(hook, call_id).await?;
    let place = observer.place();
    let input = input(hook, &place, world, about);
    let call = CallRef::hook(&hook.label());
    if world.hooks.is_live()
        && let Err(error) = look::take_down(world, call.clone()).await
    {
        let why = format!("the state of the workspace could not be taken down first: {error}");
        let answer = Answer::Erred { why: why.clone(), timed_out: false };
        let record = HookRecord {
            step: place.step,
            hook: hook.label(),
            command: vec![world.masker.mask(&hook.run).into_owned()],
            call_id: call_id.cloned(),
            outcome: answer.outcome().into(),
            reason: why,
            ..HookRecord::default()
        };
        observer.hook_done(record).await?;
        return Ok(answer);
    }
    let asking = Asking { step: place.step, call_id, input: &input };
    let asked = world.hooks.ask(hook, asking, cancel).await;
    if world.hooks.is_live() {
        let look = look::look(world, call, true).await;
        for text in look.warnings() {
            observer.warning(format!("the hook {}: {text}", hook.label())).await?;
        }
    }
    if let Some(record) = asked.record {
        observer.hook_done(record).await?;
    }
    Ok(asked.answer)
}

/// What a hook reads: the same for every point, then what the point adds.
fn input(hook: &Hook, place: &HookPlace, world: &ToolWorld, about: Value) -> Value {
    let mut input = json!({
        "v": 1,
        "hook": hook.point.as_str(),
        "run": place.run,
        "thread": place.thread,
        "turn": place.turn,
        "step": place.step,
        "workspace": world.root().display().to_string(),
    });
    if let (Value::Object(input), Value::Object(about)) = (&mut input, about) {
        input.extend(about);
    }
    input
}

/// Asks the `before_tool` hooks about a call that may run, in order. A denial and an error stop it; new
/// arguments are parsed and judged like the model's own.
pub(super) async fn before(
    tool: &dyn Tool,
    call: &ToolCall,
    mut judged: Judged,
    world: &Arc<ToolWorld>,
    observer: &dyn CallObserver,
    cancel: &CancellationToken,
) -> Result<Judged, Halt> {
    let mut payload = call.payload.clone();
    for hook in world.hooks.at(HookPoint::BeforeTool, Some(&call.name)) {
        let Judged::Go { verdict, .. } = &judged else { break };
        let about = json!({
            "tool": call.name, "call_id": call.call_id, "arguments": arguments(&payload),
            "verdict": verdict,
        });
        let id = Some(&call.call_id);
        let reply = match ask_hook(world, &hook, id, about, observer, cancel).await? {
            Answer::Replied(reply) => reply,
            Answer::Erred { why, .. } => {
                let why = format!("{why}; a call runs only when its hooks have answered");
                return refused(&hook, call, verdict.as_ref(), "erred", &why, observer).await;
            }
            Answer::Cancelled => {
                let text = "the Turn ended before this call started";
                return Ok(Judged::Done(plain(call, ResultKind::Aborted, text)));
            }
        };
        if reply.decision != Decision::Allow {
            let verdict = verdict.as_ref();
            return refused(&hook, call, verdict, "denied it", &reply.reason, observer).await;
        }
        if let Some(arguments) = reply.arguments {
            payload = ToolPayload::Json(Value::Object(arguments.clone()).to_string());
            observer.note(replaced(&hook, call, arguments, world)).await?;
            judged = judge(tool, call, &payload, world, observer).await?;
            if let Judged::Go { replaced, .. } = &mut judged {
                *replaced = Some(payload.clone());
            }
        }
    }
    Ok(judged)
}

/// A call that a hook keeps from running: a verdict like any other, whose rule is the hook.
async fn refused(
    hook: &Hook,
    call: &ToolCall,
    verdict: Option<&Verdict>,
    how: &str,
    why: &str,
    observer: &dyn CallObserver,
) -> Result<Judged, Halt> {
    let rule = RuleRef {
        file: "hooks".into(),
        line: 0,
        column: 0,
        text: format!("{} ({})", hook.label(), Cap::head(&hook.run, 200)),
    };
    let reason = format!("the operator's hook {} {how}: {why}", hook.label());
    let action = verdict.map_or_else(|| call.name.clone(), |verdict| verdict.action.clone());
    let verdict = Verdict::denied(action, rule, reason);
    observer.verdict(call, &verdict).await?;
    let text = format!("nothing ran: {}\nrule: {}", verdict.reason, verdict.rule);
    Ok(Judged::Done(plain(call, ResultKind::Denied, &text)))
}

/// What the model is told where other arguments than its own were taken.
fn replaced(hook: &Hook, call: &ToolCall, new: Map<String, Value>, world: &ToolWorld) -> Item {
    let new = Value::Object(new).to_string();
    let text = format!(
        "The arguments of the call {} ({}) were replaced before it was judged again:\n{}",
        call.call_id,
        call.name,
        Cap::middle(&world.masker.mask(&new), SHOWN)
    );
    context::hook(&hook.label(), &text)
}

/// Tells the `after_tool` hooks of a call that ran.
pub(super) async fn after(
    call: &ToolCall,
    payload: &ToolPayload,
    result: &ToolResult,
    world: &Arc<ToolWorld>,
    observer: &dyn CallObserver,
    cancel: &CancellationToken,
) -> Result<(), Halt> {
    for hook in world.hooks.at(HookPoint::AfterTool, Some(&call.name)) {
        let about = json!({
            "tool": call.name, "call_id": call.call_id, "arguments": arguments(payload),
            "result": {
                "kind": result.result, "effect": result.effect, "exit_code": result.exit_code,
                "text": Cap::middle(&result.output, SHOWN),
            },
        });
        let id = Some(&call.call_id);
        match ask_hook(world, &hook, id, about, observer, cancel).await? {
            Answer::Replied(Reply { context: Some(text), .. }) => {
                let text = format!("On the call {} ({}):\n{text}", call.call_id, call.name);
                observer.note(context::hook(&hook.label(), &text)).await?;
            }
            Answer::Replied(_) => {}
            Answer::Erred { why, .. } if hook.required => {
                let why = format!("the hook {} erred: {why}", hook.label());
                world.hooks.failed(why);
                // What has not begun yet does not begin any more.
                cancel.cancel();
                return Ok(());
            }
            Answer::Erred { why, .. } => {
                let text = format!("the hook {} erred: {why}", hook.label());
                observer.warning(text).await?;
            }
            Answer::Cancelled => return Ok(()),
        }
    }
    Ok(())
}

/// Arguments as an object, also those of a tool that takes a text.
fn arguments(payload: &ToolPayload) -> Value {
    match payload {
        ToolPayload::Json(text) => match serde_json::from_str(text) {
            Ok(object @ Value::Object(_)) => object,
            _ => json!({ "input": text }),
        },
        ToolPayload::Text(text) => json!({ "input": text }),
    }
}
