//! Connections: one client per endpoint, made so that an http endpoint costs no certificate work.

mod certificate;
mod exchange;
mod fault;
mod proxy;
mod tls;
mod waits;

pub(super) use exchange::{Exchange, Flow, WireDecoder};

use super::body::Body;
use super::endpoint::{Base, Endpoint, Timeouts};
use super::open::OpenError;
use super::secret::Secret;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

/// How a provider wants its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// The bare key under this name.
    Named(&'static str),
}

/// A client for one endpoint.
#[derive(Debug, Clone)]
pub(super) struct Client {
    inner: reqwest::Client,
    base: Base,
    timeouts: Timeouts,
    route: Route,
    key: Option<Secret>,
}

/// What a connection goes through, for messages; holds no password.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub host: String,
    /// The proxy without its password, and the variable that set it.
    pub proxy: Option<(String, String)>,
    /// Where trusted certificates came from.
    pub roots: String,
}

impl Client {
    pub fn new(base: Base, endpoint: &Endpoint, key: KeyHeader) -> Result<Self, OpenError> {
        let proxy = proxy::choose(&base, &endpoint.proxies).map_err(OpenError::Proxy)?;
        // A file that was named is read also where nothing needs it: a broken setting is never ignored.
        let needs_tls = base.is_https()
            || proxy.as_ref().is_some_and(proxy::Chosen::is_https)
            || endpoint.ca_file.is_some();
        let (config, roots) = if needs_tls {
            tls::trusting(endpoint).map_err(OpenError::Certificates)?
        } else {
            tls::none()
        };
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            .connect_timeout(endpoint.timeouts.connect)
            .pool_max_idle_per_host(2)
            .user_agent(concat!("turnkey/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(endpoint, key)?)
            .tls_backend_preconfigured(config);
        let route = Route {
            host: base.host(),
            proxy: proxy.as_ref().map(|chosen| (chosen.shown.clone(), chosen.variable.clone())),
            roots,
        };
        if let Some(chosen) = proxy {
            builder = builder.proxy(chosen.proxy);
        }
        let inner = builder.build().map_err(|error| OpenError::Client(fault::chain(&error)))?;
        let (timeouts, key) = (endpoint.timeouts.clone(), endpoint.key.clone());
        Ok(Self { inner, base, timeouts, route, key })
    }

    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Hides the key in a provider's text: some gateways show the key that they refuse.
    fn hide_key(&self, text: &str) -> String {
        match &self.key {
            Some(key) if key.expose().len() >= 8 => text.replace(key.expose(), "[secret]"),
            _ => text.to_owned(),
        }
    }

    /// A request that is ready to be sent.
    pub fn post(&self, path: &str, body: &Body) -> reqwest::RequestBuilder {
        self.inner.post(self.base.join(path)).body(body.to_send())
    }
}

fn headers(endpoint: &Endpoint, key: KeyHeader) -> Result<HeaderMap, OpenError> {
    let mut map = HeaderMap::new();
    map.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    map.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    // Compression holds events back until a block is full.
    map.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(secret) = endpoint.key.as_ref().filter(|secret| !secret.is_empty()) {
        let (name, text) = match key {
            KeyHeader::Bearer => (header::AUTHORIZATION, format!("Bearer {}", secret.expose())),
            KeyHeader::Named(name) => (HeaderName::from_static(name), secret.expose().to_owned()),
        };
        map.insert(name, sensitive(&text, "the key (model.key)")?);
    }
    for (name, value) in &endpoint.headers {
        let what = || format!("the header {name:?}");
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| OpenError::HeaderValue { what: what() })?;
        map.insert(header, sensitive(value.expose(), &what())?);
    }
    Ok(map)
}

fn sensitive(text: &str, what: &str) -> Result<HeaderValue, OpenError> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| OpenError::HeaderValue { what: what.to_owned() })?;
    value.set_sensitive(true);
    Ok(value)
}
