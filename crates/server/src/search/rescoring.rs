//! Whether the first results of a search are scored once more, how many of them, and by what.

use std::sync::Arc;

use weir_api::{Count, ErrorCode, Invalid, Rerank, RerankOptions, SearchRequest};

use super::super::Gateway;
use super::super::error::{ApiError, no_reranker};
use super::plan::size;
use weir_inference::{LoadedModel, Reranker};
use weir_retrieval::collections::OpenCollection;

/// What scores the first results once more, in this order.
#[derive(Default)]
pub(super) struct Rescoring {
    pub(super) likeness: Option<Likeness>,
    pub(super) rerank: Option<Reranking>,
}

/// Late interaction: the tokens of query and text are compared.
pub(super) struct Likeness {
    pub(super) model: Arc<LoadedModel>,
    pub(super) weight: f32,
    pub(super) top_n: usize,
}

/// A model reads query and text together.
pub(super) struct Reranking {
    pub(super) model: Arc<Reranker>,
    pub(super) top_n: usize,
}

impl Rescoring {
    /// What the request asks for, or the settings where it says nothing. `has_text` tells whether there are words to go by.
    pub(super) fn of(
        gateway: &Gateway,
        collection: &OpenCollection,
        request: &SearchRequest,
        has_text: bool,
    ) -> Result<Rescoring, ApiError> {
        Ok(Rescoring {
            likeness: likeness(collection, request, has_text)?,
            rerank: reranking(gateway, request, has_text)?,
        })
    }

    /// How many of the first results change places among each other.
    pub(super) fn head(&self) -> usize {
        let likeness = self.likeness.as_ref().map_or(0, |likeness| likeness.top_n);
        likeness.max(self.rerank.as_ref().map_or(0, |rerank| rerank.top_n))
    }

    /// All that an order depends on, for cursors.
    pub(super) fn signature(&self) -> String {
        let rerank = self.rerank.as_ref().map(|rerank| (rerank.model.fingerprint(), rerank.top_n));
        let likeness = self.likeness.as_ref().map(|likeness| (likeness.weight, likeness.top_n));
        format!("{rerank:?} {likeness:?}")
    }
}

/// Refuses to score by a query that isn't there, or where something else decides the order.
fn check(field: &str, request: &SearchRequest, has_text: bool) -> Result<(), Invalid> {
    let refuse = |message: String| Err(Invalid::at(ErrorCode::InvalidParameter, &[field], message));
    if request.sort.as_ref().is_some_and(|sort| !sort.is_empty()) {
        return refuse(format!("`sort` decides the order of the results; leave out `{field}` or `sort`"));
    }
    if !has_text {
        return refuse(format!(
            "`{field}` compares texts with the words of `query`, and there are none; send some, or leave it out"
        ));
    }
    Ok(())
}

fn reranking(
    gateway: &Gateway,
    request: &SearchRequest,
    has_text: bool,
) -> Result<Option<Reranking>, ApiError> {
    let settings = &gateway.config.search;
    let by = match &request.rerank {
        Some(Rerank::Off) => return Ok(None),
        Some(Rerank::With(by)) => by.clone(),
        // a setting for all searches means those that it fits
        None if settings.rerank.is_empty() || check("rerank", request, has_text).is_err() => return Ok(None),
        None => RerankOptions::default(),
    };
    check("rerank", request, has_text)?;
    let name = by.model.as_ref().unwrap_or(&settings.rerank);
    if name.is_empty() {
        let message =
            "`rerank` names no model, and the setting `search.rerank` is empty; name one, or `none`";
        return Err(Invalid::at(ErrorCode::InvalidParameter, &["rerank"], message).into());
    }
    let model = gateway.models.reranker(name);
    let model = model.ok_or_else(|| no_reranker(&gateway.models, name, "rerank"))?.clone();
    Ok(Some(Reranking { model, top_n: size(by.top_n.map_or(settings.rerank_top_n, Count::get)) }))
}

fn likeness(
    collection: &OpenCollection,
    request: &SearchRequest,
    has_text: bool,
) -> Result<Option<Likeness>, Invalid> {
    let Some(asked) = request.late_interaction else { return Ok(None) };
    check("late_interaction", request, has_text)?;
    let refuse =
        |message: String| Err(Invalid::at(ErrorCode::InvalidParameter, &["late_interaction"], message));
    let Some(model) = collection.model() else {
        let message =
            format!("collection `{}` has no embeddings, which `late_interaction` compares", collection.name);
        return refuse(message);
    };
    if !model.has_token_embeddings() {
        let message = format!(
            "`late_interaction` needs embeddings of tokens, which models of the kind `local` make; that of collection `{}`, \
             `{}`, is of another kind",
            collection.name, model.id
        );
        return refuse(message);
    }
    Ok(Some(Likeness { model: model.clone(), weight: asked.weight, top_n: size(asked.top_n()) }))
}
