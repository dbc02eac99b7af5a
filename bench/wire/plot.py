"""The plot of the page: Gbit/s of vectors by link."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import matplotlib
from chain import LINKS, WEIR
from report import Report, sigma

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402

OURS, THEIRS, CEILING = "#0b6e4f", "#d1662f", "#7a7a7a"


def draw(report: Report, folder: Path) -> None:
    """Writes the plot as SVG, the same bytes for the same figures."""
    plt.rcParams.update({"svg.hashsalt": "weir", "svg.fonttype": "none", "font.size": 9})
    case = report.compared
    measured = [(link.name, rates) for link in LINKS if (rates := report.rates(link.name, case))]
    names = [name for name, _ in measured]
    figure, axes = plt.subplots(figsize=(8, 3.6))
    means, errors = [mean(rates) for _, rates in measured], [sigma(rates) for _, rates in measured]
    axes.barh(names, means, xerr=errors, color=[OURS if name.startswith(WEIR) else THEIRS for name in names])
    for at, value in enumerate(means):
        axes.annotate(f"{value:.2f}", (value, at), xytext=(6, 0), textcoords="offset points", va="center")
    if report.copy_gbit_per_s:
        axes.axvline(report.copy_gbit_per_s, color=CEILING, linestyle=":", label="bare TCP copy")
        axes.legend(frameon=False)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="Gbit/s of vectors", title=case.name)
    axes.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    figure.patch.set_facecolor("white")
    figure.savefig(folder / "wire.svg", metadata={"Date": None})
    plt.close(figure)
