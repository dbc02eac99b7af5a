"""The client of Ollama."""

from __future__ import annotations

import asyncio

import ollama

from .gateway import TEXTS, Gateway, ensure, refused
from .table import Call

PACKAGE = "ollama"


def calls(gateway: Gateway) -> list[Call]:
    """Embeddings by both routes, models, a refusal."""
    client = ollama.Client(host=gateway.url)

    def models() -> str:
        names = [model.model for model in client.list().models]
        ensure(gateway.model in names, f"the list is {names}")
        return "the models of the configuration"

    async def asynchronous() -> str:
        reply = await ollama.AsyncClient(host=gateway.url).embed(model=gateway.model, input=TEXTS)
        return gateway.same_embeddings(reply.embeddings)

    def early() -> str:
        reply = client.embeddings(model=gateway.model, prompt=TEXTS[0])
        return gateway.same_embeddings([reply.embedding], TEXTS[:1])

    return [
        Call(
            "embed(input=[…])",
            lambda: gateway.same_embeddings(client.embed(model=gateway.model, input=TEXTS).embeddings),
        ),
        Call(
            'embed(model="…:latest")',
            lambda: gateway.same_embeddings(client.embed(model=f"{gateway.model}:latest", input=TEXTS).embeddings),
        ),
        Call("AsyncClient: embed(input=[…])", lambda: asyncio.run(asynchronous())),
        Call("embeddings(prompt=…)", early),
        Call("list()", models),
        Call(
            'embed(model="none")',
            lambda: refused(
                lambda: client.embed(model="none", input="a"), ollama.ResponseError, "there is no model `none`"
            ),
        ),
    ]
