//! The body of a reply: steps, made into frames at their time.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::events::{EventStream, Step};
use crate::stats::{Phase, RequestGuard};

/// Events without a delay between them are packed into frames of about this size.
const FRAME_BYTES: usize = 16 * 1024;
/// From the last byte to the close of a dropped connection, so that hyper sends that byte.
const DROP_PAUSE: Duration = Duration::from_millis(20);

/// The connection ends without a reply: because of a fault, or because the client closed it.
#[derive(Debug, thiserror::Error)]
#[error("connection closed: by a fault, or by the client")]
pub(crate) struct Dropped;

/// The steps of a body: prepared ones, then those of a stream.
pub(crate) struct Steps {
    pub(crate) ready: VecDeque<Step>,
    pub(crate) stream: Option<Box<EventStream>>,
}

impl Steps {
    fn next(&mut self) -> Option<Step> {
        if let (true, Some(stream)) = (self.ready.is_empty(), &mut self.stream) {
            stream.refill(&mut self.ready);
        }
        self.ready.pop_front()
    }
}

/// The body of a reply. Dropping it before its end counts as cancelled by the client.
pub(crate) struct ReplyBody {
    steps: Steps,
    /// When the next bytes are sent: the sum of the delays so far.
    due: Instant,
    sleep: Option<Pin<Box<Sleep>>>,
    gzip: Option<GzEncoder<Vec<u8>>>,
    /// Length, if known and not compressed.
    content_length: Option<u64>,
    guard: RequestGuard,
    is_dropping: bool,
    is_ended: bool,
}

impl ReplyBody {
    /// A body of known length.
    pub(crate) fn whole(body: String, mut guard: RequestGuard) -> ReplyBody {
        guard.phase = Phase::FirstToken;
        let content_length = Some(body.len() as u64);
        let steps = Steps { ready: VecDeque::from([Step::Send(body.into_bytes())]), stream: None };
        ReplyBody { content_length, ..ReplyBody::new(steps, guard) }
    }

    /// A body of these steps.
    pub(crate) fn new(steps: Steps, mut guard: RequestGuard) -> ReplyBody {
        guard.phase = Phase::FirstToken;
        ReplyBody {
            steps,
            due: Instant::now(),
            sleep: None,
            gzip: None,
            content_length: None,
            guard,
            is_dropping: false,
            is_ended: false,
        }
    }

    /// Announces the length; the sent bytes can be fewer, if the connection is dropped.
    pub(crate) fn with_content_length(mut self, bytes: u64) -> ReplyBody {
        self.content_length = Some(bytes);
        self
    }

    /// Compresses the body. Each frame can be decompressed when it arrives.
    pub(crate) fn with_gzip(mut self) -> ReplyBody {
        self.gzip = Some(GzEncoder::new(Vec::new(), Compression::fast()));
        self.content_length = None;
        self
    }

    fn wait_until(&mut self, due: Instant) {
        if due > Instant::now() {
            self.sleep = Some(Box::pin(tokio::time::sleep_until(due)));
        }
    }

    /// Collects the bytes that are due, up to about [`FRAME_BYTES`].
    fn collect(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.sleep.is_none() && out.len() < FRAME_BYTES {
            match self.steps.next() {
                Some(Step::Send(bytes)) if out.is_empty() => out = bytes,
                Some(Step::Send(bytes)) => out.extend(bytes),
                Some(Step::Wait(delay)) => {
                    self.due += delay;
                    self.wait_until(self.due);
                }
                Some(Step::Drop) => {
                    self.is_dropping = true;
                    self.wait_until(Instant::now() + DROP_PAUSE);
                }
                None => {
                    self.is_ended = true;
                    break;
                }
            }
        }
        out
    }

    fn compress(&mut self, out: Vec<u8>) -> io::Result<Vec<u8>> {
        let Some(encoder) = &mut self.gzip else { return Ok(out) };
        encoder.write_all(&out)?;
        if self.is_ended {
            encoder.try_finish()?;
        } else {
            encoder.flush()?;
        }
        Ok(std::mem::take(encoder.get_mut()))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Dropped;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Dropped>>> {
        let this = self.get_mut();
        loop {
            if this.is_ended {
                return Poll::Ready(None);
            }
            if let Some(sleep) = &mut this.sleep {
                ready!(sleep.as_mut().poll(cx));
                this.sleep = None;
            }
            if this.is_dropping {
                this.guard.abandon();
                return Poll::Ready(Some(Err(Dropped)));
            }
            let sent = this.collect();
            if sent.is_empty() && !this.is_ended {
                continue;
            }
            // Writing to memory does not fail; if it did, the connection would end.
            let Ok(frame) = this.compress(sent) else { return Poll::Ready(Some(Err(Dropped))) };
            this.guard.phase = Phase::Midstream;
            this.guard.add_response_bytes(frame.len());
            if this.is_ended {
                this.guard.complete();
            }
            if !frame.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(frame.into()))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_ended
    }

    fn size_hint(&self) -> SizeHint {
        self.content_length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
