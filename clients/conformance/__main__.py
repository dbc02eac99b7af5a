"""Runs every client and prints what deviates; exits with 1 if anything does."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from .gateway import Gateway
from .runs import other_rows_of, rows_of
from .table import plain, write

# Releases that another client of the environment does not allow; requirements_newer.txt lists them.
NEWER_CLIENTS = ("cohere",)

# In the order of the table.
CLIENTS = {
    "openai (Python)": "openai_python",
    "openai (Node)": "openai_node",
    "cohere": "cohere_python",
    "langchain-openai": "langchain_python",
    "llama-index-embeddings-openai-like": "llama_index_embeddings",
    "llama-index-postprocessor-cohere-rerank": "llama_index_cohere",
    "llama-index-postprocessor-jinaai-rerank": "llama_index_jina",
    "huggingface_hub": "huggingface",
    "ollama": "ollama_python",
    "curl": "curl",
}


def main() -> int:
    """Runs the clients that are named, or all."""
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument(
        "--url", required=True, help="base URL of a gateway with a model that embeds and one that reranks"
    )
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this one; can be repeated")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the table between the markers of this page"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the results as JSON, of the environment's releases alone"
    )
    arguments = parser.parse_args()
    gateway = Gateway.at(arguments.url)
    rows = []
    for client in arguments.client or CLIENTS:
        if client in NEWER_CLIENTS and not arguments.json:
            rows += other_rows_of(__package__, client, "newer", gateway.url)
        rows += rows_of(client, f"{__package__}.{CLIENTS[client]}", gateway)
    deviating = sum(not row.passed for row in rows)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
        return int(deviating > 0)
    print(plain(rows))
    if arguments.markdown:
        write(arguments.markdown, "results", rows)
    print(f"{len(rows) - deviating} passed, {deviating} failed")
    return int(deviating > 0)


if __name__ == "__main__":
    sys.exit(main())
