//! The text of `/openapi.json`. The tests of `weir` send its examples.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::in_process::{InProcess, OPERATOR};

#[tokio::test(flavor = "multi_thread")]
async fn the_description_keeps_the_order_of_fields_and_paths() {
    let gateway = InProcess::start(&[], BTreeMap::new()).await;
    let text = gateway.send(OPERATOR, "GET", "/openapi.json", "").await.text;
    let check = |within: &str, expected: &[&str]| {
        let start = text.find(&format!("\"{within}\":{{")).unwrap_or_else(|| panic!("no `{within}`"));
        let mut at = start;
        for key in expected {
            let found = text[at..]
                .find(&format!("\"{key}\":"))
                .unwrap_or_else(|| panic!("no `{key}` after byte {at}"));
            at += found;
        }
    };
    check(
        "paths",
        &["/v1/ingest", "/v1/jobs", "/v1/search", "/v1/collections/{name}", "/v1/embeddings", "/docs"],
    );
    check("SearchRequest", &["properties", "query", "collection", "top_k", "mode", "filter", "queries"]);
    check("Citation", &["properties", "document_id", "chunk", "start", "end", "quote"]);
    check("Problem", &["properties", "type", "title", "status", "detail", "code"]);
    assert!(text.contains(r#""example":{"query": "who sang the American anthem before the football final""#));
    assert!(!text.contains("x-order") && !text.contains("x-verbatim"));
    let parsed: Map<String, Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed["openapi"], "3.1.0");
}
