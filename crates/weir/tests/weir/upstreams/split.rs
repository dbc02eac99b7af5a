//! A gateway without a model before one that embeds: the same chunks, embeddings and results as one process.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::gateway::{Gateway, in_repository};

const MODEL: &str = "models/all-MiniLM-L6-v2";

/// Chunks of this length do not fit the estimate of tokens, so that only the model's own tokenizer gives the same ones.
const CHUNKING: [(&str, &str); 2] =
    [("WEIR_CHUNKING_MAX_TOKENS", "24"), ("WEIR_CHUNKING_OVERLAP_TOKENS", "4")];

/// A gateway with the default model and these variables.
fn with_the_model(variables: &[(&str, &str)]) -> Gateway {
    let model = in_repository(MODEL);
    let mut all = vec![("WEIR_MODEL", model.to_str().unwrap())];
    all.extend(CHUNKING);
    all.extend(variables);
    Gateway::start_with(&all)
}

/// A gateway over `folder` that runs no model and uses the one at `url`.
fn before(url: &str, folder: &Path) -> Gateway {
    let mut all = vec![("WEIR_MODEL", ""), ("WEIR_ROLE", "gateway"), ("WEIR_EMBEDDER_URL", url)];
    all.extend(CHUNKING);
    Gateway::start_in(folder, &all)
}

fn embed(gateway: &Gateway, model: &str, input: &Value) -> Value {
    let body = json!({"model": model, "input": input}).to_string();
    let reply = gateway.send("POST", "/v1/embeddings", Some(body.as_bytes()));
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

fn documents() -> Vec<Value> {
    let text =
        "A weir — ein Wehr, 堰 — holds back Überlaufwasser; its crest (1.25 m) raises the upstream level. "
            .repeat(9);
    vec![
        json!({"id": "long", "title": "Über Wehre", "text": text}),
        json!({"id": "gate", "text": "A sluice gate is lifted to let water pass below it."}),
        json!({"id": "fish", "text": "Salmon climb a ladder of pools beside the dam."}),
    ]
}

/// What two gateways must agree on: chunks, and the scores and citations of a search.
fn state(gateway: &Gateway) -> (Value, Value) {
    let collection = gateway.get("/v1/collections/default").1;
    let search =
        gateway.try_post("/v1/search", &json!({"query": "how do fish pass a dam?", "top_k": 3})).unwrap().1;
    assert_eq!(search["degraded"], json!(false), "{search}");
    (collection["chunk_count"].clone(), search["results"].clone())
}

#[test]
fn a_split_gateway_has_the_chunks_embeddings_and_results_of_a_single_one() {
    let whole = with_the_model(&[]);
    let embedder = with_the_model(&[("WEIR_ROLE", "embed")]);
    let folder = tempfile::tempdir().unwrap();
    let split = before(&embedder.weir.url, folder.path());
    whole.ingest(&documents());
    split.ingest(&documents());
    let (chunks, results) = state(&whole);
    assert!(chunks.as_u64().unwrap() > 8, "{chunks}");
    assert_eq!(state(&split), (chunks, results));
    let texts = json!(["a weir", "東京 – ü", "river ".repeat(400)]);
    let (own, other) = (embed(&whole, "all-MiniLM-L6-v2", &texts), embed(&split, "embedder", &texts));
    assert_eq!(own["data"], other["data"]);
    assert_eq!(own["usage"], other["usage"], "tokens are counted by the model's own tokenizer");
    assert_eq!(own["usage"]["truncated"], json!(1));
    let fingerprint = |gateway: &Gateway| gateway.get("/v1/models").1["data"][0]["fingerprint"].clone();
    assert_eq!(fingerprint(&whole), fingerprint(&split), "the data folder can be moved between both");
}

#[test]
fn without_its_embedder_a_gateway_starts_and_searches_by_words() {
    let embedder = with_the_model(&[("WEIR_ROLE", "embed")]);
    let (folder, url) = (tempfile::tempdir().unwrap(), embedder.weir.url.clone());
    let split = before(&url, folder.path());
    split.ingest(&documents());
    drop(embedder);
    for start in ["running", "restarted"] {
        let gateway = if start == "running" { None } else { Some(before(&url, folder.path())) };
        let gateway = gateway.as_ref().unwrap_or(&split);
        let (status, reply) = gateway.try_post("/v1/search", &json!({"query": "sluice gate"})).unwrap();
        assert_eq!((status, &reply["degraded"]), (200, &json!(true)), "{start}: {reply}");
        assert_eq!(reply["results"][0]["id"], "gate", "{start}");
        if start == "running" {
            split.weir.terminate();
        }
    }
}

#[test]
fn an_embedder_that_serves_another_model_is_refused_until_the_next_start() {
    let embedder = with_the_model(&[("WEIR_ROLE", "embed")]);
    let folder = tempfile::tempdir().unwrap();
    let split = before(&embedder.weir.url, folder.path());
    embed(&split, "embedder", &json!("a weir"));
    split.weir.terminate();
    let mut saved = std::fs::read_dir(folder.path().join("upstreams")).unwrap();
    let saved = saved.next().unwrap().unwrap().path();
    let mut described: Value = serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap();
    described["fingerprint"] = json!("of another model");
    std::fs::write(&saved, described.to_string()).unwrap();
    let split = before(&embedder.weir.url, folder.path());
    let body = json!({"model": "embedder", "input": "a gate"}).to_string();
    let reply = split.send("POST", "/v1/embeddings", Some(body.as_bytes()));
    assert_eq!(reply.status, 502, "{}", reply.text);
    assert!(reply.text.contains("restart this gateway"), "{}", reply.text);
    split.weir.terminate();
    embed(&before(&embedder.weir.url, folder.path()), "embedder", &json!("a gate"));
}

#[test]
fn a_gateway_that_embeds_has_no_collections() {
    let embedder = Gateway::start_with(&[("WEIR_ROLE", "embed")]);
    for (method, path) in [
        ("POST", "/v1/search"),
        ("POST", "/v1/ingest"),
        ("GET", "/v1/collections"),
        ("GET", "/v1/collections/default"),
        ("GET", "/v1/jobs"),
        ("POST", "/v1/feedback"),
    ] {
        let reply = embedder.send(method, path, Some(b"{}"));
        assert_eq!(reply.status, 404, "{path}: {}", reply.text);
        assert!(reply.text.contains("has the role `embed`"), "{path}: {}", reply.text);
    }
    for path in ["/readyz", "/health", "/v1/models", "/v1/embedder", "/metrics", "/docs"] {
        assert_eq!(embedder.send("GET", path, None).status, 200, "{path}");
    }
    let described = embedder.get("/v1/embedder").1;
    assert_eq!((&described["dimension"], &described["tokenizer"]), (&json!(384), &Value::Null));
    assert_eq!(embedder.send("GET", "/v1/embedder?model=none", None).status, 404);
    assert_eq!(embedder.send("GET", "/v1/embedder?modl=pseudo", None).status, 400);
}

#[test]
fn the_published_contract_of_texts_is_served_and_used() {
    let embedder = with_the_model(&[("WEIR_ROLE", "embed")]);
    let reply = embedder.try_post("/embed", &json!({"texts": ["a weir", "a gate"]})).unwrap().1;
    assert_eq!(reply.as_object().unwrap().keys().collect::<Vec<_>>(), ["embeddings"]);
    let folder = tempfile::tempdir().unwrap();
    let variables = [("WEIR_MODEL", ""), ("EMBEDDING_API_URL", embedder.weir.url.as_str())];
    let gateway = Gateway::start_in(folder.path(), &variables);
    let made = embed(&gateway, "embedder", &json!(["a weir", "a gate"]));
    for index in 0..2 {
        let (own, other) = (&reply["embeddings"][index], &made["data"][index]["embedding"]);
        let near = |(a, b): (&Value, &Value)| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-6;
        assert!(own.as_array().unwrap().iter().zip(other.as_array().unwrap()).all(near));
    }
    gateway.ingest(&documents());
    let hits = gateway.search("how do fish pass a dam?", "dense");
    assert_eq!(hits[0]["id"], "fish", "{hits:?}");
    for (body, words) in [
        (json!({"texts": ["a"], "inputs": ["a"]}), "both sent"),
        (json!({}), "missing field `inputs`"),
        (json!({"texts": []}), "empty list"),
    ] {
        let reply = embedder.send("POST", "/embed", Some(body.to_string().as_bytes()));
        assert!(reply.text.contains(words), "{}", reply.text);
    }
}
