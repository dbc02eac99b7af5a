//! From the store's operations to searchable documents.

mod prepare;
mod worker;

pub use prepare::{IngestError, Preparer};
pub use worker::run;
