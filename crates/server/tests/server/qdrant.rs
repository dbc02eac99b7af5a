//! Collections in a Qdrant cluster, through the API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_index::filter::Filter;
use weir_policy::{Caller, KeyId};
use weir_qdrant_mock::{Calls, Cluster, Fault, Rule};

use crate::in_process::{InProcess, OPERATOR};

fn key(number: i64, filter: &Value) -> Caller {
    let filter = Some(Arc::new(Filter::from_value(filter).unwrap()));
    Caller { key: Some(KeyId(number)), filter, ..Caller::system() }
}

async fn start(cluster: &Cluster) -> InProcess {
    let callers = BTreeMap::from([
        ("strings", key(1, &json!({"name": {"gt": "m"}}))),
        ("dates", key(2, &json!({"at": {"lt": "2024-01-01"}}))),
    ]);
    let urls = cluster.urls().join(",");
    InProcess::start(&[("WEIR_QDRANT_URLS", &urls), ("WEIR_LIMITS_DELETE_DOCUMENTS_MAX", "10")], callers)
        .await
}

/// Creates a collection in the cluster, with 25 documents of 2023 and one of an unknown date.
async fn filled(gateway: &InProcess) {
    gateway.ask("PUT", "/v1/collections/far", r#"{"engine": "qdrant", "embedding": "none"}"#).await;
    let document = |number: usize| {
        let at = if number == 25 { "unknown" } else { "2023-05-01" };
        json!({"id": format!("d{number:02}"), "text": "apples", "metadata": {"at": at, "name": "n"}})
    };
    let documents: Vec<Value> = (0..26).map(document).collect();
    let body = json!({"collection": "far", "documents": documents}).to_string();
    assert_eq!(gateway.ask("POST", "/v1/ingest?wait=true", &body).await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_by_a_date_goes_on_and_a_deletion_says_what_is_left() {
    let cluster = Cluster::start(1, None).unwrap();
    let gateway = start(&cluster).await;
    filled(&gateway).await;
    let filter = r#"{"at":{"lt":"2024-01-01"}}"#;
    let (mut ids, mut cursor) = (BTreeSet::new(), String::new());
    for page in 0.. {
        let encoded = "%7B%22at%22%3A%7B%22lt%22%3A%222024-01-01%22%7D%7D";
        let uri = format!("/v1/collections/far/documents?limit=10&filter={encoded}{cursor}");
        let reply = gateway.ask("GET", &uri, "").await;
        let shown = reply["data"].as_array().unwrap().iter();
        ids.extend(shown.map(|document| document["id"].as_str().unwrap().to_owned()));
        let Some(next) = reply["next_cursor"].as_str() else {
            assert_eq!(page, 2, "{reply}");
            break;
        };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(ids.len(), 25);

    let delete = async |dry_run: bool| {
        let body = format!(r#"{{"filter": {filter}, "dry_run": {dry_run}}}"#);
        let reply = gateway.ask("POST", "/v1/collections/far/documents/delete", &body).await;
        ["matched", "deleted", "remaining"].map(|field| reply[field].as_u64().unwrap())
    };
    assert_eq!(delete(true).await, [25, 0, 25]);
    assert_eq!(delete(false).await, [25, 10, 15]);
    assert_eq!(delete(false).await, [15, 10, 5]);
    assert_eq!(delete(false).await, [5, 5, 0]);
    assert_eq!(delete(true).await, [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_of_a_key_that_the_cluster_does_not_have_hides_no_other_collection() {
    let cluster = Cluster::start(1, None).unwrap();
    let gateway = start(&cluster).await;
    filled(&gateway).await;
    let list = gateway.send("strings", "GET", "/v1/collections", "").await.json();
    let status = |one: &Value| (one["name"].clone(), one["status"].clone());
    let shown: Vec<(Value, Value)> = list["data"].as_array().unwrap().iter().map(status).collect();
    assert_eq!(shown, [(json!("default"), json!("ready")), (json!("far"), json!("unavailable"))]);
    let refused = gateway.send("strings", "GET", "/v1/collections/far", "").await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (400, &json!("invalid_parameter")));
    assert!(refused.text.contains("the filter of the key"), "{}", refused.text);
    let metrics = gateway.send("strings", "GET", "/metrics", "").await;
    assert_eq!(metrics.status, 200, "{}", metrics.text);
    assert!(metrics.text.contains(r#"weir_documents{collection="default"}"#), "{}", metrics.text);

    let counts = async |caller| {
        let shown = gateway.send(caller, "GET", "/v1/collections/far", "").await.json();
        (shown["document_count"].clone(), shown["chunk_count"].clone())
    };
    assert_eq!(counts("dates").await, (json!(25), json!(25)));
    assert_eq!(counts(OPERATOR).await, (json!(26), json!(26)));
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_with_vectors_wait_for_the_cluster_of_their_collection() {
    let cluster = Cluster::start(1, None).unwrap();
    let urls = cluster.urls().join(",");
    let settings = [("WEIR_QDRANT_URLS", &*urls)];
    let gateway = InProcess::start(&settings, BTreeMap::new()).await;
    let own = json!({"engine": "qdrant", "vectors": {"dimension": 3}}).to_string();
    gateway.ask("PUT", "/v1/collections/own", &own).await;
    cluster.nodes.iter().for_each(|node| node.kill());
    let gateway = gateway.restart(&settings).await;
    let document = json!({"text": "apples", "vector": [1, 0, 0]});
    let body = json!({"collection": "own", "documents": [document]}).to_string();
    for (method, uri, body) in
        [("POST", "/v1/ingest", body), ("PUT", "/v1/collections/own/documents/a", document.to_string())]
    {
        let refused = gateway.send(OPERATOR, method, uri, &body).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.json()["code"]),
            (503, &json!("engine_unavailable")),
            "{uri}"
        );
        assert!(refused.headers.contains_key("retry-after"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_that_can_not_be_opened_after_its_move_is_opened_later() {
    let cluster = Cluster::start(1, None).unwrap();
    let gateway = start(&cluster).await;
    gateway.ask("PUT", "/v1/collections/near", r#"{"embedding": "none"}"#).await;
    let put = async |id: &str| {
        let body = json!({"collection": "near", "documents": [{"id": id, "text": "apples"}]}).to_string();
        gateway.ask("POST", "/v1/ingest?wait=true", &body).await;
    };
    let search = json!({"collection": "near", "query": "apples"}).to_string();
    let found = async || {
        let reply = gateway.ask("POST", "/v1/search", &search).await;
        reply["results"].as_array().map_or(0, Vec::len)
    };
    put("a").await;
    assert_eq!(found().await, 1);
    cluster.nodes[0].inject(Rule::once(Calls::Named("get"), Fault::invalid()));
    let moved = r#"{"engine": "qdrant", "embedding": "none"}"#;
    let failed = gateway.send(OPERATOR, "PUT", "/v1/collections/near?move=true", moved).await;
    assert_eq!(failed.status.as_u16(), 500, "{}", failed.text);
    put("b").await;
    let until = Instant::now() + Duration::from_secs(20);
    while found().await < 2 {
        assert!(Instant::now() < until, "no worker takes what was put");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(gateway.ask("GET", "/v1/collections/near", "").await["settings"]["engine"], "qdrant");
}
