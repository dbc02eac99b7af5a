//! A document that fills a batch by itself is prepared beside the others, and they do not wait for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::configuration;
use super::scripted::{Answer, Upstream, error};
use crate::support::gateway::Gateway;

/// Texts with this word wait until they are released.
const HELD: &str = "held";

const SETTINGS: [(&str, &str); 4] = [
    ("WEIR_MODEL", ""),
    ("WEIR_INGEST_BATCH_TOKENS_MAX", "8192"),
    ("WEIR_CHUNKING_MAX_TOKENS", "40"),
    ("WEIR_CHUNKING_OVERLAP_TOKENS", "0"),
];

/// Some thousand chunks. The last one is held.
fn large_text() -> String {
    let sentences = (0..8_000).map(|number| format!("Sentence number {number} of the large document. "));
    sentences.chain([format!("At the end it is {HELD}.")]).collect()
}

fn holding(is_held: &Arc<AtomicBool>) -> Upstream {
    let is_held = is_held.clone();
    Upstream::start(move |_, asked| {
        let started = Instant::now();
        while asked.texts().iter().any(|text| text.contains(HELD))
            && is_held.load(Ordering::Relaxed)
            && started.elapsed() < Duration::from_secs(100)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        Answer::Embeddings
    })
}

/// A gateway over `folder` whose model is at `upstream`.
fn start(folder: &Path, upstream: &Upstream) -> Gateway {
    let file = configuration("openai", &upstream.url, "dimension = 4");
    let mut variables = SETTINGS.to_vec();
    variables.push(("WEIR_CONFIG", file.path().to_str().unwrap()));
    let gateway = Gateway::start_in(folder, &variables);
    gateway.wait_until_ready();
    gateway
}

/// Sends documents; the path of their job.
fn send(gateway: &Gateway, documents: Value) -> String {
    let (status, job) = gateway.try_post("/v1/ingest", &json!({"documents": documents})).unwrap();
    assert_eq!(status, 202, "{job}");
    format!("/v1/jobs/{}", job["job_id"].as_str().unwrap())
}

fn found(gateway: &Gateway, text: &str) -> Vec<String> {
    let hits = gateway.search(text, "lexical");
    hits.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

fn wait_for(gateway: &Gateway, text: &str, id: &str) {
    gateway.wait(id, || found(gateway, text).contains(&id.to_owned()));
}

#[test]
fn documents_after_a_large_one_are_searchable_before_it_and_the_job_shows_how_far_it_is() {
    let (folder, is_held) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(true)));
    let upstream = holding(&is_held);
    let gateway = start(folder.path(), &upstream);
    let job =
        send(&gateway, json!([{"id": "large", "text": large_text()}, {"id": "a", "text": "aaaa weirs"}]));
    wait_for(&gateway, "aaaa", "a");
    let later = send(&gateway, json!([{"id": "b", "text": "eeee weirs"}]));
    wait_for(&gateway, "eeee", "b");
    gateway.wait("its chunks", || gateway.get(&job).1["progress"].as_f64().unwrap() > 0.6);
    let state = gateway.get(&job).1;
    assert_eq!((&state["status"], &state["processed_documents"]), (&json!("running"), &json!(1)), "{state}");
    assert!(state["progress"].as_f64().unwrap() < 1.0, "{state}");
    assert_eq!(found(&gateway, "sentence"), Vec::<String>::new());

    is_held.store(false, Ordering::Relaxed);
    for path in [&job, &later] {
        gateway.wait("the jobs", || gateway.get(path).1["status"] == "completed");
        assert_eq!(gateway.get(path).1["progress"], 1.0);
    }
    assert_eq!(found(&gateway, HELD), ["large"]);
    assert_eq!((found(&gateway, "aaaa"), found(&gateway, "eeee")), (vec!["a".into()], vec!["b".into()]));
}

#[test]
fn a_large_document_that_is_replaced_or_deleted_meanwhile_is_not_shown() {
    let (folder, is_held) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(true)));
    let upstream = holding(&is_held);
    let gateway = start(folder.path(), &upstream);
    let jobs = ["x", "y"].map(|id| send(&gateway, json!([{"id": id, "text": large_text()}])));
    gateway.wait("both", || jobs.iter().all(|job| gateway.get(job).1["progress"].as_f64().unwrap() > 0.5));
    send(&gateway, json!([{"id": "x", "text": "oooo weirs"}]));
    assert_eq!(gateway.try_delete("y").unwrap().0, 200);
    for job in &jobs {
        gateway.wait("the jobs, although it is held", || gateway.get(job).1["status"] == "completed");
    }
    is_held.store(false, Ordering::Relaxed);
    gateway.wait_until_searchable();
    assert_eq!((found(&gateway, "oooo"), found(&gateway, HELD)), (vec!["x".into()], vec![]));
    assert_eq!(gateway.document_count(), 1);
}

#[test]
fn a_large_document_goes_on_after_a_restart_where_it_was() {
    let (folder, is_held) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(true)));
    let upstream = holding(&is_held);
    let gateway = start(folder.path(), &upstream);
    let job =
        send(&gateway, json!([{"id": "large", "text": large_text()}, {"id": "a", "text": "aaaa weirs"}]));
    gateway.wait("its chunks", || gateway.get(&job).1["progress"].as_f64().unwrap() > 0.7);
    wait_for(&gateway, "aaaa", "a");
    gateway.weir.terminate();
    is_held.store(false, Ordering::Relaxed);
    let asked_before: usize = upstream.asked().iter().map(|asked| asked.texts().len()).sum();

    let gateway = start(folder.path(), &upstream);
    gateway.wait("the job", || gateway.get(&job).1["status"] == "completed");
    let asked: usize = upstream.asked().iter().map(|asked| asked.texts().len()).sum();
    let chunks = gateway.get(&job).1["chunks"].as_u64().unwrap() as usize;
    assert!(asked - asked_before < chunks / 2, "{asked_before} then {asked} for {chunks} chunks");
    assert_eq!((found(&gateway, HELD), found(&gateway, "aaaa")), (vec!["large".into()], vec!["a".into()]));
    assert_eq!(gateway.document_count(), 2);
}

#[test]
fn a_document_that_is_deleted_while_the_first_one_is_prepared_stays_deleted_after_a_restart() {
    let (folder, is_held) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(true)));
    let upstream = holding(&is_held);
    let gateway = start(folder.path(), &upstream);
    let sentences: String =
        (0..1_000).map(|number| format!("Sentence number {number} of a large document. ")).collect();
    let large =
        |number: usize| json!({"id": format!("large{number}"), "text": format!("{sentences} It is {HELD}.")});
    let mut documents = vec![large(0), json!({"id": "a", "text": "aaaa weirs"})];
    // enough large documents that the worker reads no operation after them yet
    documents.extend((1..8).map(large));
    send(&gateway, json!(documents));
    wait_for(&gateway, "aaaa", "a");
    assert_eq!(gateway.try_delete("a").unwrap().0, 200);
    send(&gateway, json!([{"id": "b", "text": "bbbb weirs"}]));
    gateway.weir.terminate();

    let gateway = start(folder.path(), &upstream);
    assert_eq!(found(&gateway, "aaaa"), Vec::<String>::new());
    is_held.store(false, Ordering::Relaxed);
    wait_for(&gateway, "bbbb", "b");
    assert_eq!(found(&gateway, "aaaa"), Vec::<String>::new());
}

#[test]
fn a_large_document_that_the_model_refuses_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(|_, asked| match asked.texts().iter().any(|text| text.contains(HELD)) {
        true => error(400),
        false => Answer::Embeddings,
    });
    let gateway = start(folder.path(), &upstream);
    let job =
        send(&gateway, json!([{"id": "large", "text": large_text()}, {"id": "a", "text": "aaaa weirs"}]));
    for number in 0..5 {
        send(&gateway, json!([{"id": number.to_string(), "text": format!("eeee {number}")}]));
    }
    gateway.wait("the job", || gateway.get(&job).1["status"] == "completed");
    let state = gateway.get(&job).1;
    assert_eq!(
        (&state["failed_documents"], &state["errors"][0]["document_id"]),
        (&json!(1), &json!("large"))
    );
    gateway.wait_until_searchable();
    assert_eq!((found(&gateway, "aaaa"), found(&gateway, "eeee").len()), (vec!["a".into()], 3));
}
