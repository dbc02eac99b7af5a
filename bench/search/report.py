"""What was measured, as a page, as JSON, and as a few lines for a terminal. The standard library alone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from corpus import Facts as CorpusFacts
from engines import MODES, OURS, Built, Engine, Memory, Opened
from pages import core_count, machine, number, table
from prose import METHOD, TOP


@dataclass(frozen=True)
class Case:
    """A kind of search at a size: `below` is the bound of its filter."""

    documents: int
    mode: str
    below: int | None
    cores: int

    @property
    def what(self) -> str:
        """For headings."""
        return self.mode if self.below is None else f"{self.mode}, {share_of(self.below)} match"


def share_of(below: int) -> str:
    """The part of the documents that a filter leaves."""
    return f"{below / 10:g} %"


@dataclass
class Samples:
    """Times of single searches, and what they found."""

    wall_ns: list[int] = field(default_factory=list)
    # the first query of each turn and the hits, until they are scored
    turns: list[tuple[int, list[list[int]]]] = field(default_factory=list)
    recall: float | None = None
    recall_real: float | None = None
    # the share of searches that got ten hits, or all that there are
    full: float | None = None

    def add(self, first: int, wall_ns: list[int], hits: list[list[int]]) -> None:
        """The searches of one turn."""
        self.wall_ns += wall_ns
        self.turns.append((first, hits))

    def ms(self, part: float) -> float:
        """The time that this part of the searches did not exceed (nearest rank)."""
        return percentile(self.wall_ns, part) / 1e6


def percentile(times: list[int], part: float) -> float:
    """By nearest rank."""
    ordered = sorted(times)
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)]


@dataclass
class EngineFacts:
    """What does not belong to one kind of search."""

    engine: Engine
    detail: str
    built: Built
    opened: Opened
    warm: Memory = field(default_factory=Memory)

    def resident(self, documents: int) -> tuple[float, float, float]:
        """Bytes per document beyond those before opening: opened, warm, and the anonymous part of the latter."""
        opened, warm = self.opened.after - self.opened.before, self.warm - self.opened.before
        return opened.total / documents, warm.total / documents, warm.anonymous / documents


@dataclass
class Report:
    """All that there is to say."""

    corpus: CorpusFacts
    # the number of cores of measurements on several
    cores: int = 4
    samples: dict[tuple[str, Case], Samples] = field(default_factory=dict)
    facts: dict[tuple[int, str], EngineFacts] = field(default_factory=dict)
    # by documents and engine: the setting of its approximate search
    efforts: dict[tuple[int, str], int] = field(default_factory=dict)
    # by engine, documents, mode and threads: searches a second
    rates: dict[tuple[str, int, str, int], float] = field(default_factory=dict)
    # of ours, by documents: nanoseconds of each part of a hybrid search
    parts: dict[int, dict[str, list[int]]] = field(default_factory=dict)
    fusion_ns: list[int] = field(default_factory=list)
    # what the load generator says of short queries as text
    text_over_http: dict[str, Any] | None = None
    unsupported: set[tuple[str, str]] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)

    def add_engine(self, documents: int, engine: Engine, detail: str, built: Built, opened: Opened) -> None:
        """An engine that has started."""
        self.facts[documents, engine.name] = EngineFacts(engine, detail, built, opened)

    def samples_of(self, name: str, case: Case) -> Samples:
        """What was measured of an engine there, to read and to add to."""
        return self.samples.setdefault((name, case), Samples())

    def found(self, name: str, case: Case) -> Samples | None:
        """What was measured, if anything."""
        samples = self.samples.get((name, case))
        return samples if samples and samples.wall_ns else None

    @property
    def sizes(self) -> list[int]:
        """All sizes, in order."""
        return sorted({documents for documents, _ in self.facts})

    def names(self, documents: int) -> list[str]:
        """The engines at a size."""
        return [name for at, name in self.facts if at == documents]


def figures(report: Report) -> dict[str, Any]:
    """Everything as JSON."""
    import targets

    rows = [
        asdict(case)
        | {"engine": name, "searches": len(samples.wall_ns)}
        | {f"p{round(part * 100)}_ms": round(samples.ms(part), 4) for part in (0.5, 0.95, 0.99)}
        | {"mean_ms": round(sum(samples.wall_ns) / len(samples.wall_ns) / 1e6, 4)}
        | {
            "recall": rounded(samples.recall),
            "recall_real": rounded(samples.recall_real),
            "full": rounded(samples.full),
        }
        for (name, case), samples in report.samples.items()
        if samples.wall_ns
    ]
    about = []
    for (documents, name), facts in report.facts.items():
        opened, warm, anonymous = facts.resident(documents)
        about.append(
            {"documents": documents, "engine": name, "detail": facts.detail, "setup": facts.engine.setup}
            | {"effort": report.efforts.get((documents, name)), "build_s": round(facts.built.total_seconds, 2)}
            | {"build_without_settling_s": round(facts.built.seconds, 2), "open_s": round(facts.opened.seconds, 4)}
            | {"disk_bytes_per_document": round(facts.built.disk_bytes / documents, 1)}
            | {"opened_bytes_per_document": round(opened, 1), "warm_bytes_per_document": round(warm, 1)}
            | {"warm_anonymous_bytes_per_document": round(anonymous, 1)}
        )
    return {
        "machine": machine(),
        "corpus": asdict(report.corpus),
        "targets": [asdict(target) for target in targets.all_targets(report)],
        "engines": about,
        "searches": rows,
        "searches_per_s": [
            {"engine": name, "documents": documents, "mode": mode, "threads": threads, "searches_per_s": round(rate, 1)}
            for (name, documents, mode, threads), rate in report.rates.items()
        ],
        "parts_us": {
            str(documents): {part: round(median(times) / 1e3, 2) for part, times in parts.items()}
            for documents, parts in report.parts.items()
        },
        "text_over_http": report.text_over_http,
        "unsupported": sorted(report.unsupported),
        "left_out": report.failures,
    }


def rounded(value: float | None) -> float | None:
    """Five decimal places."""
    return None if value is None else round(value, 5)


def bold(name: str) -> str:
    """Ours stand out."""
    return f"**{name}**" if name.startswith(OURS) else name


def size_tables(report: Report) -> str:
    """For each size: latencies by engine and kind of search, then memory, disk and building."""
    parts = []
    for documents in report.sizes:
        parts.append(f"### {documents:,} documents\n")
        for mode in MODES:
            rows = latency_rows(report, documents, mode)
            if rows:
                several = core_count(report.cores)
                headings = [f"{mode}, ms", "p50", "p95", "p99", f"p50 on {several}", f"p99 on {several}", "recall@10"]
                parts.append(table(headings, rows))
        parts.append(filter_table(report, documents))
        parts.append(cost_table(report, documents))
    return "\n".join(part for part in parts if part)


def latency_rows(report: Report, documents: int, mode: str) -> list[list[str]]:
    """The engines of one kind of search, the fastest first."""
    found = []
    for name in report.names(documents):
        one = report.found(name, Case(documents, mode, None, 1))
        several = report.found(name, Case(documents, mode, None, report.cores))
        if one and several:
            recall = "" if one.recall is None else f"{one.recall:.4f}"
            times = [one.ms(0.5), one.ms(0.95), one.ms(0.99), several.ms(0.5), several.ms(0.99)]
            found.append((one.ms(0.5), [bold(name), *map(number, times), recall]))
    return [row for _, row in sorted(found, key=lambda entry: entry[0])]


def filter_table(report: Report, documents: int) -> str:
    """Dense searches below each bound, on all cores."""
    bounds = sorted({case.below for _, case in report.samples if case.documents == documents and case.below})
    rows = []
    for name in report.names(documents):
        cells = []
        for below in bounds:
            samples = report.found(name, Case(documents, "dense", below, report.cores))
            if samples is None:
                cells.append("")
                continue
            missing = "" if samples.full is None or samples.full == 1.0 else f", {1 - samples.full:.1%} short"
            cells.append(f"{number(samples.ms(0.5))} / {number(samples.ms(0.99))} / {samples.recall or 0:.3f}{missing}")
        if any(cells):
            rows.append([bold(name), *cells])
    headings = ["dense with a filter, p50 / p99 ms / recall@10", *(f"{share_of(below)} match" for below in bounds)]
    return table(headings, rows) if rows else ""


def cost_table(report: Report, documents: int) -> str:
    """Building, disk, memory, searches a second."""
    rows = []
    for name in report.names(documents):
        facts = report.facts[documents, name]
        opened, warm, anonymous = facts.resident(documents)
        built = facts.built.total_seconds
        rates = [report.rates.get((name, documents, "hybrid", threads)) for threads in (1, report.cores)]
        rates += [report.rates.get((name, documents, "lexical", threads)) for threads in (1, report.cores)]
        cells = [built, documents / built, facts.built.disk_bytes / documents, opened, warm, anonymous, *rates]
        rows.append([bold(name), *map(number, cells), str(report.efforts.get((documents, name), ""))])
    headings = ["cost", "build s", "documents/s", "disk bytes/document", "RSS opened", "RSS warm", "of it anonymous"]
    several = f"{report.cores} threads"
    headings += ["hybrid/s, 1 thread", several, "lexical/s, 1 thread", several, "effort"]
    return table(headings, rows)


def parts_table(report: Report) -> str:
    """Where the time of our hybrid search goes."""
    if not report.parts:
        return ""
    rows = []
    for documents, parts in sorted(report.parts.items()):
        for part, times in parts.items():
            cells = [number(percentile(times, share) / 1e3) for share in (0.5, 0.95, 0.99)]
            rows.append([f"{documents:,}: {part}", *cells])
    return "## Where the time of a hybrid search goes, one core, µs\n\n" + table(["part", "p50", "p95", "p99"], rows)


def setup_table(report: Report) -> str:
    """Each engine in a sentence."""
    seen: dict[str, list[str]] = {}
    for (_, name), facts in report.facts.items():
        seen[name] = [bold(name), facts.detail, facts.engine.setup]
    lines = [["engine", "version", "set up with"], ["---", "---", "---"], *seen.values()]
    return "## How each was set up\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def corpus_paragraph(report: Report) -> str:
    """What was searched."""
    facts = report.corpus
    sources = ", ".join(
        f"{count:,} {name}" for name, count in sorted(facts.sources.items(), key=lambda entry: -entry[1])
    )
    return (
        f"Corpus `{facts.hash}`: {facts.documents:,} documents of {facts.characters_mean:.0f} characters on average, the "
        f"first {facts.real:,} of them real and distinct ({sources}), the others blends; {facts.queries:,} queries. "
        f"Embedding: {facts.embedding}.\n"
    )


def page(report: Report) -> str:
    """docs/benchmarks/search.md."""
    import targets

    parts = [TOP, f"Machine: {machine()}.\n", corpus_paragraph(report), "## Against the targets\n"]
    parts.append(targets.target_table(report))
    if report.unsupported:
        parts.append(
            "Not there yet: " + "; ".join(f"{name}: {what}" for name, what in sorted(report.unsupported)) + ".\n"
        )
    if report.failures:
        parts.append(f"Left out, because they did not run here: {'; '.join(report.failures)}.\n")
    parts += [
        "![p50 of a hybrid search by size](search-latency.svg)\n",
        "![searches a second by threads](search-rate.svg)\n",
        "![disk, memory and building by size](search-cost.svg)\n",
        "## Every size\n",
        size_tables(report),
        parts_table(report),
        setup_table(report),
        METHOD,
    ]
    return "\n".join(part for part in parts if part)


def summary(report: Report) -> str:
    """What a terminal shows: all rows, then the targets."""
    import targets

    head = f"{'documents':>9} {'cores':>5} {'search':<20} {'engine':<18}"
    lines = [f"{head} {'p50 ms':>9} {'p95 ms':>9} {'p99 ms':>9} {'recall':>7}"]
    order = sorted(
        report.samples.items(), key=lambda entry: (entry[0][1].documents, entry[0][1].cores, entry[0][1].what)
    )
    for (name, case), samples in order:
        if samples.wall_ns:
            recall = "" if samples.recall is None else f"{samples.recall:.4f}"
            times = " ".join(f"{samples.ms(part):>9.3f}" for part in (0.5, 0.95, 0.99))
            lines.append(f"{case.documents:>9,} {case.cores:>5} {case.what:<20} {name:<18} {times} {recall:>7}")
    return "\n".join([*lines, "", targets.target_table(report)])
