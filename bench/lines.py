"""One stream of a million documents: resident memory, and the time until all are on disk and until all are searchable.

`LINES` lines of 1 KB each (1,000,000 by default) go to a text-only collection in one request. Exits with 1 if the gateway's resident memory grows by
more than 300 MB.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from service import ADDRESS, WORDS, rss_mib, start, stop

LINES = int(os.environ.get("LINES", "1000000"))
LINE_BYTES = 1_000
GROWTH_MIB_MAX = 300 * 1e6 / 2**20
LINES_PER_PART = 500


def lines(count: int) -> Iterator[bytes]:
    """Documents of different words, in parts of some hundred lines."""
    choose = random.Random(0)
    texts = [" ".join(choose.choices(WORDS, k=LINE_BYTES // 5))[: LINE_BYTES - 60] for _ in range(1_000)]
    part = []
    for number in range(count):
        part.append(json.dumps({"id": f"d{number:09}", "text": f"{number} {texts[number % len(texts)]}"}))
        if len(part) == LINES_PER_PART:
            yield ("\n".join(part) + "\n").encode()
            part = []
    yield ("\n".join(part) + "\n").encode()


def call(method: str, path: str, body: object = None, media: str = "application/json") -> dict[str, object]:
    """A request and its reply."""
    connection = http.client.HTTPConnection(*ADDRESS, timeout=24 * 3600)
    connection.request(method, path, body=body, headers={"content-type": media}, encode_chunked=hasattr(body, "__next__"))  # type: ignore[arg-type]
    reply = connection.getresponse()
    text = reply.read()
    if reply.status >= 300:
        raise SystemExit(f"{method} {path}: {reply.status} {text[:500]!r}")
    return dict(json.loads(text))


def is_searchable() -> bool:
    """Whether the last job has ended: jobs of a collection end in their order."""
    jobs: list[dict[str, object]] = call("GET", "/v1/jobs?limit=1")["data"]  # type: ignore[assignment]
    return jobs[0]["status"] == "completed"


class Highest(threading.Thread):
    """The highest resident memory of a process."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.mib, self.is_done = pid, 0.0, False

    def run(self) -> None:
        while not self.is_done:
            self.mib = max(self.mib, rss_mib(self.pid))
            time.sleep(0.2)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        server, _ = start(Path(folder))
        try:
            call("PUT", "/v1/collections/lines", json.dumps({"embedding": "none"}))
            before = rss_mib(server.pid)
            highest = Highest(server.pid)
            highest.start()
            begun = time.perf_counter()
            reply = call("POST", "/v1/ingest?collection=lines", lines(LINES), "application/x-ndjson")
            stored = time.perf_counter() - begun
            if reply["documents"] != LINES:
                raise SystemExit(f"{reply['documents']} of {LINES} documents are stored: {reply['errors']}")
            while not is_searchable():
                time.sleep(0.5)
            searchable = time.perf_counter() - begun
            highest.is_done = True
            highest.join()
            grown = highest.mib - before
            print(f"{LINES} lines: on disk after {stored:.0f} s ({LINES / stored:.0f}/s), searchable after {searchable:.0f} s; RSS {before:.0f} + {grown:.0f} MiB")
            return int(grown > GROWTH_MIB_MAX)
        finally:
            stop(server)


if __name__ == "__main__":
    sys.exit(main())
