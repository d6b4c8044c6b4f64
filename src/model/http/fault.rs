//! From a failed connection to a typed error that says what to change.

use super::super::error::{ModelError, ModelErrorKind as Kind, TimeoutKind, clean};
use super::Route;
use super::certificate::Untrusted;
use crate::clock;
use rustls::CertificateError;
use std::error::Error;
use std::time::Duration;

/// A request that got no answer.
pub(super) fn of_send(error: &reqwest::Error, connect: Duration, route: &Route) -> ModelError {
    if let Some(tls) = find::<rustls::Error>(error) {
        return of_tls(tls, route);
    }
    let text = chain(error);
    let lower = text.to_ascii_lowercase();
    if lower.contains("proxy authorization required") || lower.contains("proxy auth") {
        return proxy_error("wants a user and password", 407, route);
    }
    if let Some((proxy, variable)) = &route.proxy
        && (lower.contains("tunnel") || lower.contains("socks") || error.is_connect())
    {
        let message = format!(
            "no connection to {} through the proxy {proxy} ({variable}): {text}",
            route.host
        );
        return ModelError::new(Kind::Proxy, message)
            .hint(format!("check {variable}; NO_PROXY={} connects directly", route.host));
    }
    if error.is_connect() && error.is_timeout() {
        return timeout(TimeoutKind::Connect, Some(connect), route);
    }
    if error.is_connect() {
        return ModelError::new(Kind::Connect, format!("no connection to {}: {text}", route.host))
            .hint("check model.base_url, and that the network reaches it");
    }
    let message = format!("{} closed the connection before it answered: {text}", route.host);
    ModelError::new(Kind::Cut, message)
}

/// The proxy answered in place of the endpoint.
pub(super) fn proxy_error(why: &str, status: u16, route: &Route) -> ModelError {
    let (proxy, variable) = match &route.proxy {
        Some((proxy, variable)) => (proxy.as_str(), variable.as_str()),
        None => ("(none set)", "HTTPS_PROXY"),
    };
    ModelError::new(Kind::Proxy, format!("the proxy {proxy} ({variable}) {why}"))
        .hint(format!(
            "write {variable}=http://USER:PASSWORD@HOST:PORT, or list {} in NO_PROXY",
            route.host
        ))
        .status(status)
        .final_word()
}

fn of_tls(error: &rustls::Error, route: &Route) -> ModelError {
    let through = match &route.proxy {
        Some((proxy, variable)) => format!(" through the proxy {proxy} ({variable})"),
        None => String::new(),
    };
    let rustls::Error::InvalidCertificate(cause) = error else {
        let message = format!("no TLS connection to {}{through}: {error}", route.host);
        return ModelError::new(Kind::Tls, message).hint("check that model.base_url speaks TLS");
    };
    let why = match untrusted(cause) {
        Some(untrusted) => untrusted.to_string(),
        None => format!("its certificate is not valid: {cause}"),
    };
    ModelError::new(Kind::Tls, format!("no trusted connection to {}{through}: {why}", route.host))
        .hint(format!(
            "if the network inspects TLS, add its certificate by --ca-file or SSL_CERT_FILE; \
             trusted now: {}",
            route.roots
        ))
}

fn untrusted(cause: &CertificateError) -> Option<&Untrusted> {
    match cause {
        CertificateError::Other(other) => other.0.downcast_ref(),
        _ => None,
    }
}

/// A wait that ran out.
pub(super) fn timeout(kind: TimeoutKind, limit: Option<Duration>, route: &Route) -> ModelError {
    let what = match kind {
        TimeoutKind::Connect => "could not be connected to",
        TimeoutKind::FirstByte => "did not begin to answer",
        TimeoutKind::Idle => "sent nothing more",
        TimeoutKind::Total => "did not finish its answer",
    };
    let within = limit.map(|limit| format!(" within {}", clock::human(limit))).unwrap_or_default();
    let mut error = ModelError::new(Kind::Timeout(kind), format!("{} {what}{within}", route.host))
        .hint(match kind {
            TimeoutKind::Connect => format!(
                "check model.base_url and that the network reaches it, or raise {}",
                kind.setting()
            ),
            _ => format!("raise {} if the model needs longer", kind.setting()),
        });
    // A request that was sent may have been computed, and will be billed, though nothing came.
    error.answer_began = kind != TimeoutKind::Connect;
    error
}

/// The first error of this type in the chain of causes. An `io::Error` hides what it wraps from
/// `source()`, so it is looked into.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        if let Some(inner) =
            error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref)
        {
            let inner: &(dyn Error + 'static) = inner;
            if let Some(found) = find::<T>(inner) {
                return Some(found);
            }
        }
        next = error.source();
    }
    None
}

/// The innermost causes in words; the library's outer sentences hold the whole URL and say little.
pub(super) fn chain(error: &reqwest::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(error) = next {
        let text = clean(&error.to_string(), 200);
        if texts.last().is_none_or(|last| !last.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    match texts.len() {
        0 if error.is_timeout() => "timed out".into(),
        0 => "no cause was given".into(),
        n => texts.split_off(n.saturating_sub(2)).join(": "),
    }
}
