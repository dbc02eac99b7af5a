"""What is measured: each scenario is a behaviour of the mock and a load."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

KIB = 1024
BODY_SMALL, BODY_LARGE = KIB, 100 * KIB
CLOSED_CONNECTIONS = 64
# Rates of a full run, requests/s; peers that cannot do a rate are left out of it.
RATES = (50, 500, 1_000, 2_000, 5_000, 8_000, 12_000)
# Rates of scenarios with delays. The mock's timers have a resolution of 1 ms. If the interval between requests were whole milliseconds, all
# requests would arrive at the same phase of that timer, and an added 0.1 ms would be measured as 0 or 1 ms; these intervals cover all phases.
BACKEND_RATE_LOW, BACKEND_RATE = 49, 499
BACKENDS_MS = (50, 200, 500)
LARGE_RATE = 200
STREAM_RATES = (19, 97)
# The streams of the goals.
STREAM_COMPARED = f"stream-{max(STREAM_RATES)}"
STREAM_TOKENS, STREAM_FIRST_TOKEN_MS, STREAM_TOKEN_MS = 100, 50, 10
STREAM = ("--first-token-ms", str(STREAM_FIRST_TOKEN_MS), "--token-ms", str(STREAM_TOKEN_MS), "--tokens", str(STREAM_TOKENS))
HOLD_ACTIVE, HOLD_IDLE = 2_000, 10_000
# 20 tokens/s for longer than any turn.
HOLD_ACTIVE_MOCK = ("--token-ms", "50", "--tokens", "100000")
# The first token at once, then nothing.
HOLD_IDLE_MOCK = ("--tokens", "2", "--stall-midstream", "1", "--stall-ms", "600000")
HOLD_SECONDS = 10.0
# What a gateway must do in a closed loop, requests/s, to be given thousands of streams.
HOLD_CAPACITY_MIN = 2_000
# Low enough for all; once, and long enough for the share of good replies: about 75 of 1,500 requests meet a fault.
CHAOS_RATE, CHAOS_SECONDS = 50, 30.0
CHAOS: tuple[str, ...] = ("--status-500", "0.02", "--drop-headers", "0.01", "--drop-midstream", "0.01", "--malformed", "0.01")
CHAOS += ("--latency-ms", "20", "--profile", "lognormal")
# Rows of the published experiment: a rate that loads LiteLLM with four workers on two cores, and bodies at rates that the mock can do, which takes
# some 60 ms of CPU time for a reply of 1 MB.
LOADED_RATE, LOADED_BACKENDS_MS, LOADED_SECONDS = 199, (0, 50, 200, 500), 10.0
PAYLOAD_SECONDS = 10.0
# bytes and requests/s
PAYLOADS = {"1k": (KIB, 97), "10k": (10 * KIB, 97), "100k": (100 * KIB, 19), "1m": (1024 * KIB, 3)}
# Connections at a constant rate: those that are busy on average, doubled for the slow ones, and a reserve for stalls.
RESERVE_SECONDS = 0.02
CONNECTIONS_MIN, CONNECTIONS_MAX = 32, 2_000


class Kind(Enum):
    """How replies are read and reported."""

    CLOSED = "closed loop"
    RATE = "constant rate"
    STREAM = "streams"
    HOLD = "open streams"
    CHAOS = "chaos"


@dataclass(frozen=True)
class Scenario:
    """One load on all targets."""

    name: str
    title: str
    kind: Kind
    mock: tuple[str, ...] = ()
    body_bytes: int = BODY_SMALL
    rate: float | None = None
    concurrency: int = CLOSED_CONNECTIONS
    # requests/s in the closed loop that a target must reach to take part
    capacity_min: float = 0.0
    # of one turn, where it differs
    seconds: float | None = None
    is_once: bool = False
    # for the mock alone and the gateway with a model, while the gateway gets more texts to embed than it can do
    is_beside_embedding: bool = False

    @property
    def is_stream(self) -> bool:
        """Whether replies are server-sent events."""
        return self.kind in (Kind.STREAM, Kind.HOLD)


def connections(rate: float, reply_seconds: float) -> int:
    """How many connections a constant rate needs."""
    wanted = math.ceil(rate * (2 * reply_seconds + RESERVE_SECONDS))
    return min(max(wanted, CONNECTIONS_MIN), CONNECTIONS_MAX)


def at_rate(name: str, title: str, rate: float, latency_ms: int = 0, body_bytes: int = BODY_SMALL) -> Scenario:
    """Plain requests at a constant rate; a target has to do a tenth more in the closed loop."""
    mock = ("--latency-ms", str(latency_ms)) if latency_ms else ()
    return Scenario(name, title, Kind.RATE, mock, body_bytes, rate, connections(rate, latency_ms / 1e3), rate * 1.1)


def held(name: str, title: str, count: int, mock: tuple[str, ...]) -> Scenario:
    """Streams that are all opened at once and stay open."""
    return Scenario(name, title, Kind.HOLD, mock, concurrency=count, capacity_min=HOLD_CAPACITY_MIN, seconds=HOLD_SECONDS, is_once=True)


def full(rates: tuple[int, ...], hold_active: int, hold_idle: int) -> list[Scenario]:
    """Everything. The first is the closed loop, whose result decides which targets take part in the others; faults come last."""
    found = [
        Scenario("closed-1k", "closed loop, 64 connections, 1 KB", Kind.CLOSED),
        Scenario("closed-100k", "closed loop, 64 connections, 100 KB", Kind.CLOSED, body_bytes=BODY_LARGE),
    ]
    found += [at_rate(f"rate-{rate}", f"{rate:,} requests/s, 1 KB", rate) for rate in rates]
    found.append(at_rate("large", f"{LARGE_RATE} requests/s, 100 KB", LARGE_RATE, body_bytes=BODY_LARGE))
    slow = [(BACKENDS_MS[0], BACKEND_RATE_LOW), *((latency, BACKEND_RATE) for latency in BACKENDS_MS)]
    for latency_ms, rate in slow:
        title = f"{rate:,} requests/s, backend of {latency_ms} ms, 1 KB"
        found.append(at_rate(f"backend-{latency_ms}-{rate}", title, rate, latency_ms))
    reply_seconds = (STREAM_FIRST_TOKEN_MS + STREAM_TOKENS * STREAM_TOKEN_MS) / 1e3
    for rate in STREAM_RATES:
        title = f"{rate} streams/s, {STREAM_FIRST_TOKEN_MS} ms to the first of {STREAM_TOKENS} tokens, {STREAM_TOKEN_MS} ms between two"
        found.append(Scenario(f"stream-{rate}", title, Kind.STREAM, STREAM, rate=rate, concurrency=connections(rate, reply_seconds)))
    for name, count in (("active", hold_active), ("quarter", hold_active // 4)):
        title = f"{count:,} streams of 20 tokens/s"
        hold = replace(held(f"hold-{name}", title, count, HOLD_ACTIVE_MOCK), is_once=name == "active")
        found += [hold, replace(hold, name=f"{hold.name}-embedding", title=f"{title}, while embedding is overloaded", is_beside_embedding=True)]
    found.append(held("hold-idle", f"{hold_idle:,} streams open without a token", hold_idle, HOLD_IDLE_MOCK))
    title = f"{CHAOS_RATE} requests/s, 2 % errors 500, 1 % closed before the headers, 1 % within the body, 1 % cut JSON"
    concurrency = connections(CHAOS_RATE, 0.02)
    found.append(Scenario("chaos", title, Kind.CHAOS, CHAOS, rate=CHAOS_RATE, concurrency=concurrency, seconds=CHAOS_SECONDS, is_once=True))
    return found


def published(rates: tuple[int, ...]) -> list[Scenario]:
    """The rows of the published experiment: steps, backends where LiteLLM is loaded, payloads, chaos."""
    found = [Scenario("closed-1k", "closed loop, 64 connections, 1 KB", Kind.CLOSED)]
    found += [at_rate(f"rate-{rate}", f"{rate:,} requests/s, 1 KB", rate) for rate in rates]
    for latency_ms in LOADED_BACKENDS_MS:
        title = f"{LOADED_RATE} requests/s, backend of {latency_ms} ms, 1 KB"
        found.append(replace(at_rate(f"loaded-{latency_ms}", title, LOADED_RATE, latency_ms), seconds=LOADED_SECONDS))
    for name, (size, rate) in PAYLOADS.items():
        title = f"{rate} requests/s, requests of {name.upper()}B"
        found.append(replace(at_rate(f"request-{name}", title, rate, body_bytes=size), seconds=PAYLOAD_SECONDS))
        reply = at_rate(f"reply-{name}", f"{rate} requests/s, replies of {name.upper()}B", rate)
        found.append(replace(reply, mock=("--response-bytes", str(size)), seconds=PAYLOAD_SECONDS))
    return [*found, *(one for one in full((), 0, 0) if one.kind is Kind.CHAOS)]


def tiny() -> list[Scenario]:
    """One of each kind, seconds altogether."""
    mock = ("--first-token-ms", "5", "--token-ms", "1", "--tokens", "10")
    return [
        Scenario("closed-1k", "closed loop, 4 connections, 1 KB", Kind.CLOSED, concurrency=4),
        Scenario("rate-200", "200 requests/s, 1 KB", Kind.RATE, rate=200, concurrency=16),
        Scenario("stream-50", "50 streams/s of 10 tokens", Kind.STREAM, mock, rate=50, concurrency=16),
        Scenario("hold-idle", "50 streams open without a token", Kind.HOLD, HOLD_IDLE_MOCK, concurrency=50),
        Scenario(
            "hold-active-embedding",
            "50 streams while embedding is overloaded",
            Kind.HOLD,
            HOLD_IDLE_MOCK,
            concurrency=50,
            is_once=True,
            is_beside_embedding=True,
        ),
        Scenario("chaos", "200 requests/s with faults", Kind.CHAOS, CHAOS, rate=200, concurrency=32),
    ]
