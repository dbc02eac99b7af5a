"""Embeddings: raw bytes of which NumPy arrays are views, or base64 from a gateway that has no raw replies."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir._errors import ReplyError
from weir._http import Call, Reply, Request, encode

_RAW = "application/octet-stream"
# The gateway's types of numbers; all are little-endian.
_DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "int8": np.dtype("i1"),
    "ubinary": np.dtype("u1"),
}


@dataclass(frozen=True)
class Embeddings:
    """The embeddings of texts, one row of `vectors` for each.

    `vectors` is a read-only view of the reply; `.copy()` is writable. `truncated_inputs` are the indices of texts that
    were truncated to the model's input limit: the first hundred. `truncated_count` counts all.
    """

    vectors: NDArray[Any]
    model: str
    prompt_tokens: int
    truncated_inputs: list[int] = field(default_factory=list)
    truncated_count: int = 0

    def __len__(self) -> int:
        return len(self.vectors)


def embed(texts: Sequence[str], options: Mapping[str, Any]) -> Call[Embeddings]:
    """The call that embeds `texts`. `options` are `EmbedOptions` with `model`."""
    body = {**options, "input": texts, "encoding_format": "base64"}
    headers = {"content-type": "application/json", "accept": f"{_RAW}, application/json"}
    return Call(Request("POST", "/v1/embeddings", encode(body), headers), lambda reply: parse(reply, len(texts)))


def parse(reply: Reply, count: int) -> Embeddings:
    """Reads the embeddings of `count` texts."""
    media_type = reply.headers.get("content-type", "").split(";")[0].strip().lower()
    return _raw(reply, count) if media_type == _RAW else _json(reply, count)


def _raw(reply: Reply, count: int) -> Embeddings:
    rows, dimension = _number(reply, "x-embedding-count"), _number(reply, "x-embedding-dim")
    name = reply.headers.get("x-embedding-dtype", "float32")
    dtype = _DTYPES.get(name)
    if dtype is None:
        raise _malformed(f"has embeddings of the unknown type `{name}`")
    # eight dimensions of `ubinary` are one byte, and the dimension may be given in either
    width = dimension // 8 if name == "ubinary" and len(reply.body) * 8 == rows * dimension else dimension
    if rows != count or dimension == 0 or len(reply.body) != rows * width * dtype.itemsize:
        raise _malformed(
            f"has {len(reply.body)} bytes for {rows} embeddings of dimension {dimension} in {name}, not for {count}"
        )
    vectors = np.frombuffer(reply.body, dtype).reshape(rows, width)
    model = reply.headers.get("x-embedding-model", "")
    return Embeddings(vectors, model, _number(reply, "x-usage-prompt-tokens"), *_truncated(reply))


def _json(reply: Reply, count: int) -> Embeddings:
    body = reply.json()
    try:
        items = sorted(body["data"], key=lambda item: int(item["index"]))
        vectors = _joined([item["embedding"] for item in items])
        model, tokens = str(body["model"]), int(body["usage"]["prompt_tokens"])
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise _malformed(f"is no list of embeddings ({type(error).__name__}: {error})") from error
    if len(vectors) != count:
        raise _malformed(f"has {len(vectors)} embeddings, and {count} were requested")
    return Embeddings(vectors, model, tokens, *_truncated(reply))


def _joined(rows: Sequence[Any]) -> NDArray[Any]:
    """Rows of one length, from base64 or lists of numbers."""
    if all(isinstance(row, str) for row in rows):
        buffers = _equally_long([base64.b64decode(row, validate=True) for row in rows])
        return np.frombuffer(b"".join(buffers), "<f4").reshape(len(rows), -1)
    vectors = np.array(rows, "<f4").reshape(len(rows), -1)
    vectors.flags.writeable = False
    return vectors


def _equally_long(rows: list[bytes]) -> list[bytes]:
    if len({len(row) for row in rows}) != 1:
        raise ValueError("embeddings of different lengths")
    return rows


def _truncated(reply: Reply) -> tuple[list[int], int]:
    listed = reply.headers.get("x-truncated-inputs", "")
    try:
        indices = [int(index) for index in listed.split(",") if index.strip()]
    except ValueError as error:
        raise _malformed(f"has the header x-truncated-inputs `{listed}`") from error
    return indices, _number(reply, "x-truncated-inputs-count", len(indices))


def _number(reply: Reply, name: str, default: int | None = None) -> int:
    value = reply.headers.get(name)
    if value is None and default is not None:
        return default
    if value is None or not (value.isascii() and value.isdigit()):
        raise _malformed(f"has {'no header ' + name if value is None else f'the header {name} `{value}`'}")
    return int(value)


def _malformed(what: str) -> ReplyError:
    return ReplyError(
        f"the reply {what}; check any proxy before the gateway, and update weir-client to the gateway's version"
    )
