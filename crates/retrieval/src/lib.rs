//! The application core.

#![forbid(unsafe_code)]

pub mod clock;
pub mod collections;
pub mod feedback;
pub mod ingest;
pub mod query_log;
