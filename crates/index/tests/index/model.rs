//! Filter, sort, facets, pages and groups against a model that looks at every document.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value as Json, json};
use weir_filter::{Filter, Value, flatten, parse_timestamp};
use weir_index::query::Query;
use weir_index::{
    Change, FacetSpec, Grouping, Hit, IndexQuery, IndexedChunk, IndexedDocument, MatchCount, RetrievalMode,
    SortKey,
};

use crate::rng::Rng;
use crate::sample::{DIMENSION, Index, settings};

const FIELDS: [&str; 6] = ["year", "lang", "tags", "author.name", "draft", "day"];

/// What the model knows of a document.
struct Known {
    id: String,
    metadata: Map<String, Json>,
    chunks: usize,
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
fn grouped(documents: Vec<(&Known, usize)>, group_by: &Grouping) -> Vec<String> {
    let mut seen: HashSet<String> = HashSet::new();
    let name = |known: &Known, chunk: usize| format!("{}.{chunk}", known.id);
    let is_first = |(known, chunk): &(&Known, usize)| {
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
    documents.into_iter().filter(is_first).map(|(known, chunk)| name(known, chunk)).collect()
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
                changes.push(Change::Remove { id });
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
                chunks,
            };
            let chunks = document.chunks.len();
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

/// Every chunk in the order of one retriever without filter, group or page.
fn ranking<'a>(index: &Index, known: &'a [Known], request: &IndexQuery) -> Vec<(&'a Known, usize)> {
    let mut all = IndexQuery::new(request.mode, request.query.clone(), request.embedding.clone(), 1000);
    all.group_by = Grouping::Chunk;
    all.depth = 1000; // so that all of it is ranked exactly
    let find = |hit: &Hit| known.iter().find(|known| known.id == hit.document_id).unwrap();
    index.search(&all).hits.iter().map(|hit| (find(hit), hit.chunk as usize)).collect()
}

fn check(index: &Index, known: &[Known], request: &IndexQuery) {
    let passes =
        |known: &Known| request.filter.as_ref().is_none_or(|filter| filter.evaluate(&known.metadata));
    let is_listing = request.query.is_none() && request.embedding.is_none();
    let ranked: Vec<(&Known, usize)> = if is_listing {
        let every = |known| (0..Known::chunks(known)).map(move |chunk| (known, chunk));
        known.iter().filter(|known| passes(known)).flat_map(every).collect()
    } else {
        ranking(index, known, request).into_iter().filter(|(known, _)| passes(known)).collect()
    };
    let reply = index.search(request);
    if request.mode == RetrievalMode::Hybrid && !is_listing {
        // rankings are fused after the filter, which the model does not repeat; but no chunk may be missing
        let groups = grouped(ranked, &request.group_by).len();
        assert!(
            reply.hits.iter().all(|hit| passes(known.iter().find(|one| one.id == hit.document_id).unwrap()))
        );
        if request.sort.is_empty() {
            assert_eq!(
                reply.hits.len(),
                groups.saturating_sub(request.offset).min(request.limit),
                "{request:?}"
            );
        }
        return;
    }
    let mut matching: Vec<&Known> = Vec::new();
    for (known, _) in &ranked {
        if !matching.iter().any(|other| other.id == known.id) {
            matching.push(known);
        }
    }
    let ordered = if request.sort.is_empty() {
        ranked
    } else {
        let mut ordered = Vec::new();
        for known in sorted(matching.clone(), &request.sort) {
            let mut chunks: Vec<usize> =
                ranked.iter().filter(|(other, _)| other.id == known.id).map(|(_, chunk)| *chunk).collect();
            chunks.sort_unstable();
            ordered.extend(chunks.into_iter().map(|chunk| (known, chunk)));
        }
        ordered
    };
    let groups = grouped(ordered, &request.group_by);
    let page: Vec<String> = groups.iter().skip(request.offset).take(request.limit).cloned().collect();
    if request.mode == RetrievalMode::Lexical || is_listing {
        assert_eq!(names(&reply.hits), page, "{request:?}");
        assert_eq!(reply.total, MatchCount::Exact(groups.len() as u64), "{request:?}");
        for (facet, found) in request.facets.iter().zip(&reply.facets) {
            let found: Vec<(String, u64)> =
                found.iter().map(|counted| (format!("{:?}", counted.value), counted.count)).collect();
            assert_eq!(found, facet_of(&matching, facet), "{request:?}");
        }
    } else if request.sort.is_empty() {
        assert_eq!(names(&reply.hits), page, "{request:?}");
    }
}

impl Known {
    fn chunks(&self) -> usize {
        self.chunks
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
