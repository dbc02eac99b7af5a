//! A typed client of a running gateway.
//!
//! [`Client`] calls the gateway's API and retries while the gateway starts or is busy. [`ingest`] sends any number of
//! documents in batches and waits until they are searchable. [`Transport`] is the HTTP below both.

#![forbid(unsafe_code)]

mod client;
mod error;
mod fields;
mod ingest;
mod json_lines;
mod seen_ids;
mod transport;

pub use client::{Client, Reply, RetryPolicy};
pub use error::{ClientError, Result};
pub use fields::document_of_fields;
pub use ingest::{
    IngestError, IngestOptions, IngestProgress, IngestReport, ReadStep, Rejection, StepResult, ingest,
};
pub use json_lines::JsonLines;
pub use transport::{Transport, TransportError};
