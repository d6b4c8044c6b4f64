//! The networks that a rule can grant, each with the best set of layers and on the floor.

use super::support::{Run, Sandboxed, command, script, without};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::thread;

const MODEL: [&str; 3] = ["--model", "scripted/model.yaml", "t"];
const SETS: [&str; 2] = ["", "layers: [landlock, seccomp]"];

fn place(set: &str, network: &str, networks: &str, text: &str) -> Sandboxed {
    let place = Sandboxed::with_policy(&format!(
        "version: 1\nexec:\n  allow:\n    - {{ cmd: \"python3 a.py\", network: {network} }}\n    - \"python3 b.py\"\nfiles: {{ read: [\"**\"], write: [\"**\"] }}\nsandbox: {{ mode: require, {set} }}\n{networks}"
    ));
    place.write("ws/a.py", format!("{HEAD}{text}"));
    place.write("ws/b.py", format!("{HEAD}{text}"));
    place.write("model.yaml", script(&[&command("python3 a.py"), &command("python3 b.py")]));
    place
}

const HEAD: &str = r#"
import os, socket, sys, threading, urllib.request, urllib.error
def tell(what, call):
    try:
        print(what, "works", call() or "")
    except Exception as error:
        print(what, "refused", error)
def reach(host, port, family=socket.AF_INET, timeout=3):
    client = socket.socket(family); client.settimeout(timeout); client.connect((host, port))
    return client
"#;

/// A run with the system's own programs: a wrapper in somebody's home needs more than the policy grants.
fn run<'a>(place: &'a Sandboxed, args: &[&str]) -> Run<'a> {
    Run::exec(place, args).env("PATH", "/usr/local/bin:/usr/bin:/bin")
}

/// An HTTP server on this machine's loopback that answers everything with `hello`.
fn http_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut stream = stream;
                let mut buffer = [0u8; 8192];
                let got = stream.read(&mut buffer).unwrap_or(0);
                let head = String::from_utf8_lossy(&buffer[..got]).to_lowercase();
                let proxied = head.contains("connection: close");
                let body = format!("hello proxied={proxied}");
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
            });
        }
    });
    port
}

/// An address of this machine that is not loopback.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("203.0.113.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then_some(address)
}

#[test]
fn loopback_is_for_test_servers_on_both_families_and_for_nothing_else() {
    loopback(&[]);
}

/// In a default container the supervisor may not take a command's descriptors: it puts its own socket in
/// their place.
#[test]
fn loopback_is_the_same_where_descriptors_cannot_be_taken() {
    loopback(&[libc::SYS_pidfd_getfd, libc::SYS_process_vm_readv]);
}

fn loopback(refused: &[i64]) {
    for set in SETS {
        let outside = own_address();
        let listener = outside.map(|address| TcpListener::bind((address, 0)).unwrap());
        let (address, port) = listener.as_ref().map_or(("203.0.113.1".into(), 9), |listener| {
            let at = listener.local_addr().unwrap();
            (at.ip().to_string(), at.port())
        });
        let place = place(
            set,
            "loopback",
            "",
            &format!(
                r#"
def serve(host, family, bind=None):
    server = socket.socket(family); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((bind or host, 0)); server.listen(5)
    port = server.getsockname()[1]
    def answer():
        peer, _ = server.accept(); peer.sendall(b"pong"); peer.close()
    thread = threading.Thread(target=answer, daemon=True); thread.start()
    client = reach(host, port, family)
    assert client.recv(4) == b"pong"
    server.close()
tell("v4", lambda: serve("127.0.0.1", socket.AF_INET))
tell("v6", lambda: serve("::1", socket.AF_INET6))
tell("wildcard", lambda: serve("127.0.0.1", socket.AF_INET, "0.0.0.0"))
tell("127.9.9.9", lambda: serve("127.9.9.9", socket.AF_INET))
tell("own-address", lambda: reach("{address}", {port}))
tell("outside", lambda: reach("203.0.113.1", 80))
tell("mapped", lambda: reach("::ffff:203.0.113.1", 80, socket.AF_INET6))
tell("metadata", lambda: reach("169.254.169.254", 80))
def datagram():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", ("203.0.113.1", 53))
tell("datagram", datagram)
def fast():
    s = socket.socket(); s.sendto(b"x", 0x20000000, ("203.0.113.1", 80))
tell("fast-open", fast)
def race():
    # The address is changed while the call is judged: what was judged is what is reached.
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    good = bytes([2, 0]) + (9).to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
    bad = bytes([2, 0]) + (9).to_bytes(2, "big") + bytes([203, 0, 113, 1]) + bytes(8)
    buffer = ctypes.create_string_buffer(good, 16)
    stop = []
    def flip():
        while not stop:
            ctypes.memmove(buffer, bad, 16); ctypes.memmove(buffer, good, 16)
    flipper = threading.Thread(target=flip, daemon=True); flipper.start()
    seen = set()
    for _ in range(300):
        s = socket.socket(); s.setblocking(False)
        if libc.connect(s.fileno(), buffer, 16) == 0:
            seen.add(0)
        else:
            seen.add(ctypes.get_errno())
        try:
            seen.add(s.getpeername()[0])
        except OSError:
            pass
    stop.append(1); flipper.join()
    import errno
    reached = [e for e in seen if e in (0, errno.EINPROGRESS, "203.0.113.1")]
    if "203.0.113.1" in seen: print("RACE LOST", seen)
    return "kept " + str(sorted(map(str, seen)))
tell("race", race)
"#
            ),
        );
        let mut started = run(&place, &MODEL);
        without(&mut started, refused);
        let done = started.finish();
        done.assert(0, "completed", "completed");
        let told = &done.outputs()[0];
        for works in ["v4", "v6", "wildcard", "127.9.9.9", "race"] {
            assert!(told.contains(&format!("{works} works")), "{set:?} {works}: {told}");
        }
        for refused in ["own-address", "outside", "mapped", "metadata", "datagram", "fast-open"] {
            assert!(told.contains(&format!("{refused} refused")), "{set:?} {refused}: {told}");
        }
        assert!(!told.contains("RACE LOST") && !told.contains("timed out"), "{set:?}: {told}");
        let without = &done.outputs()[1];
        assert!(without.contains("v4 refused") && without.contains("v6 refused"), "{without}");
        let grades = done.result()["sandbox"].to_string();
        assert!(grades.contains("network.loopback"), "{grades}");
    }
}

#[test]
fn hosts_go_through_the_proxy_and_nowhere_else() {
    for set in SETS {
        let (named, other) = (http_server(), http_server());
        let place = place(
            set,
            "test",
            &format!("networks: {{ test: {{ hosts: [\"127.0.0.1:{named}\"] }} }}\n"),
            &format!(
                r#"
def get(url):
    return urllib.request.urlopen(url, timeout=5).read().decode()
tell("plain", lambda: get("http://127.0.0.1:{named}/x"))
tell("other-port", lambda: get("http://127.0.0.1:{other}/x"))
tell("other-host", lambda: get("http://example.com/"))
tell("metadata", lambda: get("http://169.254.169.254/"))
def connect(host, port):
    at = os.environ.get("https_proxy", "http://127.0.0.1:1").rsplit(":", 1)[1]
    client = reach("127.0.0.1", int(at))
    client.sendall(f"CONNECT {{host}}:{{port}} HTTP/1.1\r\nHost: {{host}}\r\n\r\n".encode())
    answer = client.recv(1000).decode()
    if " 200 " not in answer: raise Exception(answer.replace("\r\n", " | "))
    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
    text = b""
    while chunk := client.recv(1000): text += chunk
    return text.decode().split("\r\n\r\n")[1]
tell("tunnel", lambda: connect("127.0.0.1", {named}))
tell("tunnel-other", lambda: connect("127.0.0.1", {other}))
tell("tunnel-name", lambda: connect("localhost", {named}))
tell("direct", lambda: reach("127.0.0.1", {named}))
tell("direct-other", lambda: reach("127.0.0.1", {other}))
tell("outside", lambda: reach("203.0.113.1", 80))
def server():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(1); return reach("127.0.0.1", s.getsockname()[1])
tell("own-server", server)
tell("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
"#
            ),
        );
        let done = run(&place, &MODEL).finish();
        done.assert(0, "completed", "completed");
        let told = &done.outputs()[0];
        for works in ["plain works hello proxied=true", "tunnel works hello proxied=false"] {
            assert!(told.contains(works), "{set:?} {works}: {told}");
        }
        for refused in [
            "other-port",
            "other-host",
            "metadata",
            "tunnel-other",
            "tunnel-name",
            "direct",
            "direct-other",
            "outside",
            "own-server",
            "udp",
        ] {
            assert!(told.contains(&format!("\n{refused} refused")), "{set:?} {refused}: {told}");
        }
        assert!(told.contains("is not among the hosts"), "{told}");
        let without = &done.outputs()[1];
        assert!(!without.contains(" works"), "a rule without a network has none: {without}");
        assert!(done.result()["sandbox"].to_string().contains("network.hosts"));
    }
}

#[test]
fn an_open_network_is_open_and_still_no_way_to_sockets_outside() {
    for set in SETS {
        let port = http_server();
        let place = place(
            set,
            "open",
            "",
            &format!(
                r#"
tell("plain", lambda: urllib.request.urlopen("http://127.0.0.1:{port}/").read().decode())
tell("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)))
tell("names", lambda: socket.getaddrinfo("localhost", 80) and None)
def engine(path):
    s = socket.socket(socket.AF_UNIX); s.connect(path)
tell("engine", lambda: engine(os.environ["ENGINE"]))
"#
            ),
        );
        let engine = place.path("docker.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&engine).unwrap();
        let mut text = place.read("policy.yaml");
        text.push_str(&format!("env: {{ set: {{ ENGINE: {} }} }}\n", engine.display()));
        let readable = format!("read: [\"**\", \"{}/**\"]", place.path("").display());
        place.write("policy.yaml", text.replace("read: [\"**\"]", &readable));
        let done = run(&place, &MODEL).finish();
        done.assert(0, "completed", "completed");
        let told = &done.outputs()[0];
        for works in ["plain works hello", "udp works", "names works"] {
            assert!(told.contains(works), "{set:?} {works}: {told}");
        }
        assert!(told.contains("engine refused"), "{set:?}: {told}");
        assert!(!done.outputs()[1].contains("plain works"), "{}", done.outputs()[1]);
    }
}

#[test]
fn checks_have_the_network_of_rules_that_name_none() {
    let port = http_server();
    for (network, expected) in [("open", 0), ("none", 10)] {
        let place = Sandboxed::with_policy(&format!(
            "version: 1\nexec: {{ allow: [\"true\"] }}\nnetwork: {network}\nfiles: {{ read: [\"**\"] }}\n"
        ));
        place.write("model.yaml", script(&[&command("true")]));
        let check = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
        let args = ["--verify", check.as_str(), "--verify-attempts", "0"];
        let done = run(&place, &[&args[..], &MODEL[..]].concat()).finish();
        assert_eq!(done.status, expected, "{network}: {}", done.stderr);
    }
}
