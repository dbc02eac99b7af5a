//! Why a document is not among the hits.

use super::hits::rank_in;
use super::{Outcome, Search};
use crate::{GroupBy, IndexError, Stage, WhyNot};

/// Both legs are followed so deep to find the document.
const FOLLOWED: usize = 10_000;

impl Search<'_> {
    /// Follows a document through the stages of the search.
    pub(super) fn why_not(&mut self, outcome: &Outcome) -> Result<WhyNot, IndexError> {
        let nowhere = |stage| WhyNot { stage, lexical: None, dense: None, rank: None };
        let Some(slots) = self.asked.clone() else { return Ok(nowhere(Stage::Missing)) };
        let visible = self.visible();
        if !slots.clone().any(|slot| visible.holds(slot)) {
            return Ok(nowhere(Stage::Filter));
        }
        let place = |slots: &std::ops::Range<u32>, of: &dyn Fn(usize) -> Option<u32>, len: usize| {
            (0..len).find(|&place| of(place).is_some_and(|slot| slots.contains(&slot)))
        };
        let list = &outcome.candidates.list;
        let rank = place(&slots, &|place| list.get(place).map(|candidate| candidate.slot), list.len());
        let page = &outcome.page;
        let is_found = page.iter().any(|kept| slots.contains(&kept.candidate.slot));
        let is_grouped = matches!(self.request.group_by, GroupBy::Field(_)) || self.request.collapse;
        let legs = self.legs(FOLLOWED)?;
        let rank_of = |leg: &[crate::embedded::ranking::BestChunk]| {
            let units = leg.iter().find(|best| slots.contains(&best.slot))?;
            rank_in(leg, units.document)
        };
        let end = self.request.offset.saturating_add(self.request.limit);
        let stage = match rank {
            _ if is_found => Stage::Found,
            None => Stage::Candidates,
            Some(rank) if rank < end && is_grouped => Stage::Group,
            Some(_) => Stage::Limit,
        };
        Ok(WhyNot {
            stage,
            lexical: rank_of(&legs.lexical),
            dense: rank_of(&legs.dense),
            rank: rank.map(|rank| rank as u32 + 1),
        })
    }
}
