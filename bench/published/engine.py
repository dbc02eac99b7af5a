#!/usr/bin/env python3
"""Measures the rows of the published search engine that no other script makes, and writes engine.json.

    python bench/published/engine.py --binaries target/release/examples --out FOLDER
    python bench/published/engine.py --tiny --binaries target/checked/examples --out FOLDER     # 300 documents, seconds

Documents are made up (`bench/search/tiny.py`): words whose frequencies follow Zipf's law. Means have a 95 % interval by bootstrap, as
Criterion computes it: 1,000 resamples of the times of single calls.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import engines
import published
import tiny
from engines import Engine, Process, Setup
from pages import machine, measured_cores
from processes import EngineError
from report import percentile

RESAMPLES = 1_000
BATCH, SERIAL = 10_000, 1


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    indexed: tuple[int, ...]
    serial_max: int
    latency: tuple[int, ...]
    workers: tuple[int, ...]
    queries: tuple[int, ...]
    fused: tuple[int, ...]
    # over which the workers search
    compared: int
    calls: int


FULL = Sizes(
    published.SIZES, published.SERIAL_MAX, published.LATENCY_SIZES, published.WORKERS, published.QUERIES, published.FUSED, 50_000, 5_000
)
TINY = Sizes((100, 300), 100, (100, 300), (1, 3), (20, 50), (10, 100), 300, 40)


def say(line: str) -> None:
    """Progress goes to standard error."""
    print(f"bench/published: {line}", file=sys.stderr, flush=True)


def summary(times_ns: list[int], seed: int = 7) -> dict[str, float]:
    """Percentiles and the mean with its interval, in µs."""
    random = Random(seed)
    means = sorted(fmean(random.choices(times_ns, k=len(times_ns))) for _ in range(RESAMPLES))
    low, high = means[RESAMPLES // 40], means[-RESAMPLES // 40]
    found = {f"p{part}": percentile(times_ns, part / 100) for part in (50, 95, 99)}
    return {name: value / 1e3 for name, value in (found | {"mean": fmean(times_ns), "low": low, "high": high}).items()}


def build(setup: Setup, engine: Engine, documents: int, batch: int, cores: Iterable[int]) -> tuple[Path, float]:
    """An index that is made now, and documents/s until all are durable."""
    folder = setup.cache / f"published-{documents}-{batch}"
    command = engine.command(setup, "build", folder)
    # the last of two options counts
    command += ["--documents", str(documents), "--batch", str(batch)]
    done = subprocess.run(engines.pinned(command, cores), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EngineError(f"{engine.name} could not be built:\n{done.stderr[-1500:]}")
    return folder, documents / float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def measure(setup: Setup, sizes: Sizes) -> dict[str, Any]:
    """Everything, in order: nothing else of this project runs beside it."""
    (engine,) = [one for one in engines.ours() if one.name == engines.TEXT_ONLY]
    cores = measured_cores()
    found: dict[str, Any] = {"machine": machine(), "index": {"serial": {}, "in batches": {}}, "latency": {}}
    folders = {}
    for size in sizes.indexed:
        folders[size], rate = build(setup, engine, size, BATCH, cores)
        found["index"]["in batches"][size] = rate
        if size <= sizes.serial_max:
            found["index"]["serial"][size] = build(setup, engine, size, SERIAL, cores)[1]
        say(f"{size:,} documents indexed")
    for size in sizes.latency:
        process = Process(setup, engine, folders[size], cores[-1:])
        try:
            found["latency"][size] = summary(search(process, sizes.calls))
            if size == sizes.compared:
                measure_compared(found, process, sizes, cores)
        finally:
            process.close()
        say(f"{size:,} documents searched")
    return found


def search(process: Process, calls: int) -> list[int]:
    """Lexical searches, after as many that do not count."""
    process.call(command="search", mode="lexical", below=None, first=0, count=calls)
    return list(process.call(command="search", mode="lexical", below=None, first=0, count=calls)["wall_ns"])


def measure_compared(found: dict[str, Any], process: Process, sizes: Sizes, cores: list[int]) -> None:
    """At the size of the published tables: parsing, fusion, workers, memory."""
    found["parse"] = {kind: summary(process.call(command="parse", kind=kind, count=sizes.calls)["wall_ns"]) for kind in published.PARSED}
    found["fusion"] = {length: summary(process.call(command="fusion", length=length, count=sizes.calls)["wall_ns"]) for length in sizes.fused}
    process.bind(cores)
    rates: dict[int, dict[int, float]] = {}
    for workers in sizes.workers:
        for queries in sizes.queries:
            reply = process.call(command="workers", mode="lexical", workers=workers, count=queries)
            rates.setdefault(workers, {})[queries] = reply["searches"] / reply["seconds"]
    found["workers"] = rates
    before, opened, warm = process.opened.before, process.opened.after, process.memory()
    found["memory"] = {
        "before": before.total / 2**20,
        "after": warm.total / 2**20,
        "opened": (opened - before).total / sizes.compared,
        "warm": (warm - before).total / sizes.compared,
    }


def main(arguments: list[str]) -> int:
    """Measures and writes; 2 when the measurement could not be made."""
    root = engines.ROOT
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="300 documents")
    parser.add_argument("--binaries", type=Path, default=root / "target" / "release" / "examples")
    parser.add_argument("--cache", type=Path, default=root / ".cache" / "bench-published", help="documents and indexes, made anew each time")
    parser.add_argument("--out", type=Path, required=True, help="the folder of engine.json")
    given = parser.parse_args(arguments)
    sizes = TINY if given.tiny else FULL
    given.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.cache) as name:
        try:
            corpus = tiny.make(Path(name) / "corpus", max(sizes.indexed))
            say(f"{max(sizes.indexed):,} documents made, on {len(os.sched_getaffinity(0))} cores")
            found = measure(Setup(given.binaries.resolve(), Path(name), corpus.folder, corpus.facts.hash), sizes)
        except (OSError, ValueError, EngineError) as error:
            print(f"bench/published: {error}", file=sys.stderr)
            return 2
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "engine.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
