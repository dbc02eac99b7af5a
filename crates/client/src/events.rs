//! Server-sent events of a reply.

use bytes::BytesMut;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::call::CALL_TIMEOUT;
use crate::{ClientError, Result, TransportError};

/// Bytes of one event of a stream, at most: the gateway's own limit.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// Reads the events of a body.
#[derive(Debug)]
pub(crate) struct EventReader {
    body: Incoming,
    url: String,
    /// The received part of the next lines.
    received: BytesMut,
    /// The name and the data lines of the current event.
    event: Event,
}

/// One event.
#[derive(Debug, Default)]
pub(crate) struct Event {
    /// Empty without one.
    pub(crate) name: String,
    pub(crate) data: Vec<u8>,
}

impl EventReader {
    /// The events of a reply of the gateway at `url`.
    pub(crate) fn new(response: Response<Incoming>, url: &str) -> EventReader {
        EventReader {
            body: response.into_body(),
            url: url.to_owned(),
            received: BytesMut::new(),
            event: Event::default(),
        }
    }

    /// The next event with data; `None` when the body ended or broke off. Cancel safe.
    ///
    /// # Errors
    /// For an event that is too long, and when nothing arrives for too long.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line = self.received.split_to(end + 1);
                if let Some(event) = self.read_line(line.trim_ascii_end()) {
                    return Ok(Some(event));
                }
                continue;
            }
            if self.received.len() + self.event.data.len() > EVENT_BYTES_MAX {
                let reason = format!("has an event of more than {EVENT_BYTES_MAX} bytes");
                return Err(self.malformed(&reason));
            }
            let unreachable = |source| ClientError::Unreachable { url: self.url.clone(), source };
            let frame = tokio::time::timeout(CALL_TIMEOUT, self.body.frame()).await;
            let frame = frame.map_err(|_| unreachable(TransportError::Timeout(CALL_TIMEOUT)))?;
            let Some(Ok(frame)) = frame else { return Ok(None) };
            if let Ok(bytes) = frame.into_data() {
                self.received.extend_from_slice(&bytes);
            }
        }
    }

    /// Takes a line; an empty one ends an event.
    fn read_line(&mut self, line: &[u8]) -> Option<Event> {
        if let Some(name) = line.strip_prefix(b"event:") {
            self.event.name = String::from_utf8_lossy(name.trim_ascii_start()).into_owned();
        }
        let data = &mut self.event.data;
        if let Some(more) = line.strip_prefix(b"data:") {
            if !data.is_empty() {
                data.push(b'\n');
            }
            data.extend_from_slice(more.trim_ascii_start());
        }
        (line.is_empty() && !data.is_empty()).then(|| std::mem::take(&mut self.event))
    }

    /// The error of a stream that is not what the API says. The reason continues `the reply of URL …`.
    pub(crate) fn malformed(&self, reason: &str) -> ClientError {
        ClientError::Malformed { url: self.url.clone(), reason: reason.to_owned() }
    }
}
