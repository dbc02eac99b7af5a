//! A small scripted server, and plans for it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weir_loadgen::{Expect, Limit, Load, LoadTarget, Plan, RequestTemplate};

/// A request that the server received.
pub(crate) struct Received {
    /// Number of earlier requests, over all connections.
    pub(crate) number: usize,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// Starts a server that passes every request to `respond`, with one thread per connection.
/// `respond` writes any bytes; the connection is closed when it returns `false`.
pub(crate) fn serve(
    respond: impl Fn(Received, &mut TcpStream) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (respond, count) = (Arc::new(respond), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, respond, count) = (stream.unwrap(), Arc::clone(&respond), Arc::clone(&count));
            std::thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while let Some(body) = read_request(&mut reader) {
                    let number = count.fetch_add(1, Ordering::SeqCst);
                    if !respond(Received { number, body }, &mut stream) {
                        return;
                    }
                }
            });
        }
    });
    addr
}

/// Starts a server that runs `before` and then responds with 200.
pub(crate) fn serve_ok(before: impl Fn(Received) + Send + Sync + 'static) -> SocketAddr {
    serve(move |request, stream| {
        before(request);
        reply(stream, "200 OK", "{}")
    })
}

/// Writes a response; returns whether that succeeded.
pub(crate) fn reply(stream: &mut TcpStream, status: &str, body: &str) -> bool {
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).is_ok()
}

fn read_request(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body_len = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(len) = line.strip_prefix("content-length: ") {
            body_len = len.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; body_len];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

/// A closed loop of `requests` small POSTs on `concurrency` connections.
pub(crate) fn plan(addr: SocketAddr, concurrency: usize, requests: u64) -> Plan {
    let url = format!("http://{addr}/v1/search");
    let target = LoadTarget::parse(&url, false).unwrap();
    let template = RequestTemplate::new("POST", &[]).unwrap();
    Plan {
        requests: vec![template.render(&target, br#"{"query":"q"}"#)],
        url,
        target,
        is_head: false,
        load: Load::ClosedLoop,
        concurrency,
        threads: 2,
        limit: Limit { requests: Some(requests), duration: None },
        warmup: 0,
        timeout: Duration::from_secs(5),
        expect: Expect::default(),
        stream: None,
        pids: Vec::new(),
        pid_tree: false,
    }
}
