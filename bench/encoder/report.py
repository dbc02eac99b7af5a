"""What was measured, as a page, as JSON, and as a few lines for a terminal. The standard library alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from cases import Case
from engines import Engine
from pages import core_count, machine, number, table
from prose import METHOD, SETUP, TOP

# Multiply-adds of all-MiniLM-L6-v2: for each token in the products with weights (6 layers of 4·384² + 2·384·1536), and
# for each pair of tokens in attention (6 layers of 2·384).
WEIGHT_MACS = 6 * (4 * 384 * 384 + 2 * 384 * 1536)
PAIR_MACS = 6 * 2 * 384

OURS = "weir int8"
# What the encoder in int8 is compared with: heading, and the kind of engine of which the fastest counts.
RIVALS = (
    ("ONNX Runtime int8", "ort int8"),
    ("OpenVINO int8", "openvino int8"),
    ("sentence-transformers, from ids", "st ids"),
    ("sentence-transformers, `encode`", "st texts"),
)
# (cores, case, kind) → how many times faster the encoder must be. There are no targets for other numbers of cores.
RATIO_TARGETS = {
    (1, "8 tokens", "ort int8"): 1.9,
    (1, "16 tokens", "ort int8"): 1.9,
    (1, "8 tokens", "st ids"): 20.0,
    (1, "16 tokens", "st ids"): 12.0,
    (4, "32×128 tokens", "ort int8"): 1.9,
    (4, "32×128 tokens", "openvino int8"): 1.4,
    (4, "32×128 tokens", "st ids"): 7.0,
}
# With a smaller share of a core, other work distorted the figures: they are not to be quoted.
CORE_PART_MIN = 0.97
SHARE_TARGETS = {(1, "16 tokens"): 0.75, (1, "128 tokens"): 0.70}


@dataclass
class Samples:
    """Times of single calls."""

    wall_ns: list[int] = field(default_factory=list)
    cpu_ns: list[int] = field(default_factory=list)

    def add(self, wall_ns: list[int], cpu_ns: list[int]) -> None:
        """The calls of one turn."""
        self.wall_ns += wall_ns
        self.cpu_ns += cpu_ns

    def wall_ms(self, part: float) -> float:
        """The time that this part of the calls did not exceed (nearest rank)."""
        ordered = sorted(self.wall_ns)
        return ordered[max(math.ceil(part * len(ordered)) - 1, 0)] / 1e6

    @property
    def p50_ms(self) -> float:
        """The median, which everything is compared by."""
        return median(self.wall_ns) / 1e6

    @property
    def cpu_ms(self) -> float:
        """The mean CPU time of all threads."""
        return sum(self.cpu_ns) / max(len(self.cpu_ns), 1) / 1e6


@dataclass
class EngineFacts:
    """What does not belong to one case."""

    engine: Engine
    detail: str
    load_ms: float
    rss_bytes: int = 0


@dataclass(frozen=True)
class Peaks:
    """Billions of multiply-adds a second that one core can do in registers."""

    isa: str
    f32: float
    int8: float
    quads: float | None
    bf16: float | None

    def of_type(self, name: str) -> float:
        """The peak of a number format; brain floats without instructions of their own are multiplied as floats."""
        return {"int8": self.int8, "bf16": self.bf16 or self.f32}.get(name, self.f32)


@dataclass
class Report:
    """All that there is to say."""

    cases: list[Case]
    samples: dict[tuple[str, str], Samples]
    engines: dict[str, EngineFacts]
    peaks: list[Peaks]
    failures: list[str]
    # by kind of engine: mean and least
    cosines: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def peak(self) -> Peaks:
        """The median of the peaks of all rounds."""
        quads = [peak.quads for peak in self.peaks if peak.quads is not None]
        bf16 = [peak.bf16 for peak in self.peaks if peak.bf16 is not None]
        return Peaks(
            self.peaks[0].isa,
            median(peak.f32 for peak in self.peaks),
            median(peak.int8 for peak in self.peaks),
            median(quads) if quads else None,
            median(bf16) if bf16 else None,
        )

    def rows(self, case: Case) -> list[tuple[EngineFacts, Samples]]:
        """The engines that were measured with a case, the fastest first."""
        found = [
            (facts, self.samples[name, case.name])
            for name, facts in self.engines.items()
            if facts.engine.cores == case.cores and (name, case.name) in self.samples
        ]
        return sorted(found, key=lambda row: row[1].p50_ms)

    def fastest(self, case: Case, kind: str) -> tuple[EngineFacts, Samples] | None:
        """The fastest engine of a kind."""
        return next((row for row in self.rows(case) if row[0].engine.kind == kind), None)


def key(engine: Engine) -> str:
    """Names an engine on one core or on several."""
    return f"{engine.name} @{engine.cores}"


def multiply_adds(case: Case) -> int:
    """Of one call, without padding."""
    return sum(len(ids) * (WEIGHT_MACS + PAIR_MACS * len(ids)) for ids in case.sequences)


def rate(case: Case, samples: Samples) -> float:
    """Billions of multiply-adds a second and core at the median."""
    cores = 1 if case.cores == 1 else case.cores
    return multiply_adds(case) / (samples.p50_ms / 1e3) / 1e9 / cores


def core_part(report: Report) -> float:
    """The part of the time of all calls on one core in which the engine had the core; the rest went to other work."""
    chosen = [samples for case in report.cases if case.cores == 1 for _, samples in report.rows(case)]
    wall = sum(sum(samples.wall_ns) for samples in chosen)
    return sum(sum(samples.cpu_ns) for samples in chosen) / max(wall, 1)


def ratios(report: Report) -> list[dict[str, Any]]:
    """How many times as long the fastest of each kind of peers takes as the encoder in int8."""
    found = []
    for case in report.cases:
        base = report.fastest(case, OURS)
        for heading, kind in RIVALS:
            rival = report.fastest(case, kind)
            if base and rival:
                found.append(
                    {
                        "case": case.name,
                        "cores": case.cores,
                        "against": heading,
                        "fastest": rival[0].engine.name,
                        "ratio": round(rival[1].p50_ms / base[1].p50_ms, 3),
                        "cpu_ratio": round(rival[1].cpu_ms / base[1].cpu_ms, 3) if base[1].cpu_ms else None,
                        "target": RATIO_TARGETS.get((case.cores, case.name, kind)),
                    }
                )
    return found


def shares(report: Report) -> list[dict[str, Any]]:
    """The encoder's shares of the peaks on one core."""
    found = []
    peak = report.peak
    for case in report.cases:
        base = report.fastest(case, OURS)
        if base and case.cores == 1:
            of_quads = rate(case, base[1]) / peak.quads if peak.quads else None
            found.append(
                {
                    "case": case.name,
                    "share_int8": round(rate(case, base[1]) / peak.int8, 4),
                    "share_quads": of_quads and round(of_quads, 4),
                    "target": SHARE_TARGETS.get((1, case.name)),
                }
            )
    return found


def figures(report: Report) -> dict[str, Any]:
    """Everything as JSON."""
    peak = report.peak
    rows = [
        {
            "case": case.name,
            "cores": case.cores,
            "tokens": case.tokens,
            "engine": facts.engine.name,
            "calls": len(samples.wall_ns),
            "p50_ms": round(samples.p50_ms, 4),
            "p99_ms": round(samples.wall_ms(0.99), 4),
            "least_ms": round(samples.wall_ms(0), 4),
            "cpu_ms": round(samples.cpu_ms, 4),
            "tokens_per_s": round(case.tokens / samples.p50_ms * 1e3),
            "share": round(share(report, case, facts.engine, samples), 4),
        }
        for case in report.cases
        for facts, samples in report.rows(case)
    ]
    about = [
        {
            "engine": facts.engine.name,
            "cores": facts.engine.cores,
            "detail": facts.detail,
            "load_ms": round(facts.load_ms, 2),
            "rss_bytes": facts.rss_bytes,
            "cosine_mean": rounded(report, facts, 0),
            "cosine_min": rounded(report, facts, 1),
        }
        for facts in report.engines.values()
    ]
    peaks = {"isa": peak.isa, "f32": peak.f32, "int8": peak.int8, "int8_quads": peak.quads, "bf16": peak.bf16}
    spread = {"least": min(p.int8 for p in report.peaks), "most": max(p.int8 for p in report.peaks)}
    return {
        "machine": machine(),
        "core_part": round(core_part(report), 4),
        "peak_gmacs_per_s": peaks | {"int8_rounds": spread},
        "engines": about,
        "rows": rows,
        "ratios": ratios(report),
        "shares": shares(report),
        "left_out": report.failures,
    }


def rounded(report: Report, facts: EngineFacts, place: int) -> float | None:
    """Mean (0) or least (1) cosine of the engine's kind."""
    found = report.cosines.get(facts.engine.kind)
    return None if found is None else round(found[place], 6)


def share(report: Report, case: Case, engine: Engine, samples: Samples) -> float:
    """Of the peak of the engine's own type."""
    return rate(case, samples) / report.peak.of_type(engine.type)


def case_tables(report: Report) -> str:
    """A table for each case."""
    parts = []
    quads = report.peak.quads
    for case in report.cases:
        rows = []
        for facts, samples in report.rows(case):
            of_type = f"{share(report, case, facts.engine, samples):.0%}"
            is_int8 = facts.engine.type == "int8" and quads is not None
            of_quads = f"{rate(case, samples) / quads:.0%}" if is_int8 and quads else ""
            name = f"**{facts.engine.name}**" if facts.engine.is_ours else facts.engine.name
            times = [samples.p50_ms, samples.wall_ms(0.99), samples.wall_ms(0), samples.cpu_ms]
            tokens = f"{case.tokens / samples.p50_ms * 1e3:,.0f}"
            calls = str(len(samples.wall_ns))
            rows.append([name, *map(number, times), tokens, of_type, of_quads, calls])
        size = "" if case.is_lone else f" ({len(case.sequences)} texts, {case.tokens:,} tokens)"
        headings = [
            "engine",
            "p50 ms",
            "p99 ms",
            "least ms",
            "CPU ms",
            "tokens/s",
            "of peak",
            "of quad peak",
            "calls",
        ]
        parts.append(f"### {case.name}, {core_count(case.cores)}{size}\n\n{table(headings, rows)}")
    return "\n".join(parts)


def verdict(value: float, target: float | None, text: str, bound: str) -> str:
    """A figure, with its target if it has one."""
    return text if target is None else f"**{text}** ({'reached' if value >= target else 'BELOW'}: ≥ {bound})"


def ratio_table(report: Report) -> str:
    """A row for each case, a column for each rival."""
    found = {(row["cores"], row["case"], row["against"]): row for row in ratios(report)}
    rows = []
    for case in report.cases:
        cells = []
        for heading, _ in RIVALS:
            row = found.get((case.cores, case.name, heading))
            bound = f"{row['target']:g}×" if row and row["target"] else ""
            cells.append(verdict(row["ratio"], row["target"], f"{row['ratio']:.2f}×", bound) if row else "")
        rows.append([f"{case.name}, {core_count(case.cores)}", *cells])
    return table(["case", *(heading for heading, _ in RIVALS)], rows)


def share_table(report: Report) -> str:
    """The encoder's part of the peaks."""
    rows = []
    for row in shares(report):
        bound = f"{row['target']:.0%}" if row["target"] else ""
        of_quads = "" if row["share_quads"] is None else f"{row['share_quads']:.1%}"
        rows.append(
            [row["case"], verdict(row["share_int8"], row["target"], f"{row['share_int8']:.1%}", bound), of_quads]
        )
    return table(["weir int8, one core", "of the int8 peak", "of the quad peak"], rows)


def engine_table(report: Report) -> str:
    """Memory, accuracy and loading."""
    rows = []
    for facts in report.engines.values():
        found = report.cosines.get(facts.engine.kind)
        mean, least = ("", "") if found is None else (f"{value:.6f}" for value in found)
        size = f"{facts.rss_bytes / 2**20:,.0f}"
        name = f"**{facts.engine.name}**" if facts.engine.is_ours else facts.engine.name
        rows.append([name, str(facts.engine.cores), size, mean, least, number(facts.load_ms), facts.detail])
    return table(["engine", "cores", "RSS MiB", "cosine mean", "cosine least", "load ms", "version"], rows)


def core_sentence(report: Report) -> str:
    """How quiet the machine was."""
    part = core_part(report)
    sentence = f"While an engine computed on one core it had {part:.1%} of it"
    if part >= CORE_PART_MIN:
        return f"{sentence}; the rest went to other work."
    return f"{sentence}: **the machine was busy with other work, so that these figures are not to be quoted.**"


def page(report: Report) -> str:
    """docs/benchmarks/encoder.md."""
    peak = report.peak
    parts = [
        TOP,
        f"Machine: {machine()}. {core_sentence(report)}\n",
        "## Against the targets\n",
        ratio_table(report),
        share_table(report),
    ]
    line = f"Peaks of one core, `{peak.isa}`: int8 {peak.int8:.1f}, f32 {peak.f32:.1f}"
    if peak.quads is not None:
        line += f", int8 in quads {peak.quads:.1f}"
    if peak.bf16 is not None:
        line += f", bf16 {peak.bf16:.1f}"
    parts.append(line + " billion multiply-adds a second (medians over the rounds).\n")
    if report.failures:
        parts.append(f"Left out, because they did not run here: {'; '.join(report.failures)}.\n")
    parts += [
        "![p50 by length on one core, and tokens per second of batches](encoder.svg)\n",
        "## Every case\n",
        case_tables(report),
    ]
    parts += ["## Memory and accuracy\n", engine_table(report), SETUP, METHOD]
    return "\n".join(parts)


def summary(report: Report) -> str:
    """What a terminal shows: all rows, then the targets."""
    lines = [f"{'case':<28} {'engine':<46} {'p50 ms':>9} {'p99 ms':>9} {'tokens/s':>9} {'of peak':>7}"]
    for case in report.cases:
        for facts, samples in report.rows(case):
            part = share(report, case, facts.engine, samples)
            times = f"{samples.p50_ms:>9.3f} {samples.wall_ms(0.99):>9.3f}"
            speed = f"{case.tokens / samples.p50_ms * 1e3:>9,.0f}"
            where = f"{case.name}, {core_count(case.cores)}"
            lines.append(f"{where:<28} {facts.engine.name:<46} {times} {speed} {part:>7.1%}")
    return "\n".join([*lines, "", core_sentence(report), "", ratio_table(report), share_table(report)])
