"""Two builds of Weir in alternation, in one run: is the new one slower?

    python3 bench/compare.py OLD/target/release/weir NEW/target/release/weir [--rounds 9] [--seconds 4]

In every round both builds take a turn at every measurement, the order changes from round to round, and both servers run
(idle, while the other is measured), so that other load on the machine meets both. The servers are started anew for every
round: at the start a gateway measures the encoder, and by that it decides which queries several threads embed, so that
one start is one sample. Before it the binaries are removed from the page cache: resident memory counts pages of the
binary that the kernel has mapped, and it maps more of a file that was just written. A figure is the median over the
rounds; the ratio is that of the medians. A line is SLOWER when that is worse by more than --tolerance, and the new build was
the worse one in at least 85 % of the rounds (8 of 9: chance alone does that to one line in fifty).

| part | what | programs beside `weir` |
|---|---|---|
| start | time to `/readyz` with packed weights, resident memory after it, and how much of that is no file | |
| search | searches as text over HTTP, concurrency 1 and 16 (bench/search_load.py) | `weir-bench` |
| embeddings | texts of ten tokens, concurrency 16 (bench/service.py) | `weir-bench` |
| encoder | bench_encoder in process: single texts and a batch, int8 and f32 | `examples/bench_encoder` |
| index | bench_search in process: hybrid, lexical and dense, and whether the hits are identical | `examples/bench_search` |

Programs are looked for beside each `weir`; both builds are measured by the same `weir-bench`. A part whose programs are
missing is left out, and the output says so. Exits with 1 if a line is slower or hits differ.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from pages import core_count, machine, measured_cores
from processes import LineProcess
from search_load import ROOT, write_queries
from service import rss_mib, start, stop, texts

sys.path += [str(ROOT / "bench" / name) for name in ("encoder", "search")]
import cases  # noqa: E402 - of bench/encoder
import tiny  # noqa: E402 - of bench/search

SIDES = ("old", "new")
PARTS = ("start", "search", "embeddings", "encoder", "index")
MODEL = Path(os.environ.get("WEIR_TEST_MODEL", ROOT / "models" / "all-MiniLM-L6-v2"))
MODES = ("hybrid", "lexical", "dense")
PRECISIONS = ("int8", "f32")
ROUNDS_WORSE_MIN = 0.85
# Threads of some engines spin for a while after a call.
SETTLE_SECONDS = 0.02


@dataclass
class Line:
    """One figure of both builds, a value per round."""

    unit: str
    more_is_better: bool
    values: dict[str, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})

    @property
    def ratio(self) -> float:
        """New to old, of the medians."""
        return median(self.values["new"]) / median(self.values["old"])

    def is_slower(self, tolerance: float) -> bool:
        """Whether the new build is worse by more than the tolerance, in the medians and in most rounds."""
        pairs = list(zip(self.values["old"], self.values["new"], strict=True))
        worse = [old > new if self.more_is_better else new > old for old, new in pairs]
        ratio = 1 / self.ratio if self.more_is_better else self.ratio
        return ratio > 1 + tolerance and sum(worse) >= ROUNDS_WORSE_MIN * len(pairs)


@dataclass
class Comparison:
    """Both builds, and the figures so far."""

    weir: dict[str, Path]
    weir_bench: Path
    rounds: int
    seconds: float
    documents: int
    lines: dict[str, Line] = field(default_factory=dict)
    different_hits: set[str] = field(default_factory=set)
    # refused requests, for example, on a machine that is busy with other work
    failed: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, side: str, value: float, unit: str, more_is_better: bool = False) -> None:
        """One value of this round."""
        self.lines.setdefault(name, Line(unit, more_is_better)).values[side].append(value)

    def example(self, side: str, name: str) -> Path:
        """A program of `examples/` beside a build's `weir`."""
        return self.weir[side].parent / "examples" / name

    def orders(self) -> Iterator[tuple[str, ...]]:
        """For every round the order of the builds, each first in every second round."""
        for number in range(self.rounds):
            yield SIDES if number % 2 == 0 else SIDES[::-1]

    def turns(self) -> Iterator[str]:
        """The builds in every round."""
        for order in self.orders():
            yield from order

    def forget_binaries(self) -> None:
        """Removes the binaries from the page cache; what a process has mapped stays."""
        for path in self.weir.values():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def free_address() -> tuple[str, int]:
    """A port that is free now."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return ("127.0.0.1", int(listener.getsockname()[1]))


def compare_start(run: Comparison, folder: Path) -> None:
    """Starts over an empty data directory; the first start of each build packs the weights and does not count."""
    for side in SIDES:
        stop(start(folder / side, run.weir[side], free_address())[0])
    for order in run.orders():
        run.forget_binaries()
        for side in order:
            stop(start(folder / side, run.weir[side], free_address())[0])
        for side in order:
            server, seconds = start(folder / side, run.weir[side], free_address())
            time.sleep(1)
            run.add("start to /readyz", side, seconds * 1e3, "ms")
            run.add("resident memory after start", side, rss_mib(server.pid), "MiB")
            run.add("of it no file", side, rss_mib(server.pid, "RssAnon"), "MiB")
            stop(server)


@contextmanager
def servers(run: Comparison, folder: Path) -> Iterator[dict[str, tuple[str, int]]]:
    """Both builds over the sample corpus: URL and process id."""
    with ExitStack() as stack:
        found = {}
        for side in SIDES:
            address = free_address()
            is_new = not (folder / side).exists()
            server, _ = start(folder / side, run.weir[side], address)
            stack.callback(stop, server)
            url = "http://{}:{}".format(*address)
            if is_new:
                command = [run.weir[side], "ingest", ROOT / "samples" / "xquad" / "documents", "--url", url]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found[side] = (url, server.pid)
        yield found


def load(run: Comparison, side: str, name: str, server: tuple[str, int], path: str, bodies: Path, concurrency: int) -> None:
    """A closed loop of the load generator, every text embedded anew."""
    url, pid = server
    command = [run.weir_bench, "load", "--url", url + path, "--body-file", bodies, "--pid", str(pid), "--json", "-"]
    command += ["--concurrency", str(concurrency), "--threads", str(min(concurrency, 2)), "--warmup", "100"]
    command += ["--duration", f"{run.seconds}s", "--header", "cache-control: no-cache", "--allow-errors"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    run.failed[f"{name}, {side}"] += report["requests_failed"]
    run.add(f"{name}: p50", side, report["latency_ms_p50"], "ms")
    run.add(f"{name}: p99", side, report["latency_ms_p99"], "ms")
    run.add(f"{name}: rate", side, report["requests_per_s"], "/s", more_is_better=True)
    run.add(f"{name}: CPU time of the server", side, 1e6 / report["server_requests_per_cpu_s"], "us/request")
    run.add(f"{name}: highest resident memory", side, report["server_rss_bytes_max"] / 2**20, "MiB")


def compare_search(run: Comparison, folder: Path) -> None:
    """Searches of ten words."""
    bodies = write_queries(folder / "queries.jsonl")
    for order in run.orders():
        with servers(run, folder) as found:
            for side in order:
                for concurrency in (1, 16):
                    load(run, side, f"search, concurrency {concurrency}", found[side], "/v1/search", bodies, concurrency)


def compare_embeddings(run: Comparison, folder: Path) -> None:
    """Small requests."""
    bodies = folder / "inputs.jsonl"
    inputs = [{"model": "all-MiniLM-L6-v2", "input": text} for text in texts(5000, 8)]
    bodies.write_text("".join(json.dumps(body) + "\n" for body in inputs))
    for order in run.orders():
        with servers(run, folder) as found:
            for side in order:
                load(run, side, "embeddings, concurrency 16", found[side], "/v1/embeddings", bodies, 16)


class Program(LineProcess):
    """A program of `examples/` that answers lines of JSON, on the given cores."""

    def __init__(self, command: list[object], cores: list[int]) -> None:
        pinned = ["taskset", "--cpu-list", ",".join(map(str, cores)), *map(str, command)]
        super().__init__(str(command[0]), pinned, dict(os.environ), ROOT)
        self._read()


def encoder_cases(tokenize: cases.Tokenize) -> list[cases.Case]:
    """Single texts and a batch."""
    return [*(cases.lone_case(tokens, 1, tokenize) for tokens in (8, 32, 128)), cases.batch_case(128, 1, tokenize)]


def compare_encoder(run: Comparison, folder: Path) -> None:
    """The encoder alone, on one core."""
    with ExitStack() as stack:
        for precision in PRECISIONS:
            programs = {}
            for side in SIDES:
                command: list[object] = [run.example(side, "bench_encoder"), "--model", MODEL, "--precision", precision]
                command += ["--threads", 1, "--cache", folder / side]
                programs[side] = stack.enter_context(closing(Program(command, measured_cores()[-1:])))
            chosen = encoder_cases(lambda lines: list(programs["old"].call(command="tokenize", texts=lines)["sequences"]))  # noqa: B023
            for program in programs.values():
                for case in chosen:
                    program.call(command="load", case=case.name, sequences=case.sequences)
            for side in run.turns():
                for case in chosen:
                    time.sleep(SETTLE_SECONDS)
                    request = {"case": case.name, "warmup": 2, "repetitions": 10 if case.is_lone else 3}
                    times = programs[side].call(command="run", **request)["wall_ns"]
                    run.add(f"encoder, {precision}, {case.name}", side, median(times) / 1e6, "ms")


def compare_index(run: Comparison, folder: Path) -> None:
    """The index alone, on one core, over made-up documents; each build searches the index that it has built."""
    corpus = tiny.make(folder / "corpus", run.documents)
    places: list[object] = ["--corpus", corpus.folder, "--index"]
    queries = corpus.facts.queries
    programs = {}
    with ExitStack() as stack:
        for side in SIDES:
            program, index = run.example(side, "bench_search"), folder / side
            build = [program, "build", *places, index, "--documents", run.documents]
            subprocess.run(list(map(str, build)), check=True, stdout=subprocess.DEVNULL)
            programs[side] = stack.enter_context(closing(Program([program, "serve", *places, index], measured_cores()[-1:])))
            programs[side].call(command="open")
        hits: dict[str, object] = {}
        for at, side in enumerate(run.turns()):
            for mode in MODES:
                replies = [
                    programs[side].call(command="search", mode=mode, below=None, first=0, count=queries)
                    for _ in range(6)  # the first fills caches
                ][1:]
                times = sorted(ns for reply in replies for ns in reply["wall_ns"])
                run.add(f"index, {mode}: p50", side, median(times) / 1e6, "ms")
                run.add(f"index, {mode}: p99", side, times[len(times) * 99 // 100] / 1e6, "ms")
                if at < len(SIDES):
                    hits.setdefault(mode, replies[0]["hits"])
                    if hits[mode] != replies[0]["hits"]:
                        run.different_hits.add(mode)


def missing_programs(run: Comparison, part: str) -> list[Path]:
    """The programs of a part that are not built."""
    needed = {
        "search": [run.weir_bench],
        "embeddings": [run.weir_bench],
        "encoder": [run.example(side, "bench_encoder") for side in SIDES],
        "index": [run.example(side, "bench_search") for side in SIDES],
    }.get(part, [])
    return [path for path in needed if not path.exists()]


def show(run: Comparison, tolerance: float) -> None:
    """A row per line."""
    print(f"{'':<46}{'old':>11}{'new':>11}  {'unit':<11}{'new/old':>8}  quartiles of the rounds")
    for name, line in run.lines.items():
        old, new = (median(line.values[side]) for side in SIDES)
        pairs = [new / old for old, new in zip(line.values["old"], line.values["new"], strict=True)]
        low, _, high = quantiles(pairs, n=4, method="inclusive") if len(pairs) > 1 else pairs * 3
        flag = "  SLOWER" if line.is_slower(tolerance) else ""
        print(f"{name:<46}{old:>11,.3f}{new:>11,.3f}  {line.unit:<11}{line.ratio:>8.3f}  {low:.3f} to {high:.3f}{flag}")
    for name, count in (+run.failed).items():
        print(f"{name}: {count} requests failed; their times are not in the figures")
    for mode in sorted(run.different_hits):
        print(f"index, {mode}: HITS DIFFER")


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the binary `weir` to compare with")
    parser.add_argument("new", type=Path, help="the binary `weir` to compare")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each build at each measurement")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each run of the load generator")
    parser.add_argument("--documents", type=int, default=20_000, help="size of the index of the part `index`")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--weir-bench", type=Path, help="the load generator [default: beside NEW, else beside OLD]")
    parser.add_argument("--tolerance", type=float, default=0.03, help="difference that counts as slower")
    parser.add_argument("--json", type=Path, help="write all values to this file")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Compares part by part."""
    given = parse_arguments(arguments)
    weir = {"old": given.old.resolve(), "new": given.new.resolve()}
    beside = [path.with_name("weir-bench") for path in (weir["new"], weir["old"])]
    weir_bench = given.weir_bench or next((path for path in beside if path.exists()), beside[0])
    run = Comparison(weir, weir_bench.resolve(), given.rounds, given.seconds, given.documents)
    compare: dict[str, Callable[[Comparison, Path], None]] = {
        "start": compare_start,
        "search": compare_search,
        "embeddings": compare_embeddings,
        "encoder": compare_encoder,
        "index": compare_index,
    }
    print(f"{machine()}; encoder and index on one core of {core_count(len(measured_cores()))}; {given.rounds} rounds")
    for part in given.parts:
        if missing := missing_programs(run, part):
            print(f"bench/compare: {part} is left out, not built: {', '.join(map(str, missing))}", file=sys.stderr)
            continue
        print(f"bench/compare: {part}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as name:
            compare[part](run, Path(name))
    show(run, given.tolerance)
    if given.json:
        figures = {name: {"unit": line.unit, "ratio": line.ratio} | line.values for name, line in run.lines.items()}
        given.json.write_text(json.dumps(figures, indent=1) + "\n")
    is_slower = any(line.is_slower(given.tolerance) for line in run.lines.values())
    return int(is_slower or bool(run.different_hits))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
