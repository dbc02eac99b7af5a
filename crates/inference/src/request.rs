//! Requests for inference: options, results and errors.

use std::time::{Duration, Instant};

use weir_upstream::UpstreamError;

use super::rows::Rows;

/// The purpose of embedding texts, which decides when and on which threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Queries and second-stage work of searches; they go before texts of the interactive lane, on the same threads.
    Query,
    /// Small requests for embeddings.
    Interactive,
    /// Documents, and large requests for embeddings.
    Bulk,
}

impl Lane {
    /// The label in metrics, and the prefix of thread names.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Query => "query",
            Lane::Interactive => "interactive",
            Lane::Bulk => "bulk",
        }
    }
}

/// The share of the bulk lane that computes texts. Other lanes do not read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The share of a collection, by its number: all its calls together.
    Collection(u64),
    /// A share of its own for this call.
    Request,
}

/// How texts are embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbedOptions {
    /// The lane that computes them.
    pub lane: Lane,
    /// The share of the bulk lane that computes them.
    pub flow: Flow,
    /// Whether the embedding cache is used.
    pub caching: Caching,
    /// Requests to upstreams fail if their replies would arrive later.
    pub deadline: Option<Instant>,
}

/// The embeddings of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Embedded {
    /// One for each text, in order.
    pub embeddings: Rows,
    /// The longest wait of a text in a queue.
    pub waited: Duration,
}

impl Embedded {
    /// Appends the embeddings of the texts that follow.
    pub(super) fn append(&mut self, next: Embedded) {
        self.embeddings.append(next.embeddings);
        self.waited = self.waited.max(next.waited);
    }
}

/// Whether the embedding cache is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// Embeddings are read from the cache and, unless in the bulk lane, added to it.
    On,
    /// The cache is neither read nor changed.
    Off,
}

/// Texts were not embedded or scored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InferenceError {
    /// The tokens exceed the limit of the queue.
    #[error("{queued} tokens are queued for inference; the limit `inference.queue_tokens_max` is {limit}")]
    QueueFull {
        /// Tokens in the queue.
        queued: usize,
        /// The limit.
        limit: usize,
    },
    /// The text would wait too long in the queue.
    #[error(
        "the inference queue would delay the request by {} ms; the limit is {} ms (`{setting}`, less under sustained load or near the request's deadline)",
        wait.as_micros().div_ceil(1000), limit.as_millis()
    )]
    QueueTooSlow {
        /// The estimated wait.
        wait: Duration,
        /// The limit.
        limit: Duration,
        /// The setting of the limit.
        setting: &'static str,
        /// Delay before a retry, the longer the fewer requests are admitted, so that most retries succeed.
        retry_after: Duration,
    },
    /// The request alone takes longer than it may.
    #[error(
        "{tokens} tokens take about {} s at the speed of this gateway; the deadline leaves {} s, a fifth of it in reserve \
         (`server.request_deadline_ms`). Send fewer texts in a request",
        takes.as_secs_f64().ceil(), left.as_secs()
    )]
    TooMuchWork {
        /// Tokens of the request.
        tokens: usize,
        /// The estimated time for them.
        takes: Duration,
        /// The time to the deadline.
        left: Duration,
    },
    /// The upstream of the model failed.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The scheduler is being stopped.
    #[error("the gateway is stopping")]
    Stopping,
    /// The model failed or panicked.
    #[error("the model failed; the log has the reason")]
    Failed,
}

/// The part that is cut off a text that is too long for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// The end.
    End,
    /// The start.
    Start,
    /// The caller refuses truncated texts: a local model truncates the end and sets [`Input::is_truncated`]; an upstream is asked to refuse.
    Never,
}
