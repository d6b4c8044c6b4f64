//! Chat Completions: the wire that nearly every server speaks, each in its own way.
//!
//! Servers leave out ids, usage or `[DONE]`, send whole calls at once, number all calls zero, put
//! their reasoning into fields of their own, and report errors under a good status. All of that is
//! read. What is sent is the common core that strict servers and their templates accept: one system
//! message, then strictly alternating sides, results before texts, arguments always an object.

mod decoder;
mod request;

use super::Model;
use super::body::BodyCache;
use super::http::{Client, Exchange};
use super::known;
use super::stream::ResponseStream;
use crate::protocol::Prompt;
use reqwest::header::HeaderMap;
use tokio_util::sync::CancellationToken;

pub(super) const DEFAULT_BASE: &str = "https://api.openai.com/v1";

/// The key under which this wire keeps the provider's own form of an item.
const RAW: &str = "chat";

/// A model behind a Chat Completions server.
pub(super) struct Chat {
    id: String,
    http: Client,
    encoder: request::Request,
    cache: BodyCache,
    sends_done: decoder::SendsDone,
}

impl Chat {
    /// `official` servers take newer fields that others may refuse.
    pub fn new(name: &str, http: Client, official: bool) -> Self {
        let encoder = request::Request::new(name, official);
        Self {
            id: format!("chat/{name}"),
            http,
            encoder,
            cache: BodyCache::default(),
            sends_done: decoder::SendsDone::default(),
        }
    }
}

impl Model for Chat {
    fn id(&self) -> &str {
        &self.id
    }

    fn freeform_tools(&self) -> bool {
        false
    }

    fn max_output_tokens(&self) -> Option<u64> {
        self.id
            .strip_prefix("chat/")
            .filter(|_| self.encoder.official)
            .and_then(known::max_output_tokens)
    }

    fn stream(&self, prompt: &Prompt, cancel: CancellationToken) -> ResponseStream {
        let body = match self.cache.build(prompt, &self.encoder) {
            Ok(body) => body,
            Err(error) => return ResponseStream::failed(error),
        };
        let decoder = decoder::Decoder::new(self.http.base().host(), self.sends_done.clone());
        ResponseStream::new(Box::new(Exchange::new(
            &self.http,
            "chat/completions",
            HeaderMap::new(),
            body,
            Box::new(decoder),
            cancel,
        )))
    }
}

/// The decoder alone, for recorded bytes.
pub(super) fn decoder(host: String) -> impl super::http::WireDecoder {
    decoder::Decoder::new(host, decoder::SendsDone::default())
}
