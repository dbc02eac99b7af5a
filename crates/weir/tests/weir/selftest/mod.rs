//! `weir selftest`: the real binary against the real gateway, and against one whose replies were changed on their way.

mod changing;

use std::collections::BTreeSet;

use crate::cli_support::{Finished, Weir};
use crate::support::gateway::{Gateway, in_repository};
use changing::{Changed, ChangingProxy};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// A gateway with a tiny model and, if its table is given, another one.
fn gateway(more: &str) -> (Gateway, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    let folder = in_repository("fixtures/tiny/bert");
    let toml = format!("[[models]]\nid = \"tiny\"\nfolder = {folder:?}\nprecision = \"f32\"\n{more}");
    std::fs::write(file.path(), toml).unwrap();
    let variables = [("WEIR_CONFIG", file.path().to_str().unwrap()), ("WEIR_MODEL", "")];
    (Gateway::start_with(&variables), file)
}

fn with_a_reranker() -> (Gateway, NamedTempFile) {
    let folder = in_repository("fixtures/tiny/bert-classifier");
    gateway(&format!("[[models]]\nid = \"ce\"\nfolder = {folder:?}\nprecision = \"f32\"\n"))
}

fn selftest(url: &str, arguments: &[&str]) -> Finished {
    Weir::new().run(&[&["selftest", "--url", url], arguments].concat())
}

/// The report in JSON.
fn report(url: &str, arguments: &[&str]) -> Value {
    let run = selftest(url, &[&["--json"], arguments].concat());
    serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{}{}", run.out, run.err))
}

fn checks<'a>(report: &'a Value, result: &str) -> Vec<&'a Value> {
    report["checks"].as_array().unwrap().iter().filter(|check| check["result"] == result).collect()
}

#[test]
fn a_gateway_passes_every_check_and_keeps_its_data() {
    let (gateway, _file) = with_a_reranker();
    gateway.ingest(&[json!({"id": "d", "text": "A weir is a low dam."})]);
    let state = || {
        let (collections, jobs) = (gateway.get("/v1/collections").1, gateway.get("/v1/jobs").1);
        (collections["data"].clone(), jobs["data"].clone(), gateway.get("/v1/feedback").1)
    };
    let before = state();
    let report = report(&gateway.weir.url, &[]);
    assert_eq!(checks(&report, "deviates"), [&Value::Null; 0], "{report:#}");
    assert_eq!(checks(&report, "skipped"), [&Value::Null; 0], "{report:#}");
    assert_eq!((&report["model"], &report["rerank_model"]), (&json!("tiny"), &json!("ce")));
    let count = report["checks"].as_array().unwrap().len();
    assert!(count >= 40, "{count} checks");
    assert_eq!(report["passed"], json!(count));
    assert_eq!(state(), before);

    let run = selftest(&gateway.weir.url, &["--dialect", "native,jina"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    let api = |line: &'_ str| {
        let mut words = line.split_whitespace();
        (words.next() == Some("ok")).then(|| words.next().unwrap_or_default().to_owned())
    };
    let apis: BTreeSet<String> = run.out.lines().filter_map(api).collect();
    assert_eq!(apis, BTreeSet::from(["jina", "native"].map(str::to_owned)), "{}", run.out);
    assert!(run.out.ends_with("\n8 passed, 0 deviating, 0 skipped\n"), "{}", run.out);
}

#[test]
fn checks_of_models_that_are_not_installed_are_skipped_with_the_reason() {
    let (gateway, _file) = gateway("");
    let report = report(&gateway.weir.url, &[]);
    assert_eq!(checks(&report, "deviates"), [&Value::Null; 0], "{report:#}");
    let skipped = checks(&report, "skipped");
    assert!(skipped.len() >= 8, "{report:#}");
    for check in skipped {
        assert_eq!(check["got"], "the server lists no model that reranks; name one with --rerank-model");
        let name = check["name"].as_str().unwrap();
        assert!(name.starts_with("rerank") || check["dialect"] == "jina", "{check}");
    }
}

/// Runs the checks of one API, where the replies to one path are changed. `expected` are the checks that deviate, and a part of
/// the first finding.
#[track_caller]
fn check(
    gateway: &Gateway,
    dialect: &str,
    call: &'static str,
    change: fn(&mut Changed),
    expected: &[&str],
    got: &str,
) {
    let proxy = ChangingProxy::start(&gateway.weir.url, call, change);
    let report = report(&proxy.url, &["--dialect", dialect, "--model", "tiny", "--rerank-model", "ce"]);
    let deviating = checks(&report, "deviates");
    let names: Vec<&str> = deviating.iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(names, expected, "{report:#}");
    let found = deviating[0]["got"].as_str().unwrap();
    assert!(found.contains(got), "{found}");
}

#[test]
fn a_reply_of_another_shape_is_named() {
    let (gateway, _file) = with_a_reranker();
    let check =
        |dialect, call, change, expected: &[&str], got| check(&gateway, dialect, call, change, expected, got);
    check(
        "openai",
        "POST /v1/embeddings",
        |reply| drop(reply.object("").map(|reply| reply.remove("usage"))),
        &["one text", "list of texts", "base64"],
        "`/usage/prompt_tokens` is missing; the reply: 200 {",
    );
    check(
        "openai",
        "POST /v1/embeddings",
        |reply| drop(reply.object("/error").map(|error| error.remove("param"))),
        &["empty text", "empty list", "2,049 texts", "bad dimensions", "unknown model", "invalid JSON"],
        "`/error/param` is missing; the reply: 400 {",
    );
    check(
        "openai",
        "GET /v1/models",
        |reply| reply.status = 500,
        &["list of models"],
        "the status is 500 instead of 200",
    );
    check(
        "tei",
        "POST /embed",
        |reply| {
            // the length of the first embedding
            if let Some(float) = reply.body.pointer_mut("/0/0") {
                *float = json!(3.0);
            }
        },
        &["embed one text"],
        "the embedding has the length",
    );
    check(
        "tei",
        "POST /embed",
        |reply| {
            if reply.status != 200 {
                reply.body = json!({"error": {"message": "as OpenAI does"}});
            }
        },
        &["empty list", "text too long", "too many texts"],
        "`/error` is an object instead of a text",
    );
    check(
        "cohere",
        "POST /v2/rerank",
        |reply| {
            if let Some(results) = reply.body.pointer_mut("/results").and_then(Value::as_array_mut) {
                results.reverse();
            }
        },
        &["rerank"],
        "`/results/1/relevance_score` is higher than the one before it",
    );
    check(
        "ollama",
        "POST /api/embed",
        |reply| drop(reply.object("").map(|reply| reply.remove("embeddings"))),
        &["embed one text", "embed a list"],
        "`/embeddings` is missing",
    );
    check(
        "jina",
        "POST /v1/rerank",
        |reply| drop(reply.object("").map(|reply| reply.remove("detail"))),
        &["unknown model"],
        "`/detail` is missing",
    );
    check(
        "native",
        "POST /v1/search",
        |reply| reply.media = "application/json".to_owned(),
        &["search of an unknown collection", "search with an unknown field"],
        "the media type is `application/json` instead of `application/problem+json`",
    );
    check(
        "native",
        "POST /v1/embeddings",
        |reply| reply.raw.truncate(8),
        &["embeddings as raw floats"],
        "the body has 2 floats instead of 2 × ",
    );
}

#[test]
fn deviations_are_shown_with_what_was_sent_and_the_exit_code_is_1() {
    let (gateway, _file) = gateway("");
    let proxy = ChangingProxy::start(&gateway.weir.url, "GET /healthz", |reply| reply.status = 503);
    let run = selftest(&proxy.url, &["--dialect", "native"]);
    assert_eq!(run.code, 1);
    let shown = "\nnative: health\n  sent:      GET /healthz\n  expected:  200: `status` and `model_loaded`, and `document_count` if the key may see all\n  \
                 got:       the status is 503 instead of 200; the reply: 503 {";
    assert!(run.out.contains(shown), "{}", run.out);
    assert!(run.out.contains("\nDEVIATES  native  health "), "{}", run.out);
    assert!(run.out.ends_with("\n4 passed, 1 deviating, 0 skipped\n"), "{}", run.out);
    let hint = "hint: --dialect restricts the checks to the APIs that the server is to have\n";
    assert_eq!(run.err, format!("error: 1 of the server's replies deviate\n{hint}"));
}

#[test]
fn every_request_only_reads() {
    let (gateway, _file) = with_a_reranker();
    let proxy = ChangingProxy::start(&gateway.weir.url, "", |_| ());
    report(&proxy.url, &[]);
    let reads = [
        "/v1/embeddings",
        "/embed",
        "/tokenize",
        "/rerank",
        "/v1/rerank",
        "/v2/rerank",
        "/v2/embed",
        "/api/embed",
        "/v1/search",
    ];
    for call in proxy.calls() {
        let (method, path) = call.split_once(' ').unwrap();
        assert!(method == "GET" || method == "POST" && reads.contains(&path), "{call}");
    }
}

#[test]
fn a_key_is_sent_from_where_it_is() {
    let (gateway, _file) = gateway("");
    let proxy = ChangingProxy::start(&gateway.weir.url, "", |_| ());
    let arguments = ["selftest", "--url", &proxy.url, "--dialect", "native", "--api-key", "env:KEY"];
    let run = Weir::new().env("KEY", "sk-1").run(&arguments);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert_eq!(proxy.authorizations(), BTreeSet::from(["Bearer sk-1".to_owned()]));
    let run = Weir::new().run(&arguments);
    assert_eq!(run.code, 1);
    assert!(
        run.err.starts_with("error: the API key can't be read: the variable KEY is not set\nhint: "),
        "{}",
        run.err
    );
    let run = selftest(&proxy.url, &["--api-key", "sk-1"]);
    assert!(run.err.contains("it must be env:NAME or file:PATH") && !run.err.contains("sk-1"), "{}", run.err);
}

#[test]
fn a_server_that_does_not_answer_is_an_error() {
    let run = selftest("http://127.0.0.1:9", &[]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.starts_with("error: the gateway at http://127.0.0.1:9 can't be reached"), "{}", run.err);
}
