//! The second stage: models that re-score the first hits of the index.

use std::sync::Arc;

use serde::Serialize;
use weir_api::{Count, ErrorCode, Invalid, Rerank, RerankOptions, SearchRequest, require};

use super::plan::size;
use crate::models;
use crate::view::CollectionView;
use crate::{Result, Retrieval};
use weir_inference::{LoadedModel, Reranker};

/// Re-scoring of the first hits, in this order.
#[derive(Default)]
pub(super) struct SecondStage {
    pub(super) max_sim: Option<MaxSim>,
    pub(super) rerank: Option<Reranking>,
}

/// Late interaction: the MaxSim score of ColBERT over token embeddings of query and text.
pub(super) struct MaxSim {
    pub(super) model: Arc<LoadedModel>,
    pub(super) weight: f32,
    pub(super) top_n: usize,
}

/// A model that reads query and text together.
pub(super) struct Reranking {
    pub(super) model: Arc<Reranker>,
    pub(super) top_n: usize,
}

impl SecondStage {
    /// The stages of the request, or else of the settings. `has_text`: whether the query has words.
    pub(super) fn new(
        retrieval: &Retrieval,
        view: &CollectionView,
        request: &SearchRequest,
        has_text: bool,
    ) -> Result<SecondStage> {
        Ok(SecondStage {
            max_sim: max_sim(view, request, has_text)?,
            rerank: reranking(retrieval, view, request, has_text)?,
        })
    }

    /// How many of the first hits may change places.
    pub(super) fn depth(&self) -> usize {
        let max_sim = self.max_sim.as_ref().map_or(0, |max_sim| max_sim.top_n);
        max_sim.max(self.rerank.as_ref().map_or(0, |rerank| rerank.top_n))
    }

    /// All settings that the order depends on, for cursors.
    pub(super) fn key(&self) -> impl Serialize + use<'_> {
        let rerank = self.rerank.as_ref().map(|rerank| (rerank.model.fingerprint(), rerank.top_n as u64));
        let max_sim = self.max_sim.as_ref().map(|max_sim| (max_sim.weight, max_sim.top_n as u64));
        (rerank, max_sim)
    }
}

/// Refuses a second stage without a query, or beside an order by fields.
fn check(field: &str, request: &SearchRequest, has_text: bool) -> Result<(), Invalid> {
    let is_sorted = request.sort.as_ref().is_some_and(|sort| !sort.is_empty());
    require(!is_sorted, &[field], || {
        format!("`sort` decides the order of the results; leave out `{field}` or `sort`")
    })?;
    require(has_text, &[field], || {
        format!(
            "`{field}` compares texts with the words of `query`, and there are none; send some, or leave it out"
        )
    })
}

fn reranking(
    retrieval: &Retrieval,
    view: &CollectionView,
    request: &SearchRequest,
    has_text: bool,
) -> Result<Option<Reranking>> {
    let settings = &retrieval.config.search;
    let by = match &request.rerank {
        Some(Rerank::Off) => return Ok(None),
        Some(Rerank::With(by)) => by.clone(),
        // a setting for all searches means those that it fits
        None if settings.rerank.is_empty() || check("rerank", request, has_text).is_err() => return Ok(None),
        None => RerankOptions::default(),
    };
    check("rerank", request, has_text)?;
    let name = by.model.as_ref().unwrap_or(&settings.rerank);
    require(
        !name.is_empty(),
        &["rerank"],
        || "`rerank` names no model, and the setting `search.rerank` is empty; name one, or `none`",
    )?;
    let model = models::reranker(&retrieval.models, view.caller(), name, "rerank")?.clone();
    Ok(Some(Reranking { model, top_n: size(by.top_n.map_or(settings.rerank_top_n, Count::get)) }))
}

fn max_sim(
    view: &CollectionView,
    request: &SearchRequest,
    has_text: bool,
) -> Result<Option<MaxSim>, Invalid> {
    let Some(asked) = request.late_interaction else { return Ok(None) };
    check("late_interaction", request, has_text)?;
    let (path, name) = (&["late_interaction"], view.name());
    let Some(model) = view.model() else {
        let message = format!(
            "collection `{name}` has no model, whose embeddings of tokens `late_interaction` compares"
        );
        return Err(Invalid::at(ErrorCode::InvalidParameter, path, message));
    };
    require(model.has_token_embeddings(), path, || {
        format!(
            "`late_interaction` needs embeddings of tokens, which models of the kind `local` make; that of collection \
             `{name}`, `{}`, is of another kind",
            model.id
        )
    })?;
    Ok(Some(MaxSim { model: model.clone(), weight: asked.weight, top_n: size(asked.top_n()) }))
}
