//! The test server against the official client libraries: what we test with must be what real
//! servers send. Needs a Python with the packages `openai` and `anthropic`, named by
//! `TURNKEY_TEST_SDK_PYTHON`; without one it says so loudly.

use crate::model_server::{Call, Reply, Server, Usage};
use serde_json::json;
use std::process::Command;

/// What every wire can say.
fn replies() -> Vec<Reply> {
    let usage = Usage { input: 9, cached: 3, output: 4, reasoning: 2 };
    vec![
        Reply::message("All tests pass.").with_reasoning("Let me see.").with_usage(usage),
        Reply::message("阴影🙂"),
        Reply::empty(),
        Reply::calls([
            Call::json("call_1", "exec_command", json!({ "cmd": "true" })),
            Call::json("call_2", "exec_command", json!({ "cmd": "false" })),
        ])
        .with_text("I run both."),
        Reply::calls([Call::raw("call_1", "exec_command", "{")]).without_deltas(),
        Reply::calls([Call::raw("call_1", "exec_command", "")]).without_usage(),
        Reply::refusal("No."),
        Reply::incomplete("max_output_tokens").with_text("Half"),
        Reply::incomplete("max_output_tokens").with_calls([Call::raw("c", "exec_command", "{\"a")]),
        Reply::incomplete("content_filter").with_text("Once"),
    ]
}

/// What only one wire has: freeform calls and failed responses here, a paused message there. The
/// others report a failure by an event that is no part of a stream in the libraries' types.
fn own(wire: &str) -> Vec<Reply> {
    match wire {
        "responses" => vec![
            Reply::calls([Call::text("call_1", "apply_patch", "*** Begin Patch")]),
            Reply::failed("server_error", "It broke."),
        ],
        "messages" => vec![Reply::incomplete("pause_turn").with_text("One, ")],
        _ => Vec::new(),
    }
}

#[test]
fn every_event_of_the_test_server_is_one_of_the_official_types() {
    let Some(python) = std::env::var_os("TURNKEY_TEST_SDK_PYTHON") else {
        eprintln!("SKIPPED: TURNKEY_TEST_SDK_PYTHON names no Python with openai and anthropic");
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model_wire/official_types.py");
    for wire in ["responses", "chat/completions", "messages"] {
        let all: Vec<Reply> = replies().into_iter().chain(own(wire)).collect();
        let rounds = all.len().to_string();
        let server = Server::start(all);
        let done = Command::new(&python)
            .args([script, &server.base_url(), wire, &rounds])
            .output()
            .expect("the Python that TURNKEY_TEST_SDK_PYTHON names can be started");
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{wire}: {said}{errors}");
        server.assert_clean();
        assert_eq!(server.left(), 0, "{wire}: every reply was looked at");
        println!("{wire}: {}", said.trim());
    }
}
