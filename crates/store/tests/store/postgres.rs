//! The contract with PostgreSQL, and tests of the server: what is refused at the start, failures, several stores over one database.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio_postgres::NoTls;
use weir_store::{Change, Collection, Error, Location, PreparedDocument, Store};

use crate::contract::changes::wait_for as wait_for_change;
use crate::contract::{Caller, accept, close_sound, collection, document, hash, span, view};

use crate::throughput::measure;

#[path = "../../../telemetry/tests/telemetry/request_log/postgres_server.rs"]
#[allow(dead_code, reason = "the tests of the request log use more of it")]
mod postgres_server;
use postgres_server::Postgres;

crate::contract!(contract_in_turn!, databases);

/// A function that makes a database of a name and opens its store.
fn databases() -> impl Fn(&str) -> Box<dyn Fn() -> Store> {
    let server = Postgres::start();
    move |name| {
        let url = database(&server, name);
        Box::new(move || wait_for(open(&url)).unwrap())
    }
}

fn wait_for<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}

async fn open(url: &str) -> weir_store::Result<Store> {
    Store::open(&Location::database(url)?).await
}

/// Creates a database; its address.
fn database(server: &Postgres, name: &str) -> String {
    let name = name.get(..60).unwrap_or(name);
    wait_for(execute(&server.url(), &format!("CREATE DATABASE {name}")));
    format!("postgresql://weir@127.0.0.1:{}/{name}", server.port)
}

async fn execute(url: &str, sql: &str) {
    let until = Instant::now() + Duration::from_secs(30);
    let (client, connection) = loop {
        match tokio_postgres::connect(url, NoTls).await {
            Ok(connected) => break connected,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let driver = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    driver.abort();
}

/// As that of SQLite, with a server that syncs each commit: `cargo test --release -p weir-store --test store -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: run it by name, alone"]
async fn accept_rate_of_postgres() {
    let server = Postgres::start_durable();
    measure(open(&database(&server, "rate")).await.unwrap(), 1000).await;
}

/// A store with one prepared document `a` (version 1) and a second one `b`.
async fn filled(store: &Store) -> Collection {
    let made = collection(store, "c").await;
    accept(store, &made, "j", &[document("a", "the first text"), document("b", "the second text")]).await;
    let prepared = PreparedDocument { document_id: "a".to_owned(), version: 1, chunks: vec![span(0, 14, 1)] };
    store.save_prepared(made.generation.id, vec![prepared], vec![(hash(1), vec![0.25, 0.5])]).await.unwrap();
    made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_does_not_fit_is_refused_at_the_start() {
    let server = Postgres::start();
    for (name, sql, expected) in [
        ("old_encoding", "", "has the encoding SQL_ASCII; create one with UTF8"),
        (
            "read_only",
            "ALTER DATABASE read_only SET default_transaction_read_only TO on",
            "is read-only; name the primary",
        ),
        ("newer", "", "the store has format 999, this weir knows formats up to"),
    ] {
        let create = match name {
            "old_encoding" => {
                format!("CREATE DATABASE {name} ENCODING SQL_ASCII LOCALE 'C' TEMPLATE template0")
            }
            _ => format!("CREATE DATABASE {name}"),
        };
        execute(&server.url(), &create).await;
        let url = format!("postgresql://weir@127.0.0.1:{}/{name}", server.port);
        if name == "newer" {
            open(&url).await.unwrap().close().await;
            execute(&url, "UPDATE weir.format SET format = 999").await;
        }
        execute(&url, sql).await;
        let error = open(&url).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
    let missing = format!("postgresql://weir:S3cret@127.0.0.1:{}/missing", server.port);
    let error = open(&missing).await.unwrap_err();
    let shown = format!("{error} {error:?} {:?}", Location::database(&missing));
    assert!(shown.contains("database \"missing\" does not exist") && !shown.contains("S3cret"), "{shown}");
    let error = Location::database("postgresql://weir:S3cret@127.0.0.1:x/").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("S3cret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_belongs_to_one_service() {
    let server = Postgres::start();
    let [one, two] = ["one", "two"].map(|name| database(&server, name));
    let folder = tempfile::tempdir().unwrap();
    let at =
        |url: &str| Location::database(url).map(|location| location.with_data_dir(folder.path())).unwrap();
    let store = Store::open(&at(&one)).await.unwrap();
    assert!(store.is_shared());
    let again = Store::open(&at(&one)).await.unwrap_err();
    assert!(matches!(again, Error::InUse { .. }), "{again}");
    // commands need no data directory
    open(&one).await.unwrap().close().await;
    store.close().await;
    Store::open(&at(&one)).await.unwrap().close().await;
    let check = |refused: weir_store::Result<Store>, expected: &str| {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::OtherService(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(Store::open(&at(&two)).await, "name the database of this service, or choose another --data-dir");
    check(Store::open_sqlite(folder.path()), "whose store is a PostgreSQL database; name it in `store.url`");

    let own = tempfile::tempdir().unwrap();
    let sqlite = Store::open_sqlite(own.path()).unwrap();
    collection(&sqlite, "c").await;
    sqlite.clone().close().await;
    drop(sqlite);
    let at_own =
        |url: &str| Location::database(url).map(|location| location.with_data_dir(own.path())).unwrap();
    check(Store::open(&at_own(&one)).await, "has a store of its own");
    let sqlite = Store::open_sqlite(own.path()).unwrap();
    let three = database(&server, "three");
    let copied = open(&three).await.unwrap();
    sqlite.copy_to(&copied).await.unwrap();
    copied.close().await;
    sqlite.close().await;
    Store::open(&at_own(&three)).await.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_row_is_reported() {
    let server = Postgres::start();
    let url = database(&server, "damaged");
    let store = open(&url).await.unwrap();
    let made = filled(&store).await;
    for (sql, expected) in [
        (
            "UPDATE weir.documents SET text = 'the first tent' WHERE id = 'a'",
            "document \"a\" of collection 1 (row 1)",
        ),
        (
            "UPDATE weir.documents SET text = E'\\x01' WHERE id = 'b'",
            "document \"b\" of collection 1 (row 2)",
        ),
        ("UPDATE weir.operations SET kind = 'delete' WHERE number = 2", "operation 2 of collection 1"),
        ("UPDATE weir.chunks SET \"start\" = 1", "chunk 0 of document row 1 in generation 1"),
        ("UPDATE weir.embeddings SET checksum = 0", "embedding of text hash 0101"),
        ("DELETE FROM weir.chunks", "embedding (no chunk refers to it) 0101"),
    ] {
        execute(&url, sql).await;
        let report = store.verify().await.unwrap();
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{expected}: {problems:?}");
    }
    assert!(matches!(view(&store, &made).document("a").await, Err(Error::Damaged { what: "document", .. })));
    execute(&url, "DROP TABLE weir.chunks").await;
    let error = view(&store, &made).delete_document("b").await.unwrap_err();
    assert!(error.to_string().contains("relation \"chunks\" does not exist"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stops_is_unavailable_until_it_is_back() {
    let mut server = Postgres::start();
    let url = database(&server, "stopped");
    let store = open(&url).await.unwrap();
    let made = filled(&store).await;
    let view = view(&store, &made);
    server.signal(Signal::KILL);
    let started = Instant::now();
    for _ in 0..20 {
        let error = view.delete_document("a").await.unwrap_err();
        assert!(error.retry_after().is_some(), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(store.check().unwrap_err().retry_after().is_some());
    tokio::task::block_in_place(|| server.restart());
    let until = Instant::now() + Duration::from_secs(30);
    // it recovers, and refuses connections meanwhile
    while let Err(error) = view.document("a").await {
        assert!(error.retry_after().is_some() && Instant::now() < until, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(view.delete_document("a").await.unwrap().is_some());
    store.check().unwrap();
    close_sound(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_copied_into_another_database_and_back() {
    let server = Postgres::start();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, last] = folders.each_ref().map(|folder| Store::open_sqlite(folder.path()).unwrap());
    let gone = collection(&first, "gone").await;
    assert!(view(&first, &gone).delete_collection(1.0).await.unwrap());
    let made = filled(&first).await;
    let odd = ["\0", "a\0b", "\u{1}", "é", ""].map(|id| document(id, id));
    accept(&first, &made, "odd", &odd).await;
    assert!(view(&first, &made).delete_document("b").await.unwrap().is_some());
    let middle = open(&database(&server, "copy")).await.unwrap();
    let rows = first.copy_to(&middle).await.unwrap();
    assert!(rows > 20, "{rows}");
    let again = first.copy_to(&middle).await.unwrap_err();
    assert!(again.to_string().contains("`service` has rows already"), "{again}");
    assert_eq!(middle.copy_to(&last).await.unwrap(), rows);
    for store in [first, middle, last] {
        assert_eq!(store.collection(&Caller::system(), "c").await.unwrap().unwrap().last_operation, 8);
        let ids: Vec<String> = view(&store, &made)
            .documents_after("", 9, 999)
            .await
            .unwrap()
            .0
            .into_iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(ids, ["\0", "\u{1}", "a", "a\0b", "é"].map(str::to_owned));
        assert_eq!(collection(&store, "new").await.id.0, made.id.0 + 1, "ids go on");
        let job = accept(&store, &made, "next", &[document("next", "text")]).await;
        assert_eq!(job.last_operation, 9);
        close_sound(store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_gateways_share_one_store() {
    let server = Postgres::start();
    let url = database(&server, "shared");
    let (one, two) = tokio::join!(open(&url), open(&url));
    let stores = [one.unwrap(), two.unwrap()];
    let (made, again) = tokio::join!(collection(&stores[0], "c"), collection(&stores[1], "c"));
    assert_eq!(made, again);
    let writers = (0..4).map(|writer| {
        let (store, made) = (stores[writer % 2].clone(), made.clone());
        tokio::spawn(async move {
            for round in 0..10 {
                let name = |n| format!("{writer}-{round}-{n}");
                let job =
                    accept(&store, &made, &name(9), &[0, 1, 2].map(|n| document(&name(n), "text"))).await;
                let chunks = vec![span(0, 4, 1 + round), span(1, 4, 200)];
                let prepared = (job.last_operation - 2..=job.last_operation).zip(0..).map(|(version, n)| {
                    PreparedDocument { document_id: name(n), version, chunks: chunks.clone() }
                });
                let embeddings = vec![(hash(1 + round), vec![0.5]), (hash(200), vec![0.25])];
                store.save_prepared(made.generation.id, prepared.collect(), embeddings).await.unwrap();
                store.record_applied(made.generation.id, job.last_operation, 3.0).await.unwrap();
                assert!(view(&store, &made).delete_document(&name(1)).await.unwrap().is_some());
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let [one, two] = stores;
    let operations = view(&two, &made).operations_after(0, 1_000).await.unwrap();
    assert!(operations.iter().map(|operation| operation.number).eq(1..=160));
    let documents = view(&one, &made).documents_after("", 1_000, usize::MAX).await.unwrap().0;
    assert_eq!(documents.len(), 80);
    assert!(documents.iter().all(|document| document.chunks.len() == 2));
    let mut changes = two.changes();
    assert!(view(&one, &made).delete_collection(4.0).await.unwrap());
    wait_for_change(&mut changes, Change::Collections).await;
    assert_eq!(two.collection(&Caller::system(), "c").await.unwrap(), None);
    one.close().await;
    let report = two.verify().await.unwrap();
    assert_eq!((report.is_sound(), report.embeddings, report.documents), (true, 0, 0));
}
