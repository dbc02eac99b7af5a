//! The contract on documents and operations.

use std::collections::HashSet;

use weir_store::{DeletedDocument, JobStatus, Operation, OperationKind, StoredDocument};

use super::*;

fn stored(version: u64, document: NewDocument) -> StoredDocument {
    let NewDocument { id, title, text, metadata, pages, embedded_title, vector, .. } = document;
    let chunks = Vec::new();
    StoredDocument { id, title, text, metadata, pages, embedded_title, vector, version, chunks }
}

fn put(number: u64, document_id: &str) -> Operation {
    Operation { number, kind: OperationKind::Put, document_id: document_id.to_owned() }
}

pub async fn accepted_documents_are_stored_after_reopening(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let titled = NewDocument {
        title: Some("title".to_owned()),
        metadata: r#"{"n": 1}"#.to_owned(),
        ..document("a", "text")
    };
    let job = accept(&store, &made, "j", &[titled.clone(), document("b", "")]).await;
    store.close().await;

    let store = open();
    assert_eq!(view(&store, &made).document("a").await.unwrap(), Some(stored(1, titled)));
    assert_eq!(view(&store, &made).document("b").await.unwrap(), Some(stored(2, document("b", ""))));
    assert_eq!(view(&store, &made).operations_after(0, 10).await.unwrap(), [put(1, "a"), put(2, "b")]);
    assert_eq!(store.job(&Caller::system(), "j").await.unwrap(), Some(job));
    assert_eq!(store.collection(&Caller::system(), "c").await.unwrap().unwrap().last_operation, 2);
    let report = store.verify().await.unwrap();
    assert_eq!((report.collections, report.documents, report.operations), (1, 2, 2));
    close_sound(store).await;
}

pub async fn identical_content_makes_no_operation(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "first", &[document("a", "1"), document("b", "2")]).await;
    let again =
        accept(&store, &made, "again", &[document("a", "1"), document("b", "new"), document("c", "3")]).await;
    assert_eq!((again.total, again.unchanged, again.processed, again.last_operation), (3, 1, 1, 4));
    let expected = [put(1, "a"), put(2, "b"), put(3, "b"), put(4, "c")];
    assert_eq!(view(&store, &made).operations_after(0, 10).await.unwrap(), expected);
    assert_eq!(view(&store, &made).document("a").await.unwrap().unwrap().version, 1);
    assert_eq!(view(&store, &made).document("b").await.unwrap().unwrap().version, 3);
    close_sound(store).await;
}

pub async fn a_change_of_title_text_or_metadata_makes_an_operation(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let plain = document("a", "text");
    let versions = [
        plain.clone(),
        NewDocument { title: Some(String::new()), ..plain.clone() },
        NewDocument { title: Some("t".to_owned()), ..plain.clone() },
        NewDocument { metadata: "{ }".to_owned(), ..plain.clone() },
        NewDocument { text: "text ".to_owned(), ..plain.clone() },
        NewDocument { title: Some("t".to_owned()), text: "ext".to_owned(), ..plain.clone() },
        NewDocument { title: Some("te".to_owned()), text: "xt".to_owned(), ..plain.clone() },
        NewDocument { pages: Some("[[4,null,false]]".to_owned()), ..plain.clone() },
        NewDocument { pages: Some("[[3,null,false],[4,null,false]]".to_owned()), ..plain.clone() },
        NewDocument { embedded_title: Some(String::new()), ..plain.clone() },
        NewDocument { vector: Some(vec![0, 0, 128, 63]), ..plain.clone() },
        plain,
    ];
    for (version, document) in (1..).zip(versions) {
        let job = accept(&store, &made, &format!("j{version}"), std::slice::from_ref(&document)).await;
        assert_eq!((job.unchanged, job.last_operation), (0, version));
        assert_eq!(view(&store, &made).document("a").await.unwrap(), Some(stored(version, document)));
    }
    close_sound(store).await;
}

pub async fn of_two_documents_with_one_id_the_last_is_stored(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let job =
        accept(&store, &made, "j", &[document("a", "first"), document("b", "b"), document("a", "last")])
            .await;
    assert_eq!((job.total, job.processed, job.unchanged, job.last_operation), (3, 1, 0, 2));
    assert_eq!(view(&store, &made).operations_after(0, 10).await.unwrap(), [put(1, "b"), put(2, "a")]);
    assert_eq!(view(&store, &made).document("a").await.unwrap(), Some(stored(2, document("a", "last"))));
    store.record_applied(made.generation.id, 2, 3.0).await.unwrap();
    let job = store.job(&Caller::system(), "j").await.unwrap().unwrap();
    assert_eq!((job.status, job.processed), (JobStatus::Completed, 3));
    close_sound(store).await;
}

pub async fn a_deleted_document_can_be_stored_again(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j1", &[document("a", "1"), document("b", "2")]).await;
    let deleted = view(&store, &made).delete_document("a").await.unwrap();
    assert_eq!(deleted, Some(DeletedDocument { operation: 3, chunks: 0 }));
    assert_eq!(view(&store, &made).document("a").await.unwrap(), None);
    assert_eq!(view(&store, &made).delete_document("a").await.unwrap(), None);
    let again = accept(&store, &made, "j2", &[document("a", "1")]).await;
    assert_eq!((again.unchanged, again.last_operation), (0, 4));
    assert_eq!(view(&store, &made).document("a").await.unwrap().unwrap().version, 4);
    let delete = Operation { number: 3, kind: OperationKind::Delete, document_id: "a".to_owned() };
    assert_eq!(view(&store, &made).operations_after(2, 10).await.unwrap(), [delete, put(4, "a")]);
    close_sound(store).await;
}

pub async fn documents_are_deleted_only_in_the_version_that_is_named(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j1", &[document("a", "1"), document("b", "2"), document("c", "3")]).await;
    accept(&store, &made, "j2", &[document("b", "replaced")]).await;
    let versions = [("a", 1), ("b", 2), ("none", 1), ("c", 3), ("a", 1)];
    let versions = versions.map(|(id, version)| (id.to_owned(), version)).to_vec();
    let deleted = view(&store, &made).delete_versions(versions).await.unwrap();
    let deletion = |operation| Some(DeletedDocument { operation, chunks: 0 });
    assert_eq!(deleted, [deletion(5), None, None, deletion(6), None]);
    let left = view(&store, &made).documents_after("", 10, usize::MAX).await.unwrap().0;
    assert_eq!(left, [stored(4, document("b", "replaced"))]);
    close_sound(store).await;
}

pub async fn every_operation_has_a_number_of_its_own_that_stays(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    assert_eq!(view(&store, &made).last_operation().await.unwrap(), None);
    accept(&store, &made, "j1", &[document("a", "1"), document("b", "2")]).await;
    view(&store, &made).delete_document("a").await.unwrap();
    let numbers = async |store: &Store| {
        let view = view(store, &made);
        let mut numbers = Vec::new();
        for operation in 0..=4 {
            numbers.push(view.operation_identity(operation).await.unwrap());
        }
        (numbers, view.last_operation().await.unwrap())
    };
    let before = numbers(&store).await;
    let given: HashSet<i64> = before.0.iter().flatten().copied().collect();
    assert_eq!((before.0[0], given.len(), before.0[4]), (None, 3, None));
    assert_eq!(before.1, before.0[3].map(|identity| (3, identity)));
    close_sound(store).await;
    let store = open();
    assert_eq!(numbers(&store).await, before);
    close_sound(store).await;
}

pub async fn ids_and_texts_are_any_unicode(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c\0/🦀").await;
    let odd = [
        "",
        "\0",
        "a\0b",
        "a\0c",
        "a/b",
        "a b",
        "👩‍👩‍👧",
        "é",
        "e\u{301}",
        "\u{10ffff}",
        "'; --",
        "%_",
        "A",
        "a",
    ];
    let documents: Vec<NewDocument> = odd
        .iter()
        .map(|odd| NewDocument {
            id: (*odd).to_owned(),
            title: Some((*odd).to_owned()),
            text: (*odd).to_owned(),
            metadata: (*odd).to_owned(),
            pages: Some((*odd).to_owned()),
            ..NewDocument::default()
        })
        .collect();
    accept(&store, &made, "j\0", &documents).await;
    store.close().await;

    let store = open();
    assert_eq!(store.collection(&Caller::system(), "c\0/🦀").await.unwrap().unwrap().last_operation, 14);
    for (version, document) in (1..).zip(documents) {
        let found = view(&store, &made).document(&document.id).await.unwrap();
        assert_eq!(found, Some(stored(version, document)));
    }
    assert!(store.job(&Caller::system(), "j\0").await.unwrap().is_some());
    assert_eq!(store.job(&Caller::system(), "j").await.unwrap(), None);
    assert_eq!(
        view(&store, &made).delete_document("a\0b").await.unwrap(),
        Some(DeletedDocument { operation: 15, chunks: 0 })
    );
    assert!(view(&store, &made).document("a\0c").await.unwrap().is_some());
    close_sound(store).await;
}

pub async fn a_text_of_16_mib_is_read_back_unchanged(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let text: String = (0..).map(|n| char::from(b'a' + (n % 23) as u8)).take(16 << 20).collect();
    accept(&store, &made, "j", &[document("big", &text)]).await;
    assert!(view(&store, &made).document("big").await.unwrap().unwrap().text == text);
    close_sound(store).await;
}

pub async fn operation_numbers_have_no_gaps_under_concurrent_submissions(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let writers = (0..8).map(|writer| {
        let (store, made) = (store.clone(), made.clone());
        tokio::spawn(async move {
            let mut ranges = Vec::new();
            for round in 0..25 {
                let name = |n| format!("{writer}-{round}-{n}");
                let documents = [0, 1, 2].map(|n| document(&name(n), "text"));
                let job = accept(&store, &made, &name(9), &documents).await;
                for (place, version) in (0..).zip(job.last_operation - 2..=job.last_operation) {
                    let found = view(&store, &made).document(&name(place)).await.unwrap();
                    assert_eq!(found.unwrap().version, version);
                }
                ranges.push(job.last_operation);
            }
            ranges
        })
    });
    let mut last = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        last.extend(writer.await.unwrap());
    }
    last.sort_unstable();
    assert_eq!(last, (1..=200).map(|n| n * 3).collect::<Vec<u64>>());
    let numbers: Vec<u64> =
        view(&store, &made).operations_after(0, 1000).await.unwrap().iter().map(|o| o.number).collect();
    assert_eq!(numbers, (1..=600).collect::<Vec<u64>>());
    close_sound(store).await;
}

pub async fn a_failed_request_is_rolled_back_alone(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "taken", &[document("first", "1")]).await;
    // Spawned together, so that they are queued together and share a commit.
    let attempt = |job: &str, id: &str| {
        let (store, made) = (store.clone(), made.clone());
        let submission = submission(job, &[document(id, "text")]);
        tokio::spawn(async move { view(&store, &made).accept(submission, 2.0).await.is_ok() })
    };
    let attempts = [
        attempt("good1", "a"),
        attempt("taken", "never"),
        attempt("good2", "b"),
        attempt("taken", "never"),
        attempt("good3", "c"),
    ];
    let mut outcomes = Vec::new();
    for attempt in attempts {
        outcomes.push(attempt.await.unwrap());
    }
    assert_eq!(outcomes, [true, false, true, false, true]);
    assert_eq!(view(&store, &made).document("never").await.unwrap(), None);
    assert_eq!(counts(&view(&store, &made)).await.documents, 4);
    assert_eq!(store.collection(&Caller::system(), "c").await.unwrap().unwrap().last_operation, 4);
    close_sound(store).await;
}

pub async fn operations_are_read_in_pages(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let other = collection(&store, "other").await;
    let ids = ["a", "b", "c", "d", "e"];
    accept(&store, &made, "j", &ids.map(|id| document(id, "text"))).await;
    accept(&store, &other, "k", &[document("z", "text")]).await;
    assert_eq!(view(&store, &made).operations_after(0, 2).await.unwrap(), [put(1, "a"), put(2, "b")]);
    assert_eq!(view(&store, &made).operations_after(3, 10).await.unwrap(), [put(4, "d"), put(5, "e")]);
    assert_eq!(view(&store, &made).operations_after(5, 10).await.unwrap(), []);
    assert_eq!(view(&store, &made).operations_after(500, 10).await.unwrap(), []);
    assert_eq!(view(&store, &made).operations_after(0, 0).await.unwrap(), []);
    assert_eq!(view(&store, &other).operations_after(0, 10).await.unwrap(), [put(1, "z")]);
    close_sound(store).await;
}

pub async fn documents_are_read_in_the_order_asked_for(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1"), document("b", "2")]).await;
    let asked = ["b", UNKNOWN_ID, "a", "b"].map(str::to_owned).to_vec();
    let (a, b) = (stored(1, document("a", "1")), stored(2, document("b", "2")));
    assert_eq!(
        view(&store, &made).documents(asked).await.unwrap(),
        [Some(b.clone()), None, Some(a), Some(b)]
    );
    close_sound(store).await;
}

pub async fn documents_are_listed_by_id_in_pages(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let other = collection(&store, "other").await;
    accept(&store, &made, "j", &["b", "B", "ä", "a\0", "a"].map(|id| document(id, "text"))).await;
    accept(&store, &other, "k", &[document("aa", "text")]).await;
    let page = async |after, limit, bytes_max| {
        let (found, is_more) = view(&store, &made).documents_after(after, limit, bytes_max).await.unwrap();
        (found.into_iter().map(|document| document.id).collect::<Vec<_>>().join(" "), is_more)
    };
    assert_eq!(page("", 10, 1000).await, ("B a a\0 b ä".to_owned(), false));
    assert_eq!(page("", 2, 1000).await, ("B a".to_owned(), true));
    assert_eq!(page("a", 3, 1000).await, ("a\0 b ä".to_owned(), false));
    assert_eq!(page("aa", 1, 1000).await, ("b".to_owned(), true));
    // each document has four bytes of text and two of metadata; a page has at least one document
    assert_eq!(page("", 10, 12).await, ("B a".to_owned(), true));
    assert_eq!(page("", 10, 13).await, ("B a a\0".to_owned(), true));
    assert_eq!(page("", 10, 1).await, ("B".to_owned(), true));
    assert_eq!(page("ä", 10, 1000).await, (String::new(), false));
    let (found, _) = view(&store, &made).documents_after("b", 1, 1000).await.unwrap();
    assert_eq!(found, [stored(3, document("ä", "text"))]);
    close_sound(store).await;
}

pub async fn calls_about_missing_collections_return_none(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let missing = view(&store, &made);
    assert!(missing.delete_collection(1.0).await.unwrap());
    assert!(!missing.delete_collection(1.0).await.unwrap());
    let documents = submission("j", &[document("a", "text")]);
    assert_eq!(missing.accept(documents, 1.0).await.unwrap(), None);
    assert_eq!(store.start_generation(made.id, "m", 1.0).await.unwrap(), None);
    assert_eq!(missing.delete_document("a").await.unwrap(), None);
    assert_eq!(missing.document("a").await.unwrap(), None);
    assert_eq!(missing.documents(vec!["a".to_owned()]).await.unwrap(), [None]);
    assert_eq!(missing.documents_after("", 9, 9).await.unwrap(), (Vec::new(), false));
    assert_eq!(missing.operations_after(0, 1).await.unwrap(), []);
    assert_eq!(missing.embeddings("m", vec![hash(1)]).await.unwrap(), [None]);
    store.save_prepared(made.generation.id, Vec::new(), vec![(hash(1), vec![1.0])]).await.unwrap();
    store.record_applied(made.generation.id, 5, 1.0).await.unwrap();
    assert_eq!(store.job(&Caller::system(), "j").await.unwrap(), None);
    assert_eq!(store.verify().await.unwrap().embeddings, 0);
    close_sound(store).await;
}
