//! Filters select in the cluster what they select by their specification.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use weir_filter::Filter;
use weir_policy::Caller;

use super::{Gateway, engines_with};
use crate::exact::contract::{found, put_with, words};
use crate::{Change, IndexError, IndexQuery, IndexedDocument, MatchCount};

/// Xorshift (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn value(&mut self) -> Json {
        match self.below(16) {
            0 => json!(1),
            1 => json!(1.0),
            2 => json!(2.5),
            3 => json!(-7),
            4 => json!(9_007_199_254_740_993_i64),
            5 => json!("2024-01-01"),
            6 => json!("2024-01-01T01:00:00+01:00"),
            7 => json!("2031-05-05"),
            8 => json!("x"),
            9 => json!("1"),
            10 => json!(true),
            11 => json!(9_007_199_254_740_992_i64),
            12 => json!("9999-12-31"),
            13 => json!("2260-01-01T00:00:00.000001Z"),
            14 => json!("2260-01-01"),
            _ => json!(null),
        }
    }

    fn field(&mut self) -> &'static str {
        ["a", "b", "c.d"][self.below(3)]
    }

    fn metadata(&mut self) -> Json {
        let mut one = || match self.below(3) {
            0 => Json::Array(vec![self.value(), self.value()]),
            _ => self.value(),
        };
        let (a, b, d) = (one(), one(), one());
        let mut map = Map::from_iter([("a".to_owned(), a), ("c".to_owned(), json!({ "d": d }))]);
        if self.below(2) == 0 {
            map.insert("b".to_owned(), b);
        }
        Json::Object(map)
    }

    fn filter(&mut self, depth: usize) -> Json {
        let field = self.field();
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 => json!({ field: self.value() }),
            1 => json!({ field: { "in": [self.value(), self.value(), self.value()] } }),
            2 => json!({ field: { "exists": self.below(2) == 0 } }),
            3 => json!({ field: { "ne": self.value() } }),
            4 => {
                let comparison = ["gt", "gte", "lt", "lte"][self.below(4)];
                let bound = [
                    json!(1),
                    json!(2.5),
                    json!(-7.5),
                    json!("2024-01-01"),
                    json!("2030-01-01T00:00:00Z"),
                    json!("9999-12-31"),
                    json!("2260-01-01"),
                    json!(9_007_199_254_740_993_i64),
                    json!(1e300),
                ];
                json!({ field: { comparison: bound[self.below(bound.len())] } })
            }
            5 => json!({ field: { "nin": [self.value(), self.value()] } }),
            6 => json!({ "not": self.filter(depth - 1) }),
            7 => json!({ "or": [self.filter(depth - 1), self.filter(depth - 1)] }),
            _ => json!({ "and": [self.filter(depth - 1), self.filter(depth - 1)] }),
        }
    }
}

#[tokio::test]
async fn documents_pass_that_pass_by_evaluation() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut all: Vec<Json> = (0..60).map(|_| random.metadata()).collect();
    // each field has a value somewhere
    all.push(json!({"a": 1, "b": "x", "c": {"d": true}}));
    let put = |(number, metadata): (usize, &Json)| {
        put_with(&format!("d{number:02}"), "apples", 0, &metadata.to_string())
    };
    let changes: Vec<Change> = all.iter().enumerate().map(put).collect();
    engine.apply(changes, 1, None).await.unwrap();
    let (mut checked, mut passed) = (0, 0);
    for _ in 0..400 {
        let json = random.filter(3);
        let Ok(filter) = Filter::from_value(&json) else { continue };
        let passes = |(_, metadata): &(usize, &Json)| filter.evaluate(metadata.as_object().unwrap());
        let expected: Vec<String> =
            all.iter().enumerate().filter(passes).map(|(number, _)| format!("d{number:02}.0")).collect();
        let query = IndexQuery { filter: Some(filter.clone()), limit: 100, query: None, ..words("") };
        assert_eq!(found(&engine, query).await, expected.join(" "), "{json}");
        (checked, passed) = (checked + 1, passed + expected.len());
    }
    assert!(checked > 300 && passed > checked, "{checked} {passed}");
}

#[tokio::test]
async fn what_the_cluster_can_not_compare_is_refused_by_name() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    engine.apply(vec![put_with("a", "apples", 0, r#"{"a":"x"}"#)], 1, None).await.unwrap();
    for (filter, remedy) in [
        (r#"{"a":{"gt":"x"}}"#, "list the values with `in`"),
        (r#"{"not":{"a":{"lte":"m"}}}"#, "list the values with `in`"),
    ] {
        let query = IndexQuery { filter: Some(Filter::parse(filter).unwrap()), ..words("apples") };
        let error = engine.search(&Caller::system(), query).await.unwrap_err();
        assert!(
            matches!(error, IndexError::NotSupported { .. }) && error.to_string().contains(remedy),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_page_is_filled_where_the_cluster_gives_more_than_passes() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let metadata = |number: usize| match number {
        0..300 => r#"{"at":"unknown"}"#,
        _ => r#"{"at":"2023-05-01"}"#,
    };
    let put = |number: usize| put_with(&format!("d{number:03}"), "apples", 0, metadata(number));
    engine.apply((0..320).map(put).collect(), 1, None).await.unwrap();
    let filter = Filter::parse(r#"{"at":{"lt":"2024-01-01"}}"#).unwrap();
    let query = IndexQuery { filter: Some(filter), limit: 10, query: None, ..words("") };
    let hits = found(&engine, query.clone()).await;
    assert_eq!(hits.split(' ').filter(|hit| *hit >= "d300.0").count(), 10, "{hits}");
    let result = engine.search(&Caller::system(), query).await.unwrap();
    assert!(!matches!(result.total, MatchCount::Exact(320)), "{:?}", result.total);
}

#[tokio::test]
async fn documents_before_a_date_are_counted_and_not_only_those_that_were_read() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let put = |number: usize| put_with(&format!("d{number:03}"), "apples", 0, r#"{"at":"2023-05-01"}"#);
    engine.apply((0..30).map(put).collect(), 1, None).await.unwrap();
    let filter = Filter::parse(r#"{"at":{"lt":"2024-01-01"}}"#).unwrap();
    let query = IndexQuery { filter: Some(filter.clone()), limit: 10, query: None, ..words("") };
    let total =
        async |query: &IndexQuery| engine.search(&Caller::system(), query.clone()).await.unwrap().total;
    assert_eq!(total(&query).await, MatchCount::Exact(30), "each value is a date");
    engine.apply(vec![put_with("text", "apples", 0, r#"{"at":"unknown"}"#)], 2, None).await.unwrap();
    assert_eq!(
        total(&query).await,
        MatchCount::Window(10),
        "there are values that the cluster does not decide about"
    );
    assert_eq!(total(&IndexQuery { count: true, ..query }).await, MatchCount::Exact(30));
    let caller = Caller { filter: Some(filter.into()), ..Caller::system() };
    let counts = engine.counts_for(&caller).await.unwrap();
    assert_eq!((counts.documents, counts.chunks), (30, 30));
    assert_eq!(engine.counts_for(&Caller::system()).await.unwrap().documents, 31);
}

#[tokio::test]
async fn a_caller_is_told_nothing_of_documents_that_a_date_hides() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let changes = vec![
        put_with("a", "apples", 0, r#"{"publish":"2025-01-01"}"#),
        put_with("b", "apples", 1, r#"{"publish":"draft","secret":"x"}"#),
    ];
    engine.apply(changes, 1, None).await.unwrap();
    let filter = Filter::parse(r#"{"publish":{"lte":"2026-11-30"}}"#).unwrap();
    let caller = Caller { filter: Some(filter.into()), ..Caller::system() };
    let all = IndexQuery { query: None, explain: true, ..words("") };
    let result = engine.search(&caller, all).await.unwrap();
    assert_eq!(result.hits.iter().map(|hit| &*hit.document_id).collect::<Vec<_>>(), ["a"]);
    assert!(!matches!(result.total, MatchCount::Exact(2)), "{:?}", result.total);
    let unknown = IndexQuery { filter: Some(Filter::parse(r#"{"no":1}"#).unwrap()), ..words("apples") };
    match engine.search(&caller, unknown).await {
        Err(IndexError::UnknownField { known, .. }) => assert_eq!(known, ["publish"]),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_document_whose_name_is_the_query_is_among_many_that_begin_with_it() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let titled = |number: usize| {
        let title = if number == 0 { "Invoice".to_owned() } else { format!("Invoice 2024 {number}") };
        let Change::Put(document) = put_with(&format!("d{number:03}"), "apples", 0, "{}") else {
            unreachable!("it puts a document")
        };
        Change::Put(IndexedDocument { title: Some(title), ..document })
    };
    engine.apply((0..300).map(titled).collect(), 1, None).await.unwrap();
    let hits = found(&engine, IndexQuery { limit: 3, ..words("invoice") }).await;
    assert!(hits.starts_with("d000.0"), "{hits}");
}

#[tokio::test]
async fn of_many_documents_whose_names_begin_with_the_query_the_shortest_names_are_first() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let titled = |number: usize| {
        let title = if number.is_multiple_of(50) {
            format!("Invoice {number}")
        } else {
            format!("Invoice of the year {number}")
        };
        let Change::Put(document) = put_with(&format!("d{number:03}"), "apples", 0, "{}") else {
            unreachable!("it puts a document")
        };
        Change::Put(IndexedDocument { title: Some(title), ..document })
    };
    engine.apply((0..300).map(titled).collect(), 1, None).await.unwrap();
    let hits = found(&engine, IndexQuery { limit: 6, ..words("invoice") }).await;
    let mut hits: Vec<&str> = hits.split(' ').collect();
    hits.sort_unstable();
    assert_eq!(hits, ["d000.0", "d050.0", "d100.0", "d150.0", "d200.0", "d250.0"]);
}

#[tokio::test]
async fn what_is_counted_is_not_read_and_too_large_sets_are_not_counted() {
    let mut gateway = Gateway::start();
    // such replies take their time
    gateway.engines = engines_with(&gateway.cluster, "service", Duration::from_secs(30), 1 << 20);
    let engine = gateway.engine().await;
    // together more than the 64 MiB that a reply has at most
    let metadata = json!({"n": 1, "long": "x".repeat(70_000)}).to_string();
    let put = |number: usize| put_with(&format!("d{number:04}"), "apples", 0, &metadata);
    for seq in 1..=10 {
        let batch = (100 * seq - 100..100 * seq).map(put).collect();
        engine.apply(batch, seq as u64, None).await.unwrap();
    }
    let counted = IndexQuery { count: true, limit: 2, ..words("apples") };
    let result = engine.search(&Caller::system(), counted.clone()).await.unwrap();
    assert_eq!((result.hits.len(), result.total), (2, MatchCount::Exact(1000)));
    let filter = Some(Filter::parse(r#"{"n":1}"#).unwrap());
    let result = engine.search(&Caller::system(), IndexQuery { filter, ..counted }).await.unwrap();
    assert!(matches!(result.total, MatchCount::Window(_)), "{:?}", result.total);
}
