//! Request bodies that cost a step only the copying of bytes.
//!
//! A prompt's items are shared and the history only grows, so the encoded form of everything up to
//! the last step stands in the body of the last request already. This cache keeps that one body and
//! where each encoded piece ends; the next body copies the common prefix and encodes what is new.
//! The very same prompt gives the very same [`Bytes`], so a retry sends the same bytes for free.

use super::error::{ModelError, ModelErrorKind};
use crate::protocol::{CallId, Item, Prompt, PromptOptions, Role, ToolSpec};
use bytes::Bytes;
use serde::Serialize;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Writes one wire's request.
pub(super) trait Encoder {
    /// Everything before the encoded items, up to and with their opening bracket.
    fn head(&self, prompt: &Prompt, out: &mut Vec<u8>);
    /// Encodes `items` (one or several wire elements, comma separated, no leading comma), looking
    /// at nothing else. May write nothing at all.
    fn group(&self, items: &[Arc<Item>], out: &mut Vec<u8>);
    /// Whether an element of the wire may begin at this item, whatever follows it: the place where
    /// one group ends and the next begins.
    fn begins_group(&self, before: &Item, item: &Item) -> bool;
    /// Everything after the items, from their closing bracket on.
    fn tail(&self, prompt: &Prompt, out: &mut Vec<u8>);
    /// Encodes the last group of a prompt; wires that mark the end of the cached prefix differ here.
    fn last_group(&self, items: &[Arc<Item>], out: &mut Vec<u8>) {
        self.group(items, out);
    }
}

/// The last body and how it is made up.
#[derive(Default)]
pub(super) struct BodyCache {
    last: Mutex<Option<Kept>>,
}

struct Kept {
    instructions: Arc<str>,
    tools: Arc<[ToolSpec]>,
    options: PromptOptions,
    items: Vec<Arc<Item>>,
    body: Bytes,
    /// Where the encoded items begin.
    start: usize,
    /// For each group that was encoded as `group` does: its items' end and its bytes' end.
    ends: Vec<(usize, usize)>,
}

impl BodyCache {
    /// The body of a prompt's request.
    pub fn build(&self, prompt: &Prompt, encoder: &dyn Encoder) -> Result<Bytes, ModelError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let common = last.as_ref().map_or(0, |kept| common_prefix(&kept.items, &prompt.items));
        if let Some(kept) = last.as_ref()
            && common == prompt.items.len()
            && kept.is_for(prompt)
        {
            return Ok(kept.body.clone());
        }
        check_pairs(&prompt.items)?;
        let kept = encode(prompt, encoder, last.take(), common);
        let body = kept.body.clone();
        *last = Some(kept);
        Ok(body)
    }
}

impl Kept {
    fn is_for(&self, prompt: &Prompt) -> bool {
        self.items.len() == prompt.items.len()
            && Arc::ptr_eq(&self.tools, &prompt.tools)
            && Arc::ptr_eq(&self.instructions, &prompt.instructions)
            && same_options(&self.options, &prompt.options)
    }
}

fn same_options(a: &PromptOptions, b: &PromptOptions) -> bool {
    a.cache_key == b.cache_key
        && a.effort == b.effort
        && a.max_output_tokens == b.max_output_tokens
        && a.output_schema == b.output_schema
}

fn common_prefix(a: &[Arc<Item>], b: &[Arc<Item>]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| Arc::ptr_eq(a, b)).count()
}

fn encode(prompt: &Prompt, encoder: &dyn Encoder, last: Option<Kept>, common: usize) -> Kept {
    let room = last.as_ref().map_or(16 * 1024, |kept| kept.body.len() + 16 * 1024);
    let mut out = Vec::with_capacity(room);
    encoder.head(prompt, &mut out);
    let start = out.len();
    let mut ends: Vec<(usize, usize)> = Vec::new();
    let mut done = 0;
    if let Some(kept) = last.filter(|kept| Arc::ptr_eq(&kept.instructions, &prompt.instructions)) {
        ends = kept.ends;
        // Strictly below: the item that begins the next group must be the same one too.
        ends.retain(|(items, _)| *items < common);
        if let Some((items, bytes)) = ends.last().copied() {
            out.extend_from_slice(kept.body.get(kept.start..bytes).unwrap_or_default());
            done = items;
        }
        for end in &mut ends {
            end.1 = end.1 - kept.start + start;
        }
    }
    while done < prompt.items.len() {
        let group = next_group(&prompt.items, done, encoder);
        let is_last = group.end == prompt.items.len();
        let before = out.len();
        // The head may have written the first element already.
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        let comma = out.len();
        let items = &prompt.items[group.clone()];
        if is_last {
            encoder.last_group(items, &mut out)
        } else {
            encoder.group(items, &mut out)
        }
        if out.len() == comma {
            out.truncate(before);
        }
        if !is_last {
            ends.push((group.end, out.len()));
        }
        done = group.end;
    }
    encoder.tail(prompt, &mut out);
    Kept {
        instructions: prompt.instructions.clone(),
        tools: prompt.tools.clone(),
        options: prompt.options.clone(),
        items: prompt.items.clone(),
        body: Bytes::from(out),
        start,
        ends,
    }
}

fn next_group(items: &[Arc<Item>], from: usize, encoder: &dyn Encoder) -> Range<usize> {
    let mut end = from + 1;
    while end < items.len() && !encoder.begins_group(&items[end - 1], &items[end]) {
        end += 1;
    }
    from..end
}

/// Whether an item was said by the model, for wires that put each side's items into one message.
pub(super) fn is_model_side(item: &Item) -> bool {
    match item {
        Item::Message { role, .. } => *role == Role::Assistant,
        Item::Reasoning { .. } | Item::ToolCall(_) | Item::Unknown { .. } => true,
        Item::ToolResult(_) => false,
    }
}

/// No call without its result and no result without its call, in this order: a provider refuses
/// the whole request otherwise, and by then the fault is hard to find.
fn check_pairs(items: &[Arc<Item>]) -> Result<(), ModelError> {
    let mut open: Vec<&CallId> = Vec::new();
    for item in items {
        match &**item {
            Item::ToolCall(call) => open.push(&call.call_id),
            Item::ToolResult(result) => match open.iter().rposition(|id| **id == result.call_id) {
                Some(at) => drop(open.swap_remove(at)),
                None => return Err(unpaired("a tool result without its call", &result.call_id)),
            },
            _ => {}
        }
    }
    match open.first() {
        Some(id) => Err(unpaired("a tool call without its result", id)),
        None => Ok(()),
    }
}

fn unpaired(what: &str, id: &CallId) -> ModelError {
    ModelError::new(
        ModelErrorKind::InvalidRequest,
        format!("the history holds {what} ({id}); the request was not sent"),
    )
    .hint("this is a fault of the runner: please report it with the rollout")
}

/// Adds a value as JSON. Writing to memory can not fail; a value that does not serialise (a map
/// with odd keys) is none that we make.
pub(super) fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests;
