"""2,000 searches at concurrency 16 over the sample corpus, beside the load generator's own ceiling, in one run.

The ceiling is the generator's closed loop against its own null server: it must be ten times what the gateway answers,
or the generator would be part of what it measures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
REQUESTS = int(os.environ.get("REQUESTS", "2000"))
CONCURRENCY = 16
CEILING_RATIO_MIN = 10


@contextmanager
def serving(folder: Path, before: Sequence[str] = ()) -> Iterator[tuple[str, int]]:
    """A gateway over the sample corpus on a free port: its URL and its process."""
    log = folder / "weir.log"
    command = [*before, TARGET / "weir", "serve", "--listen", "127.0.0.1:0", "--data-dir", folder / "data"]
    with log.open("wb") as output:
        server = subprocess.Popen([*command, "--model", ROOT / "models" / "all-MiniLM-L6-v2"], stderr=output)
    try:
        url = wait_until_ready(log)
        ingest = [TARGET / "weir", "ingest", ROOT / "samples" / "xquad" / "documents", "--url", url]
        subprocess.run(ingest, check=True)
        yield url, server.pid
    finally:
        server.terminate()
        server.wait(timeout=30)


def main() -> int:
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as (url, pid):
        return measure(Path(name), url, pid)


def wait_until_ready(log: Path) -> str:
    """The server's address, from its log: it chose the port itself."""
    for _ in range(600):
        for line in log.read_text().splitlines():
            address = json.loads(line).get("address") if line.startswith("{") else None
            if address:
                url = f"http://{address}"
                with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                    return url
        time.sleep(0.1)
    raise SystemExit("the server did not start:\n" + log.read_text())


def write_queries(bodies: Path, words: int = 10) -> Path:
    """Searches of `words` words from the middle of each paragraph: real words, of a query's length."""
    lines = (ROOT / "samples" / "xquad" / "documents" / "xquad.jsonl").read_text().splitlines()
    texts = [json.loads(line)["text"].split() for line in lines]
    queries = [" ".join(text[len(text) // 2 :][:words]) for text in texts]
    bodies.write_text("".join(json.dumps({"query": query, "top_k": 5}) + "\n" for query in queries))
    return bodies


def measure(folder: Path, url: str, pid: int) -> int:
    bodies = write_queries(folder / "queries.jsonl")
    bench = TARGET / "weir-bench"
    load = [bench, "load", "--url", f"{url}/v1/search", "--concurrency", str(CONCURRENCY)]
    load += ["--requests", str(REQUESTS), "--warmup", "100", "--body-file", bodies, "--pid", str(pid)]
    load += ["--header", "cache-control: no-cache"]  # every query is embedded anew
    failed = subprocess.run([*load, "--json", folder / "load.json"]).returncode
    subprocess.run([bench, "ceiling", "--json", folder / "ceiling.json"], check=True)
    ours = json.loads((folder / "load.json").read_text())["requests_per_s"]
    ceiling = json.loads((folder / "ceiling.json").read_text())["requests_per_s"]
    ratio = ceiling / ours
    print(f"\ngateway {ours:,.0f} searches/s, generator's ceiling {ceiling:,.0f} requests/s: {ratio:.0f} times ours")
    return failed or int(ratio < CEILING_RATIO_MIN)


if __name__ == "__main__":
    sys.exit(main())
