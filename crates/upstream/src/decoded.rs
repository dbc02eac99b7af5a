//! The body of a reply without the compression that some servers apply although it was not accepted.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_compression::tokio::bufread::GzipDecoder;
use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use tokio::task::coop;
use tokio::time::{Instant, Sleep};
use tokio_util::io::{ReaderStream, StreamReader};

use crate::error::UpstreamError;
use crate::reply::{Deadline, ReplyBody};

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The connection or a time limit.
    #[error(transparent)]
    Upstream(UpstreamError),
    /// It can't be decompressed.
    #[error("{0}")]
    Encoding(String),
}

/// The chunks of a body. Dropping it cancels the rest of the reply.
pub struct DecodedBody(Body);

enum Body {
    Plain(Box<ReplyBody>),
    /// Few bytes can become many: the time limit of the whole reply is looked at here too.
    Gzip(BoxStream<'static, io::Result<Bytes>>, Option<Deadline>),
}

impl DecodedBody {
    /// The body of a reply with these headers.
    pub fn new(headers: &HeaderMap, body: ReplyBody) -> DecodedBody {
        // `x-gzip` is the same, by RFC 9110
        let is_gzip =
            headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip" || encoding == "x-gzip");
        if !is_gzip {
            return DecodedBody(Body::Plain(Box::new(body)));
        }
        let deadline = body.deadline();
        let mut decoder = GzipDecoder::new(StreamReader::new(body.map_err(io::Error::other)));
        decoder.multiple_members(true);
        DecodedBody(Body::Gzip(ReaderStream::new(decoder).boxed(), deadline))
    }

    /// Ready when the body has ended, or the time for it is over. What still comes is dropped.
    pub fn poll_end(&mut self, limit: &mut Pin<Box<Sleep>>, context: &mut Context<'_>) -> Poll<()> {
        while limit.deadline() > Instant::now() {
            match self.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => return limit.as_mut().poll(context),
            }
        }
        Poll::Ready(())
    }

    /// The whole body.
    ///
    /// # Errors
    /// Those of the upstream; the reason, if it can't be decoded or has more than `bytes_max` bytes.
    pub async fn read(self, bytes_max: usize) -> Result<Result<Bytes, String>, UpstreamError> {
        self.read_counted(bytes_max, &mut 0).await
    }

    /// The same; `read` is the number of bytes that came, also where the body breaks off.
    ///
    /// # Errors
    /// As [`DecodedBody::read`].
    pub async fn read_counted(
        mut self,
        bytes_max: usize,
        read: &mut usize,
    ) -> Result<Result<Bytes, String>, UpstreamError> {
        if let Body::Plain(body) = self.0 {
            return Ok(Ok(body.read_counted(bytes_max, read).await?));
        }
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.next().await {
            *read += chunk.as_ref().map_or(0, Bytes::len);
            match chunk {
                Ok(chunk) if whole.len() + chunk.len() <= bytes_max => whole.extend_from_slice(&chunk),
                Ok(_) => return Ok(Err(format!("more than {bytes_max} bytes"))),
                Err(DecodeError::Upstream(error)) => return Err(error),
                Err(error) => return Ok(Err(error.to_string())),
            }
        }
        Ok(Ok(whole.freeze()))
    }
}

impl Stream for DecodedBody {
    type Item = Result<Bytes, DecodeError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.get_mut().0 {
            Body::Plain(body) => body.poll_next_unpin(context).map_err(DecodeError::Upstream),
            Body::Gzip(chunks, deadline) => {
                // what is decoded is there without waiting: other tasks get their turn
                let turn = ready!(coop::poll_proceed(context));
                if let Some(Err(error)) = deadline.as_ref().map(Deadline::check) {
                    return Poll::Ready(Some(Err(DecodeError::Upstream(error))));
                }
                let chunk = chunks.poll_next_unpin(context);
                if chunk.is_ready() {
                    turn.made_progress();
                }
                chunk.map_err(broken)
            }
        }
    }
}

/// Why decoding ended: an error of the upstream within, or of what it sent.
fn broken(error: io::Error) -> DecodeError {
    let text = error.to_string();
    let inner = error.into_inner().and_then(|inner| inner.downcast::<UpstreamError>().ok());
    inner.map_or(DecodeError::Encoding(text), |inner| DecodeError::Upstream(*inner))
}
