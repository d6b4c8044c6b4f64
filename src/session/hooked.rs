//! The hooks of a Turn that are not about a call: at its beginning, about its task, at its end.

use super::Memory;
use super::step::{LifeObserver, intact};
use super::turn::{Turn, failed};
use crate::context;
use crate::hooks::{Answer, Decision, Hook, HookPoint, Reply};
use crate::protocol::{Item, TurnEnd, Unmet};
use crate::tools;
use serde_json::{Value, json};

/// Asks whether the Turn may begin, and with this task; `None` where it takes up an answer and has no
/// task of its own.
pub(super) async fn open(turn: &mut Turn, task: Option<&str>) -> Result<(), TurnEnd> {
    let source = turn.parts.world.hooks.began_by();
    let about = json!({ "source": source, "untrusted": turn.context.config.untrusted });
    ask_all(turn, HookPoint::SessionStart, about).await?;
    match task {
        Some(prompt) => ask_all(turn, HookPoint::UserPrompt, json!({ "prompt": prompt })).await,
        None => Ok(()),
    }
}

async fn ask_all(turn: &mut Turn, point: HookPoint, about: Value) -> Result<(), TurnEnd> {
    for hook in turn.parts.world.hooks.at(point, None) {
        let reply = ask(turn, &hook, about.clone()).await?;
        if reply.decision != Decision::Allow {
            return Err(TurnEnd::Aborted {
                reason: format!("hook.{}", point.as_str()),
                message: format!("the hook {} denied it: {}", hook.label(), reply.reason),
            });
        }
        turn.notes.extend(reply.context.map(|text| context::hook(&hook.label(), &text)));
    }
    Ok(())
}

/// Asks whether the Turn may end with the message that the model gave; what is unmet where it may not.
pub(super) async fn stop(
    turn: &mut Turn,
    attempt: u32,
    attempts: u32,
) -> Result<Option<Unmet>, TurnEnd> {
    let mut message = None;
    turn.progress.update(|summary| message.clone_from(&summary.final_message));
    let about = json!({ "message": message, "attempt": attempt, "attempts": attempts });
    for hook in turn.parts.world.hooks.at(HookPoint::Stop, None) {
        let reply = ask(turn, &hook, about.clone()).await?;
        if reply.decision != Decision::Allow {
            let message = format!("the hook {} does not let the turn end", hook.label());
            let detail = format!("{message}: {}", reply.reason);
            let first = reply.reason.lines().next().unwrap_or_default();
            let message = format!("{message}: {first}");
            return Ok(Some(Unmet { reason: "hook.stop".into(), message, detail }));
        }
    }
    Ok(None)
}

/// Asks one hook; one that errs ends the Turn, because without its answer nothing goes on.
async fn ask(turn: &Turn, hook: &Hook, about: Value) -> Result<Reply, TurnEnd> {
    let observer = LifeObserver::of(turn);
    let cancel = turn.context.cancel.token();
    let asked = tools::ask_hook(&turn.parts.world, hook, None, about, &observer, cancel);
    let answer = asked.await.map_err(failed)?;
    intact(turn)?;
    match answer {
        Answer::Replied(reply) => Ok(reply),
        Answer::Erred { why, .. } => Err(TurnEnd::Failed {
            reason: format!("hook.{}", hook.point.as_str()),
            message: format!("the hook {} erred: {why}", hook.label()),
            retryable: true,
        }),
        Answer::Cancelled if turn.context.cancel.is_cancelled() => Err(turn.aborted()),
        Answer::Cancelled => Err(TurnEnd::Failed {
            reason: "replay.over".into(),
            message: "the record ends before this hook".into(),
            retryable: false,
        }),
    }
}

/// The end of a Turn whose hook was told and failed.
pub(super) fn failure(turn: &Turn) -> Result<(), TurnEnd> {
    match turn.parts.world.hooks.failure() {
        None => Ok(()),
        Some(message) => {
            Err(TurnEnd::Failed { reason: "hook.after_tool".into(), message, retryable: true })
        }
    }
}

pub(super) async fn tell_notes(
    turn: &Turn,
    memory: &mut Memory,
    notes: Vec<Item>,
) -> Result<(), TurnEnd> {
    for note in notes {
        turn.add_item(memory, note, None).await?;
    }
    Ok(())
}
