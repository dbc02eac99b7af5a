//! Pages: nothing twice, nothing left out, and cursors that lead nowhere else.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{Gateway, ask, ids, refused, send};
use crate::support::client::Client;
use crate::support::process::Weir;

/// Documents that all match `weir`, of different lengths so that they rank differently.
fn many(prefix: &str, count: usize) -> Vec<Value> {
    let document = |i: usize| json!({"id": format!("{prefix}{i:04}"), "text": format!("a weir {}", "of stone ".repeat(i % 7)), "metadata": {"n": i, "even": i.is_multiple_of(2)}});
    (0..count).map(document).collect()
}

fn with_cursor(body: &Value, cursor: &Value) -> Value {
    let mut body = body.clone();
    body["cursor"] = cursor.clone();
    body
}

/// Walks from the first page to the last; the ids in the order of the pages, and the totals of each page.
fn walk(gateway: &Gateway, body: &Value) -> (Vec<String>, BTreeSet<String>) {
    let (mut found, mut totals, mut cursor) = (Vec::new(), BTreeSet::new(), Value::Null);
    for _ in 0..1_000 {
        let page = ask(gateway, &with_cursor(body, &cursor));
        found.extend(ids(&page).split_whitespace().map(str::to_owned));
        totals.insert(page["total"].to_string());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return (found, totals);
        }
    }
    panic!("the pages have no end")
}

#[test]
fn pages_of_any_size_hold_the_same_results_in_the_same_order() {
    let gateway = Gateway::start_with(&[("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "256")]);
    gateway.ingest(&many("d", 60));
    let bodies = [
        json!({"query": "weir stone", "mode": "lexical"}),
        json!({"query": "weir stone", "mode": "lexical", "count": false}),
        json!({"query": "weir stone", "mode": "lexical", "sort": ["-even", "n"]}),
        json!({"query": "weir stone"}),
        json!({"query": "weir stone", "mode": "dense", "filter": {"even": true}}),
        json!({"filter": {"n": {"gte": 7}}}),
        json!({"sort": ["-n"]}),
    ];
    for body in &bodies {
        let sized = |size: usize| {
            let mut body = body.clone();
            body["top_k"] = json!(size);
            body
        };
        let whole = ids(&ask(&gateway, &sized(60)));
        let whole: Vec<&str> = whole.split(' ').collect();
        assert!(whole.len() >= 30, "{body}");
        for size in [1, 7, 20, 59, 60] {
            let (found, totals) = walk(&gateway, &sized(size));
            assert_eq!(found, whole, "{body} in pages of {size}");
            assert!(
                totals.len() == 1 || body["count"] == false,
                "the total changed from page to page: {totals:?}"
            );
        }
    }
}

#[test]
fn a_total_is_named_for_what_it_counts() {
    let gateway = Gateway::start();
    gateway.ingest(&many("d", 9));
    let total = |body: Value| ask(&gateway, &body)["total"].clone();
    let exact = |value: u64| json!({"value": value, "exact": true, "relation": "exact"});
    let window = |value: u64| json!({"value": value, "exact": false, "relation": "window"});
    assert_eq!(total(json!({"query": "weir", "mode": "lexical", "top_k": 2})), exact(9));
    assert_eq!(total(json!({"filter": {"even": true}, "top_k": 2})), exact(5));
    assert_eq!(total(json!({"query": "weir", "top_k": 2})), window(9));
    assert_eq!(total(json!({"query": "weir", "mode": "dense", "top_k": 2})), window(9));
}

#[test]
fn an_offset_passes_results_over() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_PAGE_DEPTH_MAX", "12")]);
    gateway.ingest(&many("d", 20));
    let page = |offset: u64| json!({"sort": ["n"], "top_k": 3, "offset": offset});
    assert_eq!(ids(&ask(&gateway, &page(4))), "d0004 d0005 d0006");
    refused(
        &gateway,
        &page(10),
        "invalid_parameter",
        "offset",
        "`limits.page_depth_max` is 12. Narrow the search by a filter",
    );
    let last = ask(&gateway, &page(9));
    let beyond = with_cursor(&page(9), &last["next_cursor"]);
    refused(&gateway, &beyond, "invalid_parameter", "cursor", "the page ends at result 15");
}

#[test]
fn a_cursor_is_refused_for_anything_but_its_own_request() {
    let gateway = Gateway::start();
    gateway.ingest(&many("d", 9));
    let other = json!({"collection": "other", "documents": many("o", 9)}).to_string();
    assert_eq!(gateway.send("POST", "/v1/ingest?wait=true", Some(other.as_bytes())).status, 202);
    let body = json!({"query": "weir", "top_k": 2});
    let cursor = ask(&gateway, &body)["next_cursor"].as_str().unwrap().to_owned();
    assert_eq!(ask(&gateway, &with_cursor(&body, &json!(cursor)))["results"].as_array().unwrap().len(), 2);
    let check = |body: Value, cursor: &str, words: &str| {
        refused(&gateway, &with_cursor(&body, &json!(cursor)), "invalid_cursor", "cursor", words);
    };
    check(json!({"query": "weirs", "top_k": 2}), &cursor, "belongs to another request");
    check(json!({"query": "weir", "top_k": 3}), &cursor, "belongs to another request");
    check(
        json!({"query": "weir", "top_k": 2, "filter": {"even": true}}),
        &cursor,
        "belongs to another request",
    );
    check(
        json!({"query": "weir", "top_k": 2, "collection": "other"}),
        &cursor,
        "belongs to another collection",
    );
    for place in [0, 20, cursor.len() - 2] {
        let mut tampered = cursor.clone().into_bytes();
        tampered[place] = if tampered[place] == b'A' { b'B' } else { b'A' };
        check(body.clone(), &String::from_utf8(tampered).unwrap(), "not issued by this gateway");
    }
    for nonsense in ["", "abc", "\u{0}", "ÄÖÜ", &cursor[1..], &format!("{cursor}A"), &"A".repeat(100_000)]
    {
        check(body.clone(), nonsense, "not issued by this gateway");
    }
    let stranger = Gateway::start();
    stranger.ingest(&many("d", 9));
    refused(
        &stranger,
        &with_cursor(&body, &json!(cursor)),
        "invalid_cursor",
        "cursor",
        "not issued by this gateway",
    );
    // what doesn't change the ranking may change
    let patient = json!({"query": "weir", "top_k": 2, "deadline_ms": 20_000, "cursor": cursor});
    assert_eq!(ask(&gateway, &patient)["results"].as_array().unwrap().len(), 2);
}

#[test]
fn a_cursor_outlives_a_restart_but_not_what_came_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let weir = Weir::start(folder.path());
    let ask = |weir: &Weir, body: &Value| Client::new(&weir.url).try_post("/v1/search", body).unwrap();
    let ingest = |weir: &Weir, documents: Vec<Value>| {
        let reply = Client::new(&weir.url)
            .try_post("/v1/ingest?wait=true", &json!({ "documents": documents }))
            .unwrap();
        assert_eq!(reply.1["status"], "completed", "{}", reply.1);
    };
    ingest(&weir, many("d", 6));
    let body = json!({"sort": ["n"], "top_k": 2});
    let first = ask(&weir, &body).1;
    weir.terminate();
    let weir = Weir::start(folder.path());
    Client::new(&weir.url).wait_until_ready();
    let second = with_cursor(&body, &first["next_cursor"]);
    let (status, page) = ask(&weir, &second);
    assert_eq!((status, ids(&page).as_str()), (200, "d0002 d0003"), "{page}");
    weir.terminate();
    let weir = Weir::start(folder.path());
    Client::new(&weir.url).wait_until_ready();
    ingest(&weir, many("late", 1));
    let (status, page) = ask(&weir, &second);
    assert_eq!((status, &page["code"]), (410, &json!("cursor_expired")), "{page}");
    assert!(page["detail"].as_str().unwrap().contains("Start again at the first page"), "{page}");
}

#[test]
fn pages_under_concurrent_ingest_hold_nothing_twice_and_all_that_was_there() {
    let gateway = Gateway::start();
    gateway.ingest(&many("d", 60));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let client = Client::new(&gateway.weir.url);
            for round in 0..200 {
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
                let body = json!({"documents": many(&format!("new{round}-"), 5)});
                assert_eq!(client.try_post("/v1/ingest?wait=true", &body).unwrap().0, 202);
            }
        });
        for body in [
            json!({"query": "weir", "mode": "lexical", "top_k": 7}),
            json!({"query": "weir", "top_k": 9}),
            json!({"sort": ["-n"], "top_k": 8}),
        ] {
            for _ in 0..4 {
                let started =
                    ask(&gateway, &json!({"filter": {"n": {"gte": 0}}, "top_k": 1}))["total"]["value"]
                        .clone();
                let (found, totals) = walk(&gateway, &body);
                let different: BTreeSet<&String> = found.iter().collect();
                assert_eq!(different.len(), found.len(), "something came twice: {body}");
                assert_eq!(totals.len(), 1, "{totals:?}");
                let is_whole = body["query"].is_null() || body["mode"] == "lexical";
                assert!(
                    !is_whole || found.len() as u64 >= started.as_u64().unwrap(),
                    "{} of {started}: {body}",
                    found.len()
                );
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_document_deleted_between_two_pages_is_on_none_of_the_pages_that_follow() {
    let gateway = Gateway::start();
    gateway.ingest(&many("d", 9));
    let body = json!({"sort": ["n"], "top_k": 3});
    let first = ask(&gateway, &body);
    assert_eq!(gateway.try_delete("d0004").unwrap().0, 200);
    assert_eq!(gateway.try_delete("d0000").unwrap().0, 200);
    let second = ask(&gateway, &with_cursor(&body, &first["next_cursor"]));
    assert_eq!(ids(&second), "d0003 d0005");
    let third = ask(&gateway, &with_cursor(&body, &second["next_cursor"]));
    assert_eq!((ids(&third).as_str(), &third["next_cursor"]), ("d0006 d0007 d0008", &Value::Null));
}

#[test]
fn a_search_that_finds_nothing_has_no_next_page() {
    let gateway = Gateway::start();
    let empty = ask(&gateway, &json!({"query": "weir"}));
    assert_eq!((&empty["results"], &empty["next_cursor"]), (&json!([]), &Value::Null));
    assert_eq!(send(&gateway, &json!({"sort": ["n"]})).status, 400, "no document has had the field");
}
