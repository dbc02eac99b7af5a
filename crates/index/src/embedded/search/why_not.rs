//! Why a document is not among the hits.

use super::candidates::Candidate;
use super::hits::rank_in;
use super::{Outcome, Search};
use crate::embedded::ranking::BestChunk;
use crate::{IndexError, Mode, Stage, WhyNot};

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
        let is_it = |candidate: &Candidate| slots.contains(&candidate.slot);
        let rank = outcome.candidates.list.iter().position(is_it);
        let is_found = outcome.page.iter().any(|kept| is_it(&kept.candidate));
        let legs = self.legs(FOLLOWED)?;
        let rank_of = |leg: &[BestChunk]| {
            let best = leg.iter().find(|best| slots.contains(&best.slot))?;
            rank_in(leg, best.document)
        };
        let end = self.request.offset.saturating_add(self.request.limit);
        // what is listed is cut to the page before it becomes a candidate
        let is_listed = self.request.is_listing()
            || self.request.mode == Mode::Lexical
                && !self.request.sort.is_empty()
                && rank_of(&legs.lexical).is_some();
        let stage = match rank {
            _ if is_found => Stage::Found,
            None if is_listed => Stage::Limit,
            None => Stage::Candidates,
            Some(rank) if rank < end && self.request.is_thinned() => Stage::Group,
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
