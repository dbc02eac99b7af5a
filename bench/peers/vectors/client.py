"""The client of the experiment: asyncio and aiohttp, every reply decoded into a numpy array of float32.

    python client.py --url http://127.0.0.1:8000/v1/embeddings/raw --decode raw --batch 32 --requests 100 --runs 10

Prints a line of JSON: the seconds of each run, and the vectors and bytes of one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import numpy as np
import numpy.typing as npt
import orjson
import uvloop

CONCURRENCY = 10
DIMENSION = 1024
TIMEOUT_SECONDS = 300.0
RAW = "application/octet-stream"

Vectors = npt.NDArray[np.float32]


def decode_json(body: bytes) -> Vectors:
    """The standard library."""
    return vectors_of(json.loads(body))


def decode_orjson(body: bytes) -> Vectors:
    """The fastest parser that Python has."""
    return vectors_of(orjson.loads(body))


def vectors_of(reply: dict[str, Any]) -> Vectors:
    """`embeddings`, or OpenAI's `data`."""
    if "data" in reply:
        return np.array([entry["embedding"] for entry in reply["data"]], dtype=np.float32)
    return np.array(reply["embeddings"], dtype=np.float32)


def decode_raw(body: bytes) -> Vectors:
    """A view of the reply's bytes."""
    return np.frombuffer(body, dtype="<f4").reshape(-1, DIMENSION)


DECODERS: dict[str, Callable[[bytes], Vectors]] = {"json": decode_json, "orjson": decode_orjson, "raw": decode_raw}


class ReplyError(Exception):
    """The server did not answer with the vectors that were asked for."""


def texts(batch: int, number: int) -> list[str]:
    """Different in every request, so that no cache can help."""
    return [f"text {at} of request {number}" for at in range(batch)]


async def fetch(session: aiohttp.ClientSession, given: argparse.Namespace, number: int) -> tuple[int, int]:
    """One request: the vectors and the bytes of its reply."""
    body = orjson.dumps({"input": texts(given.batch, number)} | ({"model": given.model} if given.model else {}))
    headers = {"content-type": "application/json", "cache-control": "no-cache"}
    if given.decode == "raw":
        headers["accept"] = RAW
    async with session.post(given.url, data=body, headers=headers) as response:
        content = await response.read()
        if response.status != 200:
            raise ReplyError(f"status {response.status}: {content[:300]!r}")
        if given.decode == "raw" and response.content_type != RAW:
            raise ReplyError(f"the server answered {response.content_type} although {RAW} was asked for")
    vectors = DECODERS[given.decode](content)
    if vectors.shape != (given.batch, DIMENSION):
        raise ReplyError(f"vectors of the shape {vectors.shape} instead of {(given.batch, DIMENSION)}")
    return vectors.shape[0], len(content)


async def run_once(given: argparse.Namespace, run: int) -> tuple[float, int, int]:
    """All requests of a run: seconds, vectors, bytes."""
    permits = asyncio.Semaphore(CONCURRENCY)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    connector = aiohttp.TCPConnector(limit=CONCURRENCY)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def one(number: int) -> tuple[int, int]:
            async with permits:
                return await fetch(session, given, number)

        await asyncio.gather(*(one(-1 - number) for number in range(CONCURRENCY)))
        started = time.perf_counter()
        found = await asyncio.gather(*(one(run * given.requests + number) for number in range(given.requests)))
        seconds = time.perf_counter() - started
    return seconds, sum(vectors for vectors, _ in found), sum(size for _, size in found)


def main() -> None:
    """Reads the command line, sends, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--decode", choices=sorted(DECODERS), required=True)
    parser.add_argument("--model", default="", help="the name that the gateway wants")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_args()
    runs = [uvloop.run(run_once(given, run)) for run in range(given.runs)]
    found = {"seconds": [seconds for seconds, _, _ in runs], "vectors": runs[-1][1], "reply_bytes": runs[-1][2]}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
