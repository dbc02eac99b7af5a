//! An engine that is slow, fails or is left in the middle: what its callers see of it.

use std::time::Duration;

use weir_policy::Caller;

use super::Exact;
use super::contract::{both, exact, found, put, put_with, words};
use crate::{Engine, FacetSpec, Grouping, IndexError, IndexQuery};

fn exact_of(engine: &Engine) -> &Exact {
    match engine {
        Engine::Exact(exact) => exact,
        Engine::Embedded(_) | Engine::Qdrant(_) => unreachable!(),
    }
}

pub(crate) fn rich_query() -> IndexQuery {
    IndexQuery {
        facets: vec![FacetSpec { field: "year".to_owned(), limit: 3 }],
        exact_facets: true,
        group_by: Grouping::Field("year".to_owned()),
        collapse: true,
        diversity: 0.3,
        context: 1,
        explain: true,
        trace: Some("b".to_owned()),
        ..both("apples", 0)
    }
}

#[tokio::test]
async fn an_error_of_any_call_ends_the_search_with_it_and_the_next_search_is_whole() {
    let opened = exact().await;
    let (engine, exact) = (&opened.engine, exact_of(&opened.engine));
    let put = |number: u8| {
        let text = format!("apples {0}a {0}b {0}c {0}d {0}e", char::from(b'p' + number));
        let (id, metadata) = (char::from(b'a' + number).to_string(), format!(r#"{{"year":{number}}}"#));
        put_with(&id, &text, usize::from(number % 2), &metadata)
    };
    let all = (0..6).map(put);
    engine.apply(all.collect(), 1, None).await.unwrap();
    let search = async || {
        let mut result = engine.search(&Caller::system(), rich_query()).await?;
        result.timings = crate::StageTimings::default();
        Ok::<_, IndexError>(result)
    };
    let whole = search().await.unwrap();
    assert_eq!(whole.hits.len(), 6);
    let mut calls = 0;
    loop {
        exact.set_faults(|faults| faults.fails_after = Some(calls));
        let result = search().await;
        let has_failed = result.is_err();
        match result {
            Err(IndexError::Unavailable { retry_after, .. }) => {
                assert_eq!(retry_after, Duration::from_secs(1))
            }
            result => assert_eq!(result.unwrap(), whole),
        }
        exact.set_faults(|faults| faults.fails_after = None);
        assert_eq!(search().await.unwrap(), whole, "after a fault of call {calls}");
        if !has_failed {
            break;
        }
        calls += 1;
    }
    assert!(calls > 10, "{calls} calls");
}

#[tokio::test]
async fn a_batch_that_fails_leaves_nothing_and_can_be_applied_again() {
    let opened = exact().await;
    let (engine, exact) = (&opened.engine, exact_of(&opened.engine));
    for calls in 0..2 {
        exact.set_faults(|faults| faults.fails_after = Some(calls));
        let failed = engine.apply(vec![put("a", 1, "apples", 0)], 1, None).await;
        assert!(matches!(failed, Err(IndexError::Unavailable { .. })));
        exact.set_faults(|faults| faults.fails_after = None);
        assert_eq!((engine.applied_seq(), found(engine, words("apples")).await), (0, String::new()));
    }
    engine.apply(vec![put("a", 1, "apples", 0)], 1, None).await.unwrap();
    assert_eq!(found(engine, words("apples")).await, "a.0");
}

#[tokio::test]
async fn a_slow_engine_is_unavailable_at_its_deadline_and_a_search_can_be_left() {
    let opened = exact().await;
    let (engine, exact) = (&opened.engine, exact_of(&opened.engine));
    engine.apply(vec![put_with("a", "apples", 0, r#"{"year":1}"#)], 1, None).await.unwrap();
    let hour = Duration::from_secs(3600);
    exact.set_faults(|faults| (faults.delay, faults.deadline) = (hour, Duration::from_millis(20)));
    let started = std::time::Instant::now();
    let late = engine.search(&Caller::system(), both("apples", 0)).await;
    assert!(
        matches!(late, Err(IndexError::Unavailable { .. })) && started.elapsed() < Duration::from_secs(10)
    );
    exact.set_faults(|faults| (faults.delay, faults.deadline) = (Duration::from_millis(5), hour));
    for left_after in [1, 8, 15, 22] {
        let caller = Caller::system();
        let search = engine.search(&caller, rich_query());
        assert!(tokio::time::timeout(Duration::from_millis(left_after), search).await.is_err());
    }
    exact.set_faults(|faults| faults.delay = Duration::ZERO);
    assert_eq!(found(engine, both("apples", 0)).await, "a.0");
}
