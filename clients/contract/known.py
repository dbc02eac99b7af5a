"""The documents and names that the requests are about, so that most of them get behind the first check."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
import zlib
from typing import Any

# Requests that read, and requests that delete: what the former are about stays.
KEPT, CHANGED = "notes", "articles"
# One of this many generated names is sent unchanged.
RAW_EVERY = 4
TIMEOUT_SECONDS = 30
# A shorter deadline of a search is replaced: its end is 504, as the description says.
DEADLINE_MS = 60_000
# The result of `prepare`, as JSON, for the process of Schemathesis.
NAMES_VARIABLE = "CONTRACT_NAMES"

SCOPES = ["search", "ingest", "embed", "rerank", "chat", "admin", "metrics"]

DOCUMENTS = [
    {
        "id": "a/1",
        "title": "Weirs",
        "text": "A weir is a low dam across a river.",
        "metadata": {"year": 1884, "lang": "en"},
    },
    {
        "id": "a/2",
        "title": "Locks",
        "text": "A lock lifts boats past a weir.",
        "metadata": {"year": 1901, "lang": "en"},
    },
    {"id": "a/3", "text": "Ein Wehr staut einen Fluss.", "metadata": {"year": 1902, "lang": "de"}},
]


def fetch(url: str, body: dict[str, Any] | None = None, method: str | None = None, key: str = "") -> Any:
    """The JSON reply of a request that must succeed."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"} | ({"x-api-key": key} if key else {})
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{url} replied {error.code}: {error.read().decode(errors='replace')}") from error
    except urllib.error.URLError as error:
        raise SystemExit(f"{url} cannot be reached ({error.reason}); start a gateway with `weir serve`") from error


def prepare(url: str) -> dict[str, str]:
    """Fills both collections; what can be named in them, by the name of a parameter or field."""
    for collection in (KEPT, CHANGED):
        ingested = fetch(f"{url}/v1/ingest?wait=true", {"collection": collection, "documents": DOCUMENTS})
    models = fetch(f"{url}/v1/models")["data"]
    names = {"job": ingested["job_id"], "document": DOCUMENTS[0]["id"]}
    for capability in ("embeddings", "rerank"):
        usable = [model["id"] for model in models if capability in model["capabilities"]]
        if not usable:
            raise SystemExit(f"{url} has no model for {capability}; add one to its configuration (docs/models.md)")
        names[capability] = usable[0]
    # the first key is that of all requests; those about keys name the second one
    own = fetch(f"{url}/v1/keys", {"name": "contract", "scopes": SCOPES})
    names |= {"own_key": own["key"], "own_id": str(own["id"])}
    names["key"] = str(fetch(f"{url}/v1/keys", {"name": "changed"}, key=own["key"])["id"])
    return names


def is_raw(value: object) -> bool:
    """Whether a generated value stays: always the same for the same value."""
    return zlib.crc32(repr(value).encode(errors="replace")) % RAW_EVERY == 0


def about(method: str, path: str) -> str:
    """The collection that a request names."""
    deletes = method == "DELETE" or path.endswith("/documents/delete")
    return CHANGED if deletes or method == "PUT" else KEPT


def path_value(names: dict[str, str], method: str, path: str, name: str) -> str:
    """The value of a parameter in the path that leads somewhere."""
    if name == "name":
        return about(method, path)
    kinds = {"/keys/": "key", "/jobs/": "job", "/models/": "embeddings", "/documents/": "document"}
    value = next(names[kind] for part, kind in kinds.items() if part in path)
    return urllib.parse.quote(value, safe="")


# Values of parameters in the query, all of which are texts to the description.
QUERY = {
    "wait": "true",
    "limit": "2",
    "collection": KEPT,
    "filter": '{"lang": "en"}',
    "sort": "-year",
    "after": "a/1",
    "report": "zero_results",
    "below": "0.25",
}


def body_value(names: dict[str, str], path: str, name: str) -> str | None:
    """The value of a field of a body that leads somewhere; `None` for all other fields."""
    if name == "collection":
        return CHANGED if path == "/v1/ingest" else KEPT
    if name == "model" and path.startswith("/v1/collections"):
        return names["embeddings"]
    if name == "model":
        return names["rerank" if "rerank" in path else "embeddings"]
    if name == "document_id":
        return names["document"]
    return None
