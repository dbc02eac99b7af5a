"""Replies of the gateway, named as in its OpenAPI file. Fields that a gateway does not send have their defaults.

Names of states (`status`, `stage`, …) are plain texts: a newer gateway may have further ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Optional, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list. `next_cursor` is the `cursor` of the next page, None on the last one."""

    data: list[T]
    next_cursor: Optional[str] = None


@dataclass(frozen=True)
class JobDocumentError:
    """Why a document of a job failed."""

    document_id: str
    code: str
    message: str


@dataclass(frozen=True)
class JobDocument:
    """A document of a job."""

    document_id: str
    state: str
    """`pending`, `searchable`, `failed`, `cancelled` or `replaced`."""
    code: Optional[str] = None
    """Why it failed: an error code."""
    message: Optional[str] = None
    """Why it failed: what is wrong, and the remedy."""


@dataclass(frozen=True)
class JobWebhook:
    """The webhook of a job."""

    status: str
    """`waiting` for the end of the job, `pending`, `delivered` or `failed`."""
    attempts: int = 0
    next_attempt_at: Optional[float] = None
    finished_at: Optional[float] = None
    """When it was delivered or given up."""
    error: Optional[str] = None
    """Why the last attempt failed."""


@dataclass(frozen=True)
class Job:
    """A job: documents that were sent together. Times are unix seconds."""

    job_id: str
    status: str
    """`pending`, `running`, `completed`, `failed` or `cancelled`."""
    total_documents: int
    processed_documents: int
    """Documents that are searchable, or identical to the stored version."""
    failed_documents: int
    started_at: float
    collection: str = "default"
    new_documents: int = 0
    changed_documents: int = 0
    unchanged_documents: int = 0
    unread_files: int = 0
    """Files whose text is not extracted yet."""
    chunks: int = 0
    progress: float = 0.0
    """Share of the job that is done, from 0 to 1; it advances within a document, by its embedded chunks."""
    cancelled_documents: int = 0
    """Documents that were not made searchable because the job was cancelled."""
    chunks_per_second: Optional[float] = None
    """Chunks of the collection that were embedded per second, in the last half minute."""
    eta_seconds: Optional[float] = None
    """Estimated time until the job is finished."""
    waiting_for: Optional[str] = None
    """Why the job does not advance."""
    waiting_since: Optional[float] = None
    """Since when it does not advance."""
    error: Optional[str] = None
    """Why the whole job failed."""
    finished_at: Optional[float] = None
    errors: list[JobDocumentError] = field(default_factory=list)
    """The failed documents."""
    version: Optional[int] = None
    """The version of the document, in the reply to `put_document` and `patch_document`."""
    operation: Optional[int] = None
    """The last operation of the documents, for `at_least` of a search, where several gateways share the store."""
    webhook: Optional[JobWebhook] = None
    """The call that tells the end of the job, if `webhook_url` was given."""

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended, in whatever way."""
        return self.finished_at is not None


@dataclass(frozen=True)
class IngestReport:
    """The outcome of `ingest_many`."""

    documents: int = 0
    """Documents that were given."""
    processed: int = 0
    """Documents that are searchable."""
    failed: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    chunks: int = 0
    job_ids: list[str] = field(default_factory=list)
    errors: list[JobDocumentError] = field(default_factory=list)
    """The first 1,000 failed documents."""


@dataclass(frozen=True)
class LineError:
    """A document of `ingest_lines` that was not stored."""

    line: int
    """Its position among the documents, from 1."""
    code: str
    message: str
    document_id: Optional[str] = None


@dataclass(frozen=True)
class LinesFailure:
    """Why a stream of documents was not read to its end."""

    code: str
    message: str


@dataclass(frozen=True)
class IngestLines:
    """The outcome of `ingest_lines`."""

    lines: int
    """Documents that are acknowledged: stored, or failed."""
    documents: int
    """Documents that are stored: new, changed and unchanged ones."""
    new_documents: int
    changed_documents: int
    unchanged_documents: int
    failed_documents: int
    jobs: list[str]
    """The jobs that make the documents searchable, at most the first 10,000."""
    errors: list[LineError]
    """The first 100 failed documents."""
    done: bool
    error: Optional[LinesFailure] = None


@dataclass(frozen=True)
class Citation:
    """Where a text stands: `quote` is the bytes from `start` to `end` of the document's text in UTF-8.

    `part` is `title` for a document without text that was found by its title: that is quoted then.
    """

    document_id: str
    chunk: int
    start: int
    end: int
    quote: str
    part: Optional[str] = None
    page: Optional[int] = None
    """The page, slide, sheet, chapter or message on which the text begins, from 1; None without pages."""
    page_end: Optional[int] = None
    page_label: Optional[str] = None
    """The label of the first page, such as `iv`, where that is not its number."""
    pages_approximate: bool = False
    page_breaks: list[int] = field(default_factory=list)
    """Offsets at which the further pages begin."""


@dataclass(frozen=True)
class Ranks:
    """Ranks by each retriever, from 1."""

    lexical: Optional[int] = None
    dense: Optional[int] = None


@dataclass(frozen=True)
class Scores:
    """Scores by each retriever: BM25, cosine, MaxSim."""

    lexical: Optional[float] = None
    dense: Optional[float] = None
    late_interaction: Optional[float] = None


@dataclass(frozen=True)
class ContextChunk:
    """A chunk before or after a result."""

    chunk: int
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Snippet:
    """The part of a result's text with the most highlights; offsets are bytes."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class TermScore:
    """The contribution of one term to a chunk's BM25 score."""

    term: str
    chunks: int
    frequency: int
    score: float


@dataclass(frozen=True)
class PhraseScore:
    """The contribution of adjacent terms to a chunk's BM25 score, beside those of each term."""

    phrase: str
    score: float


@dataclass(frozen=True)
class FusedPosition:
    """Rank and score before reranking."""

    rank: int
    score: float


@dataclass(frozen=True)
class Explanation:
    """How the score of a result was computed."""

    terms: list[TermScore]
    lexical: float
    dense: float
    neighbours: float = 0.0
    name: float = 0.0
    fused: Optional[FusedPosition] = None
    phrases: list[PhraseScore] = field(default_factory=list)


@dataclass(frozen=True)
class SearchResult:
    """One result: a document with its best chunk, or a chunk or group with `group_by`."""

    id: str
    score: float
    """Determines the order of this reply; not comparable with other replies."""
    text: str
    citation: Citation
    relevance: Optional[float] = None
    """The estimated probability, 0 to 1, that the document answers the query; comparable across queries."""
    title: Optional[str] = None
    metadata: dict[str, Any] = field(default_factory=dict)
    ranks: Ranks = field(default_factory=Ranks)
    scores: Scores = field(default_factory=Scores)
    rerank_score: Optional[float] = None
    collapsed_count: Optional[int] = None
    collapsed: Optional[list[str]] = None
    context: Optional[list[ContextChunk]] = None
    highlights: Optional[list[list[int]]] = None
    """Byte ranges `[start, end)` in `text`."""
    title_highlights: Optional[list[list[int]]] = None
    """The same in `title`."""
    snippet: Optional[Snippet] = None
    explanation: Optional[Explanation] = None


@dataclass(frozen=True)
class Total:
    """Results of all pages: exact, or the candidates considered."""

    value: int
    exact: bool
    relation: str


@dataclass(frozen=True)
class FacetCount:
    """A value of a metadata field and its number of matches."""

    value: Any
    count: int


@dataclass(frozen=True)
class Correction:
    """A word that occurs in no document, and what was searched instead."""

    word: str
    instead: list[str]


@dataclass(frozen=True)
class FusionWeights:
    """The weights of the two retrievers."""

    lexical: float
    dense: float


@dataclass(frozen=True)
class ExplainFusion:
    """The fusion that was used."""

    method: str
    weights: FusionWeights
    k: Optional[float] = None


@dataclass(frozen=True)
class ExplainRerank:
    """The reranker that was used."""

    model: str
    top_n: int


@dataclass(frozen=True)
class RetrieverCounts:
    """Candidates of each retriever."""

    lexical: int
    dense: int


@dataclass(frozen=True)
class ExplainLearned:
    """What relevance has learned from judgments and searches."""

    votes: int
    callers: int
    shift: float
    cosine: float
    drop: float


@dataclass(frozen=True)
class Explain:
    """How a search was executed."""

    embedding: str
    chunks: int
    candidates: RetrieverCounts
    applied_seq: int
    query: Optional[str] = None
    mode: Optional[str] = None
    fusion: Optional[ExplainFusion] = None
    smoothing: bool = False
    synonyms: list[str] = field(default_factory=list)
    rerank: Optional[ExplainRerank] = None
    selected_chunks: Optional[int] = None
    selectivity: Optional[float] = None
    learned: Optional[ExplainLearned] = None


@dataclass(frozen=True)
class RetrieverPosition:
    """Rank and score by one retriever."""

    rank: int
    score: float


@dataclass(frozen=True)
class WhyNot:
    """The stage that excluded a document, and the remedy in `message`."""

    id: str
    stage: str
    message: str
    lexical: Optional[RetrieverPosition] = None
    dense: Optional[RetrieverPosition] = None
    rank: Optional[int] = None


@dataclass(frozen=True)
class QueryReading:
    """How a query was read."""

    excluded: list[str] = field(default_factory=list)
    as_text: list[str] = field(default_factory=list)
    """The parts that look like operators and were searched as words."""


@dataclass(frozen=True)
class SearchReply:
    """The results of a search, best first or in the order of `sort`."""

    results: list[SearchResult]
    took_ms: float
    total: Optional[Total] = None
    left_out: Optional[int] = None
    """Results of this page omitted by `min_relevance`."""
    next_cursor: Optional[str] = None
    facets: Optional[dict[str, list[FacetCount]]] = None
    facet_counts: Optional[str] = None
    query: Optional[QueryReading] = None
    corrections: list[Correction] = field(default_factory=list)
    degraded: bool = False
    """Whether a stage was skipped, because of load, time or an error."""
    degraded_reason: Optional[str] = None
    degraded_reasons: list[str] = field(default_factory=list)
    explain: Optional[Explain] = None
    why_not: Optional[WhyNot] = None
    timings_ms: dict[str, float] = field(default_factory=dict)
    """The time of each stage, by its name."""


@dataclass(frozen=True)
class BatchReply:
    """The replies of several searches: JSON as it was received."""

    replies: list[Any]
    took_ms: float = 0.0


@dataclass(frozen=True)
class StoredDocument:
    """A document as it is stored."""

    id: str
    text: str
    version: int
    chunks: int
    title: Optional[str] = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Deletion:
    """The reply of a deletion: the number of chunks of a document, None for a collection."""

    deleted: bool
    chunks: Optional[int] = None
    operation: Optional[int] = None
    """For `at_least` of a search, where several gateways share the store."""


@dataclass(frozen=True)
class DocumentsDeleteReply:
    """The reply of a deletion by filter. Repeat the call while `remaining` is above 0."""

    matched: int
    deleted: int
    skipped: int
    """Documents with a newer version that is not yet searchable."""
    remaining: int
    dry_run: bool
    operation: Optional[int] = None
    """For `at_least` of a search, where several gateways share the store."""


@dataclass(frozen=True)
class Chunking:
    """How texts are split: `policy` is `tokens`, `sentences`, `headings`, `pages`, `fixed` or `none`."""

    policy: str = "tokens"
    max_tokens: Optional[int] = None
    overlap_tokens: Optional[int] = None
    max_sentences: Optional[int] = None
    overlap_sentences: Optional[int] = None


@dataclass(frozen=True)
class PreviewedChunk:
    """A chunk of a text that is not stored.

    `quote` is the text from byte `start` to byte `end`. `context` stands before it wherever the chunk is embedded,
    searched and returned: the trail of headings, the header of a table.
    """

    chunk: int
    start: int
    end: int
    quote: str
    tokens: int
    embedded_tokens: int
    context: Optional[str] = None
    page: Optional[int] = None
    page_end: Optional[int] = None
    page_label: Optional[str] = None


@dataclass(frozen=True)
class ChunksPreview:
    """The chunks of a text that is not stored: `total_chunks`, and the first of them."""

    chunking: Chunking
    total_chunks: int
    chunks: list[PreviewedChunk]
    model: Optional[str] = None
    input_tokens_max: Optional[int] = None


@dataclass(frozen=True)
class LexicalSettings:
    """Settings of lexical retrieval that apply to queries."""

    synonyms: Optional[dict[str, list[str]]] = None
    stop_words: Optional[list[str]] = None
    title_weight: Optional[float] = None


@dataclass(frozen=True)
class VectorSettings:
    """The embeddings that documents bring; `metric` is `cosine` or `dot`."""

    dimension: int
    metric: str = "cosine"


@dataclass(frozen=True)
class CollectionSettings:
    """The settings of a collection."""

    model: Optional[str] = None
    embedding: Optional[str] = None
    vectors: Optional[VectorSettings] = None
    language: Optional[str] = None
    chunking: Optional[Chunking] = None
    engine: Optional[str] = None
    keep_originals: Optional[bool] = None
    lexical: Optional[LexicalSettings] = None


@dataclass(frozen=True)
class Collection:
    """A collection. `status` is `ready`, `rebuilding`, or `unavailable` while its engine does not answer.

    `rebuilt` is the part of the changes, from 0 to 1, that an index has which is being rebuilt.
    """

    name: str
    document_count: int
    chunk_count: int
    settings: CollectionSettings
    status: str = "ready"
    model: Optional[str] = None
    created_at: float = 0.0
    rebuilt: Optional[float] = None


@dataclass(frozen=True)
class Reconciliation:
    """A comparison of an index in a Qdrant cluster with the store.

    `status` is `never`, `waiting`, `running`, `completed` or `failed`.
    """

    collection: str
    status: str
    started_at: Optional[float] = None
    finished_at: Optional[float] = None
    documents: int = 0
    points: int = 0
    deleted: int = 0
    lost: int = 0
    earlier: int = 0
    mended: int = 0
    error: Optional[str] = None


@dataclass(frozen=True)
class Feedback:
    """A stored judgment of a result."""

    number: int
    query: str
    document_id: str
    collection: str
    grade: int
    relevant: bool
    created_at: float
    chunk: Optional[int] = None
    key: Optional[int] = None


@dataclass(frozen=True)
class FeedbackDeletion:
    """The reply of a deletion of judgments."""

    deleted: int
    reset: bool


@dataclass(frozen=True)
class ApiKey:
    """An API key, without its text."""

    id: int
    name: str
    prefix: str
    scopes: list[str]
    created_at: float
    collections: Optional[list[str]] = None
    models: Optional[list[str]] = None
    filter: Optional[dict[str, Any]] = None
    limits: Optional[dict[str, Optional[float]]] = None
    model_limits: Optional[dict[str, dict[str, Optional[float]]]] = None
    spent: Optional[dict[str, float]] = None
    model_spent: Optional[dict[str, dict[str, float]]] = None
    expires_at: Optional[float] = None
    revoked_at: Optional[float] = None
    previous_until: Optional[float] = None


@dataclass(frozen=True)
class NewApiKey(ApiKey):
    """A new API key, or a rotated one, with its text, which is shown only here."""

    key: str = field(default="", repr=False)


@dataclass(frozen=True)
class AuditEntry:
    """What was done with a key, or by an administrator."""

    number: int
    at: float
    action: str
    subject: str
    key: Optional[int] = None
    changes: Optional[dict[str, Any]] = None


@dataclass(frozen=True)
class UsageClass:
    """The sum of one class of tokens or calls."""

    name: str
    """The name of its field in `[[prices]]`, such as `cached_input`."""
    units: int
    cost: float


@dataclass(frozen=True)
class UsageSum:
    """A sum over requests."""

    requests: int
    errors: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: float
    day: Optional[str] = None
    key: Optional[int] = None
    key_name: Optional[str] = None
    model: Optional[str] = None
    classes: list[UsageClass] = field(default_factory=list)
    """What was used and what it cost, by class."""


@dataclass(frozen=True)
class UsageReport:
    """What was used on some days."""

    first_day: str
    last_day: str
    data: list[UsageSum]
    source: str = "database"


@dataclass(frozen=True)
class LoggedQuery:
    """A query of the query log."""

    query: str
    count: int
    zero_results: int
    last_asked_at: float
    relevance: Optional[float] = None


@dataclass(frozen=True)
class Model:
    """A model of the gateway. `capabilities` has `embeddings` or `rerank`."""

    id: str
    alias: list[str] = field(default_factory=list)
    capabilities: list[str] = field(default_factory=list)
    dimensions: Optional[int] = None
    max_input_tokens: Optional[int] = None
    fingerprint: str = ""
    object: str = "model"
    created: float = 0.0
    owned_by: str = ""


@dataclass(frozen=True)
class Health:
    """The state of the gateway, with the documents of all collections if the key may see all of them."""

    status: str
    model_loaded: bool
    document_count: Optional[int] = None


@dataclass(frozen=True)
class Formats:
    """The kinds of files that are read: usual endings of names, archives, and pictures whose text is recognised."""

    extensions: list[str]
    archives: bool
    pictures: bool


@dataclass(frozen=True)
class Readiness:
    """Whether the gateway takes requests, the checks that fail, and what does not work and leaves it ready."""

    ready: bool
    failing: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
