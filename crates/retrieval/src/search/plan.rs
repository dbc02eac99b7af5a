//! From a request to what the index is asked: everything is read and checked before anything is embedded.

use serde::Serialize;
use weir_api::{
    Count, DEFAULT_FACET_VALUES, ErrorCode, FacetCounts, FusionMethod, GroupBy, Invalid, Mode, Order, Prefix,
    RawJson, SearchRequest, Syntax, require,
};
use weir_config::table::Search;
use weir_index::filter::{Filter, FilterError};
use weir_index::{FacetSpec, FusionFunction, IndexQuery, SortKey};
use weir_query::{Query, Reading};
use weir_ranking::RetrievalMode;

use super::refusal::refusal;
use super::second_stage::SecondStage;
use crate::view::CollectionView;
use crate::{Result, Retrieval};
use weir_cursor::{Binding, Cursor, RequestHash};
use weir_preparation::own_vectors;
use weir_refusal::RequestError;

/// A search that was checked and planned: everything but the query's embedding. No later stage changes it.
pub(super) struct Plan {
    /// The request, without its vector.
    pub(super) request: SearchRequest,
    pub(super) view: CollectionView,
    /// The retrievers that rank; `None` lists everything that passes the filter.
    pub(super) mode: Option<Mode>,
    /// The words of the query, which are embedded and highlighted.
    pub(super) text: String,
    /// Parts of the query that look like operators and are searched as words.
    pub(super) as_text: Vec<String>,
    /// The embedding that the request carries, scaled like the collection's.
    pub(super) vector: Option<Vec<f32>>,
    /// The index query without mode, embedding and place of the page: [`Plan::index_query`] adds them.
    template: IndexQuery,
    /// Results before the page.
    pub(super) offset: usize,
    /// Results of the page, at most.
    pub(super) limit: usize,
    /// Re-scoring of the first hits.
    pub(super) second_stage: SecondStage,
    /// The binding of cursors to the pages of this request.
    pub(super) binding: Binding,
    /// Where the page begins, on all but the first.
    pub(super) page: Option<Cursor>,
}

impl Plan {
    /// Reads and checks a request that has passed [`SearchRequest::check`], and whose query was read.
    pub(super) fn new(
        retrieval: &Retrieval,
        view: CollectionView,
        mut request: SearchRequest,
        reading: Option<Reading>,
    ) -> Result<Plan> {
        let (query, as_text) = reading.map(|reading| (reading.query, reading.as_text)).unzip();
        let shown = query.as_ref().map(Query::to_string).unwrap_or_default();
        let filter = request.filter.as_ref().map(read_filter).transpose()?;
        let vector = request.vector.take().map(|vector| fit(vector, &view)).transpose()?;
        let text = query.as_ref().map_or_else(String::new, |query| query.text().into_owned());
        let mode = mode_for(&request, &view, query.is_some(), vector.is_some(), !text.trim().is_empty())?;
        check_order(&request)?;
        let second_stage = SecondStage::new(retrieval, &view, &request, !text.trim().is_empty())?;
        let fusion = fusion_for(&request, &retrieval.config.search)?;
        let depth = retrieval.config.search.depth;
        let lexical = view.lexical();
        let smoothing = request.smoothing.unwrap_or(retrieval.config.search.smoothing);
        let binding = Binding {
            collection: view.id(),
            generation: view.generation(),
            request: hash(
                &request,
                vector.as_deref(),
                &(fusion_key(fusion), smoothing, depth as u64, lexical.hash, second_stage.key(), shown),
            )?,
        };
        let page =
            request.cursor.as_ref().map(|text| retrieval.cursors.verify(&binding, text)).transpose()?;
        if let Some(page) = &page {
            request.check_depth(page.offset, &retrieval.config.request_limits(), "cursor")?;
        }
        let offset = size(page.as_ref().map_or(request.offset(), |page| page.offset));
        let limit = size(request.top_k());
        let template = IndexQuery {
            strict: request.syntax() == Syntax::Strict,
            lexical: lexical.index.clone(),
            expanded_terms_max: retrieval.config.limits.query_expanded_terms_max,
            // the parsed query has lost the white space that ends its last word
            is_unfinished: request.prefix == Some(Prefix::Last)
                && request.query.as_deref().is_some_and(|query| !query.ends_with(char::is_whitespace)),
            fusion,
            smoothing,
            depth,
            // otherwise a page is of the index as it is
            as_of: page.as_ref().map(|page| page.applied_seq).filter(|_| view.pins_snapshots()),
            pin: view.pins_snapshots(),
            filter,
            group_by: match request.group_by.clone().unwrap_or_default() {
                GroupBy::Document => weir_index::Grouping::Document,
                GroupBy::Chunk => weir_index::Grouping::Chunk,
                GroupBy::Field(field) => weir_index::Grouping::Field(field),
            },
            sort: sort_keys(request.sort.as_deref().unwrap_or_default()),
            facets: facets(request.facets.as_deref().unwrap_or_default()),
            exact_facets: request.facet_counts == Some(FacetCounts::Exact),
            count: request.count.unwrap_or(true),
            diversity: request.diversity.unwrap_or(0.0),
            collapse: request.collapse == Some(true),
            context: u32::try_from(request.context()).unwrap_or(u32::MAX),
            explain: request.explain == Some(true),
            trace: request.why_not.clone(),
            ..IndexQuery::new(RetrievalMode::Lexical, query, None, limit)
        };
        let as_text = as_text.unwrap_or_default();
        Ok(Plan {
            request,
            view,
            mode,
            text,
            as_text,
            vector,
            template,
            offset,
            limit,
            second_stage,
            binding,
            page,
        })
    }

    /// The same search with the query's operators as words; `None` if it has none, or they are all meant.
    pub(super) fn as_words(&self, retrieval: &Retrieval) -> Result<Option<Plan>> {
        let query = self.request.query.as_ref().filter(|_| self.request.syntax() == Syntax::Auto);
        let has_operators =
            self.template.query.as_ref().is_some_and(|query| !matches!(query, Query::Words(_)));
        let Some(query) = query.filter(|_| has_operators) else { return Ok(None) };
        let Reading { query, as_text } = Reading::text(query);
        let text = query.text().into_owned();
        let has_text = !text.trim().is_empty();
        let (request, view) = (self.request.clone(), self.view.clone());
        let mode = mode_for(&request, &view, true, self.vector.is_some(), has_text)?;
        let second_stage = SecondStage::new(retrieval, &view, &request, has_text)?;
        let template = IndexQuery { query: Some(query), ..self.template.clone() };
        let (vector, page) = (self.vector.clone(), self.page.clone());
        Ok(Some(Plan { request, view, mode, text, as_text, vector, template, second_stage, page, ..*self }))
    }

    /// The query to the index, with the retrievers in `mode`; `None` lists.
    pub(super) fn index_query(&self, mode: Option<Mode>, embedding: Option<Vec<f32>>) -> IndexQuery {
        let mode = match mode {
            Some(Mode::Hybrid) => RetrievalMode::Hybrid,
            Some(Mode::Dense) => RetrievalMode::Dense,
            Some(Mode::Lexical) | None => RetrievalMode::Lexical,
        };
        let depth = self.second_stage.depth();
        IndexQuery {
            mode,
            embedding,
            // the second stage reorders all of the first hits, whatever page is asked for
            offset: if self.offset < depth { 0 } else { self.offset },
            // equal on every page, because the candidate window depends on it
            limit: self.limit.saturating_add(depth),
            ..self.template.clone()
        }
    }
}

pub(super) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Refuses what cannot be had beside an order of fields, or without a query.
fn check_order(request: &SearchRequest) -> Result<(), Invalid> {
    let is_sorted = request.sort.as_ref().is_some_and(|sort| !sort.is_empty());
    let is_listing = request.query.is_none() && request.vector.is_none();
    let is_diverse = request.diversity.is_some_and(|diversity| diversity > 0.0);
    let has_minimum = request.min_relevance.is_some();
    require(
        !(is_sorted && is_diverse),
        &["diversity"],
        || "`sort` decides the order of the results; leave out `diversity` or `sort`",
    )?;
    require(
        !(is_sorted && has_minimum),
        &["min_relevance"],
        || "relevance is judged in the order of scores; leave out `min_relevance` or `sort`",
    )?;
    require(
        !(is_listing && has_minimum),
        &["min_relevance"],
        || "relevance is that to a query, and there is none; send `query` or `vector`, or leave out `min_relevance`",
    )
}

/// The keys of an order, as the index takes them.
pub(crate) fn sort_keys(sort: &[weir_api::Sort]) -> Vec<SortKey> {
    let key =
        |sort: &weir_api::Sort| SortKey { field: sort.field.clone(), descending: sort.order == Order::Desc };
    sort.iter().map(key).collect()
}

fn facets(facets: &[weir_api::Facet]) -> Vec<FacetSpec> {
    let facet = |facet: &weir_api::Facet| FacetSpec {
        field: facet.field.clone(),
        limit: size(facet.limit.map_or(DEFAULT_FACET_VALUES, Count::get)),
    };
    facets.iter().map(facet).collect()
}

/// Reads the query of a request as its `syntax` says.
pub(super) async fn read_query(request: &SearchRequest, view: &CollectionView) -> Result<Option<Reading>> {
    let Some(text) = &request.query else { return Ok(None) };
    let reading = match request.syntax() {
        Syntax::Text => Reading::text(text),
        Syntax::Auto => view.read_query(text).await.map_err(|error| refusal(error, request))?,
        Syntax::Strict => {
            let query = weir_query::parse(text)
                .map_err(|error| Invalid::at(ErrorCode::InvalidQuery, &["query"], error.to_string()))?;
            Reading { query, as_text: Vec::new() }
        }
    };
    Ok(Some(reading))
}

/// Reads a filter in either form.
pub(crate) fn read_filter(filter: &RawJson) -> Result<Filter, Invalid> {
    Filter::parse(filter.text()).map_err(|error: FilterError| {
        Invalid::at_pointer(ErrorCode::InvalidFilter, "filter", &error.pointer, error.to_string())
    })
}

/// A vector of the request as the collection's own embeddings are.
fn fit(mut vector: Vec<f32>, view: &CollectionView) -> Result<Vec<f32>, Invalid> {
    let path = &["vector"];
    if let Some(vectors) = view.own_vectors() {
        return own_vectors::query_vector(vectors, vector);
    }
    let Some(model) = view.model() else {
        let message = format!("collection `{}` has no embeddings; search it by words", view.name());
        return Err(Invalid::at(ErrorCode::InvalidParameter, path, message));
    };
    // where the dimension of an upstream is not known yet, the index checks
    let has = vector.len();
    let needs = model.dimension().unwrap_or(has);
    require(has == needs, path, || {
        let id = &model.id;
        format!("`vector` has {has} values; embeddings of the collection's model `{id}` have {needs}")
    })?;
    if model.is_normalised() {
        let is_direction = vector.iter().any(|value| *value != 0.0);
        require(is_direction, path, || "every value of `vector` is 0, so that it points nowhere")?;
        own_vectors::normalise(&mut vector);
    }
    Ok(vector)
}

/// The retrievers that rank. A text-only collection has only the lexical one, and so has a query without a vector where nothing embeds it; another
/// is refused only if the request names it. A query without words to embed is searched by its conditions.
fn mode_for(
    request: &SearchRequest,
    view: &CollectionView,
    has_query: bool,
    has_vector: bool,
    has_text: bool,
) -> Result<Option<Mode>, Invalid> {
    let is_text_only = !view.has_embeddings();
    let (name, mode) = (view.name(), request.mode.unwrap_or(Mode::Lexical));
    require(!is_text_only || mode == Mode::Lexical, &["mode"], || {
        let mode: &str = mode.into();
        format!("collection `{name}` has no embeddings, so that mode `{mode}` can't search it; use `lexical`")
    })?;
    let is_diverse = request.diversity.is_some_and(|diversity| diversity > 0.0);
    require(!(is_text_only && is_diverse), &["diversity"], || {
        format!("collection `{name}` has no embeddings, which `diversity` compares")
    })?;
    let lacks_vector = view.own_vectors().is_some() && has_query && !has_vector;
    own_vectors::check_mode(name, lacks_vector && mode != Mode::Lexical)?;
    match (has_query, has_vector, request.mode()) {
        (false, false, _) => Ok(None),
        (false, true, _) => Ok(Some(Mode::Dense)),
        (true, _, Mode::Lexical) => Ok(Some(Mode::Lexical)),
        (true, _, Mode::Hybrid | Mode::Dense) if is_text_only || lacks_vector => Ok(Some(Mode::Lexical)),
        (true, true, mode) => Ok(Some(mode)),
        (true, false, Mode::Dense) if !has_text => {
            let message = "the query has conditions alone and no word to embed; add one, send `vector`, or use mode `lexical`";
            Err(Invalid::at(ErrorCode::InvalidParameter, &["query"], message))
        }
        (true, false, Mode::Hybrid) if !has_text => Ok(Some(Mode::Lexical)),
        (true, false, mode) => Ok(Some(mode)),
    }
}

/// The fusion by the request, and by the settings for the rest; a constant that the method in force hasn't is refused.
fn fusion_for(request: &SearchRequest, settings: &Search) -> Result<FusionFunction, Invalid> {
    let said = request.fusion.unwrap_or_default();
    let (lexical, dense) = said
        .weights
        .map_or((settings.weight_lexical, settings.weight_dense), |weights| (weights.lexical, weights.dense));
    match said.method.unwrap_or(settings.fusion_method) {
        FusionMethod::Rrf => {
            Ok(FusionFunction::ReciprocalRank { k: said.k.unwrap_or(settings.rrf_k), lexical, dense })
        }
        FusionMethod::Convex if said.k.is_some() => {
            let message = "`k` is the constant of `rrf`, and the method is `convex`; leave out `k`, or send `rrf` as `method`";
            Err(Invalid::at(ErrorCode::InvalidParameter, &["fusion", "k"], message))
        }
        FusionMethod::Convex => {
            Ok(FusionFunction::Convex { lexical, dense, follows_query: said.weights.is_none() })
        }
    }
}

/// The name, the constant, the weights of a fusion function, and whether they follow the query.
fn fusion_key(fusion: FusionFunction) -> (&'static str, f32, f32, f32, bool) {
    match fusion {
        FusionFunction::ReciprocalRank { k, lexical, dense } => ("rrf", k, lexical, dense, false),
        FusionFunction::Convex { lexical, dense, follows_query } => {
            ("convex", 0.0, lexical, dense, follows_query)
        }
    }
}

/// All that a ranking depends on, beside the collection.
fn hash(request: &SearchRequest, vector: Option<&[f32]>, settings: &impl Serialize) -> Result<RequestHash> {
    let request = SearchRequest { cursor: None, deadline_ms: None, at_least: None, ..request.clone() };
    let json = serde_json::to_vec(&request).map_err(|error| RequestError::internal(&error))?;
    let vector: Vec<u8> = vector.unwrap_or_default().iter().flat_map(|value| value.to_le_bytes()).collect();
    let settings = postcard::to_stdvec(settings).map_err(|error| RequestError::internal(&error))?;
    Ok(RequestHash::of(&[&json, &vector, &settings]))
}
