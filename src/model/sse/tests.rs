//! Each rule of the EventSource parser, and the properties that hold for every way of cutting.

use super::*;
use proptest::prelude::*;

fn decode_cut(bytes: &[u8], cuts: &[usize]) -> Vec<(String, String)> {
    let mut decoder = Decoder::default();
    let mut events = Vec::new();
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        decoder.push(&bytes[from..to]);
        from = to;
        while let Some(event) = decoder.next_event().unwrap() {
            events.push((event.name.into_owned(), event.data.into_owned()));
        }
    }
    events
}

/// Decodes whole, byte by byte, and cut once at every position: all must agree.
fn decode(bytes: &[u8]) -> Vec<(String, String)> {
    let whole = decode_cut(bytes, &[]);
    let every: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(whole, decode_cut(bytes, &every), "byte by byte");
    for cut in 0..bytes.len() {
        assert_eq!(whole, decode_cut(bytes, &[cut]), "cut at {cut}");
    }
    whole
}

fn data_of(text: &str) -> Vec<String> {
    decode(text.as_bytes()).into_iter().map(|(_, data)| data).collect()
}

#[test]
fn line_endings_are_lf_crlf_cr_and_mixtures() {
    for text in [
        "data: a\n\ndata: b\n\n",
        "data: a\r\n\r\ndata: b\r\n\r\n",
        "data: a\r\rdata: b\r\r",
        "data: a\r\n\ndata: b\n\r\n",
        "data: a\n\rdata: b\r\n\r",
    ] {
        assert_eq!(data_of(text), ["a", "b"], "{text:?}");
    }
}

#[test]
fn a_carriage_return_dispatches_without_waiting_for_the_next_byte() {
    assert_eq!(decode_cut(b"data: a\r\n\r", &[]).len(), 1);
}

#[test]
fn d12_characters_may_be_cut_anywhere() {
    assert_eq!(data_of("data: 你好🙂é\n\n"), ["你好🙂é"]);
}

#[test]
fn d14_comments_and_unknown_fields_are_dropped() {
    assert_eq!(data_of(":\n: ping\n\nretry: 10\nid: 7\nfoo: bar\nfoo\ndata: a\n\n: x\n\n"), ["a"]);
}

#[test]
fn several_data_lines_are_joined() {
    assert_eq!(data_of("data: a\ndata:b\ndata\ndata:  c\n\n"), ["a\nb\n\n c"]);
}

#[test]
fn empty_data_is_an_event_and_no_data_is_none() {
    assert_eq!(data_of("data:\n\nevent: x\n\ndata\n\n"), ["", ""]);
}

#[test]
fn the_name_lasts_for_one_event() {
    let events = decode(b"event: a\ndata: 1\n\ndata: 2\n\nevent: c\n\ndata: 3\n\n");
    assert_eq!(events, [("a", "1"), ("", "2"), ("", "3")].map(|(a, b)| (a.into(), b.into())));
}

#[test]
fn a_byte_order_mark_is_dropped_once() {
    assert_eq!(data_of("\u{feff}data: a\n\n"), ["a"]);
    assert_eq!(data_of("\u{feff}\u{feff}data: a\n\ndata: b\n\n"), ["b"]);
}

#[test]
fn only_one_space_is_taken_away() {
    assert_eq!(data_of("data:  a\n\ndata:\tb\n\n"), [" a", "\tb"]);
}

#[test]
fn invalid_utf8_is_replaced_and_goes_on() {
    assert_eq!(decode(b"data: a\xffb\n\ndata: c\n\n")[0].1, "a\u{fffd}b");
}

#[test]
fn what_has_no_blank_line_is_only_given_at_the_end() {
    let mut decoder = Decoder::default();
    decoder.push(b"data: a\n\nevent: x\ndata: b\ndata: c");
    assert_eq!(decoder.next_event().unwrap().unwrap().data, "a");
    assert_eq!(decoder.next_event().unwrap(), None);
    let last = decoder.finish().unwrap().unwrap();
    assert_eq!((last.name.as_ref(), last.data.as_ref()), ("x", "b\nc"));
    assert_eq!(decoder.finish().unwrap(), None);
}

#[test]
fn lines_and_events_are_bounded() {
    let mut decoder = Decoder::with_limit(1000);
    let mut error = None;
    for _ in 0..100 {
        decoder.push(b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
        if let Err(found) = decoder.next_event() {
            error = Some(found);
            break;
        }
    }
    assert_eq!(error, Some(TooLarge { limit: 1000 }));

    let mut decoder = Decoder::with_limit(1000);
    let failed = (0..100).any(|_| {
        decoder.push(b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n");
        decoder.next_event().is_err()
    });
    assert!(failed);
}

#[test]
fn an_event_of_100_mb_is_refused_and_its_memory_bounded() {
    let piece = [b'x'; 64 * 1024];
    for line in [&b""[..], b"data: "] {
        let mut decoder = Decoder::default();
        decoder.push(line);
        let mut pushed = 0;
        let refused = loop {
            decoder.push(&piece);
            pushed += piece.len();
            if decoder.next_event().is_err() {
                break true;
            }
            if pushed > 100 * 1024 * 1024 {
                break false;
            }
        };
        assert!(refused && pushed <= MAX_EVENT_BYTES + piece.len());
        assert!(decoder.buffer.capacity() <= 3 * MAX_EVENT_BYTES);
    }
}

#[test]
fn keep_alives_cost_no_memory() {
    let mut decoder = Decoder::default();
    let block = ": keep-alive\n\n".repeat(1000);
    for _ in 0..1000 {
        decoder.push(block.as_bytes());
        assert_eq!(decoder.next_event().unwrap(), None);
    }
    assert!(decoder.buffer.capacity() < 4 * block.len(), "{}", decoder.buffer.capacity());
}

proptest! {
    #[test]
    fn every_cut_gives_the_same_events(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "data: ", "data:", "data", "event: x", ":", "id: 1", "\n", "\r", "\r\n", "\n\n",
                "你", "🙂", "\u{feff}", " ", "{\"a\":1}", "\0",
            ]), 0..40),
        seed in any::<u64>(),
    ) {
        let bytes = pieces.concat().into_bytes();
        let whole = decode_cut(&bytes, &[]);
        let mut state = seed;
        let cuts: Vec<usize> = (0..bytes.len()).filter(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 63 == 0
        }).collect();
        prop_assert_eq!(whole, decode_cut(&bytes, &cuts));
    }
}
