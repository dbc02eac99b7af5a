"""The gateway under test, called without any client, and comparisons with what it replies."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DIFFERENCE_MAX = 1e-6
TIMEOUT_SECONDS = 30

# The last one is longer than the input limit of most small models, so that truncation is compared as well.
TEXTS = ["A weir is a low dam.", "what holds back a river?", "größer als 水", "river and dam " * 300]
QUERY = "what holds back a river"
DOCUMENTS = ["The gate opens at 06:30.", "A weir is a low dam across a river.", "Bread needs flour."]


class Deviation(Exception):
    """A client got something else than the gateway replies to a plain request."""


def ensure(condition: bool, message: str) -> None:
    """Raises a deviation if the condition does not hold."""
    if not condition:
        raise Deviation(message)


@dataclass(frozen=True)
class Gateway:
    """Where it is, and the models that the clients ask for."""

    url: str
    model: str
    reranker: str

    @classmethod
    def at(cls, url: str) -> Gateway:
        """The gateway of this URL with its first model that embeds and its first that reranks."""
        url = url.rstrip("/")
        models = fetch(f"{url}/v1/models")["data"]

        def first(capability: str) -> str:
            for model in models:
                if capability in model["capabilities"]:
                    return str(model["id"])
            raise SystemExit(f"{url} has no model for {capability}; add one to its configuration (docs/models.md)")

        return cls(url, first("embeddings"), first("rerank"))

    def embeddings(self, texts: Sequence[str], **fields: object) -> list[list[float]]:
        """The embeddings of `/v1/embeddings` as numbers."""
        reply = fetch(f"{self.url}/v1/embeddings", {"model": self.model, "input": list(texts), **fields})
        return [item["embedding"] for item in reply["data"]]

    def ranking(self, **fields: object) -> list[tuple[int, float]]:
        """Positions and scores of `DOCUMENTS` by `/v1/rerank`, best first."""
        body = {"model": self.reranker, "query": QUERY, "documents": DOCUMENTS, **fields}
        reply = fetch(f"{self.url}/v1/rerank", body)
        return [(result["index"], result["relevance_score"]) for result in reply["results"]]

    def same_embeddings(self, seen: Iterable[Iterable[float]], texts: Sequence[str] = TEXTS, **fields: object) -> str:
        """The result of a call that must get what `/v1/embeddings` replies."""
        return compare_embeddings(seen, self.embeddings(texts, **fields))

    def same_ranking(self, seen: Sequence[tuple[int, float]], **fields: object) -> str:
        """The result of a call that must get what `/v1/rerank` replies."""
        expected = self.ranking(**fields)
        order, best_first = [index for index, _ in seen], [index for index, _ in expected]
        ensure(order == best_first, f"order {order}, expected {best_first}")
        compare_numbers([score for _, score in seen], [score for _, score in expected])
        return f"the same order and scores of {len(seen)} document{'s' * (len(seen) > 1)}"


def compare_embeddings(seen: Iterable[Iterable[float]], expected: Sequence[Sequence[float]]) -> str:
    """The result of a call that must get these embeddings."""
    embeddings = [list(embedding) for embedding in seen]
    count = len(expected)
    ensure(len(embeddings) == count, f"{len(embeddings)} embeddings, expected {count}")
    for numbers, others in zip(embeddings, expected, strict=True):
        compare_numbers(numbers, others)
    return f"the same embedding{'s' * (count > 1)}: {count} of {len(expected[0])} floats"


def compare_numbers(seen: Sequence[float], expected: Sequence[float]) -> None:
    """Raises a deviation if a number differs by more than the rounding of printed floats."""
    ensure(len(seen) == len(expected), f"{len(seen)} numbers, expected {len(expected)}")
    largest = max(abs(float(one) - other) for one, other in zip(seen, expected, strict=True))
    ensure(math.isfinite(largest) and largest <= DIFFERENCE_MAX, f"numbers differ by up to {largest:.3g}")


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of two embeddings."""
    product = math.fsum(x * y for x, y in zip(one, other, strict=True))
    return product / math.sqrt(math.fsum(x * x for x in one) * math.fsum(y * y for y in other))


def refused(call: Callable[[], object], expected: type[Exception], words: str) -> str:
    """The result of a call that must end with this error, whose message has these words."""
    try:
        call()
    except expected as error:
        ensure(words in str(error), f"the message of {type(error).__name__} lacks `{words}`: {error}")
        return f"`{type(error).__name__}`: {words}"
    raise Deviation(f"{expected.__name__} was not raised")


def fetch(url: str, body: Mapping[str, object] | None = None) -> Any:
    """The JSON that a request without a client gets."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{url} replied {error.code}: {error.read().decode(errors='replace')}") from error
    except urllib.error.URLError as error:
        raise SystemExit(f"{url} cannot be reached ({error.reason}); start a gateway with `weir serve`") from error
