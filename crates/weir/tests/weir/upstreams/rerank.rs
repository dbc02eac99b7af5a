//! Rerankers that other servers run: what they are asked, and what searches do without them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::metric;
use super::scripted::{Answer, Asked, Upstream, error};
use crate::support::gateway::{Gateway, in_repository};

/// A gateway with pseudo embeddings whose reranker `r` is at `url`, and eight documents.
fn gateway(kind: &str, url: &str, more: &str) -> (Gateway, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    let task = if kind == "tei" { "task = \"rerank\"" } else { "model = \"upstream-model\"" };
    let toml = format!("[[models]]\nid = \"r\"\nkind = {kind:?}\nurl = {url:?}\n{task}\n{more}\n");
    std::fs::write(file.path(), toml).unwrap();
    let gateway = Gateway::start_with(&[("WEIR_CONFIG", file.path().to_str().unwrap())]);
    let document =
        |i: usize| json!({"id": format!("d{i}"), "text": format!("a weir {}{i}", "of stone ".repeat(i % 3))});
    gateway.ingest(&(0..8).map(document).collect::<Vec<_>>());
    (gateway, file)
}

fn texts(asked: &Asked) -> Vec<String> {
    let texts = if asked.body["texts"].is_array() { &asked.body["texts"] } else { &asked.body["documents"] };
    texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The number at the end of a text, as a share of ten.
fn score(text: &str) -> f64 {
    f64::from(text.chars().last().unwrap().to_digit(10).unwrap()) / 10.0
}

/// A good reply in the dialect of the request, best first.
fn scores(asked: &Asked) -> Answer {
    let is_tei = asked.body["texts"].is_array();
    let mut placed: Vec<(usize, f64)> = texts(asked).iter().map(|text| score(text)).enumerate().collect();
    placed.sort_by(|a, b| b.1.total_cmp(&a.1));
    let name = if is_tei { "score" } else { "relevance_score" };
    let items: Vec<Value> =
        placed.iter().map(|(index, score)| json!({"index": index, name: score})).collect();
    let body = if is_tei { json!(items) } else { json!({"id": "x", "results": items}) };
    Answer::Other(200, Vec::new(), body.to_string())
}

fn search(gateway: &Gateway, more: &Value) -> Value {
    let mut body = json!({"query": "weir stone", "top_k": 8, "rerank": "r"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let reply = gateway.send("POST", "/v1/search", Some(body.to_string().as_bytes()));
    assert_eq!(reply.status, 200, "{body}: {}", reply.text);
    reply.json()
}

fn ids(reply: &Value) -> String {
    let ids = reply["results"].as_array().unwrap().iter().map(|result| result["id"].as_str().unwrap());
    ids.collect::<Vec<_>>().join(" ")
}

/// Checks that a search has the order of one without a reranker, and says why.
fn check_degraded(gateway: &Gateway, more: &Value, reason: &str) {
    let plain = search(gateway, &json!({"rerank": "none"}));
    let reply = search(gateway, more);
    assert_eq!(ids(&reply), ids(&plain), "{reason}");
    assert_eq!(
        (&reply["degraded"], &reply["degraded_reason"], &reply["degraded_reasons"]),
        (&json!(true), &json!(reason), &json!([reason])),
        "{reply}"
    );
    assert!(reply["results"][0].get("rerank_score").is_none());
}

const BEST_FIRST: &str = "d7 d6 d5 d4 d3 d2 d1 d0";

#[test]
fn tei_is_asked_to_rerank_in_its_own_way() {
    let upstream = Upstream::start(|_, asked| scores(asked));
    let (gateway, _file) = gateway("tei", &upstream.url, "texts_per_request_max = 5");
    let reply = search(&gateway, &json!({}));
    assert_eq!(ids(&reply), BEST_FIRST);
    assert_eq!(reply["degraded"], false);
    let first = reply["results"][0]["rerank_score"].as_f64().unwrap();
    assert!((first - 0.7).abs() < 1e-6, "{first}");
    let mut asked = upstream.asked();
    asked.sort_by_key(|asked| texts(asked).len());
    let sizes: Vec<usize> = asked.iter().map(|asked| texts(asked).len()).collect();
    assert_eq!(sizes, [3, 5]);
    let body = &asked[0].body;
    let expected =
        json!({"query": "weir stone", "texts": texts(&asked[0]), "raw_scores": false, "truncate": true});
    assert_eq!((asked[0].path.as_str(), body), ("/rerank", &expected));
}

#[test]
fn cohere_is_asked_for_all_of_the_first_results() {
    let upstream = Upstream::start(|_, asked| scores(asked));
    let (gateway, _file) = gateway("cohere", &format!("{}/v2/", upstream.url), "");
    let reply = search(&gateway, &json!({"rerank": {"model": "r", "top_n": 3}}));
    assert_eq!(reply["results"].as_array().unwrap().len(), 8);
    let asked = &upstream.asked()[0];
    let expected = json!({
        "model": "upstream-model", "query": "weir stone", "documents": texts(asked), "top_n": 3,
    });
    assert_eq!((asked.path.as_str(), &asked.body), ("/v2/rerank", &expected));
    assert_eq!(gateway.get("/v1/models/r").1["capabilities"], json!(["rerank"]));
}

#[test]
fn a_reranker_that_fails_leaves_the_order_as_it_was() {
    let upstream = Upstream::start(|number, asked| match number {
        0 => error(500),
        1 => Answer::Other(200, Vec::new(), "[]".to_owned()),
        2 => Answer::Other(200, Vec::new(), json!([{"index": 0, "score": 1}]).to_string()),
        3 => {
            let items: Vec<Value> = texts(asked).iter().map(|_| json!({"index": 0, "score": 1})).collect();
            Answer::Other(200, Vec::new(), json!(items).to_string())
        }
        4 => {
            let item = |index| format!("{{\"index\": {index}, \"score\": 1e39}}");
            let items: Vec<String> = (0..texts(asked).len()).map(item).collect();
            Answer::Other(200, Vec::new(), format!("[{}]", items.join(",")))
        }
        5 => Answer::Other(429, Vec::new(), String::new()),
        _ => scores(asked),
    });
    let (gateway, _file) = gateway("tei", &upstream.url, "retries_max = 0");
    for _ in 0..5 {
        check_degraded(&gateway, &json!({}), "rerank_failed");
    }
    check_degraded(&gateway, &json!({}), "rerank_overloaded");
    assert_eq!(ids(&search(&gateway, &json!({}))), BEST_FIRST);
    let counted =
        |reason: &str| metric(&gateway, &format!("weir_search_degraded_total{{reason=\"{reason}\"}}"));
    assert_eq!((counted("rerank_failed"), counted("rerank_overloaded")), (5.0, 1.0));
    let failed = |code: &str| {
        metric(&gateway, &format!("weir_upstream_errors_total{{upstream=\"r\",code=\"{code}\"}}"))
    };
    assert_eq!((failed("500"), failed("reply"), failed("429")), (1.0, 4.0, 1.0));
}

#[test]
fn a_failure_in_passing_is_tried_again_and_one_that_stays_opens_the_circuit() {
    let is_well = Arc::new(AtomicBool::new(true));
    let script = is_well.clone();
    let upstream = Upstream::start(move |number, asked| match (number, script.load(Ordering::Relaxed)) {
        (0, _) | (_, false) => error(503),
        (_, true) => scores(asked),
    });
    let (gateway, _file) = gateway("tei", &upstream.url, "retries_max = 1");
    assert_eq!(ids(&search(&gateway, &json!({}))), BEST_FIRST);
    assert_eq!(upstream.asked().len(), 2);
    is_well.store(false, Ordering::Relaxed);
    for _ in 0..4 {
        check_degraded(&gateway, &json!({}), "rerank_failed");
    }
    assert_eq!(upstream.asked().len(), 7, "five failures in a row, and nothing more");
    let opened = metric(&gateway, "weir_upstream_errors_total{upstream=\"r\",code=\"breaker\"}");
    assert!(opened >= 1.0, "{opened}");
}

#[test]
fn a_late_reranker_is_not_waited_for() {
    let upstream = Upstream::start(|_, asked| {
        std::thread::sleep(Duration::from_secs(3));
        scores(asked)
    });
    let (gateway, _file) = gateway("cohere", &upstream.url, "");
    let started = Instant::now();
    check_degraded(&gateway, &json!({"deadline_ms": 400}), "rerank_deadline");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn pages_go_on_in_the_order_of_the_first_whatever_becomes_of_the_reranker() {
    let is_well = Arc::new(AtomicBool::new(true));
    let script = is_well.clone();
    let upstream = Upstream::start(move |_, asked| match script.load(Ordering::Relaxed) {
        true => scores(asked),
        false => error(400),
    });
    let (gateway, _file) = gateway("tei", &upstream.url, "");
    let page = |cursor: &Value| search(&gateway, &json!({"top_k": 3, "cursor": cursor}));
    let first = page(&Value::Null);
    is_well.store(false, Ordering::Relaxed);
    let second = page(&first["next_cursor"]);
    let third = page(&second["next_cursor"]);
    assert_eq!([ids(&first), ids(&second), ids(&third)], ["d7 d6 d5", "d4 d3 d2", "d1 d0"]);
    assert_eq!((&second["degraded"], &third["next_cursor"]), (&json!(false), &Value::Null));
    assert_eq!(second["results"][0]["rerank_score"], 0.4);
    assert_eq!(upstream.asked().len(), 1, "later pages ask nobody");

    let plain = ids(&search(&gateway, &json!({"rerank": "none"})));
    let first = page(&Value::Null);
    is_well.store(true, Ordering::Relaxed);
    let second = page(&first["next_cursor"]);
    let third = page(&second["next_cursor"]);
    assert_eq!([ids(&first), ids(&second), ids(&third)].join(" "), plain);
    for page in [first, second, third] {
        assert_eq!(page["degraded_reason"], "rerank_failed");
    }
}

#[test]
fn a_reranker_is_configured_with_what_it_needs_and_no_more() {
    let check = |toml: &str, words: &[&str]| {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), toml).unwrap();
        let mut weir = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        weir.env_clear().args(["config", "check", "--config"]).arg(file.path());
        let output = weir.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{toml}");
        words.iter().for_each(|words| assert!(said.contains(words), "`{words}` is not in {said}"));
    };
    let url = "url = \"http://127.0.0.1:1\"";
    check(
        &format!("[[models]]\nid = \"r\"\nkind = \"tei\"\ntask = \"rerank\"\ndimension = 4\n{url}"),
        &["`models.dimension` is not a field of a reranker: remove it"],
    );
    check(&format!("[[models]]\nid = \"r\"\nkind = \"cohere\"\n{url}"), &["`models.model` is missing"]);
    check(
        &format!("[[models]]\nid = \"r\"\nkind = \"cohere\"\nmodel = \"m\"\ntask = \"embed\"\n{url}"),
        &["`models.task` must be \"rerank\" for the kind `cohere`"],
    );
    check(
        &format!("[[models]]\nid = \"r\"\nkind = \"tei\"\ntask = \"sort\"\n{url}"),
        &["`models.task` must be one of embed, rerank, not \"sort\""],
    );
    check(
        &format!("[[models]]\nid = \"r\"\nkind = \"openai\"\nmodel = \"m\"\ntask = \"rerank\"\n{url}"),
        &["`models.task` is not a field of"],
    );
}

#[test]
fn checking_the_configuration_finds_a_default_that_does_not_rerank() {
    let tables = format!(
        "[[models]]\nid = \"p\"\nkind = \"pseudo\"\n\
         [[models]]\nid = \"r\"\nkind = \"tei\"\ntask = \"rerank\"\nurl = \"http://127.0.0.1:1\"\n\
         [[models]]\nid = \"ce\"\nalias = [\"cross\"]\nfolder = {:?}\n\
         [[models]]\nid = \"bert\"\nfolder = {:?}\n\
         [[models]]\nid = \"three\"\nfolder = {:?}\n",
        in_repository("fixtures/tiny/bert-classifier"),
        in_repository("fixtures/tiny/bert"),
        in_repository("fixtures/tiny/roberta-classifier")
    );
    let said = |command: &[&str], tables: &str, name: &str| {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("[search]\nrerank = {name:?}\n{tables}")).unwrap();
        let mut weir = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        weir.env_clear().args(command).arg("--config").arg(file.path());
        let output = weir.output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let check = |name: &str| said(&["config", "check"], &tables, name);
    for good in ["", "r", "ce", "cross"] {
        assert_eq!(check(good), "", "{good}");
    }
    for bad in ["p", "bert", "three", "absent"] {
        let expected = format!(
            "`search.rerank` is `{bad}`, which is not a reranker; rerankers in `[[models]]`: `r`, `ce`\n"
        );
        assert!(check(bad).ends_with(&expected), "{}", check(bad));
        assert_eq!(said(&["serve"], &tables, bad), check(bad));
    }
    let none = said(&["config", "check"], "[[models]]\nid = \"p\"\nkind = \"pseudo\"\n", "p");
    assert!(none.ends_with("rerankers in `[[models]]`: none\n"), "{none}");
}
