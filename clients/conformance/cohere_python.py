"""The clients of Cohere, for both versions of its API."""

from __future__ import annotations

import asyncio
from typing import Any

import cohere

from .gateway import DOCUMENTS, QUERY, TEXTS, Gateway, ensure, refused
from .table import Call

PACKAGE = "cohere"
# OpenAI's route takes the role of a text in the same words.
ROLE = "search_document"


def calls(gateway: Gateway) -> list[Call]:
    """Embeddings and rerank by both clients, refusals."""
    first: Any = cohere.Client("unused", base_url=gateway.url)
    second: Any = cohere.ClientV2("unused", base_url=gateway.url)
    asked: dict[str, Any] = {"model": gateway.model, "texts": TEXTS, "input_type": ROLE}
    wanted: dict[str, Any] = {"model": gateway.reranker, "query": QUERY, "documents": DOCUMENTS}

    def ranking(reply: Any) -> list[tuple[int, float]]:
        return [(result.index, result.relevance_score) for result in reply.results]

    def floats(client: Any) -> str:
        reply = client.embed(**asked, embedding_types=["float"])
        return gateway.same_embeddings(reply.embeddings.float_, input_type=ROLE)

    def small_types() -> str:
        reply = second.embed(**asked, embedding_types=["int8", "ubinary"])
        for numbers, small, bits in zip(
            gateway.embeddings(TEXTS, input_type=ROLE),
            reply.embeddings.int8 or [],
            reply.embeddings.ubinary or [],
            strict=True,
        ):
            scale = max(abs(number) for number in numbers) / 127
            rounding = max(abs(number / scale - byte) for number, byte in zip(numbers, small, strict=True))
            ensure(len(small) == len(numbers) and rounding < 0.51, "int8 is not the rounded embedding")
            signs = [byte >> (7 - bit) & 1 for byte in bits for bit in range(8)]
            ensure(signs == [int(number > 0) for number in numbers], "ubinary is not the signs of the embedding")
        ensure(len(reply.embeddings.ubinary or []) == len(TEXTS), "not one embedding for each text")
        return "the embeddings rounded to bytes, and their signs"

    def documents() -> str:
        reply = first.rerank(**wanted, return_documents=True)
        texts = [result.document.text if result.document else None for result in reply.results]
        ensure(texts == [DOCUMENTS[result.index] for result in reply.results], f"the documents are {texts}")
        return gateway.same_ranking(ranking(reply))

    async def asynchronous() -> str:
        async with cohere.AsyncClientV2("unused", base_url=gateway.url) as client:
            return gateway.same_ranking(ranking(await client.rerank(**wanted)))

    def unknown(call: Any, **fields: Any) -> str:
        return refused(lambda: call(**{**fields, "model": "none"}), cohere.NotFoundError, "there is no model `none`")

    return [
        Call(
            "Client: embed(texts=[…])",
            lambda: gateway.same_embeddings(first.embed(**asked).embeddings, input_type=ROLE),
        ),
        Call('Client: embed(embedding_types=["float"])', lambda: floats(first)),
        Call("Client: rerank(documents=[…])", lambda: gateway.same_ranking(ranking(first.rerank(**wanted)))),
        Call("Client: rerank(return_documents=True)", documents),
        Call('ClientV2: embed(embedding_types=["float"])', lambda: floats(second)),
        Call('ClientV2: embed(embedding_types=["int8", "ubinary"])', small_types),
        Call("ClientV2: rerank(documents=[…])", lambda: gateway.same_ranking(ranking(second.rerank(**wanted)))),
        Call(
            "ClientV2: rerank(top_n=1)",
            lambda: gateway.same_ranking(ranking(second.rerank(**wanted, top_n=1)), top_n=1),
        ),
        Call("AsyncClientV2: rerank(documents=[…])", lambda: asyncio.run(asynchronous())),
        Call('ClientV2: embed(model="none")', lambda: unknown(second.embed, **asked, embedding_types=["float"])),
        Call('ClientV2: rerank(model="none")', lambda: unknown(second.rerank, **wanted)),
    ]
