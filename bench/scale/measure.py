"""What a gateway over PostgreSQL costs beside one over SQLite, and what Redis adds, on one machine.

Three gateways live at the same time: over SQLite, over PostgreSQL (fsync on), and over PostgreSQL with limits in Redis. In every round each takes a
turn, in an order that changes:

- ingest: DOCUMENTS documents of text alone go to a new collection, in requests of 100 on four connections: documents per second until all are
  searchable, and the p50 of the 202;
- searches of the sample corpus, every query embedded anew, at concurrency 1 and 16: p50 and CPU time of the gateway;
- the same searches by a key with a limit of requests, which is never reached.

A figure is the median of the rounds. Exits with 1 if a figure misses what is wanted.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from postgres import Postgres
from processes import EngineError
from processes.server import Command, Server, environment, free_ports, stop_on_sigterm

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
WEIR = os.environ.get("BINARY", str(TARGET / "weir"))
LOAD = os.environ.get("LOAD_BINARY", str(TARGET / "weir-bench"))
MODEL = ROOT / "models" / "all-MiniLM-L6-v2"
SAMPLE = ROOT / "samples" / "xquad" / "documents" / "xquad.jsonl"
SQLITE, POSTGRES, REDIS = "SQLite", "PostgreSQL", "PostgreSQL and Redis"
NAMES = (SQLITE, POSTGRES, REDIS)
DOCUMENTS_OF_A_REQUEST, CONNECTIONS = 100, 4
WORDS = ("river", "water", "dam", "mill", "stone", "bridge", "bank", "boat", "fish", "flood", "lake", "rain", "field", "town", "road", "house", "gate", "lock")


@dataclass(frozen=True)
class Goal:
    """A ratio or a difference, and its bound."""

    what: str
    value: float
    bound: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the bound holds."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@dataclass
class Figures:
    """What was measured in all rounds, by the gateway."""

    values: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, name: str, what: str, value: float) -> None:
        """One figure of one round."""
        self.values[name, what].append(value)

    def of(self, name: str, what: str) -> float:
        """The median of the rounds."""
        return median(self.values[name, what])

    def ratio(self, name: str, what: str) -> float:
        """A gateway's figure beside that of SQLite."""
        return self.of(name, what) / self.of(SQLITE, what)

    def goals(self) -> list[Goal]:
        """What is wanted."""
        found = []
        for concurrency in (1, 16):
            found.append(Goal(f"p50 of searches, concurrency {concurrency}: PostgreSQL / SQLite", self.ratio(POSTGRES, f"p50 ms, {concurrency}"), 1.05))
            found.append(Goal(f"CPU of a search, concurrency {concurrency}: PostgreSQL / SQLite", self.ratio(POSTGRES, f"CPU ms, {concurrency}"), 1.05))
        added = self.of(REDIS, "limited p50 ms, 1") - self.of(POSTGRES, "limited p50 ms, 1")
        return [
            *found,
            Goal("documents per second: PostgreSQL / SQLite", self.ratio(POSTGRES, "documents/s"), 0.5, at_least=True),
            Goal("p50 of the 202: PostgreSQL / SQLite", self.ratio(POSTGRES, "202 p50 ms"), 3.0),
            Goal("p50 of a limited search that Redis adds, ms", added, 0.1),
            Goal("RSS of PostgreSQL and Redis beside SQLite, MiB", self.of(REDIS, "RSS MiB") - self.of(SQLITE, "RSS MiB"), 25.0),
        ]


@contextmanager
def redis() -> Iterator[str]:
    """A server that keeps nothing; its URL."""
    port = free_ports(1)[0]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@dataclass
class Gateway:
    """A gateway and the key that has a limit."""

    name: str
    server: Server
    admin: str
    limited: str

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The reply's JSON."""
        return self.server.call(method, path, body, {"authorization": f"Bearer {self.admin}"})


def gateway(name: str, folder: Path, variables: dict[str, str]) -> Gateway:
    """Creates its keys, and starts it."""
    folder.mkdir()
    data = ["--data-dir", str(folder / "data")]

    def key(*arguments: str) -> str:
        command = [WEIR, "keys", "create", *arguments, *([] if "STORE_URL" in variables else data)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(variables))
        return done.stdout.split()[0]

    admin = key("admin", "--scopes", "admin,ingest,search")
    limited = key("limited", "--scopes", "search", "--requests-per-minute", "100000000")
    arguments = [WEIR, "serve", "--listen", "127.0.0.1:{port}", *data, "--model", str(MODEL)]
    # on a busy machine, searches wait and are not refused
    settings = {"WEIR_LOG_LEVEL": "warn", "WEIR_LIMITS_SEARCH_WAIT_MS_MAX": "10000"}
    server = Server(name, [Command(arguments, variables | settings)], folder / "log", "/readyz")
    server.start()
    return Gateway(name, server, admin, limited)


def ingest(one: Gateway, figures: Figures, count: int, number: int) -> None:
    """A new collection of text alone."""
    name = f"text-{number}"
    one.call("PUT", f"/v1/collections/{name}", {"embedding": "none"})
    choose = random.Random(number)
    texts = [" ".join(choose.choices(WORDS, k=60)) for _ in range(count)]
    requests = [
        {"collection": name, "documents": [{"id": f"d{at}", "text": texts[at]} for at in range(first, min(first + DOCUMENTS_OF_A_REQUEST, count))]}
        for first in range(0, count, DOCUMENTS_OF_A_REQUEST)
    ]
    took: list[float] = []

    def send(part: list[dict[str, Any]]) -> None:
        for request in part:
            begun = time.perf_counter()
            one.call("POST", "/v1/ingest", request)
            took.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    threads = [threading.Thread(target=send, args=(requests[at::CONNECTIONS],)) for at in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while one.call("GET", f"/v1/collections/{name}")["document_count"] < count:
        time.sleep(0.01)
    figures.add(one.name, "documents/s", count / (time.perf_counter() - begun))
    figures.add(one.name, "202 p50 ms", 1e3 * median(took))
    one.call("DELETE", f"/v1/collections/{name}")


def search(one: Gateway, figures: Figures, folder: Path, seconds: float) -> None:
    """Searches of the sample, without a limit and with one."""
    for what, key, concurrency in (("", one.admin, 1), ("", one.admin, 16), ("limited ", one.limited, 1)):
        report = folder / "load.json"
        command = [LOAD, "load", "--url", f"{one.server.url}/v1/search", "--concurrency", str(concurrency), "--duration", f"{seconds:g}s"]
        command += ["--body-file", str(folder / "queries.jsonl"), "--warmup", "20", "--header", f"authorization: Bearer {key}"]
        command += ["--header", "cache-control: no-cache", "--pid", str(one.server.pids[0]), "--json", str(report)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise EngineError(f"{one.name}: weir-bench failed:\n{done.stdout}{done.stderr}")
        found = json.loads(report.read_text())
        figures.add(one.name, f"{what}p50 ms, {concurrency}", found["latency_ms_p50"])
        figures.add(one.name, f"{what}CPU ms, {concurrency}", 1e3 / found["server_requests_per_cpu_s"])
    figures.add(one.name, "RSS MiB", found["server_rss_bytes_max"] / 2**20)


def paragraphs() -> list[str]:
    """The texts of the sample."""
    return [json.loads(line)["text"] for line in SAMPLE.read_text().splitlines()]


def prepare(one: Gateway) -> None:
    """Ingests the sample."""
    documents = [{"id": str(at), "text": text} for at, text in enumerate(paragraphs())]
    one.call("POST", "/v1/ingest?wait=true", {"documents": documents})


def measure(rounds: int, count: int, seconds: float) -> Figures:
    """Everything: `count` documents in an ingest, `seconds` for each load of searches."""
    figures = Figures()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        queries = [{"query": " ".join(text.split()[5:15]), "top_k": 5} for text in paragraphs()]
        (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
        redis_url = stack.enter_context(redis())
        gateways = []
        for name, more in ((SQLITE, {}), (POSTGRES, {}), (REDIS, {"REDIS_URL": redis_url, "WEIR_REDIS_URL": "env:REDIS_URL"})):
            variables = more
            if name != SQLITE:
                database = Postgres()
                stack.callback(database.stop)
                database.start()
                variables = more | {"STORE_URL": database.url, "WEIR_STORE_URL": "env:STORE_URL"}
            one = gateway(name, folder / name.replace(" ", "-"), variables)
            stack.callback(one.server.stop)
            prepare(one)
            gateways.append(one)
        order = random.Random(7)
        for number in range(rounds):
            for one in order.sample(gateways, len(gateways)):
                search(one, figures, folder, seconds)
            for one in order.sample(gateways, len(gateways)):
                ingest(one, figures, count, number)
    return figures


def report(figures: Figures) -> str:
    """A table, and what is wanted."""
    kinds = sorted({what for _, what in figures.values})
    lines = ["| | " + " | ".join(NAMES) + " |", "|---|---:|---:|---:|"]
    lines += [f"| {what} | " + " | ".join(f"{figures.of(name, what):,.2f}" for name in NAMES) + " |" for what in kinds]
    for goal in figures.goals():
        bound = f"{'at least' if goal.at_least else 'at most'} {goal.bound}"
        lines.append(f"{goal.what}: {goal.value:.2f} ({bound}){'' if goal.is_met else ', MISSED'}")
    return "\n".join(lines)


def main() -> int:
    """Measures and prints."""
    stop_on_sigterm()
    rounds, count = int(os.environ.get("ROUNDS", "5")), int(os.environ.get("DOCUMENTS", "10000"))
    figures = measure(rounds, count, float(os.environ.get("SECONDS_PER_TURN", "4")))
    print(report(figures))
    return int(not all(goal.is_met for goal in figures.goals()))


if __name__ == "__main__":
    sys.exit(main())
