//! Results that are not ordered by one ranking: listings without a query, and sorting by fields. Also totals and facets, which
//! count all matches.

use std::collections::HashSet;

use weir_lexical::LexicalQuery;
use weir_ranking::{RetrievalMode, Selection, set_bits};

use super::candidates::{Candidate, Candidates};
use super::postprocess::Deduplicated;
use super::{Outcome, Search, timed};
use crate::{Grouping, MatchCount, Result, ValueCount};

/// Maximum number of candidates considered for one page.
const CANDIDATES_MAX: usize = 20_000;

impl Search<'_> {
    /// Lists all visible documents.
    pub(super) fn list(&mut self) -> Option<Outcome> {
        let documents =
            self.snapshot.fields.documents_of(&self.snapshot.tombstones, self.selection.as_deref());
        let selection = self.selection.clone();
        self.listed(&documents, selection.as_deref(), &Candidates::default())
    }

    /// Ranks, and selects the page. `None` if the files contradict each other.
    pub(super) fn rank(&mut self) -> Result<Option<Outcome>> {
        let matches = self.matches()?;
        if !self.request.sort.is_empty() {
            let candidates = match matches {
                Some(_) => Candidates::default(),
                None => self.candidates(self.request.limit)?,
            };
            let documents = match &matches {
                Some(matches) => self.snapshot.fields.documents_of(&self.snapshot.tombstones, Some(matches)),
                None => self.documents_among(&candidates.list),
            };
            let mut outcome = self.listed(&documents, matches.as_ref(), &candidates);
            if let Some(outcome) = outcome.as_mut().filter(|_| matches.is_none() && self.wants_exact_facets())
            {
                outcome.facets = self.facets(&self.documents_found(&candidates.list)?);
            }
            return Ok(outcome);
        }
        let end = self.request.offset.saturating_add(self.request.limit);
        // the window depends on the first page alone, so that later pages have the same
        let is_window = self.request.mode != RetrievalMode::Lexical;
        let mut wanted = if is_window { self.request.limit } else { end };
        let (candidates, kept) = loop {
            let candidates = self.candidates(wanted)?;
            let Some(kept) = self.postprocess(&candidates.list) else { return Ok(None) };
            let is_enough = kept.len() >= if is_window { self.request.limit } else { end };
            if is_enough || candidates.is_all || candidates.list.len() >= CANDIDATES_MAX {
                break (candidates, kept);
            }
            wanted = candidates.list.len().saturating_mul(2);
        };
        let total = match &matches {
            Some(matches) => self.total_of(matches, &kept, &candidates),
            None => MatchCount::Window(kept.len() as u64),
        };
        let facets = match &matches {
            _ if self.request.facets.is_empty() => Vec::new(),
            Some(matches) => {
                let fields = &self.snapshot.fields;
                self.facets(&fields.documents_of(&self.snapshot.tombstones, Some(matches)))
            }
            None if self.wants_exact_facets() => self.facets(&self.documents_found(&candidates.list)?),
            None => self.facets(&self.documents_among(&candidates.list)),
        };
        let page = kept.into_iter().skip(self.request.offset).take(self.request.limit).collect();
        Ok(Some(Outcome { candidates, page, total, facets }))
    }

    /// All chunks that the lexical retriever can find, if the query needs them: for counts, facets or sorting of a purely lexical
    /// search.
    fn matches(&self) -> Result<Option<Selection>> {
        let request = self.request;
        let is_asked = request.count || !request.facets.is_empty() || !request.sort.is_empty();
        match (&self.query, request.mode) {
            (Some(query), RetrievalMode::Lexical) if is_asked => Ok(Some(self.lexical_matches(query)?)),
            _ => Ok(None),
        }
    }

    /// All chunks that the lexical retriever can find, and those of named documents.
    fn lexical_matches(&self, query: &LexicalQuery) -> Result<Selection> {
        let found = self.snapshot.lexical.all_matches(query, self.snapshot.tombstones.len())?;
        let found = self.with_named(found);
        Ok(match &self.selection {
            Some(selection) => found.and(selection),
            None => found,
        })
    }

    fn listed(
        &mut self,
        documents: &[u64],
        selection: Option<&Selection>,
        ranked: &Candidates,
    ) -> Option<Outcome> {
        let facets = self.facets(documents);
        let end = self.request.offset.saturating_add(self.request.limit);
        let is_postprocessed = self.request.is_postprocessed();
        let limit = if is_postprocessed { usize::MAX } else { end };
        let snapshot = self.snapshot;
        let request = self.request;
        let ordered = timed(&mut self.timings.fuse, || snapshot.fields.sort(&request.sort, documents, limit));
        let mut list = Vec::new();
        for document in ordered {
            let chunk_ids = snapshot.fields.chunk_ids(document);
            let first = chunk_ids.start;
            let shown =
                chunk_ids.filter(|&chunk_id| selection.is_none_or(|selection| selection.contains(chunk_id)));
            let candidates = shown.map(|chunk_id| {
                let unit = if request.group_by == Grouping::Chunk { chunk_id } else { first };
                // show the chunk that a ranking found; its score has no meaning in this order
                let known = ranked.list.iter().find(|candidate| candidate.unit == unit);
                let chunk_id = known.map_or(chunk_id, |known| known.chunk_id);
                Candidate::unscored(unit, chunk_id)
            });
            match request.group_by {
                Grouping::Chunk => list.extend(candidates),
                Grouping::Document | Grouping::Field(_) => list.extend(candidates.take(1)),
            }
        }
        let total = match request.group_by {
            Grouping::Chunk => {
                let visible = |chunk_id: &u32| snapshot.tombstones.is_live(*chunk_id);
                let all = || (0..snapshot.tombstones.len()).filter(visible).count();
                selection.map_or_else(all, |selection| selection.chunk_ids().filter(visible).count())
            }
            Grouping::Document | Grouping::Field(_) => {
                documents.iter().map(|word| word.count_ones() as usize).sum()
            }
        };
        let kept = self.postprocess(&list)?;
        let total = if is_postprocessed { kept.len() } else { total };
        let total = self.match_count(total, ranked.list.is_empty());
        let page = kept.into_iter().skip(request.offset).take(request.limit).collect();
        let candidates =
            Candidates { list, lexical: ranked.lexical.clone(), dense: ranked.dense.clone(), is_all: true };
        Some(Outcome { candidates, page, total, facets })
    }

    fn total_of(&self, matches: &Selection, kept: &[Deduplicated], candidates: &Candidates) -> MatchCount {
        let tombstones = &self.snapshot.tombstones;
        let documents = || self.snapshot.fields.documents_of(tombstones, Some(matches));
        let count = match &self.request.group_by {
            _ if self.request.collapse && !candidates.is_all => return MatchCount::Window(kept.len() as u64),
            _ if candidates.is_all => kept.len(),
            Grouping::Chunk => matches.chunk_ids().filter(|&chunk_id| tombstones.is_live(chunk_id)).count(),
            Grouping::Document => documents().iter().map(|word| word.count_ones() as usize).sum(),
            Grouping::Field(field) => self.snapshot.fields.count_groups(field, &documents()),
        };
        self.match_count(count, true)
    }

    /// `count` is exact if all candidates were looked at and the query is complete.
    fn match_count(&self, count: usize, is_all: bool) -> MatchCount {
        match is_all && self.is_complete() {
            true => MatchCount::Exact(count as u64),
            false => MatchCount::Window(count as u64),
        }
    }

    /// Whether the query left no term of a prefix or wildcard out.
    fn is_complete(&self) -> bool {
        self.query.as_ref().is_none_or(|query| query.is_complete)
    }

    fn facets(&self, documents: &[u64]) -> Vec<Vec<ValueCount>> {
        let count = |facet| self.snapshot.fields.count_values(facet, documents);
        self.request.facets.iter().map(count).collect()
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

    /// The candidates and all documents that contain a word of the query, or all that pass the filter if it has no words, as a bitmap.
    fn documents_found(&self, candidates: &[Candidate]) -> Result<Vec<u64>> {
        let (fields, tombstones) = (&self.snapshot.fields, &self.snapshot.tombstones);
        let Some(query) = self.query.as_ref().filter(|query| !query.terms.is_empty()) else {
            return Ok(fields.documents_of(tombstones, self.selection.as_deref()));
        };
        let mut documents = fields.documents_of(tombstones, Some(&self.lexical_matches(query)?));
        let candidates = self.documents_among(candidates);
        documents.iter_mut().zip(candidates).for_each(|(found, candidate)| *found |= candidate);
        Ok(documents)
    }

    /// The documents of the candidates, as a bitmap.
    fn documents_among(&self, candidates: &[Candidate]) -> Vec<u64> {
        let fields = &self.snapshot.fields;
        let mut documents = vec![0; fields.documents().div_ceil(64)];
        let found: HashSet<u32> =
            candidates.iter().map(|candidate| fields.document_of(candidate.chunk_id)).collect();
        found.into_iter().for_each(|document| set_bits(&mut documents, document, document + 1));
        documents
    }
}
