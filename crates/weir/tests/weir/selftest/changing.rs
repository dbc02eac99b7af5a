//! A hyper server before a gateway, which changes the replies to one call.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use tokio::runtime::Runtime;
use weir_client::Transport;

/// A reply that is changed: its JSON, or the bytes of one that is not JSON.
pub(crate) struct Changed {
    pub(crate) status: u16,
    pub(crate) media: String,
    pub(crate) body: Value,
    pub(crate) raw: Vec<u8>,
}

impl Changed {
    /// The object at a pointer, if there is one.
    pub(crate) fn object(&mut self, pointer: &str) -> Option<&mut Map<String, Value>> {
        self.body.pointer_mut(pointer)?.as_object_mut()
    }
}

struct Shared {
    gateway: String,
    transport: Transport,
    call: &'static str,
    change: fn(&mut Changed),
    seen: Mutex<Vec<(String, String)>>,
}

/// The server. It ends with its runtime.
pub(crate) struct ChangingProxy {
    pub(crate) url: String,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

impl ChangingProxy {
    /// Changes the replies to `call`: a method and a path.
    pub(crate) fn start(gateway: &str, call: &'static str, change: fn(&mut Changed)) -> ChangingProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let transport = Transport::new(Duration::from_secs(30));
        let gateway = gateway.to_owned();
        let shared = Arc::new(Shared { gateway, transport, call, change, seen: Mutex::default() });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let serving = shared.clone();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = serving.clone();
                let service = service_fn(move |request| {
                    let shared = shared.clone();
                    async move { Ok::<_, Infallible>(shared.answer(request).await) }
                });
                // a client that is gone is no failure of the test
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        ChangingProxy { url, shared, _runtime: runtime }
    }

    /// Method and path of every request.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.shared.seen.lock().unwrap().iter().map(|(call, _)| call.clone()).collect()
    }

    /// What every request had as its authorization.
    pub(crate) fn authorizations(&self) -> BTreeSet<String> {
        self.shared.seen.lock().unwrap().iter().map(|(_, key)| key.clone()).collect()
    }
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (mut head, body) = request.into_parts();
        let call = format!("{} {}", head.method, head.uri.path());
        let key = head.headers.get(AUTHORIZATION).map_or("", |value| value.to_str().unwrap()).to_owned();
        self.seen.lock().unwrap().push((call.clone(), key));
        head.uri = format!("{}{}", self.gateway, head.uri).parse().unwrap();
        head.headers.remove(HOST);
        let body = body.collect().await.unwrap().to_bytes();
        let response = self.transport.send(Request::from_parts(head, Full::new(body))).await.unwrap();
        let (mut head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        if call != self.call {
            return Response::from_parts(head, Full::new(body));
        }
        let media = head.headers.get(CONTENT_TYPE).map_or("", |value| value.to_str().unwrap()).to_owned();
        let json = serde_json::from_slice(&body).ok();
        let is_json = json.is_some();
        let mut changed = Changed {
            status: head.status.as_u16(),
            media,
            body: json.unwrap_or_default(),
            raw: body.to_vec(),
        };
        (self.change)(&mut changed);
        head.status = StatusCode::from_u16(changed.status).unwrap();
        head.headers.remove(CONTENT_LENGTH);
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_str(&changed.media).unwrap());
        let body = if is_json { changed.body.to_string().into_bytes() } else { changed.raw };
        Response::from_parts(head, Full::new(Bytes::from(body)))
    }
}
