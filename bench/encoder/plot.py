"""The plot of the page: latency of one text on one core, and throughput of batches on several."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from report import Report

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402
from cases import LONE_TOKENS, Case  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from pages import core_count  # noqa: E402

# What is drawn: kind of engine (its fastest configuration), label, colour.
SERIES = (
    ("weir int8", "Weir int8", "#0b6e4f"),
    ("weir bf16", "Weir bf16", "#3fa37c"),
    ("weir f32", "Weir f32", "#9fd3bd"),
    ("openvino int8", "OpenVINO int8", "#7b5ea7"),
    ("ort int8", "ONNX Runtime int8", "#d1662f"),
    ("ort f32", "ONNX Runtime f32", "#efb089"),
    ("st ids", "sentence-transformers", "#7a7a7a"),
)


def draw(report: Report, file: Path) -> None:
    """Writes the plot as SVG, the same bytes for the same figures."""
    plt.rcParams.update({"svg.hashsalt": "weir", "svg.fonttype": "none", "font.size": 9})
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    draw_latency(left, [case for case in report.cases if case.cores == 1 and case.is_lone], report)
    draw_throughput(right, [case for case in report.cases if not case.is_lone], report)
    figure.legend(*left.get_legend_handles_labels(), loc="lower center", ncols=len(SERIES), frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.patch.set_facecolor("white")
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def draw_latency(axes: Axes, cases: list[Case], report: Report) -> None:
    """A line for each engine, both axes by powers."""
    for kind, label, colour in SERIES:
        found = [(case.tokens, report.fastest(case, kind)) for case in cases]
        points = [(tokens, row[1].p50_ms) for tokens, row in found if row]
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=4, label=label, color=colour)
    axes.set(xscale="log", yscale="log", xlabel="tokens of the text", ylabel="p50, ms", title="One text, one core")
    axes.set_xticks(LONE_TOKENS, [str(tokens) for tokens in LONE_TOKENS])
    axes.minorticks_off()
    axes.set_yticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
    axes.grid(alpha=0.3)


def draw_throughput(axes: Axes, cases: list[Case], report: Report) -> None:
    """A group of bars for each case."""
    width = 0.8 / len(SERIES)
    for at, (kind, _, colour) in enumerate(SERIES):
        rows = [report.fastest(case, kind) for case in cases]
        heights = [case.tokens / row[1].p50_ms if row else 0 for case, row in zip(cases, rows, strict=True)]
        axes.bar([group + at * width for group in range(len(cases))], heights, width, color=colour)
    middle = width * (len(SERIES) - 1) / 2
    axes.set_xticks([group + middle for group in range(len(cases))], [case.name for case in cases])
    axes.set(ylabel="thousand tokens/s", title=f"Batches, {core_count(cases[0].cores)}")
    axes.grid(axis="y", alpha=0.3)
