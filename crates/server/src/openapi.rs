//! `/openapi.json`, made from the table of routes and the wire types, and the page that renders it.

use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use weir_api::{OpenAiErrorBody, Problem, TeiError};

use super::dialect::Dialect;
use super::routes::{Content, ROUTES, Route};

/// The OpenAPI 3.1 description.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES.iter().filter(|route| !route.summary.is_empty()) {
        let operation = operation(route, &mut generator);
        // the wildcard of the router is a plain parameter to clients
        let methods = paths.entry(route.path.replace("{*", "{")).or_insert_with(|| json!({}));
        methods[route.method] = operation;
    }
    let responses: Map<String, Value> = [Dialect::Native, Dialect::OpenAi, Dialect::Tei]
        .into_iter()
        .map(|dialect| (error_name(dialect).to_owned(), error(dialect, &mut generator)))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weir",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The retrieval gateway: ingest, hybrid search with citations, embeddings.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": generator.take_definitions(true), "responses": responses},
    })
}

/// What the description calls the errors of a dialect.
fn error_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Native => "Problem",
        Dialect::OpenAi => "OpenAiError",
        Dialect::Tei => "TeiError",
    }
}

fn error(dialect: Dialect, generator: &mut SchemaGenerator) -> Value {
    let (media, schema) = match dialect {
        Dialect::Native => ("application/problem+json", generator.subschema_for::<Problem>()),
        Dialect::OpenAi => ("application/json", generator.subschema_for::<OpenAiErrorBody>()),
        Dialect::Tei => ("application/json", generator.subschema_for::<TeiError>()),
    };
    json!({"description": "What went wrong and what to do.", "content": {media: {"schema": schema.to_value()}}})
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    responses.insert(route.status.to_string(), reply(route, generator));
    let dialect = route.dialect;
    let reference = format!("#/components/responses/{}", error_name(dialect));
    for code in route.codes() {
        let row = code.row();
        let entry = responses
            .entry(dialect.status(row.code).as_str().to_owned())
            .or_insert_with(|| json!({"$ref": reference, "description": ""}));
        let known = entry["description"].as_str().unwrap_or_default();
        let text =
            if known.is_empty() { format!("`{}`", row.name) } else { format!("{known}, `{}`", row.name) };
        entry["description"] = json!(text);
    }
    let path_parameters = route
        .path
        .split('{')
        .skip(1)
        .filter_map(|part| part.split('}').next())
        .map(|name| name.trim_start_matches('*'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let query_parameters = route.query.iter().map(|(name, about)| {
        json!({"name": name, "in": "query", "required": false, "description": about, "schema": {"type": "string"}})
    });
    let mut operation = json!({
        "summary": route.summary,
        "parameters": path_parameters.chain(query_parameters).collect::<Vec<_>>(),
        "responses": responses,
    });
    if let Some(Content::Schema(schema)) = route.request {
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema(generator)}}});
    }
    operation
}

fn reply(route: &Route, generator: &mut SchemaGenerator) -> Value {
    match route.reply {
        Content::Schema(schema) => {
            json!({"description": "Done.", "content": {"application/json": {"schema": schema(generator)}}})
        }
        Content::Text => {
            json!({"description": "Done.", "content": {"text/plain": {"schema": {"type": "string"}}}})
        }
    }
}

/// `GET /openapi.json`.
pub(super) async fn json() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document().to_string()).into_response()
}

/// `GET /docs`.
pub(super) async fn page() -> Html<&'static str> {
    Html(include_str!("docs.html"))
}
