//! The bytes of HTTP/1.1, over a plain or a TLS socket.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// One recorded request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Null where the body is no JSON.
    pub json: Value,
    pub at: Instant,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

trait Pipe: Read + Write + Send {}
impl<T: Read + Write + Send> Pipe for T {}

/// One connection.
pub struct Channel {
    pipe: Box<dyn Pipe>,
    socket: TcpStream,
    buffer: Vec<u8>,
}

impl Channel {
    pub fn open(socket: TcpStream, tls: Option<Arc<rustls::ServerConfig>>) -> Option<Self> {
        let copy = socket.try_clone().ok()?;
        let pipe: Box<dyn Pipe> = match tls {
            None => Box::new(socket),
            Some(config) => {
                let connection = rustls::ServerConnection::new(config).ok()?;
                Box::new(rustls::StreamOwned::new(connection, socket))
            }
        };
        Some(Self { pipe, socket: copy, buffer: Vec::new() })
    }

    /// From here on the connection speaks TLS (what a proxy does after CONNECT).
    pub fn upgrade(&mut self, config: Arc<rustls::ServerConfig>) -> bool {
        let upgraded = self.socket.try_clone().ok().and_then(|copy| Self::open(copy, Some(config)));
        match upgraded {
            Some(upgraded) => {
                *self = upgraded;
                true
            }
            None => false,
        }
    }

    /// False when the client has gone.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.pipe.write_all(bytes).and_then(|()| self.pipe.flush()).is_ok()
    }

    /// Closes at once, in the middle of whatever was being said.
    pub fn abort(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn more(&mut self) -> bool {
        let mut chunk = [0u8; 16 * 1024];
        match self.pipe.read(&mut chunk) {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.buffer.extend_from_slice(&chunk[..count]);
                true
            }
        }
    }
}

/// Reads one request; none when the connection ended.
pub fn read_request(channel: &mut Channel) -> Option<Request> {
    let end = loop {
        if let Some(at) = channel.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if !channel.more() {
            return None;
        }
        // Anything but a method (a TLS hello, say) is answered as servers do.
        if !channel.buffer[0].is_ascii_uppercase() {
            let _ = channel.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
            channel.abort();
            return None;
        }
    };
    let at = Instant::now();
    let head = String::from_utf8_lossy(&channel.buffer[..end]).into_owned();
    channel.buffer.drain(..end + 4);
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    while channel.buffer.len() < length {
        if !channel.more() {
            return None;
        }
    }
    let body: Vec<u8> = channel.buffer.drain(..length).collect();
    let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Request { method, path, headers, body, json, at })
}

/// The head of an answer.
pub fn head(status: u16, headers: &[(String, String)]) -> String {
    let mut text = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        407 => "Proxy Authentication Required",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        _ => "Status",
    }
}
