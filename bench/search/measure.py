#!/usr/bin/env python3
"""Measures search beside its peers in one run, and writes a page, plots and all figures.

    bench/search.sh                                  # everything; the first run embeds the corpus and builds all
    bench/search.sh --sizes 10000 50000 --out FOLDER # a quick look
    python bench/search/measure.py --tiny --binaries target/checked/examples --out FOLDER   # 1,000 documents, seconds

At each size every engine lives in a process of its own, and they take turns of some queries at each kind of search, in a
random order; whatever else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import corpus as corpora
import engines
import report
import truth as truths
from corpus import Corpus
from engines import Engine, Process, Setup
from pages import core_count, measured_cores
from processes import EngineError
from report import Case, Report

SIZES = (10_000, 50_000, 100_000, 200_000, 1_000_000)
# Sizes at which only ours is measured: at 200,000 every document is real.
OURS_ALONE = (200_000,)
BOUNDS = (1, 10, 100, 500)
# Searches per second are measured with these numbers of threads, up to the number of cores.
THREADS = (1, 2, 4)
QUERIES_PER_TURN = 100
TUNING_QUERIES = 200
# Weir reads once a second how many cores it may use: after binding a process to other cores, wait for longer.
REBOUND_SECONDS = 1.2
RECALL_WANTED = 0.99
# Minimum number of rounds, so that every query is asked; the first does not count.
ROUNDS_MIN = 3
# Of an engine that used this many times its share of the time a turn has fewer queries.
SLOW_TURN_SECONDS = 1.0
FUSED_LENGTH = 1000


@dataclass
class Run:
    """Everything that was measured so far."""

    setup: Setup
    corpus: Corpus
    found: Report
    seconds: float
    # sizes at which only ours is measured, filters included
    alone: tuple[int, ...] = ()
    is_tiny: bool = False

    @property
    def cores(self) -> list[int]:
        """All cores that are measured on; the last of them is used for measurements on one core."""
        return measured_cores()


@contextmanager
def alive(run: Run, documents: int, chosen: list[Engine]) -> Iterator[list[Process]]:
    """The processes of all engines that can be built and start. The page names a peer that does not; ours must."""
    with ExitStack() as stack:
        processes: list[Process] = []
        for engine in chosen:
            try:
                folder, built = engines.build(run.setup, engine, documents, run.cores)
                process = Process(run.setup, engine, folder, run.cores)
            except EngineError as error:
                give_up(run, engine, documents, error)
                continue
            stack.callback(process.close)
            processes.append(process)
            run.found.add_engine(documents, engine, process.detail, built, process.opened)
            times = f"built in {built.total_seconds:.0f} s, opened in {process.opened.seconds:.2f} s"
            say(f"{documents:,}: {engine.name}: {times}")
        yield processes


def give_up(run: Run, engine: Engine, documents: int, error: Exception) -> None:
    """Goes on without a peer."""
    if engine.is_ours:
        raise error
    say(f"left out: {error}")
    run.found.failures.append(f"{engine.name} at {documents:,}")


def say(line: str) -> None:
    """Progress goes to standard error."""
    print(f"bench/search: {line}", file=sys.stderr, flush=True)


def tune(run: Run, processes: list[Process], documents: int) -> None:
    """For each approximate peer the cheapest setting whose recall is enough, or its best."""
    exact = truths.truth(run.corpus, documents, None)
    for process in processes:
        tried = {}
        for effort in process.engine.efforts if "dense" in process.engine.modes else ():
            reply = process.call(
                command="search", mode="dense", below=None, first=0, count=TUNING_QUERIES, effort=effort
            )
            tried[effort] = exact.recall(0, reply["hits"])
            if tried[effort] >= RECALL_WANTED:
                break
        if tried:
            best = max(tried, key=lambda effort: (min(tried[effort], RECALL_WANTED), -effort))
            run.found.efforts[documents, process.engine.name] = best
    for name, other in engines.BUILT_BY.items():
        if (documents, other) in run.found.efforts:
            run.found.efforts[documents, name] = run.found.efforts[documents, other]


def cases_of(documents: int, cores: int, with_filters: bool) -> list[Case]:
    """The kinds of search at a size, on one core and on all."""
    plain = [Case(documents, mode, None, count) for count in sorted({1, cores}) for mode in engines.MODES]
    if not with_filters:
        return plain
    filtered = [Case(documents, mode, below, cores) for mode in ("dense", "hybrid") for below in BOUNDS]
    return plain + filtered


def measure_cases(run: Run, processes: list[Process], cases: list[Case]) -> None:
    """Rounds over all cases and engines until the time is used; the first round does not count."""
    order = Random(7)
    started, rounds = time.monotonic(), 0
    by_cores = [(case_cores, [case for case in cases if case.cores == len(case_cores)]) for case_cores in core_sets(run)]
    while rounds <= (1 if run.is_tiny else ROUNDS_MIN) or time.monotonic() - started < run.seconds:
        for cores, group in by_cores:
            for process in processes:
                process.bind(cores)
            if not run.is_tiny:
                time.sleep(REBOUND_SECONDS)
            for case in group:
                turns = [process for process in processes if takes(process.engine, case)]
                order.shuffle(turns)
                for process in turns:
                    take_turn(run, process, case, rounds)
        rounds += 1
    say(f"{cases[0].documents:,}: {rounds} rounds in {time.monotonic() - started:.0f} s")


def core_sets(run: Run) -> list[list[int]]:
    """One core and all of them; on a machine with one core only that."""
    return [run.cores[-1:], run.cores] if len(run.cores) > 1 else [run.cores]


def takes(engine: Engine, case: Case) -> bool:
    """Whether the engine is measured there."""
    return case.mode in engine.modes and (case.below is None or engine.filters)


def take_turn(run: Run, process: Process, case: Case, rounds: int) -> None:
    """Some queries, as many as fit into a turn; every round has others."""
    samples = run.found.samples_of(process.engine.name, case)
    slow = samples.wall_ns and sum(samples.wall_ns) / len(samples.wall_ns) * QUERIES_PER_TURN > SLOW_TURN_SECONDS * 1e9
    count = QUERIES_PER_TURN // 5 if slow else QUERIES_PER_TURN
    first = max(rounds - 1, 0) * QUERIES_PER_TURN
    effort = run.found.efforts.get((case.documents, process.engine.name), 0)
    request = {"mode": case.mode, "below": case.below, "first": first, "count": count, "effort": effort}
    reply = process.call(command="search", **request)
    if "unsupported" in reply:
        run.found.unsupported.add((process.engine.name, str(reply["unsupported"])))
    elif rounds > 0:
        samples.add(first, reply["wall_ns"], reply["hits"])


def score(run: Run, documents: int) -> None:
    """Recall of every case that has vectors; the hits are not needed after."""
    truth_of = {below: truths.truth(run.corpus, documents, below) for below in (None, *BOUNDS)}
    for (_, case), samples in run.found.samples.items():
        if case.documents != documents or not samples.turns:
            continue
        exact = truth_of[case.below]
        shares = [(len(hits), exact.full(first, hits)) for first, hits in samples.turns]
        samples.full = weighted(shares)
        if case.mode == "dense":
            samples.recall = weighted([(len(hits), exact.recall(first, hits)) for first, hits in samples.turns])
            real = [(len(hits), exact.recall_of_real(first, hits)) for first, hits in samples.turns]
            samples.recall_real = weighted(real)
        samples.turns.clear()


def weighted(shares: list[tuple[int, float]]) -> float:
    """The mean of parts of several sizes."""
    return sum(count * share for count, share in shares) / max(sum(count for count, _ in shares), 1)


def measure_throughput(run: Run, processes: list[Process], documents: int, seconds: float) -> None:
    """Searches per second by threads, on all cores."""
    for process in processes:
        process.bind(run.cores)
    for mode in ("hybrid", "lexical"):
        for threads in sorted({threads for threads in THREADS if threads < len(run.cores)} | {len(run.cores)}):
            for process in processes:
                if mode in process.engine.modes:
                    effort = run.found.efforts.get((documents, process.engine.name), 0)
                    reply = process.call(
                        command="throughput", mode=mode, threads=threads, seconds=seconds, effort=effort
                    )
                    rate = reply["searches"] / reply["seconds"]
                    run.found.rates[process.engine.name, documents, mode, threads] = rate


def measure_ours(run: Run, process: Process, documents: int) -> None:
    """Where the time of a hybrid search goes, and what merging two long lists takes."""
    process.bind(run.cores[-1:])
    run.found.parts[documents] = process.call(command="parts", first=0, count=QUERIES_PER_TURN * 5)["parts"]
    reply = process.call(command="fusion", length=FUSED_LENGTH, count=QUERIES_PER_TURN * 5)
    run.found.fusion_ns = reply["wall_ns"]


def measure_size(run: Run, documents: int, chosen: list[Engine]) -> None:
    """Everything at one size."""
    chosen = [engine for engine in chosen if engine.takes(documents)]
    if documents in (*OURS_ALONE, *run.alone):
        chosen = [engine for engine in chosen if engine.name == engines.OURS]
    with alive(run, documents, chosen) as processes:
        tune(run, processes, documents)
        measure_cases(run, processes, cases_of(documents, len(run.cores), with_filters=documents not in OURS_ALONE))
        measure_throughput(run, processes, documents, 0.2 if run.is_tiny else 2.0)
        for process in processes:
            run.found.facts[documents, process.engine.name].warm = process.memory()
            if process.engine.name == engines.OURS:
                measure_ours(run, process, documents)
    score(run, documents)


def measure_text_over_http(run: Run, documents: int) -> None:
    """A query of few words as text, embedded by the gateway, at concurrency 1, by the load generator."""
    engine = next(engine for engine in engines.through_python() if engine.name == engines.OURS_HTTP)
    folder, _ = engines.build(run.setup, engine, documents, run.cores)
    import http_load

    run.found.text_over_http = http_load.measure(run.setup, run.corpus, folder)


def measure_all(run: Run, sizes: list[int], only: list[str] | None) -> None:
    """The whole comparison."""
    chosen = engines.ours() + engines.through_python()
    if run.is_tiny:  # the gateway would embed the documents with a model
        chosen = [engine for engine in chosen if engine.name != engines.OURS_HTTP]
    if only:
        chosen = [engine for engine in chosen if engine.name in only]
    for documents in sizes:
        measure_size(run, documents, chosen)
    if engines.DOCUMENTS_MAX[engines.OURS_HTTP] in sizes and any(engine.name == engines.OURS_HTTP for engine in chosen):
        measure_text_over_http(run, engines.DOCUMENTS_MAX[engines.OURS_HTTP])


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    root = engines.ROOT
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tiny", action="store_true", help="1,000 made-up documents, and only the peers that are installed"
    )
    parser.add_argument("--made", type=int, help="documents that are made up, as in a tiny run, instead of real ones: no embedding")
    parser.add_argument("--binaries", type=Path, default=root / "target" / "release" / "examples")
    parser.add_argument("--model", type=Path, default=root / "models" / "all-MiniLM-L6-v2")
    parser.add_argument("--data", type=Path, help="a folder with evaluation sets, more real passages")
    parser.add_argument("--cache", type=Path, default=root / ".cache" / "bench-search", help="corpus, peers, indexes")
    parser.add_argument("--out", type=Path, default=root / "docs" / "benchmarks", help="where the page is written")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--alone", type=int, nargs="+", default=[], help="sizes at which only ours is measured, to save an hour")
    parser.add_argument("--engines", nargs="+", help="only these, by name")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long each size is measured, without building")
    return parser.parse_args(arguments)


def start(given: argparse.Namespace, cache: Path) -> Run:
    """The corpus, made if it isn't there, and an empty report."""
    model = given.model.resolve()
    if given.tiny:
        import tiny

        made = tiny.make(cache / "corpus")
    elif given.made:
        import tiny

        folder = cache / f"made-{given.made}"
        if not (folder / "corpus.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            tiny.make(folder, given.made)
        made = corpora.load(folder)
    else:
        size = (corpora.REAL_MAX, corpora.DOCUMENTS, corpora.QUERIES)
        made = corpora.make(cache, given.binaries.resolve(), model, given.data, size)
    setup = Setup(given.binaries.resolve(), cache, made.folder, made.facts.hash)
    return Run(setup, made, Report(made.facts, len(measured_cores())), 0.0 if given.tiny else given.seconds, tuple(given.alone), given.tiny)


def main(arguments: list[str]) -> int:
    """Measures and writes; 2 when the measurement could not be made."""
    given = parse_arguments(arguments)
    with tempfile.TemporaryDirectory() as name:
        try:
            say(f"measuring on one core and on {core_count(len(measured_cores()))}")
            run = start(given, Path(name) if given.tiny else given.cache.resolve())
            sizes = [run.corpus.facts.documents] if given.tiny else given.sizes
            measure_all(run, sizes, given.engines)
        except (OSError, ValueError, EngineError, subprocess.CalledProcessError) as error:
            print(f"bench/search: {error}", file=sys.stderr)
            return 2
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "search.json").write_text(json.dumps(report.figures(run.found), indent=1) + "\n", encoding="utf-8")
    if not given.tiny:
        import plot

        plot.draw(run.found, given.out)
    (given.out / "search.md").write_text(report.page(run.found), encoding="utf-8")
    print(report.summary(run.found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
