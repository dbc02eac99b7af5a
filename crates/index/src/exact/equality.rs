//! Two engines, the same documents and queries: the same results, as far as the embedded one compares exactly.

use weir_filter::Filter;
use weir_policy::Caller;
use weir_query::Query;
use weir_ranking::RetrievalMode;

use super::contract::{DIMENSION, document, embedded, exact};
use crate::{
    Change, FacetSpec, FusionFunction, Grouping, IndexQuery, IndexResult, IndexedDocument, ScoreBreakdown,
    SortKey, StageTimings,
};

/// Few enough chunks for the embedded engine to compare all of them exactly, whatever the depth.
const DOCUMENTS: usize = 19;
const QUERIES: usize = 1500;

/// Xorshift (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Products and sums of these are exact, in halves too.
    fn embedding(&mut self) -> [f32; DIMENSION] {
        std::array::from_fn(|_| (self.below(33) as f32 - 16.0) / 16.0)
    }

    fn words(&mut self, max: usize) -> String {
        const WORDS: [&str; 8] = ["river", "weir", "sluice", "stone", "water", "gate", "dam", "mill"];
        let count = 1 + self.below(max);
        (0..count).map(|_| *self.of(&WORDS)).collect::<Vec<_>>().join(" ")
    }
}

fn documents(random: &mut Random) -> Vec<Change> {
    let put = |number: usize| {
        let texts: Vec<(String, [f32; DIMENSION])> =
            (0..1 + number % 3).map(|_| (random.words(12), random.embedding())).collect();
        let chunks: Vec<(&str, [f32; DIMENSION])> =
            texts.iter().map(|(text, embedding)| (text.as_str(), *embedding)).collect();
        let (year, tenant) = (2018 + random.below(4), *random.of(&["a", "b"]));
        let lang = *random.of(&[r#","lang":"en""#, r#","lang":["de","en"]"#, ""]);
        Change::Put(IndexedDocument {
            title: random.one_in(2).then(|| random.words(3)),
            metadata: format!(r#"{{"year":{year},"tenant":"{tenant}"{lang}}}"#),
            ..document(&format!("d{number}"), 1, &chunks)
        })
    };
    (0..DOCUMENTS).map(put).collect()
}

fn query(random: &mut Random) -> IndexQuery {
    let mode = *random.of(&[RetrievalMode::Lexical, RetrievalMode::Dense, RetrievalMode::Hybrid]);
    let is_listing = random.one_in(8);
    let words = (!is_listing && mode != RetrievalMode::Dense).then(|| Query::Words(random.words(4)));
    let embedding = (!is_listing && mode != RetrievalMode::Lexical).then(|| random.embedding().to_vec());
    let field = |random: &mut Random| (*random.of(&["year", "lang", "tenant"])).to_owned();
    let mut query = IndexQuery::new(mode, words, embedding, 1 + random.below(12));
    query.depth = *random.of(&[3, 10, 100]);
    query.offset = *random.of(&[0, 0, 0, 2, 7]);
    query.smoothing = !random.one_in(3);
    query.fusion = match random.below(4) {
        0 => FusionFunction::ReciprocalRank { k: 60.0, lexical: 1.0, dense: 0.7 },
        1 => FusionFunction::Convex { lexical: 0.3, dense: 0.7, follows_query: false },
        _ => FusionFunction::default(),
    };
    query.filter = random.one_in(3).then(|| {
        let year = 2018 + random.below(4);
        Filter::parse(&format!(r#"{{"or":[{{"year":{{"gte":{year}}}}},{{"lang":"de"}}]}}"#)).unwrap()
    });
    query.group_by = match random.below(4) {
        0 => Grouping::Chunk,
        1 => Grouping::Field(field(random)),
        _ => Grouping::Document,
    };
    if random.one_in(4) {
        let key = |random: &mut Random| SortKey { field: field(random), descending: random.one_in(2) };
        query.sort = (0..1 + random.below(2)).map(|_| key(random)).collect();
    }
    query.facets = (0..random.below(3)).map(|_| FacetSpec { field: field(random), limit: 3 }).collect();
    query.exact_facets = random.one_in(2);
    query.count = random.one_in(2);
    query.diversity = *random.of(&[0.0, 0.0, 0.4]);
    query.collapse = random.one_in(4);
    query.context = random.below(3) as u32;
    query.explain = random.one_in(2);
    query.trace = random.one_in(2).then(|| format!("d{}", random.below(DOCUMENTS + 2)));
    query
}

#[tokio::test]
async fn the_exact_engine_and_the_embedded_one_answer_alike() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let engines = [embedded().await, exact().await];
    let all = documents(&mut random);
    for opened in &engines {
        opened.engine.apply(all.clone(), 1, None).await.unwrap();
    }
    let tenant = Filter::parse(r#"{"tenant":"a"}"#).unwrap();
    let tenant = Caller { filter: Some(tenant.into()), ..Caller::system() };
    let mut hits = 0;
    for _ in 0..QUERIES {
        let query = query(&mut random);
        let caller = if random.one_in(3) { tenant.clone() } else { Caller::system() };
        let [one, other] = &engines;
        let one = one.engine.search(&caller, query.clone()).await.unwrap();
        let other = other.engine.search(&caller, query.clone()).await.unwrap();
        hits += one.hits.len();
        compare(one, other, &query);
    }
    assert!(hits > QUERIES, "{hits} hits");
}

/// Numbers may differ by rounding; everything else is equal.
fn compare(mut one: IndexResult, mut other: IndexResult, query: &IndexQuery) {
    let (of_one, of_other) = (taken_numbers(&mut one), taken_numbers(&mut other));
    let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 2e-4 * a.abs().max(1.0);
    let is_near = of_one.len() == of_other.len() && of_one.iter().zip(&of_other).all(is_near);
    assert!(is_near, "{of_one:?} {of_other:?} {query:?}");
    assert_eq!(one, other, "{query:?}");
}

/// Takes every number that rounding can change out of a result.
fn taken_numbers(result: &mut IndexResult) -> Vec<f32> {
    let mut numbers = Vec::new();
    let mut take = |number: &mut f32| numbers.push(std::mem::take(number));
    result.timings = StageTimings::default();
    for hit in &mut result.hits {
        hit.features = None;
        take(&mut hit.score);
        hit.relevance.iter_mut().for_each(&mut take);
        hit.lexical.iter_mut().chain(&mut hit.dense).for_each(|rank| take(&mut rank.score));
        if let Some(parts) = &mut hit.explanation {
            parts.terms.iter_mut().for_each(|term| take(&mut term.score));
            let ScoreBreakdown { lexical, dense, neighbours, name, .. } = parts;
            [lexical, dense, neighbours, name].into_iter().for_each(&mut take);
        }
    }
    for retriever in [&mut result.lexical, &mut result.dense] {
        retriever.best.iter_mut().for_each(|best| take(&mut best.score));
    }
    if let Some(trace) = &mut result.trace {
        trace.lexical.iter_mut().chain(&mut trace.dense).for_each(|rank| take(&mut rank.score));
    }
    match &mut result.fusion {
        FusionFunction::Convex { lexical, dense, .. } => [lexical, dense].into_iter().for_each(&mut take),
        FusionFunction::ReciprocalRank { .. } => {}
    }
    numbers
}
