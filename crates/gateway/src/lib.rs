//! The gateway: HTTP, configuration, the inference scheduler, the ingest worker, the binary weir.

pub mod config;
