//! The runner's proxy: the only way out for commands whose network is a list of hosts.
//!
//! It speaks what every tool speaks, CONNECT and plain HTTP with absolute addresses. A host is judged by
//! its name, and the proxy resolves the name itself: addresses of this machine, of private networks and
//! of the link are refused unless the list names the address itself, so that a name which leads inside
//! does not lead inside here.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Bytes of a request's head.
const MAX_HEAD: usize = 64 * 1024;
/// Time for a client to say what it wants, and for a host to answer the connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections at the same time.
const MAX_CONNECTIONS: usize = 256;
/// Where a host may be reached unless its entry names a port.
const PORTS: [u16; 2] = [443, 80];

/// A proxy at work on a port of 127.0.0.1; it ends when it is dropped.
pub struct HostsProxy {
    hosts: Vec<String>,
    port: u16,
    task: JoinHandle<()>,
}

impl HostsProxy {
    pub async fn start(hosts: Vec<String>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let list = Arc::new(HostList::new(&hosts));
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let task = tokio::spawn(async move {
            loop {
                let Ok(permit) = room.clone().acquire_owned().await else { return };
                let Ok((client, _)) = listener.accept().await else {
                    // Out of descriptors for the moment.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let list = list.clone();
                tokio::spawn(async move {
                    // A connection that breaks is the business of its two ends.
                    let _ = serve(client, &list).await;
                    drop(permit);
                });
            }
        });
        Ok(Self { hosts, port, task })
    }

    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for HostsProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One entry of `hosts`.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Lower case, without the `*.`.
    name: String,
    below: bool,
    port: Option<u16>,
}

#[derive(Debug)]
struct HostList {
    entries: Vec<Entry>,
}

impl HostList {
    fn new(hosts: &[String]) -> Self {
        let entry = |text: &String| {
            let (name, port) = match text.rsplit_once(':') {
                Some((name, port)) => (name, port.parse().ok()),
                None => (text.as_str(), None),
            };
            let below = name.strip_prefix("*.");
            let name = below.unwrap_or(name).trim_end_matches('.').to_ascii_lowercase();
            Entry { name, below: below.is_some(), port }
        };
        Self { entries: hosts.iter().map(entry).collect() }
    }

    fn allows(&self, host: &str, port: u16) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.entries.iter().any(|entry| {
            let name = match entry.below {
                true => host
                    .strip_suffix(&entry.name)
                    .is_some_and(|front| front.len() > 1 && front.ends_with('.')),
                false => host == entry.name,
            };
            name && entry.port.map_or(PORTS.contains(&port), |own| own == port)
        })
    }

    /// Whether a name that resolved to this address may be followed there.
    fn may_lead_to(&self, address: IpAddr, host: &str) -> bool {
        let address = address.to_canonical();
        let named =
            |name: &str| self.entries.iter().any(|entry| !entry.below && entry.name == name);
        is_public(address)
            || named(&address.to_string())
            || (address.is_loopback() && host.eq_ignore_ascii_case("localhost"))
    }
}

/// Whether an address is one of the open internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.is_documentation()
                || a == 0
                || a >= 240
                || (a == 100 && (64..128).contains(&b))
                || (a == 192 && b == 0 && c == 0)
                || (a == 198 && (18..20).contains(&b)))
        }
        IpAddr::V6(v6) => {
            let [first, second, ..] = v6.segments();
            // Only what is handed out as global unicast, without the ranges that carry an address of
            // the other family inside, which could be a private one.
            (0x2000..0x4000).contains(&first)
                && first != 0x2002
                && !(first == 0x2001 && (second < 0x200 || second == 0xdb8))
        }
    }
}

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    connect: bool,
    host: String,
    port: u16,
    /// For plain HTTP: the head as the host gets it.
    head: Vec<u8>,
}

/// Why a client gets nothing.
#[derive(Debug, PartialEq, Eq)]
struct Refusal(&'static str, String);

fn malformed(what: &str) -> Refusal {
    Refusal("400 Bad Request", format!("the request cannot be read: {what}"))
}

async fn serve(mut client: TcpStream, list: &HostList) -> io::Result<()> {
    let head = match timeout(PATIENCE, read_head(&mut client)).await {
        Ok(head) => head?,
        Err(_) => return Ok(()),
    };
    let Some((head, rest)) = head else {
        return refuse(&mut client, &malformed("its head is too long or not complete")).await;
    };
    let opened = match parse(&head) {
        Ok(request) => open(list, &request).await.map(|host| (request, host)),
        Err(refusal) => Err(refusal),
    };
    let (request, mut host) = match opened {
        Ok(opened) => opened,
        Err(refusal) => return refuse(&mut client, &refusal).await,
    };
    if request.connect {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    } else {
        host.write_all(&request.head).await?;
    }
    host.write_all(&rest).await?;
    tokio::io::copy_bidirectional(&mut client, &mut host).await.map(drop)
}

/// The head up to its empty line, and what came after it; `None` where there is no end to it.
async fn read_head(client: &mut TcpStream) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Ok(Some((bytes, rest)));
        }
        if bytes.len() > MAX_HEAD || client.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
}

async fn refuse(client: &mut TcpStream, refusal: &Refusal) -> io::Result<()> {
    let Refusal(status, why) = refusal;
    let body = format!("turnkey: {why}\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}

fn parse(head: &[u8]) -> Result<Request, Refusal> {
    let text = std::str::from_utf8(head).map_err(|_| malformed("it is no text"))?;
    if text.bytes().any(|byte| byte == 0) || text.replace("\r\n", "").contains(['\r', '\n']) {
        return Err(malformed("a line ends in a way that others could read differently"));
    }
    let mut lines = text.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words[..] else {
        return Err(malformed("its first line"));
    };
    if !version.starts_with("HTTP/1.") {
        return Err(malformed("its version"));
    }
    if method == "CONNECT" {
        let (host, port) = authority(target, None)?;
        return Ok(Request { connect: true, host, port, head: Vec::new() });
    }
    let rest = target.strip_prefix("http://").ok_or_else(|| {
        malformed("a proxy takes CONNECT, or an address that begins with http://")
    })?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, port) = authority(&rest[..end], Some(80))?;
    let path = match &rest[end..] {
        "" => "/".to_owned(),
        query if query.starts_with(['?', '#']) => format!("/{query}"),
        path => path.to_owned(),
    };
    // One request, one connection; the host's name is the one that was judged.
    let mut forwarded = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", &rest[..end]);
    for line in lines.filter(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
        if line.starts_with([' ', '\t']) {
            return Err(malformed("a header that goes on in the next line"));
        }
        let own = ["host", "connection", "keep-alive", "upgrade", "te"];
        if !own.contains(&name.as_str()) && !name.starts_with("proxy-") {
            forwarded.push_str(line);
            forwarded.push_str("\r\n");
        }
    }
    forwarded.push_str("Connection: close\r\n\r\n");
    Ok(Request { connect: false, host, port, head: forwarded.into_bytes() })
}

/// `host:port`; IPv6 addresses stand in brackets.
fn authority(text: &str, default: Option<u16>) -> Result<(String, u16), Refusal> {
    if text.contains('@') {
        return Err(malformed("a user name in an address"));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or_else(|| malformed("its host"))?;
            (host, after.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match (port, default) {
        (Some(port), _) => port.parse().map_err(|_| malformed("its port"))?,
        (None, Some(port)) => port,
        (None, None) => return Err(malformed("it names no port")),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.', ':'].contains(&c);
    if host.is_empty() || !host.chars().all(plain) {
        return Err(malformed("its host"));
    }
    Ok((host.to_owned(), port))
}

/// Judges the host, resolves it, judges what it resolved to, and connects to that.
async fn open(list: &HostList, request: &Request) -> Result<TcpStream, Refusal> {
    let Request { host, port, .. } = request;
    if !list.allows(host, *port) {
        let why = format!("{host}:{port} is not among the hosts of this command's network");
        return Err(Refusal("403 Forbidden", why));
    }
    let gateway = |why: String| Refusal("502 Bad Gateway", format!("{host}:{port}: {why}"));
    let found = timeout(PATIENCE, tokio::net::lookup_host((host.as_str(), *port))).await;
    let found: Vec<SocketAddr> = match found {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(error)) => return Err(gateway(error.to_string())),
        Err(_) => return Err(gateway("its name was not resolved in time".into())),
    };
    let (good, bad): (Vec<SocketAddr>, Vec<SocketAddr>) =
        found.into_iter().partition(|address| list.may_lead_to(address.ip(), host));
    let mut last = match bad.first() {
        Some(inside) if good.is_empty() => {
            let why = format!(
                "{host} leads to {}, which is no address of the open internet; name the address \
                 itself among the hosts if it is meant",
                inside.ip()
            );
            return Err(Refusal("403 Forbidden", why));
        }
        _ => gateway("its name has no address".into()),
    };
    for address in good {
        match timeout(PATIENCE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = gateway(error.to_string()),
            Err(_) => last = gateway("it does not answer".into()),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(hosts: &[&str]) -> HostList {
        HostList::new(&hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn names_match_whole_labels_and_ports_are_the_usual_ones_or_the_named_one() {
        let list = list(&["Example.com", "*.crates.io", "10.1.2.3:8080"]);
        for (host, port, expected) in [
            ("example.com", 443, true),
            ("EXAMPLE.COM.", 80, true),
            ("example.com", 22, false),
            ("evil-example.com", 443, false),
            ("example.com.evil.org", 443, false),
            ("a.example.com", 443, false),
            ("static.crates.io", 443, true),
            ("a.b.crates.io", 443, true),
            ("crates.io", 443, false),
            (".crates.io", 443, false),
            ("evilcrates.io", 443, false),
            ("10.1.2.3", 8080, true),
            ("10.1.2.3", 443, false),
        ] {
            assert_eq!(list.allows(host, port), expected, "{host}:{port}");
        }
    }

    #[test]
    fn names_that_lead_inside_are_not_followed_unless_the_address_is_named() {
        let list = list(&["git.example.com", "10.1.2.3", "localhost:80"]);
        for inside in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001::1",
            "ff02::1",
        ] {
            let address: IpAddr = inside.parse().unwrap();
            assert!(!list.may_lead_to(address, "git.example.com"), "{inside}");
        }
        for outside in ["1.1.1.1", "2606:4700::1111", "10.1.2.3", "::ffff:10.1.2.3"] {
            assert!(list.may_lead_to(outside.parse().unwrap(), "git.example.com"), "{outside}");
        }
        assert!(list.may_lead_to("127.0.0.1".parse().unwrap(), "localhost"));
    }

    #[test]
    fn requests_are_read_strictly_and_forwarded_with_the_judged_host() {
        let request = parse(b"CONNECT [2606:4700::1111]:443 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!((request.host.as_str(), request.port), ("2606:4700::1111", 443));
        let request = parse(
            b"GET http://a.example:8080?q=1 HTTP/1.1\r\nHost: evil.example\r\nAccept: */*\r\n\
              Proxy-Authorization: secret\r\nConnection: keep-alive\r\n\r\n",
        )
        .unwrap();
        assert_eq!((request.host.as_str(), request.port), ("a.example", 8080));
        assert_eq!(
            String::from_utf8(request.head).unwrap(),
            "GET /?q=1 HTTP/1.1\r\nHost: a.example:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        );
        for wrong in [
            "CONNECT example.com HTTP/1.1\r\n\r\n",
            "CONNECT a@b:443 HTTP/1.1\r\n\r\n",
            "GET /path HTTP/1.1\r\nHost: example.com\r\n\r\n",
            "GET https://example.com/ HTTP/1.1\r\n\r\n",
            "GET http://good.example@evil.example/ HTTP/1.1\r\n\r\n",
            "GET http://good.example\\@evil/ HTTP/1.1\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nX: 1\nHost: b\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nX: 1\r\n folded\r\n\r\n",
            "nonsense\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }
}
