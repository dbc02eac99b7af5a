#!/usr/bin/env python3
"""Measures the LLM gateway beside plain proxies and other gateways against one mock, and writes a page, plots and all figures.

    bench/llm.sh                                           # everything, about 20 minutes
    SECONDS_PER_TURN=1 ROUNDS=1 RATES="500 2000" PEERS="floor go weir" OUT=FOLDER bench/llm.sh
    python bench/llm/measure.py --tiny --peers floor,weir --out FOLDER --weir … --load … --mock … --floor …

All targets live at the same time. Each scenario restarts the mock with its behaviour; then every target has a turn, in a
random order; whatever else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import costs
import overload
import report
import scenarios
import targets
from postgres import Postgres
from processes import EngineError
from processes.server import Server, free_ports, stop_on_sigterm
from results import Check, Load, Report, Rows
from scenarios import Kind, Scenario
from targets import DIRECT, NAMES, ROOT, WEIR_EMBEDDING, WEIR_L2, WEIR_PG, Paths, Target

TIMEOUT = "10s"
WARMUP_STREAMS = 8
# The last part of every reply: cut JSON has none.
EXPECTED = '"total_tokens"'
# Beside its streams a gateway needs a few files, and each stream takes two.
FILES_RESERVED = 500
CHECK_SECONDS_MAX = 60.0


@dataclass
class Run:
    """What is measured with what, and everything that was found so far."""

    paths: Paths
    mock_port: int
    seconds: float
    rounds: int
    found: Report
    chosen: list[Target] = field(default_factory=list)
    mock: Server | None = None
    postgres: Postgres | None = None
    # of Weir L3: requests that were sent to it, and CPU time of PostgreSQL meanwhile
    sent: int = 0
    postgres_cpu_s: float = 0.0
    # of `time.monotonic`; no scenario begins after it
    deadline: float = math.inf


def say(line: str) -> None:
    """Progress goes to standard error."""
    print(f"bench/llm: {line}", file=sys.stderr, flush=True)


def makers(run: Run) -> dict[str, Callable[[], Target]]:
    """How each peer is made."""
    paths, port = run.paths, run.mock_port
    return {
        "floor": lambda: targets.floor(paths, port),
        "go": lambda: targets.go(paths, port),
        "weir": lambda: targets.weir(paths, port),
        "weir-guard": lambda: targets.weir(paths, port, WEIR_L2),
        "weir-pg": lambda: targets.weir(paths, port, WEIR_PG, run.postgres.url if run.postgres else None),
        "weir-embedding": lambda: targets.weir(paths, port, WEIR_EMBEDDING),
        "portkey": lambda: targets.portkey(paths, port),
        "litellm": lambda: targets.litellm(paths, port, 1),
        "litellm-4": lambda: targets.litellm(paths, port, 4),
        "litellm-rs": lambda: targets.litellm_rs(paths, port),
    }


def restart_mock(run: Run, flags: tuple[str, ...]) -> None:
    """The backend with another behaviour, at the same port."""
    stop_mock(run)
    run.mock = targets.mock(run.paths, run.mock_port, flags)
    run.mock.start()


def stop_mock(run: Run) -> None:
    """Ends the backend."""
    if run.mock is not None:
        run.mock.stop()
        run.mock = None


def open_targets(run: Run, peers: list[str], stack: ExitStack) -> None:
    """Starts everything and looks at one reply of each."""
    if "weir-pg" in peers:
        run.postgres = Postgres()
        stack.callback(run.postgres.stop)
        run.postgres.start()
    stack.callback(stop_mock, run)
    restart_mock(run, scenarios.STREAM)
    reference = fetch(run.mock_port, [], is_stream=True)
    (run.paths.data / "reference.sse").write_bytes(reference)
    run.found.checks[DIRECT] = Check(events(reference), True)
    run.found.names, run.found.details[DIRECT] = [DIRECT], "weir-mock, 2 threads, nothing between"
    for peer, make in makers(run).items():
        if peer not in peers:
            continue
        if peer == "weir-embedding" and not (run.paths.model / "tokenizer.json").exists():
            run.found.left_out[NAMES[peer]] = f"no model in {run.paths.model.name}; scripts/setup.sh fetches it"
            continue
        try:
            target = make()
            open_target(target, stack)
            run.found.checks[target.name] = check(run, target, reference)
        except (EngineError, OSError, http.client.HTTPException) as error:
            give_up(run, NAMES[peer], error)
            continue
        run.chosen.append(target)
        run.found.names.append(target.name)
        run.found.details[target.name] = target.detail


def open_target(target: Target, stack: ExitStack) -> None:
    """Starts it; what is not installed cannot start."""
    if target.needs is not None and not target.needs.exists():
        raise EngineError(f"{target.needs.name} is not installed; bench/llm.sh does it")
    stack.callback(target.server.stop)
    say(f"{target.name} started in {target.server.start():.1f} s")


def give_up(run: Run, name: str, error: Exception) -> None:
    """Goes on without a peer; the page names it. Ours must run."""
    if name.startswith("Weir"):
        raise EngineError(f"{name}: {error}") from error
    say(f"{name} is left out: {error}")
    lines = str(error).strip().splitlines() or [type(error).__name__]
    run.found.left_out[name] = lines[0][:200]


def check(run: Run, target: Target, reference: bytes) -> Check:
    """A reply, and a stream beside the mock's."""
    fetch(target.server.port, target.headers, is_stream=False)
    stream = fetch(target.server.port, target.headers, is_stream=True)
    if target.name == WEIR_PG:
        run.sent += 2
    found = Check(events(stream), without_ids(stream) == without_ids(reference))
    say(f"{target.name}: {found.events} events, {'the same bytes' if found.is_equal else 'other bytes'}")
    return found


def fetch(port: int, headers: list[str], *, is_stream: bool) -> bytes:
    """The body of one reply."""
    content = {"model": targets.MODEL, "stream": is_stream, "messages": [{"role": "user", "content": "say it"}]}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=CHECK_SECONDS_MAX)
    given = {"content-type": "application/json"} | dict(header.split(": ", 1) for header in headers)
    try:
        connection.request("POST", targets.CHAT, json.dumps(content), given)
        reply = connection.getresponse()
        body = reply.read()
    finally:
        connection.close()
    if reply.status != 200:
        raise EngineError(f"a chat request was answered {reply.status}: {body[:300]!r}")
    return body


def without_ids(body: bytes) -> bytes:
    """As weir-bench compares."""
    return re.sub(rb'("id":")[^"]*', rb"\1", body)


def events(body: bytes) -> int:
    """Blocks with data."""
    return sum(b"data:" in block for block in body.replace(b"\r\n", b"\n").split(b"\n\n"))


def takes_part(run: Run, scenario: Scenario, target: Target | None) -> bool:
    """Whether a scenario is for a target, which can do what it asks as far as its closed loop tells."""
    if target and scenario.is_beside_embedding != (target.name == WEIR_EMBEDDING):
        return False
    first = run.found.scenarios[0].name
    capacity = run.found.load(first, target.name) if target else None
    return capacity is None or capacity.requests_per_s >= scenario.capacity_min


def command_of(run: Run, scenario: Scenario, target: Target | None, file: Path) -> list[str]:
    """The load generator's arguments for one turn; without a target the mock is called."""
    server = target.server if target else run.mock
    assert server is not None, "the mock runs during every turn"
    seconds = scenario.seconds or run.seconds
    command = [str(run.paths.load), "load", "--url", f"{server.url}{targets.CHAT}", "--concurrency", str(scenario.concurrency)]
    command += ["--duration", f"{seconds:g}s", "--timeout", TIMEOUT, "--chat-bytes", str(scenario.body_bytes), "--chat-model", targets.MODEL]
    command += [part for pid in server.pids for part in ("--pid", str(pid))]
    command += ["--pid-tree", "--json", str(file), "--allow-errors"]
    command += [part for header in (target.headers if target else []) for part in ("--header", header)]
    if scenario.rate is not None:
        command += ["--rate", f"{scenario.rate:g}"]
    if scenario.kind is Kind.HOLD:
        return [*command, "--stream", "--hold"]
    if scenario.kind is not Kind.STREAM:
        return [*command, "--warmup", str(scenario.concurrency), "--expect-body", EXPECTED]
    command += ["--stream", "--warmup", str(WARMUP_STREAMS)]
    name = target.name if target else DIRECT
    if run.found.checks[name].is_equal:
        # The tokens of a scenario are not those of the check unless its mock is the same.
        reference = run.paths.data / f"{scenario.name}.sse"
        command += ["--reference", str(reference), "--expect-events", str(events(reference.read_bytes()))]
    return command


def drive(run: Run, scenario: Scenario, target: Target | None) -> Load:
    """One turn of the load generator."""
    name = target.name if target else DIRECT
    is_counted = name == WEIR_PG and run.postgres is not None
    if run.mock is not None:
        # Its requests are numbered anew: every target meets the same faults.
        run.mock.call("POST", "/mock/reset")
    cpu_before = run.postgres.cpu_seconds() if run.postgres and is_counted else 0.0
    file = run.paths.data / "load.json"
    done = subprocess.run(command_of(run, scenario, target, file), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EngineError(f"{name} in {scenario.name}: weir-bench failed:\n{done.stdout}{done.stderr}")
    figures = json.loads(file.read_text(encoding="utf-8"))
    for line in [*figures["warnings"], *(f"{kind}: {example}" for kind, example in figures["failure_examples"].items())]:
        say(f"{name} in {scenario.name}: {line}")
    if run.postgres and is_counted:
        run.sent += int(figures["requests_sent"]) + int(figures["requests_warmup"])
        run.postgres_cpu_s += run.postgres.cpu_seconds() - cpu_before
    return Load.of(figures)


def measure_all(run: Run, seed: int = 7) -> None:
    """Every scenario of every round."""
    order = Random(seed)
    for number in range(run.rounds):
        for scenario in run.found.scenarios:
            if scenario.is_once and number > 0:
                continue
            if time.monotonic() > run.deadline:
                run.found.left_out.setdefault(scenario.title, "the time was over")
                continue
            embedding = next((target for target in run.chosen if target.name == WEIR_EMBEDDING), None)
            if scenario.is_beside_embedding and embedding is None:
                continue
            restart_mock(run, scenario.mock)
            if scenario.kind is Kind.STREAM:
                (run.paths.data / f"{scenario.name}.sse").write_bytes(fetch(run.mock_port, [], is_stream=True))
            turns: list[Target | None] = [None, *run.chosen]
            order.shuffle(turns)
            with overload.embeddings(run.paths, embedding) if scenario.is_beside_embedding else nullcontext():
                for target in turns:
                    if takes_part(run, scenario, target):
                        run.found.add(scenario.name, target.name if target else DIRECT, number, drive(run, scenario, target))
            say(f"round {number + 1} of {run.rounds}: {scenario.title}")


def count_rows(run: Run) -> None:
    """Every request to Weir L3 must have a row."""
    if run.postgres is None:
        return
    rows = run.postgres.rows()
    run.found.rows = Rows(run.postgres.version(), run.sent, rows, run.postgres_cpu_s * 1e6 / max(rows, 1))
    say(f"{rows:,} rows of {run.sent:,} requests")


def measure_costs(run: Run) -> None:
    """Guardrails alone, then cache hits and retrieval; without what they need the page says that they are missing."""
    restart_mock(run, ())
    for title, measure in (("Guardrails alone", costs.guardrails), ("Cache hits and retrieval", costs.timings)):
        try:
            measure(run.paths, run.mock_port, run.seconds, run.rounds, run.found)
            say(title)
        except FileNotFoundError as error:
            run.found.left_out[title] = str(error)
            say(f"{title} left out: {error}")


def streams_max(wanted: int) -> int:
    """As many streams as the limit of open files allows a gateway."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = wanted if limit == resource.RLIM_INFINITY else (limit - FILES_RESERVED) // 2
    if possible < wanted:
        say(f"the limit of {limit:,} open files allows {possible:,} instead of {wanted:,} streams")
    return min(wanted, possible)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    release = ROOT / "target" / "release"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="one scenario of each kind, seconds")
    parser.add_argument("--weir", type=Path, default=release / "weir", help="the gateway's binary")
    parser.add_argument("--load", type=Path, default=release / "weir-bench", help="the load generator's binary")
    parser.add_argument("--mock", type=Path, default=release / "weir-mock", help="the mock's binary")
    parser.add_argument("--floor", type=Path, default=ROOT / ".cache" / "bench-peers" / "floor", help="the Rust floor's binary")
    parser.add_argument("--guardrails", type=Path, default=release / "examples" / "bench_guardrails", help="the measurement of crates/guardrails")
    parser.add_argument("--model", type=Path, default=ROOT / "models" / "all-MiniLM-L6-v2", help="an embedding model, for semantic hits and retrieval")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "bench-peers", help="the peers")
    parser.add_argument("--out", type=Path, help="where the page is written; docs/benchmarks without it")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one turn")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peers", default=",".join(NAMES), help="separated by commas or spaces")
    parser.add_argument("--rates", default=" ".join(map(str, scenarios.RATES)), help="requests/s, separated by commas or spaces")
    parser.add_argument("--active", type=int, default=scenarios.HOLD_ACTIVE, help="open streams that send; 0 leaves them out")
    parser.add_argument("--idle", type=int, default=scenarios.HOLD_IDLE, help="open streams that do not send; 0 leaves them out")
    parser.add_argument("--scenarios", default="", help="their names in llm.json, separated by commas or spaces; all without it. Needs --out, which gets no plots")
    parser.add_argument("--published", action="store_true", help="the rows of the published experiment instead (bench/published.sh). Needs --out, which gets no plots")
    parser.add_argument("--minutes-max", type=float, default=math.inf, help="no scenario begins after this time, which the page says")
    given = parser.parse_args(arguments)
    given.peers = given.peers.replace(",", " ").split()
    given.rates = tuple(sorted({int(rate) for rate in given.rates.replace(",", " ").split()}))
    given.scenarios = given.scenarios.replace(",", " ").split()
    if (given.scenarios or given.published) and given.out is None:
        parser.error("--scenarios and --published write a page without the others; name its folder by --out")
    given.out = given.out or ROOT / "docs" / "benchmarks"
    unknown = [peer for peer in given.peers if peer not in NAMES]
    if unknown or not given.rates:
        parser.error(f"unknown peer {', '.join(unknown)}; known are {', '.join(NAMES)}" if unknown else "--rates is empty; give one at least")
    return given


def start(given: argparse.Namespace, folder: Path) -> Run:
    """The scenarios and an empty report."""
    load, mock, floor = given.load.resolve(), given.mock.resolve(), given.floor.resolve()
    paths = Paths(given.weir.resolve(), load, mock, floor, given.cache.resolve(), folder, given.model.resolve(), given.guardrails.resolve())
    seconds, rounds = (0.3, 1) if given.tiny else (given.seconds, given.rounds)
    active, idle = streams_max(given.active), streams_max(given.idle)
    everything = scenarios.published(given.rates) if given.published else scenarios.full(given.rates, active, idle)
    chosen = scenarios.tiny() if given.tiny else everything
    chosen = [replace(one, seconds=seconds) if given.tiny else one for one in chosen if one.concurrency > 0]
    known = [one.name for one in chosen]
    if unknown := [name for name in given.scenarios if name not in known]:
        raise SystemExit(f"bench/llm: unknown scenario {', '.join(unknown)}; known are {', '.join(known)}")
    chosen = [one for one in chosen if one.name in (given.scenarios or known)]
    found = Report({"seconds": seconds, "rounds": rounds, "has_plots": not (given.tiny or given.scenarios or given.published)}, chosen)
    return Run(paths, free_ports(1)[0], seconds, rounds, found, deadline=time.monotonic() + 60 * given.minutes_max)


def main(arguments: list[str]) -> int:
    """Measures and writes; 2 when the measurement could not be made."""
    given = parse_arguments(arguments)
    stop_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="bench-llm-") as name:
        try:
            run = start(given, Path(name))
            with ExitStack() as stack:
                open_targets(run, given.peers, stack)
                measure_all(run)
                count_rows(run)
                if not given.scenarios and not given.published and any(target.is_ours for target in run.chosen):
                    measure_costs(run)
        except (OSError, ValueError, EngineError, subprocess.CalledProcessError) as error:
            print(f"bench/llm: {error}", file=sys.stderr)
            return 2
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "llm.json").write_text(json.dumps(report.figures(run.found), indent=1) + "\n", encoding="utf-8")
    if run.found.run["has_plots"]:
        import plot

        plot.draw(run.found, given.out)
    (given.out / "llm.md").write_text(report.page(run.found), encoding="utf-8")
    print(report.summary(run.found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
