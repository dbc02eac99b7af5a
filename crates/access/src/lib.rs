//! API keys in service: the ones of the store in memory, by their hash, what is done with them, and what they use of their limits.

#![forbid(unsafe_code)]

mod active;
mod error;
mod grants;
mod keys;
mod ledger;
mod restriction;
mod revocations;
mod usage;

pub use active::KEYS_BYTES_MAX;
pub use error::{AccessError, Result};
pub use keys::Keys;
pub use usage::{CostRange, Left, Limited, Reservation, Running, Unit, Usage};
