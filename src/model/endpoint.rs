//! Where a provider is reached, and everything about the way there. All of it is handed in.

use super::secret::Secret;
use reqwest::Url;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Limits on waiting. `first_byte` counts from sending until the head of the answer, connecting
/// included; `idle` is the longest silence inside an answer; `total` bounds one answer as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    pub first_byte: Duration,
    pub idle: Duration,
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(300),
            total: None,
        }
    }
}

/// A setting with the name of the variable or flag it came from, so that messages can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySetting {
    pub variable: String,
    pub value: Secret,
}

impl ProxySetting {
    pub fn new(variable: impl Into<String>, value: impl Into<String>) -> Self {
        Self { variable: variable.into(), value: Secret::new(value.into()) }
    }
}

/// The proxy settings as found in the environment, each under the case that was set (lower case
/// wins where both are). A caller that runs under CGI leaves `http` out: there a client sets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// `HTTPS_PROXY`: for https endpoints.
    pub https: Option<ProxySetting>,
    /// `HTTP_PROXY`: for http endpoints.
    pub http: Option<ProxySetting>,
    /// `ALL_PROXY`: where the one for the scheme is not set.
    pub all: Option<ProxySetting>,
    /// `NO_PROXY`.
    pub no_proxy: Option<String>,
}

/// One provider's endpoint and the way to it.
#[derive(Debug, Clone, Default)]
pub struct Endpoint {
    /// The API's base, e.g. `http://127.0.0.1:8080/v1`; the provider's own where `None`.
    pub base_url: Option<String>,
    pub key: Option<Secret>,
    pub timeouts: Timeouts,
    /// `--ca-file`: certificates trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// `SSL_CERT_FILE`, in addition as well.
    pub ssl_cert_file: Option<PathBuf>,
    /// `SSL_CERT_DIR`: folders separated by colons, in addition as well.
    pub ssl_cert_dir: Option<String>,
    pub proxies: ProxySettings,
    /// Further headers for gateways that want them.
    pub headers: Vec<(String, Secret)>,
}

/// A base URL that was looked at: scheme and host are known, no user or password is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base {
    url: Url,
}

impl Base {
    /// `what` names the setting in messages.
    pub fn parse(text: &str, what: &str) -> Result<Self, String> {
        let url = Url::parse(text.trim())
            .map_err(|error| format!("{what} {:?} is no URL: {error}", redact(text)))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!(
                "{what} {:?} holds a user or password; keys are given by model.key",
                redact(text)
            ));
        }
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err(format!(
                "{what} {:?} must begin with http:// or https:// and name a host",
                redact(text)
            ));
        }
        Ok(Self { url })
    }

    /// The URL of one call of the API; a query of the base (an API version) is kept.
    pub fn join(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
        url
    }

    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Host and port for messages.
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    pub fn is_loopback(&self) -> bool {
        is_loopback(self.url.host_str().unwrap_or_default())
    }
}

/// `localhost`, its sub-domains, and every loopback address.
pub(super) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback(),
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
        Err(_) => {
            let host = host.to_ascii_lowercase();
            host == "localhost" || host.ends_with(".localhost")
        }
    }
}

/// A URL for people: whatever stands between the scheme and the last `@` of the authority is
/// hidden, and so are query and fragment, where keys hide too. Works on text that is no URL.
pub(super) fn redact(text: &str) -> String {
    let text = text.trim();
    let (scheme, rest) = match text.find("://") {
        Some(at) => text.split_at(at + 3),
        None => ("", text),
    };
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let cut = if end < rest.len() { "?…" } else { "" };
    let rest = rest.get(..end).unwrap_or_default();
    match rest.rfind('@') {
        Some(at) => format!("{scheme}…@{}{cut}", rest.get(at + 1..).unwrap_or_default()),
        None => format!("{scheme}{rest}{cut}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_join_and_queries_stay() {
        let join =
            |base: &str| Base::parse(base, "base_url").unwrap().join("responses").to_string();
        assert_eq!(join("http://h/v1"), "http://h/v1/responses");
        assert_eq!(join("http://h/v1/"), "http://h/v1/responses");
        assert_eq!(join("http://h"), "http://h/responses");
        assert_eq!(join("https://h/o?api-version=1"), "https://h/o/responses?api-version=1");
    }

    #[test]
    fn bad_bases_are_refused_and_never_show_a_password() {
        for base in
            ["", "h:1", "ftp://h/", "http://", "file:///x", "https://u:pw@h/", "https://pw@h"]
        {
            let error = Base::parse(base, "base_url").unwrap_err();
            assert!(!error.contains("pw"), "{error}");
        }
    }

    #[test]
    fn passwords_are_hidden_in_any_text() {
        assert_eq!(redact("http://u:p@h:1/x"), "http://…@h:1/x");
        assert_eq!(redact("u:p@ss@h:1"), "…@h:1");
        assert_eq!(redact("http://h/x?key=1#y"), "http://h/x?…");
        assert_eq!(redact("h:1"), "h:1");
    }

    #[test]
    fn loopback_in_all_its_forms() {
        for host in
            ["localhost", "LOCALHOST", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "::1"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["example.com", "localhost.example.com", "10.0.0.1", "128.0.0.1"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
