//! A new gateway begins with a copy of another's index.

use serde_json::{Value, json};

use super::{Cluster, Member, wait};

fn documents(from: usize, to: usize) -> Value {
    let text = |number: usize| format!("The lighthouse {number} stands at the harbour of Bremen.");
    (from..to).map(|number| json!({"id": format!("d{number}"), "text": text(number)})).collect()
}

/// Copies of indexes that a gateway has counted with a result.
fn copies(gateway: &Member, result: &str) -> f64 {
    let metrics = gateway.client.send("GET", "/metrics", None).text;
    let series = format!("weir_index_copies_total{{result=\"{result}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap_or_default()
}

#[test]
fn a_new_gateway_takes_the_rest_from_the_database() {
    let shared = tempfile::tempdir().unwrap();
    let variables = [
        ("WEIR_INDEX_COPIES_DIR", shared.path().to_str().unwrap()),
        // copies are due at once, and looked at every five seconds
        ("WEIR_INDEX_COPY_AFTER_S", "0"),
        ("WEIR_INDEX_COMPACT_AFTER_S", "0"),
    ];
    let mut cluster = Cluster::start_with(1, &variables);
    let job = cluster.gateways[0].ingest("?wait=true", &documents(0, 30));
    assert_eq!(job["status"], "completed", "{job}");
    wait("a copy", || copies(&cluster.gateways[0], "written") == 1.0);

    let first = &cluster.gateways[0];
    first.ingest("?wait=true", &documents(30, 33));
    assert_eq!(first.client.try_delete("d7").unwrap().0, 200);
    cluster.add(&variables);
    let new = &cluster.gateways[1];
    assert_eq!((copies(new, "read"), copies(new, "failed")), (1.0, 0.0));
    assert!(new.weir.log().contains("the index was taken from a copy"));
    wait("what came after the copy", || new.document_count() == 32);
    assert_eq!(new.found("lighthouse 7", "lexical").iter().filter(|id| *id == "d7").count(), 0);
    assert_eq!(new.found("lighthouse 31", "lexical")[0], "d31");
}
