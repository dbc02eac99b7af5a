"""What was measured, as a page, as JSON, and as a few lines for a terminal. The standard library alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import mean, stdev
from typing import Any

import chain
from chain import DIMENSION, LINKS, PUBLISHED_GBIT_PER_S, PUBLISHED_STEPS, Case
from pages import machine, number, table
from prose import METHOD, TOP

# What the targets are for.
COMPARED = Case(256, 1_000)
OVER_ORJSON_WANTED, OF_COPY_WANTED, JSON_PER_CPU_WANTED = 50.0, 0.5, 1.5


@dataclass(frozen=True)
class Result:
    """One run: all requests of a case."""

    seconds: float
    # of the server's processes; the system counts in ticks of 10 ms
    server_cpu_s_per_request: float
    reply_bytes: float


@dataclass
class Report:
    """All that there is to say."""

    runs: int
    is_stub: bool = False
    results: dict[tuple[str, Case], list[Result]] = field(default_factory=dict)
    # by workers of uvicorn: Gbit/s of raw replies
    workers: dict[int, float] = field(default_factory=dict)
    # by connections: Gbit/s of each measurement
    copies: dict[int, list[float]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def cases(self) -> list[Case]:
        """In the order of the experiment."""
        return sorted({case for _, case in self.results}, key=lambda case: (case.batch, case.requests))

    @property
    def compared(self) -> Case:
        """The largest case that was measured."""
        return COMPARED if COMPARED in self.cases else self.cases[-1]

    @property
    def copy_gbit_per_s(self) -> float | None:
        """The ceiling: the best of all."""
        return max((rate for rates in self.copies.values() for rate in rates), default=None)

    def rates(self, name: str, case: Case) -> list[float]:
        """Gbit/s of vectors in each run: their float32, whatever the encoding."""
        return [case.vector_bytes * 8e-9 / result.seconds for result in self.results.get((name, case), [])]

    def rate(self, name: str, case: Case) -> float | None:
        """The mean of the runs."""
        rates = self.rates(name, case)
        return mean(rates) if rates else None

    def vectors_per_cpu_s(self, name: str, case: Case) -> float | None:
        """Of the server."""
        results = self.results.get((name, case), [])
        cpu = mean(result.server_cpu_s_per_request for result in results) if results else 0.0
        return case.batch / cpu if cpu else None


def sigma(values: list[float]) -> float:
    """The standard deviation of a sample; of one value none."""
    return stdev(values) if len(values) > 1 else 0.0


@dataclass(frozen=True)
class Target:
    """What is wanted at least, and what is."""

    what: str
    value: float | None
    bound: float
    unit: str

    @property
    def verdict(self) -> str:
        """Said in the page."""
        if self.value is None:
            return "not measured"
        return "reached" if self.value >= self.bound else "BELOW"


def ratio(value: float | None, base: float | None) -> float | None:
    """None if either was not measured."""
    return value / base if value and base else None


def targets(report: Report) -> list[Target]:
    """At the largest case. Of the first, the lesser of two bounds is enough."""
    case = report.compared
    ours = report.rate(chain.ZERO_COPY_WEIR, case)
    orjson = report.rate(chain.ORJSON_FASTAPI, case)
    copy = report.copy_gbit_per_s
    bounds = [bound for bound in (orjson and orjson * OVER_ORJSON_WANTED, copy and copy * OF_COPY_WANTED) if bound]
    lesser = f"the lesser of {OVER_ORJSON_WANTED:g} times {chain.ORJSON_FASTAPI} and {OF_COPY_WANTED:.0%} of the TCP copy"
    per_cpu = ratio(report.vectors_per_cpu_s(chain.JSON_WEIR, case), report.vectors_per_cpu_s(chain.ORJSON_FASTAPI, case))
    return [
        Target(f"{chain.ZERO_COPY_WEIR}: {lesser}", ours, min(bounds, default=0.0), "Gbit/s"),
        Target(f"{chain.JSON_WEIR}: vectors per CPU-second of the server against {chain.ORJSON_FASTAPI}", per_cpu, JSON_PER_CPU_WANTED, "×"),
    ]


def figures(report: Report) -> dict[str, Any]:
    """Everything as JSON."""
    rows = []
    for (name, case), results in sorted(report.results.items(), key=lambda entry: (entry[0][1].batch, entry[0][1].requests, entry[0][0])):
        rates = report.rates(name, case)
        row: dict[str, Any] = {"link": name, "batch": case.batch, "requests": case.requests}
        row |= {"gbit_per_s_mean": mean(rates), "gbit_per_s_sigma": sigma(rates)}
        row |= {"vectors_per_server_cpu_s": report.vectors_per_cpu_s(name, case), "runs": [asdict(result) for result in results]}
        rows.append(row)
    return {
        "machine": machine(),
        "dimension": DIMENSION,
        "is_stub": report.is_stub,
        "targets": [asdict(target) | {"verdict": target.verdict} for target in targets(report)],
        "rows": rows,
        "steps": [asdict(step) for step in steps(report)],
        "uvicorn_workers_gbit_per_s": report.workers,
        "tcp_copy_gbit_per_s": report.copies,
        "left_out": report.left_out,
    }


@dataclass(frozen=True)
class Step:
    """From one link to the next, at the largest case."""

    before: str
    after: str
    factor: float | None
    published: float


def steps(report: Report) -> list[Step]:
    """The chain of the published experiment."""
    case = report.compared
    return [Step(before, after, ratio(report.rate(after, case), report.rate(before, case)), factor) for before, after, factor in PUBLISHED_STEPS]


def bold(name: str) -> str:
    """Ours stand out."""
    return f"**{name}**" if name.startswith(chain.WEIR) else name


def target_table(report: Report) -> str:
    """All targets with verdicts."""
    rows = []
    for target in targets(report):
        value = "" if target.value is None else f"**{number(target.value)} {target.unit}**"
        rows.append([target.what, value, f"≥ {number(target.bound)} {target.unit}", target.verdict])
    return table([f"target, {report.compared.name}", "measured", "wanted", ""], rows)


def case_table(report: Report, case: Case) -> str:
    """All links of a case, in the order of the chain, and the ceiling."""
    rows = []
    for link in LINKS:
        rates = report.rates(link.name, case)
        if not rates:
            continue
        results = report.results[link.name, case]
        milliseconds = [result.seconds * 1e3 for result in results]
        cells = [f"{number(mean(rates))} ± {number(sigma(rates))}", f"{number(mean(milliseconds))} ± {number(sigma(milliseconds))}"]
        cells += [number(case.batch * case.requests / mean(result.seconds for result in results))]
        cells += [number(report.vectors_per_cpu_s(link.name, case)), number(mean(result.reply_bytes for result in results) / 1024)]
        rows.append([bold(link.name), *cells])
    if report.copy_gbit_per_s:
        rows.append(["bare TCP copy", number(report.copy_gbit_per_s), "", "", "", ""])
    headings = [case.name, "Gbit/s of vectors", "ms of a run", "vectors/s", "vectors per CPU-second of the server", "KiB a reply"]
    return table(headings, rows)


def step_table(report: Report) -> str:
    """The factors beside those that were published."""
    rows = [[f"{step.before} → {step.after}", number(step.factor), number(step.published)] for step in steps(report)]
    return table([f"step, {report.compared.name}", "here ×", "published ×"], rows)


def page(report: Report) -> str:
    """docs/benchmarks/wire.md."""
    parts = [TOP, f"Machine: {machine()}.\n"]
    if report.is_stub:
        parts.append("A stub stood in for the gateway: these are no figures of Weir.\n")
    parts += ["## Against the targets\n", target_table(report)]
    if report.left_out:
        parts.append(f"Left out, because they did not run here: {'; '.join(report.left_out)}.\n")
    parts += ["![Gbit/s of vectors by link](wire.svg)\n", "## Step by step\n", step_table(report)]
    parts.append(f"Published at the end of the chain: {PUBLISHED_GBIT_PER_S} Gbit/s.\n")
    parts.append(f"## Every case\n\nMeans of {report.runs} runs ± σ.\n")
    parts += [case_table(report, case) for case in report.cases]
    workers = ", ".join(f"{count}: {rate:.2f}" for count, rate in report.workers.items())
    copies = ", ".join(f"{count}: {max(rates):.1f}" for count, rates in report.copies.items())
    parts.append(f"Workers of uvicorn that were tried, Gbit/s of raw replies: {workers}. Connections of the TCP copy, Gbit/s: {copies}.\n")
    return "\n".join([*parts, METHOD])


def summary(report: Report) -> str:
    """What a terminal shows."""
    lines = [f"{'case':<34} {'link':<34} {'Gbit/s':>16}"]
    for case in report.cases:
        for link in LINKS:
            rates = report.rates(link.name, case)
            if rates:
                lines.append(f"{case.name:<34} {link.name:<34} {mean(rates):>8.3f} ± {sigma(rates):.3f}")
    return "\n".join([*lines, "", target_table(report)])
