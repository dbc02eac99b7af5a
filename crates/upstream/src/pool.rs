//! The connection pool of one upstream.

use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tower::BoxError;

use crate::client::RequestBody;
use crate::connect::Connector;

/// Idle timeout of a connection. Many servers close theirs sooner than after a minute.
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

/// The connection pool of one upstream. Dropping the body of a reply before its end closes an HTTP/1.1 connection, or resets the HTTP/2 stream.
pub(crate) struct Pool {
    client: Client<Connector, RequestBody>,
    /// The address of the server, with the port where a proxy needs it.
    address: Uri,
}

impl Pool {
    /// `idle_max`: upper bound of the idle connections.
    pub(crate) fn new(connector: Connector, address: Uri, idle_max: usize) -> Pool {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_CONNECTION_MAX)
            .pool_max_idle_per_host(idle_max)
            .build(connector);
        Pool { client, address }
    }

    /// Sends a request to a path. If a reused connection turns out to be closed before the request was written, another one is tried.
    ///
    /// # Errors
    /// [`NoReply`].
    pub(crate) async fn send(
        &self,
        mut request: Request<RequestBody>,
        path: PathAndQuery,
    ) -> Result<Response<Incoming>, NoReply> {
        let mut parts = self.address.clone().into_parts();
        parts.path_and_query = Some(path);
        *request.uri_mut() = Uri::from_parts(parts).map_err(NoReply::unsent)?;
        let reply = self.client.request(request).await;
        reply.map_err(|error| NoReply { was_sent: !error.is_connect(), source: error.into() })
    }
}
