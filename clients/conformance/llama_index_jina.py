"""LlamaIndex's postprocessor that reranks by the API of Jina."""

from __future__ import annotations

from llama_index.postprocessor.jinaai_rerank import JinaRerank

from .gateway import DOCUMENTS, Gateway, refused
from .llama_index_nodes import reranked
from .table import Call

PACKAGE = "llama-index-postprocessor-jinaai-rerank"


def calls(gateway: Gateway) -> list[Call]:
    """All documents, the best one, an unknown model."""

    def reranker(model: str, top_n: int) -> JinaRerank:
        return JinaRerank(model=model, top_n=top_n, base_url=f"{gateway.url}/v1", api_key="unused")

    every = len(DOCUMENTS)
    return [
        Call("postprocess_nodes([…])", lambda: gateway.same_ranking(reranked(reranker(gateway.reranker, every)))),
        Call(
            "postprocess_nodes([…]) with top_n=1",
            lambda: gateway.same_ranking(reranked(reranker(gateway.reranker, 1)), top_n=1),
        ),
        Call(
            'postprocess_nodes([…]) with model="none"',
            lambda: refused(lambda: reranked(reranker("none", every)), RuntimeError, "there is no model `none`"),
        ),
    ]
