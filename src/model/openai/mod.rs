//! The Responses API over HTTP with server-sent events.
//!
//! No state is kept at the provider (`store: false`): reasoning comes encrypted and goes back
//! verbatim with the rest of the history, and so do items of types that this version does not know.

mod decoder;
mod request;
mod wire;

use super::Model;
use super::body::BodyCache;
use super::http::{Client, Exchange};
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
}

impl OpenAi {
    pub fn new(name: &str, http: Client, freeform: Option<bool>) -> Self {
        let encoder = request::Request::new(name, freeform);
        Self { id: format!("openai/{name}"), http, encoder, cache: BodyCache::default() }
    }
}

impl Model for OpenAi {
    fn id(&self) -> &str {
        &self.id
    }

    fn freeform_tools(&self) -> bool {
        self.encoder.freeform
    }

    fn stream(&self, prompt: &Prompt, cancel: CancellationToken) -> ResponseStream {
        let body = match self.cache.build(prompt, &self.encoder) {
            Ok(body) => body,
            Err(error) => return ResponseStream::failed(error),
        };
        let decoder = decoder::Decoder::new(self.http.base().host());
        ResponseStream::new(Box::new(Exchange::new(
            &self.http,
            "responses",
            HeaderMap::new(),
            body,
            Box::new(decoder),
            cancel,
        )))
    }
}

/// The decoder alone, for recorded bytes.
pub(super) fn decoder(host: String) -> impl super::http::WireDecoder {
    decoder::Decoder::new(host)
}
