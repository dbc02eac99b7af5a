//! Tests that need the writing connection: full disk and group commit.

use std::path::Path;
use std::sync::mpsc;

use rusqlite::Connection;
use weir_policy::Caller;

use super::Sqlite;
use crate::access::Access;
use crate::damage::Damage;
use crate::database::Database;
use crate::scripts::{accept, collections};
use crate::tx::{Tx, script};
use crate::{Collection, CollectionId, Error, NewDocument, Result, Store, StoreView, Submission};

async fn with_collection(folder: &Path) -> (Sqlite, Store, Collection) {
    let sqlite = Sqlite::open(folder).unwrap();
    let store = Store::of(Database::Sqlite(sqlite.clone()));
    let (made, _) = store.create_collection("c", "{}", "", 1.0).await.unwrap();
    (sqlite, store, made)
}

fn view(store: &Store, collection: &Collection) -> StoreView {
    store.view(&Caller::system(), collection).unwrap()
}

fn submission(job: &str, bytes: usize) -> Submission {
    let document = NewDocument {
        id: job.to_owned(),
        text: "x".repeat(bytes),
        metadata: "{}".to_owned(),
        ..NewDocument::default()
    };
    Submission { job_id: job.to_owned(), documents: vec![document], ..Submission::default() }
}

async fn delete_and_fail(tx: &mut Tx<'_>, collection: CollectionId) -> Result<()> {
    collections::delete(tx, &Access::new(&Caller::system(), collection), 3.0).await?;
    Err(Error::Full)
}

fn documents(connection: &mut Connection) -> Result<u64> {
    Ok(connection.query_row("SELECT count(*) FROM documents", [], |row| row.get(0))?)
}

async fn allow_pages(sqlite: &Sqlite, pages: u32) {
    let writer = &sqlite.threads.writer;
    writer
        .call(move |connection| Ok(connection.pragma_update(None, "max_page_count", pages)?))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_full_disk_fails_the_request_and_keeps_acknowledged_documents() {
    let folder = tempfile::tempdir().unwrap();
    let (sqlite, store, made) = with_collection(folder.path()).await;
    view(&store, &made).accept(submission("before", 1000), 2.0).await.unwrap();
    allow_pages(&sqlite, 64).await;
    let refused = view(&store, &made).accept(submission("large", 1 << 20), 2.0).await;
    assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    assert_eq!(view(&store, &made).document("large").await.unwrap(), None);
    view(&store, &made).accept(submission("small", 1000), 2.0).await.unwrap();
    allow_pages(&sqlite, 1 << 20).await;
    let job = view(&store, &made).accept(submission("large", 1 << 20), 2.0).await.unwrap().unwrap();
    assert_eq!(job.last_operation, 3);
    let report = store.verify().await.unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(report.documents, 3);
}

/// The first request blocks the thread until the others are queued. The last one counts the documents outside and inside the transaction.
#[tokio::test]
async fn queued_requests_share_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let (sqlite, _, made) = with_collection(folder.path()).await;
    let access = Access::new(&Caller::system(), made.id);
    let (go, wait) = mpsc::sync_channel::<()>(1);
    let writer = &sqlite.threads.writer;
    let held = writer.call(move |_| Ok(wait.recv().is_ok()));
    let hashed = accept::HashedSubmission::new(submission("j", 1), &access);
    let database = Database::Sqlite(sqlite.clone());
    let put = database.write(script!(tx => accept::accept(tx, &access, &hashed, 2.0, &Damage::default())));
    let failing = database.write(script!(tx => delete_and_fail(tx, made.id)));
    let file = folder.path().join("store.sqlite3");
    let looking =
        writer.call(move |inside| Ok((documents(&mut Connection::open(file)?)?, documents(inside)?)));
    // The futures are polled in this order, so all four are queued before `go`.
    let (held, put, failed, seen, ()) = tokio::join!(held, put, failing, looking, async move {
        go.send(()).unwrap();
    });
    assert!(held.unwrap());
    assert_eq!(put.unwrap().unwrap().job.last_operation, 1);
    assert!(matches!(failed, Err(Error::Full)));
    assert_eq!(seen.unwrap(), (0, 1));
    assert_eq!(sqlite.threads.reader.call(documents).await.unwrap(), 1);
}

/// As on a full disk, when SQLite rolls the whole transaction back by itself.
#[tokio::test]
async fn a_rolled_back_transaction_fails_all_its_requests() {
    let folder = tempfile::tempdir().unwrap();
    let (sqlite, _, made) = with_collection(folder.path()).await;
    let access = Access::new(&Caller::system(), made.id);
    let (go, wait) = mpsc::sync_channel::<()>(1);
    let writer = &sqlite.threads.writer;
    let held = writer.call(move |_| Ok(wait.recv().is_ok()));
    let hashed = accept::HashedSubmission::new(submission("j", 1), &access);
    let database = Database::Sqlite(sqlite.clone());
    let put = database.write(script!(tx => accept::accept(tx, &access, &hashed, 2.0, &Damage::default())));
    let ending = writer.call(|connection| {
        connection.execute_batch("ROLLBACK")?;
        Err::<(), Error>(Error::Full)
    });
    let (held, put, ended, ()) = tokio::join!(held, put, ending, async move {
        go.send(()).unwrap();
    });
    assert!(matches!(held, Err(Error::Full)));
    assert!(matches!(put, Err(Error::Full)));
    assert!(matches!(ended, Err(Error::Full)));
    assert_eq!(sqlite.threads.reader.call(documents).await.unwrap(), 0);
    assert_eq!(writer.call(documents).await.unwrap(), 0);
}
