//! Compares responses with the expected status and text.

use crate::client::{Failure, FailureKind, ResponseSink};
use crate::excerpt;
use crate::plan::Expect;

/// Longest beginning of a body that is searched for the expected text.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Receives the responses of one connection, one after the other.
pub(crate) struct ResponseCheck<'a> {
    expect: &'a Expect,
    status: u16,
    kept: Vec<u8>,
    kept_bytes_max: usize,
}

impl<'a> ResponseCheck<'a> {
    pub(crate) fn new(expect: &'a Expect) -> ResponseCheck<'a> {
        ResponseCheck { expect, status: 0, kept: Vec::new(), kept_bytes_max: 0 }
    }

    /// Status of the last response.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Whether the last response, which must be complete, is as expected.
    pub(crate) fn result(&self) -> Result<(), Failure> {
        if !self.expect.status.contains(self.status) {
            return Err(Failure::new(
                FailureKind::BadStatus,
                format!("{} {}", self.status, self.beginning()),
            ));
        }
        match &self.expect.body {
            Some(text) if memchr::memmem::find(&self.kept, text.as_bytes()).is_none() => {
                Err(Failure::new(FailureKind::BodyMismatch, self.beginning()))
            }
            _ => Ok(()),
        }
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
        self.kept_bytes_max = match (self.expect.status.contains(status), &self.expect.body) {
            (false, _) => excerpt::KEPT_BYTES_MAX,
            (true, Some(_)) => KEPT_BYTES_MAX,
            (true, None) => 0,
        };
    }

    fn on_body(&mut self, piece: &[u8]) {
        let spare = self.kept_bytes_max - self.kept.len();
        self.kept.extend_from_slice(&piece[..piece.len().min(spare)]);
    }
}
