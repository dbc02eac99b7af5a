//! HTTP/1.1 with pooled connections, TLS by rustls, and the proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{LOCATION, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::builderstates::WantsSchemes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service as _, service_fn};

use crate::trust::{Trust, TrustError};

/// How many redirects [`Transport::get`] follows.
const REDIRECTS_MAX: usize = 10;

/// Why a request got no complete reply. Messages are those of the innermost cause, such as `Connection refused`.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The address of the request is not a URL.
    #[error("`{0}` is not an http:// or https:// address")]
    Address(String),
    /// No connection could be opened, or it broke before the reply began.
    #[error("{}", innermost(.0))]
    Connection(#[from] legacy::Error),
    /// Every reply redirected to another address.
    #[error("`{0}` redirects more than {REDIRECTS_MAX} times")]
    Redirects(String),
    /// The connection broke within the reply's body, or the body is too large.
    #[error("{}", innermost(.0.as_ref()))]
    Body(#[source] BoxError),
    /// The reply did not arrive in time.
    #[error("no complete reply within {} s", .0.as_secs())]
    Timeout(Duration),
}

impl TransportError {
    /// Whether the same request can succeed in a moment, because the server is starting or was restarted.
    pub fn is_transient(&self) -> bool {
        match self {
            TransportError::Address(_) | TransportError::Redirects(_) => false,
            TransportError::Timeout(_) => true,
            TransportError::Connection(error) => !is_refused_by_tls(error),
            TransportError::Body(error) => !error.is::<http_body_util::LengthLimitError>(),
        }
    }
}

impl TransportError {
    /// Whether the server's certificate is not trusted, or it does not speak TLS.
    pub fn is_refused_by_tls(&self) -> bool {
        matches!(self, TransportError::Connection(error) if is_refused_by_tls(error))
    }

    /// Whether no byte of the request reached the server.
    pub(crate) fn is_unsent(&self) -> bool {
        match self {
            TransportError::Address(_) => true,
            TransportError::Connection(error) => error.is_connect(),
            TransportError::Redirects(_) | TransportError::Body(_) | TransportError::Timeout(_) => false,
        }
    }
}

/// rustls reports a bad certificate, or a server that does not speak TLS, as invalid data.
fn is_refused_by_tls(error: &(dyn Error + 'static)) -> bool {
    causes(error).filter_map(|error| error.downcast_ref::<std::io::Error>()).any(|error| {
        // hyper-rustls wraps the error in another one
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<std::io::Error>());
        inner.unwrap_or(error).kind() == std::io::ErrorKind::InvalidData
    })
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

/// The error and its causes, the innermost last.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The body of a request: bytes, or a stream of them.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// Sends requests over pooled connections.
pub struct Transport {
    pool: legacy::Client<HttpsConnector<Connector>, RequestBody>,
}

impl Transport {
    /// A transport without open connections, which trusts public authorities. `connect_timeout` limits opening a TCP connection.
    pub fn new(connect_timeout: Duration) -> Transport {
        let https = HttpsConnectorBuilder::new().with_webpki_roots();
        Transport { pool: pool(https, tcp(connect_timeout)) }
    }

    /// The same with other certificates that are trusted.
    ///
    /// # Errors
    /// When the file of certificates can't be used.
    pub fn with_trust(connect_timeout: Duration, trust: &Trust) -> Result<Transport, TrustError> {
        let https = HttpsConnectorBuilder::new().with_tls_config(trust.client_config()?);
        Ok(Transport { pool: pool(https, tcp(connect_timeout)) })
    }

    /// Sends a request; the reply's body is still to be read.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, TransportError> {
        self.send_stream(request.map(|body| body.map_err(|never| match never {}).boxed_unsync())).await
    }

    /// The same with a body that is made while it is sent.
    pub(crate) async fn send_stream(
        &self,
        mut request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, TransportError> {
        let agent = HeaderValue::from_static(concat!("weir/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        Ok(self.pool.request(request).await?)
    }

    /// `GET`s a URL and follows redirects.
    ///
    /// # Errors
    /// When no reply begins. A reply with an error status is not an error.
    pub async fn get(&self, url: &str) -> Result<Response<Incoming>, TransportError> {
        let mut uri: Uri = url.parse().map_err(|_| TransportError::Address(url.to_owned()))?;
        for _ in 0..REDIRECTS_MAX {
            let mut request = Request::new(Full::default());
            *request.uri_mut() = uri.clone();
            let response = self.send(request).await?;
            let redirect = response.status().is_redirection().then(|| redirect_target(&uri, &response));
            match redirect.flatten() {
                Some(target) => uri = target,
                None => return Ok(response),
            }
        }
        Err(TransportError::Redirects(url.to_owned()))
    }
}

fn tcp(connect_timeout: Duration) -> Connector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(connect_timeout));
    connector(http, Matcher::from_env())
}

fn pool(
    https: HttpsConnectorBuilder<WantsSchemes>,
    connector: Connector,
) -> legacy::Client<HttpsConnector<Connector>, RequestBody> {
    let connector = https.https_or_http().enable_http1().wrap_connector(connector);
    legacy::Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector)
}

/// Where a reply redirects to, if it names a URL or an absolute path.
fn redirect_target<B>(from: &Uri, response: &Response<B>) -> Option<Uri> {
    let location: Uri = response.headers().get(LOCATION)?.to_str().ok()?.parse().ok()?;
    if location.scheme().is_some() {
        return Some(location);
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = Some(location.path_and_query()?.clone());
    Uri::from_parts(parts).ok()
}

/// Opens TCP connections to servers.
type Connector = BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError>;

fn connector(http: HttpConnector, proxies: Matcher) -> Connector {
    let proxies = Arc::new(proxies);
    BoxCloneSyncService::new(service_fn(move |target| connect(http.clone(), proxies.clone(), target)))
}

/// Connects to a server, through the proxy of the environment except for this machine and NO_PROXY.
async fn connect(
    mut http: HttpConnector,
    proxies: Arc<Matcher>,
    target: Uri,
) -> Result<TokioIo<TcpStream>, BoxError> {
    let Some(proxy) = proxies.intercept(&target).filter(|_| !is_loopback(&target)) else {
        return Ok(http.call(target).await?);
    };
    let mut tunnel = Tunnel::new(proxy.uri().clone(), http);
    if let Some(credentials) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(credentials.clone());
    }
    Ok(tunnel.call(with_port(target)?).await?)
}

/// Whether `target` is on this machine, where a proxy is of no use.
fn is_loopback(target: &Uri) -> bool {
    let host = target.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// `target` with the port that its scheme implies: a tunnel would take 443 for `http` too.
fn with_port(target: Uri) -> Result<Uri, http::Error> {
    if target.port().is_some() || target.scheme() != Some(&Scheme::HTTP) {
        return Ok(target);
    }
    let authority = format!("{}:80", target.host().unwrap_or_default());
    Uri::builder().scheme(Scheme::HTTP).authority(authority).path_and_query("/").build()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn requests_go_through_a_tunnel_of_the_proxy() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = format!("http://user:secret@{}", listener.local_addr().unwrap());
        let lines = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = || -> Vec<String> {
                reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect()
            };
            let connect = head();
            stream.write_all(b"HTTP/1.1 200 x\r\n\r\n").unwrap();
            let request = head();
            stream.write_all(b"HTTP/1.1 204 x\r\n\r\n").unwrap();
            [connect, request].concat()
        });
        let proxies = Matcher::builder().all(proxy).no("direct.example").build();
        let mut connector = connector(HttpConnector::new(), proxies);
        let transport =
            Transport { pool: pool(HttpsConnectorBuilder::new().with_webpki_roots(), connector.clone()) };
        let response = transport.get("http://weir.example/readyz").await.unwrap();
        assert_eq!(response.status(), 204);
        let lines = lines.join().unwrap();
        assert_eq!(lines[0], "CONNECT weir.example:80 HTTP/1.1");
        assert!(lines.contains(&"Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=".to_owned()), "{lines:?}");
        assert!(lines.contains(&"GET /readyz HTTP/1.1".to_owned()), "{lines:?}");
        // the proxy is gone: only a direct connection can succeed
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("http://{}", server.local_addr().unwrap()).parse().unwrap();
        connector.call(target).await.unwrap();
    }
}
