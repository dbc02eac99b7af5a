//! The configuration: defaults → one TOML file → `WEIR_…` environment variables → flags.
//!
//! [`table`] defines every setting once: the structs, the names in the file and the environment, `weir config show` and
//! `docs/configuration.md` are generated from it. [`load`] reports all problems at once, each with its location. Settings are read from the
//! environment here alone; `kernels` reads `WEIR_ISA`, which its tests need.

#![forbid(unsafe_code)]

mod check;
#[cfg(test)]
mod docs;
mod environment;
mod file;
mod foreign_variables;
mod llm;
mod load;
mod models;
mod problem;
mod secret;
mod upstream;
mod value;

pub mod table;

pub use environment::Environment;
pub use llm::{
    CacheMode, ChargeClass, Detector, Direction, Guardrail, GuardrailAction, LlmConfig, LlmRoute,
    LlmUpstream, OnFailure, Price, Provider, RouteCache, RouteRetrieval, Strategy, StreamMode, Target,
};
pub use load::{API_KEY_VARIABLE, Flags, Loaded, Source, load, load_for_calling, load_for_serving};
pub use models::{ModelConfig, ModelKind, Prompts, Reranks};
pub use problem::{Location, Problem, Problems};
pub use secret::{ApiKey, Secret};
pub use table::{Config, SETTINGS, Setting};
pub use upstream::{Protocol, UpstreamConfig};
pub use value::{LogFormat, LogLevel, Precision, Recogniser, RequestStore, Role, Sandboxing, Scalar};
