//! Embeddings that were made before.

use serde_json::{Value, json};

use super::{Gateway, bits, embed, with_the_model};

/// Hits, misses and bytes as `/metrics` has them.
fn lookups(gateway: &Gateway) -> (u64, u64, u64) {
    let metrics = gateway.send("GET", "/metrics", None).text;
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |value| value.trim().parse().unwrap())
    };
    (
        value("weir_embed_cache_lookups_total{result=\"hit\"}"),
        value("weir_embed_cache_lookups_total{result=\"miss\"}"),
        value("weir_embed_cache_bytes"),
    )
}

fn embedding(reply: &Value) -> Vec<u32> {
    bits(&reply["data"][0]["embedding"])
}

#[test]
fn the_same_text_is_embedded_once_for_all_routes_unless_the_caller_wants_it_anew() {
    let gateway = with_the_model(&[]);
    let body = json!({"model": "all-MiniLM-L6-v2", "input": ["a weir", "a dam"]});
    let first = embed(&gateway, "/v1/embeddings", &body);
    assert_eq!(lookups(&gateway), (0, 2, 2 * (384 * 4 + 128)));
    assert_eq!(embedding(&embed(&gateway, "/v1/embeddings", &body)), embedding(&first));
    let other = json!({"model": "all-MiniLM-L6-v2", "input": ["a dam", "a river"]});
    let mixed = embed(&gateway, "/v1/embeddings", &other);
    assert_eq!(mixed["data"][0]["embedding"], first["data"][1]["embedding"]);
    assert_eq!(lookups(&gateway), (3, 3, 3 * (384 * 4 + 128)));
    gateway.ingest(&[json!({"text": "A weir is a low dam."})]);
    let before = lookups(&gateway);
    gateway.search("a river", "dense");
    assert_eq!(lookups(&gateway).0, before.0 + 1, "a query is a text like others");

    let headers = [("content-type", "application/json"), ("cache-control", "no-cache")];
    let anew =
        gateway.try_send("POST", "/v1/embeddings", &headers, Some(body.to_string().as_bytes())).unwrap();
    assert_eq!(embedding(&anew.json()), embedding(&first));
    assert_eq!(lookups(&gateway).0, before.0 + 1);
}

#[test]
fn without_bytes_for_it_nothing_is_kept() {
    let gateway = with_the_model(&[("WEIR_INFERENCE_CACHE_BYTES_MAX", "0")]);
    let body = json!({"model": "all-MiniLM-L6-v2", "input": "a weir"});
    assert_eq!(
        embedding(&embed(&gateway, "/v1/embeddings", &body)),
        embedding(&embed(&gateway, "/v1/embeddings", &body))
    );
    assert_eq!(lookups(&gateway), (0, 0, 0));
}
