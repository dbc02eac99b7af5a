"""curl, on the routes of text-embeddings-inference."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from .gateway import DOCUMENTS, QUERY, TEXTS, TIMEOUT_SECONDS, Gateway, ensure
from .table import Call


def run(*arguments: str) -> str:
    """What curl prints; an error status is a failure."""
    command = ["curl", "--silent", "--show-error", "--fail-with-body", "--max-time", str(TIMEOUT_SECONDS), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    ensure(done.returncode == 0, f"{done.stderr.strip()} {done.stdout.strip()}")
    return done.stdout


def version() -> str:
    """The version of the command."""
    return run("--version").split()[1]


def calls(gateway: Gateway) -> list[Call]:
    """Embeddings, rerank, and what describes the server."""

    def posted(path: str, body: dict[str, Any]) -> Any:
        header = "content-type: application/json"
        return json.loads(run(f"{gateway.url}{path}", "--header", header, "--data", json.dumps(body)))

    def ranking() -> str:
        seen = posted("/rerank", {"query": QUERY, "texts": DOCUMENTS})
        return gateway.same_ranking([(item["index"], item["score"]) for item in seen])

    def info() -> str:
        seen = json.loads(run(f"{gateway.url}/info"))
        ensure(seen["model_id"] == gateway.model and "embedding" in seen["model_type"], f"the reply is {seen}")
        return "the model and its kind"

    def health() -> str:
        body = run(f"{gateway.url}/health")
        ensure(not body, f"the body is {body}")
        return "200, no body"

    return [
        Call("POST /embed", lambda: gateway.same_embeddings(posted("/embed", {"inputs": TEXTS}))),
        Call("POST /rerank", ranking),
        Call("GET /info", info),
        Call("GET /health", health),
    ]
