"""What was measured, as a page, as JSON, and as a few lines for a terminal. The standard library alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import case_study
from case_study import Figures
from pages import machine, number, table
from prose import METHOD, TOP
from services import GO, PYTHON, PYTHON_TORCH, WEIR, WEIR_SPLIT, WEIR_THIN, Shipped

# Of the case study.
COMPARED_CONCURRENCY = 16
MIB = 2**20


@dataclass(frozen=True)
class Load:
    """One turn of the load generator."""

    requests: int
    failures: int
    requests_per_s: float
    latency_ms_p50: float
    latency_ms_p95: float
    latency_ms_p99: float
    # at its highest; pages that processes share count for each
    rss_mib: float
    # of all its processes, for each request that it answered
    cpu_ms_per_request: float

    @staticmethod
    def of(figures: dict[str, Any]) -> Load:
        """From the generator's JSON."""
        answered = round(figures["requests_per_s"] * figures["duration_s"])
        return Load(
            answered,
            int(figures["requests_failed"]),
            figures["requests_per_s"],
            figures["latency_ms_p50"],
            figures["latency_ms_p95"],
            figures["latency_ms_p99"],
            figures["server_rss_bytes_max"] / MIB,
            figures["server_cpu_s"] * 1e3 / max(answered, 1),
        )


def middle(loads: list[Load]) -> Load:
    """The median of each figure over the rounds; failures are added up."""

    def of(value: Callable[[Load], float]) -> float:
        return median(map(value, loads))

    return Load(
        sum(load.requests for load in loads),
        sum(load.failures for load in loads),
        of(lambda load: load.requests_per_s),
        of(lambda load: load.latency_ms_p50),
        of(lambda load: load.latency_ms_p95),
        of(lambda load: load.latency_ms_p99),
        of(lambda load: load.rss_mib),
        of(lambda load: load.cpu_ms_per_request),
    )


@dataclass(frozen=True)
class SettingResult:
    """A setting of the Python monolith at the compared concurrency."""

    name: str
    load: Load


@dataclass(frozen=True)
class RowFacts:
    """What does not depend on the load."""

    detail: str
    start_seconds: list[float]
    shipped: dict[str, Any]
    resident_mib: float


@dataclass
class Report:
    """All that there is to say."""

    run: dict[str, Any]
    names: list[str] = field(default_factory=list)
    settings: list[SettingResult] = field(default_factory=list)
    loads: dict[tuple[str, int], list[Load]] = field(default_factory=dict)
    harness: dict[str, dict[str, float]] = field(default_factory=dict)
    facts: dict[str, RowFacts] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def load(self, name: str, concurrency: int = COMPARED_CONCURRENCY) -> Load | None:
        """The medians of a row, if it was measured."""
        loads = self.loads.get((name, concurrency))
        return middle(loads) if loads else None

    @property
    def concurrencies(self) -> list[int]:
        """In order."""
        return sorted({concurrency for _, concurrency in self.loads})

    @property
    def best_python(self) -> str | None:
        """The Python monolith with the most requests/s."""
        loads = {name: load for name in PYTHON.values() if (load := self.load(name))}
        return max(loads, key=lambda name: loads[name].requests_per_s, default=None)

    def case_figures(self) -> list[Figures]:
        """What the tables of the case study are computed from, the best Python monolith first; none without it."""
        best = self.best_python
        if best is None:
            return []
        loads = {name: load for name in self.names if (load := self.load(name))}
        ordered = [best, *(name for name in loads if name not in PYTHON.values())]
        return [Figures(name, loads[name].requests_per_s, loads[name].latency_ms_p95, loads[name].rss_mib) for name in ordered]


@dataclass(frozen=True)
class Target:
    """What is wanted, at most or at least, and what is."""

    what: str
    value: float | None
    bound: float
    at_least: bool

    @property
    def verdict(self) -> str:
        """Said in the page."""
        if self.value is None:
            return "not measured"
        if self.value >= self.bound if self.at_least else self.value <= self.bound:
            return "reached"
        return "BELOW" if self.at_least else "ABOVE"


def targets(report: Report) -> list[Target]:
    """At the compared concurrency."""

    best = report.best_python

    def ratio(name: str, other: str | None, value: Callable[[Load], float]) -> float | None:
        ours, theirs = report.load(name), report.load(other) if other else None
        return value(ours) / value(theirs) if ours and theirs and value(theirs) else None

    def rate(load: Load) -> float:
        return load.requests_per_s

    def p95(load: Load) -> float:
        return load.latency_ms_p95

    def rss(load: Load) -> float:
        return load.rss_mib

    return [
        Target(f"{WEIR}: requests/s against the best Python monolith", ratio(WEIR, best, rate), 30, True),
        Target(f"{WEIR}: p95 against it", ratio(WEIR, best, p95), 1 / 20, False),
        Target(f"{WEIR}: RSS against it", ratio(WEIR, best, rss), 1 / 10, False),
        Target(f"{WEIR}: requests/s against {PYTHON_TORCH}, the published stack", ratio(WEIR, PYTHON_TORCH, rate), 30, True),
        Target(f"{WEIR}: p95 against it", ratio(WEIR, PYTHON_TORCH, p95), 1 / 20, False),
        Target(f"{WEIR}: RSS against it", ratio(WEIR, PYTHON_TORCH, rss), 1 / 10, False),
        Target(f"{WEIR_SPLIT}: requests/s against {WEIR}", ratio(WEIR_SPLIT, WEIR, rate), 0.8, True),
        Target(f"{WEIR_THIN}: requests/s against {GO}", ratio(WEIR_THIN, GO, rate), 1, True),
        Target(f"{WEIR_THIN}: RSS against {GO}", ratio(WEIR_THIN, GO, rss), 3, False),
    ]


def figures(report: Report) -> dict[str, Any]:
    """Everything as JSON."""
    return {
        "machine": machine(),
        "run": report.run,
        "targets": [asdict(target) | {"verdict": target.verdict} for target in targets(report)],
        "rows": [
            {"service": name, "concurrency": concurrency} | asdict(middle(loads)) | {"rounds": [asdict(load) for load in loads]}
            for (name, concurrency), loads in sorted(report.loads.items())
        ],
        "python_settings": [{"setting": setting.name} | asdict(setting.load) for setting in report.settings],
        "facts": {name: asdict(facts) for name, facts in report.facts.items()},
        "harness": report.harness,
        "case_study": case_figures(report),
        "published": [asdict(figure) for figure in case_study.PUBLISHED],
        "left_out": report.failures,
    }


def case_figures(report: Report) -> dict[str, Any]:
    """The computed tables as JSON."""
    rows = report.case_figures()
    if not rows:
        return {}
    base = rows[0]
    return {
        "improvement_percent": [asdict(case_study.improvement(base, row)) for row in rows[1:]],
        "replicas": {row.name: {load: case_study.replicas(load, row.requests_per_s) for load in case_study.LOADS_PER_S} for row in rows},
        "savings_dollars_a_year": {
            row.name: {load: case_study.savings(base, row, load) for load in case_study.LOADS_PER_S} for row in rows[1:]
        },
        "small_deployment": {row.name: case_study.small_deployment(row) for row in rows},
    }


def bold(name: str) -> str:
    """Ours stand out."""
    return f"**{name}**" if name.startswith("Weir") else name


def target_table(report: Report) -> str:
    """All targets with verdicts."""
    rows = []
    for target in targets(report):
        value = "" if target.value is None else f"**{number(target.value)}×**"
        rows.append([target.what, value, f"{'≥' if target.at_least else '≤'} {number(target.bound)}×", target.verdict])
    return table(["target", "measured", "wanted", ""], rows)


def load_cells(load: Load) -> list[str]:
    """The figures of a turn or of several."""
    values = [load.requests_per_s, load.latency_ms_p50, load.latency_ms_p95, load.latency_ms_p99, load.rss_mib]
    return [*map(number, [*values, load.cpu_ms_per_request]), f"{load.failures:,}" if load.failures else "0"]


LOAD_HEADINGS = ["requests/s", "p50 ms", "p95 ms", "p99 ms", "RSS MiB", "CPU ms/request", "failed"]


def load_tables(report: Report) -> str:
    """For each concurrency the rows, the fastest first."""
    parts = []
    for concurrency in report.concurrencies:
        loads = [(name, load) for name in report.names if (load := report.load(name, concurrency))]
        loads.sort(key=lambda entry: -entry[1].requests_per_s)
        rows = [[bold(name), *load_cells(load)] for name, load in loads]
        parts.append(table([f"concurrency {concurrency}", *LOAD_HEADINGS], rows))
    return "\n".join(parts)


def settings_table(report: Report) -> str:
    """Every setting of the Python monolith, the best first."""
    ordered = sorted(report.settings, key=lambda setting: -setting.load.requests_per_s)
    rows = [[setting.name, *load_cells(setting.load)] for setting in ordered]
    return table([f"Python monolith, concurrency {COMPARED_CONCURRENCY}", *LOAD_HEADINGS], rows) if rows else ""


def facts_table(report: Report) -> str:
    """Start and size."""
    rows = []
    for name in report.names:
        if name not in report.facts:
            continue
        facts = report.facts[name]
        shipped = Shipped(**facts.shipped)
        start = [median(facts.start_seconds) * 1e3, facts.start_seconds[0] * 1e3, facts.start_seconds[-1] * 1e3]
        sizes = [shipped.program_bytes / MIB, shipped.total_bytes / MIB]
        rows.append([bold(name), *map(number, [*start, *sizes]), shipped.what])
    headings = ["", "start to `/healthz`, median ms", "fastest", "slowest", "program MiB", "with model MiB", "counted"]
    return table(headings, rows) if rows else ""


def harness_table(report: Report) -> str:
    """The look-alike beside the load generator, at the same concurrency."""
    rows = []
    for name in report.names:
        found, load = report.harness.get(name), report.load(name)
        if found and load:
            cells = [found["requests_per_s"], found["latency_ms_p50"], found["latency_ms_p95"], found["latency_ms_p99"]]
            rows.append([bold(name), *map(number, [*cells, found["server_rss_mib"], load.requests_per_s, load.latency_ms_p95])])
    headings = ["harness look-alike", "requests/s", "p50 ms", "p95 ms", "p99 ms", "RSS MiB", "`weir-bench` requests/s", "p95 ms"]
    return table(headings, rows) if rows else ""


def case_tables(rows: list[Figures]) -> str:
    """Improvement, replicas, savings, a small deployment; the first row is the base."""
    base, others = rows[0], rows[1:]
    improvements = []
    for row in others:
        found = case_study.improvement(base, row)
        improvements.append([bold(row.name), *(f"{value:+,.0f} %" for value in (found.requests_per_s, found.latency_p95, found.rss))])
    loads = [f"{load:,} requests/s" for load in case_study.LOADS_PER_S]
    replicas = [
        [bold(row.name), *(f"{case_study.replicas(load, row.requests_per_s):,}" for load in case_study.LOADS_PER_S)] for row in rows
    ]
    savings = []
    for row in others:
        pairs = [case_study.savings(base, row, load) for load in case_study.LOADS_PER_S]
        savings.append([bold(row.name), *(f"${low:,} to ${high:,}" for low, high in pairs)])
    small = []
    for row in rows:
        count, memory = case_study.small_deployment(row)
        small.append([bold(row.name), f"{count:,}", f"{number(memory)} MiB"])
    least, most = case_study.SMALL_LOADS_PER_S
    return "\n".join(
        [
            table([f"against the {base.name}", "requests/s", "p95", "RSS"], improvements),
            table(["replicas for", *loads], replicas),
            table(["savings a year", *loads], savings),
            table([f"{least:,} to {most:,} requests/s", "replicas", "memory"], small),
        ]
    )


def page(report: Report) -> str:
    """docs/benchmarks/gateway.md."""
    run = report.run
    parts = [TOP, f"Machine: {machine()}.\n"]
    parts.append(
        f"{run['documents']:,} documents of {run['characters_mean']:,} characters on average ({run['source']}), {run['queries']:,} "
        f"queries, top 5; {run['rounds']} rounds of {run['seconds']:g} s for each row and concurrency, medians.\n"
    )
    parts += ["## Against the targets\n", f"Concurrency {COMPARED_CONCURRENCY}.\n", target_table(report)]
    if report.failures:
        parts.append(f"Left out, because they did not run here: {'; '.join(report.failures)}.\n")
    parts += ["![requests a second by concurrency](gateway-rate.svg)\n", "![p95 by concurrency](gateway-latency.svg)\n"]
    parts += ["## Every concurrency\n", load_tables(report), settings_table(report)]
    parts += ["## Start and size\n", facts_table(report)]
    parts += ["## The published harness\n", harness_table(report)]
    rows = report.case_figures()
    if rows:
        parts += ["## The tables of the case study\n", "From what was measured here:\n", case_tables(rows)]
    parts += ["From what was published:\n", case_tables(list(case_study.PUBLISHED)), METHOD]
    parts.append("| service | as it was run |\n| --- | --- |\n" + "".join(f"| {bold(name)} | {facts.detail} |\n" for name, facts in report.facts.items()))
    return "\n".join(part for part in parts if part)


def summary(report: Report) -> str:
    """What a terminal shows."""
    lines = [f"{'service':<20} {'concurrency':>11} {'requests/s':>11} {'p50 ms':>9} {'p95 ms':>9} {'p99 ms':>9} {'RSS MiB':>9} {'CPU ms':>8}"]
    for (name, concurrency), loads in sorted(report.loads.items(), key=lambda entry: (entry[0][1], entry[0][0])):
        load = middle(loads)
        times = f"{load.latency_ms_p50:>9.2f} {load.latency_ms_p95:>9.2f} {load.latency_ms_p99:>9.2f}"
        lines.append(f"{name:<20} {concurrency:>11} {load.requests_per_s:>11,.1f} {times} {load.rss_mib:>9,.1f} {load.cpu_ms_per_request:>8.3f}")
    return "\n".join([*lines, "", target_table(report)])
