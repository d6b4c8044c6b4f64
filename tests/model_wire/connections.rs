//! Certificates and proxies. The test makes its own authority with the `openssl` command; where that
//! is missing it says so loudly and tests the rest.

use crate::model_server::{Authority, Reply, Server};
use crate::support::*;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use turnkey::model::{
    Endpoint, ModelConfig, ModelErrorKind, OpenError, ProxySetting, ProxySettings, Silent, open,
    sample,
};
use turnkey::protocol::{Fragment, Item, Role};

fn with(base: &str, change: impl FnOnce(&mut Endpoint)) -> ModelConfig {
    let mut config = config(base);
    change(&mut config.endpoint);
    config
}

#[test]
fn d101_an_unknown_authority_is_named_and_not_retried() {
    let Some(authority) = Authority::new() else { return };
    let server = Server::start_tls([Reply::message("done")], authority.server_config());
    let model = open("openai/gpt-5-test", config(&server.base_url())).unwrap();
    let (answer, notes) = ask_with(&*model, &task(), &quick());
    let error = answer.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Tls);
    assert!(notes.retries.is_empty());
    for part in ["127.0.0.1", "\"model.example\"", "\"Acme, Acme-Inspection-CA\"", "not trusted"] {
        assert!(error.message.contains(part), "{part}: {}", error.message);
    }
    assert!(error.hint.contains("--ca-file or SSL_CERT_FILE"), "{}", error.hint);
    assert_eq!(server.request_count(), 0);
}

#[test]
fn d101_each_setting_adds_to_what_is_trusted() {
    let Some(authority) = Authority::new() else { return };
    let file = authority.path("ca.pem");
    let only = tempfile::tempdir().unwrap();
    std::fs::copy(&file, only.path().join("acme.pem")).unwrap();
    std::fs::write(only.path().join("README"), "not a certificate").unwrap();
    let folder = only.path().display().to_string();
    type Change<'a> = Box<dyn Fn(&mut Endpoint) + 'a>;
    let changes: [(&str, Change<'_>); 4] = [
        ("--ca-file", Box::new(|endpoint| endpoint.ca_file = Some(file.clone()))),
        ("SSL_CERT_FILE", Box::new(|endpoint| endpoint.ssl_cert_file = Some(file.clone()))),
        ("SSL_CERT_DIR", Box::new(|endpoint| endpoint.ssl_cert_dir = Some(folder.clone()))),
        (
            "all",
            Box::new(|endpoint| {
                endpoint.ca_file = Some(file.clone());
                endpoint.ssl_cert_file = Some(file.clone());
                endpoint.ssl_cert_dir = Some(format!(":{folder}:"));
            }),
        ),
    ];
    for (name, change) in changes {
        let server = Server::start_tls([Reply::message("done")], authority.server_config());
        let model = open("openai/gpt-5-test", with(&server.base_url(), |e| change(e))).unwrap();
        assert_eq!(text(&ask_with(&*model, &task(), &quick()).0.unwrap()), "done", "{name}");
    }
}

#[test]
fn d101_a_bad_certificate_file_is_an_error_that_names_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let empty = write("empty.pem", "");
    let broken =
        write("broken.pem", "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n");
    let not_one =
        write("not-one.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let missing = folder.path().join("missing.pem");
    let base = "https://model.example/v1";
    let fault = |config: ModelConfig| match open("openai/gpt-5-test", config).err() {
        Some(OpenError::Certificates(text)) => text,
        other => panic!("{other:?}"),
    };
    for file in [&empty, &broken, &not_one, &missing] {
        let text = fault(with(base, |endpoint| endpoint.ssl_cert_file = Some(file.clone())));
        assert!(text.starts_with("SSL_CERT_FILE: ") && text.contains(".pem"), "{text}");
        // A file that somebody named is never ignored, also where nothing needs it.
        for base in [base, "http://127.0.0.1:9/v1"] {
            let text = fault(with(base, |endpoint| endpoint.ca_file = Some(file.clone())));
            assert!(text.starts_with("--ca-file: "), "{text}");
        }
    }
    let text = fault(with(base, |endpoint| endpoint.ssl_cert_dir = Some("/no/such/dir".into())));
    assert!(text.starts_with("SSL_CERT_DIR: /no/such/dir"), "{text}");
}

/// Certificates are none of an http endpoint's business: it works where none can be had.
#[test]
fn no_certificate_is_read_for_http() {
    let server = Server::start([Reply::message("done")]);
    let missing = Path::new("/no/such/file").to_path_buf();
    let config = with(&server.base_url(), |endpoint| endpoint.ssl_cert_file = Some(missing));
    let model = open("openai/gpt-5-test", config).unwrap();
    assert_eq!(text(&ask_with(&*model, &task(), &quick()).0.unwrap()), "done");
}

#[test]
fn tls_to_a_server_without_it_says_so() {
    let server = Server::start([Reply::message("done")]);
    let base = server.base_url().replace("http://", "https://");
    let model = open("openai/gpt-5-test", config(&base)).unwrap();
    let error = ask_with(&*model, &task(), &quick()).0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Tls, "{error}");
    assert_eq!(error.attempts, 1);
}

fn proxied(server: &Server, user: &str) -> ProxySettings {
    let url = format!("http://{user}{}", server.address());
    ProxySettings {
        https: Some(ProxySetting::new("HTTPS_PROXY", url.clone())),
        http: Some(ProxySetting::new("http_proxy", url)),
        ..ProxySettings::default()
    }
}

#[test]
fn d102_loopback_goes_past_a_dead_proxy() {
    let server = Server::start([Reply::message("done")]);
    let config = with(&server.base_url(), |endpoint| {
        endpoint.proxies.all = Some(ProxySetting::new("ALL_PROXY", "http://127.0.0.1:1"));
    });
    let model = open("openai/gpt-5-test", config).unwrap();
    assert_eq!(text(&ask_with(&*model, &task(), &quick()).0.unwrap()), "done");
}

#[test]
fn d102_a_proxy_carries_http_and_https() {
    let proxy = Server::start_proxy([Reply::message("plain")], None);
    let config = with("http://model.example/v1", |endpoint| {
        endpoint.proxies = proxied(&proxy, "me:pass%20word@");
    });
    let model = open("openai/gpt-5-test", config).unwrap();
    assert_eq!(text(&ask_with(&*model, &task(), &quick()).0.unwrap()), "plain");
    let request = &proxy.requests()[0];
    assert_eq!(request.path, "http://model.example/v1/responses");
    assert_eq!(request.header("proxy-authorization"), Some("Basic bWU6cGFzcyB3b3Jk"));

    let Some(authority) = Authority::new() else { return };
    let proxy = Server::start_proxy([Reply::message("inside")], Some(authority.server_config()));
    let config = with("https://model.example/v1", |endpoint| {
        endpoint.proxies = proxied(&proxy, "");
        endpoint.ca_file = Some(authority.path("ca.pem"));
    });
    let model = open("openai/gpt-5-test", config).unwrap();
    assert_eq!(text(&ask_with(&*model, &task(), &quick()).0.unwrap()), "inside");
    let requests = proxy.requests();
    assert_eq!(requests[0].method, "CONNECT");
    assert_eq!(requests[0].path, "model.example:443");
    assert_eq!(requests[0].header("authorization"), None, "the key stays inside");
    assert_eq!(requests[1].path, "/v1/responses");
}

#[test]
fn d102_a_proxy_that_wants_a_password_is_told_without_one() {
    for base in ["http://model.example/v1", "https://model.example/v1"] {
        let proxy = Server::start_proxy([Reply::status(407, "no").forever()], None);
        let config = with(base, |endpoint| endpoint.proxies = proxied(&proxy, "me:hunter2@"));
        let model = open("openai/gpt-5-test", config).unwrap();
        let error = ask_with(&*model, &task(), &quick()).0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Proxy, "{error}");
        assert_eq!((error.attempts, proxy.request_count()), (1, 1), "{base}");
        assert!(error.message.contains(&proxy.address().to_string()), "{error}");
        assert!(error.message.contains("PROXY") || error.message.contains("http_proxy"));
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn d102_a_dead_proxy_is_not_the_endpoint() {
    let config = with("https://model.example/v1", |endpoint| {
        endpoint.proxies.https = Some(ProxySetting::new("https_proxy", "http://me:pw@127.0.0.1:1"));
    });
    let model = open("openai/gpt-5-test", config).unwrap();
    let error = ask_with(&*model, &task(), &quick()).0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Proxy);
    for part in ["https_proxy", "127.0.0.1:1", "model.example"] {
        assert!(error.message.contains(part), "{error}");
    }
    assert!(!error.message.contains("pw"), "{error}");
}

#[test]
fn d102_no_proxy_is_obeyed_with_its_port() {
    let config = with("http://model.example:8443/v1", |endpoint| {
        endpoint.proxies.http = Some(ProxySetting::new("http_proxy", "http://127.0.0.1:1"));
        endpoint.proxies.no_proxy = Some("model.example:8443".into());
    });
    let model = open("openai/gpt-5-test", config).unwrap();
    let error = ask_with(&*model, &task(), &quick()).0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Connect, "tried directly: {error}");
}

/// A server that speaks HTTP/2 only; gives how many connections it saw.
fn start_http2(config: Arc<rustls::ServerConfig>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let acceptor = tokio_rustls::TlsAcceptor::from(config);
            while let Ok((socket, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let Ok(stream) = acceptor.accept(socket).await else { continue };
                tokio::spawn(serve_http2(stream));
            }
        });
    });
    (address, seen)
}

async fn serve_http2(stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        tokio::spawn(async move {
            let mut body = request.into_body();
            let mut length = 0;
            while let Some(Ok(piece)) = body.data().await {
                length += piece.len();
                let _ = body.flow_control().release_capacity(piece.len());
            }
            let mut response = http::Response::new(());
            let kind = http::HeaderValue::from_static("text/event-stream");
            response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
            let mut answer = respond.send_response(response, false).unwrap();
            let text = format!("{{\"type\":\"output_text\",\"text\":\"{length}\"}}");
            let item = format!("{{\"type\":\"message\",\"id\":\"m\",\"content\":[{text}]}}");
            let event = format!(
                "data: {{\"type\":\"response.completed\",\"response\":{{\"output\":[{item}]}}}}\n\n"
            );
            let _ = answer.send_data(bytes::Bytes::from(event), true);
        });
    }
}

/// HTTP/2 where it is offered: one connection for all, bodies of many megabytes included.
#[test]
fn http2_is_spoken_where_it_is_offered() {
    let Some(authority) = Authority::new() else { return };
    let (address, connections) = start_http2(authority.http2_config());
    let config = with(&format!("https://{address}/v1"), |endpoint| {
        endpoint.ca_file = Some(authority.path("ca.pem"));
    });
    let model = open("openai/gpt-5-test", config).unwrap();
    let large = "x".repeat(5 << 20);
    run(async {
        for task in ["small", large.as_str(), "small"] {
            let item = Item::ours(Role::User, Fragment::Task, task);
            let prompt = prompt(vec![item]);
            let cancel = tokio_util::sync::CancellationToken::new();
            let answer = sample(&*model, &prompt, &quick(), &cancel, &mut Silent).await.unwrap();
            let length: usize = text(&answer).parse().unwrap();
            assert!(length > task.len(), "{length} bytes arrived");
        }
    });
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}
