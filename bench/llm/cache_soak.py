#!/usr/bin/env python3
"""Chat traffic for minutes with the reply cache at its limit: whether the process holds as much memory as the metric says.

    make cachesoak                     # ten minutes, the release build
    MINUTES=2 make cachesoak
    python bench/llm/cache_soak.py --seconds 10 --interval 2 --settle 2 --smallest 400000 --largest 900000 --weir … --mock …

The cache is filled with replies to questions that are all different. Then whole replies, streams, repeated questions, clients that leave in the
middle of a stream, and faults of the upstream go on at a constant rate, half of them on a route with an exact cache and half on one with a
semantic cache. In each sample the growth of resident memory since the idle gateway must be within a tenth of `weir_reply_cache_bytes`, which must stay
at the limit. 1 where it is not, or when one kind of traffic never occurred; 2 when the run could not be made.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.sharedctypes import SynchronizedArray
from multiprocessing.synchronize import Event
from pathlib import Path

import targets
from cache_memory import LIMIT, metric
from processes import EngineError
from processes.server import Server, free_ports, stop_on_sigterm
from processes.usage import resident_bytes
from targets import CHAT, ROOT, Paths

MIB = 2**20
# More tokens than any request allows: `max_tokens` is the length of each reply.
MOCK = ("--tokens", "500000", "--status-500", "0.02", "--drop-headers", "0.01", "--drop-midstream", "0.01", "--malformed", "0.01")
ROUTES = "".join(f'[[routes]]\nmodel = "{mode}"\ntargets = [{{ upstream = "mock" }}]\ncache = {{ mode = "{mode}" }}\n' for mode in ("exact", "semantic"))
MODES = ("exact", "semantic")
KINDS = ("whole", "stream", "left", "hit", "failed")
# Of a request: the first three are what a client does, the others follow.
SHARES = (0.65, 0.2, 0.15)
REPEATED_SHARE = 0.1
# Bytes of a token in a whole reply, and of its event in a stream.
TOKEN_BYTES, EVENT_BYTES = 8, 170
# The cache is at its limit from this share on, unless told otherwise: a reply that does not fit displaces several.
FULL_SHARE = 0.95
FILLING_SECONDS_MAX = 300.0
CLIENTS = 4
WARMUP_REQUESTS = 40
LEAVE_AFTER_BYTES = 200


@dataclass(frozen=True)
class Sample:
    """The gateway at one instant, in bytes above those of the idle gateway."""

    seconds: float
    held: int
    grown: int

    @property
    def quotient(self) -> float:
        """Memory against the metric."""
        return self.grown / max(self.held, 1)


@dataclass(frozen=True)
class Load:
    """What each client does."""

    port: int
    headers: dict[str, str]
    smallest: int
    largest: int
    # requests per second of one client, once the cache is full
    rate: float


class Client:
    """Asks one question after another."""

    def __init__(self, load: Load, number: int) -> None:
        self._load, self._number = load, number
        self._random = random.Random(number)
        self._asked = 0
        self._connection = self._connect()

    def ask(self) -> list[str]:
        """One request; the kinds of `KINDS` that it was."""
        kind = self._random.choices(KINDS[:3], SHARES)[0]
        is_repeated = self._asked > 0 and self._random.random() < REPEATED_SHARE
        self._asked += not is_repeated
        body = self._body(self._asked, is_stream=kind != "whole")
        try:
            self._connection.request("POST", CHAT, json.dumps(body), self._load.headers)
            reply = self._connection.getresponse()
            found = ["hit"] if "hit" in (reply.getheader("x-weir-cache") or "") else []
            if kind == "left" and reply.status == 200:
                reply.read(LEAVE_AFTER_BYTES)
                self._reconnect()
                return [*found, kind]
            reply.read()
            return [*found, kind] if reply.status == 200 else ["failed"]
        except (OSError, http.client.HTTPException):
            self._reconnect()
            return ["failed"]

    def _body(self, question: int, *, is_stream: bool) -> dict[str, object]:
        """Question and length follow from the number; lengths are spread evenly on a logarithmic scale."""
        of_question = random.Random(f"{self._number} {question}")
        size = self._load.smallest * (self._load.largest / self._load.smallest) ** of_question.random()
        text = f"What are {question} weirs beside {self._number} mills and {of_question.getrandbits(32)} dams?"
        tokens = int(size / (EVENT_BYTES if is_stream else TOKEN_BYTES))
        messages = [{"role": "user", "content": text}]
        return {"model": MODES[question % 2], "stream": is_stream, "max_tokens": max(tokens, 1), "messages": messages}

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._load.port, timeout=30)

    def _reconnect(self) -> None:
        self._connection.close()
        self._connection = self._connect()


def run_client(load: Load, number: int, is_full: Event, stop: Event, counts: SynchronizedArray[int]) -> None:
    """As fast as possible until the cache is full, then at a constant rate."""
    client, due = Client(load, number), time.monotonic()
    while not stop.is_set():
        for kind in client.ask():
            with counts.get_lock():
                counts[KINDS.index(kind)] += 1
        due = max(due + 1 / load.rate, time.monotonic() - 1)
        if is_full.is_set() and (wait := due - time.monotonic()) > 0:
            stop.wait(wait)


class Watch:
    """Samples of one gateway, from its idle state on."""

    def __init__(self, server: Server, headers: dict[str, str]) -> None:
        self._server, self._headers = server, headers
        self._started = time.monotonic()
        self._idle_held, self._idle_bytes = self._now()

    def sample(self) -> Sample:
        """The gateway now."""
        held, resident = self._now()
        return Sample(time.monotonic() - self._started, held - self._idle_held, resident - self._idle_bytes)

    def _now(self) -> tuple[int, int]:
        resident = resident_bytes(self._server.pids)
        if resident == 0:
            raise EngineError("the gateway ended")
        return metric(self._server.port, self._headers), resident


def fill(watch: Watch, is_full: Event, bytes_min: float) -> float:
    """The seconds until the cache was at its limit."""
    while (now := watch.sample()).held < bytes_min:
        if now.seconds > FILLING_SECONDS_MAX:
            raise EngineError(f"after {now.seconds:.0f} s the cache has {now.held >> 20} of {int(bytes_min) >> 20} MiB")
        time.sleep(0.2)
    is_full.set()
    return now.seconds


def soak(watch: Watch, seconds: float, interval: float, settle: float) -> list[Sample]:
    """A sample after each interval, which is printed at once."""
    time.sleep(settle)
    print("| s | metric, MiB | grown, MiB | quotient |\n|---|---|---|---|", flush=True)
    found: list[Sample] = []
    end = time.monotonic() + seconds
    while not found or time.monotonic() < end:
        time.sleep(interval)
        found.append(one := watch.sample())
        print(f"| {one.seconds:.0f} | {one.held / MIB:.1f} | {one.grown / MIB:.1f} | {one.quotient:.3f} |", flush=True)
    return found


def run(paths: Paths, given: argparse.Namespace) -> tuple[list[Sample], dict[str, int]]:
    """The samples with a full cache, and how much of each kind of traffic there was."""
    with ExitStack() as stack:
        mock = targets.mock(paths, free_ports(1)[0], MOCK)
        stack.callback(mock.stop)
        mock.start()
        gateway = targets.weir(paths, mock.port, more=ROUTES, scopes="chat,metrics")
        stack.callback(gateway.server.stop)
        gateway.server.start()
        headers = {"content-type": "application/json"} | dict(header.split(": ", 1) for header in gateway.headers)
        load = Load(gateway.server.port, headers, given.smallest, given.largest, given.rate / CLIENTS)
        warm = Client(load, CLIENTS)
        for _ in range(WARMUP_REQUESTS):
            warm.ask()
        watch = Watch(gateway.server, headers)
        is_full, stop = multiprocessing.Event(), multiprocessing.Event()
        counts = multiprocessing.Array("q", len(KINDS))
        clients = [multiprocessing.Process(target=run_client, args=(load, number, is_full, stop, counts), daemon=True) for number in range(CLIENTS)]
        for client in clients:
            client.start()
            stack.callback(client.terminate)
        print(f"the cache was filled after {fill(watch, is_full, given.share * LIMIT):.0f} s", flush=True)
        samples = soak(watch, given.seconds, given.interval, given.settle)
        stop.set()
        for client in clients:
            client.join()
        return samples, dict(zip(KINDS, counts, strict=True))


def verdict(samples: list[Sample], counts: dict[str, int], tolerance: float, share: float = FULL_SHARE) -> tuple[list[str], bool]:
    """What is printed, and whether memory was what the metric says."""
    quotients = [one.quotient for one in samples]
    lines = [", ".join(f"{kind} {count:,}" for kind, count in counts.items())]
    lines.append(f"memory against the metric: {min(quotients):.3f} to {max(quotients):.3f} in {len(samples)} samples (within {tolerance:g} of 1)")
    # few faults reach a client, because the gateway asks again
    wrong = [f"never: {kind}" for kind, count in counts.items() if count == 0 and kind != "failed"]
    wrong += [f"at {one.seconds:.0f} s: {one.quotient:.3f}" for one in samples if abs(one.quotient - 1) > tolerance]
    wrong += [f"at {one.seconds:.0f} s: not at the limit" for one in samples if one.held < share * LIMIT]
    return [*lines, *wrong, "FAILED" if wrong else "passed"], not wrong


def main(arguments: list[str]) -> int:
    """1 where memory is not what the metric says, 2 when the run could not be made."""
    release = ROOT / "target" / "release"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="with the cache at its limit")
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between two samples")
    parser.add_argument("--settle", type=float, default=20.0, help="seconds after the filling: the allocator gives back what is free after ten")
    parser.add_argument("--rate", type=float, default=100.0, help="requests per second")
    parser.add_argument("--smallest", type=int, default=1_000, help="bytes of a reply")
    parser.add_argument("--largest", type=int, default=200_000)
    parser.add_argument("--tolerance", type=float, default=0.1)
    parser.add_argument("--share", type=float, default=FULL_SHARE, help="of the limit, from which on the cache counts as full")
    for name in ("weir", "mock"):
        parser.add_argument(f"--{name}", type=Path, default=release / ("weir-mock" if name == "mock" else name))
    given = parser.parse_args(arguments)
    stop_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="cache-soak-") as name:
        nothing = Path(name)
        try:
            samples, counts = run(Paths(given.weir.resolve(), nothing, given.mock.resolve(), *[nothing] * 5), given)
        except (OSError, ValueError, EngineError) as error:
            print(f"cache soak: {error}", file=sys.stderr)
            return 2
    lines, is_kept = verdict(samples, counts, given.tolerance, given.share)
    print("\n".join(lines))
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
