//! `/openapi.json`, made from the table of routes, their examples and the wire types.

mod limits;
mod order;
mod type_names;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use weir_api::{
    AnthropicErrorBody, CohereError, ErrorCode, FileOptions, OllamaError, OpenAiErrorBody, Problem,
    RerankError, TeiError,
};
use weir_config::Config;

use super::dialect::Dialect;
use super::encoding::{ARROW, RAW};
use super::gateway::Gateway;
use super::routes::{BodyContent, Example, GROUPS, Group, ROUTES, Route};
use super::upload::FORM;
use order::{Ordered, set_order, verbatim};

/// The OpenAPI 3.1 description of a gateway with this configuration, as JSON.
fn described(config: &Config) -> String {
    let mut document = document();
    limits::add(config, &mut document);
    serde_json::to_string(&Ordered(&document)).unwrap_or_default()
}

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let Some((group, example)) = Group::find(route.method, route.path) else { continue };
        let operation = operation(route, group, example, &mut generator);
        let methods = paths.entry(described_path(route.path)).or_insert_with(|| json!({}));
        methods[route.method] = operation;
    }
    let order: Vec<String> =
        GROUPS.iter().flat_map(|group| group.examples).map(|one| described_path(one.path)).collect();
    set_order(&mut paths, order.iter().map(String::as_str));
    let responses: Map<String, Value> = Dialect::ALL
        .into_iter()
        .map(|dialect| (error_name(dialect).to_owned(), error(dialect, &mut generator)))
        .collect();
    let mut schemas = generator.take_definitions(true);
    type_names::order_fields(&mut schemas);
    let tags: Vec<Value> =
        GROUPS.iter().map(|group| json!({"name": group.name, "description": group.about})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weir",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The retrieval gateway: ingest, hybrid search with citations, embeddings.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": tags,
        "paths": paths,
        "components": {"schemas": schemas, "responses": responses},
    })
}

/// A path as clients write it: the wildcard of the router is a plain parameter to them.
fn described_path(pattern: &str) -> String {
    pattern.replace("{*", "{")
}

/// The schema name of the errors of a dialect.
fn error_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Native => "Problem",
        Dialect::OpenAi => "OpenAiError",
        Dialect::Tei => "TeiError",
        Dialect::Anthropic => "AnthropicErrorBody",
        Dialect::Cohere => "CohereError",
        Dialect::Ollama => "OllamaError",
        Dialect::Rerank => "RerankError",
    }
}

fn error(dialect: Dialect, generator: &mut SchemaGenerator) -> Value {
    let schema = match dialect {
        Dialect::Native => {
            let schema = json!({"schema": generator.subschema_for::<Problem>().to_value()});
            // the latter for clients that accept nothing else
            let content = json!({"application/problem+json": schema, "application/json": schema});
            return json!({"description": WHAT_WENT_WRONG, "content": content});
        }
        Dialect::OpenAi => generator.subschema_for::<OpenAiErrorBody>().to_value(),
        Dialect::Tei => generator.subschema_for::<TeiError>().to_value(),
        Dialect::Anthropic => generator.subschema_for::<AnthropicErrorBody>().to_value(),
        Dialect::Cohere => generator.subschema_for::<CohereError>().to_value(),
        Dialect::Ollama => generator.subschema_for::<OllamaError>().to_value(),
        Dialect::Rerank => {
            let ours = generator.subschema_for::<RerankError>().to_value();
            // to requests with `texts`
            json!({"anyOf": [ours, generator.subschema_for::<TeiError>().to_value()]})
        }
    };
    json!({"description": WHAT_WENT_WRONG, "content": {"application/json": {"schema": schema}}})
}

const WHAT_WENT_WRONG: &str = "What went wrong and what to do.";

/// The statuses that a code has on a route.
fn statuses(dialect: Dialect, code: ErrorCode) -> Vec<StatusCode> {
    let mut statuses = vec![dialect.status(code)];
    if dialect == Dialect::Rerank {
        // to requests with `texts`
        statuses.push(Dialect::Tei.status(code));
    }
    statuses.dedup();
    statuses
}

fn operation(route: &Route, group: &Group, example: &Example, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    responses.insert(route.status.to_string(), reply(route.status, route.reply, generator));
    for (status, content) in route.others {
        responses.insert(status.to_string(), reply(*status, *content, generator));
    }
    let dialect = route.dialect;
    let reference = format!("#/components/responses/{}", error_name(dialect));
    for code in route.codes() {
        let name = code.row().name;
        for status in statuses(dialect, code) {
            let entry = responses
                .entry(status.as_str().to_owned())
                .or_insert_with(|| json!({"$ref": reference, "description": ""}));
            let known = entry["description"].as_str().unwrap_or_default();
            let text = if known.is_empty() { format!("`{name}`") } else { format!("{known}, `{name}`") };
            entry["description"] = json!(text);
        }
    }
    let mut operation = json!({
        "tags": [group.name],
        "summary": route.summary,
        "parameters": parameters(route, example),
        "responses": responses,
    });
    if let Some(BodyContent::Schema(schema)) = route.request {
        let content = json!({"schema": schema(generator), "example": verbatim(example.body)});
        operation["requestBody"] =
            json!({"required": route.needs_body, "content": {"application/json": content}});
        for media in route.files {
            operation["requestBody"]["content"][*media] = json!({"schema": file(media, generator)});
        }
    }
    operation
}

/// The body of a request with files.
fn file(media: &str, generator: &mut SchemaGenerator) -> Value {
    let file = json!({"type": "string", "format": "binary"});
    if media != FORM {
        return file;
    }
    let options = generator.subschema_for::<FileOptions>().to_value();
    json!({
        "type": "object",
        "required": ["file"],
        "properties": {
            "collection": {"type": "string", "description": "The collection, which is created if it does not exist; default: `default`."},
            "file": {"type": "array", "items": file, "description": "The files; each may be followed by its `options`."},
            "options": options,
            "replace_if_equal": {"type": "array", "items": {"type": "string"}, "description": "As in JSON."},
            "webhook_url": {"type": "string", "description": "As in JSON."},
        },
    })
}

/// The parameters in the path, in the query and in headers.
fn parameters(route: &Route, example: &Example) -> Vec<Value> {
    let names = route.path.split('{').skip(1).filter_map(|part| part.split('}').next());
    let in_path =
        names.map(|name| name.trim_start_matches('*')).map(|name| (name, "path", about(route, name)));
    let in_query = route.query.iter().map(|(name, about)| (*name, "query", *about));
    let parameter = |(name, place, about): (&str, &str, &str)| {
        let mut parameter = json!({
            "name": name, "in": place, "required": place == "path", "description": about, "schema": {"type": "string"},
        });
        if let Some(value) = example.parameter(name) {
            parameter["example"] = json!(value);
        }
        parameter
    };
    let in_header = route.headers.iter().map(|(name, about)| (*name, "header", *about));
    in_path.chain(in_query).chain(in_header).map(parameter).collect()
}

/// The meaning of a parameter in the path.
fn about(route: &Route, name: &str) -> &'static str {
    match name {
        "name" => "the collection",
        _ if route.path.contains("/keys/") => "the id of the key",
        _ if route.path.contains("/jobs/") => "the id of the job",
        _ if route.path.contains("/models/") || route.path.starts_with("/models") => {
            "the id or an alias of the model"
        }
        _ => "the id of the document, percent-encoded",
    }
}

fn reply(status: u16, content: BodyContent, generator: &mut SchemaGenerator) -> Value {
    let description = match status {
        201 => "Created.",
        304 => "The caller has it.",
        503 => "Not ready.",
        _ => "Done.",
    };
    let content = match content {
        BodyContent::Schema(schema) => json!({"application/json": {"schema": schema(generator)}}),
        BodyContent::SchemaOrNumbers(schema) => {
            json!({"application/json": {"schema": schema(generator)}, RAW: {}, ARROW: {}})
        }
        BodyContent::Media("application/json") => json!({"application/json": {"schema": {"type": "object"}}}),
        // its events are texts and no JSON: a schema would be that of each event
        BodyContent::Media(media @ "text/event-stream") => json!({media: {}}),
        BodyContent::Media(media) => json!({media: {"schema": {"type": "string"}}}),
        BodyContent::Nothing => return json!({"description": description}),
    };
    json!({"description": description, "content": content})
}

/// `GET /openapi.json`.
pub(super) async fn json(State(gateway): State<Gateway>) -> Response {
    let document = gateway.openapi.get_or_init(|| described(&gateway.config).into());
    ([(header::CONTENT_TYPE, "application/json")], document.clone()).into_response()
}

/// The types of the description.
#[cfg(test)]
fn schemas() -> Map<String, Value> {
    document()["components"]["schemas"].as_object().cloned().unwrap_or_default()
}
