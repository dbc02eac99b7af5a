"""LangChain's embeddings of OpenAI."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path

import openai
from langchain_openai import OpenAIEmbeddings
from pydantic import SecretStr

from .gateway import TEXTS, Gateway, compare_embeddings, ensure, refused
from .table import Call

PACKAGE = "langchain-openai"


def bring_the_tokenizer() -> None:
    """By default LangChain sends token ids, by a tokenizer that it would download; LlamaIndex has a copy of it."""
    found = importlib.util.find_spec("llama_index.core")
    ensure(found is not None and found.origin is not None, "llama-index-core is not installed")
    assert found and found.origin
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(found.origin).parent / "_static" / "tiktoken_cache")


def calls(gateway: Gateway) -> list[Call]:
    """Embeddings of texts, and the refusal of token ids."""
    url, key = f"{gateway.url}/v1", SecretStr("unused")
    texts = OpenAIEmbeddings(model=gateway.model, base_url=url, api_key=key, check_embedding_ctx_length=False)

    def tokens() -> str:
        bring_the_tokenizer()
        default = OpenAIEmbeddings(model=gateway.model, base_url=url, api_key=key)
        remedy = "set `check_embedding_ctx_length=False`"
        return refused(lambda: default.embed_documents(TEXTS), openai.BadRequestError, remedy)

    return [
        Call("embed_documents([…])", lambda: gateway.same_embeddings(texts.embed_documents(TEXTS))),
        Call(
            "embed_query(…)",
            lambda: compare_embeddings([texts.embed_query(TEXTS[1])], gateway.embeddings(TEXTS[1:2])),
        ),
        Call("aembed_documents([…])", lambda: gateway.same_embeddings(asyncio.run(texts.aembed_documents(TEXTS)))),
        Call("with check_embedding_ctx_length=True, the default", tokens),
    ]
