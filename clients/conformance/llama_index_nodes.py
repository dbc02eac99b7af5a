"""Documents as nodes of LlamaIndex, and what a postprocessor makes of them."""

from __future__ import annotations

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode

from .gateway import DOCUMENTS, QUERY


def reranked(postprocessor: BaseNodePostprocessor) -> list[tuple[int, float]]:
    """Positions and scores of the documents, best first."""
    nodes = [NodeWithScore(node=TextNode(id_=str(index), text=text)) for index, text in enumerate(DOCUMENTS)]
    ordered = postprocessor.postprocess_nodes(nodes, query_str=QUERY)
    return [(int(node.node.node_id), node.get_score(raise_error=True)) for node in ordered]
