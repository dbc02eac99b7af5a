//! Decides whether a complete answer is the expected one.

use crate::client::{Failure, FailureKind, ResponseSink};
use crate::excerpt;
use crate::plan::Expect;

/// Most of a body that is kept to look for the expected text.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Receives answers of one connection, one after the other.
pub(crate) struct Check<'a> {
    expect: &'a Expect,
    status: u16,
    kept: Vec<u8>,
    kept_bytes_max: usize,
}

impl<'a> Check<'a> {
    pub(crate) fn new(expect: &'a Expect) -> Check<'a> {
        Check { expect, status: 0, kept: Vec::new(), kept_bytes_max: 0 }
    }

    /// Status of the last answer.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Whether the last answer, which must be complete, is what was expected.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
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

impl ResponseSink for Check<'_> {
    fn head(&mut self, status: u16) {
        self.status = status;
        self.kept.clear();
        self.kept_bytes_max = match (self.expect.status.contains(status), &self.expect.body) {
            (false, _) => excerpt::KEPT_BYTES_MAX,
            (true, Some(_)) => KEPT_BYTES_MAX,
            (true, None) => 0,
        };
    }

    fn content(&mut self, piece: &[u8]) {
        let room = self.kept_bytes_max - self.kept.len();
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}
