//! Streams as servers really send them.

use super::*;

fn play(events: &[Value]) -> Result<Vec<ModelEvent>, ModelError> {
    let texts: Vec<String> = events.iter().map(Value::to_string).collect();
    play_texts(&texts)
}

/// Plays to the terminal event, or to the end of the stream.
fn play_texts(texts: &[String]) -> Result<Vec<ModelEvent>, ModelError> {
    let mut decoder = Decoder::new("host".into(), SendsDone::default());
    let mut queue = VecDeque::new();
    for text in texts {
        if decoder.event("", text, &mut queue)? == Flow::Done {
            return Ok(queue.into());
        }
    }
    decoder.end(&mut queue)?;
    Ok(queue.into())
}

fn calls(events: Vec<ModelEvent>) -> Vec<(String, String, String)> {
    let calls = events.into_iter().filter_map(|event| match event {
        ModelEvent::ItemDone(Item::ToolCall(call)) => {
            Some((call.call_id.0, call.name, call.payload.as_str().to_owned()))
        }
        _ => None,
    });
    calls.collect()
}

fn delta(delta: Value) -> Value {
    json!({ "id": "c", "model": "m", "choices": [{ "index": 0, "delta": delta }] })
}

fn tool(piece: Value) -> Value {
    delta(json!({ "tool_calls": [piece] }))
}

fn finish(reason: &str) -> Value {
    json!({ "choices": [{ "delta": {}, "finish_reason": reason }] })
}

fn named(list: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    list.iter().map(|(a, b, c)| ((*a).into(), (*b).into(), (*c).into())).collect()
}

#[test]
fn calls_are_put_together_however_a_server_numbers_them() {
    let call = |index: Value, id: Value, name: Value, arguments: &str| {
        tool(json!({
            "index": index, "id": id, "function": { "name": name, "arguments": arguments },
        }))
    };
    let none = Value::Null;
    type Case<'a> = (&'a str, Vec<Value>, &'a [(&'a str, &'a str, &'a str)]);
    let cases: [Case<'_>; 6] = [
        (
            "by index, interleaved",
            vec![
                call(json!(0), json!("a"), json!("f"), ""),
                call(json!(1), json!("b"), json!("g"), "{"),
                call(json!(0), none.clone(), none.clone(), "{}"),
                call(json!(1), none.clone(), none.clone(), "}"),
            ],
            &[("a", "f", "{}"), ("b", "g", "{}")],
        ),
        (
            "whole calls that all have index 0",
            vec![
                call(json!(0), json!("a"), json!("f"), "{\"x\":1}"),
                call(json!(0), json!("b"), json!("f"), "{\"x\":2}"),
            ],
            &[("a", "f", "{\"x\":1}"), ("b", "f", "{\"x\":2}")],
        ),
        (
            "whole calls without index and id",
            vec![
                call(none.clone(), none.clone(), json!("f"), "{\"x\":1}"),
                call(none.clone(), none.clone(), json!("f"), "{\"x\":2}"),
            ],
            &[("", "f", "{\"x\":1}"), ("", "f", "{\"x\":2}")],
        ),
        (
            "name and id repeated in each piece",
            vec![
                call(json!(0), json!("a"), json!("f"), "{\"x\""),
                call(json!(0), json!("a"), json!("f"), ":1}"),
            ],
            &[("a", "f", "{\"x\":1}")],
        ),
        (
            "pieces without index go to the last call",
            vec![
                call(json!(0), json!("a"), json!("f"), ""),
                call(none.clone(), none.clone(), none.clone(), "{}"),
            ],
            &[("a", "f", "{}")],
        ),
        (
            "pieces by id alone",
            vec![
                call(none.clone(), json!("a"), json!("f"), "{"),
                call(none.clone(), json!("b"), json!("g"), "{"),
                call(none.clone(), json!("a"), none.clone(), "}"),
                call(none.clone(), json!("b"), none, "}"),
            ],
            &[("a", "f", "{}"), ("b", "g", "{}")],
        ),
    ];
    for (what, mut events, want) in cases {
        events.push(finish("tool_calls"));
        assert_eq!(calls(play(&events).unwrap()), named(want), "{what}");
    }
}

#[test]
fn arguments_may_come_as_an_object_and_calls_in_the_old_form() {
    let events = [
        tool(json!({ "id": "a", "function": { "name": "f", "arguments": { "x": 1 } } })),
        finish("stop"),
    ];
    assert_eq!(calls(play(&events).unwrap()), named(&[("a", "f", "{\"x\":1}")]));
    let old = [
        delta(json!({ "function_call": { "name": "f", "arguments": "{" } })),
        delta(json!({ "function_call": { "arguments": "}" } })),
        finish("function_call"),
    ];
    assert_eq!(calls(play(&old).unwrap()), named(&[("", "f", "{}")]));
}

#[test]
fn a_servers_own_fields_of_a_call_are_kept() {
    let events = [
        tool(json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{}" },
                     "extra_content": { "signature": "s" } })),
        finish("tool_calls"),
    ];
    let found = play(&events).unwrap();
    let raw = found.iter().find_map(|event| match event {
        ModelEvent::ItemDone(Item::ToolCall(call)) => call.raw.clone(),
        _ => None,
    });
    assert_eq!(raw, Some(json!({ "chat": { "extra_content": { "signature": "s" } } })));
}

#[test]
fn reasoning_is_kept_under_its_own_field() {
    for name in ["reasoning_content", "reasoning"] {
        let events = [
            delta(json!({ name: "Let " })),
            delta(json!({ name: "me.", "content": "" })),
            delta(json!({ "content": "Hi" })),
            finish("stop"),
        ];
        let found = play(&events).unwrap();
        let reasoning = Item::Reasoning {
            text: "Let me.".into(),
            raw: Some(json!({ "chat": { name: "Let me." } })),
        };
        assert!(found.contains(&ModelEvent::ItemDone(reasoning)), "{found:?}");
    }
}

#[test]
fn the_end_may_be_said_in_many_ways() {
    let text = delta(json!({ "content": "Hi" })).to_string();
    let done = "[DONE]".to_owned();
    let stop = finish("stop").to_string();
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 3 } }).to_string();
    let good: [Vec<&String>; 5] = [
        vec![&text, &stop, &usage, &done],
        vec![&text, &stop, &done],
        vec![&text, &stop],
        vec![&text, &done],
        vec![&text, &usage, &stop, &done],
    ];
    for events in good {
        let texts: Vec<String> = events.iter().map(|text| (*text).clone()).collect();
        let found = play_texts(&texts).unwrap();
        assert!(matches!(found.last(), Some(ModelEvent::Completed { .. })), "{texts:?}");
    }
    for bad in [vec![text.clone()], vec![usage], vec![], vec![done]] {
        assert_eq!(play_texts(&bad).unwrap_err().kind, Kind::Cut, "{bad:?}");
    }
}

#[test]
fn errors_in_a_good_stream_are_errors() {
    let cases = [
        (json!({ "error": { "message": "x", "code": 429 } }), Kind::RateLimited),
        (json!({ "error": { "message": "x", "code": 503 } }), Kind::Overloaded),
        (json!({ "error": { "message": "x", "type": "server_error" } }), Kind::Server),
        (json!({ "error": "boom" }), Kind::Server),
        (json!({ "error": { "code": "context_length_exceeded" } }), Kind::ContextExceeded),
        (finish("length"), Kind::Incomplete("max_output_tokens".into())),
        (finish("content_filter"), Kind::ContentFiltered),
        (finish("error"), Kind::Server),
    ];
    for (event, want) in cases {
        let error = play(&[delta(json!({ "content": "Hi" })), event.clone()]).unwrap_err();
        assert_eq!(error.kind, want, "{event}");
    }
    let mut decoder = Decoder::new("host".into(), SendsDone::default());
    let error = decoder.event("", "{\"choices\": [", &mut VecDeque::new()).unwrap_err();
    assert_eq!(error.kind, Kind::Protocol);
}

#[test]
fn content_may_be_a_list_of_parts() {
    let parts = json!([
        { "type": "thinking", "thinking": [{ "type": "text", "text": "no" }] },
        { "type": "text", "text": "Hi" },
    ]);
    let found = play(&[delta(json!({ "content": parts })), finish("stop")]).unwrap();
    assert!(found.contains(&ModelEvent::TextDelta("Hi".into())));
}

#[test]
fn a_whole_document_is_an_answer_too() {
    let read = |body: Value| {
        let mut queue = VecDeque::new();
        Decoder::new("host".into(), SendsDone::default())
            .whole(&body.to_string(), &mut queue)
            .map(|()| queue)
    };
    let body = json!({ "id": "c", "model": "m", "usage": { "prompt_tokens": 3 }, "choices": [{
        "message": { "role": "assistant", "content": "Hi", "tool_calls": null },
        "finish_reason": "stop" }] });
    assert!(matches!(read(body).unwrap().back(), Some(ModelEvent::Completed { .. })));
    let error = read(json!({ "error": { "message": "no", "code": "invalid_api_key" } }));
    assert_eq!(error.unwrap_err().kind, Kind::Auth);
    assert_eq!(read(json!({ "hello": 1 })).unwrap_err().kind, Kind::Protocol);
}

#[test]
fn a_server_that_sends_the_end_marker_is_held_to_it() {
    let sends_done = SendsDone::default();
    let read = |events: &[String]| {
        let mut decoder = Decoder::new("host".into(), sends_done.clone());
        let mut queue = VecDeque::new();
        for event in events {
            if decoder.event("", event, &mut queue)? == Flow::Done {
                return Ok(());
            }
        }
        decoder.end(&mut queue)
    };
    let text = delta(json!({ "content": "Hi" })).to_string();
    let stop = finish("stop").to_string();
    let done = "[DONE]".to_owned();
    let short = [text.clone(), stop.clone()];
    assert_eq!(read(&short), Ok(()), "nothing is known of the server yet");
    assert_eq!(read(&[text, stop, done]), Ok(()));
    assert_eq!(read(&short).unwrap_err().kind, Kind::Cut);
}
