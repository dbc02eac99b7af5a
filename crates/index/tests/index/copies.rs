//! Copies of indexes for other gateways.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use weir_index::{Change, CpuLimiter, Engine, EngineId, EngineKind, Engines, Opened};
use weir_policy::Caller;

use crate::sample::{lexical, names, put, settings};

const ID: EngineId = EngineId { kind: EngineKind::Embedded, collection: 7, generation: 3 };

/// A gateway with its own folder, and the folder of copies.
fn gateway(own: &Path, copies: &Path, interval: Duration) -> Engines {
    let limiter = CpuLimiter::start(1, || ()).unwrap();
    std::fs::create_dir_all(copies).unwrap();
    Engines::embedded(own, limiter, 4).with_copies(copies.join("service"), interval)
}

async fn open(engines: &Engines, store_last_operation: u64) -> Opened {
    engines.open(ID, settings(), store_last_operation).await.unwrap()
}

async fn found(engine: &Engine, query: &str) -> String {
    names(&engine.search(&Caller::system(), lexical(query)).await.unwrap().hits)
}

/// The copies of the index, by name.
fn copies(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("service/7/3")).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn has_bytes(folder: &Path, text: &str) -> bool {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read(&path).unwrap().windows(text.len()).any(|bytes| bytes == text.as_bytes())
            {
                return true;
            }
        }
    }
    false
}

#[tokio::test]
async fn a_new_gateway_begins_with_the_copy_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("copies");
    let first = gateway(&folder.path().join("first"), &shared, Duration::ZERO);
    let engine = open(&first, 0).await.engine;
    for operation in 1..=20 {
        let text = if operation == 7 { "apple quince" } else { "apple" };
        engine.apply(vec![put(&format!("d{operation}"), 1, text, 0)], operation, None).await.unwrap();
    }
    engine.copy_if_due().await;
    assert_eq!((copies(&shared), first.in_use().copies), (vec!["20".to_owned()], [1, 0, 0]));
    // a later operation, which is written to files that are copied
    engine.apply(vec![put("late", 1, "late pear", 0)], 21, None).await.unwrap();

    let second = gateway(&folder.path().join("second"), &shared, Duration::ZERO);
    let Opened { engine: copied, rebuilt } = open(&second, 21).await;
    assert_eq!((rebuilt, copied.applied_seq(), second.in_use().copies), (None, 20, [0, 1, 0]));
    assert_eq!(copied.counts().await.unwrap().documents, 20);
    assert_eq!(found(&copied, "quince").await, "d7.0");
    assert_eq!(found(&copied, "pear").await, "");
    assert!(copied.verify().await.unwrap().is_sound());
    copied.apply(vec![put("late", 1, "late pear", 0)], 21, None).await.unwrap();
    assert_eq!(found(&copied, "pear").await, "late.0");
    assert_eq!(found(&engine, "quince").await, "d7.0");
    // one that has an index keeps it
    drop((copied, second));
    let second = gateway(&folder.path().join("second"), &shared, Duration::ZERO);
    assert_eq!((open(&second, 21).await.engine.applied_seq(), second.in_use().copies), (21, [0, 0, 0]));
}

#[tokio::test]
async fn an_index_is_copied_when_it_has_changed_and_the_copy_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("copies");
    let slow = gateway(&folder.path().join("slow"), &shared, Duration::from_secs(3_600));
    let engine = open(&slow, 0).await.engine;
    engine.copy_if_due().await;
    assert!(copies(&shared).is_empty(), "an index without operations is no help");
    for (operation, copy) in [(1, "1"), (2, "2"), (3, "2"), (4, "4"), (7, "4"), (8, "8")] {
        engine.apply(vec![put("a", operation, "apple", 0)], operation, None).await.unwrap();
        engine.copy_if_due().await;
        assert_eq!(copies(&shared), [copy], "one that is twice as long, and the earlier one is removed");
    }
    assert_eq!(slow.in_use().copies, [4, 0, 0]);

    let fast = gateway(&folder.path().join("fast"), &shared, Duration::ZERO);
    let engine = open(&fast, 8).await.engine;
    engine.copy_if_due().await;
    assert_eq!(fast.in_use().copies, [0, 1, 0], "it has what the copy has");
    engine.apply(vec![put("b", 1, "berry", 0)], 9, None).await.unwrap();
    engine.copy_if_due().await;
    assert_eq!(copies(&shared), ["9"]);
    // another gateway is writing one, by a clock that is ahead
    let new = shared.join("service/7/3/new");
    std::fs::create_dir(&new).unwrap();
    let ahead = SystemTime::now() + Duration::from_secs(30);
    File::open(&new).unwrap().set_modified(ahead).unwrap();
    engine.apply(vec![put("c", 1, "cherry", 0)], 10, None).await.unwrap();
    engine.copy_if_due().await;
    assert_eq!((copies(&shared), fast.in_use().copies), (vec!["9".to_owned(), "new".to_owned()], [1, 1, 0]));
    // it was killed
    File::open(&new).unwrap().set_modified(SystemTime::now() - Duration::from_secs(400)).unwrap();
    engine.copy_if_due().await;
    assert_eq!(copies(&shared), ["10"]);
    fast.delete(ID).await.unwrap();
    assert!(copies(&shared).is_empty());
}

#[tokio::test]
async fn a_copy_of_operations_that_the_store_has_lost_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("copies");
    let first = gateway(&folder.path().join("first"), &shared, Duration::ZERO);
    let engine = open(&first, 0).await.engine;
    engine.apply(vec![put("a", 1, "apple", 0)], 9, None).await.unwrap();
    engine.copy_if_due().await;

    let second = gateway(&folder.path().join("second"), &shared, Duration::ZERO);
    let engine = open(&second, 3).await.engine;
    assert_eq!((engine.applied_seq(), copies(&shared)), (0, vec!["9".to_owned()]));
    engine.apply(vec![put("b", 1, "berry", 0)], 3, None).await.unwrap();
    engine.copy_if_due().await;
    assert_eq!(copies(&shared), ["3"]);
}

#[tokio::test]
async fn the_text_of_a_deleted_document_leaves_the_copy_after_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("copies");
    let engines = gateway(&folder.path().join("own"), &shared, Duration::ZERO);
    let engine = open(&engines, 0).await.engine;
    engine.apply(vec![put("a", 1, "secretword", 0), put("b", 1, "berry", 0)], 1, None).await.unwrap();
    engine.apply(vec![Change::Remove { id: "a".to_owned(), before: u64::MAX }], 2, None).await.unwrap();
    engine.copy_if_due().await;
    assert!(has_bytes(&shared, "secretword"));
    std::thread::sleep(Duration::from_millis(20));
    assert!(engine.compact_if_due(Duration::ZERO).await.unwrap());
    engine.copy_if_due().await;
    assert_eq!(copies(&shared), ["2"]);
    assert!(!has_bytes(&shared, "secretword"));
}

#[tokio::test]
async fn a_copy_that_cannot_be_used_leaves_the_index_to_the_store() {
    type Fault = fn(&Path);
    let faults: [(&str, Fault, u64, [u64; 3]); 4] = [
        ("beyond the store", |_| {}, 1, [0, 0, 0]),
        ("without head", |copy| std::fs::remove_file(copy.join("head")).unwrap(), 2, [0, 0, 0]),
        ("of another name", |copy| std::fs::rename(copy, copy.with_file_name("1")).unwrap(), 2, [0, 0, 1]),
        ("damaged", |copy| std::fs::write(copy.join("texts"), "xxxxx xxxxx").unwrap(), 2, [0, 0, 1]),
    ];
    for (name, fault, store_last_operation, counts) in faults {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("copies");
        let first = gateway(&folder.path().join("first"), &shared, Duration::ZERO);
        let engine = open(&first, 0).await.engine;
        engine.apply(vec![put("a", 1, "apple", 0)], 1, None).await.unwrap();
        engine.apply(vec![put("b", 1, "berry", 0)], 2, None).await.unwrap();
        engine.copy_if_due().await;
        fault(&shared.join("service/7/3/2"));

        let second = gateway(&folder.path().join("second"), &shared, Duration::ZERO);
        let Opened { engine, rebuilt } = open(&second, store_last_operation).await;
        assert!(rebuilt.is_some(), "{name}");
        assert_eq!((engine.applied_seq(), second.in_use().copies), (0, counts), "{name}");
        assert_eq!(copies(&shared).is_empty(), counts[2] == 1, "{name}: what cannot be used is removed");
        assert!(!folder.path().join("second/7/3.new").exists(), "{name}");
        engine.apply(vec![put("a", 1, "apple", 0)], 1, None).await.unwrap();
        assert_eq!(found(&engine, "apple").await, "a.0", "{name}");
    }
}

#[tokio::test]
async fn a_copy_stays_when_it_cannot_be_written_here() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("copies");
    let first = gateway(&folder.path().join("first"), &shared, Duration::ZERO);
    let engine = open(&first, 0).await.engine;
    engine.apply(vec![put("a", 1, "apple", 0)], 1, None).await.unwrap();
    engine.copy_if_due().await;
    // no folder can be made below a file
    let own = folder.path().join("second");
    std::fs::write(&own, "").unwrap();
    let second = gateway(&own, &shared, Duration::ZERO);
    assert!(second.open(ID, settings(), 1).await.is_err());
    assert_eq!((copies(&shared), second.in_use().copies), (vec!["1".to_owned()], [0, 0, 1]));
}

#[tokio::test]
async fn copies_that_cannot_be_removed_with_their_index_are_not_used_and_go_later() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("copies");
    let engines = gateway(&folder.path().join("own"), &shared, Duration::ZERO);
    let engine = open(&engines, 0).await.engine;
    engine.apply(vec![put("a", 1, "apple", 0)], 1, None).await.unwrap();
    engine.copy_if_due().await;
    let (copies_of_index, kept) = (shared.join("service/7/3"), folder.path().join("kept"));
    std::fs::rename(&copies_of_index, &kept).unwrap();
    // no folder, and so not removed as one
    std::fs::write(&copies_of_index, "").unwrap();
    drop(engine);
    engines.delete(ID).await.unwrap();
    assert_eq!(engines.in_use().copies, [1, 0, 1]);

    std::fs::remove_file(&copies_of_index).unwrap();
    std::fs::rename(&kept, &copies_of_index).unwrap();
    let Opened { engine, rebuilt } = open(&engines, 1).await;
    assert!(rebuilt.is_some() && engine.applied_seq() == 0, "{rebuilt:?}");
    engine.copy_if_due().await;
    assert!(!copies_of_index.exists());
    engine.apply(vec![put("b", 1, "berry", 0)], 1, None).await.unwrap();
    engine.copy_if_due().await;
    assert_eq!((copies(&shared), engines.in_use().copies), (vec!["1".to_owned()], [2, 0, 1]));
}

#[tokio::test]
async fn what_is_left_of_a_copy_goes_with_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("copies");
    let engines = gateway(&folder.path().join("own"), &shared, Duration::ZERO);
    let engine = open(&engines, 0).await.engine;
    for operation in 1..=2 {
        engine.apply(vec![put("a", operation, "apple", 0)], operation, None).await.unwrap();
        engine.copy_if_due().await;
        let copy = shared.join("service/7/3").join(operation.to_string());
        std::fs::remove_file(copy.join("head")).unwrap();
        assert_eq!(copies(&shared), [operation.to_string()]);
    }
}

#[tokio::test]
async fn nothing_is_written_where_the_shared_folder_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("copies");
    let engines = gateway(&folder.path().join("own"), &shared, Duration::ZERO);
    let engine = open(&engines, 0).await.engine;
    engine.apply(vec![put("a", 1, "apple", 0)], 1, None).await.unwrap();
    std::fs::remove_dir(&shared).unwrap();
    engine.copy_if_due().await;
    assert_eq!((shared.exists(), engines.in_use().copies), (false, [0, 0, 1]));
    assert_eq!(found(&engine, "apple").await, "a.0");
    std::fs::create_dir(&shared).unwrap();
    engine.copy_if_due().await;
    assert_eq!((copies(&shared), engines.in_use().copies), (vec!["1".to_owned()], [1, 0, 1]));
}

#[tokio::test]
async fn a_copy_is_whole_while_batches_are_applied_and_segments_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("copies");
    let first = gateway(&folder.path().join("first"), &shared, Duration::ZERO);
    let engine = open(&first, 0).await.engine;
    let writing = engine.clone();
    let writer = tokio::spawn(async move {
        for operation in 1..=60 {
            let document = put(&format!("d{}", operation % 17), operation, &format!("apple n{operation}"), 0);
            writing.apply(vec![document], operation, None).await.unwrap();
        }
        writing.flush().await.unwrap();
    });
    let mut checked = 0;
    while !writer.is_finished() || checked == 0 {
        engine.copy_if_due().await;
        let own = folder.path().join(format!("second{checked}"));
        let second = gateway(&own, &shared, Duration::ZERO);
        let Opened { engine, rebuilt } = open(&second, 60).await;
        if copies(&shared).is_empty() {
            continue;
        }
        assert!(rebuilt.is_none(), "{rebuilt:?}");
        assert!(engine.verify().await.unwrap().is_sound());
        checked += 1;
    }
    writer.await.unwrap();
    assert_eq!(first.in_use().copies[2], 0);
}
