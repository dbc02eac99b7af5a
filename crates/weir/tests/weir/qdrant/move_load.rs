//! A collection is moved into the cluster and back under a constant rate of searches.
//!
//! It has 600 chunks, or `WEIR_MOVE_CHUNKS` if it is set; `make move` has 20,000.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_qdrant_mock::Cluster;

use super::moves::embedded;
use super::{create, search, shown, start_in};
use crate::cluster::fleet::End;
use crate::cluster::pace::Pace;
use crate::support::client::Client;

const SEARCHES_PER_S: u32 = 50;
const SEARCHERS: usize = 8;
/// How long a move may take.
const MOVE_MAX: Duration = Duration::from_secs(1_200);
/// Documents of one request.
const BATCH: usize = 500;
/// Words that a note has in its number of times each 50th note has them: searches read what they find.
const WORDS: [&str; 7] = ["weir", "sluice", "eel", "bream", "lock", "crest", "mill"];

fn chunks() -> usize {
    #[allow(clippy::disallowed_methods, reason = "how much the test moves; no setting of the product")]
    let said = std::env::var("WEIR_MOVE_CHUNKS").ok();
    said.map_or(600, |text| text.parse().expect("WEIR_MOVE_CHUNKS is a number"))
}

fn note(number: usize) -> Value {
    let words = ["river", "bank", "stone"].map(|word| format!("{word} ")).concat().repeat(number % 5);
    let text = format!("note n{number} {}{} {words}", WORDS[number % 7], number % 50);
    json!({"id": format!("n{number}"), "text": text})
}

/// A reply: when it came, how long it took, and the first hits with their scores.
struct Answer {
    query: String,
    took: Duration,
    hits: Vec<String>,
}

fn ask(client: &Client, query: &str) -> Answer {
    let started = Instant::now();
    let (status, reply) = search(client, "notes", &json!({"query": query, "mode": "lexical", "top_k": 10}));
    assert_eq!(status, 200, "{reply}");
    let took = started.elapsed();
    let hits = reply["results"].as_array().unwrap().iter();
    let hits = hits.map(|hit| format!("{} {}", hit["id"], hit["score"])).collect();
    Answer { query: query.to_owned(), took, hits }
}

fn query(number: u64) -> String {
    let number = number as usize;
    format!("{}{} stone", WORDS[number % 7], number % 50)
}

/// What every query finds.
fn all_rankings(client: &Client) -> Vec<Vec<String>> {
    (0..350).map(|number| ask(client, &query(number)).hits).collect()
}

fn percentile(took: &mut [Duration], part: f64) -> Duration {
    took.sort_unstable();
    took[((took.len() - 1) as f64 * part) as usize]
}

#[test]
fn no_search_fails_and_none_is_mixed_while_chunks_are_moved_there_and_back() {
    let (nodes, folder, chunks) = (Cluster::start(3, None).unwrap(), tempfile::tempdir().unwrap(), chunks());
    let gateway = start_in(folder.path(), &nodes);
    create(&gateway, "notes", &json!({"chunking": {"policy": "none"}}));
    for from in (0..chunks).step_by(BATCH) {
        let documents: Vec<Value> = (from..chunks.min(from + BATCH)).map(note).collect();
        let body = json!({"collection": "notes", "documents": documents});
        assert_eq!(gateway.try_post("/v1/ingest", &body).unwrap().0, 202);
    }
    gateway.wait("all notes", || shown(&gateway, "notes")["chunk_count"] == json!(chunks));
    let texts = embedded(&gateway);
    for engine in ["qdrant", "embedded"] {
        let before = all_rankings(&gateway);
        let (stop, answers, pace) =
            (AtomicBool::new(false), Mutex::new(Vec::new()), Pace::new(SEARCHES_PER_S));
        let (took, ran) = std::thread::scope(|scope| {
            for _ in 0..SEARCHERS {
                let (stop, answers, pace) = (&stop, &answers, &pace);
                let client = Client::new(&gateway.weir.url);
                scope.spawn(move || {
                    while let Some(number) = pace.wait(stop) {
                        let answer = ask(&client, &query(number));
                        answers.lock().unwrap().push((number, answer));
                    }
                });
            }
            let _ended = End(&stop);
            let (begun, path) = (Instant::now(), "/v1/collections/notes?move=true");
            let body = json!({"engine": engine}).to_string();
            let moved = gateway.send("PUT", path, Some(body.as_bytes()));
            assert_eq!(moved.status, 200, "{}", moved.text);
            loop {
                let shown = shown(&gateway, "notes");
                assert_eq!(shown["chunk_count"], json!(chunks), "{shown}");
                if shown["status"] == "ready" {
                    break;
                }
                assert!(begun.elapsed() < MOVE_MAX, "waited too long for the next index: {shown}");
                std::thread::sleep(Duration::from_millis(50));
            }
            let took = begun.elapsed();
            std::thread::sleep(Duration::from_secs(1));
            (took, begun.elapsed())
        });
        let (after, answers) = (all_rankings(&gateway), answers.into_inner().unwrap());
        let (mut of_before, mut of_after) = (0, 0);
        for (number, answer) in &answers {
            let place = (number % 350) as usize;
            match (answer.hits == before[place], answer.hits == after[place]) {
                (false, false) => panic!("{}: {:?} is of no index", answer.query, answer.hits),
                (true, false) => of_before += 1,
                (false, true) => of_after += 1,
                (true, true) => {}
            }
        }
        assert!(of_before > 0 && of_after > 0, "{of_before} and {of_after}: searches of both indexes");
        let mut times: Vec<Duration> = answers.iter().map(|(_, answer)| answer.took).collect();
        println!(
            "{chunks} chunks moved to {engine} in {:.1} s; searches: {}, p50 {:.1?}, p99 {:.1?}; {of_before} certainly of the index before, {of_after} of the \
             next one, none failed and none mixed",
            took.as_secs_f64(),
            pace.report(answers.len() as u64, ran),
            percentile(&mut times, 0.5),
            percentile(&mut times, 0.99),
        );
        assert_eq!(embedded(&gateway), texts, "nothing is embedded again");
    }
}
