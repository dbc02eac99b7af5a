"""Gateways over one PostgreSQL: the start of a new one, and memory under load.

Start: one gateway has ingested DOCUMENTS documents of one chunk each, with pseudo embeddings. Measured, until `/readyz` is 200:

- a gateway with an empty data directory, which builds its index from the store;
- one that begins with a copy that the first gateway has written to `index.copies_dir`, a folder of the same disk;
- the second gateway started again.

Memory: one gateway over SQLite, and three over PostgreSQL with limits in Redis, have the same documents, embedded by the default model. For MINUTES each
gateway answers searches, and documents are replaced and deleted at one of each group. The embedding cache is off, as it
fills up to its limit during the time. Resident memory is read every two seconds.

Exits with 1 if a figure misses what is wanted.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from measure import DOCUMENTS_OF_A_REQUEST, MODEL, SQLITE, WEIR, WORDS, Gateway, Goal, gateway, redis
from postgres import Postgres
from processes.server import Command, Server, stop_on_sigterm

MIB = 2**20
# Of each gateway, in a second.
SEARCHES_PER_SECOND, WRITES_PER_SECOND = 20, 2
SAMPLE_SECONDS = 2.0
# Documents of the part about memory.
DOCUMENTS_IN_MEMORY = 5_000
# Kinds of memory, and their names in /proc/PID/smaps_rollup.
KINDS = {"RSS": "Rss", "PSS": "Pss", "anonymous": "Pss_Anon"}
RSS_ABOVE_MIB, GROWTH_MAX = 25.0, 1.03
# The embedding cache would fill during the measurement, up to its limit.
NO_CACHE = {"WEIR_INFERENCE_CACHE_BYTES_MAX": "0"}
# A copy is to make a start this much faster.
COPY_GAIN_MIN = 3.0


def texts(count: int) -> list[str]:
    """Texts of 60 words, each of one chunk."""
    choose = random.Random(7)
    return [f"document {number} " + " ".join(choose.choices(WORDS, k=58)) for number in range(count)]


def documents(all_texts: list[str], first: int, count: int) -> list[dict[str, str]]:
    """Documents by their numbers."""
    return [{"id": f"d{number}", "text": all_texts[number]} for number in range(first, min(first + count, len(all_texts)))]


@dataclass
class Start:
    """Seconds until a new gateway is ready."""

    chunks: int
    index_bytes: int
    from_store: float
    from_copy: float
    again: float

    @property
    def gain(self) -> float:
        """How many times as fast the copy is."""
        return self.from_store / self.from_copy

    def report(self) -> str:
        """In words."""
        return (
            f"{self.chunks:,} chunks, index of {self.index_bytes / MIB:,.0f} MiB\n"
            f"from the store: ready after {self.from_store:.2f} s, {self.chunks / self.from_store:,.0f} chunks/s\n"
            f"from a copy: ready after {self.from_copy:.2f} s\n"
            f"started again: ready after {self.again:.2f} s\n"
            f"the copy is {self.gain:.1f} times as fast"
        )


def folder_bytes(folder: Path) -> int:
    """Bytes of all files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def start_of_a_gateway(count: int) -> Start:
    """Measures the start with `count` documents."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = Postgres()
        stack.callback(database.stop)
        database.start()
        variables = {"STORE_URL": database.url, "WEIR_STORE_URL": "env:STORE_URL", "WEIR_LOG_LEVEL": "warn"}

        (folder / "copies").mkdir()
        # copies are written every few seconds
        copies = {"WEIR_INDEX_COPIES_DIR": str(folder / "copies"), "WEIR_INDEX_COPY_AFTER_S": "0", "WEIR_INDEX_COMPACT_AFTER_S": "0"}

        def server(name: str, more: dict[str, str] | None = None) -> Server:
            arguments = [WEIR, "serve", "--listen", "127.0.0.1:{port}", "--data-dir", str(folder / name), "--model", "pseudo"]
            return Server(name, [Command(arguments, {**variables, **(more or {})})], folder / f"{name}.log", "/readyz")

        first = server("first", copies)
        first.start()
        stack.callback(first.stop)
        all_texts = texts(count)
        for at in range(0, count, DOCUMENTS_OF_A_REQUEST):
            first.call("POST", "/v1/ingest", {"documents": documents(all_texts, at, DOCUMENTS_OF_A_REQUEST)})
        while first.call("GET", "/v1/collections/default")["document_count"] < count:
            time.sleep(0.05)
        chunks = first.call("GET", "/v1/collections/default")["chunk_count"]

        def ready(one: Server) -> float:
            seconds = one.start()
            found = one.call("GET", "/v1/collections/default")["chunk_count"]
            one.stop()
            if found != chunks:
                raise RuntimeError(f"{one.name} is ready with {found} of {chunks} chunks")
            return seconds

        from_store = ready(server("second"))
        # one operation for each document
        while not any(int(copy.name) >= count for copy in (folder / "copies").glob("*/*/*/[0-9]*")):
            time.sleep(0.1)
        from_copy = ready(server("third", copies))
        return Start(chunks, folder_bytes(folder / "second" / "index"), from_store, from_copy, ready(server("second")))


@dataclass
class Memory:
    """Memory of each gateway, in MiB, every two seconds.

    RSS counts a page of a file once for each mapping, and each state of an index that a search or cursor still uses maps the files again; PSS counts it
    once. So PSS tells whether memory grows. The part of it that is no file is anonymous; files of the index grow by what is replaced, until segments are
    merged, and the system can drop their pages.
    """

    samples: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)
    searches: int = 0

    def part(self, name: str, fifth: int, kind: str = "RSS") -> float:
        """The median of a fifth of the time, from 0."""
        of_gateway = [sample[list(KINDS).index(kind)] for sample in self.samples[name]]
        return median(of_gateway[fifth * len(of_gateway) // 5 : (fifth + 1) * len(of_gateway) // 5])

    def goals(self) -> list[Goal]:
        """What is wanted."""
        found = [Goal(f"{name}: PSS in the last fifth beside the second", self.part(name, 4, "PSS") / self.part(name, 1, "PSS"), GROWTH_MAX) for name in self.samples]
        highest = max(self.part(name, 4) for name in self.samples if name != SQLITE)
        return [*found, Goal("RSS beside one machine's, MiB", highest - self.part(SQLITE, 4), RSS_ABOVE_MIB)]

    def report(self) -> str:
        """A table."""
        lines = ["| MiB, median of each fifth of the time | 1 | 2 | 3 | 4 | 5 |", "|---|---:|---:|---:|---:|---:|"]
        for kind in KINDS:
            lines += [f"| {name}, {kind} | " + " | ".join(f"{self.part(name, fifth, kind):.1f}" for fifth in range(5)) + " |" for name in self.samples]
        return "\n".join([*lines, f"{self.searches:,} searches"])


def memory_mib(pid: int) -> tuple[float, ...]:
    """The kinds of memory of a process."""
    figures = {line.split(":")[0]: line.split()[1] for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]}
    return tuple(int(figures[name]) / 1024 for name in KINDS.values())


def memory(seconds: float, count: int) -> Memory:
    """Measures memory during `seconds`, with `count` documents."""
    found, stop = Memory(), threading.Event()
    failures: list[BaseException] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis_url = stack.enter_context(redis())
        database = Postgres()
        stack.callback(database.stop)
        database.start()
        shared = NO_CACHE | {"STORE_URL": database.url, "WEIR_STORE_URL": "env:STORE_URL", "REDIS_URL": redis_url, "WEIR_REDIS_URL": "env:REDIS_URL"}
        one = gateway(SQLITE, folder / "sqlite", NO_CACHE)
        stack.callback(one.server.stop)
        first = gateway("PostgreSQL 1", folder / "1", shared)
        stack.callback(first.server.stop)
        others = []
        for number in (2, 3):
            other = Gateway(f"PostgreSQL {number}", serve(folder, number, shared), first.admin, first.limited)
            stack.callback(other.server.stop)
            others.append(other)
        all_texts = texts(count)
        for group in (one, first):
            for at in range(0, count, DOCUMENTS_OF_A_REQUEST):
                group.call("POST", "/v1/ingest", {"documents": documents(all_texts, at, DOCUMENTS_OF_A_REQUEST)})
        gateways = [one, first, *others]
        for member in gateways:
            while member.call("GET", "/v1/collections/default")["document_count"] < count:
                time.sleep(0.1)

        def paced(per_second: float, send: Callable[[int], None]) -> None:
            begun, number = time.monotonic(), 0
            try:
                while not stop.wait(max(0.0, begun + number / per_second - time.monotonic())):
                    send(number)
                    number += 1
            except BaseException as error:  # noqa: BLE001 - it is raised by the thread that waits
                failures.append(error)
                stop.set()

        def searching(member: Gateway, seed: int) -> threading.Thread:
            choose = random.Random(seed)

            def send(_: int) -> None:
                member.call("POST", "/v1/search", {"query": " ".join(choose.choices(WORDS, k=6)), "top_k": 10})
                found.searches += 1

            return threading.Thread(target=paced, args=(SEARCHES_PER_SECOND, send))

        def writing(member: Gateway) -> threading.Thread:
            choose = random.Random(3)

            def send(number: int) -> None:
                chosen = choose.randrange(count)
                if number % 4 == 3:
                    member.call("DELETE", f"/v1/collections/default/documents/d{chosen}")
                    member.call("POST", "/v1/ingest", {"documents": documents(all_texts, chosen, 1)})
                else:
                    changed = {"id": f"d{chosen}", "text": f"{all_texts[chosen]} {number}"}
                    member.call("POST", "/v1/ingest", {"documents": [changed]})

            return threading.Thread(target=paced, args=(WRITES_PER_SECOND, send))

        threads = [searching(member, seed) for seed, member in enumerate(gateways)] + [writing(one), writing(first)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not stop.wait(SAMPLE_SECONDS if seconds > 60 else 0.1):
            for member in gateways:
                found.samples.setdefault(member.name, []).append(memory_mib(member.server.pids[0]))
        stop.set()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
    return found


def serve(folder: Path, number: int, variables: dict[str, str]) -> Server:
    """One more gateway, started."""
    (folder / str(number)).mkdir()
    arguments = [WEIR, "serve", "--listen", "127.0.0.1:{port}", "--data-dir", str(folder / str(number) / "data"), "--model", str(MODEL)]
    settings = {"WEIR_LOG_LEVEL": "warn", "WEIR_LIMITS_SEARCH_WAIT_MS_MAX": "10000"}
    server = Server(f"PostgreSQL {number}", [Command(arguments, variables | settings)], folder / f"{number}.log", "/readyz")
    server.start()
    return server


def main() -> int:
    """Measures and prints."""
    stop_on_sigterm()
    parts, are_met = os.environ.get("PARTS", "start memory").split(), True
    if "start" in parts:
        started = start_of_a_gateway(int(os.environ.get("DOCUMENTS", "50000")))
        print(started.report())
        print(f"wanted: {COPY_GAIN_MIN:.0f} times", flush=True)
    if "memory" in parts:
        used = memory(60 * float(os.environ.get("MINUTES", "10")), DOCUMENTS_IN_MEMORY)
        print(used.report())
        for goal in used.goals():
            print(f"{goal.what}: {goal.value:.2f} (at most {goal.bound}){'' if goal.is_met else ', MISSED'}")
            are_met &= goal.is_met
    return int(not are_met)


if __name__ == "__main__":
    sys.exit(main())
