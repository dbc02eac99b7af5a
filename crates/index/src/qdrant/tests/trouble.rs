//! Searches while nodes have faults, die, and documents change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_policy::Caller;
use weir_qdrant_mock::{Calls, Fault, Rule};

use super::Gateway;
use crate::exact::contract::{both, found, put, put_with, remove, words};
use crate::exact::faults::rich_query;
use crate::{Change, IndexError, IndexQuery, IndexResult, StageTimings};

async fn whole(engine: &crate::Engine) -> IndexResult {
    let mut result = engine.search(&Caller::system(), rich_query()).await.unwrap();
    result.timings = StageTimings::default();
    result
}

#[tokio::test]
async fn row_timeouts_a_search_is_whole_whichever_call_fails_at_a_node() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let put = |number: u8| {
        let text = format!("apples {0}a {0}b {0}c {0}d {0}e", char::from(b'p' + number));
        let (id, metadata) = (char::from(b'a' + number).to_string(), format!(r#"{{"year":{number}}}"#));
        put_with(&id, &text, usize::from(number % 2), &metadata)
    };
    engine.apply((0..6).map(put).collect(), 1, None).await.unwrap();
    let expected = whole(&engine).await;
    assert_eq!(expected.hits.len(), 6);
    let faults = [Fault::unavailable(), Fault::shards_failed(1, 6), Fault::Hang];
    for (place, fault) in faults.into_iter().enumerate() {
        for call in ["query_batch", "scroll", "count", "get"] {
            gateway.cluster.nodes[place].inject(Rule::always(Calls::Named(call), fault.clone()));
            assert_eq!(whole(&engine).await, expected, "{call}: {fault:?}");
            gateway.cluster.nodes[place].heal();
        }
    }
    for call in ["query_batch", "scroll", "count", "get"] {
        let rule = Rule::always(Calls::Named(call), Fault::unavailable());
        gateway.cluster.nodes.iter().for_each(|node| node.inject(rule.clone()));
        // what was counted lately is not counted again
        let query =
            IndexQuery { filter: weir_filter::Filter::parse(r#"{"year":{"gte":0}}"#).ok(), ..rich_query() };
        let failed = engine.search(&Caller::system(), query).await;
        assert!(
            matches!(&failed, Err(IndexError::Unavailable { retry_after, .. }) if *retry_after == Duration::from_secs(1)),
            "{call}: {failed:?}"
        );
        gateway.cluster.nodes.iter().for_each(|node| node.heal());
        assert_eq!(whole(&engine).await, expected);
    }
}

#[tokio::test]
async fn row_quorum_searches_and_changes_go_on_while_nodes_die_in_turn() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    engine.apply(vec![put("kept", 1, "apples", 0)], 1, None).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let searches = {
        let (engine, is_over) = (engine.clone(), is_over.clone());
        tokio::spawn(async move {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                let result = engine.search(&Caller::system(), both("apples", 0)).await;
                let result = result.unwrap_or_else(|error| panic!("search {count}: {error}"));
                assert!(result.hits.iter().any(|hit| hit.document_id == "kept"));
                count += 1;
            }
            count
        })
    };
    for round in 0..12u64 {
        let node = &gateway.cluster.nodes[round as usize % 3];
        node.kill();
        let (id, operation) = (format!("d{round}"), 2 * round + 2);
        engine.apply(vec![put(&id, operation, "apples pears", 1)], operation, None).await.unwrap();
        if round % 2 == 0 {
            engine.remove_now(&id, operation + 1).await.unwrap();
            assert!(!found(&engine, words("pears")).await.contains(&format!("{id}.")));
            engine.apply(vec![remove(&id, operation + 2)], operation + 1, None).await.unwrap();
        }
        node.restart().unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    let searched = searches.await.unwrap();
    assert!(searched > 12, "{searched} searches");
    assert_eq!(engine.counts().await.unwrap().documents, 7);
    assert!(engine.verify().await.unwrap().is_sound());
}

#[tokio::test]
async fn a_search_is_whole_while_its_documents_change_and_vanish() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let (old, new) = (r#"{"tenant":"a"}"#, r#"{"tenant":"b"}"#);
    engine.apply(vec![put_with("kept", "apples", 0, old)], 1, None).await.unwrap();
    let changing = {
        let engine = engine.clone();
        tokio::spawn(async move {
            for number in 2..60u64 {
                let mut change = put_with("moving", "apples", 0, if number % 2 == 0 { old } else { new });
                if let Change::Put(document) = &mut change {
                    document.version = number;
                }
                let changes = vec![if number % 5 == 0 { remove("moving", number + 1) } else { change }];
                engine.apply(changes, number, None).await.unwrap();
            }
        })
    };
    let filter = weir_filter::Filter::parse(old).unwrap();
    let caller = Caller { filter: Some(filter.into()), ..Caller::system() };
    let mut searched = 0;
    while !changing.is_finished() {
        let result = engine.search(&caller, words("apples")).await.unwrap();
        assert!(result.hits.iter().all(|hit| hit.metadata == old), "{:?}", result.hits);
        assert!(result.hits.iter().any(|hit| hit.document_id == "kept"));
        searched += 1;
    }
    changing.await.unwrap();
    assert!(searched > 5, "{searched} searches");
}
