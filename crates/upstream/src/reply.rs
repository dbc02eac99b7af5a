//! The body of a reply, as a stream or read as a whole.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use http_body_util::BodyDataStream;
use hyper::body::Incoming;
use weir_policy::upstream::Outcome;

use crate::attempt::Attempt;
use crate::endpoint::Endpoint;
use crate::{Result, SseEvents, UpstreamError};

/// The body of a successful reply: a stream of chunks that ends after the first error. Dropping it cancels the rest of the reply.
pub struct ReplyBody {
    endpoint: Arc<Endpoint>,
    /// `None` after the end or an error: by then the permit is released.
    rest: Option<(BodyDataStream<Incoming>, Attempt)>,
}

impl ReplyBody {
    pub(crate) fn new(body: Incoming, mut attempt: Attempt) -> ReplyBody {
        attempt.record(Outcome::Started);
        ReplyBody { endpoint: attempt.endpoint.clone(), rest: Some((BodyDataStream::new(body), attempt)) }
    }

    /// The whole body.
    ///
    /// # Errors
    /// [`UpstreamError`]; also for a body of more than `bytes_max` bytes.
    pub async fn read(mut self, bytes_max: usize) -> Result<Bytes> {
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.next().await {
            let chunk = chunk?;
            if whole.len() + chunk.len() > bytes_max {
                return Err(self.too_large(bytes_max));
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// The body as server-sent events, each of at most `event_bytes_max` bytes.
    pub fn events(self, event_bytes_max: usize) -> SseEvents {
        SseEvents::new(self, event_bytes_max)
    }

    /// Ends the body by the error that it is too large.
    pub(crate) fn too_large(&mut self, bytes_max: usize) -> UpstreamError {
        self.rest = None;
        self.endpoint.failed(self.endpoint.reply(&format!("more than {bytes_max} bytes")))
    }
}

impl Stream for ReplyBody {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some((body, attempt)) = &mut self.rest else { return Poll::Ready(None) };
        let error = match body.poll_next_unpin(context) {
            Poll::Ready(Some(Ok(chunk))) => {
                attempt.restart_idle_timer();
                return Poll::Ready(Some(Ok(chunk)));
            }
            Poll::Ready(Some(Err(error))) => attempt.fail(attempt.endpoint.connect(&error)),
            Poll::Ready(None) => {
                attempt.record(Outcome::Answered);
                self.rest = None;
                return Poll::Ready(None);
            }
            Poll::Pending => ready!(attempt.poll_timeout(context)),
        };
        self.rest = None;
        Poll::Ready(Some(Err(error)))
    }
}
