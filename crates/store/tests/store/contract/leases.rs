//! The contract on leases: which of several gateways does the work of a collection.

use std::time::Duration;

use weir_store::{DocumentError, Error, Fence, PreparedDocument};

use super::*;

/// Long enough for any test.
const LONG: f64 = 600.0;
const SHORT: f64 = 0.05;

async fn pause() {
    tokio::time::sleep(Duration::from_secs_f64(SHORT * 4.0)).await;
}

pub async fn a_lease_is_one_gateways_until_it_ends(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let other = collection(&store, "other").await;
    let first = store.claim_lease(made.id, "one", LONG).await.unwrap().unwrap();
    assert_eq!(first, Fence { collection: made.id, number: 1 });
    assert_eq!(store.claim_lease(made.id, "two", LONG).await.unwrap(), None);
    assert_eq!(store.claim_lease(other.id, "two", LONG).await.unwrap().unwrap().number, 1);
    // the same gateway again, after it has lost what it knew
    assert_eq!(store.claim_lease(made.id, "one", SHORT).await.unwrap().unwrap().number, 2);
    pause().await;
    assert_eq!(store.claim_lease(made.id, "two", LONG).await.unwrap().unwrap().number, 3);
    assert_eq!(store.claim_lease(made.id, "one", LONG).await.unwrap(), None);
    view(&store, &other).delete_collection(2.0).await.unwrap();
    assert_eq!(store.claim_lease(other.id, "two", LONG).await.unwrap(), None);
    close_sound(store).await;
}

pub async fn a_lease_is_prolonged_and_released_by_its_gateway(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let fence = store.claim_lease(made.id, "one", SHORT).await.unwrap().unwrap();
    assert_eq!(store.renew_leases("two", LONG).await.unwrap(), []);
    assert_eq!(store.renew_leases("one", LONG).await.unwrap(), [fence]);
    pause().await;
    assert_eq!(store.claim_lease(made.id, "two", LONG).await.unwrap(), None);
    store.release_lease(Fence { number: fence.number + 1, ..fence }).await.unwrap();
    assert_eq!(store.claim_lease(made.id, "two", LONG).await.unwrap(), None);
    store.release_lease(fence).await.unwrap();
    assert_eq!(store.renew_leases("one", LONG).await.unwrap(), []);
    let next = store.claim_lease(made.id, "two", LONG).await.unwrap().unwrap();
    assert_eq!(next.number, 2);
    store.release_lease(fence).await.unwrap();
    assert_eq!(store.claim_lease(made.id, "one", LONG).await.unwrap(), None);
    close_sound(store).await;
}

pub async fn a_late_worker_changes_nothing(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let job = accept(&store, &made, "j", &[document("a", "1"), document("b", "2")]).await;
    let late = store.claim_lease(made.id, "one", SHORT).await.unwrap().unwrap();
    let late = store.fenced(late);
    let prepared = |id: &str, version| PreparedDocument {
        document_id: id.to_owned(),
        version,
        chunks: vec![span(0, 1, version as u8)],
    };
    pause().await;
    // nobody has taken over
    late.save_prepared(made.generation.id, vec![prepared("a", 1)], vec![(hash(1), vec![0.5])]).await.unwrap();
    let next = store.claim_lease(made.id, "two", LONG).await.unwrap().unwrap();
    let is_lost = |error: Error| matches!(error, Error::LeaseLost);
    let saved = late.save_prepared(made.generation.id, vec![prepared("b", 2)], vec![(hash(2), vec![0.5])]);
    assert!(is_lost(saved.await.unwrap_err()));
    assert!(is_lost(late.record_applied(made.generation.id, 2, 3.0).await.unwrap_err()));
    assert!(is_lost(late.cancel_job(made.id, &job.id, 0, Vec::new(), 3.0).await.unwrap_err()));
    let failed = vec![(
        2,
        DocumentError { document_id: "b".to_owned(), code: "c".to_owned(), message: "m".to_owned() },
    )];
    assert!(is_lost(late.fail_documents(made.id, failed, None).await.unwrap_err()));
    assert_eq!(counts(&view(&store, &made)).await, Counts { documents: 2, chunks: 1 });
    assert_eq!(embeddings(&store, "m", vec![hash(2)]).await, [None]);
    let unchanged = store.job(&Caller::system(), &job.id).await.unwrap().unwrap();
    assert_eq!(unchanged, job);

    let store = store.fenced(next);
    let embedding = vec![(hash(2), vec![0.5])];
    store.save_prepared(made.generation.id, vec![prepared("b", 2)], embedding).await.unwrap();
    assert_eq!(store.record_applied(made.generation.id, 2, 4.0).await.unwrap().len(), 1);
    assert_eq!(counts(&view(&store, &made)).await, Counts { documents: 2, chunks: 2 });
    close_sound(store).await;
}

pub async fn the_work_of_a_generation_is_told(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1"), document("b", "2")]).await;
    let idle = store.position(made.generation.id, 2).await.unwrap().unwrap();
    assert_eq!((idle.collection, idle.last_operation, idle.prepared_to), (made.id, 2, 0));
    assert_eq!((idle.pruned_to, idle.fence, idle.lease_seconds), (0, 0, 0.0));
    assert_eq!(idle.identity, view(&store, &made).operation_identity(2).await.unwrap());
    assert!(idle.identity.is_some());
    assert_eq!(store.position(made.generation.id, 3).await.unwrap().unwrap().identity, None);
    let fence = store.claim_lease(made.id, "one", LONG).await.unwrap().unwrap();
    store.fenced(fence).record_applied(made.generation.id, 1, 3.0).await.unwrap();
    let held = store.position(made.generation.id, 2).await.unwrap().unwrap();
    assert_eq!((held.last_operation, held.prepared_to, held.fence), (2, 1, fence.number));
    assert!(held.lease_seconds > LONG / 2.0 && held.lease_seconds <= LONG, "{held:?}");
    store.release_lease(fence).await.unwrap();
    assert_eq!(store.position(made.generation.id, 2).await.unwrap().unwrap().lease_seconds, 0.0);
    store.start_generation(made.id, "m2", 4.0).await.unwrap();
    assert_eq!(store.position(made.generation.id, 2).await.unwrap(), None);
    close_sound(store).await;
}

pub async fn a_store_that_ends_before_what_is_known_takes_no_changes(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let job = accept(&store, &made, "j", &[document("a", "1"), document("b", "2")]).await;
    let (known, lost) = (view(&store, &made).after(2), view(&store, &made).after(3));
    let is_refused = |error: Error| matches!(error, Error::LostCommits { operation: 3 });
    assert!(is_refused(lost.accept(submission("k", &[document("c", "3")]), 3.0).await.unwrap_err()));
    assert!(is_refused(lost.delete_document("a").await.unwrap_err()));
    assert!(is_refused(lost.delete_versions(vec![("a".to_owned(), 1)]).await.unwrap_err()));
    assert!(is_refused(lost.retry_job(&job.id, "l", None, 3.0).await.unwrap_err()));
    assert_eq!(view(&store, &made).last_operation().await.unwrap().unwrap().0, 2);
    assert_eq!(lost.document("a").await.unwrap().unwrap().text, "1");
    assert!(known.accept(submission("k", &[document("c", "3")]), 3.0).await.unwrap().is_some());
    assert_eq!(known.delete_document("a").await.unwrap().unwrap().operation, 4);
    assert!(lost.delete_document("b").await.unwrap().is_some(), "it is there by now");
    close_sound(store).await;
}

pub async fn a_cancellation_that_was_asked_for_is_carried_out_once(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let job = accept(&store, &made, "j", &[document("a", "1")]).await;
    let other = accept(&store, &made, "k", &[document("b", "2")]).await;
    store.request_cancellation(made.id, "missing").await.unwrap();
    store.request_cancellation(made.id, &job.id).await.unwrap();
    store.request_cancellation(made.id, &job.id).await.unwrap();
    assert_eq!(store.cancellation_requests(made.id).await.unwrap(), std::slice::from_ref(&job));
    store.cancel_job(made.id, &job.id, 0, Vec::new(), 3.0).await.unwrap().unwrap();
    assert_eq!(store.cancellation_requests(made.id).await.unwrap(), []);
    store.request_cancellation(made.id, &job.id).await.unwrap();
    store.request_cancellation(made.id, &other.id).await.unwrap();
    assert_eq!(store.cancellation_requests(made.id).await.unwrap(), [other]);
    store.record_applied(made.generation.id, 2, 4.0).await.unwrap();
    assert_eq!(store.cancellation_requests(made.id).await.unwrap(), []);
    close_sound(store).await;
}

pub async fn a_store_is_of_one_service(open: Open<'_>) {
    let store = open();
    let service = store.service().await.unwrap();
    assert_eq!((service.id.len(), store.service().await.unwrap()), (32, service.clone()));
    store.close().await;
    let store = open();
    assert_eq!(store.service().await.unwrap(), service);
    close_sound(store).await;
}
