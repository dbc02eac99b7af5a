"""The pages of docs/benchmarks/published, their plots, and the summary at the top of docs/benchmarks.md. The standard library alone.

    python bench/published/side_by_side.py                          # writes the pages anew from figures.json
    python bench/published/side_by_side.py --collect FOLDER…        # first gathers the figures of the folders; a later one goes before an earlier one

The pages are made from `docs/benchmarks/published/figures.json`, and a test compares them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict
from html import escape
from pathlib import Path

from collect import READERS, Figure, collect
from pages import number, table
from published import EXPERIMENTS, Experiment, Row

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "benchmarks" / "published"
SUMMARY_PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- summary of bench/published -->\n", "<!-- end of summary -->\n"
NOT_YET = "not measured yet"
# Pages of the scripts that made a figure, from docs/benchmarks/published.
SOURCES = {"search": "[search](../search.md)", "gateway": "[gateway](../gateway.md)", "llm": "[llm](../llm.md)", "wire": "[wire](../wire.md)"}
SOURCES["engine"] = "`bench/published/engine.py`"
# Rows of the summary: those where both figures are known and that say most.
SUMMARY = {
    "search-engine": ("latency 50000 p50", "latency 50000 p99", "workers fastest", "index fastest", "fusion 1000", "parse slowest", "memory warm"),
    "embedding-gateway": ("rate ONNX", "rate split", "rate thin", "p95 ONNX", "rss ONNX", "replicas monolith in Rust with ONNX 10,000"),
    "llm-gateway": ("step Weir L1 5000", "step Weir L1 10000", "step Weir L1 12000", "added L2", "core Weir L1 closed"),
    "wire": ("step FastAPI raw → Weir raw", "step Weir raw → Weir raw, Rust client", "end"),
}
Figures = dict[str, Figure]


def ratio(row: Row, figure: Figure | None) -> float | None:
    """Above 1 the figure here is better."""
    if figure is None or row.value is None or figure.value <= 0:
        return None
    return figure.value / row.value if row.more_is_better else row.value / figure.value


def ours(row: Row, figures: Figures) -> str:
    """Our figure, or that it is still to be measured; empty where a sentence says why there is none."""
    if not row.key:
        return ""
    figure = figures.get(row.key)
    if figure is None:
        return "" if is_beyond(row, figures) else NOT_YET
    shown = number(figure.value) if abs(figure.value) < 100 or figure.value != int(figure.value) else f"{figure.value:,.0f}"
    spread = f" ({figure.spread})" if figure.spread else ""
    return f"**{signed(shown, figure.value)}**{spread}"


def is_beyond(row: Row, figures: Figures) -> bool:
    """Whether a target was not given the rate of a row because it does not do a tenth more (`bench/llm/scenarios.py`)."""
    most = figures.get(row.most)
    return most is not None and most.value < row.rate * 1.1


def signed(shown: str, value: float) -> str:
    """With the sign of minus."""
    return f"−{number(abs(value))}" if value < 0 else shown


def row_cells(row: Row, figures: Figures) -> list[str]:
    """Of the table of a page."""
    figure = figures.get(row.key)
    found = ratio(row, figure)
    times = "" if found is None else f"{number(found)}×{' (as run here)' * row.is_peer}"
    source = SOURCES[figure.source] if figure else row.why
    if figure is None and is_beyond(row, figures):
        source = f"it does {number(figures[row.most].value)} requests/s at most here"
    return [row.label, row.published or "", ours(row, figures), times, source]


def page(experiment: Experiment, figures: Figures) -> str:
    """docs/benchmarks/published/NAME.md."""
    used = {figure.source: figure.machine for one in experiment.tables for row in one.rows if (figure := figures.get(row.key))}
    machines = "; ".join(f"{SOURCES[source]}: {machine}" for source, machine in used.items()) or "none yet"
    parts = [
        f"# {experiment.title}\n",
        "Written by `make bench BENCH=published` from [figures.json](figures.json). **Published elsewhere** was not measured by us: "
        f"{experiment.machine}. Ours are from other machines ({machines}), so that a ratio says how far apart the figures are, not how much of that is the program. "
        "A ratio above 1 is in our favour; *as run here* stands at programs of others, whose ratio says what the machines and settings differ by.\n",
        f"![ours against the published figures, where both are known]({experiment.name}.svg)\n",
    ]
    for one in experiment.tables:
        parts.append(f"## {one.title}\n")
        if one.note:
            parts.append(f"{one.note}\n")
        rows = [row_cells(row, figures) for row in one.rows]
        parts.append(table([one.unit, "published elsewhere", "here", "ratio", "from, or why there is none"], rows))
    return "\n".join(parts)


def compared(experiment: Experiment, figures: Figures) -> list[tuple[str, float]]:
    """Rows of ours with both figures, and their ratio."""
    rows = [(f"{one.title}: {row.label}", ratio(row, figures.get(row.key))) for one in experiment.tables for row in one.rows if not row.is_peer]
    return [(label, found) for label, found in rows if found is not None]


ROW_PX, LABEL_PX, PLOT_PX, TOP_PX = 22, 430, 380, 44


def plot(experiment: Experiment, figures: Figures) -> str:
    """A bar for each row with both figures, on a logarithmic axis: from 1 to the right ours is better. SVG."""
    rows = compared(experiment, figures)
    decades = max([1, *(math.ceil(abs(math.log10(found))) for _, found in rows)])
    height = TOP_PX + ROW_PX * max(len(rows), 1) + 30

    def x(value: float) -> float:
        share = (math.log10(value) + decades) / (2 * decades)
        return LABEL_PX + PLOT_PX * min(max(share, 0.0), 1.0)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL_PX + PLOT_PX + 90}" height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{escape(experiment.title)}: ours ÷ published elsewhere</text>',
    ]
    for decade in range(-decades, decades + 1):
        at = x(10.0**decade)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP_PX - 8}" x2="{at:.1f}" y2="{height - 24}" stroke="{"#333" if decade == 0 else "#ddd"}"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - 8}" text-anchor="middle" fill="#555">{10.0**decade:g}×</text>')
    for index, (label, found) in enumerate(rows):
        top, start, end = TOP_PX + index * ROW_PX, min(x(1.0), x(found)), max(x(1.0), x(found))
        colour = "#0b6e4f" if found >= 1 else "#b3294e"
        parts.append(f'<text x="{LABEL_PX - 8}" y="{top + 13}" text-anchor="end">{escape(shortened(label))}</text>')
        parts.append(f'<rect x="{start:.1f}" y="{top + 2}" width="{max(end - start, 1):.1f}" height="{ROW_PX - 8}" fill="{colour}"/>')
        parts.append(f'<text x="{LABEL_PX + PLOT_PX + 8}" y="{top + 13}">{number(found)}×</text>')
    if not rows:
        parts.append(f'<text x="{LABEL_PX}" y="{TOP_PX + 13}" text-anchor="middle">{NOT_YET}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


LABEL_MAX = 64


def shortened(label: str) -> str:
    """As much as there is space for."""
    return label if len(label) <= LABEL_MAX else f"{label[: LABEL_MAX - 1]}…"


def summary(figures: Figures) -> str:
    """A row for each figure of `SUMMARY`."""
    rows = []
    for experiment in EXPERIMENTS:
        by_key = {row.key: (one, row) for one in experiment.tables for row in one.rows if row.key}
        for key in SUMMARY[experiment.name]:
            one, row = by_key[key]
            figure = figures.get(key)
            found = ratio(row, figure)
            what = f"[{one.title}](benchmarks/published/{experiment.name}.md): {row.label}, {one.unit}"
            rows.append([what, row.published, ours(row, figures), "" if found is None else f"{number(found)}×", figure.machine if figure else ""])
    return table(["four published experiments, row by row", "published elsewhere", "here", "ratio, above 1 in our favour", "machine here"], rows)


def files(figures: Figures, summary_page: str) -> dict[Path, str]:
    """Everything that is written, by path."""
    before, rest = summary_page.split(BEGIN)
    _, after = rest.split(END)
    found = {SUMMARY_PAGE: f"{before}{BEGIN}{summary(figures)}{END}{after}"}
    for experiment in EXPERIMENTS:
        found[PAGES / f"{experiment.name}.md"] = page(experiment, figures)
        found[PAGES / f"{experiment.name}.svg"] = plot(experiment, figures)
    return found


def read_figures() -> Figures:
    """Those in the repository."""
    stored = json.loads((PAGES / "figures.json").read_text(encoding="utf-8"))
    return {key: Figure(**entry) for key, entry in stored.items()}


def write_figures(figures: Figures) -> None:
    """Only those that a page needs, with as many digits as a page can use."""
    keys = {key for experiment in EXPERIMENTS for one in experiment.tables for row in one.rows for key in (row.key, row.most)}
    kept = {key: asdict(figure) | {"value": float(f"{figure.value:.6g}")} for key, figure in sorted(figures.items()) if key in keys}
    PAGES.mkdir(parents=True, exist_ok=True)
    (PAGES / "figures.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Writes all pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collect", type=Path, nargs="+", help=f"folders with {', '.join(f'{name}.json' for name in READERS)}, as far as they were made")
    given = parser.parse_args(arguments)
    if given.collect:
        write_figures(collect(given.collect))
    for path, text in files(read_figures(), SUMMARY_PAGE.read_text(encoding="utf-8")).items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
