//! The wall clock: the one place where time comes into the gateway.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in unix seconds.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
