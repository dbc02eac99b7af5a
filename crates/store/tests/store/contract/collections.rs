//! The contract on collections and generations.

use weir_store::{Error, Generation, JobStatus, PreparedDocument};

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
    assert_eq!(store.collection(&Caller::system(), "ä/b c").await.unwrap(), Some(expected.clone()));
    assert_eq!(store.collections(&Caller::system()).await.unwrap(), [expected]);
    assert_eq!(store.collection(&Caller::system(), UNKNOWN_ID).await.unwrap(), None);
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

    assert!(view(&store, &gone).delete_collection(5.0).await.unwrap());
    assert!(!view(&store, &gone).delete_collection(6.0).await.unwrap());
    assert_eq!(store.collection(&Caller::system(), "gone").await.unwrap(), None);
    assert_eq!(counts(&view(&store, &gone)).await, Counts::default());
    assert_eq!(embeddings(&store, "m", vec![hash(7)]).await, [None]);
    let done = store.job(&Caller::system(), "done").await.unwrap().unwrap();
    assert_eq!((done.status, done.finished_at), (JobStatus::Completed, Some(3.0)));
    let open_job = store.job(&Caller::system(), "open").await.unwrap().unwrap();
    assert_eq!((open_job.status, open_job.processed, open_job.total), (JobStatus::Cancelled, 2, 3));
    assert_eq!(open_job.finished_at, Some(5.0));
    let untouched = store.job(&Caller::system(), "kept").await.unwrap().unwrap();
    assert_eq!((untouched.status, untouched.finished_at), (JobStatus::Pending, None));
    close_sound(store).await;
}

pub async fn ids_of_deleted_collections_are_not_reused(open: Open<'_>) {
    let store = open();
    let old = collection(&store, "c").await;
    view(&store, &old).delete_collection(2.0).await.unwrap();
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
    assert_eq!(counts(&view(&store, &made)).await, Counts { documents: 1, chunks: 1 });

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
    let by_earlier = view(&store, &made).change_settings("{}", made.generation.id).await;
    assert!(matches!(by_earlier, Err(Error::Conflict)), "another gateway may have other settings");
    view(&store, &made).change_settings("{}", next.generation.id).await.unwrap();
    assert_eq!(counts(&view(&store, &made)).await, Counts { documents: 1, chunks: 0 });
    store.record_applied(next.generation.id, 1, 5.0).await.unwrap();
    assert_eq!(embeddings(&store, "m", vec![hash(1)]).await, [None]);
    assert_eq!(view(&store, &made).document("a").await.unwrap().unwrap().chunks, []);
    close_sound(store).await;
}
