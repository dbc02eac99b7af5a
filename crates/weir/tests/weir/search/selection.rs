//! Which documents are found, in which order, and how they are counted: query language, filters, facets, sorting, groups.

use serde_json::{Value, json};

use super::{Gateway, ask, ids, library, refused};

fn lexical(query: &str, more: Value) -> Value {
    let mut body = json!({"query": query, "mode": "lexical", "top_k": 10, "sort": ["year", "author.name"]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn the_query_language_is_understood() {
    let gateway = library();
    let check = |query: &str, expected: &str| {
        assert_eq!(ids(&ask(&gateway, &lexical(query, json!({})))), expected, "{query}");
    };
    check("weir", "a b c e f");
    check("weir -sluice", "a b c f");
    check("\"a weir is\"", "a");
    check("+weir +sluice", "e");
    check("slui*", "d e");
    check("lang:de weir", "c");
    check("weir AND (river OR dam)", "a b");
    check("title:e", "e");
    check("nofield:weir", "a b c e f"); // as it was typed: words
}

#[test]
fn a_strict_query_that_does_not_parse_is_refused_at_its_byte() {
    let gateway = library();
    let strict = |query: &str| json!({"query": query, "syntax": "strict"});
    assert_eq!(ids(&ask(&gateway, &json!({"query": "weir \"low dam", "mode": "lexical"}))), "a f e b c");
    refused(&gateway, &strict("weir \"low dam"), "invalid_query", "query", "at byte 5 of the query");
    refused(&gateway, &strict("-weir"), "invalid_query", "query", "only excludes");
    let unknown = refused(
        &gateway,
        &strict("nofield:weir"),
        "unknown_field",
        "query",
        "no document has the field `nofield`",
    );
    assert!(unknown["detail"].as_str().unwrap().contains("author.name, lang, tags, year"), "{unknown}");
    assert_eq!(
        ids(&ask(&gateway, &json!({"query": "lang:de weir", "syntax": "strict", "mode": "lexical"}))),
        "c"
    );
}

#[test]
fn a_filter_selects_in_both_forms_and_every_mode() {
    let gateway = library();
    let rows = [
        (json!({"year": {"gte": 2020}, "lang": "en"}), "d e"),
        (
            json!({"type": "and", "filters": [{"type": "gte", "key": "year", "value": 2020}, {"type": "eq", "key": "lang", "value": "en"}]}),
            "d e",
        ),
        (json!({"or": [{"author.name": "Cleo"}, {"lang": {"in": ["de"]}}]}), "c d"),
        (json!({"tags": "Ada"}), "a c"),
        (json!({"year": {"exists": false}}), "f"),
        (json!({"not": {"lang": "en"}}), "c f"),
        (json!({"year": 1900}), ""),
        (json!({}), "a b c d e f"),
        (Value::Null, "a b c d e f"),
    ];
    for (filter, expected) in rows {
        for mode in ["hybrid", "dense"] {
            let body = json!({"query": "weir sluice", "mode": mode, "filter": filter, "top_k": 10});
            let mut found: Vec<String> = ids(&ask(&gateway, &body)).split(' ').map(str::to_owned).collect();
            found.sort();
            assert_eq!(found.join(" "), expected, "{mode} {filter}");
        }
        if !filter.is_null() {
            let listed = ask(&gateway, &json!({"filter": filter, "top_k": 10}));
            assert_eq!(ids(&listed), expected, "listed {filter}");
            let count = expected.split_whitespace().count();
            assert_eq!(listed["total"], json!({"value": count, "exact": true, "relation": "exact"}));
        }
    }
}

#[test]
fn a_filter_that_does_not_parse_is_refused_with_a_pointer() {
    let gateway = library();
    let check = |filter: Value, pointer: &str, words: &str| {
        let body = json!({"query": "weir", "filter": filter});
        let problem = refused(&gateway, &body, "invalid_filter", "filter", words);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{filter}");
    };
    check(json!({"year": {"$gt": 1}}), "#/filter/year/$gt", "did you mean `gt`");
    check(json!({"and": []}), "#/filter/and", "a list of one or more");
    check(json!({"or": [{"a": 1}, 7]}), "#/filter/or/1", "a filter is an object");
    check(json!("year > 3"), "#/filter", "a filter is an object");
    check(json!([]), "#/filter", "a filter is an object");
    check(
        json!({"type": "foo", "key": "year", "value": 1}),
        "#/filter/type",
        "unknown operator `foo`: `type` is an operator, or `and` or `or` beside `filters`; operators are eq,",
    );
}

#[test]
fn a_field_that_no_document_has_is_an_error_wherever_it_is_named() {
    let gateway = library();
    let check = |part: Value, param: &str| {
        let mut body = json!({"query": "weir"});
        body.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        refused(
            &gateway,
            &body,
            "unknown_field",
            param,
            "no document has the field `langg`; use one of: author.name, lang, tags, year",
        );
    };
    check(json!({"filter": {"langg": "en"}}), "filter");
    check(json!({"facets": ["lang", "langg"]}), "facets[1]");
    check(json!({"sort": ["-langg"]}), "sort[0]");
    check(json!({"group_by": {"field": "langg"}}), "group_by");
}

#[test]
fn an_unknown_field_of_a_filter_is_pointed_to() {
    let gateway = library();
    let check = |filter: Value, pointer: &str| {
        let alone = json!({"query": "weir", "filter": filter});
        let problem = refused(&gateway, &alone, "unknown_field", "filter", "no document has the field `a/b`");
        assert_eq!(problem["errors"][0]["pointer"], format!("#/filter{pointer}"), "{filter}");
        let batch = ask(&gateway, &json!({"queries": [{"query": "weir"}, alone]}));
        let problem = &batch["replies"][1];
        assert_eq!(problem["errors"][0]["pointer"], format!("#/queries/1/filter{pointer}"), "{filter}");
        assert_eq!(problem["error"]["param"], "queries[1].filter", "{filter}");
    };
    check(json!({"a/b": "en"}), "/a~1b");
    check(json!({"and": [{"year": 2020}, {"a/b": {"in": ["en"]}}]}), "/and/1/a~1b");
    check(json!({"not": {"or": [{"lang": "en"}, {"lang": "de", "a/b": null}]}}), "/not/or/1/a~1b");
    check(
        json!({"type": "and", "filters": [{"year": 2020}, {"type": "eq", "key": "a/b", "value": 1}]}),
        "/filters/1/key",
    );
}

#[test]
fn facets_count_the_matches_and_not_the_page() {
    let gateway = library();
    let body = lexical(
        "weir",
        json!({"top_k": 1, "facets": ["lang", {"field": "year", "limit": 2}, "author.name"]}),
    );
    let reply = ask(&gateway, &body);
    let count = |value: Value, count: u64| json!({"value": value, "count": count});
    assert_eq!(
        reply["facets"],
        json!({
            "author.name": [count(json!("Ada"), 2), count(json!("Bob"), 2)],
            "lang": [count(json!("en"), 3), count(json!("de"), 1)],
            "year": [count(json!(2018), 1), count(json!(2019), 1)],
        })
    );
    // in the order of the ranking as in that of fields
    let ranked = ask(&gateway, &json!({"query": "weir", "mode": "lexical", "facets": ["lang"], "top_k": 1}));
    assert_eq!(ranked["facets"]["lang"], reply["facets"]["lang"]);
    let listed = ask(&gateway, &json!({"facets": ["lang"], "top_k": 1}));
    assert_eq!(listed["facets"]["lang"], json!([count(json!("en"), 4), count(json!("de"), 1)]));
    assert_eq!(ask(&gateway, &json!({"query": "weir"}))["facets"], Value::Null);
}

#[test]
fn results_are_sorted_by_fields_and_what_has_none_comes_last() {
    let gateway = library();
    // behind the one without fields, so that the order in which they came doesn't help
    gateway.ingest(&[
        json!({"id": "g", "text": "a dam", "metadata": {"year": 2022, "author": {"name": "Dan"}}}),
    ]);
    let check = |sort: Value, expected: &str| {
        assert_eq!(ids(&ask(&gateway, &json!({"sort": sort, "top_k": 10}))), expected, "{sort}");
    };
    check(json!(["year", "author.name"]), "a b c d e g f");
    check(json!(["-year", "author.name"]), "g e c d b a f");
    check(
        json!([{"field": "year", "order": "desc"}, {"field": "author.name", "order": "desc"}]),
        "g e d c b a f",
    );
    check(json!([{"field": "author.name"}, "-year"]), "c a e b d g f");
}

#[test]
fn what_fields_order_has_neither_score_nor_relevance_in_any_mode() {
    let gateway = library();
    for (mode, rankings) in [("hybrid", 2), ("dense", 1), ("lexical", 0)] {
        let bob = json!({"author.name": "Bob"});
        let body = json!({"query": "weir", "mode": mode, "sort": ["-year"], "filter": bob});
        let reply = ask(&gateway, &body);
        assert_eq!(ids(&reply), "e b", "{mode}");
        for hit in reply["results"].as_array().unwrap() {
            assert_eq!((&hit["score"], &hit["relevance"]), (&json!(0.0), &Value::Null), "{mode}: {hit}");
            let ranks = hit["ranks"].as_object().unwrap().values();
            assert_eq!(ranks.filter(|rank| rank.is_u64()).count(), rankings, "{mode}: {hit}");
        }
    }
}

#[test]
fn hits_are_documents_chunks_or_groups_of_a_field() {
    let gateway = Gateway::start();
    let text = "the first weir stands here and is long enough to be cut into several chunks. the second weir \
                stands there and is long enough as well, so that a third weir needs a chunk of its own.";
    gateway.ingest(&[
        json!({"id": "long", "text": text, "metadata": {"kind": "book"}}),
        json!({"id": "short", "text": "a weir", "metadata": {"kind": "book"}}),
        json!({"id": "note", "text": "a weir and a note of it", "metadata": {"kind": "note"}}),
    ]);
    let grouped = |group_by: Value| {
        ask(&gateway, &json!({"query": "weir", "mode": "lexical", "top_k": 20, "group_by": group_by}))
    };
    let count = |reply: &Value, id: &str| ids(reply).split(' ').filter(|found| *found == id).count();
    let documents = grouped(json!("document"));
    assert_eq!((ids(&documents).split(' ').count(), &documents["total"]["value"]), (3, &json!(3)));
    let chunks = grouped(json!("chunk"));
    assert_eq!((count(&chunks, "long"), count(&chunks, "short")), (3, 1), "{chunks}");
    assert_eq!(chunks["total"], json!({"value": 5, "exact": true, "relation": "exact"}));
    let groups = grouped(json!({"field": "kind"}));
    assert_eq!((ids(&groups), &groups["total"]["value"]), ("short note".to_owned(), &json!(2)));
    refused(
        &gateway,
        &json!({"query": "a", "group_by": "page"}),
        "invalid_parameter",
        "group_by",
        r#"expected "document", "chunk" or {"field": "lang"}"#,
    );
}
