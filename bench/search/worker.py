"""One peer in a process of its own: fills its folder, or reads a request a line and writes a reply a line.

    python bench/search/worker.py build LanceDB --corpus FOLDER --index FOLDER --documents 10000
    python bench/search/worker.py serve LanceDB --corpus FOLDER --index FOLDER

See the table of requests at the top of `crates/index/examples/bench_search/main.rs`; a `search` of a peer has an
`effort` too. `open` answers with the server's process where the peer is one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import corpus
import peers
from peers import PEERS, Peer
from weir_http import WeirHttp

ENGINES = PEERS | {WeirHttp.name: WeirHttp}


def build(peer: Peer, source: corpus.Corpus, count: int, index: Path) -> dict[str, Any]:
    """Reading the corpus is no part of the time."""
    documents = source.documents(count)
    vectors = source.vectors()[: len(documents)]
    started = time.perf_counter()
    peer.build(documents, vectors)
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "settle_seconds": 0.0, "disk_bytes": peers.disk_bytes(index)}


class Searcher:
    """An open peer and the queries."""

    def __init__(self, peer: Peer, source: corpus.Corpus) -> None:
        self._peer = peer
        self._texts = source.queries()
        self._vectors = list(source.query_vectors().copy())

    def open(self) -> dict[str, Any]:
        """Opens what was built."""
        started = time.perf_counter()
        self._peer.open()
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "pid": getattr(self._peer, "pid", os.getpid())}

    def search_each(self, request: dict[str, Any]) -> dict[str, Any]:
        """Some queries, one after the other."""
        mode, below, effort = request["mode"], request["below"], request.get("effort", 0)
        wall_ns, hits = [], []
        for at in range(request["first"], request["first"] + request["count"]):
            at %= len(self._texts)
            started = time.perf_counter_ns()
            found = self._peer.search(mode, self._texts[at], self._vectors[at], below, effort)
            wall_ns.append(time.perf_counter_ns() - started)
            hits.append(found)
        return {"wall_ns": wall_ns, "hits": hits}

    def throughput(self, request: dict[str, Any]) -> dict[str, Any]:
        """Threads that take the next query until the time is over."""
        mode, effort, done = request["mode"], request.get("effort", 0), []
        until = time.perf_counter() + request["seconds"]

        def work(first: int) -> None:
            searches = 0
            while time.perf_counter() < until:
                at = (first + searches * request["threads"]) % len(self._texts)
                self._peer.search(mode, self._texts[at], self._vectors[at], None, effort)
                searches += 1
            done.append(searches)

        started = time.perf_counter()
        threads = [threading.Thread(target=work, args=(first,)) for first in range(request["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(done) != len(threads):
            raise RuntimeError("a searching thread failed")
        return {"searches": sum(done), "seconds": time.perf_counter() - started}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request."""
        match request["command"]:
            case "open":
                return self.open()
            case "search":
                return self.search_each(request)
            case "throughput":
                return self.throughput(request)
            case other:
                raise ValueError(f"no command is called `{other}`")


def main() -> None:
    """Reads the command line. What the peers print goes to standard error: standard output is for replies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("build", "serve"))
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=0)
    options = parser.parse_args()
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def reply(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    options.index.mkdir(parents=True, exist_ok=True)
    peer = ENGINES[options.engine](options.index)
    source = corpus.load(options.corpus)
    if options.command == "build":
        reply(build(peer, source, options.documents, options.index))
        return
    searcher = Searcher(peer, source)
    reply({"detail": "" if options.engine == WeirHttp.name else peers.detail(options.engine)})
    for line in sys.stdin:
        reply(searcher.answer(json.loads(line)))


if __name__ == "__main__":
    main()
