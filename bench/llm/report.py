"""What was measured, as a page, as JSON, and as a few lines for a terminal. The standard library alone."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from goals import goals
from pages import machine, number, table
from prose import METHOD, PUBLISHED, SHORT, TOP
from results import Added, Load, Report
from scenarios import Kind, Scenario
from targets import WEIR_PG

# Measured time of a target and scenario below which the page warns.
SHORT_SECONDS = 6.0


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
        "guardrails": [asdict(row) for row in report.guardrails],
        "timings": {what: [asdict(turn) for turn in turns] for what, turns in report.timings.items()},
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
    if value == int(value):
        return f"{value:,.0f}"
    return f"{'−' if value < 0 else ''}{number(abs(value))}"


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
        count = report.open_streams(scenario.name, name)
        memory = [load.rss_start_mib, load.rss_mib, load.rss_mib * 1024 / max(count, 1)]
        values = [*memory, load.events_per_s, load.gap_ms_p95, load.gap_ms_p99, load.cpu_us_per_event, load.first_event_ms_p95]
        rows.append([bold(name), f"{count:,}", *map(number, values), failed_cell(load)])
    headings = ["open", "RSS before MiB", "RSS MiB", "all KiB/stream", "events/s", "gap p95 ms", "p99 ms", "CPU µs/event", "first event p95 ms", "failed"]
    return table([scenario.title, *headings], rows)


def chaos_table(report: Report, scenario: Scenario) -> str:
    """Faults."""
    rows = []
    for name, load in report.measured(scenario.name):
        values = [load.latency_ms_p50, load.latency_ms_p95, load.latency_ms_p99]
        rows.append([bold(name), f"{load.good_percent:.2f} %", *map(number, values), failed_cell(load)])
    return table([scenario.title, "good replies", "p50 ms", "p95 ms", "p99 ms", "failed"], rows)


def rows_table(report: Report) -> str:
    """Telemetry."""
    if report.rows is None:
        return ""
    rows = report.rows
    cells = [f"PostgreSQL {rows.version}", f"{rows.requests:,}", f"{rows.rows:,}", number(rows.cpu_us_per_row)]
    return table([WEIR_PG, "requests sent", "rows", "PostgreSQL's CPU µs/row"], [cells])


def guardrail_table(report: Report) -> str:
    """Scans without a gateway."""
    rows = [[row.what, number(row.us), number(row.us_min), f"µs/{row.per}"] for row in report.guardrails]
    return table(["one thread, all built-in kinds", "median", "fastest run", ""], rows)


def timing_table(report: Report) -> str:
    """Cache hits and retrieval."""
    rows = []
    for what in report.timings:
        if timing := report.timing(what):
            rows.append([what, number(timing.ms_p50), number(timing.ms_p95), number(timing.cpu_us), f"{timing.requests:,}"])
    return table(["one caller, one request after another", "p50 ms", "p95 ms", "CPU µs/request", "requests"], sorted(rows))


def page(report: Report) -> str:
    """docs/benchmarks/llm.md."""
    run = report.run
    count_of_rounds = "one round" if run["rounds"] == 1 else f"{run['rounds']} rounds"
    length = (
        f"{count_of_rounds[0].upper()}{count_of_rounds[1:]} of {run['seconds']:g} s for each target and scenario{', medians' if run['rounds'] > 1 else ''}.\n"
    )
    parts = [TOP, f"Machine: {machine()}.\n", length, *([SHORT] if run["rounds"] * run["seconds"] < SHORT_SECONDS else [])]
    parts += ["## Against the goals\n", goal_table(report)]
    set_up = [f"| {bold(name)} | {detail} |\n" for name, detail in report.details.items()]
    parts += ["## What was compared\n", "| target | as it was run |\n| --- | --- |\n" + "".join(set_up)]
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
    if report.guardrails:
        parts += ["## Guardrails alone\n", guardrail_table(report)]
    if report.timings:
        parts += ["## Kept replies and chat with documents\n", timing_table(report)]
    parts += [PUBLISHED, METHOD]
    return "\n".join(part for part in parts if part)


def summary(report: Report) -> str:
    """What a terminal shows."""
    headings = f"{'requests/s':>11} {'p50 ms':>9} {'p95 ms':>9} {'p99 ms':>9} {'CPU us':>9} {'RSS MiB':>9} {'failed':>7} {'good %':>7}"
    lines = [f"{'scenario':<18} {'target':<18} {headings}"]
    for scenario in report.scenarios:
        for name, load in report.measured(scenario.name):
            times = f"{load.latency_ms_p50:>9.2f} {load.latency_ms_p95:>9.2f} {load.latency_ms_p99:>9.2f}"
            costs = f"{load.cpu_us_per_request:>9.1f} {load.rss_mib:>9.1f} {load.failed:>7,} {load.good_percent:>7.2f}"
            lines.append(f"{scenario.name:<18} {name:<18} {load.requests_per_s:>11,.1f} {times} {costs}")
    return "\n".join([*lines, "", goal_table(report)])
