//! The user part of URLs: `https://user:TOKEN@host` carries a token that nobody declared.

use std::ops::Range;

/// A longer authority is none.
pub(super) const MAX_AUTHORITY: usize = 4096;

/// How far before `://` a scheme is looked for.
pub(super) const MAX_SCHEME: usize = 16;

/// One `scheme://authority` in a text.
pub(super) struct Place {
    /// Position of the `:` of `://`.
    pub colon: usize,
    /// Where the authority begins and ends.
    pub authority: Range<usize>,
    /// The text ends before the authority does.
    pub open: bool,
}

/// Adds the spans of all user parts.
pub(super) fn collect(bytes: &[u8], spans: &mut Vec<Range<usize>>) {
    for place in places(bytes) {
        spans.extend(user_part(bytes, &place));
    }
}

/// All places in order. Works in one pass: the search goes on behind each authority.
pub(super) fn places(bytes: &[u8]) -> impl Iterator<Item = Place> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let place = next_place(bytes, from)?;
        from = place.authority.start;
        Some(place)
    })
}

fn next_place(bytes: &[u8], from: usize) -> Option<Place> {
    let mut at = from;
    loop {
        let rest = bytes.get(at..)?;
        let colon = at + rest.iter().position(|byte| *byte == b':')?;
        let slashes = bytes.get(colon + 1..)?;
        let start = if slashes.starts_with(b"//") {
            colon + 3
        } else if slashes.starts_with(br"\/\/") {
            colon + 5
        } else {
            at = colon + 1;
            continue;
        };
        let limit = bytes.len().min(start + MAX_AUTHORITY);
        let length = bytes.get(start..limit)?.iter().position(|byte| ends_authority(*byte));
        let end = length.map_or(limit, |length| start + length);
        let open = length.is_none() && limit == bytes.len();
        return Some(Place { colon, authority: start..end, open });
    }
}

fn ends_authority(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || byte.is_ascii_control()
        || matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'|')
}

fn user_part(bytes: &[u8], place: &Place) -> Option<Range<usize>> {
    if place.authority.len() == MAX_AUTHORITY {
        return None;
    }
    let authority = bytes.get(place.authority.clone())?;
    let at = authority.iter().rposition(|byte| *byte == b'@')?;
    let user = authority.get(..at)?;
    // `ssh://git@host` names an account; there is no token in it.
    if user.is_empty() || (!user.contains(&b':') && scheme(bytes, place.colon).ends_with(b"ssh")) {
        return None;
    }
    let start = place.authority.start;
    Some(start..start + at)
}

fn scheme(bytes: &[u8], colon: usize) -> &[u8] {
    let before = bytes.get(colon.saturating_sub(MAX_SCHEME)..colon).unwrap_or_default();
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let start = before.iter().rposition(|byte| !is_scheme(byte)).map_or(0, |at| at + 1);
    before.get(start..).unwrap_or_default()
}
