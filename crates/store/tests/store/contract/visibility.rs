//! The contract on what exists for a caller: allow lists of collections, and mandatory filters.

use std::sync::Arc;

use weir_filter::Filter;
use weir_store::{
    DocumentError, Error, FeedbackFilter, FeedbackLimits, JobStatus, LoggedQuery, NewFeedback,
    PreparedDocument, QueryReport,
};

use super::*;

/// A caller whose mandatory filter is `{"tenant": tenant}`.
fn tenant(tenant: &str) -> Caller {
    let filter = Filter::parse(&metadata(tenant)).unwrap();
    Caller { filter: Some(Arc::new(filter)), ..Caller::system() }
}

fn metadata(tenant: &str) -> String {
    format!(r#"{{"tenant": "{tenant}"}}"#)
}

fn document_of(tenant: &str, id: &str, text: &str) -> NewDocument {
    NewDocument { metadata: metadata(tenant), ..document(id, text) }
}

/// Collection `c` with the documents `a1`, `a2` of tenant a and `b1`, `b2` of tenant b, each with one chunk, submitted by the system.
async fn of_two_tenants(store: &Store) -> Collection {
    let made = collection(store, "c").await;
    let documents = ["a1", "b1", "a2", "b2"].map(|id| document_of(&id[..1], id, "text"));
    accept(store, &made, "all", &documents).await;
    let prepared = (1..).zip(documents).map(|(version, document)| PreparedDocument {
        document_id: document.id,
        version,
        chunks: vec![span(0, 4, 1)],
    });
    store.save_prepared(made.generation.id, prepared.collect(), vec![(hash(1), vec![1.0])]).await.unwrap();
    made
}

const LIMITS: FeedbackLimits = FeedbackLimits { entries_max: 100, per_caller_max: 100, pending_max: 100 };

fn judgment(document_id: &str, grade: u32) -> NewFeedback {
    NewFeedback {
        query: "q".to_owned(),
        document_id: document_id.to_owned(),
        chunk: None,
        grade,
        caller: None,
        is_operator: false,
    }
}

fn not_allowed(errors: &[DocumentError]) -> Vec<&str> {
    assert!(
        errors.iter().all(|error| error.code == "document_not_allowed" && error.message == errors[0].message)
    );
    errors.iter().map(|error| error.document_id.as_str()).collect()
}

/// The ids of a page, joined by spaces.
fn ids<T>(page: Vec<T>, id: impl Fn(T) -> String) -> String {
    page.into_iter().map(id).collect::<Vec<_>>().join(" ")
}

pub async fn collections_outside_the_allow_list_do_not_exist(open: Open<'_>) {
    let store = open();
    let (mine, yours) = (collection(&store, "mine").await, collection(&store, "yours").await);
    let (system, me) = (Caller::system(), only("mine"));
    let names = async |caller| ids(store.collections(caller).await.unwrap(), |found| found.name);
    assert_eq!(names(&system).await, "mine yours");
    assert_eq!(names(&me).await, "mine");
    assert_eq!(store.collection(&me, "mine").await.unwrap().as_ref(), Some(&mine));
    assert_eq!(store.collection(&me, "yours").await.unwrap(), None);
    assert_eq!(store.collection(&me, UNKNOWN_ID).await.unwrap(), None);
    assert_eq!(store.view(&me, &mine).unwrap().document("a").await.unwrap(), None);
    let error = store.view(&me, &yours).unwrap_err();
    assert!(matches!(&error, Error::UnknownCollection(name) if name == "yours"));
    assert_eq!(error.to_string(), "there is no collection `yours`");
    close_sound(store).await;
}

pub async fn jobs_of_collections_outside_the_allow_list_do_not_exist(open: Open<'_>) {
    let store = open();
    for name in ["yours", "mine", "deleted"] {
        let made = collection(&store, name).await;
        accept(&store, &made, name, &[document("a", "text")]).await;
    }
    let me = only("mine");
    assert_eq!(store.job(&me, "mine").await.unwrap().unwrap().id, "mine");
    assert_eq!(store.job(&me, "yours").await.unwrap(), None);
    let (jobs, more) = store.jobs(&me, 1, None).await.unwrap();
    assert_eq!((ids(jobs, |job| job.id), more), ("mine".to_owned(), None));
    assert!(matches!(store.jobs(&me, 1, Some("yours")).await, Err(Error::UnknownCursor(_))));
    let (jobs, _) = store.jobs(&Caller::system(), 9, Some("deleted")).await.unwrap();
    assert_eq!(ids(jobs, |job| job.id), "mine yours");
    close_sound(store).await;
}

pub async fn hidden_documents_do_not_exist_for_reads(open: Open<'_>) {
    let store = open();
    let made = of_two_tenants(&store).await;
    let a = store.view(&tenant("a"), &made).unwrap();
    assert_eq!(a.document("a1").await.unwrap().unwrap().chunks, [span(0, 4, 1)]);
    assert_eq!(a.document("b1").await.unwrap(), None);
    let found = a.documents(["b1", "a2", UNKNOWN_ID].map(str::to_owned).to_vec()).await.unwrap();
    let found: Vec<Option<String>> =
        found.into_iter().map(|document| document.map(|found| found.id)).collect();
    assert_eq!(found, [None, Some("a2".to_owned()), None]);
    let page = async |tenant_name, after, limit| {
        let view = store.view(&tenant(tenant_name), &made).unwrap();
        let (documents, is_more) = view.documents_after(after, limit, 1000).await.unwrap();
        (ids(documents, |document| document.id), is_more)
    };
    assert_eq!(page("a", "", 9).await, ("a1 a2".to_owned(), false));
    assert_eq!(page("a", "", 1).await, ("a1".to_owned(), true));
    assert_eq!(page("a", "a1", 1).await, ("a2".to_owned(), false), "the documents after it are hidden");
    assert_eq!(page("b", "a", 1).await, ("b1".to_owned(), true));
    assert_eq!(page("c", "", 9).await, (String::new(), false));
    assert_eq!(counts(&a).await, Counts { documents: 2, chunks: 2 });
    assert_eq!(counts(&view(&store, &made)).await, Counts { documents: 4, chunks: 4 });
    close_sound(store).await;
}

pub async fn metadata_that_is_not_an_object_passes_no_filter(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let odd = ["", "no JSON", "[1]", "null"];
    let documents = odd.map(|metadata| NewDocument {
        id: format!("id {metadata}"),
        metadata: metadata.to_owned(),
        ..document("", "text")
    });
    accept(&store, &made, "j", &documents).await;
    let everything = Filter::parse("{}").unwrap();
    let caller = Caller { filter: Some(Arc::new(everything)), ..Caller::system() };
    let filtered = store.view(&caller, &made).unwrap();
    assert_eq!(counts(&filtered).await.documents, 0);
    assert_eq!(filtered.document("id null").await.unwrap(), None);
    accept(&store, &made, "k", &[document("object", "text")]).await;
    assert_eq!(counts(&filtered).await.documents, 1);
    close_sound(store).await;
}

pub async fn hidden_documents_are_not_deleted(open: Open<'_>) {
    let store = open();
    let made = of_two_tenants(&store).await;
    let a = store.view(&tenant("a"), &made).unwrap();
    assert_eq!(a.delete_document("b1").await.unwrap(), None);
    assert!(view(&store, &made).document("b1").await.unwrap().is_some());
    assert_eq!(a.delete_document("a1").await.unwrap().unwrap().operation, 5);
    assert_eq!(view(&store, &made).document("a1").await.unwrap(), None);
    close_sound(store).await;
}

pub async fn a_caller_with_a_filter_does_not_delete_the_collection(open: Open<'_>) {
    let store = open();
    let made = of_two_tenants(&store).await;
    let a = store.view(&tenant("a"), &made).unwrap();
    assert!(matches!(a.delete_collection(9.0).await, Err(Error::NotAllowed(_))));
    assert_eq!(counts(&view(&store, &made)).await.documents, 4);
    close_sound(store).await;
}

pub async fn hidden_documents_are_not_replaced(open: Open<'_>) {
    let store = open();
    let made = of_two_tenants(&store).await;
    let a = store.view(&tenant("a"), &made).unwrap();
    let documents = [
        document_of("a", "b1", "taken over"),
        document_of("a", "a1", "new"),
        document_of("a", "a2", "text"),
        document_of("a", "a3", "first"),
        document_of("b", "b2", "text"),
    ];
    let job = a.accept(submission("j", &documents), 9.0).await.unwrap().unwrap();
    assert_eq!(not_allowed(&job.errors), ["b2", "b1"]);
    assert_eq!((job.total, job.processed, job.unchanged, job.failed, job.last_operation), (5, 3, 1, 2, 6));
    let stored = async |id| view(&store, &made).document(id).await.unwrap().unwrap();
    assert_eq!((stored("b1").await.text, stored("b1").await.version), ("text".to_owned(), 2));
    assert_eq!((stored("b2").await.text, stored("b2").await.version), ("text".to_owned(), 4));
    assert_eq!((stored("a1").await.text, stored("a1").await.version), ("new".to_owned(), 5));
    assert_eq!((stored("a3").await.text, stored("a3").await.version), ("first".to_owned(), 6));
    store.record_applied(made.generation.id, 6, 10.0).await.unwrap();
    let job = store.job(&tenant("a"), "j").await.unwrap().unwrap();
    assert_eq!((job.status, job.processed, job.failed), (JobStatus::Completed, 5, 2));
    close_sound(store).await;
}

pub async fn documents_that_would_be_hidden_from_their_submitter_are_refused(open: Open<'_>) {
    let store = open();
    let made = of_two_tenants(&store).await;
    let a = store.view(&tenant("a"), &made).unwrap();
    let documents = [
        document_of("b", "new", "text"),
        document_of("b", "a1", "moved to another tenant"),
        document("a2", "no tenant"),
        NewDocument { metadata: "no JSON".to_owned(), ..document("odd", "text") },
    ];
    let earlier = DocumentError {
        document_id: "earlier".to_owned(),
        code: "document_too_long".to_owned(),
        message: "split it".to_owned(),
    };
    let with_rejected = Submission { rejected: vec![earlier.clone()], ..submission("j", &documents) };
    let job = a.accept(with_rejected, 9.0).await.unwrap().unwrap();
    assert_eq!(job.errors[0], earlier);
    assert_eq!(not_allowed(&job.errors[1..]), ["new", "a1", "a2", "odd"]);
    assert_eq!((job.status, job.total, job.processed, job.failed), (JobStatus::Completed, 5, 5, 5));
    assert_eq!(counts(&view(&store, &made)).await.documents, 4);
    assert_eq!(a.document("a1").await.unwrap().unwrap().version, 1);
    assert_eq!(a.document("a2").await.unwrap().unwrap().version, 3);
    close_sound(store).await;
}

pub async fn feedback_on_hidden_documents_does_not_exist(open: Open<'_>) {
    let store = open();
    let made = of_two_tenants(&store).await;
    let (a, b) = (store.view(&tenant("a"), &made).unwrap(), store.view(&tenant("b"), &made).unwrap());
    assert_eq!(a.add_feedback(judgment("b1", 9), 100, 3.5).await.unwrap(), None);
    for (document_id, grade) in [("a1", 1), ("b1", 2), ("a2", 3), ("b2", 4), ("a1", 5)] {
        let view = if document_id < "b" { &a } else { &b };
        view.add_feedback(judgment(document_id, grade), 100, 3.5).await.unwrap().unwrap();
    }
    let page = async |view: &StoreView, limit, cursor| {
        let (found, next) = view.feedback(FeedbackFilter::default(), limit, cursor).await.unwrap();
        (ids(found, |judgment| judgment.grade.to_string()), next)
    };
    let next = |number: &str| Some(number.to_owned());
    assert_eq!(page(&a, 9, None).await, ("5 3 1".to_owned(), None));
    assert_eq!(page(&a, 2, None).await, ("5 3".to_owned(), next("3")));
    assert_eq!(page(&a, 2, Some("3")).await, ("1".to_owned(), None));
    assert_eq!(page(&b, 1, None).await, ("4".to_owned(), next("4")));
    assert_eq!(page(&b, 1, Some("4")).await, ("2".to_owned(), None), "the judgment after it is hidden");
    assert_eq!(page(&view(&store, &made), 9, None).await, ("5 4 3 2 1".to_owned(), None));

    let features = |text: &str| Some(text.to_owned());
    let found = vec![(5, features("of a1")), (4, features("of b2"))];
    store.save_features(made.id, "m", found).await.unwrap();
    let batch = a.feedback_batch("m", LIMITS).await.unwrap();
    let processed: Vec<_> =
        batch.processed.iter().map(|one| (one.is_relevant, one.features.as_str())).collect();
    assert_eq!(processed, [(true, "of a1")]);
    assert_eq!(ids(batch.pending, |judgment| judgment.document_id), "a2");
    let batch = view(&store, &made).feedback_batch("m", LIMITS).await.unwrap();
    assert_eq!((batch.processed.len(), batch.pending.len()), (2, 2));
    close_sound(store).await;
}

pub async fn deleted_documents_are_hidden_with_their_feedback(open: Open<'_>) {
    let store = open();
    let made = of_two_tenants(&store).await;
    let a = store.view(&tenant("a"), &made).unwrap();
    a.add_feedback(judgment("a1", 1), 100, 3.5).await.unwrap().unwrap();
    a.delete_document("a1").await.unwrap().unwrap();
    assert_eq!(a.feedback(FeedbackFilter::default(), 9, None).await.unwrap(), (Vec::new(), None));
    assert_eq!(view(&store, &made).feedback(FeedbackFilter::default(), 9, None).await.unwrap().0.len(), 1);
    close_sound(store).await;
}

pub async fn the_query_log_operations_and_embeddings_are_empty_with_a_filter(open: Open<'_>) {
    let store = open();
    let made = of_two_tenants(&store).await;
    let logged = LoggedQuery {
        collection: made.id,
        query: "q".to_owned(),
        results: 0,
        relevance: None,
        asked_at: 1.0,
    };
    store.log_queries(vec![logged], 10).await.unwrap();
    let (a, system) = (store.view(&tenant("a"), &made).unwrap(), view(&store, &made));
    assert_eq!(system.query_report(QueryReport::Popular, 9).await.unwrap().len(), 1);
    assert_eq!(a.query_report(QueryReport::Popular, 9).await.unwrap(), []);
    assert_eq!(a.query_report(QueryReport::ZeroResults, 9).await.unwrap(), []);
    assert_eq!(system.operations_after(0, 9).await.unwrap().len(), 4);
    assert_eq!(a.operations_after(0, 9).await.unwrap(), []);
    assert_eq!(system.embeddings("m", vec![hash(1)]).await.unwrap(), [Some(vec![1.0])]);
    assert_eq!(a.embeddings("m", vec![hash(1)]).await.unwrap(), [None]);
    close_sound(store).await;
}

pub async fn jobs_exist_for_callers_with_the_filter_of_their_submitter(open: Open<'_>) {
    let store = open();
    let made = of_two_tenants(&store).await;
    for (name, job) in [("a", "a-1"), ("b", "b-1"), ("a", "a-2"), ("b", "b-2")] {
        let view = store.view(&tenant(name), &made).unwrap();
        view.accept(submission(job, &[document_of(name, job, "text")]), 9.0).await.unwrap().unwrap();
    }
    store.close().await;

    let store = open();
    let page = async |caller: &Caller, limit, cursor| {
        let (jobs, next) = store.jobs(caller, limit, cursor).await.unwrap();
        (ids(jobs, |job| job.id), next)
    };
    assert_eq!(page(&Caller::system(), 9, None).await, ("b-2 a-2 b-1 a-1 all".to_owned(), None));
    assert_eq!(page(&tenant("a"), 9, None).await, ("a-2 a-1".to_owned(), None));
    assert_eq!(page(&tenant("a"), 1, None).await, ("a-2".to_owned(), Some("a-2".to_owned())));
    assert_eq!(page(&tenant("a"), 1, Some("a-2")).await, ("a-1".to_owned(), None));
    assert_eq!(page(&tenant("c"), 9, None).await, (String::new(), None));
    for hidden in ["b-1", "all"] {
        assert_eq!(store.job(&tenant("a"), hidden).await.unwrap(), None);
        let error = store.jobs(&tenant("a"), 9, Some(hidden)).await;
        assert!(matches!(error, Err(Error::UnknownCursor(_))));
    }
    assert_eq!(store.job(&tenant("b"), "b-1").await.unwrap().unwrap().id, "b-1");
    let other_collection = Caller { filter: tenant("a").filter, ..only("other") };
    assert_eq!(store.job(&other_collection, "a-1").await.unwrap(), None);
    close_sound(store).await;
}
