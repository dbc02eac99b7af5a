//! The body of a reply, as a stream or read as a whole.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use http_body_util::BodyDataStream;
use hyper::body::{Body as _, Incoming};
use weir_policy::upstream::Outcome;

use crate::attempt::Attempt;
use crate::endpoint::Endpoint;
use crate::{Awaited, Result, UpstreamError};

/// The body of a successful reply: a stream of chunks that ends after the first error. Dropping it cancels the rest of the reply.
pub struct ReplyBody {
    endpoint: Arc<Endpoint>,
    /// `None` after the end or an error: by then the permit is released.
    rest: Option<(Incoming, Attempt)>,
}

impl ReplyBody {
    pub(crate) fn new(body: Incoming, mut attempt: Attempt) -> ReplyBody {
        attempt.record(Outcome::Started);
        ReplyBody { endpoint: attempt.endpoint.clone(), rest: Some((body, attempt)) }
    }

    /// The time limit of the whole reply, for a reader that decodes more than it reads.
    pub fn deadline(&self) -> Option<Deadline> {
        let (_, attempt) = self.rest.as_ref()?;
        Some(Deadline { endpoint: self.endpoint.clone(), end: attempt.end(), total: attempt.total() })
    }

    /// The whole body.
    ///
    /// # Errors
    /// [`UpstreamError`]; also for a body of more than `bytes_max` bytes.
    pub async fn read(self, bytes_max: usize) -> Result<Bytes> {
        self.read_counted(bytes_max, &mut 0).await
    }

    /// The same; `read` is the number of bytes that came, also where the body breaks off.
    pub(crate) async fn read_counted(mut self, bytes_max: usize, read: &mut usize) -> Result<Bytes> {
        let Some(first) = self.next().await.transpose()? else { return Ok(Bytes::new()) };
        *read = first.len();
        if first.len() > bytes_max {
            return Err(self.too_large(bytes_max));
        }
        if self.is_at_end() {
            return Ok(first); // without a copy
        }
        let mut whole = BytesMut::from(first);
        while let Some(chunk) = self.next().await {
            let chunk = chunk?;
            *read += chunk.len();
            if whole.len() + chunk.len() > bytes_max {
                return Err(self.too_large(bytes_max));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// At most `bytes_max` bytes of the start of an error's body, without reporting an error: it is part of one.
    pub(crate) async fn read_start(mut self, bytes_max: usize) -> Vec<u8> {
        let Some((body, attempt)) = self.rest.take() else { return Vec::new() };
        let mut chunks = BodyDataStream::new(body);
        let mut start = Vec::new();
        let read = async {
            while start.len() < bytes_max
                && let Some(Ok(chunk)) = chunks.next().await
            {
                start.extend_from_slice(&chunk);
            }
        };
        drop(tokio::time::timeout_at(attempt.limit_at().into(), read).await);
        start
    }

    /// Whether nothing follows, as far as that is known without waiting.
    fn is_at_end(&mut self) -> bool {
        match &mut self.rest {
            Some((body, attempt)) if body.is_end_stream() => {
                attempt.record(Outcome::Answered);
                self.rest = None;
                true
            }
            Some(_) => false,
            None => true,
        }
    }

    /// Ends the body by the error that it is too large.
    pub(crate) fn too_large(&mut self, bytes_max: usize) -> UpstreamError {
        self.rest = None;
        self.endpoint.failed(self.endpoint.reply(&format!("more than {bytes_max} bytes")))
    }
}

/// The time limit of a whole reply.
pub struct Deadline {
    endpoint: Arc<Endpoint>,
    end: Instant,
    total: Duration,
}

impl Deadline {
    /// # Errors
    /// [`UpstreamError::Timeout`] when it has passed. It is counted and logged.
    pub fn check(&self) -> Result<()> {
        match Instant::now() < self.end {
            true => Ok(()),
            false => Err(self.endpoint.failed(self.endpoint.timeout(Awaited::End, self.total))),
        }
    }
}

impl Stream for ReplyBody {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some((body, attempt)) = &mut self.rest else { return Poll::Ready(None) };
        let error = loop {
            match Pin::new(&mut *body).poll_frame(context) {
                // a reader that is slower than the upstream finds something each time
                Poll::Ready(Some(Ok(_))) if Instant::now() >= attempt.end() => {
                    break attempt.fail(attempt.endpoint.timeout(Awaited::End, attempt.total()));
                }
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(chunk) = frame.into_data() {
                        if !body.is_end_stream() {
                            attempt.restart_idle_timer();
                        }
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                }
                Poll::Ready(Some(Err(error))) => break attempt.fail(attempt.endpoint.broken(&error)),
                Poll::Ready(None) => {
                    attempt.record(Outcome::Answered);
                    self.rest = None;
                    return Poll::Ready(None);
                }
                Poll::Pending => break ready!(attempt.poll_timeout(context)),
            }
        };
        self.rest = None;
        Poll::Ready(Some(Err(error)))
    }
}
