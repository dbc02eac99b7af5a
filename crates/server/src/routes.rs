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
use tower_http::compression::CompressionLayer;
use weir_api::{
    AnyRerankReply, CohereEmbedReply, CohereEmbedRequest, CollectionReply, CollectionSettings, DecodeRequest,
    DeletedReply, DocumentReply, DocumentsDeleteReply, DocumentsDeleteRequest, EmbedAllRequest, EmbedRequest,
    EmbeddingsReply, EmbeddingsRequest, ErrorCode, FeedbackReply, FeedbackRequest, HealthReply, InfoReply,
    IngestRequest, JobReply, List, ModelReply, ModelsReply, OllamaEmbedReply, OllamaEmbedRequest,
    OllamaPromptReply, OllamaPromptRequest, OllamaTags, PredictReply, PredictRequest, QueryReply, ReadyReply,
    RerankRequest, SearchOrBatchReply, SearchRequest, SimilarityRequest, TeiError, TeiToken, TokenizeRequest,
};
use weir_policy::Scope;

use codes::{
    DELETE_COLLECTION_CODES, DELETE_DOCUMENT_CODES, DELETE_DOCUMENTS_CODES, DOCUMENT_CODES, DOCUMENTS_CODES,
    EMBED_CODES, FEEDBACK_CODES, INGEST_CODES, PAGE_CODES, PUT_COLLECTION_CODES, SEARCH_CODES,
};

pub use examples::{Example, GROUPS, Group};

use super::dialect::Dialect;
use super::{
    Gateway, cohere, collections, documents, embeddings, feedback, health, ingest, jobs, models, ollama,
    openapi, pages, rerank, search, tei, tokens,
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
    /// Replies with other statuses that are no errors of the dialect.
    pub(super) others: &'static [(u16, Content)],
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
    /// The same, or raw floats for clients that accept `application/octet-stream`.
    SchemaOrFloats(fn(&mut SchemaGenerator) -> Value),
    /// Something else, of this media type.
    Media(&'static str),
    Nothing,
}

impl Content {
    const fn of<T: JsonSchema>() -> Content {
        Content::Schema(|generator| generator.subschema_for::<T>().to_value())
    }

    const fn or_floats<T: JsonSchema>() -> Content {
        Content::SchemaOrFloats(|generator| generator.subschema_for::<T>().to_value())
    }
}

const HTML: Content = Content::Media("text/html");
const CREATED: &[(u16, Content)] = &[(201, Content::of::<CollectionReply>())];
const NOT_READY: &[(u16, Content)] = &[(503, Content::of::<ReadyReply>())];
const UNHEALTHY: &[(u16, Content)] = &[(503, Content::of::<TeiError>())];

const SEARCH: Access = Access::Scope(Scope::Search);
const INGEST: Access = Access::Scope(Scope::Ingest);
const EMBED: Access = Access::Scope(Scope::Embed);
const RERANK: Access = Access::Scope(Scope::Rerank);
const ADMIN: Access = Access::Scope(Scope::Admin);

/// Builds a row of the table.
impl Route {
    /// A row without body, query parameters and error codes of its own, which answers 200 with a text.
    const fn new(
        method: &'static str,
        path: &'static str,
        access: Access,
        handler: fn() -> MethodRouter<Gateway>,
    ) -> Route {
        Route {
            method,
            path,
            dialect: Dialect::Native,
            access,
            body: BodyLimit::None,
            admission: AdmissionClass::Light,
            summary: "",
            status: 200,
            query: &[],
            request: None,
            reply: Content::Media("text/plain"),
            others: &[],
            codes: &[],
            handler,
        }
    }

    const fn about(self, summary: &'static str) -> Route {
        Route { summary, ..self }
    }

    const fn in_dialect(self, dialect: Dialect) -> Route {
        Route { dialect, ..self }
    }

    const fn takes<T: JsonSchema>(self, body: BodyLimit) -> Route {
        Route { body, request: Some(Content::of::<T>()), ..self }
    }

    const fn reserves(self, admission: AdmissionClass) -> Route {
        Route { admission, ..self }
    }

    const fn with_query(self, query: &'static [(&'static str, &'static str)]) -> Route {
        Route { query, ..self }
    }

    const fn replies<T: JsonSchema>(self) -> Route {
        Route { reply: Content::of::<T>(), ..self }
    }

    const fn returns(self, reply: Content) -> Route {
        Route { reply, ..self }
    }

    const fn also(self, others: &'static [(u16, Content)]) -> Route {
        Route { others, ..self }
    }

    const fn fails_with(self, codes: &'static [ErrorCode]) -> Route {
        Route { codes, ..self }
    }
}

/// An embeddings route of OpenAI's API.
const fn openai_embeddings(path: &'static str) -> Route {
    Route::new("post", path, EMBED, || post(embeddings::openai))
        .in_dialect(Dialect::OpenAi)
        .takes::<EmbeddingsRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .returns(Content::or_floats::<EmbeddingsReply>())
        .fails_with(EMBED_CODES)
}

/// A route of text-embeddings-inference that computes with the default model.
const fn tei_route(path: &'static str, handler: fn() -> MethodRouter<Gateway>) -> Route {
    Route::new("post", path, EMBED, handler)
        .in_dialect(Dialect::Tei)
        .reserves(AdmissionClass::Embedding)
        .fails_with(EMBED_CODES)
}

/// A rerank route of Cohere, Jina and text-embeddings-inference.
const fn rerank_route(path: &'static str) -> Route {
    Route::new("post", path, RERANK, || post(rerank::rerank))
        .in_dialect(Dialect::Rerank)
        .takes::<RerankRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .replies::<AnyRerankReply>()
        .fails_with(EMBED_CODES)
}

/// An embeddings route of Cohere's API.
const fn cohere_embed(path: &'static str) -> Route {
    Route::new("post", path, EMBED, || post(cohere::embed))
        .in_dialect(Dialect::Cohere)
        .takes::<CohereEmbedRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .replies::<CohereEmbedReply>()
        .fails_with(EMBED_CODES)
}

/// The list of models in OpenAI's API.
const fn openai_models(path: &'static str) -> Route {
    Route::new("get", path, Access::Known, || get(models::list))
        .in_dialect(Dialect::OpenAi)
        .replies::<ModelsReply>()
}

/// One model in OpenAI's API.
const fn openai_model(path: &'static str) -> Route {
    Route::new("get", path, Access::Known, || get(models::get))
        .in_dialect(Dialect::OpenAi)
        .replies::<ModelReply>()
        .fails_with(&[ErrorCode::ModelNotFound])
}

/// Every route.
pub const ROUTES: &[Route] = &[
    Route {
        status: 202,
        ..Route::new("post", "/v1/ingest", INGEST, || post(ingest::ingest))
            .about("Store documents; they are on disk when this answers.")
            .with_query(&[("wait", "`true` answers when the documents are searchable, or at the deadline")])
            .takes::<IngestRequest<'static>>(BodyLimit::Ingest)
            .reserves(AdmissionClass::Ingest)
            .replies::<JobReply>()
            .fails_with(INGEST_CODES)
    },
    Route::new("post", "/v1/search", SEARCH, || post(search::search))
        .about("Search a collection, or run several searches at once.")
        .takes::<SearchRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Search)
        .replies::<SearchOrBatchReply>()
        .fails_with(SEARCH_CODES),
    Route::new("post", "/v1/feedback", SEARCH, || post(feedback::post))
        .about("Grade how well a document answers a query; the grade is on disk when this answers.")
        .takes::<FeedbackRequest>(BodyLimit::Default)
        .replies::<FeedbackReply>()
        .fails_with(FEEDBACK_CODES),
    Route::new("get", "/v1/feedback", SEARCH, || get(feedback::list))
        .about("The feedback to a collection, newest first.")
        .with_query(&[
            ("collection", "the collection (`default`)"),
            ("limit", "entries on a page, 1 to 1000 (100)"),
            ("cursor", "the page's start, from `next_cursor`"),
        ])
        .replies::<List<FeedbackReply>>()
        .fails_with(PAGE_CODES),
    openai_embeddings("/v1/embeddings").about(
        "Embed texts, as OpenAI's API does; `Accept: application/octet-stream` answers raw floats.",
    ),
    openai_embeddings("/embeddings").about("The same as `/v1/embeddings`."),
    Route::new("post", "/embed", EMBED, || post(tei::embed))
        .about(
            "Embed texts with the default model, as TEI does; `Accept: application/octet-stream` answers raw floats.",
        )
        .in_dialect(Dialect::Tei)
        .takes::<EmbedRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .returns(Content::or_floats::<Vec<Vec<f32>>>())
        .fails_with(EMBED_CODES),
    tei_route("/embed_all", || post(tokens::embed_all))
        .about("Embed each token of texts with the default model, as TEI does.")
        .takes::<EmbedAllRequest>(BodyLimit::Default)
        .replies::<Vec<Vec<Vec<f32>>>>(),
    tei_route("/embed_sparse", || post(tokens::embed_sparse))
        .about("Always an error that names what serves sparse embeddings.")
        .takes::<EmbedAllRequest>(BodyLimit::Default)
        .replies::<Vec<Vec<f32>>>(),
    tei_route("/similarity", || post(tokens::similarity))
        .about("The cosines of a sentence with others, by the default model, as TEI has them.")
        .takes::<SimilarityRequest>(BodyLimit::Default)
        .replies::<Vec<f32>>(),
    tei_route("/tokenize", || post(tokens::tokenize))
        .about("The tokens of texts for the default model, as TEI has them.")
        .takes::<TokenizeRequest>(BodyLimit::Default)
        .replies::<Vec<Vec<TeiToken>>>(),
    tei_route("/decode", || post(tokens::decode))
        .about("The texts of token ids of the default model, as TEI has them.")
        .takes::<DecodeRequest>(BodyLimit::Default)
        .replies::<Vec<String>>(),
    Route {
        access: RERANK,
        ..tei_route("/predict", || post(rerank::predict))
            .about("Classify pairs of texts by the model that reranks, as TEI does.")
            .takes::<PredictRequest>(BodyLimit::Default)
            .replies::<PredictReply>()
    },
    rerank_route("/v2/rerank").about(
        "Sort documents by relevance to a query, as Cohere and Jina do; with `texts` instead of `documents`, as TEI does.",
    ),
    rerank_route("/v1/rerank").about("The same; results contain their documents unless `return_documents` is false."),
    rerank_route("/rerank").about("The same as `/v1/rerank`."),
    cohere_embed("/v2/embed").about("Embed texts, as Cohere's API does, in one or several types."),
    cohere_embed("/v1/embed").about("The same in the earlier version: a list of floats without `embedding_types`."),
    Route::new("post", "/api/embed", EMBED, || post(ollama::embed))
        .about("Embed texts, as Ollama does.")
        .in_dialect(Dialect::Ollama)
        .takes::<OllamaEmbedRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .replies::<OllamaEmbedReply>()
        .fails_with(EMBED_CODES),
    Route::new("post", "/api/embeddings", EMBED, || post(ollama::embed_prompt))
        .about("Embed one text, as Ollama's earlier API does.")
        .in_dialect(Dialect::Ollama)
        .takes::<OllamaPromptRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .replies::<OllamaPromptReply>()
        .fails_with(EMBED_CODES),
    Route::new("get", "/api/tags", Access::Known, || get(ollama::tags))
        .about("The models that embed, as Ollama lists them.")
        .in_dialect(Dialect::Ollama)
        .replies::<OllamaTags>(),
    Route::new("get", "/info", Access::Known, || get(tei::info))
        .about("The default model and the limits, as TEI has them.")
        .in_dialect(Dialect::Tei)
        .replies::<InfoReply>()
        .fails_with(&[ErrorCode::ModelNotFound]),
    openai_models("/v1/models").about("All models, the default one first."),
    openai_models("/models").about("The same as `/v1/models`."),
    openai_model("/v1/models/{*id}").about("One model, by its id or an alias; slashes in it need no encoding."),
    openai_model("/models/{*id}").about("The same as `/v1/models/{id}`."),
    Route::new("get", "/v1/jobs", Access::Known, || get(jobs::list))
        .about("All jobs, newest first.")
        .with_query(&[
            ("limit", "jobs on a page, 1 to 100 (20)"),
            ("cursor", "the page's start, from `next_cursor`"),
        ])
        .replies::<List<JobReply>>(),
    Route::new("get", "/v1/jobs/{id}", Access::Known, || get(jobs::get))
        .about("One job.")
        .replies::<JobReply>()
        .fails_with(&[ErrorCode::JobNotFound]),
    Route::new("get", "/v1/collections", Access::Known, || get(collections::list))
        .about("All collections, by name.")
        .replies::<List<CollectionReply>>(),
    Route::new("get", "/v1/collections/{name}", Access::Known, || get(collections::get))
        .about("One collection.")
        .replies::<CollectionReply>()
        .fails_with(&[ErrorCode::CollectionNotFound]),
    Route::new("put", "/v1/collections/{name}", ADMIN, || put(collections::put))
        .about("Create a collection (201), or check that it has these settings (200).")
        .takes::<CollectionSettings>(BodyLimit::Default)
        .replies::<CollectionReply>()
        .also(CREATED)
        .fails_with(PUT_COLLECTION_CODES),
    Route::new("delete", "/v1/collections/{name}", ADMIN, || delete(collections::delete))
        .about("Delete a collection and everything in it.")
        .replies::<DeletedReply>()
        .fails_with(DELETE_COLLECTION_CODES),
    Route::new("get", "/v1/collections/{name}/queries", ADMIN, || get(feedback::queries))
        .about("Reports of logged queries; needs `search.query_log`.")
        .with_query(&[
            ("report", "`popular` (the default), `zero_results` or `low_relevance`"),
            ("limit", "queries, 1 to 1000 (100)"),
            ("below", "the relevance that counts as low, 0 to 1 (0.5)"),
        ])
        .replies::<List<QueryReply>>()
        .fails_with(PAGE_CODES),
    Route::new("get", "/v1/collections/{name}/documents", SEARCH, || get(documents::list))
        .about(
            "The documents of a collection in the order of their ids; with `filter` or `sort`, the searchable ones that match.",
        )
        .with_query(&[
            ("filter", "conditions on metadata, as JSON"),
            (
                "sort",
                "metadata fields to sort by, separated by commas; `-` before a field sorts it in descending order",
            ),
            ("limit", "documents on a page, 1 to 1000 (100); a page ends early after 8 MiB of texts"),
            ("cursor", "the page's start, from `next_cursor`; the other parameters stay the same"),
            ("after", "without `filter`, `sort` and `cursor`: the id after which the page starts"),
        ])
        .reserves(AdmissionClass::Search)
        .replies::<List<DocumentReply>>()
        .fails_with(DOCUMENTS_CODES),
    Route::new("post", "/v1/collections/{name}/documents/delete", INGEST, || post(documents::delete_by_filter))
        .about("Delete the documents that match a filter; they are gone from search when this answers.")
        .takes::<DocumentsDeleteRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Search)
        .replies::<DocumentsDeleteReply>()
        .fails_with(DELETE_DOCUMENTS_CODES),
    // a document may have the id `delete`
    Route::new("get", "/v1/collections/{name}/documents/delete", SEARCH, || get(documents::get_named_delete)),
    Route::new("delete", "/v1/collections/{name}/documents/delete", INGEST, || {
        delete(documents::delete_named_delete)
    }),
    Route::new("get", "/v1/collections/{name}/documents/{id}", SEARCH, || get(documents::get))
        .about("One document; its id is percent-encoded.")
        .replies::<DocumentReply>()
        .fails_with(DOCUMENT_CODES),
    Route::new("delete", "/v1/collections/{name}/documents/{id}", INGEST, || delete(documents::delete))
        .about("Delete a document; it is gone from search when this answers.")
        .replies::<DeletedReply>()
        .fails_with(DELETE_DOCUMENT_CODES),
    Route::new("get", "/health", Access::Public, || get(tei::health))
        .about("200 without a body if a model is loaded, else 503, as in TEI.")
        .in_dialect(Dialect::Tei)
        .returns(Content::Nothing)
        .also(UNHEALTHY),
    Route::new("get", "/ping", Access::Public, || get(tei::health))
        .about("The same as `/health`.")
        .in_dialect(Dialect::Tei)
        .returns(Content::Nothing)
        .also(UNHEALTHY),
    Route::new("get", "/healthz", Access::Public, || get(health::healthz))
        .about("Whether the gateway answers, and the number of searchable documents.")
        .replies::<HealthReply>(),
    Route::new("get", "/livez", Access::Public, || get(health::livez)).about("200 while the process runs."),
    Route::new("get", "/readyz", Access::Public, || get(health::readyz))
        .about("200 when models and indexes are ready, else 503 with the parts that are not.")
        .replies::<ReadyReply>()
        .also(NOT_READY),
    Route::new("get", "/metrics", ADMIN, || get(health::metrics))
        .about("Counters and gauges for Prometheus.")
        .returns(Content::Media("application/openmetrics-text")),
    Route::new("get", "/", Access::Public, || get(pages::start)).about("A page to search with.").returns(HTML),
    // `huggingface_hub` calls the base URL
    Route {
        summary: "The same as `/embed`.",
        ..tei_route("/", || post(tei::embed))
            .takes::<EmbedRequest>(BodyLimit::Default)
            .returns(Content::or_floats::<Vec<Vec<f32>>>())
    },
    Route::new("get", "/docs", Access::Public, || get(pages::docs))
        .about("This description as a page, with a form for each route.")
        .returns(HTML),
    Route::new("get", "/openapi.json", Access::Public, || get(openapi::json))
        .about("This description.")
        .returns(Content::Media("application/json")),
];

static BY_PATH: LazyLock<HashMap<&'static str, Vec<&'static Route>>> = LazyLock::new(|| {
    let mut routes: HashMap<_, Vec<_>> = HashMap::new();
    ROUTES.iter().for_each(|route| routes.entry(route.path).or_default().push(route));
    routes
});

/// The routes of a matched path.
fn routes_of(path: &str) -> Option<&'static [&'static Route]> {
    BY_PATH.get(Route::pattern_of(path)).map(Vec::as_slice)
}

impl Route {
    /// A matched path without the slash at its end.
    pub(super) fn pattern_of(path: &str) -> &str {
        if path == "/" { path } else { path.trim_end_matches('/') }
    }

    /// The route of a matched path and a method. `HEAD` is answered like `GET`.
    pub(super) fn find(path: &str, method: &Method) -> Option<&'static Route> {
        let method = if method == Method::HEAD { "get" } else { method.as_str() };
        routes_of(path)?.iter().find(|route| route.method.eq_ignore_ascii_case(method)).copied()
    }

    /// The dialect of a matched path, whatever the method.
    pub(super) fn dialect_of(path: &str) -> Dialect {
        routes_of(path).and_then(|routes| routes.first()).map_or(Dialect::Native, |route| route.dialect)
    }
}

/// The router of every route, inside [the middleware](super::layers::middleware). A slash at the end of a path is ignored.
pub fn router(gateway: Gateway) -> Router {
    let router = ROUTES.iter().fold(Router::new(), |router, route| {
        let router = router.route(route.path, (route.handler)());
        match route.path == "/" || route.path.contains("{*") {
            true => router,
            false => router.route(&format!("{}/", route.path), (route.handler)()),
        }
    });
    let config = gateway.config.clone();
    let router = router
        .fallback(unmatched::no_route)
        .method_not_allowed_fallback(unmatched::no_method)
        .layer(from_fn_with_state(gateway.clone(), super::layers::middleware))
        .layer(super::cors::layer(&config))
        .with_state(gateway);
    match config.server.compress_replies {
        true => router.layer(CompressionLayer::new()),
        false => router,
    }
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
        for path in ["/v1/rerank", "/v2/rerank", "/rerank"] {
            assert_eq!(Route::dialect_of(path), Dialect::Rerank, "{path}");
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
        assert_eq!(
            public,
            ["/health", "/ping", "/healthz", "/livez", "/readyz", "/", "/docs", "/openapi.json"]
        );
    }
}
