//! What is found in the cluster, beside a collection of the gateway itself.

use serde_json::{Value, json};

use super::{Setup, create, found, ids, ingest, search, shown, sorted};
use crate::support::client::Client;

fn documents() -> Value {
    json!([
        {"id": "a", "text": "The lighthouse warns ships of the rock.", "metadata": {"tenant": "north", "year": 2001}},
        {"id": "b", "text": "The keeper of the lighthouse sleeps.", "metadata": {"tenant": "north", "year": 2002}},
        {"id": "c", "text": "A harbour without any light.", "metadata": {"tenant": "south", "year": 2003}},
        {"id": "d", "title": "Fog", "text": "Fog is a cloud at the ground. Ships sound their horns in it. Nobody sees the lighthouse then, and the pilots wait for the wind.", "metadata": {"tenant": "south", "year": 2004}},
    ])
}

#[test]
fn collections_in_the_gateway_and_in_the_cluster_are_searched_alike() {
    let Setup { gateway, .. } = &Setup::start();
    create(gateway, "near", &json!({}));
    for collection in ["near", "far"] {
        ingest(gateway, collection, &documents());
        let of = |body: Value| found(gateway, collection, &body);
        assert_eq!(
            of(json!({"query": "keeper of the lighthouse", "mode": "hybrid"}))[0],
            "b",
            "{collection}"
        );
        assert_eq!(sorted(of(json!({"query": "ships", "mode": "lexical"}))), ["a", "d"]);
        assert_eq!(
            of(json!({"query": "The keeper of the lighthouse sleeps.", "mode": "dense", "top_k": 1})),
            ["b"]
        );
        assert_eq!(of(json!({"query": "ships", "mode": "lexical", "filter": {"tenant": "south"}})), ["d"]);
        assert_eq!(
            of(json!({"filter": {"year": {"gte": 2003}}, "sort": [{"field": "year", "order": "desc"}]})),
            ["d", "c"]
        );
        let grouped = of(json!({"query": "lighthouse", "group_by": {"field": "tenant"}}));
        assert_eq!(grouped.len(), 2, "{grouped:?}");
        let (_, reply) = search(
            gateway,
            collection,
            &json!({"query": "lighthouse", "mode": "lexical", "facets": [{"field": "tenant"}], "explain": true, "context": 1}),
        );
        assert_eq!(sorted(ids(&reply)), ["a", "b", "d"], "{reply}");
        assert_eq!(reply["facets"]["tenant"][0], json!({"value": "north", "count": 2}), "{reply}");
        assert!(reply["results"][0]["explanation"].is_object(), "{reply}");
        let shown = shown(gateway, collection);
        assert_eq!((&shown["document_count"], &shown["status"]), (&json!(4), &json!("ready")));
    }
    assert_eq!(shown(gateway, "far")["settings"]["engine"], "qdrant");
    assert!(shown(gateway, "near")["settings"].get("engine").is_none());
}

/// All pages of a request, by its cursors.
fn pages(client: &Client, mut page: impl FnMut(&Client, Option<&str>) -> Value, key: &str) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    for _ in 0..10 {
        let reply = page(client, cursor.as_deref());
        let entries = reply[key].as_array().unwrap().iter();
        all.extend(entries.map(|entry| entry["id"].as_str().unwrap().to_owned()));
        match reply["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return all,
        }
    }
    panic!("there is no end of pages: {all:?}")
}

#[test]
fn pages_of_the_cluster_follow_each_other_by_cursors() {
    let Setup { gateway, .. } = &Setup::start();
    ingest(gateway, "far", &documents());
    let by_query = |client: &Client, cursor: Option<&str>| {
        let body = json!({"query": "lighthouse ships", "mode": "lexical", "top_k": 1, "cursor": cursor});
        let (status, reply) = search(client, "far", &body);
        assert_eq!(status, 200, "{reply}");
        reply
    };
    assert_eq!(sorted(pages(gateway, by_query, "results")), ["a", "b", "d"]);
    let by_filter = |client: &Client, cursor: Option<&str>| {
        let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let path = format!(
            "/v1/collections/far/documents?filter=%7B%22year%22%3A%7B%22lt%22%3A2004%7D%7D&sort=-year&limit=1{cursor}"
        );
        let (status, reply) = client.get(&path);
        assert_eq!(status, 200, "{reply}");
        reply
    };
    assert_eq!(pages(gateway, by_filter, "data"), ["c", "b", "a"]);
}

#[test]
fn what_the_cluster_does_not_do_is_refused_with_the_remedy() {
    let Setup { gateway, .. } = &Setup::start();
    ingest(gateway, "far", &documents());
    for (body, remedy) in [
        (json!({"query": "ships AND fog", "syntax": "strict"}), "search for words alone"),
        (json!({"query": "light*", "syntax": "strict"}), "search for words alone"),
        (json!({"query": "tenant:north", "syntax": "strict"}), "use `filter`"),
        (json!({"query": "lig", "prefix": "last"}), "leave out `prefix`"),
    ] {
        let (status, refused) = search(gateway, "far", &body);
        assert_eq!((status, &refused["code"]), (400, &json!("invalid_parameter")), "{body}: {refused}");
        assert!(refused["detail"].as_str().unwrap().contains(remedy), "{refused}");
    }
    // what looks like an operator in pasted text is text
    assert_eq!(
        sorted(found(gateway, "far", &json!({"query": "lighthouse AND ships", "mode": "lexical"}))),
        ["a", "b", "d"]
    );
}

#[test]
fn a_key_with_a_filter_finds_changes_and_counts_its_own_documents_alone() {
    let Setup { gateway, .. } = &Setup::start();
    ingest(gateway, "far", &documents());
    let key = |by: &Client, body: &Value| {
        let (status, reply) = by.try_post("/v1/keys", body).unwrap();
        assert_eq!(status, 201, "{reply}");
        Client::with_key(&gateway.weir.url, reply["key"].as_str().unwrap())
    };
    let admin = key(gateway, &json!({"name": "admin", "scopes": ["admin", "search", "ingest"]}));
    let filter = json!({"tenant": "south"});
    let south = key(&admin, &json!({"name": "south", "scopes": ["search", "ingest"], "filter": filter}));
    let query =
        json!({"query": "lighthouse ships harbour", "mode": "lexical", "facets": [{"field": "tenant"}]});
    let (_, reply) = search(&south, "far", &query);
    assert_eq!(sorted(ids(&reply)), ["c", "d"]);
    assert_eq!(reply["facets"]["tenant"], json!([{"value": "south", "count": 2}]), "{reply}");
    assert_eq!(shown(&south, "far")["document_count"], 2);
    let hybrid = found(&south, "far", &json!({"query": "keeper of the lighthouse"}));
    assert_eq!(sorted(hybrid), ["c", "d"]);
    let hidden = south.send("DELETE", "/v1/collections/far/documents/a", None);
    assert_eq!(hidden.status, 404, "{}", hidden.text);
    let own = south.send("DELETE", "/v1/collections/far/documents/d", None);
    assert_eq!(own.status, 200, "{}", own.text);
    assert_eq!(found(&south, "far", &json!({"query": "ships", "mode": "lexical"})), Vec::<String>::new());
    assert_eq!(sorted(found(&admin, "far", &json!({"query": "ships", "mode": "lexical"}))), ["a"]);
}

#[test]
fn documents_are_replaced_and_deleted_and_a_restart_writes_nothing() {
    let setup = Setup::start();
    ingest(&setup.gateway, "far", &documents());
    let changed = json!([{"id": "a", "text": "A buoy rings its bell."}]);
    ingest(&setup.gateway, "far", &changed);
    let lexical = |words: &str| json!({"query": words, "mode": "lexical"});
    assert_eq!(found(&setup.gateway, "far", &lexical("buoy")), ["a"]);
    assert_eq!(found(&setup.gateway, "far", &lexical("rock")), Vec::<String>::new());
    let deleted = setup.gateway.send("DELETE", "/v1/collections/far/documents/b", None);
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    assert_eq!(found(&setup.gateway, "far", &lexical("keeper")), Vec::<String>::new());
    let by_filter = json!({"filter": {"tenant": "south", "year": 2003}}).to_string();
    let deleted =
        setup.gateway.send("POST", "/v1/collections/far/documents/delete", Some(by_filter.as_bytes()));
    assert_eq!((deleted.status, &deleted.json()["deleted"]), (200, &json!(1)), "{}", deleted.text);
    setup.gateway.wait("all operations", || {
        let metrics = setup.gateway.send("GET", "/metrics", None).text;
        metrics.contains("weir_pending_operations{collection=\"far\"} 0\n")
    });
    setup.cluster.take_recorded();

    let setup = setup.restart();
    assert_eq!(found(&setup.gateway, "far", &lexical("buoy lighthouse")).len(), 2);
    assert_eq!(shown(&setup.gateway, "far")["document_count"], 2);
    let recorded = setup.cluster.take_recorded();
    assert_eq!(
        super::upserts(&recorded, "a") + super::upserts(&recorded, "d"),
        0,
        "nothing is applied again"
    );
    assert!(!setup.gateway.weir.log().contains("rebuilt"), "{}", setup.gateway.weir.log());
}

#[test]
fn a_word_of_very_many_chunks_is_searched_and_its_matches_are_counted_up_to_a_thousand() {
    let Setup { gateway, .. } = &Setup::start();
    let notes = |range: std::ops::Range<usize>| {
        let note = |number| json!({"id": format!("n{number}"), "text": format!("stone {number}"), "metadata": {"year": 2000}});
        json!(range.map(note).collect::<Vec<Value>>())
    };
    let body = json!({"query": "stone", "mode": "lexical", "top_k": 5});
    let total = |body: &Value| {
        let (status, reply) = search(gateway, "far", body);
        assert_eq!((status, reply["results"].as_array().unwrap().len()), (200, 5), "{reply}");
        reply["total"].clone()
    };
    ingest(gateway, "far", &notes(0..1000));
    assert_eq!(total(&body), json!({"value": 1000, "exact": true, "relation": "exact"}));
    ingest(gateway, "far", &notes(1000..1010));
    assert_eq!(total(&body)["exact"], json!(false));
    let mut faceted = body.clone();
    faceted["facets"] = json!(["year"]);
    assert_eq!(total(&faceted), json!({"value": 1010, "exact": true, "relation": "exact"}));
}
