//! A model that answers from a record: positional and strict. Request number n gets response number n
//! if it is the recorded request, by its fingerprint or, where a fingerprint cannot be equal (a
//! secret was masked in the record, a path or a duration differs), item by item in their normal form.
//! The first request that differs ends the replay.

use super::Model;
use super::error::{ModelError, ModelErrorKind};
use super::stream::{ModelEvent, ResponseStream, Stop};
use crate::protocol::{Item, Prompt, ToolSpec, Usage};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// One response of a record, with what was asked.
#[derive(Debug, Clone, Default)]
pub struct RecordedResponse {
    pub step: u32,
    pub fingerprint: String,
    pub items: Vec<Item>,
    pub usage: Usage,
    pub response_id: String,
    pub model: String,
}

/// The first request that was not the recorded one.
#[derive(Debug, Clone)]
pub struct Divergence {
    pub step: u32,
    /// `item 7`, `instructions`, `tools`.
    pub what: String,
    pub recorded: Option<Arc<Item>>,
    pub replayed: Option<Arc<Item>>,
}

type Normal = dyn Fn(&Item) -> Item + Send + Sync;
type Sent = dyn Fn(usize) -> Vec<Arc<Item>> + Send + Sync;

/// See the module.
pub struct ReplayModel {
    id: String,
    instructions: Arc<str>,
    tools: Arc<[ToolSpec]>,
    responses: Vec<RecordedResponse>,
    /// The items of recorded request n.
    sent: Box<Sent>,
    normal: Box<Normal>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: usize,
    /// Items at the front that are known to be equal: a longer request begins with the shorter one.
    equal: usize,
    divergence: Option<Divergence>,
}

impl ReplayModel {
    pub fn new(
        id: &str,
        instructions: Arc<str>,
        tools: Arc<[ToolSpec]>,
        responses: Vec<RecordedResponse>,
        sent: Box<Sent>,
        normal: Box<Normal>,
    ) -> Self {
        let state = Mutex::default();
        Self { id: id.to_owned(), instructions, tools, responses, sent, normal, state }
    }

    /// Where a request differed from the recorded one.
    pub fn divergence(&self) -> Option<Divergence> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).divergence.clone()
    }

    fn answer(&self, prompt: &Prompt) -> Result<Vec<ModelEvent>, ModelError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(response) = self.responses.get(state.next) else {
            let text = format!("the record holds {} responses", self.responses.len());
            return Err(ModelError::new(ModelErrorKind::RecordOver, text));
        };
        if prompt.fingerprint != response.fingerprint {
            let sent = (self.sent)(state.next);
            if let Some((what, at)) = self.differs(prompt, &sent, state.equal) {
                let text = format!("step {}: {what} is not what was recorded", response.step);
                state.divergence = Some(Divergence {
                    step: response.step,
                    what,
                    recorded: at.and_then(|at| sent.get(at).cloned()),
                    replayed: at.and_then(|at| prompt.items.get(at).cloned()),
                });
                return Err(ModelError::new(ModelErrorKind::Diverged, text));
            }
        }
        state.equal = prompt.items.len();
        state.next += 1;
        Ok(events(response))
    }

    fn differs(
        &self,
        prompt: &Prompt,
        sent: &[Arc<Item>],
        equal: usize,
    ) -> Option<(String, Option<usize>)> {
        if prompt.instructions != self.instructions {
            return Some(("the base instructions".into(), None));
        }
        if prompt.tools != self.tools {
            let name = |tools: &[ToolSpec]| {
                tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>().join(", ")
            };
            let (then, now) = (name(&self.tools), name(&prompt.tools));
            return Some((format!("the list of tools (recorded: {then}; now: {now})"), None));
        }
        let longest = sent.len().max(prompt.items.len());
        let first = (equal.min(longest)..longest).find(|at| {
            match (sent.get(*at), prompt.items.get(*at)) {
                (Some(then), Some(now)) => then != now && (self.normal)(then) != (self.normal)(now),
                _ => true,
            }
        })?;
        Some((format!("item {} of the request", first + 1), Some(first)))
    }
}

fn events(response: &RecordedResponse) -> Vec<ModelEvent> {
    let mut events = vec![ModelEvent::Started { response_id: response.response_id.clone() }];
    events.extend(response.items.iter().cloned().map(ModelEvent::ItemDone));
    events.push(ModelEvent::Usage(response.usage));
    events.push(ModelEvent::Completed {
        response_id: response.response_id.clone(),
        model: response.model.clone(),
        stop: Stop::End,
    });
    events
}

impl Model for ReplayModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn freeform_tools(&self) -> bool {
        true
    }

    /// Limits are looked after as they were, so that they end the replay where they ended the run.
    fn is_billed(&self) -> bool {
        !self.id.starts_with("scripted/")
    }

    fn max_output_tokens(&self) -> Option<u64> {
        None
    }

    fn stream(&self, prompt: &Prompt, _: CancellationToken) -> ResponseStream {
        match self.answer(prompt) {
            Ok(events) => ResponseStream::ready(events, None),
            Err(error) => ResponseStream::failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Fragment, PromptOptions, Role};

    fn message(text: &str) -> Arc<Item> {
        Arc::new(Item::ours(Role::User, Fragment::Task, text))
    }

    fn prompt(texts: &[&str], fingerprint: &str) -> Prompt {
        Prompt {
            instructions: "base".into(),
            items: texts.iter().map(|text| message(text)).collect(),
            tools: Vec::new().into(),
            options: PromptOptions::default(),
            fingerprint: fingerprint.into(),
        }
    }

    fn model() -> ReplayModel {
        let response = |step, fingerprint: &str| RecordedResponse {
            step,
            fingerprint: fingerprint.into(),
            ..RecordedResponse::default()
        };
        ReplayModel::new(
            "openai/m",
            "base".into(),
            Vec::new().into(),
            vec![response(1, "f1"), response(2, "f2")],
            Box::new(|n| ["a", "b", "c"][..=n].iter().map(|text| message(text)).collect()),
            Box::new(|item| match item {
                Item::Message { text, .. } => {
                    Item::ours(Role::User, Fragment::Task, text.to_lowercase())
                }
                other => other.clone(),
            }),
        )
    }

    #[test]
    fn the_same_requests_in_the_same_order_get_the_recorded_responses() {
        let model = model();
        assert!(model.answer(&prompt(&["a"], "f1")).is_ok());
        assert!(model.answer(&prompt(&["a", "B"], "other")).is_ok(), "the normal form is equal");
        let over = model.answer(&prompt(&["a", "b", "c"], "f3")).unwrap_err();
        assert_eq!(over.kind, ModelErrorKind::RecordOver);
    }

    #[test]
    fn the_first_request_that_differs_ends_the_replay() {
        let model = model();
        assert!(model.answer(&prompt(&["a"], "f1")).is_ok());
        let error = model.answer(&prompt(&["a", "x"], "other")).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Diverged);
        let found = model.divergence().unwrap();
        assert_eq!((found.step, found.what.as_str()), (2, "item 2 of the request"));
        assert!(!error.retryable());
    }
}
