//! What is done at one gateway holds at the others.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Cluster, Member, PATIENCE, wait};

/// How many documents of a search are compared.
const FIRST: usize = 10;

/// Documents of which no two are found equally well: the order of those is not that of another gateway.
fn documents(from: usize, to: usize) -> Value {
    let text = |number: usize| {
        let place = if number.is_multiple_of(6) { "warns ships of Bremen" } else { "stands at the harbour" };
        format!("The lighthouse {number} {place} near rock {}. {}", number % 7, "Fog. ".repeat(number / 6))
    };
    (from..to).map(|number| json!({"id": format!("d{number}"), "text": text(number)})).collect()
}

/// A search whose first documents, or their order, are not the same at all gateways. Those behind can have scores that are nearly equal: a gateway
/// counts the words of deleted documents until it merges their segments, and one that joined later never had them.
fn difference(cluster: &Cluster) -> Option<String> {
    let queries = [("lighthouse rock 3", "hybrid"), ("ships of Bremen", "lexical"), ("harbour", "dense")];
    queries.iter().find_map(|(query, mode)| {
        let first = |gateway: &Member| gateway.found(query, mode).into_iter().take(FIRST).collect::<Vec<_>>();
        let found: Vec<_> = cluster.gateways.iter().map(first).collect();
        let are_equal = !found[0].is_empty() && found.iter().all(|other| *other == found[0]);
        (!are_equal).then(|| format!("{mode} {query:?}: {found:#?}"))
    })
}

fn wait_for_equal_ranks(cluster: &Cluster) {
    let started = Instant::now();
    while let Some(difference) = difference(cluster) {
        assert!(started.elapsed() < PATIENCE, "{difference}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How many embeddings were stored since the start, those that were there already included; no gateway has computed one for itself.
fn stored_embeddings(cluster: &Cluster) -> u64 {
    assert!(cluster.gateways.iter().all(|one| !one.weir.log().contains("computed again")));
    cluster.server.count("SELECT last_value FROM weir.embeddings_id_seq") as u64
}

#[test]
fn documents_of_one_gateway_are_found_by_all_in_the_same_order() {
    let mut cluster = Cluster::start(2);
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    let job = one.ingest("?wait=true", &documents(0, 40));
    assert_eq!(job["status"], "completed", "{job}");
    let job = two.ingest("?wait=true", &documents(40, 60));
    assert_eq!(job["status"], "completed", "{job}");
    wait("all documents at both", || one.document_count() == 60 && two.document_count() == 60);
    wait_for_equal_ranks(&cluster);
    let stored = stored_embeddings(&cluster);
    assert_eq!(
        stored,
        cluster.server.count("SELECT count(*) FROM weir.embeddings") as u64,
        "one was stored twice"
    );

    let deleted = one.client.try_delete("d3").unwrap();
    assert_eq!(deleted.0, 200, "{}", deleted.1);
    wait("the deletion at the other one", || {
        two.document_count() == 59 && two.client.document("d3").is_none()
    });
    assert!(!two.found("lighthouse rock 3", "hybrid").contains(&"d3".to_owned()));

    // a new gateway takes everything from the store
    cluster.add(&[]);
    let three = &cluster.gateways[2];
    three.client.wait_until_ready();
    assert_eq!(three.document_count(), 59);
    assert_eq!(stored_embeddings(&cluster), stored);
    wait_for_equal_ranks(&cluster);
}

#[test]
fn collections_and_their_settings_appear_at_the_other_gateway() {
    let cluster = Cluster::start(2);
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    let made = one.client.send("PUT", "/v1/collections/notes", Some(b"{}"));
    assert!(made.status < 300, "{}", made.text);
    let exists = |gateway: &Member| gateway.client.get("/v1/collections/notes").0 == 200;
    wait("the collection", || exists(two));
    let document = json!({"collection": "notes", "documents": [{"id": "a", "text": "a note"}]});
    assert_eq!(two.client.try_post("/v1/ingest?wait=true", &document).unwrap().0, 202);
    let deleted = two.client.send("DELETE", "/v1/collections/notes", None);
    assert!(deleted.status < 300, "{}", deleted.text);
    wait("its end", || !exists(one));
    let again = one.client.send("PUT", "/v1/collections/notes", Some(b"{}"));
    assert!(again.status < 300, "{}", again.text);
    wait("another one of its name", || {
        exists(two) && two.client.get("/v1/collections/notes").1["document_count"] == 0
    });
}

#[test]
fn a_key_of_one_gateway_is_valid_and_revoked_at_the_other() {
    let cluster = Cluster::start(2);
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    let create = |name: &str, key: Option<&str>| {
        let body = json!({"name": name, "scopes": ["admin", "search", "ingest"]}).to_string();
        let bearer = format!("Bearer {}", key.unwrap_or_default());
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        let reply = one.client.try_send("POST", "/v1/keys", &headers, Some(body.as_bytes())).unwrap();
        assert!(reply.status < 300, "{}", reply.text);
        (reply.json()["key"].as_str().unwrap().to_owned(), reply.json()["id"].as_i64().unwrap())
    };
    let status_at = |gateway: &Member, key: &str| {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str())];
        gateway.client.try_send("GET", "/v1/collections", &headers, None).unwrap().status
    };
    let (admin, _) = create("admin", None);
    wait("the first key", || status_at(two, "") == 401 && status_at(two, &admin) == 200);
    let (key, id) = create("app", Some(&admin));
    wait("the second key", || status_at(two, &key) == 200);
    let bearer = format!("Bearer {admin}");
    let headers = [("authorization", bearer.as_str())];
    let revoked = two.client.try_send("DELETE", &format!("/v1/keys/{id}"), &headers, None).unwrap();
    assert!(revoked.status < 300, "{}", revoked.text);
    assert_eq!(status_at(two, &key), 401);
    let took = wait("the revocation", || status_at(one, &key) == 401);
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_cursor_of_one_gateway_works_at_the_other() {
    let cluster = Cluster::start(2);
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    one.ingest("?wait=true", &documents(0, 20));
    wait("all documents at both", || one.document_count() == 20 && two.document_count() == 20);
    let page = |gateway: &Member, cursor: Option<&str>| {
        let body = json!({"query": "lighthouse", "top_k": 8, "cursor": cursor});
        let (status, reply) = gateway.client.try_post("/v1/search", &body).unwrap();
        assert_eq!(status, 200, "{reply}");
        let results = reply["results"].as_array().unwrap().iter();
        let ids: Vec<String> = results.map(|one| one["id"].as_str().unwrap().to_owned()).collect();
        (ids, reply["next_cursor"].as_str().map(str::to_owned))
    };
    let (first, cursor) = page(one, None);
    let (second, _) = page(two, cursor.as_deref());
    assert_eq!(second, page(one, cursor.as_deref()).0);
    assert!(first.iter().all(|id| !second.contains(id)) && second.len() == 8, "{first:?} {second:?}");
}

#[test]
fn a_search_sees_what_another_gateway_has_acknowledged() {
    let cluster = Cluster::start(2);
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    let search = |operation: &Value, deadline_ms: u64| {
        let body = json!({"query": "lighthouse rock", "mode": "lexical", "top_k": 50, "at_least": operation, "deadline_ms": deadline_ms});
        two.client.try_post("/v1/search", &body).unwrap()
    };
    let accepted = one.ingest("", &documents(0, 30));
    let operation = &accepted["operation"];
    assert_eq!(operation, 30, "{accepted}");
    let (status, found) = search(operation, 60_000);
    assert_eq!((status, found["results"].as_array().map(Vec::len)), (200, Some(30)), "{found}");
    let (status, deleted) = one.client.try_delete("d3").unwrap();
    assert_eq!((status, &deleted["operation"]), (200, &json!(31)), "{deleted}");
    let (status, found) = search(&deleted["operation"], 60_000);
    assert_eq!((status, found["results"].as_array().map(Vec::len)), (200, Some(29)), "{found}");
    let (status, refused) = search(&json!(99), 200);
    assert_eq!((status, &refused["code"]), (503, &json!("collection_not_ready")), "{refused}");
}
