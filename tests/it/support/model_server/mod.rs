//! A model server for tests: real sockets, HTTP/1.1, its own threads, nothing but the standard
//! library. Scripted by values, in full control of chunk edges, silences and cuts; it records every
//! request and checks what a real provider would check.
//!
//! ```ignore
//! let server = Server::start(vec![
//!     Reply::calls([Call::json("call_1", "exec_command", json!({ "cmd": "true" }))]),
//!     Reply::status(500, "{}").times(2),
//!     Reply::message("done"),
//! ]);
//! let base_url = server.base_url();           // http://127.0.0.1:PORT/v1
//! server.requests()[0].json["input"];
//! server.assert_clean();                      // no request had an unpaired call or output
//! ```
//!
//! Each request is answered by the next reply; which wire it speaks follows from the path
//! (`/responses`, `/chat/completions`, `/messages`).

#![allow(dead_code, unused_imports)]

mod authority;
mod check;
mod http;
mod reply;
mod wire_chat;
mod wire_messages;
mod wire_responses;

pub use authority::Authority;
pub use http::Request;
pub use reply::{Call, Edges, Reply, Usage};

use http::Channel;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A running server; dropped, it closes every connection.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    replies: Mutex<Vec<Reply>>,
    requests: Mutex<Vec<Request>>,
    problems: Mutex<Vec<String>>,
    sockets: Mutex<Vec<TcpStream>>,
    connections: Mutex<usize>,
    stop: AtomicBool,
    tls: Option<Arc<rustls::ServerConfig>>,
    proxy: bool,
}

impl Server {
    /// Starts on a free loopback port.
    pub fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::launch(replies.into_iter().collect(), None, false)
    }

    /// The same over TLS.
    pub fn start_tls(
        replies: impl IntoIterator<Item = Reply>,
        config: Arc<rustls::ServerConfig>,
    ) -> Self {
        Self::launch(replies.into_iter().collect(), Some(config), false)
    }

    /// A proxy and the server behind it in one: `CONNECT` is granted for any host, and the TLS
    /// inside is answered with this certificate. A refused `CONNECT` is scripted as a status.
    pub fn start_proxy(
        replies: impl IntoIterator<Item = Reply>,
        config: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        Self::launch(replies.into_iter().collect(), config, true)
    }

    fn launch(replies: Vec<Reply>, tls: Option<Arc<rustls::ServerConfig>>, proxy: bool) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            replies: Mutex::new(replies),
            requests: Mutex::default(),
            problems: Mutex::default(),
            sockets: Mutex::default(),
            connections: Mutex::default(),
            stop: AtomicBool::new(false),
            tls,
            proxy,
        });
        let accepting = shared.clone();
        std::thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base of the API, as `--base-url` takes it.
    pub fn base_url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/v1", self.address)
    }

    /// Every request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    pub fn request_count(&self) -> usize {
        self.shared.requests.lock().unwrap().len()
    }

    /// TCP connections so far.
    pub fn connections(&self) -> usize {
        *self.shared.connections.lock().unwrap()
    }

    /// Replies that were not asked for yet.
    pub fn left(&self) -> usize {
        self.shared.replies.lock().unwrap().len()
    }

    /// What was wrong with requests: unpaired calls, more requests than replies, bad JSON.
    pub fn problems(&self) -> Vec<String> {
        self.shared.problems.lock().unwrap().clone()
    }

    /// Panics if any request was wrong.
    pub fn assert_clean(&self) {
        let problems = self.problems();
        assert!(problems.is_empty(), "the server found fault: {problems:#?}");
    }

    /// Waits until this many requests have arrived.
    pub fn wait_for(&self, count: usize, limit: Duration) -> bool {
        let start = Instant::now();
        while self.request_count() < count {
            if start.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        for socket in self.shared.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for socket in listener.incoming() {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(socket) = socket else { continue };
        let _ = socket.set_nodelay(true);
        if let Ok(copy) = socket.try_clone() {
            shared.sockets.lock().unwrap().push(copy);
        }
        *shared.connections.lock().unwrap() += 1;
        let shared = shared.clone();
        std::thread::spawn(move || {
            let tls = shared.tls.clone().filter(|_| !shared.proxy);
            if let Some(mut channel) = Channel::open(socket, tls) {
                serve(&mut channel, &shared);
            }
        });
    }
}

/// Answers the requests of one connection, one after another.
fn serve(channel: &mut Channel, shared: &Shared) {
    while let Some(request) = http::read_request(channel) {
        if let ("CONNECT", Some(config)) = (request.method.as_str(), shared.tls.clone()) {
            shared.requests.lock().unwrap().push(request);
            if channel.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                && channel.upgrade(config)
            {
                continue;
            }
            return;
        }
        let found = check::problem(&request);
        let answer = {
            let mut requests = shared.requests.lock().unwrap();
            requests.push(request.clone());
            next_reply(shared)
        };
        if let Some(problem) = found {
            shared.problems.lock().unwrap().push(problem.clone());
            let body = serde_json::json!({ "error": {
                "message": problem, "type": "invalid_request_error", "code": null, "param": "input",
            } });
            if !Reply::status(400, body.to_string()).play(channel, &request, &shared.stop) {
                return;
            }
            continue;
        }
        let Some(reply) = answer else {
            let text =
                format!("request {} has no reply left", shared.requests.lock().unwrap().len());
            shared.problems.lock().unwrap().push(text.clone());
            let body = serde_json::json!({ "error": {
                "message": text, "type": "invalid_request_error", "code": "no_reply_left",
            } });
            let _ = Reply::status(400, body.to_string()).play(channel, &request, &shared.stop);
            return;
        };
        if !reply.play(channel, &request, &shared.stop) {
            return;
        }
    }
}

fn next_reply(shared: &Shared) -> Option<Reply> {
    let mut replies = shared.replies.lock().unwrap();
    let first = replies.first_mut()?;
    let reply = first.clone();
    if let Some(left) = first.times.as_mut() {
        *left -= 1;
        if *left == 0 {
            replies.remove(0);
        }
    }
    Some(reply)
}
