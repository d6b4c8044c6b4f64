//! Bounded capture of a command's output: head and tail, and a share of its own for the end of
//! standard error, because that is where the reason of a failure stands.
//!
//! Memory stays the same whatever a command prints. Bytes are kept as they came; turning them into
//! text, and cutting on character boundaries, happens once at the end.

use std::ops::Range;

/// Which stream a chunk came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Keeps the first `head` and the last `tail` bytes of what both streams printed, in the order
/// received.
#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    tail: Ring,
    stderr_tail: Ring,
    total: u64,
    stderr_total: u64,
    /// The beginning of standard output alone, where somebody reads it as an answer.
    answer: Vec<u8>,
    answer_limit: usize,
}

impl Capture {
    /// `limit` bytes in all: half for the head, half for the tail, an eighth more for stderr.
    pub fn new(limit: usize) -> Self {
        let half = (limit / 2).max(64);
        Self {
            head: Vec::new(),
            head_limit: half,
            tail: Ring::new(half),
            stderr_tail: Ring::new((limit / 8).max(256)),
            total: 0,
            stderr_total: 0,
            answer: Vec::new(),
            answer_limit: 0,
        }
    }

    /// Keeps the first `answer` bytes of standard output also by themselves.
    pub fn with_answer(limit: usize, answer: usize) -> Self {
        Self { answer_limit: answer, ..Self::new(limit) }
    }

    pub fn push(&mut self, stream: Stream, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        if stream == Stream::Stderr {
            self.stderr_total += chunk.len() as u64;
            self.stderr_tail.push(chunk);
        } else {
            let room = self.answer_limit - self.answer.len();
            self.answer.extend_from_slice(&chunk[..room.min(chunk.len())]);
        }
        let room = self.head_limit - self.head.len();
        let (first, rest) = chunk.split_at(room.min(chunk.len()));
        self.head.extend_from_slice(first);
        self.tail.push(rest);
    }

    /// What is kept so far, leaving a new capture in place. A character whose last bytes have not come
    /// yet is left for the next look, unless this is the last one.
    pub fn take(&mut self, limit: usize, last: bool) -> Captured {
        let mut done = std::mem::replace(self, Self::new(limit));
        if !last {
            let begun = done.unfinished_character();
            if !begun.is_empty() {
                self.push(Stream::Stdout, &begun);
            }
        }
        done.finish()
    }

    /// Takes the begun character off the end.
    fn unfinished_character(&mut self) -> Vec<u8> {
        let end = if self.tail.buffer.is_empty() { &mut self.head } else { &mut self.tail.buffer };
        let window = end.len().saturating_sub(3);
        let begun = end
            .get(window..)
            .and_then(|last| last.iter().rposition(|byte| (*byte & 0xC0) != 0x80))
            .map(|at| window + at)
            .filter(|at| {
                let rest = end.get(*at..).unwrap_or_default();
                std::str::from_utf8(rest).is_err_and(|error| error.error_len().is_none())
            });
        let Some(at) = begun else { return Vec::new() };
        let taken = end.split_off(at);
        self.total -= taken.len() as u64;
        taken
    }

    pub fn finish(self) -> Captured {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let cut = self.total - kept;
        let tail_start = self.total - self.tail.len() as u64;
        if cut == 0 {
            // Joined as bytes: a character may lie across the two.
            let whole = [self.head.as_slice(), self.tail.bytes()].concat();
            return Captured {
                text: lossy(&whole, false, false),
                total: self.total,
                stderr_total: self.stderr_total,
                answer: self.answer,
                ..Captured::default()
            };
        }
        let stderr_kept = self.stderr_tail.len() as u64;
        let stderr_tail = (self.stderr_total > 0 && tail_start > 0)
            .then(|| lossy(self.stderr_tail.bytes(), stderr_kept < self.stderr_total, false));
        let mut text = lossy(&self.head, false, true);
        let start = text.len();
        text.push_str(&format!("\n[… {cut} bytes cut …]\n"));
        let notice = Some(start..text.len());
        text.push_str(&lossy(self.tail.bytes(), true, false));
        Captured {
            text,
            notice,
            stderr_tail,
            total: self.total,
            stderr_total: self.stderr_total,
            cut,
            answer: self.answer,
        }
    }
}

/// What a command printed, ready to be read: both streams in the order received, the middle left out
/// where it was too long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The text with the cut told.
    pub text: String,
    /// Where the notice of the cut begins and ends in the text.
    notice: Option<Range<usize>>,
    /// The end of standard error alone, only where something was cut.
    pub stderr_tail: Option<String>,
    /// Bytes printed on both streams.
    pub total: u64,
    pub stderr_total: u64,
    /// Bytes that were not kept.
    pub cut: u64,
    /// The beginning of standard output, as bytes; nothing unless it was asked for.
    pub answer: Vec<u8>,
}

impl Captured {
    /// The text after `edges` has seen both sides of the cut: a secret that the cut went through is no
    /// longer whole, and can only be recognised there.
    pub fn text_with(&self, edges: impl FnOnce(&str, &str) -> (String, String)) -> String {
        let part = |range: Range<usize>| self.text.get(range).unwrap_or_default();
        let Some(notice) = &self.notice else { return self.text.clone() };
        let (head, tail) = edges(part(0..notice.start), part(notice.end..self.text.len()));
        format!("{head}{}{tail}", part(notice.clone()))
    }
}

/// Bytes as text: what is not UTF-8 becomes U+FFFD, except that a character cut by us at either edge
/// is dropped, because it was not broken by the command.
fn lossy(bytes: &[u8], cut_before: bool, cut_after: bool) -> String {
    let mut bytes = bytes;
    if cut_before {
        let skip = bytes.iter().take(3).take_while(|byte| (*byte & 0xC0) == 0x80).count();
        bytes = &bytes[skip..];
    }
    if cut_after && let Err(error) = std::str::from_utf8(bytes) {
        let valid = error.valid_up_to();
        if error.error_len().is_none() && bytes.len() - valid < 4 {
            bytes = &bytes[..valid];
        }
    }
    String::from_utf8_lossy(bytes).into_owned()
}

/// The last `limit` bytes pushed.
#[derive(Debug)]
struct Ring {
    buffer: Vec<u8>,
    limit: usize,
}

impl Ring {
    fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), limit }
    }

    fn push(&mut self, chunk: &[u8]) {
        let chunk = &chunk[chunk.len().saturating_sub(self.limit)..];
        // Twice the limit before anything moves, so that each byte is moved once at the most.
        if self.buffer.len() + chunk.len() > self.limit * 2 {
            let keep = (self.limit - chunk.len()).min(self.buffer.len());
            let start = self.buffer.len() - keep;
            self.buffer.copy_within(start.., 0);
            self.buffer.truncate(keep);
        }
        self.buffer.extend_from_slice(chunk);
    }

    fn len(&self) -> usize {
        self.buffer.len().min(self.limit)
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.buffer.len() - self.len()..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: usize, chunks: &[(Stream, &[u8])]) -> Captured {
        let mut capture = Capture::new(limit);
        for (stream, chunk) in chunks {
            capture.push(*stream, chunk);
        }
        capture.finish()
    }

    #[test]
    fn short_output_is_whole_and_in_order() {
        let out = captured(1024, &[(Stream::Stdout, b"a\n"), (Stream::Stderr, b"b\n")]);
        assert_eq!(out.text, "a\nb\n");
        assert_eq!((out.cut, out.stderr_tail), (0, None));
    }

    #[test]
    fn d75_head_and_tail_stay_when_lines_are_very_long() {
        let long = vec![b'x'; 2_000_000];
        let out = captured(
            4096,
            &[
                (Stream::Stdout, b"start"),
                (Stream::Stdout, &long),
                (Stream::Stdout, b"error: boom"),
            ],
        );
        assert!(out.text.starts_with("start"));
        assert!(out.text.ends_with("error: boom"));
        assert!(out.text.contains("bytes cut"));
        assert!(out.text.len() < 5000);
    }

    #[test]
    fn d77_the_end_of_stderr_has_its_own_share() {
        let noise = vec![b'o'; 100_000];
        let out = captured(
            4096,
            &[
                (Stream::Stderr, b"the reason\n"),
                (Stream::Stdout, &noise),
                (Stream::Stdout, &noise),
            ],
        );
        assert_eq!(out.stderr_tail.as_deref(), Some("the reason\n"));
    }

    #[test]
    fn d76_bytes_that_are_not_utf8_are_harmless() {
        let out = captured(1024, &[(Stream::Stdout, b"\xff\xfe\x80ok\0\xed\xa0\x80")]);
        assert!(out.text.contains("ok"));
        assert_eq!(out.total, 9);
    }

    #[test]
    fn an_answer_is_kept_apart_and_bounded() {
        let mut capture = Capture::with_answer(1024, 4);
        capture.push(Stream::Stdout, b"ab");
        capture.push(Stream::Stderr, b"noise");
        capture.push(Stream::Stdout, b"cde");
        assert_eq!(capture.finish().answer, b"abcd");
    }

    #[test]
    fn cutting_never_breaks_a_character() {
        let text = "阴影".repeat(400);
        for limit in 128..140 {
            let out = captured(limit, &[(Stream::Stdout, text.as_bytes())]);
            assert!(!out.text.contains('\u{fffd}'), "{limit}: {}", out.text);
        }
    }

    #[test]
    fn a_character_that_has_come_in_part_waits_for_the_next_look() {
        let bytes = "a阴b".as_bytes();
        for cut in 0..=bytes.len() {
            let mut capture = Capture::new(1024);
            capture.push(Stream::Stdout, &bytes[..cut]);
            let first = capture.take(1024, false);
            capture.push(Stream::Stdout, &bytes[cut..]);
            let second = capture.take(1024, true);
            assert_eq!(first.text + &second.text, "a阴b", "cut at {cut}");
        }
        let mut capture = Capture::new(1024);
        capture.push(Stream::Stdout, b"ok\xe9");
        assert_eq!(capture.take(1024, true).text, "ok\u{fffd}", "the last look shows it as it is");
        let mut capture = Capture::new(1024);
        capture.push(Stream::Stdout, b"\xff\xff");
        assert_eq!(capture.take(1024, false).text, "\u{fffd}\u{fffd}", "never a character");
    }

    #[test]
    fn memory_is_bounded() {
        let mut capture = Capture::new(64 * 1024);
        let chunk = vec![7u8; 64 * 1024];
        for _ in 0..1000 {
            capture.push(Stream::Stdout, &chunk);
        }
        assert!(capture.head.capacity() + capture.tail.buffer.capacity() < 512 * 1024);
        assert_eq!(capture.finish().total, 64 * 1024 * 1000);
    }
}
