//! Decisions without IO, clock or globals: what a [`Caller`] may do and see, which texts are API keys ([`key`]), how much a key may use
//! ([`limits`]), and whether an upstream is called ([`upstream`]).
//!
//! Every read of the store and of the index takes a [`Caller`], so that its allow lists and its mandatory filter apply to all of them.

#![forbid(unsafe_code)]

pub mod budget;
pub mod budget_lease;
mod caller;
pub mod key;
pub mod lease;
pub mod limits;
pub mod routing;
pub mod upstream;

pub use caller::{Allowlist, Caller, KeyId, Scope, matches_pattern};
