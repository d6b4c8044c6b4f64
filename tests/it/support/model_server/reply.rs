//! What the server does with one request.

use super::http::{Channel, Request, head};
use super::{wire_chat, wire_messages, wire_responses};
use bytes::Bytes;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A tool call of the model.
#[derive(Debug, Clone)]
pub struct Call {
    pub id: String,
    pub name: String,
    /// Arguments of a function, or text of a freeform tool.
    pub input: String,
    pub freeform: bool,
}

impl Call {
    pub fn json(id: &str, name: &str, arguments: Value) -> Self {
        Self::raw(id, name, &arguments.to_string())
    }

    /// Arguments as they stand, broken or not.
    pub fn raw(id: &str, name: &str, arguments: &str) -> Self {
        Self { id: id.into(), name: name.into(), input: arguments.into(), freeform: false }
    }

    pub fn text(id: &str, name: &str, input: &str) -> Self {
        Self { id: id.into(), name: name.into(), input: input.into(), freeform: true }
    }
}

/// Token counts that the server reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    pub reasoning: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, cached: 0, output: 10, reasoning: 0 }
    }
}

/// How bytes are cut into writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edges {
    /// The whole body at once.
    Whole,
    /// One write for each event.
    Event,
    /// Writes of this many bytes, each a chunk of its own.
    Bytes(usize),
}

/// How an answer that began ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ending {
    Completed,
    Incomplete(String),
    Failed { code: String, message: String },
}

/// The content of an answer, whatever the wire.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub reasoning: Option<String>,
    pub text: Option<String>,
    pub refusal: Option<String>,
    pub calls: Vec<Call>,
    pub usage: Option<Usage>,
    pub ending: Ending,
    pub deltas: bool,
    /// Output items as they stand, after the others (Responses only).
    pub items: Vec<Value>,
}

#[derive(Debug, Clone)]
enum Kind {
    Answer(Box<Answer>),
    /// Events as they stand: name (may be empty) and data.
    Events(Vec<(String, String)>),
    Status {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// Body bytes as they stand, each after a silence.
    Raw(Vec<(Duration, Bytes)>),
    Never,
}

/// One reply and how it is delivered.
#[derive(Debug, Clone)]
pub struct Reply {
    kind: Kind,
    /// How many requests it answers; none: all that come.
    pub(super) times: Option<usize>,
    edges: Edges,
    newline: &'static str,
    comments: bool,
    delay: Duration,
    silence: Duration,
    keep_alive: Option<(Duration, usize)>,
    end_after: Option<usize>,
    reset_after: Option<usize>,
    hold_open: Option<Duration>,
    done_marker: bool,
    cut_before_end: bool,
}

impl Reply {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            times: Some(1),
            edges: Edges::Event,
            newline: "\n",
            comments: false,
            delay: Duration::ZERO,
            silence: Duration::ZERO,
            keep_alive: None,
            end_after: None,
            reset_after: None,
            hold_open: None,
            done_marker: false,
            cut_before_end: false,
        }
    }

    fn answer(change: impl FnOnce(&mut Answer)) -> Self {
        let mut answer = Answer {
            reasoning: None,
            text: None,
            refusal: None,
            calls: Vec::new(),
            usage: Some(Usage::default()),
            ending: Ending::Completed,
            deltas: true,
            items: Vec::new(),
        };
        change(&mut answer);
        Self::new(Kind::Answer(Box::new(answer)))
    }

    /// A final message.
    pub fn message(text: &str) -> Self {
        Self::answer(|answer| answer.text = Some(text.into()))
    }

    /// Tool calls.
    pub fn calls(calls: impl IntoIterator<Item = Call>) -> Self {
        Self::answer(|answer| answer.calls = calls.into_iter().collect())
    }

    /// A response with nothing in it.
    pub fn empty() -> Self {
        Self::answer(|_| {})
    }

    pub fn refusal(text: &str) -> Self {
        Self::answer(|answer| answer.refusal = Some(text.into()))
    }

    /// Ends early, with what was said so far (add it with `with_text`, `with_calls`).
    pub fn incomplete(reason: &str) -> Self {
        Self::answer(|answer| answer.ending = Ending::Incomplete(reason.into()))
    }

    /// Fails inside the stream.
    pub fn failed(code: &str, message: &str) -> Self {
        let ending = Ending::Failed { code: code.into(), message: message.into() };
        Self::answer(|answer| answer.ending = ending)
    }

    /// Events as they stand.
    pub fn events<'a>(events: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let events = events.into_iter().map(|(name, data)| (name.to_owned(), data));
        Self::new(Kind::Events(events.collect()))
    }

    pub fn status(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(Kind::Status { status, headers: Vec::new(), body: body.into() })
    }

    /// Body bytes of a 200 answer as they stand, each after a silence; then the connection closes.
    pub fn raw_bytes<B: Into<Bytes>>(pieces: impl IntoIterator<Item = (Duration, B)>) -> Self {
        let pieces = pieces.into_iter().map(|(silence, bytes)| (silence, bytes.into()));
        Self::new(Kind::Raw(pieces.collect()))
    }

    /// Takes the request and says nothing.
    pub fn never_answer() -> Self {
        Self::new(Kind::Never)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Kind::Status { headers, .. } = &mut self.kind {
            headers.push((name.into(), value.into()));
        }
        self
    }

    fn change(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        if let Kind::Answer(answer) = &mut self.kind {
            change(answer);
        }
        self
    }

    pub fn with_text(self, text: &str) -> Self {
        self.change(|answer| answer.text = Some(text.into()))
    }

    pub fn with_calls(self, calls: impl IntoIterator<Item = Call>) -> Self {
        self.change(|answer| answer.calls = calls.into_iter().collect())
    }

    pub fn with_reasoning(self, text: &str) -> Self {
        self.change(|answer| answer.reasoning = Some(text.into()))
    }

    pub fn with_items(self, items: impl IntoIterator<Item = Value>) -> Self {
        self.change(|answer| answer.items = items.into_iter().collect())
    }

    pub fn with_usage(self, usage: Usage) -> Self {
        self.change(|answer| answer.usage = Some(usage))
    }

    pub fn without_usage(self) -> Self {
        self.change(|answer| answer.usage = None)
    }

    pub fn without_deltas(self) -> Self {
        self.change(|answer| answer.deltas = false)
    }

    /// Answers this many requests.
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// Answers every request from here on.
    pub fn forever(mut self) -> Self {
        self.times = None;
        self
    }

    pub fn edges(mut self, edges: Edges) -> Self {
        self.edges = edges;
        self
    }

    pub fn crlf(mut self) -> Self {
        self.newline = "\r\n";
        self
    }

    pub fn newline(mut self, newline: &'static str) -> Self {
        self.newline = newline;
        self
    }

    /// Comments and unknown fields before each event.
    pub fn comments(mut self) -> Self {
        self.comments = true;
        self
    }

    /// `data: [DONE]` at the end.
    pub fn done_marker(mut self) -> Self {
        self.done_marker = true;
        self
    }

    /// Silence before the head of the answer.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Silence before each event.
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// A comment each `every`, `count` times, before the first event.
    pub fn keep_alive(mut self, every: Duration, count: usize) -> Self {
        self.keep_alive = Some((every, count));
        self
    }

    /// A clean end of the body after this many events.
    pub fn drop_after(mut self, events: usize) -> Self {
        self.end_after = Some(events);
        self
    }

    /// The connection breaks after this many events.
    pub fn reset_after(mut self, events: usize) -> Self {
        self.reset_after = Some(events);
        self
    }

    /// Everything but what says that the answer is whole; then the connection breaks.
    pub fn cut_before_end(mut self) -> Self {
        self.cut_before_end = true;
        self.reset_after = Some(usize::MAX);
        self
    }

    /// The body is left without an end for so long after the last event.
    pub fn hold_open(mut self, time: Duration) -> Self {
        self.hold_open = Some(time);
        self
    }

    /// Plays the reply; false when the connection is over.
    pub(super) fn play(&self, channel: &mut Channel, request: &Request, stop: &AtomicBool) -> bool {
        nap(self.delay, stop);
        match &self.kind {
            Kind::Never => {
                nap(Duration::from_secs(600), stop);
                false
            }
            Kind::Status { status, headers, body } => {
                let mut all = headers.clone();
                if !all.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                    all.push(("content-type".into(), "application/json".into()));
                }
                all.push(("content-length".into(), body.len().to_string()));
                channel.write(&[head(*status, &all).as_bytes(), body].concat())
            }
            Kind::Raw(pieces) => {
                let headers = [
                    ("content-type".to_owned(), "text/event-stream".to_owned()),
                    ("connection".to_owned(), "close".to_owned()),
                ];
                let _ = channel.write(head(200, &headers).as_bytes());
                for (silence, bytes) in pieces {
                    nap(*silence, stop);
                    if !channel.write(bytes) {
                        break;
                    }
                }
                self.hold_open.inspect(|time| nap(*time, stop));
                channel.abort();
                false
            }
            Kind::Events(events) => self.stream(channel, events.clone(), stop),
            Kind::Answer(answer) => {
                let (mut events, terminal) = render(answer, request);
                if self.cut_before_end {
                    events.truncate(events.len().saturating_sub(terminal));
                }
                self.stream(channel, events, stop)
            }
        }
    }

    fn stream(
        &self,
        channel: &mut Channel,
        mut events: Vec<(String, String)>,
        stop: &AtomicBool,
    ) -> bool {
        let headers = [
            ("content-type".to_owned(), "text/event-stream; charset=utf-8".to_owned()),
            ("transfer-encoding".to_owned(), "chunked".to_owned()),
        ];
        let mut alive = channel.write(head(200, &headers).as_bytes());
        if let Some((every, count)) = self.keep_alive {
            for _ in 0..count {
                nap(every, stop);
                alive = alive && chunk(channel, b":\n");
            }
        }
        if self.done_marker {
            events.push((String::new(), "[DONE]".into()));
        }
        let limit = self.end_after.or(self.reset_after).unwrap_or(usize::MAX);
        let mut pending = Vec::new();
        for (name, data) in events.iter().take(limit) {
            nap(self.silence, stop);
            pending.extend_from_slice(self.event(name, data).as_bytes());
            if self.edges == Edges::Event {
                alive = alive && chunk(channel, &pending);
                pending.clear();
            }
        }
        let size = match self.edges {
            Edges::Bytes(size) => size,
            _ => pending.len().max(1),
        };
        for piece in pending.chunks(size) {
            alive = alive && chunk(channel, piece);
        }
        self.hold_open.inspect(|time| nap(*time, stop));
        if self.reset_after.is_some() {
            channel.abort();
            return false;
        }
        alive && channel.write(b"0\r\n\r\n")
    }

    fn event(&self, name: &str, data: &str) -> String {
        let end = self.newline;
        let mut text = String::new();
        if self.comments {
            text.push_str(&format!(":{end}: ping{end}retry: 10{end}id: 7{end}foo: bar{end}"));
        }
        if !name.is_empty() {
            text.push_str(&format!("event: {name}{end}"));
        }
        text.push_str(&format!("data: {data}{end}{end}"));
        text
    }
}

/// The events of an answer on the wire of the request, and how many of them end it.
fn render(answer: &Answer, request: &Request) -> (Vec<(String, String)>, usize) {
    if request.path.contains("/chat/completions") {
        return (wire_chat::render(answer, &request.json), wire_chat::TERMINAL);
    }
    if request.path.contains("/messages") {
        return (wire_messages::render(answer, &request.json), wire_messages::TERMINAL);
    }
    (wire_responses::render(answer, &request.json), wire_responses::TERMINAL)
}

fn chunk(channel: &mut Channel, bytes: &[u8]) -> bool {
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    channel.write(&framed)
}

/// Sleeps, but not past the end of the server.
fn nap(time: Duration, stop: &AtomicBool) {
    let start = Instant::now();
    while start.elapsed() < time && !stop.load(Ordering::SeqCst) {
        let left = time.saturating_sub(start.elapsed());
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}
