//! Reranking by a model that runs here, and late interaction.

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{Gateway, ask, check_error, ids, in_repository, refused};

/// The tables of two rerankers: `ce` has one label, `two` has two.
fn rerankers() -> String {
    let folder = |name: &str| in_repository(&format!("fixtures/tiny/{name}"));
    format!(
        "[[models]]\nid = \"ce\"\nalias = [\"cross\"]\nfolder = {:?}\nprecision = \"f32\"\n\
         [[models]]\nid = \"two\"\nfolder = {:?}\nprecision = \"f32\"\n",
        folder("bert-classifier"),
        folder("distilbert-classifier")
    )
}

/// A gateway with pseudo embeddings and two rerankers.
fn gateway(variables: &[(&str, &str)]) -> (Gateway, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rerankers()).unwrap();
    let mut all = vec![("WEIR_CONFIG", file.path().to_str().unwrap())];
    all.extend(variables);
    (Gateway::start_with(&all), file)
}

/// Documents that all match `weir`, with texts of different lengths.
fn many(count: usize) -> Vec<Value> {
    let text = |i: usize| format!("a weir number {i} {}", "of stone ".repeat(i % 4));
    (0..count).map(|i| json!({"id": format!("d{i:02}"), "text": text(i), "metadata": {"n": i}})).collect()
}

fn numbers(reply: &Value, pointer: &str) -> Vec<f64> {
    let results = reply["results"].as_array().unwrap();
    results.iter().filter_map(|result| result.pointer(pointer)?.as_f64()).collect()
}

fn with(body: &Value, key: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[key] = value;
    body
}

/// All pages from the first to the last.
fn walk(gateway: &Gateway, body: &Value) -> Vec<Value> {
    let (mut results, mut cursor) = (Vec::new(), Value::Null);
    for _ in 0..100 {
        let page = ask(gateway, &with(body, "cursor", cursor));
        results.extend(page["results"].as_array().unwrap().clone());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return results;
        }
    }
    panic!("the pages have no end")
}

#[test]
fn scores_are_those_of_transformers_for_one_label_and_for_two() {
    let (gateway, _file) = gateway(&[]);
    gateway.ingest(&[
        json!({"id": "gate", "text": "The gate opens at 06:30."}),
        json!({"id": "weir", "text": "A weir is a low dam across a river."}),
    ]);
    let sigmoid = |logit: f64| 1.0 / (1.0 + (-logit).exp());
    // the logits of fixtures/tiny/*/recorded.json
    for (model, weir, gate) in [
        ("ce", sigmoid(1.53262), sigmoid(0.944163)),
        ("cross", sigmoid(1.53262), sigmoid(0.944163)),
        ("two", sigmoid(0.41384 - 0.184845), sigmoid(0.0166695 - 0.463407)),
    ] {
        let reply = ask(&gateway, &json!({"query": "what holds back a river", "rerank": model}));
        assert_eq!(ids(&reply), "weir gate", "{model}");
        let got = numbers(&reply, "/rerank_score");
        assert!((got[0] - weir).abs() < 1e-4 && (got[1] - gate).abs() < 1e-4, "{model}: {got:?}");
        assert!(reply["timings_ms"]["rerank"].as_f64().unwrap() > 0.0);
    }
    let metrics = gateway.send("GET", "/metrics", None).text;
    let stage = "weir_search_stage_seconds_count{stage=\"rerank\"} 3";
    assert!(metrics.contains(stage), "{metrics}");
}

#[test]
fn the_first_results_are_ordered_by_the_reranker_and_the_others_follow_as_they_are() {
    let (gateway, _file) = gateway(&[]);
    gateway.ingest(&many(20));
    let body = json!({"query": "weir stone", "top_k": 20, "explain": true});
    let plain = ask(&gateway, &body);
    assert!(plain["results"][0].get("rerank_score").is_none() && plain["explain"].get("rerank").is_none());
    let reply = ask(&gateway, &with(&body, "rerank", json!({"model": "ce", "top_n": 8})));
    assert_eq!(reply["explain"]["rerank"], json!({"model": "ce", "top_n": 8}));

    let scores = numbers(&reply, "/rerank_score");
    assert_eq!(scores.len(), 8, "the first eight were read");
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
    let (before, after) = (ids(&plain), ids(&reply));
    let (before, after): (Vec<&str>, Vec<&str>) = (before.split(' ').collect(), after.split(' ').collect());
    assert_ne!(after[..8], before[..8]);
    assert_eq!(after[8..], before[8..]);
    let sorted = |ids: &[&str]| {
        let mut ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(sorted(&after[..8]), sorted(&before[..8]));

    // who sorts by `score` gets this order, and what a result had before is told
    assert_eq!(numbers(&reply, "/score"), numbers(&plain, "/score"));
    for result in &reply["results"].as_array().unwrap()[..8] {
        let rank = before.iter().position(|id| result["id"] == *id).unwrap();
        let expected = json!({"rank": rank + 1, "score": plain["results"][rank]["score"]});
        assert_eq!(result["explanation"]["fused"], expected);
    }
    assert!(reply["results"][8]["explanation"].get("fused").is_none());
}

#[test]
fn pages_of_a_reranked_search_hold_each_result_once_and_in_one_order() {
    let (gateway, _file) = gateway(&[]);
    gateway.ingest(&many(30));
    for body in [
        json!({"query": "weir stone"}),
        json!({"query": "weir stone", "mode": "lexical", "count": false}),
        json!({"query": "weir stone", "mode": "dense", "group_by": "chunk"}),
        json!({"query": "weir stone", "diversity": 0.4}),
        json!({"query": "weir stone", "group_by": {"field": "n"}}),
    ] {
        let body = with(&body, "rerank", json!({"model": "ce", "top_n": 10}));
        let whole = ask(&gateway, &with(&body, "top_k", json!(30)));
        let whole = whole["results"].as_array().unwrap();
        assert!(whole.len() >= 12, "{body}: {}", whole.len());
        for size in [1, 3, 10, 11, 29] {
            let body = with(&body, "top_k", json!(size));
            assert_eq!(walk(&gateway, &body), *whole, "{body}");
            for offset in [0, 2, 8, 10, 11] {
                let page = ask(&gateway, &with(&body, "offset", json!(offset)));
                let end = whole.len().min(offset + size);
                assert_eq!(page["results"].as_array().unwrap(), &whole[offset..end], "{body} from {offset}");
            }
        }
    }
}

#[test]
fn a_document_deleted_between_pages_leaves_its_place_free() {
    let (gateway, _file) = gateway(&[]);
    gateway.ingest(&many(12));
    let body = json!({"query": "weir stone", "top_k": 4, "rerank": {"model": "ce", "top_n": 6}});
    let whole = ids(&ask(&gateway, &with(&body, "top_k", json!(12))));
    let whole: Vec<&str> = whole.split(' ').collect();
    let first = ask(&gateway, &body);
    for gone in [whole[1], whole[5], whole[7]] {
        assert_eq!(gateway.try_delete(gone).unwrap().0, 200);
    }
    let second = ask(&gateway, &with(&body, "cursor", first["next_cursor"].clone()));
    assert_eq!(ids(&second), [whole[4], whole[6]].join(" "));
    let third = ask(&gateway, &with(&body, "cursor", second["next_cursor"].clone()));
    assert_eq!(ids(&third), whole[8..].join(" "));
}

#[test]
fn a_reranker_that_is_not_ready_in_time_leaves_the_order_as_it_was() {
    let (gateway, _file) = gateway(&[]);
    // so many that no machine scores them in a millisecond
    gateway.ingest(&many(100));
    let body = json!({"query": "weir stone", "mode": "lexical", "top_k": 100});
    let hurried = with(&with(&body, "rerank", json!({"model": "ce", "top_n": 100})), "deadline_ms", json!(1));
    let reply = ask(&gateway, &hurried);
    assert_eq!(ids(&reply), ids(&ask(&gateway, &body)));
    assert_eq!(reply["degraded_reasons"], json!(["rerank_deadline"]));
    assert!(numbers(&reply, "/rerank_score").is_empty());
}

#[test]
fn a_reranker_that_is_overloaded_leaves_the_order_as_it_was() {
    let (gateway, _file) = gateway(&[("WEIR_INFERENCE_QUEUE_TOKENS_MAX", "1")]);
    gateway.ingest(&many(40));
    let body = json!({"query": "weir stone", "mode": "lexical", "top_k": 40});
    let plain = ids(&ask(&gateway, &body));
    let body = with(&body, "rerank", json!({"model": "ce", "top_n": 40}));
    let reranked = ids(&ask(&gateway, &body));
    // searches of one batch meet in the line
    let batch = json!({"queries": vec![body; 16]});
    let mut refused = 0;
    for _ in 0..100 {
        for reply in ask(&gateway, &batch)["replies"].as_array().unwrap() {
            if reply["degraded"] == json!(true) {
                refused += 1;
                assert_eq!(reply["degraded_reasons"], json!(["rerank_overloaded"]));
                assert_eq!(ids(reply), plain);
                assert!(numbers(reply, "/rerank_score").is_empty());
            } else {
                assert_eq!(ids(reply), reranked);
            }
        }
        if refused > 0 {
            break;
        }
    }
    assert!(refused > 0, "no search met another one at the reranker");
    let counted = format!("weir_search_degraded_total{{reason=\"rerank_overloaded\"}} {refused}\n");
    let metrics = gateway.send("GET", "/metrics", None).text;
    assert!(metrics.contains(&counted), "{counted} {metrics}");
}

#[test]
fn a_document_that_the_reranker_puts_off_the_page_is_explained() {
    let (gateway, _file) = gateway(&[]);
    gateway.ingest(&many(10));
    let body = json!({"query": "weir stone", "top_k": 3, "rerank": {"model": "ce", "top_n": 10}});
    let whole = ids(&ask(&gateway, &with(&body, "top_k", json!(10))));
    let whole: Vec<&str> = whole.split(' ').collect();
    let fate = |id: &str| ask(&gateway, &with(&body, "why_not", json!(id)))["why_not"].clone();
    assert_eq!(fate(whole[2])["stage"], "found");
    let off = fate(whole[9]);
    assert_eq!(off["stage"], "limit");
    assert!(off["message"].as_str().unwrap().contains("rank 10 after reranking, but `top_k` is 3"), "{off}");
}

#[test]
fn a_setting_reranks_every_search_that_it_fits_unless_the_request_says_otherwise() {
    let (gateway, _file) = gateway(&[("WEIR_SEARCH_RERANK", "cross"), ("WEIR_SEARCH_RERANK_TOP_N", "2")]);
    gateway.ingest(&many(5));
    let count = |body: Value| numbers(&ask(&gateway, &body), "/rerank_score").len();
    assert_eq!(count(json!({"query": "weir"})), 2);
    assert_eq!(count(json!({"query": "weir", "rerank": null})), 2);
    assert_eq!(count(json!({"query": "weir", "rerank": "none"})), 0);
    assert_eq!(count(json!({"query": "weir", "rerank": {"top_n": 4}})), 4);
    assert_eq!(count(json!({"query": "weir", "rerank": "two"})), 2);
    assert_eq!(count(json!({"query": "weir", "sort": ["n"]})), 0);
    assert_eq!(count(json!({"filter": {"n": 1}})), 0);
    let batch = ask(&gateway, &json!({"queries": [{"query": "weir"}, {"query": "weir", "rerank": "none"}]}));
    let counts: Vec<usize> = (0..2).map(|at| numbers(&batch["replies"][at], "/rerank_score").len()).collect();
    assert_eq!(counts, [2, 0]);
}

#[test]
fn what_cannot_be_reranked_is_refused_with_what_can() {
    let (gateway, _file) = gateway(&[]);
    gateway.ingest(&many(3));
    let check = |body: Value, code: &str, param: &str, words: &str| {
        refused(&gateway, &body, code, param, words);
    };
    let known = "models that rerank: `ce`, `two`";
    check(json!({"query": "weir", "rerank": "absent"}), "model_not_found", "rerank", known);
    let embedder = "the model `pseudo` embeds and does not rerank; models that rerank: `ce`, `two`";
    check(json!({"query": "weir", "rerank": "pseudo"}), "invalid_parameter", "rerank", embedder);
    check(json!({"query": "weir", "rerank": {}}), "invalid_parameter", "rerank", "names no model");
    check(
        json!({"filter": {"n": 1}, "rerank": "ce"}),
        "invalid_parameter",
        "rerank",
        "there are none; send some",
    );
    check(
        json!({"query": "weir", "sort": ["n"], "rerank": "ce"}),
        "invalid_parameter",
        "rerank",
        "leave out `rerank` or `sort`",
    );
    let late = json!({"weight": 0.2});
    check(
        json!({"query": "weir", "late_interaction": late}),
        "invalid_parameter",
        "late_interaction",
        "that of collection `default`, `pseudo`, is of another kind",
    );
    // a cursor leads on in its own order only
    let body = json!({"query": "weir", "top_k": 1, "rerank": "ce"});
    let cursor = ask(&gateway, &body)["next_cursor"].clone();
    let other = json!({"query": "weir", "top_k": 1, "rerank": "two", "cursor": cursor});
    check(other, "invalid_cursor", "cursor", "belongs to another request");
}

#[test]
fn models_say_what_they_are_for_and_are_asked_for_nothing_else() {
    let (gateway, _file) = gateway(&[]);
    let models = gateway.get("/v1/models").1;
    let tasks: Vec<String> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| format!("{} {} {}", model["id"], model["capabilities"], model["dimensions"]))
        .collect();
    assert_eq!(
        tasks,
        [
            r#""pseudo" ["embeddings"] 384"#,
            r#""ce" ["rerank","classify"] null"#,
            r#""two" ["rerank","classify"] null"#
        ]
    );
    let cross = gateway.get("/v1/models/cross").1;
    assert_eq!((&cross["id"], &cross["max_input_tokens"]), (&json!("ce"), &json!(64)));
    let body = json!({"model": "ce", "input": "a"}).to_string();
    let reply = gateway.send("POST", "/v1/embeddings", Some(body.as_bytes()));
    let error = &reply.json()["error"];
    assert_eq!((reply.status, &error["param"]), (400, &json!("model")), "{}", reply.text);
    let message = "the model `ce` reranks and does not embed; models that embed: `pseudo`";
    assert!(error["message"].as_str().unwrap().starts_with(message), "{error}");
    let reply = gateway.send("PUT", "/v1/collections/c", Some(br#"{"model": "ce"}"#));
    let problem = check_error(&reply, "invalid_parameter", "a collection");
    assert!(problem["detail"].as_str().unwrap().starts_with(message), "{problem}");
}

/// A gateway whose collections are embedded by a tiny random model.
fn with_tokens() -> (Gateway, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    let folder = in_repository("fixtures/tiny/bert");
    let toml =
        format!("[[models]]\nid = \"bert\"\nfolder = {folder:?}\nprecision = \"f32\"\n{}", rerankers());
    std::fs::write(file.path(), toml).unwrap();
    let variables = [("WEIR_MODEL", ""), ("WEIR_CONFIG", file.path().to_str().unwrap())];
    (Gateway::start_with(&variables), file)
}

#[test]
fn late_interaction_counts_by_its_weight_and_stays_among_the_scores_that_there_were() {
    let (gateway, _file) = with_tokens();
    gateway.ingest(&many(15));
    let body = json!({"query": "weir stone", "top_k": 15, "explain": true});
    let plain = ask(&gateway, &body);
    let weight = 0.4;
    let late = json!({"weight": weight, "top_n": 9});
    let reply = ask(&gateway, &with(&body, "late_interaction", late.clone()));
    let likeness = numbers(&reply, "/scores/late_interaction");
    assert_eq!(likeness.len(), 9);
    assert!(likeness.iter().all(|one| (-1.0..=1.0).contains(one)), "{likeness:?}");
    let before = numbers(&plain, "/score");
    let (high, low) = (before[0], before[8]);
    let most = likeness.iter().copied().fold(f64::MIN, f64::max);
    let least = likeness.iter().copied().fold(f64::MAX, f64::min);
    for (at, result) in reply["results"].as_array().unwrap()[..9].iter().enumerate() {
        let fused = result["explanation"]["fused"]["score"].as_f64().unwrap();
        let mixed =
            (1.0 - weight) * (fused - low) / (high - low) + weight * (likeness[at] - least) / (most - least);
        let expected = low + (high - low) * mixed;
        let score = result["score"].as_f64().unwrap();
        assert!((score - expected).abs() < 1e-5, "{at}: {score} is not {expected}");
    }
    let scores = numbers(&reply, "/score");
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    assert_ne!(ids(&reply), ids(&plain));
    assert_eq!(
        ids(&reply).split(' ').skip(9).collect::<Vec<_>>(),
        ids(&plain).split(' ').skip(9).collect::<Vec<_>>()
    );
    assert!(reply["timings_ms"]["late_interaction"].as_f64().unwrap() > 0.0);

    let both = with(&with(&body, "late_interaction", late), "rerank", json!({"model": "ce", "top_n": 4}));
    let whole = ask(&gateway, &both);
    assert_eq!(
        (numbers(&whole, "/rerank_score").len(), numbers(&whole, "/scores/late_interaction").len()),
        (4, 9)
    );
    assert_eq!(walk(&gateway, &with(&both, "top_k", json!(2))), *whole["results"].as_array().unwrap());
}

#[test]
fn a_text_that_is_the_query_is_all_like_it() {
    let (gateway, _file) = with_tokens();
    gateway.ingest(&[
        json!({"id": "same", "text": "the water falls"}),
        json!({"id": "other", "text": "a gate opens"}),
    ]);
    let body = json!({"query": "the water falls", "mode": "dense", "late_interaction": {"weight": 0.5}});
    let reply = ask(&gateway, &body);
    assert_eq!(ids(&reply), "same other");
    let likeness = numbers(&reply, "/scores/late_interaction");
    assert!(likeness[0] > likeness[1] && likeness[0] <= 1.0 + 1e-5, "{likeness:?}");
}
