"""The inference client of Hugging Face, which calls text-embeddings-inference."""

from __future__ import annotations

import asyncio

from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError

from .gateway import DOCUMENTS, QUERY, TEXTS, Gateway, compare_numbers, cosine, refused
from .table import Call

PACKAGE = "huggingface_hub"


def calls(gateway: Gateway) -> list[Call]:
    """Embeddings by the base URL and by the route, cosines, a refusal."""
    base, route = InferenceClient(model=gateway.url), InferenceClient(model=f"{gateway.url}/embed")
    long = TEXTS[-1]

    def similarity() -> str:
        client = InferenceClient(model=f"{gateway.url}/similarity")
        query, *documents = gateway.embeddings([QUERY, *DOCUMENTS])
        expected = [cosine(query, document) for document in documents]
        compare_numbers(client.sentence_similarity(QUERY, DOCUMENTS), expected)
        return f"the cosines of {len(expected)} embeddings"

    def start() -> str:
        seen = route.feature_extraction(long, truncate=True, truncation_direction="left")
        return gateway.same_embeddings(seen, [long], truncate="start")

    return [
        Call("feature_extraction([…]) with model=URL", lambda: gateway.same_embeddings(base.feature_extraction(TEXTS))),
        Call("feature_extraction([…])", lambda: gateway.same_embeddings(route.feature_extraction(TEXTS))),
        Call("feature_extraction(…)", lambda: gateway.same_embeddings(route.feature_extraction(TEXTS[0]), TEXTS[:1])),
        Call('feature_extraction(…, truncation_direction="left")', start),
        Call(
            "AsyncInferenceClient: feature_extraction([…])",
            lambda: gateway.same_embeddings(
                asyncio.run(AsyncInferenceClient(model=gateway.url).feature_extraction(TEXTS))
            ),
        ),
        Call("sentence_similarity(…, […])", similarity),
        Call(
            "feature_extraction(…, truncate=False)",
            lambda: refused(
                lambda: route.feature_extraction(long, truncate=False), HfHubHTTPError, "Send shorter texts"
            ),
        ),
    ]
