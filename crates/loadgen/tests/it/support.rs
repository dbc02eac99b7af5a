//! A server of a few lines that answers by script, and plans against it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weir_loadgen::{Expect, Limit, Load, Plan, RequestTemplate, Target};

/// One request as the server saw it.
pub(crate) struct Seen {
    /// How many requests came before it, over all connections.
    pub(crate) number: usize,
    /// Its body.
    pub(crate) body: Vec<u8>,
}

/// Starts a server that hands every request to `answer`, each connection on a thread of its own.
/// `answer` writes what it likes; the connection is closed when it returns `false`.
pub(crate) fn serve(answer: impl Fn(Seen, &mut TcpStream) -> bool + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (answer, count) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer, count) = (stream.unwrap(), Arc::clone(&answer), Arc::clone(&count));
            std::thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while let Some(body) = read_request(&mut reader) {
                    let number = count.fetch_add(1, Ordering::SeqCst);
                    if !answer(Seen { number, body }, &mut stream) {
                        return;
                    }
                }
            });
        }
    });
    addr
}

/// Starts a server that answers 200 to everything, after `answer` had its way.
pub(crate) fn serve_ok(before: impl Fn(Seen) + Send + Sync + 'static) -> SocketAddr {
    serve(move |seen, stream| {
        before(seen);
        reply(stream, "200 OK", "{}")
    })
}

/// Writes a whole answer; returns whether it could.
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
    let target = Target::parse(&url, false).unwrap();
    let template = RequestTemplate::new("POST", &[]).unwrap();
    Plan {
        requests: vec![template.render(&target, br#"{"query":"q"}"#)],
        url,
        target,
        to_head: false,
        load: Load::Closed,
        concurrency,
        threads: 2,
        limit: Limit { requests: Some(requests), duration: None },
        warmup: 0,
        timeout: Duration::from_secs(5),
        expect: Expect::default(),
        pids: Vec::new(),
        pid_tree: false,
    }
}
