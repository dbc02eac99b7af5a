//! The routes of text-embeddings-inference, as its clients know them.

use serde_json::{Value, json};

use super::{Gateway, bits, embed, post, with_the_model};

#[test]
fn a_reply_is_a_bare_list_with_headers_that_say_what_it_cost() {
    let gateway = with_the_model(&[]);
    let one = embed(&gateway, "/embed", &json!({"inputs": "a weir"}));
    assert_eq!(one.as_array().unwrap().len(), 1);
    let body = json!({"inputs": ["a weir", "ä"], "truncate": true, "normalize": true, "dimensions": 384});
    let reply = post(&gateway, "/embed", "", &body);
    assert_eq!(reply.status, 200, "{}", reply.text);
    let two = reply.json();
    assert_eq!(two.as_array().unwrap().len(), 2);
    assert_eq!(bits(&two[0]), bits(&one[0]));
    assert_eq!(reply.header("x-compute-type"), "cpu");
    assert_eq!(reply.header("x-compute-characters"), "7");
    let openai = json!({"model": "all-MiniLM-L6-v2", "input": ["a weir", "ä"]});
    let usage = &embed(&gateway, "/v1/embeddings", &openai)["usage"];
    assert_eq!(reply.header("x-compute-tokens"), usage["prompt_tokens"].to_string());
    let ms = |name: &str| -> u64 { reply.header(name).parse().unwrap_or_else(|_| panic!("{name}")) };
    assert!(ms("x-tokenization-time") + ms("x-queue-time") + ms("x-inference-time") <= ms("x-total-time"));
    assert_eq!(ms("x-compute-time"), ms("x-total-time"));
}

#[test]
fn a_long_text_is_cut_on_the_side_that_the_request_names_or_refused() {
    let gateway = with_the_model(&[]);
    let words: Vec<&str> = ["river", "dam", "water"].into_iter().cycle().take(300).collect();
    let send = |more: Value| {
        let mut body = json!({"inputs": ["short", words.join(" ")]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(&gateway, "/embed", "", &body)
    };
    let whole = |text: String| bits(&embed(&gateway, "/embed", &json!({ "inputs": text }))[0]);
    let (first, last) = (whole(words[..254].join(" ")), whole(words[46..].join(" ")));
    for (more, expected) in [
        (json!({}), &first),
        (json!({"truncate": null, "truncation_direction": "right"}), &first),
        (json!({"truncation_direction": "Left"}), &last),
        (json!({"truncate": true, "truncation_direction": "left"}), &last),
    ] {
        let reply = send(more.clone());
        assert_eq!(reply.header("x-truncated-inputs"), "1", "{more}");
        assert_eq!(&bits(&reply.json()[1]), expected, "{more}");
    }
    let split = send(json!({"truncate": "split"}));
    assert_eq!((split.header("x-split-inputs"), split.header("x-truncated-inputs")), ("1", ""));
    let refused = send(json!({"truncate": false}));
    let message = "inputs[1]: the text has 302 tokens; model `all-MiniLM-L6-v2` reads 256. Send shorter texts, or omit \
                   `truncate` to have them truncated.";
    assert_eq!(refused.status, 422);
    assert_eq!(refused.json(), json!({"error": message, "error_type": "Validation"}));
}

#[test]
fn refusals_have_the_body_and_the_status_of_tei() {
    let gateway = Gateway::start_with(&[
        ("WEIR_LIMITS_BODY_BYTES_MAX", "500"),
        ("WEIR_LIMITS_EMBEDDING_INPUTS_MAX", "2"),
    ]);
    let long = format!(r#"{{"inputs":"{}"}}"#, "a".repeat(500));
    let tokens = "inputs: `inputs` contains token ids, which are specific to another tokenizer. Send text; with LangChain's \
                  `OpenAIEmbeddings` set `check_embedding_ctx_length=False`.";
    let rows = [
        (r#"{"inputs":[]}"#, 400, "Empty", "inputs: `inputs` is an empty list. Send at least one text; no text may be empty.".to_owned()),
        (r#"{"inputs":["a",""]}"#, 400, "Empty", "inputs[1]: the text is empty. Send at least one text; no text may be empty.".to_owned()),
        (r#"{"inputs":[[1,2]]}"#, 422, "Validation", tokens.to_owned()),
        ("{}", 422, "Validation", "inputs: missing field `inputs`; send `inputs` for a list of embeddings, or `texts` for {\"embeddings\": […]}".to_owned()),
        (
            r#"{"inputs":["a","b","c"]}"#,
            422,
            "Validation",
            "inputs: `inputs` has 3 texts; the limit `limits.embedding_inputs_max` is 2. Split the request, or raise the limit that \
             the message names."
                .to_owned(),
        ),
        (
            r#"{"inputs":"a","normalize":false}"#,
            422,
            "Validation",
            "normalize: `normalize` is false, and model `pseudo` makes embeddings of length one only; leave it out"
                .to_owned(),
        ),
        (
            r#"{"inputs":"a","dimensions":5}"#,
            422,
            "Validation",
            "dimensions: `dimensions` is 5; leave it out, or send 384, the model's own: `pseudo` was trained for no other number".to_owned(),
        ),
        (
            r#"{"inputs":"a","prompt_name":"other"}"#,
            422,
            "Validation",
            "prompt_name: prompt_name is `other`; it must be one of `query`, `retrieval.query`, `search_query`, `document`, \
             `passage`, `retrieval.passage`, `search_document`"
                .to_owned(),
        ),
        (
            &long,
            413,
            "Validation",
            "the body has more bytes than the limit `limits.body_bytes_max`, which is 500. Send less at once, or raise the \
             limit that the message names."
                .to_owned(),
        ),
    ];
    for (body, status, kind, message) in rows {
        let reply = gateway.send("POST", "/embed", Some(body.as_bytes()));
        assert_eq!(reply.json(), json!({"error": message, "error_type": kind}), "{body}: {}", reply.text);
        assert_eq!((reply.status, reply.header("content-type")), (status, "application/json"), "{body}");
    }
    let reply = gateway.send("GET", "/embed", None);
    assert_eq!((reply.status, reply.json()["error_type"].clone()), (405, json!("Validation")));
}

#[test]
fn info_describes_the_default_model_and_the_limits() {
    let gateway = with_the_model(&[
        ("WEIR_INFERENCE_THREADS", "3"),
        ("WEIR_LIMITS_EMBEDDING_INPUTS_MAX", "64"),
        ("WEIR_LIMITS_EMBEDDING_TOKENS_MAX", "5000"),
    ]);
    let (status, info) = gateway.get("/info");
    let model = gateway.get("/v1/models/all-MiniLM-L6-v2").1;
    let expected = json!({
        "model_id": "all-MiniLM-L6-v2",
        "model_sha": model["fingerprint"],
        "model_dtype": "int8",
        "served_model_name": "all-MiniLM-L6-v2",
        "model_type": {"embedding": {"pooling": "mean"}},
        "max_concurrent_requests": 1024,
        "max_input_length": 256,
        "max_batch_tokens": 5000,
        "max_batch_requests": null,
        "max_client_batch_size": 64,
        "auto_truncate": true,
        "tokenization_workers": 3,
        "version": env!("CARGO_PKG_VERSION"),
        "sha": null,
        "docker_label": null,
    });
    assert_eq!((status, info), (200, expected));
}

#[test]
fn health_is_200_without_a_body() {
    let gateway = Gateway::start();
    let reply = gateway.send("GET", "/health", None);
    assert_eq!((reply.status, reply.text.as_str()), (200, ""));
}
