//! The contract on conditional writes and on files that are stored already.

use std::sync::Arc;

use weir_filter::Filter;
use weir_store::{Error, FileSource, KnownFile, Precondition, VersionTest};

use super::*;

/// A submission of document `a` under a condition.
fn on_condition(job: &str, text: &str, test: VersionTest) -> Submission {
    let precondition = Some(Precondition { document_id: "a".to_owned(), test });
    Submission { precondition, ..submission(job, &[document("a", text)]) }
}

pub async fn a_document_is_stored_only_if_its_condition_is_met(open: Open<'_>) {
    use VersionTest::{Absent, Exists, NoneOf, OneOf};
    let store = open();
    let made = collection(&store, "c").await;
    let view = view(&store, &made);
    let check = async |test: VersionTest, text: &str, expected: Result<u64, Option<u64>>| {
        let accepted = view.accept_versioned(on_condition(text, text, test.clone()), 2.0).await;
        let seen = match accepted {
            Ok(accepted) => Ok(accepted.unwrap().version.unwrap()),
            Err(Error::PreconditionFailed { version, .. }) => Err(version),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(seen, expected, "{test:?}");
    };
    check(Exists, "1", Err(None)).await;
    check(OneOf(vec![1]), "2", Err(None)).await;
    check(NoneOf(vec![1]), "3", Ok(1)).await;
    check(Absent, "4", Err(Some(1))).await;
    check(NoneOf(vec![1]), "5", Err(Some(1))).await;
    check(OneOf(vec![2]), "6", Err(Some(1))).await;
    check(Exists, "7", Ok(2)).await;
    check(OneOf(vec![7, 2]), "8", Ok(3)).await;
    // neither a job nor an operation of the refused ones is left
    assert_eq!(store.jobs(&Caller::system(), 10, None).await.unwrap().0.len(), 3);
    assert_eq!(view.operations_after(0, 10).await.unwrap().len(), 3);
    // an unchanged document has the version in which it is stored
    let again = view.accept_versioned(on_condition("9", "8", OneOf(vec![3])), 2.0).await.unwrap().unwrap();
    assert_eq!((again.job.unchanged, again.version), (1, Some(3)));
    close_sound(store).await;
}

fn of_file(id: &str, seed: u8, attachments: &[&str]) -> NewDocument {
    let attachments = attachments.iter().map(|id| (*id).to_owned()).collect();
    NewDocument { source: Some(FileSource { hash: hash(seed), attachments }), ..document(id, "text") }
}

pub async fn a_file_is_known_while_all_of_its_documents_are_stored(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "1", &[of_file("a", 1, &["a/x"]), of_file("a/x", 1, &[]), document("b", "t")])
        .await;
    store.close().await;
    let store = open();
    let known = async |id: &str, seed: u8| {
        let files = vec![(id.to_owned(), hash(seed))];
        view(&store, &made).known_files(files).await.unwrap().remove(0)
    };
    let both = KnownFile { ids: vec!["a".to_owned(), "a/x".to_owned()], version: 1 };
    assert_eq!(known("a", 1).await, Some(both.clone()));
    assert_eq!([known("a", 2).await, known("b", 1).await, known("c", 1).await], [None, None, None]);
    // the content stays, and the file is another one
    let job = accept(&store, &made, "2", &[of_file("a/x", 2, &[])]).await;
    assert_eq!((job.unchanged, known("a", 1).await), (1, None));
    accept(&store, &made, "3", &[of_file("a/x", 1, &[])]).await;
    assert_eq!(known("a", 1).await, Some(both));
    // hidden documents are unknown
    let nothing = Filter::parse(r#"{"tenant": "a"}"#).unwrap();
    let caller = Caller { filter: Some(Arc::new(nothing)), ..Caller::system() };
    let filtered = store.view(&caller, &made).unwrap();
    assert_eq!(filtered.known_files(vec![("a".to_owned(), hash(1))]).await.unwrap(), [None]);
    // a document that could not be prepared, or was deleted, is read again
    let failed = weir_store::DocumentError {
        document_id: "a".to_owned(),
        code: "internal".to_owned(),
        message: "m".to_owned(),
    };
    store.fail_documents(made.id, vec![(1, failed)], None).await.unwrap();
    assert_eq!(known("a", 1).await, None);
    accept(&store, &made, "4", &[of_file("a", 1, &["a/x"])]).await;
    view(&store, &made).delete_document("a/x").await.unwrap();
    assert_eq!(known("a", 1).await, None);
    let counted = Submission { unchanged: 3, ..submission("5", &[]) };
    let job = view(&store, &made).accept(counted, 2.0).await.unwrap().unwrap();
    assert_eq!((job.total, job.processed, job.unchanged), (3, 3, 3));
    close_sound(store).await;
}
