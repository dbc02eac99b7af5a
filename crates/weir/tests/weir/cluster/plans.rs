//! PostgreSQL looks rows up by an index, also where a statement was planned while its table was empty.

use serde_json::{Value, json};

use super::{Cluster, Member, wait};

const DOCUMENTS: usize = 2_000;
const DOCUMENTS_OF_A_REQUEST: usize = 100;

/// Ingests documents of text alone into a new collection, and waits until they are found.
fn ingest(gateway: &Member, collection: &str, count: usize) {
    let settings = json!({"embedding": "none"});
    let path = format!("/v1/collections/{collection}");
    assert_eq!(gateway.client.send("PUT", &path, Some(settings.to_string().as_bytes())).status, 201);
    for first in (0..count).step_by(DOCUMENTS_OF_A_REQUEST) {
        let numbers = first..count.min(first + DOCUMENTS_OF_A_REQUEST);
        let documents: Value =
            numbers.map(|number| json!({"id": format!("d{number}"), "text": "a lighthouse"})).collect();
        let body = json!({"collection": collection, "documents": documents});
        assert_eq!(gateway.client.try_post("/v1/ingest", &body).unwrap().0, 202);
    }
    wait("documents", || gateway.client.get(&path).1["document_count"] == count);
}

/// Rows that PostgreSQL has read by going through whole tables.
fn read_in_sequence(cluster: &Cluster) -> i64 {
    // a connection reports what it has read a second later
    std::thread::sleep(std::time::Duration::from_secs(2));
    cluster.server.count(
        "SELECT sum(seq_tup_read)::int8 FROM pg_stat_user_tables WHERE relname IN ('documents', 'chunks', 'operations')",
    )
}

#[test]
fn a_plan_that_was_made_over_an_empty_table_does_not_read_all_of_it_later() {
    let cluster = Cluster::start(1);
    let gateway = &cluster.gateways[0];
    ingest(gateway, "first", DOCUMENTS_OF_A_REQUEST);
    assert!(gateway.client.send("DELETE", "/v1/collections/first", None).status < 300);
    wait("the deletion", || cluster.server.count("SELECT count(*) FROM weir.documents") == 0);
    for table in ["documents", "chunks", "operations"] {
        cluster.server.execute(&format!("VACUUM (ANALYZE, TRUNCATE) weir.{table}"));
    }
    let before = read_in_sequence(&cluster);
    ingest(gateway, "second", DOCUMENTS);
    let read = read_in_sequence(&cluster) - before;
    assert!(read < 10 * DOCUMENTS as i64, "{read} rows read in sequence for {DOCUMENTS} documents");
}
