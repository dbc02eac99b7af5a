//! Documents whose title or id is the query, or begins with it: they come first.

use std::cmp::Ordering;

use hashbrown::HashMap;
use weir_lexical::NamedDocument;
use weir_ranking::relevance::Exactness;

use super::candidates::Candidate;
use super::{Retriever, Search};

/// Bonus of a whole name in a score, as a multiple of the best one, and bonus of its leading words, to which their share in the name
/// is added: enough that no document without the name precedes one with it, and none with a longer one that with the whole.
const WHOLE: f32 = 3.0;
const LEADING: f32 = 1.0;

impl<R: Retriever> Search<'_, R> {
    /// Puts the named documents first. Those that no retriever ranked are added with their first chunk.
    pub(super) fn raise_named(&self, candidates: &mut Vec<Candidate>) {
        let all_named = self.retriever.named();
        if all_named.is_empty() {
            return;
        }
        let best = candidates.first().map_or(1.0, |first| first.score).max(f32::MIN_POSITIVE);
        let with_unit = |named: &'_ NamedDocument| Some((self.unit_of(named.chunk_id)?, *named));
        let mut named: HashMap<u32, NamedDocument> = all_named.iter().rev().filter_map(with_unit).collect();
        let raise = |candidate: &mut Candidate, named: NamedDocument| {
            candidate.name = best * if named.share < 1.0 { LEADING + named.share } else { WHOLE };
            candidate.score += candidate.name;
            if named.share >= 1.0 {
                candidate.exactness = Exactness::Name;
            }
        };
        for candidate in candidates.iter_mut() {
            if let Some(named) = named.remove(&candidate.unit) {
                raise(candidate, named);
            }
        }
        for (unit, named) in named {
            let mut candidate = Candidate::unscored(unit, named.chunk_id);
            raise(&mut candidate, named);
            candidates.push(candidate);
        }
        candidates.sort_by(by_name);
    }
}

/// Named candidates first, by score; the others keep their order.
fn by_name(a: &Candidate, b: &Candidate) -> Ordering {
    let is_named = |candidate: &Candidate| candidate.name > 0.0;
    match (is_named(a), is_named(b)) {
        (true, true) => b.score.total_cmp(&a.score).then(a.unit.cmp(&b.unit)),
        (a, b) => b.cmp(&a),
    }
}
