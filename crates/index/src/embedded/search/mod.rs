//! One search over one snapshot.
//!
//! The filter and the query's conditions select slots; both legs rank the chunks among them; fusion over documents (or
//! chunks) makes candidates; grouping, collapsing and diversity thin them out; the page is cut; its texts are fetched.
//! A search without a query takes all that is selected, in the order in which it came. Sorting by fields replaces the
//! order of candidates.

mod candidates;
mod hits;
mod legs;
mod listing;
mod thin;
mod why_not;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_filter::Filter;
use weir_policy::Caller;

use super::lexical::LexicalQuery;
use super::ranking::BestChunk;
use super::relevance::Judge;
use super::selection::{Selection, Visible};
use super::snapshot::Snapshot;
use super::{Embedded, dense};
use crate::query::Query;
use crate::relevance::{Evidence, Features, SAMPLE_CHUNKS_MIN};
use crate::{FacetCount, GroupBy, IndexError, Mode, SearchReply, SearchRequest, Timings, Total};
use candidates::Candidates;
pub(super) use candidates::scored;
use thin::Kept;

/// The field of the lexical leg that a query can name; every other name is a metadata field.
const TITLE: &str = "title";

impl Embedded {
    /// See [`crate::Engine::search`]. Blocks the thread.
    pub fn search(&self, caller: &Caller, request: &SearchRequest) -> Result<SearchReply, IndexError> {
        let request = &*self.for_caller(caller, request)?;
        let (current, asked) = self.current_with(request.why_not.as_deref());
        let snapshot = self.snapshot_of(request, &current)?;
        let damaged = || IndexError::damaged(self.folder(), "a slot does not lead to its document");
        let search = Search::new(&snapshot, &current, request, asked, self)?;
        search.run().and_then(|found| found.ok_or_else(damaged))
    }

    /// See [`crate::Engine::features`]. Blocks the thread.
    pub fn features(
        &self,
        caller: &Caller,
        request: &SearchRequest,
        document_id: &str,
    ) -> Result<Option<Features>, IndexError> {
        let request = &*self.for_caller(caller, request)?;
        let (snapshot, asked) = self.current_with(Some(document_id));
        let Some(slots) = asked.filter(|_| !request.is_listing()) else { return Ok(None) };
        let mut search = Search::new(&snapshot, &snapshot, request, None, self)?;
        let found = search.candidates(1)?;
        let score_in =
            |leg: &[BestChunk]| leg.iter().find(|best| slots.contains(&best.slot)).map(|best| best.score);
        let scores = (score_in(&found.lexical), score_in(&found.dense));
        Ok(match (scores, search.evidence) {
            ((None, None), _) | (_, None) => None,
            ((lexical, dense), Some(evidence)) => Some(evidence.features(lexical, dense)),
        })
    }

    /// The snapshot of this moment, and the slots that a document has in it.
    fn current_with(&self, document_id: Option<&str>) -> (Arc<Snapshot>, Option<Range<u32>>) {
        let live = super::lock(&self.inner.live);
        let current = self.snapshot();
        let record = document_id.and_then(|id| live.table.find(id, &current.files.documents));
        let slots = record.map(|record| record.first_slot..record.first_slot + record.chunks);
        (current, slots)
    }

    /// See [`crate::Engine::has_field`].
    pub fn has_field(&self, name: &str) -> bool {
        name == TITLE || self.snapshot().fields.is_known(name)
    }

    /// Checks the request and restricts it to the documents that pass the caller's mandatory filter.
    pub(super) fn for_caller<'r>(
        &self,
        caller: &Caller,
        request: &'r SearchRequest,
    ) -> Result<Cow<'r, SearchRequest>, IndexError> {
        self.check_request(request)?;
        let Some(mandatory) = caller.filter() else { return Ok(Cow::Borrowed(request)) };
        let filter = match &request.filter {
            Some(filter) => Filter::and(mandatory.clone(), filter.clone()),
            None => mandatory.clone(),
        };
        Ok(Cow::Owned(SearchRequest { filter: Some(filter), ..request.clone() }))
    }

    /// The snapshot that the request goes on with, or the current one; holds it for the pages that follow.
    fn snapshot_of(
        &self,
        request: &SearchRequest,
        current: &Arc<Snapshot>,
    ) -> Result<Arc<Snapshot>, IndexError> {
        let mut held = super::lock(&self.inner.held);
        let now = Instant::now();
        let snapshot = match request.at {
            None => Arc::clone(current),
            Some(reached) => match held.find(reached, now) {
                Some(snapshot) => snapshot,
                None if current.reached == reached => Arc::clone(current),
                None => return Err(IndexError::SnapshotGone { reached }),
            },
        };
        if request.hold {
            held.hold(&snapshot, now);
        }
        Ok(snapshot)
    }

    fn check_request(&self, request: &SearchRequest) -> Result<(), IndexError> {
        request.fusion.check()?;
        if !(0.0..=1.0).contains(&request.diversity) {
            return Err(IndexError::FusionSetting { name: "diversity", value: request.diversity });
        }
        let dimension = self.settings().dimension;
        if request.diversity > 0.0 && dimension == 0 {
            return Err(IndexError::TextOnly);
        }
        match (request.mode, &request.embedding) {
            (Mode::Lexical, _) => Ok(()),
            (Mode::Hybrid | Mode::Dense, _) if request.is_listing() => Ok(()),
            (Mode::Hybrid | Mode::Dense, _) if dimension == 0 => Err(IndexError::TextOnly),
            (Mode::Hybrid | Mode::Dense, None) => Err(IndexError::EmbeddingMissing { dimension }),
            (Mode::Hybrid | Mode::Dense, Some(embedding)) => dense::check(embedding, dimension),
        }
    }
}

impl SearchRequest {
    /// Whether nothing ranks: everything that the filter lets through is listed.
    pub(crate) fn is_listing(&self) -> bool {
        self.query.is_none() && self.embedding.is_none()
    }

    /// Whether candidates stand for others, or change places.
    pub(crate) fn is_thinned(&self) -> bool {
        self.collapse || self.diversity > 0.0 || matches!(self.group_by, GroupBy::Field(_))
    }
}

/// A search under way.
pub(super) struct Search<'a> {
    engine: &'a Embedded,
    snapshot: &'a Snapshot,
    /// The snapshot of this moment: what it has dead is not shown.
    current: &'a Snapshot,
    request: &'a SearchRequest,
    /// `None` when no text is searched for.
    query: Option<LexicalQuery>,
    /// The slots that the filter and the query's conditions let through; `None` when there is neither.
    selection: Option<Arc<Selection>>,
    /// The slots of the document of [`SearchRequest::why_not`], if it is there.
    asked: Option<Range<u32>>,
    judge: Judge,
    /// What the first window tells about the relevance of hits.
    evidence: Option<Evidence>,
    timings: Timings,
}

/// What the request comes to before texts are fetched.
struct Outcome {
    candidates: Candidates,
    page: Vec<Kept>,
    total: Total,
    facets: Vec<Vec<FacetCount>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        current: &'a Snapshot,
        request: &'a SearchRequest,
        asked: Option<Range<u32>>,
        engine: &'a Embedded,
    ) -> Result<Search<'a>, IndexError> {
        let started = Instant::now();
        snapshot.check_fields(request)?;
        let query = match &request.query {
            Some(query) if request.strict || query.fields().is_empty() => {
                Some(snapshot.compile(query, request.mode)?)
            }
            Some(query) => {
                let known = |name: &str| name == TITLE || snapshot.fields.is_known(name);
                Some(snapshot.compile(&query.clone().with_fields(known), request.mode)?)
            }
            None => None,
        };
        let selection = snapshot.selection(request, query.as_ref())?;
        let timings = Timings { select: started.elapsed(), ..Timings::default() };
        let judge = Judge::of(&engine.inner, request.embedding.as_deref());
        Ok(Search {
            engine,
            snapshot,
            current,
            request,
            query,
            selection,
            asked,
            judge,
            evidence: None,
            timings,
        })
    }

    /// Live chunks that the filter and the query's conditions let through; `None` without any.
    pub(super) fn selected(&self) -> Option<u32> {
        self.selection.as_ref().map(|selection| selection.live(&self.snapshot.tombstones))
    }

    pub(super) fn visible(&self) -> Visible<'_> {
        Visible { tombstones: &self.snapshot.tombstones, selection: self.selection.as_deref() }
    }

    /// Whether words or an embedding rank: what fields alone find or put in order is not judged.
    fn is_judged(&self) -> bool {
        let has_terms = self.query.as_ref().is_some_and(|query| !query.terms.is_empty());
        self.request.sort.is_empty() && (has_terms || self.request.embedding.is_some())
    }

    /// Lets the collection learn from the first page of a search of all its documents.
    fn teach(&self) {
        let is_first = self.request.offset == 0 && self.request.at.is_none();
        let is_of_all = self.selection.is_none() && self.request.group_by == GroupBy::Document;
        let has_enough = self.snapshot.chunks() as usize >= SAMPLE_CHUNKS_MIN;
        if let Some(evidence) =
            self.evidence.filter(|_| is_first && is_of_all && has_enough && self.is_judged())
        {
            super::lock(&self.engine.inner.usual).learn(&evidence);
        }
    }

    /// `None` when the files contradict each other.
    fn run(mut self) -> Result<Option<SearchReply>, IndexError> {
        let outcome = if self.request.is_listing() { self.list() } else { self.rank()? };
        let Some(outcome) = outcome else { return Ok(None) };
        self.teach();
        let why_not = match &self.request.why_not {
            Some(_) => Some(self.why_not(&outcome)?),
            None => None,
        };
        let started = Instant::now();
        let Some(hits) = self.hits(&outcome)? else { return Ok(None) };
        let leg = |leg| self.ranking(leg);
        let (Some(lexical), Some(dense)) = (leg(&outcome.candidates.lexical), leg(&outcome.candidates.dense))
        else {
            return Ok(None);
        };
        self.timings.fetch = started.elapsed();
        let selected = self.selected().map(u64::from);
        let (terms, corrections) =
            self.query.map(|query| (query.terms, query.corrections)).unwrap_or_default();
        Ok(Some(SearchReply {
            hits,
            total: outcome.total,
            facets: outcome.facets,
            lexical,
            dense,
            corrections,
            terms: terms.into_iter().map(|term| term.text).collect(),
            reached: self.snapshot.reached,
            selected,
            why_not,
            timings: self.timings,
        }))
    }
}

impl Snapshot {
    /// Refuses fields that no document has had.
    fn check_fields(&self, request: &SearchRequest) -> Result<(), IndexError> {
        let strict = request.query.iter().filter(|_| request.strict);
        let in_query = strict.flat_map(Query::fields).filter(|name| *name != TITLE);
        let in_filter = request.filter.iter().flat_map(|filter| filter.paths());
        let facets = request.facets.iter().map(|facet| facet.field.as_str());
        let keys = request.sort.iter().map(|key| key.field.as_str());
        let group = match &request.group_by {
            GroupBy::Field(field) => Some(field.as_str()),
            GroupBy::Document | GroupBy::Chunk => None,
        };
        let mut asked = in_query.chain(in_filter).chain(facets).chain(keys).chain(group);
        match asked.find(|path| !self.fields.is_known(path)) {
            Some(unknown) => Err(IndexError::UnknownField {
                field: unknown.to_owned(),
                known: self.fields.known().take(KNOWN_FIELDS_SHOWN).map(str::to_owned).collect(),
                is_full: self.fields.is_full(),
            }),
            None => Ok(()),
        }
    }

    /// Compiles a query; fields of metadata become the slots of the documents that have the value.
    fn compile(&self, query: &Query, mode: Mode) -> Result<LexicalQuery, IndexError> {
        let compiled =
            self.lexical.compile(query, mode, &self.tombstones, |filter| self.fields.select(filter));
        compiled.map_err(IndexError::lexical("search"))
    }

    /// The slots that the filter and the query's conditions let through.
    fn selection(
        &self,
        request: &SearchRequest,
        query: Option<&LexicalQuery>,
    ) -> Result<Option<Arc<Selection>>, IndexError> {
        let filtered = request.filter.as_ref().map(|filter| self.fields.select(filter));
        let satisfying = match query {
            Some(query) => self.lexical.satisfying(query, self.tombstones.slots())?,
            None => None,
        };
        Ok(match (filtered, satisfying) {
            (Some(filtered), Some(satisfying)) => Some(Arc::new(filtered.and(&satisfying))),
            (None, Some(satisfying)) => Some(Arc::new(satisfying)),
            (filtered, None) => filtered,
        })
    }
}

/// An error about an unknown field lists so many known ones.
const KNOWN_FIELDS_SHOWN: usize = 50;

fn timed<T>(duration: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *duration += start.elapsed();
    result
}
