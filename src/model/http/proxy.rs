//! Which proxy a connection goes through. Decided here and not by the HTTP library, because that
//! connects directly where a proxy's URL does not parse, and ignores ports in `NO_PROXY`.

use super::super::endpoint::{Base, ProxySetting, ProxySettings, redact};
use reqwest::Url;
use std::net::IpAddr;

/// The proxy of an endpoint.
#[derive(Debug)]
pub(super) struct Chosen {
    pub proxy: reqwest::Proxy,
    /// Without user and password.
    pub shown: String,
    pub variable: String,
    https: bool,
}

impl Chosen {
    pub fn is_https(&self) -> bool {
        self.https
    }
}

/// None for loopback, whatever is set; none where `NO_PROXY` names the host.
pub(super) fn choose(base: &Base, settings: &ProxySettings) -> Result<Option<Chosen>, String> {
    let url = base.url();
    let host = url.host_str().unwrap_or_default();
    if base.is_loopback() {
        return Ok(None);
    }
    let for_scheme = if base.is_https() { &settings.https } else { &settings.http };
    let Some(setting) = for_scheme.as_ref().or(settings.all.as_ref()) else { return Ok(None) };
    let port = url.port_or_known_default().unwrap_or_default();
    if settings.no_proxy.as_deref().is_some_and(|list| excludes(list, host, port)) {
        return Ok(None);
    }
    if setting.value.is_empty() {
        return Ok(None);
    }
    proxy_of(setting).map(Some)
}

fn proxy_of(setting: &ProxySetting) -> Result<Chosen, String> {
    let shown = redact(setting.value.expose());
    let fault = |why: &str| {
        format!(
            "{} is set to {shown:?}, which {why}; write http://HOST:PORT or unset it",
            setting.variable
        )
    };
    let text = match setting.value.expose() {
        text if text.contains("://") => text.to_owned(),
        text => format!("http://{text}"),
    };
    let url = Url::parse(&text).map_err(|_| fault("is no URL"))?;
    if !matches!(url.scheme(), "http" | "https" | "socks4" | "socks4a" | "socks5" | "socks5h") {
        return Err(fault("has a scheme that is not supported"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(fault("names no host"));
    }
    let proxy = reqwest::Proxy::all(url.clone()).map_err(|_| fault("can not be used"))?;
    Ok(Chosen { proxy, shown, variable: setting.variable.clone(), https: url.scheme() == "https" })
}

/// `NO_PROXY`: hosts, `.suffix`, `*.suffix`, `*`, addresses, CIDR, each with a port or without.
pub(super) fn excludes(list: &str, host: &str, port: u16) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let host = host.to_ascii_lowercase();
    list.split([',', ' ', '\t', '\n'])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .any(|entry| entry_excludes(&entry.to_ascii_lowercase(), &host, port))
}

fn entry_excludes(entry: &str, host: &str, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    let (name, wanted) = split_port(entry);
    if wanted.is_some_and(|wanted| wanted != port) {
        return false;
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return match name.split_once('/') {
            Some((network, bits)) => in_network(address, network, bits),
            None => name.parse::<IpAddr>().is_ok_and(|named| named == address),
        };
    }
    let suffix = name.strip_prefix("*.").or(name.strip_prefix('.')).unwrap_or(name);
    !suffix.is_empty()
        && (host == suffix || host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.')))
}

/// `host:port`, `[v6]:port`; a bare IPv6 address has no port.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some(rest) = entry.strip_prefix('[') {
        let (address, after) = rest.split_once(']').unwrap_or((rest, ""));
        return (address, after.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn in_network(address: IpAddr, network: &str, bits: &str) -> bool {
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            a.to_bits() & mask == n.to_bits() & mask
        }
        (IpAddr::V6(a), IpAddr::V6(n)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            a.to_bits() & mask == n.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(url: &str, settings: &ProxySettings) -> Result<Option<String>, String> {
        let base = Base::parse(url, "base").unwrap();
        choose(&base, settings).map(|chosen| chosen.map(|chosen| chosen.shown))
    }

    fn all(value: &str) -> ProxySettings {
        ProxySettings { all: Some(ProxySetting::new("ALL_PROXY", value)), ..Default::default() }
    }

    #[test]
    fn d102_loopback_is_never_proxied() {
        for url in ["http://127.0.0.1:8080", "https://localhost/v1", "http://[::1]:9/"] {
            assert_eq!(chosen(url, &all("http://p:3128")), Ok(None), "{url}");
        }
    }

    #[test]
    fn the_scheme_decides_which_variable() {
        let settings = ProxySettings {
            https: Some(ProxySetting::new("https_proxy", "http://s:1")),
            http: Some(ProxySetting::new("HTTP_PROXY", "h:2")),
            ..Default::default()
        };
        assert_eq!(chosen("https://a.example/", &settings), Ok(Some("http://s:1".into())));
        assert_eq!(chosen("http://a.example/", &settings), Ok(Some("h:2".into())));
    }

    #[test]
    fn d102_a_broken_proxy_is_an_error_that_names_the_variable_and_no_password() {
        for value in ["http://user:pw@", "ftp://user:pw@h", "http://user:pw@h:notaport", "::::"] {
            let error = chosen("https://a.example/", &all(value)).unwrap_err();
            assert!(error.starts_with("ALL_PROXY is set to"), "{error}");
            assert!(!error.contains("pw"), "{error}");
        }
        assert_eq!(chosen("https://a.example/", &all("")), Ok(None));
    }

    #[test]
    fn d102_no_proxy_in_all_its_forms() {
        let cases = [
            ("*", "a.example", true),
            ("a.example", "a.example", true),
            ("a.example", "b.a.example", true),
            ("a.example", "ba.example", false),
            (".a.example", "a.example", true),
            ("*.a.example", "x.a.example", true),
            ("a.example:443", "a.example", true),
            ("a.example:8443", "a.example", false),
            ("x, A.EXAMPLE ,y", "a.example", true),
            ("x a.example", "a.example", true),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.0/0", "11.1.2.3", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("fd00::/8", "fd12::1", true),
            ("[fd12::1]:443", "[fd12::1]", true),
            ("10.0.0.0/99", "10.1.2.3", false),
            ("", "a.example", false),
            (".", "a.example", false),
        ];
        for (list, host, want) in cases {
            assert_eq!(excludes(list, host, 443), want, "{list:?} {host}");
        }
    }
}
