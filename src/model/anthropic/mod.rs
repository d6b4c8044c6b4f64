//! The Messages API.
//!
//! Thinking goes back verbatim with its signatures; the prefix that repeats is marked for the
//! provider's cache; a paused response is sent back to go on.

mod decoder;
mod request;

use super::Model;
use super::body::BodyCache;
use super::http::{Client, Exchange};
use super::stream::ResponseStream;
use crate::protocol::Prompt;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio_util::sync::CancellationToken;

pub(super) const DEFAULT_BASE: &str = "https://api.anthropic.com/v1";

/// The key under which this wire keeps the provider's own form of an item.
const RAW: &str = "anthropic";

/// A model behind the Messages API.
pub(super) struct Anthropic {
    id: String,
    http: Client,
    encoder: request::Request,
    cache: BodyCache,
}

impl Anthropic {
    pub fn new(name: &str, http: Client) -> Self {
        let encoder = request::Request::new(name);
        Self { id: format!("anthropic/{name}"), http, encoder, cache: BodyCache::default() }
    }
}

impl Model for Anthropic {
    fn id(&self) -> &str {
        &self.id
    }

    fn freeform_tools(&self) -> bool {
        false
    }

    fn max_output_tokens(&self) -> Option<u64> {
        Some(self.encoder.default_max_tokens())
    }

    fn stream(&self, prompt: &Prompt, cancel: CancellationToken) -> ResponseStream {
        let body = match self.cache.build(prompt, &self.encoder) {
            Ok(body) => body,
            Err(error) => return ResponseStream::failed(error),
        };
        let version = HeaderName::from_static("anthropic-version");
        let headers = HeaderMap::from_iter([(version, HeaderValue::from_static("2023-06-01"))]);
        let decoder = decoder::Decoder::new(self.http.base().host());
        ResponseStream::new(Box::new(Exchange::new(
            &self.http,
            "messages",
            headers,
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
