//! The rows of the table.

use axum::handler::Handler;
use schemars::JsonSchema;
use weir_api::{
    AnyModelReply, AnyModelsReply, AnyRerankReply, AuditReply, ChatCompletionRequest, ChunksPreviewReply,
    ChunksPreviewRequest, CohereEmbedReply, CohereEmbedRequest, CollectionReply, CollectionSettings,
    CompletionRequest, CountTokensRequest, DecodeRequest, DeletedReply, Document, DocumentPatch,
    DocumentReply, DocumentsDeleteReply, DocumentsDeleteRequest, EmbedAllRequest, EmbedReply, EmbedRequest,
    EmbedderReply, EmbeddingsReply, EmbeddingsRequest, ErrorCode, FeedbackDeleteReply, FeedbackReply,
    FeedbackRequest, FormatsReply, HealthReply, InfoReply, IngestReply, IngestRequest, JobDocument, JobReply,
    KeyReply, KeyRequest, KeyUpdate, LINES_MEDIA_TYPE, List, MessagesRequest, NewKeyReply, OllamaChatRequest,
    OllamaEmbedReply, OllamaEmbedRequest, OllamaGenerateRequest, OllamaProcesses, OllamaPromptReply,
    OllamaPromptRequest, OllamaShowReply, OllamaShowRequest, OllamaTags, OllamaVersion, PredictReply,
    PredictRequest, QueryReply, ReadyReply, ReconciliationReply, RerankRequest, ResponsesRequest,
    SearchOrBatchReply, SearchRequest, SimilarityRequest, TeiError, TeiToken, TokenizeRequest,
    UsageReportReply,
};
use weir_policy::Scope;

use super::codes::{
    CHUNKS_PREVIEW_CODES, DELETE_COLLECTION_CODES, DELETE_DOCUMENT_CODES, DELETE_DOCUMENTS_CODES,
    DOCUMENT_CODES, DOCUMENTS_CODES, EMBED_CODES, FEEDBACK_CODES, INGEST_CODES, KEY_CODES, LLM_CODES,
    OPENAI_EMBED_CODES, PAGE_CODES, PATCH_DOCUMENT_CODES, PUT_COLLECTION_CODES, PUT_DOCUMENT_CODES,
    RECONCILE_CODES, SEARCH_CODES,
};
use super::parameters::{
    CONDITIONS, CONDITIONS_AND_ONCE, INGEST_PARAMETERS, ONCE, PATCH_PARAMETERS, PREVIEW_PARAMETERS,
    PUT_PARAMETERS, WEBHOOK,
};
use super::{Access, AdmissionClass, BodyContent, BodyLimit, HandlerFn, Route};
use crate::dialect::Dialect;
use crate::upload::FORM;
use crate::{
    access, chat, chunks, cohere, collections, documents, embeddings, export, feedback, formats, health,
    ingest, jobs, models, ollama, openapi, originals, pages, rerank, search, tei, tokens, usage,
};

const HTML: BodyContent = BodyContent::Media("text/html");
const CREATED: &[(u16, BodyContent)] = &[(201, BodyContent::of::<CollectionReply>())];
const NOT_MODIFIED: &[(u16, BodyContent)] = &[(304, BodyContent::Nothing)];
const NOT_READY: &[(u16, BodyContent)] = &[(503, BodyContent::of::<ReadyReply>())];
const UNHEALTHY: &[(u16, BodyContent)] = &[(503, BodyContent::of::<TeiError>())];

const SEARCH: Access = Access::Scopes(&[Scope::Search]);
const INGEST: Access = Access::Scopes(&[Scope::Ingest]);
const EMBED: Access = Access::Scopes(&[Scope::Embed]);
const RERANK: Access = Access::Scopes(&[Scope::Rerank]);
const CHAT: Access = Access::Scopes(&[Scope::Chat]);
const ADMIN: Access = Access::Scopes(&[Scope::Admin]);
const METRICS: Access = Access::Scopes(&[Scope::Metrics, Scope::Admin]);

/// A handler, as rows of the table hold it.
macro_rules! handler {
    ($handler:path) => {
        |request, gateway| Handler::call($handler, request, gateway)
    };
}

/// An embeddings route of OpenAI's API.
const fn openai_embeddings(path: &'static str) -> Route {
    Route::new("post", path, EMBED, handler!(embeddings::openai))
        .in_dialect(Dialect::OpenAi)
        .takes::<EmbeddingsRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .returns(BodyContent::or_numbers::<EmbeddingsReply>())
        .fails_with(OPENAI_EMBED_CODES)
}

/// A route of text-embeddings-inference that computes with the default model.
const fn tei_route(path: &'static str, handler: HandlerFn) -> Route {
    Route::new("post", path, EMBED, handler)
        .in_dialect(Dialect::Tei)
        .reserves(AdmissionClass::Embedding)
        .fails_with(EMBED_CODES)
}

/// A rerank route of Cohere, Jina and text-embeddings-inference.
const fn rerank_route(path: &'static str) -> Route {
    Route::new("post", path, RERANK, handler!(rerank::rerank))
        .in_dialect(Dialect::Rerank)
        .takes::<RerankRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .replies::<AnyRerankReply>()
        .fails_with(EMBED_CODES)
}

/// An embeddings route of Cohere's API.
const fn cohere_embed(path: &'static str) -> Route {
    Route::new("post", path, EMBED, handler!(cohere::embed))
        .in_dialect(Dialect::Cohere)
        .takes::<CohereEmbedRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .replies::<CohereEmbedReply>()
        .fails_with(EMBED_CODES)
}

/// A route to language models, which is passed to an upstream.
const fn llm<T: JsonSchema>(path: &'static str, dialect: Dialect, handler: HandlerFn) -> Route {
    Route::new("post", path, CHAT, handler)
        .in_dialect(dialect)
        .takes::<T>(BodyLimit::Default)
        .reserves(AdmissionClass::Chat)
        .returns(BodyContent::Media("application/json"))
        .without_deadline()
        .fails_with(LLM_CODES)
}

/// A route to language models in Ollama's API.
const fn ollama_llm(path: &'static str, handler: HandlerFn) -> Route {
    Route::new("post", path, CHAT, handler)
        .in_dialect(Dialect::Ollama)
        .reserves(AdmissionClass::Chat)
        .returns(BodyContent::Media("application/x-ndjson"))
        .without_deadline()
        .fails_with(LLM_CODES)
}

/// The list of models in OpenAI's API, or Anthropic's.
const fn openai_models(path: &'static str) -> Route {
    Route::new("get", path, Access::Known, handler!(models::list))
        .in_dialect(Dialect::OpenAi)
        .with_query(&[
            ("capability", "only models that do this: `chat`, `embeddings`, `rerank` or `classify`"),
            ("limit", "Anthropic's: models on a page, 1 to 1000 (20)"),
            ("after_id", "Anthropic's: the id before the page, its `last_id`"),
            ("before_id", "Anthropic's: the id after the page, its `first_id`"),
        ])
        .replies::<AnyModelsReply>()
}

/// One model in OpenAI's API, or Anthropic's.
const fn openai_model(path: &'static str) -> Route {
    Route::new("get", path, Access::Known, handler!(models::get))
        .in_dialect(Dialect::OpenAi)
        .replies::<AnyModelReply>()
        .fails_with(&[ErrorCode::ModelNotFound])
}

/// Every route.
pub const ROUTES: &[Route] = &[
    Route {
        status: 202,
        ..Route::new("post", "/v1/ingest", INGEST, handler!(ingest::ingest))
            .about("Store documents; they are on disk when this answers.")
            .with_query(INGEST_PARAMETERS)
            .with_headers(ONCE)
            .takes::<IngestRequest<'static>>(BodyLimit::Ingest)
            .or_files(&[FORM, LINES_MEDIA_TYPE, "application/octet-stream"])
            .reserves(AdmissionClass::Ingest)
            .replies::<IngestReply>()
            .fails_with(INGEST_CODES)
    },
    Route::new("post", "/v1/search", SEARCH, handler!(search::search))
        .about("Search a collection, or run several searches at once.")
        .takes::<SearchRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Search)
        .replies::<SearchOrBatchReply>()
        .fails_with(SEARCH_CODES),
    Route {
        summary: "OpenAI's chat completions, from any upstream; streams with `\"stream\": true`.",
        ..llm::<ChatCompletionRequest>("/v1/chat/completions", Dialect::OpenAi, chat::chat_completions)
    },
    Route {
        summary: "The same as `/v1/chat/completions`.",
        ..llm::<ChatCompletionRequest>("/chat/completions", Dialect::OpenAi, chat::chat_completions)
    },
    Route {
        summary: "OpenAI's completions, from upstreams that have them.",
        ..llm::<CompletionRequest>("/v1/completions", Dialect::OpenAi, chat::completions)
    },
    Route {
        summary: "OpenAI's responses, from upstreams that have them.",
        ..llm::<ResponsesRequest>("/v1/responses", Dialect::OpenAi, chat::responses)
    },
    Route {
        summary: "Anthropic's messages, from Anthropic or an upstream with OpenAI's API.",
        ..llm::<MessagesRequest>("/v1/messages", Dialect::Anthropic, chat::messages)
    },
    Route {
        summary: "Anthropic's count of a request's tokens, from Anthropic; free of charge.",
        ..llm::<CountTokensRequest>("/v1/messages/count_tokens", Dialect::Anthropic, chat::count_tokens)
    },
    Route::new("post", "/v1/feedback", SEARCH, handler!(feedback::post))
        .about("Grade how well a document answers a query; the grade is on disk when this answers.")
        .takes::<FeedbackRequest>(BodyLimit::Default)
        .replies::<FeedbackReply>()
        .fails_with(FEEDBACK_CODES),
    Route::new("delete", "/v1/feedback", SEARCH, handler!(feedback::delete))
        .about("Delete feedback: of a key, of a time, or all, which also forgets what searches have taught relevance. Feedback of others needs the scope `admin`.")
        .with_query(&[
            ("collection", "the collection; required"),
            ("key", "only that of the API key with this id"),
            ("since", "only that of this time, in unix seconds, or later"),
            ("until", "only that before this time"),
        ])
        .replies::<FeedbackDeleteReply>()
        .fails_with(PAGE_CODES),
    Route::new("get", "/v1/feedback", SEARCH, handler!(feedback::list))
        .about("The feedback to a collection, newest first.")
        .with_query(&[
            ("collection", "the collection (`default`)"),
            ("key", "only that of the API key with this id"),
            ("since", "only that of this time, in unix seconds, or later"),
            ("until", "only that before this time"),
            ("limit", "entries on a page, 1 to 1000 (100)"),
            ("cursor", "the page's start, from `next_cursor`"),
        ])
        .replies::<List<FeedbackReply>>()
        .fails_with(PAGE_CODES),
    openai_embeddings("/v1/embeddings").about(
        "Embed texts, as OpenAI's API does; `Accept: application/octet-stream` answers raw floats. `UPSTREAM/NAME` is a model of an upstream, which embeds them.",
    ),
    openai_embeddings("/embeddings").about("The same as `/v1/embeddings`."),
    Route::new("post", "/embed", EMBED, handler!(tei::embed))
        .about(
            "Embed texts with the default model, as TEI does; `Accept: application/octet-stream` answers raw floats.",
        )
        .in_dialect(Dialect::Tei)
        .takes::<EmbedRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .returns(BodyContent::or_numbers::<EmbedReply>())
        .fails_with(EMBED_CODES),
    tei_route("/embed_all", handler!(tokens::embed_all))
        .about("Embed each token of texts with the default model, as TEI does.")
        .takes::<EmbedAllRequest>(BodyLimit::Default)
        .replies::<Vec<Vec<Vec<f32>>>>(),
    tei_route("/embed_sparse", handler!(tokens::embed_sparse))
        .about("Always an error that names what serves sparse embeddings.")
        .takes::<EmbedAllRequest>(BodyLimit::Default)
        .replies::<Vec<Vec<f32>>>(),
    tei_route("/similarity", handler!(tokens::similarity))
        .about("The cosines of a sentence with others, by the default model, as TEI has them.")
        .takes::<SimilarityRequest>(BodyLimit::Default)
        .replies::<Vec<f32>>(),
    tei_route("/tokenize", handler!(tokens::tokenize))
        .about("The tokens of texts for the default model, as TEI has them.")
        .takes::<TokenizeRequest>(BodyLimit::Default)
        .replies::<Vec<Vec<TeiToken>>>(),
    tei_route("/decode", handler!(tokens::decode))
        .about("The texts of token ids of the default model, as TEI has them.")
        .takes::<DecodeRequest>(BodyLimit::Default)
        .replies::<Vec<String>>(),
    Route {
        access: RERANK,
        ..tei_route("/predict", handler!(rerank::predict))
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
    Route::new("post", "/api/embed", EMBED, handler!(ollama::embed))
        .about("Embed texts, as Ollama does.")
        .in_dialect(Dialect::Ollama)
        .takes::<OllamaEmbedRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .replies::<OllamaEmbedReply>()
        .fails_with(EMBED_CODES),
    Route::new("post", "/api/embeddings", EMBED, handler!(ollama::embed_prompt))
        .about("Embed one text, as Ollama's earlier API does.")
        .in_dialect(Dialect::Ollama)
        .takes::<OllamaPromptRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Embedding)
        .replies::<OllamaPromptReply>()
        .fails_with(EMBED_CODES),
    Route::new("get", "/api/tags", Access::Known, handler!(ollama::tags))
        .about("The models that embed and those for chat, as Ollama lists them.")
        .in_dialect(Dialect::Ollama)
        .replies::<OllamaTags>(),
    Route::new("post", "/api/show", Access::Known, handler!(ollama::show))
        .about("The properties of a model, as Ollama has them.")
        .in_dialect(Dialect::Ollama)
        .takes::<OllamaShowRequest>(BodyLimit::Default)
        .replies::<OllamaShowReply>()
        .fails_with(&[ErrorCode::ModelNotFound]),
    Route::new("get", "/api/ps", Access::Known, handler!(ollama::processes))
        .about("The models in memory, as Ollama lists them.")
        .in_dialect(Dialect::Ollama)
        .replies::<OllamaProcesses>(),
    Route::new("get", "/api/version", Access::Known, handler!(ollama::version))
        .about("The version of Ollama whose API is followed.")
        .in_dialect(Dialect::Ollama)
        .replies::<OllamaVersion>(),
    ollama_llm("/api/chat", chat::ollama_chat)
        .about("Ollama's chat, from any upstream; streams lines of JSON unless `stream` is false.")
        .takes::<OllamaChatRequest>(BodyLimit::Default),
    ollama_llm("/api/generate", chat::ollama_generate)
        .about("Ollama's answer to a prompt, from any upstream; streams lines of JSON unless `stream` is false.")
        .takes::<OllamaGenerateRequest>(BodyLimit::Default),
    Route::new("get", "/info", Access::Known, handler!(tei::info))
        .about("The default model and the limits, as TEI has them.")
        .in_dialect(Dialect::Tei)
        .replies::<InfoReply>()
        .fails_with(&[ErrorCode::ModelNotFound]),
    openai_models("/v1/models").about("The models that the caller may use, the default one first."),
    openai_models("/models").about("The same as `/v1/models`."),
    openai_model("/v1/models/{*id}").about("One model, by its id or an alias; slashes in it need no encoding."),
    openai_model("/models/{*id}").about("The same as `/v1/models/{id}`."),
    Route::new("get", "/v1/embedder", EMBED, handler!(models::describe))
        .about("What another gateway needs to use an embedding model: its tokenizer, prompts and limits.")
        .with_query(&[("model", "the id or an alias (the default model)")])
        .replies::<EmbedderReply>()
        .fails_with(&[ErrorCode::ModelNotFound, ErrorCode::UpstreamError, ErrorCode::UpstreamTimeout]),
    Route {
        status: 201,
        ..Route::new("post", "/v1/keys", ADMIN, handler!(access::create))
            .about("Create an API key; the reply alone shows its text.")
            .takes::<KeyRequest>(BodyLimit::Default)
            .replies::<NewKeyReply>()
            .fails_with(&[
                ErrorCode::InvalidFilter,
                ErrorCode::InsufficientScope,
                ErrorCode::KeyLimitReached,
                ErrorCode::StoreUnavailable,
            ])
    },
    Route::new("get", "/v1/keys", ADMIN, handler!(access::list))
        .about("All API keys that allow no more than the caller's own, without their texts.")
        .replies::<List<KeyReply>>(),
    Route::new("patch", "/v1/keys/{id}", ADMIN, handler!(access::update))
        .about("Change an API key: fields that are left out stay, null takes a restriction away.")
        .takes::<KeyUpdate>(BodyLimit::Default)
        .replies::<KeyReply>()
        .fails_with(&[
            ErrorCode::KeyNotFound,
            ErrorCode::KeyLimitReached,
            ErrorCode::InvalidFilter,
            ErrorCode::InsufficientScope,
            ErrorCode::StoreUnavailable,
        ]),
    Route::new("delete", "/v1/keys/{id}", ADMIN, handler!(access::revoke))
        .about("Revoke an API key at once.")
        .replies::<KeyReply>()
        .fails_with(KEY_CODES),
    Route::new("post", "/v1/keys/{id}/rotate", ADMIN, handler!(access::rotate))
        .about("Give an API key another text.")
        .with_query(&[("grace_seconds", "for how long the text before stays valid (0)")])
        .replies::<NewKeyReply>()
        .fails_with(KEY_CODES),
    Route::new("get", "/v1/audit", ADMIN, handler!(access::audit))
        .about("What was done with keys and by administrators, newest first.")
        .with_query(&[
            ("limit", "entries on a page, 1 to 1000 (100)"),
            ("cursor", "the page's start, from `next_cursor`"),
        ])
        .replies::<List<AuditReply>>()
        .fails_with(&[ErrorCode::InvalidCursor]),
    Route::new("get", "/v1/usage", Access::Known, handler!(usage::report))
        .about("Requests, tokens and cost on some days: of the caller's key, of all for administrators without restrictions.")
        .with_query(&[
            ("from", "the first day, such as `2026-01-31` or a time in unix seconds (30 days ago)"),
            ("to", "the last day (today, in UTC)"),
            ("group_by", "sums by `key`, `model` and `day`, separated by commas (one sum)"),
        ])
        .replies::<UsageReportReply>()
        .fails_with(&[ErrorCode::InsufficientScope, ErrorCode::RouteNotFound, ErrorCode::StoreUnavailable]),
    Route::new("get", "/v1/formats", Access::Known, handler!(formats::formats))
        .about("The kinds of files that the gateway reads.")
        .replies::<FormatsReply>(),
    Route::new("get", "/v1/jobs", Access::Known, handler!(jobs::list))
        .about("All jobs, newest first.")
        .with_query(&[
            ("limit", "jobs on a page, 1 to 100 (20)"),
            ("cursor", "the page's start, from `next_cursor`"),
        ])
        .replies::<List<JobReply>>(),
    Route::new("get", "/v1/jobs/{id}", Access::Known, handler!(jobs::get))
        .about("One job.")
        .replies::<JobReply>()
        .fails_with(&[ErrorCode::JobNotFound]),
    Route::new("get", "/v1/jobs/{id}/documents", Access::Known, handler!(jobs::documents))
        .about("The documents of a job with their states; those that were unchanged are not listed.")
        .with_query(&[
            ("state", "only those of this state: `pending`, `searchable`, `failed`, `cancelled` or `replaced`"),
            ("limit", "documents on a page, 1 to 1000 (100)"),
            ("cursor", "the page's start, from `next_cursor`; the other parameters stay the same"),
        ])
        .replies::<List<JobDocument>>()
        .fails_with(&[ErrorCode::JobNotFound]),
    Route::new("get", "/v1/jobs/{id}/events", Access::Known, handler!(jobs::events))
        .about("The states of a job as server-sent events: `progress` when it changes, and `end` with the last one.")
        .returns(BodyContent::Media("text/event-stream"))
        .without_deadline()
        .fails_with(&[ErrorCode::JobNotFound]),
    Route::new("post", "/v1/jobs/{id}/cancel", INGEST, handler!(jobs::cancel))
        .about("Cancel a job: what is searchable by then stays, the rest is not embedded.")
        .replies::<JobReply>()
        .fails_with(&[ErrorCode::JobNotFound, ErrorCode::JobFinished, ErrorCode::InsufficientStorage]),
    Route {
        status: 202,
        ..Route::new("post", "/v1/jobs/{id}/retry-failed", INGEST, handler!(jobs::retry_failed))
            .about("Try the failed and the cancelled documents of a job again, with a new job.")
            .with_query(WEBHOOK)
            .replies::<JobReply>()
            .fails_with(&[
                ErrorCode::JobNotFound,
                ErrorCode::JobNotRetryable,
                ErrorCode::CollectionNotFound,
                ErrorCode::InsufficientStorage,
            ])
    },
    Route::new("get", "/v1/collections", Access::Known, handler!(collections::list))
        .about("All collections, by name.")
        .replies::<List<CollectionReply>>(),
    Route::new("get", "/v1/collections/{name}", Access::Known, handler!(collections::get))
        .about("One collection.")
        .replies::<CollectionReply>()
        .fails_with(&[ErrorCode::CollectionNotFound]),
    Route::new("put", "/v1/collections/{name}", ADMIN, handler!(collections::put))
        .about("Create a collection (201), or check that it has these settings (200).")
        .with_query(&[
            ("rechunk", "`true` splits its documents again if `chunking` differs; searches find the earlier chunks until that is done"),
            ("move", "`true` moves its index to another `engine`, without embedding; the earlier index answers searches until that is done"),
        ])
        .takes::<CollectionSettings>(BodyLimit::Default)
        .without_need_of_body()
        .replies::<CollectionReply>()
        .also(CREATED)
        .fails_with(PUT_COLLECTION_CODES),
    Route::new("delete", "/v1/collections/{name}", ADMIN, handler!(collections::delete))
        .about("Delete a collection and everything in it.")
        .replies::<DeletedReply>()
        .fails_with(DELETE_COLLECTION_CODES),
    Route::new("post", "/v1/collections/{name}/chunks/preview", INGEST, handler!(chunks::preview))
        .about("The chunks of a text, as JSON, or of a file; nothing of it is stored.")
        .with_query(PREVIEW_PARAMETERS)
        .takes::<ChunksPreviewRequest>(BodyLimit::Ingest)
        .or_files(&["application/octet-stream"])
        .reserves(AdmissionClass::Ingest)
        .replies::<ChunksPreviewReply>()
        .without_deadline()
        .fails_with(CHUNKS_PREVIEW_CODES),
    Route::new("get", "/v1/collections/{name}/reconcile", ADMIN, handler!(collections::reconciliation))
        .about("The last comparison of an index in a Qdrant cluster with the store.")
        .replies::<ReconciliationReply>()
        .fails_with(RECONCILE_CODES),
    Route {
        status: 202,
        ..Route::new("post", "/v1/collections/{name}/reconcile", ADMIN, handler!(collections::reconcile))
            .about("Compare an index in a Qdrant cluster with the store, in the background, and mend what differs.")
            .replies::<ReconciliationReply>()
            .fails_with(RECONCILE_CODES)
    },
    Route::new("get", "/v1/collections/{name}/export", SEARCH, handler!(export::export))
        .about("The documents of a collection as lines of JSON, in the order of their ids; `/v1/ingest` takes each back.")
        .with_query(&[("after", "the id after which the export starts")])
        .returns(BodyContent::Media(LINES_MEDIA_TYPE))
        .without_deadline()
        .fails_with(PAGE_CODES),
    Route::new("get", "/v1/collections/{name}/queries", ADMIN, handler!(feedback::queries))
        .about("Reports of logged queries; needs `search.query_log`.")
        .with_query(&[
            ("report", "`popular` (the default), `zero_results` or `low_relevance`"),
            ("limit", "queries, 1 to 1000 (100)"),
            ("below", "the relevance that counts as low, 0 to 1 (0.5)"),
        ])
        .replies::<List<QueryReply>>()
        .fails_with(PAGE_CODES),
    Route::new("get", "/v1/collections/{name}/documents", SEARCH, handler!(documents::list))
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
    Route::new("post", "/v1/collections/{name}/documents/delete", INGEST, handler!(documents::delete_by_filter))
        .about("Delete the documents that match a filter; they are gone from search when this answers.")
        .takes::<DocumentsDeleteRequest>(BodyLimit::Default)
        .reserves(AdmissionClass::Search)
        .replies::<DocumentsDeleteReply>()
        .fails_with(DELETE_DOCUMENTS_CODES),
    // a document may have the id `delete`
    Route {
        status: 202,
        ..Route::new("put", "/v1/collections/{name}/documents/delete", INGEST, handler!(ingest::put_named_delete))
            .with_query(PUT_PARAMETERS)
            .with_headers(CONDITIONS_AND_ONCE)
            .takes::<Document>(BodyLimit::Ingest)
            .or_files(&["application/octet-stream", FORM])
            .reserves(AdmissionClass::Ingest)
            .replies::<JobReply>()
            .without_deadline()
            .fails_with(PUT_DOCUMENT_CODES)
    },
    Route {
        status: 202,
        ..Route::new("patch", "/v1/collections/{name}/documents/delete", INGEST, handler!(ingest::patch_named_delete))
            .with_query(PATCH_PARAMETERS)
            .with_headers(CONDITIONS_AND_ONCE)
            .takes::<DocumentPatch>(BodyLimit::Default)
            .replies::<JobReply>()
            .fails_with(PATCH_DOCUMENT_CODES)
    },
    Route::new("get", "/v1/collections/{name}/documents/delete", SEARCH, handler!(documents::get_named_delete)),
    Route::new("delete", "/v1/collections/{name}/documents/delete", INGEST, handler!(documents::delete_named_delete)),
    Route::new("get", "/v1/collections/{name}/documents/{id}", SEARCH, handler!(documents::get))
        .about("One document; its id is percent-encoded.")
        .with_headers(&[("If-None-Match", "the `ETag` that the caller has: 304 without a body if the document still has it")])
        .also(NOT_MODIFIED)
        .replies::<DocumentReply>()
        .fails_with(DOCUMENT_CODES),
    Route {
        status: 202,
        ..Route::new("put", "/v1/collections/{name}/documents/{id}", INGEST, handler!(ingest::put))
            .about("Store a document: JSON, or a file whose text is extracted; it is on disk when this answers.")
            .with_query(PUT_PARAMETERS)
            .with_headers(CONDITIONS_AND_ONCE)
            .takes::<Document>(BodyLimit::Ingest)
            .or_files(&["application/octet-stream", FORM])
            .reserves(AdmissionClass::Ingest)
            .replies::<JobReply>()
            .without_deadline()
            .fails_with(PUT_DOCUMENT_CODES)
    },
    Route {
        status: 202,
        ..Route::new("patch", "/v1/collections/{name}/documents/{id}", INGEST, handler!(ingest::patch))
            .about("Change title and metadata of a document by a JSON merge patch; nothing is embedded again.")
            .with_query(PATCH_PARAMETERS)
            .with_headers(CONDITIONS_AND_ONCE)
            .takes::<DocumentPatch>(BodyLimit::Default)
            .replies::<JobReply>()
            .fails_with(PATCH_DOCUMENT_CODES)
    },
    Route::new("get", "/v1/collections/{name}/documents/{id}/original", SEARCH, handler!(originals::get))
        .about("The file from which a document was made, if it was kept.")
        .returns(BodyContent::Media("application/octet-stream"))
        .without_deadline()
        .fails_with(DOCUMENT_CODES),
    Route::new("delete", "/v1/collections/{name}/documents/{id}", INGEST, handler!(documents::delete))
        .about("Delete a document; it is gone from search when this answers.")
        .with_headers(CONDITIONS)
        .replies::<DeletedReply>()
        .fails_with(DELETE_DOCUMENT_CODES),
    Route::new("get", "/health", Access::Public, handler!(tei::health))
        .about("200 without a body if a model is loaded, else 503, as in TEI.")
        .in_dialect(Dialect::Tei)
        .returns(BodyContent::Nothing)
        .also(UNHEALTHY),
    Route::new("get", "/ping", Access::Public, handler!(tei::health))
        .about("The same as `/health`.")
        .in_dialect(Dialect::Tei)
        .returns(BodyContent::Nothing)
        .also(UNHEALTHY),
    Route::new("get", "/healthz", Access::Public, handler!(health::healthz))
        .about("Whether the gateway answers, and the number of searchable documents.")
        .replies::<HealthReply>(),
    Route::new("get", "/livez", Access::Public, handler!(health::livez)).about("200 while the process runs."),
    Route::new("get", "/readyz", Access::Public, handler!(health::readyz))
        .about("200 when models and indexes are ready, else 503 with the parts that are not.")
        .replies::<ReadyReply>()
        .also(NOT_READY),
    Route::new("get", "/metrics", METRICS, handler!(health::metrics))
        .about("Counters and gauges for Prometheus.")
        .returns(BodyContent::Media("application/openmetrics-text")),
    Route::new("get", "/", Access::Public, handler!(pages::start)).about("A page to search with.").returns(HTML),
    // `huggingface_hub` calls the base URL
    Route {
        summary: "The same as `/embed`.",
        ..tei_route("/", handler!(tei::embed))
            .takes::<EmbedRequest>(BodyLimit::Default)
            .returns(BodyContent::or_numbers::<EmbedReply>())
    },
    Route::new("get", "/docs", Access::Public, handler!(pages::docs))
        .about("This description as a page, with a form for each route.")
        .returns(HTML),
    Route::new("get", "/openapi.json", Access::Public, handler!(openapi::json))
        .about("This description.")
        .returns(BodyContent::Media("application/json")),
];
