"""What was measured, as a page, as JSON, and as a few lines for a terminal. The standard library alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from statistics import median
from typing import Any

from pages import machine, number, table
from prose import METHOD, PUBLISHED, TOP
from scenarios import Kind, Scenario
from targets import DIRECT, FLOOR, GO, LITELLM_4, PORTKEY, WEIR, WEIR_PG

MIB = 2**20


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

    def add(self, scenario: str, name: str, number_of_round: int, load: Load) -> None:
        """A turn."""
        self.loads.setdefault((scenario, name), {})[number_of_round] = load

    def load(self, scenario: str, name: str) -> Load | None:
        """The medians of a target, if it was measured."""
        loads = self.loads.get((scenario, name))
        return middle(list(loads.values())) if loads else None

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

    def of(scenario: str, name: str, value: Callable[[Load], float]) -> float | None:
        load = report.load(scenario, name)
        return value(load) if load else None

    def ratio(scenario: str, other: str, value: Callable[[Load], float]) -> float | None:
        ours, theirs = of(scenario, WEIR, value), of(scenario, other, value)
        return ours / theirs if ours is not None and theirs else None

    def added(scenario: str, value: Callable[[Added], float]) -> float | None:
        found = next((one for one in report.scenarios if one.name == scenario), None)
        result = report.added(found, WEIR) if found else None
        return value(result) if result else None

    def rate(load: Load) -> float:
        return load.requests_per_s

    def cpu(load: Load) -> float:
        return load.cpu_us_per_request

    def per_cpu_second(load: Load) -> float:
        return 1e6 / load.cpu_us_per_request

    def event_cpu(load: Load) -> float:
        return load.cpu_us_per_event

    own, pg = of("rate-5000", WEIR, cpu), of("rate-5000", WEIR_PG, cpu)
    telemetry = pg - own if own is not None and pg is not None else None
    streams = [load for one in report.of_kind(Kind.STREAM) if (load := report.load(one.name, WEIR))]
    lost = float(report.rows.requests - report.rows.rows) if report.rows else None
    return [
        Goal(f"{WEIR}: requests/s in the closed loop against the floor", ratio("closed-1k", FLOOR, rate), 0.75, "×", True),
        Goal(f"{WEIR}: requests/s in the closed loop against {GO}", ratio("closed-1k", GO, rate), 2, "×", True),
        Goal(f"{WEIR}: requests/s in the closed loop against {PORTKEY}", ratio("closed-1k", PORTKEY, rate), 20, "×", True),
        Goal(f"{WEIR}: requests/s in the closed loop against {LITELLM_4}", ratio("closed-1k", LITELLM_4, rate), 50, "×", True),
        Goal(f"{WEIR}: requests per CPU-second in the closed loop", of("closed-1k", WEIR, per_cpu_second), 10_000, "", True),
        Goal(f"{WEIR}: CPU per request in the closed loop against the floor", ratio("closed-1k", FLOOR, cpu), 1.4, "×"),
        Goal(f"{WEIR}: CPU per request of 100 KB in the closed loop against the floor", ratio("closed-100k", FLOOR, cpu), 1.4, "×"),
        Goal(f"{WEIR}: added p50 at 5,000/s", added("rate-5000", lambda one: one.ms_p50), 0.35, " ms"),
        Goal(f"{WEIR}: added p50 at 8,000/s", added("rate-8000", lambda one: one.ms_p50), 0.35, " ms"),
        Goal(f"{WEIR}: p95 at 5,000/s", of("rate-5000", WEIR, lambda load: load.latency_ms_p95), 4, " ms"),
        Goal(f"{WEIR}: p95 at 8,000/s", of("rate-8000", WEIR, lambda load: load.latency_ms_p95), 10, " ms"),
        Goal(f"{WEIR}: p95 at 12,000/s", of("rate-12000", WEIR, lambda load: load.latency_ms_p95), 35, " ms"),
        Goal(f"{WEIR}: added time to the first event, p50", added("stream-100", lambda one: one.ms_p50), 0.7, " ms"),
        Goal(f"{WEIR}: CPU per token against the floor", ratio("stream-100", FLOOR, event_cpu), 1.5, "×"),
        Goal(f"{WEIR}: streams truncated or changed", float(sum(load.failed for load in streams)) if streams else None, 0, ""),
        Goal(f"{WEIR_PG}: CPU per request at 5,000/s, more than {WEIR}", telemetry, 10, " µs"),
        Goal(f"{WEIR_PG}: requests without a row", abs(lost) if lost is not None else None, 0, ""),
    ]


def figures(report: Report) -> dict[str, Any]:
    """Everything as JSON."""
    rows = []
    for scenario in report.scenarios:
        for name, load in report.measured(scenario.name):
            added = report.added(scenario, name)
            row = {"scenario": scenario.name, "target": name} | asdict(load)
            row |= {"added": asdict(added) if added else None}
            rows.append(row | {"rounds": [asdict(one) for one in report.loads[scenario.name, name].values()]})
    return {
        "machine": machine(),
        "run": report.run,
        "goals": [asdict(goal) | {"verdict": goal.verdict} for goal in goals(report)],
        "scenarios": [asdict(one) | {"kind": one.kind.value} for one in report.scenarios],
        "targets": report.details,
        "checks": {name: asdict(check) for name, check in report.checks.items()},
        "rows": rows,
        "postgres": asdict(report.rows) if report.rows else None,
        "left_out": report.left_out,
    }


def bold(name: str) -> str:
    """Ours stand out."""
    return f"**{name}**" if name.startswith("Weir") else name


def signed(value: float) -> str:
    """With its sign, three figures."""
    return f"{'+' if value >= 0 else '−'}{number(abs(value))}"


def exact(value: float) -> str:
    """Three figures; counts such as 0 without decimals."""
    return f"{value:,.0f}" if value == int(value) else number(value)


def failed_cell(load: Load) -> str:
    """How many and why."""
    if not load.failed:
        return "0"
    return f"{load.failed:,} ({', '.join(f'{kind} {count:,}' for kind, count in sorted(load.failures.items()))})"


def added_cells(added: Added | None) -> list[str]:
    """p50 and p95."""
    if added is None:
        return ["", ""]
    return [f"{signed(added.ms_p50)} ({number(added.ratio_p50)}×)", f"{signed(added.ms_p95)} ({number(added.ratio_p95)}×)"]


def goal_table(report: Report) -> str:
    """All goals with verdicts."""
    rows = []
    for goal in goals(report):
        value = "" if goal.value is None else f"**{exact(goal.value)}{goal.unit}**"
        rows.append([goal.what, value, f"{'≥' if goal.at_least else '≤'} {exact(goal.bound)}{goal.unit}", goal.verdict])
    return table(["goal", "measured", "wanted", ""], rows)


def load_table(report: Report, scenario: Scenario) -> str:
    """Plain requests."""
    rows = []
    for name, load in report.measured(scenario.name):
        values = [load.requests_per_s, load.latency_ms_p50, load.latency_ms_p95, load.latency_ms_p99]
        costs = [load.cpu_us_per_request, load.requests_per_cpu_s, load.rss_mib]
        added = added_cells(report.added(scenario, name))
        rows.append([bold(name), *map(number, values), *added, *map(number, costs), failed_cell(load)])
    headings = ["requests/s", "p50 ms", "p95 ms", "p99 ms", "added p50 ms", "added p95 ms", "CPU µs/request", "requests/CPU s", "RSS MiB", "failed"]
    return table([scenario.title, *headings], rows)


def stream_table(report: Report, scenario: Scenario) -> str:
    """Streams."""
    rows = []
    for name, load in report.measured(scenario.name):
        times = [load.first_event_ms_p50, load.first_event_ms_p95]
        gaps = [load.gap_ms_p50, load.gap_ms_p95, load.gap_ms_p99]
        added = added_cells(report.added(scenario, name))
        check = report.checks.get(name)
        equal = ("all" if load.ok == load.requests else f"{load.ok:,} of {load.requests:,}") if check and check.is_equal else "no, other bytes"
        costs = map(number, [load.cpu_us_per_event, load.rss_mib])
        rows.append([bold(name), *map(number, times), *added, *map(number, gaps), f"{load.events_min:,}", *costs, equal, failed_cell(load)])
    headings = ["first event p50 ms", "p95 ms", "added p50 ms", "added p95 ms", "gap p50 ms", "p95 ms", "p99 ms", "fewest events"]
    return table([scenario.title, *headings, "CPU µs/token", "RSS MiB", "equal to the mock's", "failed"], rows)


def hold_table(report: Report, scenario: Scenario) -> str:
    """Open streams."""
    rows = []
    for name, load in report.measured(scenario.name):
        memory = [load.rss_start_mib, load.rss_mib, load.rss_mib * 1024 / max(load.ok, 1)]
        values = [*memory, load.events_per_s, load.gap_ms_p95, load.cpu_us_per_event, load.first_event_ms_p95]
        rows.append([bold(name), f"{load.ok:,}", *map(number, values), failed_cell(load)])
    headings = ["open", "RSS before MiB", "RSS MiB", "all KiB/stream", "events/s", "gap p95 ms", "CPU µs/event", "first event p95 ms", "failed"]
    return table([scenario.title, *headings], rows)


def chaos_table(report: Report, scenario: Scenario) -> str:
    """Faults."""
    rows = []
    for name, load in report.measured(scenario.name):
        values = [load.latency_ms_p50, load.latency_ms_p95, load.latency_ms_p99]
        rows.append([bold(name), f"{load.ok * 100 / max(load.requests, 1):.2f} %", *map(number, values), failed_cell(load)])
    return table([scenario.title, "good replies", "p50 ms", "p95 ms", "p99 ms", "failed"], rows)


def rows_table(report: Report) -> str:
    """Telemetry."""
    if report.rows is None:
        return ""
    rows = report.rows
    cells = [f"PostgreSQL {rows.version}", f"{rows.requests:,}", f"{rows.rows:,}", number(rows.cpu_us_per_row)]
    return table([WEIR_PG, "requests sent", "rows", "PostgreSQL's CPU µs/row"], [cells])


def page(report: Report) -> str:
    """docs/benchmarks/llm.md."""
    run = report.run
    count_of_rounds = "one round" if run["rounds"] == 1 else f"{run['rounds']} rounds"
    parts = [TOP, f"Machine: {machine()}.\n", f"{count_of_rounds} of {run['seconds']:g} s for each target and scenario, medians.\n"]
    parts += ["## Against the goals\n", goal_table(report)]
    if report.left_out:
        parts.append("Left out: " + "; ".join(f"{name} ({why})" for name, why in report.left_out.items()) + ".\n")
    if run["has_plots"]:
        parts += ["![p95 by rate](llm-latency.svg)\n", "![CPU time for each request by rate](llm-cpu.svg)\n"]
    parts += ["## Closed loop\n", *(load_table(report, one) for one in report.of_kind(Kind.CLOSED))]
    parts += ["## Constant rate\n", *(load_table(report, one) for one in report.of_kind(Kind.RATE))]
    parts += ["## Streams\n", *(stream_table(report, one) for one in report.of_kind(Kind.STREAM))]
    parts += [hold_table(report, one) for one in report.of_kind(Kind.HOLD)]
    parts += ["## Faults\n", *(chaos_table(report, one) for one in report.of_kind(Kind.CHAOS))]
    if report.rows:
        parts += ["## A row for each request\n", rows_table(report)]
    parts += [PUBLISHED, METHOD]
    parts.append("| target | as it was run |\n| --- | --- |\n" + "".join(f"| {bold(name)} | {detail} |\n" for name, detail in report.details.items()))
    return "\n".join(part for part in parts if part)


def summary(report: Report) -> str:
    """What a terminal shows."""
    headings = f"{'requests/s':>11} {'p50 ms':>9} {'p95 ms':>9} {'p99 ms':>9} {'CPU us':>9} {'RSS MiB':>9} {'failed':>7}"
    lines = [f"{'scenario':<18} {'target':<18} {headings}"]
    for scenario in report.scenarios:
        for name, load in report.measured(scenario.name):
            times = f"{load.latency_ms_p50:>9.2f} {load.latency_ms_p95:>9.2f} {load.latency_ms_p99:>9.2f}"
            costs = f"{load.cpu_us_per_request:>9.1f} {load.rss_mib:>9.1f} {load.failed:>7,}"
            lines.append(f"{scenario.name:<18} {name:<18} {load.requests_per_s:>11,.1f} {times} {costs}")
    return "\n".join([*lines, "", goal_table(report)])
