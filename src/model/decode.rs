//! Decoding bytes that were recorded, with the very code that reads connections: for fuzzing, for
//! benches, and for tests of every way to cut a stream.

use super::error::{ModelError, ModelErrorKind};
use super::http::{Flow, WireDecoder};
use super::stream::ModelEvent;
use super::{anthropic, chat, openai, sse};
use std::collections::VecDeque;

/// Decodes one recorded answer of a provider's wire (`openai`, `chat`, `anthropic`), handed over in
/// pieces as a connection might. Gives what came before a failure too.
pub fn decode<'a>(
    provider: &str,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut queue = VecDeque::new();
    let failed = match decoder(provider) {
        Some(mut decoder) => run(&mut *decoder, pieces, &mut queue).err(),
        None => {
            let message = format!("the provider {provider:?} has no wire");
            Some(ModelError::new(ModelErrorKind::InvalidRequest, message))
        }
    };
    (queue.into(), failed)
}

fn decoder(provider: &str) -> Option<Box<dyn WireDecoder>> {
    let host = "recording".to_owned();
    Some(match provider {
        "openai" => Box::new(openai::decoder(host)),
        "chat" => Box::new(chat::decoder(host)),
        "anthropic" => Box::new(anthropic::decoder(host)),
        _ => return None,
    })
}

fn run<'a>(
    decoder: &mut dyn WireDecoder,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    queue: &mut VecDeque<ModelEvent>,
) -> Result<(), ModelError> {
    let too_large =
        |error: sse::TooLarge| ModelError::new(ModelErrorKind::Protocol, error.to_string());
    let mut events = sse::Decoder::default();
    for piece in pieces {
        events.push(piece);
        while let Some(event) = events.next_event().map_err(too_large)? {
            if decoder.event(&event.name, &event.data, queue)? == Flow::Done {
                return Ok(());
            }
        }
    }
    decoder.end(queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RESPONSES: &str = concat!(
        "event: response.created\r\n",
        "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\r\n\r\n",
        ": ping\r\n",
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"你好\"}\r\n\r\n",
        "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\r\n",
        "data: \"item\":{\"type\":\"message\",\"id\":\"m\",\"content\":",
        "[{\"type\":\"output_text\",\"text\":\"你好🙂\"}]}}\r\n\r\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"usage\":",
        "{\"input_tokens\":3}}}\r\n\r\n",
    );
    const CHAT: &str = concat!(
        "data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"你好🙂\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":",
        "{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
        "data: [DONE]\n\n",
    );
    const MESSAGES: &str = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,",
        "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,",
        "\"delta\":{\"type\":\"text_delta\",\"text\":\"你好🙂\"}}\n\n",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":",
        "{\"stop_reason\":\"end_turn\"}}\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    const STREAMS: [(&str, &str); 3] =
        [("openai", RESPONSES), ("chat", CHAT), ("anthropic", MESSAGES)];

    #[test]
    fn d12_every_cut_position_gives_the_same_events() {
        for (provider, stream) in STREAMS {
            let bytes = stream.as_bytes();
            let (whole, failed) = decode(provider, [bytes]);
            assert_eq!(failed, None, "{provider}");
            assert!(matches!(whole.last(), Some(ModelEvent::Completed { .. })));
            for cut in 0..=bytes.len() {
                let (head, tail) = bytes.split_at(cut);
                assert_eq!(decode(provider, [head, tail]).0, whole, "{provider} at {cut}");
            }
            assert_eq!(decode(provider, bytes.chunks(1)).0, whole, "{provider} byte by byte");
        }
    }

    #[test]
    fn d17_no_prefix_of_a_stream_is_a_whole_answer() {
        for (provider, stream) in STREAMS {
            let bytes = stream.as_bytes();
            let terminal = decode(provider, [bytes]).0.len();
            for end in 0..bytes.len() {
                let (events, failed) = decode(provider, [&bytes[..end]]);
                let complete =
                    events.iter().any(|event| matches!(event, ModelEvent::Completed { .. }));
                assert!(complete != failed.is_some(), "{provider} at {end}");
                // Where an end is forgiven, nothing of the answer is missing.
                assert!(!complete || events.len() == terminal, "{provider} at {end}");
            }
        }
    }

    proptest! {
        #[test]
        fn damaged_streams_never_panic(
            which in 0usize..3,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
            size in 1usize..64,
        ) {
            let (provider, stream) = STREAMS[which];
            let mut bytes = stream.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let cut = decode(provider, bytes.chunks(size));
            prop_assert_eq!(cut.0, decode(provider, [bytes.as_slice()]).0);
        }
    }
}
