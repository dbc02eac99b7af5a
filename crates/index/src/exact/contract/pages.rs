//! Pages of a search have the order of the whole.

use weir_policy::Caller;

use super::{axis, both, document, found, names, nearest, put, words};
use crate::{Change, Engine, Grouping, IndexQuery, IndexedDocument, SortKey};

pub(super) async fn pages_follow_each_other(engine: &Engine) {
    let put = |number: usize| put(&format!("d{number}"), 1, &"apples ".repeat(1 + number % 5), number % 4);
    engine.apply((0..30).map(put).collect(), 1, None).await.unwrap();
    for query in [words("apples"), nearest(0), both("apples", 1)] {
        let whole = found(engine, IndexQuery { limit: 30, ..query.clone() }).await;
        let mut pages = Vec::new();
        for page in 0..6 {
            let query = IndexQuery { limit: 5, offset: 5 * page, ..query.clone() };
            let result = engine.search(&Caller::system(), query).await.unwrap();
            assert_eq!(result.hits.first().map(|hit| hit.position), Some(5 * page));
            pages.push(names(&result));
        }
        assert_eq!(pages.join(" "), whole);
    }
}

pub(super) async fn pages_hold_where_scores_and_sort_keys_are_equal(engine: &Engine) {
    let put = |number: usize| {
        let chunks = [("apples", axis(0)), ("apples", axis(1))];
        let metadata = r#"{"n":1}"#.to_owned();
        Change::Put(IndexedDocument {
            metadata,
            ..document(&format!("d{number:03}"), 1 + number as u64, &chunks)
        })
    };
    engine.apply((0..130).map(put).collect(), 200, None).await.unwrap();
    let list = IndexQuery { query: None, ..words("") };
    for group_by in [Grouping::Document, Grouping::Chunk] {
        for sort in [vec![], vec![SortKey { field: "n".to_owned(), descending: false }]] {
            for query in [&words("apples"), &list] {
                let query =
                    IndexQuery { depth: 10, sort: sort.clone(), group_by: group_by.clone(), ..query.clone() };
                let whole = found(engine, IndexQuery { limit: 260, ..query.clone() }).await;
                let mut pages = Vec::new();
                for offset in (0..260).step_by(20) {
                    let page = found(engine, IndexQuery { limit: 20, offset, ..query.clone() }).await;
                    pages.extend((!page.is_empty()).then_some(page));
                }
                assert_eq!(pages.join(" "), whole, "{query:?}");
                assert!(whole.starts_with("d000.0 d00"), "{whole}");
            }
        }
    }
}
