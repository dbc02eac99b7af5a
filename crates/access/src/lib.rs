//! API keys in service: the ones of the store in memory, by their hash, and what is done with them.

#![forbid(unsafe_code)]

mod error;
mod grants;
mod keys;

pub use error::{AccessError, Result};
pub use keys::Keys;
