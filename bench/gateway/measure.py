#!/usr/bin/env python3
"""Measures Weir beside a Python service and a Go gateway over the same documents, and writes a page, plots and all figures.

    bench/gateway.sh                                     # everything
    bench/gateway.sh --rounds 1 --seconds 2 --out FOLDER # a quick look
    python bench/gateway/measure.py --tiny --weir target/checked/weir --load target/checked/weir-bench --out FOLDER

First the settings of the Python service one after the other; the best is then a row beside the others. All rows live at
the same time and take turns at each concurrency, in a random order; whatever else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import documents
import report
import services
from documents import ROOT, Corpus
from processes import EngineError
from processes.server import stop_on_sigterm
from processes.usage import resident_bytes
from report import COMPARED_CONCURRENCY, Load, Report, RowFacts, SettingResult
from services import Paths, Service

DOCUMENTS = 5_000
CONCURRENCIES = (1, 16, 64, 256)
HARNESS_REQUESTS = 2_000
STARTS = 5
WARMUP_REQUESTS_MIN = 32
TIMEOUT = "60s"
TINY_DOCUMENTS = 40


@dataclass
class Run:
    """What is measured with what, and everything that was found so far."""

    paths: Paths
    load: Path
    corpus: Corpus
    bodies: Path
    seconds: float
    rounds: int
    found: Report
    is_tiny: bool = False

    @property
    def concurrencies(self) -> tuple[int, ...]:
        """A tiny run has the compared one alone."""
        return (COMPARED_CONCURRENCY,) if self.is_tiny else CONCURRENCIES


def say(line: str) -> None:
    """Progress goes to standard error."""
    print(f"bench/gateway: {line}", file=sys.stderr, flush=True)


def available(run: Run) -> list[Service]:
    """All rows but Python's; a tiny run has those that need no model. Go is left out where its gateway could not be built."""
    paths = run.paths
    go = [services.go_thin(paths)] if paths.go.exists() else []
    if not go:
        run.found.failures.append(services.GO)
    if run.is_tiny:
        return [*go, services.weir_thin(paths)]
    weir = (services.weir_monolith, services.weir_onnx, services.weir_split, services.weir_thin)
    return [*go, *(make(paths) for make in weir)]


def tune_python(run: Run, cores: int) -> list[Service]:
    """Every setting over the same documents at the compared concurrency; of each backend the one with the most requests/s."""
    best: dict[str, tuple[float, services.PythonSetting]] = {}
    for setting in services.python_settings(cores):
        service = services.python_monolith(run.paths, setting)
        try:
            with ExitStack() as stack:
                open_service(run, service, stack)
                load = drive(run, service, COMPARED_CONCURRENCY)
        except EngineError as error:
            give_up(run, setting.name, error)
            continue
        run.found.settings.append(SettingResult(setting.name, load))
        say(f"{setting.name}: {load.requests_per_s:,.1f} requests/s, p95 {load.latency_ms_p95:.0f} ms, {load.rss_mib:,.0f} MiB")
        rate, _ = best.get(setting.backend, (0.0, setting))
        if load.requests_per_s > rate:
            best[setting.backend] = (load.requests_per_s, setting)
    return [services.python_monolith(run.paths, setting) for _, setting in best.values()]


def open_service(run: Run, service: Service, stack: ExitStack) -> None:
    """Started, filled and, if it keeps its documents, started again."""
    service.prepare()
    stack.callback(service.server.stop)
    service.server.start()
    started = time.perf_counter()
    service.fill(service.server, run.corpus.documents)
    say(f"{service.name}: {len(run.corpus.documents):,} documents in {time.perf_counter() - started:.1f} s")
    if service.is_durable:
        service.server.stop()
        service.server.start()


def give_up(run: Run, name: str, error: Exception) -> None:
    """Goes on without a peer; the page names it. Ours must run."""
    if name.startswith("Weir"):
        raise error
    say(f"left out: {error}")
    run.found.failures.append(name)


def drive(run: Run, service: Service, concurrency: int) -> Load:
    """One turn of the load generator."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "load.json"
        command = [str(run.load), "load", "--url", f"{service.server.url}/v1/search", "--concurrency", str(concurrency)]
        command += ["--duration", f"{run.seconds:g}s", "--warmup", str(max(concurrency, WARMUP_REQUESTS_MIN)), "--timeout", TIMEOUT]
        command += ["--body-file", str(run.bodies), "--shuffle", "--expect-body", service.expected]
        command += [part for pid in service.server.pids for part in ("--pid", str(pid))]
        command += ["--pid-tree", "--header", "cache-control: no-cache", "--json", str(file), "--allow-errors"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EngineError(f"{service.name} at concurrency {concurrency}: weir-bench failed:\n{done.stdout}{done.stderr}")
        return Load.of(json.loads(file.read_text(encoding="utf-8")))


def measure_rows(run: Run, chosen: list[Service]) -> None:
    """All rows alive, in turns."""
    order = Random(7)
    for number in range(run.rounds):
        for concurrency in run.concurrencies:
            order.shuffle(chosen)
            for service in chosen:
                load = drive(run, service, concurrency)
                run.found.loads.setdefault((service.name, concurrency), []).append(load)
                if load.failures:
                    say(f"{service.name} at concurrency {concurrency}: {load.failures} requests failed")
        say(f"round {number + 1} of {run.rounds}")


def measure_harness(run: Run, chosen: list[Service]) -> None:
    """The look-alike of the published load generator."""
    python = run.paths.cache / "harness" / "bin" / "python"
    script = services.PEERS / "harness" / "harness.py"
    if not python.exists():
        say("the look-alike of the published harness is not installed, left out")
        return
    for service in chosen:
        command = [str(python), str(script), "--url", service.server.url, "--queries", str(run.bodies), "--json"]
        command += ["--requests", str(HARNESS_REQUESTS), "--concurrency", str(COMPARED_CONCURRENCY)]
        done = subprocess.run([*command, "--pid", *map(str, service.server.all_pids)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            say(f"the harness against {service.name} failed: {done.stderr[-500:]}")
            continue
        run.found.harness[service.name] = json.loads(done.stdout)


def measure_facts(run: Run, chosen: list[Service]) -> None:
    """Start and size, after the load: each is stopped and started again some times, over what it holds."""
    for service in chosen:
        resident = resident_bytes(service.server.all_pids)
        seconds = []
        for _ in range(1 if run.is_tiny else STARTS):
            service.server.stop()
            seconds.append(service.server.start())
        run.found.facts[service.name] = RowFacts(service.detail, sorted(seconds), asdict(service.shipped()), resident / 2**20)


def measure_all(run: Run, cores: int) -> None:
    """The whole comparison."""
    pythons = [] if run.is_tiny else tune_python(run, cores)
    with ExitStack() as stack:
        chosen = []
        for service in [*pythons, *available(run)]:
            try:
                open_service(run, service, stack)
            except (EngineError, OSError) as error:
                give_up(run, service.name, error)
                continue
            chosen.append(service)
        run.found.names = [service.name for service in chosen]
        measure_rows(run, list(chosen))
        measure_harness(run, chosen)
        measure_facts(run, chosen)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    release = ROOT / "target" / "release"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="40 documents of the sample, no models, seconds")
    parser.add_argument("--weir", type=Path, default=release / "weir", help="the gateway's binary")
    parser.add_argument("--load", type=Path, default=release / "weir-bench", help="the load generator's binary")
    parser.add_argument("--model", type=Path, default=ROOT / "models" / services.MODEL_ID)
    parser.add_argument("--data", type=Path, help="a folder with evaluation sets; without it the documents are made of the sample")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "bench-peers", help="the peers")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks", help="where the page is written")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--seconds", type=float, default=8.0, help="of one turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=services.cores(), help="the most threads and workers of Python")
    return parser.parse_args(arguments)


def start(given: argparse.Namespace, folder: Path) -> Run:
    """Documents and an empty report."""
    corpus = documents.load(None if given.tiny else given.data, TINY_DOCUMENTS if given.tiny else given.documents)
    paths = Paths(given.weir.resolve(), given.model.resolve(), given.cache.resolve(), folder)
    seconds, rounds = (0.3, 1) if given.tiny else (given.seconds, given.rounds)
    facts = {"documents": len(corpus.documents), "characters_mean": round(corpus.characters_mean)}
    facts_of_run: dict[str, Any] = facts | {"queries": len(corpus.queries), "source": corpus.source}
    facts_of_run |= {"seconds": seconds, "rounds": rounds}
    bodies = corpus.write_bodies(folder / "queries.jsonl")
    return Run(paths, given.load.resolve(), corpus, bodies, seconds, rounds, Report(facts_of_run), given.tiny)


def main(arguments: list[str]) -> int:
    """Measures and writes; 2 when the measurement could not be made."""
    given = parse_arguments(arguments)
    stop_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="bench-gateway-") as name:
        try:
            run = start(given, Path(name))
            measure_all(run, given.cores)
        except (OSError, ValueError, EngineError, subprocess.CalledProcessError) as error:
            print(f"bench/gateway: {error}", file=sys.stderr)
            return 2
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "gateway.json").write_text(json.dumps(report.figures(run.found), indent=1) + "\n", encoding="utf-8")
    if not given.tiny:
        import plot

        plot.draw(run.found, given.out)
    (given.out / "gateway.md").write_text(report.page(run.found), encoding="utf-8")
    print(report.summary(run.found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
