//! Throughput of durable submissions. Runs at tiny size as a test, so that it stays correct; at real size by
//! `cargo test --release -p weir-store --test store -- --ignored --nocapture`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing helper fails the test; the figures are its output"
)]

use std::time::{Duration, Instant};

use weir_policy::Caller;
use weir_store::{NewDocument, Store, StoreView, Submission};

/// A submission of new documents with 1 KB of text each.
fn submission(job: &str, documents: usize) -> Submission {
    let text = |n: usize| format!("{job} {n} ").repeat(1024).chars().take(1024).collect();
    let document = |n| NewDocument {
        id: format!("{job}-{n}"),
        title: Some("a title".to_owned()),
        text: text(n),
        metadata: "{}".to_owned(),
        ..NewDocument::default()
    };
    Submission {
        job_id: job.to_owned(),
        documents: (0..documents).map(document).collect(),
        ..Submission::default()
    }
}

/// Runs `callers` concurrent tasks with `rounds` submissions each; returns the duration of each submission.
async fn ingest(view: &StoreView, callers: usize, rounds: usize, batch: usize) -> Vec<Duration> {
    let spawn = |caller: usize| {
        let view = view.clone();
        tokio::spawn(async move {
            let mut times = Vec::new();
            for round in 0..rounds {
                let submission = submission(&format!("{callers}-{batch}-{caller}-{round}"), batch);
                let start = Instant::now();
                view.accept(submission, 1.0).await.unwrap().unwrap();
                times.push(start.elapsed());
            }
            times
        })
    };
    let mut times = Vec::new();
    for caller in (0..callers).map(spawn).collect::<Vec<_>>() {
        times.extend(caller.await.unwrap());
    }
    times
}

/// Prints one line per combination of callers and batch size; returns the number of stored documents.
pub(crate) async fn measure(store: Store, submissions: usize) -> usize {
    let (collection, _) = store.create_collection("c", "{}", "", 1.0).await.unwrap();
    let view = store.view(&Caller::system(), &collection).unwrap();
    for (callers, batch) in [(1, 1), (16, 1), (64, 1), (1, 100), (8, 100)] {
        let start = Instant::now();
        let mut times = ingest(&view, callers, submissions.div_ceil(callers), batch).await;
        let documents = (times.len() * batch) as f64 / start.elapsed().as_secs_f64();
        times.sort_unstable();
        let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!(
            "{callers:3} callers, batches of {batch:3}: {documents:8.0} documents/s, p50 {p50:.2?}, p99 {p99:.2?}"
        );
    }
    let count = view.documents_after("", usize::MAX, usize::MAX).await.unwrap().0.len();
    store.close().await;
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_submissions_are_all_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(folder.path()).unwrap();
    assert_eq!(measure(store, 4).await, 4 + 16 + 64 + 400 + 800);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: run it by name, alone"]
async fn accept_rate() {
    let folder = tempfile::tempdir().unwrap();
    measure(Store::open_sqlite(folder.path()).unwrap(), 1000).await;
}
