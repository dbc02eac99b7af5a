//! One embedding in every form that it is answered in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{Gateway, bits, bits_of_bytes, embed, post, with_the_model};

const RAW: &str = "application/octet-stream";

#[test]
fn numbers_base64_and_raw_bytes_are_the_same_floats() {
    let gateway = with_the_model(&[]);
    let texts = json!(["a weir", "what holds back a river?", "東京 – ü", " "]);
    let body =
        |format: Value| json!({"model": "all-MiniLM-L6-v2", "input": texts, "encoding_format": format});
    let numbers = embed(&gateway, "/v1/embeddings", &body(json!("float")));
    assert_eq!(embed(&gateway, "/v1/embeddings", &body(Value::Null)), numbers, "float is the default");
    let base64 = embed(&gateway, "/v1/embeddings", &body(json!("base64")));
    assert_eq!(base64["usage"], numbers["usage"]);
    let mut all = Vec::new();
    for (index, item) in numbers["data"].as_array().unwrap().iter().enumerate() {
        let expected = bits(&item["embedding"]);
        assert_eq!(expected.len(), 384);
        let written = base64["data"][index]["embedding"].as_str().unwrap();
        assert_eq!(written.len(), 2_048, "1,536 bytes with padding");
        assert_eq!(bits_of_bytes(&STANDARD.decode(written).unwrap()), expected, "text {index}");
        all.extend(expected);
    }
    let raw = post(&gateway, "/v1/embeddings", RAW, &body(json!("base64")));
    assert_eq!(bits_of_bytes(&raw.bytes), all);
    let raw = post(&gateway, "/embed", RAW, &json!({"inputs": texts}));
    assert_eq!(bits_of_bytes(&raw.bytes), all);
    let bare = embed(&gateway, "/embed", &json!({"inputs": texts}));
    assert_eq!(bare.as_array().unwrap().iter().flat_map(bits).collect::<Vec<_>>(), all);
}

#[test]
fn a_reply_has_exactly_these_keys() {
    let gateway = Gateway::start();
    let reply = embed(&gateway, "/v1/embeddings", &json!({"model": "pseudo", "input": "a low dam"}));
    let embedding = &reply["data"][0]["embedding"];
    let expected = json!({
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": embedding}],
        "model": "pseudo",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    });
    assert_eq!(reply, expected);
    assert_eq!(bits(embedding).len(), 384);
}

#[test]
fn raw_bytes_come_with_headers_that_say_what_they_are() {
    let gateway = Gateway::start();
    let bodies = [
        ("/v1/embeddings", json!({"model": "pseudo", "input": ["a low dam", "a gate"]})),
        ("/embed", json!({"inputs": ["a low dam", "a gate"]})),
    ];
    for (path, body) in bodies {
        for accept in [RAW, "application/json;q=0.1, Application/Octet-Stream"] {
            let reply = post(&gateway, path, accept, &body);
            let header = |name| reply.header(name).to_owned();
            assert_eq!((reply.status, header("content-type")), (200, RAW.to_owned()), "{path}");
            assert_eq!(reply.bytes.len(), 2 * 384 * 4, "{path}");
            assert_eq!(header("content-length"), "3072", "{path}");
            assert_eq!(header("x-embedding-count"), "2", "{path}");
            assert_eq!(header("x-embedding-dim"), "384", "{path}");
            assert_eq!(header("x-embedding-dtype"), "float32", "{path}");
            assert_eq!(header("x-embedding-model"), "pseudo", "{path}");
            assert_eq!(header("x-usage-prompt-tokens"), "5", "{path}");
        }
        let refused = post(&gateway, path, RAW, &json!({"model": "pseudo"}));
        assert_eq!(refused.header("content-type"), "application/json", "errors stay JSON");
    }
}

#[test]
fn embeddings_stand_in_the_order_of_their_texts() {
    let gateway = with_the_model(&[]);
    // far more than one micro-batch, of very different lengths
    let texts: Vec<String> = (1..=60).map(|i| format!("text {i} {}", "river ".repeat(i * 37 % 61))).collect();
    let together = embed(&gateway, "/v1/embeddings", &json!({"model": "all-MiniLM-L6-v2", "input": texts}));
    let data = together["data"].as_array().unwrap();
    assert_eq!(data.len(), texts.len());
    let mut tokens = 0;
    for (index, text) in texts.iter().enumerate() {
        let body = json!({"model": "all-MiniLM-L6-v2", "input": text});
        let alone = embed(&gateway, "/v1/embeddings", &body);
        assert_eq!(data[index]["index"], index);
        assert_eq!(bits(&data[index]["embedding"]), bits(&alone["data"][0]["embedding"]), "{text}");
        tokens += alone["usage"]["prompt_tokens"].as_u64().unwrap();
    }
    assert_eq!(together["usage"], json!({"prompt_tokens": tokens, "total_tokens": tokens}));
}

#[test]
fn what_other_apis_have_and_this_one_has_not_is_ignored() {
    let gateway = Gateway::start();
    let plain = json!({"model": "pseudo", "input": "a low dam"});
    let mut more = plain.clone();
    for (field, value) in [
        ("user", json!("somebody")),
        ("embed_dtype", json!("float16")),
        ("late_chunking", json!(false)),
        ("dimensions", json!(384)),
        ("encoding_format", Value::Null),
        ("truncate", Value::Null),
    ] {
        more[field] = value;
    }
    for path in ["/v1/embeddings", "/embeddings"] {
        assert_eq!(embed(&gateway, path, &more), embed(&gateway, path, &plain), "{path}");
    }
}
