//! Calls of a Redis server that do not delay requests for long: each has a time limit, and after one that failed there are none until a new connection is
//! there.

#![forbid(unsafe_code)]

mod address;
mod client;

pub use address::{Address, AddressError};
pub use client::{Messages, NewValue, Redis, RedisError, ScriptCall};
