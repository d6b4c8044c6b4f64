//! How a response can fail, typed by what can be done about it.

use crate::protocol::Usage;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Which wait ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeoutKind {
    /// No connection.
    Connect,
    /// No first byte of an answer.
    FirstByte,
    /// No byte for too long in the middle of an answer.
    Idle,
    /// The answer as a whole took too long.
    Total,
}

impl TimeoutKind {
    /// The key of the spec that sets the limit.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Connect => "model.timeouts.connect",
            Self::FirstByte => "model.timeouts.first_byte",
            Self::Idle => "model.timeouts.idle",
            Self::Total => "model.timeouts.total",
        }
    }
}

/// The closed list of failures.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ModelErrorKind {
    /// The key is missing, wrong, or not allowed to do this.
    Auth,
    /// The account has no money or no quota left; waiting does not help.
    Quota,
    /// Too fast; waiting helps.
    RateLimited,
    /// The provider has no capacity just now.
    Overloaded,
    /// The provider broke.
    Server,
    /// No connection to the endpoint.
    Connect,
    /// The connection could not be made trustworthy.
    Tls,
    /// The proxy refused or could not be used.
    Proxy,
    Timeout(TimeoutKind),
    /// The answer stopped before the provider said that it was complete.
    Cut,
    /// The answer is not what the wire promises.
    Protocol,
    /// The provider (or our own check before sending) refuses the request as it stands.
    InvalidRequest,
    /// The prompt is too long for the model.
    ContextExceeded,
    /// The model declined.
    Refused,
    /// The provider's filter stopped the prompt or the answer.
    ContentFiltered,
    /// The provider ended the answer early, with its reason (`max_output_tokens` …).
    Incomplete(String),
    /// A complete answer with nothing in it.
    Empty,
    /// The operator's limits leave no room for another request.
    OverBudget,
    /// The Turn was cancelled.
    Cancelled,
    /// A scripted model met something its script does not expect.
    ScriptMismatch,
    /// A replayed request is not the recorded one.
    Diverged,
    /// A replay asks for more than was recorded.
    RecordOver,
}

impl ModelErrorKind {
    /// Dotted and stable, for `result.json`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Auth => "model.auth",
            Self::Quota => "model.quota",
            Self::RateLimited => "model.rate_limited",
            Self::Overloaded => "model.overloaded",
            Self::Server => "model.server",
            Self::Connect => "model.connect",
            Self::Tls => "model.tls",
            Self::Proxy => "model.proxy",
            Self::Timeout(_) => "model.timeout",
            Self::Cut => "model.cut",
            Self::Protocol => "model.protocol",
            Self::InvalidRequest => "model.invalid_request",
            Self::ContextExceeded => "model.context_exceeded",
            Self::Refused => "model.refused",
            Self::ContentFiltered => "model.content_filtered",
            Self::Incomplete(_) => "model.incomplete",
            Self::Empty => "model.empty",
            Self::OverBudget => "limit.budget",
            Self::Cancelled => "model.cancelled",
            Self::ScriptMismatch => "model.script",
            Self::Diverged => "replay.diverged",
            Self::RecordOver => "replay.over",
        }
    }

    /// Whether asking again may help. The provider's `x-should-retry` can narrow this, never
    /// widen it.
    fn retryable(&self) -> bool {
        match self {
            Self::RateLimited
            | Self::Overloaded
            | Self::Server
            | Self::Connect
            | Self::Proxy
            | Self::Timeout(_)
            | Self::Cut
            | Self::Protocol
            | Self::Empty => true,
            Self::Auth
            | Self::Quota
            | Self::Tls
            | Self::InvalidRequest
            | Self::ContextExceeded
            | Self::Refused
            | Self::ContentFiltered
            | Self::Incomplete(_)
            | Self::OverBudget
            | Self::Cancelled
            | Self::ScriptMismatch
            | Self::Diverged
            | Self::RecordOver => false,
        }
    }
}

/// One failed response, or the end of several attempts at one. Its parts are those of [`Failure`];
/// they are boxed because results that carry this error travel through every event.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelError(Box<Failure>);

impl Deref for ModelError {
    type Target = Failure;

    fn deref(&self) -> &Failure {
        &self.0
    }
}

impl DerefMut for ModelError {
    fn deref_mut(&mut self) -> &mut Failure {
        &mut self.0
    }
}

/// The parts of a [`ModelError`].
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub kind: ModelErrorKind,
    /// What happened, in one sentence; provider text is shortened and has no control characters.
    pub message: String,
    /// What to do now; empty where nothing helps.
    pub hint: String,
    /// HTTP status, where there was an answer.
    pub status: Option<u16>,
    /// The provider's own code or type.
    pub code: Option<String>,
    /// How long the provider asks us to wait.
    pub retry_after: Option<Duration>,
    /// The provider's id of the request, for its support.
    pub request_id: Option<String>,
    /// Tokens that this failure (all its attempts) cost as far as known; see [`super::Response`].
    pub usage: Usage,
    /// Requests made for this response, this one included.
    pub attempts: u32,
    /// Set to false where the provider said not to retry.
    pub(super) may_retry: bool,
    /// True once any part of an answer arrived: the provider has worked and will bill it.
    pub(super) answer_began: bool,
}

impl ModelError {
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Failure {
            kind,
            message: message.into(),
            hint: String::new(),
            status: None,
            code: None,
            retry_after: None,
            request_id: None,
            usage: Usage::default(),
            attempts: 1,
            may_retry: true,
            answer_began: false,
        }))
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Says that asking again can not help, whatever the kind.
    pub fn final_word(mut self) -> Self {
        self.may_retry = false;
        self
    }

    pub fn cancelled() -> Self {
        Self::new(ModelErrorKind::Cancelled, "the request to the model was cancelled")
    }

    /// Whether the same request may well succeed later.
    pub fn retryable(&self) -> bool {
        self.may_retry && self.kind.retryable()
    }

    /// Dotted and stable: `model.auth`, `model.rate_limited` …
    pub fn reason(&self) -> &'static str {
        self.kind.reason()
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {}

/// Provider text for a message: one line, no control characters, at most `limit` characters.
pub(super) fn clean(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    let mut gap = false;
    for c in text.chars() {
        if c.is_control() || c.is_whitespace() {
            gap = count > 0;
            continue;
        }
        if gap {
            out.push(' ');
            count += 1;
            gap = false;
        }
        if count >= limit {
            out.push('…');
            return out;
        }
        out.push(c);
        count += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_text_becomes_one_short_line() {
        assert_eq!(clean("  a\n\u{1b}[31mb\t c ", 80), "a [31mb c");
        assert_eq!(clean("阴影阴影", 2), "阴影…");
        assert_eq!(clean("", 2), "");
    }

    #[test]
    fn never_retried_kinds_stay_so() {
        for kind in [ModelErrorKind::Auth, ModelErrorKind::Quota, ModelErrorKind::InvalidRequest] {
            assert!(!ModelError::new(kind, "x").retryable());
        }
        assert!(ModelError::new(ModelErrorKind::Server, "x").retryable());
        assert!(!ModelError::new(ModelErrorKind::Server, "x").final_word().retryable());
    }
}
