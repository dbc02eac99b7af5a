"""What was measured: the figures of every turn, and their medians. The standard library alone."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from statistics import median
from typing import Any

from scenarios import Kind, Scenario
from targets import DIRECT

MIB = 2**20
# Of direct, at the rate at which latencies are compared.
DIRECT_P95_MS_MAX = 1.0


@dataclass(frozen=True)
class Load:
    """One turn of the load generator."""

    requests: int
    ok: int
    failures: dict[str, int]
    requests_per_s: float
    latency_ms_p50: float
    latency_ms_p95: float
    latency_ms_p99: float
    cpu_us_per_request: float
    requests_per_cpu_s: float
    # at its highest, of all processes of the target
    rss_mib: float
    rss_start_mib: float
    # of streams; zero without
    events: int = 0
    events_min: int = 0
    events_per_s: float = 0.0
    first_event_ms_p50: float = 0.0
    first_event_ms_p95: float = 0.0
    gap_ms_p50: float = 0.0
    gap_ms_p95: float = 0.0
    gap_ms_p99: float = 0.0
    cpu_us_per_event: float = 0.0

    @staticmethod
    def of(figures: dict[str, Any]) -> Load:
        """From the generator's JSON."""
        sent, cpu_s, duration_s = int(figures["requests_sent"]), figures["server_cpu_s"], figures["duration_s"]
        events = int(figures.get("events", 0))
        return Load(
            sent,
            int(figures["requests_ok"]),
            {kind: count for kind, count in figures["failures"].items() if count},
            figures["requests_per_s"],
            figures["latency_ms_p50"],
            figures["latency_ms_p95"],
            figures["latency_ms_p99"],
            cpu_s * 1e6 / max(sent, 1),
            sent / cpu_s if cpu_s else 0.0,
            figures["server_rss_bytes_max"] / MIB,
            figures["server_rss_bytes_start"] / MIB,
            events,
            int(figures.get("events_per_reply_min", 0)),
            events / duration_s if duration_s else 0.0,
            figures.get("first_event_ms_p50", 0.0),
            figures.get("first_event_ms_p95", 0.0),
            figures.get("event_gap_ms_p50", 0.0),
            figures.get("event_gap_ms_p95", 0.0),
            figures.get("event_gap_ms_p99", 0.0),
            cpu_s * 1e6 / events if events else 0.0,
        )

    @property
    def failed(self) -> int:
        """All kinds."""
        return sum(self.failures.values())

    @property
    def good_percent(self) -> float:
        """The share of requests with the expected reply."""
        return self.ok * 100 / max(self.requests, 1)


def middle(loads: list[Load]) -> Load:
    """The median of each figure over the rounds; counts are added up, of the fewest events the least is taken."""
    added = {name: sum(getattr(load, name) for load in loads) for name in ("requests", "ok", "events")}
    kinds = sorted({kind for load in loads for kind in load.failures})
    failures = {kind: sum(load.failures.get(kind, 0) for load in loads) for kind in kinds}
    fixed: dict[str, Any] = added | {"failures": failures, "events_min": min(load.events_min for load in loads)}
    medians = {one.name: median(getattr(load, one.name) for load in loads) for one in fields(Load) if one.name not in fixed}
    return Load(**(fixed | medians))


@dataclass(frozen=True)
class Added:
    """What a target adds to direct, at the median and at the 95th percentile: the median of the differences and ratios of the rounds."""

    ms_p50: float
    ms_p95: float
    ratio_p50: float
    ratio_p95: float


@dataclass(frozen=True)
class Rows:
    """Telemetry in PostgreSQL."""

    version: str
    # requests that were sent to the gateway, with those of warm-ups
    requests: int
    rows: int
    # of PostgreSQL, while the gateway had its turns
    cpu_us_per_row: float


@dataclass(frozen=True)
class Check:
    """One stream of each target beside the mock's."""

    events: int
    is_equal: bool


@dataclass(frozen=True)
class Timing:
    """Requests of one kind, one after another; of streams the time to the first event."""

    ms_p50: float
    ms_p95: float
    cpu_us: float
    requests: int


@dataclass(frozen=True)
class Guarded:
    """A row of the measurement of crates/guardrails: the median of its runs and the fastest, in microseconds."""

    what: str
    us: float
    us_min: float
    us_max_wanted: float
    per: str


@dataclass
class Report:
    """All that there is to say."""

    run: dict[str, Any]
    scenarios: list[Scenario] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    details: dict[str, str] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)
    # by scenario and target, by round
    loads: dict[tuple[str, str], dict[int, Load]] = field(default_factory=dict)
    rows: Rows | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    # by what was asked, a timing for each round
    timings: dict[str, list[Timing]] = field(default_factory=dict)
    guardrails: list[Guarded] = field(default_factory=list)

    def add(self, scenario: str, name: str, number_of_round: int, load: Load) -> None:
        """A turn."""
        self.loads.setdefault((scenario, name), {})[number_of_round] = load

    def load(self, scenario: str, name: str) -> Load | None:
        """The medians of a target, if it was measured."""
        loads = self.loads.get((scenario, name))
        return middle(list(loads.values())) if loads else None

    def open_streams(self, scenario: str, name: str) -> int:
        """How many streams a target held in a turn: the median of the rounds."""
        return round(median(load.ok for load in self.loads[scenario, name].values()))

    def added(self, scenario: Scenario, name: str) -> Added | None:
        """Against direct in the same rounds; of streams the first event."""
        ours, direct = self.loads.get((scenario.name, name), {}), self.loads.get((scenario.name, DIRECT), {})
        both = [(ours[at], direct[at]) for at in ours if at in direct]
        pairs = [(percentiles(scenario, mine), percentiles(scenario, base)) for mine, base in both if mine.ok and base.ok]
        if name == DIRECT or not pairs:
            return None

        def ratio(value: float, base: float) -> float:
            return value / base if base else 0.0

        return Added(
            median(mine[0] - base[0] for mine, base in pairs),
            median(mine[1] - base[1] for mine, base in pairs),
            median(ratio(mine[0], base[0]) for mine, base in pairs),
            median(ratio(mine[1], base[1]) for mine, base in pairs),
        )

    def timing(self, what: str) -> Timing | None:
        """The medians over the rounds, if it was measured."""
        turns = self.timings.get(what)
        if not turns:
            return None
        middles = [median(getattr(turn, name) for turn in turns) for name in ("ms_p50", "ms_p95", "cpu_us")]
        return Timing(*middles, sum(turn.requests for turn in turns))

    def timing_added(self, what: str, base: str) -> float | None:
        """The p50 of one kind minus that of another, as the median of the differences of the rounds."""
        pairs = list(zip(self.timings.get(what, []), self.timings.get(base, []), strict=True))
        return median(ours.ms_p50 - theirs.ms_p50 for ours, theirs in pairs) if pairs else None

    def steady(self) -> Scenario | None:
        """The highest rate without delay of the backend at which the p95 of direct stays under a millisecond."""
        rates = [one for one in self.of_kind(Kind.RATE) if one.name.startswith("rate-")]
        found = [one for one in rates if (load := self.load(one.name, DIRECT)) and load.latency_ms_p95 < DIRECT_P95_MS_MAX]
        return max(found, key=lambda one: one.rate or 0, default=None)

    def measured(self, scenario: str) -> list[tuple[str, Load]]:
        """The targets of a scenario in the order of tables."""
        return [(name, load) for name in self.names if (load := self.load(scenario, name))]

    def of_kind(self, *kinds: Kind) -> list[Scenario]:
        """The scenarios that were measured."""
        return [one for one in self.scenarios if one.kind in kinds and self.measured(one.name)]


def percentiles(scenario: Scenario, load: Load) -> tuple[float, float]:
    """p50 and p95 of what a caller waits for."""
    if scenario.is_stream:
        return load.first_event_ms_p50, load.first_event_ms_p95
    return load.latency_ms_p50, load.latency_ms_p95
