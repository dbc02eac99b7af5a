//! Fields that clients of Jina, Voyage, Mistral, Cohere, vLLM, TEI and Ollama send: each is served, or refused by its name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::dialects::with_a_reranker;
use super::{Gateway, bits, bits_of_bytes, embed, post, with_the_model};

const MODEL: &str = "all-MiniLM-L6-v2";

/// A request for an embedding of `a weir` with these fields more.
fn with(more: &Value) -> Value {
    let mut body = json!({"model": MODEL, "input": "a weir"});
    let more: Map<String, Value> = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(more);
    body
}

fn embedding(gateway: &Gateway, more: &Value) -> Value {
    embed(gateway, "/v1/embeddings", &with(more))["data"][0]["embedding"].clone()
}

/// Sends a request that must be refused: status, code and parameter.
fn refused(gateway: &Gateway, path: &str, body: &Value, expected: (u16, &str, &str)) {
    let reply = post(gateway, path, "", body);
    let error = reply.json()["error"].clone();
    let seen = (reply.status, error["code"].as_str(), error["param"].as_str());
    assert_eq!(seen, (expected.0, Some(expected.1), Some(expected.2)), "{body}: {}", reply.text);
}

#[test]
fn fields_that_change_nothing_leave_the_embedding_as_it_is() {
    let gateway = with_the_model(&[]);
    let plain = bits(&embedding(&gateway, &json!({})));
    for more in [
        json!({"truncate": true}),
        json!({"truncate": false}),
        json!({"truncation": true}),
        json!({"task": "text-matching"}),
        json!({"task": "classification", "embedding_type": "float"}),
        json!({"input_type": "clustering"}),
        json!({"input": [{"text": "a weir"}]}),
        json!({"normalized": true, "late_chunking": false, "return_multivector": false}),
        json!({"output_dimension": 384, "output_dtype": "float"}),
        json!({"truncate_prompt_tokens": -1, "add_special_tokens": true, "priority": 3}),
        json!({"embedding_types": ["float"], "modality": "text", "metadata": {"a": 1}}),
    ] {
        assert_eq!(bits(&embedding(&gateway, &more)), plain, "{more}");
    }
}

#[test]
fn long_texts_are_refused_where_the_client_says_so_in_its_own_words() {
    let gateway = with_the_model(&[]);
    let long = json!(["a", "river ".repeat(400)]);
    for more in [json!({"truncate": false}), json!({"truncation": false})] {
        let mut body = with(&more);
        body["input"] = long.clone();
        refused(&gateway, "/v1/embeddings", &body, (400, "context_length_exceeded", "input[1]"));
    }
    let kept = |side: &str| {
        let body =
            with(&json!({"input": format!("weir {}dam", "river ".repeat(400)), "truncation_side": side}));
        let reply = embed(&gateway, "/v1/embeddings", &body);
        assert_eq!(reply["usage"]["truncated"], 1);
        bits(&reply["data"][0]["embedding"])
    };
    assert_ne!(kept("left"), kept("right"));
}

#[test]
fn the_type_of_the_numbers_is_that_which_the_client_names() {
    let gateway = with_the_model(&[]);
    let plain = bits(&embedding(&gateway, &json!({})));
    let base64 = embedding(&gateway, &json!({"embedding_type": "base64"}));
    assert_eq!(bits_of_bytes(&STANDARD.decode(base64.as_str().unwrap()).unwrap()), plain);
    // the same lists as of Cohere's API
    let types = json!(["int8", "uint8", "binary", "ubinary"]);
    let body = json!({"model": MODEL, "texts": ["a weir"], "embedding_types": types});
    let cohere = embed(&gateway, "/v2/embed", &body);
    for kind in ["int8", "uint8", "binary", "ubinary"] {
        let expected = &cohere["embeddings"][kind][0];
        assert!(expected.as_array().unwrap().len() >= 48, "{expected}");
        for more in [
            json!({"embedding_type": kind}),
            json!({"encoding_type": [kind]}),
            json!({"output_dtype": kind}),
            // OpenAI's client asks for base64 of its own accord
            json!({"embedding_type": kind, "encoding_format": "base64"}),
        ] {
            assert_eq!(&embedding(&gateway, &more), expected, "{more}");
        }
        let packed = embedding(&gateway, &json!({"output_dtype": kind, "encoding_format": "base64"}));
        let bytes = STANDARD.decode(packed.as_str().unwrap()).unwrap();
        let is_signed = matches!(kind, "int8" | "binary");
        let numbers = bytes.iter().map(|byte| match is_signed {
            true => Value::from(byte.cast_signed()),
            false => Value::from(*byte),
        });
        assert_eq!(&Value::from_iter(numbers), expected, "{kind}");
    }
}

#[test]
fn what_is_not_served_is_refused_by_its_name() {
    let gateway = with_the_model(&[]);
    for (field, value) in [
        ("embedding_type", json!("fp8")),
        ("embedding_type", json!(["float", "int8"])),
        ("output_dtype", json!("base64")),
        ("embed_dtype", json!("float16")),
        ("task", json!("retrieval")),
        ("truncate", json!("middle")),
        ("truncate_prompt_tokens", json!(20)),
        ("late_chunking", json!(true)),
        ("return_multivector", json!(true)),
        ("return_tokenized_input", json!(true)),
        ("add_special_tokens", json!(false)),
        ("endianness", json!("big")),
        ("modality", json!("image")),
        ("normalize", json!(false)),
    ] {
        let mut body = with(&json!({}));
        body[field] = value;
        refused(&gateway, "/v1/embeddings", &body, (400, "invalid_parameter", field));
    }
    let image = with(&json!({"input": ["a", {"image": "https://example.com/a.png"}]}));
    refused(&gateway, "/v1/embeddings", &image, (400, "invalid_parameter", "input[1]"));
    let both = with(&json!({"embedding_type": "int8", "output_dtype": "uint8"}));
    refused(&gateway, "/v1/embeddings", &both, (400, "invalid_parameter", "embedding_type"));
}

#[test]
fn ollama_replies_without_embeddings_if_there_is_nothing_to_embed() {
    let gateway = with_the_model(&[]);
    for body in [
        json!({"model": MODEL, "input": ""}),
        json!({"model": MODEL, "input": []}),
        json!({"model": MODEL, "input": null}),
        json!({"model": MODEL}),
    ] {
        let reply = embed(&gateway, "/api/embed", &body);
        assert_eq!((&reply["embeddings"], &reply["model"]), (&json!([]), &json!(MODEL)), "{body}");
        assert_eq!(reply["prompt_eval_count"], 0);
    }
    let reply = embed(&gateway, "/api/embed", &json!({"model": MODEL, "input": ["", "a weir"]}));
    let rows = reply["embeddings"].as_array().unwrap();
    assert_eq!((rows.len(), rows[0].as_array().unwrap().len()), (2, 384), "an empty text has its embedding");
    assert_eq!(bits(&rows[1]), bits(&embedding(&gateway, &json!({}))));
    assert_eq!(
        embed(&gateway, "/api/embed", &json!({"model": MODEL, "input": [""]}))["embeddings"][0],
        rows[0]
    );
    for body in [json!({"model": MODEL, "prompt": ""}), json!({"model": MODEL})] {
        assert_eq!(embed(&gateway, "/api/embeddings", &body), json!({"embedding": []}), "{body}");
    }
    for (path, body, status) in [
        ("/api/embed", json!({"model": "none", "input": ""}), 404),
        ("/api/embeddings", json!({"model": "none", "prompt": ""}), 404),
        ("/api/embed", json!({"model": MODEL, "input": [1, 2]}), 400),
        ("/api/embed", json!({"model": MODEL, "input": "", "dimensions": 7}), 400),
        ("/api/embeddings", json!({"model": MODEL, "prompt": ["a", "b"]}), 400),
    ] {
        let reply = post(&gateway, path, "", &body);
        assert_eq!(reply.status, status, "{body}: {}", reply.text);
        assert!(reply.json()["error"].is_string(), "{}", reply.text);
    }
}

#[test]
fn fields_of_other_rerankers_are_served() {
    let (gateway, _file) = with_a_reranker();
    let long = "river ".repeat(200);
    let body = |more: Value| {
        let mut body = json!({"model": "ce", "query": "weir", "documents": ["a dam", long]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let reply = post(&gateway, "/v2/rerank", "", &body(json!({"max_chunks_per_doc": 1, "priority": 7})));
    assert_eq!((reply.status, reply.header("x-truncated-inputs")), (200, "1"), "{}", reply.text);
    assert_eq!(reply.json()["usage"]["truncated"], 1);
    let best = embed(&gateway, "/v1/rerank", &body(json!({"top_k": 1, "truncation": true})));
    assert_eq!(best["results"].as_array().unwrap().len(), 1);

    // a document that is shortened has the score of its start
    let score = |documents: Value, more: Value| {
        let mut body = body(more);
        body["documents"] = documents;
        let reply = embed(&gateway, "/v2/rerank", &body);
        assert!(reply["usage"].get("truncated").is_none(), "{reply}");
        (reply["results"][0]["relevance_score"].clone(), reply["usage"]["total_tokens"].clone())
    };
    let whole = score(json!(["river dam river weir"]), json!({}));
    let same = score(json!(["river dam river weir"]), json!({"max_tokens_per_doc": 4096}));
    let start = score(json!(["river dam river weir"]), json!({"max_tokens_per_doc": 2}));
    assert_eq!(whole, same);
    assert_ne!(whole, start);
    assert!(whole.1.as_u64() > start.1.as_u64(), "{whole:?} {start:?}");
    score(json!([long]), json!({"max_tokens_per_doc": 8, "truncate": false, "max_chunks_per_doc": 10}));
}

#[test]
fn fields_of_other_rerankers_that_are_not_served_are_refused_by_their_name() {
    let (gateway, _file) = with_a_reranker();
    let long = "river ".repeat(200);
    let plain = json!({"model": "ce", "query": "weir", "documents": ["a dam", long]});
    for (field, value, code, param) in [
        ("truncate", json!(false), "context_length_exceeded", "documents[1]"),
        ("truncation", json!(false), "context_length_exceeded", "documents[1]"),
        ("max_chunks_per_doc", json!(10), "invalid_parameter", "max_chunks_per_doc"),
        ("max_tokens_per_doc", json!(0), "invalid_parameter", "max_tokens_per_doc"),
        ("rank_fields", json!(["title"]), "invalid_parameter", "rank_fields"),
        ("return_embeddings", json!(true), "invalid_parameter", "return_embeddings"),
        ("use_activation", json!(false), "invalid_parameter", "use_activation"),
        ("truncate_prompt_tokens", json!(5), "invalid_parameter", "truncate_prompt_tokens"),
        ("truncation_side", json!("left"), "invalid_parameter", "truncation_direction"),
    ] {
        let mut body = plain.clone();
        body[field] = value;
        refused(&gateway, "/v2/rerank", &body, (400, code, param));
    }
    let tei = json!({"query": "weir", "texts": ["a dam", long], "truncate": false});
    let reply = post(&gateway, "/rerank", "", &tei);
    assert_eq!((reply.status, &reply.json()["error_type"]), (422, &json!("Validation")), "{}", reply.text);
    assert!(reply.text.contains("texts[1]"), "{}", reply.text);
    for more in [json!({"truncate": false}), json!({"truncation_direction": "Left"})] {
        let mut body = json!({"inputs": [["weir", long]]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = post(&gateway, "/predict", "", &body);
        assert_eq!(
            (reply.status, &reply.json()["error_type"]),
            (422, &json!("Validation")),
            "{}",
            reply.text
        );
    }
}
