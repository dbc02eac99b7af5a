//! Compares responses with the expected status and text.

use std::time::Instant;

use crate::client::{Failure, FailureKind, ResponseSink};
use crate::excerpt;
use crate::plan::{Expect, Plan};
use crate::stream::{StreamCheck, StreamTimes};

/// Longest beginning of a body that is searched for the expected text.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Receives the responses of one connection, one after the other.
pub(crate) struct ResponseCheck<'a> {
    expect: &'a Expect,
    status: u16,
    kept: Vec<u8>,
    kept_bytes_max: usize,
    stream: Option<StreamCheck<'a>>,
}

impl<'a> ResponseCheck<'a> {
    pub(crate) fn new(plan: &'a Plan) -> ResponseCheck<'a> {
        let stream = plan.stream.as_ref().map(StreamCheck::new);
        ResponseCheck { expect: &plan.expect, status: 0, kept: Vec::new(), kept_bytes_max: 0, stream }
    }

    /// Forgets the last response.
    pub(crate) fn begin(&mut self) {
        self.status = 0;
        if let Some(stream) = &mut self.stream {
            stream.begin();
        }
    }

    /// Status of the last response; 0 before its head.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// The times of the last response if it is a stream.
    pub(crate) fn stream_times(&self) -> Option<&StreamTimes> {
        self.stream.as_ref().map(StreamCheck::times)
    }

    /// Whether the last response, which must be complete, is as expected.
    pub(crate) fn result(&self) -> Result<(), Failure> {
        self.status_result()?;
        if let Some(text) = &self.expect.body
            && memchr::memmem::find(&self.kept, text.as_bytes()).is_none()
        {
            return Err(Failure::new(FailureKind::BodyMismatch, self.beginning()));
        }
        self.stream.as_ref().map_or(Ok(()), |stream| stream.result(&self.kept))
    }

    /// Whether the head of the last response is as expected.
    pub(crate) fn status_result(&self) -> Result<(), Failure> {
        if self.expect.status.contains(self.status) {
            return Ok(());
        }
        Err(Failure::new(FailureKind::BadStatus, format!("{} {}", self.status, self.beginning())))
    }

    fn beginning(&self) -> String {
        let bytes = self.kept.len().min(excerpt::KEPT_BYTES_MAX);
        String::from_utf8_lossy(&self.kept[..bytes]).into_owned()
    }
}

impl ResponseSink for ResponseCheck<'_> {
    fn on_status(&mut self, status: u16) {
        self.status = status;
        self.kept.clear();
        let needs_body =
            self.expect.body.is_some() || self.stream.as_ref().is_some_and(StreamCheck::needs_body);
        self.kept_bytes_max = match (self.expect.status.contains(status), needs_body) {
            (false, _) => excerpt::KEPT_BYTES_MAX,
            (true, true) => KEPT_BYTES_MAX,
            (true, false) => 0,
        };
        if let Some(stream) = &mut self.stream {
            stream.on_head(Instant::now());
        }
    }

    fn on_body(&mut self, piece: &[u8]) {
        let spare = self.kept_bytes_max - self.kept.len();
        self.kept.extend_from_slice(&piece[..piece.len().min(spare)]);
        if let Some(stream) = &mut self.stream {
            stream.on_body(piece, Instant::now());
        }
    }
}
