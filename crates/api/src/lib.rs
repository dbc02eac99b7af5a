//! The wire types: requests, replies, the table of error codes.
//!
//! One module per resource of the API: its request, its reply, and the validation of the request.
//! Validation is a pure function over a [`Limits`] and returns an [`Invalid`]: an [`ErrorCode`] and the position in
//! the request. Requests on native routes reject unknown fields by name; routes that implement another API ignore
//! them, as that API does. Replies may gain fields.

#![forbid(unsafe_code)]

mod chat;
mod chunking;
mod code;
mod cohere;
mod collections;
mod count;
mod documents;
mod embeddings;
mod feedback;
mod formats;
mod health;
mod ingest;
mod invalid;
mod jobs;
mod keys;
mod limits;
mod lines;
mod list;
mod llm;
mod models;
mod object;
mod ollama;
mod pages;
mod patch;
mod problem;
mod reconciliation;
mod rerank;
mod search;
mod similar;
mod tei;
mod texts;
mod usage;
mod vectors;

pub use chat::{ChatCitation, ChatRetrieval, ChatSource, OnEmpty, SourcesAs};
pub use chunking::{Chunking, ChunkingPolicy, ChunksPreviewReply, ChunksPreviewRequest, PreviewedChunk};
pub use code::{ERROR_TABLE, ErrorCode, ErrorRow};
pub use cohere::{
    CohereEmbedReply, CohereEmbedRequest, CohereEmbeddings, CohereError, CohereInputType, CohereMeta,
    CohereUnits, EmbeddingType, EmbeddingsByType,
};
pub use collections::{
    CollectionReply, CollectionSettings, CollectionStatus, EmbeddingChoice, EngineChoice, LexicalSettings,
    check_collection_name,
};
pub use count::Count;
pub use documents::{DeletedReply, DocumentReply, DocumentsDeleteReply, DocumentsDeleteRequest};
pub use embeddings::{
    EmbedTask, EmbeddingDtype, EmbeddingItem, EmbeddingObject, EmbeddingTypes, EmbeddingsReply,
    EmbeddingsRequest, EncodedEmbedding, EncodingFormat, Endianness, ListObject, Modality, TextRole,
    Truncate, Usage,
};
pub use feedback::{FeedbackDeleteReply, FeedbackReply, FeedbackRequest, GRADE_MAX, QueryReply, QueryReport};
pub use formats::FormatsReply;
pub use health::{HealthReply, ReadyReply};
pub use ingest::{Document, FileOptions, IngestRequest, Metadata, MetadataError, document_id_of};
pub use invalid::{Invalid, Result, parse, parse_item, require};
pub use jobs::{
    JobDocument, JobDocumentError, JobDocumentState, JobReply, JobStatus, JobWebhook, WebhookStatus,
};
pub use keys::{
    AuditReply, KeyLimitsRequest, KeyReply, KeyRequest, KeyScope, KeySpending, KeyUpdate, NewKeyReply,
    check_grace_seconds,
};
pub use limits::Limits;
pub use lines::{IngestReply, LINES_MEDIA_TYPE, LineError, LinesFailure, LinesReply};
pub use list::List;
pub use llm::{
    AnthropicError, AnthropicErrorBody, AnthropicMessage, ChatCompletionMessage, ChatCompletionRequest,
    CompletionRequest, CountTokensRequest, MessageContent, MessagesRequest, ResponsesInput, ResponsesRequest,
};
pub use models::{
    AnthropicModel, AnthropicModelsReply, AnyModelReply, AnyModelsReply, Capability, EmbedderPrompts,
    EmbedderReply, ModelObject, ModelReply, ModelsReply,
};
pub use ollama::{
    OllamaChatOptions, OllamaChatRequest, OllamaDetails, OllamaEmbedReply, OllamaEmbedRequest, OllamaError,
    OllamaGenerateRequest, OllamaModel, OllamaProcess, OllamaProcesses, OllamaPromptReply,
    OllamaPromptRequest, OllamaShowReply, OllamaShowRequest, OllamaTags, OllamaVersion,
};
pub use pages::DocumentPage;
pub use patch::DocumentPatch;
pub use problem::{OpenAiError, OpenAiErrorBody, Problem, ProblemItem};
pub use reconciliation::{ReconciliationReply, ReconciliationStatus};
pub use rerank::{
    AnyRerankReply, CohereTokens, CohereVersion, RerankDocument, RerankError, RerankMeta, RerankReply,
    RerankRequest, RerankResult, RerankUnits, RerankedDocument, TeiRank,
};
pub use search::{
    BatchItem, BatchReply, Citation, CitedPages, CitedPart, ContextChunk, Correction, DEFAULT_FACET_VALUES,
    DEFAULT_LATE_INTERACTION_TOP_N, DegradedReason, EmbeddingSource, Explain, ExplainFusion, ExplainLearned,
    ExplainRerank, Explanation, Facet, FacetCount, FacetCounts, FusedPosition, Fusion, FusionMethod,
    FusionWeights, GroupBy, LATE_INTERACTION_WEIGHT_MAX, LateInteraction, Mode, Order, PhraseScore, Prefix,
    QueryReading, RERANK_TOP_N_MAX, Ranks, RawJson, Rerank, RerankOptions, RetrieverCounts,
    RetrieverPosition, Scores, SearchOrBatchReply, SearchReply, SearchRequest, SearchResult, Snippet, Sort,
    Syntax, TermScore, Timings, Total, TotalRelation, WhyNot, WhyNotStage,
};
pub use similar::similar_names;
pub use tei::{
    DecodeRequest, EmbedAllRequest, EmbedReply, EmbedRequest, EmbedTruncate, InfoEmbedding, InfoModelType,
    InfoReply, Label, Labels, PredictInputs, PredictReply, PredictRequest, SimilarityInputs,
    SimilarityParameters, SimilarityRequest, TeiError, TeiErrorType, TeiToken, TextsReply, TokenIds,
    TokenizeRequest, TruncationDirection,
};
pub use texts::{INPUTS_MAX, Texts};
pub use usage::{UsageClassReply, UsageReportReply, UsageSource, UsageSumReply};
pub use vectors::{Metric, Vector, VectorSettings};

/// The collection of a request without `collection`.
pub const DEFAULT_COLLECTION: &str = "default";

/// Results of a search whose request has no `top_k`.
pub const DEFAULT_TOP_K: u64 = 5;
