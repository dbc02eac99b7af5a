//! An HTTP server in the test's process, which keeps what it was asked.
#![allow(dead_code, reason = "each test binary is compiled with all of it and uses a part")]

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;

/// A request as it was received.
#[derive(Clone)]
pub(crate) struct Asked {
    /// Method and path with query.
    pub(crate) call: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The value of a header; empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// What the server replies.
pub(crate) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    /// The body is sent without a length, in frames of this many bytes.
    frame_bytes: Option<usize>,
}

impl Reply {
    pub(crate) fn new(status: StatusCode, body: Vec<u8>) -> Reply {
        Reply { status, headers: HeaderMap::new(), body, frame_bytes: None }
    }

    pub(crate) fn json(status: u16, body: &str) -> Reply {
        let status = StatusCode::from_u16(status).unwrap();
        Reply::new(status, body.as_bytes().to_vec()).header("content-type", "application/json")
    }

    /// Sets a header, in place of one with its name.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Reply {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Reply {
        self.headers.remove(name);
        self
    }

    pub(crate) fn with_body(mut self, change: impl Fn(&mut Vec<u8>)) -> Reply {
        change(&mut self.body);
        self
    }

    pub(crate) fn in_frames_of(self, bytes: usize) -> Reply {
        Reply { frame_bytes: Some(bytes), ..self }
    }

    fn into_response(self) -> Response<BoxBody<Bytes, Infallible>> {
        let body = match self.frame_bytes {
            None => Full::new(Bytes::from(self.body)).boxed(),
            Some(bytes) => {
                let frames: Vec<_> = self
                    .body
                    .chunks(bytes)
                    .map(|part| Ok(Frame::data(Bytes::copy_from_slice(part))))
                    .collect();
                BodyExt::boxed(StreamBody::new(stream::iter(frames)))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// A running server. It ends with the runtime of the test.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Serves what `reply` makes of each request.
    pub(crate) fn start(reply: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Server {
        Server::start_async(move |asked| std::future::ready(reply(&asked)))
    }

    pub(crate) fn start_async<F>(reply: impl Fn(Asked) -> F + Send + Sync + 'static) -> Server
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let (requests, reply) = (Arc::new(Mutex::new(Vec::new())), Arc::new(reply));
        let kept = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, reply) = (kept.clone(), reply.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let (kept, reply) = (kept.clone(), reply.clone());
                    async move {
                        let asked = read(request).await;
                        kept.lock().unwrap().push(asked.clone());
                        Ok::<_, Infallible>(reply(asked).await.into_response())
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                // a client that is gone is no failure of the test
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        Server { url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.requests.lock().unwrap().clone()
    }
}

async fn read(request: Request<Incoming>) -> Asked {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Asked { call: format!("{} {}", head.method, head.uri), headers: head.headers, body }
}
