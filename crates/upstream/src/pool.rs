//! The connection pool of one upstream.
//!
//! An HTTP/1.1 connection has no task of its own: the task that awaits the reply polls the connection. An event of a streamed reply then
//! wakes one task instead of two. An HTTP/2 connection is multiplexed and is polled by a spawned task.

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
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::TokioExecutor;
use tokio::task::unconstrained;
use tokio::time::Instant;
use tower::{BoxError, Service as _};

use crate::client::RequestBody;
use crate::connect::Connector;
use crate::transport::{Task, TaskTransport};

/// Idle timeout of an HTTP/1.1 connection. Many servers close theirs sooner than after a minute.
const IDLE_CONNECTION_MAX: Duration = Duration::from_secs(15);

/// No connection could be made, or it ended before the head of a reply.
#[derive(Debug, thiserror::Error)]
#[error("no reply")]
pub(crate) struct NoReply {
    source: BoxError,
    /// Whether the server may have received the request.
    pub(crate) was_sent: bool,
}

impl NoReply {
    fn unsent(source: impl Into<BoxError>) -> NoReply {
        NoReply { source: source.into(), was_sent: false }
    }
}

/// The connection pool of one upstream.
pub(crate) struct Pool {
    connector: Connector,
    /// The address of the server, with the port where a proxy has to be told it.
    address: Uri,
    /// The `Host` header of HTTP/1.1 requests.
    host: HeaderValue,
    /// Upper bound of the idle connections.
    idle_max: usize,
    idle: Mutex<Idle>,
    /// The shared HTTP/2 connection.
    http2: Mutex<Option<http2::SendRequest<RequestBody>>>,
}

/// Idle HTTP/1.1 connections.
#[derive(Default)]
struct Idle {
    /// The most recently used comes last.
    #[expect(clippy::vec_box, reason = "a connection is large and moves between the pool and replies")]
    connections: Vec<Box<Http1>>,
    /// Whether a [`prune`] task runs.
    has_pruner: bool,
}

/// An HTTP/1.1 connection.
struct Http1 {
    sender: http1::SendRequest<RequestBody>,
    /// `None` after its end.
    connection: Option<http1::Connection<TaskTransport, RequestBody>>,
    /// The task that drives the connection.
    task: Task,
    idle_since: Instant,
}

enum Connection {
    Http1(Box<Http1>),
    Http2(http2::SendRequest<RequestBody>),
}

impl Pool {
    pub(crate) fn new(connector: Connector, address: Uri, host: HeaderValue, idle_max: usize) -> Arc<Pool> {
        Arc::new(Pool { connector, address, host, idle_max, idle: Mutex::default(), http2: Mutex::default() })
    }

    /// Sends a request to a path. If a reused connection turns out to be closed before the request was written, tries the next one.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn send(
        self: &Arc<Pool>,
        mut request: Request<RequestBody>,
        path: PathAndQuery,
    ) -> Result<Response<PooledBody>, NoReply> {
        loop {
            let reused = self.checkout();
            let is_reused = reused.is_some();
            let connection = match reused {
                Some(connection) => connection,
                // boxed, because most requests need no new connection
                None => Box::pin(self.connect()).await.map_err(NoReply::unsent)?,
            };
            let sent = match connection {
                Connection::Http1(mut http1) => {
                    *request.uri_mut() = path.clone().into();
                    request.headers_mut().insert(HOST, self.host.clone());
                    http1.send(request).await.map(|reply| (reply, Some(http1)))
                }
                Connection::Http2(mut sender) => {
                    *request.uri_mut() = self.absolute(&path).map_err(NoReply::unsent)?;
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
                Err(mut error) => match error.take_message() {
                    Some(unsent) if is_reused => request = unsent,
                    unsent => {
                        return Err(NoReply {
                            was_sent: unsent.is_none(),
                            source: error.into_error().into(),
                        });
                    }
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

    /// A connection that is open and can take a request: an idle one, or the shared HTTP/2 connection.
    fn checkout(&self) -> Option<Connection> {
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

    /// Opens a connection. Returns the shared HTTP/2 connection if another request has opened it meanwhile.
    async fn connect(&self) -> Result<Connection, BoxError> {
        let stream = self.connector.clone().call(self.address.clone()).await?;
        if !stream.connected().is_negotiated_h2() {
            let (transport, task) = TaskTransport::new(stream);
            let (sender, connection) = http1::handshake(transport).await?;
            let (connection, idle_since) = (Some(connection), Instant::now());
            return Ok(Connection::Http1(Box::new(Http1 { sender, connection, task, idle_since })));
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

    /// Returns a connection to the pool after the end of its reply.
    fn put_idle(self: &Arc<Pool>, mut http1: Box<Http1>) {
        http1.idle_since = Instant::now();
        let mut idle = self.lock_idle();
        if idle.connections.len() >= self.idle_max {
            return;
        }
        idle.connections.push(http1);
        if !mem::replace(&mut idle.has_pruner, true) {
            tokio::spawn(prune(Arc::downgrade(self)));
        }
    }

    fn lock_idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections after their idle timeout, in intervals of that time. Ends when the pool has no idle connection.
async fn prune(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_CONNECTION_MAX).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.lock_idle();
        idle.connections.retain_mut(|http1| http1.can_be_used());
        if idle.connections.is_empty() {
            idle.has_pruner = false;
            return;
        }
    }
}

impl Http1 {
    /// Sends a request and polls the connection until the head of the reply has arrived.
    async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<RequestBody>>> {
        let mut reply = pin!(unconstrained(self.sender.try_send_request(request)));
        poll_fn(|context| self.poll_driven(context, |noop| reply.as_mut().poll(noop))).await
    }

    /// Polls `poll`, a future or body whose values only [`Http1::drive`] produces, and drives the connection in between. `poll` gets the no-op
    /// waker: the connection would wake this same task, which is running.
    fn poll_driven<T>(
        &mut self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let mut noop = Context::from_waker(Waker::noop());
        let polled = poll(&mut noop);
        if polled.is_ready() {
            return polled;
        }
        self.drive(context);
        poll(&mut noop)
    }

    /// Polls the connection, which writes and reads without blocking; its transport wakes the task of `context`, and nothing else does. Drops
    /// the connection when it has ended; its pending request then fails.
    fn drive(&mut self, context: &mut Context<'_>) {
        let Some(connection) = &mut self.connection else { return };
        self.task.set(context);
        // without tokio's cooperative budget: an exhausted one yields through the waker of the poll, and the no-op waker loses that
        let driven = pin!(unconstrained(connection));
        if driven.poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            self.connection = None;
        }
    }

    /// Whether the connection is open and within its idle timeout.
    fn can_be_used(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.sender.is_ready() && self.idle_since.elapsed() < IDLE_CONNECTION_MAX
    }
}

/// The body of a reply. At its end the connection returns to the pool; dropping the body before closes the connection.
pub(crate) struct PooledBody {
    inner: Incoming,
    /// `None` with HTTP/2, and after the end.
    http1: Option<Box<Http1>>,
    pool: Arc<Pool>,
}

impl PooledBody {
    /// Returns the connection to the pool, if it can take another request.
    fn release(&mut self) {
        if let Some(http1) = self.http1.take()
            && http1.sender.is_ready()
        {
            self.pool.put_idle(http1);
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
        // of a chunked body, `is_end_stream` stays false
        if matches!(polled, Poll::Ready(None)) || this.inner.is_end_stream() {
            this.release();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}
