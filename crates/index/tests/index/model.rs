//! Filter, sort, facets, pages and groups against a model that looks at every document.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value as Json, json};
use weir_filter::{Filter, Value, flatten, parse_timestamp};
use weir_index::{
    Change, FacetSpec, FusionFunction, Grouping, Hit, IndexQuery, IndexedChunk, IndexedDocument, MatchCount,
    SortKey,
};
use weir_query::Query;
use weir_ranking::RetrievalMode;

use crate::rng::Rng;
use crate::sample::{DIMENSION, Index, settings};

const FIELDS: [&str; 6] = ["year", "lang", "tags", "author.name", "draft", "day"];

/// What the model knows of a document.
struct Known {
    id: String,
    metadata: Map<String, Json>,
    /// The embedding of each chunk.
    chunks: Vec<Vec<f32>>,
    /// Order of arrival.
    arrival: usize,
}

fn scalar(field: &str, rng: &mut Rng) -> Json {
    match field {
        "year" => {
            let wide = [json!(2019.5), json!(9_007_199_254_740_993_u64), json!(-3), json!("2020")];
            if rng.one_in(6) { rng.of(&wide).clone() } else { json!(2018 + rng.below(5)) }
        }
        "lang" | "author.name" => json!(*rng.of(&["en", "de", "fr", "Ünal", "", "2020-01-01"])),
        "draft" => json!(rng.one_in(2)),
        "day" => json!(*rng.of(&[
            "2020-01-01",
            "2020-01-01T00:00:00Z",
            "2020-01-01T01:00:00+02:00",
            "2021-06-30",
            "soon"
        ])),
        _ => json!(*rng.of(&["red", "green", "blue"])),
    }
}

fn metadata(rng: &mut Rng) -> Map<String, Json> {
    let mut metadata = Map::new();
    for field in FIELDS {
        if rng.one_in(3) {
            continue;
        }
        let value = match (field, rng.below(8)) {
            (_, 0) => Json::Null,
            ("tags", _) => Json::Array((0..rng.below(4)).map(|_| scalar(field, rng)).collect()),
            _ => scalar(field, rng),
        };
        match field.split_once('.') {
            Some((outer, inner)) if rng.one_in(2) => {
                metadata.insert(outer.to_owned(), json!({ inner: value }))
            }
            _ => metadata.insert(field.to_owned(), value),
        };
    }
    metadata
}

fn condition(rng: &mut Rng) -> Json {
    let field = *rng.of(&FIELDS);
    let value = scalar(field, rng);
    match rng.below(9) {
        0 => json!({ field: value }),
        1 => json!({ field: { "ne": value } }),
        2 | 3 if !value.is_boolean() => json!({ field: { *rng.of(&["gt", "gte", "lt", "lte"]): value } }),
        4 => json!({ field: { "in": [value, scalar(field, rng)] } }),
        5 => json!({ field: { "nin": [value, scalar(field, rng)] } }),
        6 => json!({ field: { "exists": rng.one_in(2) } }),
        7 if !value.is_boolean() => json!({ "type": "gte", "key": field, "value": value }),
        _ => json!({ "type": "eq", "key": field, "value": value }),
    }
}

fn filter(rng: &mut Rng, depth: usize) -> Json {
    let some = |rng: &mut Rng| -> Vec<Json> {
        (0..1 + rng.below(3)).map(|_| filter(rng, depth.saturating_sub(1))).collect()
    };
    match (depth, rng.below(5)) {
        (0, _) | (_, 0 | 1) => condition(rng),
        (_, 2) => json!({ "and": some(rng) }),
        (_, 3) => json!({ "or": some(rng) }),
        _ => json!({ "not": filter(rng, depth - 1) }),
    }
}

/// The values of a field that order and group: booleans, numbers, dates, other strings.
fn places(metadata: &Map<String, Json>, field: &str) -> Vec<Value> {
    let mut values = Vec::new();
    flatten(metadata, |path, value| {
        if path == field {
            values.push(value);
        }
    });
    values.sort_by(by_place);
    values
}

fn by_place(a: &Value, b: &Value) -> std::cmp::Ordering {
    let class = |value: &Value| match value {
        Value::Boolean(_) => 0,
        Value::Number(_) => 1,
        Value::String(text) if parse_timestamp(text).is_some() => 2,
        Value::String(_) => 3,
    };
    let spelling = |value: &Value| format!("{value:?}");
    class(a)
        .cmp(&class(b))
        .then_with(|| a.compare(b).unwrap_or(std::cmp::Ordering::Equal))
        .then_with(|| spelling(a).cmp(&spelling(b)))
}

fn sorted<'a>(mut documents: Vec<&'a Known>, keys: &[SortKey]) -> Vec<&'a Known> {
    documents.sort_by(|a, b| {
        for key in keys {
            let of = |known: &Known| {
                let values = places(&known.metadata, &key.field);
                if key.descending { values.last().cloned() } else { values.first().cloned() }
            };
            let order = match (of(a), of(b)) {
                (Some(a), Some(b)) if key.descending => by_place(&b, &a),
                (Some(a), Some(b)) => by_place(&a, &b),
                (a, b) => b.is_some().cmp(&a.is_some()),
            };
            if order.is_ne() {
                return order;
            }
        }
        a.arrival.cmp(&b.arrival)
    });
    documents
}

fn facet_of(documents: &[&Known], facet: &FacetSpec) -> Vec<(String, u64)> {
    let mut counts: Vec<(Value, u64)> = Vec::new();
    for known in documents {
        let distinct =
            places(&known.metadata, &facet.field).into_iter().fold(Vec::new(), |mut seen, value| {
                if !seen.contains(&value) {
                    seen.push(value);
                }
                seen
            });
        for value in distinct {
            match counts.iter_mut().find(|(other, _)| *other == value) {
                Some((_, count)) => *count += 1,
                None => counts.push((value, 1)),
            }
        }
    }
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| by_place(&a.0, &b.0)));
    counts.truncate(facet.limit);
    counts.into_iter().map(|(value, count)| (format!("{value:?}"), count)).collect()
}

/// Leaves the first of each group.
fn grouped(chunks: Vec<Scored<'_>>, group_by: &Grouping) -> Vec<(String, f32)> {
    let mut seen: HashSet<String> = HashSet::new();
    let name = |known: &Known, chunk: usize| format!("{}.{chunk}", known.id);
    let is_first = |((known, chunk), _): &Scored<'_>| {
        let key = match group_by {
            Grouping::Chunk => name(known, *chunk),
            Grouping::Document => known.id.clone(),
            Grouping::Field(field) => match places(&known.metadata, field).first() {
                Some(value) => format!("{value:?}"),
                None => format!("alone {}", known.id),
            },
        };
        seen.insert(key)
    };
    let firsts = chunks.into_iter().filter(is_first);
    firsts.map(|((known, chunk), score)| (name(known, chunk), score)).collect()
}

fn names(hits: &[Hit]) -> Vec<String> {
    hits.iter().map(|hit| format!("{}.{}", hit.document_id, hit.chunk)).collect()
}

/// An index of some hundred documents, some replaced and some removed, and what it should hold.
fn index(rng: &mut Rng) -> (Index, Vec<Known>) {
    let index = Index::new(settings());
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let mut arrival = 0;
    for batch in 1..=3 + rng.below(4) {
        let mut changes = Vec::new();
        for _ in 0..rng.below(40) {
            let id = format!("d{}", rng.below(60));
            if rng.one_in(8) {
                known.remove(&id);
                changes.push(Change::Remove { id, before: u64::MAX });
                continue;
            }
            arrival += 1;
            let metadata = metadata(rng);
            let chunks: Vec<IndexedChunk> = (0..1 + rng.below(3))
                .map(|_| IndexedChunk {
                    start: 0,
                    end: 1,
                    text: format!(
                        "{} {}",
                        rng.of(&["apple", "pear", "plum"]),
                        rng.of(&["tree", "tree tree", "cake"])
                    ),
                    embedding: Some((0..DIMENSION).map(|_| rng.below(100) as f32 - 50.0).collect()),
                })
                .collect();
            let document = IndexedDocument {
                id: id.clone(),
                version: arrival as u64,
                title: None,
                metadata: Json::Object(metadata.clone()).to_string(),
                pages: None,
                chunks,
            };
            let chunks = document.chunks.iter().map(|chunk| chunk.embedding.clone().unwrap()).collect();
            changes.push(Change::Put(document));
            known.insert(id.clone(), Known { id, metadata, chunks, arrival });
        }
        index.apply(changes, batch as u64);
    }
    let mut known: Vec<Known> = known.into_values().collect();
    known.sort_by_key(|known| known.arrival);
    (index, known)
}

fn random_request(rng: &mut Rng) -> IndexQuery {
    let mode = *rng.of(&[
        RetrievalMode::Lexical,
        RetrievalMode::Lexical,
        RetrievalMode::Dense,
        RetrievalMode::Hybrid,
    ]);
    let words = *rng.of(&["apple", "pear tree", "cake", "plum apple"]);
    let is_listing = rng.one_in(3);
    let query = (!is_listing && mode != RetrievalMode::Dense).then(|| Query::Words(words.to_owned()));
    let embedding = (!is_listing && mode != RetrievalMode::Lexical)
        .then(|| (0..DIMENSION).map(|_| rng.below(100) as f32 - 50.0).collect());
    let mut request = IndexQuery::new(mode, query, embedding, 1 + rng.below(20));
    if mode == RetrievalMode::Hybrid {
        request.fusion = FusionFunction::Convex { lexical: 0.5, dense: 0.5, follows_query: false };
        request.depth = 1000; // so that all of both rankings is compared exactly
    }
    request.offset = *rng.of(&[0, 0, 3, 10]);
    request.count = true;
    request.filter = (!rng.one_in(4)).then(|| Filter::from_value(&filter(rng, 3)).unwrap());
    request.group_by = match rng.below(4) {
        0 => Grouping::Chunk,
        1 => Grouping::Field((*rng.of(&FIELDS)).to_owned()),
        _ => Grouping::Document,
    };
    if rng.one_in(3) {
        let key = |rng: &mut Rng| SortKey { field: (*rng.of(&FIELDS)).to_owned(), descending: rng.one_in(2) };
        request.sort = (0..1 + rng.below(2)).map(|_| key(rng)).collect();
    }
    request.facets = (0..rng.below(3))
        .map(|_| FacetSpec { field: (*rng.of(&FIELDS)).to_owned(), limit: 1 + rng.below(9) })
        .collect();
    request
}

/// A chunk, and its score.
type Scored<'a> = ((&'a Known, usize), f32);

/// Every chunk in the order of one retriever, without filter, group, page or smoothing.
fn ranking<'a>(
    index: &Index,
    known: &'a [Known],
    request: &IndexQuery,
    mode: RetrievalMode,
) -> Vec<Scored<'a>> {
    let mut all = IndexQuery::new(mode, request.query.clone(), request.embedding.clone(), 1000);
    all.group_by = Grouping::Chunk;
    all.depth = 1000; // so that all of it is ranked exactly
    all.smoothing = false;
    let find = |hit: &Hit| known.iter().find(|known| known.id == hit.document_id).unwrap();
    index.search(&all).hits.iter().map(|hit| ((find(hit), hit.chunk as usize), hit.score)).collect()
}

/// Keeps the best chunk of each document, or every chunk.
fn units<'a>(mut chunks: Vec<Scored<'a>>, group_by: &Grouping) -> Vec<Scored<'a>> {
    let mut seen = HashSet::new();
    let unit = |chunk: usize| if *group_by == Grouping::Chunk { chunk } else { 0 };
    chunks.retain(|((known, chunk), _)| seen.insert((known.id.as_str(), unit(*chunk))));
    chunks
}

/// The convex fusion of both rankings, each of which has all its units.
fn fused<'a>(lexical: &[Scored<'a>], mut dense: Vec<Scored<'a>>, group_by: &Grouping) -> Vec<Scored<'a>> {
    let best = |ranking: &[Scored<'_>]| ranking.iter().map(|one| one.1).fold(f32::MIN, f32::max);
    let last = |ranking: &[Scored<'_>]| ranking.iter().map(|one| one.1).fold(f32::MAX, f32::min);
    let (highest, lowest) = (best(&dense), last(&dense));
    if lowest > 0.6 * highest && highest > lowest {
        let factor = 0.4 * highest / (highest - lowest);
        dense.iter_mut().for_each(|one| one.1 = highest - (highest - one.1) * factor);
    }
    let share = |ranking: &[Scored<'_>], score: f32| {
        let zero = last(ranking).min(0.0);
        if best(ranking) > zero { 0.5 * (score - zero) / (best(ranking) - zero) } else { 0.5 }
    };
    let mut sums: Vec<Scored<'a>> = Vec::new();
    for one in &dense {
        let of_unit = |other: &&Scored<'_>| {
            other.0.0.id == one.0.0.id && (*group_by != Grouping::Chunk || other.0.1 == one.0.1)
        };
        let found = lexical.iter().find(of_unit).map(|other| (other.0, share(lexical, other.1)));
        let dense_share = share(&dense, one.1);
        sums.push(match found {
            Some((chunk, lexical_share)) if lexical_share > dense_share => {
                (chunk, dense_share + lexical_share)
            }
            found => (one.0, dense_share + found.map_or(0.0, |(_, lexical_share)| lexical_share)),
        });
    }
    sort(&mut sums);
    sums
}

fn sort(ranking: &mut [Scored<'_>]) {
    ranking.sort_by(|a, b| {
        let first = |known: &Known| known.arrival;
        b.1.total_cmp(&a.1).then(first(a.0.0).cmp(&first(b.0.0))).then(a.0.1.cmp(&b.0.1))
    });
}

/// Two rounds over the five nearest of the first fifty.
fn smooth(ranking: &mut [Scored<'_>]) {
    let first = ranking.len().min(50);
    let row = |(known, chunk): (&Known, usize)| {
        let embedding = &known.chunks[chunk];
        let largest = embedding.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
        embedding.iter().map(|x| (x / (largest / 127.0)).round()).collect::<Vec<f32>>()
    };
    let rows: Vec<Vec<f32>> = ranking[..first].iter().map(|one| row(one.0)).collect();
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    // in this order, so that equal cosines are equal to the last bit
    let inverse_length = |row: &[f32]| dot(row, row).sqrt().recip();
    let cosine = |i: usize, j: usize| {
        let (a, b) = (&rows[i.min(j)], &rows[i.max(j)]);
        dot(a, b) * inverse_length(a) * inverse_length(b)
    };
    let own: Vec<f32> = ranking[..first].iter().map(|one| one.1).collect();
    let mut smoothed = own.clone();
    for _ in 0..2 {
        let before = smoothed.clone();
        for i in 0..first {
            let mut near: Vec<(f32, usize)> = (0..first)
                .filter(|&j| j != i)
                .map(|j| (cosine(i, j), j))
                .filter(|(cosine, _)| *cosine > 0.0 && *cosine <= 0.97)
                .collect();
            near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            near.truncate(5);
            let weights: f32 = near.iter().map(|(cosine, _)| cosine).sum();
            if weights > 0.0 {
                let mean = near.iter().map(|(cosine, j)| cosine * before[*j]).sum::<f32>() / weights;
                smoothed[i] = 0.65 * own[i] + 0.35 * mean;
            }
        }
    }
    ranking.iter_mut().zip(smoothed).for_each(|(one, score)| one.1 = score);
    sort(&mut ranking[..first]);
    let worst = first.checked_sub(1).map_or(f32::MAX, |last| ranking[last].1);
    ranking[first..].iter_mut().for_each(|one| one.1 = one.1.min(worst));
}

/// What a search without an order of fields finds, before the page.
fn ranked<'a>(index: &Index, known: &'a [Known], request: &IndexQuery) -> Vec<Scored<'a>> {
    let passes =
        |known: &Known| request.filter.as_ref().is_none_or(|filter| filter.evaluate(&known.metadata));
    let of = |mode| {
        let mut chunks = ranking(index, known, request, mode);
        chunks.retain(|((known, _), _)| passes(known));
        units(chunks, &request.group_by)
    };
    let mut ranked = match request.mode {
        RetrievalMode::Hybrid => {
            fused(&of(RetrievalMode::Lexical), of(RetrievalMode::Dense), &request.group_by)
        }
        mode @ (RetrievalMode::Lexical | RetrievalMode::Dense) => of(mode),
    };
    if request.mode != RetrievalMode::Dense {
        smooth(&mut ranked);
    }
    ranked
}

/// Positions may differ among scores that differ only by rounding.
fn assert_page(reply: &[Hit], groups: &[(String, f32)], request: &IndexQuery) {
    let page: Vec<&(String, f32)> = groups.iter().skip(request.offset).take(request.limit).collect();
    assert_eq!(reply.len(), page.len(), "{request:?}");
    for (hit, (name, score)) in reply.iter().zip(page) {
        let got = format!("{}.{}", hit.document_id, hit.chunk);
        let is_near = |a: f32, b: f32| (a - b).abs() <= 2e-4 * a.abs().max(1.0);
        assert!(is_near(hit.score, *score), "{got} has {} instead of {name} {score}: {request:?}", hit.score);
        let its_own = groups.iter().find(|(other, _)| *other == got).map(|(_, score)| *score);
        assert!(its_own.is_some_and(|own| is_near(own, *score)), "{got} instead of {name}: {request:?}");
    }
}

fn check<'a>(index: &Index, known: &'a [Known], request: &IndexQuery) {
    let passes =
        |known: &Known| request.filter.as_ref().is_none_or(|filter| filter.evaluate(&known.metadata));
    let is_listing = request.query.is_none() && request.embedding.is_none();
    let chunks: Vec<(&Known, usize)> = if is_listing {
        let every = |known: &'a Known| (0..known.chunks.len()).map(move |chunk| (known, chunk));
        known.iter().filter(|known| passes(known)).flat_map(every).collect()
    } else {
        let all = ranking(index, known, request, request.mode).into_iter().map(|(chunk, _)| chunk);
        all.filter(|(known, _)| passes(known)).collect()
    };
    let reply = index.search(request);
    assert!(reply.hits.iter().all(|hit| passes(known.iter().find(|one| one.id == hit.document_id).unwrap())));
    if request.mode == RetrievalMode::Hybrid && !is_listing && !request.sort.is_empty() {
        return; // what is sorted are the candidates
    }
    let mut matching: Vec<&Known> = Vec::new();
    for (known, _) in &chunks {
        if !matching.iter().any(|other| other.id == known.id) {
            matching.push(known);
        }
    }
    let groups: Vec<(String, f32)> = if is_listing || !request.sort.is_empty() {
        let documents =
            if request.sort.is_empty() { matching.clone() } else { sorted(matching.clone(), &request.sort) };
        let of = |known: &Known| -> Vec<usize> {
            let mut of: Vec<usize> =
                chunks.iter().filter(|(other, _)| other.id == known.id).map(|(_, chunk)| *chunk).collect();
            of.sort_unstable();
            of
        };
        let ordered = documents
            .into_iter()
            .flat_map(|known| of(known).into_iter().map(move |chunk| ((known, chunk), 0.0)));
        grouped(ordered.collect(), &request.group_by)
    } else {
        grouped(ranked(index, known, request), &request.group_by)
    };
    if request.mode == RetrievalMode::Lexical || is_listing {
        assert_eq!(reply.total, MatchCount::Exact(groups.len() as u64), "{request:?}");
        for (facet, found) in request.facets.iter().zip(&reply.facets) {
            let found: Vec<(String, u64)> =
                found.iter().map(|counted| (format!("{:?}", counted.value), counted.count)).collect();
            assert_eq!(found, facet_of(&matching, facet), "{request:?}");
        }
    }
    if is_listing || request.mode == RetrievalMode::Lexical && !request.sort.is_empty() {
        let page: Vec<&String> =
            groups.iter().skip(request.offset).take(request.limit).map(|(name, _)| name).collect();
        assert_eq!(names(&reply.hits).iter().collect::<Vec<_>>(), page, "{request:?}");
    } else if request.sort.is_empty() {
        assert_page(&reply.hits, &groups, request);
    }
}

#[test]
fn ten_thousand_random_searches_equal_the_model() {
    let mut rng = Rng(7);
    for _ in 0..50 {
        let (index, known) = index(&mut rng);
        let fields: HashSet<&str> = FIELDS.into_iter().collect();
        let has = |field: &str| known.iter().any(|known| !places(&known.metadata, field).is_empty());
        if !fields.iter().all(|field| has(field)) {
            continue; // a field that no document has is an error, which another test shows
        }
        for _ in 0..200 {
            check(&index, &known, &random_request(&mut rng));
        }
    }
}
