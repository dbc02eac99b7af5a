//! Idempotency keys: a request that is sent again is carried out once.

use crate::Timestamp;

/// The key of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Identifies the key, the caller who sent it and the route.
    pub scope: [u8; 32],
    /// Identifies what was asked for.
    pub fingerprint: [u8; 32],
    /// For how long the result is kept, in seconds.
    pub kept_seconds: u32,
    /// Results that are kept of one caller, the newest ones.
    pub kept_max: u64,
}

impl IdempotencyKey {
    /// Results from before this time are not kept.
    pub fn kept_since(&self, now: Timestamp) -> Timestamp {
        now - f64::from(self.kept_seconds)
    }
}
