//! The cache of points that searches have read.

use std::time::Duration;

use weir_policy::Caller;
use weir_qdrant_mock::Recorded;

use super::{Gateway, engines_with};
use crate::exact::contract::{both, document, remove, settings};
use crate::{Change, Engine, EngineId, EngineKind, Hit, IndexQuery};

const ID: EngineId = EngineId { kind: EngineKind::Qdrant, collection: 1, generation: 1 };

/// Documents whose best chunk for the embedding is not the one for the words, and of which each ranking has others.
fn corpus() -> Vec<Change> {
    let put = |number: u8| {
        let near = f32::from(number) / 20.0;
        let words = if number.is_multiple_of(2) { "apples and pears" } else { "plums" };
        let words = format!("{words}{}", " more".repeat(usize::from(number)));
        let chunks = [("nothing", [near, 1.0, 0.0, 0.0]), (words.as_str(), [0.1, 0.0, 1.0, near])];
        Change::Put(document(&format!("d{number:02}"), 1, &chunks))
    };
    (0..20).map(put).collect()
}

fn query() -> IndexQuery {
    IndexQuery { depth: 4, limit: 5, ..both("apples", 0) }
}

async fn hits(engine: &Engine) -> Vec<Hit> {
    engine.search(&Caller::system(), query()).await.unwrap().hits
}

#[tokio::test]
async fn a_search_among_points_that_were_read_before_makes_one_call() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    engine.apply(corpus(), 1, None).await.unwrap();
    let without = engines_with(&gateway.cluster, "service", Duration::from_millis(500), 0);
    let expected = hits(&without.open(ID, settings(), 1_000).await.unwrap().engine).await;
    let ranked = |of: fn(&Hit) -> bool| expected.iter().any(of);
    assert!(ranked(|hit| hit.dense.is_none()) && ranked(|hit| hit.lexical.is_none()), "{expected:?}");
    let first = hits(&engine).await;
    gateway.cluster.take_recorded();
    let second = hits(&engine).await;
    let calls = gateway.cluster.take_recorded();
    let [Recorded::QueryBatch(call)] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(call.query_points.len(), 3, "two rankings and the names: {call:?}");
    assert_eq!((&first, &second), (&expected, &expected));
    let [bytes, bytes_max] = gateway.engines.in_use().point_cache_bytes;
    assert!((1..=bytes_max).contains(&bytes), "{bytes} of {bytes_max}");
    assert_eq!(without.in_use().point_cache_bytes, [0, 0]);
}

#[tokio::test]
async fn a_document_that_another_gateway_has_changed_is_found_as_it_is_now() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    engine.apply(corpus(), 1, None).await.unwrap();
    let before = hits(&engine).await;
    let other = engines_with(&gateway.cluster, "service", Duration::from_millis(500), 1 << 20);
    let other = other.open(ID, settings(), 1_000).await.unwrap().engine;
    let changed = document("d02", 2, &[("apples", [1.0, 0.0, 0.0, 0.0])]);
    let gone = before[0].document_id.clone();
    assert_ne!(gone, "d02");
    other.apply(vec![Change::Put(changed), remove(&gone, 3)], 3, None).await.unwrap();
    let after = hits(&engine).await;
    assert_eq!(
        (after[0].document_id.as_str(), after[0].text.as_str(), after[0].version),
        ("d02", "apples", 2)
    );
    assert!(after.iter().all(|hit| hit.document_id != gone), "{after:?}");
}

#[tokio::test]
async fn the_rarity_of_a_term_is_counted_anew_when_something_is_applied() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    engine.apply(corpus(), 1, None).await.unwrap();
    let query = IndexQuery { explain: true, ..query() };
    let counted = async || {
        let result = engine.search(&Caller::system(), query.clone()).await.unwrap();
        let explained = result.hits.iter().filter_map(|hit| hit.explanation.as_ref()?.terms.first());
        explained.map(|term| term.chunks).max()
    };
    assert_eq!((counted().await, counted().await), (Some(10), Some(10)));
    engine.apply(vec![remove("d02", 2), remove("d04", 2)], 2, None).await.unwrap();
    assert_eq!(counted().await, Some(8));
}

#[tokio::test]
async fn candidates_of_equal_scores_do_not_depend_on_the_points_that_other_searches_needed() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let equal =
        |number: u8| Change::Put(document(&format!("d{number:02}"), 1, &[("apples", [1.0, 0.0, 0.0, 0.0])]));
    engine.apply((0..60).map(equal).collect(), 1, None).await.unwrap();
    let found = async || {
        let query = IndexQuery { depth: 10, ..both("apples", 0) };
        let hits = engine.search(&Caller::system(), query).await.unwrap().hits;
        hits.into_iter().map(|hit| hit.document_id).collect::<Vec<_>>()
    };
    let first = found().await;
    for number in 0..20 {
        let query = IndexQuery { depth: 1 + number, ..both("apples", 1) };
        engine.search(&Caller::system(), query).await.unwrap();
        assert_eq!(found().await, first, "after {number} other searches");
    }
}
