//! Request bodies that cost a step only what is new.
//!
//! A prompt's items are shared and the history only grows, so the encoded form of everything up to
//! the last step stands in the pieces of the last request already. The next body shares them and
//! encodes what is new; pieces are joined from time to time, so that there are few of them however
//! long the history is. They are sent one after another and never put together into one. The very
//! same prompt gives the very same pieces, so a retry sends the same bytes for free.

use super::error::{ModelError, ModelErrorKind};
use crate::protocol::{CallId, Item, Prompt, PromptOptions, Role, ToolSpec};
use bytes::Bytes;
use serde::Serialize;
use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

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

/// A request's body: shared pieces, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Body {
    pieces: Arc<[Bytes]>,
}

impl Body {
    fn new(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        Self { pieces: pieces.into_iter().filter(|piece| !piece.is_empty()).collect() }
    }

    /// A body to send; the pieces stay shared. Its length is known, so the request says it.
    pub fn to_send(&self) -> reqwest::Body {
        let left = self.pieces.iter().map(|piece| piece.len() as u64).sum();
        reqwest::Body::wrap(Sending { pieces: self.pieces.clone(), next: 0, left })
    }

    #[cfg(test)]
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

/// A body on its way.
struct Sending {
    pieces: Arc<[Bytes]>,
    next: usize,
    left: u64,
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.get(self.next).cloned();
        self.next += 1;
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(http_body::Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.left)
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
    head: Bytes,
    pieces: Pieces,
    body: Body,
}

impl BodyCache {
    /// The body of a prompt's request.
    pub fn build(&self, prompt: &Prompt, encoder: &dyn Encoder) -> Result<Body, ModelError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let common = last.as_ref().map_or(0, |kept| common_prefix(&kept.items, &prompt.items));
        if let Some(kept) = last.as_ref() {
            if common == prompt.items.len() && kept.is_for(prompt) {
                return Ok(kept.body.clone());
            }
            // What was sent before was in pairs, so only what is new can break them.
            let known = if common == kept.items.len() { common } else { 0 };
            check_pairs(prompt.items.get(known..).unwrap_or_default())?;
        } else {
            check_pairs(&prompt.items)?;
        }
        let kept = encode(prompt, encoder, last.take(), common);
        let body = kept.body.clone();
        *last = Some(kept);
        Ok(body)
    }
}

/// The body of a request with the items from `from` on only, for a provider that has the others. The
/// prompt as a whole was checked by [`BodyCache::build`].
pub(super) fn encode_rest(prompt: &Prompt, from: usize, encoder: &dyn Encoder) -> Body {
    let mut out = Vec::with_capacity(16 * 1024);
    encoder.head(prompt, &mut out);
    let mut done = from;
    while done < prompt.items.len() {
        let group = next_group(&prompt.items, done, encoder);
        let first = out.ends_with(b"[");
        done = group.end;
        add_group(&prompt.items[group], first, &mut out, |items, out| encoder.group(items, out));
    }
    encoder.tail(prompt, &mut out);
    Body::new([Bytes::from(out)])
}

impl Kept {
    fn is_for(&self, prompt: &Prompt) -> bool {
        self.items.len() == prompt.items.len() && self.has_head_of(prompt)
    }

    fn has_head_of(&self, prompt: &Prompt) -> bool {
        Arc::ptr_eq(&self.tools, &prompt.tools)
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

/// Encoded groups in order, each piece with the number of items up to its end.
#[derive(Default)]
struct Pieces(Vec<(Bytes, usize)>);

impl Pieces {
    fn items(&self) -> usize {
        self.0.last().map_or(0, |(_, items)| *items)
    }

    /// Adds a piece, and joins the last ones while they are of about one size: each byte is copied
    /// a few times in all, and thousands of steps are a dozen pieces.
    fn push(&mut self, bytes: Vec<u8>, items: usize) {
        self.0.push((Bytes::from(bytes), items));
        while let [.., (before, _), (last, items)] = self.0.as_slice()
            && before.len() <= 2 * last.len()
        {
            let joined = (Bytes::from([&before[..], &last[..]].concat()), *items);
            self.0.truncate(self.0.len() - 2);
            self.0.push(joined);
        }
    }
}

fn encode(prompt: &Prompt, encoder: &dyn Encoder, last: Option<Kept>, common: usize) -> Kept {
    // The head may hold an element of its own (the instructions), on which commas depend.
    let last = last.filter(|kept| Arc::ptr_eq(&kept.instructions, &prompt.instructions));
    let (mut pieces, mut items, head) = match last {
        Some(kept) => {
            let head = kept.has_head_of(prompt).then(|| kept.head.clone());
            (kept.pieces, kept.items, head)
        }
        None => (Pieces::default(), Vec::new(), None),
    };
    let head = head.unwrap_or_else(|| {
        let mut out = Vec::new();
        encoder.head(prompt, &mut out);
        Bytes::from(out)
    });
    // Strictly below: the item that begins the next group must be the same one too.
    pieces.0.retain(|(_, items)| *items < common);
    items.truncate(common);
    items.extend_from_slice(prompt.items.get(items.len()..).unwrap_or_default());
    let (mut fresh, mut end) = (Vec::new(), Vec::new());
    let mut done = pieces.items();
    let mut whole = done;
    while done < prompt.items.len() {
        let group = next_group(&prompt.items, done, encoder);
        let is_last = group.end == prompt.items.len();
        let first = head.ends_with(b"[")
            && pieces.0.iter().all(|(bytes, _)| bytes.is_empty())
            && fresh.is_empty();
        done = group.end;
        let items = &prompt.items[group];
        if is_last {
            add_group(items, first, &mut end, |items, out| encoder.last_group(items, out));
        } else {
            add_group(items, first, &mut fresh, |items, out| encoder.group(items, out));
            whole = done;
        }
    }
    if whole > pieces.items() {
        pieces.push(fresh, whole);
    }
    encoder.tail(prompt, &mut end);
    let middle = pieces.0.iter().map(|(bytes, _)| bytes.clone());
    let body = Body::new([head.clone()].into_iter().chain(middle).chain([Bytes::from(end)]));
    Kept {
        instructions: prompt.instructions.clone(),
        tools: prompt.tools.clone(),
        options: prompt.options.clone(),
        items,
        head,
        pieces,
        body,
    }
}

/// Adds one group with the comma before it; a group that writes nothing adds none.
fn add_group(
    items: &[Arc<Item>],
    first: bool,
    out: &mut Vec<u8>,
    write: impl FnOnce(&[Arc<Item>], &mut Vec<u8>),
) {
    let before = out.len();
    if !first {
        out.push(b',');
    }
    let comma = out.len();
    write(items, out);
    if out.len() == comma {
        out.truncate(before);
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
