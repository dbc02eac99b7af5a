//! The socket of a connection, whose writes a request can cut into small ones.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// How a connection is written to; set by each request, for its reply.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// Most bytes per write; 0 is no limit.
    cut_bytes: AtomicUsize,
    cut_pause_us: AtomicU64,
    is_reset: AtomicBool,
}

impl Wire {
    pub(crate) fn set_cut(&self, bytes: u64, pause_ms: f64) {
        self.cut_bytes.store(bytes as usize, Ordering::Relaxed);
        self.cut_pause_us.store((pause_ms * 1000.0) as u64, Ordering::Relaxed);
    }

    /// Ends the connection by a reset when it is closed.
    pub(crate) fn set_reset(&self) {
        self.is_reset.store(true, Ordering::Relaxed);
    }
}

/// A socket that is written to in the way of its [`Wire`].
pub(crate) struct CutStream<S> {
    stream: S,
    wire: Arc<Wire>,
    state: Cut,
}

/// Whether the next write is delayed.
enum Cut {
    Ready,
    /// The task yields once, so that the write before is a write of its own.
    Yield,
    Pause(Pin<Box<Sleep>>),
}

impl<S> CutStream<S> {
    pub(crate) fn new(stream: S, wire: Arc<Wire>) -> CutStream<S> {
        CutStream { stream, wire, state: Cut::Ready }
    }
}

/// A connection whose end depends on its [`Wire`].
pub(crate) struct ResettingStream {
    pub(crate) stream: TcpStream,
    pub(crate) wire: Arc<Wire>,
}

impl Drop for ResettingStream {
    fn drop(&mut self) {
        if self.wire.is_reset.load(Ordering::Relaxed) {
            // Without the option the connection ends by FIN, which is also an end.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for ResettingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ResettingStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> CutStream<S> {
    /// Writes at most `max` bytes, after the pause that the write before asked for.
    fn poll_cut(&mut self, cx: &mut Context<'_>, buf: &[u8], max: usize) -> Poll<io::Result<usize>> {
        match &mut self.state {
            Cut::Ready => {}
            Cut::Yield => {
                self.state = Cut::Ready;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Cut::Pause(sleep) => ready!(sleep.as_mut().poll(cx)),
        }
        self.state = Cut::Ready;
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &buf[..buf.len().min(max)]))?;
        self.state = match self.wire.cut_pause_us.load(Ordering::Relaxed) {
            0 => Cut::Yield,
            pause => Cut::Pause(Box::pin(tokio::time::sleep(Duration::from_micros(pause)))),
        };
        Poll::Ready(Ok(written))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CutStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.wire.cut_bytes.load(Ordering::Relaxed) {
            0 => Pin::new(&mut self.stream).poll_write(cx, buf),
            max => self.poll_cut(cx, buf, max),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.wire.cut_bytes.load(Ordering::Relaxed) {
            0 => Pin::new(&mut self.stream).poll_write_vectored(cx, bufs),
            max => {
                let first = bufs.iter().find(|buf| !buf.is_empty());
                self.poll_cut(cx, first.map_or(&[], |buf| buf), max)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    /// Records each write.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl AsyncWrite for Writes {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            if !buf.is_empty() {
                self.0.push(buf.to_vec());
            }
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn writes_are_cut_to_their_limit_and_lose_nothing() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (cut, pause_ms) in [(0, 0.0), (1, 0.0), (3, 0.5), (64, 0.0)] {
            let wire = Arc::new(Wire::default());
            wire.set_cut(cut, pause_ms);
            let mut stream = CutStream::new(Writes::default(), wire);
            let (writes, count) = runtime.block_on(async {
                stream.write_all(b"HTTP/1.1 200 OK").await.unwrap();
                let slices = [IoSlice::new(b""), IoSlice::new(b"body")];
                let count = stream.write_vectored(&slices).await.unwrap();
                (stream.stream.0, count)
            });
            assert_eq!(writes.concat(), [b"HTTP/1.1 200 OK", &b"body"[..count]].concat(), "{cut}");
            let longest = writes.iter().map(Vec::len).max();
            assert_eq!(longest, Some(if cut == 0 { 15 } else { 15.min(cut as usize) }), "{cut}");
        }
    }
}
