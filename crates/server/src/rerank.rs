//! Scoring texts by a model that reads each together with a query: for searches, and for whoever brings texts.

use std::sync::Arc;
use std::time::Instant;

use super::Gateway;
use weir_inference::{InferenceError, Reranker};

/// Texts that were scored, and what it took.
pub(super) struct Reranked {
    /// A score for each text, in their order: 0 to 1 by a model that runs here, finite by any.
    pub(super) scores: Vec<f32>,
}

/// Has `model` say how well each of `texts` answers `query`, in the interactive lane. An upstream is not asked for what would come after
/// `until`; a caller who leaves ends the work.
///
/// # Errors
/// [`InferenceError`].
pub(super) async fn rerank(
    gateway: &Gateway,
    model: Arc<Reranker>,
    query: String,
    texts: Vec<String>,
    until: Option<Instant>,
) -> Result<Reranked, InferenceError> {
    let reader = model.clone();
    let read = tokio::task::spawn_blocking(move || reader.read(&query, &texts)).await;
    let input = read.map_err(|_| InferenceError::Failed)?;
    let scores = gateway.scheduler.rerank(&model, input, until).await?;
    Ok(Reranked { scores })
}
