#!/usr/bin/env python3
"""Measures the encoder beside its peers in one run, and writes a page, a plot and all figures.

    bench/encoder.sh                     # everything, about eight minutes after the set-up
    python bench/encoder/measure.py --tiny --binaries target/checked/examples --out FOLDER   # the encoder alone

All engines stay loaded and take turns of a few calls, case by case and round by round, in another order each time, so that
whatever else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from operator import mul
from pathlib import Path
from random import Random

import cases
import engines
import report
from cases import ROOT, Case
from engines import Engine, Process, Setup
from pages import core_count, measured_cores
from processes import EngineError

# Threads of some engines spin for a while after a call: the next engine must not share its cores with them.
SETTLE_SECONDS = 0.02
# Counted rounds that a section has at least, unless that takes twice its time.
ROUNDS_MIN = 3
# An engine that used more than this many times its share of the time skips turns after that, so that a slow peer, or
# one whose threads wait for each other on a busy machine, leaves time for the others.
TIME_SHARE_MAX = 2.0
# How the time is divided: lone texts on one core, lone texts on all, batches on all.
SHARES = (0.42, 0.08, 0.5)
TINY_TEXTS = 12
PEAK_LINE = re.compile(r"^([\w-]+): peak ([\d.]+) G f32 multiply-adds/s, ([\d.]+) G int8 multiply-adds/s")
# What only some instruction sets have, on a line of its own.
QUADS_LINE = re.compile(r"^byte products added in quads: ([\d.]+) G", re.MULTILINE)
BF16_LINE = re.compile(r"^products of brain floats: ([\d.]+) G", re.MULTILINE)


@dataclass
class Run:
    """Everything that was measured so far."""

    setup: Setup
    settle_seconds: float
    samples: dict[tuple[str, str], report.Samples] = field(default_factory=dict)
    engines: dict[str, report.EngineFacts] = field(default_factory=dict)
    peaks: list[report.Peaks] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    # by kind of engine: mean and least
    cosines: dict[str, tuple[float, float]] = field(default_factory=dict)


def measure_peaks(setup: Setup, core: int) -> report.Peaks:
    """What the core can multiply and add at most, by loops over registers alone."""
    command = ["taskset", "--cpu-list", str(core), str(setup.binaries / "peak"), "--loops"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    first, quads, bf16 = PEAK_LINE.match(output), QUADS_LINE.search(output), BF16_LINE.search(output)
    if first is None:
        raise ValueError(f"the peak's output reads otherwise: {output}")
    return report.Peaks(
        first[1],
        float(first[2]),
        float(first[3]),
        float(quads[1]) if quads else None,
        float(bf16[1]) if bf16 else None,
    )


@contextmanager
def alive(run: Run, chosen: list[Engine], cores: list[int]) -> Iterator[list[Process]]:
    """The processes of all engines that start. A peer that does not is named in the page; ours must."""
    with ExitStack() as stack:
        processes: list[Process] = []
        for engine in chosen:
            try:
                process = Process(engine, cores)
            except EngineError as error:
                give_up(run, engine, error)
                continue
            stack.callback(process.close)
            processes.append(process)
            run.engines[report.key(engine)] = report.EngineFacts(engine, process.detail, process.load_ms)
        yield processes


def give_up(run: Run, engine: Engine, error: Exception) -> None:
    """Goes on without a peer."""
    if engine.is_ours:
        raise error
    print(f"bench/encoder: left out: {error}", file=sys.stderr)
    run.failures.append(f"{engine.name}, {core_count(engine.cores)}")


def measure_section(
    run: Run, processes: list[Process], chosen: list[Case], seconds: float, peak_core: int | None = None
) -> None:
    """Rounds over all cases and engines until the time is used; the first round does not count."""
    for process in list(processes):
        try:
            for case in filter(process.engine.takes, chosen):
                process.load(case)
        except EngineError as error:
            processes.remove(process)
            give_up(run, process.engine, error)
    order = Random(7)
    rounds = 0
    used = dict.fromkeys(processes, 0.0)
    started = time.monotonic()
    while is_wanted(rounds, time.monotonic() - started, seconds):
        if peak_core is not None:
            run.peaks.append(measure_peaks(run.setup, peak_core))
        for case in chosen:
            turns = [process for process in processes if process.engine.takes(case)]
            order.shuffle(turns)
            for process in turns:
                share = (time.monotonic() - started) / len(processes)
                if rounds > ROUNDS_MIN and used[process] > TIME_SHARE_MAX * share:
                    continue
                time.sleep(run.settle_seconds)
                turn_started = time.monotonic()
                times = process.run(case, case.warmup, case.repetitions)
                used[process] += time.monotonic() - turn_started
                if rounds > 0:
                    place = (report.key(process.engine), case.name)
                    run.samples.setdefault(place, report.Samples()).add(times["wall_ns"], times["cpu_ns"])
        rounds += 1
        show_progress(chosen, rounds - 1, started + seconds)
    if len(processes) > len(engines.PRECISIONS):
        print(f"\n{what_of(chosen)}: {rounds} rounds in {time.monotonic() - started:.0f} s", file=sys.stderr)
    for process in processes:
        run.engines[report.key(process.engine)].rss_bytes = process.rss_bytes()


def is_wanted(rounds: int, elapsed: float, seconds: float) -> bool:
    """Whether a section goes on, `rounds` rounds and some time after its start; one round does not count."""
    return rounds <= 1 or elapsed < seconds or (rounds <= ROUNDS_MIN and elapsed < 2 * seconds)


def what_of(chosen: list[Case]) -> str:
    """Names a section."""
    return f"{chosen[0].name} … {chosen[-1].name}, {core_count(chosen[0].cores)}"


def show_progress(chosen: list[Case], rounds: int, until: float) -> None:
    """One line on a terminal."""
    if sys.stderr.isatty():
        left = max(until - time.monotonic(), 0)
        print(f"\r\x1b[K{what_of(chosen)}: {rounds} rounds, {left:.0f} s left", end="", file=sys.stderr, flush=True)


def measure_cosines(run: Run, chosen: list[Engine], cores: list[int], texts_max: int | None) -> None:
    """How near each kind of engine comes to the vectors recorded in f32, every text alone.

    Several processes of one thread at once: nothing is timed here.
    """
    texts = cases.fixture_texts()[:texts_max]
    expected = cases.fixture_vectors()[:texts_max]
    kinds = {engine.kind: engine for engine in reversed(chosen) if engine.kind != "st texts"}
    with closing(Process(next(engine for engine in chosen if engine.is_ours), cores)) as tokenizer:
        sequences = tokenizer.tokenize(texts)

    def measure(engine: Engine) -> None:
        try:
            with closing(Process(engine, cores)) as process:
                vectors = process.embed(sequences)
        except EngineError as error:
            give_up(run, engine, error)
            return
        found = [cosine(a, b) for a, b in zip(vectors, expected, strict=True)]
        run.cosines[engine.kind] = (sum(found) / len(found), min(found))

    with ThreadPoolExecutor(len(cores)) as pool:
        list(pool.map(measure, kinds.values()))


def cosine(a: list[float], b: list[float]) -> float:
    """The cosine of the angle between two vectors."""

    def dot(x: list[float], y: list[float]) -> float:
        return float(sum(map(mul, x, y)))

    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def measure_all(setup: Setup, seconds: float) -> report.Report:
    """The whole comparison."""
    run = Run(setup, SETTLE_SECONDS)
    several = measured_cores()
    one = several[-1:]
    print(f"bench/encoder: measuring on one core and on {core_count(len(several))}", file=sys.stderr)
    with alive(run, engines.ours(setup, 1) + engines.peers(setup, 1), one) as processes:
        all_cases = cases.all_cases(len(several), processes[0].tokenize)
        lone = [case for case in all_cases if case.cores == 1 and case.is_lone]
        measure_section(run, processes, lone, seconds * SHARES[0], peak_core=one[0])
    with alive(run, engines.ours(setup, len(several)) + engines.peers(setup, len(several)), several) as processes:
        split = [case for case in all_cases if case.cores > 1 and case.is_lone]
        if split:
            measure_section(run, processes, split, seconds * SHARES[1])
        batches = [case for case in all_cases if not case.is_lone]
        measure_section(run, processes, batches, seconds * SHARES[2])
    measure_cosines(run, engines.ours(setup, 1) + engines.peers(setup, 1), several, None)
    return report.Report(all_cases, run.samples, run.engines, run.peaks, run.failures, run.cosines)


def measure_tiny(setup: Setup) -> report.Report:
    """The encoder alone, a call or two of each kind: whether the harness still works, not how fast anything is."""
    several = measured_cores()
    run = Run(setup, 0.0)
    with alive(run, engines.ours(setup, 1), several[-1:]) as processes:
        tokenize = processes[0].tokenize
        lone = replace(cases.lone_case(8, 1, tokenize), repetitions=1)
        measure_section(run, processes, [lone], 0.0, peak_core=several[-1])
    with alive(run, engines.ours(setup, len(several)), several) as processes:
        split = replace(cases.lone_case(16, len(several), processes[0].tokenize), repetitions=1)
        texts = cases.fixture_texts()[:TINY_TEXTS]
        batch = Case("mixed lengths", len(several), texts, processes[0].tokenize(texts), warmup=0, repetitions=1)
        measure_section(run, processes, [split, batch], 0.0)
    measure_cosines(run, engines.ours(setup, 1), several, TINY_TEXTS)
    return report.Report([lone, split, batch], run.samples, run.engines, run.peaks, run.failures, run.cosines)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="the encoder alone, in seconds; needs no peer")
    parser.add_argument("--binaries", type=Path, default=ROOT / "target" / "release" / "examples")
    parser.add_argument("--model", type=Path, default=ROOT / "models" / "all-MiniLM-L6-v2")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "bench-encoder", help="peers and their models")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks", help="where the page is written")
    parser.add_argument("--minutes", type=float, default=7.5, help="how long to measure, without loading and cosines")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Measures and writes; 2 when the measurement could not be made."""
    options = parse_arguments(arguments)
    setup = Setup(options.binaries.resolve(), options.model.resolve(), options.cache.resolve())
    try:
        found = measure_tiny(setup) if options.tiny else measure_all(setup, options.minutes * 60)
    except (OSError, ValueError, EngineError, subprocess.CalledProcessError) as error:
        print(f"bench/encoder: {error}", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    figures = report.figures(found)
    (options.out / "encoder.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if not options.tiny:
        import plot

        plot.draw(found, options.out / "encoder.svg")
    page = report.page(found)
    (options.out / "encoder.md").write_text(page, encoding="utf-8")
    print(report.summary(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
