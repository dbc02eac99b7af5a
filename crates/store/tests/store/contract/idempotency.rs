//! The contract on idempotency keys.

use weir_policy::KeyId;
use weir_store::{Error, IdempotencyKey, Precondition, VersionTest};

use super::*;

fn key(scope: u8, fingerprint: u8) -> IdempotencyKey {
    IdempotencyKey { scope: [scope; 32], fingerprint: [fingerprint; 32], kept_seconds: 100, kept_max: 2 }
}

fn keyed(job: &str, documents: &[NewDocument], key: IdempotencyKey) -> Submission {
    Submission { idempotency: Some(key), ..submission(job, documents) }
}

pub async fn a_submission_with_the_same_key_is_stored_once(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let at = 1_795_938_000.123_456_7;
    let first = keyed("j", &[document("a", "1"), document("b", "2")], key(1, 1));
    let accepted = view(&store, &made).accept_versioned(first, at).await.unwrap().unwrap();
    assert!(!accepted.is_repeated);
    store.record_applied(made.generation.id, 2, at + 1.0).await.unwrap();
    view(&store, &made).delete_document("a").await.unwrap();
    store.close().await;

    let store = open();
    let again = keyed("k", &[document("a", "1")], key(1, 1));
    let repeated = view(&store, &made).accept_versioned(again, at + 99.0).await.unwrap().unwrap();
    assert!(repeated.is_repeated);
    assert_eq!((repeated.job, repeated.version), (accepted.job.clone(), accepted.version));
    assert_eq!(store.repeated(key(1, 1), at).await.unwrap().unwrap().job, accepted.job);
    assert!(store.job(&Caller::system(), "k").await.unwrap().is_none());
    assert!(view(&store, &made).document("a").await.unwrap().is_none(), "it is not stored again");

    let other = keyed("k", &[document("c", "1")], key(1, 2));
    let refused = view(&store, &made).accept(other, at + 1.0).await;
    assert!(matches!(refused, Err(Error::IdempotencyMismatch)));
    assert!(matches!(store.repeated(key(1, 2), at).await, Err(Error::IdempotencyMismatch)));
    assert!(store.repeated(key(2, 1), at).await.unwrap().is_none());
    // the result is that of the request, also when its collection is gone
    assert!(view(&store, &made).delete_collection(at).await.unwrap());
    assert!(store.repeated(key(1, 1), at).await.unwrap().is_some());
    store.close().await;
}

pub async fn of_concurrent_submissions_with_one_key_one_is_stored(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let view = view(&store, &made);
    let submissions = (0..16).map(|number| {
        let view = view.clone();
        let documents = [document(&format!("d{number}"), "1")];
        async move { view.accept_versioned(keyed(&format!("j{number}"), &documents, key(1, 1)), 2.0).await }
    });
    let accepted: Vec<_> = submissions.map(tokio::spawn).collect();
    let (mut ids, mut stored) = (Vec::new(), 0);
    for task in accepted {
        let accepted = task.await.unwrap().unwrap().unwrap();
        stored += usize::from(!accepted.is_repeated);
        ids.push(accepted.job.id);
    }
    ids.dedup();
    assert_eq!((stored, ids.len()), (1, 1));
    assert_eq!(store.jobs(&Caller::system(), 20, None).await.unwrap().0.len(), 1);
    assert_eq!(counts(&view).await.documents, 1);
    close_sound(store).await;
}

pub async fn a_refused_submission_leaves_no_key(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let precondition = Some(Precondition { document_id: "a".to_owned(), test: VersionTest::Exists });
    let refused = Submission { precondition, ..keyed("j", &[document("a", "1")], key(1, 1)) };
    let refused = view(&store, &made).accept(refused, 2.0).await;
    assert!(matches!(refused, Err(Error::PreconditionFailed { .. })));
    assert!(store.repeated(key(1, 1), 2.0).await.unwrap().is_none());
    let again = keyed("j", &[document("a", "1")], key(1, 1));
    assert!(!view(&store, &made).accept_versioned(again, 2.0).await.unwrap().unwrap().is_repeated);
    close_sound(store).await;
}

pub async fn idempotency_keys_are_bounded_in_number_and_time(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let other = Caller { key: Some(KeyId(7)), ..Caller::system() };
    let accept = async |caller: &Caller, scope, now| {
        let submission = keyed(&format!("j{scope} {now}"), &[document("a", "1")], key(scope, 1));
        store.view(caller, &made).unwrap().accept_versioned(submission, now).await.unwrap().unwrap()
    };
    let is_kept = async |scope, now| store.repeated(key(scope, 1), now).await.unwrap().is_some();
    for scope in 1..=3 {
        accept(&Caller::system(), scope, 2.0).await;
    }
    accept(&other, 4, 3.0).await;
    assert_eq!([is_kept(1, 3.0).await, is_kept(2, 3.0).await, is_kept(3, 3.0).await], [false, true, true]);
    assert!(is_kept(4, 103.0).await);
    assert!(!is_kept(4, 103.5).await, "its time is over");
    // it is then used for another request
    assert!(!accept(&other, 4, 104.0).await.is_repeated);
    assert!(is_kept(4, 105.0).await);
    let kept = Retention { idempotency_since: 50.0, ..kept(9, 9) };
    assert!(store.prune(made.id, kept).await.unwrap());
    assert_eq!([is_kept(3, 3.0).await, is_kept(4, 105.0).await], [false, true]);
    close_sound(store).await;
}
