//! An event stream: the same events, however its bytes are cut.

use turnkey::model::sse::Decoder;

const LIMIT: usize = 4096;

fn events(pieces: impl Iterator<Item = Vec<u8>>) -> (Vec<(String, String)>, bool) {
    let mut decoder = Decoder::with_limit(LIMIT);
    let mut found = Vec::new();
    for piece in pieces {
        decoder.push(&piece);
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => found.push((event.name.into_owned(), event.data.into_owned())),
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    match decoder.finish() {
        Ok(Some(event)) => found.push((event.name.into_owned(), event.data.into_owned())),
        Ok(None) => {}
        Err(_) => return (found, true),
    }
    (found, false)
}

pub fn run(data: &[u8]) {
    let (whole, too_large) = events(std::iter::once(data.to_vec()));
    let step = 1 + usize::from(data.first().copied().unwrap_or(0)) % 5;
    let (pieces, also) = events(data.chunks(step).map(<[u8]>::to_vec));
    if too_large || also {
        // Where the limit strikes depends on what had come; until then they agree.
        let shared = whole.len().min(pieces.len());
        assert_eq!(whole[..shared], pieces[..shared]);
        return;
    }
    assert_eq!(whole, pieces);
}
