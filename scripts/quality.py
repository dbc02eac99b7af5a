#!/usr/bin/env python3
"""Measures the retrieval quality of a gateway: nDCG@10 and recall by set and mode, against the project's targets.

A set is a folder with `corpus.jsonl` {_id, title, text}, `queries.jsonl` {_id, text} and `qrels.tsv` (query, document,
score; one header line). Starts `weir serve` over a folder of its own, or uses a running gateway (`--url`), where it
makes and removes collections called `quality-SET`.

    scripts/quality.py --data /path/to/sets scifact
    scripts/quality.py --data /path/to/sets --fusion rrf --fusion convex:0.5,0.5 scifact cranfield cacm

nDCG as trec_eval: linear gain, log2 discount, ideal order over all judgments, queries without a positive judgment left
out. Results count in the order in which they are returned.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean as mean
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
BATCH_DOCUMENTS = 500
RESAMPLES = 2000
CONNECTIONS = 4
READY_SECONDS_MAX = 120.0
BUSY_SECONDS_MAX = 120.0
MODES = ("hybrid", "dense", "lexical")
# nDCG@10 that default settings must reach.
TARGETS = {("scifact", "hybrid"): 0.715, ("scifact", "dense"): 0.64, ("scifact", "lexical"): 0.65}


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
            if reply.status in (429, 503) and path != "/readyz" and time.monotonic() < give_up:
                time.sleep(float(reply.headers.get("retry-after", 1)))
                continue
            if not 200 <= reply.status < 300:
                raise GatewayError(f"{method} {path}: {reply.status} {text[:500].decode(errors='replace')}")
            return dict(json.loads(text or b"{}"))

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


@dataclass
class EvaluationSet:
    """Documents, queries and what people judged."""

    name: str
    documents: list[dict[str, Any]]
    queries: dict[str, str]
    judgments: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Method:
    """One way to search: a mode, and how a hybrid search fuses (None: as the gateway is set)."""

    mode: str
    fusion: str | None = None

    @property
    def label(self) -> str:
        """How the table calls it."""
        return self.mode if self.fusion is None else f"{self.mode} {self.fusion}"

    def request(self, query: str, top_k: int, collection: str) -> dict[str, Any]:
        """The body of its search."""
        body: dict[str, Any] = {"query": query, "top_k": top_k, "collection": collection, "mode": self.mode}
        if self.fusion is not None:
            body["fusion"] = parse_fusion(self.fusion)
        return body


def parse_fusion(text: str) -> dict[str, Any]:
    """`rrf`, `rrf:k=30`, `convex:0.4,0.6` or `rrf:1,2,k=30`: the method, then lexical and dense weight, then k."""
    method, _, rest = text.partition(":")
    if method not in ("rrf", "convex"):
        raise ValueError(f"`{text}`: the method is `rrf` or `convex`")
    fusion: dict[str, Any] = {"method": method}
    parts = [part for part in rest.split(",") if part]
    weights = [float(part) for part in parts if not part.startswith("k=")]
    if len(weights) not in (0, 2):
        raise ValueError(f"`{text}`: give two weights, lexical and dense")
    if weights:
        fusion["weights"] = {"lexical": weights[0], "dense": weights[1]}
    for part in parts:
        if part.startswith("k="):
            fusion["k"] = float(part[2:])
    return fusion


def fusion_argument(text: str) -> str:
    """Checks a `--fusion` while the command line is read."""
    try:
        parse_fusion(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def load_set(folder: Path) -> EvaluationSet:
    """Reads a set. Queries without a positive judgment are left out."""

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
    empty = [document["id"] for document in documents if not (document["title"] + document["text"]).strip()]
    if empty:
        print(f"{folder.name}: left out, without title and text: {', '.join(empty)}", file=sys.stderr)
        documents = [document for document in documents if document["id"] not in empty]
    queries = {row["_id"]: row["text"] for row in rows("queries.jsonl") if row["_id"] in judged}
    if len(queries) != len(judged):
        raise ValueError(f"{folder}: {len(judged) - len(queries)} judged queries are not in queries.jsonl")
    return EvaluationSet(folder.name, documents, queries, judged)


def ndcg(ranking: list[str], scores: dict[str, int], depth: int = 10) -> float:
    """Normalised discounted cumulative gain of the first `depth` documents; linear gain, as trec_eval."""

    def gain(values: list[int]) -> float:
        return sum(max(value, 0) / math.log2(rank + 2) for rank, value in enumerate(values[:depth]))

    return gain([scores.get(document, 0) for document in ranking]) / gain(sorted(scores.values(), reverse=True))


def recall(ranking: list[str], scores: dict[str, int], depth: int) -> float:
    """The part of the relevant documents that is among the first `depth`."""
    relevant = {document for document, score in scores.items() if score > 0}
    return len(relevant.intersection(ranking[:depth])) / len(relevant)


class Progress:
    """A line with a bar on a terminal; nothing elsewhere."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._start = what, total, time.monotonic()

    def show(self, done: int) -> None:
        """Draws the bar at `done` of the total, with rate and time left."""
        if not sys.stderr.isatty():
            return
        seconds = max(time.monotonic() - self._start, 1e-3)
        rate = done / seconds
        left = f"{(self._total - done) / rate:.0f} s left" if rate else ""
        bar = "█" * (24 * done // self._total)
        end = "\n" if done == self._total else ""
        line = f"{self._what:<28} {bar:<24} {done}/{self._total} {rate:.0f}/s {left}"
        print(f"\r\x1b[K{line}", end=end, file=sys.stderr, flush=True)


def ingest(gateway: Gateway, collection: str, documents: list[dict[str, Any]]) -> None:
    """Puts all documents into the collection and waits until they are searchable. A failed document is an error."""
    gateway.call("PUT", f"/v1/collections/{collection}", {})
    batches = [documents[at : at + BATCH_DOCUMENTS] for at in range(0, len(documents), BATCH_DOCUMENTS)]
    bodies = ({"collection": collection, "documents": batch} for batch in batches)
    jobs = [gateway.call("POST", "/v1/ingest", body)["job_id"] for body in bodies]
    progress = Progress(f"{collection}: ingest", len(documents))
    done = 0
    for job_id in jobs:
        while True:
            job = gateway.call("GET", f"/v1/jobs/{job_id}")
            progress.show(done + job["processed_documents"])
            if job["status"] in ("completed", "failed", "cancelled"):
                break
            time.sleep(0.1)
        if job["status"] != "completed" or job["failed_documents"]:
            raise GatewayError(f"job {job_id} is {job['status']}: {job['error']} {job['errors'][:5]}")
        done += job["total_documents"]


def run_queries(
    url: str, collection: str, queries: dict[str, str], method: Method, top_k: int
) -> dict[str, list[str]]:
    """The documents that each query finds, best first, asked over a few connections at once."""
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    for query in queries:
        todo.put(query)
    rankings: dict[str, list[str]] = {}
    failures: list[Exception] = []
    progress = Progress(f"{collection}: {method.label}", len(queries))

    def work() -> None:
        with closing(Gateway(url)) as gateway:
            try:
                while not failures:
                    query = todo.get_nowait()
                    reply = gateway.call("POST", "/v1/search", method.request(queries[query], top_k, collection))
                    rankings[query] = [result["id"] for result in reply["results"]]
                    progress.show(len(rankings))
            except queue.Empty:
                pass
            except Exception as error:  # noqa: BLE001 - raised by the caller's thread
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return rankings


@contextmanager
def serving(binary: Path, model: Path) -> Iterator[str]:
    """A gateway of our own on a free port over a temporary folder: its URL while it's ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="weir-quality-") as folder:
        log = Path(folder) / "log"
        command = [str(binary), "serve", "--listen", address, "--data-dir", f"{folder}/data", "--model", str(model)]
        with log.open("wb") as sink:
            server = subprocess.Popen(command, stdout=sink, stderr=sink)
        try:
            wait_until_ready(f"http://{address}", server, log)
            yield f"http://{address}"
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait_until_ready(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Returns when `/readyz` answers 200; raises with the end of the server's log when it stops or takes too long."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with closing(Gateway(url)) as gateway:
                gateway.call("GET", "/readyz")
            return
        except (OSError, GatewayError, ValueError):
            time.sleep(0.1)
    raise GatewayError(f"the gateway did not become ready:\n{log.read_text(errors='replace')[-2000:]}")


def measure(url: str, data: EvaluationSet, methods: list[Method], top_k: int) -> dict[str, dict[str, list[str]]]:
    """Ingests a set into a collection of its own, asks all queries by every method, and removes it again."""
    collection = f"quality-{data.name}"
    with closing(Gateway(url)) as gateway:
        try:
            ingest(gateway, collection, data.documents)
            return {method.label: run_queries(url, collection, data.queries, method, top_k) for method in methods}
        finally:
            with suppress(OSError, GatewayError):
                gateway.call("DELETE", f"/v1/collections/{collection}")


def print_rows(data: EvaluationSet, rankings: dict[str, dict[str, list[str]]], top_k: int) -> bool:
    """Prints a row per method; false when one is below its target."""
    reached = True
    for label, by_query in rankings.items():
        quality = sum(ndcg(by_query[query], data.judgments[query]) for query in data.queries) / len(data.queries)
        found = sum(recall(by_query[query], data.judgments[query], top_k) for query in data.queries) / len(
            data.queries
        )
        target = TARGETS.get((data.name, label))
        verdict = "" if target is None else f"{target:.3f}  " + ("reached" if quality >= target else "BELOW")
        reached = reached and (target is None or quality >= target)
        row = f"{data.name:<24} {len(data.queries):>7}  {label:<24} {quality:>7.4f}  {found:>9.4f}  {verdict}"
        print(row, flush=True)
    return reached


def print_difference(
    sets: list[EvaluationSet], rankings: dict[str, Any], baseline: dict[str, Any], methods: list[Method]
) -> None:
    """Prints the mean nDCG@10 less that of the baseline with its 95 % interval by paired bootstrap, by set and over sets."""
    random = Random(0)  # noqa: S311 - not for secrets

    def resampled(values: list[float]) -> float:
        return mean(random.choices(values, k=len(values)))

    def row(name: str, difference: float, samples: list[float], label: str) -> None:
        samples.sort()
        low, high = samples[int(0.025 * len(samples))], samples[int(0.975 * len(samples))]
        print(f"{name:<24} {'':>7}  {label:<24} {difference:>+7.4f}  {low:+.4f} to {high:+.4f}", flush=True)

    for label in [method.label for method in methods]:
        by_set: list[list[float]] = []
        for data in sets:
            ours, theirs = rankings[data.name][label], baseline[data.name][label]
            by_set.append([ndcg(ours[q], data.judgments[q]) - ndcg(theirs[q], data.judgments[q]) for q in data.queries])
            row(data.name, mean(by_set[-1]), [resampled(by_set[-1]) for _ in range(RESAMPLES)], label)
        samples = [mean(resampled(values) for values in by_set) for _ in range(RESAMPLES)]
        row("mean of the sets", mean(mean(values) for values in by_set), samples, label)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line, checked."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description="Measure retrieval quality against the project's targets.")
    parser.add_argument(
        "sets", nargs="*", default=["scifact"], help="folders below the data folder (default: scifact)"
    )
    parser.add_argument(
        "--data", default=os.environ.get("WEIR_EVAL_DATA", ""), help="folder of the sets (WEIR_EVAL_DATA)"
    )
    parser.add_argument("--url", help="use this running gateway instead of starting one")
    parser.add_argument("--binary", type=Path, default=target / "release" / "weir")
    parser.add_argument("--model", type=Path, default=ROOT / "models" / "all-MiniLM-L6-v2")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument(
        "--fusion",
        action="append",
        default=[],
        type=fusion_argument,
        metavar="METHOD[:LEXICAL,DENSE][,k=K]",
        help="also a hybrid search by this fusion, such as rrf:k=30 or convex:0.4,0.6; may be repeated",
    )
    parser.add_argument(
        "--top-k", type=int, default=10, choices=(10, 100), help="10, or 100 to see recall further down"
    )
    parser.add_argument("--save", type=Path, help="write every ranking to this file as JSON")
    parser.add_argument("--baseline", type=Path, help="a file written by --save over the same sets, to compare with")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Measures every set; 0 when all targets are reached, or when there is no data, which is said."""
    options = parse_arguments(arguments)
    if not options.data or not Path(options.data).is_dir():
        print(f"quality: SKIPPED, no data folder at `{options.data}`; name one: make quality DATA=/path/to/sets")
        return 0
    baseline = json.loads(options.baseline.read_text(encoding="utf-8")) if options.baseline else None
    sets: list[EvaluationSet] = []
    methods = [Method(mode) for mode in options.modes] + [Method("hybrid", fusion) for fusion in options.fusion]
    rankings: dict[str, dict[str, dict[str, list[str]]]] = {}
    reached = True

    def measure_all(url: str) -> None:
        nonlocal reached
        print(f"{'set':<24} {'queries':>7}  {'mode':<24} {'nDCG@10':>7}  {f'recall@{options.top_k}':>9}  target")
        for name in options.sets:
            data = load_set(Path(options.data) / name)
            sets.append(data)
            rankings[name] = measure(url, data, methods, options.top_k)
            reached &= print_rows(data, rankings[name], options.top_k)

    try:
        if options.url:
            measure_all(options.url)
        else:
            with serving(options.binary, options.model) as url:
                measure_all(url)
    except (OSError, ValueError, GatewayError) as error:
        print(f"quality: {error}", file=sys.stderr)
        return 2
    if baseline is not None:
        print(f"{'less the baseline':<24} {'':>7}  {'mode':<24} {'nDCG@10':>7}  95 % interval (paired bootstrap)")
        print_difference(sets, rankings, baseline, methods)
    if options.save:
        options.save.write_text(json.dumps(rankings) + "\n", encoding="utf-8")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
