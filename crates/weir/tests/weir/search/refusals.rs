//! Requests that would hurt: refused at little cost, and nobody else notices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Gateway, ask, check_error, ids, library, library_with, refused};
use crate::support::client::Client;

/// Bytes that the process takes, and took at most since [`forget_the_most`].
fn memory(gateway: &Gateway) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.weir.id())).unwrap();
    let bytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    (bytes("VmRSS:"), bytes("VmHWM:"))
}

fn forget_the_most(gateway: &Gateway) {
    std::fs::write(format!("/proc/{}/clear_refs", gateway.weir.id()), "5").unwrap();
}

fn refuse_text(gateway: &Gateway, body: &str, code: &str) -> Value {
    let mut what = body.to_owned();
    what.truncate(100);
    check_error(&gateway.send("POST", "/v1/search", Some(body.as_bytes())), code, &what)
}

#[test]
fn a_filter_nested_ten_thousand_deep_is_refused() {
    let gateway = library();
    let lists = format!(r#"{{"query":"a","filter":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    refuse_text(&gateway, &lists, "invalid_filter");
    for depth in [100, 1_000, 10_000] {
        let nots =
            format!(r#"{{"query":"a","filter":{}{{}}{}}}"#, r#"{"not":"#.repeat(depth), "}".repeat(depth));
        let alone = refuse_text(&gateway, &nots, "invalid_filter");
        let batch = format!(r#"{{"queries":[{nots}]}}"#);
        let batch = gateway.send("POST", "/v1/search", Some(batch.as_bytes())).json();
        for problem in [&alone, &batch["replies"][0]] {
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("nested deeper than 64 levels: reduce the nesting"), "{depth}: {detail}");
        }
    }
    let ands =
        format!(r#"{{"query":"a","filter":{}{{"lang":"en"}}{}}}"#, r#"{"and":["#.repeat(50), "]}".repeat(50));
    assert_eq!(gateway.send("POST", "/v1/search", Some(ands.as_bytes())).status, 200, "50 are no harm");
    let conditions = json!({"query": "a", "filter": {"or": vec![json!({"lang": "en"}); 2_000]}});
    refused(&gateway, &conditions, "invalid_filter", "filter", "more than 1024 conditions");
    let values = json!({"query": "a", "filter": {"lang": {"in": (0..10_001).map(|i| i.to_string()).collect::<Vec<_>>()}}});
    refused(&gateway, &values, "invalid_filter", "filter", "10001 values");
}

#[test]
fn what_an_order_of_fields_leaves_no_room_for_is_refused() {
    let gateway = library();
    let check = |body: Value, field: &str, remedy: &str| {
        refused(&gateway, &body, "invalid_parameter", field, remedy);
    };
    check(json!({"query": "weir", "sort": ["lang"], "diversity": 0.5}), "diversity", "leave out `diversity`");
    let relevance = "min_relevance";
    check(
        json!({"query": "weir", "sort": ["lang"], "min_relevance": 0.2}),
        relevance,
        "leave out `min_relevance`",
    );
    check(json!({"filter": {"lang": "en"}, "min_relevance": 0.2}), relevance, "send `query`");
    let forms = r#"expected "document", "chunk" or {"field": "lang"}"#;
    let wrong = [json!(5), json!("lang"), json!("field"), json!({"field": "lang", "limit": 2}), json!({})];
    for group_by in wrong {
        check(json!({"query": "weir", "group_by": group_by}), "group_by", forms);
    }
    check(
        json!({"query": "weir", "mode": 5}),
        "mode",
        "another type is expected here: one of the texts that `/docs` lists",
    );
    check(json!({"query": "weir", "prefix": true}), "prefix", "one of the texts that `/docs` lists");
}

#[test]
fn the_constant_of_rrf_is_refused_where_convex_would_ignore_it() {
    let gateway = library();
    let remedy = "the method is `convex`; leave out `k`, or send `rrf` as `method`";
    for fusion in [json!({"method": "convex", "k": 30}), json!({"k": 30})] {
        let body = json!({"query": "weir", "fusion": fusion});
        refused(&gateway, &body, "invalid_parameter", "fusion.k", remedy);
    }
    ask(&gateway, &json!({"query": "weir", "fusion": {"method": "convex", "k": null}}));
    ask(&gateway, &json!({"query": "weir", "fusion": {"method": "rrf", "k": 30}}));
    let set_to_rrf = library_with(&[("WEIR_SEARCH_FUSION_METHOD", "rrf")]);
    ask(&set_to_rrf, &json!({"query": "weir", "fusion": {"k": 30}}));
}

#[test]
fn a_query_of_a_megabyte_is_refused() {
    let gateway = library();
    for query in ["weir ".repeat(200_000), "(".repeat(1 << 20), "\"".repeat(1 << 20), "a* ".repeat(350_000)] {
        refused(
            &gateway,
            &json!({"query": query}),
            "payload_too_large",
            "query",
            "`limits.query_bytes_max` is 16384",
        );
    }
}

#[test]
fn a_query_of_sixteen_kilobytes_of_signs_is_answered_soon() {
    let gateway = library();
    let bombs = ["(", "\"", "-", "a* ", "+a -b ", "AND ", "NOT ", "a:", "slu* ", "sluicx ", "*", "lang:e* "];
    for bomb in bombs {
        let query = bomb.repeat(16_384 / bomb.len());
        let started = Instant::now();
        for syntax in ["text", "auto", "strict"] {
            let body = json!({"query": query, "syntax": syntax, "mode": "lexical"}).to_string();
            let reply = gateway.send("POST", "/v1/search", Some(body.as_bytes()));
            assert!(reply.status == 200 || reply.status == 400, "{bomb}: {}", reply.text);
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{bomb}: {:?}", started.elapsed());
    }
    assert_eq!(ids(&ask(&gateway, &json!({"query": "river", "mode": "lexical"}))), "b");
}

#[test]
fn numbers_that_are_none_or_out_of_range_are_refused() {
    let gateway = library();
    for number in ["NaN", "Infinity", "-Infinity", "nan", "1e", "+1", "01"] {
        refuse_text(&gateway, &format!(r#"{{"query":"a","diversity":{number}}}"#), "invalid_json");
        let weights = format!(r#"{{"query":"a","fusion":{{"weights":{{"lexical":{number},"dense":1}}}}}}"#);
        refuse_text(&gateway, &weights, "invalid_json");
    }
    let weights = |lexical: f64, dense: f64| json!({"query": "a", "fusion": {"weights": {"lexical": lexical, "dense": dense}}});
    refused(
        &gateway,
        &weights(-0.1, 1.0),
        "invalid_parameter",
        "fusion.weights.lexical",
        "a number of at least 0",
    );
    refused(
        &gateway,
        &weights(1.0, 1e39),
        "invalid_parameter",
        "fusion.weights.dense",
        "a number of at least 0",
    );
    refused(&gateway, &weights(0.0, 0.0), "invalid_parameter", "fusion.weights", "both weights are 0");
    refused(
        &gateway,
        &json!({"query": "a", "fusion": {"k": -1}}),
        "invalid_parameter",
        "fusion.k",
        "above 0",
    );
    refused(
        &gateway,
        &json!({"query": "a", "diversity": 1.01}),
        "invalid_parameter",
        "diversity",
        "from 0 to 1",
    );
    refused(&gateway, &json!({"query": "a", "top_k": 1001}), "invalid_parameter", "top_k", "from 1 to 1000");
    refused(&gateway, &json!({"query": "a", "top_k": 0}), "invalid_parameter", "top_k", "from 1 to 1000");
    let whole = "it must be a whole number from 1 to 1000 (the limit `limits.top_k_max`)";
    for top_k in [json!("5"), json!(1.5), json!(5.0), json!(true), json!([5]), json!({"n": 5})] {
        refused(&gateway, &json!({"query": "a", "top_k": top_k}), "invalid_parameter", "top_k", whole);
    }
    let facet = json!({"query": "a", "facets": [{"field": "lang", "limit": "9"}]});
    refused(&gateway, &facet, "invalid_parameter", "facets[0].limit", "a whole number from 1 to 1000");
    refused(
        &gateway,
        &json!({"query": "a", "context": 11}),
        "invalid_parameter",
        "context",
        "`limits.context_chunks_max`",
    );
    refused(
        &gateway,
        &json!({"query": "a", "context": -1}),
        "invalid_parameter",
        "context",
        "context is -1; it must be from 0 to 10 (the limit `limits.context_chunks_max`)",
    );
    refused(
        &gateway,
        &json!({"query": "a", "deadline_ms": 0}),
        "invalid_parameter",
        "deadline_ms",
        "from 1 to 180000",
    );
    refused(
        &gateway,
        &json!({"query": "a", "offset": u64::MAX}),
        "invalid_parameter",
        "offset",
        "`limits.page_depth_max`",
    );
}

#[test]
fn fields_of_the_wrong_kind_are_refused_at_their_places() {
    let gateway = library();
    let check = |part: Value, param: &str| {
        let mut body = json!({"query": "a"});
        body.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        refused(&gateway, &body, "invalid_parameter", param, "");
    };
    check(json!({"syntax": "yes"}), "syntax");
    check(json!({"facets": "lang"}), "facets");
    check(json!({"facets": [7]}), "facets[0]");
    check(json!({"facets": [{"field": "lang", "limit": 0}]}), "facets[0].limit");
    check(json!({"facets": [{"field": "lang", "limit": 1001}]}), "facets[0].limit");
    check(json!({"facets": ["lang", "lang"]}), "facets[1]");
    check(json!({"sort": "year"}), "sort");
    check(json!({"sort": [{"field": "year", "order": "up"}]}), "sort[0].order");
    check(json!({"group_by": {"page": "a"}}), "group_by");
    check(json!({"collapse": 1}), "collapse");
    check(json!({"explain": "all"}), "explain");
    check(json!({"why_not": ["a"]}), "why_not");
    check(json!({"cursor": 7}), "cursor");
    check(json!({"highlight": {}}), "highlight");
    check(json!({"count": "exact"}), "count");
    let nothing = json!({"mode": "dense", "query": "lang:en"});
    refused(&gateway, &nothing, "invalid_parameter", "query", "no word to embed");
    assert_eq!(
        ask(&gateway, &json!({"query": "lang:de"}))["total"]["value"],
        1,
        "a hybrid search does without"
    );
}

#[test]
fn a_search_needs_something_to_search_by() {
    let gateway = library();
    for body in [
        json!({}),
        json!({"top_k": 3}),
        json!({"query": null}),
        json!({"explain": true, "collection": "default"}),
    ] {
        refused(&gateway, &body, "invalid_parameter", "query", "the request has no search condition");
    }
    refused(
        &gateway,
        &json!({"query": " ", "filter": {"lang": "en"}}),
        "invalid_parameter",
        "query",
        "omit `query` to list",
    );
}

#[test]
fn large_bad_requests_cost_little_memory_and_disturb_nobody() {
    let gateway = library_with(&[("WEIR_LIMITS_BODY_BYTES_MAX", "16000000")]);
    let bytes = 15_000_000;
    let list = |item: &str| vec![item; bytes / (item.len() + 1)].join(",");
    let bodies = [
        format!(r#"{{"query":"a","facets":[{}]}}"#, list("\"a\"")),
        format!(r#"{{"query":"a","sort":[{}]}}"#, list("\"a\"")),
        format!(r#"{{"vector":[{}]}}"#, list("1")),
        format!(r#"{{"queries":[{}]}}"#, list("1")),
        format!(r#"{{"query":"a","filter":{{"lang":{{"in":[{}]}}}}}}"#, list("1")),
        format!(r#"{{"query":"a","filter":{}}}"#, "[".repeat(bytes)),
        format!(r#"{{"query":"{}"}}"#, "a".repeat(bytes)),
        format!(r#"{{"query":"a","cursor":"{}"}}"#, "A".repeat(bytes)),
        format!(r#"{{"query":"a","{}":1}}"#, "a".repeat(bytes)),
        format!(r#"{{"query":"a","sort":["{}"]}}"#, "a".repeat(bytes)),
        format!(r#"{{"query":"a","mode":"{}"}}"#, "a".repeat(bytes)),
    ];
    ask(&gateway, &json!({"query": "weir"}));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let client = Client::new(&gateway.weir.url);
            while !done.load(Ordering::Relaxed) {
                let (status, reply) =
                    client.try_post("/v1/search", &json!({"query": "river", "mode": "lexical"})).unwrap();
                assert_eq!((status, ids(&reply).as_str()), (200, "b"));
            }
        });
        // also when an assertion fails, or the other thread would never end
        let _done = SetOnDrop(&done);
        for body in &bodies {
            forget_the_most(&gateway);
            let (before, _) = memory(&gateway);
            let reply = gateway.send("POST", "/v1/search", Some(body.as_bytes()));
            assert!((400..500).contains(&reply.status), "{}: {}", &body[..40], reply.status);
            let grown = memory(&gateway).1.saturating_sub(before);
            assert!(grown < 6 * bytes as u64, "{}: memory grew by {grown} bytes", &body[..40]);
            assert!(reply.text.len() < 10_000, "{}: a reply of {} bytes", &body[..40], reply.text.len());
        }
    });
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
