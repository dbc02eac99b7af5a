//! A limit on waiting tokens.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::request::InferenceError;

/// Counts waiting tokens, up to a limit.
pub(super) struct WaitingTokens {
    tokens: AtomicUsize,
    limit: usize,
}

/// Counts tokens as waiting until it is dropped.
pub(super) struct WaitingGuard<'a> {
    waiting: &'a WaitingTokens,
    tokens: usize,
    queued_before: usize,
}

impl WaitingTokens {
    pub(super) fn new(limit: usize) -> WaitingTokens {
        WaitingTokens { tokens: AtomicUsize::new(0), limit }
    }

    pub(super) fn add(&self, tokens: usize) -> WaitingGuard<'_> {
        let queued_before = self.tokens.fetch_add(tokens, Ordering::Relaxed);
        WaitingGuard { waiting: self, tokens, queued_before }
    }
}

impl WaitingGuard<'_> {
    /// Fails with [`InferenceError::QueueFull`] above the limit, unless nothing waited before.
    pub(super) fn check(&self) -> Result<(), InferenceError> {
        let (queued, limit) = (self.queued_before, self.waiting.limit);
        if queued > 0 && queued + self.tokens > limit {
            return Err(InferenceError::QueueFull { queued, limit });
        }
        Ok(())
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.waiting.tokens.fetch_sub(self.tokens, Ordering::Relaxed);
    }
}
