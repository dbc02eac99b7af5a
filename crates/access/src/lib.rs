//! API keys in service: the ones of the store in memory, by their hash, what is done with them, and what they use of their limits.

#![forbid(unsafe_code)]

mod active;
mod budgets;
mod chain;
mod clock;
mod error;
mod events;
mod follow;
mod grants;
mod keys;
mod ledger;
mod limits;
mod meter;
mod restriction;
mod revocations;
mod scripts;
mod shared;
mod usage;

pub use active::KEYS_BYTES_MAX;
pub use chain::{CHAIN_MAX, Chain, Reservation};
pub use clock::unix_now;
pub use error::{AccessError, Result};
pub use keys::Keys;
pub use limits::{Amounts, CostRange, Left, Limited, Limits, Unit};
pub use shared::{LimitsStatus, SharedLimits};
pub use usage::KeyUsage;
pub use weir_redis::{Address as RedisAddress, AddressError as RedisAddressError, RedisError};
