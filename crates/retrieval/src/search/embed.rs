//! The query's embedding, or the decision to search without one.

use tokio::time::{Instant, timeout_at};
use weir_api::{DegradedReason, EmbeddingSource, ErrorCode, Mode};
use weir_inference::{Caching, EmbedOptions, Flow, InferenceError, Lane, LoadedModel};

use super::degraded::{Part, reason};
use super::plan::Plan;
use crate::{Result, Retrieval};
use weir_refusal::RequestError;

/// The embedding that the dense retriever searches with.
pub(super) struct Embedded {
    /// The retrievers that rank.
    pub(super) mode: Option<Mode>,
    pub(super) vector: Option<Vec<f32>>,
    pub(super) source: EmbeddingSource,
    /// Why a hybrid search continues without its dense retriever.
    pub(super) degraded: Option<DegradedReason>,
}

impl Embedded {
    /// Embeds the query of a plan until `deadline`, if its mode needs that.
    ///
    /// A hybrid search whose embedding fails or is late continues with the lexical retriever; a dense one fails. While most requests for
    /// embeddings are refused, hybrid searches fail too: lexical searches in their place would take cores from admitted searches.
    /// A page of a search whose first page was degraded is degraded as well, because fused results have another order.
    pub(super) async fn new(
        retrieval: &Retrieval,
        plan: &Plan,
        caching: Caching,
        deadline: Instant,
    ) -> Result<Embedded> {
        let not_embedded = || Ok(Embedded::made(plan.mode, None, EmbeddingSource::None));
        let mode = match plan.mode {
            None | Some(Mode::Lexical) => return not_embedded(),
            Some(mode @ (Mode::Hybrid | Mode::Dense)) => mode,
        };
        if let Some(vector) = plan.vector.clone() {
            return Ok(Embedded::made(Some(mode), Some(vector), EmbeddingSource::Given));
        }
        let Some(model) = plan.view.model() else { return not_embedded() };
        let earlier = plan.page.iter().flat_map(|page| page.degraded.iter().copied());
        if let Some(reason) = earlier.into_iter().find(|reason| reason.is_lexical_only()) {
            return Ok(Embedded::degraded(reason));
        }
        let error = match embed(retrieval, plan, model, mode, caching, deadline).await {
            Ok(embedded) => return Ok(embedded),
            Err(error) => error,
        };
        match error {
            Some(InferenceError::Stopping) => Err(InferenceError::Stopping.into()),
            Some(error @ (InferenceError::QueueFull { .. } | InferenceError::QueueTooSlow { .. }))
                if model.is_local() && retrieval.scheduler.is_overloaded() =>
            {
                Err(error.into())
            }
            Some(error) if mode == Mode::Dense => Err(error.into()),
            None if mode == Mode::Dense => Err(RequestError::new(
                ErrorCode::DeadlineExceeded,
                "the query's embedding was not ready in time",
            )),
            Some(error) => Ok(Embedded::degraded(reason(Part::Embedding, Some(&error)))),
            None => Ok(Embedded::degraded(reason(Part::Embedding, None))),
        }
    }

    fn made(mode: Option<Mode>, vector: Option<Vec<f32>>, source: EmbeddingSource) -> Embedded {
        Embedded { mode, vector, source, degraded: None }
    }

    fn degraded(reason: DegradedReason) -> Embedded {
        Embedded {
            degraded: Some(reason),
            ..Embedded::made(Some(Mode::Lexical), None, EmbeddingSource::None)
        }
    }
}

/// The embedding of the query, until `deadline`.
///
/// # Errors
/// The failure of the model; `None` when the embedding was not ready in time.
async fn embed(
    retrieval: &Retrieval,
    plan: &Plan,
    model: &LoadedModel,
    mode: Mode,
    caching: Caching,
    deadline: Instant,
) -> Result<Embedded, Option<InferenceError>> {
    let scheduler = &retrieval.scheduler;
    let input = model.query_input(&plan.text);
    // the cache also has the texts of hidden documents
    let tells_source = plan.request.explain == Some(true) && !plan.view.is_filtered();
    let is_cached = tells_source && caching == Caching::On && scheduler.has_cached(model, &input);
    let source = if is_cached { EmbeddingSource::Cache } else { EmbeddingSource::Made };
    let options =
        EmbedOptions { lane: Lane::Query, flow: Flow::Request, caching, deadline: Some(deadline.into_std()) };
    let made = timeout_at(deadline, scheduler.embed(model, vec![input], options)).await;
    let made = made.map_err(|_| None)?.map_err(Some)?;
    Ok(Embedded::made(Some(mode), made.embeddings.into_single(), source))
}
