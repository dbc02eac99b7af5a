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
use tokio_util::io::{ReaderStream, StreamReader};
use weir_api::ErrorCode;
use weir_upstream::{Deadline, ReplyBody, UpstreamError};

/// Why a stream broke.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The connection or a time limit.
    #[error(transparent)]
    Upstream(UpstreamError),
    /// The provider ended its stream by an error event, which the caller has got.
    #[error("the provider sent an error event")]
    Told,
    /// What came is no stream of the provider's API, or ended early.
    #[error("{0}")]
    Events(String),
}

impl Broken {
    /// The code that the caller and the request log get.
    pub(crate) fn code(&self) -> &'static str {
        let code = if self.is_timeout() { ErrorCode::UpstreamTimeout } else { ErrorCode::UpstreamError };
        code.as_str()
    }

    /// Whether a time limit passed.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Broken::Upstream(UpstreamError::Timeout { .. }))
    }

    /// What can be done about it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.is_timeout() {
            true => "retry, or raise `idle_timeout_ms` or `total_timeout_ms` of the upstream",
            false => "retry",
        }
    }

    /// The reason for the log, where no text of a provider may stand: it can repeat the prompt.
    pub(crate) fn without_text(&self) -> String {
        match self {
            Broken::Upstream(error) => error.without_text(),
            Broken::Told => self.to_string(),
            Broken::Events(_) => "its events can't be read, or ended early".to_owned(),
        }
    }
}

/// The chunks of a body. Dropping it cancels the rest of the reply.
pub(crate) enum DecodedBody {
    Plain(Box<ReplyBody>),
    /// Few bytes can become many: the time limit of the whole reply is looked at here too.
    Gzip(BoxStream<'static, io::Result<Bytes>>, Option<Deadline>),
}

impl DecodedBody {
    /// The body of a reply with these headers.
    pub(crate) fn new(headers: &HeaderMap, body: ReplyBody) -> DecodedBody {
        let is_gzip = headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip");
        if !is_gzip {
            return DecodedBody::Plain(Box::new(body));
        }
        let deadline = body.deadline();
        let decoder = GzipDecoder::new(StreamReader::new(body.map_err(io::Error::other)));
        DecodedBody::Gzip(ReaderStream::new(decoder).boxed(), deadline)
    }

    /// The whole body.
    ///
    /// # Errors
    /// Those of the upstream; the reason, if it can't be decoded or has more than `bytes_max` bytes.
    pub(crate) async fn read(self, bytes_max: usize) -> Result<Result<Bytes, String>, UpstreamError> {
        let mut chunks = match self {
            DecodedBody::Plain(body) => return Ok(Ok(body.read(bytes_max).await?)),
            DecodedBody::Gzip(..) => self,
        };
        let mut whole = BytesMut::new();
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) if whole.len() + chunk.len() <= bytes_max => whole.extend_from_slice(&chunk),
                Ok(_) => return Ok(Err(format!("more than {bytes_max} bytes"))),
                Err(Broken::Upstream(error)) => return Err(error),
                Err(broken) => return Ok(Err(broken.to_string())),
            }
        }
        Ok(Ok(whole.freeze()))
    }
}

impl Stream for DecodedBody {
    type Item = Result<Bytes, Broken>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.get_mut() {
            DecodedBody::Plain(body) => body.poll_next_unpin(context).map_err(Broken::Upstream),
            DecodedBody::Gzip(chunks, deadline) => {
                // what is decoded is there without waiting: other tasks get their turn
                let turn = ready!(coop::poll_proceed(context));
                if let Some(Err(error)) = deadline.as_ref().map(Deadline::check) {
                    return Poll::Ready(Some(Err(Broken::Upstream(error))));
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
fn broken(error: io::Error) -> Broken {
    let text = error.to_string();
    let inner = error.into_inner().and_then(|inner| inner.downcast::<UpstreamError>().ok());
    inner.map_or(Broken::Events(text), |inner| Broken::Upstream(*inner))
}
