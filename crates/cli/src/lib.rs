//! The command line and the start-up of the binary `weir`.

#![forbid(unsafe_code)]

pub mod cli;
mod qdrant;
mod redis;
pub mod reload;
pub mod serve;
mod store_location;
