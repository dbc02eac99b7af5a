//! The rules of the store, each written once, as scripts over a transaction; one file per resource.
//!
//! A script that changes something of a collection first takes its [`Lock`](crate::tx::Lock): everything in a collection then changes one
//! transaction at a time.

pub(crate) mod accept;
pub(crate) mod budgets;
pub(crate) mod chunks;
pub(crate) mod collections;
pub(crate) mod documents;
pub(crate) mod embeddings;
pub(crate) mod feedback;
pub(crate) mod files;
pub(crate) mod generations;
pub(crate) mod idempotency;
pub(crate) mod job_control;
pub(crate) mod jobs;
pub(crate) mod kept_files;
pub(crate) mod keys;
pub(crate) mod leases;
pub(crate) mod operations;
pub(crate) mod originals;
pub(crate) mod query_log;
pub(crate) mod service;
pub(crate) mod spending;
mod unsearchable;
pub(crate) mod upkeep;
pub(crate) mod verify;
pub(crate) mod versions;
pub(crate) mod webhooks;
