//! What comes with results on request: neighbours, highlights, explanations, the fate of a document; diversity and
//! collapsing.

use serde_json::{Value, json};

use super::{Gateway, ask, ids, library, library_with, refused};

const LONG: &str = "The first part tells of rivers and of the people who live beside them. The second part tells of one \
                    weir that was built long ago by monks. The third part tells of fish and how they climb. The fourth \
                    part tells of floods in spring and autumn rain.";

#[test]
fn neighbouring_chunks_come_on_request_with_their_bytes() {
    let gateway = Gateway::start();
    gateway.ingest(&[json!({"id": "long", "text": LONG})]);
    let search = |context: u64| {
        ask(&gateway, &json!({"query": "weir monks", "mode": "lexical", "context": context, "top_k": 1}))
    };
    let none = search(0);
    assert_eq!(none["results"][0]["context"], Value::Null);
    let reply = search(1);
    let hit = &reply["results"][0];
    let chunk = hit["citation"]["chunk"].as_u64().unwrap();
    let near: Vec<u64> =
        hit["context"].as_array().unwrap().iter().map(|near| near["chunk"].as_u64().unwrap()).collect();
    assert_eq!(near, [chunk - 1, chunk + 1], "{hit}");
    for near in hit["context"].as_array().unwrap() {
        let byte = |name: &str| near[name].as_u64().unwrap() as usize;
        assert_eq!(near["text"], LONG[byte("start")..byte("end")]);
    }
    assert!(search(10)["results"][0]["context"].as_array().unwrap().len() >= 3, "as many as there are");
}

#[test]
fn highlights_are_byte_spans_of_the_text() {
    let gateway = Gateway::start_with(&[("WEIR_CHUNKING_MAX_TOKENS", "200")]);
    gateway
        .ingest(&[json!({"id": "a", "text": "Größer: the weirs of 1884, and one WEIR more. Sluices too."})]);
    let body = json!({"query": "weir -floods \"sluice\"", "highlight": true});
    let reply = ask(&gateway, &body);
    let hit = &reply["results"][0];
    let text = hit["text"].as_str().unwrap();
    let marked: Vec<&str> = hit["highlights"]
        .as_array()
        .unwrap()
        .iter()
        .map(|span| &text[span[0].as_u64().unwrap() as usize..span[1].as_u64().unwrap() as usize])
        .collect();
    assert_eq!(marked, ["weirs", "WEIR", "Sluices"]);
    assert_eq!(hit["snippet"], json!({"start": 0, "end": text.len(), "text": text}));
    let plain = ask(&gateway, &json!({"query": "weir"}));
    assert_eq!(
        (&plain["results"][0]["highlights"], &plain["results"][0]["snippet"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn a_typo_is_corrected_told_and_highlighted() {
    let gateway = library();
    let reply = ask(&gateway, &json!({"query": "sluicee", "mode": "lexical", "highlight": true}));
    assert_eq!(ids(&reply), "d e", "{reply}");
    assert_eq!(reply["corrections"][0]["instead"], json!(["sluice"]), "{reply}");
    assert_eq!(reply["results"][0]["highlights"], json!([[2, 8]]), "{reply}");
    let metrics = gateway.send("GET", "/metrics", None).text;
    assert!(metrics.contains("weir_search_corrections_total 1\n"), "{metrics}");
}

#[test]
fn the_last_word_is_completed_unless_white_space_follows_it() {
    let gateway = library();
    let typed = |query: &str| {
        let body = json!({"query": query, "prefix": "last", "mode": "lexical", "smoothing": false});
        let reply = ask(&gateway, &body);
        let mut found: Vec<&str> =
            reply["results"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap()).collect();
        found.sort_unstable();
        found.join(" ")
    };
    assert_eq!((typed("slu"), typed("river slu")), ("d e".to_owned(), "b d e".to_owned()));
    for query in ["slu ", "slu\n", "slu\u{3000}"] {
        assert_eq!(typed(query), "", "{query:?}");
    }
    assert_eq!(typed("river slu "), "b");
    assert_eq!(typed("sluicee "), "d e", "a finished word may be misspelt");
}

#[test]
fn what_was_searched_is_highlighted_and_what_was_not_is_not() {
    let gateway = Gateway::start();
    gateway.ingest(&[json!({"id": "a", "text": "Sluices and sluiceways of a weir, once more a weir"})]);
    let check = |query: &str, expected: &[&str]| {
        let reply = ask(&gateway, &json!({"query": query, "mode": "lexical", "highlight": true}));
        let hit = &reply["results"][0];
        let marked = hit["highlights"].as_array().unwrap().iter().map(|span| {
            let place = |end: usize| span[end].as_u64().unwrap() as usize;
            &hit["text"].as_str().unwrap()[place(0)..place(1)]
        });
        assert_eq!(marked.collect::<Vec<_>>(), expected, "{query}");
    };
    check("slui* once", &["Sluices", "sluiceways", "once"]);
    check("slucieways", &["sluiceways"]);
    check("weir -absent", &["weir", "weir"]);
    check("\"a weir\"", &["a", "weir", "a", "weir"]);
}

#[test]
fn a_query_of_fields_alone_is_not_judged() {
    let gateway = library();
    let reply = ask(&gateway, &json!({"query": "lang:de", "min_relevance": 0.9}));
    assert_eq!((ids(&reply), &reply["left_out"]), ("c".to_owned(), &json!(0)));
    assert_eq!(reply["results"][0]["relevance"], Value::Null);
    let reply = ask(&gateway, &json!({"query": "lang:de weir"}));
    assert!(reply["results"][0]["relevance"].is_f64(), "{reply}");
}

#[test]
fn results_that_are_left_out_for_their_relevance_are_counted_beside_the_total() {
    let gateway = library();
    let search = |more: Value| {
        let mut body = json!({"query": "weir", "mode": "lexical", "top_k": 3});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = ask(&gateway, &body);
        (
            ids(&reply),
            reply["left_out"].clone(),
            reply["total"]["value"].clone(),
            reply["next_cursor"].is_string(),
        )
    };
    let all = search(json!({}));
    assert_eq!((&all.1, &all.2, all.3), (&Value::Null, &json!(5), true));
    assert_eq!(search(json!({"min_relevance": 0})), (all.0, json!(0), json!(5), true));
    assert_eq!(search(json!({"min_relevance": 1})), (String::new(), json!(3), json!(5), true));
}

#[test]
fn explain_tells_how_the_query_was_read_and_what_each_term_and_leg_gave() {
    let gateway = library();
    let body = json!({"query": "weir river -sluice", "explain": true, "filter": {"lang": "en"}, "top_k": 2});
    let reply = ask(&gateway, &body);
    let explain = &reply["explain"];
    assert_eq!(explain["query"], "any of (weir river); none of (sluice)");
    assert_eq!((&explain["mode"], &explain["embedding"]), (&json!("hybrid"), &json!("made")));
    let fusion = &explain["fusion"];
    assert_eq!((&fusion["method"], &fusion["k"]), (&json!("convex"), &Value::Null));
    // both words are frequent among so few documents
    let weights = ["lexical", "dense"].map(|name| fusion["weights"][name].as_f64().unwrap());
    assert!((weights[0] - 0.4).abs() < 1e-6 && (weights[1] - 0.6).abs() < 1e-6, "{weights:?}");
    let fixed =
        json!({"query": "weir", "explain": true, "fusion": {"weights": {"lexical": 0.5, "dense": 0.5}}});
    let fixed = &ask(&gateway, &fixed)["explain"]["fusion"]["weights"];
    assert_eq!(fixed, &json!({"lexical": 0.5, "dense": 0.5}), "weights of a request are used as they are");
    assert_eq!((&explain["chunks"], &explain["selected_chunks"]), (&json!(6), &json!(2)));
    assert_eq!(explain["selectivity"], json!(2.0 / 6.0));
    assert_eq!(explain["candidates"], json!({"lexical": 2, "dense": 2}));
    let hit = &reply["results"][0];
    assert_eq!(hit["id"], "b");
    let terms: Vec<(&str, u64)> = hit["explanation"]["terms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|term| (term["term"].as_str().unwrap(), term["chunks"].as_u64().unwrap()))
        .collect();
    assert_eq!(terms, [("weir", 5), ("river", 1)]);
    let parts = ["lexical", "dense", "neighbours", "name"];
    let shares: f64 = parts.iter().map(|part| hit["explanation"][part].as_f64().unwrap()).sum();
    assert!(
        hit["explanation"]["neighbours"].as_f64().unwrap() > 0.0 && explain["smoothing"] == true,
        "{hit}"
    );
    assert!((shares - hit["score"].as_f64().unwrap()).abs() < 1e-6, "{hit}");
    let plain = ask(&gateway, &json!({"query": "weir"}));
    assert_eq!((&plain["explain"], &plain["results"][0]["explanation"]), (&Value::Null, &Value::Null));
}

#[test]
fn why_not_tells_the_stage_the_ranks_and_what_to_do() {
    let gateway = library();
    let check = |body: Value, stage: &str, words: &str| {
        let reply = ask(&gateway, &body);
        let why = &reply["why_not"];
        assert_eq!((&why["stage"], &why["id"]), (&json!(stage), &body["why_not"]), "{reply}");
        assert!(why["message"].as_str().unwrap().contains(words), "{why}");
        why.clone()
    };
    check(json!({"query": "weir", "why_not": "x"}), "missing", "check the id");
    check(json!({"query": "weir", "why_not": "c", "filter": {"lang": "en"}}), "filter", "check its metadata");
    check(json!({"query": "weir -river", "why_not": "b", "mode": "lexical"}), "filter", "excluded part");
    check(
        json!({"query": "weir", "why_not": "d", "mode": "lexical"}),
        "candidates",
        "use words of the document",
    );
    let limit = check(
        json!({"query": "sluice", "why_not": "e", "mode": "lexical", "top_k": 1}),
        "limit",
        "raise `top_k`",
    );
    assert_eq!((&limit["rank"], &limit["lexical"]["rank"]), (&json!(2), &json!(2)));
    assert!(limit["lexical"]["score"].as_f64().unwrap() > 0.0);
    check(
        json!({"query": "weir", "why_not": "c", "mode": "lexical", "group_by": {"field": "author.name"}, "top_k": 10}),
        "group",
        "is shown instead",
    );
    check(json!({"query": "weir", "why_not": "a"}), "found", "among the results");
    check(
        json!({"query": "weir", "why_not": "a", "min_relevance": 1.0}),
        "relevance",
        "lower `min_relevance`",
    );
    let listed = check(json!({"filter": {}, "why_not": "e", "top_k": 1}), "limit", "it matches");
    assert_eq!(listed["rank"], Value::Null);
    check(
        json!({"query": "weir", "mode": "lexical", "sort": ["lang"], "top_k": 1, "why_not": "a"}),
        "limit",
        "it matches",
    );
    assert_eq!(ask(&gateway, &json!({"query": "weir"}))["why_not"], Value::Null);
}

#[test]
fn why_not_names_the_ranks_of_the_retrievers_used_and_the_remedy() {
    let gateway = library_with(&[("WEIR_SEARCH_DEPTH", "1")]);
    let check = |body: Value, expected: &str| {
        let reply = ask(&gateway, &body);
        assert_eq!(reply["why_not"]["message"], expected, "{body}");
    };
    check(
        json!({"query": "weir", "why_not": "d", "mode": "lexical"}),
        "not among the candidates: no lexical rank (it contains no word of the query); use words of the document",
    );
    check(
        json!({"query": "sluice", "why_not": "e", "mode": "lexical", "top_k": 1}),
        "not among the candidates: lexical rank 2; raise `top_k` or request the next page with `cursor`",
    );
    let dense = |id: &str| json!({"query": "a gate", "why_not": id, "mode": "dense", "top_k": 1});
    let mut places: Vec<u64> = ["a", "b", "c", "d", "e", "f"]
        .map(|id| {
            let rank = ask(&gateway, &dense(id))["why_not"]["dense"]["rank"].as_u64().unwrap();
            let place = format!("dense rank {rank}");
            let remedy = "raise `search.depth` or `top_k`";
            check(
                dense(id),
                &match rank {
                    1 => format!("among the results: {place}"),
                    _ => format!("not among the candidates: {place}; {remedy}"),
                },
            );
            rank
        })
        .to_vec();
    places.sort_unstable();
    assert_eq!(places, [1, 2, 3, 4, 5, 6]);
    check(
        json!({"filter": {}, "why_not": "e", "top_k": 1}),
        "it matches, but `top_k` is 1: nothing was ranked; raise `top_k` or request the next page with `cursor`",
    );
}

#[test]
fn results_with_all_but_the_same_text_become_one_that_counts_them() {
    let gateway = Gateway::start_with(&[("WEIR_CHUNKING_MAX_TOKENS", "200")]);
    let text =
        "the weir at the mill was rebuilt in stone after the flood of that year and stands to this day";
    let copies =
        (0..3).map(|i| json!({"id": format!("copy{i}"), "text": format!("{text}{}", ".".repeat(i))}));
    let mut documents: Vec<Value> = copies.collect();
    documents.push(json!({"id": "other", "text": "another weir altogether, of wood"}));
    gateway.ingest(&documents);
    let body = json!({"query": "weir", "mode": "lexical", "collapse": true});
    let reply = ask(&gateway, &body);
    let of =
        |id: &str| reply["results"].as_array().unwrap().iter().find(|hit| hit["id"] == id).unwrap().clone();
    assert_eq!(reply["results"].as_array().unwrap().len(), 2, "{reply}");
    let copy = of("copy0");
    assert_eq!((&copy["collapsed_count"], &copy["collapsed"]), (&json!(2), &json!(["copy1", "copy2"])));
    assert_eq!((&of("other")["collapsed_count"], &of("other")["collapsed"]), (&json!(0), &json!([])));
    let all = ask(&gateway, &json!({"query": "weir", "mode": "lexical"}));
    assert_eq!(
        (all["results"].as_array().unwrap().len(), &all["results"][0]["collapsed"]),
        (4, &Value::Null)
    );
}

#[test]
fn language_packs_of_one_program_take_one_position() {
    let gateway = Gateway::start();
    let packs = ["German", "Danish", "Spanish (Mexico)", "Welsh", "Thai"].map(
        |language| json!({"id": language, "title": format!("firefox-{language}"), "text": format!("{language} language package for Firefox ESR")}),
    );
    let others = ["German dictionary for hunspell", "Danish dictionary for hunspell"];
    let others = others.map(|text| json!({"id": text, "text": text}));
    gateway.ingest(&[packs.to_vec(), others.to_vec()].concat());
    let found = |query: &str| {
        let body = json!({"query": query, "mode": "lexical", "collapse": true});
        ask(&gateway, &body)["results"].as_array().unwrap().clone()
    };
    let of_firefox = found("language package for Firefox");
    let merged = of_firefox.iter().find(|hit| hit["collapsed_count"] == 3);
    assert!(merged.is_some(), "those that differ in one word of six: {of_firefox:?}");
    assert_eq!(of_firefox.iter().filter(|hit| hit["title"].is_string()).count(), 2);
    assert_eq!(found("dictionary for hunspell").iter().filter(|hit| hit["title"].is_null()).count(), 2);
}

#[test]
fn diversity_puts_the_unlike_before_the_alike() {
    let gateway = Gateway::start();
    gateway.ingest(&[
        json!({"id": "a", "text": "weir dam river"}),
        json!({"id": "b", "text": "weir dam river water"}),
        json!({"id": "c", "text": "weir poem"}),
    ]);
    let search = |diversity: f64| {
        ids(&ask(&gateway, &json!({"query": "weir dam river", "mode": "dense", "diversity": diversity})))
    };
    assert_eq!((search(0.0), search(0.8)), ("a b c".to_owned(), "a c b".to_owned()));
    gateway.send("PUT", "/v1/collections/words", Some(br#"{"embedding":"none"}"#));
    let body = json!({"query": "weir", "diversity": 0.5, "collection": "words"});
    refused(&gateway, &body, "invalid_parameter", "diversity", "has no embeddings");
}

#[test]
fn a_result_has_the_score_of_each_leg_beside_its_ranks() {
    let gateway = library();
    let reply = ask(&gateway, &json!({"query": "sluice gate", "top_k": 6}));
    for hit in reply["results"].as_array().unwrap() {
        for retriever in ["lexical", "dense"] {
            assert_eq!(hit["ranks"][retriever].is_null(), hit["scores"][retriever].is_null(), "{hit}");
        }
    }
    let (first, last) = (&reply["results"][0], &reply["results"][5]);
    assert_eq!((&first["id"], &last["scores"]["lexical"]), (&json!("d"), &Value::Null));
    let dense = ask(&gateway, &json!({"query": "sluice gate", "mode": "dense"}));
    assert_eq!(dense["results"][0]["score"], dense["results"][0]["scores"]["dense"]);
}

#[test]
fn a_search_is_repeated_exactly_and_its_recall_is_a_metric() {
    let gateway = Gateway::start_with(&[("WEIR_SEARCH_RECALL_PROBE_EVERY", "1")]);
    gateway.ingest(
        &(0..20).map(|i| json!({"id": format!("d{i}"), "text": format!("weir {i}")})).collect::<Vec<_>>(),
    );
    ask(&gateway, &json!({"query": "weir", "mode": "dense", "top_k": 5}));
    let counted = "weir_search_recall_chunks_total{selectivity=\"over 10 %\",result=\"found\"} 5\n";
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let metrics = gateway.send("GET", "/metrics", None).text;
        if metrics.contains(counted) {
            assert!(metrics.contains("result=\"missed\"} 0\n"), "{metrics}");
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{metrics}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
