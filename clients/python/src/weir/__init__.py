"""The client of Weir, a retrieval gateway: ingest documents, search them with citations, chat with them, embed texts.

    from weir import Weir

    with Weir() as client:
        for result in client.search("what holds back a river").results:
            print(result.relevance, result.citation.quote)

`AsyncWeir` has the same methods for asyncio. Every failure of a call is a `WeirError`.
"""

from __future__ import annotations

from weir._async_client import AsyncWeir
from weir._chat import ChatChunk, ChatCitation, ChatReply, ChatSource, ChatUsage
from weir._client import Weir
from weir._embeddings import Embeddings
from weir._errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    JobError,
    NotFound,
    Overloaded,
    PreconditionFailed,
    RateLimited,
    ReplyError,
    ServerError,
    TooLarge,
    Unauthorized,
    WeirConnectionError,
    WeirError,
    WeirTimeoutError,
)
from weir._options import (
    ChatMessage,
    ChatOptions,
    Document,
    DocumentPage,
    EmbedOptions,
    Filter,
    NewCollection,
    ResultOptions,
    Search,
    SearchOptions,
)
from weir._progress import Progress
from weir._types import (
    Citation,
    Collection,
    Deletion,
    DocumentsDeleteReply,
    Explain,
    Explanation,
    Feedback,
    FeedbackDeletion,
    Health,
    IngestLines,
    IngestReport,
    Job,
    JobDocument,
    JobDocumentError,
    LineError,
    LoggedQuery,
    Model,
    Page,
    Readiness,
    SearchReply,
    SearchResult,
    StoredDocument,
    UsageClass,
    UsageReport,
    UsageSum,
    WhyNot,
)
from weir._version import __version__

__all__ = [
    "ApiError",
    "AsyncWeir",
    "BadRequest",
    "ChatChunk",
    "ChatCitation",
    "ChatMessage",
    "ChatOptions",
    "ChatReply",
    "ChatSource",
    "ChatUsage",
    "Citation",
    "Collection",
    "Conflict",
    "Deletion",
    "Document",
    "DocumentPage",
    "DocumentsDeleteReply",
    "EmbedOptions",
    "Embeddings",
    "Explain",
    "Explanation",
    "Feedback",
    "FeedbackDeletion",
    "Filter",
    "Forbidden",
    "Health",
    "IngestLines",
    "IngestReport",
    "Job",
    "JobDocument",
    "JobDocumentError",
    "JobError",
    "LineError",
    "LoggedQuery",
    "Model",
    "NewCollection",
    "NotFound",
    "Overloaded",
    "Page",
    "PreconditionFailed",
    "Progress",
    "RateLimited",
    "Readiness",
    "ReplyError",
    "ResultOptions",
    "Search",
    "SearchOptions",
    "SearchReply",
    "SearchResult",
    "ServerError",
    "StoredDocument",
    "TooLarge",
    "Unauthorized",
    "UsageClass",
    "UsageReport",
    "UsageSum",
    "Weir",
    "WeirConnectionError",
    "WeirError",
    "WeirTimeoutError",
    "WhyNot",
    "__version__",
]
