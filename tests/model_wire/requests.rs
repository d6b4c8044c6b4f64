//! What leaves: the body, its headers, and what must never be in it.

use crate::model_server::{Call, Reply, Server};
use crate::support::*;
use serde_json::json;
use std::sync::Arc;
use turnkey::model::ModelErrorKind;
use turnkey::protocol::{Fragment, Item, Role};

#[test]
fn a_request_has_what_the_wire_wants() {
    let server = Server::start([Reply::message("done")]);
    ask(OPENAI, &server).0.unwrap();
    let request = &server.requests()[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/responses"));
    assert_eq!(request.header("authorization"), Some("Bearer sk-test-key"));
    assert_eq!(request.header("accept-encoding"), Some("identity"));
    assert_eq!(request.header("accept"), Some("text/event-stream"));
    let body = &request.json;
    assert_eq!(body["model"], "gpt-5-test");
    assert_eq!(body["store"], false);
    assert_eq!(body["stream"], true);
    assert_eq!(body["parallel_tool_calls"], true);
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body["prompt_cache_key"], "session-1");
    assert_eq!(body["tools"][0]["strict"], true);
    assert_eq!(body["tools"][0]["parameters"], schema());
    assert_eq!(body["tools"][1]["type"], "custom");
    assert_eq!(body["tools"][1]["format"]["syntax"], "lark");
    assert_eq!(
        body["input"],
        json!([{ "type": "message", "role": "user",
                 "content": [{ "type": "input_text", "text": "Make the test pass." }] }])
    );
}

#[test]
fn a_model_without_grammars_gets_a_function() {
    let server = Server::start([Reply::message("done")]);
    let model = turnkey::model::open("openai/local-model", config(&server.base_url())).unwrap();
    assert!(!model.freeform_tools());
    ask_with(&*model, &task(), &quick()).0.unwrap();
    let tool = &server.requests()[0].json["tools"][1];
    assert_eq!(tool["type"], "function");
    assert_eq!(tool["parameters"]["required"], json!(["patch"]));
}

#[test]
fn items_go_back_verbatim_and_nothing_internal_leaves() {
    let unknown =
        json!({ "type": "future_thing", "id": "ft_1", "payload": { "x": [1, 2.5, null] } });
    let first = Reply::calls([
        Call::json("call_1", "exec_command", json!({ "cmd": "true" })),
        Call::text("call_2", "apply_patch", "*** Begin Patch"),
    ])
    .with_reasoning("Think.")
    .with_items([unknown.clone()]);
    let server = Server::start([first, Reply::message("done")]);
    let model = model_at(OPENAI, &server);
    let mut prompt = task();
    let response = ask_with(&*model, &prompt, &quick()).0.unwrap();
    prompt.items.extend(response.items.into_iter().map(Arc::new));
    prompt.items.push(Arc::new(result("call_1", "ok", false)));
    prompt.items.push(Arc::new(result("call_2", "patched", true)));
    let budget = Item::ours(Role::Developer, Fragment::Budget, "5 steps left");
    prompt.items.push(Arc::new(budget));
    ask_with(&*model, &prompt, &quick()).0.unwrap();
    server.assert_clean();
    let requests = server.requests();
    let input = requests[1].json["input"].as_array().unwrap();
    assert_eq!(input[1]["encrypted_content"], "encrypted-0");
    assert_eq!(input[2]["type"], "function_call");
    assert_eq!(input[3]["type"], "custom_tool_call");
    assert_eq!(input[4], unknown);
    assert_eq!(
        input[5],
        json!({ "type": "function_call_output", "call_id": "call_1", "output": "ok" })
    );
    assert_eq!(
        input[6],
        json!({ "type": "custom_tool_call_output", "call_id": "call_2", "output": "patched" })
    );
    let whole = String::from_utf8(requests[1].body.clone()).unwrap();
    for internal in ["fragment", "budget", "duration_ms", "exit_code", "\"effect\"", "\"raw\""] {
        assert!(!whole.contains(internal), "{internal}");
    }
}

#[test]
fn a_longer_history_begins_with_the_bytes_of_the_shorter_one() {
    let replies = (0..4).map(|n| {
        Reply::calls([Call::json(&format!("call_{n}"), "exec_command", json!({ "cmd": "true" }))])
    });
    let server = Server::start(replies);
    let model = model_at(OPENAI, &server);
    let mut prompt = task();
    for n in 0..4 {
        let response = ask_with(&*model, &prompt, &quick()).0.unwrap();
        prompt.items.extend(response.items.into_iter().map(Arc::new));
        prompt.items.push(Arc::new(result(&format!("call_{n}"), "ok", false)));
    }
    let bodies: Vec<Vec<u8>> = server.requests().into_iter().map(|request| request.body).collect();
    for pair in bodies.windows(2) {
        let shorter = pair[0].strip_suffix(b"]}").unwrap();
        assert!(pair[1].starts_with(shorter));
    }
    server.assert_clean();
}

#[test]
fn an_unpaired_history_is_not_sent() {
    let server = Server::start([Reply::message("done")]);
    let mut prompt = task();
    prompt.items.push(Arc::new(result("call_9", "ok", false)));
    let error = ask_with(&*model_at(OPENAI, &server), &prompt, &quick()).0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
    assert!(error.message.contains("call_9"));
    assert_eq!(server.request_count(), 0);
}
