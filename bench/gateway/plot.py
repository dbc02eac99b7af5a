"""The plots of the page: requests a second and p95 by concurrency."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib
from report import Load, Report
from services import GO, PYTHON_ONNX, PYTHON_TORCH, WEIR, WEIR_ONNX, WEIR_SPLIT, WEIR_THIN

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {
    WEIR: "#0b6e4f",
    WEIR_SPLIT: "#3fa37c",
    WEIR_ONNX: "#7b5ea7",
    WEIR_THIN: "#9fd3bd",
    GO: "#31648c",
    PYTHON_ONNX: "#efb089",
    PYTHON_TORCH: "#d1662f",
}


def draw(report: Report, folder: Path) -> None:
    """Writes the plots as SVG, the same bytes for the same figures."""
    plt.rcParams.update({"svg.hashsalt": "weir", "svg.fonttype": "none", "font.size": 9})
    lines(report, "requests/s", lambda load: load.requests_per_s, folder / "gateway-rate.svg")
    lines(report, "p95, ms", lambda load: load.latency_ms_p95, folder / "gateway-latency.svg")


def lines(report: Report, title: str, value: Callable[[Load], float], file: Path) -> None:
    """A line for each service."""
    figure, axes = plt.subplots(figsize=(7, 4.4))
    for name, colour in COLOURS.items():
        measured = [(at, load) for at in report.concurrencies if (load := report.load(name, at))]
        if measured:
            axes.plot([at for at, _ in measured], [value(load) for _, load in measured], color=colour, marker="o", markersize=4, label=name)
    axes.set(xscale="log", yscale="log", xlabel="concurrency", ylabel=title)
    axes.set_xticks(report.concurrencies, [str(at) for at in report.concurrencies])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    figure.legend(loc="lower center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.patch.set_facecolor("white")
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
