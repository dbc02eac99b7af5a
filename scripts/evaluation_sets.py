"""Reads evaluation sets, and puts their documents into a running gateway.

A set is a folder with `corpus.jsonl` {_id, title, text}, `queries.jsonl` {_id, text} and `qrels.tsv` (query, document,
score; one header line).
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BATCH_DOCUMENTS = 500
BUSY_SECONDS_MAX = 120.0
INGEST_SECONDS_MAX = 3600.0


class GatewayError(Exception):
    """The gateway did not do what it was asked; the message names the call."""


class Gateway:
    """One keep-alive connection to a gateway."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=120)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON reply. Waits and asks again while the gateway says that it's busy; other errors are raised."""
        data = None if body is None else json.dumps(body).encode()
        give_up = time.monotonic() + BUSY_SECONDS_MAX
        while True:
            self._connection.request(method, path, data, {"content-type": "application/json"})
            reply = self._connection.getresponse()
            text = reply.read()
            if reply.status in (429, 503) and time.monotonic() < give_up:
                time.sleep(float(reply.headers.get("retry-after", 1)))
                continue
            if not 200 <= reply.status < 300:
                raise GatewayError(f"{method} {path}: {reply.status} {text[:500].decode(errors='replace')}")
            return dict(json.loads(text or b"{}"))

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


@dataclass(frozen=True)
class EvaluationSet:
    """Documents, queries and what people judged: a score by query and document."""

    documents: list[dict[str, Any]]
    queries: dict[str, str]
    judgments: dict[str, dict[str, int]]


def load_set(folder: Path) -> EvaluationSet:
    """Reads a set. Queries without a positive judgment and documents without any text are left out."""

    def rows(name: str) -> Iterator[dict[str, Any]]:
        with (folder / name).open(encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines)

    judgments: dict[str, dict[str, int]] = {}
    with (folder / "qrels.tsv").open(encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            query, document, score = line.rstrip("\n").split("\t")
            judgments.setdefault(query, {})[document] = int(score)
    judged = {query: scores for query, scores in judgments.items() if max(scores.values()) > 0}
    documents = [
        {"id": row["_id"], "title": row.get("title", ""), "text": row["text"]} for row in rows("corpus.jsonl")
    ]
    empty = [one["id"] for one in documents if not (one["title"] + one["text"]).strip()]
    if empty:
        print(f"{folder.name}: left out, without title and text: {', '.join(empty)}", file=sys.stderr)
        documents = [one for one in documents if one["id"] not in empty]
    queries = {row["_id"]: row["text"] for row in rows("queries.jsonl") if row["_id"] in judged}
    if len(queries) != len(judged):
        raise ValueError(f"{folder}: {len(judged) - len(queries)} judged queries are not in queries.jsonl")
    return EvaluationSet(documents, queries, judged)


def ingest(gateway: Gateway, collection: str, documents: list[dict[str, Any]]) -> None:
    """Puts all documents into the collection and waits until they are searchable. A failed document is an error."""
    gateway.call("PUT", f"/v1/collections/{collection}", {})
    batches = [documents[at : at + BATCH_DOCUMENTS] for at in range(0, len(documents), BATCH_DOCUMENTS)]
    bodies = ({"collection": collection, "documents": batch} for batch in batches)
    jobs = [gateway.call("POST", "/v1/ingest", body)["job_id"] for body in bodies]
    give_up = time.monotonic() + INGEST_SECONDS_MAX
    for job_id in jobs:
        job = gateway.call("GET", f"/v1/jobs/{job_id}")
        while job["status"] not in ("completed", "failed", "cancelled") and time.monotonic() < give_up:
            time.sleep(0.1)
            job = gateway.call("GET", f"/v1/jobs/{job_id}")
        if job["status"] != "completed" or job["failed_documents"]:
            raise GatewayError(f"job {job_id} is {job['status']}: {job['error']} {job['errors'][:5]}")
