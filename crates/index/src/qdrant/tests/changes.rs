//! Changes that are repeated, late, or of several gateways.

use std::time::Duration;

use weir_policy::Caller;
use weir_qdrant::api::UpdateStatus;
use weir_qdrant_mock::{Calls, Fault, Recorded, Rule};
use weir_text::Language;

use super::{Gateway, engines_of};
use crate::exact::contract::{document, found, put, remove, settings, words};
use crate::{
    Change, EngineId, EngineKind, EngineSettings, HistoryPoint, Inconsistency, IndexError, IndexQuery,
    RebuildReason,
};

const EAST: [f32; 4] = [1.0, 0.0, 0.0, 0.0];

#[tokio::test]
async fn an_engine_that_is_opened_again_goes_on_where_it_was() {
    let gateway = Gateway::start();
    let point = Some(HistoryPoint { operation: 12, identity: i64::MIN });
    let first = gateway.opened(settings()).await.unwrap();
    assert_eq!(first.rebuilt, Some(RebuildReason::Missing));
    first.engine.apply(vec![put("a", 1, "apples", 0)], 9, point).await.unwrap();
    let again = gateway.opened(settings()).await.unwrap();
    assert_eq!(again.rebuilt, None);
    assert_eq!((again.engine.applied_seq(), again.engine.read_to().await.unwrap()), (9, point));
    assert_eq!(found(&again.engine, words("apples")).await, "a.0");
    let id = EngineId { kind: EngineKind::Qdrant, collection: 1, generation: 1 };
    let ahead = gateway.engines.open(id, settings(), 8).await.map(drop);
    assert!(matches!(ahead, Err(IndexError::AheadOfStore { applied_seq: 9, store: 8 })));
    let german = EngineSettings { language: Language::German, ..settings() };
    let rebuilt = gateway.opened(german).await.unwrap();
    assert_eq!(rebuilt.rebuilt, Some(RebuildReason::Language("english".to_owned())));
    assert_eq!(rebuilt.engine.applied_seq(), 0);
    rebuilt.engine.apply(vec![put("b", 1, "apples", 0)], 1, None).await.unwrap();
    assert_eq!(found(&rebuilt.engine, words("apples")).await, "b.0", "what was there is removed first");
}

#[tokio::test]
async fn a_collection_that_is_deleted_takes_its_points_and_no_others() {
    let gateway = Gateway::start();
    let (one, other) = (gateway.engine_of(1).await, gateway.engine_of(11).await);
    for engine in [&one, &other] {
        engine.apply(vec![put("a", 1, "apples", 0)], 1, None).await.unwrap();
    }
    gateway.engines.delete_collection(EngineKind::Qdrant, 1).await.unwrap();
    assert_eq!(
        (found(&one, words("apples")).await, found(&other, words("apples")).await),
        (String::new(), "a.0".into())
    );
    gateway
        .engines
        .delete(EngineId { kind: EngineKind::Qdrant, collection: 11, generation: 1 })
        .await
        .unwrap();
    let state = gateway.cluster.state();
    assert!(state.collections.values().all(|collection| collection.points.is_empty()));
}

#[tokio::test]
async fn row_fencing_a_gateway_that_is_behind_brings_nothing_back() {
    let gateway = Gateway::start();
    let ahead = gateway.engine().await;
    let behind = engines_of(&gateway.cluster, "service");
    let id = EngineId { kind: EngineKind::Qdrant, collection: 1, generation: 1 };
    let behind = behind.open(id, settings(), 1_000).await.unwrap().engine;
    let three =
        |version| Change::Put(document("a", version, &[("one", EAST), ("two", EAST), ("three", EAST)]));
    let first = || vec![three(1), put("b", 2, "pears", 1)];
    ahead.apply(first(), 2, None).await.unwrap();
    ahead.apply(vec![put("a", 3, "new", 0), remove("b", 5)], 4, None).await.unwrap();
    behind.apply(first(), 2, None).await.unwrap();
    assert_eq!(behind.applied_seq(), 2);
    assert_eq!(found(&behind, words("one two three new pears")).await, "a.0");
    assert_eq!(found(&ahead, words("two")).await, "");
    let counts = ahead.counts().await.unwrap();
    assert_eq!((counts.documents, counts.chunks), (1, 1));
}

#[tokio::test]
async fn row_fencing_a_change_that_is_delivered_late_replaces_no_newer_one() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let rule = Rule::once(Calls::Named("upsert"), Fault::Again(Duration::from_millis(80)));
    gateway.cluster.nodes.iter().for_each(|node| node.inject(rule.clone()));
    engine.apply(vec![put("a", 1, "old apples", 0)], 1, None).await.unwrap();
    gateway.cluster.nodes.iter().for_each(|node| node.heal());
    engine.apply(vec![put("a", 2, "new apples", 0)], 2, None).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(
        (found(&engine, words("old")).await, found(&engine, words("new")).await),
        (String::new(), "a.0".into())
    );
}

#[tokio::test]
async fn row_ids_a_batch_that_failed_at_any_call_is_applied_again_and_nothing_is_twice() {
    let batch = || {
        let two = document("a", 2, &[("apples", EAST), ("pears", EAST)]);
        vec![Change::Put(two), remove("b", 3), put("c", 2, "plums", 1)]
    };
    let mut failed_calls = 0;
    for skipped in 0.. {
        let gateway = Gateway::start();
        let engine = gateway.engine().await;
        let old = document("a", 1, &[("one", EAST), ("two", EAST), ("three", EAST)]);
        engine.apply(vec![Change::Put(old), put("b", 1, "apples", 0)], 1, None).await.unwrap();
        // this number of changes is applied; then each node refuses
        gateway.cluster.refuse_writes_after(Some(skipped));
        let failed = engine.apply(batch(), 2, None).await;
        gateway.cluster.refuse_writes_after(None);
        if let Err(error) = &failed {
            assert!(matches!(error, IndexError::Unavailable { .. }), "{error}");
            assert_eq!(engine.applied_seq(), 1);
            failed_calls += 1;
            engine.apply(batch(), 2, None).await.unwrap();
        }
        assert_eq!(found(&engine, words("apples pears plums one two three")).await.len(), "a.0 c.0".len());
        let counts = engine.counts().await.unwrap();
        assert_eq!((counts.documents, counts.chunks), (2, 3));
        assert!(engine.verify().await.unwrap().is_sound());
        if failed.is_ok() {
            break;
        }
    }
    assert!(failed_calls >= 4, "{failed_calls} calls");
}

#[tokio::test]
async fn row_wait_what_is_only_acknowledged_is_not_applied() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    for node in &gateway.cluster.nodes {
        node.inject(Rule::always(Calls::Writes, Fault::Status(UpdateStatus::Acknowledged)));
    }
    let refused = engine.apply(vec![put("a", 1, "apples", 0)], 1, None).await;
    assert!(matches!(refused, Err(IndexError::Unavailable { .. })));
    assert_eq!(engine.applied_seq(), 0);
    gateway.cluster.nodes.iter().for_each(|node| node.heal());
    engine.apply(vec![put("a", 1, "apples", 0)], 1, None).await.unwrap();
    assert_eq!((engine.applied_seq(), found(&engine, words("apples")).await), (1, "a.0".to_owned()));
}

#[tokio::test]
async fn row_ordering_deletions_are_strong_because_a_document_may_follow_them() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    engine.apply(vec![put("a", 1, "old", 0)], 1, None).await.unwrap();
    gateway.cluster.take_recorded();
    engine.apply(vec![remove("a", 3), put("a", 3, "new", 0)], 3, None).await.unwrap();
    assert_eq!(found(&engine, words("old new")).await, "a.0");
    let orderings: Vec<i32> = gateway
        .cluster
        .take_recorded()
        .iter()
        .filter_map(|one| match one {
            Recorded::Delete(delete) => delete.ordering.map(|ordering| ordering.r#type),
            Recorded::Upsert(upsert) => upsert.ordering.map(|ordering| ordering.r#type),
            _ => None,
        })
        .collect();
    assert_eq!(orderings, [2, 1, 1, 1], "the deletion; points, older versions, what is applied");
}

#[tokio::test]
async fn row_durability_points_that_a_node_has_lost_are_found_missing() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    let two = document("a", 1, &[("apples", EAST), ("pears", EAST)]);
    engine.apply(vec![Change::Put(two), put("b", 1, "plums", 0)], 1, None).await.unwrap();
    let lose = |keep: &dyn Fn(&str) -> bool| {
        let mut state = gateway.cluster.state();
        let collection = state.collections.values_mut().next().unwrap();
        collection.points.retain(|id, _| keep(id));
    };
    let lost = weir_qdrant::point_id("service/1/1", "a", 1).to_string();
    lose(&|id| id != lost);
    let problems = engine.verify().await.unwrap().problems;
    assert_eq!(problems, [Inconsistency::Chunks { document: "a".to_owned(), found: 1, expected: 2 }]);
    engine.check_files().await.unwrap();
    lose(&|_| false);
    assert!(matches!(engine.check_files().await, Err(IndexError::Lost { .. })));
    assert_eq!(engine.applied_seq(), 0);
    engine.apply(vec![put("b", 1, "plums", 0)], 1, None).await.unwrap();
    assert_eq!(found(&engine, words("plums")).await, "b.0");
}

#[tokio::test]
async fn a_removal_is_seen_by_other_gateways_and_undone_by_no_earlier_batch() {
    let gateway = Gateway::start();
    let one = gateway.engine().await;
    one.apply(vec![put("a", 1, "apples", 0)], 1, None).await.unwrap();
    let id = EngineId { kind: EngineKind::Qdrant, collection: 1, generation: 1 };
    let other = engines_of(&gateway.cluster, "service").open(id, settings(), 1_000).await.unwrap().engine;
    assert!(other.remove_now("a", 5).await.unwrap());
    assert_eq!(found(&one, words("apples")).await, "");
    other.apply(vec![put("a", 3, "apples", 0)], 4, None).await.unwrap();
    assert_eq!(found(&other, words("apples")).await, "");
    let result = other.search(&Caller::system(), IndexQuery { query: None, ..words("") }).await.unwrap();
    assert!(result.hits.is_empty());
}

#[tokio::test]
async fn row_fencing_a_deletion_holds_while_an_earlier_document_is_prepared() {
    let gateway = Gateway::start();
    let engine = gateway.engine().await;
    engine.apply(vec![put("z", 4, "plums", 1)], 4, None).await.unwrap();
    // operation 5 takes long: what follows it is put and removed, and applied is 4
    engine.apply(vec![put("x", 6, "apples", 0)], 4, None).await.unwrap();
    engine.apply(vec![remove("x", 9)], 4, None).await.unwrap();
    assert_eq!(found(&engine, words("apples")).await, "");
    engine.apply(vec![put("l", 5, "large", 2), put("x", 10, "pears", 0)], 10, None).await.unwrap();
    assert_eq!(found(&engine, words("pears large apples")).await.len(), "x.0 l.0".len());
}

#[tokio::test]
async fn row_snapshots_what_is_gone_while_a_gateway_runs_is_made_again_and_filled() {
    for with_collection in [true, false] {
        let gateway = Gateway::start();
        let engine = gateway.engine().await;
        engine.apply(vec![put("a", 1, "apples", 0)], 1, None).await.unwrap();
        {
            let mut state = gateway.cluster.state();
            state.aliases.clear();
            if with_collection {
                state.collections.clear();
            }
        }
        let search = engine.search(&Caller::system(), words("apples")).await;
        assert!(matches!(search, Err(IndexError::Unavailable { .. })), "{:?}", search.err());
        // behind the alias, all is there
        let checked = engine.check_files().await;
        assert_eq!(matches!(checked, Err(IndexError::Lost { .. })), with_collection, "{checked:?}");
        if with_collection {
            engine.apply(vec![put("a", 1, "apples", 0)], 1, None).await.unwrap();
        }
        assert_eq!(found(&engine, words("apples")).await, "a.0");
    }
}
