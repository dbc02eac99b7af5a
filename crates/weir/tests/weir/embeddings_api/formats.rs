//! One embedding in every form that it is answered in.

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Float32Type;
use arrow_ipc::reader::StreamReader;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Gateway, bits, bits_of_bytes, embed, post, with_the_model};

const RAW: &str = "application/octet-stream";
const MODEL: &str = "all-MiniLM-L6-v2";

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
            assert_eq!(header("x-embedding-fingerprint"), "pseudo-2-384", "{path}");
            assert_eq!(header("x-usage-prompt-tokens"), "5", "{path}");
        }
        let refused = post(&gateway, path, RAW, &json!({"model": "pseudo"}));
        assert_eq!(refused.header("content-type"), "application/json", "errors stay JSON");
    }
}

#[test]
fn raw_bytes_and_base64_have_the_type_that_is_asked_for() {
    let gateway = with_the_model(&[]);
    let texts = json!(["a weir", "what holds back a river?"]);
    let body = |format: &str, dtype: &str| json!({"model": MODEL, "input": texts, "encoding_format": format, "embed_dtype": dtype});
    let numbers = embed(&gateway, "/v1/embeddings", &json!({"model": MODEL, "input": texts}));
    let rows: Vec<Vec<f32>> = (0..2)
        .map(|index| {
            let numbers = numbers["data"][index]["embedding"].as_array().unwrap();
            numbers.iter().map(|x| x.as_f64().unwrap() as f32).collect()
        })
        .collect();
    let largest = |row: &[f32]| row.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    for (dtype, bytes) in [("float32", 4 * 384), ("float16", 2 * 384), ("int8", 384), ("ubinary", 48)] {
        let accept = format!("{RAW}; dtype={dtype}");
        let reply = post(&gateway, "/embed", &accept, &json!({"inputs": texts}));
        assert_eq!(
            (reply.bytes.len(), reply.header("x-embedding-dtype"), reply.header("x-embedding-dim")),
            (2 * bytes, dtype, "384")
        );
        for format in ["bytes", "bytes_only"] {
            let same = post(&gateway, "/v1/embeddings", "", &body(format, dtype));
            assert_eq!((&same.bytes, same.header("content-type")), (&reply.bytes, RAW), "{dtype}");
        }
        let base64 = embed(&gateway, "/v1/embeddings", &body("base64", dtype));
        let second = STANDARD.decode(base64["data"][1]["embedding"].as_str().unwrap()).unwrap();
        assert_eq!(second, reply.bytes[bytes..], "{dtype}");
        for (index, x) in rows[1].iter().enumerate() {
            match dtype {
                "float32" => assert_eq!(second[4 * index..][..4], x.to_le_bytes()),
                "float16" => {
                    let half = half::f16::from_le_bytes([second[2 * index], second[2 * index + 1]]);
                    assert!((half.to_f32() - x).abs() <= x.abs() / 1024.0 + 1e-7, "{half} {x}");
                }
                "int8" => {
                    let scaled = f32::from(second[index].cast_signed()) * largest(&rows[1]) / 127.0;
                    assert!((scaled - x).abs() <= largest(&rows[1]) / 250.0, "{scaled} {x}");
                }
                _ => assert_eq!(second[index / 8] >> (7 - index % 8) & 1 == 1, *x > 0.0, "{index}"),
            }
        }
    }
    let refused = post(&gateway, "/v1/embeddings", "", &body("float", "float16"));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("embed_dtype")));
    let refused = post(&gateway, "/embed", &format!("{RAW};dtype=float64"), &json!({"inputs": "a"}));
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("float32, float16, int8, uint8, binary, ubinary"), "{}", refused.text);
}

#[test]
fn an_arrow_stream_has_the_floats_in_a_list_of_fixed_length() {
    let gateway = with_the_model(&[]);
    let texts = json!(["a weir", "a gate", "東京"]);
    let raw = post(&gateway, "/embed", RAW, &json!({"inputs": texts}));
    let media = "application/vnd.apache.arrow.stream";
    let body = json!({"model": MODEL, "input": texts});
    let reply = post(&gateway, "/v1/embeddings", media, &body);
    assert_eq!((reply.status, reply.header("content-type")), (200, media), "{}", reply.text);
    assert_eq!((reply.header("x-embedding-count"), reply.header("x-usage-prompt-tokens")), ("3", "12"));
    let batches: Vec<_> =
        StreamReader::try_new(reply.bytes.as_slice(), None).unwrap().collect::<Result<_, _>>().unwrap();
    let [batch] = batches.as_slice() else { panic!("{} batches", batches.len()) };
    let ids = batch.column_by_name("id").unwrap().as_string::<i32>();
    assert_eq!(ids.iter().flatten().collect::<Vec<_>>(), ["0", "1", "2"]);
    let vectors = batch.column_by_name("vector").unwrap().as_fixed_size_list();
    assert_eq!((vectors.len(), vectors.value_length()), (3, 384));
    let floats = vectors.values().as_primitive::<Float32Type>().values();
    assert_eq!(floats.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>(), raw.bytes);
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
        ("embed_dtype", json!("float32")),
        ("endianness", json!("little")),
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
