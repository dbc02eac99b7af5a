"""The targets of search, each with its measured value. Those on several cores are for four; elsewhere they are not measured."""

from __future__ import annotations

from dataclasses import dataclass

from engines import OURS, OURS_HTTP, TEXT_ONLY
from report import Case, Report, number, percentile, share_of, table

COMPARED = 50_000
LARGE = 1_000_000
BOUNDS = (1, 10, 100, 500)
# Published of the Tantivy engine, elsewhere and not run by us: searches/s, documents/s, bytes per document.
PUBLISHED_RATE, PUBLISHED_INDEXING, PUBLISHED_RESIDENT = 27_287, 21_000, 766


@dataclass(frozen=True)
class Target:
    """What is wanted, at most or at least, and what is."""

    what: str
    value: float | None
    bound: float
    unit: str
    at_least: bool = False
    stretch: float | None = None

    def reaches(self, bound: float) -> bool:
        """Whether the value is as good as a bound."""
        return self.value is not None and (self.value >= bound if self.at_least else self.value <= bound)

    @property
    def verdict(self) -> str:
        """Said in the page."""
        if self.value is None:
            return "not measured"
        if not self.reaches(self.bound):
            return "BELOW" if self.at_least else "ABOVE"
        return "reached" + (", stretch too" if self.stretch is not None and self.reaches(self.stretch) else "")


def all_targets(report: Report) -> list[Target]:
    """In the order of the page."""
    return [*compared_size(report), *large_size(report), *lexical(report), *against_peers(report)]


def ms(report: Report, name: str, case: Case, part: float) -> float | None:
    """A percentile of what was measured, if it was."""
    samples = report.found(name, case)
    return None if samples is None else samples.ms(part)


def recall(report: Report, case: Case, of_real: bool = False) -> float | None:
    """Recall of our dense retriever."""
    samples = report.found(OURS, case)
    if samples is None:
        return None
    return samples.recall_real if of_real else samples.recall


def compared_size(report: Report) -> list[Target]:
    """50,000 chunks."""
    hybrid, dense = Case(COMPARED, "hybrid", None, 1), Case(COMPARED, "dense", None, 1)
    text = None if report.text_over_http is None else report.text_over_http.get("latency_ms_p50")
    return [
        Target("50,000, vector given, one core: hybrid p50", ms(report, OURS, hybrid, 0.5), 0.45, "ms", stretch=0.30),
        Target("50,000, vector given, one core: hybrid p99", ms(report, OURS, hybrid, 0.99), 1.0, "ms"),
        Target("50,000: recall@10 of the dense retriever", recall(report, dense), 0.99, "", at_least=True),
        Target("50,000, text of up to 8 tokens over HTTP, no cache, concurrency 1: p50", text, 1.0, "ms"),
    ]


def large_size(report: Report) -> list[Target]:
    """1,000,000 chunks."""
    hybrid, dense = Case(LARGE, "hybrid", None, 4), Case(LARGE, "dense", None, 4)
    facts = report.facts.get((LARGE, OURS))
    found = [
        Target("1,000,000, four cores: hybrid p50", ms(report, OURS, hybrid, 0.5), 2.0, "ms"),
        Target("1,000,000, four cores: hybrid p99", ms(report, OURS, hybrid, 0.99), 8.0, "ms"),
        Target("1,000,000: recall@10 of the dense retriever", recall(report, dense), 0.98, "", at_least=True),
        Target("1,000,000: the same of the real neighbours", recall(report, dense, True), 0.98, "", at_least=True),
        Target(
            "1,000,000: resident bytes per chunk, warm",
            None if facts is None else facts.resident(LARGE)[1],
            1_100,
            "bytes",
        ),
    ]
    for below in BOUNDS:
        case = Case(LARGE, "dense", below, 4)
        samples = report.found(OURS, case)
        what = f"1,000,000, {share_of(below)} match"
        found.append(Target(f"{what}: recall@10", recall(report, case), 0.98, "", at_least=True))
        found.append(
            Target(
                f"{what}: searches with all ten hits", None if samples is None else samples.full, 1.0, "", at_least=True
            )
        )
        filtered = ms(report, OURS, Case(LARGE, "hybrid", below, 4), 0.99)
        plain = ms(report, OURS, hybrid, 0.99)
        ratio = filtered / plain if filtered and plain else None
        found.append(Target(f"{what}: hybrid p99 against that without filter", ratio, 2.0, "times"))
    return found


def lexical(report: Report) -> list[Target]:
    """Words alone, 50,000 documents, against figures that were published of the Tantivy engine."""
    facts = report.facts.get((COMPARED, TEXT_ONLY))
    rate = report.rates.get((TEXT_ONLY, COMPARED, "lexical", 4))
    p99 = ms(report, TEXT_ONLY, Case(COMPARED, "lexical", None, 1), 0.99)
    fused = percentile(report.fusion_ns, 0.5) / 1e3 if report.fusion_ns else None
    indexing = None if facts is None else COMPARED / facts.built.seconds
    resident = None if facts is None else facts.resident(COMPARED)[1]
    return [
        Target("50,000, lexical: searches/s, four threads", rate, PUBLISHED_RATE, "/s", True, 60_000),
        Target("50,000, lexical: p99 at concurrency 1 in process", p99, 1.0, "ms"),
        Target("reciprocal rank of two lists of 1,000: p50", fused, 50.0, "µs"),
        Target("50,000, text alone: documents/s, durable batches of 10,000", indexing, PUBLISHED_INDEXING, "/s", True),
        Target("50,000, text alone: resident bytes per document, warm", resident, PUBLISHED_RESIDENT, "bytes"),
    ]


def against_peers(report: Report) -> list[Target]:
    """Ours over HTTP from Python against the peers from Python, one thread, at the mean of single searches."""
    found = []
    ours = mean_ms(report, OURS_HTTP)
    for peer, names, bound in (
        ("LanceDB", ("LanceDB", "LanceDB, by hand"), 10.0),
        ("Qdrant Edge", ("Qdrant Edge",), 2.0),
    ):
        theirs = [mean for name in names if (mean := mean_ms(report, name)) is not None]
        ratio = min(theirs) / ours if theirs and ours else None
        what = f"50,000, hybrid searches/s of ours over HTTP against {peer}'s best, both from Python"
        found.append(Target(what, ratio, bound, "times", at_least=True))
    return found


def mean_ms(report: Report, name: str) -> float | None:
    """Of a hybrid search on all cores: an engine over HTTP has two processes, a peer threads of its own."""
    samples = report.found(name, Case(COMPARED, "hybrid", None, report.cores))
    return None if samples is None else sum(samples.wall_ns) / len(samples.wall_ns) / 1e6


def target_table(report: Report) -> str:
    """All targets with verdicts."""
    rows = []
    for target in all_targets(report):
        bound = f"{'≥' if target.at_least else '≤'} {target.bound:,g}"
        stretch = "" if target.stretch is None else f" (stretch {target.stretch:,g})"
        unit = f" {target.unit}" if target.unit else ""
        value = "" if target.value is None else f"**{plain(target)}{unit}**"
        rows.append([target.what, value, f"{bound}{unit}{stretch}", target.verdict])
    return table(["target", "measured", "wanted", ""], rows)


def plain(target: Target) -> str:
    """A share has more decimal places than a time."""
    assert target.value is not None, "only for what was measured"
    return number(target.value) if target.unit else f"{target.value:.4f}"
