#!/usr/bin/env python3
"""Restart of a gateway: from starting the process to the reply of its first hybrid search over HTTP, with the files in the page cache.

    python bench/start.py [--sizes 0,2000,60000] [--runs 7] [--binary target/release/weir]

The default model is loaded as always; the collection that is searched has embeddings of the kind `pseudo`, so that a million documents
take minutes to ingest instead of hours. Prints a line for each size: median, least and most of the milliseconds until `/readyz` answers 200
and until the search is answered with hits (without documents: answered).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from processes.server import Command, Server, stop_on_sigterm  # noqa: E402

BATCH, WORDS, VOCABULARY, SEED = 2_000, 30, 20_000, 7
COLLECTION = "bench"


def documents(count: int) -> list[list[dict[str, str]]]:
    """Batches of documents of random words."""
    rng = random.Random(SEED)
    every = [{"id": str(at), "text": " ".join(f"w{rng.randrange(VOCABULARY)}" for _ in range(WORDS))} for at in range(count)]
    return [every[at : at + BATCH] for at in range(0, count, BATCH)]


def wait_until_indexed(server: Server, count: int) -> None:
    """Every chunk is searchable."""
    while server.call("GET", f"/v1/collections/{COLLECTION}")["document_count"] < count:
        time.sleep(0.2)


def first_search(server: Server, count: int) -> float:
    """Milliseconds from starting the process to the reply of a search."""
    started = time.perf_counter()
    server.start()
    reply = server.call("POST", "/v1/search", {"query": "w1 w2 w3", "collection": COLLECTION, "top_k": 10})
    taken = 1000 * (time.perf_counter() - started)
    if not reply["results"] and count > 0:
        raise SystemExit(f"no hits: {json.dumps(reply)}")
    if reply["degraded"]:
        raise SystemExit(f"degraded: {json.dumps(reply)}")
    return taken


def measure(binary: Path, model: Path, count: int, runs: int, folder: Path) -> None:
    """Ingests, stops, and starts again and again."""
    config = folder / "weir.toml"
    config.write_text(f'[[models]]\nid = "default"\nfolder = "{model}"\n[[models]]\nid = "pseudo"\nkind = "pseudo"\n')
    arguments = [str(binary), "serve", "--listen", "127.0.0.1:{port}", "--data-dir", str(folder / "data"), "--config", str(config)]
    settings = {"WEIR_LOG_LEVEL": "warn", "WEIR_LIMITS_PENDING_OPERATIONS_MAX": "10000000"}
    server = Server("weir", [Command(arguments, settings)], folder / "log", "/readyz")
    server.start()
    try:
        server.call("PUT", f"/v1/collections/{COLLECTION}", {"model": "pseudo"})
        for batch in documents(count):
            server.call("POST", "/v1/ingest", {"collection": COLLECTION, "documents": batch})
        wait_until_indexed(server, count)
        server.stop()
        found = []
        for run in range(runs + 1):
            taken = first_search(server, count)
            server.stop()
            if run > 0:  # the first fills the page cache
                found.append(taken)
    finally:
        server.stop()
    shown = f"{statistics.median(found):.1f} ({min(found):.1f} to {max(found):.1f})"
    print(f"{count:>9,} documents: {shown} ms to the first search", flush=True)


def main() -> None:
    """Parses the arguments and measures each size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sizes", default="0,2000,60000", help="documents, separated by commas (1000000 takes minutes)")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/weir")
    parser.add_argument("--model", type=Path, default=ROOT / "models/all-MiniLM-L6-v2")
    given = parser.parse_args()
    if not given.binary.exists():
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "weir"], cwd=ROOT, check=True)
    stop_on_sigterm()
    for size in given.sizes.split(","):
        with tempfile.TemporaryDirectory() as folder:
            measure(given.binary.resolve(), given.model.resolve(), int(size), given.runs, Path(folder))


if __name__ == "__main__":
    main()
