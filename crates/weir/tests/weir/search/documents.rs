//! Documents by filter: listed and deleted.

use serde_json::{Value, json};

use super::{Gateway, ask, check_error, ids, library, library_with};
use crate::support::client::Reply;

const DOCUMENTS: &str = "/v1/collections/default/documents";

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn listed(gateway: &Gateway, filter: &Value, more: &str) -> Reply {
    gateway.send("GET", &format!("{DOCUMENTS}?filter={}{more}", encoded(&filter.to_string())), None)
}

fn data(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text);
    let page = reply.json();
    let ids =
        page["data"].as_array().unwrap().iter().map(|document| document["id"].as_str().unwrap().to_owned());
    ids.collect::<Vec<_>>().join(" ")
}

#[test]
fn documents_are_listed_by_filter_and_in_an_order() {
    let gateway = library();
    assert_eq!(data(&listed(&gateway, &json!({"year": 2020}), "&sort=-author.name")), "d c");
    assert_eq!(data(&listed(&gateway, &json!({"lang": "en"}), "&sort=-year,author.name")), "e d b a");
    assert_eq!(
        data(&gateway.send("GET", &format!("{DOCUMENTS}?sort=-year,author.name"), None)),
        "e c d b a f"
    );
    assert_eq!(data(&gateway.send("GET", DOCUMENTS, None)), "a b c d e f", "by id");
    let one = listed(&gateway, &json!({"lang": "de"}), "").json();
    let stored = gateway.document("c").unwrap();
    assert_eq!(one, json!({"data": [stored], "next_cursor": null}));
}

#[test]
fn a_list_is_walked_page_by_page() {
    let gateway = library();
    let (filter, mut found, mut cursor) = (json!({"lang": {"exists": true}}), Vec::new(), String::new());
    for _ in 0..10 {
        let page = listed(&gateway, &filter, &format!("&sort=-year,author.name&limit=2{cursor}"));
        found.push(data(&page));
        match page.json()["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, ["e c", "d b", "a"]);
    let stale = listed(&gateway, &json!({"lang": "en"}), &cursor);
    check_error(&stale, "invalid_cursor", "the cursor of another filter");
    let foreign =
        ask(&gateway, &json!({"query": "weir", "top_k": 1}))["next_cursor"].as_str().unwrap().to_owned();
    let foreign = listed(&gateway, &filter, &format!("&cursor={foreign}"));
    check_error(&foreign, "invalid_cursor", "the cursor of a search");
}

#[test]
fn a_list_by_id_takes_its_own_cursors_alone_and_any_id_as_after() {
    let gateway = library();
    let list = |query: &str| gateway.send("GET", &format!("{DOCUMENTS}?{query}"), None);
    let cursor_of = |page: &Reply| page.json()["next_cursor"].as_str().unwrap().to_owned();
    let first = list("limit=2");
    let own = cursor_of(&first);
    let second = list(&format!("limit=3&cursor={own}"));
    let third = list(&format!("cursor={}", cursor_of(&second)));
    assert_eq!([data(&first), data(&second), data(&third)], ["a b", "c d e", "f"]);
    assert_eq!([data(&list("after=d")), data(&list("after=c%20c&limit=1"))], ["e f", "d"]);

    let sorted = cursor_of(&list("sort=year&limit=2"));
    let filtered = cursor_of(&listed(&gateway, &json!({"lang": "en"}), "&limit=2"));
    for foreign in ["b", "", "garbage", &sorted, &filtered, &own[1..], &own.repeat(200)] {
        check_error(&list(&format!("cursor={foreign}")), "invalid_cursor", foreign);
    }
    check_error(&list(&format!("sort=year&cursor={own}")), "invalid_cursor", "of the list by id");
    gateway.send("PUT", "/v1/collections/other", Some(b"{}"));
    let elsewhere = gateway.send("GET", &format!("/v1/collections/other/documents?cursor={own}"), None);
    check_error(&elsewhere, "invalid_cursor", "in another collection");

    let by_cursor = "send `next_cursor` of the page before as `cursor`";
    let both = format!("cursor={own}");
    for (more, remedy) in
        [("sort=year", by_cursor), ("filter=%7B%7D", by_cursor), (both.as_str(), "leave out one of them")]
    {
        let refused = check_error(&list(&format!("after=b&{more}")), "invalid_parameter", more);
        assert_eq!(refused["error"]["param"], "after", "{refused}");
        assert!(refused["detail"].as_str().unwrap().contains(remedy), "{refused}");
    }
}

#[test]
fn a_page_of_large_documents_ends_early_and_loses_none() {
    let gateway = Gateway::start_with(&[("WEIR_CHUNKING_MAX_TOKENS", "1000")]);
    let text = "weir ".repeat(600_000);
    for id in 0..5 {
        gateway.ingest(&[json!({"id": format!("d{id}"), "text": text, "metadata": {"n": id}})]);
    }
    let first = gateway.send("GET", &format!("{DOCUMENTS}?sort=n"), None);
    assert_eq!(data(&first), "d0 d1 d2", "3 MB each, 8 MiB on a page");
    let cursor = first.json()["next_cursor"].as_str().unwrap().to_owned();
    let second = gateway.send("GET", &format!("{DOCUMENTS}?sort=n&cursor={cursor}"), None);
    assert_eq!((data(&second).as_str(), &second.json()["next_cursor"]), ("d3 d4", &Value::Null));
}

#[test]
fn a_list_that_makes_no_sense_is_refused() {
    let gateway = library_with(&[("WEIR_LIMITS_LIST_DEPTH_MAX", "4")]);
    let check = |query: &str, code: &str| {
        check_error(&gateway.send("GET", &format!("{DOCUMENTS}?{query}"), None), code, query);
    };
    check("filter=year", "invalid_filter");
    check("filter=", "invalid_filter");
    check(&format!("filter={}", encoded(r#"{"a":{"$gt":1}}"#)), "invalid_filter");
    check(&format!("filter={}", encoded(&"[".repeat(10_000))), "invalid_filter");
    let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(1_000), "}".repeat(1_000));
    let deep = gateway.send("GET", &format!("{DOCUMENTS}?filter={}", encoded(&deep)), None);
    let deep = check_error(&deep, "invalid_filter", "1,000 deep");
    let detail = deep["detail"].as_str().unwrap();
    assert!(detail.contains("nested deeper than 64 levels: reduce the nesting"), "{deep}");
    let unknown = encoded(r#"{"or":[{"lang":"en"},{"langg":"en"}]}"#);
    let unknown = gateway.send("GET", &format!("{DOCUMENTS}?sort=year&filter={unknown}"), None);
    let unknown = check_error(&unknown, "unknown_field", "langg");
    assert_eq!(unknown["errors"][0]["pointer"], "#/filter/or/1/langg");
    check("sort=nothing", "unknown_field");
    check("sort=year&limit=0", "invalid_parameter");
    check("sort=year&limit=1001", "invalid_parameter");
    let cursor_behind = |cursor: &str| {
        let page = gateway.send("GET", &format!("{DOCUMENTS}?sort=year&limit=2{cursor}"), None);
        format!("&cursor={}", page.json()["next_cursor"].as_str().unwrap())
    };
    let third_page = cursor_behind(&cursor_behind(""));
    check(&format!("sort=year&limit=2{third_page}"), "invalid_parameter");
    check("sort=a,b,c,d,e,f,g,h,i", "batch_too_large");
    check("order=year", "unknown_field");
    check("sort=year&limit=2&cursor=x", "invalid_cursor");
    let none = gateway.send("GET", "/v1/collections/none/documents?sort=year", None);
    check_error(&none, "collection_not_found", "no collection");
}

fn delete(gateway: &Gateway, body: &Value) -> Reply {
    gateway.send("POST", &format!("{DOCUMENTS}/delete"), Some(body.to_string().as_bytes()))
}

#[test]
fn documents_are_deleted_by_filter_after_a_dry_run() {
    let gateway = library();
    let filter = json!({"author.name": "Bob"});
    let counted = delete(&gateway, &json!({"filter": filter, "dry_run": true}));
    let none = json!({"matched": 2, "deleted": 0, "skipped": 0, "remaining": 2, "dry_run": true});
    assert_eq!((counted.status, counted.json()), (200, none));
    assert_eq!(gateway.document_count(), 6);
    let deleted = delete(&gateway, &json!({ "filter": filter }));
    let all = json!({"matched": 2, "deleted": 2, "skipped": 0, "remaining": 0, "dry_run": false});
    assert_eq!((deleted.status, deleted.json()), (200, all.clone()));
    assert_eq!(ids(&ask(&gateway, &json!({"sort": ["year", "author.name"], "top_k": 10}))), "a c d f");
    assert_eq!((gateway.document("b"), gateway.document_count()), (None, 4));
    let again = delete(&gateway, &json!({ "filter": filter }));
    assert_eq!(again.json()["matched"], 0);
    gateway.weir.kill();
    let weir = crate::support::process::Weir::start(gateway.folder());
    let client = crate::support::client::Client::new(&weir.url);
    client.wait_until_ready();
    assert_eq!((client.document("b"), client.document("e")), (None, None), "gone for good");
}

#[test]
fn one_request_deletes_so_many_and_says_what_remains() {
    let gateway = library_with(&[("WEIR_LIMITS_DELETE_DOCUMENTS_MAX", "2")]);
    let body = json!({"filter": {"lang": "en"}});
    let first = delete(&gateway, &body).json();
    assert_eq!(first, json!({"matched": 4, "deleted": 2, "skipped": 0, "remaining": 2, "dry_run": false}));
    let second = delete(&gateway, &body).json();
    assert_eq!((&second["deleted"], &second["remaining"]), (&json!(2), &json!(0)));
    assert_eq!(gateway.document_count(), 2);
}

#[test]
fn everything_is_deleted_only_when_that_is_said() {
    let gateway = library();
    for body in [
        json!({}),
        json!({"filter": {}}),
        json!({"filter": null, "all": false}),
        json!({"filter": {"and": [{}]}}),
    ] {
        let refused = check_error(&delete(&gateway, &body), "invalid_filter", &body.to_string());
        assert!(refused["detail"].as_str().unwrap().contains("\"all\": true"), "{refused}");
    }
    assert_eq!(gateway.document_count(), 6);
    assert_eq!(delete(&gateway, &json!({"all": true})).json()["deleted"], 6);
    assert_eq!(gateway.document_count(), 0);
}

#[test]
fn a_deletion_that_makes_no_sense_deletes_nothing() {
    let gateway = library();
    let check = |body: Value, code: &str| {
        check_error(&delete(&gateway, &body), code, &body.to_string());
        assert_eq!(gateway.document_count(), 6, "{body}");
    };
    let unknown = json!({"filter": {"lang": "en", "not": {"langg": {"gt": 1}}}});
    check(unknown.clone(), "unknown_field");
    assert_eq!(delete(&gateway, &unknown).json()["errors"][0]["pointer"], "#/filter/not/langg");
    check(json!({"filter": {"lang": {"is": "en"}}}), "invalid_filter");
    check(json!({"filter": "lang"}), "invalid_filter");
    check(json!({"filters": {"lang": "en"}}), "unknown_field");
    check(json!({"filter": {"lang": "en"}, "dry_run": "yes"}), "invalid_parameter");
    check(json!([]), "invalid_parameter");
}

#[test]
fn a_document_may_be_called_delete() {
    let gateway = Gateway::start();
    gateway.ingest(&[json!({"id": "delete", "text": "a weir"})]);
    assert_eq!(gateway.document("delete").unwrap()["text"], "a weir");
    assert_eq!(gateway.send("GET", &format!("{DOCUMENTS}/delete"), None).json()["text"], "a weir");
    assert_eq!(gateway.send("DELETE", &format!("{DOCUMENTS}/delete"), None).status, 200);
    assert_eq!(gateway.document("delete"), None);
}
