//! `/openapi.json`, made from the table of routes and the wire types, and the page that renders it.

use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use weir_api::{
    CollectionReply, CollectionSettings, DeletedReply, DocumentReply, DocumentsDeleteReply,
    DocumentsDeleteRequest, EmbedRequest, EmbeddingsReply, EmbeddingsRequest, ErrorCode, FeedbackReply,
    FeedbackRequest, HealthReply, InfoReply, IngestRequest, JobReply, List, ModelReply, ModelsReply,
    OpenAiErrorBody, Problem, QueryReply, ReadyReply, SearchOrBatchReply, SearchRequest, TeiError,
};

use super::dialect::Dialect;

/// One route and method, as documented.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The method, in lower case.
    pub method: &'static str,
    /// The pattern of the path.
    pub path: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// The status of success.
    pub status: u16,
    /// Query parameters: name and what they do.
    pub query: &'static [(&'static str, &'static str)],
    /// The type of the body, if it has one.
    request: Option<Body>,
    /// The type of the reply.
    reply: Body,
    /// The codes that this route can answer beside those that all can.
    pub codes: &'static [ErrorCode],
}

#[derive(Debug, Clone, Copy)]
enum Body {
    Schema(fn(&mut SchemaGenerator) -> Value),
    Text,
}

const fn route(method: &'static str, path: &'static str, summary: &'static str, reply: Body) -> Route {
    Route { method, path, summary, status: 200, query: &[], request: None, reply, codes: &[] }
}

const fn schema<T: JsonSchema>() -> Body {
    Body::Schema(|generator| generator.subschema_for::<T>().to_value())
}

const SEARCH: &[ErrorCode] = &[
    ErrorCode::InvalidJson,
    ErrorCode::InvalidUtf8,
    ErrorCode::InvalidParameter,
    ErrorCode::UnknownField,
    ErrorCode::InvalidQuery,
    ErrorCode::InvalidFilter,
    ErrorCode::InvalidCursor,
    ErrorCode::CursorExpired,
    ErrorCode::BatchTooLarge,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::PayloadTooLarge,
    ErrorCode::CollectionNotFound,
    ErrorCode::ModelNotFound,
    ErrorCode::CollectionNotReady,
    ErrorCode::Overloaded,
];
const DOCUMENTS: &[ErrorCode] = &[
    ErrorCode::InvalidParameter,
    ErrorCode::UnknownField,
    ErrorCode::BatchTooLarge,
    ErrorCode::InvalidFilter,
    ErrorCode::InvalidCursor,
    ErrorCode::CursorExpired,
    ErrorCode::CollectionNotFound,
    ErrorCode::CollectionNotReady,
    ErrorCode::Overloaded,
    ErrorCode::StoreUnavailable,
];
const DELETE_DOCUMENTS: &[ErrorCode] = &[
    ErrorCode::InvalidJson,
    ErrorCode::InvalidUtf8,
    ErrorCode::InvalidParameter,
    ErrorCode::UnknownField,
    ErrorCode::InvalidFilter,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::PayloadTooLarge,
    ErrorCode::CollectionNotFound,
    ErrorCode::CollectionNotReady,
    ErrorCode::Overloaded,
    ErrorCode::InsufficientStorage,
    ErrorCode::StoreUnavailable,
];
const EMBED: &[ErrorCode] = &[
    ErrorCode::InvalidJson,
    ErrorCode::InvalidUtf8,
    ErrorCode::InvalidParameter,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::PayloadTooLarge,
    ErrorCode::BatchTooLarge,
    ErrorCode::EmptyInput,
    ErrorCode::TokenInputUnsupported,
    ErrorCode::ContextLengthExceeded,
    ErrorCode::ModelNotFound,
    ErrorCode::Overloaded,
];
const INGEST: &[ErrorCode] = &[
    ErrorCode::InvalidJson,
    ErrorCode::InvalidUtf8,
    ErrorCode::InvalidParameter,
    ErrorCode::UnknownField,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::PayloadTooLarge,
    ErrorCode::BatchTooLarge,
    ErrorCode::Overloaded,
    ErrorCode::InsufficientStorage,
    ErrorCode::StoreUnavailable,
];
const PUT_COLLECTION: &[ErrorCode] = &[
    ErrorCode::InvalidJson,
    ErrorCode::InvalidUtf8,
    ErrorCode::InvalidParameter,
    ErrorCode::UnknownField,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::PayloadTooLarge,
    ErrorCode::ModelNotFound,
    ErrorCode::CollectionConflict,
    ErrorCode::InsufficientStorage,
    ErrorCode::StoreUnavailable,
];
const ONE_COLLECTION: &[ErrorCode] = &[ErrorCode::CollectionNotFound];
const ONE_DOCUMENT: &[ErrorCode] = &[
    ErrorCode::InvalidUtf8,
    ErrorCode::CollectionNotFound,
    ErrorCode::DocumentNotFound,
    ErrorCode::StoreUnavailable,
];

const FEEDBACK: &[ErrorCode] = &[
    ErrorCode::InvalidJson,
    ErrorCode::InvalidUtf8,
    ErrorCode::InvalidParameter,
    ErrorCode::UnknownField,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::PayloadTooLarge,
    ErrorCode::CollectionNotFound,
    ErrorCode::DocumentNotFound,
    ErrorCode::InsufficientStorage,
    ErrorCode::StoreUnavailable,
];
/// A list in a collection, asked for by query parameters.
const PAGE_OF_COLLECTION: &[ErrorCode] = &[
    ErrorCode::InvalidParameter,
    ErrorCode::UnknownField,
    ErrorCode::CollectionNotFound,
    ErrorCode::StoreUnavailable,
];

const NO_MODEL: &[ErrorCode] = &[ErrorCode::ModelNotFound];

/// Every documented route, in the order of [`super::router`].
pub const ROUTES: &[Route] = &[
    Route {
        status: 202,
        query: &[("wait", "`true` answers when the documents are searchable, or at the deadline")],
        request: Some(schema::<IngestRequest<'static>>()),
        codes: INGEST,
        ..route(
            "post",
            "/v1/ingest",
            "Take documents in; they are on disk when this answers.",
            schema::<JobReply>(),
        )
    },
    Route {
        request: Some(schema::<SearchRequest>()),
        codes: SEARCH,
        ..route(
            "post",
            "/v1/search",
            "Search a collection, or ask several searches at once.",
            schema::<SearchOrBatchReply>(),
        )
    },
    Route {
        request: Some(schema::<FeedbackRequest>()),
        codes: FEEDBACK,
        ..route(
            "post",
            "/v1/feedback",
            "Say how well a document answers a query; it is on disk when this answers.",
            schema::<FeedbackReply>(),
        )
    },
    Route {
        query: &[
            ("collection", "the collection (`default`)"),
            ("limit", "entries on a page, 1 to 1000 (100)"),
            ("cursor", "the page's start, from `next_cursor`"),
        ],
        codes: PAGE_OF_COLLECTION,
        ..route(
            "get",
            "/v1/feedback",
            "The feedback to a collection, newest first.",
            schema::<List<FeedbackReply>>(),
        )
    },
    Route {
        request: Some(schema::<EmbeddingsRequest>()),
        codes: EMBED,
        ..route(
            "post",
            "/v1/embeddings",
            "Embed texts, as OpenAI's API does; `Accept: application/octet-stream` answers raw floats.",
            schema::<EmbeddingsReply>(),
        )
    },
    Route {
        request: Some(schema::<EmbeddingsRequest>()),
        codes: EMBED,
        ..route("post", "/embeddings", "The same as `/v1/embeddings`.", schema::<EmbeddingsReply>())
    },
    Route {
        request: Some(schema::<EmbedRequest>()),
        codes: EMBED,
        ..route(
            "post",
            "/embed",
            "Embed texts with the default model, as TEI does; `Accept: application/octet-stream` answers raw floats.",
            schema::<Vec<Vec<f32>>>(),
        )
    },
    Route {
        codes: NO_MODEL,
        ..route("get", "/info", "The default model and the limits, as TEI has them.", schema::<InfoReply>())
    },
    route("get", "/v1/models", "All models, the default one first.", schema::<ModelsReply>()),
    route("get", "/models", "The same as `/v1/models`.", schema::<ModelsReply>()),
    Route {
        codes: NO_MODEL,
        ..route(
            "get",
            "/v1/models/{id}",
            "One model, by its id or an alias; slashes in it may stand as they are.",
            schema::<ModelReply>(),
        )
    },
    Route {
        codes: NO_MODEL,
        ..route("get", "/models/{id}", "The same as `/v1/models/{id}`.", schema::<ModelReply>())
    },
    Route {
        query: &[
            ("limit", "jobs on a page, 1 to 100 (20)"),
            ("cursor", "the page's start, from `next_cursor`"),
        ],
        codes: &[ErrorCode::InvalidParameter, ErrorCode::UnknownField, ErrorCode::StoreUnavailable],
        ..route("get", "/v1/jobs", "All jobs, newest first.", schema::<List<JobReply>>())
    },
    Route {
        codes: &[ErrorCode::JobNotFound, ErrorCode::StoreUnavailable],
        ..route("get", "/v1/jobs/{id}", "One job.", schema::<JobReply>())
    },
    route("get", "/v1/collections", "All collections, by name.", schema::<List<CollectionReply>>()),
    Route {
        codes: ONE_COLLECTION,
        ..route("get", "/v1/collections/{name}", "One collection.", schema::<CollectionReply>())
    },
    Route {
        request: Some(schema::<CollectionSettings>()),
        codes: PUT_COLLECTION,
        ..route(
            "put",
            "/v1/collections/{name}",
            "Create a collection (201), or check that it has these settings (200).",
            schema::<CollectionReply>(),
        )
    },
    Route {
        codes: ONE_COLLECTION,
        ..route(
            "delete",
            "/v1/collections/{name}",
            "Delete a collection with everything in it.",
            schema::<DeletedReply>(),
        )
    },
    Route {
        query: &[
            ("report", "`popular` (the default), `zero_results` or `low_relevance`"),
            ("limit", "queries, 1 to 1000 (100)"),
            ("below", "what relevance is low, 0 to 1 (0.5)"),
        ],
        codes: PAGE_OF_COLLECTION,
        ..route(
            "get",
            "/v1/collections/{name}/queries",
            "What was searched, by what became of it; needs `search.query_log`.",
            schema::<List<QueryReply>>(),
        )
    },
    Route {
        query: &[
            ("filter", "conditions on metadata, as JSON"),
            (
                "sort",
                "metadata fields to sort by, with commas between them and `-` before those from the largest value",
            ),
            ("limit", "documents on a page, 1 to 1000 (100); a page ends early after 8 MiB of texts"),
            ("cursor", "the page's start, from `next_cursor`; the other parameters stay the same"),
            ("after", "without `filter`, `sort` and `cursor`: the id after which the page starts"),
        ],
        codes: DOCUMENTS,
        ..route(
            "get",
            "/v1/collections/{name}/documents",
            "The documents of a collection in the order of their ids; with `filter` or `sort`, the searchable ones that pass.",
            schema::<List<DocumentReply>>(),
        )
    },
    Route {
        request: Some(schema::<DocumentsDeleteRequest>()),
        codes: DELETE_DOCUMENTS,
        ..route(
            "post",
            "/v1/collections/{name}/documents/delete",
            "Delete the documents that pass a filter; they are gone from search when this answers.",
            schema::<DocumentsDeleteReply>(),
        )
    },
    Route {
        codes: ONE_DOCUMENT,
        ..route(
            "get",
            "/v1/collections/{name}/documents/{id}",
            "One document; its id is percent-encoded.",
            schema::<DocumentReply>(),
        )
    },
    Route {
        codes: ONE_DOCUMENT,
        ..route(
            "delete",
            "/v1/collections/{name}/documents/{id}",
            "Delete a document; it is gone from search when this answers.",
            schema::<DeletedReply>(),
        )
    },
    route(
        "get",
        "/health",
        "200 without a body while there is a model, else 503, as TEI has it.",
        Body::Text,
    ),
    route(
        "get",
        "/healthz",
        "Whether the gateway answers, and how many documents can be found.",
        schema::<HealthReply>(),
    ),
    route("get", "/livez", "200 while the process runs.", Body::Text),
    route(
        "get",
        "/readyz",
        "200 when models and indexes are ready, else 503 with the parts that are not.",
        schema::<ReadyReply>(),
    ),
    route("get", "/metrics", "Counters and gauges for Prometheus.", Body::Text),
    route("get", "/openapi.json", "This description.", Body::Text),
    route("get", "/docs", "This description as a page.", Body::Text),
];

/// The OpenAPI 3.1 description.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let operation = operation(route, &mut generator);
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
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
    let dialect = Dialect::of(route.path);
    let reference = format!("#/components/responses/{}", error_name(dialect));
    for code in route.codes.iter().chain(&[ErrorCode::Internal, ErrorCode::DeadlineExceeded]) {
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
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let query_parameters = route.query.iter().map(|(name, about)| {
        json!({"name": name, "in": "query", "required": false, "description": about, "schema": {"type": "string"}})
    });
    let mut operation = json!({
        "summary": route.summary,
        "parameters": path_parameters.chain(query_parameters).collect::<Vec<_>>(),
        "responses": responses,
    });
    if let Some(Body::Schema(schema)) = route.request {
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema(generator)}}});
    }
    operation
}

fn reply(route: &Route, generator: &mut SchemaGenerator) -> Value {
    match route.reply {
        Body::Schema(schema) => {
            json!({"description": "Done.", "content": {"application/json": {"schema": schema(generator)}}})
        }
        Body::Text => {
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
