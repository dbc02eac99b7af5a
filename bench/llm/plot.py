"""The plots of the page: p95 and CPU time for each request by rate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib
from results import Load, Report
from targets import DIRECT, FLOOR, GO, LITELLM, LITELLM_4, LITELLM_RS, PORTKEY, WEIR, WEIR_L2, WEIR_PG

matplotlib.use("svg")

import matplotlib.pyplot as plt

COLOURS = {
    WEIR: "#0b6e4f",
    WEIR_L2: "#22897a",
    WEIR_PG: "#3fa37c",
    FLOOR: "#7b5ea7",
    GO: "#31648c",
    PORTKEY: "#efb089",
    LITELLM: "#d1662f",
    LITELLM_4: "#9c3d10",
    LITELLM_RS: "#c9a227",
    DIRECT: "#888888",
}


def draw(report: Report, folder: Path) -> None:
    """Writes the plots as SVG, the same bytes for the same figures."""
    plt.rcParams.update({"svg.hashsalt": "weir", "svg.fonttype": "none", "font.size": 9})
    lines(report, "p95, ms", lambda load: load.latency_ms_p95, folder / "llm-latency.svg")
    lines(report, "CPU µs/request", lambda load: load.cpu_us_per_request, folder / "llm-cpu.svg")


def lines(report: Report, title: str, value: Callable[[Load], float], file: Path) -> None:
    """A line for each target over the rates without delay of the backend."""
    scenarios = [one for one in report.scenarios if one.name.startswith("rate-") and one.rate]
    figure, axes = plt.subplots(figsize=(7, 4.6))
    for name, colour in COLOURS.items():
        measured = [(one.rate or 0.0, value(load)) for one in scenarios if (load := report.load(one.name, name))]
        if measured:
            axes.plot([at for at, _ in measured], [y for _, y in measured], color=colour, marker="o", markersize=4, label=name)
    axes.set(xscale="log", yscale="log", xlabel="requests/s", ylabel=title)
    rates = [one.rate or 0.0 for one in scenarios]
    axes.set_xticks(rates, [f"{rate:,.0f}" for rate in rates])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    figure.legend(loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.patch.set_facecolor("white")
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
