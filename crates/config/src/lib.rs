//! One typed tree of settings: defaults → one TOML file → `WEIR_…` environment → flags.
//!
//! [`table`] holds every setting once; the tree, the names in files and environment, `weir config show` and
//! `docs/configuration.md` all come from it. [`load`] reports every problem at once, each with its place. This
//! module alone reads the environment.

#![forbid(unsafe_code)]

mod check;
#[cfg(test)]
mod docs;
mod environment;
mod file;
mod load;
mod models;
mod problem;
mod secret;
mod upstream;
mod value;

pub mod table;

pub use environment::Environment;
pub use load::{Flags, Loaded, Source, load, load_for_serving};
pub use models::{ModelConfig, ModelKind, Prompts};
pub use problem::{Place, Problem, Problems};
pub use secret::{ApiKey, Secret};
pub use table::{Config, SETTINGS, Setting};
pub use upstream::{Protocol, UpstreamConfig};
pub use value::{LogFormat, LogLevel, Precision, Scalar};
