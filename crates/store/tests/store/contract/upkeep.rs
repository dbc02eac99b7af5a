//! The contract on work on an index, and on what is compared with one.

use weir_store::{DocumentError, Error, PreparedDocument, PreparedVersion, Upkeep, UpkeepKind};

use super::*;

const KIND: UpkeepKind = UpkeepKind::Reconcile;

pub async fn work_on_an_index_is_changed_by_whoever_knows_it(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    assert_eq!(store.upkeep(KIND).await.unwrap(), []);
    assert_eq!(store.replace_upkeep(made.id, KIND, 1, "early").await.unwrap(), None);
    assert_eq!(store.replace_upkeep(made.id, KIND, 0, "asked").await.unwrap(), Some(1));
    assert_eq!(store.replace_upkeep(made.id, KIND, 0, "asked again").await.unwrap(), None);
    let lease = store.claim_lease(made.id, "one", 600.0).await.unwrap().unwrap();
    let worker = store.fenced(lease);
    assert_eq!(worker.replace_upkeep(made.id, KIND, 1, "half").await.unwrap(), Some(2));
    store.claim_lease(made.id, "one", 600.0).await.unwrap().unwrap();
    let late = worker.replace_upkeep(made.id, KIND, 2, "late").await;
    assert!(matches!(late, Err(Error::LeaseLost)), "{late:?}");
    store.close().await;

    let store = open();
    let half = Upkeep { collection: made.id, revision: 2, state: "half".to_owned() };
    assert_eq!(store.upkeep(KIND).await.unwrap(), [half]);
    view(&store, &made).delete_collection(2.0).await.unwrap();
    assert_eq!(store.upkeep(KIND).await.unwrap(), []);
    assert_eq!(store.replace_upkeep(made.id, KIND, 0, "of nothing").await.unwrap(), None);
    close_sound(store).await;
}

pub async fn searchable_documents_are_listed_with_their_chunks(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let documents = ["a", "b", "c", "d"].map(|id| document(id, "text"));
    accept(&store, &made, "j", &documents).await;
    let prepared = |id: &str, version, chunks: u64| PreparedDocument {
        document_id: id.to_owned(),
        version,
        chunks: (0..chunks).map(|place| span(place, place + 1, 1)).collect(),
    };
    let all = vec![prepared("a", 1, 2), prepared("b", 2, 1), prepared("d", 4, 3)];
    store.save_prepared(made.generation.id, all, Vec::new()).await.unwrap();
    let refused = DocumentError {
        document_id: "b".to_owned(),
        code: "upstream_error".to_owned(),
        message: "no".to_owned(),
    };
    store.fail_documents(made.id, vec![(2, refused)], None).await.unwrap();
    // in a later version, which is not prepared
    accept(&store, &made, "k", &[document("d", "new text")]).await;

    let version = |id: &str, version, chunks| PreparedVersion { id: id.to_owned(), version, chunks };
    let (a, c, d) = (version("a", 1, 2), version("c", 3, 0), version("d", 5, 0));
    let seen = view(&store, &made);
    assert_eq!(seen.versions_after("", 2).await.unwrap(), [a.clone(), c.clone()]);
    let last = seen.versions_after("c", 2).await.unwrap();
    assert_eq!(last.as_slice(), std::slice::from_ref(&d));
    let ids = ["d", "b", "none", "a"].map(str::to_owned);
    assert_eq!(seen.versions(ids.to_vec()).await.unwrap(), [Some(d), None, None, Some(a)]);
    seen.delete_document("c").await.unwrap();
    assert_eq!(seen.versions(vec!["c".to_owned()]).await.unwrap(), [None]);
    let filter = weir_filter::Filter::And(Vec::new());
    let caller = Caller { filter: Some(std::sync::Arc::new(filter)), ..Caller::system() };
    let filtered = store.view(&caller, &made).unwrap();
    assert_eq!(filtered.versions_after("", 9).await.unwrap(), []);
    assert_eq!(filtered.versions(vec!["a".to_owned()]).await.unwrap(), [None]);
    close_sound(store).await;
}
