//! The embedding routes from outside: the real binary, each test with its own server on a free port over its own folder.
//!
//! Embeddings are pseudo ones wherever neither their values nor the length of a text matter.

mod cache;
mod clients;
mod demands;
mod dialects;
mod formats;
mod memory;
mod models;
mod onnx;
mod openai_client;
mod other_clients;
mod recordings;
mod refusals;
mod roles;
mod tei;
mod token_ids;
mod too_much;
mod truncation;

use crate::support::client::Reply;
pub(crate) use crate::support::gateway::{Gateway, in_repository};
use serde_json::Value;

/// A gateway with the default model.
pub(crate) fn with_the_model(variables: &[(&str, &str)]) -> Gateway {
    let model = in_repository("models/all-MiniLM-L6-v2");
    assert!(model.is_dir(), "`make setup` gets the model");
    // the largest requests take long on a busy machine
    let mut all =
        vec![("WEIR_MODEL", model.to_str().unwrap()), ("WEIR_SERVER_REQUEST_DEADLINE_MS", "120000")];
    all.extend(variables);
    Gateway::start_with(&all)
}

/// A gateway over a configuration file, with no model but those that it names.
pub(crate) fn configured(toml: &str) -> (Gateway, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), toml).unwrap();
    let variables = [("WEIR_MODEL", ""), ("WEIR_CONFIG", file.path().to_str().unwrap())];
    (Gateway::start_with(&variables), file)
}

/// Posts JSON, with an `Accept` header when it isn't empty.
pub(crate) fn post(gateway: &Gateway, path: &str, accept: &str, body: &Value) -> Reply {
    let mut headers = vec![("content-type", "application/json")];
    if !accept.is_empty() {
        headers.push(("accept", accept));
    }
    gateway.try_send("POST", path, &headers, Some(body.to_string().as_bytes())).unwrap()
}

/// The reply of a request that must succeed, as JSON.
pub(crate) fn embed(gateway: &Gateway, path: &str, body: &Value) -> Value {
    let reply = post(gateway, path, "", body);
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.header("content-type"), "application/json");
    reply.json()
}

/// The bits of a list of numbers. JSON has the shortest digits that give the same float again.
pub(crate) fn bits(numbers: &Value) -> Vec<u32> {
    let numbers = numbers.as_array().unwrap_or_else(|| panic!("no list: {numbers}"));
    numbers.iter().map(|number| number.to_string().parse::<f32>().unwrap().to_bits()).collect()
}

/// The bits of little-endian floats.
pub(crate) fn bits_of_bytes(bytes: &[u8]) -> Vec<u32> {
    let (floats, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty(), "{} bytes are no floats", bytes.len());
    floats.iter().map(|float| u32::from_le_bytes(*float)).collect()
}
