//! `queries`: several searches in one call.

use serde_json::{Value, json};

use super::{ask, ids, library, library_with, refused};

/// A reply without what differs from call to call.
fn timeless(mut reply: Value) -> Value {
    for key in ["took_ms", "timings_ms", "request_id"] {
        reply.as_object_mut().unwrap().remove(key);
    }
    reply
}

#[test]
fn each_query_is_answered_as_it_would_be_alone() {
    let gateway = library();
    let queries: Vec<Value> = vec![
        json!({"query": "weir", "top_k": 2}),
        json!({"filter": {"lang": "de"}}),
        json!({"query": "sluice", "mode": "lexical", "facets": ["lang"], "explain": true}),
    ];
    let batch = ask(&gateway, &json!({ "queries": queries }));
    let replies = batch["replies"].as_array().unwrap();
    assert_eq!(replies.len(), 3);
    for (reply, query) in replies.iter().zip(&queries) {
        let [batch, alone] = [reply.clone(), ask(&gateway, query)].map(|mut reply| {
            // encrypted anew each time
            let cursor = &mut reply["next_cursor"];
            *cursor = Value::Bool(cursor.is_string());
            timeless(reply)
        });
        assert_eq!(batch, alone, "{query}");
    }
    assert!(batch["took_ms"].as_f64().unwrap() > 0.0);
    let cursor = &replies[0]["next_cursor"];
    let next = json!({"query": "weir", "top_k": 2, "cursor": cursor});
    let batch = ask(&gateway, &json!({"queries": [next]}));
    assert_eq!(ids(&batch["replies"][0]), ids(&ask(&gateway, &next)));
}

#[test]
fn a_bad_query_fails_alone_and_at_its_place() {
    let gateway = library();
    let queries = json!([
        {"query": "weir"}, {"query": ""}, 7, {"query": "a", "topk": 1}, {"query": "a", "collection": "none"},
        {"query": "a", "queries": []}, {"filter": {"year": {"$gt": 1}}}, {"query": "river", "mode": "lexical"},
    ]);
    let batch = ask(&gateway, &json!({ "queries": queries }));
    let replies = batch["replies"].as_array().unwrap();
    let seen: Vec<String> = replies
        .iter()
        .map(|reply| match reply["results"].as_array() {
            Some(results) => format!("{} results", results.len()),
            None => format!(
                "{} {} {}",
                reply["status"],
                reply["code"].as_str().unwrap(),
                reply["error"]["param"].as_str().unwrap_or_default()
            ),
        })
        .collect();
    let expected = [
        "5 results",
        "400 invalid_parameter queries[1].query",
        "400 invalid_parameter queries[2]",
        "400 unknown_field queries[3].topk",
        "404 collection_not_found queries[4]",
        "400 invalid_parameter queries[5].queries",
        "400 invalid_filter queries[6].filter",
        "1 results",
    ];
    assert_eq!(seen, expected, "{batch}");
    assert_eq!(replies[6]["errors"][0]["pointer"], "#/queries/6/filter/year/$gt");
    assert!(replies[1]["detail"].as_str().unwrap().contains("send at least one word"));
    assert!(replies[1]["request_id"].as_str().unwrap().starts_with("req_"));
}

#[test]
fn what_is_wrong_in_a_query_has_a_pointer_and_no_column_of_its_own() {
    let gateway = library();
    let batch = ask(
        &gateway,
        &json!({"queries": [{"query": "weir"}, {"query": 7}, {"query": "a", "mode": "fast"}, 7]}),
    );
    let seen = [1, 2, 3].map(|index| {
        let error = &batch["replies"][index]["errors"][0];
        format!("{} {}", error["pointer"].as_str().unwrap(), error["detail"].as_str().unwrap())
    });
    assert_eq!(
        seen,
        [
            "#/queries/1/query invalid type: integer `7`, expected a string",
            "#/queries/2/mode mode is `fast`; it must be one of `hybrid`, `lexical`, `dense`",
            "#/queries/3 invalid type: integer `7`, expected a JSON object",
        ]
    );
}

#[test]
fn a_batch_that_makes_no_sense_is_refused_as_a_whole() {
    let gateway = library_with(&[("WEIR_LIMITS_QUERIES_PER_REQUEST_MAX", "3")]);
    let check = |body: Value, code: &str, words: &str| refused(&gateway, &body, code, "queries", words);
    check(json!({"queries": []}), "invalid_parameter", "send at least one");
    check(json!({"queries": {"query": "a"}}), "invalid_parameter", "expected a list");
    check(json!({"queries": [{"query": "a"}], "top_k": 2}), "invalid_parameter", "cannot be combined");
    check(
        json!({"queries": vec![json!({"query": "a"}); 4]}),
        "batch_too_large",
        "`limits.queries_per_request_max` is 3",
    );
    check(json!({"queries": vec![0; 100_000]}), "invalid_parameter", "more than 1024 items");
    assert_eq!(
        ask(&gateway, &json!({"queries": vec![json!({"query": "a"}); 3]}))["replies"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}
