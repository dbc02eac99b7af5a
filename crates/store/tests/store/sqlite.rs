//! The contract with SQLite, and tests of the folder and of damaged files.

use std::path::Path;

use crate::contract::{Caller, accept, close_sound, collection, document, hash, span, view};
use rusqlite::Connection;
use weir_store::{
    Collection, DocumentState, Error, FeedbackLimits, Location, NewFeedback, PreparedDocument, Store,
};

crate::contract!(contract_tests!, Store::open_sqlite);

/// A store with one prepared document `a` (version 1) and a second one `b`.
async fn filled(folder: &Path) -> (Store, Collection) {
    let store = Store::open_sqlite(folder).unwrap();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "the first text"), document("b", "the second text")]).await;
    let prepared = PreparedDocument { document_id: "a".to_owned(), version: 1, chunks: vec![span(0, 14, 1)] };
    store.save_prepared(made.generation.id, vec![prepared], vec![(hash(1), vec![0.25, 0.5])]).await.unwrap();
    (store, made)
}

/// A filled store whose file was changed by `sql` while it was closed.
async fn altered(folder: &Path, sql: &str) -> (Store, Collection) {
    let (store, made) = filled(folder).await;
    close_sound(store).await;
    let connection = Connection::open(folder.join("store.sqlite3")).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection.execute_batch(sql).unwrap();
    connection.close().unwrap();
    (Store::open_sqlite(folder).unwrap(), made)
}

#[tokio::test]
async fn a_folder_has_one_store_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folder");
    let store = Store::open_sqlite(&path).unwrap();
    let error = Store::open_sqlite(&path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the data directory `{}` is in use by another weir; stop that one or choose another --data-dir",
            path.display()
        )
    );
    let clone = store.clone();
    store.close().await;
    assert!(matches!(clone.collections(&Caller::system()).await, Err(Error::Closed)));
    drop(Store::open_sqlite(&path).unwrap());
    Store::open_sqlite(&path).unwrap().close().await;
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2, "the write-ahead log was not written back");
}

#[tokio::test]
async fn a_file_in_place_of_the_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "").unwrap();
    assert!(
        matches!(Store::open_sqlite(&path), Err(Error::Unusable { place, .. }) if place == path.to_str().unwrap())
    );
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await.0.close().await;
    let connection = Connection::open(folder.path().join("store.sqlite3")).unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    drop(connection);
    let error = Store::open_sqlite(folder.path()).unwrap_err();
    assert!(matches!(error, Error::NewerSchema { found: 999, known: 22 }), "{error}");
}

#[tokio::test]
async fn a_store_of_the_first_format_is_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let first = "DROP TABLE upkeep; DROP TABLE kept_parts; DROP TABLE kept_files; DROP TABLE budget_leases; DROP TABLE ledger_writes; DROP TABLE service; DROP TABLE leases; DROP TABLE cancellations; DROP TABLE webhooks; DROP TABLE idempotency_keys; DROP TRIGGER originals_of_deleted; DROP TRIGGER originals_of_replaced; DROP TABLE originals; DROP TABLE unsearchable; ALTER TABLE jobs DROP COLUMN refused; ALTER TABLE jobs DROP COLUMN files; ALTER TABLE documents DROP COLUMN embedded_title; ALTER TABLE documents DROP COLUMN vector; ALTER TABLE documents DROP COLUMN source;
        DROP TABLE feedback; DROP TABLE queries; ALTER TABLE documents DROP COLUMN pages; ALTER TABLE collections DROP COLUMN pruned_to; ALTER TABLE operations DROP COLUMN identity;
        ALTER TABLE jobs DROP COLUMN filter_hash; ALTER TABLE jobs DROP COLUMN changed; ALTER TABLE jobs DROP COLUMN chunks;
        DROP TABLE api_keys; DROP TABLE audit; DROP TABLE spending; PRAGMA user_version = 1;";
    let (store, made) = altered(folder.path(), first).await;
    let judgment = NewFeedback {
        query: "q".to_owned(),
        document_id: "a".to_owned(),
        chunk: None,
        grade: 1,
        caller: None,
        is_operator: false,
    };
    assert_eq!(view(&store, &made).add_feedback(judgment, 9, 2.0).await.unwrap().unwrap().number, 1);
    assert_eq!(view(&store, &made).document("b").await.unwrap().unwrap().text, "the second text");
    // operations of before have no number of their own, and later ones do
    let last = view(&store, &made).delete_document("b").await.unwrap().unwrap().operation;
    assert_eq!(view(&store, &made).operation_identity(last - 1).await.unwrap(), None);
    assert!(view(&store, &made).operation_identity(last).await.unwrap().is_some());
    close_sound(store).await;
}

#[tokio::test]
async fn feedback_of_the_second_format_is_pending() {
    let folder = tempfile::tempdir().unwrap();
    let second = "DROP TABLE upkeep; DROP TABLE kept_parts; DROP TABLE kept_files; DROP TABLE budget_leases; DROP TABLE ledger_writes; DROP TABLE service; DROP TABLE leases; DROP TABLE cancellations; DROP TABLE webhooks; DROP TABLE idempotency_keys; DROP TRIGGER originals_of_deleted; DROP TRIGGER originals_of_replaced; DROP TABLE originals; DROP TABLE unsearchable; ALTER TABLE jobs DROP COLUMN refused; ALTER TABLE jobs DROP COLUMN files; ALTER TABLE documents DROP COLUMN embedded_title; ALTER TABLE documents DROP COLUMN vector; ALTER TABLE documents DROP COLUMN source;
        ALTER TABLE documents DROP COLUMN pages; ALTER TABLE feedback DROP COLUMN caller; ALTER TABLE feedback DROP COLUMN is_operator; ALTER TABLE feedback DROP COLUMN features; ALTER TABLE feedback DROP COLUMN fingerprint_id;
        ALTER TABLE collections DROP COLUMN pruned_to; ALTER TABLE operations DROP COLUMN identity;
        ALTER TABLE jobs DROP COLUMN filter_hash; ALTER TABLE jobs DROP COLUMN changed; ALTER TABLE jobs DROP COLUMN chunks;
        INSERT INTO feedback VALUES (1, 1, 'q', 'a', NULL, 1, 2.0); DROP TABLE api_keys; DROP TABLE audit; DROP TABLE spending; PRAGMA user_version = 2;";
    let (store, made) = altered(folder.path(), second).await;
    let limits = FeedbackLimits { entries_max: 9, per_caller_max: 9, pending_max: 9 };
    let batch = view(&store, &made).feedback_batch(&made.generation.fingerprint, limits).await.unwrap();
    assert_eq!((batch.processed.len(), batch.pending[0].query.as_str()), (0, "q"));
    close_sound(store).await;
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("store.sqlite3"), "no database ".repeat(100)).unwrap();
    assert!(matches!(Store::open_sqlite(folder.path()), Err(Error::Damaged { .. })));
}

/// The message of a damaged row. What is written again needs no backup.
fn message_of(row: &str) -> String {
    let again = match row.split(' ').next() {
        Some("document") => "ingest it again, or ",
        Some("chunk" | "embedding") => {
            "remove the folder `index` while the gateway is stopped, so that it is computed again, or "
        }
        _ => "",
    };
    format!("{row} is damaged; {again}restore the data directory from a backup")
}

/// Changes the file by `sql`; both `read` and the full check must report the row.
async fn check_damage<T: std::fmt::Debug>(
    sql: &str,
    read: impl AsyncFn(&Store, &Collection) -> weir_store::Result<T>,
    expected: &str,
) {
    let folder = tempfile::tempdir().unwrap();
    let (store, made) = altered(folder.path(), sql).await;
    let error = read(&store, &made).await.unwrap_err();
    let expected = message_of(expected);
    assert_eq!(error.to_string(), expected, "{sql}");
    let found = match store.verify().await {
        Ok(report) => report.problems.iter().map(Error::to_string).collect(),
        Err(error) => vec![error.to_string()],
    };
    assert!(found.contains(&expected), "{sql}: {found:?}");
}

#[tokio::test]
async fn a_damaged_document_is_reported() {
    let changes = [
        "text = 'the first tent'",
        "title = ''",
        "metadata = '{ }'",
        "version = 2",
        "content_hash = zeroblob(32)",
        "content_hash = x'00'",
        "text = CAST(x'ff' AS TEXT)",
        "checksum = checksum + 1",
        "checksum = -1",
    ];
    for change in changes {
        check_damage(
            &format!("UPDATE documents SET {change} WHERE id = 'a'"),
            async |store, made| view(store, made).document("a").await,
            "document \"a\" of collection 1 (row 1)",
        )
        .await;
    }
}

#[tokio::test]
async fn a_damaged_operation_is_reported() {
    let changes = ["kind = 'delete'", "kind = 'what'", "document_id = 'c'", "job_id = NULL", "checksum = 0"];
    for change in changes {
        check_damage(
            &format!("UPDATE operations SET {change} WHERE number = 2"),
            async |store, made| view(store, made).operations_after(0, 10).await,
            "operation 2 of collection 1",
        )
        .await;
    }
    check_damage(
        "DELETE FROM operations WHERE number = 1",
        async |store, made| view(store, made).operations_after(0, 10).await,
        "operation 1 of collection 1",
    )
    .await;
}

#[tokio::test]
async fn a_damaged_chunk_is_reported() {
    for change in ["start = 1", "end = 13", "text_hash = zeroblob(32)", "text_hash = x'01'", "checksum = 0"] {
        check_damage(
            &format!("UPDATE chunks SET {change}"),
            async |store, made| view(store, made).document("a").await,
            "chunk 0 of document row 1 in generation 1",
        )
        .await;
    }
}

/// Changes the file by `sql`; the full check must report the row, and a list that skips it must name it.
async fn check_skipped(sql: &str, list: impl AsyncFn(&Store, &Collection) -> usize, expected: (usize, &str)) {
    let folder = tempfile::tempdir().unwrap();
    let (store, made) = altered(folder.path(), sql).await;
    assert_eq!(
        (list(&store, &made).await, store.damaged_rows()),
        (expected.0, vec![expected.1.to_owned()]),
        "{sql}"
    );
    let message = message_of(expected.1);
    for report in
        [store.verify().await.unwrap(), Store::verify_at(&Location::data_dir(folder.path())).await.unwrap()]
    {
        let found: Vec<String> = report.problems.iter().map(Error::to_string).collect();
        assert!(found.contains(&message), "{sql}: {found:?}");
    }
}

#[tokio::test]
async fn a_damaged_embedding_counts_as_missing() {
    let name = format!("embedding of text hash {} for model 1", "01".repeat(32));
    for change in ["vector = zeroblob(8)", "vector = x'0102'", "checksum = 0"] {
        let folder = tempfile::tempdir().unwrap();
        let (store, made) = altered(folder.path(), &format!("UPDATE embeddings SET {change}")).await;
        assert_eq!(view(&store, &made).embeddings("m", vec![hash(1)]).await.unwrap(), [None], "{change}");
        let report = store.verify().await.unwrap();
        assert!(report.problems[0].to_string().starts_with(&name), "{:?}", report.problems);
        let again =
            PreparedDocument { document_id: "a".to_owned(), version: 1, chunks: vec![span(0, 14, 1)] };
        store.save_prepared(made.generation.id, vec![again], vec![(hash(1), vec![0.25, 0.5])]).await.unwrap();
        close_sound(store).await;
    }
}

#[tokio::test]
async fn a_damaged_collection_is_skipped_and_named() {
    let list =
        async |store: &Store, _: &Collection| store.collections(&Caller::system()).await.unwrap().len();
    for change in ["settings = '{ }'", "name = 'd'", "next_operation = 2", "created_at = 7.0"] {
        check_skipped(&format!("UPDATE collections SET {change}"), list, (0, "collection 1")).await;
    }
    let generation = "UPDATE fingerprints SET fingerprint = 'n'";
    check_skipped(generation, list, (0, "generation of collection 1")).await;
}

#[tokio::test]
async fn a_damaged_document_is_skipped_by_lists_until_it_is_stored_again() {
    let damage = "UPDATE documents SET text = 'the first tent' WHERE id = 'a'";
    let list = async |store: &Store, made: &Collection| {
        view(store, made).documents_after("", 9, 9_999).await.unwrap().0.len()
    };
    check_skipped(damage, list, (1, "document \"a\" of collection 1 (row 1)")).await;

    let folder = tempfile::tempdir().unwrap();
    let (store, made) = altered(folder.path(), damage).await;
    assert_eq!(list(&store, &made).await, 1);
    let states =
        view(&store, &made).document_states(["a", "b", "c"].map(str::to_owned).to_vec()).await.unwrap();
    assert!(matches!(
        &states[..],
        [DocumentState::Damaged, DocumentState::Present(_), DocumentState::Absent]
    ));
    // the same content, which would be unchanged
    let job =
        accept(&store, &made, "k", &[document("a", "the first text"), document("b", "the second text")])
            .await;
    assert_eq!((job.changed, job.unchanged), (1, 1));
    assert_eq!((list(&store, &made).await, store.damaged_rows()), (2, vec![]));
    close_sound(store).await;
}

#[tokio::test]
async fn a_damaged_operation_is_taken_from_its_document_or_skipped_for_an_empty_index() {
    let folder = tempfile::tempdir().unwrap();
    let (store, made) = altered(folder.path(), "UPDATE operations SET checksum = 0").await;
    let view = view(&store, &made);
    let read = async |skip_to| {
        let operations = view.operations_to_index(0, 9, skip_to).await;
        operations.map(|all| all.into_iter().map(|one| one.document_id).collect::<Vec<_>>())
    };
    assert_eq!(read(0).await.unwrap(), ["a", "b"]);
    assert!(view.delete_document("a").await.unwrap().is_some());
    assert!(matches!(read(0).await, Err(Error::Damaged { what: "operation", .. })), "it may be a deletion");
    assert_eq!(read(3).await.unwrap(), ["b", "a"]);
}

#[tokio::test]
async fn an_empty_index_needs_the_operations_of_documents_that_exist() {
    let folder = tempfile::tempdir().unwrap();
    let (store, made) = filled(folder.path()).await;
    let view = view(&store, &made);
    let read = async |skip_to, limit| {
        let operations = view.operations_to_index(0, limit, skip_to).await.unwrap();
        operations.into_iter().map(|one| (one.number, one.document_id)).collect::<Vec<_>>()
    };
    let named = |number, id: &str| (number, id.to_owned());
    assert!(view.delete_document("a").await.unwrap().is_some());
    assert_eq!(read(0, 9).await, [named(1, "a"), named(2, "b"), named(3, "a")]);
    assert_eq!(read(3, 9).await, [named(2, "b"), named(3, "a")], "the last one is where the worker goes on");
    assert_eq!(read(2, 9).await, [named(2, "b"), named(3, "a")]);
    assert_eq!(read(3, 1).await, [named(2, "b")]);
}

#[tokio::test]
async fn a_store_whose_file_was_removed_acknowledges_nothing_until_it_is_back() {
    for name in ["store.sqlite3", "store.sqlite3-wal"] {
        let folder = tempfile::tempdir().unwrap();
        let (store, made) = filled(folder.path()).await;
        let (file, aside) = (folder.path().join(name), folder.path().join("aside"));
        std::fs::rename(&file, &aside).unwrap();
        let refused = view(&store, &made).delete_document("a").await;
        assert!(matches!(refused, Err(Error::Replaced { part }) if part == file.to_str().unwrap()));
        std::fs::copy(&aside, &file).unwrap();
        assert!(store.check().is_err(), "a copy is another file");
        std::fs::rename(&aside, &file).unwrap();
        assert!(view(&store, &made).document("a").await.unwrap().is_some(), "it was rolled back");
        assert!(view(&store, &made).delete_document("a").await.unwrap().is_some());
        close_sound(store).await;
    }
}

#[tokio::test]
async fn the_full_check_finds_rows_that_contradict_each_other() {
    let cases = [
        ("DELETE FROM documents WHERE id = 'b'", "document (its last operation contradicts it)"),
        ("DELETE FROM operations WHERE number = 2", "operation"),
        ("DELETE FROM documents WHERE id = 'a'", "chunk (its document or its generation is missing)"),
        ("DELETE FROM chunks", "embedding (no chunk refers to it)"),
    ];
    for (sql, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = altered(folder.path(), sql).await;
        let report = store.verify().await.unwrap();
        let is_expected = |p: &&Error| matches!(p, Error::Damaged { what, .. } if *what == expected);
        let Some(found) = report.problems.iter().find(is_expected) else {
            panic!("{sql}: {:?}", report.problems);
        };
        assert!(
            found.to_string().ends_with(" is damaged; restore the data directory from a backup"),
            "{found}"
        );
    }
}

/// Changes one byte of the closed file, at offsets spread over all pages. Reads then return the written content or an error, never other
/// content. A changed byte of an index can hide a row, which the full check finds.
#[tokio::test]
async fn a_flipped_byte_is_never_returned_as_content() {
    let folder = tempfile::tempdir().unwrap();
    let (store, made) = filled(folder.path()).await;
    let expected = read_everything(&store, &made).await.unwrap();
    store.close().await;
    let file = folder.path().join("store.sqlite3");
    let sound = std::fs::read(&file).unwrap();

    let (mut harmless, mut errors, mut hidden) = (0, 0, 0);
    // A prime step, so that the offsets vary within a page.
    for place in (0..sound.len()).step_by(97) {
        let mut bytes = sound.clone();
        bytes[place] ^= 1 << (place % 8);
        std::fs::write(&file, &bytes).unwrap();
        let Ok(store) = Store::open_sqlite(folder.path()) else {
            errors += 1;
            continue;
        };
        match read_everything(&store, &made).await {
            Err(_) => errors += 1,
            Ok(found) if found == expected => harmless += 1,
            Ok(found) => {
                let is_other =
                    found.iter().zip(&expected).any(|(found, expected)| found.is_some() && found != expected);
                assert!(!is_other, "byte {place}: {found:?}");
                let report = store.verify().await;
                assert!(
                    !report.is_ok_and(|report| report.is_sound()),
                    "byte {place} hid a row from the check"
                );
                hidden += 1;
            }
        }
    }
    println!("{harmless} harmless, {errors} detected by a read, {hidden} detected by the full check");
    assert!(harmless > 0 && errors > 0);
}

/// Everything that a replay reads, as text.
async fn read_everything(store: &Store, made: &Collection) -> weir_store::Result<[Option<String>; 5]> {
    let operations = view(store, made).operations_after(0, 10).await?;
    let documents = view(store, made).documents(vec!["a".to_owned(), "b".to_owned()]).await?;
    let embeddings = view(store, made).embeddings("m", vec![hash(1)]).await?;
    Ok([
        operations.first().map(|operation| format!("{operation:?}")),
        operations.get(1).map(|operation| format!("{operation:?}")),
        documents[0].as_ref().map(|document| format!("{document:?}")),
        documents[1].as_ref().map(|document| format!("{document:?}")),
        embeddings[0].as_ref().map(|embedding| format!("{embedding:?}")),
    ])
}
