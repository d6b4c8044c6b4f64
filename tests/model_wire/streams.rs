//! Streams that are cut, late, mixed, or unusual, and still mean the same.

use crate::model_server::{Call, Edges, Reply, Server, Usage};
use crate::support::*;
use serde_json::json;
use std::time::{Duration, Instant};
use turnkey::model::ModelErrorKind;
use turnkey::protocol::{Item, ToolPayload};

#[test]
fn a_message_comes_whole_and_in_pieces() {
    for wire in WIRES {
        let usage = Usage { input: 100, cached: 60, output: 10, reasoning: 0 };
        let reply = Reply::message("All tests pass.").with_reasoning("Let me see.");
        let server = Server::start([reply.with_usage(usage)]);
        let (answer, notes) = ask(wire, &server);
        let response = answer.unwrap();
        assert_eq!(text(&response), "All tests pass.");
        assert_eq!(notes.text, "All tests pass.");
        assert_eq!(notes.reasoning, "Let me see.");
        let usage = response.usage;
        assert_eq!((usage.input, usage.cached, usage.output), (100, 60, 10), "{wire}");
        assert_eq!(response.response_id.as_deref(), Some("resp_0001"));
        assert_eq!(response.model_as_served.as_deref(), wire.split('/').nth(1));
        assert!(
            matches!(&response.items[0], Item::Reasoning { text, .. } if text == "Let me see.")
        );
        server.assert_clean();
    }
}

#[test]
fn d12_a_character_cut_anywhere_stays_whole() {
    let text_sent = "你好🙂é";
    for wire in WIRES {
        for size in [1, 2, 3, 5, 7, 64] {
            let server = Server::start([Reply::message(text_sent).edges(Edges::Bytes(size))]);
            let (answer, notes) = ask(wire, &server);
            assert_eq!(text(&answer.unwrap()), text_sent, "{wire}, writes of {size}");
            assert_eq!(notes.text, text_sent, "{wire}, writes of {size}");
        }
    }
}

#[test]
fn d13_line_endings_mean_the_same() {
    let call = || Call::json("call_1", "exec_command", json!({ "cmd": "true" }));
    for wire in WIRES {
        for newline in ["\n", "\r\n", "\r"] {
            for edges in [Edges::Event, Edges::Whole, Edges::Bytes(1)] {
                let reply = Reply::calls([call()]).newline(newline).edges(edges);
                let server = Server::start([reply]);
                let response = ask(wire, &server).0.unwrap();
                assert_eq!(calls(&response).len(), 1, "{wire} {newline:?} {edges:?}");
            }
        }
    }
}

#[test]
fn d14_comments_and_unknown_fields_are_skipped() {
    for wire in WIRES {
        let server = Server::start([Reply::message("done").comments()]);
        assert_eq!(text(&ask(wire, &server).0.unwrap()), "done");
    }
}

#[test]
fn d15_any_byte_resets_the_idle_timer() {
    for wire in WIRES {
        let reply = Reply::message("done").keep_alive(Duration::from_millis(100), 25);
        let server = Server::start([reply]);
        let mut config = config(&server.base_url());
        config.endpoint.timeouts.idle = Duration::from_secs(2);
        let model = turnkey::model::open(wire, config).unwrap();
        let (answer, notes) = ask_with(&*model, &task(), &quick());
        assert_eq!(text(&answer.unwrap()), "done");
        assert!(notes.retries.is_empty());
        assert_eq!(server.request_count(), 1);
    }
}

/// The total limit bounds what keep-alives could stretch for ever.
#[test]
fn d15_the_total_limit_is_another_one() {
    let reply = Reply::message("late").keep_alive(Duration::from_millis(50), 1000);
    let server = Server::start([reply.forever()]);
    let mut config = config(&server.base_url());
    config.endpoint.timeouts.total = Some(Duration::from_millis(300));
    let model = turnkey::model::open(OPENAI, config).unwrap();
    let retry = turnkey::model::RetryPolicy { attempts: 1, ..quick() };
    let error = ask_with(&*model, &task(), &retry).0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Timeout(turnkey::model::TimeoutKind::Total));
    assert!(error.message.contains("within 300ms"), "{error}");
}

#[test]
fn d16_a_terminal_event_ends_the_response_though_the_socket_stays_open() {
    let held = Duration::from_secs(60);
    for wire in WIRES {
        let server = Server::start([
            Reply::failed("invalid_request_error", "not like this").hold_open(held),
            Reply::message("done").hold_open(held),
        ]);
        let start = Instant::now();
        let error = ask(wire, &server).0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::InvalidRequest, "{wire}");
        assert_eq!(error.code.as_deref(), Some("invalid_request_error"));
        assert!(error.message.contains("not like this"), "{}", error.message);
        assert_eq!(text(&ask(wire, &server).0.unwrap()), "done");
        assert!(start.elapsed() < Duration::from_secs(10), "{wire} {:?}", start.elapsed());
    }
}

#[test]
fn d17_a_clean_end_before_completed_is_retried_and_counted() {
    for wire in WIRES {
        let server =
            Server::start([Reply::message("part").drop_after(4).times(2), Reply::message("whole")]);
        let (answer, notes) = ask(wire, &server);
        let response = answer.unwrap();
        assert_eq!(text(&response), "whole");
        assert_eq!(response.attempts, 3);
        let causes: Vec<&str> = notes.retries.iter().map(|(_, _, cause)| cause.as_str()).collect();
        assert_eq!(causes, ["model.cut", "model.cut"], "{wire}");
        assert!(response.booked.input > 0, "cut attempts stay booked");
        let requests = server.requests();
        assert!(requests.iter().all(|request| request.body == requests[0].body), "same bytes");

        let server = Server::start([Reply::message("part").drop_after(4).forever()]);
        let error = ask(wire, &server).0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Cut);
        assert_eq!((server.request_count(), error.attempts), (5, 5));
    }
}

/// The rule here: nothing of a response is handed on before its terminal event, so a call that came
/// complete in a cut stream never ran, whatever id it comes with on the retry.
#[test]
fn d18_a_call_from_a_cut_stream_is_never_handed_on() {
    let call = |id: &str| Call::json(id, "exec_command", json!({ "cmd": "printf x >> log" }));
    for wire in WIRES {
        for id in ["call_1", "call_2"] {
            let server = Server::start([
                Reply::calls([call("call_1")]).cut_before_end(),
                Reply::calls([call(id)]),
            ]);
            let response = ask(wire, &server).0.unwrap();
            assert_eq!(calls(&response).len(), 1);
            assert_eq!(calls(&response)[0].0, id);
            assert_eq!(server.request_count(), 2, "{wire}");
            server.assert_clean();
        }
    }
}

#[test]
fn d21_incomplete_is_its_own_end_and_its_half_call_is_not_seen() {
    let half = || Call::raw("call_1", "exec_command", "{\"cmd\": \"rm -rf bui");
    for wire in WIRES {
        let server = Server::start([Reply::incomplete("max_output_tokens").with_calls([half()])]);
        let error = ask(wire, &server).0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Incomplete("max_output_tokens".into()), "{wire}");
        let booked = error.usage;
        // On the chat wire the counts come after the reason, and are still waited for.
        assert_eq!((booked.input, booked.output), (100, 10), "{wire}");
        assert_eq!(server.request_count(), 1);
    }
    for wire in [OPENAI, CHAT] {
        let server = Server::start([Reply::incomplete("content_filter").with_text("Once")]);
        assert_eq!(ask(wire, &server).0.unwrap_err().kind, ModelErrorKind::ContentFiltered);
    }
}

#[test]
fn d22_an_empty_completion_is_retried_then_told() {
    for wire in WIRES {
        let server = Server::start([Reply::empty().forever()]);
        let error = ask(wire, &server).0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Empty);
        assert_eq!(error.reason(), "model.empty");
        assert_eq!(server.request_count(), 5);
        assert_eq!(error.usage.input, 500, "every attempt is booked");

        let server = Server::start([Reply::empty(), Reply::message("done")]);
        assert_eq!(text(&ask(wire, &server).0.unwrap()), "done");
    }
}

/// On the wire every text is handed on as it stands; parsing is the tools' business. And whatever
/// it was, it can go back: servers that parse arguments must not refuse the next request.
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
    for wire in WIRES {
        for arguments in texts {
            let reply = Reply::calls([Call::raw("call_1", "exec_command", arguments)]);
            let server = Server::start([reply, Reply::message("done")]);
            let model = model_at(wire, &server);
            let mut prompt = task();
            let response = ask_with(&*model, &prompt, &quick()).0.unwrap();
            let found = calls(&response);
            assert_eq!(found.len(), 1);
            // The Messages wire says "no arguments" as an empty object.
            let wanted = if wire == ANTHROPIC && arguments.is_empty() { "{}" } else { arguments };
            assert!(found[0].2 == wanted, "{wire} {:.40}", found[0].2);
            prompt.items.extend(response.items.into_iter().map(std::sync::Arc::new));
            prompt.items.push(std::sync::Arc::new(result("call_1", "bad arguments", false)));
            assert_eq!(text(&ask_with(&*model, &prompt, &quick()).0.unwrap()), "done");
            server.assert_clean();
        }
    }
}

#[test]
fn d109_two_calls_with_one_id_get_an_id_each() {
    for wire in [OPENAI, ANTHROPIC] {
        let server = Server::start([Reply::calls([
            Call::raw("call_1", "exec_command", "{\"cmd\":\"a\"}"),
            Call::raw("call_1", "exec_command", "{\"cmd\":\"b\"}"),
            Call::raw("call_1", "exec_command", "{\"cmd\":\"a\"}"),
        ])]);
        let calls = calls(&ask(wire, &server).0.unwrap());
        assert_eq!(calls.len(), 2, "the same call twice is one call: {calls:?}");
        assert_ne!(calls[0].0, calls[1].0);
    }
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
    let added = event("response.output_item.added", json!({ "output_index": 0, "item": added }));
    let completed = |output: serde_json::Value| {
        let response = json!({ "id": "r", "status": "completed", "output": output });
        event("response.completed", json!({ "response": response }))
    };
    let delta = event("response.function_call_arguments.delta", delta);
    let done = json!({ "output_index": 0, "item": item.clone() });
    let done = event("response.output_item.done", done);
    let cases = [
        // Done differs from its deltas.
        (vec![added.clone(), delta.clone(), done.clone(), completed(json!([]))], "done"),
        // Done without added and deltas.
        (vec![done, completed(json!([item]))], "done"),
        // No done event, but the item in the terminal event.
        (vec![added.clone(), delta.clone(), completed(json!([item]))], "done"),
        // Nothing but the terminal event.
        (vec![completed(json!([item]))], "done"),
        // Neither: what the deltas add up to.
        (vec![added, delta, completed(json!([]))], "delta"),
    ];
    for (events, want) in cases {
        let server = Server::start([Reply::events(events)]);
        let calls = calls(&ask(OPENAI, &server).0.unwrap());
        assert_eq!(calls.len(), 1, "{want}");
        assert_eq!(calls[0].2, format!("{{\"cmd\":\"{want}\"}}"));
    }
}

#[test]
fn freeform_calls_carry_text() {
    let patch = "*** Begin Patch\n*** End Patch\n";
    let server = Server::start([Reply::calls([Call::text("call_1", "apply_patch", patch)])]);
    let response = ask(OPENAI, &server).0.unwrap();
    let Item::ToolCall(call) = &response.items[0] else { panic!("{:?}", response.items) };
    assert_eq!(call.payload, ToolPayload::Text(patch.into()));
}

#[test]
fn whole_calls_without_deltas_are_calls_too() {
    for wire in WIRES {
        let two =
            ["call_1", "call_2"].map(|id| Call::json(id, "exec_command", json!({ "cmd": id })));
        let server = Server::start([Reply::calls(two).without_deltas().without_usage()]);
        let found = calls(&ask(wire, &server).0.unwrap());
        assert_eq!(found.len(), 2, "{wire}");
        assert_eq!(found[1].2, "{\"cmd\":\"call_2\"}");
    }
}

#[test]
fn a_paused_message_is_sent_back_to_go_on() {
    let server =
        Server::start([Reply::incomplete("pause_turn").with_text("One, "), Reply::message("two.")]);
    let response = ask(ANTHROPIC, &server).0.unwrap();
    assert_eq!(text(&response), "One, two.");
    assert_eq!(response.booked.input, 100);
    let requests = server.requests();
    let last = requests[1].json["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["role"], "assistant");
    assert_eq!(last["content"][0]["text"], "One, ");
    server.assert_clean();
}

#[test]
fn a_connection_serves_the_next_request_too() {
    for wire in WIRES {
        let server = Server::start([Reply::message("a"), Reply::message("b"), Reply::message("c")]);
        let model = model_at(wire, &server);
        run(async {
            for _ in 0..3 {
                let cancel = tokio_util::sync::CancellationToken::new();
                let mut notes = Notes::default();
                let answer =
                    turnkey::model::sample(&*model, &task(), &quick(), &cancel, &mut notes).await;
                answer.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        assert_eq!(server.connections(), 1, "{wire}");
    }
}

/// A gateway that compresses what nobody asked it to compress is read all the same.
#[test]
fn a_compressed_answer_is_read() {
    use std::io::Write;
    let item = json!({ "type": "message", "id": "m",
                       "content": [{ "type": "output_text", "text": "done" }] });
    let response = json!({ "id": "r", "output": [item] });
    let event = json!({ "type": "response.completed", "response": response });
    let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zip.write_all(format!("data: {event}\n\n").as_bytes()).unwrap();
    let reply = Reply::status(200, zip.finish().unwrap())
        .header("content-type", "text/event-stream")
        .header("content-encoding", "gzip");
    let server = Server::start([reply]);
    assert_eq!(text(&ask(OPENAI, &server).0.unwrap()), "done");
}
