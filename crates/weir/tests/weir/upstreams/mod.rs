//! Models that other servers run, from outside: the real binary before a scripted upstream on loopback.

mod documents;
mod failures;
mod large_documents;
mod requests;
mod rerank;
pub(crate) mod scripted;
mod secrets;
mod split;

use crate::support::client::Reply;
use crate::support::gateway::Gateway;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// A gateway whose one model, `m`, is of `kind` at `url`; `more` are further lines of its table.
fn gateway(kind: &str, url: &str, more: &str, variables: &[(&str, &str)]) -> (Gateway, NamedTempFile) {
    let file = configuration(kind, url, more);
    let mut all = vec![("WEIR_MODEL", ""), ("WEIR_CONFIG", file.path().to_str().unwrap())];
    all.extend(variables);
    (Gateway::start_with(&all), file)
}

pub(crate) fn configuration(kind: &str, url: &str, more: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let model = if kind == "openai" { "model = \"upstream-model\"\n" } else { "" };
    let toml = format!("[[models]]\nid = \"m\"\nkind = {kind:?}\nurl = {url:?}\n{model}{more}\n");
    std::fs::write(file.path(), toml).unwrap();
    file
}

/// Asks for embeddings in OpenAI's way.
fn embed(gateway: &Gateway, input: Value) -> Reply {
    let body = json!({"model": "m", "input": input}).to_string();
    gateway.send("POST", "/v1/embeddings", Some(body.as_bytes()))
}

/// The embeddings of a reply that must be a success.
fn embeddings(reply: &Reply) -> Vec<Vec<f64>> {
    assert_eq!(reply.status, 200, "{}", reply.text);
    let data = reply.json()["data"].as_array().unwrap().clone();
    let floats =
        |item: &Value| item["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    data.iter().map(floats).collect()
}

/// The value of a metric with its labels; 0 when it is not there.
fn metric(gateway: &Gateway, name: &str) -> f64 {
    let text = gateway.send("GET", "/metrics", None).text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}
