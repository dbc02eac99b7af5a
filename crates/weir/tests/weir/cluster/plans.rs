//! PostgreSQL looks rows up by an index, also where a statement was planned while its table was empty.

use serde_json::{Value, json};

use super::{Cluster, Member, wait};

const DOCUMENTS: usize = 2_000;
const DOCUMENTS_OF_A_REQUEST: usize = 100;

/// Ingests documents into a new collection, and waits until they are found. Returns the jobs.
fn ingest(gateway: &Member, collection: &str, count: usize) -> Vec<Value> {
    let path = format!("/v1/collections/{collection}");
    assert_eq!(gateway.client.send("PUT", &path, Some(b"{}")).status, 201);
    let mut jobs = Vec::new();
    for first in (0..count).step_by(DOCUMENTS_OF_A_REQUEST) {
        let numbers = first..count.min(first + DOCUMENTS_OF_A_REQUEST);
        let documents: Value = numbers
            .map(|number| json!({"id": format!("d{number}"), "text": format!("a lighthouse {number}")}))
            .collect();
        let body = json!({"collection": collection, "documents": documents});
        let (status, reply) = gateway.client.try_post("/v1/ingest", &body).unwrap();
        assert_eq!(status, 202, "{reply}");
        jobs.push(reply["job_id"].clone());
    }
    wait("documents", || gateway.client.get(&path).1["document_count"] == count);
    jobs
}

/// Rows that PostgreSQL has read of the tables that grow with documents: of whole tables, and by their indexes.
fn rows_read(cluster: &Cluster) -> (i64, i64) {
    // a connection reports what it has read a second later
    std::thread::sleep(std::time::Duration::from_secs(2));
    let tables = "relname IN ('documents', 'chunks', 'operations', 'embeddings', 'unsearchable')";
    let count = |sum: &str, view: &str| {
        cluster.server.count(&format!("SELECT sum({sum})::int8 FROM {view} WHERE {tables}"))
    };
    (count("seq_tup_read", "pg_stat_user_tables"), count("idx_tup_read", "pg_stat_user_indexes"))
}

#[test]
fn a_plan_that_was_made_over_an_empty_table_does_not_read_all_of_it_later() {
    let cluster = Cluster::start(1);
    let gateway = &cluster.gateways[0];
    ingest(gateway, "first", DOCUMENTS_OF_A_REQUEST);
    assert!(gateway.client.send("DELETE", "/v1/collections/first", None).status < 300);
    wait("the deletion", || cluster.server.count("SELECT count(*) FROM weir.documents") == 0);
    for table in ["documents", "chunks", "operations", "embeddings", "unsearchable"] {
        cluster.server.execute(&format!("VACUUM (ANALYZE, TRUNCATE) weir.{table}"));
    }
    let check = |what: &str, documents: usize, rows_max: usize, run: &mut dyn FnMut()| {
        let before = rows_read(&cluster);
        run();
        let after = rows_read(&cluster);
        let (sequence, index) = (after.0 - before.0, after.1 - before.1);
        eprintln!("{what}: {sequence} rows of whole tables and {index} by indexes for {documents} documents");
        assert!(
            sequence < 10 * documents as i64,
            "{what}: {sequence} rows of whole tables for {documents} documents"
        );
        assert!(
            index < (rows_max * documents) as i64,
            "{what}: {index} rows by indexes for {documents} documents"
        );
    };
    let mut jobs = Vec::new();
    check("ingest", DOCUMENTS, 30, &mut || jobs = ingest(gateway, "second", DOCUMENTS));
    check("documents of jobs", DOCUMENTS, 30, &mut || {
        for job in &jobs {
            let path = format!("/v1/jobs/{}/documents?limit={DOCUMENTS_OF_A_REQUEST}", job.as_str().unwrap());
            let (_, reply) = gateway.client.get(&path);
            assert_eq!(reply["data"].as_array().map(Vec::len), Some(DOCUMENTS_OF_A_REQUEST), "{reply}");
        }
    });
    check("deletions", 500, 60, &mut || {
        for number in 0..500 {
            let path = format!("/v1/collections/second/documents/d{number}");
            assert!(gateway.client.send("DELETE", &path, None).status < 300);
        }
        wait("deletions", || {
            cluster.server.count("SELECT count(*) FROM weir.chunks") == DOCUMENTS as i64 - 500
        });
    });
}
