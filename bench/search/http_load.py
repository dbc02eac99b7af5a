"""Short queries as text over HTTP, one at a time, by the load generator: the gateway embeds each anew."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from corpus import Corpus
from engines import Setup, environment

# With [CLS] and [SEP]; the tokenizer says how many a query has.
TOKENS_MAX = 8
REQUESTS = 2_000
WARMUP = 200


def measure(setup: Setup, corpus: Corpus, index: Path) -> dict[str, Any]:
    """The generator's report: hybrid search, ten hits, concurrency 1."""
    import os

    from weir_http import COLLECTION, HITS, WeirHttp

    os.environ["BENCH_GATEWAY"] = environment(setup)["BENCH_GATEWAY"]
    gateway = WeirHttp(index)
    gateway.open()
    try:
        bodies, report = index / "short-queries.jsonl", index / "load.json"
        queries = [query for query in corpus.queries() if tokens(gateway.address, query) <= TOKENS_MAX]
        lines = [json.dumps({"query": query, "top_k": HITS, "collection": COLLECTION}) + "\n" for query in queries]
        bodies.write_text("".join(lines), encoding="utf-8")
        command = [str(setup.binaries.parent / "weir-bench"), "load", "--url", f"http://{gateway.address}/v1/search"]
        command += ["--concurrency", "1", "--threads", "1", "--requests", str(REQUESTS), "--warmup", str(WARMUP)]
        command += ["--body-file", str(bodies), "--pid", str(gateway.pid), "--json", str(report)]
        subprocess.run([*command, "--header", "cache-control: no-cache"], check=True, stdout=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return found | {"queries": len(queries)}
    finally:
        gateway.stop()


def tokens(address: str, query: str) -> int:
    """How many tokens the gateway counts in a text."""
    import http.client

    connection = http.client.HTTPConnection(address, timeout=10)
    body = json.dumps({"model": "all-MiniLM-L6-v2", "input": query})
    connection.request("POST", "/v1/embeddings", body, {"content-type": "application/json"})
    reply = json.loads(connection.getresponse().read())
    connection.close()
    return int(reply["usage"]["prompt_tokens"])
