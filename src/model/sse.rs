//! The event-stream decoder, by the rules of the HTML standard's EventSource.
//!
//! It works on bytes: a chunk may end inside a character, a line ending or the byte order mark. A
//! line is looked at once however many chunks it comes in (a kept scan offset), and neither a line
//! nor an event can grow without bound. Comments, `id:`, `retry:` and unknown fields carry nothing
//! for us and are dropped as they come, so any number of keep-alives costs no memory.

use std::borrow::Cow;

/// The largest line, and the largest event: a call's arguments may be 10 MB and more.
pub const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// One event: its name (empty means `message`) and its data lines joined by line feeds.
#[derive(Debug, PartialEq, Eq)]
pub struct Event<'a> {
    pub name: Cow<'a, str>,
    pub data: Cow<'a, str>,
}

/// A line or an event is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {limit} bytes")]
pub struct TooLarge {
    pub limit: usize,
}

/// An incremental decoder: [`push`](Decoder::push) bytes, then take events until there is none.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// Bytes not decoded yet; `start` is where the current line begins, `scan` how far it was
    /// searched for its end.
    buffer: Vec<u8>,
    start: usize,
    scan: usize,
    /// The line before ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    at_stream_start: bool,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The event in `name` and `data` was handed out and is to be cleared.
    taken: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }
}

impl Decoder {
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            start: 0,
            scan: 0,
            after_cr: false,
            at_stream_start: true,
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            taken: false,
        }
    }

    /// Adds bytes as they came. Take all events before pushing more.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scan -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete event, if the bytes so far hold one.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, TooLarge> {
        self.clear_taken();
        if self.at_stream_start && !self.skip_byte_order_mark() {
            return Ok(None);
        }
        while let Some((from, to)) = self.next_line() {
            if from == to {
                if self.has_data {
                    self.taken = true;
                    return Ok(Some(self.event()));
                }
                self.name.clear();
                continue;
            }
            self.field(from, to)?;
        }
        if self.buffer.len() - self.start > self.limit {
            return Err(TooLarge { limit: self.limit });
        }
        Ok(None)
    }

    /// What is left when the connection has ended: an event whose closing blank line never came.
    /// The standard drops it; a caller that can tell whole data from cut data may still use it.
    pub fn finish(&mut self) -> Result<Option<Event<'_>>, TooLarge> {
        self.clear_taken();
        if self.start < self.buffer.len() && !self.at_stream_start {
            let (from, to) = (self.start, self.buffer.len());
            self.start = to;
            self.scan = to;
            self.field(from, to)?;
        }
        if !self.has_data {
            return Ok(None);
        }
        self.taken = true;
        Ok(Some(self.event()))
    }

    fn event(&self) -> Event<'_> {
        Event {
            name: String::from_utf8_lossy(&self.name),
            data: String::from_utf8_lossy(&self.data),
        }
    }

    fn clear_taken(&mut self) {
        if self.taken {
            self.taken = false;
            self.has_data = false;
            self.name.clear();
            self.data.clear();
            // A huge event must not hold its memory for the rest of the stream.
            if self.data.capacity() > 1024 * 1024 {
                self.data = Vec::new();
            }
        }
    }

    /// False while the first bytes may still turn out to be a byte order mark.
    fn skip_byte_order_mark(&mut self) -> bool {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        let head = &self.buffer[..self.buffer.len().min(MARK.len())];
        if head == MARK {
            self.start = MARK.len();
            self.scan = MARK.len();
        } else if MARK.starts_with(head) {
            return false;
        }
        self.at_stream_start = false;
        true
    }

    /// The bounds of the next line without its ending. CR, LF and CRLF end a line; a CR ends it at
    /// once, so that an event is not held back until the byte after it arrives.
    fn next_line(&mut self) -> Option<(usize, usize)> {
        if self.after_cr && self.start < self.buffer.len() {
            self.after_cr = false;
            if self.buffer[self.start] == b'\n' {
                self.start += 1;
                self.scan = self.start;
            }
        }
        let rest = &self.buffer[self.scan..];
        let Some(offset) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            self.scan = self.buffer.len();
            return None;
        };
        let (from, to) = (self.start, self.scan + offset);
        self.after_cr = self.buffer[to] == b'\r';
        self.start = to + 1;
        self.scan = self.start;
        Some((from, to))
    }

    fn field(&mut self, from: usize, to: usize) -> Result<(), TooLarge> {
        let line = &self.buffer[from..to];
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.data.len() + value.len() >= self.limit {
                    return Err(TooLarge { limit: self.limit });
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(&value[..value.len().min(256)]);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
