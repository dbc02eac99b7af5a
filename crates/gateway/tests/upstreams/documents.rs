//! Collections whose embeddings another server makes.

use serde_json::json;

use crate::scripted::{Answer, Upstream, error};
use crate::{gateway, metric};

#[test]
fn documents_are_embedded_in_bulk_and_found_by_an_upstreams_embeddings() {
    let upstream = Upstream::start(|number, _| match number {
        1 => error(502), // in passing
        _ => Answer::Embeddings,
    });
    let (gateway, _file) = gateway("openai", &upstream.url, "texts_per_request_max = 4", &[]);
    let documents: Vec<_> = ["aaaa", "eeee", "oooo", "aeae", "oeoe", "aoao", "xxxx", "eaea"]
        .iter()
        .map(|text| json!({"id": text, "text": text}))
        .collect();
    gateway.ingest(&documents);
    let hits = gateway.search("ee", "dense");
    assert_eq!(hits[0]["id"], "eeee", "{hits:?}");
    assert!(upstream.asked().iter().all(|asked| asked.texts().len() <= 4));
    assert!(metric(&gateway, "weir_embed_queue_wait_seconds_count{lane=\"bulk\"}") >= 2.0);
}
