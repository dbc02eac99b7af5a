"""Whether one large document stops other work: searches, a sentence in another collection, and embedding requests beside it.

Searches of the sample corpus are measured for a while alone. Then a document of DOCUMENT_BYTES is ingested, and while it is
embedded, for at most SECONDS_PER_PART:

- the same searches go on, every query embedded anew;
- a sentence goes to another collection every two seconds: the time until a search finds it;
- a request for the embeddings of 64 short texts is sent every second: how many are refused;
- the progress of the job is read.

BUSY processes that compute all the time make the host a busy one; their number is 0 by default.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes.server import Command, Server, stop_on_sigterm

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLE = ROOT / "samples" / "xquad" / "documents" / "xquad.jsonl"
MODEL = ROOT / "models" / "all-MiniLM-L6-v2"

SEARCHES_PER_S = 20
TEXTS = 64
SENTENCE_SECONDS_MAX = 3.0
P99_RATIO_MAX = 3.0
CALL_SECONDS_MAX = 300.0
JOB_IS_SEEN_SECONDS = 0.25


@dataclass
class Figures:
    """What was measured: times in seconds."""

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    sentences: list[float] = field(default_factory=list)
    embeddings: list[float] = field(default_factory=list)
    refused: int = 0
    failed: list[str] = field(default_factory=list)
    # of the job of the large document, in the order of reading
    progress: list[float] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Which targets are missed."""
        found = sorted(set(self.failed))[:5]
        if not self.sentences or max(self.sentences) > SENTENCE_SECONDS_MAX:
            found.append(f"a sentence was not searchable within {SENTENCE_SECONDS_MAX:.0f} s")
        if self.refused or not self.embeddings:
            found.append(f"{self.refused} embedding requests were refused, {len(self.embeddings)} answered")
        ratio = p99(self.beside) / p99(self.alone)
        if ratio > P99_RATIO_MAX:
            found.append(f"the p99 of searches was {ratio:.1f} times that without the load")
        if self.progress != sorted(self.progress) or len(set(self.progress)) < min(5, len(self.progress)):
            found.append(f"the job's progress did not move within the document: {sorted(set(self.progress))[:5]}")
        return found


def percentile(seconds: list[float], part: float) -> float:
    """The nearest rank."""
    return sorted(seconds)[max(0, -int(-part * len(seconds) // 1) - 1)] if seconds else float("inf")


def p99(seconds: list[float]) -> float:
    """The 99th percentile."""
    return percentile(seconds, 0.99)


class Caller:
    """Calls on one connection."""

    def __init__(self, server: Server) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=CALL_SECONDS_MAX)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the reply's JSON."""
        headers = {"content-type": "application/json", "cache-control": "no-cache"}
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, headers)
        reply = self._connection.getresponse()
        return reply.status, json.loads(reply.read())


def paragraphs() -> list[str]:
    """The texts of the sample."""
    return [json.loads(line)["text"] for line in SAMPLE.read_text().splitlines()]


def large_text(size: int) -> str:
    """Sentences of the sample's words in a new order, so that no two passages are equal."""
    source = random.Random(56)
    words = " ".join(paragraphs()).split()
    text: list[str] = []
    length = 0
    while length < size:
        sentence = " ".join(source.sample(words, 12)).capitalize() + ".\n"
        text.append(sentence)
        length += len(sentence.encode())
    return "".join(text)


def every(seconds: float, is_over: Callable[[], bool], call: Callable[[int], None]) -> None:
    """Calls with 0, 1, 2 … at this interval, or one after the other if that is slower."""
    started, number = time.monotonic(), 0
    while not is_over():
        call(number)
        number += 1
        time.sleep(max(0.0, min(seconds, started + number * seconds - time.monotonic())))


class Run:
    """One measurement on a gateway that runs."""

    def __init__(self, server: Server, size: int, seconds: float) -> None:
        self._server, self._size, self._seconds = server, size, seconds
        self._queries = [" ".join(text.split()[5:15]) for text in paragraphs()]
        self._figures = Figures()

    def measure(self) -> Figures:
        """Searches alone, then everything beside the large document."""
        self._server.call("POST", "/v1/ingest?wait=true", {"documents": [{"text": text} for text in paragraphs()]})
        # the first calls of a process are slower
        end = time.monotonic() + self._seconds / 5
        self._search([], lambda: time.monotonic() > end)
        end = time.monotonic() + self._seconds
        self._search(self._figures.alone, lambda: time.monotonic() > end)

        large = {"id": "large", "text": large_text(self._size)}
        job = self._server.call("POST", "/v1/ingest", {"collection": "large", "documents": [large]})
        over = threading.Event()
        parts = [
            lambda: self._search(self._figures.beside, over.is_set),
            lambda: every(2.0, over.is_set, self._sentence(Caller(self._server))),
            lambda: every(1.0, over.is_set, self._embed(Caller(self._server))),
        ]
        threads = [threading.Thread(target=self._noting_failures, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        self._watch(job["job_id"])
        over.set()
        for thread in threads:
            thread.join()
        return self._figures

    def _noting_failures(self, part: Callable[[], None]) -> None:
        try:
            part()
        except Exception as error:  # noqa: BLE001, a thread that ends is a fault of the run
            self._figures.failed.append(repr(error))

    def _watch(self, job: str) -> None:
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            state = self._server.call("GET", f"/v1/jobs/{job}")
            self._figures.progress.append(state.get("progress", 0.0))
            if state["status"] not in ("pending", "running"):
                if state["status"] != "completed":
                    self._figures.failed.append(f"the job ended as {state['status']}: {state['error']}")
                return
            time.sleep(JOB_IS_SEEN_SECONDS)

    def _search(self, seconds: list[float], is_over: Callable[[], bool]) -> None:
        caller = Caller(self._server)

        def search(number: int) -> None:
            body = {"query": self._queries[number % len(self._queries)], "top_k": 5}
            started = time.monotonic()
            status, reply = caller.call("POST", "/v1/search", body)
            seconds.append(time.monotonic() - started)
            if status != 200:
                self._figures.failed.append(f"a search was answered with {status}: {reply}")

        every(1 / SEARCHES_PER_S, is_over, search)

    def _sentence(self, caller: Caller) -> Callable[[int], None]:
        def add(number: int) -> None:
            text = f"The lighthouse of bay number {number} was painted in the colour {number + 1000}."
            body = {"collection": "notes", "documents": [{"id": str(number), "text": text}]}
            started = time.monotonic()
            status, reply = caller.call("POST", "/v1/ingest?wait=true", body)
            query = {"collection": "notes", "query": text, "mode": "dense", "top_k": 1}
            found = caller.call("POST", "/v1/search", query)[1].get("results", [])
            self._figures.sentences.append(time.monotonic() - started)
            if status != 202 or [hit["id"] for hit in found] != [str(number)]:
                self._figures.failed.append(f"a sentence was not found: {status} {reply} {found}")

        return add

    def _embed(self, caller: Caller) -> Callable[[int], None]:
        def embed(number: int) -> None:
            words = self._queries[number % len(self._queries)].split()
            texts = [f"{number} {at} {' '.join(words)}" for at in range(TEXTS)]
            started = time.monotonic()
            status, reply = caller.call("POST", "/v1/embeddings", {"model": MODEL.name, "input": texts})
            if status == 503:
                self._figures.refused += 1
            elif status == 200:
                self._figures.embeddings.append(time.monotonic() - started)
            else:
                self._figures.failed.append(f"embeddings were answered with {status}: {reply}")

        return embed


def compute() -> None:
    """Until it is ended."""
    while True:
        pass


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """While these processes take the cores."""
    running = [multiprocessing.Process(target=compute, daemon=True) for _ in range(processes)]
    for process in running:
        process.start()
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.join()


def measure(binary: Path, size: int, seconds: float, busy_processes: int) -> Figures:
    """One run on a gateway of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        arguments = [str(binary), "serve", "--listen", "127.0.0.1:{port}", "--data-dir", str(folder / "data"), "--model", str(MODEL)]
        server = Server("weir", [Command(arguments)], folder / "weir.log", health="/readyz")
        stack.callback(server.stop)
        server.start()
        stack.enter_context(busy(busy_processes))
        return Run(server, size, seconds).measure()


def report(figures: Figures) -> str:
    """The figures in lines."""
    alone, beside = p99(figures.alone), p99(figures.beside)
    lines = [
        f"searches alone        p50 {percentile(figures.alone, 0.5) * 1e3:7.1f} ms  p99 {alone * 1e3:7.1f} ms",
        f"searches beside it    p50 {percentile(figures.beside, 0.5) * 1e3:7.1f} ms  p99 {beside * 1e3:7.1f} ms  ({beside / alone:.1f} times)",
        f"sentence searchable   p50 {percentile(figures.sentences, 0.5):7.2f} s   max {max(figures.sentences, default=0):7.2f} s   of {len(figures.sentences)}",
        f"64 short texts        p50 {percentile(figures.embeddings, 0.5):7.2f} s   max {max(figures.embeddings, default=0):7.2f} s   of {len(figures.embeddings)}",
        f"refused               {figures.refused}",
        f"progress of the job   {figures.progress[-1] if figures.progress else 0:.1%} at the end, {len(set(figures.progress))} different values",
    ]
    return "\n".join(lines)


def main() -> int:
    """Prints the figures; 1 if a target is missed."""
    stop_on_sigterm()
    default = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "weir"
    binary = Path(os.environ.get("BINARY", default))
    size, seconds = int(os.environ.get("DOCUMENT_BYTES", "5000000")), float(os.environ.get("SECONDS_PER_PART", "60"))
    figures = measure(binary, size, seconds, int(os.environ.get("BUSY", "0")))
    print(report(figures))
    faults = figures.faults()
    for fault in faults:
        print(f"missed: {fault}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
