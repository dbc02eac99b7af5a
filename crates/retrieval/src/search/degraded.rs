//! Why a search goes on without a part of what it asked for.

use weir_api::DegradedReason;

use weir_inference::{InferenceError, UpstreamError};

/// A part of a search that it can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Embedding,
    LateInteraction,
    Rerank,
}

/// The reason given to the caller when a part failed by `error`, or was not ready in time when there is none; the log has the details.
pub(super) fn reason(part: Part, error: Option<&InferenceError>) -> DegradedReason {
    match error {
        // there may be thousands of these a second, and a metric counts them
        Some(InferenceError::QueueFull { .. } | InferenceError::QueueTooSlow { .. }) | None => {
            tracing::debug!(
                ?part,
                error = error.map(tracing::field::display),
                "a search goes on without a part of it"
            );
        }
        Some(error) => tracing::warn!(?part, %error, "a search goes on without a part of it"),
    }
    let of = match part {
        Part::Embedding => [
            DegradedReason::EmbeddingOverloaded,
            DegradedReason::EmbeddingDeadline,
            DegradedReason::EmbeddingFailed,
        ],
        Part::LateInteraction => [
            DegradedReason::LateInteractionOverloaded,
            DegradedReason::LateInteractionDeadline,
            DegradedReason::LateInteractionFailed,
        ],
        Part::Rerank => {
            [DegradedReason::RerankOverloaded, DegradedReason::RerankDeadline, DegradedReason::RerankFailed]
        }
    };
    let [overloaded, deadline, failed] = of;
    match error {
        None | Some(InferenceError::Upstream(UpstreamError::Timeout { .. })) => deadline,
        Some(
            InferenceError::QueueFull { .. }
            | InferenceError::QueueTooSlow { .. }
            | InferenceError::TooMuchWork { .. }
            | InferenceError::Upstream(UpstreamError::Limited { .. }),
        ) => overloaded,
        Some(InferenceError::Upstream(_) | InferenceError::Stopping | InferenceError::Failed) => failed,
    }
}
