"""What requests consist of, for editors and type checkers: at run time these are dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Union

import numpy as np
from numpy.typing import NDArray

Filter = Mapping[str, Any]
"""A condition on metadata: docs/search.md describes the language."""
Vector = Union[Sequence[float], NDArray[np.floating[Any]]]
Truncate = Literal["end", "start", "split", "error"]
EmbedTask = Literal["query", "document", "text-matching", "classification", "clustering"]


class _DocumentText(TypedDict):
    text: str


class _PageEnd(TypedDict):
    end: int


class DocumentPage(_PageEnd, total=False):
    """A page of a document's text: the byte at which it ends, and its label where that is not its number."""

    label: str
    approximate: bool


class Document(_DocumentText, total=False):
    """A document to ingest; without `id` it gets one from its content."""

    id: str
    title: str
    metadata: Mapping[str, Any]
    pages: Sequence[DocumentPage]
    vector: Sequence[float]


class SortKey(TypedDict, total=False):
    """A metadata field to sort by."""

    field: str
    order: Literal["asc", "desc"]


class FacetOptions(TypedDict, total=False):
    """A metadata field whose values are counted."""

    field: str
    limit: int


class Group(TypedDict):
    """Results are groups of documents with one value of this field."""

    field: str


class RerankOptions(TypedDict, total=False):
    """A reranker, and the number of results that it reorders."""

    model: str
    top_n: int


class LateInteraction(TypedDict, total=False):
    """The weight of token-level similarity, and the number of results that it reorders."""

    weight: float
    top_n: int


class Weights(TypedDict):
    """The weights of the two retrievers."""

    lexical: float
    dense: float


class Fusion(TypedDict, total=False):
    """How the rankings of a hybrid search are fused."""

    method: Literal["rrf", "convex"]
    weights: Weights
    k: float


class ResultOptions(TypedDict, total=False):
    """The fields of a search that all its pages have in common; docs/search.md describes them."""

    collection: str
    filter: Filter
    vector: Vector
    syntax: Literal["text", "auto", "strict"]
    top_k: int
    min_relevance: float
    count: bool
    mode: Literal["hybrid", "lexical", "dense"]
    prefix: Literal["last"]
    fusion: Fusion
    smoothing: bool
    rerank: Union[str, RerankOptions]
    late_interaction: LateInteraction
    sort: Sequence[Union[str, SortKey]]
    group_by: Union[Literal["document", "chunk"], Group]
    collapse: bool
    diversity: float
    facets: Sequence[Union[str, FacetOptions]]
    facet_counts: Literal["exact", "candidates"]
    highlight: bool
    context: int
    explain: bool
    why_not: str
    deadline_ms: int
    at_least: int
    log: bool
    offset: int


class SearchOptions(ResultOptions, total=False):
    """All fields of a search but the query."""

    cursor: str


class Search(SearchOptions, total=False):
    """One of several searches in a call."""

    query: str


class EmbedOptions(TypedDict, total=False):
    """How texts are embedded.

    The model (default: the first one of the gateway), the dimension of the embeddings, how long texts are truncated,
    the purpose of the texts.
    """

    model: str
    dimensions: int
    truncate: Truncate
    input_type: EmbedTask


class ChatMessage(TypedDict):
    """A message of a conversation. Others, as those of tools, are mappings in the form of OpenAI's API."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatRetrieval(TypedDict, total=False):
    """Where the sources of an answer are searched; docs/chat.md describes the fields."""

    collection: str
    top_k: int
    filter: Filter
    min_relevance: float
    tokens_max: int
    on_empty: Literal["call", "reply"]
    condense_model: str


class ChatOptions(ChatRetrieval, total=False):
    """The sources of an answer, and what the model is asked for; `extra` has further fields of OpenAI's API."""

    max_tokens: int
    temperature: float
    extra: Mapping[str, Any]


ChunkingPolicy = Literal["tokens", "sentences", "headings", "pages", "fixed", "none"]


class Chunks(TypedDict, total=False):
    """How texts are split. Each policy has its own numbers; default: `tokens`."""

    policy: ChunkingPolicy
    max_tokens: int
    overlap_tokens: int
    max_sentences: int
    overlap_sentences: int


class Lexical(TypedDict, total=False):
    """Synonyms, stop words and the weight of titles; what is sent replaces all of them."""

    synonyms: Mapping[str, Sequence[str]]
    stop_words: Sequence[str]
    title_weight: float


class _VectorDimension(TypedDict):
    dimension: int


class Vectors(_VectorDimension, total=False):
    """Embeddings that documents bring; default: compared by `cosine`."""

    metric: Literal["cosine", "dot"]


class NewCollection(TypedDict, total=False):
    """Settings of a collection. `lexical` can be changed later, `chunking` with `rechunk=True`,
    and `engine` with `move=True`.
    """

    model: str
    embedding: Literal["none"]
    vectors: Vectors
    language: str
    chunking: Chunks
    engine: Literal["embedded", "qdrant"]
    keep_originals: bool
    lexical: Lexical
