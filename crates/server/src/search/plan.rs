//! From a request to what the index is asked: everything is read and checked before anything is embedded.

use std::sync::Arc;

use weir_api::{
    Count, DEFAULT_FACET_VALUES, ErrorCode, FusionMethod, GroupBy, Invalid, Mode, Order, RawJson,
    SearchRequest,
};
use weir_index::filter::{Filter, FilterError};
use weir_index::query::{self, Query};
use weir_index::{Facet, Fusion, SortKey};
use weir_policy::Caller;

use super::super::Gateway;
use super::super::cursor::{Binding, Cursor, RequestHash};
use super::super::error::ApiError;
use super::rescoring::Rescoring;
use weir_config::table::Search;
use weir_retrieval::collections::OpenCollection;

/// A vector whose length differs less from one is taken as it is, so that an embedding of ours keeps its bits.
const AS_GOOD_AS_ONE: f64 = 1e-4;

/// A search that is ready to be run but for its embedding.
pub(super) struct Plan {
    /// As it came.
    pub(super) request: SearchRequest,
    pub(super) collection: Arc<OpenCollection>,
    /// The legs that shall rank; `None` when everything that passes the filter is listed.
    pub(super) mode: Option<Mode>,
    /// What is embedded, and marked in the results.
    pub(super) text: String,
    /// The embedding that the request has.
    pub(super) vector: Option<Vec<f32>>,
    /// What the index is asked; mode and embedding come when the query is embedded.
    pub(super) search: weir_index::SearchRequest,
    /// Results before the page.
    pub(super) offset: usize,
    /// Results of the page, at most.
    pub(super) limit: usize,
    /// What scores the first results once more.
    pub(super) rescoring: Rescoring,
    /// What cursors to the pages of this request are bound to.
    pub(super) binding: Binding,
    /// Where the page begins, on all but the first.
    pub(super) page: Option<Cursor>,
}

impl Plan {
    /// Reads and checks a request that has passed [`SearchRequest::check`].
    pub(super) fn new(
        gateway: &Gateway,
        collection: Arc<OpenCollection>,
        mut request: SearchRequest,
    ) -> Result<Plan, ApiError> {
        let query =
            request.query.as_deref().map(|text| read_query(text, &request, &collection)).transpose()?;
        let filter = request.filter.as_ref().map(read_filter).transpose()?;
        let vector = request.vector.take().map(|vector| fit(vector, &collection)).transpose()?;
        let text = query.as_ref().map_or_else(String::new, |query| query.text().into_owned());
        let mode = legs(&request, &collection, query.is_some(), vector.is_some(), !text.trim().is_empty())?;
        check_order(&request)?;
        let rescoring = Rescoring::of(gateway, &collection, &request, !text.trim().is_empty())?;
        let fusion = fusion_for(&request, &gateway.config.search)?;
        let depth = gateway.config.search.depth;
        let binding = Binding {
            collection: collection.id,
            generation: collection.preparer.generation,
            request: hash(
                &request,
                vector.as_deref(),
                &format!("{fusion:?} {depth} {}", rescoring.signature()),
            )?,
        };
        let page = request.cursor.as_ref().map(|text| gateway.cursors.open(&binding, text)).transpose()?;
        if let Some(page) = &page {
            request.check_depth(page.offset, &gateway.config.request_limits(), "cursor")?;
        }
        let offset = size(page.as_ref().map_or(request.offset(), |page| page.offset));
        let limit = size(request.top_k());
        let head = rescoring.head();
        let search = weir_index::SearchRequest {
            strict: request.strict == Some(true),
            fusion,
            depth,
            // who changes places with whom is seen only by looking at all of them
            offset: if offset < head { 0 } else { offset },
            at: page.as_ref().map(|page| page.reached),
            hold: true,
            filter,
            group_by: match request.group_by.clone().unwrap_or_default() {
                GroupBy::Document => weir_index::GroupBy::Document,
                GroupBy::Chunk => weir_index::GroupBy::Chunk,
                GroupBy::Field(field) => weir_index::GroupBy::Field(field),
            },
            sort: sort_keys(request.sort.as_deref().unwrap_or_default()),
            facets: facets(request.facets.as_deref().unwrap_or_default()),
            count: request.count.unwrap_or(true),
            diversity: request.diversity.unwrap_or(0.0),
            collapse: request.collapse == Some(true),
            context: u32::try_from(request.context()).unwrap_or(u32::MAX),
            explain: request.explain == Some(true),
            why_not: request.why_not.clone(),
            // the same on every page, for the window of candidates depends on it
            ..weir_index::SearchRequest::new(
                weir_index::Mode::Lexical,
                query,
                None,
                limit.saturating_add(head),
            )
        };
        Ok(Plan { request, collection, mode, text, vector, search, offset, limit, rescoring, binding, page })
    }
}

pub(super) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Refuses what cannot be had beside an order of fields, or without a query.
fn check_order(request: &SearchRequest) -> Result<(), Invalid> {
    let is_sorted = request.sort.as_ref().is_some_and(|sort| !sort.is_empty());
    let is_listing = request.query.is_none() && request.vector.is_none();
    let refuse = |field, message| Err(Invalid::at(ErrorCode::InvalidParameter, &[field], message));
    if is_sorted && request.diversity.is_some_and(|diversity| diversity > 0.0) {
        return refuse(
            "diversity",
            "`sort` decides the order of the results; leave out `diversity` or `sort`",
        );
    }
    if request.min_relevance.is_some() && is_sorted {
        return refuse(
            "min_relevance",
            "relevance is judged in the order of scores; leave out `min_relevance` or `sort`",
        );
    }
    if request.min_relevance.is_some() && is_listing {
        return refuse(
            "min_relevance",
            "relevance is that to a query, and there is none; send `query` or `vector`, or leave out `min_relevance`",
        );
    }
    Ok(())
}

/// The keys of an order, as the index takes them.
pub(in super::super) fn sort_keys(sort: &[weir_api::Sort]) -> Vec<SortKey> {
    let key =
        |sort: &weir_api::Sort| SortKey { field: sort.field.clone(), descending: sort.order == Order::Desc };
    sort.iter().map(key).collect()
}

fn facets(facets: &[weir_api::Facet]) -> Vec<Facet> {
    let facet = |facet: &weir_api::Facet| Facet {
        field: facet.field.clone(),
        limit: size(facet.limit.map_or(DEFAULT_FACET_VALUES, Count::get)),
    };
    facets.iter().map(facet).collect()
}

/// Reads the query; what names a field that the collection hasn't is text, unless the request is strict.
fn read_query(text: &str, request: &SearchRequest, collection: &OpenCollection) -> Result<Query, Invalid> {
    if request.strict == Some(true) {
        return query::parse(text)
            .map_err(|error| Invalid::at(ErrorCode::InvalidQuery, &["query"], error.to_string()));
    }
    Ok(collection.read_query(text))
}

/// Whether the body is that of one search that needs the embedding of its query. Of what doesn't read well, and of pages after the first, a
/// plan tells more.
pub(in super::super) fn needs_embedding(gateway: &Gateway, caller: &Caller, body: &[u8]) -> bool {
    let Ok(request) = weir_api::parse::<SearchRequest>(body) else { return false };
    let (Some(text), None, None, None) = (&request.query, &request.vector, &request.queries, &request.cursor)
    else {
        return false;
    };
    let Some(collection) = gateway.collections.get(caller, request.collection()) else { return false };
    let Ok(query) = read_query(text, &request, &collection) else { return false };
    let has_text = !query.text().trim().is_empty();
    matches!(legs(&request, &collection, true, false, has_text), Ok(Some(Mode::Hybrid | Mode::Dense)))
}

/// Reads a filter in either form.
pub(in super::super) fn read_filter(filter: &RawJson) -> Result<Filter, Invalid> {
    Filter::parse(filter.text()).map_err(|error: FilterError| {
        Invalid::at_pointer(ErrorCode::InvalidFilter, "filter", &error.pointer, error.to_string())
    })
}

/// A vector of the request as the collection's own embeddings are.
fn fit(mut vector: Vec<f32>, collection: &OpenCollection) -> Result<Vec<f32>, Invalid> {
    let refuse = |message: String| Err(Invalid::at(ErrorCode::InvalidParameter, &["vector"], message));
    let Some(model) = collection.model() else {
        let message = format!("collection `{}` has no embeddings; search it by words", collection.name);
        return refuse(message);
    };
    // where an upstream has not told its own yet, the index checks
    let has = vector.len();
    let needs = model.dimension().unwrap_or(has);
    if has != needs {
        let message = format!(
            "`vector` has {has} values; embeddings of the collection's model `{}` have {needs}",
            model.id
        );
        return refuse(message);
    }
    if model.is_normalised() {
        let length = vector.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        if length == 0.0 {
            return refuse("every value of `vector` is 0, so that it points nowhere".to_owned());
        }
        if (length - 1.0).abs() > AS_GOOD_AS_ONE {
            vector.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
        }
    }
    Ok(vector)
}

/// The legs that rank. A text-only collection has the lexical one alone, and only an explicit wish for another is
/// refused; a query without a word that could be embedded is searched by its conditions.
fn legs(
    request: &SearchRequest,
    collection: &OpenCollection,
    has_query: bool,
    has_vector: bool,
    has_text: bool,
) -> Result<Option<Mode>, Invalid> {
    let refuse = |path, message: String| Err(Invalid::at(ErrorCode::InvalidParameter, &[path], message));
    let is_text_only = collection.model().is_none();
    if is_text_only && let Some(mode @ (Mode::Hybrid | Mode::Dense)) = request.mode {
        let message = format!(
            "collection `{}` has no embeddings, so that mode `{}` can't search it; use `lexical`",
            collection.name,
            mode.as_str()
        );
        return refuse("mode", message);
    }
    if is_text_only && request.diversity.is_some_and(|diversity| diversity > 0.0) {
        let message =
            format!("collection `{}` has no embeddings, which `diversity` compares", collection.name);
        return refuse("diversity", message);
    }
    match (has_query, has_vector, request.mode()) {
        (false, false, _) => Ok(None),
        (false, true, _) => Ok(Some(Mode::Dense)),
        (true, _, Mode::Lexical) => Ok(Some(Mode::Lexical)),
        (true, _, Mode::Hybrid | Mode::Dense) if is_text_only => Ok(Some(Mode::Lexical)),
        (true, true, mode) => Ok(Some(mode)),
        (true, false, Mode::Dense) if !has_text => {
            let message = "the query has conditions alone and no word to embed; add one, send `vector`, or use mode `lexical`";
            refuse("query", message.to_owned())
        }
        (true, false, Mode::Hybrid) if !has_text => Ok(Some(Mode::Lexical)),
        (true, false, mode) => Ok(Some(mode)),
    }
}

/// What the request says, and the settings for the rest; a constant that the method in force hasn't is refused.
fn fusion_for(request: &SearchRequest, settings: &Search) -> Result<Fusion, Invalid> {
    let said = request.fusion.unwrap_or_default();
    let (lexical, dense) = said
        .weights
        .map_or((settings.weight_lexical, settings.weight_dense), |weights| (weights.lexical, weights.dense));
    match said.method.unwrap_or(settings.fusion_method) {
        FusionMethod::Rrf => {
            Ok(Fusion::ReciprocalRank { k: said.k.unwrap_or(settings.rrf_k), lexical, dense })
        }
        FusionMethod::Convex if said.k.is_some() => {
            let message = "`k` is the constant of `rrf`, and the method is `convex`; leave out `k`, or send `rrf` as `method`";
            Err(Invalid::at(ErrorCode::InvalidParameter, &["fusion", "k"], message))
        }
        FusionMethod::Convex => Ok(Fusion::Convex { lexical, dense }),
    }
}

/// All that a ranking depends on, beside the collection.
fn hash(request: &SearchRequest, vector: Option<&[f32]>, settings: &str) -> Result<RequestHash, ApiError> {
    let request = SearchRequest { cursor: None, deadline_ms: None, ..request.clone() };
    let json = serde_json::to_vec(&request).map_err(|error| ApiError::internal(&error))?;
    let vector: Vec<u8> = vector.unwrap_or_default().iter().flat_map(|value| value.to_le_bytes()).collect();
    Ok(RequestHash::of(&[&json, &vector, settings.as_bytes()]))
}
