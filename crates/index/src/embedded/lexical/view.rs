//! One commit, for searching. Later commits and merges do not touch it.

use std::sync::Arc;

use tantivy::query::{Bm25StatisticsProvider as _, BooleanQuery, EnableScoring, Occur, Query as Matcher};
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, Searcher, Term};
use weir_text::{Language, QueryTerm};

use super::best::BestSlots;
use super::by_segment::BySegment;
use super::compile::Condition;
use super::slots::{Slots, SlotsQuery};
use super::statistics::{Frequencies, Statistics, Totals};
use super::words::Words;
use super::{Fields, LexicalQuery};
use crate::IndexError;
use crate::embedded::ranking::ScoredSlot;
use crate::embedded::selection::{Selection, Visible, set_bits};
use crate::relevance::BM25_TERM_MAX;

/// When a filter lets fewer than one of so many chunks through, its chunks lead and the terms follow; else the terms
/// lead, which lets them skip blocks, and the filter is asked about each chunk.
const SELECTED_SHARE: u32 = 16;

pub(crate) struct LexicalView {
    pub(super) searcher: Searcher,
    pub(super) fields: Fields,
    pub(super) language: Language,
    pub(super) slots: Slots,
    pub(super) words: BySegment<Words>,
    totals: Totals,
    /// Entries that are not deleted.
    entries: u32,
}

impl LexicalView {
    pub(super) fn new(
        searcher: Searcher,
        fields: Fields,
        language: Language,
        slots: Slots,
        words: BySegment<Words>,
    ) -> tantivy::Result<LexicalView> {
        let entries = searcher.segment_readers().iter().map(|segment| segment.num_docs()).sum();
        let totals = Totals::of(&searcher, &[fields.text, fields.title])?;
        Ok(LexicalView { searcher, fields, language, slots, words, totals, entries })
    }

    /// The visible chunks that match, best first, `depth` of them or all.
    pub(crate) fn search(
        &self,
        query: &LexicalQuery,
        visible: Visible<'_>,
        selection: Option<&Arc<Selection>>,
        depth: usize,
    ) -> Result<Vec<ScoredSlot>, IndexError> {
        let mut best = BestSlots::new(depth);
        let Some(ranking) = query.ranking.as_deref().filter(|_| depth > 0) else { return Ok(Vec::new()) };
        let collected = match selection {
            Some(selection) if selection.count() < self.entries / SELECTED_SHARE => {
                let led = BooleanQuery::new(vec![
                    (Occur::Must, Box::new(self.slots_query(Arc::clone(selection))) as Box<dyn Matcher>),
                    (Occur::Must, ranking.box_clone()),
                ]);
                self.collect(&led, &query.frequencies, visible, &mut best)
            }
            Some(_) | None => self.collect(ranking, &query.frequencies, visible, &mut best),
        };
        collected.map_err(IndexError::lexical("search"))?;
        Ok(best.into_sorted())
    }

    /// The most that BM25 can give for the query's terms: the sum of their idf, each by `k1 + 1` and as often as it was said.
    pub(crate) fn bm25_max(&self, query: &LexicalQuery) -> Result<f32, IndexError> {
        let mut sum = 0.0;
        for QueryTerm { text, count } in &query.terms {
            let term = Term::from_field_text(self.fields.text, text);
            let holding = self.statistics(&query.frequencies).doc_freq(&term);
            let holding = holding.map_err(IndexError::lexical("search"))? as f32;
            // deleted entries count until they are merged away
            let others = (self.entries as f32 - holding).max(0.0);
            sum += (1.0 + (others + 0.5) / (holding + 0.5)).ln() * BM25_TERM_MAX * *count as f32;
        }
        Ok(sum)
    }

    pub(super) fn statistics<'a>(&'a self, frequencies: &'a Frequencies) -> Statistics<'a> {
        Statistics { searcher: &self.searcher, totals: &self.totals, frequencies }
    }

    pub(super) fn scoring<'a>(&'a self, statistics: &'a Statistics<'a>) -> EnableScoring<'a> {
        EnableScoring::enabled_from_statistics_provider(statistics, &self.searcher)
    }

    /// Goes through the segments with one heap, so that each starts with the threshold of those before it.
    fn collect(
        &self,
        query: &dyn Matcher,
        frequencies: &Frequencies,
        visible: Visible<'_>,
        best: &mut BestSlots,
    ) -> tantivy::Result<()> {
        let weight = query.weight(self.scoring(&self.statistics(frequencies)))?;
        for segment in self.searcher.segment_readers() {
            let (slots, deleted) = (self.slots.get(segment).unwrap_or_default(), segment.alive_bitset());
            weight.for_each_pruning(best.threshold(), segment, &mut |entry, score| {
                let is_deleted = deleted.is_some_and(|alive| alive.is_deleted(entry));
                let slot = slots[entry as usize];
                if !is_deleted && visible.holds(slot) {
                    best.push(ScoredSlot { slot, score });
                }
                best.threshold()
            })?;
        }
        Ok(())
    }

    /// A query for the entries of these slots.
    pub(super) fn slots_query(&self, selection: Arc<Selection>) -> SlotsQuery {
        SlotsQuery { selection, slots: self.slots.clone() }
    }

    /// The slots that satisfy the query's condition; `None` when it sets none. Dead ones may be among them.
    pub(crate) fn satisfying(
        &self,
        query: &LexicalQuery,
        slots: u32,
    ) -> Result<Option<Selection>, IndexError> {
        let Some(Condition { needed, excluded }) = &query.condition else { return Ok(None) };
        let matching = |matcher| self.matching(matcher, slots).map_err(IndexError::lexical("search"));
        let satisfying = match needed {
            Some(needed) => matching(needed.as_ref())?,
            None => Selection::first(slots),
        };
        Ok(Some(match excluded {
            Some(excluded) => satisfying.without(&matching(excluded.as_ref())?),
            None => satisfying,
        }))
    }

    /// The slots that a search for the query can find; none without a term. Dead ones may be among them.
    pub(crate) fn found_by(&self, query: &LexicalQuery, slots: u32) -> Result<Selection, IndexError> {
        match query.ranking.as_deref() {
            Some(ranking) => self.matching(ranking, slots).map_err(IndexError::lexical("search")),
            None => Ok(Selection::default()),
        }
    }

    /// The slots below `slots` that match. Dead ones may be among them.
    pub(super) fn matching(&self, matcher: &dyn Matcher, slots: u32) -> tantivy::Result<Selection> {
        let mut words = vec![0; slots.div_ceil(u64::BITS) as usize];
        let weight = matcher.weight(EnableScoring::disabled_from_searcher(&self.searcher))?;
        for segment in self.searcher.segment_readers() {
            let of = self.slots.get(segment).unwrap_or_default();
            weight.for_each_no_score(segment, &mut |entries: &[DocId]| {
                debug_assert!(entries.len() <= COLLECT_BLOCK_BUFFER_LEN);
                for &entry in entries {
                    // a later slot than the snapshot knows is in a commit that is not visible yet
                    let slot = of[entry as usize];
                    if slot < slots {
                        set_bits(&mut words, slot, slot + 1);
                    }
                }
            })?;
        }
        Ok(Selection::of_words(words))
    }

    /// Calls `visit` with the slot of every entry that is not deleted.
    pub(crate) fn for_each_slot(&self, mut visit: impl FnMut(u32)) {
        for segment in self.searcher.segment_readers() {
            let slots = self.slots.get(segment).unwrap_or_default();
            segment.doc_ids_alive().for_each(|entry| visit(slots[entry as usize]));
        }
    }

    /// Number of segments.
    pub(crate) fn segments(&self) -> usize {
        self.searcher.segment_readers().len()
    }
}
