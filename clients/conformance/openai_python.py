"""The client of OpenAI for Python."""

from __future__ import annotations

import asyncio
import struct
from base64 import b64decode
from typing import Any

import openai

from .gateway import TEXTS, Gateway, ensure, refused
from .table import Call

PACKAGE = "openai"


def calls(gateway: Gateway) -> list[Call]:
    """Embeddings in both formats, models, refusals."""
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="unused")
    create = client.embeddings.create

    def embeddings(encoding: str | None) -> str:
        chosen: dict[str, Any] = {} if encoding is None else {"encoding_format": encoding}
        reply = create(model=gateway.model, input=TEXTS, **chosen)
        ensure([item.index for item in reply.data] == list(range(len(TEXTS))), "the indexes are not in order")
        ensure(reply.usage.total_tokens >= reply.usage.prompt_tokens > 0, "there is no usage")
        return gateway.same_embeddings(item.embedding for item in reply.data)

    def encoded() -> str:
        # asked for explicitly, the client hands out the encoded bytes
        reply = create(model=gateway.model, input=TEXTS, encoding_format="base64")
        decoded = [b64decode(str(item.embedding)) for item in reply.data]
        return gateway.same_embeddings(struct.unpack(f"<{len(row) // 4}f", row) for row in decoded)

    async def asynchronous() -> str:
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="unused") as client:
            reply = await client.embeddings.create(model=gateway.model, input=TEXTS)
        return gateway.same_embeddings(item.embedding for item in reply.data)

    def models() -> str:
        ids = [model.id for model in client.models.list()]
        ensure(gateway.model in ids and gateway.reranker in ids, f"the list is {ids}")
        ensure(client.models.retrieve(gateway.model).id == gateway.model, "another model was retrieved")
        return "the models of the configuration"

    return [
        Call("embeddings.create(input=[…])", lambda: embeddings(None)),
        Call('embeddings.create(encoding_format="float")', lambda: embeddings("float")),
        Call('embeddings.create(encoding_format="base64")', encoded),
        Call("AsyncOpenAI: embeddings.create(input=[…])", lambda: asyncio.run(asynchronous())),
        Call("models.list(), models.retrieve(…)", models),
        Call(
            'embeddings.create(model="none")',
            lambda: refused(lambda: create(model="none", input="a"), openai.NotFoundError, "there is no model `none`"),
        ),
        Call(
            "embeddings.create(input=[])",
            lambda: refused(
                lambda: create(model=gateway.model, input=[]), openai.BadRequestError, "Send at least one text"
            ),
        ),
    ]
