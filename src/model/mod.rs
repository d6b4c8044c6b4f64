//! Models: one trait in front of every provider, so that the runtime names none.
//!
//! A provider turns a [`Prompt`] into the bytes of its wire and the wire's events into
//! [`ModelEvent`]s; everything that must be the same for all of them stands once: the event-stream
//! decoder ([`sse`]), the failure table ([`classify`]), connections ([`http`]), and the one retry
//! policy with the completed gate ([`sample()`]). Nothing of a response reaches the caller of
//! [`sample()`] before the provider said that the response is complete, so a half tool call can not
//! be run and a cut stream can be asked again without running anything twice.
//!
//! This room reads no environment variable: proxies, certificate files and keys are handed in.

mod anthropic;
mod body;
mod chat;
mod classify;
mod decode;
mod endpoint;
mod error;
mod http;
mod json;
mod keys;
mod known;
mod open;
mod openai;
mod probe;
mod replay;
mod retry_hint;
mod sample;
mod scripted;
mod secret;
pub mod sse;
mod stream;
mod strict;

pub use decode::decode;
pub use endpoint::{Endpoint, ProxySetting, ProxySettings, Timeouts};
pub use error::{Failure, ModelError, ModelErrorKind, TimeoutKind};
pub use keys::default_key_variable;
pub use open::{ModelConfig, OpenError, PROVIDERS, open, open_script};
pub use probe::{Finding, Probe, probe};
pub use replay::{Divergence, RecordedResponse, ReplayModel};
pub use sample::{Observer, Response, RetryPolicy, Silent, sample};
pub use scripted::{Script, schema as script_schema};
pub use secret::Secret;
pub use stream::{BoxFuture, ModelEvent, ResponseStream, Source, Stop};

use crate::protocol::Prompt;
use tokio_util::sync::CancellationToken;

/// A model of some provider. Values of this trait are cheap to share and hold no state of a Turn.
pub trait Model: Send + Sync {
    /// How the model was named: `openai/NAME`, `scripted/FILE`.
    fn id(&self) -> &str;

    /// Whether tools with a grammar are offered as such; otherwise they travel as a function with
    /// one string property.
    fn freeform_tools(&self) -> bool;

    /// The most tokens that one answer of this model can have, where that is known.
    fn max_output_tokens(&self) -> Option<u64> {
        None
    }

    /// Whether requests cost anything; those of a script do not, whatever counts it reports.
    fn is_billed(&self) -> bool {
        true
    }

    /// Starts one response. The stream ends with [`ModelEvent::Completed`] or an error; dropping it
    /// cancels the request. The same prompt gives the same bytes each time.
    fn stream(&self, prompt: &Prompt, cancel: CancellationToken) -> ResponseStream;
}
