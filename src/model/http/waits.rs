//! Waiting for a provider: limits, cancellation, and what is read of an answer that failed.

use super::super::classify::{Report, with_headers};
use super::super::error::{ModelError, ModelErrorKind as Kind, TimeoutKind, clean};
use super::{Client, fault};
use crate::clock;
use bytes::Bytes;
use reqwest::Response;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What is read of a failed answer's body.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);

/// Every wait for the provider goes through here: limits and cancellation hold for all of them.
pub(super) struct Waits {
    pub client: Client,
    pub cancel: CancellationToken,
    pub deadline: Option<Instant>,
}

impl Waits {
    /// Waits for the provider within `limit`, the total limit and the cancellation.
    pub async fn within<T>(
        &self,
        kind: TimeoutKind,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, ModelError> {
        let route = &self.client.route;
        let left = self.deadline.map(|end| end.saturating_duration_since(clock::now()));
        let (kind, limit, shown) = match left {
            Some(left) if left < limit => (TimeoutKind::Total, left, self.client.timeouts.total),
            _ => (kind, limit, Some(limit)),
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(ModelError::cancelled()),
            done = tokio::time::timeout(limit, work) => {
                done.map_err(|_| fault::timeout(kind, shown, route))
            }
        }
    }

    /// A failed answer: its body says why, as far as it can be read.
    pub async fn refused(&self, mut response: Response) -> ModelError {
        let status = response.status().as_u16();
        let route = &self.client.route;
        if status == 407 {
            return fault::proxy_error("wants a user and password", status, route);
        }
        let mut body = Vec::new();
        // What came within the time is enough; the status alone says most of it.
        let reading = self.read_up_to(&mut response, MAX_ERROR_BYTES, &mut body);
        let _ = tokio::time::timeout(ERROR_BODY_TIME, reading).await;
        let mut error =
            Report::from_body(status, &self.client.hide_key(&String::from_utf8_lossy(&body)))
                .into_error(&route.host);
        if response.status().is_redirection() {
            error.hint =
                "redirects are not followed; set model.base_url to the final address".into();
        }
        let headers = response.headers().clone();
        let lookup = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        with_headers(error, &lookup, clock::wall())
    }

    pub async fn read_up_to(
        &self,
        response: &mut Response,
        limit: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        while let Some(chunk) = self.chunk(response).await? {
            let room = limit.saturating_sub(bytes.len());
            bytes.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
            if bytes.len() >= limit {
                break;
            }
        }
        Ok(())
    }

    pub async fn chunk(&self, response: &mut Response) -> Result<Option<Bytes>, ModelError> {
        let idle = self.client.timeouts.idle;
        match self.within(TimeoutKind::Idle, idle, response.chunk()).await? {
            Ok(chunk) => Ok(chunk),
            Err(error) => Err(began(cut(&format!(
                "the connection to {} broke in the middle of the answer: {}",
                self.client.route.host,
                fault::chain(&error)
            )))),
        }
    }
}

pub(super) fn cut(message: &str) -> ModelError {
    ModelError::new(Kind::Cut, clean(message, 400))
}

pub(super) fn began(mut error: ModelError) -> ModelError {
    error.answer_began = true;
    error
}
