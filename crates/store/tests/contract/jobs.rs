//! The contract on jobs.

use weir_store::{DocumentError, Error, JobStatus};

use super::*;

pub async fn a_job_moves_on_with_the_index(open: Open<'_>) {
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
        unchanged: 0,
        failed: 0,
        error: None,
        errors: Vec::new(),
        created_at: 2.0,
        started_at: None,
        finished_at: None,
        last_operation: 4,
    };
    assert_eq!(job, pending);

    let mark = async |number, now| {
        store.mark_indexed(made.generation.id, number, now).await.unwrap();
        store.job(&everyone(), "j").await.unwrap().unwrap()
    };
    assert_eq!(mark(1, 3.0).await, pending);
    let running = Job { status: JobStatus::Running, processed: 1, started_at: Some(3.5), ..pending };
    assert_eq!(mark(2, 3.5).await, running);
    assert_eq!(mark(3, 4.0).await, Job { processed: 2, ..running.clone() });
    assert_eq!(mark(2, 4.5).await, Job { processed: 2, ..running.clone() });
    let completed = Job { status: JobStatus::Completed, processed: 3, finished_at: Some(5.0), ..running };
    assert_eq!(mark(4, 5.0).await, completed);
    assert_eq!(mark(4, 6.0).await, completed);
    assert_eq!(store.collection(&everyone(), "c").await.unwrap().unwrap().generation.indexed, 4);
    let before = store.job(&everyone(), "before").await.unwrap().unwrap();
    assert_eq!(
        (before.status, before.started_at, before.finished_at),
        (JobStatus::Completed, Some(3.0), Some(3.0))
    );
    close_sound(store).await;
}

pub async fn a_job_names_the_documents_that_failed(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let refused = DocumentError {
        document_id: "bad \"\0".to_owned(),
        code: "document_too_long".to_owned(),
        message: "split it".to_owned(),
    };
    let mixed = Submission { rejected: vec![refused.clone()], ..submission("j", &[document("a", "1")]) };
    let job = store.accept(made.id, mixed, 2.0).await.unwrap().unwrap();
    assert_eq!((job.total, job.processed, job.failed), (2, 1, 1));
    assert_eq!(job.errors, [refused]);
    store.mark_indexed(made.generation.id, 1, 3.0).await.unwrap();
    let job = store.job(&everyone(), "j").await.unwrap().unwrap();
    assert_eq!((job.status, job.processed, job.failed), (JobStatus::Completed, 2, 1));
    close_sound(store).await;
}

pub async fn a_job_without_operations_is_completed_at_once(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "first", &[document("a", "1")]).await;
    let job = accept(&store, &made, "again", &[document("a", "1"), document("a", "1")]).await;
    assert_eq!((job.status, job.total, job.processed, job.unchanged), (JobStatus::Completed, 2, 2, 1));
    assert_eq!((job.started_at, job.finished_at), (Some(2.0), Some(2.0)));
    // Whoever waits for the documents to be searchable still waits for the operation that stored them.
    assert_eq!(job.last_operation, 1);
    store.mark_indexed(made.generation.id, 1, 3.0).await.unwrap();
    assert_eq!(store.job(&everyone(), "again").await.unwrap(), Some(job));
    close_sound(store).await;
}

pub async fn an_old_generation_does_not_move_jobs(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let job = accept(&store, &made, "j", &[document("a", "1")]).await;
    let next = store.start_generation(made.id, "m2", 3.0).await.unwrap().unwrap();
    store.mark_indexed(made.generation.id, 1, 4.0).await.unwrap();
    assert_eq!(store.job(&everyone(), "j").await.unwrap(), Some(job));
    store.mark_indexed(next.generation.id, 1, 5.0).await.unwrap();
    assert_eq!(store.job(&everyone(), "j").await.unwrap().unwrap().finished_at, Some(5.0));
    close_sound(store).await;
}

pub async fn jobs_are_listed_newest_first_in_pages(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    for job in ["z", "y", "a", "b", "c"] {
        accept(&store, &made, job, &[]).await;
    }
    let page = async |limit, cursor| {
        let (jobs, next) = store.jobs(&everyone(), limit, cursor).await.unwrap();
        (jobs.into_iter().map(|job| job.id).collect::<Vec<_>>().join(" "), next)
    };
    assert_eq!(page(2, None).await, ("c b".to_owned(), Some("b".to_owned())));
    assert_eq!(page(2, Some("b")).await, ("a y".to_owned(), Some("y".to_owned())));
    assert_eq!(page(2, Some("y")).await, ("z".to_owned(), None));
    assert_eq!(page(5, None).await, ("c b a y z".to_owned(), None));
    assert!(matches!(
        store.jobs(&everyone(), 2, Some(ID_OF_NOBODY)).await,
        Err(Error::UnknownCursor { cursor }) if cursor == ID_OF_NOBODY
    ));
    close_sound(store).await;
}
