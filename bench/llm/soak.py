#!/usr/bin/env python3
"""Mixed chat traffic against one gateway for minutes: whether its memory or its open files grow.

    make soak                          # ten minutes, the release build
    MINUTES=60 make soak
    python bench/llm/soak.py --minutes 0.1 --weir … --load … --mock … --rss-max 1000

The traffic: plain requests, streams, prompts and answers with personal data under guardrails, requests without a key, clients that leave in the middle of a
stream, and faults of the upstream in all of them. Resident memory and open files are sampled every second; the slopes by least
squares, without the first quarter of the time, are printed and compared with a limit. 1 when a limit is exceeded, or when one
kind of traffic was never answered; 2 when the run could not be made.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import targets
from processes import EngineError
from processes.server import Server, free_ports, stop_on_sigterm
from processes.usage import resident_bytes
from targets import MODEL, ROOT, Paths

MIB = 2**20
SAMPLE_SECONDS = 1.0
# The share of the time in which caches, pools and buffers fill.
SETTLING = 0.25
SAMPLES_MIN = 3
# Limits of the slopes. At 150 requests/s, 0.5 MiB per minute are 58 bytes per request.
RSS_MIB_PER_MINUTE_MAX = 0.5
FILES_PER_MINUTE_MAX = 2.0
MOCK = ("--tokens", "40", "--token-ms", "2", "--latency-ms", "5", "--profile", "lognormal", "--echo", "last")
MOCK += ("--status-500", "0.02", "--drop-headers", "0.01", "--drop-midstream", "0.01", "--malformed", "0.01", "--stall-midstream", "0.005", "--stall-ms", "500")
# Prompts are redacted and restored in answers, which repeat them; a word is found in answers alone.
GUARDRAILS = """[[guardrails]]
id = "all"
detect = ["pii", "secrets"]
restore = true
[[guardrails]]
id = "injection"
detect = ["injection"]
action = "flag"
[[guardrails]]
id = "words"
words = ["meeting"]
on = ["output"]
"""
LEAVERS_PER_S = 10.0
LEAVE_AFTER_BYTES = 200
CLEAN = "Please summarise the notes of the meeting for the team, and keep the tone friendly. " * 10
FINDINGS = "Mail ada.lovelace@example.com or call +44 7700 900123, card 4111 1111 1111 1111, account DE89 3704 0044 0532 0130 00. " * 5


@dataclass(frozen=True)
class Traffic:
    """One load generator beside the others."""

    name: str
    text: str
    rate: float
    is_stream: bool = False
    has_key: bool = True
    status: int = 200


TRAFFIC = (
    Traffic("plain", CLEAN, 60),
    Traffic("stream", CLEAN, 20, is_stream=True),
    Traffic("findings", FINDINGS, 30),
    Traffic("findings in a stream", FINDINGS, 10, is_stream=True),
    Traffic("no key", CLEAN, 20, has_key=False, status=401),
)


@dataclass(frozen=True)
class Sample:
    """The gateway at one instant."""

    minutes: float
    rss_mib: float
    files: float


def slope(points: list[tuple[float, float]]) -> float:
    """Of the line through the points with the least squares; 0 for points at one place."""
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def slopes(samples: list[Sample]) -> tuple[float, float]:
    """MiB and open files per minute, after the settling."""
    if not samples:
        raise EngineError("the gateway was never sampled")
    begin = samples[0].minutes + SETTLING * (samples[-1].minutes - samples[0].minutes)
    rest = [one for one in samples if one.minutes >= begin]
    if len(rest) < SAMPLES_MIN:
        raise EngineError(f"only {len(rest)} of {len(samples)} samples are after the settling; run for longer")
    return slope([(one.minutes, one.rss_mib) for one in rest]), slope([(one.minutes, one.files) for one in rest])


def result(paths: Paths, traffic: Traffic) -> Path:
    """Where a load generator writes what it measured."""
    return paths.data / f"{traffic.name.replace(' ', '-')}.json"


def body(traffic: Traffic) -> str:
    """A chat request."""
    return json.dumps({"model": MODEL, "stream": traffic.is_stream, "messages": [{"role": "user", "content": traffic.text}]})


def command(paths: Paths, url: str, headers: list[str], traffic: Traffic, seconds: float) -> list[str]:
    """The load generator for the whole time."""
    file = result(paths, traffic)
    found = [str(paths.load), "load", "--url", f"{url}{targets.CHAT}", "--rate", f"{traffic.rate:g}", "--duration", f"{seconds:g}s", "--threads", "1"]
    found += ["--concurrency", "64", "--timeout", "10s", "--allow-errors", "--json", str(file), "--expect-status", str(traffic.status), "--body", body(traffic)]
    found += [part for header in headers if traffic.has_key for part in ("--header", header)]
    return [*found, *(["--stream"] if traffic.is_stream else [])]


class Leavers(threading.Thread):
    """Clients that close their connection after the first bytes of a stream."""

    def __init__(self, port: int, headers: list[str], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.left = 0
        self._port, self._stop_event = port, stop
        self._headers = dict(header.split(": ", 1) for header in headers) | {"content-type": "application/json"}

    def run(self) -> None:
        """Until the end; an error of the upstream is no stream to leave."""
        content = body(Traffic("", FINDINGS, 0, is_stream=True))
        while not self._stop_event.wait(1 / LEAVERS_PER_S):
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
            try:
                connection.request("POST", targets.CHAT, content, self._headers)
                reply = connection.getresponse()
                self.left += reply.status == 200 and bool(reply.read(LEAVE_AFTER_BYTES))
            except (OSError, http.client.HTTPException):
                continue
            finally:
                connection.close()


def end(loads: list[subprocess.Popen[bytes]]) -> None:
    """Those that still run, when the soak is interrupted."""
    for load in loads:
        load.terminate()
        load.wait()


def watch(server: Server, loads: list[subprocess.Popen[bytes]]) -> list[Sample]:
    """Samples until the first load generator has ended, while all are at work."""
    found: list[Sample] = []
    started = time.monotonic()
    pid = server.pids[0]
    while all(load.poll() is None for load in loads):
        try:
            files = len(os.listdir(f"/proc/{pid}/fd"))
        except OSError as error:
            raise EngineError(f"the gateway ended: {error}") from error
        found.append(Sample((time.monotonic() - started) / 60, resident_bytes([pid]) / MIB, files))
        time.sleep(SAMPLE_SECONDS)
    for load in loads:
        load.wait()
    return found


def run(paths: Paths, seconds: float) -> tuple[list[Sample], dict[str, tuple[int, int]]]:
    """The samples, and how many requests of each kind were sent and answered as expected."""
    with ExitStack() as stack:
        mock = targets.mock(paths, free_ports(1)[0], MOCK)
        stack.callback(mock.stop)
        mock.start()
        gateway = targets.weir(paths, mock.port, more=GUARDRAILS)
        stack.callback(gateway.server.stop)
        gateway.server.start()
        commands = [command(paths, gateway.server.url, gateway.headers, one, seconds) for one in TRAFFIC]
        loads = [subprocess.Popen(one, stdout=subprocess.DEVNULL) for one in commands]
        stack.callback(end, loads)
        stop = threading.Event()
        stack.callback(stop.set)
        leavers = Leavers(gateway.server.port, gateway.headers, stop)
        leavers.start()
        samples = watch(gateway.server, loads)
        stop.set()
        leavers.join()
    counts = {}
    for traffic, load in zip(TRAFFIC, loads, strict=True):
        if load.returncode != 0:
            raise EngineError(f"weir-bench failed for `{traffic.name}`")
        figures = json.loads(result(paths, traffic).read_text(encoding="utf-8"))
        counts[traffic.name] = int(figures["requests_sent"]), int(figures["requests_ok"])
    return samples, counts | {"left in a stream": (leavers.left, leavers.left)}


def verdict(samples: list[Sample], counts: dict[str, tuple[int, int]], rss_max: float, files_max: float) -> tuple[list[str], bool]:
    """What is printed, and whether all limits are kept."""
    lines = [f"{name}: {ok:,} of {sent:,} as expected" for name, (sent, ok) in counts.items()]
    rss, files = slopes(samples)
    rss_values, file_values = [one.rss_mib for one in samples], [one.files for one in samples]
    lines.append(f"RSS: {rss:+.3f} MiB/min (limit {rss_max:g}), {rss_values[0]:.1f} MiB at first, {max(rss_values):.1f} at most, {rss_values[-1]:.1f} at last")
    lines.append(
        f"open files: {files:+.2f} /min (limit {files_max:g}), {file_values[0]:.0f} at first, {max(file_values):.0f} at most, {file_values[-1]:.0f} at last"
    )
    silent = [name for name, (_, ok) in counts.items() if ok == 0]
    lines += [f"never answered as expected: {name}" for name in silent]
    is_kept = rss <= rss_max and files <= files_max and not silent
    return [*lines, f"{samples[-1].minutes:.1f} minutes: {'passed' if is_kept else 'FAILED'}"], is_kept


def main(arguments: list[str]) -> int:
    """1 above a limit, 2 when the run could not be made."""
    release = ROOT / "target" / "release"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rss-max", type=float, default=RSS_MIB_PER_MINUTE_MAX, help="MiB per minute")
    parser.add_argument("--files-max", type=float, default=FILES_PER_MINUTE_MAX, help="open files per minute")
    for flag, name in (("weir", "weir"), ("load", "weir-bench"), ("mock", "weir-mock")):
        parser.add_argument(f"--{flag}", type=Path, default=release / name)
    given = parser.parse_args(arguments)
    stop_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        nothing = Path(name)
        binaries = [getattr(given, flag).resolve() for flag in ("weir", "load", "mock")]
        try:
            samples, counts = run(Paths(*binaries, nothing, nothing, nothing, nothing, nothing), given.minutes * 60)
            lines, is_kept = verdict(samples, counts, given.rss_max, given.files_max)
        except (OSError, ValueError, EngineError) as error:
            print(f"soak: {error}", file=sys.stderr)
            return 2
    print("\n".join(lines))
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
