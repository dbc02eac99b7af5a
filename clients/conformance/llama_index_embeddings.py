"""LlamaIndex's embeddings of servers with OpenAI's API."""

from __future__ import annotations

import asyncio

from llama_index.embeddings.openai_like import OpenAILikeEmbedding

from .gateway import TEXTS, Gateway
from .table import Call

PACKAGE = "llama-index-embeddings-openai-like"


def calls(gateway: Gateway) -> list[Call]:
    """Embeddings of texts and of a query."""
    model = OpenAILikeEmbedding(model_name=gateway.model, api_base=f"{gateway.url}/v1", api_key="unused")
    query = TEXTS[1:2]
    return [
        Call("get_text_embedding_batch([…])", lambda: gateway.same_embeddings(model.get_text_embedding_batch(TEXTS))),
        Call("get_query_embedding(…)", lambda: gateway.same_embeddings([model.get_query_embedding(query[0])], query)),
        Call(
            "aget_text_embedding_batch([…])",
            lambda: gateway.same_embeddings(asyncio.run(model.aget_text_embedding_batch(TEXTS))),
        ),
    ]
