"""A look-alike of the load harness of the published case study: asyncio and httpx, every reply parsed.

    python harness.py --url http://127.0.0.1:8000 --queries queries.jsonl --requests 2000 --concurrency 16 --pid 123

It posts {"query","top_k"} to /v1/search, expects `results` and `took_ms`, and prints requests/s, percentiles and the server's
resident memory. It is slow, on purpose: how much of a server it sees is what it is here to show.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import httpx

TOP_K = 5
TIMEOUT_SECONDS = 60.0
WARMUP_REQUESTS = 32


def percentile(times: list[float], part: float) -> float:
    """By nearest rank."""
    return sorted(times)[max(math.ceil(part * len(times)) - 1, 0)]


def rss_mib(pids: list[int]) -> float:
    """Resident memory of the processes together."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def search(client: httpx.AsyncClient, query: str, top_k: int) -> float:
    """The milliseconds of one search."""
    started = time.perf_counter()
    response = await client.post("/v1/search", json={"query": query, "top_k": top_k})
    response.raise_for_status()
    reply = response.json()
    assert isinstance(reply["results"], list), "a reply has results"
    float(reply["took_ms"])
    return (time.perf_counter() - started) * 1e3


async def load(url: str, queries: Iterator[str], requests: int, concurrency: int, top_k: int) -> tuple[list[float], float]:
    """The times of all requests and the seconds that they took together."""
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    permits = asyncio.Semaphore(concurrency)
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_SECONDS, limits=limits) as client:

        async def one(query: str) -> float:
            async with permits:
                return await search(client, query, top_k)

        await asyncio.gather(*(one(next(queries)) for _ in range(min(WARMUP_REQUESTS, requests))))
        started = time.perf_counter()
        times = await asyncio.gather(*(one(next(queries)) for _ in range(requests)))
        return list(times), time.perf_counter() - started


def main() -> None:
    """Reads the command line, sends, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--queries", type=Path, required=True, help="a body of a search on each line")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--top-k", type=int, default=TOP_K)
    parser.add_argument("--pid", type=int, nargs="*", default=[], help="processes of the server")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    queries = [json.loads(line)["query"] for line in given.queries.read_text(encoding="utf-8").splitlines()]
    times, seconds = asyncio.run(load(given.url, cycle(queries), given.requests, given.concurrency, given.top_k))
    found = {"requests": len(times), "requests_per_s": len(times) / seconds}
    found |= {f"latency_ms_p{round(part * 100)}": percentile(times, part) for part in (0.5, 0.95, 0.99)}
    found |= {"server_rss_mib": rss_mib(given.pid)}
    if given.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{name:<18} {value:>10,.1f}" for name, value in found.items()))


if __name__ == "__main__":
    main()
