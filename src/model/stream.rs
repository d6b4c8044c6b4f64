//! The stream of one response: events pulled from a source, which is asked only when the consumer
//! is ready for more. A slow consumer therefore slows the connection and memory stays flat; and the
//! idle limit counts only the time that we wait for the provider.

use super::error::ModelError;
use crate::protocol::{Item, Usage};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

/// A boxed future, for the traits that must be usable as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a complete response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The model has said what it wanted to say, tool calls included.
    End,
    /// The provider paused a long response and wants it sent back to go on.
    Paused,
}

/// What comes out of a response.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    Started {
        response_id: String,
    },
    /// A piece of the visible answer.
    TextDelta(String),
    /// A piece of the readable reasoning.
    ReasoningDelta(String),
    /// A piece of a call's arguments; only for progress, never to be run.
    ToolDelta {
        output_index: u32,
        delta: String,
    },
    /// A complete item. Comes only when the response is known to be complete.
    ItemDone(Item),
    Usage(Usage),
    /// The terminal event of a good response.
    Completed {
        response_id: String,
        model: String,
        stop: Stop,
    },
}

/// Where a stream's events come from.
pub trait Source: Send {
    /// Waits for the provider and adds at least one event to `queue`, or fails. Events that came
    /// before a failure are added first.
    fn fill<'a>(
        &'a mut self,
        queue: &'a mut VecDeque<ModelEvent>,
    ) -> BoxFuture<'a, Result<(), ModelError>>;
}

/// One response. Dropping it closes the connection, which cancels the request.
pub struct ResponseStream {
    queue: VecDeque<ModelEvent>,
    source: Option<Box<dyn Source>>,
    failed: Option<ModelError>,
}

impl ResponseStream {
    pub fn new(source: Box<dyn Source>) -> Self {
        Self { queue: VecDeque::new(), source: Some(source), failed: None }
    }

    /// A stream whose events are known already.
    pub fn ready(events: Vec<ModelEvent>, failed: Option<ModelError>) -> Self {
        Self { queue: events.into(), source: None, failed }
    }

    /// A stream that fails at once.
    pub fn failed(error: ModelError) -> Self {
        Self::ready(Vec::new(), Some(error))
    }

    /// The next event; nothing after [`ModelEvent::Completed`] or an error.
    pub async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                if matches!(event, ModelEvent::Completed { .. }) {
                    self.source = None;
                    self.failed = None;
                    self.queue.clear();
                }
                return Some(Ok(event));
            }
            if let Some(error) = self.failed.take() {
                self.source = None;
                return Some(Err(error));
            }
            let source = self.source.as_mut()?;
            if let Err(error) = source.fill(&mut self.queue).await {
                self.failed = Some(error);
            }
        }
    }
}
