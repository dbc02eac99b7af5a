//! The contract on jobs.

use weir_store::{DocumentError, Error, JobStatus, PreparedDocument};

use super::*;

pub async fn a_job_progresses_with_the_applied_sequence(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "before", &[document("x", "0")]).await;
    let job = accept(&store, &made, "j", &[document("a", "1"), document("b", "2"), document("c", "3")]).await;
    let pending = Job {
        id: "j".to_owned(),
        collection: "c".to_owned(),
        status: JobStatus::Pending,
        total: 3,
        processed: 0,
        new: 3,
        changed: 0,
        unchanged: 0,
        chunks: 0,
        failed: 0,
        error: None,
        errors: Vec::new(),
        created_at: 2.0,
        started_at: None,
        finished_at: None,
        last_operation: 4,
        unread: 0,
        webhook: None,
    };
    assert_eq!(job, pending);

    let mark = async |number, now| {
        store.record_applied(made.generation.id, number, now).await.unwrap();
        store.job(&Caller::system(), "j").await.unwrap().unwrap()
    };
    assert_eq!(mark(1, 3.0).await, pending);
    let running = Job { status: JobStatus::Running, processed: 1, started_at: Some(3.5), ..pending };
    assert_eq!(mark(2, 3.5).await, running);
    assert_eq!(mark(3, 4.0).await, Job { processed: 2, ..running.clone() });
    assert_eq!(mark(2, 4.5).await, Job { processed: 2, ..running.clone() });
    let completed = Job { status: JobStatus::Completed, processed: 3, finished_at: Some(5.0), ..running };
    assert_eq!(mark(4, 5.0).await, completed);
    assert_eq!(mark(4, 6.0).await, completed);
    assert_eq!(store.collection(&Caller::system(), "c").await.unwrap().unwrap().generation.applied_seq, 4);
    let before = store.job(&Caller::system(), "before").await.unwrap().unwrap();
    assert_eq!(
        (before.status, before.started_at, before.finished_at),
        (JobStatus::Completed, Some(3.0), Some(3.0))
    );
    close_sound(store).await;
}

pub async fn a_job_lists_refused_documents(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let refused = DocumentError {
        document_id: "bad \"\0".to_owned(),
        code: "document_too_long".to_owned(),
        message: "split it".to_owned(),
    };
    let mixed = Submission { rejected: vec![refused.clone()], ..submission("j", &[document("a", "1")]) };
    let job = view(&store, &made).accept(mixed, 2.0).await.unwrap().unwrap();
    assert_eq!((job.total, job.processed, job.failed), (2, 1, 1));
    assert_eq!(job.errors, [refused]);
    store.record_applied(made.generation.id, 1, 3.0).await.unwrap();
    let job = store.job(&Caller::system(), "j").await.unwrap().unwrap();
    assert_eq!((job.status, job.processed, job.failed), (JobStatus::Completed, 2, 1));
    close_sound(store).await;
}

pub async fn a_document_that_differs_in_a_compared_field_is_not_replaced(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let with = |id: &str, text: &str, metadata: &str| NewDocument {
        metadata: metadata.to_owned(),
        ..document(id, text)
    };
    let stored = [with("a", "1", r#"{"f":"x"}"#), with("b", "1", "{}"), with("c", "1", r#"{"f":1,"g":2}"#)];
    accept(&store, &made, "first", &stored).await;
    let new = [
        with("a", "2", r#"{"f":"y"}"#),
        with("b", "2", r#"{"f":null,"g":3}"#),
        with("c", "2", r#"{"f":1.0,"g":4}"#),
        with("d", "2", r#"{"f":"y"}"#),
    ];
    let compared = |job: &str, fields: &[&str]| Submission {
        replace_if_equal: fields.iter().map(|field| (*field).to_owned()).collect(),
        ..submission(job, &new)
    };
    let job = view(&store, &made).accept(compared("second", &["f"]), 2.0).await.unwrap().unwrap();
    let refused: Vec<(&str, &str)> =
        job.errors.iter().map(|error| (error.document_id.as_str(), error.code.as_str())).collect();
    assert_eq!(refused, [("a", "document_conflict"), ("c", "document_conflict")]);
    assert!(job.errors[0].message.contains(r#"with "x" as `f`, not "y""#), "{}", job.errors[0].message);
    assert_eq!((job.new, job.changed, job.failed), (1, 1, 2));
    // content that is stored already is no conflict, and without fields nothing is compared
    let again = view(&store, &made).accept(compared("third", &["f", "g"]), 2.0).await.unwrap().unwrap();
    assert_eq!((again.unchanged, again.failed), (2, 2));
    let all = view(&store, &made).accept(compared("fourth", &[]), 2.0).await.unwrap().unwrap();
    assert_eq!((all.changed, all.failed), (2, 0));
    close_sound(store).await;
}

pub async fn a_job_without_operations_is_completed_at_once(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "first", &[document("a", "1")]).await;
    let job = accept(&store, &made, "again", &[document("a", "1"), document("a", "1")]).await;
    assert_eq!((job.status, job.total, job.processed, job.unchanged), (JobStatus::Completed, 2, 2, 1));
    assert_eq!((job.started_at, job.finished_at), (Some(2.0), Some(2.0)));
    // The documents are searchable once the operation that stored them is applied.
    assert_eq!(job.last_operation, 1);
    store.record_applied(made.generation.id, 1, 3.0).await.unwrap();
    assert_eq!(store.job(&Caller::system(), "again").await.unwrap(), Some(job));
    close_sound(store).await;
}

pub async fn a_completed_job_has_the_counts_of_its_documents_and_chunks(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let prepare = async |document_id: &str, version, chunks| {
        let chunks = (0..chunks).map(|place| span(place, place + 1, 1)).collect();
        let prepared = PreparedDocument { document_id: document_id.to_owned(), version, chunks };
        store.save_prepared(made.generation.id, vec![prepared], vec![(hash(1), vec![1.0])]).await.unwrap();
    };
    let counts = async |id| {
        let job = store.job(&Caller::system(), id).await.unwrap().unwrap();
        (job.new, job.changed, job.unchanged, job.chunks)
    };
    accept(&store, &made, "first", &[document("a", "1"), document("b", "2")]).await;
    prepare("a", 1, 2).await;
    prepare("b", 2, 3).await;
    store.record_applied(made.generation.id, 1, 3.0).await.unwrap();
    assert_eq!(counts("first").await, (2, 0, 0, 0), "chunks are counted at the end");
    store.record_applied(made.generation.id, 2, 3.0).await.unwrap();
    assert_eq!(counts("first").await, (2, 0, 0, 5));

    accept(&store, &made, "again", &[document("a", "1"), document("b", "new"), document("c", "3")]).await;
    prepare("b", 3, 4).await;
    prepare("c", 4, 1).await;
    store.record_applied(made.generation.id, 4, 4.0).await.unwrap();
    assert_eq!(counts("again").await, (1, 1, 1, 5));
    assert_eq!(counts("first").await, (2, 0, 0, 5), "a finished job does not change");
    close_sound(store).await;
}

pub async fn a_superseded_generation_does_not_update_jobs(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let job = accept(&store, &made, "j", &[document("a", "1")]).await;
    let next = store.start_generation(made.id, "m2", 3.0).await.unwrap().unwrap();
    store.record_applied(made.generation.id, 1, 4.0).await.unwrap();
    assert_eq!(store.job(&Caller::system(), "j").await.unwrap(), Some(job));
    store.record_applied(next.generation.id, 1, 5.0).await.unwrap();
    assert_eq!(store.job(&Caller::system(), "j").await.unwrap().unwrap().finished_at, Some(5.0));
    close_sound(store).await;
}

pub async fn a_job_that_is_cancelled_while_an_index_is_made_keeps_what_that_of_before_has(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1"), document("b", "2"), document("c", "3")]).await;
    store.record_applied(made.generation.id, 2, 3.0).await.unwrap();
    store.start_generation(made.id, "m2", 4.0).await.unwrap().unwrap();
    let cancelled = store.cancel_job(made.id, "j", 0, Vec::new(), 5.0).await.unwrap().unwrap();
    assert_eq!((cancelled.status, cancelled.total, cancelled.processed), (JobStatus::Cancelled, 3, 2));
    close_sound(store).await;
}

pub async fn jobs_are_listed_newest_first_in_pages(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    for job in ["z", "y", "a", "b", "c"] {
        accept(&store, &made, job, &[]).await;
    }
    let page = async |limit, cursor| {
        let (jobs, next) = store.jobs(&Caller::system(), limit, cursor).await.unwrap();
        (jobs.into_iter().map(|job| job.id).collect::<Vec<_>>().join(" "), next)
    };
    assert_eq!(page(2, None).await, ("c b".to_owned(), Some("b".to_owned())));
    assert_eq!(page(2, Some("b")).await, ("a y".to_owned(), Some("y".to_owned())));
    assert_eq!(page(2, Some("y")).await, ("z".to_owned(), None));
    assert_eq!(page(5, None).await, ("c b a y z".to_owned(), None));
    assert!(matches!(
        store.jobs(&Caller::system(), 2, Some(UNKNOWN_ID)).await,
        Err(Error::UnknownCursor(cursor)) if cursor == UNKNOWN_ID
    ));
    close_sound(store).await;
}

pub async fn a_document_that_fails_in_preparation_is_listed_once(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1"), document("b", "2")]).await;
    let failed = DocumentError {
        document_id: "b".to_owned(),
        code: "upstream_error".to_owned(),
        message: "refused".to_owned(),
    };
    for _ in 0..2 {
        store.fail_documents(made.id, vec![(2, failed.clone())], None).await.unwrap();
    }
    store.record_applied(made.generation.id, 2, 3.0).await.unwrap();
    let job = store.job(&Caller::system(), "j").await.unwrap().unwrap();
    assert_eq!((job.status, job.total, job.processed, job.failed), (JobStatus::Completed, 2, 2, 1));
    assert_eq!(job.errors, std::slice::from_ref(&failed));
    // a finished job does not change
    store
        .fail_documents(made.id, vec![(1, DocumentError { document_id: "a".to_owned(), ..failed })], None)
        .await
        .unwrap();
    assert_eq!(store.job(&Caller::system(), "j").await.unwrap(), Some(job));
    assert_eq!(view(&store, &made).document("b").await.unwrap().unwrap().text, "2");
    let again = accept(&store, &made, "again", &[document("a", "1"), document("b", "2")]).await;
    assert_eq!((again.unchanged, again.last_operation), (0, 4), "both failed once");
    let once_more = accept(&store, &made, "once more", &[document("a", "1")]).await;
    assert_eq!(once_more.unchanged, 1);
    close_sound(store).await;
}

pub async fn a_job_whose_model_failed_ends_as_failed_with_the_reason(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1"), document("b", "2")]).await;
    accept(&store, &made, "k", &[document("c", "3")]).await;
    let failed = |document_id: &str| DocumentError {
        document_id: document_id.to_owned(),
        code: "internal".to_owned(),
        message: "failed".to_owned(),
    };
    let error = |reason: &str| Some(reason.to_owned());
    store.fail_documents(made.id, vec![(2, failed("b"))], error("the model failed")).await.unwrap();
    store.fail_documents(made.id, vec![(1, failed("a"))], error("a later reason")).await.unwrap();
    store.record_applied(made.generation.id, 3, 3.0).await.unwrap();
    let job = store.job(&Caller::system(), "j").await.unwrap().unwrap();
    assert_eq!((job.status, job.failed, job.errors.len()), (JobStatus::Failed, 2, 2));
    assert_eq!((job.error.as_deref(), job.finished_at), (Some("the model failed"), Some(3.0)));
    let other = store.job(&Caller::system(), "k").await.unwrap().unwrap();
    assert_eq!((other.status, other.error), (JobStatus::Completed, None));
    close_sound(store).await;
}

pub async fn the_oldest_finished_jobs_are_pruned(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "unfinished", &[document("a", "1")]).await;
    for job in ["b", "c", "d"] {
        accept(&store, &made, job, &[]).await;
    }
    assert!(store.prune(made.id, kept(9, 2)).await.unwrap());
    let (jobs, _) = store.jobs(&Caller::system(), 9, None).await.unwrap();
    let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, ["d", "c", "unfinished"]);
    close_sound(store).await;
}

/// `number id` of every operation after `after`.
async fn operations(store: &Store, made: &Collection, after: u64) -> String {
    let found = view(store, made).operations_after(after, 100).await.unwrap();
    found.iter().map(|one| format!("{} {}", one.number, one.document_id)).collect::<Vec<_>>().join(", ")
}

pub async fn pruning_keeps_operations_that_are_document_versions(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "1", &[document("a", "1"), document("b", "1"), document("c", "1")]).await;
    accept(&store, &made, "2", &[document("b", "2")]).await;
    view(&store, &made).delete_document("c").await.unwrap().unwrap();
    accept(&store, &made, "3", &[document("d", "1"), document("d", "2")]).await;
    accept(&store, &made, "4", &[document("d", "3")]).await;
    let all = "1 a, 2 b, 3 c, 4 b, 5 c, 6 d, 7 d";
    let two = kept(2, 9);
    assert!(store.prune(made.id, two).await.unwrap());
    assert_eq!(operations(&store, &made, 0).await, all, "no operation is applied yet");
    store.record_applied(made.generation.id, 7, 3.0).await.unwrap();
    assert!(store.prune(made.id, two).await.unwrap());
    assert_eq!(operations(&store, &made, 0).await, "1 a, 4 b, 6 d, 7 d");
    assert_eq!(operations(&store, &made, 2).await, "4 b, 6 d, 7 d");
    assert_eq!(store.collection(&Caller::system(), "c").await.unwrap().unwrap().pruned_to, 5);
    // the operation of a document's version is deleted with the document, or with its next version
    accept(&store, &made, "5", &[document("a", "2"), document("d", "4")]).await;
    view(&store, &made).delete_document("b").await.unwrap().unwrap();
    assert_eq!(operations(&store, &made, 0).await, "6 d, 7 d, 8 a, 9 d, 10 b");
    store.close().await;

    let store = open();
    store.record_applied(made.generation.id, 10, 4.0).await.unwrap();
    assert!(store.prune(made.id, kept(0, 9)).await.unwrap());
    assert_eq!(operations(&store, &made, 0).await, "8 a, 9 d, 10 b", "the last operation is always kept");
    close_sound(store).await;
}
