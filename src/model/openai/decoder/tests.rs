//! Streams as servers really send them, event by event.

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

fn items(events: &[Value]) -> Vec<Item> {
    let events = play(events).unwrap();
    let items = events.into_iter().filter_map(|event| match event {
        ModelEvent::ItemDone(item) => Some(item),
        _ => None,
    });
    items.collect()
}

fn message(id: &str, text: &str) -> Value {
    json!({ "type": "message", "id": id, "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text }] })
}

fn call(id: &str) -> Value {
    json!({ "type": "function_call", "id": id, "call_id": id, "name": "t", "arguments": "{}" })
}

fn done(index: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": index, "item": item })
}

fn completed(output: &[Value]) -> Value {
    json!({ "type": "response.completed", "response": {
        "id": "r", "model": "m", "status": "completed", "output": output } })
}

#[test]
fn items_closed_late_still_come_in_order() {
    let (message, call) = (message("m", "first"), call("c"));
    let found = items(&[done(1, &call), done(0, &message), completed(&[])]);
    assert!(matches!(&found[0], Item::Message { text, .. } if text == "first"));
    assert!(matches!(&found[1], Item::ToolCall(_)));
}

#[test]
fn an_index_given_twice_loses_nothing() {
    let found = items(&[done(0, &call("a")), done(0, &call("b")), completed(&[])]);
    assert_eq!(found.len(), 2);
}

#[test]
fn the_terminal_event_adds_what_was_not_done() {
    let (a, b) = (call("a"), message("b", "text"));
    let found = items(&[done(0, &a), completed(&[a.clone(), b])]);
    assert_eq!(found.len(), 2);
    assert!(matches!(&found[1], Item::Message { .. }));
}

#[test]
fn text_of_deltas_alone_is_a_message() {
    let delta = json!({ "type": "response.output_text.delta", "delta": "hi" });
    let found = items(&[delta, completed(&[])]);
    assert!(matches!(&found[0], Item::Message { text, .. } if text == "hi"), "{found:?}");
}

#[test]
fn an_unknown_item_is_kept_as_it_came() {
    let raw = json!({ "type": "future", "x": [1, { "y": null }] });
    let found = items(&[done(0, &raw), completed(&[])]);
    assert_eq!(found, [Item::Unknown { raw: json!({ "responses": raw }) }]);
}

#[test]
fn failures_inside_the_stream_are_typed() {
    let failed = |error: Value| {
        json!({ "type": "response.failed", "response": { "status": "failed", "error": error,
                "usage": { "input_tokens": 7, "output_tokens": 1 } } })
    };
    let cases = [
        (failed(json!({ "code": "server_error", "message": "x" })), Kind::Server),
        (failed(json!({ "code": "rate_limit_exceeded", "message": "x" })), Kind::RateLimited),
        (failed(json!({ "code": "insufficient_quota", "message": "x" })), Kind::Quota),
        (failed(json!({ "code": "context_length_exceeded" })), Kind::ContextExceeded),
        (failed(Value::Null), Kind::Server),
        (
            json!({ "type": "error", "code": "server_is_overloaded", "message": "x" }),
            Kind::Overloaded,
        ),
        (
            json!({ "type": "error", "error": { "type": "invalid_request_error" } }),
            Kind::InvalidRequest,
        ),
        (json!({ "error": { "message": "boom", "code": 429 } }), Kind::RateLimited),
        (
            json!({ "type": "response.incomplete", "response": {
            "incomplete_details": { "reason": "content_filter" } } }),
            Kind::ContentFiltered,
        ),
        (
            json!({ "type": "response.incomplete", "response": {} }),
            Kind::Incomplete("unknown".into()),
        ),
        (
            json!({ "type": "response.completed", "response": { "status": "incomplete",
            "incomplete_details": { "reason": "max_output_tokens" } } }),
            Kind::Incomplete("max_output_tokens".into()),
        ),
    ];
    for (event, want) in cases {
        assert_eq!(play(std::slice::from_ref(&event)).unwrap_err().kind, want, "{event}");
    }
    let error = play(&[failed(json!({ "code": "server_error" }))]).unwrap_err();
    assert_eq!(error.usage.input, 7);
}

#[test]
fn what_is_no_json_is_an_error_and_what_is_unknown_is_not() {
    let mut decoder = Decoder::new("host".into());
    let mut queue = VecDeque::new();
    let error = decoder.event("x", "{\"type\": \"resp", &mut queue).unwrap_err();
    assert_eq!(error.kind, Kind::Protocol);
    let unknown = json!({ "type": "response.new_thing", "delta": { "a": 1 } }).to_string();
    assert_eq!(decoder.event("", &unknown, &mut queue).unwrap(), Flow::More);
    assert_eq!(decoder.event("", "[DONE]", &mut queue).unwrap_err().kind, Kind::Cut);
}

#[test]
fn a_whole_document_is_a_response_too() {
    let read = |body: Value| {
        let mut queue = VecDeque::new();
        Decoder::new("host".into()).whole(&body.to_string(), &mut queue).map(|()| queue)
    };
    let queue = read(json!({ "id": "r", "output": [message("m", "hi")] })).unwrap();
    assert!(matches!(queue[0], ModelEvent::ItemDone(_)));
    let error =
        read(json!({ "error": { "code": "invalid_api_key", "message": "x" } })).unwrap_err();
    assert_eq!(error.kind, Kind::Auth);
    assert_eq!(read(json!({ "hello": 1 })).unwrap_err().kind, Kind::Protocol);
}
