//! Documents whose title or id is the query, or begins with it: they come first.

use std::cmp::Ordering;

use hashbrown::HashMap;
use weir_lexical::NamedDocument;
use weir_query::Query;
use weir_ranking::relevance::Exactness;
use weir_ranking::{RetrievalMode, Selection, set_bits};

use super::Search;
use super::candidates::Candidate;
use crate::IndexQuery;

/// What the whole name adds to a score, as a multiple of the best one, and what its leading words add, to which their share in the name
/// is added: enough that no document without the name precedes one with it, and none with a longer one that with the whole.
const WHOLE: f32 = 3.0;
const LEADING: f32 = 1.0;

/// The text that may be a name: words, maybe in quotes, that rank by terms.
pub(super) fn name_of(request: &IndexQuery) -> Option<&str> {
    match (&request.query, request.mode) {
        (Some(Query::Words(text) | Query::Phrase(text)), RetrievalMode::Lexical | RetrievalMode::Hybrid) => {
            Some(text)
        }
        _ => None,
    }
}

impl Search<'_> {
    /// Puts the named documents first. Those that no retriever ranked are added with their first chunk.
    pub(super) fn raise_named(&self, candidates: &mut Vec<Candidate>) {
        if self.named.is_empty() {
            return;
        }
        let best = candidates.first().map_or(1.0, |first| first.score).max(f32::MIN_POSITIVE);
        let mut named: HashMap<u32, &NamedDocument> = self
            .named
            .iter()
            .rev()
            .filter_map(|named| Some((self.unit_of(named.chunk_id)?, named)))
            .collect();
        let raise = |candidate: &mut Candidate, named: &NamedDocument| {
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

    /// The chunks that match, with those of the named documents.
    pub(super) fn with_named(&self, matches: Selection) -> Selection {
        if self.named.is_empty() {
            return matches;
        }
        let mut words = matches.into_words(self.snapshot.tombstones.len());
        self.named.iter().for_each(|named| set_bits(&mut words, named.chunk_id, named.chunk_id + 1));
        Selection::of_words(words)
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
