//! The connections to one upstream. Idle ones are kept and used again.
//!
//! A connection of HTTP/1.1 has no task of its own: whoever waits for its reply drives it. A part of a reply then wakes one task and not
//! two, and passes no other thread. A connection of HTTP/2, which carries many requests at a time, is driven by a task.

use std::error::Error;
use std::future::poll_fn;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::TokioExecutor;
use tokio::task::unconstrained;
use tokio::time::Instant;
use tower::{BoxError, Service as _};

use crate::client::RequestBody;
use crate::connect::{Connector, Transport};

/// A connection that was idle for this long is closed. Many servers close theirs sooner than after a minute.
const IDLE_CONNECTION_MAX: Duration = Duration::from_secs(15);

/// No connection could be made, or it ended before the head of a reply.
#[derive(Debug, thiserror::Error)]
#[error("no reply")]
pub(crate) struct NoReply(#[source] BoxError);

/// The connections to one upstream.
pub(crate) struct Pool {
    connector: Connector,
    /// The address of the server, with the port where a proxy has to be told it.
    address: Uri,
    /// `Host`, which HTTP/2 has not.
    host: HeaderValue,
    /// Upper bound of the connections that are kept.
    idle_max: usize,
    idle: Mutex<Idle>,
    /// The newest connection of HTTP/2.
    http2: Mutex<Option<http2::SendRequest<RequestBody>>>,
}

/// Connections without a request.
#[derive(Default)]
struct Idle {
    /// The one that was used last comes last.
    #[expect(clippy::vec_box, reason = "a connection is large, and moves between here and replies")]
    connections: Vec<Box<Http1>>,
    /// Whether a task closes those that nobody uses.
    is_pruned: bool,
}

/// A connection of HTTP/1.1.
struct Http1 {
    sender: http1::SendRequest<RequestBody>,
    /// `None` after its end.
    connection: Option<http1::Connection<Transport, RequestBody>>,
    /// When its last request ended.
    used: Instant,
}

enum Connection {
    Http1(Box<Http1>),
    Http2(http2::SendRequest<RequestBody>),
}

impl Pool {
    pub(crate) fn new(connector: Connector, address: Uri, host: HeaderValue, idle_max: usize) -> Arc<Pool> {
        Arc::new(Pool { connector, address, host, idle_max, idle: Mutex::default(), http2: Mutex::default() })
    }

    /// Sends a request to a path. A request that an ended connection had not begun to send is sent over another one.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn send(
        self: &Arc<Pool>,
        mut request: Request<RequestBody>,
        path: PathAndQuery,
    ) -> Result<Response<PooledBody>, NoReply> {
        loop {
            let kept = self.kept();
            let is_kept = kept.is_some();
            let connection = match kept {
                Some(connection) => connection,
                // boxed, because most requests need no new connection
                None => Box::pin(self.connect()).await.map_err(NoReply)?,
            };
            let sent = match connection {
                Connection::Http1(mut http1) => {
                    *request.uri_mut() = path.clone().into();
                    request.headers_mut().insert(HOST, self.host.clone());
                    http1.send(request).await.map(|reply| (reply, Some(http1)))
                }
                Connection::Http2(mut sender) => {
                    *request.uri_mut() = self.absolute(&path).map_err(|error| NoReply(error.into()))?;
                    request.headers_mut().remove(HOST);
                    sender.try_send_request(request).await.map(|reply| (reply, None))
                }
            };
            match sent {
                Ok((reply, http1)) => {
                    return Ok(reply.map(|inner| {
                        let mut body = PooledBody { inner, http1, pool: self.clone() };
                        if body.is_end_stream() {
                            body.release();
                        }
                        body
                    }));
                }
                Err(mut error) => match error.take_message().filter(|_| is_kept) {
                    Some(unsent) => request = unsent,
                    None => return Err(NoReply(error.into_error().into())),
                },
            }
        }
    }

    /// The address of a path.
    fn absolute(&self, path: &PathAndQuery) -> Result<Uri, http::uri::InvalidUriParts> {
        let mut parts = self.address.clone().into_parts();
        parts.path_and_query = Some(path.clone());
        Uri::from_parts(parts)
    }

    /// A connection that is open as far as is known.
    fn kept(&self) -> Option<Connection> {
        loop {
            let newest = self.lock_idle().connections.pop();
            let Some(mut http1) = newest else { return self.shared_http2().map(Connection::Http2) };
            if http1.can_be_used() {
                return Some(Connection::Http1(http1));
            }
        }
    }

    fn shared_http2(&self) -> Option<http2::SendRequest<RequestBody>> {
        let mut shared = self.http2.lock().unwrap_or_else(PoisonError::into_inner);
        shared.take_if(|sender| sender.is_closed());
        shared.clone()
    }

    /// A new connection; or one of HTTP/2 that was made in the meantime.
    async fn connect(&self) -> Result<Connection, BoxError> {
        let stream = self.connector.clone().call(self.address.clone()).await?;
        if !stream.connected().is_negotiated_h2() {
            let (sender, connection) = http1::handshake(stream).await?;
            let used = Instant::now();
            return Ok(Connection::Http1(Box::new(Http1 { sender, connection: Some(connection), used })));
        }
        if let Some(sender) = self.shared_http2() {
            return Ok(Connection::Http2(sender));
        }
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = &error as &dyn Error, "a connection to an upstream ended");
            }
        });
        *self.http2.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender.clone());
        Ok(Connection::Http2(sender))
    }

    /// Keeps a connection whose reply has ended.
    fn keep(self: &Arc<Pool>, mut http1: Box<Http1>) {
        http1.used = Instant::now();
        let mut idle = self.lock_idle();
        if idle.connections.len() >= self.idle_max {
            return;
        }
        idle.connections.push(http1);
        if !mem::replace(&mut idle.is_pruned, true) {
            tokio::spawn(prune(Arc::downgrade(self)));
        }
    }

    fn lock_idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections that nobody uses, until there are none.
async fn prune(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_CONNECTION_MAX).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.lock_idle();
        idle.connections.retain_mut(|http1| http1.can_be_used());
        if idle.connections.is_empty() {
            idle.is_pruned = false;
            return;
        }
    }
}

impl Http1 {
    /// Sends a request and drives the connection until the head of the reply is there.
    async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<RequestBody>>> {
        // a budget that is used up would wake the task by the waker that wakes nobody
        let mut reply = pin!(unconstrained(self.sender.try_send_request(request)));
        poll_fn(|context| self.poll_driven(context, |quiet| reply.as_mut().poll(quiet))).await
    }

    /// Polls what the connection brings, and the connection until something is there. What `poll` waits for comes by [`Http1::drive`] alone,
    /// in this very task; waking it for that would poll it once more for nothing. The last turn makes the socket wake the task.
    fn poll_driven<T>(
        &mut self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let mut quiet = Context::from_waker(Waker::noop());
        for is_last in [false, true] {
            let polled = poll(&mut quiet);
            if polled.is_ready() {
                return polled;
            }
            self.drive(if is_last { context } else { &mut quiet });
        }
        poll(&mut quiet)
    }

    /// Writes and reads what can be at once. A connection that has ended is dropped, which ends its request with an error.
    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(context).is_ready()
        {
            self.connection = None;
        }
    }

    /// Whether the connection is open and was not idle for too long.
    fn can_be_used(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready() && self.used.elapsed() < IDLE_CONNECTION_MAX
    }
}

/// The body of a reply. Its connection can be used again after its end, and is closed if it is dropped before.
pub(crate) struct PooledBody {
    inner: Incoming,
    /// `None` with HTTP/2, and after the end.
    http1: Option<Box<Http1>>,
    pool: Arc<Pool>,
}

impl PooledBody {
    /// Keeps the connection after the end of the reply.
    fn release(&mut self) {
        if let Some(http1) = self.http1.take()
            && http1.sender.is_ready()
        {
            self.pool.keep(http1);
        }
    }
}

impl Body for PooledBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let mut poll = |context: &mut Context<'_>| Pin::new(&mut this.inner).poll_frame(context);
        let polled = match &mut this.http1 {
            Some(http1) => http1.poll_driven(context, poll),
            None => poll(context),
        };
        // the length of a reply in chunks is known at its end alone
        if matches!(polled, Poll::Ready(None)) || this.inner.is_end_stream() {
            this.release();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
