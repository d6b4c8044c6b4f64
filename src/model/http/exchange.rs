//! One request and its answer as a source of events: send, read the head, decode the stream, and
//! end at the terminal event even if the socket stays open.

use super::super::body::Body;
use super::super::classify::request_id;
use super::super::error::{ModelError, ModelErrorKind as Kind, TimeoutKind};
use super::super::sse;
use super::super::stream::{BoxFuture, ModelEvent, Source};
use super::waits::{Waits, began, cut};
use super::{Client, Route, fault};
use crate::clock;
use reqwest::Response;
use reqwest::header::HeaderMap;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// All event data of one answer together; far above any real one.
const MAX_ANSWER_BYTES: usize = 128 * 1024 * 1024;
/// How long and how much is read after the terminal event so that the connection can be used again.
const DRAIN_TIME: Duration = Duration::from_secs(2);
const DRAIN_BYTES: usize = 64 * 1024;

/// Whether an answer goes on after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Flow {
    More,
    /// That was the terminal event.
    Done,
}

/// One wire's reading of an answer.
pub(in super::super) trait WireDecoder: Send {
    /// Takes one event. Fails with a typed error for a failure that the wire reports.
    fn event(
        &mut self,
        name: &str,
        data: &str,
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<Flow, ModelError>;

    /// The connection ended without a terminal event. Wires whose servers often leave it out may
    /// complete the answer here when all else says that it is whole.
    fn end(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError>;

    /// A whole answer that came as one JSON document instead of a stream.
    fn whole(&mut self, body: &str, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError>;

    /// Set once the answer is whole but the wire may still send something after it.
    fn grace(&self) -> Option<Duration> {
        None
    }
}

/// One request under way.
pub(in super::super) struct Exchange {
    waits: Waits,
    path: &'static str,
    headers: HeaderMap,
    body: Body,
    decoder: Box<dyn WireDecoder>,
    phase: Phase,
    /// Set once the answer is whole: until then what may still follow is waited for.
    grace: Option<Instant>,
    request_id: Option<String>,
}

enum Phase {
    Unsent,
    Streaming { response: Box<Response>, sse: sse::Decoder, bytes: usize },
    Over,
}

impl Exchange {
    pub fn new(
        client: &Client,
        path: &'static str,
        headers: HeaderMap,
        body: Body,
        decoder: Box<dyn WireDecoder>,
        cancel: CancellationToken,
    ) -> Self {
        let waits = Waits { client: client.clone(), cancel, deadline: None };
        Self {
            waits,
            path,
            headers,
            body,
            decoder,
            phase: Phase::Unsent,
            grace: None,
            request_id: None,
        }
    }

    async fn send(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let timeouts = self.waits.client.timeouts.clone();
        self.waits.deadline = timeouts.total.and_then(|total| clock::now().checked_add(total));
        let request = self
            .waits
            .client
            .post(self.path, &self.body)
            .headers(std::mem::take(&mut self.headers));
        let response = self
            .waits
            .within(TimeoutKind::FirstByte, timeouts.first_byte, request.send())
            .await?
            .map_err(|error| fault::of_send(&error, timeouts.connect, &self.waits.client.route))?;
        if !response.status().is_success() {
            return Err(self.waits.refused(response).await);
        }
        let lookup =
            |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        self.request_id = request_id(&lookup);
        if is_json(&response) {
            return self.whole(response, queue).await;
        }
        if let Some(error) = not_a_stream(&response, &self.waits.client.route) {
            return Err(error);
        }
        self.phase = Phase::Streaming {
            response: Box::new(response),
            sse: sse::Decoder::default(),
            bytes: 0,
        };
        Ok(())
    }

    /// A server that answers a streaming request with one JSON document: an error under a good
    /// status, or the whole response.
    async fn whole(
        &mut self,
        mut response: Response,
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ModelError> {
        let mut bytes = Vec::new();
        self.waits.read_up_to(&mut response, sse::MAX_EVENT_BYTES, &mut bytes).await?;
        self.phase = Phase::Over;
        self.decoder.whole(&String::from_utf8_lossy(&bytes), queue)
    }

    async fn advance(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        if matches!(self.phase, Phase::Unsent) {
            self.send(queue).await?;
        }
        if queue.is_empty() { self.read(queue).await } else { Ok(()) }
    }

    /// Reads and decodes until there is something to tell.
    async fn read(&mut self, queue: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        let Phase::Streaming { mut response, mut sse, mut bytes } =
            std::mem::replace(&mut self.phase, Phase::Over)
        else {
            return Err(cut("the answer ended before it was complete"));
        };
        while queue.is_empty() {
            if let (None, Some(grace)) = (self.grace, self.decoder.grace()) {
                self.grace = clock::now().checked_add(grace);
            }
            let chunk = match self.grace {
                None => self.waits.chunk(&mut response).await?,
                Some(end) => {
                    let left = end.saturating_duration_since(clock::now());
                    // Silence is an end now, and so is a clean one; a broken connection is not.
                    let chunk = tokio::time::timeout(left, self.waits.chunk(&mut response)).await;
                    chunk.unwrap_or(Ok(None))?
                }
            };
            let Some(chunk) = chunk else {
                return self.end(&mut sse, queue);
            };
            sse.push(&chunk);
            while let Some(event) = sse.next_event().map_err(|error| too_large(&error))? {
                bytes += event.data.len();
                if bytes > MAX_ANSWER_BYTES {
                    return Err(too_large(&sse::TooLarge { limit: MAX_ANSWER_BYTES }));
                }
                if self.decoder.event(&event.name, &event.data, queue).map_err(began)? == Flow::Done
                {
                    drain(*response);
                    return Ok(());
                }
            }
        }
        self.phase = Phase::Streaming { response, sse, bytes };
        Ok(())
    }

    /// The connection ended. A last event without its blank line still counts if it is whole.
    fn end(
        &mut self,
        sse: &mut sse::Decoder,
        queue: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ModelError> {
        if let Ok(Some(event)) = sse.finish()
            && (event.data == "[DONE]"
                || serde_json::from_str::<serde::de::IgnoredAny>(&event.data).is_ok())
            && self.decoder.event(&event.name, &event.data, queue).map_err(began)? == Flow::Done
        {
            return Ok(());
        }
        self.decoder.end(queue).map_err(began)
    }
}

impl Source for Exchange {
    fn fill<'a>(
        &'a mut self,
        queue: &'a mut VecDeque<ModelEvent>,
    ) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            self.advance(queue).await.map_err(|mut error| {
                error.request_id = error.request_id.take().or_else(|| self.request_id.take());
                error.message = self.waits.client.hide_key(&error.message);
                error
            })
        })
    }
}

/// Reads what little follows a terminal event, apart from the response: only a connection that was
/// read to its end can carry the next request.
fn drain(mut response: Response) {
    tokio::spawn(async move {
        let rest = async {
            let mut bytes = 0;
            while let Ok(Some(chunk)) = response.chunk().await {
                bytes += chunk.len();
                if bytes > DRAIN_BYTES {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIME, rest).await;
    });
}

fn content_type(response: &Response) -> String {
    let value = response.headers().get(reqwest::header::CONTENT_TYPE);
    let text = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_json(response: &Response) -> bool {
    let found = content_type(response);
    found == "application/json" || found.ends_with("+json")
}

/// A page for people (a login wall, a proxy's notice) is no answer. A missing or odd type may be.
fn not_a_stream(response: &Response, route: &Route) -> Option<ModelError> {
    let found = content_type(response);
    (found == "text/html").then(|| {
        let message =
            format!("{} answered with a web page ({found}) instead of events", route.host);
        ModelError::new(Kind::Protocol, message)
            .hint("check model.base_url, and whether a proxy or login page stands in between")
            .final_word()
    })
}

fn too_large(error: &sse::TooLarge) -> ModelError {
    began(ModelError::new(Kind::Protocol, error.to_string()).final_word())
}
