//! The least that a proxy in Rust does: hyper's server, hyper-util's client, headers copied, bodies streamed.
//!
//! No key, no limit, no routing, no record: the distance from here to a gateway is the price of what the gateway does.
//! `floor 127.0.0.1:8080 127.0.0.1:9000` listens on the first address and passes every request to the second.

#![forbid(unsafe_code)]

use std::net::SocketAddr;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::http::uri::{Authority, Scheme};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpSocket;

type Body = BoxBody<Bytes, hyper::Error>;
type Upstream = Client<HttpConnector, Incoming>;

/// Most connections that wait to be accepted: Linux's default limit.
const BACKLOG: u32 = 4_096;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), Some(upstream)) = (arguments.next(), arguments.next()) else {
        return Err("write two addresses: floor LISTEN UPSTREAM".into());
    };
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(listen.parse::<SocketAddr>()?)?;
    let listener = socket.listen(BACKLOG)?;
    let upstream: Authority = upstream.parse()?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Upstream = Client::builder(TokioExecutor::new()).build(connector);
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let (client, upstream) = (client.clone(), upstream.clone());
        let service = service_fn(move |request| pass(client.clone(), upstream.clone(), request));
        // An error ends this connection alone; the caller sees it.
        tokio::spawn(async move {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Passes one request on and its reply back. `/healthz` is answered here.
async fn pass(
    client: Upstream,
    upstream: Authority,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, hyper::http::Error> {
    if request.uri().path() == "/healthz" {
        return answer(StatusCode::OK);
    }
    let mut uri = std::mem::take(request.uri_mut()).into_parts();
    uri.scheme = Some(Scheme::HTTP);
    uri.authority = Some(upstream.clone());
    *request.uri_mut() = Uri::from_parts(uri)?;
    // The client frames the body anew, and keeps its connections for itself.
    request.headers_mut().remove(CONNECTION);
    request.headers_mut().remove(TRANSFER_ENCODING);
    request.headers_mut().insert(HOST, HeaderValue::from_str(upstream.as_str())?);
    match client.request(request).await {
        Ok(mut reply) => {
            reply.headers_mut().remove(CONNECTION);
            reply.headers_mut().remove(TRANSFER_ENCODING);
            Ok(reply.map(BodyExt::boxed))
        }
        Err(_) => answer(StatusCode::BAD_GATEWAY),
    }
}

fn answer(status: StatusCode) -> Result<Response<Body>, hyper::http::Error> {
    Response::builder().status(status).body(Empty::new().map_err(|never| match never {}).boxed())
}
