//! Synonyms, stop words and the weight of titles, wildcards, and exact facets.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Gateway, ask, check_error, ids, library, send};
use crate::support::client::Reply;

fn put(gateway: &Gateway, lexical: &Value) -> Reply {
    let body = json!({"lexical": lexical}).to_string();
    gateway.send("PUT", "/v1/collections/default", Some(body.as_bytes()))
}

fn lexical(gateway: &Gateway, query: &str) -> String {
    let reply = ask(gateway, &json!({"query": query, "mode": "lexical", "smoothing": false, "top_k": 10}));
    let mut ids: Vec<String> = ids(&reply).split_whitespace().map(str::to_owned).collect();
    ids.sort_unstable();
    ids.join(" ")
}

#[test]
fn synonyms_apply_to_the_next_search_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start_in(folder.path(), &[]);
    gateway.ingest(&[
        json!({"id": "tv", "text": "repair of a television set"}),
        json!({"id": "nyc", "text": "hotels of the big apple"}),
        json!({"id": "other", "text": "an apple pie and a set of plates"}),
    ]);
    assert_eq!(lexical(&gateway, "telly"), "");
    let synonyms = json!({"telly": ["television"], "new york": ["big apple"], "television": ["telly"]});
    let reply = put(&gateway, &json!({"synonyms": synonyms}));
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.json()["settings"]["lexical"]["synonyms"], synonyms);
    assert_eq!(lexical(&gateway, "telly"), "tv");
    assert_eq!(lexical(&gateway, "hotels in New York"), "nyc", "a sequence of words is found as a phrase");
    let told =
        ask(&gateway, &json!({"query": "a telly", "mode": "lexical", "explain": true, "highlight": true}));
    assert_eq!(told["explain"]["synonyms"], json!(["televis"]));
    assert_eq!(told["results"][0]["explanation"]["terms"][0]["term"], "televis", "{told}");
    assert_eq!(told["corrections"], Value::Null, "a word with synonyms is not misspelt");

    drop(gateway);
    let gateway = Gateway::start_in(folder.path(), &[]);
    assert_eq!(lexical(&gateway, "telly"), "tv");
    // settings that are sent without them stay
    let body = json!({"language": "english"}).to_string();
    assert_eq!(gateway.send("PUT", "/v1/collections/default", Some(body.as_bytes())).status, 200);
    assert_eq!(lexical(&gateway, "telly"), "tv");
    put(&gateway, &json!({}));
    assert_eq!(lexical(&gateway, "telly"), "");
}

#[test]
fn stop_words_and_the_weight_of_titles_change_the_ranking() {
    let gateway = Gateway::start();
    gateway.ingest(&[
        json!({"id": "body", "title": "On rivers", "text": "sluice sluice sluice sluice, a gate for water"}),
        json!({"id": "title", "title": "The sluice", "text": "a gate for the water of a mill and of a canal, of wood or of iron"}),
    ]);
    let first = |query: &str| {
        let reply =
            ask(&gateway, &json!({"query": query, "mode": "lexical", "smoothing": false, "explain": true}));
        let hit = &reply["results"][0];
        (hit["id"].as_str().unwrap().to_owned(), hit["explanation"].clone())
    };
    assert_eq!(first("sluice gates").0, "body");
    put(&gateway, &json!({"title_weight": 6}));
    let (id, explain) = first("sluice gates");
    assert_eq!(id, "title");
    let terms: f64 =
        explain["terms"].as_array().unwrap().iter().map(|term| term["score"].as_f64().unwrap()).sum();
    assert!((terms - explain["lexical"].as_f64().unwrap()).abs() < 1e-4, "the terms add up: {explain}");

    assert_eq!(lexical(&gateway, "the iron"), "title");
    put(&gateway, &json!({"stop_words": ["iron"]}));
    assert_eq!(lexical(&gateway, "a iron mill"), "body title", "`a` is none any more");
    assert_eq!(lexical(&gateway, "iron rivers"), "body");
}

#[test]
fn loops_and_long_lists_of_synonyms_are_bounded() {
    let gateway = library();
    let others: Vec<String> = (0..32).map(|number| format!("w{number}")).collect();
    let loops: BTreeMap<&String, &Vec<String>> = others.iter().map(|word| (word, &others)).collect();
    assert_eq!(put(&gateway, &json!({"synonyms": loops})).status, 200);
    assert_eq!(lexical(&gateway, "w1 w2 w3 sluice"), "d e");
    let many: BTreeMap<String, Vec<String>> =
        (0..100_000).map(|number| (format!("a{number}"), vec!["b".to_owned()])).collect();
    let problem = check_error(&put(&gateway, &json!({"synonyms": many})), "invalid_parameter", "100,000");
    assert!(problem["detail"].as_str().unwrap().contains("at most 10000"), "{problem}");
    let problem =
        check_error(&put(&gateway, &json!({"title_weight": 0.1})), "invalid_parameter", "a low weight");
    assert!(problem["detail"].as_str().unwrap().contains("from 1 to 10"), "{problem}");
}

#[test]
fn a_cursor_ends_with_a_change_of_synonyms() {
    let gateway = library();
    let body = json!({"query": "weir", "mode": "lexical", "top_k": 1});
    let cursor = ask(&gateway, &body)["next_cursor"].clone();
    put(&gateway, &json!({"synonyms": {"weir": ["sluice"]}}));
    let next = json!({"query": "weir", "mode": "lexical", "top_k": 1, "cursor": cursor});
    check_error(&send(&gateway, &next), "invalid_cursor", "other synonyms");
}

#[test]
fn wildcards_match_inside_words_and_cost_a_bounded_time() {
    let gateway = library();
    // what finds nothing would be searched by its words
    let strict =
        |query: &str| ids(&ask(&gateway, &json!({"query": query, "mode": "lexical", "syntax": "strict"})));
    assert_eq!(lexical(&gateway, "slu?ce"), "d e");
    assert_eq!(strict("sl*e"), "", "terms are stems: of `sluice` it is `sluic`");
    assert_eq!(lexical(&gateway, "sl*c"), "d e");
    assert_eq!(lexical(&gateway, "we?r -b?side"), "a b c f");
    assert_eq!(strict("title:d?m"), "");
    assert_eq!(lexical(&gateway, "riv*"), "b");
    let marked = ask(&gateway, &json!({"query": "s?uice", "mode": "lexical", "highlight": true}));
    assert_eq!(marked["results"][0]["highlights"].as_array().unwrap().len(), 1, "{marked}");
    for hostile in ["aa*a*a*a*a*a*a*a*b", "a????????????????????????????????a", "zz*zz*zz"] {
        let started = std::time::Instant::now();
        assert_eq!(strict(hostile), "");
        assert!(started.elapsed().as_secs() < 5, "{hostile}");
    }
    // hybrid: the pattern has no embedding, so that words alone decide
    let reply = ask(&gateway, &json!({"query": "slu?ce", "explain": true}));
    assert_eq!(reply["explain"]["mode"], "lexical");
}

#[test]
fn facets_of_a_hybrid_search_are_exact_on_request() {
    let gateway = library();
    let count = |reply: &Value, value: &str| {
        let counts = reply["facets"]["lang"].as_array().unwrap();
        counts
            .iter()
            .find(|count| count["value"] == value)
            .map_or(0, |count| count["count"].as_u64().unwrap())
    };
    let ask = |more: Value| {
        let mut body = json!({"query": "sluice", "facets": ["lang"], "top_k": 1});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(&gateway, &body)
    };
    let candidates = ask(json!({}));
    assert_eq!((&candidates["facet_counts"], count(&candidates, "en")), (&json!("candidates"), 4));
    let narrow = Gateway::start_with(&[("WEIR_SEARCH_DEPTH", "1")]);
    let documents: Vec<Value> = (0..20)
        .map(|number| json!({"id": number.to_string(), "text": format!("sluice {number}"), "metadata": {"lang": "en"}}))
        .collect();
    narrow.ingest(&documents);
    let body = json!({"query": "sluice", "facets": ["lang"], "top_k": 1, "facet_counts": "exact"});
    let exact = super::ask(&narrow, &body);
    assert_eq!((&exact["facet_counts"], count(&exact, "en")), (&json!("exact"), 20));
    let sorted =
        json!({"query": "sluice", "facets": ["lang"], "top_k": 1, "facet_counts": "exact", "sort": ["lang"]});
    assert_eq!(count(&super::ask(&narrow, &sorted), "en"), 20);
    let body = json!({"query": "sluice", "facets": ["lang"], "top_k": 1});
    assert!(count(&super::ask(&narrow, &body), "en") < 20);
    assert_eq!(ask(json!({"mode": "lexical"}))["facet_counts"], "exact");
}
