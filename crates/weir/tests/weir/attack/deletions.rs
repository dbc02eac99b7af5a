//! A deletion by filter beside replacements of the documents that it matched: what was acknowledged after it began is kept.

use std::time::Duration;

use serde_json::{Value, json};

use super::{held, rounds};
use crate::support::client::Client;
use crate::support::gateway::Gateway;

/// More than a deletion by filter deletes in one transaction.
const DOCUMENTS: usize = 900;

const DELETE: &str = "/v1/collections/default/documents/delete";

fn documents(status: &str, round: usize) -> Vec<Value> {
    let document = |i| {
        let text = format!("document {i} is {status} in round {round}");
        json!({"id": format!("d{i}"), "text": text, "metadata": {"status": status}})
    };
    (0..DOCUMENTS).map(document).collect()
}

#[test]
fn a_replacement_is_kept_while_the_version_before_is_deleted() {
    let gateway = Gateway::start_with(&[("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "300")]);
    let (mut kept, mut skipped, mut deleted) = (0, 0, 0);
    let count = rounds(6, 40);
    for round in 0..count {
        gateway.ingest(&documents("old", round));
        let replacement = json!({ "documents": documents("new", round) }).to_string();
        let reply = std::thread::scope(|scope| {
            let filter = json!({"filter": {"status": "old"}}).to_string();
            let url = &gateway.weir.url;
            let deleting =
                scope.spawn(move || Client::new(url).send("POST", DELETE, Some(filter.as_bytes())));
            // somewhere within the deletion
            std::thread::sleep(Duration::from_millis(2 + 5 * (round as u64 % 8)));
            let replaced = gateway.send("POST", "/v1/ingest", Some(replacement.as_bytes()));
            assert_eq!(replaced.status, 202, "{}", replaced.text);
            deleting.join().unwrap().json()
        });
        let number = |field: &str| reply[field].as_u64().unwrap();
        assert_eq!(number("deleted") + number("skipped") + number("remaining"), number("matched"), "{reply}");
        (deleted, skipped) = (deleted + number("deleted"), skipped + number("skipped"));
        gateway.wait_until_searchable();
        let found = gateway.send("POST", DELETE, Some(br#"{"filter": {"status": "new"}, "dry_run": true}"#));
        assert_eq!(found.json()["matched"], DOCUMENTS, "round {round}: {reply}");
        for i in (0..DOCUMENTS).step_by(7) {
            let stored = gateway.document(&format!("d{i}"));
            let status = stored.map(|document| document["metadata"]["status"].clone());
            assert_eq!(status, Some(json!("new")), "d{i} in round {round}: {reply}");
            kept += 1;
        }
    }
    assert!(
        deleted > 0 && skipped > 0,
        "no replacement came in between: {deleted} deleted, {skipped} skipped"
    );
    held(
        "replacements during a deletion by filter",
        &format!("{count} rounds, {kept} read and there; {deleted} deleted before, {skipped} skipped"),
    );
}
