//! Streams that are cut, late, mixed, or unusual, and still mean the same.

use crate::model_server::{Call, Edges, Reply, Server};
use crate::support::*;
use serde_json::json;
use std::time::{Duration, Instant};
use turnkey::model::ModelErrorKind;
use turnkey::protocol::{Item, ToolPayload};

#[test]
fn a_message_comes_whole_and_in_pieces() {
    let server = Server::start([Reply::message("All tests pass.").with_reasoning("Let me see.")]);
    let (answer, notes) = ask(&server);
    let response = answer.unwrap();
    assert_eq!(text(&response), "All tests pass.");
    assert_eq!(notes.text, "All tests pass.");
    assert_eq!(notes.reasoning, "Let me see.");
    assert_eq!((response.usage.input, response.usage.output), (100, 10));
    assert_eq!(response.response_id.as_deref(), Some("resp_0001"));
    assert_eq!(response.model_as_served.as_deref(), Some("gpt-5-test"));
    assert!(matches!(&response.items[0], Item::Reasoning { text, .. } if text == "Let me see."));
    server.assert_clean();
}

#[test]
fn d12_a_character_cut_anywhere_stays_whole() {
    let text_sent = "你好🙂é";
    for size in [1, 2, 3, 5, 7, 64] {
        let server = Server::start([Reply::message(text_sent).edges(Edges::Bytes(size))]);
        let (answer, notes) = ask(&server);
        assert_eq!(text(&answer.unwrap()), text_sent, "writes of {size}");
        assert_eq!(notes.text, text_sent, "writes of {size}");
    }
}

#[test]
fn d13_line_endings_mean_the_same() {
    let call = || Call::json("call_1", "exec_command", json!({ "cmd": "true" }));
    for newline in ["\n", "\r\n", "\r"] {
        for edges in [Edges::Event, Edges::Whole, Edges::Bytes(1)] {
            let reply = Reply::calls([call()]).newline(newline).edges(edges);
            let server = Server::start([reply]);
            let response = ask(&server).0.unwrap();
            assert_eq!(calls(&response).len(), 1, "{newline:?} {edges:?}");
        }
    }
}

#[test]
fn d14_comments_and_unknown_fields_are_skipped() {
    let server = Server::start([Reply::message("done").comments()]);
    assert_eq!(text(&ask(&server).0.unwrap()), "done");
}

#[test]
fn d15_any_byte_resets_the_idle_timer() {
    let reply = Reply::message("done").keep_alive(Duration::from_millis(150), 6);
    let server = Server::start([reply]);
    let mut config = config(&server.base_url());
    config.endpoint.timeouts.idle = Duration::from_millis(400);
    let model = turnkey::model::open("openai/gpt-5-test", config).unwrap();
    let (answer, notes) = ask_with(&*model, &task(), &quick());
    assert_eq!(text(&answer.unwrap()), "done");
    assert!(notes.retries.is_empty());
    assert_eq!(server.request_count(), 1);
}

#[test]
fn d16_a_terminal_event_ends_the_response_though_the_socket_stays_open() {
    let held = Duration::from_secs(60);
    let server = Server::start([
        Reply::failed("invalid_prompt", "not like this").hold_open(held),
        Reply::message("done").hold_open(held),
    ]);
    let start = Instant::now();
    let error = ask(&server).0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
    assert_eq!(error.code.as_deref(), Some("invalid_prompt"));
    assert!(error.message.contains("not like this"), "{}", error.message);
    assert_eq!(text(&ask(&server).0.unwrap()), "done");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn d17_a_clean_end_before_completed_is_retried_and_counted() {
    let server =
        Server::start([Reply::message("part").drop_after(4).times(2), Reply::message("whole")]);
    let (answer, notes) = ask(&server);
    let response = answer.unwrap();
    assert_eq!(text(&response), "whole");
    assert_eq!(response.attempts, 3);
    let causes: Vec<&str> = notes.retries.iter().map(|(_, _, cause)| cause.as_str()).collect();
    assert_eq!(causes, ["model.cut", "model.cut"]);
    assert!(response.booked.input > 0, "cut attempts stay booked");
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.body == requests[0].body), "the same bytes");

    let server = Server::start([Reply::message("part").drop_after(4).forever()]);
    let error = ask(&server).0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Cut);
    assert_eq!((server.request_count(), error.attempts), (5, 5));
}

/// The rule here: nothing of a response is handed on before its terminal event, so a call that came
/// complete in a cut stream never ran, whatever id it comes with on the retry.
#[test]
fn d18_a_call_from_a_cut_stream_is_never_handed_on() {
    let call = |id: &str| Call::json(id, "exec_command", json!({ "cmd": "printf x >> log" }));
    for id in ["call_1", "call_2"] {
        let server = Server::start([
            Reply::calls([call("call_1")]).reset_after(8),
            Reply::calls([call(id)]),
        ]);
        let response = ask(&server).0.unwrap();
        assert_eq!(calls(&response).len(), 1);
        assert_eq!(calls(&response)[0].0, id);
        assert_eq!(server.request_count(), 2);
        server.assert_clean();
    }
}

#[test]
fn d21_incomplete_is_its_own_end_and_its_half_call_is_not_seen() {
    let half = Call::raw("call_1", "exec_command", "{\"cmd\": \"rm -rf bui");
    let server = Server::start([Reply::incomplete("max_output_tokens").with_calls([half])]);
    let error = ask(&server).0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Incomplete("max_output_tokens".into()));
    assert_eq!((error.usage.input, error.usage.output), (100, 10), "booked");
    assert_eq!(server.request_count(), 1);

    let server = Server::start([Reply::incomplete("content_filter").with_text("Once")]);
    assert_eq!(ask(&server).0.unwrap_err().kind, ModelErrorKind::ContentFiltered);
}

#[test]
fn d22_an_empty_completion_is_retried_then_told() {
    let server = Server::start([Reply::empty().forever()]);
    let error = ask(&server).0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Empty);
    assert_eq!(error.reason(), "model.empty");
    assert_eq!(server.request_count(), 5);
    assert_eq!(error.usage.input, 500, "every attempt is booked");

    let server = Server::start([Reply::empty(), Reply::message("done")]);
    assert_eq!(text(&ask(&server).0.unwrap()), "done");
}

/// On the wire every text is handed on as it stands; parsing is the tools' business.
#[test]
fn d109_arguments_arrive_exactly_as_the_model_wrote_them() {
    let big = "x".repeat(10 * 1024 * 1024);
    let texts = [
        "{",
        "",
        "null",
        "[]",
        "{\"command\":\"ls\"}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":\"\\u0000\"}",
        big.as_str(),
    ];
    for arguments in texts {
        let reply = Reply::calls([Call::raw("call_1", "exec_command", arguments)]);
        let server = Server::start([reply]);
        let response = ask(&server).0.unwrap();
        let calls = calls(&response);
        assert_eq!(calls.len(), 1);
        assert!(calls[0].2 == arguments, "{:.40}", calls[0].2);
    }
}

#[test]
fn d109_two_calls_with_one_id_get_an_id_each() {
    let server = Server::start([Reply::calls([
        Call::raw("call_1", "exec_command", "{\"cmd\":\"a\"}"),
        Call::raw("call_1", "exec_command", "{\"cmd\":\"b\"}"),
        Call::raw("call_1", "exec_command", "{\"cmd\":\"a\"}"),
    ])]);
    let calls = calls(&ask(&server).0.unwrap());
    assert_eq!(calls.len(), 2, "the same call twice is one call: {calls:?}");
    assert_ne!(calls[0].0, calls[1].0);
}

#[test]
fn d109_the_done_item_is_the_truth_where_deltas_differ() {
    let item = json!({
        "id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1",
        "name": "exec_command", "arguments": "{\"cmd\":\"done\"}",
    });
    let mut added = item.clone();
    added["arguments"] = json!("");
    let event = |name: &'static str, data: serde_json::Value| {
        let mut data = data;
        data["type"] = json!(name);
        (name, data.to_string())
    };
    let delta = json!({ "item_id": "fc_1", "output_index": 0, "delta": "{\"cmd\":\"delta\"}" });
    let added_event =
        event("response.output_item.added", json!({ "output_index": 0, "item": added }));
    let completed = |output: serde_json::Value| {
        let response = json!({ "id": "r", "status": "completed", "output": output });
        event("response.completed", json!({ "response": response }))
    };
    let delta_event = event("response.function_call_arguments.delta", delta);
    let done_event =
        event("response.output_item.done", json!({ "output_index": 0, "item": item.clone() }));
    let cases = [
        // Done differs from its deltas.
        (
            vec![
                added_event.clone(),
                delta_event.clone(),
                done_event.clone(),
                completed(json!([])),
            ],
            "done",
        ),
        // Done without added and deltas.
        (vec![done_event.clone(), completed(json!([item]))], "done"),
        // No done event, but the item in the terminal event.
        (vec![added_event.clone(), delta_event.clone(), completed(json!([item]))], "done"),
        // Nothing but the terminal event.
        (vec![completed(json!([item]))], "done"),
        // Neither: what the deltas add up to.
        (vec![added_event, delta_event, completed(json!([]))], "delta"),
    ];
    for (events, want) in cases {
        let server = Server::start([Reply::events(events)]);
        let calls = calls(&ask(&server).0.unwrap());
        assert_eq!(calls.len(), 1, "{want}");
        assert_eq!(calls[0].2, format!("{{\"cmd\":\"{want}\"}}"));
    }
}

#[test]
fn freeform_calls_carry_text() {
    let patch = "*** Begin Patch\n*** End Patch\n";
    let server = Server::start([Reply::calls([Call::text("call_1", "apply_patch", patch)])]);
    let response = ask(&server).0.unwrap();
    let Item::ToolCall(call) = &response.items[0] else { panic!("{:?}", response.items) };
    assert_eq!(call.payload, ToolPayload::Text(patch.into()));
}

#[test]
fn a_connection_serves_the_next_request_too() {
    let server = Server::start([Reply::message("a"), Reply::message("b"), Reply::message("c")]);
    let model = model_at(&server);
    run(async {
        for _ in 0..3 {
            let cancel = tokio_util::sync::CancellationToken::new();
            let mut notes = Notes::default();
            turnkey::model::sample(&*model, &task(), &quick(), &cancel, &mut notes).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert_eq!(server.connections(), 1);
}
