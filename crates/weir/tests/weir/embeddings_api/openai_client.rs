//! The real Python client of OpenAI, with default settings, against the gateway.

use std::process::Command;

use serde_json::{Value, json};

use super::{bits, embed, in_repository, with_the_model};

/// Demand 8: the client itself gets base64 when it asks for nothing, errors as its own types, and token ids refused with a code.
#[test]
fn the_openai_client_reads_the_same_floats() {
    let python = in_repository(".venv/bin/python");
    assert!(python.is_file(), "`make setup` makes the Python environment");
    let gateway = with_the_model(&[]);
    let script = in_repository("crates/weir/tests/weir/embeddings_api/openai_client.py");
    let run = Command::new(&python).arg(script).arg(&gateway.weir.url).output().unwrap();
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{printed}{}", String::from_utf8_lossy(&run.stderr));
    let seen: Value = serde_json::from_str(&printed).unwrap();

    let body = json!({"model": "all-MiniLM-L6-v2", "input": ["a weir", "what holds back a river?"]});
    let expected = embed(&gateway, "/v1/embeddings", &body);
    for index in 0..2 {
        // the client holds each float as a double, which names the float exactly
        let doubles = seen["embeddings"][index].as_array().unwrap().iter();
        let seen: Vec<u32> = doubles.map(|number| (number.as_f64().unwrap() as f32).to_bits()).collect();
        assert_eq!(seen, bits(&expected["data"][index]["embedding"]));
    }
    assert_eq!(seen["usage"], expected["usage"]);
    assert_eq!(seen["is_base64"], true, "the client asks for base64 when nothing is said");
    assert_eq!(seen["models"], json!(["all-MiniLM-L6-v2"]));
    assert_eq!(seen["model"], "all-MiniLM-L6-v2");
    assert_eq!(seen["burst_answered"], 100, "of 100 requests at once, without retries");
    assert_eq!(
        seen["not_found"],
        json!({"code": "model_not_found", "param": "model", "type": "invalid_request_error"})
    );
    assert_eq!(
        seen["tokens"],
        json!({"code": "token_input_unsupported", "param": "input", "type": "invalid_request_error"})
    );
}
