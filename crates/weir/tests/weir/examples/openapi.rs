//! The examples of `/openapi.json` against a gateway that has just started over the sample, sent as a client that reads them would send them.

use serde_json::{Value, json};

use super::runner::{language_model, working_folder};
use super::with_the_sample;
use crate::support::client::Reply;
use crate::support::gateway::Gateway;

/// Learned sparse embeddings, which no model of the gateway has: the reply says what to use instead.
const REFUSED: &str = "/embed_sparse";

/// Routes that refuse a job that is completed, as every job of this test is.
const STEERING: [&str; 2] = ["/v1/jobs/{id}/cancel", "/v1/jobs/{id}/retry-failed"];

/// The comparison of an index in a cluster, which the collection of the sample is not in.
const OF_A_CLUSTER: &str = "/v1/collections/{name}/reconcile";

/// A gateway over the sample with the key of its administrator and another, its description, and the id of its only job.
struct Described {
    gateway: Gateway,
    key: String,
    description: Value,
    job: String,
}

impl Described {
    fn of(gateway: Gateway) -> Described {
        let scopes = json!(["search", "ingest", "embed", "rerank", "chat", "admin"]);
        let body = json!({"name": "admin", "scopes": scopes}).to_string();
        let created = gateway.send("POST", "/v1/keys", Some(body.as_bytes()));
        assert_eq!(created.status, 201, "{}", created.text);
        let key = created.json()["key"].as_str().unwrap().to_owned();
        let headers = [("authorization", format!("Bearer {key}")), ("content-type", "text/plain".to_owned())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        let file = "/v1/collections/files/documents/manual.txt?wait=true&keep_original=true";
        let kept = gateway.try_send("PUT", file, &headers, Some(b"A weir is a low dam.")).unwrap();
        assert_eq!(kept.status, 202, "{}", kept.text);
        let description = gateway.send("GET", "/openapi.json", None).json();
        let mut described = Described { gateway, key, description, job: String::new() };
        let other = described.send("POST", "/v1/keys", Some(r#"{"name": "app"}"#));
        assert_eq!((other.status, &other.json()["id"]), (201, &json!(2)), "{}", other.text);
        let jobs = described.send("GET", "/v1/jobs", None);
        described.job = jobs.json()["data"][0]["job_id"].as_str().unwrap().to_owned();
        described
    }

    fn send(&self, method: &str, uri: &str, body: Option<&str>) -> Reply {
        let bearer = format!("Bearer {}", self.key);
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let count = if body.is_some() { 2 } else { 1 };
        let reply = self.gateway.try_send(method, uri, &headers[..count], body.map(str::as_bytes));
        reply.unwrap_or_else(|| panic!("no answer to {method} {uri}"))
    }

    /// The operations of the description: path, method, what it says.
    fn operations(&self) -> Vec<(&String, &String, &Value)> {
        let paths = self.description["paths"].as_object().unwrap();
        let methods = |(path, methods)| {
            let methods: &serde_json::Map<String, Value> = Value::as_object(methods).unwrap();
            methods.iter().map(move |(method, operation)| (path, method, operation))
        };
        paths.iter().flat_map(methods).collect()
    }

    /// The example of an operation, with the id of the job.
    fn uri(&self, path: &str, operation: &Value) -> String {
        let (mut uri, mut query) = (path.to_owned(), Vec::new());
        for parameter in operation["parameters"].as_array().unwrap() {
            let name = parameter["name"].as_str().unwrap();
            let is_job = path.starts_with("/v1/jobs/{id}") && name == "id";
            match (parameter["example"].as_str().or(is_job.then_some(&self.job)), &parameter["in"]) {
                (Some(value), place) if place == "path" => {
                    uri = uri.replace(&format!("{{{name}}}"), &encoded(value));
                }
                (Some(value), _) => query.push(format!("{name}={}", encoded(value))),
                (None, place) => assert_ne!(place, "path", "{path}: no example of {name}"),
            }
        }
        if query.is_empty() { uri } else { format!("{uri}?{}", query.join("&")) }
    }

    /// Sends the example of an operation; its reply has a described status of success.
    fn check(&self, (path, method, operation): (&String, &String, &Value)) {
        let uri = self.uri(path, operation);
        let example = &operation["requestBody"]["content"]["application/json"]["example"];
        let body = (!example.is_null()).then(|| example.to_string());
        let reply = self.send(&method.to_uppercase(), &uri, body.as_deref());
        let what = format!("{method} {uri} {}: {} {}", body.unwrap_or_default(), reply.status, reply.text);
        let is_described = operation["responses"].get(reply.status.to_string()).is_some();
        assert!(is_described, "no described status: {what}");
        if path == REFUSED {
            assert!(reply.status == 422 && reply.text.contains("BM25"), "{what}");
            return;
        }
        if path == OF_A_CLUSTER {
            assert!(reply.status == 400 && reply.text.contains("Qdrant cluster"), "{what}");
            return;
        }
        if STEERING.contains(&path.as_str()) {
            assert_eq!(reply.status, 409, "the job has ended: {what}");
            return;
        }
        assert!((200..300).contains(&reply.status), "{what}");
        match path.as_str() {
            "/v1/search" => assert_eq!(reply.json()["results"][0]["id"], "p4", "{what}"),
            "/v1/chat/completions" => assert_eq!(reply.json()["citations"][0]["verified"], true, "{what}"),
            "/v1/ingest" => assert_eq!(reply.json()["total_documents"], 2, "{what}"),
            _ => {}
        }
    }
}

fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// In reverse order, so that none needs what an earlier one of the page has made; those of `DELETE` delete it at the end.
#[test]
fn every_example_of_the_description_succeeds_as_it_stands() {
    let folder = working_folder();
    let (_mock, config) = language_model(folder.path());
    let described = Described::of(with_the_sample(folder.path(), &config));
    let operations = described.operations();
    assert!(operations.len() > 60, "only {} operations", operations.len());
    let (deletions, others): (Vec<_>, Vec<_>) =
        operations.into_iter().partition(|(_, method, _)| *method == "delete");
    others.into_iter().rev().for_each(|operation| described.check(operation));
    deletions.into_iter().for_each(|operation| described.check(operation));
}

/// The properties of a type of the description, and of those that it refers to.
fn properties<'a>(description: &'a Value, schema: &'a Value) -> Option<&'a serde_json::Map<String, Value>> {
    let reference = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    if let Some(target) = reference.and_then(|pointer| description.pointer(pointer)) {
        return properties(description, target);
    }
    let alternatives = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
    let inner = || alternatives?.iter().find_map(|one| properties(description, one));
    schema["properties"].as_object().or_else(inner)
}

/// Fails for a field of an example that its type does not have.
fn check_fields(description: &Value, schema: &Value, example: &Value, what: &str) {
    match example {
        Value::Object(fields) => {
            let Some(known) = properties(description, schema) else { return };
            for (name, value) in fields {
                let field = known.get(name).unwrap_or_else(|| panic!("{what}: no field `{name}`"));
                check_fields(description, field, value, &format!("{what}.{name}"));
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| check_fields(description, &schema["items"], item, what));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn examples_have_fields_of_their_types_and_chat_has_messages_and_sources() {
    let gateway = Gateway::start();
    let description = gateway.send("GET", "/openapi.json", None).json();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for operation in methods.as_object().unwrap().values() {
            let content = &operation["requestBody"]["content"]["application/json"];
            check_fields(&description, &content["schema"], &content["example"], path);
        }
    }
    let check = |path: &str, expected: &[&str]| {
        let content = &description["paths"][path]["post"]["requestBody"]["content"]["application/json"];
        let fields = properties(&description, &content["schema"]).unwrap();
        for name in expected {
            let has_text = fields.get(*name).is_some_and(|field| field["description"].is_string());
            assert!(has_text, "{path}: {name}");
        }
    };
    check("/v1/chat/completions", &["model", "messages", "stream", "max_completion_tokens", "tools", "weir"]);
    check("/v1/completions", &["model", "prompt", "max_tokens", "weir"]);
    check("/v1/responses", &["model", "input", "instructions", "max_output_tokens", "weir"]);
    check("/v1/messages", &["model", "messages", "system", "max_tokens", "weir"]);
    check("/v1/messages/count_tokens", &["model", "messages"]);
    let sources = &description["components"]["schemas"]["ChatRetrieval"]["properties"];
    let mut fields: Vec<&String> = sources.as_object().unwrap().keys().collect();
    fields.sort_unstable();
    let expected = [
        "collection",
        "condense_model",
        "filter",
        "min_relevance",
        "on_empty",
        "sources_as",
        "tokens_max",
        "top_k",
    ];
    assert_eq!(fields, expected);
}
