//! The bytes of a connection, noted in its activity.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::Activity;

/// A stream that notes what it reads and writes.
pub(super) struct NotedStream<S> {
    inner: S,
    activity: Arc<Activity>,
}

impl<S> NotedStream<S> {
    pub(super) fn new(inner: S, activity: Arc<Activity>) -> NotedStream<S> {
        NotedStream { inner, activity }
    }

    fn note_write<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &written {
            Poll::Ready(_) => self.activity.written(),
            Poll::Pending => self.activity.write_blocked(),
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for NotedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = &read {
            if buffer.filled().len() > before {
                self.activity.received();
            } else if buffer.remaining() > 0 && self.activity.hides_end(context) {
                return Poll::Pending;
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for NotedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.note_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.note_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        self.note_write(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
