//! The router as hyper calls it: requests and their bodies note in the connection's activity what they wait for.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Response, Version, header};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::Service;

use super::activity::{Activity, RequestActivity, RequestEnd};
use crate::router::Router;

/// Largest part of a reply that is handed to HTTP/2 at once: what does not fit into the client's window waits in memory, uncounted.
const PART_BYTES_MAX: usize = 16 * 1024;

/// Calls the router for the requests of one connection.
pub(super) struct HttpService {
    router: Router,
    activity: Arc<Activity>,
}

impl HttpService {
    pub(super) fn new(router: Router, activity: Arc<Activity>) -> HttpService {
        HttpService { router, activity }
    }
}

impl Service<Request<Incoming>> for HttpService {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ReplyBody>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let is_http2 = request.version() == Version::HTTP_2;
        let (activity, end) = self.activity.begin_request(is_http2);
        let noted = activity.clone();
        let mut request = request.map(|inner| match inner.is_end_stream() {
            true => Body::empty(),
            false => Body::new(RequestBody { inner, activity: noted }),
        });
        request.extensions_mut().insert(activity.clone());
        let router = self.router.clone();
        Box::pin(async move {
            let mut response = router.answer(request).await;
            if response.body().size_hint().exact().is_none() {
                activity.note_stream();
            }
            if router.gateway().is_draining() && !is_http2 {
                // the client's next request goes to a gateway that stays
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response.map(|inner| {
                let noted = is_http2.then_some(activity);
                ReplyBody { inner, rest: Bytes::new(), noted, is_begun: false, _end: end }
            }))
        })
    }
}

/// The body of a request.
struct RequestBody {
    inner: Incoming,
    activity: RequestActivity,
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Pending => self.activity.awaits_body(),
            Poll::Ready(_) => self.activity.has_body(),
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

impl Drop for RequestBody {
    /// The rest of the body is not awaited.
    fn drop(&mut self) {
        self.activity.has_body();
    }
}

/// The body of a reply; the request ends with it.
pub(super) struct ReplyBody {
    inner: Body,
    /// The rest of a part that was too large.
    rest: Bytes,
    /// Of HTTP/2, where a client can stop one reply alone. Over HTTP/1, the socket shows whether the client receives anything.
    noted: Option<RequestActivity>,
    is_begun: bool,
    /// Dropped with the body: the request has ended.
    _end: RequestEnd,
}

impl HttpBody for ReplyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(activity) = self.noted.clone() else {
            return Pin::new(&mut self.inner).poll_frame(context);
        };
        self.is_begun = true;
        activity.reply_since(None);
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let length = self.rest.len().min(PART_BYTES_MAX);
        let part = self.rest.split_to(length);
        activity.reply_since(Some(Instant::now()));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    /// Over HTTP/2 the end is a part of its own, which is asked for when the parts before it have been sent.
    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream() && (self.noted.is_none() || !self.is_begun)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
