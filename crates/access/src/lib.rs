//! API keys in service: the ones of the store in memory, by their hash, what is done with them, and what they use of their limits.

#![forbid(unsafe_code)]

mod error;
mod grants;
mod keys;
mod ledger;
mod revocations;
mod usage;

pub use error::{AccessError, Result};
pub use keys::Keys;
pub use usage::{Left, Limited, Reservation, Running, Unit, Usage};
