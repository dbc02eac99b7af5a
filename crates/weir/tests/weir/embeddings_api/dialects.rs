//! The routes of Cohere, Jina, Ollama and text-embeddings-inference, and what holds on every route: slashes, `OPTIONS`, compressed bodies.

use std::io::Write as _;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{Gateway, bits, configured, embed, in_repository, post, with_the_model};
use crate::support::client::Reply;

const MODEL: &str = "all-MiniLM-L6-v2";

/// A gateway with the default model and a small cross-encoder called `ce`.
pub(crate) fn with_a_reranker() -> (Gateway, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    let toml = format!(
        "[[models]]\nid = \"{MODEL}\"\nfolder = {:?}\n[[models]]\nid = \"ce\"\nfolder = {:?}\nprecision = \"f32\"\n",
        in_repository(&format!("models/{MODEL}")),
        in_repository("fixtures/tiny/bert-classifier")
    );
    std::fs::write(file.path(), toml).unwrap();
    let gateway = Gateway::start_with(&[("WEIR_CONFIG", file.path().to_str().unwrap()), ("WEIR_MODEL", "")]);
    (gateway, file)
}

fn floats(numbers: &Value) -> Vec<f64> {
    numbers.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn openai(gateway: &Gateway, text: &str) -> Value {
    embed(gateway, "/v1/embeddings", &json!({"model": MODEL, "input": text}))["data"][0]["embedding"].clone()
}

#[test]
fn cohere_has_its_types_of_embeddings_and_its_errors() {
    let gateway = with_the_model(&[]);
    let float = openai(&gateway, "a weir");
    let types = json!(["float", "int8", "uint8", "binary", "ubinary", "base64"]);
    let body = json!({"model": MODEL, "texts": ["a weir", "ä"], "input_type": "search_document", "embedding_types": types});
    let reply = embed(&gateway, "/v2/embed", &body);
    assert_eq!(bits(&reply["embeddings"]["float"][0]), bits(&float));
    assert_eq!((&reply["texts"], &reply["meta"]["api_version"]["version"]), (&body["texts"], &json!("2")));
    assert!(reply["meta"]["billed_units"]["input_tokens"].as_u64().unwrap() > 4);
    let first = |kind: &str| reply["embeddings"][kind][0].clone();
    let (float, int8) = (floats(&float), floats(&first("int8")));
    let largest = float.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    assert!(float.iter().zip(&int8).all(|(x, y)| (x * 127.0 / largest - y).abs() < 0.51));
    assert!(int8.iter().zip(floats(&first("uint8"))).all(|(signed, unsigned)| signed + 128.0 == unsigned));
    let (signed, unsigned) = (floats(&first("binary")), floats(&first("ubinary")));
    assert_eq!(unsigned.len(), 384 / 8);
    assert!(signed.iter().zip(&unsigned).all(|(signed, unsigned)| signed + 128.0 == *unsigned));
    let bit = |place: usize| (unsigned[place / 8] as u8 >> (7 - place % 8)) & 1 == 1;
    assert!(float.iter().enumerate().all(|(place, x)| bit(place) == (*x > 0.0)));
    assert_eq!(first("base64").as_str().unwrap().len(), 384 * 4 * 4 / 3);

    let early = embed(&gateway, "/v1/embed", &json!({"model": MODEL, "texts": ["a weir"]}));
    assert_eq!(
        (early["embeddings"][0].as_array().unwrap().len(), &early["response_type"]),
        (384, &json!("embeddings_floats"))
    );
    for (body, status, words) in [
        (json!({"model": "none", "texts": ["a"]}), 404, "there is no model `none`"),
        (json!({"model": MODEL, "texts": []}), 400, "texts"),
        (json!({"model": MODEL}), 400, "texts"),
        (json!({"model": MODEL, "texts": ["a"], "output_dimension": 7}), 400, "dimensions"),
    ] {
        let reply = post(&gateway, "/v2/embed", "", &body);
        let (status_seen, reply) = (reply.status, reply.json());
        assert_eq!(status_seen, status, "{body}: {reply}");
        assert!(
            reply["message"].as_str().unwrap().contains(words) && reply["id"].is_string(),
            "{body}: {reply}"
        );
        assert_eq!(reply.as_object().unwrap().len(), 2);
    }
}

#[test]
fn ollama_embeds_by_names_with_a_tag_and_lists_the_models() {
    let gateway = with_the_model(&[]);
    let float = openai(&gateway, "a weir");
    let reply = embed(
        &gateway,
        "/api/embed",
        &json!({"model": format!("{MODEL}:latest"), "input": ["a weir", "ä"], "keep_alive": "5m"}),
    );
    assert_eq!(
        (bits(&reply["embeddings"][0]), reply["embeddings"].as_array().unwrap().len()),
        (bits(&float), 2)
    );
    assert!(
        reply["prompt_eval_count"].as_u64().unwrap() > 4 && reply["total_duration"].as_u64().unwrap() > 0
    );
    let early = embed(&gateway, "/api/embeddings", &json!({"model": MODEL, "prompt": "a weir"}));
    assert_eq!(bits(&early["embedding"]), bits(&float));
    let (status, tags) = gateway.get("/api/tags");
    assert_eq!((status, &tags["models"][0]["name"]), (200, &json!(MODEL)));
    let long = "river ".repeat(400);
    let refused =
        post(&gateway, "/api/embed", "", &json!({"model": MODEL, "input": long, "truncate": false}));
    assert_eq!(refused.status, 400);
    assert!(refused.json()["error"].as_str().unwrap().contains("402 tokens"), "{}", refused.text);
    assert_eq!(post(&gateway, "/api/embed", "", &json!({"model": "no", "input": "a"})).status, 404);
}

#[test]
fn tei_tokenises_decodes_compares_and_embeds_tokens() {
    let gateway = with_the_model(&[]);
    let text = "A weir, größer.";
    let tokens = embed(&gateway, "/tokenize", &json!({ "inputs": text }));
    let tokens = tokens[0].as_array().unwrap();
    assert_eq!(
        (&tokens[0]["text"], &tokens[0]["special"], &tokens[0]["start"]),
        (&json!("[CLS]"), &json!(true), &Value::Null)
    );
    for token in tokens.iter().filter(|token| token["special"] == false) {
        let place = |name: &str| token[name].as_u64().unwrap() as usize;
        assert_eq!(token["text"], text[place("start")..place("stop")], "{token}");
    }
    let ids: Vec<&Value> = tokens.iter().map(|token| &token["id"]).collect();
    assert_eq!(embed(&gateway, "/decode", &json!({ "ids": ids })), json!(["a weir, großer."]));
    assert_eq!(embed(&gateway, "/decode", &json!({"ids": [ids.clone(), ids]})).as_array().unwrap().len(), 2);

    let inputs = json!({"source_sentence": "a weir", "sentences": ["a low dam", "bread"]});
    let cosines = floats(&embed(&gateway, "/similarity", &json!({ "inputs": inputs })));
    let [weir, dam] = ["a weir", "a low dam"].map(|text| floats(&openai(&gateway, text)));
    let cosine: f64 = weir.iter().zip(&dam).map(|(a, b)| a * b).sum();
    assert!(
        (cosines[0] - cosine).abs() < 1e-5 && cosines[0] > cosines[1] && cosines.len() == 2,
        "{cosines:?}"
    );

    // the model's embedding is the mean of those of its tokens, scaled to length one
    let all = embed(&gateway, "/embed_all", &json!({"inputs": "a weir"}));
    let rows: Vec<Vec<f64>> = all[0].as_array().unwrap().iter().map(floats).collect();
    assert_eq!(rows.len(), 4, "two words, of which one is one token, and two special tokens: {}", rows.len());
    let mean: Vec<f64> =
        (0..384).map(|place| rows.iter().map(|row| row[place]).sum::<f64>() / rows.len() as f64).collect();
    let length = mean.iter().map(|x| x * x).sum::<f64>().sqrt();
    let cosine = mean.iter().zip(&weir).map(|(x, y)| x * y).sum::<f64>() / length;
    assert!(cosine > 0.99, "{cosine}");

    let sparse = post(&gateway, "/embed_sparse", "", &json!({"inputs": "a weir"}));
    assert_eq!((sparse.status, &sparse.json()["error_type"]), (422, &json!("Validation")));
    assert!(sparse.text.contains("BM25"), "{}", sparse.text);
    assert_eq!(
        bits(&embed(&gateway, "/", &json!({"inputs": "a weir"}))[0]),
        bits(&openai(&gateway, "a weir"))
    );
    assert_eq!(gateway.send("GET", "/ping", None).status, 200);
}

/// Demand 7: one process embeds and reranks, in all dialects.
#[test]
fn documents_are_reranked_in_the_dialects_of_cohere_jina_and_tei() {
    let (gateway, _file) = with_a_reranker();
    assert_eq!(openai(&gateway, "a weir").as_array().unwrap().len(), 384);
    let query = "what holds back a river";
    let documents = json!(["The gate opens at 06:30.", {"text": "A weir is a low dam across a river."}]);
    let sigmoid = |logit: f64| 1.0 / (1.0 + (-logit).exp());
    let (weir, gate) = (1.53262, 0.944163);
    let near = |seen: &Value, expected: f64| (seen.as_f64().unwrap() - expected).abs() < 1e-3;
    for (path, version, is_shown) in
        [("/v2/rerank", "2", false), ("/v1/rerank", "1", true), ("/rerank", "1", true)]
    {
        let reply = embed(&gateway, path, &json!({"model": "ce", "query": query, "documents": documents}));
        assert_eq!(
            (&reply["results"][0]["index"], &reply["results"][1]["index"]),
            (&json!(1), &json!(0)),
            "{reply}"
        );
        assert!(near(&reply["results"][0]["relevance_score"], sigmoid(weir)), "{reply}");
        assert!(near(&reply["results"][1]["relevance_score"], sigmoid(gate)), "{reply}");
        assert_eq!(reply["results"][0]["document"]["text"].is_string(), is_shown, "{path}: {reply}");
        assert_eq!(
            (&reply["meta"]["api_version"]["version"], &reply["model"]),
            (&json!(version), &json!("ce"))
        );
        assert!(reply["usage"]["total_tokens"].as_u64().unwrap() > 10);
    }
    let first = json!({"query": query, "documents": documents, "top_n": 1, "return_documents": "false", "return_len": "true"});
    let reply = embed(&gateway, "/v1/rerank", &first);
    assert_eq!(
        (reply["results"].as_array().unwrap().len(), &reply["results"][0]["document"]),
        (1, &Value::Null)
    );
    let texts = json!(["The gate opens at 06:30.", "A weir is a low dam across a river."]);
    let reply = embed(
        &gateway,
        "/rerank",
        &json!({"query": query, "texts": texts, "raw_scores": true, "return_text": true}),
    );
    assert!(near(&reply[0]["score"], weir) && near(&reply[1]["score"], gate), "{reply}");
    assert_eq!((&reply[0]["index"], &reply[0]["text"]), (&json!(1), &texts[1]));
    let pair = embed(&gateway, "/predict", &json!({"inputs": [query, texts[1]]}));
    assert!(near(&pair[0]["score"], sigmoid(weir)), "{pair}");
    assert_eq!((&pair[0]["label"], &pair[1]), (&json!("LABEL_0"), &Value::Null));
    let pairs = embed(&gateway, "/predict", &json!({"inputs": [[query, texts[0]], [query, texts[1]]]}));
    assert!(near(&pairs[1][0]["score"], sigmoid(weir)), "{pairs}");
}

#[test]
fn texts_and_pairs_are_classified_with_any_number_of_labels() {
    let folder = in_repository("fixtures/tiny/roberta-classifier");
    let toml = format!(
        "[[models]]\nid = \"pseudo\"\nkind = \"pseudo\"\n[[models]]\nid = \"nli\"\nprecision = \"f32\"\nfolder = {folder:?}\n"
    );
    let (gateway, _file) = configured(&toml);
    let labels = |reply: &Value| -> Vec<String> {
        let mut labels: Vec<String> =
            reply.as_array().unwrap().iter().map(|one| one["label"].as_str().unwrap().to_owned()).collect();
        let scores: Vec<f64> =
            reply.as_array().unwrap().iter().map(|one| one["score"].as_f64().unwrap()).collect();
        assert!(scores.is_sorted_by(|a, b| a >= b), "{reply}");
        labels.sort();
        labels
    };
    let sum = |reply: &Value| {
        reply.as_array().unwrap().iter().map(|one| one["score"].as_f64().unwrap()).sum::<f64>()
    };
    let (pair, single) = (json!(["A weir is a dam.", "A dam exists."]), json!("A weir is a dam."));
    let of_pair = embed(&gateway, "/predict", &json!({"inputs": pair}));
    let of_text = embed(&gateway, "/predict", &json!({"inputs": single}));
    for reply in [&of_pair, &of_text] {
        assert_eq!(labels(reply), ["contradiction", "entailment", "neutral"]);
        assert!((sum(reply) - 1.0).abs() < 1e-5, "{reply}");
    }
    assert_ne!(of_pair, of_text);
    let many = embed(&gateway, "/predict", &json!({"inputs": [pair, [single]]}));
    assert_eq!(many, json!([of_pair, of_text]));
    let raw = embed(&gateway, "/predict", &json!({"inputs": pair, "raw_scores": true}));
    assert_eq!((raw[0]["label"].clone(), labels(&raw)), (of_pair[0]["label"].clone(), labels(&of_pair)));
    let reply = post(&gateway, "/rerank", "", &json!({"query": "q", "texts": ["a"]}));
    assert_eq!(reply.status, 404, "a classifier of three labels is no reranker: {}", reply.text);
    let capabilities = &gateway.get("/v1/models/nli").1["capabilities"];
    assert_eq!(capabilities, &json!(["classify"]));
    let reply = post(&gateway, "/predict", "", &json!({"inputs": [["a"], ["a", "b", "c"]]}));
    assert_eq!(reply.status, 422);
    assert!(reply.text.contains("inputs[1]"), "{}", reply.text);
}

#[test]
fn refused_reranks_speak_every_dialect_at_once() {
    let (gateway, _file) = with_a_reranker();
    let refused = |path: &str, body: Value| -> (u16, Value) {
        let reply = post(&gateway, path, "", &body);
        (reply.status, reply.json())
    };
    let (status, reply) = refused("/v2/rerank", json!({"model": "no", "query": "q", "documents": ["a"]}));
    assert_eq!((status, &reply["error"]["code"]), (404, &json!("model_not_found")));
    for key in ["message", "detail"] {
        assert!(reply[key].as_str().unwrap().contains("models that rerank: `ce`"), "{reply}");
    }
    assert_eq!(refused("/v1/rerank", json!({"query": "q"})).0, 400);
    assert_eq!(refused("/v1/rerank", json!({"model": MODEL, "query": "q", "documents": ["a"]})).0, 400);
    let (status, reply) = refused("/rerank", json!({"query": "", "texts": ["a"]}));
    assert_eq!((status, &reply["error_type"]), (422, &json!("Validation")), "{reply}");
    assert!(reply["error"].is_string());

    let without = with_the_model(&[]);
    let reply = post(&without, "/v2/rerank", "", &json!({"query": "q", "documents": ["a"]}));
    assert_eq!(reply.status, 404);
    assert!(
        reply.json()["message"].as_str().unwrap().contains("no model that reranks is installed"),
        "{}",
        reply.text
    );
}

fn compressed(gateway: &Gateway, encoding: &str, body: &[u8]) -> Reply {
    let headers = [("content-type", "application/json"), ("content-encoding", encoding)];
    gateway.try_send("POST", "/v1/embeddings", &headers, Some(body)).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_bodies_are_read_up_to_the_limit_of_plain_ones() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_BODY_BYTES_MAX", "1000000")]);
    let body = json!({"model": "pseudo", "input": "a weir"}).to_string();
    let plain = gateway.send("POST", "/v1/embeddings", Some(body.as_bytes()));
    assert_eq!(plain.status, 200, "{}", plain.text);
    for (encoding, bytes) in
        [("gzip", gzip(body.as_bytes())), ("zstd", zstd::encode_all(body.as_bytes(), 3).unwrap())]
    {
        let reply = compressed(&gateway, encoding, &bytes);
        assert_eq!(
            (reply.status, &reply.json()["data"]),
            (200, &plain.json()["data"]),
            "{encoding}: {}",
            reply.text
        );
    }
    // a megabyte of zeros and more takes a kilobyte
    let bomb = gzip(&vec![b' '; 50_000_000]);
    assert!(bomb.len() < 100_000);
    let reply = compressed(&gateway, "gzip", &bomb);
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (413, &json!("payload_too_large")));
    let reply = compressed(&gateway, "gzip", b"no gzip");
    assert_eq!(reply.status, 400, "{}", reply.text);
    let reply = compressed(&gateway, "br", body.as_bytes());
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (415, &json!("unsupported_media_type")));
    assert!(reply.text.contains("`gzip` and `zstd` are read"), "{}", reply.text);
}

#[test]
fn replies_are_compressed_when_the_operator_and_the_client_want_it() {
    let accepts = [("accept-encoding", "gzip")];
    let encoding = |gateway: &Gateway, headers: &[(&str, &str)]| {
        let reply = gateway.try_send("GET", "/openapi.json", headers, None).unwrap();
        assert_eq!(reply.status, 200);
        reply.header("content-encoding").to_owned()
    };
    let gateway = Gateway::start_with(&[("WEIR_SERVER_COMPRESS_REPLIES", "true")]);
    assert_eq!(
        (encoding(&gateway, &accepts), encoding(&gateway, &[("accept-encoding", "identity")])),
        ("gzip".into(), String::new())
    );
    assert_eq!(encoding(&Gateway::start(), &accepts), "");
}

#[test]
fn slashes_at_the_end_options_and_unknown_parameters() {
    let gateway = Gateway::start();
    assert_eq!(gateway.send("GET", "/v1/models/", None).status, 200);
    assert_eq!(gateway.send("GET", "/healthz/", None).status, 200);
    let body = json!({"model": "pseudo", "input": "a"}).to_string();
    assert_eq!(
        gateway.send("POST", "/v1/embeddings/?api-version=2024-10-21", Some(body.as_bytes())).status,
        200
    );
    let options = gateway.send("OPTIONS", "/v1/collections/default", None);
    assert_eq!((options.status, options.header("allow")), (200, "GET,HEAD,PUT,DELETE"));
    let refused = gateway.send("GET", "/v1/collections?limt=3", None);
    assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("unknown_field")), "{}", refused.text);
}
