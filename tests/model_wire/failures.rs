//! Failures: typed by what can be done about them, retried only where that may help.

use crate::model_server::{Reply, Server};
use crate::support::*;
use serde_json::json;
use std::time::{Duration, Instant};
use turnkey::model::{ModelErrorKind, RetryPolicy, TimeoutKind};

fn error_body(code: &str, message: &str) -> String {
    json!({ "error": { "code": code, "message": message, "type": code, "param": null } })
        .to_string()
}

#[test]
fn d06_errors_for_ever_end_in_a_typed_failure_that_names_status_and_attempts() {
    for wire in WIRES {
        let server = Server::start([Reply::status(500, "{}").forever()]);
        let (answer, notes) = ask(wire, &server);
        let error = answer.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Server);
        assert_eq!(error.status, Some(500));
        assert!(error.message.contains("HTTP 500"), "{}", error.message);
        assert!(error.message.contains("5 attempts"), "{}", error.message);
        assert_eq!(server.request_count(), 5);
        assert_eq!(notes.retries.len(), 4);
    }
}

#[test]
fn d07_key_permission_and_context_are_three_ends_and_none_is_retried() {
    for wire in WIRES {
        let cases = [
            (401, error_body("invalid_api_key", "Incorrect API key: sk-test-key"), "model.auth"),
            (403, String::new(), "model.auth"),
            (400, error_body("context_length_exceeded", "too long"), "model.context_exceeded"),
            (400, error_body("unsupported_parameter", "no"), "model.invalid_request"),
        ];
        for (status, body, reason) in cases {
            let server = Server::start([Reply::status(status, body).forever()]);
            let error = ask(wire, &server).0.unwrap_err();
            assert_eq!(error.reason(), reason, "{status}");
            assert_eq!(server.request_count(), 1, "{status}");
            assert!(!error.hint.is_empty());
            assert!(
                !error.message.contains("sk-test-key") && !format!("{error:?}").contains("sk-test")
            );
        }
    }
}

#[test]
fn d19_the_provider_says_when() {
    for wire in WIRES {
        let text = "Rate limit reached. Please try again in 0.3s.";
        let cases = [
            (Reply::status(429, "{}").header("Retry-After", "1"), 1000),
            (Reply::status(429, "{}").header("retry-after-ms", "200"), 200),
            (Reply::status(429, error_body("rate_limit_exceeded", text)), 300),
            (Reply::status(503, "{}").header("retry-after-ms", "150"), 150),
            (Reply::failed("rate_limit_exceeded", text), 300),
        ];
        for (reply, ms) in cases {
            let server = Server::start([reply, Reply::message("done")]);
            let (answer, notes) = ask(wire, &server);
            answer.unwrap();
            let requests = server.requests();
            let waited = requests[1].at - requests[0].at;
            let least = Duration::from_millis(ms);
            assert!(waited >= least && waited < least + Duration::from_secs(5), "{ms} {waited:?}");
            assert_eq!(notes.retries.len(), 1);
        }
    }
}

#[test]
fn d19_a_wait_beyond_the_budget_fails_at_once() {
    for wire in WIRES {
        let reply = Reply::status(429, "{}").header("Retry-After", "86400");
        let server = Server::start([reply]);
        let start = Instant::now();
        let error = ask(wire, &server).0.unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(10));
        assert_eq!(error.kind, ModelErrorKind::RateLimited);
        assert_eq!(error.retry_after, Some(Duration::from_secs(86_400)));
        assert!(error.message.contains("24h00m"), "{}", error.message);
        assert!(error.hint.contains("model.retries.total_wait"));
        assert_eq!(server.request_count(), 1);
    }
}

#[test]
fn d20_no_quota_is_not_a_rate_limit() {
    for wire in WIRES {
        let body = error_body("insufficient_quota", "You exceeded your current quota");
        for reply in [Reply::status(429, body), Reply::failed("insufficient_quota", "no money")] {
            let server = Server::start([reply.forever()]);
            let error = ask(wire, &server).0.unwrap_err();
            assert_eq!(error.reason(), "model.quota");
            assert_eq!(server.request_count(), 1);
        }
    }
}

#[test]
fn the_provider_may_forbid_a_retry() {
    for wire in WIRES {
        let reply = Reply::status(500, "{}").header("x-should-retry", "false").forever();
        let server = Server::start([reply]);
        assert_eq!(ask(wire, &server).0.unwrap_err().kind, ModelErrorKind::Server);
        assert_eq!(server.request_count(), 1);
    }
}

#[test]
fn silence_ends_at_its_limit() {
    for wire in WIRES {
        let short = Duration::from_millis(200);
        let cases = [
            (Reply::never_answer(), TimeoutKind::FirstByte),
            (
                Reply::message("part").drop_after(3).hold_open(Duration::from_secs(60)),
                TimeoutKind::Idle,
            ),
        ];
        for (reply, kind) in cases {
            let server = Server::start([reply.forever()]);
            let mut config = config(&server.base_url());
            // The other one long, so that it cannot come first.
            match kind {
                TimeoutKind::Idle => config.endpoint.timeouts.idle = short,
                _ => config.endpoint.timeouts.first_byte = short,
            }
            let model = turnkey::model::open(wire, config).unwrap();
            let retry = RetryPolicy { attempts: 2, ..quick() };
            let start = Instant::now();
            let error = ask_with(&*model, &task(), &retry).0.unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Timeout(kind));
            assert!(error.hint.contains(kind.setting()), "{}", error.hint);
            assert!(start.elapsed() < Duration::from_secs(10));
            assert_eq!(server.request_count(), 2);
        }
    }
}

#[test]
fn nobody_there_is_a_connection_error() {
    use rustix::net::{AddressFamily, SocketAddrV4, SocketType};
    // Taken, so that nobody else listens there, and without anybody who listens.
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
    rustix::net::bind(&socket, &any).unwrap();
    let taken = SocketAddrV4::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    let port = taken.port();
    let base = format!("http://127.0.0.1:{port}/v1");
    let model = turnkey::model::open(OPENAI, config(&base)).unwrap();
    let error = ask_with(&*model, &task(), &quick()).0.unwrap_err();
    assert_eq!(error.reason(), "model.connect");
    assert!(error.message.contains(&port.to_string()), "{}", error.message);
    assert_eq!(error.attempts, 5);
}

#[test]
fn a_cancel_reaches_every_wait() {
    for wire in WIRES {
        let cases = [
            Reply::never_answer(),
            Reply::message("part").drop_after(3).hold_open(Duration::from_secs(60)),
            Reply::status(429, "{}").header("Retry-After", "60"),
        ];
        for reply in cases {
            let server = Server::start([reply.forever()]);
            let model = model_at(wire, &server);
            let start = Instant::now();
            let error = run(async {
                let cancel = tokio_util::sync::CancellationToken::new();
                let trigger = cancel.clone();
                let mut notes = Notes::default();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    trigger.cancel();
                });
                turnkey::model::sample(&*model, &task(), &quick(), &cancel, &mut notes).await
            })
            .unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Cancelled);
            assert!(start.elapsed() < Duration::from_secs(10));
        }
    }
}

#[test]
fn a_refusal_is_an_end_of_its_own() {
    for wire in WIRES {
        let server = Server::start([Reply::refusal("I can not help with that.").forever()]);
        let error = ask(wire, &server).0.unwrap_err();
        assert_eq!(error.reason(), "model.refused");
        assert!(error.message.contains("I can not help with that."));
        assert_eq!(error.usage.input, 100);
        assert_eq!(server.request_count(), 1);
    }
}

#[test]
fn d19_the_time_at_which_a_limit_is_reset_is_waited_for() {
    for wire in WIRES {
        let reply = Reply::status(429, "{}")
            .header("x-ratelimit-remaining-requests", "3")
            .header("x-ratelimit-reset-requests", "9m")
            .header("x-ratelimit-remaining-tokens", "0")
            .header("x-ratelimit-reset-tokens", "400ms");
        let server = Server::start([reply, Reply::message("done")]);
        ask(wire, &server).0.unwrap();
        let requests = server.requests();
        let waited = requests[1].at - requests[0].at;
        assert!(waited >= Duration::from_millis(400), "{wire} {waited:?}");
        assert!(waited < Duration::from_secs(2), "{wire} {waited:?}: only what is used up counts");
    }
}

/// Limits that leave no room for another attempt end the response, with what it cost so far.
#[test]
fn an_attempt_that_the_limits_do_not_leave_room_for_is_not_made() {
    struct Poor(u64);
    impl turnkey::model::Observer for Poor {
        fn delta<'a>(&'a mut self, _: &'a str) -> turnkey::model::BoxFuture<'a, ()> {
            Box::pin(std::future::ready(()))
        }

        fn retry<'a>(
            &'a mut self,
            _: u32,
            _: Duration,
            _: &'a turnkey::model::ModelError,
        ) -> turnkey::model::BoxFuture<'a, ()> {
            Box::pin(std::future::ready(()))
        }

        fn affords(&self, spent: turnkey::protocol::Usage) -> bool {
            spent.total() < self.0
        }
    }
    for wire in WIRES {
        let server = Server::start([Reply::empty().forever()]);
        let model = model_at(wire, &server);
        let cancel = tokio_util::sync::CancellationToken::new();
        // Each attempt costs 110 tokens.
        let mut poor = Poor(220);
        let answer = run(turnkey::model::sample(&*model, &task(), &quick(), &cancel, &mut poor));
        let error = answer.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::OverBudget, "{wire}");
        assert_eq!((server.request_count(), error.usage.total()), (2, 220), "{wire}");
        assert!(error.message.contains("2 attempts"), "{}", error.message);
        assert!(!error.retryable());
    }
    let server = Server::start([Reply::incomplete("pause_turn").with_text("One, ").forever()]);
    let model = model_at(ANTHROPIC, &server);
    let cancel = tokio_util::sync::CancellationToken::new();
    let answer = run(turnkey::model::sample(&*model, &task(), &quick(), &cancel, &mut Poor(300)));
    assert_eq!(answer.unwrap_err().kind, ModelErrorKind::OverBudget);
    assert_eq!(server.request_count(), 3);
}

#[test]
fn a_provider_without_capacity_is_asked_again() {
    for wire in WIRES {
        let overloaded = || Reply::failed("overloaded_error", "Overloaded");
        let server = Server::start([
            overloaded(),
            Reply::status(
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            ),
            Reply::message("done"),
        ]);
        let (answer, notes) = ask(wire, &server);
        answer.unwrap();
        let causes: Vec<&str> = notes.retries.iter().map(|(_, _, cause)| cause.as_str()).collect();
        assert_eq!(causes, ["model.overloaded", "model.overloaded"], "{wire}");
    }
}
