//! A citation can be looked up: its quote stands in the document's text at the place that it names.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Gateway;
use crate::support::client::Client;

/// Texts whose characters have one to four bytes, cut into many chunks of 16 tokens.
fn texts() -> BTreeMap<&'static str, String> {
    let paragraphs = |sentence: &str| {
        (0..20).map(|number| format!("{number}. {sentence}")).collect::<Vec<_>>().join("\r\n\r\n")
    };
    BTreeMap::from([
        ("ascii", paragraphs("A weir is a low dam across a river, and the water runs over its crest.")),
        ("german", paragraphs("Ein Wehr staut den Fluß; darüber läuft das übrige Wasser ins Unterwasser.")),
        ("chinese", paragraphs("堰是一种低矮的水坝，横跨河流，水从坝顶流过 weir。")),
        ("emoji", paragraphs("🌊🦀 weir 👩‍👩‍👧‍👦 water 🏞️ e\u{301}tang\u{200b}s \u{feff} river 🇩🇪")),
        ("one word", "weir".to_owned()),
        ("white space", format!("\n\n \t{}weir\u{3000}\n\n", " ".repeat(300))),
        ("long word", "Wasser".repeat(500) + " weir"),
    ])
}

/// Searches and checks the citation of every hit; the number of hits.
fn check_citations(client: &Client, texts: &BTreeMap<&str, String>, query: &str, mode: &str) -> usize {
    let body = json!({"query": query, "mode": mode, "top_k": 100}).to_string();
    let reply = client.send("POST", "/v1/search", Some(body.as_bytes())).json();
    let results = reply["results"].as_array().unwrap();
    for hit in results {
        let (id, citation) = (hit["id"].as_str().unwrap(), &hit["citation"]);
        let place = |key: &str| usize::try_from(citation[key].as_u64().unwrap()).unwrap();
        let bytes = &texts[id].as_bytes()[place("start")..place("end")];
        let quote = citation["quote"].as_str().unwrap();
        assert_eq!(quote.as_bytes(), bytes, "{mode} `{query}` cites {id} at {citation}");
        assert_eq!(hit["text"], quote);
        assert_eq!(citation["document_id"], id);
        let document: Value = client.document(id).unwrap();
        assert!(citation["chunk"].as_u64() < document["chunks"].as_u64(), "{citation}");
    }
    results.len()
}

#[test]
fn every_quote_stands_in_its_document_from_start_to_end() {
    let gateway = Gateway::start();
    let texts = texts();
    let documents: Vec<Value> = texts.iter().map(|(id, text)| json!({"id": id, "text": text})).collect();
    gateway.ingest(&documents);
    let mut checked = 0;
    for mode in ["lexical", "dense", "hybrid"] {
        for query in ["weir", "water over a crest", "Fluß", "水", "17", "🦀", "étang"] {
            checked += check_citations(&gateway, &texts, query, mode);
        }
        assert!(check_citations(&gateway, &texts, "weir", mode) >= 6, "{mode}");
    }
    assert!(checked > 100, "only {checked} citations");
}

#[test]
fn a_citation_follows_the_document_when_it_is_replaced() {
    let gateway = Gateway::start();
    let mut texts = BTreeMap::from([("a", "first of all, a weir. ".repeat(40))]);
    gateway.ingest(&[json!({"id": "a", "text": texts["a"]})]);
    assert_eq!(check_citations(&gateway, &texts, "weir", "hybrid"), 1);
    texts.insert("a", format!("Größeres davor. {}", "and a weir again. ".repeat(10)));
    gateway.ingest(&[json!({"id": "a", "text": texts["a"]})]);
    assert_eq!(check_citations(&gateway, &texts, "weir", "hybrid"), 1);
}

#[test]
fn a_document_that_is_found_by_its_title_alone_shows_that() {
    let gateway = Gateway::start();
    gateway.ingest(&[
        json!({"id": "a", "title": "Weirs of the Thames", "text": ""}),
        json!({"id": "b", "title": "Weirs and locks", "text": "They hold back a river."}),
    ]);
    for mode in ["lexical", "hybrid"] {
        let body = json!({"query": "thames", "mode": mode, "highlight": true, "top_k": 1}).to_string();
        let reply = gateway.send("POST", "/v1/search", Some(body.as_bytes())).json();
        let hit = &reply["results"][0];
        let citation = json!({"document_id": "a", "chunk": 0, "start": 0, "end": 19, "quote": "Weirs of the Thames", "part": "title"});
        assert_eq!((&hit["id"], &hit["citation"], &hit["text"]), (&json!("a"), &citation, &json!("")));
        assert_eq!((&hit["title_highlights"], &hit["highlights"]), (&json!([[13, 19]]), &json!([])));
    }
    // the text is cited where there is one
    let body = json!({"query": "locks", "mode": "lexical", "highlight": true}).to_string();
    let hit = gateway.send("POST", "/v1/search", Some(body.as_bytes())).json()["results"][0].clone();
    let citation =
        json!({"document_id": "b", "chunk": 0, "start": 0, "end": 23, "quote": "They hold back a river."});
    assert_eq!((&hit["citation"], &hit["title_highlights"]), (&citation, &json!([[10, 15]])));
    let body = json!({"query": "locks", "mode": "lexical"}).to_string();
    let hit = gateway.send("POST", "/v1/search", Some(body.as_bytes())).json()["results"][0].clone();
    assert!(hit.get("title_highlights").is_none(), "{hit}");
}
