//! One commit, for searching. Later commits and merges do not change it.

use std::sync::Arc;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use tantivy::query::{
    Bm25StatisticsProvider as _, Bm25Weight, BooleanQuery, EnableScoring, Occur, Query as Matcher, Weight,
};
use tantivy::schema::Field;
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, Searcher, Term};
use weir_ranking::relevance::{BM25_TERM_MAX, Bm25Bounds};
use weir_ranking::{ScoredChunk, Selection, SharedThreshold, TopK, Visible, set_bits};
use weir_text::{Language, QueryTerm};

use super::adjacency::ScoredCompound;
use super::bag::Bag;
use super::by_segment::BySegment;
use super::chunk_ids::{ChunkIds, ChunkIdsQuery};
use super::compile::{Condition, ScoringQuery, boosted_phrase};
use super::directory::GuardedDirectory;
use super::max_score::{MaxScore, ScoredBag, ScoredTerm};
use super::spelling_index::SpellingIndex;
use super::statistics::{Bm25Statistics, CollectionTotals};
use super::{Fields, LexicalQuery};
use crate::{LexicalError, Result};

/// If a filter passes fewer than one in this many chunks, its chunks are iterated and terms follow; otherwise the terms are
/// iterated, which skips blocks, and each match is tested against the filter.
const SELECTED_SHARE: u32 = 16;

/// One commit, for searching.
pub struct LexicalView {
    pub(super) searcher: Searcher,
    directory: GuardedDirectory,
    pub(super) fields: Fields,
    pub(super) language: Language,
    pub(super) chunk_ids: ChunkIds,
    pub(super) words: BySegment<SpellingIndex>,
    totals: CollectionTotals,
    /// Entries that are not deleted.
    entries: u32,
}

/// The scorer of a query.
///
/// The maximum score of a block of postings was determined with the lengths of all chunks. It bounds no score that is computed from those
/// of a part of them, which a caller with a mandatory filter has; then no block is left out.
enum Scoring<'a> {
    AnyOf(ScoredBag<'a>),
    Weight { weight: Box<dyn Weight>, is_pruned: bool },
}

/// The state of one thread that scores segments.
enum SegmentScorer<'a> {
    AnyOf(Box<MaxScore<'a>>),
    Weight { weight: &'a dyn Weight, is_pruned: bool },
}

impl Scoring<'_> {
    fn segment_scorer(&self, field: Field) -> SegmentScorer<'_> {
        match self {
            Scoring::AnyOf(bag) => SegmentScorer::AnyOf(Box::new(MaxScore::new(bag, field))),
            Scoring::Weight { weight, is_pruned } => {
                SegmentScorer::Weight { weight: weight.as_ref(), is_pruned: *is_pruned }
            }
        }
    }
}

impl LexicalView {
    pub(super) fn new(
        searcher: Searcher,
        directory: GuardedDirectory,
        fields: Fields,
        language: Language,
        chunk_ids: ChunkIds,
        words: BySegment<SpellingIndex>,
    ) -> tantivy::Result<LexicalView> {
        let entries = searcher.segment_readers().iter().map(|segment| segment.num_docs()).sum();
        let totals = CollectionTotals::of(&searcher, &[fields.text, fields.title])?;
        Ok(LexicalView { searcher, directory, fields, language, chunk_ids, words, totals, entries })
    }

    /// Checks that all bytes that were read so far were those of the files.
    pub fn check(&self) -> Result<()> {
        Ok(self.directory.check()?)
    }

    /// The visible chunks that match, best first, at most `depth`. Segments are searched one by one, or `in_parallel`.
    ///
    /// # Errors
    /// [`LexicalError::Tantivy`] if a segment cannot be read; so in the other functions.
    pub fn search(
        &self,
        query: &LexicalQuery,
        visible: Visible<'_>,
        selection: Option<&Arc<Selection>>,
        depth: usize,
        in_parallel: bool,
    ) -> Result<Vec<ScoredChunk>> {
        let mut best = TopK::new(depth);
        let Some(ranking) = query.ranking.as_ref().filter(|_| depth > 0) else { return Ok(Vec::new()) };
        let is_restricted = query.totals.is_some();
        let scorer = match (selection, ranking) {
            // with a mandatory filter, the number of hidden chunks must not decide in which order scores are added
            (Some(selection), ranking)
                if !is_restricted && selection.count() < self.entries / SELECTED_SHARE =>
            {
                let led = BooleanQuery::new(vec![
                    (Occur::Must, Box::new(self.chunk_ids_query(Arc::clone(selection))) as Box<dyn Matcher>),
                    (Occur::Must, ranking.matcher(self.fields.text)),
                ]);
                self.weight(&led, query)
            }
            (_, ScoringQuery::AnyOf(bag)) => self.any_of(bag, query),
            (_, ScoringQuery::Matcher(matcher)) => self.weight(matcher.as_ref(), query),
        };
        let collected = scorer.and_then(|scorer| self.collect(&scorer, visible, in_parallel, &mut best));
        collected.map_err(LexicalError::during("search"))?;
        Ok(best.into_sorted())
    }

    fn weight(&self, matcher: &dyn Matcher, query: &LexicalQuery) -> tantivy::Result<Scoring<'_>> {
        let weight = matcher.weight(self.scoring(&self.statistics(query)))?;
        Ok(Scoring::Weight { weight, is_pruned: query.totals.is_none() })
    }

    fn any_of<'a>(&self, bag: &'a Bag, query: &LexicalQuery) -> tantivy::Result<Scoring<'a>> {
        let (field, statistics) = (self.fields.text, self.statistics(query));
        let totals = query.totals.as_deref().unwrap_or(&self.totals);
        let scored = bag.terms.iter().map(|term_postings| {
            let weight = totals.weight(field, term_postings.chunks).boost_by(term_postings.term.weight);
            ScoredTerm { weight, postings: &term_postings.postings }
        });
        let mut numbered: Vec<(usize, ScoredTerm<'_>)> = scored.enumerate().collect();
        numbered.sort_by(|(_, one), (_, other)| other.weight.max_score().total_cmp(&one.weight.max_score()));
        let mut compounds = Vec::with_capacity(bag.compounds.len());
        for compound in &bag.compounds {
            let parts = bag.parts_of(compound);
            let Some(best_part) = numbered.iter().position(|(number, _)| parts.contains(number)) else {
                continue;
            };
            let terms: Vec<Term> =
                compound.terms.iter().map(|term| Term::from_field_text(field, term)).collect();
            compounds.push(ScoredCompound {
                weight: Bm25Weight::for_terms(&statistics, &terms)?.boost_by(compound.weight),
                parts: parts.iter().map(|&part| bag.terms[part].postings.as_slice()).collect(),
                best_part,
            });
        }
        let phrases = bag.phrases.iter().map(|phrase| boosted_phrase(field, phrase));
        let phrases = phrases.map(|phrase| phrase.weight(self.scoring(&statistics)));
        Ok(Scoring::AnyOf(ScoredBag {
            terms: numbered.into_iter().map(|(_, scored)| scored).collect(),
            compounds,
            phrases: phrases.collect::<tantivy::Result<_>>()?,
            skips_blocks: query.totals.is_none(),
        }))
    }

    /// Bounds of BM25 scores for the query.
    pub fn bm25_bounds(&self, query: &LexicalQuery) -> Result<Bm25Bounds> {
        let statistics = self.statistics(query);
        let entries = query.totals.as_ref().map_or(self.entries as f32, |totals| totals.entries() as f32);
        let word = (1.0 + (entries + 0.5) / 0.5).ln() * BM25_TERM_MAX;
        // a corrected word is one that no chunk has, and its corrections are guesses: it counts as two missing words
        let mut sum = 2.0 * query.corrections.len() as f32 * word;
        for QueryTerm { text, weight } in &query.terms {
            let term = Term::from_field_text(self.fields.text, text);
            let holding = statistics.doc_freq(&term);
            let holding = holding.map_err(LexicalError::during("search"))? as f32;
            // deleted entries count until they are merged away
            let others = (entries - holding).max(0.0);
            sum += (1.0 + (others + 0.5) / (holding + 0.5)).ln() * BM25_TERM_MAX * weight;
        }
        Ok(Bm25Bounds { query: sum, word })
    }

    pub(super) fn statistics<'a>(&'a self, query: &'a LexicalQuery) -> Bm25Statistics<'a> {
        Bm25Statistics {
            searcher: &self.searcher,
            totals: query.totals.as_deref().unwrap_or(&self.totals),
            frequencies: &query.frequencies,
            is_restricted: query.totals.is_some(),
        }
    }

    pub(super) fn scoring<'a>(&'a self, statistics: &'a Bm25Statistics<'a>) -> EnableScoring<'a> {
        EnableScoring::enabled_from_statistics_provider(statistics, &self.searcher)
    }

    /// Scores all segments, one by one or in parallel. Each starts with the threshold of those before or beside it.
    fn collect(
        &self,
        scoring_kind: &Scoring<'_>,
        visible: Visible<'_>,
        in_parallel: bool,
        best: &mut TopK,
    ) -> tantivy::Result<()> {
        let segments = self.searcher.segment_readers().len();
        if !in_parallel {
            let mut segment_scorer = scoring_kind.segment_scorer(self.fields.text);
            for number in 0..segments {
                self.collect_segment(number, &mut segment_scorer, visible, best, |threshold| threshold)?;
            }
            return Ok(());
        }
        let too_low = SharedThreshold::new(best.threshold());
        let collect = |segment_scorer: &mut SegmentScorer<'_>, number| {
            let mut best = best.empty();
            let raise = |threshold| too_low.raise(threshold);
            self.collect_segment(number, segment_scorer, visible, &mut best, raise)?;
            Ok(best)
        };
        let parts =
            (0..segments).into_par_iter().map_init(|| scoring_kind.segment_scorer(self.fields.text), collect);
        let parts: Vec<TopK> = parts.collect::<tantivy::Result<_>>()?;
        parts.into_iter().flat_map(TopK::into_sorted).for_each(|scored| best.push(scored));
        Ok(())
    }

    /// Adds the best of a segment to `best`. `raise` raises the threshold shared with other segments, and returns it.
    fn collect_segment(
        &self,
        number: usize,
        segment_scorer: &mut SegmentScorer<'_>,
        visible: Visible<'_>,
        best: &mut TopK,
        raise: impl Fn(f32) -> f32,
    ) -> tantivy::Result<()> {
        let segment = &self.searcher.segment_readers()[number];
        let (chunk_ids, deleted) = (self.chunk_ids.get(segment).unwrap_or_default(), segment.alive_bitset());
        let threshold = raise(best.threshold());
        let mut visit = |entry, score| {
            let is_deleted = deleted.is_some_and(|alive| alive.is_deleted(entry));
            let chunk_id = chunk_ids[entry as usize];
            if !is_deleted && visible.contains(chunk_id) {
                best.push(ScoredChunk { chunk_id, score });
            }
            raise(best.threshold())
        };
        match segment_scorer {
            SegmentScorer::AnyOf(terms) => terms.for_each_above(segment, number, threshold, visit),
            SegmentScorer::Weight { weight, is_pruned: true } => {
                weight.for_each_pruning(threshold, segment, &mut visit)
            }
            SegmentScorer::Weight { weight, is_pruned: false } => {
                weight.for_each(segment, &mut |entry, score| {
                    visit(entry, score);
                })
            }
        }
    }

    /// A query for the entries of these chunks.
    pub(super) fn chunk_ids_query(&self, selection: Arc<Selection>) -> ChunkIdsQuery {
        ChunkIdsQuery { selection, chunk_ids: self.chunk_ids.clone() }
    }

    /// The chunks that satisfy the query's condition, maybe deleted ones; `None` if it sets none.
    pub fn satisfying(&self, query: &LexicalQuery, chunk_count: u32) -> Result<Option<Selection>> {
        let Some(Condition { needed, excluded }) = &query.condition else { return Ok(None) };
        let matching = |matcher| self.matching(matcher, chunk_count).map_err(LexicalError::during("search"));
        let satisfying = match needed {
            Some(needed) => matching(needed.as_ref())?,
            None => Selection::first(chunk_count),
        };
        Ok(Some(match excluded {
            Some(excluded) => satisfying.without(&matching(excluded.as_ref())?),
            None => satisfying,
        }))
    }

    /// All chunks that the lexical retriever can find for the query, maybe deleted ones.
    pub fn all_matches(&self, query: &LexicalQuery, chunk_count: u32) -> Result<Selection> {
        match &query.ranking {
            Some(ranking) => {
                let matcher = ranking.unscored_matcher(self.fields.text);
                self.matching(matcher.as_ref(), chunk_count).map_err(LexicalError::during("search"))
            }
            None => Ok(Selection::default()),
        }
    }

    /// The chunks below `chunk_count` that match, maybe deleted ones.
    pub(super) fn matching(&self, matcher: &dyn Matcher, chunk_count: u32) -> tantivy::Result<Selection> {
        let mut words = vec![0; chunk_count.div_ceil(u64::BITS) as usize];
        let weight = matcher.weight(EnableScoring::disabled_from_searcher(&self.searcher))?;
        for segment in self.searcher.segment_readers() {
            let of = self.chunk_ids.get(segment).unwrap_or_default();
            weight.for_each_no_score(segment, &mut |entries: &[DocId]| {
                debug_assert!(entries.len() <= COLLECT_BLOCK_BUFFER_LEN);
                for &entry in entries {
                    // later chunk ids are of a commit that is not visible yet
                    let chunk_id = of[entry as usize];
                    if chunk_id < chunk_count {
                        set_bits(&mut words, chunk_id, chunk_id + 1);
                    }
                }
            })?;
        }
        Ok(Selection::of_words(words))
    }

    /// Calls `visit` with the chunk id of every entry that is not deleted.
    pub fn for_each_chunk_id(&self, mut visit: impl FnMut(u32)) {
        for segment in self.searcher.segment_readers() {
            let chunk_ids = self.chunk_ids.get(segment).unwrap_or_default();
            segment.doc_ids_alive().for_each(|entry| visit(chunk_ids[entry as usize]));
        }
    }

    /// Number of entries that are not deleted.
    pub fn entries(&self) -> usize {
        self.entries as usize
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.searcher.segment_readers().len()
    }
}
