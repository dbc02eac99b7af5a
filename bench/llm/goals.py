"""What is wanted, beside what was measured. The standard library alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from costs import CHAT_STREAM, EMBEDDING, HIT, SEARCH, SEMANTIC_HIT, SOURCES_STREAM
from results import MIB, Added, Load, Report
from scenarios import BACKEND_RATE, BACKENDS_MS, STREAM_COMPARED, Kind
from targets import DIRECT, FLOOR, GO, LITELLM_4, PORTKEY, WEIR, WEIR_EMBEDDING, WEIR_L2, WEIR_PG


@dataclass(frozen=True)
class Goal:
    """What is wanted, at most or at least, and what is."""

    what: str
    value: float | None
    bound: float
    unit: str
    at_least: bool = False

    @property
    def verdict(self) -> str:
        """Said in the page."""
        if self.value is None:
            return "not measured"
        if self.value >= self.bound if self.at_least else self.value <= self.bound:
            return "reached"
        return "BELOW" if self.at_least else "ABOVE"


def goals(report: Report) -> list[Goal]:
    """Ratios within this run, and a few absolute bounds."""
    found = [*throughput_goals(report), *latency_goals(report), *stream_goals(report), *chaos_goals(report)]
    return [*found, *telemetry_goals(report), *guardrail_goals(report), *timing_goals(report)]


def of(report: Report, scenario: str, name: str, value: Callable[[Load], float]) -> float | None:
    """A figure of one target."""
    load = report.load(scenario, name)
    return value(load) if load else None


def ratio(report: Report, scenario: str, other: str, value: Callable[[Load], float]) -> float | None:
    """Weir L1's figure divided by another's."""
    ours, theirs = of(report, scenario, WEIR, value), of(report, scenario, other, value)
    return ours / theirs if ours is not None and theirs else None


def difference(report: Report, scenario: str, ours: str, theirs: str, value: Callable[[Load], float]) -> float | None:
    """What one target has more than another: the median of the differences of the rounds."""
    mine, base = report.loads.get((scenario, ours), {}), report.loads.get((scenario, theirs), {})
    found = [value(mine[at]) - value(base[at]) for at in mine if at in base]
    return median(found) if found else None


def added(report: Report, scenario: str, value: Callable[[Added], float]) -> float | None:
    """What Weir L1 adds to direct."""
    found = next((one for one in report.scenarios if one.name == scenario), None)
    result = report.added(found, WEIR) if found else None
    return value(result) if result else None


def p50(load: Load) -> float:
    """In milliseconds."""
    return load.latency_ms_p50


def p95(load: Load) -> float:
    """In milliseconds."""
    return load.latency_ms_p95


def cpu(load: Load) -> float:
    """Of a request, in microseconds."""
    return load.cpu_us_per_request


def event_cpu(load: Load) -> float:
    """Of an event of a stream, in microseconds."""
    return load.cpu_us_per_event


def rate(load: Load) -> float:
    """Requests per second."""
    return load.requests_per_s


def throughput_goals(report: Report) -> list[Goal]:
    """The closed loop."""
    rows = [(FLOOR, 0.75), (GO, 2), (PORTKEY, 20), (LITELLM_4, 50)]
    found = [Goal(f"{WEIR}: requests/s in the closed loop against {name}", ratio(report, "closed-1k", name, rate), at, "×", True) for name, at in rows]
    return [
        *found,
        Goal(f"{WEIR}: requests per CPU-second in the closed loop", of(report, "closed-1k", WEIR, lambda load: 1e6 / cpu(load)), 10_000, "", True),
        Goal(f"{WEIR}: CPU per request in the closed loop against {FLOOR}", ratio(report, "closed-1k", FLOOR, cpu), 1.4, "×"),
        Goal(f"{WEIR}: CPU per request of 100 KB in the closed loop against {FLOOR}", ratio(report, "closed-100k", FLOOR, cpu), 1.4, "×"),
    ]


def latency_goals(report: Report) -> list[Goal]:
    """Constant rates. One goal is for the highest rate at which the p95 of direct stays under a millisecond."""
    steady = report.steady()
    at = f"{steady.rate or 0:,.0f}/s, the highest rate with direct p95 below 1 ms" if steady else "a rate with direct p95 below 1 ms"
    fast, slow = (added(report, f"backend-{latency}-{BACKEND_RATE}", lambda one: one.ms_p50) for latency in (min(BACKENDS_MS), max(BACKENDS_MS)))
    faster = fast - slow if fast is not None and slow is not None else None
    return [
        Goal(f"{WEIR}: added p50 at {at}", added(report, steady.name, lambda one: one.ms_p50) if steady else None, 0.35, " ms"),
        *(Goal(f"{WEIR}: p95 at {rate:,}/s", of(report, f"rate-{rate}", WEIR, p95), bound, " ms") for rate, bound in ((5_000, 4), (8_000, 10), (12_000, 35))),
        Goal(f"{WEIR}: added p50 with the backend of 50 ms, more than with that of 500 ms", faster, 0.1, " ms"),
    ]


def stream_goals(report: Report) -> list[Goal]:
    """Streams that come and go, and those that are held open."""
    streams = [load for one in report.of_kind(Kind.STREAM) if (load := report.load(one.name, WEIR))]
    idle = report.load("hold-idle", WEIR)
    idle_count = f"{report.open_streams('hold-idle', WEIR):,} idle" if idle else "idle"
    return [
        Goal(f"{WEIR}: added time to the first event, p50", added(report, STREAM_COMPARED, lambda one: one.ms_p50), 0.7, " ms"),
        Goal(f"{WEIR}: CPU per token against {FLOOR}", ratio(report, STREAM_COMPARED, FLOOR, event_cpu), 1.5, "×"),
        Goal(f"{WEIR}: streams truncated or changed", float(sum(load.failed for load in streams)) if streams else None, 0, ""),
        *gap_goals(report, "hold-active"),
        *gap_goals(report, "hold-quarter"),
        Goal(f"{WEIR}: RSS with {idle_count} streams", idle.rss_mib * MIB / 1e6 if idle else None, 400, " MB"),
    ]


def gap_goals(report: Report, scenario: str) -> list[Goal]:
    """The longest times between two tokens of streams that are held open."""
    is_measured = (scenario, WEIR) in report.loads
    streams = f"{report.open_streams(scenario, WEIR):,} active streams" if is_measured else f"active streams ({scenario})"
    what = f"{WEIR}: p99 of the gaps of {streams}"
    plain = difference(report, scenario, WEIR, DIRECT, lambda one: one.gap_ms_p99)
    beside = difference(report, f"{scenario}-embedding", WEIR_EMBEDDING, DIRECT, lambda one: one.gap_ms_p99)
    return [
        Goal(f"{what}, more than direct", plain, 2, " ms"),
        Goal(f"{what} while embedding is overloaded, more than direct at the same time", beside, 2, " ms"),
    ]


def chaos_goals(report: Report) -> list[Goal]:
    """Faults of the only target of a route, so that retries alone mend them."""
    return [Goal(f"{WEIR}: good replies while its only target has faults", of(report, "chaos", WEIR, lambda load: load.good_percent), 99.5, " %", True)]


def telemetry_goals(report: Report) -> list[Goal]:
    """What L3 costs more than L1."""
    lost = float(abs(report.rows.requests - report.rows.rows)) if report.rows else None
    return [
        Goal(f"{WEIR_PG}: p50 at 5,000/s, more than {WEIR}", difference(report, "rate-5000", WEIR_PG, WEIR, p50), 0.05, " ms"),
        Goal(f"{WEIR_PG}: CPU per request at 5,000/s, more than {WEIR}", difference(report, "rate-5000", WEIR_PG, WEIR, cpu), 10, " µs"),
        Goal(f"{WEIR_PG}: requests without a row", lost, 0, ""),
    ]


def guardrail_goals(report: Report) -> list[Goal]:
    """What L2 costs more than L1, and the scans alone."""
    scenario = next((one for one in report.of_kind(Kind.RATE) if one.name == "rate-5000"), report.steady())
    at = f"{scenario.rate or 0:,.0f}/s" if scenario else "5,000/s"
    more = difference(report, scenario.name, WEIR_L2, WEIR, p95) if scenario else None
    return [
        Goal(f"{WEIR_L2}: p95 at {at}, more than {WEIR}", more, 0.1, " ms"),
        Goal(f"{WEIR_L2}: CPU per token, more than {WEIR}", difference(report, STREAM_COMPARED, WEIR_L2, WEIR, event_cpu), 2, " µs"),
        *(Goal(f"guardrails alone: {row.what}, per {row.per}", row.us, row.us_max_wanted, " µs") for row in report.guardrails),
    ]


def timing_goals(report: Report) -> list[Goal]:
    """Cache hits, and sources beside one search."""
    exact, semantic, embedding, search = (report.timing(what) for what in (HIT, SEMANTIC_HIT, EMBEDDING, SEARCH))
    beyond = report.timing_added(SEMANTIC_HIT, EMBEDDING) if semantic and embedding else None
    sources = report.timing_added(SOURCES_STREAM, CHAT_STREAM)
    share = sources / search.ms_p50 if sources is not None and search else None
    return [
        Goal("cache: exact hit, p50", exact.ms_p50 if exact else None, 1, " ms"),
        Goal("cache: semantic hit, p50 without one query embedding", beyond, 1.5, " ms"),
        Goal("sources: added time to the first event, p50 against one search (a tenth for the longer prompt)", share, 1.1, "×"),
    ]
