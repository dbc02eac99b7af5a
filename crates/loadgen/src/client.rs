//! One keep-alive HTTP/1.1 connection: sends rendered bytes, reads one answer, no pipelining.
//!
//! Cheap on purpose: one write and usually one read per request, a fixed buffer, no allocation unless
//! something fails. A connection that the server ended is opened again for the next request and counted.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http1::{Malformed, parse_head};

/// Read buffer per connection, and so the longest response head.
const BUFFER_BYTES: usize = 32 * 1024;

/// The ways in which a request can fail; `name` is the stable word in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// No connection could be opened.
    Connect,
    /// No complete answer within the timeout, connecting included.
    Timeout,
    /// The connection broke while sending or receiving.
    Reset,
    /// The server closed a connection without a byte of an answer.
    Closed,
    /// The server closed in the middle of an answer.
    Truncated,
    /// The answer isn't HTTP/1.1, or bytes follow it.
    Malformed,
    /// A complete answer with a status that wasn't expected.
    BadStatus,
    /// A complete answer whose body lacks the expected text.
    BodyMismatch,
    /// Due, but no connection became free before the run ended (constant rate only).
    Unsent,
}

impl FailureKind {
    /// Every kind, in the order of reports.
    pub const ALL: [FailureKind; 9] = [
        FailureKind::Connect,
        FailureKind::Timeout,
        FailureKind::Reset,
        FailureKind::Closed,
        FailureKind::Truncated,
        FailureKind::Malformed,
        FailureKind::BadStatus,
        FailureKind::BodyMismatch,
        FailureKind::Unsent,
    ];

    /// The stable name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Connect => "connect",
            FailureKind::Timeout => "timeout",
            FailureKind::Reset => "reset",
            FailureKind::Closed => "closed",
            FailureKind::Truncated => "truncated",
            FailureKind::Malformed => "malformed",
            FailureKind::BadStatus => "bad_status",
            FailureKind::BodyMismatch => "body_mismatch",
            FailureKind::Unsent => "unsent",
        }
    }
}

/// One failed request.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// What happened, for the first example of its kind in a report.
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, detail: impl Into<String>) -> Failure {
        Failure { kind, detail: detail.into() }
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Failure {
        Failure::new(FailureKind::Malformed, malformed.0)
    }
}

/// Sees an answer while it arrives. The seam for whatever needs the pieces and their instants.
pub(crate) trait ResponseSink {
    /// The final status, once per answer.
    fn head(&mut self, status: u16);
    /// Body content in order, without the framing; may be empty.
    fn content(&mut self, piece: &[u8]);
}

/// What a connection moved since the last `take_traffic`.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) connects: u64,
}

/// A connection and what is needed to open it again.
pub(crate) struct Client {
    addr: SocketAddr,
    timeout: Duration,
    /// Answers to `HEAD` have no body.
    to_head: bool,
    stream: Option<TcpStream>,
    buffer: Buffer,
    traffic: Traffic,
}

impl Client {
    pub(crate) fn new(addr: SocketAddr, timeout: Duration, to_head: bool) -> Client {
        Client { addr, timeout, to_head, stream: None, buffer: Buffer::new(), traffic: Traffic::default() }
    }

    /// Opens the connection ahead of the first request. A failure shows again in that request.
    pub(crate) async fn connect_ahead(&mut self) {
        let _ = tokio::time::timeout(self.timeout, self.connect()).await;
    }

    /// Sends one rendered request and reads its answer into `sink`, connecting first if needed.
    ///
    /// Any failure, including the timeout over all of it, drops the connection.
    pub(crate) async fn send(&mut self, request: &[u8], sink: &mut impl ResponseSink) -> Result<(), Failure> {
        let outcome = match tokio::time::timeout(self.timeout, self.exchange(request, sink)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::new(FailureKind::Timeout, format!("no answer in {:?}", self.timeout))),
        };
        if outcome.is_err() {
            self.stream = None;
        }
        outcome
    }

    /// What was moved since the last call.
    pub(crate) fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    async fn exchange(&mut self, request: &[u8], sink: &mut impl ResponseSink) -> Result<(), Failure> {
        self.drop_if_ended();
        if self.stream.is_none() {
            self.connect().await?;
        }
        let written = self.write(request).await;
        // A server may answer and close before it has read all (413): the answer counts, if there is one.
        match self.read_answer(sink).await {
            Ok(keep_alive) => {
                if !keep_alive || written.is_err() {
                    self.stream = None;
                }
                Ok(())
            }
            Err(failure) => Err(written.err().unwrap_or(failure)),
        }
    }

    /// Notices a connection that the server ended while it was idle. No system call unless it did.
    fn drop_if_ended(&mut self) {
        let Some(stream) = &self.stream else { return };
        match stream.try_read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.stream = None,
        }
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        let failed = |e: io::Error| Failure::new(FailureKind::Connect, e.to_string());
        let stream = TcpStream::connect(self.addr).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        self.stream = Some(stream);
        self.buffer.clear();
        self.traffic.connects += 1;
        Ok(())
    }

    async fn write(&mut self, request: &[u8]) -> Result<(), Failure> {
        let Some(stream) = &mut self.stream else { return Err(no_connection()) };
        stream.write_all(request).await.map_err(broken)?;
        self.traffic.sent_bytes += request.len() as u64;
        Ok(())
    }

    /// Reads one whole answer, skipping interim ones. Returns whether the connection can be used again.
    async fn read_answer(&mut self, sink: &mut impl ResponseSink) -> Result<bool, Failure> {
        let mut head = loop {
            match parse_head(self.buffer.pending(), self.to_head)? {
                Some(head) if head.status == 101 => return Err(Malformed("a switch of protocols").into()),
                Some(head) if head.status < 200 => self.buffer.take(head.len),
                Some(head) => break head,
                None if self.buffer.is_full() => return Err(Malformed("a head over 32 KiB").into()),
                None if self.fill().await? == 0 => return Err(self.ended("in the head")),
                None => {}
            }
        };
        self.buffer.take(head.len);
        sink.head(head.status);
        loop {
            let taken = head.body.feed(self.buffer.pending(), |content| sink.content(content))?;
            self.buffer.take(taken);
            if head.body.is_complete() {
                return self.check_nothing_follows().map(|()| head.keep_alive);
            }
            if self.fill().await? == 0 {
                let ends_here = head.body == crate::http1::Body::UntilClose;
                return if ends_here { Ok(false) } else { Err(self.truncated("in the body")) };
            }
        }
    }

    fn check_nothing_follows(&self) -> Result<(), Failure> {
        if self.buffer.pending().is_empty() {
            return Ok(());
        }
        Err(Malformed("bytes after the end of the answer").into())
    }

    async fn fill(&mut self) -> Result<usize, Failure> {
        let Some(stream) = &mut self.stream else { return Err(no_connection()) };
        let count = stream.read(self.buffer.room()).await.map_err(broken)?;
        self.buffer.end += count;
        self.traffic.received_bytes += count as u64;
        Ok(count)
    }

    fn ended(&self, place: &str) -> Failure {
        if self.buffer.pending().is_empty() {
            return Failure::new(FailureKind::Closed, "the server closed without an answer");
        }
        self.truncated(place)
    }

    fn truncated(&self, place: &str) -> Failure {
        Failure::new(FailureKind::Truncated, format!("the server closed {place}"))
    }
}

fn broken(error: io::Error) -> Failure {
    Failure::new(FailureKind::Reset, error.to_string())
}

fn no_connection() -> Failure {
    Failure::new(FailureKind::Connect, "no connection is open")
}

/// Received bytes that nobody has taken yet: `bytes[start..end]`.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    fn new() -> Buffer {
        Buffer { bytes: vec![0; BUFFER_BYTES], start: 0, end: 0 }
    }

    fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    fn pending(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn is_full(&self) -> bool {
        self.end - self.start == self.bytes.len()
    }

    fn take(&mut self, count: usize) {
        self.start += count;
        if self.start == self.end {
            self.clear();
        }
    }

    /// Free space behind the pending bytes, which move to the front when they stand at the end.
    /// Never empty: the parsers refuse lines that would fill the whole buffer.
    fn room(&mut self) -> &mut [u8] {
        if self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }
}
