//! Durability of the real binary: killed at random instants, and traced to see that it syncs before it acknowledges.
//!
//! The number of kill rounds is 20, or `WEIR_CRASH_ROUNDS` if it is set; `make crash` has 50.

pub(crate) mod expectations;
mod synced;
mod uploads;
mod watching;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::client::Client;
use crate::support::process::Weir;
use expectations::{Expectations, Random};
use uploads::Uploads;
use watching::Watching;
use weir_policy::Caller;

/// Threads that write at the same time, each to ids of its own.
const WRITERS: u64 = 3;

/// Gateways that are killed at the same time, each with its own folder.
const GATEWAYS: u64 = 2;

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_there() {
    let rounds = rounds();
    let [acknowledged, files, cancelled] = std::thread::scope(|scope| {
        let begin =
            |number| scope.spawn(move || kill_again_and_again(7 + number, (rounds + number) / GATEWAYS));
        let running: Vec<_> = (0..GATEWAYS).map(begin).collect();
        let counts = running.into_iter().map(|gateway| gateway.join().unwrap());
        counts.fold([0; 3], |sum: [u64; 3], one| std::array::from_fn(|n| sum[n] + one[n]))
    });
    println!(
        "crash loop: {rounds} rounds, {acknowledged} acknowledged operations, {files} files, {cancelled} cancelled jobs, 0 lost, 0 doubled"
    );
}

/// Returns how many operations were acknowledged, files uploaded and jobs cancelled.
fn kill_again_and_again(seed: u64, rounds: u64) -> [u64; 3] {
    let folder = tempfile::tempdir().unwrap();
    let mut all: Vec<Expectations> = (0..WRITERS).map(Expectations::new).collect();
    let (mut uploads, mut watching) = (Uploads::new(), Watching::new(seed));
    let mut random = Random(seed);
    for round in 0..rounds {
        let weir = Weir::start_with(folder.path(), &uploads::SETTINGS);
        let checked = Client::new(&weir.url);
        checked.wait_until_ready();
        // deletions hold before anything else is caught up with
        all.iter_mut().for_each(|expectations| expectations.check_acknowledged(&checked));
        uploads.check(&checked);
        watching.follow(&weir.url);
        checked.wait_until_searchable();
        all.iter_mut().for_each(|expectations| expectations.check_searchable(&checked));
        check_counts(&checked, &all);

        let stop = Arc::new(AtomicBool::new(false));
        let instant = Duration::from_millis(20 + random.below(500));
        std::thread::scope(|scope| {
            for expectations in &mut all {
                let (stop, client) = (stop.clone(), Client::new(&weir.url));
                scope.spawn(move || expectations.write_until(&client, &stop));
            }
            let (stopped, client) = (stop.clone(), Client::new(&weir.url));
            let uploads = &mut uploads;
            scope.spawn(move || uploads.write_until(&client, &stopped));
            watching.change();
            std::thread::sleep(instant);
            if round % 5 == 4 {
                weir.terminate(); // graceful: what was accepted is answered
            } else {
                weir.kill();
            }
            stop.store(true, Ordering::Relaxed);
        });
        match round % 4 {
            2 => std::fs::remove_dir_all(folder.path().join("index")).unwrap(),
            3 => flip_a_byte(&folder.path().join("index"), &mut random),
            _ => {}
        }
    }
    let acknowledged: u64 = all.iter().map(|expectations| expectations.acknowledged).sum();
    check_at_rest(folder.path(), &mut all, &mut uploads, &mut watching);
    let (files, cancelled) = uploads.counts();
    assert!(acknowledged > rounds && files > rounds, "the writers got nothing done");
    [acknowledged, files, cancelled]
}

fn rounds() -> u64 {
    #[allow(clippy::disallowed_methods, reason = "how long the test runs; no setting of the product")]
    let said = std::env::var("WEIR_CRASH_ROUNDS").ok();
    said.map_or(20, |text| text.parse().expect("WEIR_CRASH_ROUNDS is a number"))
}

/// What the collection says of itself is exactly what it should hold.
pub(crate) fn check_counts(client: &Client, all: &[Expectations]) {
    let collection = client.get("/v1/collections/default").1;
    let live: Vec<String> = all.iter().flat_map(Expectations::live).collect();
    assert_eq!(collection["document_count"], live.len());
    let chunks: u64 = live.iter().map(|id| client.document(id).unwrap()["chunks"].as_u64().unwrap()).sum();
    assert_eq!(collection["chunk_count"], chunks);
}

/// Opens what the last round left, lets it catch up, stops it, and checks every row and every file.
fn check_at_rest(folder: &Path, all: &mut [Expectations], uploads: &mut Uploads, watching: &mut Watching) {
    let weir = Weir::start_with(folder, &uploads::SETTINGS);
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    client.wait_until_searchable();
    all.iter_mut().for_each(|expectations| expectations.check_acknowledged(&client));
    all.iter_mut().for_each(|expectations| expectations.check_searchable(&client));
    check_counts(&client, all);
    uploads.check(&client);
    uploads.check_at_rest(&client);
    watching.follow(&weir.url);
    watching.check_at_rest(&client);
    weir.terminate();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = weir_store::Store::open_sqlite(folder).unwrap();
        let report = store.verify().await.unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
        let collection = store.collection(&Caller::system(), "default").await.unwrap().unwrap();
        let id = weir_index::EngineId {
            kind: weir_index::EngineKind::Embedded,
            collection: collection.id.0,
            generation: collection.generation.id.0,
        };
        let settings = weir_index::EngineSettings {
            dimension: 384,
            language: weir_text::Language::English,
            fingerprint: collection.generation.fingerprint.clone(),
            writer_memory_bytes: 15_000_000,
        };
        let limiter = weir_index::CpuLimiter::start(1, || ()).unwrap();
        let engines = weir_index::Engines::embedded(folder.join("index"), limiter, 1);
        let opened = engines.open(id, settings, collection.last_operation).await.unwrap();
        assert!(opened.rebuilt.is_none(), "the index did not survive a graceful stop");
        let report = opened.engine.verify().await.unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
        assert_eq!(opened.engine.applied_seq(), collection.last_operation);
    });
}

/// Changes one byte of one file of the index.
fn flip_a_byte(index: &Path, random: &mut Random) {
    let mut files = Vec::new();
    let mut folders = vec![index.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let is_ours = entry.file_name().is_some_and(|name| name != "lexical");
            match entry.is_dir() {
                true if is_ours => folders.push(entry),
                false if std::fs::metadata(&entry).unwrap().len() > 0 => files.push(entry),
                _ => {}
            }
        }
    }
    files.sort();
    let file = &files[random.below(files.len() as u64) as usize];
    let mut bytes = std::fs::read(file).unwrap();
    let at = random.below(bytes.len() as u64) as usize;
    bytes[at] ^= 0x40;
    std::fs::write(file, bytes).unwrap();
}
