//! History that the provider keeps (`previous_response_id`), by the operator's choice.
//!
//! A request goes on from the last response only if everything before it is what it was then: the
//! same instructions, tools and items, and after them the very items of that response. Whatever
//! changed, and whenever the provider has forgotten the response, the whole history is sent.

use super::super::error::ModelError;
use super::super::http::Exchange;
use super::super::stream::{BoxFuture, ModelEvent, Source};
use crate::protocol::{Item, Prompt, ToolSpec};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A provider that forgets each time (some accounts may keep nothing) is not asked to remember.
const MAX_FORGOTTEN: u32 = 2;

/// What the provider is known to have.
#[derive(Clone, Default)]
pub(super) struct Kept {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    last: Option<Last>,
    /// How often in a row the provider had forgotten.
    forgotten: u32,
}

/// The last response, and the request that it answered.
struct Last {
    response_id: String,
    instructions: Arc<str>,
    tools: Arc<[ToolSpec]>,
    sent: Vec<Arc<Item>>,
    said: Vec<Item>,
}

impl Last {
    /// How many items at the front of the prompt the provider has; none if anything differs.
    fn covers(&self, prompt: &Prompt) -> Option<usize> {
        let count = self.sent.len() + self.said.len();
        let same_head = self.instructions == prompt.instructions && self.tools == prompt.tools;
        let mut known = self.sent.iter().map(Arc::as_ref).chain(&self.said);
        // Shared items are the same ones: nothing is compared that need not be.
        let same =
            |(now, then): (&Arc<Item>, &Item)| std::ptr::eq(now.as_ref(), then) || **now == *then;
        let same_items = prompt.items.iter().zip(known.by_ref()).all(same);
        (same_head && same_items && count < prompt.items.len()).then_some(count)
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The response to go on from, and how many items of the prompt it covers.
    pub fn covers(&self, prompt: &Prompt) -> Option<(String, usize)> {
        let state = self.lock();
        let last = state.last.as_ref().filter(|_| state.forgotten < MAX_FORGOTTEN)?;
        Some((last.response_id.clone(), last.covers(prompt)?))
    }

    /// A request whose answer is remembered. `fallback` is sent where the provider has forgotten.
    pub fn remembering(
        &self,
        first: Exchange,
        fallback: Option<Exchange>,
        prompt: &Prompt,
    ) -> Remembering {
        let last = Last {
            response_id: String::new(),
            instructions: prompt.instructions.clone(),
            tools: prompt.tools.clone(),
            sent: prompt.items.to_vec(),
            said: Vec::new(),
        };
        Remembering { kept: self.clone(), current: first, fallback, last: Some(last) }
    }
}

/// One request under way.
pub(super) struct Remembering {
    kept: Kept,
    current: Exchange,
    fallback: Option<Exchange>,
    last: Option<Last>,
}

impl Remembering {
    fn watch(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::ItemDone(item) => {
                if let Some(last) = &mut self.last {
                    last.said.push(item.clone());
                }
            }
            ModelEvent::Completed { response_id, .. } if !response_id.is_empty() => {
                let Some(mut last) = self.last.take() else { return };
                last.response_id.clone_from(response_id);
                let mut state = self.kept.lock();
                // It answered without a fallback: it does remember.
                if self.fallback.is_some() {
                    state.forgotten = 0;
                }
                state.last = Some(last);
            }
            _ => {}
        }
    }
}

impl Source for Remembering {
    fn fill<'a>(
        &'a mut self,
        queue: &'a mut VecDeque<ModelEvent>,
    ) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            let before = queue.len();
            let mut filled = self.current.fill(queue).await;
            if filled.as_ref().is_err_and(has_forgotten)
                && let Some(fallback) = self.fallback.take()
            {
                {
                    let mut state = self.kept.lock();
                    state.last = None;
                    state.forgotten += 1;
                }
                self.current = fallback;
                filled = self.current.fill(queue).await;
            }
            for event in queue.iter().skip(before) {
                self.watch(event);
            }
            filled
        })
    }
}

/// Refused because of the response to go on from: forgotten, or not kept for this account.
fn has_forgotten(error: &ModelError) -> bool {
    error.code.as_deref() == Some("previous_response_not_found")
        || (error.status.is_some_and(|status| matches!(status, 400 | 404))
            && ["previous_response_id", "revious response"]
                .iter()
                .any(|words| error.message.contains(words)))
}
