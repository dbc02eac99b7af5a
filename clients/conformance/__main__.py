"""Runs every client and prints what deviates; exits with 1 if anything does."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

from .gateway import Gateway
from .table import Row, plain, write

REPOSITORY = Path(__file__).resolve().parents[2]
# Releases that another client of the environment does not allow; requirements_newer.txt lists them.
NEWER = REPOSITORY / ".cache" / "clients" / "newer"
NEWER_CLIENTS = ("cohere",)

# In the order of the table. A module has the name of its `PACKAGE`, or `version()`, and `calls(gateway)`.
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


def version(module: ModuleType) -> str:
    """The version of the client that a module runs."""
    package = getattr(module, "PACKAGE", None)
    return importlib.metadata.version(package) if package else str(module.version())


def rows_of(client: str, name: str, gateway: Gateway) -> list[Row]:
    """The results of all calls of a client."""
    try:
        module = importlib.import_module(f".{name}", __package__)
        number = version(module)
        calls = module.calls(gateway)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}; `scripts/setup.sh clients` installs the clients"
        return [Row(client, "", "import", reason, passed=False)]
    rows = []
    for call in calls:
        try:
            rows.append(Row(client, number, call.name, call.run(), passed=True))
        except Exception as error:
            rows.append(Row(client, number, call.name, f"{type(error).__name__}: {error}", passed=False))
    return rows


def newer_rows_of(client: str, gateway: Gateway) -> list[Row]:
    """The results of the newest release of a client, which a process of its own imports."""
    path = os.pathsep.join([str(REPOSITORY / "clients"), str(NEWER)])
    command = [sys.executable, "-m", "conformance", "--url", gateway.url, "--client", client, "--json"]
    run = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    if not run.stdout:
        return [Row(client, "", "import", run.stderr.strip(), passed=False)]
    return [Row(**row) for row in json.loads(run.stdout)]


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
            rows += newer_rows_of(client, gateway)
        rows += rows_of(client, CLIENTS[client], gateway)
    deviating = sum(not row.passed for row in rows)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
        return int(deviating > 0)
    print(plain(rows))
    if arguments.markdown:
        write(arguments.markdown, rows)
    print(f"{len(rows) - deviating} passed, {deviating} failed")
    return int(deviating > 0)


if __name__ == "__main__":
    sys.exit(main())
