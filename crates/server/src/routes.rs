//! The table of routes: the router, the OpenAPI file, error dialects, access checks and load shedding come from it.

mod codes;
mod examples;
mod unmatched;

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::Router;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post, put};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;
use weir_api::{
    CollectionReply, CollectionSettings, DeletedReply, DocumentReply, DocumentsDeleteReply,
    DocumentsDeleteRequest, EmbedRequest, EmbeddingsReply, EmbeddingsRequest, ErrorCode, FeedbackReply,
    FeedbackRequest, HealthReply, InfoReply, IngestRequest, JobReply, List, ModelReply, ModelsReply,
    QueryReply, ReadyReply, SearchOrBatchReply, SearchRequest,
};
use weir_policy::Scope;

use codes::{
    BODY_CODES, DELETE_DOCUMENTS_CODES, DOCUMENT_CODES, DOCUMENTS_CODES, EMBED_CODES, FEEDBACK_CODES,
    INGEST_CODES, PAGE_CODES, PUT_COLLECTION_CODES, SEARCH_CODES,
};

pub use examples::{Example, GROUPS, Group};

use super::dialect::Dialect;
use super::{
    Gateway, collections, documents, embeddings, feedback, health, ingest, jobs, models, openapi, pages,
    search, tei,
};

/// One method of one path.
#[derive(Clone, Copy)]
pub struct Route {
    /// The method, in lower case.
    pub method: &'static str,
    /// The pattern of the path.
    pub path: &'static str,
    /// The API whose conventions the route follows.
    pub dialect: Dialect,
    /// What a caller must be allowed to do.
    pub access: Access,
    /// The limit of its body.
    pub body: BodyLimit,
    /// What is reserved for a request before its body is read.
    pub admission: AdmissionClass,
    /// What it does, in a sentence; the OpenAPI file leaves out routes without one.
    pub summary: &'static str,
    /// The status of success.
    pub status: u16,
    /// Query parameters: name and meaning.
    pub query: &'static [(&'static str, &'static str)],
    /// The type of the body, if it has one.
    pub(super) request: Option<Content>,
    /// The type of the reply.
    pub(super) reply: Content,
    /// Error codes beside those that follow from the other columns.
    codes: &'static [ErrorCode],
    handler: fn() -> MethodRouter<Gateway>,
}

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, also without a key: health and documentation.
    Public,
    /// Every known caller; the reply shows only what the caller may see.
    Known,
    /// Callers with this scope.
    Scope(Scope),
}

/// The limit of a route's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLimit {
    /// It has no body.
    None,
    /// `limits.body_bytes_max`.
    Default,
    /// `limits.ingest_body_bytes_max`.
    Ingest,
}

/// What is reserved for a request before its body is read, or it is refused with `overloaded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionClass {
    /// Nothing: the request is cheap.
    Light,
    /// A permit for a search.
    Search,
    /// Memory for the body and its embeddings.
    Embedding,
    /// Memory for the body.
    Ingest,
}

/// What a body or a reply holds.
#[derive(Clone, Copy)]
pub(super) enum Content {
    Schema(fn(&mut SchemaGenerator) -> Value),
    Text,
}

const fn schema<T: JsonSchema>() -> Content {
    Content::Schema(|generator| generator.subschema_for::<T>().to_value())
}

/// A row without body, query parameters and error codes of its own.
const fn route(
    method: &'static str,
    path: &'static str,
    access: Access,
    summary: &'static str,
    reply: Content,
    handler: fn() -> MethodRouter<Gateway>,
) -> Route {
    Route {
        method,
        path,
        dialect: Dialect::Native,
        access,
        body: BodyLimit::None,
        admission: AdmissionClass::Light,
        summary,
        status: 200,
        query: &[],
        request: None,
        reply,
        codes: &[],
        handler,
    }
}

const SEARCH: Access = Access::Scope(Scope::Search);
const INGEST: Access = Access::Scope(Scope::Ingest);
const EMBED: Access = Access::Scope(Scope::Embed);
const ADMIN: Access = Access::Scope(Scope::Admin);

/// An embeddings route of OpenAI's API.
const fn openai_embeddings(path: &'static str, summary: &'static str) -> Route {
    let reply = schema::<EmbeddingsReply>();
    Route {
        dialect: Dialect::OpenAi,
        body: BodyLimit::Default,
        admission: AdmissionClass::Embedding,
        request: Some(schema::<EmbeddingsRequest>()),
        codes: EMBED_CODES,
        ..route("post", path, EMBED, summary, reply, || post(embeddings::openai))
    }
}

/// A models route of OpenAI's API.
const fn openai_models(
    path: &'static str,
    summary: &'static str,
    reply: Content,
    codes: &'static [ErrorCode],
    handler: fn() -> MethodRouter<Gateway>,
) -> Route {
    Route { dialect: Dialect::OpenAi, codes, ..route("get", path, Access::Known, summary, reply, handler) }
}

/// Every route.
pub const ROUTES: &[Route] = &[
    Route {
        body: BodyLimit::Ingest,
        admission: AdmissionClass::Ingest,
        status: 202,
        query: &[("wait", "`true` answers when the documents are searchable, or at the deadline")],
        request: Some(schema::<IngestRequest<'static>>()),
        codes: INGEST_CODES,
        ..route(
            "post",
            "/v1/ingest",
            INGEST,
            "Store documents; they are on disk when this answers.",
            schema::<JobReply>(),
            || post(ingest::ingest),
        )
    },
    Route {
        body: BodyLimit::Default,
        admission: AdmissionClass::Search,
        request: Some(schema::<SearchRequest>()),
        codes: SEARCH_CODES,
        ..route(
            "post",
            "/v1/search",
            SEARCH,
            "Search a collection, or run several searches at once.",
            schema::<SearchOrBatchReply>(),
            || post(search::search),
        )
    },
    Route {
        body: BodyLimit::Default,
        request: Some(schema::<FeedbackRequest>()),
        codes: FEEDBACK_CODES,
        ..route(
            "post",
            "/v1/feedback",
            SEARCH,
            "Grade how well a document answers a query; the grade is on disk when this answers.",
            schema::<FeedbackReply>(),
            || post(feedback::post),
        )
    },
    Route {
        query: &[
            ("collection", "the collection (`default`)"),
            ("limit", "entries on a page, 1 to 1000 (100)"),
            ("cursor", "the page's start, from `next_cursor`"),
        ],
        codes: PAGE_CODES,
        ..route(
            "get",
            "/v1/feedback",
            SEARCH,
            "The feedback to a collection, newest first.",
            schema::<List<FeedbackReply>>(),
            || get(feedback::list),
        )
    },
    openai_embeddings(
        "/v1/embeddings",
        "Embed texts, as OpenAI's API does; `Accept: application/octet-stream` answers raw floats.",
    ),
    openai_embeddings("/embeddings", "The same as `/v1/embeddings`."),
    Route {
        dialect: Dialect::Tei,
        body: BodyLimit::Default,
        admission: AdmissionClass::Embedding,
        request: Some(schema::<EmbedRequest>()),
        codes: EMBED_CODES,
        ..route(
            "post",
            "/embed",
            EMBED,
            "Embed texts with the default model, as TEI does; `Accept: application/octet-stream` answers raw floats.",
            schema::<Vec<Vec<f32>>>(),
            || post(tei::embed),
        )
    },
    Route {
        dialect: Dialect::Tei,
        codes: &[ErrorCode::ModelNotFound],
        ..route(
            "get",
            "/info",
            Access::Known,
            "The default model and the limits, as TEI has them.",
            schema::<InfoReply>(),
            || get(tei::info),
        )
    },
    openai_models("/v1/models", "All models, the default one first.", schema::<ModelsReply>(), &[], || {
        get(models::list)
    }),
    openai_models("/models", "The same as `/v1/models`.", schema::<ModelsReply>(), &[], || get(models::list)),
    openai_models(
        "/v1/models/{*id}",
        "One model, by its id or an alias; slashes in it need no encoding.",
        schema::<ModelReply>(),
        &[ErrorCode::ModelNotFound],
        || get(models::get),
    ),
    openai_models(
        "/models/{*id}",
        "The same as `/v1/models/{id}`.",
        schema::<ModelReply>(),
        &[ErrorCode::ModelNotFound],
        || get(models::get),
    ),
    Route {
        query: &[
            ("limit", "jobs on a page, 1 to 100 (20)"),
            ("cursor", "the page's start, from `next_cursor`"),
        ],
        codes: &[ErrorCode::StoreUnavailable],
        ..route(
            "get",
            "/v1/jobs",
            Access::Known,
            "All jobs, newest first.",
            schema::<List<JobReply>>(),
            || get(jobs::list),
        )
    },
    Route {
        codes: &[ErrorCode::JobNotFound, ErrorCode::StoreUnavailable],
        ..route("get", "/v1/jobs/{id}", Access::Known, "One job.", schema::<JobReply>(), || get(jobs::get))
    },
    route(
        "get",
        "/v1/collections",
        Access::Known,
        "All collections, by name.",
        schema::<List<CollectionReply>>(),
        || get(collections::list),
    ),
    Route {
        codes: &[ErrorCode::CollectionNotFound],
        ..route(
            "get",
            "/v1/collections/{name}",
            Access::Known,
            "One collection.",
            schema::<CollectionReply>(),
            || get(collections::get),
        )
    },
    Route {
        body: BodyLimit::Default,
        request: Some(schema::<CollectionSettings>()),
        codes: PUT_COLLECTION_CODES,
        ..route(
            "put",
            "/v1/collections/{name}",
            ADMIN,
            "Create a collection (201), or check that it has these settings (200).",
            schema::<CollectionReply>(),
            || put(collections::put),
        )
    },
    Route {
        codes: &[ErrorCode::CollectionNotFound],
        ..route(
            "delete",
            "/v1/collections/{name}",
            ADMIN,
            "Delete a collection and everything in it.",
            schema::<DeletedReply>(),
            || delete(collections::delete),
        )
    },
    Route {
        query: &[
            ("report", "`popular` (the default), `zero_results` or `low_relevance`"),
            ("limit", "queries, 1 to 1000 (100)"),
            ("below", "the relevance that counts as low, 0 to 1 (0.5)"),
        ],
        codes: PAGE_CODES,
        ..route(
            "get",
            "/v1/collections/{name}/queries",
            ADMIN,
            "Reports of logged queries; needs `search.query_log`.",
            schema::<List<QueryReply>>(),
            || get(feedback::queries),
        )
    },
    Route {
        admission: AdmissionClass::Search,
        query: &[
            ("filter", "conditions on metadata, as JSON"),
            (
                "sort",
                "metadata fields to sort by, separated by commas; `-` before a field sorts it in descending order",
            ),
            ("limit", "documents on a page, 1 to 1000 (100); a page ends early after 8 MiB of texts"),
            ("cursor", "the page's start, from `next_cursor`; the other parameters stay the same"),
            ("after", "without `filter`, `sort` and `cursor`: the id after which the page starts"),
        ],
        codes: DOCUMENTS_CODES,
        ..route(
            "get",
            "/v1/collections/{name}/documents",
            SEARCH,
            "The documents of a collection in the order of their ids; with `filter` or `sort`, the searchable ones that match.",
            schema::<List<DocumentReply>>(),
            || get(documents::list),
        )
    },
    Route {
        body: BodyLimit::Default,
        admission: AdmissionClass::Search,
        request: Some(schema::<DocumentsDeleteRequest>()),
        codes: DELETE_DOCUMENTS_CODES,
        ..route(
            "post",
            "/v1/collections/{name}/documents/delete",
            INGEST,
            "Delete the documents that match a filter; they are gone from search when this answers.",
            schema::<DocumentsDeleteReply>(),
            || post(documents::delete_by_filter),
        )
    },
    // a document may have the id `delete`
    route("get", "/v1/collections/{name}/documents/delete", SEARCH, "", schema::<DocumentReply>(), || {
        get(documents::get_named_delete)
    }),
    route("delete", "/v1/collections/{name}/documents/delete", INGEST, "", schema::<DeletedReply>(), || {
        delete(documents::delete_named_delete)
    }),
    Route {
        codes: DOCUMENT_CODES,
        ..route(
            "get",
            "/v1/collections/{name}/documents/{id}",
            SEARCH,
            "One document; its id is percent-encoded.",
            schema::<DocumentReply>(),
            || get(documents::get),
        )
    },
    Route {
        codes: DOCUMENT_CODES,
        ..route(
            "delete",
            "/v1/collections/{name}/documents/{id}",
            INGEST,
            "Delete a document; it is gone from search when this answers.",
            schema::<DeletedReply>(),
            || delete(documents::delete),
        )
    },
    Route {
        dialect: Dialect::Tei,
        ..route(
            "get",
            "/health",
            Access::Public,
            "200 without a body if a model is loaded, else 503, as in TEI.",
            Content::Text,
            || get(tei::health),
        )
    },
    route(
        "get",
        "/healthz",
        Access::Public,
        "Whether the gateway answers, and the number of searchable documents.",
        schema::<HealthReply>(),
        || get(health::healthz),
    ),
    route("get", "/livez", Access::Public, "200 while the process runs.", Content::Text, || {
        get(health::livez)
    }),
    route(
        "get",
        "/readyz",
        Access::Public,
        "200 when models and indexes are ready, else 503 with the parts that are not.",
        schema::<ReadyReply>(),
        || get(health::readyz),
    ),
    route("get", "/metrics", ADMIN, "Counters and gauges for Prometheus.", Content::Text, || {
        get(health::metrics)
    }),
    route("get", "/", Access::Public, "A page to search with.", Content::Text, || get(pages::start)),
    route(
        "get",
        "/docs",
        Access::Public,
        "This description as a page, with a form for each route.",
        Content::Text,
        || get(pages::docs),
    ),
    route("get", "/openapi.json", Access::Public, "This description.", Content::Text, || get(openapi::json)),
];

static BY_PATH: LazyLock<HashMap<&'static str, Vec<&'static Route>>> = LazyLock::new(|| {
    let mut routes: HashMap<_, Vec<_>> = HashMap::new();
    ROUTES.iter().for_each(|route| routes.entry(route.path).or_default().push(route));
    routes
});

impl Route {
    /// The route of a matched path and a method. `HEAD` is answered like `GET`.
    pub(super) fn find(path: &str, method: &Method) -> Option<&'static Route> {
        let method = if method == Method::HEAD { "get" } else { method.as_str() };
        BY_PATH.get(path)?.iter().find(|route| route.method.eq_ignore_ascii_case(method)).copied()
    }

    /// The dialect of a matched path, whatever the method.
    pub(super) fn dialect_of(path: &str) -> Dialect {
        BY_PATH.get(path).and_then(|routes| routes.first()).map_or(Dialect::Native, |route| route.dialect)
    }

    /// Every error code that the route can answer with.
    pub fn codes(&self) -> Vec<ErrorCode> {
        let mut codes = vec![ErrorCode::Internal, ErrorCode::DeadlineExceeded];
        codes.extend(self.codes);
        if self.body != BodyLimit::None {
            codes.extend(BODY_CODES);
        }
        if !self.query.is_empty() {
            codes.extend([ErrorCode::InvalidParameter, ErrorCode::UnknownField]);
        }
        if self.admission != AdmissionClass::Light {
            codes.push(ErrorCode::Overloaded);
        }
        if self.access != Access::Public {
            codes.push(ErrorCode::InvalidApiKey);
        }
        if matches!(self.access, Access::Scope(_)) {
            codes.push(ErrorCode::InsufficientScope);
        }
        codes.sort_unstable();
        codes.dedup();
        codes
    }
}

/// The router of every route, inside [the middleware](super::layers::middleware).
pub fn router(gateway: Gateway) -> Router {
    let router =
        ROUTES.iter().fold(Router::new(), |router, route| router.route(route.path, (route.handler)()));
    router
        .fallback(unmatched::no_route)
        .method_not_allowed_fallback(unmatched::no_method)
        .layer(from_fn_with_state(gateway.clone(), super::layers::middleware))
        .layer(super::cors::layer(&gateway.config))
        .with_state(gateway)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_follow_the_dialect_of_the_api_that_they_imitate() {
        for path in
            ["/v1/embeddings", "/embeddings", "/v1/models", "/v1/models/{*id}", "/models", "/models/{*id}"]
        {
            assert_eq!(Route::dialect_of(path), Dialect::OpenAi, "{path}");
        }
        for path in ["/embed", "/info", "/health"] {
            assert_eq!(Route::dialect_of(path), Dialect::Tei, "{path}");
        }
        for path in ["/v1/search", "/healthz", "/v1/modelsx", "/"] {
            assert_eq!(Route::dialect_of(path), Dialect::Native, "{path}");
        }
    }

    #[test]
    fn only_health_and_documentation_are_public() {
        let public: Vec<&str> =
            ROUTES.iter().filter(|route| route.access == Access::Public).map(|route| route.path).collect();
        assert_eq!(public, ["/health", "/healthz", "/livez", "/readyz", "/", "/docs", "/openapi.json"]);
    }
}
