//! The contract on collections and generations.

use weir_store::{Counts, Generation, JobStatus, PreparedDocument};

use super::*;

pub async fn creating_an_existing_collection_returns_it_unchanged(open: Open<'_>) {
    let store = open();
    let (made, is_new) = store.create_collection("ä/b c", r#"{"a":1}"#, "model", 1.25).await.unwrap();
    assert!(is_new);
    let generation = Generation {
        id: made.generation.id,
        fingerprint: "model".to_owned(),
        applied_seq: 0,
        complete_from: 0,
        created_at: 1.25,
    };
    let expected = Collection {
        id: made.id,
        name: "ä/b c".to_owned(),
        settings: r#"{"a":1}"#.to_owned(),
        created_at: 1.25,
        generation,
        last_operation: 0,
        pruned_to: 0,
    };
    assert_eq!(made, expected);
    let again = store.create_collection("ä/b c", "{}", "other", 9.0).await.unwrap();
    assert_eq!(again, (expected.clone(), false));
    store.close().await;

    let store = open();
    assert_eq!(store.collection(&everyone(), "ä/b c").await.unwrap(), Some(expected.clone()));
    assert_eq!(store.collections(&everyone()).await.unwrap(), [expected]);
    assert_eq!(store.collection(&everyone(), UNKNOWN_ID).await.unwrap(), None);
    close_sound(store).await;
}

pub async fn collections_outside_the_allow_list_do_not_exist(open: Open<'_>) {
    let store = open();
    for name in ["mine", "yours"] {
        let made = collection(&store, name).await;
        accept(&store, &made, name, &[document("a", "text")]).await;
    }
    let names = |found: Vec<Collection>| found.into_iter().map(|c| c.name).collect::<Vec<_>>();
    let me = only("mine");
    assert_eq!(names(store.collections(&everyone()).await.unwrap()), ["mine", "yours"]);
    assert_eq!(names(store.collections(&me).await.unwrap()), ["mine"]);
    assert!(store.collection(&me, "mine").await.unwrap().is_some());
    assert_eq!(store.collection(&me, "yours").await.unwrap(), None);
    assert!(store.job(&me, "mine").await.unwrap().is_some());
    assert_eq!(store.job(&me, "yours").await.unwrap(), None);
    let (jobs, more) = store.jobs(&me, 1, None).await.unwrap();
    assert_eq!((jobs.len(), jobs[0].id.as_str(), more), (1, "mine", None));
    assert!(store.jobs(&me, 1, Some("yours")).await.is_err());
    close_sound(store).await;
}

pub async fn deleting_a_collection_deletes_everything_except_its_jobs(open: Open<'_>) {
    let store = open();
    let (gone, kept) = (collection(&store, "gone").await, collection(&store, "kept").await);
    accept(&store, &gone, "done", &[document("a", "text")]).await;
    accept(&store, &kept, "kept", &[document("a", "text")]).await;
    let one = PreparedDocument { document_id: "a".to_owned(), version: 1, chunks: vec![span(0, 4, 7)] };
    store.save_prepared(gone.generation.id, vec![one], vec![(hash(7), vec![1.0])]).await.unwrap();
    store.record_applied(gone.generation.id, 1, 3.0).await.unwrap();
    accept(&store, &gone, "open", &[document("b", "1"), document("c", "2"), document("d", "3")]).await;
    store.record_applied(gone.generation.id, 3, 4.0).await.unwrap();

    assert!(store.delete_collection(gone.id, 5.0).await.unwrap());
    assert!(!store.delete_collection(gone.id, 6.0).await.unwrap());
    assert_eq!(store.collection(&everyone(), "gone").await.unwrap(), None);
    assert_eq!(store.counts(gone.id).await.unwrap(), Counts::default());
    assert_eq!(store.embeddings("m", vec![hash(7)]).await.unwrap(), [None]);
    let done = store.job(&everyone(), "done").await.unwrap().unwrap();
    assert_eq!((done.status, done.finished_at), (JobStatus::Completed, Some(3.0)));
    let open_job = store.job(&everyone(), "open").await.unwrap().unwrap();
    assert_eq!((open_job.status, open_job.processed, open_job.total), (JobStatus::Cancelled, 2, 3));
    assert_eq!(open_job.finished_at, Some(5.0));
    let untouched = store.job(&everyone(), "kept").await.unwrap().unwrap();
    assert_eq!((untouched.status, untouched.finished_at), (JobStatus::Pending, None));
    close_sound(store).await;
}

pub async fn ids_of_deleted_collections_are_not_reused(open: Open<'_>) {
    let store = open();
    let old = collection(&store, "c").await;
    store.delete_collection(old.id, 2.0).await.unwrap();
    store.close().await;
    let store = open();
    let new = collection(&store, "c").await;
    assert!(new.id > old.id);
    assert!(new.generation.id > old.generation.id);
    close_sound(store).await;
}

pub async fn a_new_generation_has_no_chunks(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "text")]).await;
    let one = PreparedDocument { document_id: "a".to_owned(), version: 1, chunks: vec![span(0, 4, 1)] };
    store.save_prepared(made.generation.id, vec![one], vec![(hash(1), vec![1.0])]).await.unwrap();
    store.record_applied(made.generation.id, 1, 3.0).await.unwrap();
    assert_eq!(store.counts(made.id).await.unwrap(), Counts { documents: 1, chunks: 1 });

    let next = store.start_generation(made.id, "m2", 4.0).await.unwrap().unwrap();
    assert_ne!(next.generation.id, made.generation.id);
    assert_eq!(
        next.generation,
        Generation {
            id: next.generation.id,
            fingerprint: "m2".to_owned(),
            applied_seq: 0,
            complete_from: 1,
            created_at: 4.0
        }
    );
    assert_eq!((next.id, next.last_operation), (made.id, 1));
    assert_eq!(store.counts(made.id).await.unwrap(), Counts { documents: 1, chunks: 0 });
    store.record_applied(next.generation.id, 1, 5.0).await.unwrap();
    assert_eq!(store.embeddings("m", vec![hash(1)]).await.unwrap(), [None]);
    assert_eq!(store.document(made.id, "a").await.unwrap().unwrap().chunks, []);
    close_sound(store).await;
}
