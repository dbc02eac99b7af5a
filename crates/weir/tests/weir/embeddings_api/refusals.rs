//! What OpenAI's route refuses: each with its whole body, and none with any other effect.

use serde_json::{Value, json};

use super::Gateway;
use crate::support::client::Reply;
use crate::support::documented::errors;

/// Limits that short requests can break.
const SMALL_LIMITS: &[(&str, &str)] = &[
    ("WEIR_LIMITS_BODY_BYTES_MAX", "1000"),
    ("WEIR_LIMITS_EMBEDDING_INPUTS_MAX", "3"),
    ("WEIR_LIMITS_EMBEDDING_INPUT_BYTES_MAX", "100"),
    ("WEIR_LIMITS_EMBEDDING_TOKENS_MAX", "10"),
];

/// Checks that a reply is the documented error in the shape of OpenAI's API, and nothing else.
fn check_reply(reply: &Reply, code: &str, param: &Value, said: &str, what: &str) {
    let rows = errors();
    let row = &rows[code];
    let error = json!({"error": {
        "message": if row.remedy.is_empty() { said.to_owned() } else { format!("{said}. {}", row.remedy) }, "type": row.kind, "param": param, "code": code,
    }});
    assert_eq!(reply.json(), error, "{what}: {}", reply.text);
    assert_eq!(reply.status, row.status, "{what}");
    assert_eq!(reply.header("content-type"), "application/json", "{what}");
    assert!(reply.header("x-request-id").starts_with("req_"), "{what}");
    assert_eq!(!reply.header("retry-after").is_empty(), row.is_retryable, "{what}: Retry-After");
}

/// Sends each row (body, code, parameter, what the message says before the remedy) to both routes.
fn check(rows: &[(&str, &str, &str, &str)]) {
    let gateway = Gateway::start_with(SMALL_LIMITS);
    for (body, code, param, said) in rows {
        for path in ["/v1/embeddings", "/embeddings"] {
            let param = if param.is_empty() { Value::Null } else { json!(param) };
            let reply = gateway.send("POST", path, Some(body.as_bytes()));
            check_reply(&reply, code, &param, said, &format!("{path} {body}"));
        }
    }
    let metrics = gateway.send("GET", "/metrics", None).text;
    assert!(!metrics.contains("weir_embed_tokens_total{"), "nothing was embedded: {metrics}");
    let reply = gateway.send("POST", "/v1/embeddings", Some(br#"{"model":"pseudo","input":"a weir"}"#));
    assert_eq!(reply.status, 200, "{}", reply.text);
}

#[test]
fn bodies_that_are_no_request_are_refused() {
    let long = format!(r#"{{"model":"pseudo","input":"{}"}}"#, "a".repeat(1_000));
    check(&[
        (
            "{",
            "invalid_json",
            "",
            "the body is not valid JSON: EOF while parsing an object at line 1 column 1",
        ),
        ("[]", "invalid_parameter", "", "invalid type: sequence, expected a JSON object at line 1 column 0"),
        (
            &long,
            "payload_too_large",
            "",
            "the body has more bytes than the limit `limits.body_bytes_max`, which is 1000",
        ),
    ]);
}

#[test]
fn inputs_that_are_no_texts_are_refused() {
    let tokens = "`input` contains token ids, which are specific to another tokenizer";
    let mixed = "strings and token ids are mixed, expected a list of strings at line 1 column 33";
    let four = "`input` has 4 texts; the limit `limits.embedding_inputs_max` is 3";
    let bytes = "the text has 101 bytes; the limit `limits.embedding_input_bytes_max` is 100";
    let (letters, words) = ("a".repeat(101), "a ".repeat(6));
    let long = format!(r#"{{"model":"pseudo","input":["a","{letters}"]}}"#);
    let long_alone = format!(r#"{{"model":"pseudo","input":"{letters}"}}"#);
    let many_tokens = format!(r#"{{"model":"pseudo","input":["{words}","{words}"]}}"#);
    check(&[
        (r#"{"model":"pseudo"}"#, "invalid_parameter", "input", "missing field `input` at line 1 column 18"),
        (
            r#"{"model":"pseudo","input":null}"#,
            "invalid_parameter",
            "input",
            "invalid type: null, expected a string or a list of strings at line 1 column 30",
        ),
        (
            r#"{"model":"pseudo","input":["a",{}]}"#,
            "invalid_parameter",
            "input[1]",
            "an object without a `text` at line 1 column 33",
        ),
        (r#"{"model":"pseudo","input":[57668,53901]}"#, "token_input_unsupported", "input", tokens),
        (r#"{"model":"pseudo","input":[[57668,53901]]}"#, "token_input_unsupported", "input", tokens),
        (r#"{"model":"pseudo","input":["a",7]}"#, "invalid_parameter", "input", mixed),
        (r#"{"model":"pseudo","input":""}"#, "empty_input", "input", "the text is empty"),
        (r#"{"model":"pseudo","input":["a",""]}"#, "empty_input", "input[1]", "the text is empty"),
        (r#"{"model":"pseudo","input":[]}"#, "empty_input", "input", "`input` is an empty list"),
        (r#"{"model":"pseudo","input":["a","b","c","d"]}"#, "batch_too_large", "input", four),
        (&long, "payload_too_large", "input[1]", bytes),
        (&long_alone, "payload_too_large", "input", bytes),
        (
            &many_tokens,
            "batch_too_large",
            "input",
            "`input` has more tokens than the limit `limits.embedding_tokens_max`, which is 10",
        ),
    ]);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let dimensions = |wanted| {
        format!(
            "`dimensions` is {wanted}; leave it out, or send 384, the model's own: `pseudo` was trained for no other number"
        )
    };
    let no_format = "encoding_format is `int8`; it must be one of `float`, `base64`, `bytes`, `bytes_only`";
    check(&[
        (r#"{"input":"a"}"#, "invalid_parameter", "model", "missing field `model` at line 1 column 13"),
        (r#"{"model":"none","input":"a"}"#, "model_not_found", "model", "there is no model `none`"),
        (r#"{"model":"","input":"a"}"#, "model_not_found", "model", "there is no model ``"),
        (
            r#"{"model":"pseudo","input":"a","encoding_format":"int8"}"#,
            "invalid_parameter",
            "encoding_format",
            no_format,
        ),
        (
            r#"{"model":"pseudo","input":"a","dimensions":256}"#,
            "invalid_parameter",
            "dimensions",
            &dimensions("256"),
        ),
        (
            r#"{"model":"pseudo","input":"a","dimensions":0}"#,
            "invalid_parameter",
            "dimensions",
            &dimensions("0"),
        ),
        (
            r#"{"model":"pseudo","input":"a","dimensions":-1}"#,
            "invalid_parameter",
            "dimensions",
            &dimensions("-1"),
        ),
        (
            r#"{"model":"pseudo","input":"a","dimensions":"384"}"#,
            "invalid_parameter",
            "dimensions",
            &dimensions("a string"),
        ),
        (
            r#"{"model":"pseudo","input":"a","input_type":"query","task":"retrieval.passage"}"#,
            "invalid_parameter",
            "task",
            "`task` and `input_type` contradict each other; send one of them",
        ),
    ]);
}

#[test]
fn layers_around_the_route_answer_in_its_shape_too() {
    let gateway = Gateway::start();
    let reply = gateway.send("GET", "/v1/embeddings", None);
    let said = "`/v1/embeddings` does not take GET; send POST";
    check_reply(&reply, "method_not_allowed", &Value::Null, said, "GET");
    assert_eq!(reply.header("allow"), "POST");

    let headers = [("content-type", "text/plain")];
    let reply = gateway.try_send("POST", "/v1/embeddings", &headers, Some(b"a")).unwrap();
    let said = "the body's media type is `text/plain`";
    check_reply(&reply, "unsupported_media_type", &Value::Null, said, "text/plain");

    let reply = gateway.send("POST", "/v1/embeddings", Some(b"{\"model\":\"\xff\"}"));
    let said = "the body is not valid UTF-8: byte 10 is the first invalid byte";
    check_reply(&reply, "invalid_utf8", &Value::Null, said, "not UTF-8");
}
