//! Hooks asked by themselves: no model, no Turn; everything else as in a run.

use super::prepare::Prepared;
use crate::hooks::{Answer, Decision, Hook, HookPoint};
use crate::protocol::CallId;
use crate::rollout::HookRecord;
use crate::tools::{Halt, HookObserver, HookPlace, ask_hook};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// What a hook came to.
#[derive(Debug, Clone, PartialEq)]
pub struct HookTest {
    pub record: HookRecord,
    pub allows: bool,
    /// What it did beside answering, as a run would tell it.
    pub warnings: Vec<String>,
}

/// Asks the hooks that `name` names, a point (`stop`) or one of its hooks (`before_tool[1]`), each with
/// `about` over a sample of its point. `Err` is for a name that names none.
pub async fn test_hooks(
    prepared: &Prepared,
    name: &str,
    about: &Value,
    cancel: &CancellationToken,
) -> Result<Vec<HookTest>, String> {
    let world = &prepared.parts.world;
    let all = world.hooks.list();
    let named: Vec<&Hook> =
        all.iter().filter(|hook| hook.label() == name || hook.point.as_str() == name).collect();
    if named.is_empty() {
        let labels: Vec<String> = all.iter().map(Hook::label).collect();
        let known = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
        return Err(format!("there is no hook {name:?}; the hooks of the spec are: {known}"));
    }
    let mut tests = Vec::new();
    for hook in named {
        let observer = Observer { prepared, seen: Mutex::default() };
        let mut asked = sample(hook.point, &prepared.task);
        if let (Value::Object(asked), Value::Object(about)) = (&mut asked, about) {
            asked.extend(about.clone());
        }
        let id = asked.get("call_id").and_then(Value::as_str).map(CallId::from);
        let answer = ask_hook(world, hook, id.as_ref(), asked, &observer, cancel).await;
        let answer = answer.map_err(|halt| halt.message)?;
        let allows = matches!(&answer, Answer::Replied(reply) if reply.decision == Decision::Allow);
        let (record, warnings) = observer.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Some(record) = record else { return Err("it was interrupted".into()) };
        tests.push(HookTest { record, allows, warnings });
    }
    Ok(tests)
}

/// What a hook of this point could be told in a run.
fn sample(point: HookPoint, task: &str) -> Value {
    let call =
        json!({ "tool": "exec_command", "call_id": "call_1", "arguments": { "cmd": "true" } });
    let with = |more: Value| {
        let mut whole = call.clone();
        if let (Value::Object(whole), Value::Object(more)) = (&mut whole, more) {
            whole.extend(more);
        }
        whole
    };
    match point {
        HookPoint::SessionStart => json!({ "source": "exec", "untrusted": false }),
        HookPoint::UserPrompt => json!({ "prompt": task }),
        HookPoint::BeforeTool => with(json!({ "verdict": null })),
        HookPoint::AfterTool => with(json!({ "result": {
            "kind": "ok", "effect": "done", "exit_code": 0, "text": "exit code: 0\noutput:\n",
        }})),
        HookPoint::Stop => json!({ "message": "done", "attempt": 0, "attempts": 3 }),
        HookPoint::RunEnd => json!({
            "state": "completed", "exit_status": 0, "reason": "completed",
            "message": "the turn completed", "changed_files": [], "diff_digest": "",
            "artifacts": {},
        }),
    }
}

/// What a hook reported.
type Seen = (Option<HookRecord>, Vec<String>);

struct Observer<'a> {
    prepared: &'a Prepared,
    seen: Mutex<Seen>,
}

impl HookObserver for Observer<'_> {
    fn place(&self) -> HookPlace {
        HookPlace {
            run: self.prepared.parts.run.clone(),
            thread: self.prepared.parts.session.to_string(),
            turn: "test".into(),
            step: 1,
        }
    }

    fn hook_started<'a>(
        &'a self,
        _: &'a Hook,
        _: Option<&'a CallId>,
    ) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn hook_done(&self, record: HookRecord) -> BoxFuture<'_, Result<(), Halt>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(record);
        Box::pin(std::future::ready(Ok(())))
    }

    fn warning(&self, text: String) -> BoxFuture<'_, Result<(), Halt>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).1.push(text);
        Box::pin(std::future::ready(Ok(())))
    }
}
