//! The query's embedding, or the decision to do without.

use tokio::time::{Instant, timeout_at};
use weir_api::{DegradedReason, EmbeddingSource, ErrorCode, Mode};

use super::super::Gateway;
use super::super::error::ApiError;
use super::degraded::{Part, reason};
use super::plan::Plan;
use weir_inference::{Caching, InferenceError, Lane, LoadedModel, Terms};

/// What the dense leg searches by.
pub(super) struct Embedding {
    /// The legs that rank after all.
    pub(super) mode: Option<Mode>,
    pub(super) vector: Option<Vec<f32>>,
    pub(super) source: EmbeddingSource,
    /// Why a hybrid search goes on without its dense leg.
    pub(super) degraded: Option<DegradedReason>,
}

impl Embedding {
    fn given(mode: Option<Mode>, vector: Option<Vec<f32>>, source: EmbeddingSource) -> Embedding {
        Embedding { mode, vector, source, degraded: None }
    }

    fn degraded(reason: DegradedReason) -> Embedding {
        Embedding {
            degraded: Some(reason),
            ..Embedding::given(Some(Mode::Lexical), None, EmbeddingSource::None)
        }
    }
}

/// Embeds the query of a plan, if its legs need that, until `deadline`.
///
/// A hybrid search whose embedding can't be had in time goes on with the lexical leg; a dense one fails. Where most embeddings are
/// refused, both are: searches by words alone would take the cores from those that get theirs. A page of a search that has gone on
/// without goes on without as well: its results are in another order than those of both legs.
pub(super) async fn embed(
    gateway: &Gateway,
    plan: &mut Plan,
    caching: Caching,
    deadline: Instant,
) -> Result<Embedding, ApiError> {
    let (mode, model) = match (plan.mode, plan.collection.model()) {
        (None | Some(Mode::Lexical), _) | (_, None) => {
            return Ok(Embedding::given(plan.mode, None, EmbeddingSource::None));
        }
        (Some(mode @ (Mode::Hybrid | Mode::Dense)), Some(model)) => (mode, model),
    };
    if let Some(vector) = plan.vector.take() {
        return Ok(Embedding::given(Some(mode), Some(vector), EmbeddingSource::Given));
    }
    if let Some(reason) = plan
        .page
        .as_ref()
        .and_then(|page| page.degraded.iter().copied().find(|reason| reason.is_lexical_only()))
    {
        return Ok(Embedding::degraded(reason));
    }
    let error = match make(gateway, plan, model, mode, caching, deadline).await {
        Ok(embedding) => return Ok(embedding),
        Err(error) => error,
    };
    match error {
        Some(InferenceError::Stopping) => Err(InferenceError::Stopping.into()),
        Some(error @ (InferenceError::TooMany { .. } | InferenceError::TooLong { .. }))
            if model.is_local() && gateway.scheduler.is_overrun() =>
        {
            Err(error.into())
        }
        Some(error) if mode == Mode::Dense => Err(error.into()),
        None if mode == Mode::Dense => {
            Err(ApiError::new(ErrorCode::DeadlineExceeded, "the query's embedding was not ready in time"))
        }
        Some(error) => Ok(Embedding::degraded(reason(Part::Embedding, Some(&error)))),
        None => Ok(Embedding::degraded(reason(Part::Embedding, None))),
    }
}

/// The embedding of the query, until `deadline`.
///
/// # Errors
/// Why there is none; `None` when it was not ready in time.
async fn make(
    gateway: &Gateway,
    plan: &Plan,
    model: &LoadedModel,
    mode: Mode,
    caching: Caching,
    deadline: Instant,
) -> Result<Embedding, Option<InferenceError>> {
    // no tokens are made of what would be refused
    if model.is_local()
        && let Some(error) = gateway.scheduler.refuses(caching)
    {
        return Err(Some(error));
    }
    let input = model.query_input(&plan.text);
    let is_known = plan.search.explain && caching == Caching::On && gateway.scheduler.knows(model, &input);
    let source = if is_known { EmbeddingSource::Cache } else { EmbeddingSource::Made };
    let terms = Terms { lane: Lane::Interactive, caching, until: Some(deadline.into_std()) };
    let made = timeout_at(deadline, gateway.scheduler.embed(model, vec![input], terms));
    let mut made = made.await.map_err(|_| None)?.map_err(Some)?;
    Ok(Embedding::given(Some(mode), made.embeddings.pop(), source))
}
