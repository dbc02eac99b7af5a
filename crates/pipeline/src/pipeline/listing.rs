//! Results that are not ordered by one ranking: listings without a query, and sorting by fields. Also totals and facets, which
//! count all matches.

use weir_ranking::RetrievalMode;

use super::candidates::{Candidate, Candidates};
use super::postprocess::Deduplicated;
use super::{DocumentSet, Outcome, Retriever, Search, timed};
use crate::{Grouping, MatchCount, Result, ValueCount};

/// Maximum number of candidates considered for one page.
const CANDIDATES_MAX: usize = 20_000;

impl<R: Retriever> Search<'_, R> {
    /// Lists all selected documents.
    pub(super) async fn list(&mut self) -> Result<Outcome> {
        let documents = self.retriever.documents(DocumentSet::Selected).await?;
        let facets = self.facets(&documents).await?;
        self.listed(&documents, facets, Candidates::default()).await
    }

    /// Ranks, and selects the page.
    pub(super) async fn rank(&mut self) -> Result<Outcome> {
        let matches = self.matches().await?;
        if !self.request.sort.is_empty() {
            return self.sorted(matches).await;
        }
        let end = self.request.offset.saturating_add(self.request.limit);
        // the window depends on the first page alone, so that later pages have the same
        let is_window = self.request.mode != RetrievalMode::Lexical;
        let mut wanted = if is_window { self.request.limit } else { end };
        let (candidates, kept) = loop {
            let candidates = self.candidates(wanted).await?;
            let kept = self.postprocess(&candidates.list).await?;
            let is_enough = kept.len() >= if is_window { self.request.limit } else { end };
            if is_enough || candidates.is_all || candidates.list.len() >= CANDIDATES_MAX {
                break (candidates, kept);
            }
            wanted = candidates.list.len().saturating_mul(2);
        };
        let total = match &matches {
            Some(matches) => self.total_of(matches, &kept, &candidates).await?,
            None => MatchCount::Window(kept.len() as u64),
        };
        let facets = match &matches {
            _ if self.request.facets.is_empty() => Vec::new(),
            Some(matches) => self.facets(matches).await?,
            None => self.facets(&self.counted(&candidates.list).await?).await?,
        };
        let page = kept.into_iter().skip(self.request.offset).take(self.request.limit).collect();
        Ok(Outcome { candidates, page, total, facets })
    }

    /// Orders the matches, or the candidates of a hybrid or dense search, by fields.
    async fn sorted(&mut self, matches: Option<R::Documents>) -> Result<Outcome> {
        if let Some(matches) = matches {
            let facets = self.facets(&matches).await?;
            return self.listed(&matches, facets, Candidates::default()).await;
        }
        let candidates = self.candidates(self.request.limit).await?;
        let documents = self.documents_among(&candidates.list).await?;
        let facets = match self.wants_exact_facets() {
            true => self.facets(&self.counted(&candidates.list).await?).await?,
            false => self.facets(&documents).await?,
        };
        self.listed(&documents, facets, candidates).await
    }

    /// All documents that the lexical retriever can find, if the query needs them: for counts, facets or sorting of a purely lexical
    /// search.
    async fn matches(&self) -> Result<Option<R::Documents>> {
        let request = self.request;
        let is_asked = request.count || !request.facets.is_empty() || !request.sort.is_empty();
        match (self.retriever.words(), request.mode) {
            (Some(_), RetrievalMode::Lexical) if is_asked => {
                Ok(Some(self.retriever.documents(DocumentSet::Matching).await?))
            }
            _ => Ok(None),
        }
    }

    /// The page of documents in the order of fields.
    async fn listed(
        &mut self,
        documents: &R::Documents,
        facets: Vec<Vec<ValueCount>>,
        ranked: Candidates,
    ) -> Result<Outcome> {
        let (request, retriever) = (self.request, self.retriever);
        let end = request.offset.saturating_add(request.limit);
        let is_postprocessed = request.is_postprocessed();
        let limit = if is_postprocessed { usize::MAX } else { end };
        let sorting = retriever.sorted(documents, &request.sort, limit);
        let ordered = timed(&mut self.timings.fuse, sorting).await?;
        let candidate = |listed: super::ListedChunk| {
            let is_chunk = request.group_by == Grouping::Chunk;
            let unit = if is_chunk { listed.chunk_id } else { listed.document };
            // show the chunk that a ranking found; its score has no meaning in this order
            let known = ranked.list.iter().find(|candidate| candidate.unit == unit);
            Candidate::unscored(unit, known.map_or(listed.chunk_id, |known| known.chunk_id))
        };
        let list: Vec<Candidate> = ordered.into_iter().map(candidate).collect();
        let kept = self.postprocess(&list).await?;
        let total = match is_postprocessed {
            true => Some(kept.len() as u64),
            false => retriever.count(documents, &request.group_by).await?,
        };
        let total = self.match_count(total, &kept, ranked.list.is_empty());
        let page = kept.into_iter().skip(request.offset).take(request.limit).collect();
        let candidates = Candidates { list, is_all: true, ..ranked };
        Ok(Outcome { candidates, page, total, facets })
    }

    async fn total_of(
        &self,
        matches: &R::Documents,
        kept: &[Deduplicated],
        candidates: &Candidates,
    ) -> Result<MatchCount> {
        if self.request.collapse && !candidates.is_all {
            return Ok(MatchCount::Window(kept.len() as u64));
        }
        let count = match candidates.is_all {
            true => Some(kept.len() as u64),
            false => self.retriever.count(matches, &self.request.group_by).await?,
        };
        Ok(self.match_count(count, kept, true))
    }

    /// `count` is exact if all candidates were looked at and the query is complete. Without one, what was kept counts.
    fn match_count(&self, count: Option<u64>, kept: &[Deduplicated], is_all: bool) -> MatchCount {
        match count {
            Some(count) if is_all && self.is_complete() => MatchCount::Exact(count),
            Some(count) => MatchCount::Window(count),
            None => MatchCount::Window(kept.len() as u64),
        }
    }

    /// Whether the query left no term of a prefix or wildcard out.
    fn is_complete(&self) -> bool {
        self.retriever.words().is_none_or(|words| words.is_complete)
    }

    async fn facets(&self, documents: &R::Documents) -> Result<Vec<Vec<ValueCount>>> {
        let mut counted = Vec::with_capacity(self.request.facets.len());
        for facet in &self.request.facets {
            counted.push(self.retriever.facet(documents, facet).await?);
        }
        Ok(counted)
    }

    /// Whether facets are to count more than the candidates of a hybrid or dense search.
    fn wants_exact_facets(&self) -> bool {
        self.request.exact_facets && !self.request.facets.is_empty()
    }

    /// Whether facets count all matches.
    pub(super) fn has_exact_facets(&self) -> bool {
        let request = self.request;
        let is_all = request.exact_facets || request.mode == RetrievalMode::Lexical || request.is_listing();
        is_all && self.is_complete()
    }

    /// The documents that facets of a hybrid or dense search count: the candidates; or, if all are to be counted, also all documents that contain a
    /// word of the query, or all that pass the filter if it has no words.
    async fn counted(&self, candidates: &[Candidate]) -> Result<R::Documents> {
        if !self.wants_exact_facets() {
            return self.documents_among(candidates).await;
        }
        if self.retriever.words().is_none_or(|words| words.terms.is_empty()) {
            return self.retriever.documents(DocumentSet::Selected).await;
        }
        self.retriever.documents(DocumentSet::MatchingOr(&chunk_ids_of(candidates))).await
    }

    async fn documents_among(&self, candidates: &[Candidate]) -> Result<R::Documents> {
        self.retriever.documents(DocumentSet::Of(&chunk_ids_of(candidates))).await
    }
}

fn chunk_ids_of(candidates: &[Candidate]) -> Vec<u32> {
    candidates.iter().map(|candidate| candidate.chunk_id).collect()
}
