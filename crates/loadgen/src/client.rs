//! One keep-alive HTTP/1.1 connection: sends a rendered request, reads one response, no pipelining.
//!
//! A request costs one write, usually one read and no allocation, in a fixed buffer. If the server closed the connection,
//! the next request opens it again, and the reconnect is counted.
//!
//! It is not hyper because a client on `hyper::client::conn::http1` (the same event loop and connections, prepared requests)
//! took 1.5 to 1.6 times the CPU time per request. Against the null server on two shared cores, medians of six rounds in
//! alternation: 2.7 and 4.4 us per request, 136,000 and 90,000 requests/s with 16 connections on two threads; 3.6 and 5.6 us,
//! 75,000 and 60,000 requests/s with one connection.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http1::{Malformed, parse_head};

/// Read buffer per connection. It also limits the response head.
const BUFFER_BYTES: usize = 32 * 1024;

/// Why a request failed, in the order of reports, which have these names in snake case.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    strum::IntoStaticStr,
    strum::VariantArray,
    serde::Serialize,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FailureKind {
    /// No connection could be opened.
    Connect,
    /// No complete response within the timeout, which includes connecting.
    Timeout,
    /// The connection broke while sending or receiving.
    Reset,
    /// The server closed the connection before the first byte of a response.
    Closed,
    /// The server closed the connection within a response.
    Truncated,
    /// The response isn't HTTP/1.1, or bytes follow it.
    Malformed,
    /// A complete response with an unexpected status.
    BadStatus,
    /// A complete response without the expected text in its body.
    BodyMismatch,
    /// A complete response whose stream does not end by `data: [DONE]`, or has too few events.
    StreamTruncated,
    /// A whole stream with other bytes than the reference.
    StreamDiffers,
    /// Due, but never sent: no connection became free before the run ended (constant rate only).
    Unsent,
}

impl FailureKind {
    /// Whether the response was complete, but not as expected.
    pub(crate) fn is_of_complete_response(self) -> bool {
        use FailureKind::{BadStatus, BodyMismatch, StreamDiffers, StreamTruncated};
        matches!(self, BadStatus | BodyMismatch | StreamDiffers | StreamTruncated)
    }
}

/// One failed request.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// A description; a report shows the first of each kind.
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

/// Receives a response piece by piece, as it is read.
pub(crate) trait ResponseSink {
    /// The final status, once per response.
    fn on_status(&mut self, status: u16);
    /// A piece of the body without framing; may be empty.
    fn on_body(&mut self, piece: &[u8]);
}

/// Bytes and connects since the last `take_traffic`.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) connects: u64,
}

/// A connection, and the address to open it again.
pub(crate) struct Client {
    addr: SocketAddr,
    timeout: Duration,
    /// Whether requests are `HEAD`, whose responses have no body.
    is_head: bool,
    stream: Option<TcpStream>,
    buffer: Buffer,
    traffic: Traffic,
}

impl Client {
    pub(crate) fn new(addr: SocketAddr, timeout: Duration, is_head: bool) -> Client {
        Client { addr, timeout, is_head, stream: None, buffer: Buffer::new(), traffic: Traffic::default() }
    }

    /// Opens the connection before the first request. Errors are ignored: that request reports them.
    pub(crate) async fn preconnect(&mut self) {
        let _ = tokio::time::timeout(self.timeout, self.connect()).await;
    }

    /// Sends one rendered request and reads the response into `sink`; connects first if needed.
    ///
    /// The timeout covers all of it. Any failure closes the connection.
    pub(crate) async fn send(&mut self, request: &[u8], sink: &mut impl ResponseSink) -> Result<(), Failure> {
        let outcome = match tokio::time::timeout(self.timeout, self.exchange(request, sink)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                Err(Failure::new(FailureKind::Timeout, format!("no response within {:?}", self.timeout)))
            }
        };
        if outcome.is_err() {
            self.stream = None;
        }
        outcome
    }

    /// Closes the connection, also within a response.
    pub(crate) fn close(&mut self) {
        self.stream = None;
    }

    /// Returns the traffic since the last call.
    pub(crate) fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    async fn exchange(&mut self, request: &[u8], sink: &mut impl ResponseSink) -> Result<(), Failure> {
        self.drop_if_closed();
        if self.stream.is_none() {
            self.connect().await?;
        }
        let written = self.write(request).await;
        // A server may respond and close before it has read the whole request (413). That response counts.
        match self.read_response(sink).await {
            Ok(keep_alive) => {
                if !keep_alive || written.is_err() {
                    self.stream = None;
                }
                Ok(())
            }
            Err(failure) => Err(written.err().unwrap_or(failure)),
        }
    }

    /// Drops a connection that the server closed while it was idle. Costs no system call if it is open: tokio knows that
    /// nothing can be read.
    fn drop_if_closed(&mut self) {
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
        stream.write_all(request).await.map_err(reset)?;
        self.traffic.sent_bytes += request.len() as u64;
        Ok(())
    }

    /// Reads one response and skips interim ones (1xx). Returns whether the connection can be used again.
    async fn read_response(&mut self, sink: &mut impl ResponseSink) -> Result<bool, Failure> {
        let mut head = loop {
            match parse_head(self.buffer.pending(), self.is_head)? {
                Some(head) if head.status == 101 => {
                    return Err(Malformed("the server switched protocols").into());
                }
                Some(head) if head.status < 200 => self.buffer.consume(head.len),
                Some(head) => break head,
                None if self.buffer.is_full() => {
                    return Err(Malformed("the head is longer than 32 KiB").into());
                }
                None if self.fill().await? == 0 => return Err(self.closed_within("in the head")),
                None => {}
            }
        };
        self.buffer.consume(head.len);
        sink.on_status(head.status);
        loop {
            let taken = head.body.decode(self.buffer.pending(), |piece| sink.on_body(piece))?;
            self.buffer.consume(taken);
            if head.body.is_complete() {
                return self.check_nothing_follows().map(|()| head.keep_alive);
            }
            if self.fill().await? == 0 {
                let ends_at_close = head.body == crate::http1::Body::UntilClose;
                return if ends_at_close { Ok(false) } else { Err(self.truncated("in the body")) };
            }
        }
    }

    fn check_nothing_follows(&self) -> Result<(), Failure> {
        if self.buffer.pending().is_empty() {
            return Ok(());
        }
        Err(Malformed("bytes follow the end of the response").into())
    }

    async fn fill(&mut self) -> Result<usize, Failure> {
        let Some(stream) = &mut self.stream else { return Err(no_connection()) };
        let count = stream.read(self.buffer.spare()).await.map_err(reset)?;
        self.buffer.end += count;
        self.traffic.received_bytes += count as u64;
        Ok(count)
    }

    fn closed_within(&self, place: &str) -> Failure {
        if self.buffer.pending().is_empty() {
            return Failure::new(FailureKind::Closed, "the server closed the connection before a response");
        }
        self.truncated(place)
    }

    fn truncated(&self, place: &str) -> Failure {
        Failure::new(FailureKind::Truncated, format!("the server closed the connection {place}"))
    }
}

fn reset(error: io::Error) -> Failure {
    Failure::new(FailureKind::Reset, error.to_string())
}

fn no_connection() -> Failure {
    Failure::new(FailureKind::Connect, "no connection is open")
}

/// Received bytes that are not parsed yet: `bytes[start..end]`.
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

    fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.end {
            self.clear();
        }
    }

    /// Free space behind the pending bytes, which are moved to the front when they reach the end of the buffer.
    /// Never empty: the parsers reject lines that would fill the whole buffer.
    fn spare(&mut self) -> &mut [u8] {
        if self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }
}
