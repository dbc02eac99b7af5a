//! Metadata: what is filtered, sorted, counted and grouped by it.

use weir_filter::Filter;
use weir_policy::Caller;

use super::{found, names, put_with, remove, tenant, words};
use crate::{Engine, FacetSpec, Grouping, IndexQuery, MatchCount, SortKey};

pub(super) async fn fields_filter_sort_count_and_group(engine: &Engine) {
    let all = [("a", 3, "de"), ("b", 1, "en"), ("c", 2, "de"), ("d", 2, "fr")]
        .map(|(id, year, lang)| put_with(id, "apples", 0, &format!(r#"{{"year":{year},"lang":"{lang}"}}"#)));
    engine.apply(all.into(), 1, None).await.unwrap();
    let by_year = |descending| vec![SortKey { field: "year".to_owned(), descending }];
    let facets = vec![FacetSpec { field: "lang".to_owned(), limit: 2 }];
    for query in [words("apples"), IndexQuery { query: None, ..words("") }] {
        let query =
            IndexQuery { sort: by_year(true), facets: facets.clone(), count: true, limit: 3, ..query };
        let result = engine.search(&Caller::system(), query.clone()).await.unwrap();
        assert_eq!((names(&result), result.total), ("a.0 c.0 d.0".to_owned(), MatchCount::Exact(4)));
        let counted: Vec<u64> = result.facets[0].iter().map(|value| value.count).collect();
        assert_eq!((counted, result.exact_facets), (vec![2, 1], true));
        let filter = Some(Filter::parse(r#"{"year":{"lte":2}}"#).unwrap());
        let query = IndexQuery { filter, group_by: Grouping::Field("lang".to_owned()), ..query };
        let result = engine.search(&Caller::system(), query).await.unwrap();
        assert_eq!((names(&result), result.selected), ("c.0 d.0 b.0".to_owned(), Some(3)));
    }
    assert_eq!(
        found(engine, IndexQuery { query: None, ..words("") }).await,
        "a.0 b.0 c.0 d.0",
        "as they came"
    );
}

pub(super) async fn white_space_in_names_and_values_is_as_other_text(engine: &Engine) {
    let mut seq = 0;
    for space in [" ", "\t", "\n", "\u{a0}", "\u{3000}"] {
        let (id, other) = (format!("a{space}b"), format!("a{space}c"));
        let (field, value) = (format!("my{space}field"), format!("x{space}y"));
        let metadata = serde_json::json!({ &field: value, "tenant": value }).to_string();
        let all = vec![
            put_with(&id, "apples", 0, &metadata),
            put_with(&other, "apples", 1, &serde_json::json!({ &field: "xy" }).to_string()),
        ];
        for _ in 0..2 {
            seq += 1;
            engine.apply(all.clone(), seq, None).await.unwrap();
        }
        let ids = async |caller: &Caller, filter: serde_json::Value| {
            let filter = Some(Filter::from_value(&filter).unwrap());
            let query = IndexQuery { filter, trace: Some(id.clone()), ..words("apples") };
            let hits = engine.search(caller, query).await.unwrap().hits;
            hits.into_iter().map(|hit| hit.document_id).collect::<Vec<_>>()
        };
        let all = Caller::system();
        for test in [
            serde_json::json!(value),
            serde_json::json!({ "eq": value }),
            serde_json::json!({ "in": [value, "z"] }),
            serde_json::json!({ "ne": "xy" }),
            serde_json::json!({ "nin": ["xy", "z"], "exists": true }),
        ] {
            assert_eq!(ids(&all, serde_json::json!({ &field: test })).await, [&*id], "{test} {field:?}");
        }
        assert_eq!(ids(&all, serde_json::json!({ &field: { "ne": value } })).await, [&*other]);
        assert_eq!(ids(&tenant(&value), serde_json::json!({ &field: { "exists": true } })).await, [&*id]);
        assert!(engine.features(&all, words("apples"), &id).await.unwrap().is_some());
        assert!(engine.remove_now(&id, seq + 1).await.unwrap());
        seq += 2;
        engine.apply(vec![remove(&id, seq - 1), remove(&other, seq)], seq, None).await.unwrap();
        assert_eq!(found(engine, words("apples")).await, "", "{space:?}");
    }
}
