//! Adding, replacing and removing documents.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_index::{Change, Embedded, EngineId, Engines, IndexError, RebuildReason};
use weir_policy::Caller;

use crate::sample::*;

#[test]
fn added_documents_are_found_by_both_retrievers_and_after_reopening() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "green apples", 0), put("b", 1, "red pears", 1)], 7);
    assert_eq!(index.engine.applied_seq(), 7);
    assert_eq!(index.counts(), (2, 2));
    assert_eq!(index.sees("pears", 0), ("b.0".to_owned(), "a.0 b.0".to_owned()));

    let (index, rebuilt) = index.reopen();
    assert_eq!(rebuilt, None);
    assert_eq!(index.engine.applied_seq(), 7);
    assert_eq!(index.counts(), (2, 2));
    assert_eq!(index.sees("pears", 0), ("b.0".to_owned(), "a.0 b.0".to_owned()));
}

#[test]
fn applying_a_batch_twice_changes_nothing() {
    let index = Index::new(settings());
    let batch = || vec![put("a", 1, "green apples", 0), put("b", 1, "red pears", 1), remove("c")];
    index.apply(batch(), 3);
    let before = index.sees("apples pears", 0);
    index.apply(batch(), 3);
    assert_eq!(index.sees("apples pears", 0), before);
    assert_eq!(index.engine.counts().deleted_chunks, 0);
    assert_eq!(index.counts(), (2, 2));
}

#[test]
fn a_newer_version_replaces_the_document_in_both_retrievers() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "green apples", 0), put("b", 1, "red pears", 1)], 1);
    index.apply(vec![put("a", 2, "blue plums", 2)], 2);
    assert_eq!(index.sees("apples plums", 2).0, "a.0");
    assert_eq!(index.sees("apples", 2).0, "");
    assert_eq!(index.sees("", 2).1, "a.0 b.0");
    assert_eq!(index.counts(), (2, 2));
    assert_eq!(index.engine.counts().deleted_chunks, 1);

    index.apply(vec![put("a", 1, "green apples", 0), put("a", 2, "green apples", 0)], 3);
    assert_eq!(index.sees("apples plums", 2).0, "a.0", "an older version comes too late");
    assert_eq!(index.sees("apples", 2).0, "");
}

#[test]
fn changes_are_applied_while_a_child_has_the_files_of_an_earlier_writer() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "green apples", 0)], 1);
    // it ends the writer
    index.engine.flush().unwrap();
    let lock = std::fs::File::create(index.folder.path().join("lexical/.tantivy-writer.lock")).unwrap();
    lock.lock().unwrap();
    index.apply(vec![put("b", 1, "red pears", 1)], 2);
    assert_eq!(index.sees("pears", 0).0, "b.0");
}

#[test]
fn a_removed_document_disappears_from_both_retrievers_and_can_be_added_again() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 5, "green apples", 0), put("b", 1, "red apples", 0)], 1);
    index.apply(vec![remove("a")], 2);
    assert_eq!(index.sees("apples", 0), ("b.0".to_owned(), "b.0".to_owned()));
    // The second batch deletes the lexical entries, which must not show in anything.
    index.apply(vec![], 3);
    assert_eq!(index.sees("apples", 0), ("b.0".to_owned(), "b.0".to_owned()));
    index.apply(vec![put("a", 1, "sour apples", 0)], 4);
    assert_eq!(index.sees("sour", 0), ("a.0".to_owned(), "b.0 a.0".to_owned()));
    let (index, rebuilt) = index.reopen();
    assert_eq!(rebuilt, None);
    assert_eq!(index.sees("sour", 0), ("a.0".to_owned(), "b.0 a.0".to_owned()));
    assert_eq!(index.counts(), (2, 2));
}

#[test]
fn stale_lexical_entries_are_deleted_one_batch_later_also_after_a_restart() {
    let stale_entries = |index: &Index| index.engine.verify().unwrap().stale_entries;
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "apples", 0), put("b", 1, "apples", 1), put("c", 1, "apples", 2)], 1);
    index.apply(vec![remove("a")], 2);
    assert_eq!(stale_entries(&index), 1);
    index.apply(vec![remove("b")], 3);
    assert_eq!(stale_entries(&index), 1);
    let (index, _) = index.reopen();
    assert_eq!(stale_entries(&index), 1);
    index.apply(vec![], 4);
    assert_eq!(stale_entries(&index), 0);
}

#[test]
fn remove_now_hides_at_once_and_earlier_operations_do_not_restore() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "green apples", 0), put("b", 1, "red apples", 1)], 1);
    assert!(index.engine.remove_now("a", 5).unwrap());
    assert!(!index.engine.remove_now("a", 5).unwrap());
    assert_eq!(index.sees("apples", 0), ("b.0".to_owned(), "b.0".to_owned()));
    assert_eq!((index.counts(), index.engine.applied_seq()), ((1, 1), 1));

    index.apply(vec![put("a", 2, "ripe apples", 0), put("c", 1, "apples", 2)], 3);
    assert_eq!(index.sees("apples", 0).0, "c.0 b.0", "operation 5 removes what operation 2 put");

    index.apply(vec![remove("a"), put("a", 3, "apples apples", 3)], 6);
    assert_eq!(index.sees("apples", 3).0, "a.0 c.0 b.0", "operation 6 comes after the removal");
    assert!(!index.engine.remove_now("a", 5).unwrap(), "operation 5 is in already");
    assert_eq!(index.counts(), (3, 3));
}

#[test]
fn remove_now_survives_the_next_batch_and_its_own_operation() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "green apples", 0), put("b", 1, "red apples", 1)], 1);
    assert!(index.engine.remove_now("a", 3).unwrap());
    index.apply(vec![], 2);
    let (index, rebuilt) = index.reopen();
    assert_eq!(rebuilt, None);
    assert_eq!(index.sees("apples", 0), ("b.0".to_owned(), "b.0".to_owned()));
    index.apply(vec![remove("a")], 3);
    assert_eq!(index.counts(), (1, 1));
}

#[test]
fn a_document_without_chunks_is_not_indexed() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "apples", 0)], 1);
    index.apply(vec![Change::Put(document("a", 2, &[])), Change::Put(document("b", 1, &[]))], 2);
    assert_eq!(index.counts(), (0, 0));
    assert_eq!(index.sees("apples", 0), (String::new(), String::new()));
}

#[test]
fn an_out_of_order_batch_is_rejected() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "apples", 0)], 5);
    let error = index.engine.apply(vec![remove("a")], 4).unwrap_err();
    assert!(matches!(error, IndexError::OutOfOrder { applied_seq: 4, current: 5 }));
    assert_eq!(index.counts(), (1, 1));
}

#[test]
fn one_invalid_embedding_rejects_the_whole_batch() {
    let index = Index::new(settings());
    let unfit = |embedding| Change::Put(document("x", 1, &[("text", embedding)]));
    let apply = |change| index.engine.apply(vec![put("a", 1, "apples", 0), change], 1).unwrap_err();
    assert!(matches!(apply(unfit(vec![1.0; 3])), IndexError::EmbeddingLength { expected: 4, actual: 3 }));
    assert!(matches!(apply(unfit(vec![f32::NAN; 4])), IndexError::EmbeddingNotFinite));
    assert!(matches!(apply(put_text("x", 1, "text")), IndexError::EmbeddingMissing(4)));
    assert_eq!((index.counts(), index.engine.applied_seq()), ((0, 0), 0));

    let index = Index::new(text_only());
    let error = index.engine.apply(vec![put("x", 1, "text", 0)], 1).unwrap_err();
    assert!(matches!(error, IndexError::EmbeddingLength { expected: 0, actual: 4 }));
}

#[test]
fn a_text_only_collection_is_searched_by_text() {
    let index = Index::new(text_only());
    index.apply(vec![put_text("a", 1, "green apples"), put_text("b", 1, "red pears")], 1);
    assert_eq!(names(&index.search(&lexical("pears")).hits), "b.0");
    let error = index.engine.search(&Caller::system(), &dense(axis(0))).unwrap_err();
    assert!(matches!(error, IndexError::NoEmbeddings));
    let (index, rebuilt) = index.reopen();
    assert_eq!(rebuilt, None);
    assert_eq!(names(&index.search(&lexical("pears")).hits), "b.0");
}

#[test]
fn an_open_folder_is_locked_and_a_closed_engine_still_searches() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "apples", 0)], 1);
    let second = Embedded::open(index.folder.path(), settings(), 1);
    assert!(matches!(second, Err(IndexError::Locked(_))));

    index.engine.close().unwrap();
    assert!(matches!(index.engine.apply(vec![], 2), Err(IndexError::Closed)));
    assert_eq!(names(&index.search(&lexical("apples")).hits), "a.0");
    let (second, rebuilt) = Embedded::open(index.folder.path(), settings(), 1).map_err(drop).unwrap();
    assert_eq!((second.applied_seq(), rebuilt), (1, None));
}

#[test]
fn many_small_batches_are_merged_and_stay_exact() {
    let index = Index::new(settings());
    for round in 1..=60u64 {
        let id = format!("d{}", round % 20);
        index.apply(vec![put(&id, round, &format!("w{round} common"), (round % 4) as usize)], round);
    }
    index.engine.flush().unwrap();
    assert!(index.engine.counts().segments <= 2, "{:?}", index.engine.counts());
    assert_eq!(index.sees("w60", 0).0, "d0.0");
    assert_eq!(index.sees("w40", 0).0, "");
    assert_eq!(index.counts(), (20, 20));
    assert_eq!(index.search(&lexical("common")).lexical.documents, 20);
}

/// Every version of a document says the same number in both chunks; a search must never see two numbers, or one chunk.
#[test]
fn a_search_during_apply_sees_no_half_document() {
    let index = Index::new(settings());
    let version = |number: u64| {
        let text = format!("number{number} here");
        Change::Put(document("a", number, &[(&text, axis(0)), (&text, axis(1))]))
    };
    index.apply(vec![version(1)], 1);
    let is_done = AtomicBool::new(false);
    let search_all = || {
        let mut searches = 0;
        while !is_done.load(Ordering::Relaxed) || searches == 0 {
            let lexical = index.search(&lexical("here"));
            let dense = index.search(&dense(axis(1)));
            for hits in [&lexical.hits, &dense.hits] {
                assert_eq!(hits.len(), 1, "one document");
                assert_eq!(hits[0].text, format!("number{} here", hits[0].version));
            }
            let both = index.search(&request(weir_ranking::RetrievalMode::Hybrid, "here", Some(axis(1))));
            let hit = &both.hits[0];
            assert!(
                hit.lexical.is_some() && hit.dense.is_some(),
                "both retrievers see the document: {hit:?}"
            );
            searches += 1;
        }
        searches
    };
    std::thread::scope(|scope| {
        let searchers = [scope.spawn(search_all), scope.spawn(search_all)];
        for number in 2..=40 {
            index.apply(vec![version(number)], number);
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(searchers.into_iter().all(|searcher| searcher.join().unwrap() > 0));
    });
    assert_eq!(index.counts(), (1, 2));
    assert!(index.engine.verify().unwrap().is_sound());
}

#[tokio::test]
async fn the_asynchronous_engine_does_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let limiter = weir_index::CpuLimiter::start(1, || ()).unwrap();
    let engines = Engines::embedded(folder.path().join("new/folder"), limiter, usize::MAX);
    let id = EngineId { kind: weir_index::EngineKind::Embedded, collection: 3, generation: 1 };
    let opened = engines.open(id, settings(), 0).await.unwrap();
    assert_eq!(opened.rebuilt, Some(RebuildReason::Missing));
    let engine = opened.engine;
    engine.apply(vec![put("a", 1, "green apples", 0), put("b", 1, "pears", 1)], 2, None).await.unwrap();
    assert!(engine.remove_now("b", 3).await.unwrap());
    let reply = engine.search(&Caller::system(), lexical("apples pears")).await.unwrap();
    assert_eq!(names(&reply.hits), "a.0");
    assert_eq!((engine.applied_seq(), engine.counts().await.unwrap().documents), (2, 1));
    assert!(engine.verify().await.unwrap().is_sound());
    assert!(engine.disk_bytes().await.unwrap() > 100);
    assert!(engine.capabilities().pinned_snapshots);
    let features = engine.features(&Caller::system(), lexical("apples pears"), "a").await.unwrap();
    assert_eq!(features, reply.hits[0].features);
    let recall = engine.recall(&Caller::system(), dense(axis(0))).await.unwrap().unwrap();
    assert_eq!((recall.found, recall.wanted), (1, 1));
    engine.flush().await.unwrap();
    engine.close().await.unwrap();
    drop(engine);
    assert!(engines.foreign_after(2).await.unwrap().unwrap().ends_with("/3"));
    assert_eq!(engines.foreign_after(3).await.unwrap(), None);
    engines.delete(id).await.unwrap();
    let opened = engines.open(id, settings(), 0).await.unwrap();
    assert_eq!((opened.rebuilt, engines.in_use().open), (Some(RebuildReason::Missing), 1));
    opened.engine.close().await.unwrap();
    engines.delete_collection(weir_index::EngineKind::Embedded, 3).await.unwrap();
    assert_eq!(engines.foreign_after(0).await.unwrap(), None);
}
