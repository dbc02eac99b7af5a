//! The contract on jobs whose files are read after they were accepted.

use weir_store::{
    DocumentError, JobDocumentState, JobDocumentsQuery, JobStatus, SubmittedFiles, UnreadFile, UnreadFiles,
};

use super::*;

fn unread(ids: &[&str]) -> UnreadFiles {
    let file = |id: &&str| UnreadFile { document_id: (*id).to_owned(), details: format!("of {id}") };
    let replace_if_equal = vec!["folder".to_owned()];
    UnreadFiles { place: "p".to_owned(), replace_if_equal, files: ids.iter().map(file).collect() }
}

fn received(job: &str, ids: &[&str]) -> Submission {
    Submission { unchanged: 1, files: SubmittedFiles::Unread(unread(ids)), ..submission(job, &[]) }
}

fn read(job: &str, documents: &[NewDocument], failed: &[&str]) -> Submission {
    let failed = (!failed.is_empty()).then(|| unread(failed));
    let rejected = failed.iter().flat_map(|failed| &failed.files);
    let rejected = rejected.map(|file| DocumentError {
        document_id: file.document_id.clone(),
        code: "no_text".to_owned(),
        message: "m".to_owned(),
    });
    let rejected = rejected.collect();
    Submission { rejected, files: SubmittedFiles::Read(failed), ..submission(job, documents) }
}

async fn states(store: &Store, job: &str) -> Vec<(String, JobDocumentState)> {
    let query = JobDocumentsQuery { limit: 100, ..JobDocumentsQuery::default() };
    let (documents, _) = store.job_documents(&Caller::system(), job, query).await.unwrap().unwrap();
    documents.into_iter().map(|document| (document.document_id, document.state)).collect()
}

async fn job(store: &Store, id: &str) -> Job {
    store.job(&Caller::system(), id).await.unwrap().unwrap()
}

pub async fn a_job_with_files_has_operations_when_they_are_read(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let view = view(&store, &made);
    let accepted = view.accept(received("j", &["a", "b"]), 1.0).await.unwrap().unwrap();
    assert_eq!((accepted.status, accepted.total, accepted.processed), (JobStatus::Pending, 3, 1));
    assert_eq!((accepted.unread, accepted.last_operation, accepted.new), (2, 0, 0));
    // others do not wait for it, and do not end it
    accept(&store, &made, "other", &[document("x", "0")]).await;
    store.record_applied(made.generation.id, 1, 2.0).await.unwrap();
    assert_eq!(job(&store, "other").await.status, JobStatus::Completed);
    assert_eq!(job(&store, "j").await, accepted);
    let pending = |id: &str| (id.to_owned(), JobDocumentState::Pending);
    assert_eq!(states(&store, "j").await, [pending("a"), pending("b")]);
    drop((store, view));

    let store = open();
    let view = super::view(&store, &made);
    let found = store.jobs_with_files().await.unwrap();
    let found: Vec<_> = found.into_iter().map(|job| (job.job_id, job.collection, job.files)).collect();
    assert_eq!(found, [("j".to_owned(), made.id, unread(&["a", "b"]))]);
    // an archive has more documents than files
    let documents = [document("a/1", "1"), document("a/2", "2")];
    let accepted = view.accept(read("j", &documents, &["b"]), 3.0).await.unwrap().unwrap();
    assert_eq!((accepted.total, accepted.processed, accepted.unchanged, accepted.failed), (4, 2, 1, 1));
    assert_eq!((accepted.unread, accepted.new, accepted.last_operation), (0, 2, 3));
    assert_eq!(states(&store, "j").await[0], ("b".to_owned(), JobDocumentState::Failed));
    assert_eq!(view.accept(read("j", &documents, &[]), 4.0).await.unwrap(), None, "it was read before");
    store.record_applied(made.generation.id, 3, 5.0).await.unwrap();
    let ended = job(&store, "j").await;
    assert_eq!((ended.status, ended.processed, ended.finished_at), (JobStatus::Completed, 4, Some(5.0)));
    // what failed is kept until it is forgotten
    let found = store.jobs_with_files().await.unwrap();
    assert_eq!(found[0].files, unread(&["b"]));
    store.forget_files(vec!["j".to_owned()]).await.unwrap();
    assert_eq!(store.jobs_with_files().await.unwrap(), []);
    close_sound(store).await;
}

pub async fn a_job_of_which_no_file_can_be_read_is_completed(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let view = view(&store, &made);
    view.accept(received("j", &["a"]), 1.0).await.unwrap();
    let ended = view.accept(read("j", &[], &["a"]), 2.0).await.unwrap().unwrap();
    assert_eq!((ended.status, ended.finished_at, ended.failed), (JobStatus::Completed, Some(2.0), 1));
    close_sound(store).await;
}

pub async fn a_cancelled_job_takes_no_documents(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let view = view(&store, &made);
    view.accept(received("j", &["a", "b"]), 1.0).await.unwrap();
    let cancelled = store.cancel_job(made.id, "j", 0, Vec::new(), 2.0).await.unwrap().unwrap();
    assert_eq!((cancelled.status, cancelled.total, cancelled.processed), (JobStatus::Cancelled, 3, 1));
    assert_eq!(view.accept(read("j", &[document("a", "1")], &[]), 3.0).await.unwrap(), None);
    assert_eq!(view.document("a").await.unwrap(), None);
    let expected = ["a", "b"].map(|id| (id.to_owned(), JobDocumentState::Cancelled));
    assert_eq!(states(&store, "j").await, expected);
    assert_eq!(store.jobs_with_files().await.unwrap()[0].finished_at, Some(2.0), "they can be tried again");
    close_sound(store).await;
}
