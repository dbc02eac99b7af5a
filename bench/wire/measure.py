#!/usr/bin/env python3
"""Measures what vectors cost on the wire, from FastAPI with JSON to raw bytes and a Rust client, and writes a page, a plot and all figures.

    bench/wire.sh                               # everything
    bench/wire.sh --runs 2 --out FOLDER         # a quick look
    python bench/wire/measure.py --tiny --out FOLDER   # a stub instead of the gateway, one small case, seconds

Servers live at the same time; in each round every link has one run of every case, in a random order.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

import chain
import report
import tcp_copy
from chain import ROOT, Case, Link
from processes import EngineError
from processes.server import Server, stop_on_sigterm
from processes.usage import cpu_seconds
from report import Report, Result

RUNS = 10
COPY_SECONDS = 3.0
# Connections of the bare copy; the best counts.
COPY_CONNECTIONS = (1, 2, chain.CONCURRENCY)
CLIENT_SECONDS_MAX = 3600


@dataclass
class Run:
    """What is measured with what, and everything that was found so far."""

    python: Path
    rust: Path
    folder: Path
    cases: tuple[Case, ...]
    runs: int
    found: Report


def say(line: str) -> None:
    """Progress goes to standard error."""
    print(f"bench/wire: {line}", file=sys.stderr, flush=True)


def turn(run: Run, link: Link, server: Server, case: Case) -> None:
    """One run of a link."""
    before = cpu_seconds(server.all_pids)
    command = chain.client_command(link, server.url, case, 1, run.python, run.rust)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=CLIENT_SECONDS_MAX)
    if done.returncode != 0:
        raise EngineError(f"{link.name}: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
    cpu = cpu_seconds(server.all_pids) - before
    reply = json.loads(done.stdout)
    # the requests that opened the connections cost the server too
    served = case.requests + chain.CONCURRENCY
    result = Result(reply["seconds"][0], cpu / served, reply["reply_bytes"] / case.requests)
    run.found.results.setdefault((link.name, case), []).append(result)


def choose_workers(run: Run, counts: list[int], stack: ExitStack) -> Server:
    """The best of several numbers of workers of uvicorn, by the quickest route; all are printed."""
    link = next(link for link in chain.LINKS if link.name == chain.RAW_FASTAPI)
    case = run.cases[-1] if len(run.cases) == 1 else Case(run.cases[-1].batch, 100)
    best: tuple[float, int] | None = None
    for count in counts:
        server = chain.fastapi_server(run.python, count, run.folder)
        with ExitStack() as trial:
            trial.callback(server.stop)
            server.start()
            command = chain.client_command(link, server.url, case, 2, run.python, run.rust)
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=CLIENT_SECONDS_MAX)
        rate = case.vector_bytes * 8e-9 / min(json.loads(done.stdout)["seconds"])
        run.found.workers[count] = rate
        say(f"{server.name}: {rate:.2f} Gbit/s")
        if best is None or rate > best[0]:
            best = (rate, count)
    assert best is not None, "there is a number of workers"
    server = chain.fastapi_server(run.python, best[1], run.folder)
    stack.callback(server.stop)
    server.start()
    return server


def measure_all(run: Run, servers: dict[str, Server]) -> None:
    """All links in turns. A link that does not work is left out and named; without FastAPI there is nothing to compare with."""
    order = Random(7)
    links = [link for link in chain.LINKS if link.server in servers and (link.client != "rust" or run.rust.exists())]
    run.found.left_out += [f"{link.name} (not built)" for link in chain.LINKS if link not in links]
    for number in range(run.runs):
        turns = [(link, case) for link in links for case in run.cases]
        order.shuffle(turns)
        for link, case in turns:
            if link not in links:
                continue
            try:
                turn(run, link, servers[link.server], case)
            except EngineError as error:
                if link.server == chain.FASTAPI:
                    raise
                say(f"left out: {error}")
                run.found.left_out.append(str(error))
                links.remove(link)
        say(f"run {number + 1} of {run.runs}")


def measure_copy(run: Run, seconds: float) -> None:
    """The ceiling."""
    for connections in COPY_CONNECTIONS:
        rates = [tcp_copy.bytes_per_s(connections, seconds) * 8e-9 for _ in range(min(run.runs, 3))]
        run.found.copies[connections] = rates
        say(f"TCP copy over {connections} connections: {max(rates):.1f} Gbit/s")


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    release = ROOT / "target" / "release"
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a stub instead of the gateway, one small case")
    parser.add_argument("--weir", type=Path, default=release / "weir", help="the gateway's binary")
    parser.add_argument("--rust", type=Path, default=release / "examples" / "bench_wire", help="the Rust client")
    parser.add_argument("--python", type=Path, default=ROOT / ".cache" / "bench-peers" / "vectors" / "bin" / "python")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks", help="where the page is written")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--requests-max", type=int, default=1_000, help="leave out cases of more requests")
    parser.add_argument("--workers", type=int, nargs="+", default=sorted({chain.WORKERS_PUBLISHED, cores}), help="of uvicorn")
    return parser.parse_args(arguments)


def measure(given: argparse.Namespace, folder: Path) -> Report:
    """Starts everything and measures."""
    cases = chain.TINY_CASES if given.tiny else tuple(case for case in chain.CASES if case.requests <= given.requests_max)
    runs = 2 if given.tiny else given.runs
    # not resolved: a virtual environment's interpreter is a link
    run = Run(given.python.absolute(), given.rust.resolve(), folder, cases, runs, Report(runs, is_stub=given.tiny))
    with ExitStack() as stack:
        weir = chain.stub_server(run.python, folder) if given.tiny else chain.weir_server(given.weir.resolve(), folder)
        stack.callback(weir.stop)
        weir.start()
        fastapi = choose_workers(run, [1] if given.tiny else given.workers, stack)
        measure_all(run, {chain.FASTAPI: fastapi, chain.WEIR: weir})
    measure_copy(run, 0.2 if given.tiny else COPY_SECONDS)
    return run.found


def main(arguments: list[str]) -> int:
    """Measures and writes; 2 when the measurement could not be made."""
    given = parse_arguments(arguments)
    stop_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="bench-wire-") as name:
        try:
            found = measure(given, Path(name))
        except (OSError, ValueError, EngineError, subprocess.SubprocessError) as error:
            print(f"bench/wire: {error}", file=sys.stderr)
            return 2
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "wire.json").write_text(json.dumps(report.figures(found), indent=1) + "\n", encoding="utf-8")
    if not given.tiny:
        import plot

        plot.draw(found, given.out)
    (given.out / "wire.md").write_text(report.page(found), encoding="utf-8")
    print(report.summary(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
