//! The last requests, for tests that check headers and bodies sent to the provider.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};

/// The last `requests_max` requests, with `body_bytes_max` bytes of each body.
#[derive(Debug)]
pub(crate) struct LastRequests {
    requests_max: usize,
    body_bytes_max: usize,
    requests: Mutex<VecDeque<Received>>,
}

#[derive(Debug)]
struct Received {
    number: u64,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    body_bytes: usize,
}

impl LastRequests {
    pub(crate) fn new(requests_max: usize, body_bytes_max: usize) -> LastRequests {
        LastRequests { requests_max, body_bytes_max, requests: Mutex::new(VecDeque::new()) }
    }

    pub(crate) fn push(&self, number: u64, head: &Parts, body: &Bytes) {
        if self.requests_max == 0 {
            return;
        }
        // A slice of a long body would keep all of it.
        let kept = match body.get(..self.body_bytes_max) {
            Some(start) if start.len() < body.len() => Bytes::copy_from_slice(start),
            Some(_) | None => body.clone(),
        };
        let received = Received {
            number,
            method: head.method.clone(),
            uri: head.uri.clone(),
            headers: head.headers.clone(),
            body: kept,
            body_bytes: body.len(),
        };
        let mut requests = self.lock();
        if requests.len() == self.requests_max {
            requests.pop_front();
        }
        requests.push_back(received);
    }

    pub(crate) fn reset(&self) {
        self.lock().clear();
    }

    /// The requests, oldest first. Bytes that are no UTF-8 become U+FFFD.
    pub(crate) fn to_json(&self) -> Value {
        json!({"requests": self.lock().iter().map(Received::to_json).collect::<Vec<_>>()})
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Received>> {
        // No code that could panic runs with the lock, so that its contents are whole.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Received {
    fn to_json(&self) -> Value {
        let headers: Vec<Value> = self
            .headers
            .iter()
            .map(|(name, value)| json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())]))
            .collect();
        json!({
            "number": self.number,
            "method": self.method.as_str(),
            "path": self.uri.to_string(),
            "headers": headers,
            "body": String::from_utf8_lossy(&self.body),
            "body_bytes": self.body_bytes,
        })
    }
}
