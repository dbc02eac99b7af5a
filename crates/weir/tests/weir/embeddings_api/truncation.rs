//! A text that is longer than the model reads: cut where the request says, and never without a sign.

use serde_json::{Value, json};

use super::{Gateway, bits, embed, post, with_the_model};
use crate::support::client::Reply;

const MODEL: &str = "all-MiniLM-L6-v2";
/// Words of one token each that fill the model, beside the two special tokens.
const ROOM: usize = 254;

/// `count` words, each of one token, of which none equals its neighbour.
fn words(count: usize) -> Vec<&'static str> {
    ["river", "dam", "water", "stone", "gate"].into_iter().cycle().take(count).collect()
}

fn send(gateway: &Gateway, input: &Value, truncate: &Value) -> Reply {
    post(gateway, "/v1/embeddings", "", &json!({"model": MODEL, "input": input, "truncate": truncate}))
}

/// Demand 1: a long text is never a surprise. The request says what becomes of it; body, headers and metric count the texts that were cut.
#[test]
fn a_long_text_is_cut_where_the_request_says_and_named() {
    let gateway = with_the_model(&[]);
    let words = words(300);
    let (first, last) = (words[..ROOM].join(" "), words[300 - ROOM..].join(" "));
    let input = json!(["short", words.join(" "), "also short", first, words.join(" ")]);
    for (truncate, kept) in [(json!("end"), &first), (json!("start"), &last), (Value::Null, &first)] {
        let reply = send(&gateway, &input, &truncate);
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.header("x-truncated-inputs"), "1,4", "{truncate}");
        assert_eq!(reply.header("x-truncated-inputs-count"), "2", "{truncate}");
        let body = reply.json();
        let tokens = 3 + 256 + 4 + 256 + 256;
        assert_eq!(body["usage"], json!({"prompt_tokens": tokens, "total_tokens": tokens, "truncated": 2}));
        let whole = embed(&gateway, "/v1/embeddings", &json!({"model": MODEL, "input": kept}));
        assert_eq!(bits(&body["data"][1]["embedding"]), bits(&whole["data"][0]["embedding"]), "{truncate}");
    }
    let metrics = gateway.send("GET", "/metrics", None).text;
    let line = format!("weir_truncated_inputs_total{{model=\"{MODEL}\"}} 6\n");
    assert!(metrics.contains(&line), "{metrics}");
    let tokens = 3 * (3 + 256 + 4 + 256 + 256) + 3 * 256;
    let line = format!("weir_embed_tokens_total{{model=\"{MODEL}\"}} {tokens}\n");
    assert!(metrics.contains(&line), "{metrics}");
}

/// Demand 1: a text that is refused because the request says so is named, with its tokens and the limit.
#[test]
fn a_text_that_just_fits_is_whole() {
    let gateway = with_the_model(&[]);
    let reply = send(&gateway, &json!(words(ROOM).join(" ")), &json!("error"));
    assert_eq!((reply.status, reply.header("x-truncated-inputs")), (200, ""));
    assert_eq!(reply.json()["usage"], json!({"prompt_tokens": 256, "total_tokens": 256}));

    let long = words(ROOM + 1).join(" ");
    let message = "the text has 257 tokens; model `all-MiniLM-L6-v2` reads 256. Send shorter texts, or omit \
                   `truncate` to have them truncated.";
    for (input, place) in [(json!(["short", long]), "input[1]"), (json!(long), "input")] {
        let refused = send(&gateway, &input, &json!("error"));
        let error = json!({"error": {
            "message": message, "type": "invalid_request_error", "param": place, "code": "context_length_exceeded",
        }});
        assert_eq!((refused.status, refused.json()), (400, error));
    }
}

#[test]
fn a_text_beyond_ascii_is_cut_on_either_side_too() {
    let gateway = with_the_model(&[]);
    let text = format!("{} ende", "fluß ".repeat(200));
    let reply = |truncate: &str| send(&gateway, &json!(text), &json!(truncate));
    let (end, start) = (reply("end"), reply("start"));
    for reply in [&end, &start] {
        assert_eq!(reply.header("x-truncated-inputs"), "0");
        assert_eq!(reply.json()["usage"], json!({"prompt_tokens": 256, "total_tokens": 256, "truncated": 1}));
    }
    let embedding = |reply: &Reply| bits(&reply.json()["data"][0]["embedding"]);
    assert_ne!(embedding(&end), embedding(&start));
}

#[test]
fn the_header_names_a_hundred_texts_and_counts_all() {
    let gateway = with_the_model(&[("WEIR_LIMITS_EMBEDDING_TOKENS_MAX", "40000")]);
    let long = words(ROOM + 1).join(" ");
    let reply = send(&gateway, &json!(vec![long; 120]), &Value::Null);
    assert_eq!(reply.status, 200, "{}", reply.text);
    let named: Vec<usize> =
        reply.header("x-truncated-inputs").split(',').map(|place| place.parse().unwrap()).collect();
    assert_eq!(named, (0..100).collect::<Vec<_>>());
    assert_eq!(reply.header("x-truncated-inputs-count"), "120");
    assert_eq!(reply.json()["usage"]["truncated"], 120);
}

/// Demand 1: a text can be split instead of cut.
#[test]
fn a_split_text_is_the_weighted_mean_of_its_parts() {
    let gateway = with_the_model(&[]);
    let words = words(300);
    let reply = send(&gateway, &json!(["short", words.join(" ")]), &json!("split"));
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!((reply.header("x-split-inputs"), reply.header("x-split-inputs-count")), ("1", "1"));
    assert_eq!(reply.header("x-truncated-inputs"), "");
    let tokens = 3 + 256 + (300 - ROOM + 2);
    assert_eq!(reply.json()["usage"], json!({"prompt_tokens": tokens, "total_tokens": tokens}));
    let floats = |value: &Value| -> Vec<f64> {
        value["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let parts = [words[..ROOM].join(" "), words[ROOM..].join(" "), "short".to_owned()];
    let parts = embed(&gateway, "/v1/embeddings", &json!({"model": MODEL, "input": parts}))["data"].clone();
    let weighted = |part: &Value, weight: f64| floats(part).into_iter().map(move |x| x * weight);
    let mean: Vec<f64> =
        weighted(&parts[0], 256.0).zip(weighted(&parts[1], 48.0)).map(|(a, b)| a + b).collect();
    let length = mean.iter().map(|x| x * x).sum::<f64>().sqrt();
    let got = reply.json()["data"].clone();
    for (got, expected) in floats(&got[1]).iter().zip(mean.iter().map(|x| x / length)) {
        assert!((got - expected).abs() < 1e-6, "{got} is not {expected}");
    }
    assert_eq!(bits(&got[0]["embedding"]), bits(&parts[2]["embedding"]), "a text that fits is not split");
}
