//! Indexes that are open while they are used.

use std::path::Path;
use std::time::Duration;

use weir_index::{CpuLimiter, EmbeddedEngine, Engine, HistoryPoint, IndexError, OpenIndexes};
use weir_policy::Caller;

use crate::sample::{lexical, names, put, settings};

/// Opens the engine of a folder within a limit; the store has `last_operation`.
async fn open(folder: &Path, indexes: &OpenIndexes, last_operation: u64) -> Engine {
    let limiter = CpuLimiter::start(1, || ()).unwrap();
    let opened = EmbeddedEngine::open(folder, settings(), limiter, indexes.clone(), last_operation).await;
    Engine::Embedded(opened.unwrap().0)
}

async fn documents(engine: &Engine) -> u64 {
    engine.counts().await.unwrap().documents
}

async fn found(engine: &Engine, query: &str) -> String {
    names(&engine.search(&Caller::system(), lexical(query)).await.unwrap().hits)
}

#[tokio::test]
async fn the_least_recently_used_index_is_closed_and_opened_by_its_next_use() {
    let (folder, indexes) = (tempfile::tempdir().unwrap(), OpenIndexes::new(2));
    let mut engines = Vec::new();
    for number in 0..3 {
        let engine = open(&folder.path().join(number.to_string()), &indexes, 0).await;
        engine.apply(vec![put("a", 1, &format!("apple number{number}"), 0)], 1, None).await.unwrap();
        engines.push(engine);
    }
    assert_eq!(indexes.count(), 2);
    for (number, engine) in engines.iter().enumerate() {
        assert_eq!((engine.applied_seq(), documents(engine).await), (1, 1), "also of a closed one");
        assert_eq!(found(engine, &format!("number{number}")).await, "a.0");
        assert_eq!(indexes.count(), 2);
    }
    // a removal that waits for its batch is not forgotten
    assert!(engines[0].remove_now("a", 2).await.unwrap());
    for engine in [&engines[1], &engines[2], &engines[1]] {
        assert_eq!(found(engine, "apple").await, "a.0");
    }
    assert_eq!(found(&engines[0], "apple").await, "");
    drop(engines);
    assert_eq!(indexes.count(), 0);

    let first = open(&folder.path().join("0"), &indexes, 1).await;
    let second = open(&folder.path().join("1"), &indexes, 1).await;
    let third = open(&folder.path().join("2"), &indexes, 1).await;
    assert_eq!(indexes.count(), 2, "the third is not opened before it is used");
    assert_eq!((third.applied_seq(), documents(&third).await), (1, 1));
    assert_eq!(found(&third, "number2").await, "a.0");
    drop((first, second));
}

#[tokio::test]
async fn an_index_that_vanished_or_shrank_is_lost_once_and_then_empty() {
    type Fault = fn(&Path);
    let faults: [(&str, Fault); 3] = [
        ("vanished", |folder| std::fs::remove_dir_all(folder).unwrap()),
        ("without head", |folder| std::fs::remove_file(folder.join("head")).unwrap()),
        ("truncated", |folder| {
            std::fs::File::options().write(true).open(folder.join("slots")).unwrap().set_len(3).unwrap()
        }),
    ];
    for (name, fault) in faults {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("index");
        let engine = open(&folder, &OpenIndexes::new(1), 0).await;
        engine.apply(vec![put("a", 1, "apple", 0)], 1, None).await.unwrap();
        engine.check_files().await.unwrap();
        fault(&folder);
        assert!(matches!(engine.check_files().await, Err(IndexError::Lost { .. })), "{name}");
        assert_eq!((engine.applied_seq(), documents(&engine).await), (0, 0), "{name}");
        engine.check_files().await.unwrap();
        engine.apply(vec![put("a", 1, "apple", 0)], 1, None).await.unwrap();
        assert_eq!(found(&engine, "apple").await, "a.0", "{name}");
    }
}

#[tokio::test]
async fn an_index_knows_how_far_the_store_had_come_and_is_not_replaced_by_one_of_another_history() {
    let parent = tempfile::tempdir().unwrap();
    let (own, other) = (parent.path().join("own"), parent.path().join("other"));
    let indexes = OpenIndexes::new(1);
    let point = |identity| Some(HistoryPoint { operation: 3, identity });
    for (folder, identity) in [(&own, -7), (&other, 8)] {
        let engine = open(folder, &indexes, 0).await;
        assert_eq!(engine.read_to().await.unwrap(), None);
        let text = format!("apple of {identity}");
        let changes = vec![put("a", 1, &text, 0), put("b", 1, "pear", 0), put("b", 2, "plum", 0)];
        engine.apply(changes, 2, point(identity)).await.unwrap();
        engine.apply(Vec::new(), 2, None).await.unwrap();
        assert_eq!(
            engine.read_to().await.unwrap(),
            point(identity),
            "a batch without a number keeps the last one"
        );
        engine.close().await.unwrap();
    }
    let engine = open(&own, &indexes, 3).await;
    assert_eq!((engine.applied_seq(), engine.read_to().await.unwrap()), (2, point(-7)));
    engine.apply(vec![put("b", 3, "plums", 0)], 3, point(-7)).await.unwrap();
    assert!(engine.compact_if_due(Duration::ZERO).await.unwrap());
    assert_eq!(
        (engine.applied_seq(), engine.read_to().await.unwrap()),
        (3, point(-7)),
        "compaction keeps it"
    );
    engine.apply(Vec::new(), 3, point(-7)).await.unwrap();

    // another index takes its place while its files are closed
    let third = open(&parent.path().join("third"), &indexes, 0).await;
    third.apply(vec![put("a", 1, "pear", 0)], 1, None).await.unwrap();
    assert_eq!((indexes.count(), engine.applied_seq()), (1, 3));
    std::fs::rename(&own, parent.path().join("aside")).unwrap();
    std::fs::rename(&other, &own).unwrap();
    assert!(matches!(engine.check_files().await, Err(IndexError::Lost { .. })));
    assert_eq!((engine.applied_seq(), engine.read_to().await.unwrap()), (0, None), "it is empty");
    assert_eq!(found(&engine, "apple").await, "");
}

#[tokio::test]
async fn compaction_removes_deleted_text_from_the_files_and_keeps_live_documents() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("index");
    let engine = open(&folder, &OpenIndexes::new(1), 0).await;
    engine
        .apply(vec![put("a", 1, "green apples", 0), put("b", 1, "secret pears", 1)], 2, None)
        .await
        .unwrap();
    assert!(!engine.compact_if_due(Duration::ZERO).await.unwrap(), "nothing is deleted");
    engine.apply(vec![put("c", 3, "red apples", 2), put("b", 4, "yellow pears", 1)], 4, None).await.unwrap();
    assert_eq!(engine.counts().await.unwrap().deleted_chunks, 1);
    assert!(!engine.compact_if_due(Duration::from_secs(3600)).await.unwrap(), "it is not time");
    // acknowledged before, and not applied yet
    assert!(engine.remove_now("c", 5).await.unwrap());
    assert!(engine.compact_if_due(Duration::ZERO).await.unwrap());
    assert_eq!(
        (engine.applied_seq(), engine.counts().await.unwrap().deleted_chunks),
        (4, 0),
        "what is removed is not copied"
    );
    assert_eq!((found(&engine, "apples").await, found(&engine, "pears").await), ("a.0".into(), "b.0".into()));
    engine.apply(vec![put("c", 6, "red apples", 2)], 6, None).await.unwrap();
    // terms of deleted chunks no longer count as frequent
    assert_eq!(found(&engine, "apples pears").await, "b.0 a.0 c.0");
    assert_eq!(found(&engine, "secret").await, "");
    let texts = std::fs::read(folder.join("texts")).unwrap();
    assert!(!String::from_utf8(texts).unwrap().contains("secret"));
    assert!(engine.verify().await.unwrap().is_sound());
    assert!(!folder.with_extension("compact").exists());
}
