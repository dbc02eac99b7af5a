//! The door: what can't be answered in time is refused here, before the HTTP server reads it.
//!
//! At many times the load that the cores can bear, refusing is most of what happens, and what it costs is taken from those who are
//! answered. To make a request of the bytes, to time, to route and to drop it takes several times as much as to look at its head.
//!
//! Only the plainest requests are refused here: whole, one at a time, by HTTP/1.1, with a body of known length. Everything else is let in
//! as it came, and refused by its handler.

mod verdict;

use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};

use axum::body::{Body, Bytes, to_bytes};
use axum::http::request::Parts;
use axum::http::{Request, header};
use axum::response::Response;
use futures_util::FutureExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Gateway;
use verdict::Verdict;

/// Requests with more headers are let in.
const HEADERS_MAX: usize = 32;
/// Bytes that are read at once: a request that is refused here has no more.
const READ_BYTES: usize = 8 << 10;
/// Memory that a connection keeps for what comes next.
const SHORT_BYTES: usize = 1 << 10;
/// The server behind ends a connection of which it hears nothing for so long.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// So after this time a request is let in.
const UNHEARD_MAX: Duration = Duration::from_secs(HEAD_TIMEOUT.as_secs() / 6);

/// A connection behind its door.
pub struct Door<S> {
    stream: S,
    gateway: Gateway,
    visit: Visit,
    /// When the server behind last got a request.
    heard: Instant,
    /// What came and is neither refused nor handed on yet.
    held: Vec<u8>,
    /// What of a refusal is not written yet.
    refusal: Vec<u8>,
    answered: Answered,
}

/// Who is inside.
#[derive(Clone, Copy, PartialEq)]
enum Visit {
    /// Nobody: all that was let in was answered.
    None,
    /// One request, of which so many bytes are still to come.
    One(u64),
    /// Nobody knows: whatever comes is let in.
    Open,
}

/// Whether the response to the one request inside was handed over to be written.
#[derive(Clone, Default)]
pub struct Answered(Arc<AtomicBool>);

/// The body of a response, which tells when it ends.
pub struct AnswerBody {
    body: Body,
    answered: Answered,
}

/// What becomes of the bytes that came while nobody was inside.
enum Decision {
    LetIn(Visit),
    Refuse(Response),
}

impl<S> Door<S> {
    /// A door before `stream`.
    pub fn new(stream: S, gateway: Gateway) -> Door<S> {
        Door {
            stream,
            gateway,
            visit: Visit::None,
            heard: Instant::now(),
            held: Vec::new(),
            refusal: Vec::new(),
            answered: Answered::default(),
        }
    }

    /// Has to be told of every response.
    pub fn answered(&self) -> Answered {
        self.answered.clone()
    }

    fn decide(&self) -> Decision {
        let (started, bytes) = (Instant::now(), &*self.held);
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let head_bytes = match request.parse(bytes) {
            Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
            Ok(httparse::Status::Partial) | Err(_) => return Decision::LetIn(Visit::Open),
        };
        let Some(body_bytes) = body_bytes(&request) else { return Decision::LetIn(Visit::Open) };
        let body = &bytes[head_bytes..];
        let Some(rest) = body_bytes.checked_sub(body.len() as u64) else {
            return Decision::LetIn(Visit::Open); // the next one came with it
        };
        let let_in = Decision::LetIn(Visit::One(rest));
        if rest > 0 || self.heard.elapsed() > UNHEARD_MAX {
            return let_in;
        }
        let Some(head) = parts_of(&request) else { return let_in };
        match Verdict::on(&self.gateway, &head, body) {
            Some(verdict) => Decision::Refuse(verdict.refuse(&self.gateway, &head, started)),
            None => let_in,
        }
    }
}

impl<S: AsyncWrite + Unpin> Door<S> {
    fn poll_refusal(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.refusal.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.refusal))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => drop(self.refusal.drain(..written)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Door<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let door = self.get_mut();
        loop {
            ready!(door.poll_refusal(context))?;
            if door.visit != Visit::None {
                if door.held.is_empty() {
                    let before = buffer.filled().len();
                    ready!(Pin::new(&mut door.stream).poll_read(context, buffer))?;
                    door.visit = door.visit.after(buffer.filled().len() - before);
                } else {
                    let count = door.held.len().min(buffer.remaining());
                    buffer.put_slice(&door.held[..count]);
                    door.held.drain(..count);
                    door.held.shrink_to(SHORT_BYTES);
                }
                return Poll::Ready(Ok(()));
            }
            // what the server offers may have no room for a head
            let mut room = [MaybeUninit::uninit(); READ_BYTES];
            let mut read = ReadBuf::uninit(&mut room);
            ready!(Pin::new(&mut door.stream).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                door.visit = Visit::Open; // which hears of the end
                continue;
            }
            door.held.extend_from_slice(read.filled());
            match door.decide() {
                Decision::LetIn(visit) => (door.visit, door.heard) = (visit, Instant::now()),
                Decision::Refuse(response) => {
                    door.held.clear();
                    door.held.shrink_to(SHORT_BYTES);
                    write_response(response, &mut door.refusal)?;
                }
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Door<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let door = self.get_mut();
        ready!(door.poll_refusal(context))?;
        Pin::new(&mut door.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let door = self.get_mut();
        ready!(door.poll_refusal(context))?;
        Pin::new(&mut door.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The server flushes when what it had to write is written, and drops the body of a response when all of it is to be written.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let door = self.get_mut();
        ready!(door.poll_refusal(context))?;
        ready!(Pin::new(&mut door.stream).poll_flush(context))?;
        if door.answered.0.swap(false, Ordering::Relaxed) {
            let is_over = door.visit == Visit::One(0) && door.held.is_empty();
            door.visit = if is_over { Visit::None } else { Visit::Open };
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let door = self.get_mut();
        ready!(door.poll_refusal(context))?;
        Pin::new(&mut door.stream).poll_shutdown(context)
    }
}

impl Visit {
    /// When so many more bytes came.
    fn after(self, bytes: usize) -> Visit {
        match self {
            Visit::One(rest) => rest.checked_sub(bytes as u64).map_or(Visit::Open, Visit::One),
            Visit::None | Visit::Open => self,
        }
    }
}

impl Answered {
    /// The same response, of which the door hears.
    pub fn by(self, response: Response) -> Response<AnswerBody> {
        response.map(|body| AnswerBody { body, answered: self })
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.answered.0.store(true, Ordering::Relaxed);
    }
}

/// The length of a request's body, if nothing is asked of the connection and nothing about the body is unusual.
fn body_bytes(request: &httparse::Request<'_, '_>) -> Option<u64> {
    if request.version != Some(1) {
        return None;
    }
    let mut length = None;
    for httparse::Header { name, value } in request.headers.iter() {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("content-length") {
            let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let bytes = std::str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()?;
            if length.replace(bytes).is_some() {
                return None;
            }
        }
        let is_plain_connection = value.eq_ignore_ascii_case(b"keep-alive");
        if is("transfer-encoding")
            || is("upgrade")
            || is("expect")
            || is("connection") && !is_plain_connection
        {
            return None;
        }
    }
    Some(length.unwrap_or(0))
}

/// The head of a request, with the headers that a refusal looks at.
fn parts_of(request: &httparse::Request<'_, '_>) -> Option<Parts> {
    let mut builder = Request::builder().method(request.method?).uri(request.path?);
    for sent in request.headers.iter() {
        let known = verdict::HEADERS.iter().find(|known| sent.name.eq_ignore_ascii_case(known.as_str()));
        if let Some(name) = known {
            builder = builder.header(name, sent.value);
        }
    }
    Some(builder.body(()).ok()?.into_parts().0)
}

/// Writes a response whose body is there, as the server would.
fn write_response(response: Response, to: &mut Vec<u8>) -> io::Result<()> {
    let (head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).now_or_never().and_then(Result::ok).unwrap_or_default();
    write!(
        to,
        "HTTP/1.1 {} {}\r\n",
        head.status.as_str(),
        head.status.canonical_reason().unwrap_or_default()
    )?;
    for (name, value) in &head.headers {
        to.extend_from_slice(name.as_str().as_bytes());
        to.extend_from_slice(b": ");
        to.extend_from_slice(value.as_bytes());
        to.extend_from_slice(b"\r\n");
    }
    let now = httpdate::HttpDate::from(SystemTime::now());
    write!(to, "{}: {}\r\n{}: {now}\r\n\r\n", header::CONTENT_LENGTH, body.len(), header::DATE)?;
    to.extend_from_slice(&body);
    Ok(())
}
