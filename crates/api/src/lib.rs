//! The wire types: requests, replies, the table of error codes.
//!
//! A resource of the API is one module: what a caller sends, what it hears, and what is checked before anything
//! is done. Checks are pure functions over a [`Limits`] and answer an [`Invalid`], which knows its [`ErrorCode`] and
//! the place in the request. Requests on native routes refuse unknown fields by name; routes that
//! imitate another API ignore them, as that API does. Replies may grow fields.

#![forbid(unsafe_code)]

mod code;
mod collections;
mod count;
mod documents;
mod embeddings;
mod feedback;
mod health;
mod ingest;
mod invalid;
mod jobs;
mod limits;
mod list;
mod models;
mod object;
mod problem;
mod search;
mod tei;
mod texts;

pub use code::{ERROR_TABLE, ErrorCode, ErrorRow};
pub use collections::{
    Chunking, CollectionReply, CollectionSettings, CollectionStatus, EmbeddingChoice, check_collection_name,
};
pub use count::Count;
pub use documents::{DeletedReply, DocumentReply, DocumentsDeleteReply, DocumentsDeleteRequest};
pub use embeddings::{
    EmbeddingItem, EmbeddingObject, EmbeddingsReply, EmbeddingsRequest, EncodedEmbedding, EncodingFormat,
    ListObject, TextRole, Truncate, Usage,
};
pub use feedback::{FeedbackReply, FeedbackRequest, GRADE_MAX, QueryReply, QueryReport};
pub use health::{HealthReply, ReadyReply};
pub use ingest::{Document, IngestRequest, Metadata, MetadataError, document_id_of};
pub use invalid::{Invalid, parse, parse_item};
pub use jobs::{JobDocumentError, JobReply, JobStatus};
pub use limits::Limits;
pub use list::List;
pub use models::{Capability, ModelObject, ModelReply, ModelsReply};
pub use problem::{OpenAiError, OpenAiErrorBody, Problem, ProblemItem};
pub use search::{
    BatchItem, BatchReply, Citation, ContextChunk, Correction, DEFAULT_FACET_VALUES,
    DEFAULT_LATE_INTERACTION_TOP_N, DegradedReason, EmbeddingSource, Explain, ExplainFusion, ExplainRerank,
    Explanation, Facet, FacetCount, FusedPosition, Fusion, FusionMethod, FusionWeights, GroupBy,
    LATE_INTERACTION_WEIGHT_MAX, LateInteraction, Mode, Order, RERANK_TOP_N_MAX, Ranks, RawJson, Rerank,
    RerankOptions, RetrieverCounts, RetrieverPosition, Scores, SearchOrBatchReply, SearchReply,
    SearchRequest, SearchResult, Snippet, Sort, TermScore, Timings, Total, TotalRelation, WhyNot,
    WhyNotStage,
};
pub use tei::{
    EmbedRequest, InfoEmbedding, InfoModelType, InfoReply, TeiError, TeiErrorType, TruncationDirection,
};
pub use texts::{INPUTS_MAX, Texts};

/// The collection that a request means when it names none.
pub const DEFAULT_COLLECTION: &str = "default";

/// How many results a search answers when the request doesn't say.
pub const DEFAULT_TOP_K: u64 = 5;
