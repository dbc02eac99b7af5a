//! Whether a server replies as the APIs promise that it serves.
//!
//! Requests only embed, rerank, list and search a collection that does not exist, so that they change nothing.

#![forbid(unsafe_code)]

mod case;
mod cohere;
mod expect;
mod jina;
mod native;
mod ollama;
mod openai;
mod probe;
mod target;
mod tei;

use clap::ValueEnum;
use http::HeaderValue;
use weir_client::{ClientError, Trust};

use case::Case;
use probe::Probe;
use target::CheckedServer;

pub use case::{Check, CheckResult};

/// The text that is embedded in every API.
const TEXT: &str = "A weir is a low dam across a river.";
/// Names that no server has.
const MODEL_THAT_IS_NOT: &str = "selftest-no-such-model";
const COLLECTION_THAT_IS_NOT: &str = "selftest-no-such-collection";

/// An API whose routes are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dialect {
    /// OpenAI: /v1/embeddings, /v1/models.
    Openai,
    /// text-embeddings-inference: /health, /info, /embed, /tokenize, /rerank.
    Tei,
    /// Cohere: /v2/embed, /v2/rerank.
    Cohere,
    /// Jina: /v1/rerank.
    Jina,
    /// Ollama: /api/embed, /api/tags.
    Ollama,
    /// Weir: /healthz, /readyz, /v1/search, raw floats.
    Native,
}

impl Dialect {
    /// All of them, in the order in which they are checked.
    pub const ALL: [Dialect; 6] =
        [Dialect::Openai, Dialect::Tei, Dialect::Cohere, Dialect::Jina, Dialect::Ollama, Dialect::Native];

    fn name(self) -> &'static str {
        match self {
            Dialect::Openai => "openai",
            Dialect::Tei => "tei",
            Dialect::Cohere => "cohere",
            Dialect::Jina => "jina",
            Dialect::Ollama => "ollama",
            Dialect::Native => "native",
        }
    }

    fn cases(self, target: &CheckedServer) -> Vec<Case<'_>> {
        match self {
            Dialect::Openai => openai::cases(target),
            Dialect::Tei => tei::cases(target),
            Dialect::Cohere => cohere::cases(target),
            Dialect::Jina => jina::cases(target),
            Dialect::Ollama => ollama::cases(target),
            Dialect::Native => native::cases(target),
        }
    }
}

/// A server, and what of it is checked.
#[derive(Debug)]
pub struct Server<'a> {
    /// Its address, without a slash at the end.
    pub url: String,
    /// The certificates that are trusted.
    pub trust: &'a Trust,
    /// The header with its API key.
    pub authorization: Option<HeaderValue>,
    /// The model that embeds; default: the first one that the server lists.
    pub model: Option<String>,
    /// The model that reranks; default: the first one that the server lists.
    pub reranker: Option<String>,
    /// The APIs.
    pub dialects: &'a [Dialect],
}

/// The findings.
#[derive(Debug)]
pub struct Report {
    /// The model that embeds, if there is one.
    pub model: Option<String>,
    /// The model that reranks, if there is one.
    pub reranker: Option<String>,
    /// Every check.
    pub checks: Vec<Check>,
}

/// Checks a server.
///
/// # Errors
/// When its certificates can't be read, and when it does not answer at all.
pub async fn check(server: Server<'_>) -> Result<Report, ClientError> {
    let probe = Probe::new(server.url, server.trust, server.authorization)?;
    let target = CheckedServer::discover(&probe, server.model, server.reranker).await?;
    let mut checks = Vec::new();
    for dialect in Dialect::ALL.iter().filter(|one| server.dialects.contains(one)) {
        for case in dialect.cases(&target) {
            checks.push(case.run(&probe, &target, dialect.name()).await);
        }
    }
    Ok(Report { model: target.model, reranker: target.reranker, checks })
}
