//! What leaves: the body, its headers, and what must never be in it.

use crate::model_server::{Call, Reply, Server};
use crate::support::*;
use serde_json::{Value, json};
use std::sync::Arc;
use turnkey::model::{ModelErrorKind, Secret};
use turnkey::protocol::{Fragment, Item, Prompt, Role};

#[test]
fn a_request_has_what_the_responses_wire_wants() {
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
fn a_request_has_what_the_chat_wire_wants() {
    let server = Server::start([Reply::message("done")]);
    ask(CHAT, &server).0.unwrap();
    let request = &server.requests()[0];
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.header("authorization"), Some("Bearer sk-test-key"));
    let body = &request.json;
    assert_eq!(body["stream_options"], json!({ "include_usage": true }));
    assert_eq!(body["tools"][0]["function"]["strict"], true);
    assert_eq!(body["tools"][1]["function"]["parameters"]["required"], json!(["patch"]));
    assert_eq!(
        body["messages"],
        json!([
            { "role": "system", "content": "You work alone." },
            { "role": "user", "content": "Make the test pass." },
        ])
    );
}

#[test]
fn a_request_has_what_the_messages_wire_wants() {
    let server = Server::start([Reply::message("done")]);
    ask(ANTHROPIC, &server).0.unwrap();
    let request = &server.requests()[0];
    assert_eq!(request.path, "/v1/messages");
    assert_eq!(request.header("x-api-key"), Some("sk-test-key"));
    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(request.header("authorization"), None);
    let body = &request.json;
    let mark = json!({ "type": "ephemeral" });
    assert_eq!(body["system"][0]["cache_control"], mark);
    assert_eq!(body["tools"][0]["input_schema"], schema());
    assert_eq!(body["tools"][1]["input_schema"]["required"], json!(["patch"]));
    assert_eq!(
        body["messages"],
        json!([{ "role": "user", "content": [
            { "type": "text", "text": "Make the test pass.", "cache_control": mark } ] }])
    );
}

#[test]
fn options_are_said_in_the_words_of_each_wire() {
    let answer = json!({
        "type": "object", "properties": { "ok": { "type": "boolean" } },
        "required": ["ok"], "additionalProperties": false,
    });
    let body = |wire: &str| {
        let server = Server::start([Reply::message("done")]);
        let mut prompt = task();
        prompt.options.effort = Some("high".into());
        prompt.options.max_output_tokens = Some(5_000);
        prompt.options.output_schema = Some(Arc::new(answer.clone()));
        ask_with(&*model_at(wire, &server), &prompt, &quick()).0.unwrap();
        server.requests()[0].json.clone()
    };
    let responses = body(OPENAI);
    assert_eq!(responses["reasoning"], json!({ "effort": "high" }));
    assert_eq!(responses["max_output_tokens"], 5_000);
    assert_eq!(responses["text"]["format"]["schema"], answer);
    assert_eq!(responses["text"]["format"]["strict"], true);
    let chat = body(CHAT);
    assert_eq!(chat["reasoning_effort"], "high");
    assert_eq!(chat["max_tokens"], 5_000);
    assert_eq!(chat["response_format"]["json_schema"]["schema"], answer);
    let messages = body(ANTHROPIC);
    assert_eq!(messages["max_tokens"], 5_000);
    assert_eq!(messages["output_config"]["effort"], "high");
    assert_eq!(
        messages["output_config"]["format"],
        json!({ "type": "json_schema", "schema": answer })
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
}

/// One Turn on each wire: what a model said, results, our own message in between, and once more.
fn long_turn(wire: &str, server: &Server) -> Prompt {
    let model = model_at(wire, server);
    let mut prompt = task();
    for step in 0..3 {
        let response = ask_with(&*model, &prompt, &quick()).0.unwrap();
        prompt.items.extend(response.items.into_iter().map(Arc::new));
        let budget = Item::ours(Role::Developer, Fragment::Budget, "few steps left");
        // Between the calls and their results, where the sides of strict wires would break.
        prompt.items.push(Arc::new(budget));
        for call in 0..2 {
            prompt.items.push(Arc::new(result(&format!("call_{step}_{call}"), "ok", false)));
        }
    }
    ask_with(&*model, &prompt, &quick()).0.unwrap();
    prompt
}

fn two_calls(step: usize) -> Reply {
    let ids = [0, 1].map(|call| format!("call_{step}_{call}"));
    let calls = ids.map(|id| Call::json(&id, "exec_command", json!({ "cmd": "true" })));
    Reply::calls(calls).with_text("I run it.").with_reasoning("Hm.")
}

#[test]
fn every_wire_takes_a_long_turn_and_nothing_internal_leaves() {
    for wire in WIRES {
        let replies = (0..3).map(two_calls).chain([Reply::message("done")]);
        let server = Server::start(replies);
        long_turn(wire, &server);
        server.assert_clean();
        let body = String::from_utf8(server.requests()[3].body.clone()).unwrap();
        for internal in [
            "fragment",
            "budget",
            "duration_ms",
            "exit_code",
            "\"effect\"",
            "\"raw\"",
            "\"payload\"",
        ] {
            assert!(!body.contains(internal), "{wire}: {internal}");
        }
    }
}

#[test]
fn reasoning_goes_back_to_where_it_came_from_and_nowhere_else() {
    let third = |body: &Value, wire: &str| match wire {
        OPENAI => body["input"][1].clone(),
        CHAT => body["messages"][2].clone(),
        _ => body["messages"][1]["content"][0].clone(),
    };
    for wire in WIRES {
        let server = Server::start((0..3).map(two_calls).chain([Reply::message("done")]));
        let prompt = long_turn(wire, &server);
        let found = third(&server.requests()[3].json, wire);
        let kept = match wire {
            OPENAI => found["encrypted_content"] == "encrypted-0",
            CHAT => found["reasoning_content"] == "Hm.",
            _ => found["signature"] == "signed-0" && found["thinking"] == "Hm.",
        };
        assert!(kept, "{wire}: {found}");
        for other in WIRES.iter().filter(|other| **other != wire) {
            let server = Server::start([Reply::message("done")]);
            ask_with(&*model_at(other, &server), &prompt, &quick()).0.unwrap();
            server.assert_clean();
            let body = String::from_utf8(server.requests()[0].body.clone()).unwrap();
            for foreign in ["encrypted-0", "reasoning_content", "signed-0", "Hm."] {
                assert!(!body.contains(foreign), "{wire} → {other}: {foreign}");
            }
            assert!(body.contains("I run it."), "what was said stays");
        }
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
    for wire in WIRES {
        let server = Server::start([Reply::message("done")]);
        let mut prompt = task();
        prompt.items.push(Arc::new(result("call_9", "ok", false)));
        let error = ask_with(&*model_at(wire, &server), &prompt, &quick()).0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
        assert!(error.message.contains("call_9"));
        assert_eq!(server.request_count(), 0);
    }
}

#[test]
fn a_key_is_not_needed_where_the_operator_names_the_server() {
    let server = Server::start([Reply::message("done")]);
    let mut config = config(&server.base_url());
    config.endpoint.key = None;
    config.endpoint.headers = vec![("x-gateway".into(), Secret::new("gw-1".into()))];
    let model = turnkey::model::open(OPENAI, config).unwrap();
    ask_with(&*model, &task(), &quick()).0.unwrap();
    let request = &server.requests()[0];
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("x-gateway"), Some("gw-1"));
}

#[test]
fn a_key_that_is_no_header_is_told_without_showing_it() {
    let mut config = config("http://127.0.0.1:1/v1");
    config.endpoint.key = Some(Secret::new("sk-\nsecret".into()));
    let error = turnkey::model::open(OPENAI, config).err().unwrap().to_string();
    assert!(error.contains("model.key") && !error.contains("secret"), "{error}");
}
