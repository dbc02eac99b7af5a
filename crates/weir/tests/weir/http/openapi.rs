//! `/openapi.json` says what the gateway does, and the gateway does what it says.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Gateway, documented};
use crate::support::gateway::in_repository;

fn description(gateway: &Gateway) -> Value {
    let (status, description) = gateway.get("/openapi.json");
    assert_eq!((status, description["openapi"].as_str()), (200, Some("3.1.0")));
    description
}

/// Every method and path of the description, with the operation.
fn operations(description: &Value) -> Vec<(String, &str, &Value)> {
    let paths = description["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, methods)| {
            methods
                .as_object()
                .unwrap()
                .iter()
                .map(move |(method, operation)| (method.to_uppercase(), path.as_str(), operation))
        })
        .collect()
}

/// Calls `visit` with every object of the description.
fn each_object<'a>(value: &'a Value, visit: &mut impl FnMut(&'a serde_json::Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            visit(map);
            map.values().for_each(|inner| each_object(inner, visit));
        }
        Value::Array(items) => items.iter().for_each(|inner| each_object(inner, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_resolves() {
    let gateway = Gateway::start();
    let description = description(&gateway);
    let mut references = Vec::new();
    each_object(&description, &mut |map| references.extend(map.get("$ref").and_then(Value::as_str)));
    assert!(references.len() > 20, "only {} references", references.len());
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("`{reference}` leads out"));
        assert!(description.pointer(pointer).is_some(), "`{reference}` leads nowhere");
    }
}

#[test]
fn every_documented_route_is_there_and_no_other_method() {
    let gateway = Gateway::start();
    let description = description(&gateway);
    let operations = operations(&description);
    for (_, path, _) in &operations {
        let filled = path.replace("{name}", "default").replace("{id}", "absent");
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH"] {
            let is_documented = operations.iter().any(|(known, at, _)| known == method && at == path);
            if method == "DELETE" && filled == "/v1/collections/default" {
                continue; // it would work
            }
            if matches!(method, "GET" | "PUT" | "PATCH" | "DELETE") && filled.ends_with("/documents/delete") {
                continue; // a document may have this id
            }
            let body: Option<&[u8]> = matches!(method, "PUT" | "POST" | "PATCH").then_some(b"{}");
            let reply = gateway.send(method, &filled, body);
            let is_there = reply.status != 405;
            assert_eq!(is_there, is_documented, "{method} {path}: {}", reply.status);
            let has_no_route = reply.status == 404 && reply.text.contains("route_not_found");
            assert!(!has_no_route, "{method} {path}");
        }
    }
}

/// The paths in the first column of the table of docs/api.md.
fn paths_of_the_page() -> BTreeSet<String> {
    let page = std::fs::read_to_string(in_repository("docs/api.md")).unwrap();
    let routes = page.lines().skip_while(|line| !line.starts_with("| route |")).skip(2);
    let mut paths = BTreeSet::new();
    for row in routes.take_while(|line| line.starts_with('|')) {
        let column = row.split(" | ").next().unwrap();
        let named: Vec<&str> =
            column.split('`').skip(1).step_by(2).filter_map(|code| code.split(' ').next_back()).collect();
        let has_both = named.contains(&"/v1");
        for path in named.into_iter().filter(|path| path.starts_with('/') && *path != "/v1") {
            paths.insert(path.to_owned());
            paths.extend(path.strip_prefix("/v1").filter(|_| has_both).map(str::to_owned));
        }
    }
    paths
}

#[test]
fn the_api_page_lists_every_documented_route_and_no_other() {
    let gateway = Gateway::start();
    let description = description(&gateway);
    let known: BTreeSet<String> =
        operations(&description).into_iter().map(|(_, path, _)| path.to_owned()).collect();
    assert_eq!(known, paths_of_the_page());
}

#[test]
fn every_parameter_of_a_path_is_described() {
    let gateway = Gateway::start();
    for (method, path, operation) in operations(&description(&gateway)) {
        let in_path: Vec<&str> =
            path.split('{').skip(1).map(|part| part.split('}').next().unwrap()).collect();
        let described = operation["parameters"].as_array().unwrap().iter();
        let described: Vec<&str> = described
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(described, in_path, "{method} {path}");
    }
}

/// They answer with the statuses of text-embeddings-inference, the rerank routes if the request has `texts`.
const TEI_ROUTES: [&str; 14] = [
    "/",
    "/embed",
    "/embed_all",
    "/embed_sparse",
    "/similarity",
    "/tokenize",
    "/decode",
    "/predict",
    "/rerank",
    "/v1/rerank",
    "/v2/rerank",
    "/info",
    "/health",
    "/ping",
];

#[test]
fn every_code_stands_in_the_table_of_errors_under_its_status() {
    let gateway = Gateway::start();
    let description = description(&gateway);
    let table = documented::errors();
    let schema = description["components"]["schemas"]["ErrorCode"].to_string();
    let mut used = BTreeSet::new();
    for (method, path, operation) in operations(&description) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let codes = response["description"].as_str().unwrap_or_default().split('`').skip(1).step_by(2);
            for code in codes {
                let row =
                    table.get(code).unwrap_or_else(|| panic!("{method} {path}: `{code}` is not documented"));
                // TEI's routes have TEI's statuses, which a test of theirs looks at
                if !TEI_ROUTES.contains(&path) {
                    assert_eq!(*status, row.status.to_string(), "{method} {path}: `{code}`");
                }
                used.insert(code.to_owned());
            }
        }
    }
    assert!(used.len() >= 15, "only {used:?}");
    for code in table.keys() {
        assert!(schema.contains(&format!("\"{code}\"")), "`{code}` is not in the schema");
    }
}
