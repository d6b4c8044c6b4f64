//! History that the provider keeps: gone on from where nothing changed, and sent whole where
//! anything did, or where the provider has forgotten.

use crate::model_server::{Call, Reply, Server};
use crate::support::*;
use serde_json::{Value, json};
use std::sync::Arc;
use turnkey::model::{Model, ModelConfig, ModelErrorKind};
use turnkey::protocol::{Fragment, Item, Prompt, Role};

fn keeping(server: &Server) -> Arc<dyn Model> {
    let config = ModelConfig { server_state: true, ..config(&server.base_url()) };
    turnkey::model::open(OPENAI, config).unwrap()
}

fn call(n: usize) -> Reply {
    let call = Call::json(&format!("call_{n}"), "exec_command", json!({ "cmd": "true" }));
    Reply::calls([call]).with_reasoning("Hm.")
}

/// One step: the answer and its results enter the history.
fn step(model: &dyn Model, prompt: &mut Prompt, n: usize) {
    let response = ask_with(model, prompt, &quick()).0.unwrap();
    prompt.items.extend(response.items.into_iter().map(Arc::new));
    prompt.items.push(Arc::new(result(&format!("call_{n}"), "ok", false)));
}

fn forgotten() -> Reply {
    let error = json!({ "error": {
        "code": "previous_response_not_found", "type": "invalid_request_error",
        "message": "Previous response with id 'resp_0001' not found.",
    } });
    Reply::status(400, error.to_string())
}

fn kinds(body: &Value) -> Vec<&str> {
    body["input"].as_array().unwrap().iter().filter_map(|item| item["type"].as_str()).collect()
}

#[test]
fn only_what_is_new_is_sent_after_a_response_that_the_provider_kept() {
    let server = Server::start([call(1), call(2), Reply::message("done")]);
    let model = keeping(&server);
    let mut prompt = task();
    step(&*model, &mut prompt, 1);
    let note = Item::ours(Role::Developer, Fragment::Budget, "few steps left");
    prompt.items.push(Arc::new(note));
    step(&*model, &mut prompt, 2);
    ask_with(&*model, &prompt, &quick()).0.unwrap();
    server.assert_clean();
    let bodies: Vec<Value> = server.requests().into_iter().map(|request| request.json).collect();
    assert_eq!(
        (&bodies[0]["store"], &bodies[0]["previous_response_id"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(bodies[1]["previous_response_id"], "resp_0001");
    assert_eq!(kinds(&bodies[1]), ["function_call_output", "message"]);
    assert_eq!(kinds(&bodies[2]), ["function_call_output"]);
    assert_eq!(bodies[1]["instructions"], "You work alone.", "the provider does not keep these");
    assert_eq!(bodies[1]["tools"], bodies[0]["tools"]);
}

#[test]
fn a_provider_that_has_forgotten_gets_the_whole_history_once_more() {
    let server = Server::start([
        call(1),
        forgotten(),
        call(2),
        forgotten(),
        call(3),
        // Twice in a row: it is not asked to remember again.
        Reply::message("done"),
    ]);
    let model = keeping(&server);
    let mut prompt = task();
    for n in 1..=3 {
        step(&*model, &mut prompt, n);
    }
    let (answer, notes) = ask_with(&*model, &prompt, &quick());
    answer.unwrap();
    assert!(notes.retries.is_empty(), "it is no failure of the response");
    let bodies: Vec<Value> = server.requests().into_iter().map(|request| request.json).collect();
    let goes_on: Vec<bool> =
        bodies.iter().map(|body| body["previous_response_id"].is_string()).collect();
    assert_eq!(goes_on, [false, true, false, true, false, false]);
    assert_eq!(
        kinds(&bodies[2]),
        ["message", "reasoning", "function_call", "function_call_output"]
    );
    assert_eq!(bodies[2]["input"][1]["encrypted_content"], "encrypted-0");
}

#[test]
fn a_kept_response_is_not_gone_on_from_once_anything_before_it_changed() {
    type Change = fn(&mut Prompt);
    let changes: [(&str, Change); 4] = [
        ("instructions", |prompt| prompt.instructions = "Something else.".into()),
        ("tools", |prompt| prompt.tools = prompt.tools[..1].to_vec().into()),
        ("an item that was sent", |prompt| {
            prompt.items[0] = Arc::new(Item::ours(Role::User, Fragment::Task, "Another task."));
        }),
        ("an item that was answered", |prompt| {
            prompt.items[1] = Arc::new(Item::Reasoning { text: "Other.".into(), raw: None });
        }),
    ];
    for (what, change) in changes {
        let server = Server::start([call(1), Reply::message("done")]);
        let model = keeping(&server);
        let mut prompt = task();
        step(&*model, &mut prompt, 1);
        change(&mut prompt);
        ask_with(&*model, &prompt, &quick()).0.unwrap();
        server.assert_clean();
        let body = &server.requests()[1].json;
        assert!(body.get("previous_response_id").is_none(), "{what}");
        assert_eq!(body["input"].as_array().unwrap().len(), kinds(body).len());
        assert!(kinds(body).contains(&"function_call"), "{what}: {:?}", kinds(body));
    }
}

#[test]
fn a_retry_after_a_kept_response_sends_the_same_bytes() {
    let server = Server::start([
        call(1),
        Reply::message("part").drop_after(4).times(2),
        Reply::message("whole"),
    ]);
    let model = keeping(&server);
    let mut prompt = task();
    step(&*model, &mut prompt, 1);
    assert_eq!(text(&ask_with(&*model, &prompt, &quick()).0.unwrap()), "whole");
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests[1..].iter().all(|request| request.body == requests[1].body));
    assert_eq!(requests[1].json["previous_response_id"], "resp_0001");
}

#[test]
fn an_unpaired_history_is_not_sent_after_a_kept_response_either() {
    let server = Server::start([call(1), Reply::message("done")]);
    let model = keeping(&server);
    let mut prompt = task();
    step(&*model, &mut prompt, 1);
    prompt.items.push(Arc::new(result("call_9", "ok", false)));
    let error = ask_with(&*model, &prompt, &quick()).0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
    assert_eq!(server.request_count(), 1);
}
