//! Who does the work, and what becomes of it when a gateway or the database is gone.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Cluster, Member, wait};

fn long_text(number: usize) -> String {
    (0..400).map(|word| format!("word{} ", (word * 7 + number * 13) % 997)).collect()
}

fn documents(count: usize) -> Value {
    (0..count).map(|number| json!({"id": format!("d{number}"), "text": long_text(number)})).collect()
}

fn job(gateway: &Member, reply: &Value) -> Value {
    gateway.client.get(&format!("/v1/jobs/{}", reply["job_id"].as_str().unwrap())).1
}

#[test]
fn the_work_of_a_dead_gateway_goes_on_at_another() {
    let cluster = Cluster::start(2);
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    // the first one has the lease, and is gone with it
    one.ingest("?wait=true", &json!([{"id": "first", "text": "a first text"}]));
    one.signal(Signal::STOP);
    let reply = two.ingest("", &documents(30));
    let started = Instant::now();
    wait("the end of the job", || job(two, &reply)["status"] == "completed");
    assert!(started.elapsed() < Duration::from_secs(35), "{:?}", started.elapsed());
    // a late worker takes over what was done meanwhile, and changes nothing
    one.signal(Signal::CONT);
    wait("the documents at the late one", || one.document_count() == 31);
    let rows = cluster.server.count("SELECT count(*) FROM weir.jobs WHERE status <> 'completed'");
    assert_eq!(rows, 0);
    assert_eq!(one.found("word7", "hybrid"), two.found("word7", "hybrid"));
}

#[test]
fn a_job_is_cancelled_at_any_gateway() {
    let cluster = Cluster::start(2);
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    one.ingest("?wait=true", &json!([{"id": "first", "text": "a first text"}]));
    let reply = one.ingest("", &documents(400));
    let path = format!("/v1/jobs/{}/cancel", reply["job_id"].as_str().unwrap());
    let cancelled = two.client.send("POST", &path, Some(b"{}"));
    let ended = || job(two, &reply)["status"].as_str().unwrap().to_owned();
    match cancelled.status {
        409 => wait("the end", || ended() == "completed"),
        200 | 202 => wait("the end", || ended() == "cancelled"),
        other => panic!("{other} {}", cancelled.text),
    };
    // what both show is the same
    two.ingest("?wait=true", &json!([{"id": "last", "text": "a last text"}]));
    wait("equal counts", || one.document_count() == two.document_count());
}

#[test]
fn without_the_database_searches_go_on_and_writes_are_refused() {
    let mut cluster = Cluster::start(2);
    cluster.gateways[0].ingest("?wait=true", &json!([{"id": "a", "text": "the lighthouse of Bremen"}]));
    wait("the document", || cluster.gateways.iter().all(|one| one.found("lighthouse", "hybrid") == ["a"]));
    cluster.server.signal(Signal::KILL);
    for gateway in &cluster.gateways {
        let body = json!({"documents": [{"id": "b", "text": "the harbour"}]}).to_string();
        let refused = gateway.client.send("POST", "/v1/ingest", Some(body.as_bytes()));
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (503, &json!("store_unavailable")),
            "{}",
            refused.text
        );
        assert!(!refused.header("retry-after").is_empty());
        assert_eq!(gateway.found("lighthouse", "hybrid"), ["a"]);
    }
    cluster.server.restart();
    let body = json!({"documents": [{"id": "b", "text": "the harbour"}]});
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    wait("the database", || one.client.try_post("/v1/ingest", &body).is_some_and(|reply| reply.0 == 202));
    let took = wait("the new document at both", || {
        [one, two].iter().all(|gateway| gateway.found("harbour", "lexical") == ["b"])
    });
    println!("found at both after {took:?}");
}
