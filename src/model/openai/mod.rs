//! The Responses API over HTTP with server-sent events.
//!
//! Without `server_state` nothing is kept at the provider (`store: false`): reasoning comes encrypted
//! and goes back verbatim with the rest of the history, and so do items of types that this version
//! does not know. With it, requests go on from the last response (see [`kept`]).

mod decoder;
mod kept;
mod request;
mod wire;

use super::Model;
use super::body::{Body, BodyCache, encode_rest};
use super::http::{Client, Exchange};
use super::known;
use super::open::ModelConfig;
use super::stream::ResponseStream;
use crate::protocol::Prompt;
use reqwest::header::HeaderMap;
use tokio_util::sync::CancellationToken;

pub(super) const DEFAULT_BASE: &str = "https://api.openai.com/v1";

/// The key under which this wire keeps the provider's own form of an item.
const RAW: &str = "responses";

/// A model behind the Responses API.
pub(super) struct OpenAi {
    id: String,
    http: Client,
    encoder: request::Request,
    cache: BodyCache,
    kept: Option<kept::Kept>,
}

impl OpenAi {
    pub fn new(name: &str, http: Client, config: &ModelConfig) -> Self {
        Self {
            id: format!("openai/{name}"),
            http,
            encoder: request::Request::new(name, config.freeform, config.server_state),
            cache: BodyCache::default(),
            kept: config.server_state.then(kept::Kept::default),
        }
    }

    fn exchange(&self, body: Body, cancel: CancellationToken) -> Exchange {
        let decoder = decoder::Decoder::new(self.http.base().host());
        Exchange::new(&self.http, "responses", HeaderMap::new(), body, Box::new(decoder), cancel)
    }
}

impl Model for OpenAi {
    fn id(&self) -> &str {
        &self.id
    }

    fn freeform_tools(&self) -> bool {
        self.encoder.freeform
    }

    fn max_output_tokens(&self) -> Option<u64> {
        self.id.strip_prefix("openai/").and_then(known::max_output_tokens)
    }

    fn stream(&self, prompt: &Prompt, cancel: CancellationToken) -> ResponseStream {
        let whole = match self.cache.build(prompt, &self.encoder) {
            Ok(body) => body,
            Err(error) => return ResponseStream::failed(error),
        };
        let Some(kept) = &self.kept else {
            return ResponseStream::new(Box::new(self.exchange(whole, cancel)));
        };
        let (first, fallback) = match kept.covers(prompt) {
            None => (whole, None),
            Some((response_id, from)) => {
                let after = request::After { request: &self.encoder, response_id: &response_id };
                let rest = encode_rest(prompt, from, &after);
                (rest, Some(self.exchange(whole, cancel.clone())))
            }
        };
        let first = self.exchange(first, cancel);
        ResponseStream::new(Box::new(kept.remembering(first, fallback, prompt)))
    }
}

/// The decoder alone, for recorded bytes.
pub(super) fn decoder(host: String) -> impl super::http::WireDecoder {
    decoder::Decoder::new(host)
}
