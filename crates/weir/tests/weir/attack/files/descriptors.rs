//! Many collections in one gateway.

use std::process::Command;
use std::time::Instant;

use serde_json::json;

use crate::attack::{held, rounds};
use crate::support::client::Client;
use crate::support::documented::check_error;
use crate::support::process::Weir;

/// Resident memory of a gateway with a thousand collections.
const RSS_MIB_MAX: u64 = 100;

#[test]
fn a_thousand_collections_need_few_descriptors_and_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let count = rounds(40, 1_000);
    // a small run is to close indexes too
    let open_max = rounds(8, 256);
    let variables = [("WEIR_INDEX_OPEN_MAX", &*open_max.to_string())];
    let weir = Weir::start_with(folder.path(), &variables);
    let client = Client::new(&weir.url);
    let before = weir.descriptors();
    (0..count).for_each(|number| assert_eq!(create(&client, number), 201));
    // each holds a document, also those whose files were closed since they were created
    for number in (0..count).step_by(count / 20) {
        let document =
            json!({"collection": name(number), "documents": [{"id": "a", "text": format!("weir {number}")}]});
        let body = document.to_string();
        assert_eq!(client.send("POST", "/v1/ingest?wait=true", Some(body.as_bytes())).status, 202);
    }
    let created = weir.descriptors();
    assert!(created <= before + 3 * open_max + 20, "{created} descriptors after {before}");
    weir.terminate();

    let started = Instant::now();
    let weir = Weir::start_with(folder.path(), &variables);
    let took = started.elapsed();
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    for number in (0..count).step_by(count / 20) {
        let body = json!({"collection": name(number), "query": "weir", "mode": "lexical"});
        let (status, reply) = client.try_post("/v1/search", &body).unwrap();
        assert_eq!((status, &reply["results"][0]["id"]), (200, &json!("a")), "{reply}");
    }
    let listed = client.get("/v1/collections").1["data"].as_array().unwrap().len();
    assert_eq!(listed, count + 1, "with `default`");
    let (open, rss) = (weir.descriptors(), weir.rss_mib());
    assert!(open <= before + 3 * open_max + 20, "{open} descriptors after {before}");
    if count == 1_000 {
        assert!(created <= 1_500 && open <= 1_500, "{created} and {open} descriptors");
        assert!(rss <= RSS_MIB_MAX, "{rss} MiB");
        assert!(took.as_millis() <= 1_000, "the start took {took:?}");
    }
    held("many collections", &format!("{count}: {open} descriptors, {rss} MiB, start in {took:.1?}"));
}

#[test]
fn the_soft_limit_of_descriptors_is_raised_to_the_hard_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -S -n 80; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_weir")]);
    let weir = Weir::start_by(command, folder.path(), &[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", weir.id())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let values: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(values[0], values[1]);
    held("a low soft limit of descriptors", &format!("raised from 80 to {}", values[0]));
}

#[test]
fn a_create_that_is_refused_leaves_nothing_and_the_gateway_starts_again_with_the_same_limits() {
    let folder = tempfile::tempdir().unwrap();
    let count = rounds(40, 400);
    let start = || {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "ulimit -n 80; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_weir")]);
        Weir::start_by(command, folder.path(), &[])
    };
    let weir = start();
    let client = Client::new(&weir.url);
    let created = (0..count).filter(|number| create(&client, *number) == 201).count();
    weir.kill();
    let weir = start();
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    let listed = client.get("/v1/collections").1["data"].as_array().unwrap().len();
    assert_eq!(listed, created + 1, "with `default`");
    // a creation that fails half-way: its index folder cannot be made
    let next = folder.path().join("index").join((listed + 1).to_string());
    std::fs::write(&next, "in its place").unwrap();
    check_error(&client.send("PUT", "/v1/collections/other", None), "internal", "no index folder");
    let named = |client: &Client| client.get("/v1/collections").1.to_string().contains("\"other\"");
    assert!(!named(&client));
    drop(std::fs::remove_file(next));
    drop(weir);
    let weir = start();
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    assert!(!named(&client), "it was stored");
    assert_eq!(client.send("PUT", "/v1/collections/other", None).status, 201);
    held(
        "few descriptors",
        &format!("80 allowed: {created} of {count} collections created, all there after a restart"),
    );
}

#[test]
fn more_collections_than_the_limit_are_refused_and_stored_ones_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let start = |limit| Weir::start_with(folder.path(), &[("WEIR_LIMITS_COLLECTIONS_MAX", limit)]);
    let weir = start("3");
    let client = Client::new(&weir.url);
    assert_eq!((0..2).map(|number| create(&client, number)).collect::<Vec<_>>(), [201, 201]);
    let refused = client.send("PUT", "/v1/collections/c2", None);
    check_error(&refused, "collection_limit_reached", "a fourth collection");
    let implied = json!({"collection": "c2", "documents": [{"id": "a", "text": "b"}]}).to_string();
    let refused = client.send("POST", "/v1/ingest", Some(implied.as_bytes()));
    check_error(&refused, "collection_limit_reached", "a fourth collection by ingest");
    assert_eq!(create(&client, 0), 200, "it exists");
    weir.kill();
    let weir = start("1");
    let client = Client::new(&weir.url);
    assert_eq!(client.get("/v1/collections").1["data"].as_array().unwrap().len(), 3);
    held("collection limit", "a fourth of 3 is refused, stored ones are served under a lower limit");
}

fn name(number: usize) -> String {
    format!("c{number}")
}

/// The status of the reply.
fn create(client: &Client, number: usize) -> u16 {
    client.send("PUT", &format!("/v1/collections/{}", name(number)), None).status
}
