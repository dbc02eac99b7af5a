"""Our own gateway through Python's own HTTP client, so that ours and theirs are compared through the same language.

The gateway embeds the documents itself. They have one chunk each and are embedded as the corpus is, title first, so that
their vectors are those of the corpus.
"""

from __future__ import annotations

import atexit
import http.client
import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parent.parent.parent
HITS = 10
COLLECTION = "bench"
BATCH = 2000
START_SECONDS_MAX = 120.0
REQUEST_SECONDS_MAX = 120.0

Vectors = npt.NDArray[np.float32]


class WeirHttp:
    """The gateway in a process of its own, one connection that is kept for each thread."""

    name = "Weir over HTTP"
    setup: ClassVar[str] = (
        "the gateway with its defaults (convex fusion of 100 and 100, SQLite with `synchronous=FULL`), JSON over one "
        "connection that is kept, `http.client`; every reply parsed"
    )
    modes: ClassVar[tuple[str, ...]] = ("hybrid", "lexical", "dense")
    efforts: ClassVar[tuple[int, ...]] = ()
    filters: ClassVar[bool] = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""
        self._connections: dict[int, http.client.HTTPConnection] = {}
        self._takes_vector = True

    @property
    def pid(self) -> int:
        """Of the gateway, whose memory counts."""
        assert self._process is not None, "the gateway runs"
        return self._process.pid

    @property
    def address(self) -> str:
        """Host and port."""
        return self._address

    def build(self, documents: list[dict[str, Any]], vectors: Vectors) -> None:
        """Ingests and waits until all is searchable."""
        self._start()
        location = ""
        for start in range(0, len(documents), BATCH):
            part = [
                {"id": document["id"], "title": document["title"], "text": document["text"]}
                | {"metadata": {"n": document["n"], "group": document["group"]}}
                for document in documents[start : start + BATCH]
            ]
            status, reply = self._call("POST", "/v1/ingest", {"collection": COLLECTION, "documents": part})
            if status != 202:
                raise RuntimeError(f"the gateway refused documents: {status} {reply}")
            location = f"/v1/jobs/{reply['job_id']}"
        while (job := self._call("GET", location)[1])["status"] != "completed":
            if job["status"] == "failed":
                raise RuntimeError(f"ingest failed: {job}")
            time.sleep(0.5)
        self.stop()

    def open(self) -> None:
        """Starts the gateway over what was ingested. One that doesn't take vectors yet embeds each query."""
        self._start()
        body = self._body("hybrid", "nothing", np.ones(384, dtype=np.float32), None)
        self._takes_vector = self._call("POST", "/v1/search", body)[0] == 200

    @property
    def detail(self) -> str:
        """What the page says beside the name."""
        return "vector given" if self._takes_vector else "query embedded by the gateway"

    def search(self, mode: str, text: str, vector: Vectors, below: int | None, effort: int) -> list[int]:
        """One request."""
        status, reply = self._call("POST", "/v1/search", self._body(mode, text, vector, below))
        if status != 200:
            raise RuntimeError(f"the gateway answered {status}: {reply}")
        return [int(hit["citation"]["document_id"][1:]) for hit in reply["results"]]

    def _body(self, mode: str, text: str, vector: Vectors, below: int | None) -> dict[str, Any]:
        body: dict[str, Any] = {"query": text, "top_k": HITS, "collection": COLLECTION, "mode": mode}
        if self._takes_vector and mode != "lexical":
            body["vector"] = vector.tolist()
        if below is not None:
            body["filter"] = {"n": {"lt": below}}
        return body

    def _call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        thread = threading.get_ident()
        connection = self._connections.get(thread)
        if connection is None:
            connection = http.client.HTTPConnection(self._address, timeout=REQUEST_SECONDS_MAX)
            self._connections[thread] = connection
        headers = {"content-type": "application/json", "cache-control": "no-cache"}
        content = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, content, headers)
            reply = connection.getresponse()
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            # the gateway ends connections that nothing was asked on while the others took their turns
            connection.close()
            connection.request(method, path, content, headers)
            reply = connection.getresponse()
        answer = reply.read()
        return reply.status, json.loads(answer) if answer else None

    def _start(self) -> None:
        binary = os.environ.get("BENCH_GATEWAY", str(ROOT / "target" / "release" / "weir"))
        model = os.environ.get("WEIR_TEST_MODEL", str(ROOT / "models" / "all-MiniLM-L6-v2"))
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / "weir.log"
        command = [
            binary,
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
            str(self._folder / "data"),
            "--model",
            model,
        ]
        # the gateway refuses settings that it doesn't know, and those of tests and measurements are such
        known = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stderr=output, stdout=subprocess.DEVNULL, env=known)
        atexit.register(self.stop)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._address or self._call("GET", "/readyz")[0] != 200:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError("the gateway did not start:\n" + log.read_text(encoding="utf-8")[-1500:])
            for line in log.read_text(encoding="utf-8").splitlines():
                found = json.loads(line).get("address") if line.startswith("{") else None
                self._address = found or self._address
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends the gateway; what it acknowledged is on disk."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)
            self._process, self._address, self._connections = None, "", {}
