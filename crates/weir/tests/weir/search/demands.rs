//! What users of other systems ask for again and again, one test each, by the numbers of the list of demands.

use serde_json::{Value, json};

use super::{Gateway, ask, ids, in_repository, library, refused};

/// Demand 14: a deleted document is in no ranking, page or list.
#[test]
fn demand_14_a_deleted_document_is_found_nowhere() {
    let gateway = library();
    assert_eq!(gateway.try_delete("b").unwrap().0, 200);
    for body in [
        json!({"query": "river", "mode": "lexical"}),
        json!({"query": "a weir holds back a river", "mode": "dense", "top_k": 10}),
        json!({"query": "a weir holds back a river", "top_k": 10}),
        json!({"filter": {"author.name": "Bob"}}),
    ] {
        assert!(!ids(&ask(&gateway, &body)).split(' ').any(|id| id == "b"), "{body}");
    }
    let facet = ask(&gateway, &json!({"facets": ["author.name"]}))["facets"]["author.name"].clone();
    assert!(facet.as_array().unwrap().contains(&json!({"value": "Bob", "count": 1})), "{facet}");
}

/// Demand 18: weights, constant and method of the fusion in the request; all ranks and scores in the reply.
#[test]
fn demand_18_the_fusion_is_in_the_callers_hands_and_shows_its_parts() {
    let gateway = library();
    let fused = |fusion: Value| ask(&gateway, &json!({"query": "sluice", "fusion": fusion, "top_k": 6}));
    let weighted = |lexical: f64, dense: f64| fused(json!({"weights": {"lexical": lexical, "dense": dense}}));
    let alone = |mode: &str| ids(&ask(&gateway, &json!({"query": "sluice", "mode": mode, "top_k": 6})));
    assert!(ids(&weighted(1.0, 0.0)).starts_with(&alone("lexical")));
    assert_eq!(ids(&weighted(0.0, 1.0)), alone("dense"));
    let rrf = fused(json!({"method": "rrf", "k": 10, "weights": {"lexical": 1, "dense": 2}}));
    for hit in rrf["results"].as_array().unwrap() {
        let part = |retriever: &str, weight: f64| {
            hit["ranks"][retriever].as_f64().map_or(0.0, |rank| weight / (10.0 + rank))
        };
        let score = part("lexical", 1.0) + part("dense", 2.0);
        assert!((hit["score"].as_f64().unwrap() - score).abs() < 1e-6, "{hit}");
        assert_eq!(hit["scores"]["lexical"].is_number(), hit["ranks"]["lexical"].is_number(), "{hit}");
    }
}

/// Demand 19: beside the rank score there is a relevance that can be thresholded, and a search can answer "nothing".
#[test]
fn demand_19_relevance_is_a_number_that_a_caller_can_threshold() {
    let gateway = library();
    let search =
        |least: f64| ask(&gateway, &json!({"query": "sluice gate", "top_k": 6, "min_relevance": least}));
    let all = search(0.0);
    let relevance: Vec<f64> =
        all["results"].as_array().unwrap().iter().map(|hit| hit["relevance"].as_f64().unwrap()).collect();
    assert_eq!(relevance.len(), 6);
    assert!(relevance.iter().all(|relevance| (0.0..=1.0).contains(relevance)), "{relevance:?}");
    for least in relevance.clone() {
        let expected = relevance.iter().filter(|relevance| **relevance >= least).count();
        assert_eq!(search(least)["results"].as_array().unwrap().len(), expected, "{least} of {relevance:?}");
    }
    assert_eq!(search(1.0)["results"], json!([]), "nothing relevant is an answer");
    assert_eq!(
        ask(&gateway, &json!({"sort": ["year"]}))["results"][0]["relevance"],
        Value::Null,
        "nothing was searched for"
    );
}

/// Demand 20: a filter never costs results while matches exist.
#[test]
fn demand_20_a_filter_loses_no_result_while_matches_exist() {
    let gateway =
        Gateway::start_with(&[("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "512"), ("WEIR_SEARCH_DEPTH", "10")]);
    let document = |i: u64| json!({"id": format!("d{i}"), "text": format!("a weir of number {i}"), "metadata": {"rare": i % 100 == 7}});
    gateway.ingest(&(0..2_000).map(document).collect::<Vec<_>>());
    for mode in ["lexical", "dense", "hybrid"] {
        let body = json!({"query": "weir number 3", "mode": mode, "filter": {"rare": true}, "top_k": 20});
        assert_eq!(ask(&gateway, &body)["results"].as_array().unwrap().len(), 20, "{mode}");
    }
}

/// Demand 21: one filter language on search, list and delete; an unknown field is an error that lists the known ones.
#[test]
fn demand_21_one_filter_language_everywhere_and_an_unknown_field_is_an_error() {
    let gateway = library();
    let filter = json!({"type": "or", "filters": [{"type": "eq", "key": "lang", "value": "de"}, {"year": {"lt": 2019}}]});
    assert_eq!(ids(&ask(&gateway, &json!({"filter": filter}))), "a c");
    let path = "/v1/collections/default/documents";
    let text: String = filter.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
    let listed = gateway.get(&format!("{path}?filter={text}")).1;
    assert_eq!((&listed["data"][0]["id"], &listed["data"][1]["id"]), (&json!("a"), &json!("c")));
    let deleted = gateway.try_post(&format!("{path}/delete"), &json!({ "filter": filter })).unwrap();
    assert_eq!(deleted.1["deleted"], 2);
    let body = json!({"query": "weir", "filter": {"langauge": "en"}});
    refused(&gateway, &body, "unknown_field", "filter", "use one of: author.name, lang, tags, year");
}

/// Demand 22: totals and order don't wobble from page to page, nor with how many results are asked for.
#[test]
fn demand_22_pages_and_counts_do_not_wobble() {
    let gateway = Gateway::start_with(&[("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "512")]);
    let document = |i: u64| json!({"id": format!("d{i}"), "text": format!("a weir {}", "by a mill ".repeat((i % 9) as usize))});
    gateway.ingest(&(0..150).map(document).collect::<Vec<_>>());
    for mode in ["lexical", "dense", "hybrid"] {
        let body = |top_k: u64| json!({"query": "weir mill", "mode": mode, "top_k": top_k});
        let longest = ids(&ask(&gateway, &body(100)));
        for top_k in [1, 5, 10, 50] {
            let shorter = ids(&ask(&gateway, &body(top_k)));
            assert!(longest.starts_with(&shorter), "{mode}: the order depends on top_k {top_k}");
        }
        let first = ask(&gateway, &body(20));
        let mut next = body(20);
        next["cursor"] = first["next_cursor"].clone();
        assert_eq!(ask(&gateway, &next)["total"], first["total"], "{mode}");
    }
}

/// Demand 23: words of languages without spaces are found, and accents make no difference.
#[test]
fn demand_23_words_of_other_languages_are_found() {
    let gateway = Gateway::start();
    gateway.ingest(&[
        json!({"id": "ja", "text": "東京都の堰は川を止める"}),
        json!({"id": "fr", "text": "Le barrage à crête déversante"}),
        json!({"id": "ru", "text": "Плотина на реке"}),
    ]);
    let check = |query: &str, expected: &str| {
        assert_eq!(ids(&ask(&gateway, &json!({"query": query, "mode": "lexical"}))), expected, "{query}");
    };
    check("京都", "ja");
    check("crete deversante", "fr");
    check("ПЛОТИНА", "ru");
}

/// Demand 24: a hybrid search whose embedding can't be had in time answers by words, and says so; each stage is timed.
#[test]
fn demand_24_a_search_whose_embedding_is_late_answers_by_words_and_says_so() {
    let model = in_repository("models/all-MiniLM-L6-v2");
    let gateway = Gateway::start_with(&[
        ("WEIR_MODEL", model.to_str().unwrap()),
        ("WEIR_CHUNKING_MAX_TOKENS", "200"),
        ("WEIR_INFERENCE_CACHE_BYTES_MAX", "0"),
        ("WEIR_INFERENCE_QUERY_WAIT_MS_MAX", "60000"),
        ("WEIR_INFERENCE_THREADS", "1"),
    ]);
    gateway.ingest(&[
        json!({"id": "a", "text": "A weir is a low dam."}),
        json!({"id": "b", "text": "A weir holds back a river."}),
        json!({"id": "c", "text": "Nothing of that kind."}),
    ]);
    let query = "weir ".repeat(250);
    let late =
        |mode: &str| json!({"query": query, "mode": mode, "deadline_ms": 1, "top_k": 1, "explain": true});
    let reply = ask(&gateway, &late("hybrid"));
    assert_eq!((&reply["degraded"], &reply["degraded_reason"]), (&json!(true), &json!("embedding_deadline")));
    assert_eq!(
        (&reply["explain"]["mode"], &reply["explain"]["embedding"]),
        (&json!("lexical"), &json!("none"))
    );
    assert_eq!(reply["total"], json!({"value": 2, "exact": true, "relation": "exact"}));
    let mut next = late("hybrid");
    next["cursor"] = reply["next_cursor"].clone();
    next["deadline_ms"] = json!(30_000);
    let second = ask(&gateway, &next);
    assert_ne!(ids(&second), ids(&reply), "the pages go on in the order of the first");
    assert_eq!(
        (&second["degraded_reason"], &second["next_cursor"]),
        (&reply["degraded_reason"], &Value::Null)
    );
    let patient = ask(&gateway, &json!({"query": "weir", "top_k": 3}));
    assert_eq!((&patient["degraded"], &patient["degraded_reason"]), (&json!(false), &Value::Null));
    assert!(patient["timings_ms"]["embed"].as_f64().unwrap() > 0.0);
    // what the first search left in the queue is done now
    refused(&gateway, &late("dense"), "deadline_exceeded", "", "the query's embedding was not ready in time");
    let metrics = gateway.send("GET", "/metrics", None).text;
    assert!(metrics.contains("weir_search_degraded_total{reason=\"embedding_deadline\"} 2\n"), "{metrics}");
}

/// Demand 24: so does one that an overloaded embedder refuses.
#[test]
fn demand_24_a_search_that_the_embedder_refuses_answers_by_words_and_says_so() {
    let gateway = Gateway::start_narrow();
    gateway.ingest(&[json!({"id": "a", "text": "A weir is a low dam."})]);
    let body = json!({"query": "weir ".repeat(200)});
    let degraded = std::sync::Mutex::new(None);
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let client = crate::support::client::Client::new(&gateway.weir.url);
                while degraded.lock().unwrap().is_none() && started.elapsed().as_secs() < 30 {
                    let (status, reply) = client.try_post("/v1/search", &body).unwrap();
                    assert!(status == 200 || status == 503, "{reply}");
                    if reply["degraded"] == true {
                        *degraded.lock().unwrap() = Some(reply);
                    }
                }
            });
        }
    });
    let reply = degraded.into_inner().unwrap().expect("the embedder was never overloaded");
    assert_eq!((&reply["degraded_reason"], ids(&reply).as_str()), (&json!("embedding_overloaded"), "a"));
    assert_eq!(reply["results"][0]["ranks"], json!({"lexical": 1, "dense": null}));
}

/// The rows of a table are found by the names of its columns, and have them before them.
#[test]
fn each_chunk_of_a_table_has_its_header() {
    let gateway = Gateway::start();
    let row =
        |n: usize| format!("| Part {n} | supplier-{} | {} EUR | warehouse {} |\n", n % 7, n * 13, n % 5);
    let rows: String = (0..60).map(row).collect();
    let header = "| Part | Supplier | Price | Location |";
    let text = format!("Prices of all parts.\n\n{header}\n|---|---|---|---|\n{rows}\nEnd of it.");
    gateway.ingest(&[json!({"id": "t", "text": text})]);
    let reply =
        ask(&gateway, &json!({"query": "price of part 57", "group_by": "chunk", "top_k": 50, "context": 1}));
    let hits = reply["results"].as_array().unwrap();
    assert!(hits.len() > 3, "{reply}");
    let byte = |value: &Value| value.as_u64().unwrap() as usize;
    for hit in hits {
        let citation = &hit["citation"];
        let quote = citation["quote"].as_str().unwrap();
        assert_eq!(quote, &text[byte(&citation["start"])..byte(&citation["end"])]);
        let shown = hit["text"].as_str().unwrap();
        assert!(shown.contains(header) && shown.ends_with(quote), "{shown}");
        for near in hit["context"].as_array().unwrap() {
            assert_eq!(near["text"], text[byte(&near["start"])..byte(&near["end"])]);
        }
    }
}

/// Demand 25: a hit cites the bytes of its words, and its neighbours come along.
#[test]
fn demand_25_citations_lead_to_the_words_and_to_what_stands_around_them() {
    let gateway = Gateway::start();
    let text = "Die Schleuse öffnet sich langsam, und das Wasser steigt in der Kammer bis zum Rand. Dann fährt das Schiff \
                hinaus, über das Wehr fällt der Rest des Flusses, und unten wartet das nächste.";
    gateway.ingest(&[json!({"id": "a/1 ü", "text": text})]);
    let reply = ask(&gateway, &json!({"query": "Wehr", "highlight": true, "context": 1}));
    let hit = &reply["results"][0];
    let citation = &hit["citation"];
    let byte = |value: &Value| value.as_u64().unwrap() as usize;
    let start = byte(&citation["start"]);
    assert_eq!(citation["quote"], text[start..byte(&citation["end"])]);
    let word = &hit["highlights"][0];
    assert_eq!(&text[start + byte(&word[0])..start + byte(&word[1])], "Wehr");
    assert!(!hit["context"].as_array().unwrap().is_empty(), "{hit}");
    for near in hit["context"].as_array().unwrap() {
        assert_eq!(near["text"], text[byte(&near["start"])..byte(&near["end"])]);
    }
}
