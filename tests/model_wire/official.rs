//! The test server against the official client libraries: what we test with must be what real
//! servers send. Needs a Python with the packages `openai` and `anthropic`, named by
//! `TURNKEY_TEST_SDK_PYTHON`; without one it says so loudly.

use crate::model_server::{Call, Reply, Server, Usage};
use serde_json::json;
use std::process::Command;

fn replies() -> Vec<Reply> {
    let usage = Usage { input: 9, cached: 3, output: 4, reasoning: 2 };
    vec![
        Reply::message("All tests pass.").with_reasoning("Let me see.").with_usage(usage),
        Reply::calls([
            Call::json("call_1", "exec_command", json!({ "cmd": "true" })),
            Call::json("call_2", "exec_command", json!({ "cmd": "false" })),
        ])
        .with_text("I run both."),
        Reply::calls([Call::raw("call_1", "exec_command", "{")]).without_deltas(),
        Reply::refusal("No."),
        Reply::incomplete("max_output_tokens").with_text("Half"),
    ]
}

#[test]
fn every_event_of_the_test_server_is_one_of_the_official_types() {
    let Some(python) = std::env::var_os("TURNKEY_TEST_SDK_PYTHON") else {
        eprintln!("SKIPPED: TURNKEY_TEST_SDK_PYTHON names no Python with openai and anthropic");
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model_wire/official_types.py");
    let mut all = replies();
    // Freeform calls and failed responses exist on the first wire only.
    let rounds = all.len();
    all.extend(replies());
    all.extend(replies());
    let server = Server::start(all);
    let done = Command::new(&python)
        .args([script, &server.base_url(), &rounds.to_string()])
        .output()
        .expect("the Python that TURNKEY_TEST_SDK_PYTHON names can be started");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}{errors}");
    server.assert_clean();
}
