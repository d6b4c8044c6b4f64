//! Cancellation of a Turn, with the reason that came first.

use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Reaches every await of a Turn. The first reason stands: what came after changed nothing.
#[derive(Debug, Clone)]
pub struct TurnCancel {
    token: CancellationToken,
    why: Arc<Mutex<Option<(String, String)>>>,
}

impl Default for TurnCancel {
    fn default() -> Self {
        Self::new()
    }
}

impl TurnCancel {
    pub fn new() -> Self {
        Self { token: CancellationToken::new(), why: Arc::default() }
    }

    /// `reason` is dotted (`interrupted`, `limit.time`), `message` one sentence.
    pub fn cancel(&self, reason: &str, message: &str) {
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.get_or_insert_with(|| (reason.to_owned(), message.to_owned()));
        drop(why);
        self.token.cancel();
    }

    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Reason and message of the first cancel.
    pub fn why(&self) -> (String, String) {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone().unwrap_or_else(|| ("interrupted".into(), "the turn was cancelled".into()))
    }
}
