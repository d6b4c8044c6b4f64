//! Streams as servers really send them.

use super::*;

fn play(events: &[Value]) -> Result<Vec<ModelEvent>, ModelError> {
    let mut decoder = Decoder::new("host".into());
    let mut queue = VecDeque::new();
    for event in events {
        if decoder.event("", &event.to_string(), &mut queue)? == Flow::Done {
            return Ok(queue.into());
        }
    }
    decoder.end(&mut queue)?;
    Ok(queue.into())
}

fn start() -> Value {
    json!({ "type": "message_start", "message": { "id": "m", "model": "c", "content": [],
        "usage": { "input_tokens": 10, "cache_read_input_tokens": 70,
                   "cache_creation_input_tokens": 20, "output_tokens": 1 } } })
}

fn open(index: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn close(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn end(reason: &str) -> Value {
    json!({ "type": "message_delta", "delta": { "stop_reason": reason },
            "usage": { "output_tokens": 9 } })
}

fn stop() -> Value {
    json!({ "type": "message_stop" })
}

fn items_of(events: &[ModelEvent]) -> Vec<Item> {
    let items = events.iter().filter_map(|event| match event {
        ModelEvent::ItemDone(item) => Some(item.clone()),
        _ => None,
    });
    items.collect()
}

#[test]
fn thinking_keeps_its_signature_and_usage_counts_the_cache() {
    let events = [
        start(),
        open(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "Hm" })),
        delta(0, json!({ "type": "signature_delta", "signature": "sig" })),
        close(0),
        open(1, json!({ "type": "redacted_thinking", "data": "xx" })),
        close(1),
        open(2, json!({ "type": "tool_use", "id": "t", "name": "f", "input": {} })),
        delta(2, json!({ "type": "input_json_delta", "partial_json": "{\"a\":" })),
        delta(2, json!({ "type": "input_json_delta", "partial_json": "1}" })),
        close(2),
        end("tool_use"),
        stop(),
    ];
    let found = play(&events).unwrap();
    let items = items_of(&found);
    assert_eq!(
        items[0],
        Item::Reasoning {
            text: "Hm".into(),
            raw: Some(json!({ "anthropic": {
                "type": "thinking", "thinking": "Hm", "signature": "sig" } })),
        }
    );
    assert_eq!(
        items[1],
        Item::Reasoning {
            text: String::new(),
            raw: Some(json!({ "anthropic": { "type": "redacted_thinking", "data": "xx" } })),
        }
    );
    let Item::ToolCall(call) = &items[2] else { panic!() };
    assert_eq!(call.payload.as_str(), "{\"a\":1}");
    let usage = Usage { input: 100, cached: 70, output: 9, reasoning: 0 };
    assert!(found.contains(&ModelEvent::Usage(usage)), "{found:?}");
}

#[test]
fn neighbouring_texts_are_one_message_and_empty_ones_none() {
    let events = [
        start(),
        open(0, json!({ "type": "text", "text": "" })),
        delta(0, json!({ "type": "text_delta", "text": "One " })),
        close(0),
        open(1, json!({ "type": "text", "text": "two" })),
        close(1),
        open(2, json!({ "type": "text", "text": "" })),
        close(2),
        open(3, json!({ "type": "future_block", "x": 1 })),
        close(3),
        end("end_turn"),
        stop(),
    ];
    let items = items_of(&play(&events).unwrap());
    assert_eq!(items.len(), 2);
    assert!(matches!(&items[0], Item::Message { text, .. } if text == "One two"));
    let raw = json!({ "anthropic": { "type": "future_block", "x": 1 } });
    assert_eq!(items[1], Item::Unknown { raw });
}

#[test]
fn each_end_is_its_own() {
    let text = |reason: &str| {
        vec![
            start(),
            open(0, json!({ "type": "text", "text": "Hi" })),
            close(0),
            end(reason),
            stop(),
        ]
    };
    for reason in ["end_turn", "stop_sequence", "tool_use", "future_reason"] {
        let found = play(&text(reason)).unwrap();
        assert!(matches!(found.last(), Some(ModelEvent::Completed { stop: Stop::End, .. })));
    }
    let found = play(&text("pause_turn")).unwrap();
    assert!(matches!(found.last(), Some(ModelEvent::Completed { stop: Stop::Paused, .. })));
    let cases = [
        ("max_tokens", Kind::Incomplete("max_output_tokens".into())),
        ("refusal", Kind::Refused),
        ("model_context_window_exceeded", Kind::ContextExceeded),
    ];
    for (reason, want) in cases {
        let error = play(&text(reason)).unwrap_err();
        assert_eq!(error.kind, want);
        assert_eq!((error.usage.input, error.usage.output), (100, 9));
    }
}

#[test]
fn a_lost_last_event_is_forgiven_and_a_lost_block_is_not() {
    let whole =
        [start(), open(0, json!({ "type": "text", "text": "Hi" })), close(0), end("end_turn")];
    assert!(matches!(play(&whole).unwrap().last(), Some(ModelEvent::Completed { .. })));
    let open_block = [start(), open(0, json!({ "type": "text", "text": "Hi" })), end("end_turn")];
    assert_eq!(play(&open_block).unwrap_err().kind, Kind::Cut);
    let no_reason = [start(), open(0, json!({ "type": "text", "text": "Hi" })), close(0)];
    assert_eq!(play(&no_reason).unwrap_err().kind, Kind::Cut);
}

#[test]
fn errors_in_the_stream_are_typed() {
    let cases = [
        ("overloaded_error", Kind::Overloaded),
        ("rate_limit_error", Kind::RateLimited),
        ("api_error", Kind::Server),
        ("invalid_request_error", Kind::InvalidRequest),
        ("authentication_error", Kind::Auth),
        ("billing_error", Kind::Quota),
        ("new_error", Kind::Server),
    ];
    for (name, want) in cases {
        let event = json!({ "type": "error", "error": { "type": name, "message": "x" } });
        let error = play(&[start(), event]).unwrap_err();
        assert_eq!(error.kind, want, "{name}");
        assert_eq!(error.usage.input, 100, "booked");
    }
}

#[test]
fn a_whole_document_is_a_message_too() {
    let read = |body: Value| {
        let mut queue = VecDeque::new();
        Decoder::new("host".into()).whole(&body.to_string(), &mut queue).map(|()| queue)
    };
    let body = json!({ "id": "m", "model": "c", "stop_reason": "tool_use", "content": [
        { "type": "text", "text": "Hi" },
        { "type": "tool_use", "id": "t", "name": "f", "input": { "a": 1 } }] });
    let items = items_of(&Vec::from(read(body).unwrap()));
    let Item::ToolCall(call) = &items[1] else { panic!() };
    assert_eq!(call.payload.as_str(), "{\"a\":1}");
    let error = json!({ "type": "error", "error": { "type": "permission_error", "message": "x" } });
    assert_eq!(read(error).unwrap_err().kind, Kind::Auth);
    assert_eq!(read(json!([1])).unwrap_err().kind, Kind::Protocol);
}
