//! The clock of limits, budgets and keys.

use std::time::{SystemTime, UNIX_EPOCH};

use weir_store::Timestamp;

/// The time in unix seconds.
pub fn unix_now() -> Timestamp {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
