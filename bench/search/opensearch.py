"""OpenSearch from Maven Central's jars: one node, or three in one Java process; on loopback, as long as a process needs it."""

from __future__ import annotations

import atexit
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]

ROOT = Path(__file__).resolve().parent.parent.parent
# Made by bench/search.sh: `lib` with all jars, `classes` with Start.class.
FOLDER = Path(os.environ.get("BENCH_OPENSEARCH", ROOT / ".cache" / "bench-peers" / "opensearch"))
START_SECONDS_MAX = 180.0
REQUEST_SECONDS_MAX = 300.0
HEAP = "2g"
INDEX = "documents"
DIMENSION = 384
HITS, DEPTH, RRF_K, BATCH = 10, 100, 60, 1000


def is_installed() -> bool:
    """Whether the jars and Java are here."""
    return (FOLDER / "classes" / "Start.class").exists() and shutil.which("java") is not None


def installed_version() -> str:
    """By the name of its jar."""
    jars = sorted((FOLDER / "lib").glob("opensearch-core-*.jar"))
    return jars[0].stem.removeprefix("opensearch-core-") if jars else "none"


def fused(rankings: list[list[str]]) -> list[str]:
    """Reciprocal rank of document numbers."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, found in enumerate(ranking, start=1):
            scores[found] = scores.get(found, 0.0) + 1.0 / (RRF_K + rank)
    return sorted(scores, key=lambda found: -scores[found])[:HITS]


class OpenSearch:
    """One node with one shard."""

    nodes: ClassVar[int] = 1
    setup: ClassVar[str] = (
        f"one node, one shard, heap {HEAP}; an `english` text field (BM25), `knn_vector` by Lucene (HNSW, m 16, ef_construction 128, inner product), merged to one segment; "
        "hybrid by one `_msearch` of 100 and 100, fused by reciprocal rank in Python, texts by `_mget`; JSON over one connection that is kept; effort is `k` of the vector query"
    )
    modes: ClassVar[tuple[str, ...]] = ("hybrid", "lexical", "dense")
    efforts: ClassVar[tuple[int, ...]] = (100, 200, 400, 800)
    filters: ClassVar[bool] = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._connections: dict[int, http.client.HTTPConnection] = {}

    @property
    def pid(self) -> int:
        """Of the server, whose memory counts."""
        assert self._process is not None, "the server runs"
        return self._process.pid

    def build(self, documents: list[dict[str, Any]], vectors: Vectors) -> None:
        """Sends in batches, then merges."""
        self._start()
        three = self.nodes > 1
        method = {"name": "hnsw", "space_type": "innerproduct", "engine": "lucene", "parameters": {"m": 16, "ef_construction": 128}}
        texts = {name: {"type": "text", "index": False} for name in ("title", "text")}
        properties = texts | {"both": {"type": "text", "analyzer": "english"}, "n": {"type": "integer"}}
        properties["vector"] = {"type": "knn_vector", "dimension": DIMENSION, "method": method}
        settings = {"knn": True, "number_of_shards": 3 if three else 1, "number_of_replicas": 1 if three else 0, "refresh_interval": "-1"}
        source = {"excludes": ["vector", "both"]}
        self._call("PUT", f"/{INDEX}", {"settings": {"index": settings}, "mappings": {"_source": source, "properties": properties}})
        for start in range(0, len(documents), BATCH):
            lines = []
            for at, document in enumerate(documents[start : start + BATCH], start):
                kept = {"title": document["title"], "text": document["text"], "n": document["n"]}
                kept |= {"both": f"{document['title']} {document['text']}", "vector": np.asarray(vectors[at]).tolist()}
                lines += [json.dumps({"index": {"_id": document["id"][1:]}}), json.dumps(kept)]
            reply = self._call("POST", f"/{INDEX}/_bulk", "\n".join(lines) + "\n")
            if reply["errors"]:
                raise RuntimeError(f"OpenSearch refused documents: {json.dumps(reply)[:500]}")
        self._call("POST", f"/{INDEX}/_forcemerge?max_num_segments=1")
        self._call("POST", f"/{INDEX}/_refresh")
        self._call("POST", f"/{INDEX}/_flush?force=true")
        self.stop()

    def open(self) -> None:
        """Starts the server over what was built."""
        self._start()
        wanted = "green" if self.nodes > 1 else "yellow"
        self._call("GET", f"/_cluster/health/{INDEX}?wait_for_status={wanted}&timeout={START_SECONDS_MAX:.0f}s")

    def search(self, mode: str, text: str, vector: Vectors, below: int | None, effort: int) -> list[int]:
        """The ten best, with their titles and texts."""
        bodies = []
        depth = DEPTH if mode == "hybrid" else HITS
        condition = [] if below is None else [{"range": {"n": {"lt": below}}}]
        if mode != "dense":
            bodies.append({"bool": {"must": [{"match": {"both": text}}], "filter": condition}})
        if mode != "lexical":
            near: dict[str, Any] = {"vector": vector.tolist(), "k": max(effort, depth)}
            bodies.append({"knn": {"vector": near | ({"filter": {"bool": {"filter": condition}}} if condition else {})}})
        if mode != "hybrid":
            found = self._call("POST", f"/{INDEX}/_search", {"size": HITS, "_source": ["title", "text"], "query": bodies[0]})
            return [int(hit["_id"]) for hit in found["hits"]["hits"]]
        lines = [line for body in bodies for line in ("{}", json.dumps({"size": depth, "_source": False, "query": body}))]
        replies = self._call("POST", f"/{INDEX}/_msearch", "\n".join(lines) + "\n")["responses"]
        best = fused([[hit["_id"] for hit in reply["hits"]["hits"]] for reply in replies])
        if best:
            self._call("POST", f"/{INDEX}/_mget?_source=title,text", {"ids": best})
        return [int(identifier) for identifier in best]

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        thread = threading.get_ident()
        connection = self._connections.get(thread)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=REQUEST_SECONDS_MAX)
            self._connections[thread] = connection
        content = None if body is None else body if isinstance(body, str) else json.dumps(body)
        kind = "application/x-ndjson" if isinstance(body, str) else "application/json"
        connection.request(method, path, content, {"content-type": kind})
        reply = connection.getresponse()
        answer = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"OpenSearch answered {reply.status} to {path}: {answer[:500]!r}")
        return json.loads(answer)

    def _start(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._folder.mkdir(parents=True, exist_ok=True)
        path = f"{FOLDER / 'classes'}:{FOLDER / 'lib'}/*"
        command = ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-cp", path, "Start", str(self._folder / "data"), str(self.nodes), str(self._port)]
        log = self._folder / "server.log"
        with log.open("ab") as output:
            # its input is a pipe: it ends with this process
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, cwd=self._folder)
        atexit.register(self.stop)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._is_up():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError("OpenSearch did not start:\n" + log.read_text(encoding="utf-8", errors="replace")[-1500:])
            time.sleep(0.2)

    def _is_up(self) -> bool:
        try:
            return int(self._call("GET", "/_cluster/health")["number_of_nodes"]) == self.nodes
        except (OSError, http.client.HTTPException, RuntimeError):
            self._connections.clear()
            return False

    def stop(self) -> None:
        """Ends the server; what it acknowledged is on disk."""
        if self._process is not None:
            assert self._process.stdin is not None, "it was opened as a pipe"
            self._process.stdin.close()
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
            self._connections.clear()


class OpenSearchThree(OpenSearch):
    """Three nodes in one Java process, three shards with a replica of each."""

    nodes = 3
    setup = "the same with three nodes in one Java process, which share its heap and the cores, and three shards with one replica each; asked through one of them"
