//! Replay from the record alone: no tool runs, nothing is looked at, no policy is asked. What is run
//! again is the runtime: the loop of Steps, limits, repairs, feedback, and the requests that they
//! make.

use super::folder::RunFolder;
use super::hooks;
use super::prepare::{Refusal, RunInput, unavailable};
use super::replay::{self, RecordedRun, Replayed, compare, model, rollout_in, throw_away};
use super::trace::Normal;
use crate::clock;
use crate::exec::sandbox::NoSandbox;
use crate::exec::{CleanPath, Environment, EnvironmentInput, Executor, ExecutorConfig};
use crate::hooks::Hooks;
use crate::model::RetryPolicy;
use crate::policy::{Ground, OnDeny, PolicyFile};
use crate::protocol::{
    CallId, Effect, EventMsg, Item, Op, PromptOptions, ResultKind, ToolPayload, ToolResult,
    ToolSpec, Verdict,
};
use crate::rollout::{CheckRecord, Masker, Record, RolloutWriter};
use crate::session::{
    self, Limits, ReplayedAttempt, ReplayedLook, ReplayedWorld, SessionParts, TurnConfig,
};
use crate::spec::Prices;
use crate::tools::{
    Action, CallContext, Prepared, Registry, Tool, ToolFailure, ToolLimits, ToolOutput, ToolWorld,
    WorldFacts,
};
use crate::verify::Verifier;
use crate::workspace::{self, Workspace};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// No replay of a record takes longer; its own limit of time says nothing here.
const PATIENCE: Duration = Duration::from_secs(3600);

pub(super) async fn replay(
    recorded: Arc<RecordedRun>,
    input: RunInput,
) -> Result<Replayed, Refusal> {
    let folder = RunFolder::create(&input.bases, &|_| false).map_err(|why| {
        unavailable("folder.run", why, "set HOME to a folder that can be written")
    })?;
    let answer = run(&recorded, &input, &folder).await;
    throw_away(&folder);
    answer
}

async fn run(
    recorded: &Arc<RecordedRun>,
    input: &RunInput,
    folder: &RunFolder,
) -> Result<Replayed, Refusal> {
    let normal = Normal::default();
    let model = Arc::new(model(recorded, &normal));
    let masker = Arc::new(Masker::new(input.secrets.iter().map(|(n, v)| (n.as_str(), v.as_str()))));
    let rollout = RolloutWriter::create(&rollout_in(folder), masker.clone())
        .map_err(|error| unavailable("rollout.create", error.to_string(), error.hint()))?;
    let world = world(recorded, input, folder, masker)?;
    let calls = Arc::new(Calls::of(recorded));
    let tools: Vec<Arc<dyn Tool>> = recorded
        .context
        .tools
        .iter()
        .map(|spec| -> Arc<dyn Tool> {
            Arc::new(RecordedTool { spec: spec.clone(), calls: calls.clone() })
        })
        .collect();
    let attempts = recorded.context.limits.get("verify_attempts").and_then(Value::as_u64);
    let parts = SessionParts {
        session: recorded.started.session.clone(),
        run: folder.id.to_string(),
        model: model.clone(),
        registry: Arc::new(Registry::new(tools)),
        world,
        verifier: Arc::new(Verifier {
            attempts: u32::try_from(attempts.unwrap_or(0)).unwrap_or(u32::MAX),
            ..Verifier::default()
        }),
        rollout: rollout.clone(),
        config: config(recorded),
        history: replay::history(recorded),
        opening: replay::opening(recorded),
        answered: replay::answer(recorded),
        replayed: Some(Arc::new(replayed_world(recorded))),
    };
    let (handle, mut events) = session::spawn(parts);
    // A Session that is gone shows in its events.
    let _ = handle.submit(Op::UserInput { text: recorded.task.as_str().into() }).await;
    while let Some(event) = events.recv().await {
        if matches!(event.msg, EventMsg::TurnEnded { .. }) {
            let _ = handle.submit(Op::Shutdown).await;
        }
    }
    rollout
        .close()
        .await
        .map_err(|error| unavailable("rollout.write", error.to_string(), error.hint()))?;
    compare(recorded, &rollout_in(folder), model.divergence(), &normal, "recorded")
}

/// A world that nothing looks at.
fn world(
    recorded: &RecordedRun,
    input: &RunInput,
    folder: &RunFolder,
    masker: Arc<Masker>,
) -> Result<Arc<ToolWorld>, Refusal> {
    let ground = Ground {
        workspace: folder.copy.clone(),
        home: None,
        protected: Vec::new(),
        untrusted: true,
        git_dirs: Vec::new(),
    };
    let policy = PolicyFile::built_in().compile(&ground).map_err(|faults| {
        let text = faults.first().map(ToString::to_string).unwrap_or_default();
        unavailable("policy", text, "")
    })?;
    let path = CleanPath::new(None, &|_| true);
    let environment = Environment::new(
        EnvironmentInput { scratch: folder.scratch.clone(), ..EnvironmentInput::default() },
        &path,
    );
    let executor = Executor::new(ExecutorConfig {
        launchers: input.launchers.clone(),
        sandbox: Arc::new(NoSandbox::new("nothing runs")),
        environment,
        path: path.clone(),
    });
    let options = workspace::Options {
        exclude: Vec::new(),
        store: folder.store.clone(),
        limits: workspace::Limits::default(),
    };
    let workspace = Workspace::open(&folder.copy, options)
        .map_err(|error| unavailable("workspace.open", error.to_string(), ""))?;
    let world = ToolWorld::new(
        Arc::new(policy),
        Arc::new(executor),
        Arc::new(WorldFacts { path, writable: Vec::new(), reach: None }),
        masker,
        ToolLimits::default(),
        Arc::new(Mutex::new(workspace)),
    );
    let asked = recorded.records.iter().filter_map(|record| match record {
        Record::Hook(hook) => Some(hook.as_ref().clone()),
        _ => None,
    });
    Ok(Arc::new(world.with_hooks(Hooks::recorded(hooks::list(&input.settings), asked))))
}

fn config(recorded: &RecordedRun) -> TurnConfig {
    let context = &recorded.context;
    let limits = &context.limits;
    let number = |key: &str| limits.get(key).and_then(Value::as_u64);
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let option = |key: &str| context.options.get(key);
    TurnConfig {
        instructions: context.instructions.clone(),
        options: PromptOptions {
            cache_key: recorded.started.session.to_string(),
            effort: option("effort").and_then(Value::as_str).map(str::to_owned),
            max_output_tokens: option("max_output_tokens").and_then(Value::as_u64),
            output_schema: context.output_schema.clone(),
        },
        retry: RetryPolicy { attempts: 1, total_wait: Duration::ZERO, ..RetryPolicy::default() },
        limits: Limits {
            steps: number("steps").map_or(u32::MAX, small),
            tool_calls: number("tool_calls").map(small),
            tokens: number("tokens"),
            cost: limits.get("cost").and_then(cost),
            time: PATIENCE,
            deadline: clock::now() + PATIENCE,
            equal_failures: number("equal_failures").map_or(u32::MAX, small),
            equal_denials: number("equal_denials").map_or(u32::MAX, small),
        },
        on_deny: match limits.get("on_deny").and_then(Value::as_str) {
            Some("stop") => OnDeny::Stop,
            Some("fail_at_end") => OnDeny::FailAtEnd,
            _ => OnDeny::Continue,
        },
        base_url: context.base_url.clone(),
        untrusted: context.untrusted,
    }
}

fn cost(value: &Value) -> Option<(f64, Prices)> {
    let number = |key: &str| value.get(key).and_then(Value::as_f64);
    let prices =
        Prices { input: number("input")?, cached: number("cached")?, output: number("output")? };
    Some((number("limit")?, prices))
}

/// What was seen and what verification came to, by position.
fn replayed_world(recorded: &RecordedRun) -> ReplayedWorld {
    let mut looks = BTreeMap::new();
    let mut attempts: Vec<ReplayedAttempt> = Vec::new();
    let mut current = ReplayedAttempt::default();
    let mut look: Option<(u32, bool, BTreeMap<String, Value>)> = None;
    for record in &recorded.records {
        match record {
            // One without it was told nobody.
            Record::WorldState { step, full, sections } if sections.contains_key("git") => {
                look = Some((*step, *full, sections.clone()));
            }
            Record::Item { item, .. } => {
                if let Some((step, full, sections)) = look.take() {
                    looks.insert(step, ReplayedLook { full, sections, item: item.clone() });
                }
            }
            Record::Diff(diff) => current.diff = Some(diff.clone()),
            Record::Verification(check) => current.checks.push(check.clone() as Box<CheckRecord>),
            Record::Verified { unmet, .. } => {
                current.unmet = unmet.clone();
                attempts.push(std::mem::take(&mut current));
            }
            _ => {}
        }
    }
    ReplayedWorld::new(looks, attempts)
}

/// One call as it went.
struct RecordedCall {
    verdict: Option<Verdict>,
    result: Option<ToolResult>,
}

/// The calls of the record by what was called; equal calls in their order.
struct Calls(Mutex<HashMap<(String, String), VecDeque<RecordedCall>>>);

impl Calls {
    fn of(recorded: &RecordedRun) -> Self {
        let mut verdicts: HashMap<&CallId, VecDeque<&Verdict>> = HashMap::new();
        let mut replaced: HashMap<&CallId, Vec<String>> = HashMap::new();
        let mut results: HashMap<&CallId, &ToolResult> = HashMap::new();
        for record in &recorded.records {
            match record {
                Record::Verdict { call_id: Some(id), verdict, .. } => {
                    verdicts.entry(id).or_default().push_back(verdict);
                }
                Record::Hook(hook) => {
                    if let (Some(id), Some(arguments)) = (&hook.call_id, &hook.arguments) {
                        replaced.entry(id).or_default().push(arguments.to_string());
                    }
                }
                Record::Item { item, .. } => {
                    if let Item::ToolResult(result) = item.as_ref() {
                        results.insert(&result.call_id, result);
                    }
                }
                _ => {}
            }
        }
        let mut calls: HashMap<(String, String), VecDeque<RecordedCall>> = HashMap::new();
        for record in &recorded.records {
            let Record::Item { item, .. } = record else { continue };
            let Item::ToolCall(call) = item.as_ref() else { continue };
            // A hook may have put other arguments in their place, each judged anew.
            let new = replaced.remove(&call.call_id).unwrap_or_default();
            for payload in std::iter::once(call.payload.as_str().to_owned()).chain(new) {
                let judged = verdicts.get_mut(&call.call_id).and_then(VecDeque::pop_front);
                calls.entry((call.name.clone(), payload)).or_default().push_back(RecordedCall {
                    verdict: judged.cloned(),
                    result: results.get(&call.call_id).map(|result| (*result).clone()),
                });
            }
        }
        Self(Mutex::new(calls))
    }

    fn next(&self, name: &str, payload: &ToolPayload) -> Option<RecordedCall> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.get_mut(&(name.to_owned(), payload.as_str().to_owned()))?.pop_front()
    }
}

/// A tool that answers from the record.
struct RecordedTool {
    spec: ToolSpec,
    calls: Arc<Calls>,
}

impl Tool for RecordedTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn prepare(&self, payload: &ToolPayload, _: &Arc<ToolWorld>) -> Result<Prepared, ToolFailure> {
        let Some(call) = self.calls.next(&self.spec.name, payload) else {
            let text = "the record has no such call";
            return Err(ToolFailure { result: ResultKind::Internal, text: text.into() });
        };
        let result = call.result;
        match call.verdict {
            Some(verdict) if verdict.is_allow() => {
                Ok(Prepared::Judged { verdict, action: Some(answer(result)), effect: false })
            }
            Some(verdict) => Ok(Prepared::Judged { verdict, action: None, effect: false }),
            None => match result {
                Some(result) if result.result != ResultKind::Ok => {
                    Err(ToolFailure { result: result.result, text: result.output })
                }
                result => Ok(Prepared::Free(answer(result))),
            },
        }
    }
}

fn answer(result: Option<ToolResult>) -> Action {
    Box::new(move |_: CallContext| {
        Box::pin(async move {
            match result {
                Some(result) => ToolOutput {
                    result: Some(result.result),
                    effect: Some(result.effect),
                    text: result.output,
                    exit_code: result.exit_code,
                    ..ToolOutput::default()
                },
                None => ToolOutput::new(
                    ResultKind::Aborted,
                    Effect::Unknown,
                    "the record has no result of this call",
                ),
            }
        })
    })
}
