//! What users of other servers of embeddings ask for again and again, by the numbers of the list of demands. The tests of the demands 1, 3, 7 and 8 are
//! those of `truncation`, `memory`, `dialects`, and `openai_client` and `clients`.

use serde_json::{Value, json};

use super::{embed, post, with_the_model};

/// Demand 2: how texts are batched is the server's business. No setting of a batch has to fit a request.
#[test]
fn demand_2_texts_of_every_length_are_answered_in_one_request_with_default_settings() {
    let gateway = with_the_model(&[]);
    let long = "river ".repeat(254);
    let beyond = "river ".repeat(5_000);
    let text = |i: usize| match i % 16 {
        0 => long.clone(),
        1 if i == 1 => beyond.clone(),
        _ => format!("river {i}"),
    };
    let input: Vec<String> = (0..1_024).map(text).collect();
    let reply = post(&gateway, "/v1/embeddings", "", &json!({"model": "all-MiniLM-L6-v2", "input": input}));
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.json()["data"].as_array().unwrap().len(), 1_024);
    assert_eq!(reply.json()["usage"]["truncated"], 1);
}

/// Demand 2: a mistake of the caller is a 4xx that has the limit and the number of tokens, never a 500.
#[test]
fn demand_2_what_is_too_much_is_refused_with_the_limit_and_its_name() {
    let gateway = with_the_model(&[("WEIR_LIMITS_EMBEDDING_TOKENS_MAX", "1000")]);
    let long = "river ".repeat(300);
    let refused = |path: &str, body: Value, status: u16, words: &str| {
        let reply = post(&gateway, path, "", &body);
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
        assert!(reply.text.contains(words), "{path}: {}", reply.text);
    };
    let too_long = "the text has 302 tokens; model `all-MiniLM-L6-v2` reads 256";
    let too_many = "has more tokens than the limit `limits.embedding_tokens_max`, which is 1000";
    let four: Vec<&str> = vec![&long; 4];
    refused(
        "/v1/embeddings",
        json!({"model": "all-MiniLM-L6-v2", "input": long, "truncate": "error"}),
        400,
        too_long,
    );
    refused("/v1/embeddings", json!({"model": "all-MiniLM-L6-v2", "input": four}), 400, too_many);
    refused("/embed", json!({"inputs": long, "truncate": false}), 422, too_long);
    refused("/embed", json!({"inputs": four}), 422, too_many);
}

/// Demand 2: chunks are counted in the tokens of the model that embeds them, so that none is truncated.
#[test]
fn demand_2_chunks_are_counted_by_the_tokenizer_of_their_model() {
    const TOKENS_MAX: usize = 40;
    let gateway = with_the_model(&[("WEIR_CHUNKING_MAX_TOKENS", &TOKENS_MAX.to_string())]);
    // many tokens for few words, and few bytes for many tokens
    let text = "Donaudampfschifffahrtsgesellschaftskapitän 堰は川を止める antidisestablishmentarianism 3.14159265 https://weir.example/a?b=c&d=e. "
        .repeat(12);
    gateway.ingest(&[json!({"id": "hard", "text": text})]);
    let body = json!({"query": "weir", "mode": "dense", "group_by": "chunk", "top_k": 200});
    let (status, reply) = gateway.try_post("/v1/search", &body).unwrap();
    assert_eq!(status, 200, "{reply}");
    let chunks: Vec<&str> =
        reply["results"].as_array().unwrap().iter().map(|hit| hit["text"].as_str().unwrap()).collect();
    assert!(chunks.len() > 10, "{}", chunks.len());
    let tokens = embed(&gateway, "/tokenize", &json!({"inputs": chunks, "add_special_tokens": false}));
    let counts: Vec<usize> =
        tokens.as_array().unwrap().iter().map(|one| one.as_array().unwrap().len()).collect();
    assert!(counts.iter().all(|&count| count <= TOKENS_MAX), "{counts:?}");
    assert!(counts.iter().any(|&count| count > TOKENS_MAX / 2), "chunks are filled: {counts:?}");
}
